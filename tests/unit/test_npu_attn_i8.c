// SPDX-License-Identifier: MIT
/* Graphs of ATTN_I8: KV heads side by side, with queries and results in columns of one matrix. */
#include <errno.h>

#include <npu/vnpu_isa.h>

#include "npu_matrix.h"

#define KV_HEADS 2

/* Operands of a layer with KV_HEADS; the keys and values are whole numbers from the start. */
struct layer {
	uint32_t rows, group, dim, ctx, ld;
	float scale, scales[KV_HEADS][3];
	struct npu_buffer *q, *y, *k, *v, *s;
	struct npu_job *job;
};

static struct npu_graph *layer_graph(const struct layer *l)
{
	struct npu_graph *g = npu_graph_create("attention");
	int pos = npu_graph_param(g, "pos");
	char name[5][16];

	for (uint32_t h = 0; h < KV_HEADS; h++) {
		struct npu_tensor *q, *k, *v, *s;

		for (int n = 0; n < 5; n++)
			snprintf(name[n], sizeof(name[n]), "%c%u", "qkvsy"[n], h);
		q = npu_graph_input_columns(g, name[0], l->rows, l->group * l->dim, l->ld);
		k = npu_graph_input(g, name[1], NPU_K8_PANEL, l->ctx, l->dim);
		v = npu_graph_input(g, name[2], NPU_V8_PANEL, l->ctx, l->dim);
		s = npu_graph_input(g, name[3], NPU_F32, 1, 3);
		npu_graph_output_columns(
			g, name[4], npu_attn_i8(g, q, k, v, s, l->group, l->scale, pos), l->ld);
	}
	return g;
}

static void bind(struct npu_job *job, char what, uint32_t h, struct npu_buffer *b, size_t at,
		 size_t bytes)
{
	char name[16];

	snprintf(name, sizeof(name), "%c%u", what, h);
	npu_ok(npu_job_bind(job, name, b, at, bytes));
}

static size_t k_bytes(const struct layer *l)
{
	return l->ctx / VNPU_QK_PANEL * VNPU_QK_PANEL_BYTES(l->dim);
}

static void layer_bind(struct layer *l)
{
	size_t head = l->group * l->dim * 4ul, rows = ((l->rows - 1) * (size_t)l->ld) * 4 + head;

	for (uint32_t h = 0; h < KV_HEADS; h++) {
		bind(l->job, 'q', h, l->q, h * head, rows);
		bind(l->job, 'y', h, l->y, h * head, rows);
		bind(l->job, 'k', h, l->k, h * k_bytes(l), k_bytes(l));
		bind(l->job, 'v', h, l->v, h * VNPU_PV_BYTES(l->ctx, l->dim),
		     VNPU_PV_BYTES(l->ctx, l->dim));
		bind(l->job, 's', h, l->s, h * 64, 12);
		for (int i = 0; i < 3; i++)
			l->scales[h][i] = (float)random_in(5, 20) / 1000;
		memcpy((uint8_t *)npu_buffer_data(l->s) + h * 64, l->scales[h], 12);
	}
}

static void random_numbers(struct npu_buffer *b)
{
	int8_t *p = npu_buffer_data(b);

	for (size_t i = 0; i < npu_buffer_size(b); i++)
		p[i] = (int8_t)(random_in(0, 254) - 127);
}

static void layer_make(struct layer *l, struct fixture *f)
{
	l->rows = random_in(1, 40);
	l->group = random_in(1, 3);
	l->dim = 16 * random_in(1, 9);
	l->ctx = 64 * random_in(1, 4);
	l->ld = KV_HEADS * l->group * l->dim;
	l->scale = 1 / sqrtf((float)l->dim);
	npu_ok(npu_buffer_create(f->ctx, (size_t)l->rows * l->ld * 4, 0, &l->q));
	npu_ok(npu_buffer_create(f->ctx, (size_t)l->rows * l->ld * 4, 0, &l->y));
	npu_ok(npu_buffer_create(f->ctx, KV_HEADS * k_bytes(l), 0, &l->k));
	npu_ok(npu_buffer_create(f->ctx, KV_HEADS * VNPU_PV_BYTES(l->ctx, l->dim), 0, &l->v));
	npu_ok(npu_buffer_create(f->ctx, KV_HEADS * 64, 0, &l->s));
	random_floats(npu_buffer_data(l->q), (size_t)l->rows * l->ld);
	random_numbers(l->k);
	random_numbers(l->v);
	l->job = fixture_job(f->ctx, layer_graph(l));
	layer_bind(l);
}

static void layer_free(struct layer *l)
{
	npu_job_free(l->job);
	npu_buffer_free(l->q);
	npu_buffer_free(l->y);
	npu_buffer_free(l->k);
	npu_buffer_free(l->v);
	npu_buffer_free(l->s);
}

