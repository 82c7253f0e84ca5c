/* SPDX-License-Identifier: MIT */
/*
 * Shared by the tests of the GPU lane: a device, opened once per vector width, and memory of host
 * and device. Without a platform (no pocl-opencl-icd) the tests are skipped.
 */
#ifndef GPU_FIXTURE_H
#define GPU_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu.h"
#include "llm.h"
#include "npu_random.h"

#define UNUSED __attribute__((unused))

#define OK(call)                                     \
	do {                                         \
		if (call)                            \
			fail_msg("%s", llm_error()); \
	} while (0)
/* The call must fail with -EINVAL and a line that contains @part. */
#define REFUSED(call, part)                                                 \
	do {                                                                \
		assert_int_equal(call, -EINVAL);                            \
		if (!strstr(llm_error(), part))                             \
			fail_msg("'%s' is not in '%s'", part, llm_error()); \
	} while (0)

/* The kernels' shapes for GPUs, and for the device; both are tested on any device. */
static const unsigned int widths[] = { 4, 0 };
#define NR_WIDTHS 2

static struct llm_gpu *gpus[NR_WIDTHS];
static struct llm_gpu_queue *queues[NR_WIDTHS];
static bool no_platform;

static UNUSED int gpu_setup(void **state)
{
	unsigned int n;

	if (llm_gpu_list(NULL, 0, &n) == -ENODEV || !n) {
		no_platform = true;
		return 0;
	}
	for (int i = 0; i < NR_WIDTHS; i++) {
		struct llm_gpu_options opts = { .vector = widths[i] };

		if (llm_gpu_open(NULL, &opts, &gpus[i]) ||
		    llm_gpu_queue_create(gpus[i], &queues[i])) {
			fprintf(stderr, "%s\n", llm_error());
			return -1;
		}
	}
	return 0;
}

static UNUSED int gpu_teardown(void **state)
{
	for (int i = 0; i < NR_WIDTHS; i++) {
		llm_gpu_queue_free(queues[i]);
		llm_gpu_close(gpus[i]);
	}
	return 0;
}

/* Host memory with room for many operands, one after another. */
struct arena {
	uint8_t *host;
	size_t bytes, used;
	struct llm_gpu_buffer *buf;
};

static UNUSED void arena_open(struct arena *a, struct llm_gpu *gpu, size_t bytes,
			      enum llm_gpu_sharing sharing)
{
	bytes = (bytes + LLM_GPU_PAGE - 1) / LLM_GPU_PAGE * LLM_GPU_PAGE;
	*a = (struct arena){ .host = aligned_alloc(LLM_GPU_PAGE, bytes), .bytes = bytes };
	assert_non_null(a->host);
	memset(a->host, 0xee, bytes);
	OK(llm_gpu_map(gpu, a->host, bytes, sharing, &a->buf));
}

static UNUSED void arena_close(struct arena *a)
{
	llm_gpu_unmap(a->buf);
	free(a->host);
}

/* Takes @bytes at a multiple of 64; *@area is the same place for the device. */
static UNUSED void *arena_take(struct arena *a, size_t bytes, struct llm_gpu_area *area)
{
	a->used = (a->used + 63) / 64 * 64;
	*area = (struct llm_gpu_area){ a->buf, a->used };
	a->used += bytes;
	assert_true(a->used <= a->bytes);
	return a->host + area->off;
}

/* Transfers everything to the device; arena_fetch() waits and transfers it back. */
static UNUSED void arena_send(struct arena *a, struct llm_gpu_queue *q)
{
	OK(llm_gpu_to_device(q, a->buf, 0, a->bytes));
}

static UNUSED void arena_fetch(struct arena *a, struct llm_gpu_queue *q)
{
	OK(llm_gpu_to_host(q, a->buf, 0, a->bytes));
	OK(llm_gpu_finish(q));
}

#define FOR_EACH_WIDTH(i) \
	if (no_platform)  \
		skip();   \
	for (int i = 0; i < NR_WIDTHS; i++)

#endif /* GPU_FIXTURE_H */
