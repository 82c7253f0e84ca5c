// SPDX-License-Identifier: MIT
/*
 * The GPU lane's queues: tickets, the order of operators, and the two ways to learn of an end.
 *
 * Each operator is one OpenCL command with an event. A ring indexed by the ticket keeps the events.
 * Before one is overwritten, its operator is waited for, which takes no time after GPU_EVENTS later
 * operators.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_private.h"
#include "llm_fail.h"

static const char *const kernel_names[GPU_NR_KERNELS] = {
#define GPU_KERNEL(name) #name,
	GPU_KERNELS(GPU_KERNEL)
#undef GPU_KERNEL
};

int llm_gpu_queue_create(struct llm_gpu *gpu, struct llm_gpu_queue **out)
{
	struct llm_gpu_queue *q = calloc(1, sizeof(*q));
	cl_int err;

	*out = NULL;
	if (!q)
		return llm_fail(-ENOMEM, "no memory for an OpenCL queue");
	q->gpu = gpu;
	q->queue = clCreateCommandQueue(
		gpu->context, gpu->device,
		gpu->info.out_of_order ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0, &err);
	if (err) {
		free(q);
		return gpu_fail(err, "a queue");
	}
	*out = q;
	return 0;
}

void llm_gpu_queue_free(struct llm_gpu_queue *q)
{
	if (!q)
		return;
	clFinish(q->queue);
	while (atomic_load_explicit(&q->callbacks, memory_order_acquire))
		sched_yield();
	for (unsigned int i = 0; i < GPU_EVENTS; i++)
		if (q->events[i])
			clReleaseEvent(q->events[i]);
	for (unsigned int i = 0; i < GPU_NR_KERNELS; i++)
		if (q->kernels[i])
			clReleaseKernel(q->kernels[i]);
	clReleaseCommandQueue(q->queue);
	free(q);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* The event of a ticket; NULL if it is done for sure. */
static cl_event event_of(const struct llm_gpu_queue *q, uint64_t ticket)
{
	return ticket && q->last - ticket < GPU_EVENTS ? q->events[ticket % GPU_EVENTS] : NULL;
}

/* Keeps @event, of which the queue takes the reference, for the next ticket. */
static int event_keep(struct llm_gpu_queue *q, cl_event event, bool chained,
		      struct llm_gpu_order *order)
{
	cl_event *place = &q->events[++q->last % GPU_EVENTS];
	cl_int err = CL_SUCCESS;

	if (*place) {
		err = clWaitForEvents(1, place);
		clReleaseEvent(*place);
	}
	*place = event;
	q->chained = chained;
	if (order)
		order->done = q->last;
	return err ? gpu_fail(err, "an operator") : 0;
}

/* The events that the next command waits for. */
struct wait_list {
	cl_event events[LLM_GPU_MAX_AFTER];
	cl_uint nr;
};

static int wait_list_make(struct llm_gpu_queue *q, const struct llm_gpu_order *order,
			  struct wait_list *list)
{
	cl_event event;
	cl_int err;
	int ret;

	list->nr = 0;
	if (order) {
		if (order->nr_after > LLM_GPU_MAX_AFTER)
			return llm_fail(
				-EINVAL,
				"OpenCL: an operator waits for %u others; at most %u are possible",
				order->nr_after, LLM_GPU_MAX_AFTER);
		for (unsigned int i = 0; i < order->nr_after; i++) {
			if (order->after[i] > q->last)
				return llm_fail(
					-EINVAL,
					"OpenCL: an operator waits for one that is not in the "
					"queue");
			event = event_of(q, order->after[i]);
			if (event)
				list->events[list->nr++] = event;
		}
		return 0;
	}
	if (!q->last)
		return 0;
	if (!q->chained) {
		err = clEnqueueMarkerWithWaitList(q->queue, 0, NULL, &event);
		if (err)
			return gpu_fail(err, "a marker");
		ret = event_keep(q, event, true, NULL);
		if (ret)
			return ret;
	}
	list->events[list->nr++] = event_of(q, q->last);
	return 0;
}

