// SPDX-License-Identifier: MIT
/* Quantisation and matmuls, built, compiled and run, compared with double precision. */
#include <errno.h>
#include <math.h>

#include <npu/vnpu_isa.h>

#include "npu_matrix.h"

/* ---- quant and matmul ---- */

static void quant_round(struct fixture *f)
{
	uint32_t rows = random_in(1, 20), cols = random_in(1, 300), ld = (cols + 3) & ~3u;
	struct matrix x = matrix_new((size_t)rows * cols);
	int8_t *q = malloc((size_t)rows * ld);
	float *scale = malloc(rows * 4);
	struct npu_graph *g = npu_graph_create("quant");
	struct npu_tensor *t = npu_graph_input(g, "x", NPU_F32, rows, cols), *s;
	struct run_binding bindings[] = {
		{ "x", x.f, NULL, x.n * 4 },
		{ "q", NULL, q, (size_t)rows * ld },
		{ "scale", NULL, scale, rows * 4 },
		{ "y", NULL, x.got, x.n * 4 },
	};

	memset(x.f, 0, cols * 4);
	t = npu_quant(g, t, &s);
	npu_graph_output(g, "y", npu_dequant(g, t, s));
	npu_graph_output(g, "q", t);
	npu_graph_output(g, "scale", s);
	assert_int_equal(npu_tensor_bytes(t), (size_t)rows * ld);
	npu_ok(run_graph(f, g, bindings, 4, NULL, 0));
	assert_true(scale[0] == 0);
	for (uint32_t r = 0; r < rows; r++) {
		double max = 0;

		for (uint32_t c = 0; c < cols; c++)
			max = fmax(max, fabs((double)x.f[r * cols + c]));
		assert_true(fabs((double)scale[r] - max / 127) <= 1e-6 * max);
		for (uint32_t c = 0; c < cols; c++) {
			assert_true(fabs(q[r * ld + c] * (double)scale[r] -
					 (double)x.f[r * cols + c]) <= 0.5001 * (double)scale[r]);
			assert_true(x.got[r * cols + c] == (float)q[r * ld + c] * scale[r]);
		}
		for (uint32_t c = cols; c < ld; c++)
			assert_int_equal(q[r * ld + c], 0);
	}
	free(q);
	free(scale);
	matrix_free(&x);
}

static void quant_rounds_to_the_nearest_and_dequant_scales_back(void **state)
{
	random_begin(__func__);
	for (int i = 0; i < 2 * ROUNDS; i++)
		quant_round(*state);
}

static void matmul_round(struct fixture *f, uint32_t m, uint32_t n, uint32_t k, bool biased)
{
	uint32_t ld = (k + 3) & ~3u;
	int8_t *a = calloc(m, ld), *w = malloc((size_t)n * k);
	struct matrix as = matrix_new(m), ws = matrix_new(n), bias = matrix_new(n),
		      c = matrix_new((size_t)m * n);
	uint8_t *packed = malloc(npu_w8_bytes(n, k));
	struct npu_graph *g = npu_graph_create("matmul");
	struct npu_tensor *q = npu_graph_input(g, "a", NPU_S8, m, k),
			  *s = npu_graph_input(g, "a_scale", NPU_F32, m, 1);
	struct npu_tensor *wt = npu_graph_weight(g, "w", NPU_W8_PANEL, n, k);
	struct npu_tensor *b = biased ? npu_graph_weight(g, "bias", NPU_F32, 1, n) : NULL;
	struct run_binding bindings[] = {
		{ "a", a, NULL, (size_t)m * ld },	   { "a_scale", as.f, NULL, m * 4 },
		{ "w", packed, NULL, npu_w8_bytes(n, k) }, { "c", NULL, c.got, c.n * 4 },
		{ "bias", bias.f, NULL, n * 4 },
	};
	uint32_t n0 = n > 128 ? 128 : 0;

	for (uint32_t i = 0; i < m; i++)
		for (uint32_t j = 0; j < k; j++)
			a[i * ld + j] = (int8_t)(random_in(0, 254) - 127);
	for (size_t i = 0; i < (size_t)n * k; i++)
		w[i] = (int8_t)(random_in(0, 255) - 128);
	/* In two steps, as a loader does. */
	memset(packed, 0xa5, npu_w8_bytes(n, k));
	npu_pack_w8(packed, n, k, n0, n - n0, w + (size_t)n0 * k, ws.f + n0);
	if (n0)
		npu_pack_w8(packed, n, k, 0, n0, w, ws.f);
	npu_graph_output(g, "c", npu_matmul_i8(g, q, s, wt, b));
	npu_ok(run_graph(f, g, bindings, biased ? 5 : 4, NULL, 0));
	for (uint32_t i = 0; i < m; i++) {
		for (uint32_t j = 0; j < n; j++) {
			int64_t acc = 0;

			for (uint32_t l = 0; l < k; l++)
				acc += a[i * ld + l] * w[(size_t)j * k + l];
			c.want[(size_t)i * n + j] = (double)acc * (double)as.f[i] * (double)ws.f[j];
			if (biased)
				c.want[(size_t)i * n + j] += (double)bias.f[j];
		}
	}
	assert_near("matmul", c.got, c.want, c.n, 1e-6);
	free(a);
	free(w);
	free(packed);
	matrix_free(&as);
	matrix_free(&ws);
	matrix_free(&bias);
	matrix_free(&c);
}