static double key(const struct layer *l, uint32_t h, uint32_t j, uint32_t d)
{
	const int8_t *k = (int8_t *)npu_buffer_data(l->k) + h * k_bytes(l);

	return k[j / 64 * VNPU_QK_PANEL_BYTES(l->dim) + d / 4 * 256 + j % 64 * 4 + d % 4];
}

static double value(const struct layer *l, uint32_t h, uint32_t j, uint32_t d)
{
	const int8_t *v = (int8_t *)npu_buffer_data(l->v) + h * VNPU_PV_BYTES(l->ctx, l->dim);

	return v[j / 4 * 4 * l->dim + d * 4 + j % 4];
}

/* The attention of the whole numbers with weights in steps of 1/127, in double precision. */
static void head_check(const struct layer *l, uint32_t h, uint32_t i, uint32_t r, uint32_t pos)
{
	size_t at = (size_t)r * l->ld + (h * l->group + i) * l->dim;
	const float *q = (float *)npu_buffer_data(l->q) + at,
		    *y = (float *)npu_buffer_data(l->y) + at, *s = l->scales[h];
	double w[256], max = -INFINITY, sum = 0, want, step;

	for (uint32_t j = 0; j <= pos + r; j++) {
		w[j] = 0;
		for (uint32_t d = 0; d < l->dim; d++)
			w[j] += fmax(-127, fmin(127, nearbyintf(q[d] / s[0]))) * key(l, h, j, d);
		max = fmax(max, w[j]);
	}
	for (uint32_t j = 0; j <= pos + r; j++)
		sum += w[j] = nearbyint(exp((w[j] - max) * s[0] * s[1] * l->scale) * 127);
	/* A score's rounding may move some weights by a step or two. */
	step = 127 * s[2] * 4 * (pos + r + 1) / sum;
	for (uint32_t d = 0; d < l->dim; d++) {
		want = 0;
		for (uint32_t j = 0; j <= pos + r; j++)
			want += w[j] * value(l, h, j, d) * s[2] / sum;
		if (!(fabs(y[d] - want) <= fmin(step, 0.2 * 127 * s[2])))
			fail_msg("head %u.%u row %u column %u: %g, not %g", h, i, r, d,
				 (double)y[d], want);
	}
}

static void kv_heads_attend_side_by_side(void **state)
{
	struct layer l;

	random_begin(__func__);
	for (int round = 0; round < ROUNDS; round++) {
		uint32_t pos;

		layer_make(&l, *state);
		pos = random_in(0, l.ctx - l.rows);
		npu_ok(npu_job_param(l.job, "pos", pos));
		npu_ok(fixture_run(*state, l.job));
		for (uint32_t h = 0; h < KV_HEADS; h++)
			for (uint32_t i = 0; i < l.group; i++)
				for (uint32_t r = 0; r < l.rows; r++)
					head_check(&l, h, i, r, pos);
		layer_free(&l);
	}
}

static void operands_that_do_not_fit_are_refused(void **state)
{
	static const struct {
		uint32_t q_cols, rows, ctx, v_cols, scales, heads;
		float scale;
		const char *why;
	} cases[] = {
		{ 120, 3, 128, 64, 3, 2, 1, "q 3 x 120 in 2 heads, keys 128 x 64" },
		{ 128, 129, 128, 64, 3, 2, 1, "q 129 x 128 in 2 heads, keys 128 x 64" },
		{ 128, 3, VNPU_MAX_K_I8 + 64, 64, 3, 2, 1, "keys 65600 x 64" },
		{ 128, 3, 128, 60, 3, 2, 1, "'v' is 128 x 60, not 128 x 64" },
		{ 128, 3, 128, 64, 1, 2, 1, "'s' is 1 x 1, not 1 x 3" },
		{ 128, 3, 128, 64, 3, 0, 1, "in 0 heads" },
		{ 128, 3, 128, 64, 3, 2, 0, "scale 0 is not above 0" },
		{ 128, 3, 128, 64, 3, 2, NAN, "nan is not a finite number" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct npu_graph *g = npu_graph_create("bad");
		size_t bytes;
		void *image;

		assert_null(npu_attn_i8(
			g, npu_graph_input(g, "q", NPU_F32, cases[i].rows, cases[i].q_cols),
			npu_graph_input(g, "k", NPU_K8_PANEL, cases[i].ctx, 64),
			npu_graph_input(g, "v", NPU_V8_PANEL, cases[i].ctx, cases[i].v_cols),
			npu_graph_input(g, "s", NPU_F32, 1, cases[i].scales), cases[i].heads,
			cases[i].scale, NPU_NO_PARAM));
		npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL, cases[i].why);
		npu_graph_free(g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kv_heads_attend_side_by_side),
		cmocka_unit_test(operands_that_do_not_fit_are_refused),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