static const cl_event *wait_list_events(const struct wait_list *list)
{
	return list->nr ? list->events : NULL;
}

/* ---- launches -------------------------------------------------------------------------------- */

void gpu_begin(struct gpu_launch *l, struct llm_gpu_queue *q, enum gpu_kernel which)
{
	*l = (struct gpu_launch){ .q = q, .which = which };
	if (!q->kernels[which])
		q->kernels[which] = clCreateKernel(q->gpu->program, kernel_names[which], &l->err);
	l->kernel = q->kernels[which];
}

void gpu_arg(struct gpu_launch *l, size_t bytes, const void *value)
{
	if (!l->err)
		l->err = clSetKernelArg(l->kernel, l->nr_args++, bytes, value);
}

void gpu_arg_u32(struct gpu_launch *l, uint32_t value)
{
	gpu_arg(l, sizeof(value), &value);
}

void gpu_arg_u64(struct gpu_launch *l, uint64_t value)
{
	gpu_arg(l, sizeof(value), &value);
}

void gpu_arg_float(struct gpu_launch *l, float value)
{
	gpu_arg(l, sizeof(value), &value);
}

void gpu_arg_area(struct gpu_launch *l, const struct llm_gpu_area *area)
{
	gpu_arg(l, sizeof(cl_mem), area->buf ? &area->buf->mem : NULL);
	gpu_arg_u64(l, area->off);
}

int gpu_run(struct gpu_launch *l, const size_t groups[2], const size_t items[2],
	    struct llm_gpu_order *order)
{
	size_t global[2] = { groups[0] * items[0], groups[1] * items[1] };
	struct wait_list list;
	cl_event event;
	int ret;

	if (l->err)
		return gpu_fail(l->err, kernel_names[l->which]);
	ret = wait_list_make(l->q, order, &list);
	if (ret)
		return ret;
	l->err = clEnqueueNDRangeKernel(l->q->queue, l->kernel, 2, NULL, global, items, list.nr,
					wait_list_events(&list), &event);
	if (l->err)
		return gpu_fail(l->err, kernel_names[l->which]);
	return event_keep(l->q, event, !order, order);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* For a shared buffer, source and destination of the copy are the same memory, which
 * is the standard's way to make host memory current (OpenCL 1.2, section 5.2.2);
 * platforms copy nothing. */
static int transfer(struct llm_gpu_queue *q, struct llm_gpu_buffer *buf, size_t off, size_t bytes,
		    bool to_host, struct llm_gpu_order *order)
{
	const char *what = to_host ? "to the host" : "to the device";
	struct llm_gpu_area area = { buf, off };
	struct wait_list list;
	cl_event event;
	cl_int err;
	int ret = gpu_check(&area, 1, bytes, 0, 1, q, "a transfer", "memory");

	if (!ret && !bytes)
		ret = llm_fail(-EINVAL, "OpenCL: a transfer of no bytes");
	if (!ret && !buf->host)
		ret = llm_fail(-EINVAL, "OpenCL: a transfer %s of memory that only the device has",
			       what);
	ret = ret ? ret : wait_list_make(q, order, &list);
	if (ret)
		return ret;
	if (to_host)
		err = clEnqueueReadBuffer(q->queue, buf->mem, CL_FALSE, off, bytes, buf->host + off,
					  list.nr, wait_list_events(&list), &event);
	else
		err = clEnqueueWriteBuffer(q->queue, buf->mem, CL_FALSE, off, bytes,
					   buf->host + off, list.nr, wait_list_events(&list),
					   &event);
	return err ? gpu_fail(err, what) : event_keep(q, event, !order, order);
}

int llm_gpu_to_device(struct llm_gpu_queue *q, struct llm_gpu_buffer *buf, size_t off, size_t bytes,
		      struct llm_gpu_order *order)
{
	return transfer(q, buf, off, bytes, false, order);
}

int llm_gpu_to_host(struct llm_gpu_queue *q, struct llm_gpu_buffer *buf, size_t off, size_t bytes,
		    struct llm_gpu_order *order)
{
	return transfer(q, buf, off, bytes, true, order);
}

/* ---- ends ------------------------------------------------------------------------------------ */

int llm_gpu_flush(struct llm_gpu_queue *q)
{
	cl_int err = clFlush(q->queue);

	return err ? gpu_fail(err, "flushing a queue") : 0;
}

int llm_gpu_wait(struct llm_gpu_queue *q, uint64_t ticket)
{
	cl_event event;
	cl_int err;

	if (ticket > q->last)
		return llm_fail(-EINVAL,
				"OpenCL: waiting for an operator that is not in the queue");
	event = event_of(q, ticket);
	if (!event)
		return 0;
	err = clWaitForEvents(1, &event);
	return err ? gpu_fail(err, "an operator") : 0;
}

int llm_gpu_finish(struct llm_gpu_queue *q)
{
	uint64_t first = q->last < GPU_EVENTS ? 1 : q->last - GPU_EVENTS + 1;
	cl_int err = clFinish(q->queue), status;

	for (uint64_t t = first; !err && t <= q->last; t++)
		if (!clGetEventInfo(q->events[t % GPU_EVENTS], CL_EVENT_COMMAND_EXECUTION_STATUS,
				    sizeof(status), &status, NULL) &&
		    status < 0)
			err = status;
	return err ? gpu_fail(err, "an operator") : 0;
}

/* A flag that a thread of the driver writes. */
struct late_flag {
	struct llm_gpu_queue *q;
	uint32_t *word;
	uint32_t value;
};

static void CL_CALLBACK flag_write(cl_event event, cl_int status, void *ud)
{
	struct late_flag *late = ud;
	struct llm_gpu_queue *q = late->q;

	/* Also after a failure, which llm_gpu_wait() reports, so that polling ends. */
	__atomic_store_n(late->word, late->value, __ATOMIC_RELEASE);
	free(late);
	atomic_fetch_sub_explicit(&q->callbacks, 1, memory_order_release);
}

static int flag_by_callback(struct llm_gpu_queue *q, struct llm_gpu_area flag, uint32_t value,
			    struct llm_gpu_order *order)
{
	struct late_flag *late = malloc(sizeof(*late));
	struct wait_list list;
	cl_event event;
	cl_int err;
	int ret;

