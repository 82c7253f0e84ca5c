// SPDX-License-Identifier: MIT
/*
 * The GPU lane and the NPU in shared memory: one lane computes a norm, both quantise it and compute
 * a matmul, cut between two output channels (HeteroLLM 4.1: row-cutting). On a coherent device a
 * polled flag synchronises them.
 */
#include "gpu_fixture.h"

#include <math.h>
#include <sched.h>

#include <npu/vnpu_isa.h>

#include "npu.h"
#include "npu_graph.h"

#define ROUNDS 6

#define NPU_OK(call)                                 \
	do {                                         \
		if (call)                            \
			fail_msg("%s", npu_error()); \
	} while (0)

/* NPU memory that is mapped for the GPU lane. */
struct both {
	struct npu_buffer *npu;
	struct llm_gpu_buffer *gpu;
	void *data;
	size_t bytes;
};

struct lanes {
	struct llm_gpu *gpu;
	struct llm_gpu_queue *q;
	struct npu_device *dev;
	struct npu_context *ctx;
	struct npu_queue *npu_q;
};

static struct both both_new(const struct lanes *l, size_t bytes)
{
	struct both b = { .bytes = bytes };

	NPU_OK(npu_buffer_create(l->ctx, bytes, 0, &b.npu));
	b.data = npu_buffer_data(b.npu);
	OK(llm_gpu_map(l->gpu, b.data, npu_buffer_size(b.npu), LLM_GPU_SHARED, &b.gpu));
	return b;
}

static void both_free(struct both *b)
{
	llm_gpu_unmap(b->gpu);
	npu_buffer_free(b->npu);
}

static struct llm_gpu_area at(const struct both *b, size_t off)
{
	return (struct llm_gpu_area){ b->gpu, off };
}

/* x -> QUANT -> matmul with all @n channels -> y. */
static struct npu_job *npu_matmul(const struct lanes *l, bool w4, unsigned int m, unsigned int n,
				  unsigned int k)
{
	struct npu_graph *g = npu_graph_create("matmul");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, m, k), *scale,
			  *q = npu_quant(g, x, &scale), *w;
	struct npu_program *prog;
	struct npu_job *job;
	size_t bytes;
	void *image;

	w = w4 ? npu_graph_weight_w4(g, "w", n, k, 32)
	       : npu_graph_weight(g, "w", NPU_W8_PANEL, n, k);
	npu_graph_output(g, "y",
			 w4 ? npu_matmul_w4(g, q, scale, w, NULL)
			    : npu_matmul_i8(g, q, scale, w, NULL));
	NPU_OK(npu_graph_compile(g, &image, &bytes));
	NPU_OK(npu_program_load(l->ctx, image, bytes, &prog));
	NPU_OK(npu_job_create(prog, &job));
	npu_program_free(prog);
	npu_graph_free(g);
	free(image);
	return job;
}

static void fill_weights(const struct both *w, bool w4, unsigned int n, unsigned int k)
{
	uint8_t *numbers = malloc((size_t)n * k);
	float *scales = malloc(n * sizeof(*scales));
	uint16_t *halves = malloc((size_t)n * k / 32 * sizeof(*halves));

	for (size_t i = 0; i < (size_t)n * k; i++)
		numbers[i] = (uint8_t)(w4 ? random_in(0, 15) : random_in(1, 255));
	for (unsigned int c = 0; c < n; c++)
		scales[c] = 0.01f + 0.01f * fabsf(random_float());
	/* F16 of 2^-7 to 2^-6. */
	for (size_t i = 0; i < (size_t)n * k / 32; i++)
		halves[i] = (uint16_t)(0x2000 | random_in(0, 0x3ff));
	if (w4)
		npu_pack_w4(w->data, n, k, 32, 0, n, numbers, halves);
	else
		npu_pack_w8(w->data, n, k, 0, n, (int8_t *)numbers, scales);
	free(numbers);
	free(scales);
	free(halves);
}

/* Makes the GPU's norm of x visible to the host and so to the NPU, by a flag or by the driver. */
static void hand_over(const struct lanes *l, const struct both *norm, const struct both *word,
		      uint32_t turn)
{
	if (llm_gpu_coherent(l->gpu)) {
		OK(llm_gpu_flag(l->q, at(word, 0), turn));
		while (!llm_gpu_flag_is(word->data, turn))
			sched_yield();
	} else {
		OK(llm_gpu_to_host(l->q, norm->gpu, 0, norm->bytes));
		OK(llm_gpu_finish(l->q));
	}
}