static void matmul_agrees_with_double_precision_with_and_without_bias(void **state)
{
	random_begin(__func__);
	matmul_round(*state, 1, 1, 1, true);
	matmul_round(*state, 1, 64, 4, false);
	for (int i = 0; i < ROUNDS; i++)
		matmul_round(*state, random_in(1, 30), random_in(1, 300), random_in(1, 200),
			     random_u32() & 1);
	/* Many tiles in both directions, and the single row of decoding. */
	matmul_round(*state, 150, 700, 300, true);
	matmul_round(*state, 1, 2000, 900, false);
}

/* ---- two planes ---- */

/* Each row is the sum of its planes, up to half of a step of the second. */
static void quant16_round(struct fixture *f)
{
	uint32_t rows = random_in(1, 20), cols = random_in(1, 300);
	struct matrix x = matrix_new((size_t)rows * cols), planes = matrix_new(2 * x.n),
		      scale = matrix_new(2 * rows);
	struct npu_graph *g = npu_graph_create("quant16");
	struct npu_tensor *s, *q = npu_quant16(g, npu_graph_input(g, "x", NPU_F32, rows, cols), &s),
			      *y;
	struct run_binding bindings[] = {
		{ "x", x.f, NULL, x.n * 4 },
		{ "planes", NULL, planes.got, planes.n * 4 },
		{ "scale", NULL, scale.got, scale.n * 4 },
		{ "y", NULL, x.got, x.n * 4 },
	};

	memset(x.f, 0, cols * 4);
	if (rows > 1)
		x.f[x.n - 1] *= 1000;
	y = npu_dequant(g, q, s);
	assert_int_equal(npu_tensor_rows(q), 2 * rows);
	npu_graph_output(g, "planes", y);
	npu_graph_output(g, "scale", s);
	npu_graph_output(g, "y", npu_fold(g, y));
	npu_ok(run_graph(f, g, bindings, 4, NULL, 0));
	assert_true(scale.got[0] == 0 && scale.got[rows] == 0);
	for (uint32_t r = 0; r < rows; r++) {
		assert_true(scale.got[rows + r] <= scale.got[r] / 253);
		for (uint32_t c = 0; c < cols; c++) {
			size_t i = (size_t)r * cols + c;

			assert_true(x.got[i] == planes.got[i] + planes.got[x.n + i]);
			assert_true(fabs((double)x.got[i] - (double)x.f[i]) <=
				    0.5001 * (double)scale.got[rows + r] +
					    0x1p-22 * fabs((double)x.f[i]));
		}
	}
	matrix_free(&x);
	matrix_free(&planes);
	matrix_free(&scale);
}

static void quant16_leaves_half_a_step_of_15_bits(void **state)
{
	random_begin(__func__);
	for (int i = 0; i < 2 * ROUNDS; i++)
		quant16_round(*state);
}

/* ---- one scale for all rows ---- */

/* What QUANT_STATIC makes of @x, rows of @cols, with scale @s; row @bad has an infinity. */
static void static_check(const struct matrix *x, uint32_t rows, uint32_t cols, float s,
			 uint32_t bad, const float *scale, const int8_t *q)
{
	uint32_t ld = (cols + 3) / 4 * 4;

	for (uint32_t r = 0; r < rows; r++) {
		bool good = s > 0 && r != bad;

		assert_true(good ? scale[r] == s : isnan(scale[r]));
		for (uint32_t c = 0; c < ld; c++) {
			float v = good && c < cols ? nearbyintf(x->f[(size_t)r * cols + c] / s) : 0;

			v = v > 127 ? 127 : v < -127 ? -127 : v;
			assert_int_equal(q[(size_t)r * ld + c], (int)v);
		}
	}
}