	if (!late)
		return llm_fail(-ENOMEM, "no memory for a flag");
	*late = (struct late_flag){ q, (uint32_t *)(flag.buf->host + flag.off), value };
	ret = wait_list_make(q, order, &list);
	if (ret) {
		free(late);
		return ret;
	}
	err = clEnqueueMarkerWithWaitList(q->queue, list.nr, wait_list_events(&list), &event);
	if (err) {
		free(late);
		return gpu_fail(err, "a flag");
	}
	atomic_fetch_add_explicit(&q->callbacks, 1, memory_order_relaxed);
	err = clSetEventCallback(event, CL_COMPLETE, flag_write, late);
	if (err) {
		atomic_fetch_sub_explicit(&q->callbacks, 1, memory_order_relaxed);
		free(late);
		clReleaseEvent(event);
		return gpu_fail(err, "a flag");
	}
	/* A marker without a wait list waits for all operators. */
	return event_keep(q, event, !order || !list.nr, order);
}

int llm_gpu_flag(struct llm_gpu_queue *q, struct llm_gpu_area flag, uint32_t value,
		 struct llm_gpu_order *order)
{
	struct gpu_launch l;
	int ret = gpu_check(&flag, 1, sizeof(value), 0, sizeof(value), q, "a flag", "its word");

	if (!ret && !flag.buf->host)
		ret = llm_fail(-EINVAL, "OpenCL: a flag in memory that only the device has");
	if (ret)
		return ret;
	if (q->gpu->coherent && flag.buf->shared) {
		gpu_begin(&l, q, GPU_flag);
		gpu_arg_area(&l, &flag);
		gpu_arg_u32(&l, value);
		ret = gpu_run(&l, (size_t[]){ 1, 1 }, (size_t[]){ 1, 1 }, order);
	} else {
		ret = flag_by_callback(q, flag, value, order);
	}
	return ret ? ret : llm_gpu_flush(q);
}
