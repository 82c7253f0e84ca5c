// SPDX-License-Identifier: MIT
/* Graphs of QK_I8: the heads of a launch, each of them somewhere in its buffers. */
#include <errno.h>

#include <npu/vnpu_isa.h>

#include "npu_matrix.h"

#define MAX_HEADS 4
#define UNTOUCHED 0x5a5a

/* Some heads of a model: the graph's head i is head pick[i] of the buffers. */
struct heads {
	uint32_t nr, all, rows, dim, ctx, lds;
	uint32_t pick[MAX_HEADS];
	float scale[MAX_HEADS];
	struct npu_buffer *q, *k, *scales, *scores;
	struct npu_job *job;
};

static size_t panels_bytes(const struct heads *h)
{
	return h->ctx / VNPU_QK_PANEL * VNPU_QK_PANEL_BYTES(h->dim);
}

static size_t scores_bytes(const struct heads *h)
{
	return (size_t)h->rows * h->lds * sizeof(int16_t);
}

static struct npu_graph *heads_graph(const struct heads *h)
{
	struct npu_graph *g = npu_graph_create("scores");
	int pos = npu_graph_param(g, "pos");
	char name[4][16];

	for (uint32_t i = 0; i < h->nr; i++) {
		struct npu_tensor *q, *k, *scale;

		for (int n = 0; n < 4; n++)
			snprintf(name[n], sizeof(name[n]), "%c%u", "qskr"[n], i);
		q = npu_graph_input_columns(g, name[0], h->rows, h->dim, h->all * h->dim);
		q = npu_quant_static(g, q, npu_graph_input(g, name[1], NPU_F32, 1, 1), &scale);
		k = npu_graph_input(g, name[2], NPU_K8_PANEL, h->ctx, h->dim);
		npu_graph_output_columns(g, name[3], npu_qk_i8(g, q, k, vnpu_qk_shift(h->dim), pos),
					 h->lds);
	}
	return g;
}

static void bind(struct npu_job *job, char what, uint32_t i, struct npu_buffer *b, size_t at,
		 size_t bytes)
{
	char name[16];

	snprintf(name, sizeof(name), "%c%u", what, i);
	npu_ok(npu_job_bind(job, name, b, at, bytes));
}

static void heads_bind(struct heads *h)
{
	for (uint32_t i = 0; i < h->nr; i++) {
		uint32_t head = h->pick[i];

		bind(h->job, 'q', i, h->q, (size_t)head * h->dim * 4,
		     ((size_t)(h->rows - 1) * h->all * h->dim + h->dim) * 4);
		bind(h->job, 's', i, h->scales, i * 64ul, 4);
		bind(h->job, 'k', i, h->k, head * panels_bytes(h), panels_bytes(h));
		bind(h->job, 'r', i, h->scores, head * scores_bytes(h),
		     scores_bytes(h) - (h->lds - h->ctx) * sizeof(int16_t));
	}
}

/* head_dim is a multiple of 16, so that each head begins at a multiple of 64 bytes. */
static void heads_make(struct heads *h, struct fixture *f, uint32_t nr)
{
	h->nr = nr;
	h->all = nr + random_in(0, 4);
	h->rows = random_in(1, 70);
	h->dim = 16 * random_in(1, 10);
	h->ctx = 64 * random_in((h->rows + 63) / 64, 8);
	h->lds = h->ctx + 64 * random_in(0, 2);
	for (uint32_t i = 0; i < nr; i++)
		h->pick[i] = (i + h->all / 2) % h->all;
	npu_ok(npu_buffer_create(f->ctx, (size_t)h->rows * h->all * h->dim * 4, 0, &h->q));
	npu_ok(npu_buffer_create(f->ctx, h->all * panels_bytes(h), 0, &h->k));
	npu_ok(npu_buffer_create(f->ctx, MAX_HEADS * 64, 0, &h->scales));
	npu_ok(npu_buffer_create(f->ctx, h->all * scores_bytes(h), 0, &h->scores));
	random_floats(npu_buffer_data(h->q), (size_t)h->rows * h->all * h->dim);
	for (size_t i = 0; i < h->all * panels_bytes(h); i++)
		((uint8_t *)npu_buffer_data(h->k))[i] = (uint8_t)random_u32();
	h->job = fixture_job(f->ctx, heads_graph(h));
	heads_bind(h);
}

static void heads_free(struct heads *h)
{
	npu_job_free(h->job);
	npu_buffer_free(h->q);
	npu_buffer_free(h->k);
	npu_buffer_free(h->scales);
	npu_buffer_free(h->scores);
}

