// SPDX-License-Identifier: MIT
/*
 * Every operator except matmuls (test_npu_matmul.c), built, compiled and run, compared with its
 * definition in double precision; and what the builder refuses.
 */
#include <errno.h>
#include <math.h>

#include <npu/vnpu_isa.h>

#include "npu_matrix.h"

/* ---- elementwise ---- */

enum simple_op {
	OP_ADD,
	OP_ADD_ROW,
	OP_MUL,
	OP_MUL_ROW,
	OP_SILU,
	OP_GELU,
	OP_GELU_ERF,
	OP_GELU_QUICK,
	OP_RELU,
	OP_RELU_SQUARED,
	OP_CAP,
	OP_GLU, /* and those with each activation after it, but for CAP */
	NR_SIMPLE = OP_GLU + NPU_GLU_RELU_SQUARED + 1,
};

#define CAP 2.5f

static double simple_want(enum simple_op op, double a, double b)
{
	switch (op) {
	case OP_ADD:
	case OP_ADD_ROW:
		return a + b;
	case OP_MUL:
	case OP_MUL_ROW:
		return a * b;
	case OP_SILU:
		return a / (1 + exp(-a));
	case OP_GELU:
		return 0.5 * a * (1 + tanh(sqrt(2 / M_PI) * (a + 0.044715 * a * a * a)));
	case OP_GELU_ERF:
		return 0.5 * a * (1 + erf(a * M_SQRT1_2));
	case OP_GELU_QUICK:
		return a / (1 + exp(-1.702 * a));
	case OP_RELU:
		return fmax(a, 0);
	case OP_RELU_SQUARED:
		return fmax(a, 0) * fmax(a, 0);
	case OP_CAP:
		return (double)CAP * tanh(a / (double)CAP);
	default:
		return simple_want(op - OP_GLU + OP_SILU, a, b) * b;
	}
}

static struct npu_tensor *simple_build(struct npu_graph *g, enum simple_op op, struct npu_tensor *x,
				       struct npu_tensor *z)
{
	switch (op) {
	case OP_ADD:
	case OP_ADD_ROW:
		return npu_add(g, x, z);
	case OP_MUL:
	case OP_MUL_ROW:
		return npu_mul(g, x, z);
	case OP_SILU:
		return npu_silu(g, x);
	case OP_GELU:
		return npu_gelu(g, x);
	case OP_GELU_ERF:
		return npu_gelu_erf(g, x);
	case OP_GELU_QUICK:
		return npu_gelu_quick(g, x);
	case OP_RELU:
		return npu_relu(g, x);
	case OP_RELU_SQUARED:
		return npu_relu_squared(g, x);
	case OP_CAP:
		return npu_cap(g, x, CAP);
	default:
		return npu_glu(g, x, z, (enum npu_glu_kind)(op - OP_GLU));
	}
}

static void simple_round(struct fixture *f, enum simple_op op)
{
	static const char *const names[] = { "add",	 "add row", "mul",	 "mul row",
					     "silu",	 "gelu",    "gelu erf",	 "gelu quick",
					     "relu",	 "relu2",   "cap",	 "glu silu",
					     "glu gelu", "glu erf", "glu quick", "glu relu",
					     "glu relu2" };
	uint32_t rows = random_in(1, 40), cols = random_in(1, 300);
	bool row = op == OP_ADD_ROW || op == OP_MUL_ROW;
	struct matrix a = matrix_new((size_t)rows * cols),
		      b = matrix_new(row ? cols : (size_t)rows * cols);
	struct npu_graph *g = npu_graph_create("simple");
	struct npu_tensor *x = npu_graph_input(g, "a", NPU_F32, rows, cols), *y;
	struct npu_tensor *z = npu_graph_weight(g, "b", NPU_F32, row ? 1 : rows, cols);
	struct run_binding bindings[] = {
		{ "a", a.f, NULL, a.n * 4 },
		{ "b", b.f, NULL, b.n * 4 },
		{ "y", NULL, a.got, a.n * 4 },
	};

	for (size_t i = 0; i < a.n; i++)
		a.f[i] *= 9;
	y = simple_build(g, op, x, z);
	npu_graph_output(g, "y", y);
	npu_ok(run_graph(f, g, bindings, 3, NULL, 0));
	for (size_t i = 0; i < a.n; i++)
		a.want[i] = simple_want(op, a.f[i], b.f[row ? i % cols : i]);
	assert_near(names[op], a.got, a.want, a.n, 2e-6);
	matrix_free(&a);
	matrix_free(&b);
}

