// SPDX-License-Identifier: MIT
/*
 * Integer matmuls on a device. Each row of x has a 127 as its maximum, so its scale is 1 and
 * quantising it is exact; the weights' scales are 1 too. So y is exactly the matrix product of
 * integers.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compute.h"
#include "npu_graph.h"
#include "npu_private.h"

#define ROWS 4
#define K 64
#define N 64
/*
 * Some jobs take a while, so that something is in flight when a process dies. Their rows have one
 * scale, and their matmuls are permuted and have lines, which makes no difference to the results.
 */
#define SLEEP_NS 2000000

static int8_t weights[N][K];
static const float ones[N] = { [0 ... N - 1] = 1 };

/* ---- a transport over an open fd ---- */

struct fd_transport {
	struct transport base;
	int fd;
};

static int fd_ioctl(struct transport *t, unsigned long request, void *arg)
{
	int ret;

	do {
		ret = ioctl(((struct fd_transport *)t)->fd, request, arg);
	} while (ret && (errno == EINTR || errno == EAGAIN));
	return ret ? -errno : 0;
}

static int fd_map(struct transport *t, uint64_t offset, size_t size, int prot, void **addr)
{
	*addr = mmap(NULL, size, prot, MAP_SHARED, ((struct fd_transport *)t)->fd, (off_t)offset);
	return *addr == MAP_FAILED ? -errno : 0;
}

static int fd_unmap(struct transport *t, void *addr, size_t size)
{
	return munmap(addr, size) ? -errno : 0;
}

static void fd_close(struct transport *t)
{
	close(((struct fd_transport *)t)->fd);
	free(t);
}

static const struct transport_ops fd_ops = {
	.ioctl = fd_ioctl,
	.map = fd_map,
	.unmap = fd_unmap,
	.close = fd_close,
};

int compute_open(struct compute *c, int fd)
{
	struct fd_transport *t = calloc(1, sizeof(*t));

	memset(c, 0, sizeof(*c));
	if (!t) {
		close(fd);
		return -ENOMEM;
	}
	t->base.ops = &fd_ops;
	t->fd = fd;
	return npu_device_open_on(&t->base, NPU_TRANSPORT_DRM, "", "opened by the test", &c->dev);
}

void compute_close(struct compute *c)
{
	compute_end(c);
	npu_device_close(c->dev);
	c->dev = NULL;
}

/* ---- programs ---- */

static void make_weights(void)
{
	uint32_t state = 1;

	for (int n = 0; n < N; n++) {
		for (int k = 0; k < K; k++) {
			state = state * 1664525 + 1013904223;
			weights[n][k] = (int)(state >> 24) - 128;
		}
	}
}

static int make_program(struct npu_context *ctx, bool slow, struct npu_program **prog)
{
	struct npu_graph *g = npu_graph_create("product");
	struct npu_tensor *x, *q, *scale, *w, *y;
	size_t bytes;
	void *image;
	int ret;

	*prog = NULL;
	if (!g)
		return -ENOMEM;
	if (slow)
		npu_sleep(g, SLEEP_NS);
	x = npu_graph_input(g, "x", NPU_F32, ROWS, K);
	q = slow ? npu_quant_static(g, x, npu_graph_const(g, "one", ones, 1, 1), &scale)
		 : npu_quant(g, x, &scale);
	w = npu_graph_weight(g, "w", NPU_W8_PANEL, N, K);
	y = npu_matmul_i8(g, q, scale, w, NULL);
	if (slow)
		npu_matmul_shape(g, npu_matmul_permute(g, y), ROWS / 2);
	npu_graph_output(g, "y", y);
	ret = npu_graph_compile(g, &image, &bytes);
	npu_graph_free(g);
	if (ret)
		return ret;
	ret = npu_program_load(ctx, image, bytes, prog);
	free(image);
	return ret;
}

static int make_slot(struct compute *c, struct compute_slot *s, struct npu_program *prog,
		     uint32_t timeout_ms)
{
	int ret = npu_job_create(prog, &s->job);

	if (!ret)
		ret = npu_buffer_create(c->ctx, ROWS * K * sizeof(float), 0, &s->x);
	if (!ret)
		ret = npu_buffer_create(c->ctx, ROWS * N * sizeof(float), 0, &s->y);
	if (!ret)
		ret = npu_job_bind(s->job, "w", c->w, 0, npu_buffer_size(c->w));
	if (!ret)
		ret = npu_job_bind(s->job, "x", s->x, 0, ROWS * K * sizeof(float));
	if (!ret)
		ret = npu_job_bind(s->job, "y", s->y, 0, ROWS * N * sizeof(float));
	if (!ret)
		npu_job_timeout(s->job, timeout_ms);
	return ret;
}

int compute_begin(struct compute *c, uint32_t timeout_ms)
{
	struct npu_queue_options opts = { .depth = 4 };
	struct npu_program *progs[2] = { NULL, NULL };
	int ret = npu_context_create(c->dev, &c->ctx);

	make_weights();
	if (!ret)
		ret = npu_queue_create(c->ctx, &opts, &c->queue);
	if (!ret)
		ret = npu_buffer_create(c->ctx, npu_w8_bytes(N, K), NPU_BUFFER_DEVICE_READ_ONLY,
					&c->w);
	if (!ret)
		npu_pack_w8(npu_buffer_data(c->w), N, K, 0, N, &weights[0][0], ones);
	for (int i = 0; i < 2 && !ret; i++)
		ret = make_program(c->ctx, i, &progs[i]);
	for (unsigned int i = 0; i < COMPUTE_SLOTS && !ret; i++)
		ret = make_slot(c, &c->slots[i], progs[i & 1], timeout_ms);
	npu_program_free(progs[0]);
	npu_program_free(progs[1]);
	if (ret)
		compute_end(c);
	return ret;
}

void compute_end(struct compute *c)
{
	for (unsigned int i = 0; i < COMPUTE_SLOTS; i++) {
		struct compute_slot *s = &c->slots[i];

		npu_job_free(s->job);
		npu_buffer_free(s->x);
		npu_buffer_free(s->y);
		*s = (struct compute_slot){ 0 };
	}
	npu_buffer_free(c->w);
	npu_queue_free(c->queue);
	npu_context_free(c->ctx);
	c->w = NULL;
	c->queue = NULL;
	c->ctx = NULL;
}

/* ---- runs ---- */

int compute_submit(struct compute *c, unsigned int slot, const struct npu_sync *sync)
{
	struct npu_submit_syncs syncs = { .signal = sync, .nr_signal = sync ? 1 : 0 };
	struct compute_slot *s = &c->slots[slot];
	float *x = npu_buffer_data(s->x);

	for (int i = 0; i < ROWS * K; i++)
		x[i] = rand() % 255 - 127;
	for (int r = 0; r < ROWS; r++)
		x[r * K] = 127;
	memset(npu_buffer_data(s->y), 0xff, ROWS * N * sizeof(float));
	return npu_queue_submit(c->queue, &s->job, 1, &syncs, &s->seqno);
}

bool compute_check(const struct compute *c, unsigned int slot)
{
	const float *x = npu_buffer_data(c->slots[slot].x), *y = npu_buffer_data(c->slots[slot].y);

	for (int r = 0; r < ROWS; r++) {
		for (int n = 0; n < N; n++) {
			int32_t sum = 0;

			for (int k = 0; k < K; k++)
				sum += (int32_t)x[r * K + k] * weights[n][k];
			if (y[r * N + n] != (float)sum) {
				printf("y[%d][%d] is %.9g, not %d\n", r, n, (double)y[r * N + n],
				       sum);
				return false;
			}
		}
	}
	return true;
}
