// SPDX-License-Identifier: MIT
/* Weights of 1 to 8 bits: packed as the instruction set says, and built, compiled and run. */
#include "fw_data.h"
#include "npu_matrix.h"

/* ---- packing ---- */

struct wk {
	uint32_t n, k;
	uint8_t *bits, *packed;
	int8_t *q;
	float *scales;
	size_t bytes;
};

/* @width 0: a random width for each channel. */
static void wk_make(struct wk *x, uint32_t n, uint32_t k, uint8_t width)
{
	uint32_t n0 = n > 64 ? 64 : 0;

	*x = (struct wk){
		n, k, malloc(n), NULL, malloc((size_t)n * k), malloc(n * sizeof(float)), 0
	};
	rng_state = random_u32();
	for (uint32_t i = 0; i < n; i++) {
		x->bits[i] = width ? width : (uint8_t)random_in(1, 8);
		x->scales[i] = random_float() * 0.01f;
		for (uint32_t j = 0; j < k; j++)
			x->q[(size_t)i * k + j] = random_wk(x->bits[i]);
	}
	x->bytes = npu_wk_bytes(n, k, x->bits);
	assert_true(x->bytes > 0);
	x->packed = aligned_alloc(64, x->bytes);
	/* In two steps, as a loader does. */
	memset(x->packed, 0xa5, x->bytes);
	npu_pack_wk(x->packed, n, k, x->bits, n0, n - n0, x->q + (size_t)n0 * k, x->scales + n0);
	if (n0)
		npu_pack_wk(x->packed, n, k, x->bits, 0, n0, x->q, x->scales);
}

static void wk_free(struct wk *x)
{
	free(x->bits);
	free(x->packed);
	free(x->q);
	free(x->scales);
}

/* The largest width of each 64 channels. */
static void panel_bits(const struct wk *x, uint32_t *bits)
{
	for (uint32_t p = 0; p < (x->n + 63) / 64; p++)
		bits[p] = 0;
	for (uint32_t i = 0; i < x->n; i++)
		if (bits[i / 64] < x->bits[i])
			bits[i / 64] = x->bits[i];
}

/*
 * Padding, which the instruction set leaves undefined, is compared as the header has it: 0, and -1
 * with 1 bit.
 */
static void panels_are_packed_as_the_instruction_set_says(void **state)
{
	uint8_t *want;
	float *scales;
	uint32_t bits[5];
	struct wk x;
	int8_t *q;

	random_begin(__func__);
	for (int i = 0; i < 60; i++) {
		uint32_t k8, n64;

		wk_make(&x, random_in(1, 300), random_in(1, 100), (uint8_t)(i % 9));
		k8 = (x.k + 7) / 8 * 8;
		n64 = (x.n + 63) / 64 * 64;
		panel_bits(&x, bits);
		assert_int_equal(x.bytes, wk_bytes(bits, x.n, x.k));
		/* Each panel with padding: sums do not include the padding beyond k. */
		q = malloc((size_t)n64 * k8);
		scales = calloc(n64, sizeof(float));
		memcpy(scales, x.scales, x.n * sizeof(float));
		for (uint32_t c = 0; c < n64; c++)
			for (uint32_t j = 0; j < k8; j++)
				q[c * k8 + j] = c < x.n && j < x.k  ? x.q[c * x.k + j]
						: bits[c / 64] == 1 ? -1
								    : 0;
		want = malloc(x.bytes);
		pack_wk(want, q, scales, bits, n64, k8);
		for (uint32_t c = 0; c < n64; c++) {
			uint8_t *sums = want +
					((struct vnpu_wk_panel *)want)[c / 64].offset * 64ull +
					VNPU_PANEL_WK_BYTES(x.k, bits[c / 64]) - 512;
			int32_t sum = 0;

			for (uint32_t j = 0; c < x.n && j < x.k; j++)
				sum += x.q[c * x.k + j];
			memcpy(sums + c % 64 * 4, &sum, 4);
		}
		assert_memory_equal(x.packed, want, x.bytes);
		free(want);
		free(q);
		free(scales);
		wk_free(&x);
	}
}