static void elementwise_operators_agree_with_double_precision(void **state)
{
	random_begin(__func__);
	for (int i = 0; i < ROUNDS; i++)
		for (enum simple_op op = 0; op < NR_SIMPLE; op++)
			simple_round(*state, op);
}

/* ---- rmsnorm, layernorm ---- */

/* @group: [dim]; of LAYERNORM, with the mean and a bias. */
static void norm_want(double *want, const float *group, uint32_t dim, const float *w, double eps,
		      bool layernorm, const float *bias)
{
	double mean = 0, sum = 0;

	for (uint32_t c = 0; c < dim && layernorm; c++)
		mean += (double)group[c] / dim;
	for (uint32_t c = 0; c < dim; c++)
		sum += ((double)group[c] - mean) * ((double)group[c] - mean);
	for (uint32_t c = 0; c < dim; c++)
		want[c] = ((double)group[c] - mean) / sqrt(sum / dim + eps) * (double)w[c] +
			  (bias ? (double)bias[c] : 0);
}

static void norm_round(struct fixture *f, bool layernorm, bool biased)
{
	uint32_t rows = random_in(1, 20), dim = random_in(2, 200), heads = random_in(1, 4);
	struct matrix x = matrix_new((size_t)rows * heads * dim), w = matrix_new(dim),
		      b = matrix_new(dim);
	float eps = 1e-5f;
	struct npu_graph *g = npu_graph_create("norm");
	struct npu_tensor *t = npu_graph_input(g, "x", NPU_F32, rows, heads * dim),
			  *tw = npu_graph_weight(g, "w", NPU_F32, 1, dim),
			  *tb = biased ? npu_graph_weight(g, "b", NPU_F32, 1, dim) : NULL;
	struct run_binding bindings[] = {
		{ "x", x.f, NULL, x.n * 4 },
		{ "w", w.f, NULL, w.n * 4 },
		{ "y", NULL, x.got, x.n * 4 },
		{ "b", b.f, NULL, b.n * 4 },
	};

	npu_graph_output(g, "y",
			 layernorm ? npu_layernorm(g, t, tw, tb, eps) : npu_rmsnorm(g, t, tw, eps));
	npu_ok(run_graph(f, g, bindings, biased ? 4 : 3, NULL, 0));
	for (size_t r = 0; r < (size_t)rows * heads; r++)
		norm_want(x.want + r * dim, x.f + r * dim, dim, w.f, (double)eps, layernorm,
			  biased ? b.f : NULL);
	assert_near("norm", x.got, x.want, x.n, 2e-5);
	matrix_free(&x);
	matrix_free(&w);
	matrix_free(&b);
}

static void norms_agree_with_double_precision_per_row_and_per_head(void **state)
{
	random_begin(__func__);
	for (int i = 0; i < ROUNDS; i++) {
		norm_round(*state, false, false);
		norm_round(*state, true, false);
		norm_round(*state, true, true);
	}
}

/* ---- rope ---- */

static void rope_want(struct matrix *x, const float *inv_freq, uint32_t rows, uint32_t heads,
		      uint32_t dim, uint32_t rot, uint32_t pos, enum npu_rope_mode mode)
{
	for (size_t i = 0; i < x->n; i++)
		x->want[i] = x->f[i];
	for (uint32_t r = 0; r < rows; r++) {
		for (uint32_t h = 0; h < heads; h++) {
			size_t base = ((size_t)r * heads + h) * dim;

			for (uint32_t i = 0; i < rot / 2; i++) {
				size_t a = base + (mode == NPU_ROPE_HALVES ? i : 2 * i);
				size_t b = mode == NPU_ROPE_HALVES ? a + rot / 2 : a + 1;
				double angle = (double)(pos + r) * (double)inv_freq[i];

				x->want[a] = x->f[a] * cos(angle) - x->f[b] * sin(angle);
				x->want[b] = x->f[a] * sin(angle) + x->f[b] * cos(angle);
			}
		}
	}
}