/* One program runs with several scales, as layers share a graph. */
static void static_round(struct fixture *f)
{
	static const float scales[] = { 0.02f, 0.003f, NAN, 0 };
	uint32_t rows = random_in(1, 40), cols = random_in(1, 600), bad = random_in(0, rows);
	struct matrix x = matrix_new((size_t)rows * cols);
	struct npu_graph *g = npu_graph_create("static");
	struct npu_tensor *scale, *q = npu_graph_input(g, "x", NPU_F32, rows, cols);
	struct npu_buffer *bufs[4];
	static const char *const names[] = { "x", "s", "scale", "q" };
	struct npu_job *job;
	size_t q_bytes;

	q = npu_quant_static(g, q, npu_graph_weight(g, "s", NPU_F32, 1, 1), &scale);
	q_bytes = npu_tensor_bytes(q);
	npu_graph_output(g, "scale", scale);
	npu_graph_output(g, "q", q);
	job = fixture_job(f->ctx, g);
	for (int i = 0; i < 4; i++) {
		npu_ok(npu_buffer_create(f->ctx, (size_t[]){ x.n * 4, 4, rows * 4, q_bytes }[i], 0,
					 &bufs[i]));
		fixture_bind(job, names[i], bufs[i]);
	}
	if (bad < rows)
		x.f[(size_t)bad * cols + random_in(0, cols - 1)] = INFINITY;
	memcpy(npu_buffer_data(bufs[0]), x.f, x.n * 4);
	for (int i = 0; i < 4; i++) {
		*(float *)npu_buffer_data(bufs[1]) = scales[i];
		npu_ok(fixture_run(f, job));
		static_check(&x, rows, cols, scales[i], bad, npu_buffer_data(bufs[2]),
			     npu_buffer_data(bufs[3]));
	}
	npu_job_free(job);
	for (int i = 0; i < 4; i++)
		npu_buffer_free(bufs[i]);
	matrix_free(&x);
}

static void a_static_scale_is_that_of_all_rows(void **state)
{
	random_begin(__func__);
	for (int i = 0; i < ROUNDS; i++)
		static_round(*state);
}

static void a_static_scale_is_one_float(void **state)
{
	static const struct {
		enum npu_dtype type;
		uint32_t rows;
		bool no_scales;
		const char *why;
	} cases[] = {
		{ NPU_F32, 2, false, "quant_static: 's' is 2 x 1, not 1 x 1" },
		{ NPU_S8, 1, false, "quant_static: 'x' is s8, not f32" },
		{ NPU_F32, 1, true, "quant_static: no pointer for the scales" },
	};
	size_t bytes;
	void *image;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct npu_graph *g = npu_graph_create("bad");
		struct npu_tensor *scale, *x = npu_graph_input(g, "x", cases[i].type, 2, 4);

		assert_null(npu_quant_static(g, x,
					     npu_graph_input(g, "s", NPU_F32, cases[i].rows, 1),
					     cases[i].no_scales ? NULL : &scale));
		npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL, cases[i].why);
		npu_graph_free(g);
	}
}

static void invalid_planes_are_refused(void **state)
{
	struct npu_graph *g = npu_graph_create("odd");
	void *image;
	size_t bytes;

	npu_graph_output(g, "y", npu_fold(g, npu_graph_input(g, "x", NPU_F32, 3, 4)));
	npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL, "3 rows; needs an even number");
	npu_graph_free(g);
	g = npu_graph_create("deep");
	assert_null(npu_quant16(g, npu_graph_input(g, "x", NPU_F32, 1, VNPU_MAX_K_I8 + 1),
				&(struct npu_tensor *){ 0 }));
	npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL, "1 x 65537 exceeds");
	npu_graph_free(g);
	g = npu_graph_create("nowhere");
	assert_null(npu_quant16(g, npu_graph_input(g, "x", NPU_F32, 1, 4), NULL));
	npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL, "no pointer for the scales");
	npu_graph_free(g);
}

/* ---- matmul with 4-bit weights ---- */

