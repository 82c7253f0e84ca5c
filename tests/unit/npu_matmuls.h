/* SPDX-License-Identifier: MIT */
/* A random matmul of each kind of weights, its graph, and a run of it. */
#ifndef NPU_MATMULS_H
#define NPU_MATMULS_H

#include "fw_data.h"
#include "npu_matrix.h"

static const struct kind {
	enum vnpu_op op;
	const char *name, *mode; /* in a listing */
	uint32_t minor; /* of the ISA that brought it */
} kinds[] = {
	{ VNPU_OP_MATMUL_I8, "matmul_i8", "", 0 },	{ VNPU_OP_MATMUL_W4, "matmul_w4", "", 2 },
	{ VNPU_OP_MATMUL_W4F, "matmul_w4f", "", 2 },	{ VNPU_OP_MATMUL_WK, "matmul_wk", "", 3 },
	{ VNPU_OP_MATMUL_KQ, "matmul_kq", " q5_0", 6 },
};
#define NR_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* A matmul with its operands. */
struct matmul {
	enum vnpu_op op;
	uint32_t m, n, k;
	uint8_t bits[512]; /* MATMUL_WK: of each channel */
	uint32_t group; /* of 4 bits, and of Q5_0 */
	bool biased;
	uint8_t *w;
	int8_t *q; /* rows of s8, or */
	struct matrix x, scale, bias; /* of floats */
	size_t w_bytes;
};

static inline bool of_floats(const struct matmul *mm)
{
	return mm->op == VNPU_OP_MATMUL_W4F;
}

static inline void pack(struct matmul *mm)
{
	uint32_t n = mm->n, k = mm->k;
	int8_t *rows = malloc((size_t)n * k);
	uint8_t *numbers = (uint8_t *)rows;
	uint16_t *scales = malloc((size_t)n * k * 2);
	struct matrix one = matrix_new(n);

	for (size_t i = 0; i < (size_t)n * k; i++) {
		rows[i] = (int8_t)random_in(0, mm->op == VNPU_OP_MATMUL_KQ ? 31
					       : mm->group		   ? 15
									   : 255);
		scales[i] = (uint16_t)random_in(0x1c00, 0x3000);
	}
	if (mm->op == VNPU_OP_MATMUL_I8)
		npu_pack_w8(mm->w, n, k, 0, n, rows, one.f);
	else if (mm->op == VNPU_OP_MATMUL_WK)
		npu_pack_wk(mm->w, n, k, mm->bits, 0, n, rows, one.f);
	else if (mm->op == VNPU_OP_MATMUL_KQ)
		npu_pack_kq(mm->w, VNPU_KQ_Q5_0, n, k, 0, n,
			    &(struct npu_kq_rows){ .numbers = numbers, .d = scales });
	else
		npu_pack_w4(mm->w, n, k, mm->group, 0, n, numbers, scales);
	free(rows);
	free(scales);
	matrix_free(&one);
}

static inline struct matmul matmul_make(enum vnpu_op op, uint32_t m, uint32_t n, uint32_t k)
{
	struct matmul mm = { .op = op, .m = m, .n = n, .k = k, .biased = random_in(0, 1) };

	assert_true(n <= sizeof(mm.bits));
	for (uint32_t i = 0; i < n; i++)
		mm.bits[i] = (uint8_t)random_in(1, 8);
	if (op == VNPU_OP_MATMUL_W4 || op == VNPU_OP_MATMUL_W4F) {
		mm.group = 32u << random_in(0, 2);
	} else if (op == VNPU_OP_MATMUL_KQ) {
		mm.group = 32;
	}
	if (mm.group)
		mm.k = k = (k + mm.group - 1) / mm.group * mm.group;
	mm.w_bytes = op == VNPU_OP_MATMUL_I8   ? npu_w8_bytes(n, k)
		     : op == VNPU_OP_MATMUL_WK ? npu_wk_bytes(n, k, mm.bits)
		     : op == VNPU_OP_MATMUL_KQ ? npu_kq_bytes(VNPU_KQ_Q5_0, n, k)
					       : npu_w4_bytes(n, k, mm.group);
	mm.w = malloc(mm.w_bytes);
	pack(&mm);
	mm.q = malloc((size_t)m * (k + 3));
	for (size_t i = 0; i < (size_t)m * (k + 3); i++)
		mm.q[i] = (int8_t)random_in(0, 255);
	mm.x = matrix_new((size_t)m * k);
	mm.scale = matrix_new(m);
	mm.bias = matrix_new(n);
	return mm;
}