static int quantised(float x, float s)
{
	float q = nearbyintf(x / s);

	return (int)(q > 127 ? 127 : q < -127 ? -127 : q);
}

/* Row @r of graph head @i at @column. */
static int16_t expected(const struct heads *h, uint32_t i, uint32_t r, uint32_t column)
{
	uint32_t head = h->pick[i], shift = vnpu_qk_shift(h->dim);
	const float *q = (float *)npu_buffer_data(h->q) + ((size_t)r * h->all + head) * h->dim;
	const int8_t *k = (int8_t *)npu_buffer_data(h->k) + head * panels_bytes(h) +
			  column / 64 * VNPU_QK_PANEL_BYTES(h->dim) + column % 64 * 4;
	int acc = 0, s;
	bool bad = false;

	for (uint32_t d = 0; d < h->dim; d++)
		bad |= !isfinite(q[d]);
	for (uint32_t d = 0; d < h->dim && !bad; d++)
		acc += quantised(q[d], h->scale[i]) * k[d / 4 * 256 + d % 4];
	s = (acc + (1 << shift >> 1)) >> shift;
	return (int16_t)(s > INT16_MAX ? INT16_MAX : s < INT16_MIN ? INT16_MIN : s);
}

static void heads_check(const struct heads *h, uint32_t pos)
{
	for (uint32_t i = 0; i < h->nr; i++) {
		const int16_t *scores = (int16_t *)npu_buffer_data(h->scores) +
					h->pick[i] * scores_bytes(h) / sizeof(int16_t);

		for (uint32_t r = 0; r < h->rows; r++) {
			uint32_t seen = (pos + r + 64) / 64 * 64;

			for (uint32_t c = 0; c < h->lds; c++)
				assert_int_equal(scores[(size_t)r * h->lds + c],
						 c < seen ? expected(h, i, r, c) : UNTOUCHED);
		}
	}
}

static void heads_run(struct heads *h, struct fixture *f, uint32_t pos)
{
	int16_t *scores = npu_buffer_data(h->scores);

	for (uint32_t i = 0; i < h->nr; i++) {
		h->scale[i] = (float)random_in(1, 100) / 5000;
		memcpy((uint8_t *)npu_buffer_data(h->scales) + i * 64ul, &h->scale[i], 4);
	}
	for (size_t i = 0; i < h->all * scores_bytes(h) / sizeof(int16_t); i++)
		scores[i] = UNTOUCHED;
	npu_ok(npu_job_param(h->job, "pos", pos));
	npu_ok(fixture_run(f, h->job));
	heads_check(h, pos);
}

static void heads_share_a_launch_bit_for_bit(void **state)
{
	static const uint32_t numbers[] = { 1, 2, 4 };
	struct fixture *f = *state;
	struct heads h;

	random_begin(__func__);
	for (int i = 0; i < 3 * ROUNDS; i++) {
		float *q;

		heads_make(&h, f, numbers[i % 3]);
		q = npu_buffer_data(h.q);
		if (i % 4 == 1)
			q[random_in(0, h.rows * h.all * h.dim - 1)] = i % 8 == 1 ? NAN : INFINITY;
		heads_run(&h, f, 0);
		heads_run(&h, f, h.ctx - h.rows);
		heads_run(&h, f, random_in(0, h.ctx - h.rows));
		/* The last row is the first of a panel, the first row the last of one. */
		if ((65 - h.rows % 64) % 64 + h.rows <= h.ctx)
			heads_run(&h, f, (65 - h.rows % 64) % 64);
		if (63 + h.rows <= h.ctx)
			heads_run(&h, f, 63);
		heads_free(&h);
	}
}