static void cut_matmul(const struct lanes *l, bool w4, bool same_bits)
{
	unsigned int m = random_in(1, 40), n = random_in(2, 300), k = 32 * random_in(1, 12),
		     cut = random_in(1, n - 1);
	struct both x = both_new(l, m * k * 4), norm = both_new(l, m * k * 4),
		    ones = both_new(l, k * 4), word = both_new(l, 4);
	struct both q = both_new(l, m * k), scale = both_new(l, m * 4), y = both_new(l, m * n * 4),
		    z = both_new(l, m * n * 4);
	struct both w = both_new(l, w4 ? npu_w4_bytes(n, k, 32) : npu_w8_bytes(n, k));
	struct llm_gpu_rmsnorm norm_op = { at(&x, 0), at(&ones, 0), at(&norm, 0), m, 1, k, k,
					   k,	      1e-5f };
	struct llm_gpu_quant quant = { .x = at(&norm, 0),
				       .q = at(&q, 0),
				       .scale = at(&scale, 0),
				       .rows = m,
				       .cols = k,
				       .ldx = k,
				       .ldq = k };
	struct llm_gpu_matmul op = { .format = w4 ? LLM_GPU_W4 : LLM_GPU_W8,
				     .m = m,
				     .k = k,
				     .first = cut,
				     .n = n - cut,
				     .x = at(&q, 0),
				     .x_scale = at(&scale, 0),
				     .w = at(&w, 0),
				     .y = at(&z, 0),
				     .ldx = k,
				     .ldy = n,
				     .group = 32 };
	struct both *all[] = { &x, &norm, &ones, &word, &q, &scale, &y, &z, &w };
	struct npu_job *job = npu_matmul(l, w4, m, n, k);
	uint64_t seqno;

	random_floats(x.data, m * k);
	for (unsigned int i = 0; i < k; i++)
		((float *)ones.data)[i] = 1;
	fill_weights(&w, w4, n, k);
	OK(llm_gpu_to_device(l->q, x.gpu, 0, x.bytes));
	OK(llm_gpu_to_device(l->q, ones.gpu, 0, ones.bytes));
	OK(llm_gpu_to_device(l->q, w.gpu, 0, w.bytes));
	OK(llm_gpu_rmsnorm(l->q, &norm_op));
	hand_over(l, &norm, &word, 1);
	NPU_OK(npu_job_bind(job, "x", norm.npu, 0, norm.bytes));
	NPU_OK(npu_job_bind(job, "w", w.npu, 0, w.bytes));
	NPU_OK(npu_job_bind(job, "y", y.npu, 0, y.bytes));
	/* Both compute at the same time. */
	NPU_OK(npu_queue_submit(l->npu_q, &job, 1, NULL, &seqno));
	OK(llm_gpu_quant(l->q, &quant));
	OK(llm_gpu_matmul(l->q, &op));
	hand_over(l, &z, &word, 2);
	NPU_OK(npu_queue_wait(l->npu_q, seqno, NPU_FOREVER, NPU_WAIT_DRIVER));
	for (unsigned int r = 0; r < m; r++)
		for (unsigned int c = 0; c < n; c++) {
			float a = ((float *)z.data)[r * n + c], b = ((float *)y.data)[r * n + c];

			if (c < cut	? a != 0
			    : same_bits ? a != b
					: !(fabsf(a - b) <= 1e-5f * (1 + fabsf(b))))
				fail_msg("%s %u x %u x %u cut at %u: row %u, channel %u is %a, of "
					 "the NPU %a",
					 w4 ? "w4" : "w8", m, n, k, cut, r, c, a, b);
		}
	OK(llm_gpu_finish(l->q));
	npu_job_free(job);
	for (unsigned int i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		both_free(all[i]);
}

static void lanes_share_weights_and_cut_a_matmul(void **state)
{
	struct npu_device_options opts = { .transport = NPU_TRANSPORT_SIM };
	struct lanes l;

	random_begin(__func__);
	if (no_platform)
		skip();
	NPU_OK(npu_device_open(&opts, &l.dev));
	NPU_OK(npu_context_create(l.dev, &l.ctx));
	NPU_OK(npu_queue_create(l.ctx, NULL, &l.npu_q));
	FOR_EACH_WIDTH(i)
	for (int round = 0; round < ROUNDS; round++) {
		const struct llm_gpu_info *info = llm_gpu_info(gpus[i]);

		l.gpu = gpus[i];
		l.q = queues[i];
		/* Quantised values agree if quotients are exact; INT8 sums always are. */
		if (info->exact)
			cut_matmul(&l, round % 2, !(round % 2));
	}
	npu_queue_free(l.npu_q);
	npu_context_free(l.ctx);
	npu_device_close(l.dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lanes_share_weights_and_cut_a_matmul),
	};

	return cmocka_run_group_tests_name("gpu_npu", tests, gpu_setup, gpu_teardown);
}
