// SPDX-License-Identifier: MIT
/*
 * The GPU lane's queues, and the ways to learn of their operators' end. Operators of a queue run
 * one after another, as a pass through a model does, so none waits for an event. But each has one,
 * which is kept until the queue is waited for: it alone tells that the operator has failed.
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

/* ---- events of operators --------------------------------------------------------------------- */

/* Ends an event's use, when its operator has ended. */
static void event_end(struct llm_gpu_queue *q, cl_event *place)
{
	cl_int status = CL_COMPLETE, err = clWaitForEvents(1, place);

	if (err) {
		clGetEventInfo(*place, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status,
			       NULL);
		q->failed = status < 0 ? status : err;
	}
	clReleaseEvent(*place);
	*place = NULL;
}

/* Takes the reference to an operator's event. That of GPU_EVENTS operators before has ended. */
static void event_keep(struct llm_gpu_queue *q, cl_event event)
{
	cl_event *place = &q->events[q->next++ % GPU_EVENTS];

	if (*place)
		event_end(q, place);
	*place = event;
}

/* Ends all that are kept. */
static void events_end(struct llm_gpu_queue *q)
{
	uint64_t n = q->next < GPU_EVENTS ? q->next : GPU_EVENTS;

	for (uint64_t i = 0; i < n; i++)
		event_end(q, &q->events[i]);
	q->next = 0;
}

/* ---- queues ---------------------------------------------------------------------------------- */

int llm_gpu_queue_create(struct llm_gpu *gpu, struct llm_gpu_queue **out)
{
	struct llm_gpu_queue *q = calloc(1, sizeof(*q));
	cl_int err;

	*out = NULL;
	if (!q)
		return llm_fail(-ENOMEM, "no memory for an OpenCL queue");
	q->gpu = gpu;
	q->queue = clCreateCommandQueue(gpu->context, gpu->device, 0, &err);
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
	events_end(q);
	while (atomic_load_explicit(&q->callbacks, memory_order_acquire))
		sched_yield();
	for (unsigned int i = 0; i < GPU_NR_KERNELS; i++)
		if (q->kernels[i])
			clReleaseKernel(q->kernels[i]);
	llm_gpu_unmap(q->parts);
	clReleaseCommandQueue(q->queue);
	free(q);
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

int gpu_run(struct gpu_launch *l, const size_t groups[2], const size_t items[2])
{
	size_t global[2] = { groups[0] * items[0], groups[1] * items[1] };
	cl_event event;

	if (!l->err)
		l->err = clEnqueueNDRangeKernel(l->q->queue, l->kernel, 2, NULL, global, items, 0,
						NULL, &event);
	if (l->err)
		return gpu_fail(l->err, kernel_names[l->which]);
	event_keep(l->q, event);
	return 0;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* For a shared buffer, source and destination of the copy are the same memory, which
 * is the standard's way to make host memory current (OpenCL 1.2, section 5.2.2);
 * platforms copy nothing. */
static int transfer(struct llm_gpu_queue *q, struct llm_gpu_buffer *buf, size_t off, size_t bytes,
		    bool to_host)
{
	const char *what = to_host ? "to the host" : "to the device";
	struct llm_gpu_area area = { buf, off };
	cl_event event;
	cl_int err;
	int ret = gpu_check(&area, 1, bytes, 0, 1, q, "a transfer", "memory");

	if (!ret && !bytes)
		ret = llm_fail(-EINVAL, "OpenCL: a transfer of no bytes");
	if (!ret && !buf->host)
		ret = llm_fail(-EINVAL, "OpenCL: a transfer %s of memory that only the device has",
			       what);
	if (ret)
		return ret;
	if (to_host)
		err = clEnqueueReadBuffer(q->queue, buf->mem, CL_FALSE, off, bytes, buf->host + off,
					  0, NULL, &event);
	else
		err = clEnqueueWriteBuffer(q->queue, buf->mem, CL_FALSE, off, bytes,
					   buf->host + off, 0, NULL, &event);
	if (err)
		return gpu_fail(err, what);
	event_keep(q, event);
	return 0;
}

int llm_gpu_to_device(struct llm_gpu_queue *q, struct llm_gpu_buffer *buf, size_t off, size_t bytes)
{
	return transfer(q, buf, off, bytes, false);
}

int llm_gpu_to_host(struct llm_gpu_queue *q, struct llm_gpu_buffer *buf, size_t off, size_t bytes)
{
	return transfer(q, buf, off, bytes, true);
}

/* ---- ends ------------------------------------------------------------------------------------ */

int llm_gpu_flush(struct llm_gpu_queue *q)
{
	cl_int err = clFlush(q->queue);

	return err ? gpu_fail(err, "flushing a queue") : 0;
}

int gpu_marker(struct llm_gpu_queue *q, cl_event *event)
{
	cl_int err = clEnqueueMarkerWithWaitList(q->queue, 0, NULL, event);

	return err ? gpu_fail(err, "a marker") : 0;
}

int llm_gpu_finish(struct llm_gpu_queue *q)
{
	cl_int err = clFinish(q->queue);

	events_end(q);
	err = q->failed ? q->failed : err;
	q->failed = CL_SUCCESS;
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

	/* Also after a failure, which llm_gpu_finish() reports, so that polling ends. */
	__atomic_store_n(late->word, late->value, __ATOMIC_RELEASE);
	free(late);
	atomic_fetch_sub_explicit(&q->callbacks, 1, memory_order_release);
}

static int flag_by_callback(struct llm_gpu_queue *q, struct llm_gpu_area flag, uint32_t value)
{
	struct late_flag *late = malloc(sizeof(*late));
	cl_event event;
	cl_int err;
	int ret;

	if (!late)
		return llm_fail(-ENOMEM, "no memory for a flag");
	*late = (struct late_flag){ q, (uint32_t *)(flag.buf->host + flag.off), value };
	ret = gpu_marker(q, &event);
	if (ret) {
		free(late);
		return ret;
	}
	atomic_fetch_add_explicit(&q->callbacks, 1, memory_order_relaxed);
	err = clSetEventCallback(event, CL_COMPLETE, flag_write, late);
	clReleaseEvent(event);
	if (err) {
		atomic_fetch_sub_explicit(&q->callbacks, 1, memory_order_relaxed);
		free(late);
		return gpu_fail(err, "a flag");
	}
	return 0;
}

int llm_gpu_flag(struct llm_gpu_queue *q, struct llm_gpu_area flag, uint32_t value)
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
		ret = gpu_run(&l, (size_t[]){ 1, 1 }, (size_t[]){ 1, 1 });
	} else {
		ret = flag_by_callback(q, flag, value);
	}
	return ret ? ret : llm_gpu_flush(q);
}