static void rope_round(struct fixture *f)
{
	uint32_t rows = random_in(1, 9), heads = random_in(1, 4), dim = random_in(1, 40) * 2;
	uint32_t rot = random_in(1, dim / 2) * 2, pos = random_in(0, 700);
	enum npu_rope_mode mode = random_u32() & 1 ? NPU_ROPE_HALVES : NPU_ROPE_ADJACENT;
	struct matrix x = matrix_new((size_t)rows * heads * dim), freq = matrix_new(rot / 2);
	struct npu_graph *g = npu_graph_create("rope");
	struct npu_tensor *t = npu_graph_input(g, "x", NPU_F32, rows, heads * dim);
	bool fixed = random_u32() % 4 == 0;
	int param = npu_graph_param(g, "pos");
	struct run_param params[] = { { "pos", pos } };
	struct run_binding bindings[] = { { "x", x.f, NULL, x.n * 4 },
					  { "y", NULL, x.got, x.n * 4 } };

	for (uint32_t i = 0; i < rot / 2; i++)
		freq.f[i] = powf(10000, -2.0f * (float)i / (float)rot);
	t = npu_rope(g, t, npu_graph_const(g, "inv_freq", freq.f, 1, rot / 2), heads,
		     fixed ? NPU_NO_PARAM : param, mode);
	npu_graph_output(g, "y", t);
	npu_ok(run_graph(f, g, bindings, 2, params, 1));
	rope_want(&x, freq.f, rows, heads, dim, rot, fixed ? 0 : pos, mode);
	assert_near("rope", x.got, x.want, x.n, 1e-4);
	matrix_free(&x);
	matrix_free(&freq);
}

static void rope_agrees_with_double_precision_in_both_modes(void **state)
{
	random_begin(__func__);
	for (int i = 0; i < 2 * ROUNDS; i++)
		rope_round(*state);
}

/* ---- softmax ---- */

static void softmax_round(struct fixture *f)
{
	uint32_t rows = random_in(1, 20), cols = random_in(1, 300), limit = random_in(0, cols);
	bool limited = random_u32() & 1;
	float scale = 0.25f + fabsf(random_float());
	struct matrix x = matrix_new((size_t)rows * cols);
	struct npu_graph *g = npu_graph_create("softmax");
	struct npu_tensor *t = npu_graph_input(g, "x", NPU_F32, rows, cols);
	int param = npu_graph_param(g, "limit");
	struct run_param params[] = { { "limit", limit } };
	struct run_binding bindings[] = { { "x", x.f, NULL, x.n * 4 },
					  { "y", NULL, x.got, x.n * 4 } };

	for (size_t i = 0; i < x.n; i++)
		x.f[i] *= 20;
	npu_graph_output(g, "y", npu_softmax(g, t, scale, limited ? param : NPU_NO_PARAM));
	npu_ok(run_graph(f, g, bindings, 2, params, 1));
	for (uint32_t r = 0; r < rows; r++) {
		uint32_t seen = limited && limit + r + 1 < cols ? limit + r + 1 : cols;
		double max = -INFINITY, sum = 0;

		for (uint32_t c = 0; c < seen; c++)
			max = fmax(max, (double)scale * (double)x.f[r * cols + c]);
		for (uint32_t c = 0; c < seen; c++)
			sum += exp((double)scale * (double)x.f[r * cols + c] - max);
		for (uint32_t c = 0; c < cols; c++)
			x.want[r * cols + c] =
				c < seen
					? exp((double)scale * (double)x.f[r * cols + c] - max) / sum
					: 0;
	}
	assert_near("softmax", x.got, x.want, x.n, 1e-5);
	matrix_free(&x);
}

static void softmax_agrees_with_double_precision_with_and_without_a_limit(void **state)
{
	random_begin(__func__);
	for (int i = 0; i < 2 * ROUNDS; i++)
		softmax_round(*state);
}

/* ---- attention ---- */

static void attn_want(struct matrix *q, const float *k, const float *v, uint32_t rows,
		      uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t pos, double scale)
{
	double p[2048];

	for (uint32_t r = 0; r < rows; r++) {
		for (uint32_t h = 0; h < heads; h++) {
			size_t qb = ((size_t)r * heads + h) * dim, kvh = h / (heads / kv_heads);
			double max = -INFINITY, sum = 0;

			for (uint32_t t = 0; t <= pos + r; t++) {
				p[t] = 0;
				for (uint32_t d = 0; d < dim; d++)
					p[t] += (double)q->f[qb + d] *
						(double)k[(t * kv_heads + kvh) * dim + d];
				p[t] *= scale;
				max = fmax(max, p[t]);
			}
			for (uint32_t t = 0; t <= pos + r; t++)
				sum += p[t] = exp(p[t] - max);
			for (uint32_t d = 0; d < dim; d++) {
				double y = 0;

				for (uint32_t t = 0; t <= pos + r; t++)
					y += p[t] / sum * (double)v[(t * kv_heads + kvh) * dim + d];
				q->want[qb + d] = y;
			}
		}
	}
}

