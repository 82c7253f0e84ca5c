// SPDX-License-Identifier: MIT
/* The GPU lane's memory: host memory mapped for the device, or memory of the device. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_private.h"
#include "llm_fail.h"

static int buffer_create(struct llm_gpu *gpu, void *host, size_t bytes, bool shared,
			 struct llm_gpu_buffer **out)
{
	struct llm_gpu_buffer *buf;
	cl_int err;

	*out = NULL;
	if (!bytes)
		return llm_fail(-EINVAL, "OpenCL: a buffer of no bytes");
	buf = calloc(1, sizeof(*buf));
	if (!buf)
		return llm_fail(-ENOMEM, "no memory for an OpenCL buffer");
	*buf = (struct llm_gpu_buffer){
		.gpu = gpu, .host = host, .bytes = bytes, .shared = shared
	};
	buf->mem =
		clCreateBuffer(gpu->context, CL_MEM_READ_WRITE | (shared ? CL_MEM_USE_HOST_PTR : 0),
			       bytes, shared ? host : NULL, &err);
	if (err) {
		free(buf);
		return gpu_fail(err, "a buffer");
	}
	*out = buf;
	return 0;
}

int llm_gpu_map(struct llm_gpu *gpu, void *host, size_t bytes, enum llm_gpu_sharing sharing,
		struct llm_gpu_buffer **buf)
{
	if (!host || (uintptr_t)host % LLM_GPU_PAGE) {
		*buf = NULL;
		return llm_fail(-EINVAL, "OpenCL: memory at %p is not aligned to a page", host);
	}
	return buffer_create(gpu, host, bytes, sharing == LLM_GPU_SHARED && gpu->info.unified, buf);
}

int llm_gpu_alloc(struct llm_gpu *gpu, size_t bytes, struct llm_gpu_buffer **buf)
{
	return buffer_create(gpu, NULL, bytes, false, buf);
}

void llm_gpu_unmap(struct llm_gpu_buffer *buf)
{
	if (!buf)
		return;
	clReleaseMemObject(buf->mem);
	free(buf);
}

bool llm_gpu_shared(const struct llm_gpu_buffer *buf)
{
	return buf->shared;
}

int gpu_check(const struct llm_gpu_area *area, uint64_t rows, uint64_t row_bytes, uint64_t stride,
	      unsigned int align, const struct llm_gpu_queue *q, const char *op, const char *what)
{
	uint64_t bytes;

	if (!area->buf)
		return llm_fail(-EINVAL, "OpenCL: %s: %s: missing", op, what);
	if (area->buf->gpu != q->gpu)
		return llm_fail(-EINVAL, "OpenCL: %s: %s: memory of another device", op, what);
	if (area->off % align || (rows > 1 && stride % align))
		return llm_fail(-EINVAL, "OpenCL: %s: %s: not a multiple of %u bytes", op, what,
				align);
	if (rows > 1 && stride < row_bytes)
		return llm_fail(-EINVAL, "OpenCL: %s: %s: rows overlap", op, what);
	if (__builtin_mul_overflow(rows ? rows - 1 : 0, stride, &bytes) ||
	    __builtin_add_overflow(bytes, row_bytes, &bytes) || area->off > area->buf->bytes ||
	    bytes > area->buf->bytes - area->off)
		return llm_fail(-EINVAL, "OpenCL: %s: %s: not inside the buffer of %zu bytes", op,
				what, area->buf->bytes);
	return 0;
}

/* Offsets of words in the tested page, each in a cache line of its own */
enum { PROBE_IN = 0, PROBE_OUT = 64, PROBE_FLAG = 128, PROBE_TURNS = 4 };

/* The host writes a word, a kernel answers it, another one writes the flag, without calls that
 * transfer memory. *@seen: the host sees flag and answer, at the latest when the flag's operator is
 * reported as done. */
static int probe_turn(struct llm_gpu_queue *q, uint32_t *words, struct llm_gpu_buffer *buf,
		      uint32_t turn, bool *seen)
{
	struct llm_gpu_area in = { buf, PROBE_IN }, out = { buf, PROBE_OUT },
			    flag = { buf, PROBE_FLAG };
	cl_int status = CL_QUEUED;
	struct gpu_launch l;
	cl_event end;
	int err;

	__atomic_store_n(&words[PROBE_IN / 4], turn * 0x01010101, __ATOMIC_RELEASE);
	gpu_begin(&l, q, GPU_probe);
	gpu_arg_area(&l, &in);
	gpu_arg_area(&l, &out);
	err = gpu_run(&l, (size_t[]){ 1, 1 }, (size_t[]){ 1, 1 });
	if (err)
		return err;
	gpu_begin(&l, q, GPU_flag);
	gpu_arg_area(&l, &flag);
	gpu_arg_u32(&l, turn);
	err = gpu_run(&l, (size_t[]){ 1, 1 }, (size_t[]){ 1, 1 });
	err = err ? err : gpu_marker(q, &end);
	if (err)
		return err;
	err = llm_gpu_flush(q);
	while (!err && !llm_gpu_flag_is(&words[PROBE_FLAG / 4], turn) && status > CL_COMPLETE) {
		sched_yield();
		clGetEventInfo(end, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status,
			       NULL);
	}
	clReleaseEvent(end);
	if (err)
		return err;
	*seen = llm_gpu_flag_is(&words[PROBE_FLAG / 4], turn) &&
		llm_gpu_flag_is(&words[PROBE_OUT / 4], ~(turn * 0x01010101));
	return llm_gpu_finish(q);
}

int gpu_probe(struct llm_gpu *gpu, bool *coherent)
{
	struct llm_gpu_buffer *buf = NULL;
	struct llm_gpu_queue *q = NULL;
	uint32_t *words;
	int err;

	*coherent = false;
	if (!gpu->info.unified)
		return 0;
	words = aligned_alloc(LLM_GPU_PAGE, LLM_GPU_PAGE);
	if (!words)
		return llm_fail(-ENOMEM, "no memory to test an OpenCL device");
	memset(words, 0, LLM_GPU_PAGE);
	err = llm_gpu_map(gpu, words, LLM_GPU_PAGE, LLM_GPU_SHARED, &buf);
	err = err ? err : llm_gpu_queue_create(gpu, &q);
	*coherent = true;
	for (uint32_t turn = 1; !err && *coherent && turn <= PROBE_TURNS; turn++)
		err = probe_turn(q, words, buf, turn, coherent);
	llm_gpu_queue_free(q);
	llm_gpu_unmap(buf);
	free(words);
	return err;
}
