// SPDX-License-Identifier: MIT
/* Inputs and outputs that are columns of a wider matrix. */
#include <errno.h>

#include <npu/vnpu_isa.h>

#include "npu_matrix.h"

/*
 * y [m][ld] from column @c0 on = x [m][k] w^T, with the weights' rows @c0..c0 + n - 1; followed by
 * a norm if @norm.
 */
static struct npu_job *matmul_job(struct fixture *f, uint32_t m, uint32_t n, uint32_t k,
				  uint32_t ld, bool norm)
{
	struct npu_graph *g = npu_graph_create("matmul");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, m, k), *s, *q = npu_quant(g, x, &s);
	struct npu_tensor *y =
		npu_matmul_i8(g, q, s, npu_graph_weight(g, "w", NPU_W8_PANEL, n, k), NULL);

	if (norm) {
		npu_graph_output_columns(
			g, "z",
			npu_rmsnorm(g, y, npu_graph_weight(g, "norm", NPU_F32, 1, n), 1e-5f), ld);
		npu_graph_output_columns(g, "y", y, ld + 3);
	} else {
		npu_graph_output_columns(g, "y", y, ld);
	}
	return fixture_job(f->ctx, g);
}

static void bind(struct npu_job *job, const char *name, struct npu_buffer *buf, size_t off,
		 size_t bytes)
{
	npu_ok(npu_job_bind(job, name, buf, off, bytes));
}

static void cut_round(struct fixture *f)
{
	uint32_t m = random_in(1, 40), k = random_in(1, 200), n = 64 * random_in(2, 6),
		 cut = 64 * random_in(1, n / 64 - 1);
	struct npu_buffer *x = fixture_floats(f->ctx, m * k, 0),
			  *whole = fixture_floats(f->ctx, m * n, 0), *w;
	uint32_t ld = n + random_in(0, 5);
	struct npu_buffer *cols = fixture_floats(f->ctx, m * ld, -7);
	int8_t *rows = malloc((size_t)n * k);
	float *scales = malloc(n * sizeof(float));
	struct npu_job *jobs[3] = { matmul_job(f, m, n, k, n, false),
				    matmul_job(f, m, cut, k, ld, false),
				    matmul_job(f, m, n - cut, k, ld, false) };
	const float *a, *b;

	random_floats(npu_buffer_data(x), (size_t)m * k);
	random_floats(scales, n);
	for (size_t i = 0; i < (size_t)n * k; i++)
		rows[i] = (int8_t)(random_in(0, 255) - 128);
	npu_ok(npu_buffer_create(f->ctx, npu_w8_bytes(n, k), 0, &w));
	npu_pack_w8(npu_buffer_data(w), n, k, 0, n, rows, scales);
	for (int i = 0; i < 3; i++)
		fixture_bind(jobs[i], "x", x);
	bind(jobs[0], "w", w, 0, npu_w8_bytes(n, k));
	bind(jobs[1], "w", w, 0, npu_w8_bytes(cut, k));
	bind(jobs[2], "w", w, npu_w8_bytes(cut, k), npu_w8_bytes(n - cut, k));
	bind(jobs[0], "y", whole, 0, (size_t)m * n * 4);
	/* A binding ends with its last element, which may be the buffer's last. */
	bind(jobs[1], "y", cols, 0, ((size_t)(m - 1) * ld + cut) * 4);
	bind(jobs[2], "y", cols, cut * 4, ((size_t)(m - 1) * ld + n - cut) * 4);
	npu_fails(
		npu_job_bind(jobs[2], "y", cols, cut * 4, ((size_t)(m - 1) * ld + n - cut) * 4 - 1),
		-ERANGE, "y");
	for (int i = 0; i < 3; i++)
		npu_ok(fixture_run(f, jobs[i]));
	a = npu_buffer_data(whole);
	b = npu_buffer_data(cols);
	for (uint32_t r = 0; r < m; r++) {
		assert_memory_equal(a + (size_t)r * n, b + (size_t)r * ld, n * sizeof(float));
		for (uint32_t c = n; c < ld; c++)
			assert_true(b[(size_t)r * ld + c] == -7);
	}
	for (int i = 0; i < 3; i++)
		npu_job_free(jobs[i]);
	npu_buffer_free(x);
	npu_buffer_free(w);
	npu_buffer_free(whole);
	npu_buffer_free(cols);
	free(rows);
	free(scales);
}