/* The values of a cache's rows, and the tolerance of a value stored there. */
static void cache_values(float *y, const uint8_t *rows, size_t n, enum npu_dtype type)
{
	uint16_t h;

	for (size_t i = 0; i < n; i++) {
		if (type == NPU_F32) {
			memcpy(&y[i], rows + i * 4, 4);
			continue;
		}
		memcpy(&h, type == NPU_F16 ? rows + i * 2 : rows + i / 32 * 34, 2);
		y[i] = ldexpf((float)(h >> 10 & 31 ? (h & 0x3ff) + 1024 : h & 0x3ff),
			      (h >> 10 & 31 ? h >> 10 & 31 : 1) - 25);
		if (type == NPU_F16)
			y[i] = h & 0x8000 ? -y[i] : y[i];
		else
			y[i] *= (float)(int8_t)rows[i / 32 * 34 + 2 + i % 32];
	}
}

static const double cache_error[] = { [NPU_F32] = 0, [NPU_F16] = 0x1p-11, [NPU_Q8_0] = 0.51 / 127 };

/* A cache of a type: random rows, and their values after a run. */
struct cache {
	enum npu_dtype type;
	size_t n, bytes;
	uint8_t *before, *after;
	float *values, *had;
};

static struct cache cache_new(enum npu_dtype type, size_t n)
{
	struct cache c = { .type = type,
			   .n = n,
			   .bytes = type == NPU_F32   ? n * 4
				    : type == NPU_F16 ? n * 2
						      : n / 32 * 34 };
	uint16_t h;

	c.before = malloc(c.bytes);
	c.after = malloc(c.bytes);
	c.values = malloc(n * 4);
	c.had = malloc(n * 4);
	if (type == NPU_F32)
		random_floats((float *)c.before, n);
	/* F16 gets -2..2; Q8_0 gets scales near 2^-7 and random bytes. */
	for (size_t i = 0; type == NPU_F16 && i < n; i++) {
		h = (uint16_t)(random_u32() & 0xbfff);
		memcpy(c.before + i * 2, &h, 2);
	}
	for (size_t i = 0; type == NPU_Q8_0 && i < c.bytes; i++)
		c.before[i] = (uint8_t)random_u32();
	for (size_t i = 0; type == NPU_Q8_0 && i < c.bytes; i += 34) {
		h = (uint16_t)(0x2000 | (random_u32() & 0x3ff));
		memcpy(c.before + i, &h, 2);
	}
	cache_values(c.had, c.before, n, type);
	return c;
}

/*
 * The rows from value @at on must be @stored[n], as precisely as the type allows; all others must
 * be unchanged.
 */
static void cache_check(struct cache *c, const float *stored, size_t at, size_t n)
{
	cache_values(c->values, c->after, c->n, c->type);
	for (size_t i = 0; i < c->n; i++) {
		float want = i >= at && i < at + n ? stored[i - at] : c->had[i];

		if (fabs((double)c->values[i] - (double)want) >
		    (i >= at && i < at + n ? cache_error[c->type] : 0))
			fail_msg("cache: value %zu is %.9g, not %.9g", i, (double)c->values[i],
				 (double)want);
	}
}

static void cache_free(struct cache *c)
{
	free(c->before);
	free(c->after);
	free(c->values);
	free(c->had);
}