struct w4 {
	uint32_t m, n, k, group;
	uint8_t *u, *packed;
	uint16_t *scales;
	struct matrix bias, c;
};

static void w4_make(struct w4 *x, uint32_t m, uint32_t n, uint32_t k, uint32_t group)
{
	size_t bytes = npu_w4_bytes(n, k, group), groups = k / group;
	uint32_t n0 = n > 64 ? 64 : 0;

	*x = (struct w4){ m,
			  n,
			  k,
			  group,
			  malloc((size_t)n * k),
			  malloc(bytes),
			  malloc(n * groups * 2),
			  matrix_new(n),
			  matrix_new((size_t)m * n) };
	for (size_t i = 0; i < (size_t)n * k; i++)
		x->u[i] = (uint8_t)random_in(0, 15);
	for (size_t i = 0; i < n * groups; i++)
		x->scales[i] = (uint16_t)(random_in(0, 1) << 15 | random_in(0x1c00, 0x3000));
	/* In two steps, as a loader does. */
	memset(x->packed, 0xa5, bytes);
	npu_pack_w4(x->packed, n, k, group, n0, n - n0, x->u + (size_t)n0 * k,
		    x->scales + n0 * groups);
	if (n0)
		npu_pack_w4(x->packed, n, k, group, 0, n0, x->u, x->scales);
}

static void w4_free(struct w4 *x)
{
	free(x->u);
	free(x->packed);
	free(x->scales);
	matrix_free(&x->bias);
	matrix_free(&x->c);
}

static double w4_weight(const struct w4 *x, uint32_t n, uint32_t k)
{
	uint16_t h = x->scales[n * (x->k / x->group) + k / x->group];

	return (x->u[(size_t)n * x->k + k] - 8) * (h >> 15 ? -1 : 1) *
	       ldexp(1024 + (h & 1023), (h >> 10 & 31) - 25);
}

/* INT8 rows, or floats if @scale is NULL. */
static void w4_run(struct fixture *f, struct w4 *x, const int8_t *q, const float *scale,
		   const float *a, bool biased)
{
	struct npu_graph *g = npu_graph_create("w4");
	struct npu_tensor *w = npu_graph_weight_w4(g, "w", x->n, x->k, x->group);
	struct npu_tensor *b = biased ? npu_graph_weight(g, "bias", NPU_F32, 1, x->n) : NULL;
	struct npu_tensor *t = npu_graph_input(g, "a", scale ? NPU_S8 : NPU_F32, x->m, x->k);
	struct run_binding bindings[5] = {
		{ "a", scale ? (const void *)q : a, NULL, (size_t)x->m * x->k * (scale ? 1 : 4) },
		{ "w", x->packed, NULL, npu_w4_bytes(x->n, x->k, x->group) },
		{ "c", NULL, x->c.got, x->c.n * 4 },
	};
	unsigned int nr = 3;

	assert_int_equal(npu_tensor_bytes(w), npu_w4_bytes(x->n, x->k, x->group));
	if (scale) {
		bindings[nr++] = (struct run_binding){ "scale", scale, NULL, x->m * 4 };
		t = npu_matmul_w4(g, t, npu_graph_input(g, "scale", NPU_F32, x->m, 1), w, b);
	} else {
		t = npu_matmul_w4f(g, t, w, b);
	}
	if (biased)
		bindings[nr++] = (struct run_binding){ "bias", x->bias.f, NULL, x->n * 4 };
	npu_graph_output(g, "c", t);
	npu_ok(run_graph(f, g, bindings, nr, NULL, 0));
	for (uint32_t i = 0; i < x->m; i++) {
		for (uint32_t j = 0; j < x->n; j++) {
			double sum = 0;

			for (uint32_t k = 0; k < x->k; k++)
				sum += w4_weight(x, j, k) *
				       (scale ? q[i * x->k + k] * (double)scale[i]
					      : (double)a[i * x->k + k]);
			x->c.want[(size_t)i * x->n + j] = sum + (biased ? (double)x->bias.f[j] : 0);
		}
	}
	assert_near(scale ? "matmul_w4" : "matmul_w4f", x->c.got, x->c.want, x->c.n, 2e-5);
}