static inline void matmul_free(struct matmul *mm)
{
	free(mm->w);
	free(mm->q);
	matrix_free(&mm->x);
	matrix_free(&mm->scale);
	matrix_free(&mm->bias);
}

/* @width: of npu_matmul_shape(); -1: not called. */
static inline struct npu_graph *graph_of(const struct matmul *mm, bool permuted, int64_t width)
{
	struct npu_graph *g = npu_graph_create("matmul");
	struct npu_tensor *a, *s = NULL, *w, *b = NULL, *y;

	a = npu_graph_input(g, "a", of_floats(mm) ? NPU_F32 : NPU_S8, mm->m, mm->k);
	if (!of_floats(mm))
		s = npu_graph_input(g, "scale", NPU_F32, mm->m, 1);
	w = mm->op == VNPU_OP_MATMUL_I8	  ? npu_graph_weight(g, "w", NPU_W8_PANEL, mm->n, mm->k)
	    : mm->op == VNPU_OP_MATMUL_WK ? npu_graph_weight_wk(g, "w", mm->n, mm->k, mm->bits)
	    : mm->op == VNPU_OP_MATMUL_KQ ? npu_graph_weight_kq(g, "w", VNPU_KQ_Q5_0, mm->n, mm->k)
					  : npu_graph_weight_w4(g, "w", mm->n, mm->k, mm->group);
	if (mm->biased)
		b = npu_graph_weight(g, "bias", NPU_F32, 1, mm->n);
	y = mm->op == VNPU_OP_MATMUL_I8	  ? npu_matmul_i8(g, a, s, w, b)
	    : mm->op == VNPU_OP_MATMUL_W4 ? npu_matmul_w4(g, a, s, w, b)
	    : mm->op == VNPU_OP_MATMUL_WK ? npu_matmul_wk(g, a, s, w, b)
	    : mm->op == VNPU_OP_MATMUL_KQ ? npu_matmul_kq(g, a, s, w, b)
					  : npu_matmul_w4f(g, a, w, b);
	if (permuted)
		assert_ptr_equal(npu_matmul_permute(g, y), y);
	if (width >= 0)
		assert_ptr_equal(npu_matmul_shape(g, y, (uint32_t)width), y);
	npu_graph_output(g, "y", y);
	return g;
}

/* Frees the graph. */
static inline void matmul_run(struct fixture *f, const struct matmul *mm, struct npu_graph *g,
			      float *y)
{
	struct run_binding bindings[5] = {
		{ "a", mm->q, NULL, (size_t)mm->m * ((mm->k + 3) & ~3u) },
		{ "w", mm->w, NULL, mm->w_bytes },
		{ "y", NULL, y, (size_t)mm->m * mm->n * 4 },
	};
	unsigned int nr = 3;

	if (of_floats(mm))
		bindings[0] = (struct run_binding){ "a", mm->x.f, NULL, mm->x.n * 4 };
	else
		bindings[nr++] = (struct run_binding){ "scale", mm->scale.f, NULL, mm->m * 4 };
	if (mm->biased)
		bindings[nr++] = (struct run_binding){ "bias", mm->bias.f, NULL, mm->n * 4 };
	npu_ok(run_graph(f, g, bindings, nr, NULL, 0));
}

/* Of a run on sd8gen3. Frees the graph. */
static inline uint64_t predicted_ns(struct npu_graph *g)
{
	struct npu_image_info info;
	void *image;
	size_t bytes;

	npu_ok(npu_graph_predict(g, "sd8gen3"));
	npu_ok(npu_graph_compile(g, &image, &bytes));
	npu_graph_free(g);
	npu_ok(npu_image_info(image, bytes, &info));
	free(image);
	return info.device_ns;
}

/* As its device time counts them. */
static inline double weight_bits(const struct matmul *mm)
{
	uint64_t panels = (mm->n + 63) / 64;
	double own = (double)(mm->w_bytes - VNPU_WK_TABLE_BYTES(mm->n) - panels * 512);

	if (mm->op == VNPU_OP_MATMUL_KQ)
		return 5;
	if (mm->op != VNPU_OP_MATMUL_WK)
		return mm->group ? 4 : 8;
	return own / (double)(panels * (VNPU_PANEL_WK_BYTES(mm->k, 1) - 512));
}

#endif /* NPU_MATMULS_H */