/* Stores this step's keys and values, then attends: attention must see them. */
/* @keys: about so many at most. Two commands that may run at the same time attend to the cache. */
static void attn_round(struct fixture *f, enum npu_dtype type, uint32_t keys)
{
	uint32_t rows = random_in(1, 12), kv_heads = random_in(1, 3),
		 heads = kv_heads * random_in(1, 4);
	uint32_t dim = type == NPU_Q8_0 ? 32 * random_in(1, 3) : random_in(1, 40),
		 ctx = rows + random_in(0, keys);
	uint32_t pos = random_in(0, ctx - rows), kv_dim = kv_heads * dim;
	struct matrix q = matrix_new((size_t)rows * heads * dim), other = matrix_new(q.n),
		      kn = matrix_new((size_t)rows * kv_dim);
	struct matrix vn = matrix_new(kn.n);
	struct cache k = cache_new(type, (size_t)ctx * kv_dim),
		     v = cache_new(type, (size_t)ctx * kv_dim);
	struct npu_graph *g = npu_graph_create("attn");
	struct npu_tensor *tq = npu_graph_input(g, "q", NPU_F32, rows, heads * dim);
	struct npu_tensor *to = npu_graph_input(g, "other", NPU_F32, rows, heads * dim);
	struct npu_tensor *tk = npu_graph_input(g, "kn", NPU_F32, rows, kv_dim);
	struct npu_tensor *tv = npu_graph_input(g, "vn", NPU_F32, rows, kv_dim);
	struct npu_tensor *sk = npu_graph_state(g, "k", type, ctx, kv_dim);
	struct npu_tensor *sv = npu_graph_state(g, "v", type, ctx, kv_dim);
	int param = npu_graph_param(g, "pos");
	float scale = 1 / sqrtf((float)dim);
	struct run_param params[] = { { "pos", pos } };
	struct run_binding bindings[] = {
		{ "q", q.f, NULL, q.n * 4 },	     { "other", other.f, NULL, other.n * 4 },
		{ "kn", kn.f, NULL, kn.n * 4 },	     { "vn", vn.f, NULL, vn.n * 4 },
		{ "k", k.before, k.after, k.bytes }, { "v", v.before, v.after, v.bytes },
		{ "y", NULL, q.got, q.n * 4 },	     { "z", NULL, other.got, other.n * 4 },
	};

	assert_int_equal(npu_tensor_bytes(sk), k.bytes);
	npu_ok(npu_store_rows(g, tk, sk, param));
	npu_ok(npu_store_rows(g, tv, sv, param));
	npu_graph_output(g, "y", npu_attn(g, tq, sk, sv, heads, kv_heads, scale, param));
	npu_graph_output(g, "z", npu_attn(g, to, sk, sv, heads, kv_heads, scale, param));
	npu_ok(run_graph(f, g, bindings, 8, params, 1));
	cache_check(&k, kn.f, (size_t)pos * kv_dim, kn.n);
	cache_check(&v, vn.f, (size_t)pos * kv_dim, vn.n);
	attn_want(&q, k.values, v.values, rows, heads, kv_heads, dim, pos, (double)scale);
	assert_near("attn", q.got, q.want, q.n, 2e-5);
	attn_want(&other, k.values, v.values, rows, heads, kv_heads, dim, pos, (double)scale);
	assert_near("attn", other.got, other.want, other.n, 2e-5);
	matrix_free(&q);
	matrix_free(&other);
	matrix_free(&kn);
	matrix_free(&vn);
	cache_free(&k);
	cache_free(&v);
}

static void attention_sees_the_rows_stored_before_it_and_agrees_with_double_precision(void **state)
{
	random_begin(__func__);
	for (int i = 0; i < ROUNDS; i++) {
		attn_round(*state, NPU_F32, 100);
		attn_round(*state, NPU_F16, 100);
		attn_round(*state, NPU_Q8_0, 100);
	}
}

/* So many keys that the device's workers divide them. */
static void attention_over_many_keys_agrees_with_double_precision(void **state)
{
	random_begin(__func__);
	for (int i = 0; i < 3; i++) {
		attn_round(*state, NPU_F32, 2000);
		attn_round(*state, NPU_F16, 2000);
		attn_round(*state, NPU_Q8_0, 2000);
	}
}

static void a_param_out_of_range_fails_the_job_only(void **state)
{
	struct fixture *f = *state;
	struct npu_graph *g = npu_graph_create("store");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 2, 4),
			  *s = npu_graph_state(g, "s", NPU_F32, 8, 4);
	float data[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, got[32];
	struct run_binding bindings[] = { { "x", data, NULL, 32 }, { "s", NULL, got, 128 } };
	int row = npu_graph_param(g, "row");
	struct npu_job *job;

	npu_ok(npu_store_rows(g, x, s, row));
	npu_fails(run_graph(f, g, bindings, 2, &(struct run_param){ "row", 7 }, 1), -EINVAL,
		  "param is out of range");
	g = npu_graph_create("store");
	npu_ok(npu_store_rows(g, npu_graph_input(g, "x", NPU_F32, 2, 4),
			      npu_graph_state(g, "s", NPU_F32, 8, 4), npu_graph_param(g, "row")));
	npu_fails(run_graph(f, g, bindings, 2, &(struct run_param){ "row", -1 }, 1), -EINVAL,
		  "param is out of range");
	g = npu_graph_create("store");
	npu_ok(npu_store_rows(g, npu_graph_input(g, "x", NPU_F32, 2, 4),
			      npu_graph_state(g, "s", NPU_F32, 8, 4), npu_graph_param(g, "row")));
	npu_ok(run_graph(f, g, bindings, 2, &(struct run_param){ "row", 6 }, 1));
	assert_memory_equal(got + 24, data, 32);
	job = fixture_sleep(f->ctx, 0);
	npu_ok(fixture_run(f, job));
	npu_job_free(job);
}