static void w4_round(struct fixture *f, uint32_t m, uint32_t n, uint32_t k, uint32_t group)
{
	struct matrix a = matrix_new((size_t)m * k), scale = matrix_new(m);
	int8_t *q = malloc((size_t)m * k);
	struct w4 x;

	w4_make(&x, m, n, k, group);
	for (size_t i = 0; i < (size_t)m * k; i++)
		q[i] = (int8_t)(random_in(0, 254) - 127);
	for (uint32_t i = 0; i < m; i++)
		scale.f[i] *= 0.01f;
	w4_run(f, &x, q, scale.f, NULL, random_u32() & 1);
	w4_run(f, &x, NULL, NULL, a.f, random_u32() & 1);
	w4_free(&x);
	matrix_free(&a);
	matrix_free(&scale);
	free(q);
}

static void matmuls_of_4_bits_agree_with_double_precision(void **state)
{
	random_begin(__func__);
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t group = 32u << random_in(0, 2);

		w4_round(*state, random_in(1, 30), random_in(1, 200), group * random_in(1, 4),
			 group);
	}
	w4_round(*state, 150, 600, 256, 64);
	w4_round(*state, 1, 1500, 960, 32);
}

/* ---- outliers ---- */

/*
 * The weights of @x in double precision times a row of floats, with all values in INT8 and with
 * separate outliers.
 */
static void outliers_run(struct fixture *f, struct w4 *x, const float *a, const int8_t *w8,
			 const float *w8_scale, bool apart)
{
	struct npu_graph *g = npu_graph_create("outliers");
	struct npu_tensor *t = npu_graph_input(g, "a", NPU_F32, x->m, x->k), *s, *o, *w, *q;
	size_t bytes = w8 ? npu_w8_bytes(x->n, x->k) : npu_w4_bytes(x->n, x->k, x->group);
	uint8_t *packed = w8 ? malloc(bytes) : NULL;
	struct run_binding bindings[] = {
		{ "a", a, NULL, (size_t)x->m * x->k * 4 },
		{ "w", w8 ? packed : x->packed, NULL, bytes },
		{ "c", NULL, x->c.got, x->c.n * 4 },
	};

	if (w8)
		npu_pack_w8(packed, x->n, x->k, 0, x->n, w8, w8_scale);
	w = w8 ? npu_graph_weight(g, "w", NPU_W8_PANEL, x->n, x->k)
	       : npu_graph_weight_w4(g, "w", x->n, x->k, x->group);
	q = apart ? npu_quant_outliers(g, t, &s, &o) : npu_quant(g, t, &s);
	t = w8 ? npu_matmul_i8(g, q, s, w, NULL) : npu_matmul_w4(g, q, s, w, NULL);
	npu_graph_output(g, "c", apart ? npu_add_outliers(g, t, o, w) : t);
	npu_ok(run_graph(f, g, bindings, 3, NULL, 0));
	free(packed);
}

/* The largest error of a result, relative to the results. */
static double outliers_error(const struct w4 *x)
{
	double error = 0, size = 0;

	for (size_t i = 0; i < x->c.n; i++) {
		error = fmax(error, fabs((double)x->c.got[i] - x->c.want[i]));
		size = fmax(size, fabs(x->c.want[i]));
	}
	return error / size;
}

static void outliers_round(struct fixture *f, bool w8)
{
	uint32_t m = random_in(1, 20), n = random_in(1, 200), k = 64 * random_in(4, 20);
	struct matrix a = matrix_new((size_t)m * k), w8_scale = matrix_new(n);
	int8_t *q8 = malloc((size_t)n * k);
	double plain, apart;
	struct w4 x;

	w4_make(&x, m, n, k, 64);
	for (size_t i = 0; i < (size_t)n * k; i++)
		q8[i] = (int8_t)(random_in(0, 254) - 127);
	for (uint32_t r = 0; r < m; r++)
		for (uint32_t i = 0; i < 8; i++)
			a.f[r * k + i * (k / 8) + random_in(0, k / 8 - 1)] *= 2000;
	for (uint32_t i = 0; i < m; i++)
		for (uint32_t j = 0; j < n; j++) {
			double sum = 0;

			for (uint32_t c = 0; c < k; c++)
				sum += (double)a.f[i * k + c] *
				       (w8 ? q8[(size_t)j * k + c] * (double)w8_scale.f[j]
					   : w4_weight(&x, j, c));
			x.c.want[(size_t)i * n + j] = sum;
		}
	outliers_run(f, &x, a.f, w8 ? q8 : NULL, w8_scale.f, false);
	plain = outliers_error(&x);
	outliers_run(f, &x, a.f, w8 ? q8 : NULL, w8_scale.f, true);
	apart = outliers_error(&x);
	/* Eight values 2000 times as large: as outliers they leave the others precise. */
	if (!(apart < plain / 20))
		fail_msg("%u x %u x %u, %d bits: an error of %g, without outliers %g", m, n, k,
			 w8 ? 8 : 4, apart, plain);
	w4_free(&x);
	matrix_free(&a);
	matrix_free(&w8_scale);
	free(q8);
}