static void channels_come_back_from_their_panels(void **state)
{
	int8_t row[200];
	struct wk x;
	float scale;

	random_begin(__func__);
	for (int i = 0; i < 18; i++) {
		wk_make(&x, random_in(1, 200), random_in(1, 200), (uint8_t)(i % 9));
		for (uint32_t c = 0; c < x.n; c++) {
			npu_unpack_wk(x.packed, x.k, c, row, &scale);
			assert_memory_equal(row, x.q + c * x.k, x.k);
			assert_memory_equal(&scale, &x.scales[c], sizeof(scale));
		}
		wk_free(&x);
	}
}

static void numbers_out_of_a_width_s_range_become_the_nearest(void **state)
{
	static const int8_t in[] = { -128, -5, -4, -1, 0, 1, 3, 4, 127 };
	static const int8_t out[][9] = {
		[1] = { -1, -1, -1, -1, -1, 1, 1, 1, 1 },
		[2] = { -2, -2, -2, -1, 0, 1, 1, 1, 1 },
		[3] = { -4, -4, -4, -1, 0, 1, 3, 3, 3 },
		[8] = { -128, -5, -4, -1, 0, 1, 3, 4, 127 },
	};
	static const uint8_t widths[] = { 1, 2, 3, 8 };
	_Alignas(64) uint8_t packed[4096];
	float one = 1, scale;
	int8_t row[9];

	for (size_t i = 0; i < sizeof(widths); i++) {
		assert_true(npu_wk_bytes(1, 9, &widths[i]) <= sizeof(packed));
		npu_pack_wk(packed, 1, 9, &widths[i], 0, 1, in, &one);
		npu_unpack_wk(packed, 9, 0, row, &scale);
		assert_memory_equal(row, out[widths[i]], 9);
		assert_true(scale == 1);
	}
}

static void sizes_are_those_of_the_widest_of_each_panel(void **state)
{
	uint8_t bits[130];

	memset(bits, 3, sizeof(bits));
	assert_int_equal(npu_wk_bytes(130, 64, bits), 64 + 3 * (8 * 64 * 3 + 512));
	bits[64] = 5;
	assert_int_equal(npu_wk_bytes(130, 64, bits),
			 64 + 2 * (8 * 64 * 3 + 512) + 8 * 64 * 5 + 512);
	assert_int_equal(npu_wk_bytes(130, 57, bits), npu_wk_bytes(130, 64, bits));
	assert_int_equal(npu_wk_bytes(1, 1, bits), 64 + 64 * 3 + 512);
	bits[129] = 0;
	assert_int_equal(npu_wk_bytes(130, 64, bits), 0);
	assert_int_equal(npu_wk_bytes(129, 64, bits),
			 64 + 2 * (8 * 64 * 3 + 512) + 8 * 64 * 5 + 512);
	bits[129] = 9;
	assert_int_equal(npu_wk_bytes(130, 64, bits), 0);
}

/* ---- running ---- */

/* Computes the graph's result in @c [m][n]. */
static void wk_run(struct fixture *f, const struct wk *x, uint32_t m, const int8_t *a,
		   const float *a_scale, const float *bias, float *c)
{
	struct npu_graph *g = npu_graph_create("wk");
	struct npu_tensor *q = npu_graph_input(g, "a", NPU_S8, m, x->k);
	struct npu_tensor *s = npu_graph_input(g, "scale", NPU_F32, m, 1);
	struct npu_tensor *w = npu_graph_weight_wk(g, "w", x->n, x->k, x->bits);
	struct npu_tensor *b = bias ? npu_graph_weight(g, "bias", NPU_F32, 1, x->n) : NULL;
	struct run_binding bindings[] = {
		{ "a", a, NULL, (size_t)m * ((x->k + 3) & ~3u) },
		{ "scale", a_scale, NULL, m * 4 },
		{ "w", x->packed, NULL, x->bytes },
		{ "c", NULL, c, (size_t)m * x->n * 4 },
		{ "bias", bias, NULL, x->n * 4 },
	};

	assert_int_equal(npu_tensor_bytes(w), x->bytes);
	npu_graph_output(g, "c", npu_matmul_wk(g, q, s, w, b));
	npu_ok(run_graph(f, g, bindings, bias ? 5 : 4, NULL, 0));
}