/* ---- what the builder refuses ---- */

static void compile_fails(struct npu_graph *g, int err, const char *text)
{
	size_t bytes;
	void *image;

	npu_fails(npu_graph_compile(g, &image, &bytes), err, text);
	assert_null(image);
	npu_graph_free(g);
}

/* The same width for each of up to 16 rows. */
static const uint8_t *bits_of(uint8_t width)
{
	static uint8_t bits[16];

	memset(bits, width, sizeof(bits));
	return bits;
}

static void operands_of_a_wrong_shape_or_type_are_refused_by_name(void **state)
{
	struct npu_graph *g;
	struct npu_tensor *x, *y, *s;

#define BEGIN                                       \
	g = npu_graph_create("g");                  \
	x = npu_graph_input(g, "x", NPU_F32, 4, 6); \
	y = npu_graph_input(g, "y", NPU_F32, 4, 5); \
	s = npu_graph_state(g, "s", NPU_F32, 8, 6)
#define REFUSED(call, text)                      \
	do {                                     \
		BEGIN;                           \
		assert_null(call);               \
		(void)s;                         \
		(void)y;                         \
		compile_fails(g, -EINVAL, text); \
	} while (0)

	REFUSED(npu_add(g, x, y), "add: 'y' is 4 x 5, not 4 x 6");
	REFUSED(npu_mul(g, x, s), "mul: 's' is 8 x 6, not 4 x 6");
	REFUSED(npu_add(g, x, NULL), "add: an operand is missing");
	REFUSED(npu_silu(g, npu_graph_input(g, "q", NPU_S8, 4, 6)), "silu: 'q' is s8, not f32");
	REFUSED(npu_rmsnorm(g, x, y, 1e-5f), "rmsnorm: 'y' is 4 x 5, not 1 x 5");
	REFUSED(npu_rmsnorm(g, x, npu_graph_weight(g, "w", NPU_F32, 1, 4), 1e-5f),
		"rmsnorm: groups of 4 in rows of 6");
	REFUSED(npu_rmsnorm(g, x, npu_graph_weight(g, "w", NPU_F32, 1, 6), NAN),
		"rmsnorm: nan is not a finite");
	REFUSED(npu_rope(g, x, npu_graph_weight(g, "f", NPU_F32, 1, 2), 2, NPU_NO_PARAM,
			 NPU_ROPE_HALVES),
		"rope: 6 columns in 2 heads with 2 frequencies");
	REFUSED(npu_rope(g, x, npu_graph_weight(g, "f", NPU_F32, 1, 1), 2, 3, NPU_ROPE_HALVES),
		"param 3 does not exist");
	REFUSED(npu_softmax(g, x, INFINITY, NPU_NO_PARAM), "softmax: inf is not a finite");
	REFUSED(npu_glu(g, x, y, NPU_GLU_SILU), "glu: 'y' is 4 x 5, not 4 x 6");
	REFUSED(npu_glu(g, x, x, 6), "glu: kind 6 is not known");
	REFUSED(npu_cap(g, x, 0), "cap: 0 is not above 0");
	REFUSED(npu_cap(g, x, NAN), "cap: nan is not a finite");
	REFUSED(npu_layernorm(g, x, npu_graph_weight(g, "w", NPU_F32, 1, 6), y, 1e-5f),
		"layernorm: 'y' is 4 x 5, not 1 x 6");
	REFUSED(npu_layernorm(g, x, npu_graph_weight(g, "w", NPU_F32, 1, 6), NULL, -1),
		"layernorm: groups of 6 in rows of 6, eps -1");
	REFUSED(npu_quant(g, x, NULL), "quant: no pointer for the scales");
	REFUSED(npu_dequant(g, x, y), "dequant: 'x' is f32, not s8");
	REFUSED(npu_matmul_i8(g, npu_graph_input(g, "q", NPU_S8, 4, 6),
			      npu_graph_input(g, "qs", NPU_F32, 4, 1),
			      npu_graph_weight(g, "w", NPU_W8_PANEL, 10, 7), NULL),
		"matmul: 'w' is 10 x 7, not 10 x 6");
	REFUSED(npu_graph_weight_w4(g, "w", 10, 96, 64), "w: k = 96 in groups of 64");
	REFUSED(npu_graph_weight_w4(g, "w", 10, 96, 48), "w: k = 96 in groups of 48");
	REFUSED(npu_graph_weight_w4(g, "w", 10, 65568, 32), "w: k = 65568 in groups of 32");
	REFUSED(npu_graph_weight(g, "w", NPU_W4_PANEL, 10, 64), "w: k = 64 in groups of 0");
	REFUSED(npu_matmul_w4f(g, x, npu_graph_weight_w4(g, "w", 10, 32, 32), NULL),
		"matmul_w4f: 'w' is 10 x 32, not 10 x 6");
	REFUSED(npu_matmul_w4f(g, x, npu_graph_weight(g, "w", NPU_W8_PANEL, 10, 6), NULL),
		"'w' is w8, not w4");
	REFUSED(npu_matmul_w4(g, x, x, npu_graph_weight_w4(g, "w", 10, 32, 32), NULL),
		"'x' is f32, not s8");
	REFUSED(npu_matmul_w4(g, npu_graph_input(g, "q", NPU_S8, 4, 32),
			      npu_graph_input(g, "qs", NPU_F32, 4, 1),
			      npu_graph_weight_w4(g, "w", 10, 32, 32), x),
		"matmul_w4: 'x' is 4 x 6, not 1 x 10");
	REFUSED(npu_graph_weight_wk(g, "w", 10, 64, bits_of(0)),
		"w: each row needs a width of 1 to 8 bits");
	REFUSED(npu_graph_weight_wk(g, "w", 10, 64, bits_of(9)),
		"w: each row needs a width of 1 to 8 bits");
	REFUSED(npu_graph_weight_wk(g, "w", 10, 64, NULL),
		"w: each row needs a width of 1 to 8 bits");
	REFUSED(npu_graph_weight_wk(g, "w", 10, 65537, bits_of(4)), "k = 65537 may be 65536");
	REFUSED(npu_graph_weight_wk(g, "w", 0, 64, bits_of(4)), "w: shape 0 x 64");
	REFUSED(npu_graph_weight(g, "w", NPU_WK_PANEL, 10, 64), "w: each row needs a width");
	REFUSED(npu_matmul_wk(g, x, x, npu_graph_weight_wk(g, "w", 10, 6, bits_of(4)), NULL),
		"'x' is f32, not s8");
	REFUSED(npu_matmul_wk(g, npu_graph_input(g, "q", NPU_S8, 4, 6),
			      npu_graph_input(g, "qs", NPU_F32, 4, 1),
			      npu_graph_weight_wk(g, "w", 10, 7, bits_of(4)), NULL),
		"matmul_wk: 'w' is 10 x 7, not 10 x 6");
	REFUSED(npu_matmul_wk(g, npu_graph_input(g, "q", NPU_S8, 4, 6),
			      npu_graph_input(g, "qs", NPU_F32, 4, 1),
			      npu_graph_weight(g, "w", NPU_W8_PANEL, 10, 6), NULL),
		"matmul_wk: 'w' is w8, not wk");
	REFUSED(npu_matmul_wk(g, npu_graph_input(g, "q", NPU_S8, 4, 6),
			      npu_graph_input(g, "qs", NPU_F32, 3, 1),
			      npu_graph_weight_wk(g, "w", 10, 6, bits_of(4)), NULL),
		"matmul_wk: 'qs' is 3 x 1, not 4 x 1");
	REFUSED(npu_matmul_wk(g, npu_graph_input(g, "q", NPU_S8, 4, 6),
			      npu_graph_input(g, "qs", NPU_F32, 4, 1),
			      npu_graph_weight_wk(g, "w", 10, 6, bits_of(4)), x),
		"matmul_wk: 'x' is 4 x 6, not 1 x 10");
	REFUSED(npu_attn(g, x, s, s, 4, 2, 1, NPU_NO_PARAM), "attn: q 4 x 6 in 4 heads");
	REFUSED(npu_attn(g, x, s, s, 6, 2, 1, NPU_NO_PARAM), "attn: 's' is 8 x 6, not 8 x 2");
	REFUSED(npu_attn(g, x, npu_graph_state(g, "h", NPU_F16, 8, 6), s, 2, 2, 1, NPU_NO_PARAM),
		"attn: 's' is f32, not f16");
	REFUSED(npu_attn(g, x, npu_graph_input(g, "q", NPU_S8, 8, 6), s, 2, 2, 1, NPU_NO_PARAM),
		"attn: 'q' is s8, not f32");
	REFUSED(npu_attn(g, npu_graph_input(g, "q", NPU_F32, 1, 32),
			 npu_graph_state(g, "k", NPU_Q8_0, 8, 32),
			 npu_graph_state(g, "v", NPU_Q8_0, 8, 32), 2, 2, 1, NPU_NO_PARAM),
		"attn: heads of 16 values, with a cache of q8_0 a multiple of 32");
	REFUSED(npu_graph_state(g, "k", NPU_Q8_0, 8, 48),
		"k: 48 columns, of q8_0 a multiple of 32");
	REFUSED(npu_graph_state(g, "k", NPU_S8, 8, 48),
		"state 'k': type 1 is not f32, f16 or q8_0");
	REFUSED(npu_graph_weight(g, "w", NPU_W8_PANEL, 10, 70000), "w: k = 70000");
	REFUSED(npu_graph_input(g, "z", NPU_F32, 0, 3), "z: shape 0 x 3");
	REFUSED(npu_graph_input(g, "__x", NPU_F32, 1, 3), "names with __ are reserved");
	REFUSED(npu_graph_input(g, "a b", NPU_F32, 1, 3), "cannot be printed, or a space");
	REFUSED(npu_graph_input(g, "", NPU_F32, 1, 3), "a name of 1 to 63 characters");
	REFUSED(npu_graph_output(g, "o", x), "no result of an operator");
	REFUSED(npu_graph_output(g, "o", npu_graph_output(g, "p", npu_silu(g, x))),
		"is an output already");
	REFUSED(npu_store_rows(g, y, s, NPU_NO_PARAM) ? NULL : x,
		"store: 4 x 5 does not fit into 's'");
	REFUSED(npu_store_rows(g, x, x, NPU_NO_PARAM) ? NULL : x, "both what is stored and where");
	REFUSED(npu_store_rows(g, x, npu_silu(g, x), NPU_NO_PARAM) ? NULL : x, "is no state");
	REFUSED(npu_sleep(g, 61000000000ull) ? NULL : x, "at most 60 s");
}

