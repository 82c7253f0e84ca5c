// SPDX-License-Identifier: MIT
/*
 * Graphs for token trees: ROPE_AT gives each row the position of its depth, and with the masks of
 * ATTN_MASK each row has the attention of its path, as if the path were a sequence of its own; with
 * windows and caps too.
 */
#include <errno.h>
#include <math.h>

#include "npu_matrix.h"

#define CTX 1400
#define MAX_ROWS 64

/* A step of a layer: queries and keys get their positions, keys and values go to the cache. */
struct tree {
	uint32_t rows, heads, kv_heads, dim, pos, window;
	float cap;
	uint32_t depths[MAX_ROWS], parents[MAX_ROWS];
	uint64_t mask[MAX_ROWS];
	float freq[32];
	struct matrix q, k, v, k_cache, v_cache;
};

static void tree_make(struct tree *t, bool chain)
{
	*t = (struct tree){ .rows = random_in(1, MAX_ROWS),
			    .kv_heads = random_in(1, 2),
			    .dim = 2 * random_in(1, 32) };
	t->heads = t->kv_heads * random_in(1, 3);
	t->pos = random_in(0, random_in(0, 1) ? CTX - t->rows : 100);
	t->window = random_in(0, 1) ? random_in(1, random_in(0, 1) ? 20 : t->pos + 70) : 0;
	t->cap = random_in(0, 2) ? 0 : 0.1f + fabsf(random_float());
	for (uint32_t i = 0; i < t->rows; i++) {
		t->parents[i] = !i ? 0 : chain || random_in(0, 1) ? i - 1 : random_in(0, i - 1);
		t->depths[i] = i ? t->depths[t->parents[i]] + 1 : 0;
		t->mask[i] = 1ull << i | (i ? t->mask[t->parents[i]] : 0);
	}
	for (uint32_t i = 0; i < t->dim / 2; i++)
		t->freq[i] = powf(10000, -2.0f * (float)i / (float)t->dim);
	t->q = matrix_new((size_t)t->rows * t->heads * t->dim);
	t->k = matrix_new((size_t)t->rows * t->kv_heads * t->dim);
	t->v = matrix_new(t->k.n);
	t->k_cache = matrix_new((size_t)CTX * t->kv_heads * t->dim);
	t->v_cache = matrix_new(t->k_cache.n);
}

static void tree_free(struct tree *t)
{
	matrix_free(&t->q);
	matrix_free(&t->k);
	matrix_free(&t->v);
	matrix_free(&t->k_cache);
	matrix_free(&t->v_cache);
}

/* Rows at the positions of their depths, or at consecutive ones. */
static struct npu_tensor *place(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *freq,
				uint32_t heads, int pos, struct npu_tensor *depths)
{
	return depths ? npu_rope_at(g, x, freq, depths, heads, pos, NPU_ROPE_HALVES)
		      : npu_rope(g, x, freq, heads, pos, NPU_ROPE_HALVES);
}

/* Sets @y to the attention of all nodes: with positions and masks, or without. */
static void tree_run(struct tree *t, struct fixture *f, bool tree, float *y)
{
	struct npu_graph *g = npu_graph_create("tree");
	int pos = npu_graph_param(g, "pos");
	uint32_t cols = t->heads * t->dim, kv_cols = t->kv_heads * t->dim;
	struct npu_tensor *q = npu_graph_input(g, "q", NPU_F32, t->rows, cols),
			  *k = npu_graph_input(g, "k", NPU_F32, t->rows, kv_cols),
			  *v = npu_graph_input(g, "v", NPU_F32, t->rows, kv_cols),
			  *kc = npu_graph_state(g, "kc", NPU_F32, CTX, kv_cols),
			  *vc = npu_graph_state(g, "vc", NPU_F32, CTX, kv_cols), *depths = NULL,
			  *freq = npu_graph_const(g, "freq", t->freq, 1, t->dim / 2);
	float scale = 1 / sqrtf((float)t->dim);
	struct run_param param = { "pos", t->pos };
	struct run_binding bindings[] = {
		{ "q", t->q.f, NULL, t->q.n * 4 },
		{ "k", t->k.f, NULL, t->k.n * 4 },
		{ "v", t->v.f, NULL, t->v.n * 4 },
		{ "kc", t->k_cache.f, t->k_cache.got, t->k_cache.n * 4 },
		{ "vc", t->v_cache.f, t->v_cache.got, t->v_cache.n * 4 },
		{ "y", NULL, y, t->q.n * 4 },
		{ "depths", t->depths, NULL, t->rows * 4 },
		{ "mask", t->mask, NULL, t->rows * 8 },
	};
	struct npu_attn_options options = { .window = t->window, .cap = t->cap };

	if (tree) {
		depths = npu_graph_input(g, "depths", NPU_U32, t->rows, 1);
		options.mask = npu_graph_input(g, "mask", NPU_U64, t->rows, 1);
	}
	q = place(g, q, freq, t->heads, pos, depths);
	k = place(g, k, freq, t->kv_heads, pos, depths);
	npu_ok(npu_store_rows(g, k, kc, pos));
	npu_ok(npu_store_rows(g, v, vc, pos));
	q = npu_attn_mask(g, q, kc, vc, t->heads, t->kv_heads, scale, pos, &options);
	npu_graph_output(g, "y", q);
	npu_ok(run_graph(f, g, bindings, tree ? 8 : 6, &param, 1));
}