static void heads_run_between_the_same_barriers(void **state)
{
	struct heads h = { .nr = 4, .all = 4, .rows = 32, .dim = 64, .ctx = 256, .lds = 256 };
	struct npu_graph *g = heads_graph(&h);
	struct npu_image_info info;
	size_t bytes;
	void *image;

	npu_ok(npu_graph_compile(g, &image, &bytes));
	npu_ok(npu_image_info(image, bytes, &info));
	/* Four QUANT_STATICs, a barrier, four QK_I8s, END. */
	assert_int_equal(info.nr_cmds, 10);
	assert_int_equal(info.isa_version, 1 << 16 | 9);
	assert_int_equal(info.macs, 4 * 32 * 256 * 64);
	free(image);
	npu_graph_free(g);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void positions_beyond_the_keys_are_refused(void **state)
{
	struct fixture *f = *state;
	struct heads h;

	random_begin(__func__);
	heads_make(&h, f, 1);
	npu_ok(npu_job_param(h.job, "pos", h.ctx - h.rows + 1));
	assert_int_equal(fixture_run(f, h.job), -EINVAL);
	heads_free(&h);
}

static void operands_that_do_not_fit_are_refused(void **state)
{
	static const struct {
		uint32_t q_cols, rows, k_cols, shift;
		int pos;
		enum npu_dtype q, k;
		const char *why;
	} cases[] = {
		{ 60, 3, 64, 5, 0, NPU_S8, NPU_K8_PANEL, "'k' is 128 x 64, not 128 x 60" },
		{ 64, 129, 64, 5, 0, NPU_S8, NPU_K8_PANEL, "129 queries, 128 positions" },
		{ 64, 3, 64, 17, 0, NPU_S8, NPU_K8_PANEL, "shift 17 of at most 16" },
		{ 64, 3, 64, 5, 1, NPU_S8, NPU_K8_PANEL, "param 1 does not exist" },
		{ 64, 3, 64, 5, 0, NPU_F32, NPU_K8_PANEL, "'q' is f32, not s8" },
		{ 64, 3, 64, 5, 0, NPU_S8, NPU_S8, "'k' is s8, not k8" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct npu_graph *g = npu_graph_create("bad");
		size_t bytes;
		void *image;

		npu_graph_param(g, "pos");
		assert_null(npu_qk_i8(
			g, npu_graph_input(g, "q", cases[i].q, cases[i].rows, cases[i].q_cols),
			npu_graph_input(g, "k", cases[i].k, 128, cases[i].k_cols), cases[i].shift,
			cases[i].pos));
		npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL, cases[i].why);
		npu_graph_free(g);
	}
}

static void tensors_of_wrong_shapes_are_refused(void **state)
{
	struct npu_graph *g = npu_graph_create("k");

	assert_null(npu_graph_input(g, "k", NPU_K8_PANEL, 65, 64));
	assert_non_null(strstr(npu_error(), "65 positions of 64 values"));
	npu_graph_free(g);
	g = npu_graph_create("k");
	assert_null(npu_graph_input(g, "k", NPU_K8_PANEL, 64, VNPU_MAX_HEAD_DIM + 1));
	npu_graph_free(g);
	for (int i = 0; i < 2; i++) {
		g = npu_graph_create("x");
		assert_null(npu_graph_input_columns(g, "x", 4, 64, i ? 63 : VNPU_MAX_DIM + 1));
		assert_non_null(strstr(npu_error(), "narrower than the input, or too wide"));
		npu_graph_free(g);
	}
	g = npu_graph_create("lds");
	assert_null(npu_graph_output_columns(g, "y",
					     npu_qk_i8(g, npu_graph_input(g, "q", NPU_S8, 1, 8),
						       npu_graph_input(g, "k", NPU_K8_PANEL, 64, 8),
						       0, NPU_NO_PARAM),
					     96));
	assert_non_null(strstr(npu_error(), "no multiple of 64"));
	npu_graph_free(g);
}

/* Operators read columns where they are; a norm per head would not. */
static void operators_read_columns_of_a_wider_matrix(void **state)
{
	float x[3 * 10], want[3 * 4], got[3 * 4];
	struct run_binding bindings[] = { { "x", x, NULL, (2 * 10 + 4) * 4 },
					  { "y", NULL, got, sizeof(got) } };
	struct npu_graph *g = npu_graph_create("columns");
	struct npu_tensor *t = npu_graph_input_columns(g, "x", 3, 4, 10);
	float one[2] = { 1, 1 };

	for (int i = 0; i < 30; i++)
		x[i] = (float)i;
	for (int i = 0; i < 12; i++)
		want[i] = 2 * x[i / 4 * 10 + i % 4];
	npu_graph_output(g, "y", npu_add(g, t, t));
	npu_ok(run_graph(*state, g, bindings, 2, NULL, 0));
	assert_memory_equal(got, want, sizeof(want));
	g = npu_graph_create("norm");
	t = npu_graph_input_columns(g, "x", 3, 4, 10);
	assert_null(npu_rmsnorm(g, t, npu_graph_const(g, "w", one, 1, 2), 1e-5f));
	assert_non_null(strstr(npu_error(), "a norm per head needs them dense"));
	npu_graph_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heads_share_a_launch_bit_for_bit),
		cmocka_unit_test(heads_run_between_the_same_barriers),
		cmocka_unit_test(positions_beyond_the_keys_are_refused),
		cmocka_unit_test(operands_that_do_not_fit_are_refused),
		cmocka_unit_test(tensors_of_wrong_shapes_are_refused),
		cmocka_unit_test(operators_read_columns_of_a_wider_matrix),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
