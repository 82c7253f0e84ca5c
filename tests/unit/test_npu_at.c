// SPDX-License-Identifier: MIT
/*
 * Graphs of chosen rows: ROPE_AT and ATTN_AT give a row, whatever rows are beside it, the bits that
 * it has among all rows up to it.
 */
#include <errno.h>
#include <math.h>

#include "npu_matrix.h"

#define CTX 700
#define MAX_ROWS 90

/* Some rows of a chunk of @span rows behind @pos. */
struct chosen {
	uint32_t rows, span, heads, kv_heads, dim, pos, window;
	float cap;
	uint32_t at[MAX_ROWS];
	float freq[32];
	struct matrix q, k_cache, v_cache; /* q: of all rows of the chunk */
};

static void chosen_make(struct chosen *c)
{
	*c = (struct chosen){ .rows = random_in(1, MAX_ROWS),
			      .span = random_in(1, 300),
			      .kv_heads = random_in(1, 3),
			      .dim = 2 * random_in(1, 32) };
	c->heads = c->kv_heads * random_in(1, 4);
	c->pos = random_in(0, CTX - c->span);
	c->window = random_in(0, 1) ? random_in(1, 400) : 0;
	c->cap = random_in(0, 2) ? 0 : 0.1f + fabsf(random_float());
	for (uint32_t i = 0; i < c->rows; i++)
		c->at[i] = random_in(0, c->span - 1);
	for (uint32_t i = 0; i < c->dim / 2; i++)
		c->freq[i] = powf(10000, -2.0f * (float)i / (float)c->dim);
	c->q = matrix_new((size_t)c->span * c->heads * c->dim);
	c->k_cache = matrix_new((size_t)CTX * c->kv_heads * c->dim);
	c->v_cache = matrix_new(c->k_cache.n);
}

static void chosen_free(struct chosen *c)
{
	matrix_free(&c->q);
	matrix_free(&c->k_cache);
	matrix_free(&c->v_cache);
}

/* Sets @y to the attention of rows @q: the chosen ones, or @at NULL: all of them. */
static void chosen_run(struct chosen *c, struct fixture *f, float *q, uint32_t *at, float *y)
{
	struct npu_graph *g = npu_graph_create("chosen");
	uint32_t rows = at ? c->rows : c->span, cols = c->heads * c->dim,
		 kv_cols = c->kv_heads * c->dim;
	int pos = npu_graph_param(g, "pos");
	struct npu_tensor *x = npu_graph_input(g, "q", NPU_F32, rows, cols), *positions,
			  *kc = npu_graph_state(g, "kc", NPU_F32, CTX, kv_cols),
			  *vc = npu_graph_state(g, "vc", NPU_F32, CTX, kv_cols),
			  *freq = npu_graph_const(g, "freq", c->freq, 1, c->dim / 2);
	struct npu_attn_options options = { .window = c->window, .cap = c->cap };
	struct npu_attn_positions chosen = { .span = c->span, .window = c->window, .cap = c->cap };
	float scale = 1 / sqrtf((float)c->dim);
	struct run_param param = { "pos", c->pos };
	struct run_binding bindings[] = {
		{ "q", q, NULL, (size_t)rows * cols * 4 },
		{ "kc", c->k_cache.f, c->k_cache.got, c->k_cache.n * 4 },
		{ "vc", c->v_cache.f, c->v_cache.got, c->v_cache.n * 4 },
		{ "y", NULL, y, (size_t)rows * cols * 4 },
		{ "positions", at, NULL, (size_t)rows * 4 },
	};

	if (at) {
		chosen.positions = positions = npu_graph_input(g, "positions", NPU_U32, rows, 1);
		x = npu_rope_at(g, x, freq, positions, c->heads, pos, NPU_ROPE_HALVES);
		x = npu_attn_at(g, x, kc, vc, c->heads, c->kv_heads, scale, pos, &chosen);
	} else {
		x = npu_rope(g, x, freq, c->heads, pos, NPU_ROPE_HALVES);
		x = npu_attn_mask(g, x, kc, vc, c->heads, c->kv_heads, scale, pos, &options);
	}
	npu_graph_output(g, "y", x);
	npu_ok(run_graph(f, g, bindings, at ? 5 : 4, &param, 1));
}

static void chosen_rows_have_the_bits_that_they_have_among_all(void **state)
{
	struct chosen c;

	random_begin(__func__);
	for (int round = 0; round < ROUNDS; round++) {
		size_t cols;
		float *q, *y;

		chosen_make(&c);
		cols = (size_t)c.heads * c.dim;
		q = malloc(c.rows * cols * 4);
		y = malloc(c.rows * cols * 4);
		for (uint32_t r = 0; r < c.rows; r++)
			memcpy(q + r * cols, c.q.f + c.at[r] * cols, cols * 4);
		chosen_run(&c, *state, c.q.f, NULL, c.q.got);
		chosen_run(&c, *state, q, c.at, y);
		for (uint32_t r = 0; r < c.rows; r++)
			assert_memory_equal(y + r * cols, c.q.got + c.at[r] * cols, cols * 4);
		free(q);
		free(y);
		chosen_free(&c);
	}
}

static void operands_that_do_not_fit_are_refused(void **state)
{
	static const struct {
		enum npu_dtype type;
		uint32_t positions, span;
		float cap;
		const char *why;
	} cases[] = {
		{ NPU_U32, 4, 8, -1, "attn_at: cap -1 is negative" },
		{ NPU_U32, 4, 8, NAN, "attn_at: nan is not a finite number" },
		{ NPU_U32, 3, 8, 0, "attn_at: 'positions' is 3 x 1, not 4 x 1" },
		{ NPU_F32, 4, 8, 0, "attn_at: 'positions' is f32, not u32" },
		{ NPU_U32, 4, 0, 0, "attn_at: a span of 0 in a cache of 80 rows" },
		{ NPU_U32, 4, 81, 0, "attn_at: a span of 81 in a cache of 80 rows" },
		{ NPU_U32, 4, 80, 0, "attn_at: q 4 x 8 in 3 heads" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct npu_graph *g = npu_graph_create("bad");
		struct npu_tensor *q = npu_graph_input(g, "q", NPU_F32, 4, 8);
		struct npu_attn_positions at = {
			.positions = npu_graph_input(g, "positions", cases[i].type,
						     cases[i].positions, 1),
			.span = cases[i].span,
			.cap = cases[i].cap,
		};
		size_t bytes;
		void *image;

		assert_null(npu_attn_at(g, q, npu_graph_state(g, "k", NPU_F32, 80, 8),
					npu_graph_state(g, "v", NPU_F32, 80, 8), 3, 1, 1,
					NPU_NO_PARAM, &at));
		npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL, cases[i].why);
		npu_graph_free(g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chosen_rows_have_the_bits_that_they_have_among_all),
		cmocka_unit_test(operands_that_do_not_fit_are_refused),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