/* Query head @h of node @i in double precision, over the cache's rows of its path. */
static void node_want(struct tree *t, uint32_t i, uint32_t h)
{
	uint32_t kv = h / (t->heads / t->kv_heads), half = t->dim / 2, n = 0, d, j;
	const float *q = t->q.f + ((size_t)i * t->heads + h) * t->dim, *k;
	double *want = t->q.want + ((size_t)i * t->heads + h) * t->dim, turned[64], p[CTX], sum = 0,
	       angle;
	uint32_t rows[CTX];

	for (d = 0; d < half; d++) {
		angle = (double)(t->pos + t->depths[i]) * (double)t->freq[d];
		turned[d] = q[d] * cos(angle) - q[half + d] * sin(angle);
		turned[half + d] = q[d] * sin(angle) + q[half + d] * cos(angle);
	}
	for (j = 0; j < t->pos; j++)
		rows[n++] = j;
	for (j = 0; j < t->rows; j++)
		if (t->mask[i] >> j & 1)
			rows[n++] = t->pos + j;
	for (j = t->window && n > t->window ? n - t->window : 0; j; j--)
		memmove(rows, rows + 1, --n * sizeof(*rows));
	for (j = 0; j < n; j++) {
		k = t->k_cache.got + ((size_t)rows[j] * t->kv_heads + kv) * t->dim;
		for (p[j] = 0, d = 0; d < t->dim; d++)
			p[j] += turned[d] * (double)k[d];
		p[j] /= sqrt(t->dim);
		p[j] = t->cap > 0 ? (double)t->cap * tanh(p[j] / (double)t->cap) : p[j];
		sum += p[j] = exp(p[j]);
	}
	for (d = 0; d < t->dim; d++)
		for (want[d] = 0, j = 0; j < n; j++)
			want[d] += p[j] / sum *
				   (double)t->v_cache
					   .got[((size_t)rows[j] * t->kv_heads + kv) * t->dim + d];
}

static void each_node_has_the_attention_of_its_path(void **state)
{
	struct tree t;

	random_begin(__func__);
	for (int round = 0; round < 2 * ROUNDS; round++) {
		tree_make(&t, false);
		tree_run(&t, *state, true, t.q.got);
		for (uint32_t i = 0; i < t.rows; i++)
			for (uint32_t h = 0; h < t.heads; h++)
				node_want(&t, i, h);
		assert_near("tree", t.q.got, t.q.want, t.q.n, 2e-5);
		tree_free(&t);
	}
}

static void a_chain_has_the_bits_of_a_sequence(void **state)
{
	struct tree t;
	float *y;

	random_begin(__func__);
	for (int round = 0; round < ROUNDS; round++) {
		tree_make(&t, true);
		y = malloc(t.q.n * 4);
		tree_run(&t, *state, true, t.q.got);
		tree_run(&t, *state, false, y);
		assert_memory_equal(y, t.q.got, t.q.n * 4);
		free(y);
		tree_free(&t);
	}
}

/* Each position and mask is a number that the device must be able to use. */
static void any_positions_and_masks_give_numbers(void **state)
{
	struct tree t;

	random_begin(__func__);
	for (int round = 0; round < ROUNDS; round++) {
		tree_make(&t, false);
		for (uint32_t i = 0; i < t.rows; i++) {
			t.depths[i] = i % 2 ? UINT32_MAX - random_in(0, 3) : random_u32();
			t.mask[i] = i % 3 ? (uint64_t)random_u32() << 32 | random_u32() : 0;
		}
		tree_run(&t, *state, true, t.q.got);
		for (size_t i = 0; i < t.q.n; i++)
			assert_true(fabsf(t.q.got[i]) <= 1.001f);
		tree_free(&t);
	}
}

