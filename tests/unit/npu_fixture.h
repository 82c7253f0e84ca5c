/* SPDX-License-Identifier: MIT */
/*
 * Common parts of the tests of libnpu: a device with a context and a queue, and small graphs. The
 * device is opened without options, so that NPU_TRANSPORT=drm runs the same tests on vnpu.ko.
 */
#ifndef NPU_FIXTURE_H
#define NPU_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "npu.h"
#include "npu_graph.h"

#define MS 1000000ll

/* The call must succeed; the test fails with libnpu's error otherwise. */
#define npu_ok(call)                                                            \
	do {                                                                    \
		int npu_ok_ret = (call);                                        \
		if (npu_ok_ret)                                                 \
			fail_msg("%s: %d: %s", #call, npu_ok_ret, npu_error()); \
	} while (0)

/* The call must fail with @err, and npu_error() contain @text. */
#define npu_fails(call, err, text)                                                              \
	do {                                                                                    \
		int npu_fails_ret = (call);                                                     \
		if (npu_fails_ret != (err) || !strstr(npu_error(), text))                       \
			fail_msg("%s: %d instead of %d: %s (wanted: %s)", #call, npu_fails_ret, \
				 err, npu_error(), text);                                       \
	} while (0)

/* A new empty file in TMPDIR. Returns its file descriptor. */
static inline int fixture_file(char *path, size_t size)
{
	int fd;

	snprintf(path, size, "%s/npu-test-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	return fd;
}

struct fixture {
	struct npu_device *dev;
	struct npu_context *ctx;
	struct npu_queue *queue;
};

static inline int fixture_open(void **state, const struct npu_device_options *opts)
{
	struct fixture *f = calloc(1, sizeof(*f));

	npu_ok(npu_device_open(opts, &f->dev));
	npu_ok(npu_context_create(f->dev, &f->ctx));
	npu_ok(npu_queue_create(f->ctx, NULL, &f->queue));
	*state = f;
	return 0;
}

static inline int fixture_setup(void **state)
{
	return fixture_open(state, NULL);
}

static inline int fixture_teardown(void **state)
{
	struct fixture *f = *state;

	npu_queue_free(f->queue);
	npu_context_free(f->ctx);
	npu_device_close(f->dev);
	free(f);
	return 0;
}

static inline int64_t fixture_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

/* Compiles and frees the graph, loads it and creates a job. */
static inline struct npu_job *fixture_job(struct npu_context *ctx, struct npu_graph *g)
{
	struct npu_program *prog;
	struct npu_job *job;
	size_t bytes;
	void *image;

	npu_ok(npu_graph_compile(g, &image, &bytes));
	npu_graph_free(g);
	npu_ok(npu_program_load(ctx, image, bytes, &prog));
	free(image);
	npu_ok(npu_job_create(prog, &job));
	npu_program_free(prog);
	return job;
}

/* y = x + 1, f32 [1][n]; first sleeps if @sleep_ns. */
static inline struct npu_job *fixture_increment(struct npu_context *ctx, uint32_t n,
						uint64_t sleep_ns)
{
	struct npu_graph *g = npu_graph_create("increment");
	float *ones = malloc(n * sizeof(*ones));
	struct npu_tensor *x;

	for (uint32_t i = 0; i < n; i++)
		ones[i] = 1;
	if (sleep_ns)
		npu_ok(npu_sleep(g, sleep_ns));
	x = npu_graph_input(g, "x", NPU_F32, 1, n);
	npu_graph_output(g, "y", npu_add(g, x, npu_graph_const(g, "ones", ones, 1, n)));
	free(ones);
	return fixture_job(ctx, g);
}

static inline struct npu_job *fixture_sleep(struct npu_context *ctx, uint64_t duration_ns)
{
	struct npu_graph *g = npu_graph_create("sleep");

	npu_ok(npu_sleep(g, duration_ns));
	return fixture_job(ctx, g);
}

static inline struct npu_buffer *fixture_floats(struct npu_context *ctx, uint32_t n, float value)
{
	struct npu_buffer *buf;
	float *p;

	npu_ok(npu_buffer_create(ctx, n * sizeof(float), 0, &buf));
	p = npu_buffer_data(buf);
	for (uint32_t i = 0; i < n; i++)
		p[i] = value;
	return buf;
}

static inline float fixture_float(struct npu_buffer *buf, uint32_t i)
{
	return ((float *)npu_buffer_data(buf))[i];
}

static inline void fixture_bind(struct npu_job *job, const char *symbol, struct npu_buffer *buf)
{
	npu_ok(npu_job_bind(job, symbol, buf, 0, npu_buffer_size(buf)));
}

static inline int fixture_run(struct fixture *f, struct npu_job *job)
{
	uint64_t seqno;
	int ret = npu_queue_submit(f->queue, &job, 1, NULL, &seqno);

	return ret ? ret : npu_queue_wait(f->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER);
}

#endif /* NPU_FIXTURE_H */