static void the_first_error_of_a_graph_is_reported(void **state)
{
	struct npu_graph *g = npu_graph_create("first"), *other = npu_graph_create("other");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 4, 6), *t;

	t = npu_add(g, x, npu_graph_input(g, "y", NPU_F32, 3, 6));
	t = npu_silu(g, npu_gelu(g, t));
	assert_null(npu_graph_output(g, "o", t));
	assert_non_null(strstr(npu_error(), "add: 'y' is 3 x 6"));
	compile_fails(g, -EINVAL, "graph first: add: 'y' is 3 x 6, not 4 x 6");
	g = npu_graph_create("g");
	x = npu_graph_input(g, "x", NPU_F32, 4, 6);
	assert_null(npu_silu(other, x));
	compile_fails(other, -EINVAL, "of another graph");
	compile_fails(g, -EINVAL, "no output, store or sleep");
	compile_fails(npu_graph_create("with space"), -EINVAL, "a space");
}

static void names_are_taken_once_and_a_graph_has_at_most_64_params(void **state)
{
	struct npu_graph *g = npu_graph_create("params");
	char name[16];

	for (int i = 0; i < VNPU_MAX_PARAMS; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		assert_int_equal(npu_graph_param(g, name), i);
	}
	assert_int_equal(npu_graph_param(g, "more"), -ENOSPC);
	npu_graph_free(g);
	g = npu_graph_create("names");
	npu_graph_input(g, "x", NPU_F32, 1, 3);
	assert_null(npu_graph_state(g, "x", NPU_F32, 1, 3));
	compile_fails(g, -EEXIST, "state 'x': the name is taken");
	g = npu_graph_create("params");
	npu_graph_param(g, "p");
	assert_int_equal(npu_graph_param(g, "p"), -EEXIST);
	compile_fails(g, -EEXIST, "param 'p': the name is taken");
}

#define with_device(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_device(elementwise_operators_agree_with_double_precision),
		with_device(norms_agree_with_double_precision_per_row_and_per_head),
		with_device(rope_agrees_with_double_precision_in_both_modes),
		with_device(softmax_agrees_with_double_precision_with_and_without_a_limit),
		with_device(
			attention_sees_the_rows_stored_before_it_and_agrees_with_double_precision),
		with_device(attention_over_many_keys_agrees_with_double_precision),
		with_device(a_param_out_of_range_fails_the_job_only),
		cmocka_unit_test(operands_of_a_wrong_shape_or_type_are_refused_by_name),
		cmocka_unit_test(the_first_error_of_a_graph_is_reported),
		cmocka_unit_test(names_are_taken_once_and_a_graph_has_at_most_64_params),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