static void separate_outliers_leave_the_other_values_precise(void **state)
{
	random_begin(__func__);
	for (int i = 0; i < ROUNDS; i++)
		outliers_round(*state, i % 2);
}

static void invalid_outliers_are_refused(void **state)
{
	struct npu_tensor *s, *o, *x, *q;
	struct npu_graph *g;
	void *image;
	size_t bytes;

	g = npu_graph_create("deep");
	assert_null(npu_quant_outliers(g, npu_graph_input(g, "x", NPU_F32, 1, VNPU_MAX_K_I8 + 1),
				       &s, &o));
	npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL, "rows of 65537 exceed 65536");
	npu_graph_free(g);
	g = npu_graph_create("nowhere");
	assert_null(npu_quant_outliers(g, npu_graph_input(g, "x", NPU_F32, 1, 4), &s, NULL));
	npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL, "no pointer for the outliers");
	npu_graph_free(g);
	g = npu_graph_create("other");
	x = npu_graph_input(g, "x", NPU_F32, 3, 64);
	q = npu_quant_outliers(g, x, &s, &o);
	assert_non_null(q);
	assert_null(npu_add_outliers(g, x, o, npu_graph_weight(g, "w", NPU_W8_PANEL, 65, 64)));
	npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL, "'w' is 65 x 64, not 64 x 64");
	npu_graph_free(g);
	g = npu_graph_create("list");
	x = npu_graph_input(g, "x", NPU_F32, 3, 64);
	assert_null(npu_add_outliers(g, x, x, npu_graph_weight(g, "w", NPU_W8_PANEL, 64, 64)));
	npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL, "'x' is 3 x 64, not 3 x 32");
	npu_graph_free(g);
	g = npu_graph_create("floats");
	x = npu_graph_input(g, "x", NPU_F32, 3, 64);
	q = npu_quant_outliers(g, x, &s, &o);
	assert_null(npu_add_outliers(g, x, o, npu_graph_weight(g, "w", NPU_F32, 1, 64)));
	npu_fails(npu_graph_compile(g, &image, &bytes), -EINVAL, "'w' is f32, not w8");
	npu_graph_free(g);
}

static void weights_of_4_bits_come_back_from_their_panels(void **state)
{
	uint8_t u[384];
	uint16_t scales[12];
	struct w4 x;

	random_begin(__func__);
	w4_make(&x, 1, 130, 384, 32);
	for (uint32_t i = 0; i < 130; i++) {
		npu_unpack_w4(x.packed, 384, 32, i, u, scales);
		assert_memory_equal(u, x.u + i * 384, sizeof(u));
		assert_memory_equal(scales, x.scales + i * 12, sizeof(scales));
	}
	/* Numbers beyond the last channel are 0. */
	npu_unpack_w4(x.packed, 384, 32, 191, u, scales);
	for (uint32_t i = 0; i < 384; i++)
		assert_int_equal(u[i], 0);
	for (uint32_t i = 0; i < 12; i++)
		assert_int_equal(scales[i], 0);
	w4_free(&x);
	assert_int_equal(npu_w4_bytes(64, 64, 48), 0);
	assert_int_equal(npu_w4_bytes(64, 96, 64), 0);
	assert_int_equal(npu_w4_bytes(65, 128, 32), 2 * 4 * 1152);
}

#define with_device(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_device(quant_rounds_to_the_nearest_and_dequant_scales_back),
		with_device(matmul_agrees_with_double_precision_with_and_without_bias),
		with_device(quant16_leaves_half_a_step_of_15_bits),
		with_device(a_static_scale_is_that_of_all_rows),
		cmocka_unit_test(a_static_scale_is_one_float),
		cmocka_unit_test(invalid_planes_are_refused),
		with_device(matmuls_of_4_bits_agree_with_double_precision),
		with_device(separate_outliers_leave_the_other_values_precise),
		cmocka_unit_test(invalid_outliers_are_refused),
		with_device(weights_of_4_bits_come_back_from_their_panels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