static void two_graphs_compute_parts_of_one_result_bit_for_bit(void **state)
{
	random_begin(__func__);
	for (int i = 0; i < ROUNDS; i++)
		cut_round(*state);
}

static void operators_read_an_output_whose_rows_are_apart(void **state)
{
	uint32_t m = 5, k = 16, n = 64, ld = 80;
	struct fixture *f = *state;
	struct npu_buffer *x = fixture_floats(f->ctx, m * k, 0.5f),
			  *norm = fixture_floats(f->ctx, n, 2);
	struct npu_buffer *y = fixture_floats(f->ctx, m * (ld + 3), -7),
			  *z = fixture_floats(f->ctx, m * ld, -7), *w;
	struct npu_job *job = matmul_job(f, m, n, k, ld, true);
	int8_t rows[64 * 16];
	float scales[64];

	for (int i = 0; i < 64 * 16; i++)
		rows[i] = (int8_t)(i % 7 - 3 + i / 512);
	for (int i = 0; i < 64; i++)
		scales[i] = 0.25f;
	npu_ok(npu_buffer_create(f->ctx, npu_w8_bytes(n, k), 0, &w));
	npu_pack_w8(npu_buffer_data(w), n, k, 0, n, rows, scales);
	fixture_bind(job, "x", x);
	fixture_bind(job, "w", w);
	fixture_bind(job, "norm", norm);
	fixture_bind(job, "y", y);
	fixture_bind(job, "z", z);
	npu_ok(fixture_run(f, job));
	for (uint32_t r = 0; r < m; r++) {
		double sum = 0;

		for (uint32_t c = 0; c < n; c++)
			sum += pow((double)fixture_float(y, r * (ld + 3) + c), 2);
		assert_true(sum > 1);
		for (uint32_t c = 0; c < n; c++)
			assert_true(fabs((double)fixture_float(z, r * ld + c) -
					 2 * (double)fixture_float(y, r * (ld + 3) + c) /
						 sqrt(sum / n + 1e-5)) < 1e-5);
		assert_true(fixture_float(z, r * ld + n) == -7 &&
			    fixture_float(y, r * (ld + 3) + n) == -7);
	}
	npu_job_free(job);
	npu_buffer_free(x);
	npu_buffer_free(w);
	npu_buffer_free(norm);
	npu_buffer_free(y);
	npu_buffer_free(z);
}

static void bad_columns_are_refused(void **state)
{
	static const uint32_t lds[] = { 0, 63, VNPU_MAX_DIM + 1 };
	struct npu_tensor *x, *s, *norm;
	struct npu_graph *g;
	size_t bytes;
	void *image;

	for (int i = 0; i < 3; i++) {
		g = npu_graph_create("g");
		x = npu_graph_input(g, "x", NPU_F32, 4, 64);
		assert_null(npu_graph_output_columns(g, "y", npu_silu(g, x), lds[i]));
		npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL,
			  "narrower than the output");
		npu_graph_free(g);
	}
	g = npu_graph_create("g");
	x = npu_quant(g, npu_graph_input(g, "x", NPU_F32, 4, 64), &s);
	assert_null(npu_graph_output_columns(g, "q", x, 64));
	npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL, "only f32");
	npu_graph_free(g);
	/* A norm per head reads it, made it, or will read it. */
	for (int i = 0; i < 3; i++) {
		g = npu_graph_create("g");
		x = npu_silu(g, npu_graph_input(g, "x", NPU_F32, 4, 64));
		norm = npu_graph_weight(g, "w", NPU_F32, 1, 32);
		if (i == 2)
			assert_non_null(npu_graph_output_columns(g, "y", x, 65));
		s = npu_rmsnorm(g, x, norm, 1e-5f);
		if (i < 2)
			assert_null(npu_graph_output_columns(g, "y", i ? s : x, 65));
		npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL, "dense");
		npu_graph_free(g);
	}
}