static void operands_that_do_not_fit_are_refused(void **state)
{
	static const struct {
		enum npu_dtype depths_type, mask_type;
		uint32_t depths, mask, rows;
		const char *why;
		float cap;
	} cases[] = {
		{ NPU_U32, NPU_U64, 4, 4, 4, "attn_mask: cap -1 is negative", -1 },
		{ NPU_U32, NPU_U64, 4, 4, 4, "attn_mask: nan is not a finite number", NAN },
		{ NPU_U32, NPU_U64, 3, 4, 4, "rope_at: 'depths' is 3 x 1, not 4 x 1", 0 },
		{ NPU_F32, NPU_U64, 4, 4, 4, "rope_at: 'depths' is f32, not u32", 0 },
		{ NPU_U32, NPU_U64, 4, 5, 4, "attn_mask: 'mask' is 5 x 1, not 4 x 1", 0 },
		{ NPU_U32, NPU_U32, 4, 4, 4, "attn_mask: 'mask' is u32, not u64", 0 },
		{ NPU_U32, NPU_U64, 65, 65, 65, "attn_mask: 65 rows, with a mask at most 64", 0 },
		{ NPU_U32, NPU_U64, 4, 4, 4, "attn_mask: q 4 x 8 in 3 heads", 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct npu_graph *g = npu_graph_create("bad");
		struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, cases[i].rows, 8);
		struct npu_attn_options options = { .cap = cases[i].cap };
		size_t bytes;
		void *image;

		x = npu_rope_at(
			g, x, npu_graph_weight(g, "f", NPU_F32, 1, 2),
			npu_graph_input(g, "depths", cases[i].depths_type, cases[i].depths, 1), 2,
			NPU_NO_PARAM, NPU_ROPE_ADJACENT);
		options.mask = npu_graph_input(g, "mask", cases[i].mask_type, cases[i].mask, 1);
		assert_null(npu_attn_mask(g, x, npu_graph_state(g, "k", NPU_F32, 80, 8),
					  npu_graph_state(g, "v", NPU_F32, 80, 8), 3, 1, 1,
					  NPU_NO_PARAM, &options));
		npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL, cases[i].why);
		npu_graph_free(g);
	}
}

static void heads_that_are_too_long_are_refused(void **state)
{
	struct npu_graph *g = npu_graph_create("bad");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 4, 513);
	const struct npu_attn_options options = {
		.mask = npu_graph_input(g, "mask", NPU_U64, 4, 1),
	};
	size_t bytes;
	void *image;

	assert_null(npu_attn_mask(g, x, npu_graph_state(g, "k", NPU_F32, 80, 513),
				  npu_graph_state(g, "v", NPU_F32, 80, 513), 1, 1, 1, NPU_NO_PARAM,
				  &options));
	npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL,
		  "attn_mask: heads of 513 values, with a mask at most 512");
	npu_graph_free(g);
}

static void attention(const struct npu_attn_options *options, bool plain, void **image,
		      size_t *bytes)
{
	struct npu_graph *g = npu_graph_create("attention");
	struct npu_tensor *q = npu_graph_input(g, "q", NPU_F32, 3, 16),
			  *k = npu_graph_state(g, "k", NPU_F32, 80, 8),
			  *v = npu_graph_state(g, "v", NPU_F32, 80, 8);

	npu_graph_output(g, "y",
			 plain ? npu_attn(g, q, k, v, 2, 1, 1, NPU_NO_PARAM)
			       : npu_attn_mask(g, q, k, v, 2, 1, 1, NPU_NO_PARAM, options));
	npu_ok(npu_graph_compile(g, image, bytes));
	npu_graph_free(g);
}

static void without_options_the_command_is_that_of_plain_attention(void **state)
{
	const struct npu_attn_options none = { 0 };
	size_t want_bytes, bytes;
	void *want, *image;

	attention(NULL, true, &want, &want_bytes);
	for (int i = 0; i < 2; i++) {
		attention(i ? &none : NULL, false, &image, &bytes);
		assert_int_equal(bytes, want_bytes);
		assert_memory_equal(image, want, bytes);
		free(image);
	}
	free(want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_node_has_the_attention_of_its_path),
		cmocka_unit_test(a_chain_has_the_bits_of_a_sequence),
		cmocka_unit_test(any_positions_and_masks_give_numbers),
		cmocka_unit_test(operands_that_do_not_fit_are_refused),
		cmocka_unit_test(heads_that_are_too_long_are_refused),
		cmocka_unit_test(without_options_the_command_is_that_of_plain_attention),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