/* The same from the numbers, as MATMUL_I8 defines it: exact. */
static void wk_round(struct fixture *f, uint32_t m, uint32_t n, uint32_t k, uint8_t width)
{
	uint32_t ld = (k + 3) & ~3u;
	struct matrix scale = matrix_new(m), bias = matrix_new(n);
	float *c = malloc((size_t)m * n * 4), want;
	int8_t *a = malloc((size_t)m * ld);
	bool biased = random_u32() & 1;
	struct wk x;

	wk_make(&x, n, k, width);
	for (size_t i = 0; i < (size_t)m * ld; i++)
		a[i] = (int8_t)random_u32();
	wk_run(f, &x, m, a, scale.f, biased ? bias.f : NULL, c);
	for (uint32_t i = 0; i < m; i++) {
		for (uint32_t j = 0; j < n; j++) {
			int64_t acc = 0;

			for (uint32_t l = 0; l < k; l++)
				acc += a[i * ld + l] * x.q[(size_t)j * k + l];
			want = (float)acc * (scale.f[i] * x.scales[j]);
			if (biased)
				want += bias.f[j];
			if (c[(size_t)i * n + j] != want)
				fail_msg("m %u n %u k %u width %u: c[%u][%u] is %a, not %a", m, n,
					 k, width, i, j, c[(size_t)i * n + j], want);
		}
	}
	wk_free(&x);
	free(a);
	free(c);
	matrix_free(&scale);
	matrix_free(&bias);
}

static void matmuls_of_1_to_8_bits_are_exact(void **state)
{
	random_begin(__func__);
	wk_round(*state, 1, 1, 1, 1);
	for (int i = 0; i < 2 * ROUNDS; i++)
		wk_round(*state, random_in(1, 30), random_in(1, 300), random_in(1, 200),
			 (uint8_t)(i % 9));
	/* Many tiles in both directions, and the single row of decoding. */
	wk_round(*state, 150, 700, 300, 0);
	wk_round(*state, 1, 3000, 900, 0);
}

static void with_8_bits_the_result_has_the_bits_of_matmul_i8(void **state)
{
	struct fixture *f = *state;

	random_begin(__func__);
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t m = random_in(1, 40), ld;
		struct matrix scale = matrix_new(m);
		float *c, *want;
		uint8_t *w8;
		int8_t *a;
		struct wk x;

		wk_make(&x, random_in(1, 200), random_in(1, 300), 8);
		ld = (x.k + 3) & ~3u;
		a = malloc((size_t)m * ld);
		c = malloc((size_t)m * x.n * 4);
		want = malloc((size_t)m * x.n * 4);
		w8 = malloc(npu_w8_bytes(x.n, x.k));
		for (size_t j = 0; j < (size_t)m * ld; j++)
			a[j] = (int8_t)random_u32();
		npu_pack_w8(w8, x.n, x.k, 0, x.n, x.q, x.scales);

		struct npu_graph *g = npu_graph_create("i8");
		struct run_binding bindings[] = {
			{ "a", a, NULL, (size_t)m * ld },
			{ "scale", scale.f, NULL, m * 4 },
			{ "w", w8, NULL, npu_w8_bytes(x.n, x.k) },
			{ "c", NULL, want, (size_t)m * x.n * 4 },
		};

		npu_graph_output(g, "c",
				 npu_matmul_i8(g, npu_graph_input(g, "a", NPU_S8, m, x.k),
					       npu_graph_input(g, "scale", NPU_F32, m, 1),
					       npu_graph_weight(g, "w", NPU_W8_PANEL, x.n, x.k),
					       NULL));
		npu_ok(run_graph(f, g, bindings, 4, NULL, 0));
		wk_run(f, &x, m, a, scale.f, NULL, c);
		assert_memory_equal(c, want, (size_t)m * x.n * 4);
		wk_free(&x);
		free(a);
		free(c);
		free(want);
		free(w8);
		matrix_free(&scale);
	}
}

#define with_device(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(panels_are_packed_as_the_instruction_set_says),
		cmocka_unit_test(channels_come_back_from_their_panels),
		cmocka_unit_test(numbers_out_of_a_width_s_range_become_the_nearest),
		cmocka_unit_test(sizes_are_those_of_the_widest_of_each_panel),
		with_device(matmuls_of_1_to_8_bits_are_exact),
		with_device(with_8_bits_the_result_has_the_bits_of_matmul_i8),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