/* Each operator with an operand whose rows the device reads or writes one behind the other. */
static struct npu_tensor *dense_reader(struct npu_graph *g, int kind, struct npu_tensor *t)
{
	struct npu_tensor *q = npu_graph_input(g, "q", NPU_S8, npu_tensor_rows(t), 64);
	uint8_t bits[64];

	memset(bits, 3, sizeof(bits));
	switch (kind) {
	case 0:
		return npu_dequant(g, q, t);
	case 1:
		return npu_matmul_i8(g, q, t, npu_graph_weight(g, "w", NPU_W8_PANEL, 64, 64), NULL);
	case 2:
		return npu_matmul_w4(g, q, t, npu_graph_weight_w4(g, "w", 64, 64, 32), NULL);
	case 3:
		return npu_matmul_wk(g, q, t, npu_graph_weight_wk(g, "w", 64, 64, bits), NULL);
	case 4:
		return npu_matmul_kq(g, q, t, npu_graph_weight_kq(g, "w", VNPU_KQ_Q5_0, 64, 64),
				     NULL);
	default:
		return npu_add_outliers(g, npu_graph_input(g, "x", NPU_F32, npu_tensor_rows(t), 64),
					t,
					kind == 5 ? npu_graph_weight(g, "w", NPU_W8_PANEL, 64, 64)
						  : npu_graph_weight_wk(g, "w", 64, 64, bits));
	}
}

static void scales_and_outliers_read_must_be_dense(void **state)
{
	struct npu_tensor *t;
	struct npu_graph *g;
	size_t bytes;
	void *image;

	/* As an input, an output before it is read, an output after that; one row is dense. */
	for (int i = 0; i < 7 * 4; i++) {
		uint32_t rows = i % 4 == 3 ? 1 : 4, cols = i / 4 < 5 ? 1 : 32;

		g = npu_graph_create("g");
		t = npu_graph_input_columns(g, "t", rows, cols,
					    i % 4 == 1 || i % 4 == 2 ? cols : 40);
		if (i % 4 == 1)
			t = npu_graph_output_columns(g, "y", npu_silu(g, t), 40);
		if (i % 4 == 2)
			t = npu_silu(g, t);
		assert_non_null(t);
		assert_true((i % 4 >= 2) == (dense_reader(g, i / 4, t) != NULL));
		if (i % 4 == 2)
			assert_null(npu_graph_output_columns(g, "y", t, 40));
		if (i % 4 < 3)
			npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL, "must be dense");
		npu_graph_free(g);
	}
}

static void scales_and_outliers_written_must_be_dense(void **state)
{
	struct npu_tensor *x, *scale, *list = NULL, *t;
	struct npu_graph *g;

	for (int i = 0; i < 5 * 2; i++) {
		g = npu_graph_create("g");
		x = npu_graph_input(g, "x", NPU_F32, i / 5 || i % 5 == 1 ? 1 : 4, 64);
		if (i % 5 == 0)
			npu_quant(g, x, &scale);
		else if (i % 5 == 1)
			npu_quant16(g, x, &scale);
		else if (i % 5 == 2)
			npu_quant_static(g, x, npu_graph_input(g, "s", NPU_F32, 1, 1), &scale);
		else
			npu_quant_outliers(g, x, &scale, &list);
		t = npu_graph_output_columns(g, "y", i % 5 == 4 ? list : scale, 40);
		/* Two planes of one row have two scales. */
		if (i / 5 && i % 5 != 1)
			assert_non_null(t);
		else if (t || !strstr(npu_error(), "must be dense"))
			fail_msg("%d: %s", i, npu_error());
		npu_graph_free(g);
	}
}

#define with_device(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_device(two_graphs_compute_parts_of_one_result_bit_for_bit),
		with_device(operators_read_an_output_whose_rows_are_apart),
		cmocka_unit_test(bad_columns_are_refused),
		cmocka_unit_test(scales_and_outliers_read_must_be_dense),
		cmocka_unit_test(scales_and_outliers_written_must_be_dense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
