// SPDX-License-Identifier: MIT
/*
 * The GPU lane's operators on rows and its attention: random shapes compared with double precision,
 * and integer results with the device's portable kernels; bad operands.
 */
#include "gpu_fixture.h"

#include <math.h>

#include "kernels.h"

#define ROUNDS 20

static void assert_close(const char *what, float got, double want, double bound)
{
	if (!(fabs((double)got - want) <= bound))
		fail_msg("%s: %.9g, not %.9g within %.3g", what, got, want, bound);
}

/* Takes a matrix [rows][ld] of numbers between -scale and scale. */
static float *take_floats(struct arena *a, unsigned int rows, unsigned int ld, float scale,
			  struct llm_gpu_area *area)
{
	size_t n = (size_t)rows * ld;
	float *x = arena_take(a, n * 4, area);

	for (size_t i = 0; i < n; i++)
		x[i] = random_float() * scale;
	return x;
}

static enum llm_gpu_sharing any_sharing(void)
{
	return random_in(0, 1) ? LLM_GPU_SHARED : LLM_GPU_COPIED;
}

static void rmsnorm_of_rows_and_of_heads(void **state)
{
	random_begin(__func__);
	FOR_EACH_WIDTH(i)
	for (int round = 0; round < ROUNDS; round++) {
		struct llm_gpu_rmsnorm op = { .rows = random_in(1, 9), .eps = 1e-5f };
		unsigned int cols;
		struct arena a;
		float *x, *w, *y;

		op.heads = round % 2 ? 1 : random_in(1, 8);
		op.head_dim = round % 2 ? random_in(1, 1500) : random_in(1, 130);
		cols = op.heads * op.head_dim;
		op.ldx = cols + random_in(0, 7);
		op.ldy = cols + random_in(0, 7);
		arena_open(&a, gpus[i], (size_t)op.rows * (op.ldx + op.ldy) * 4 + cols * 4 + 4096,
			   any_sharing());
		x = take_floats(&a, op.rows, op.ldx, 3, &op.x);
		w = take_floats(&a, 1, op.head_dim, 2, &op.w);
		y = arena_take(&a, (size_t)op.rows * op.ldy * 4, &op.y);
		arena_send(&a, queues[i]);
		OK(llm_gpu_rmsnorm(queues[i], &op));
		arena_fetch(&a, queues[i]);
		for (unsigned int r = 0; r < op.rows; r++)
			for (unsigned int h = 0; h < op.heads; h++) {
				const float *xs = x + (size_t)r * op.ldx + h * op.head_dim;
				double sum = 0;

				for (unsigned int c = 0; c < op.head_dim; c++)
					sum += (double)xs[c] * xs[c];
				for (unsigned int c = 0; c < op.head_dim; c++) {
					double want =
						xs[c] / sqrt(sum / op.head_dim + op.eps) * w[c];

					assert_close(
						"rmsnorm",
						y[(size_t)r * op.ldy + h * op.head_dim + c], want,
						fabs(want) * (op.head_dim / 64.0 + 16) * 0x1p-24);
				}
			}
		arena_close(&a);
	}
}

static void rope_of_both_pairings_at_any_position(void **state)
{
	random_begin(__func__);
	FOR_EACH_WIDTH(i)
	for (unsigned int round = 0; round < ROUNDS; round++) {
		struct llm_gpu_rope op = { .rows = random_in(1, 9),
					   .heads = random_in(1, 5),
					   .mode = round % 2 };
		unsigned int cols, half;
		struct arena a;
		float *x, *f, *y;

		op.head_dim = random_in(1, 70) * 2;
		op.rot_dim = random_in(0, 1) ? op.head_dim : random_in(1, op.head_dim / 2) * 2;
		op.pos = round < 4 ? round : random_in(0, (1 << 20) - 10);
		half = op.rot_dim / 2;
		cols = op.heads * op.head_dim;
		op.ldx = cols + random_in(0, 7);
		op.ldy = random_in(0, 1) ? op.ldx : cols + random_in(0, 7);
		arena_open(&a, gpus[i], (size_t)op.rows * (op.ldx + op.ldy) * 4 + 8192,
			   any_sharing());
		x = take_floats(&a, op.rows, op.ldx, 2, &op.x);
		f = arena_take(&a, half * 4, &op.inv_freq);
		for (unsigned int p = 0; p < half; p++)
			f[p] = powf(10000, -2.0f * p / op.rot_dim);
		y = arena_take(&a, (size_t)op.rows * op.ldy * 4, &op.y);
		arena_send(&a, queues[i]);
		OK(llm_gpu_rope(queues[i], &op));
		arena_fetch(&a, queues[i]);
		for (unsigned int r = 0; r < op.rows; r++)
			for (unsigned int h = 0; h < op.heads; h++) {
				const float *xs = x + (size_t)r * op.ldx + h * op.head_dim;
				const float *ys = y + (size_t)r * op.ldy + h * op.head_dim;

				for (unsigned int p = 0; p < half; p++) {
					unsigned int one =
						op.mode == VNPU_ROPE_ADJACENT ? 2 * p : p;
					unsigned int two = op.mode == VNPU_ROPE_ADJACENT ? 2 * p + 1
											 : p + half;
					double t = (double)f[p] * (op.pos + r),
					       size = fabs(xs[one]) + fabs(xs[two]);

					assert_close("rope", ys[one],
						     xs[one] * cos(t) - xs[two] * sin(t),
						     size * 0x1p-21);
					assert_close("rope", ys[two],
						     xs[one] * sin(t) + xs[two] * cos(t),
						     size * 0x1p-21);
				}
				assert_memory_equal(ys + op.rot_dim, xs + op.rot_dim,
						    (op.head_dim - op.rot_dim) * 4);
			}
		arena_close(&a);
	}
}

static void rope_and_norm_in_place(void **state)
{
	struct llm_gpu_rope rope = { .rows = 3,
				     .heads = 2,
				     .head_dim = 10,
				     .rot_dim = 6,
				     .pos = 5,
				     .mode = 1,
				     .ldx = 20,
				     .ldy = 20 };
	struct llm_gpu_rmsnorm norm = {
		.rows = 3, .heads = 2, .head_dim = 10, .ldx = 20, .ldy = 20, .eps = 1e-6f
	};

	random_begin(__func__);
	FOR_EACH_WIDTH(i)
	{
		float *apart, *place, *x;
		struct arena a;

		arena_open(&a, gpus[i], 4096, LLM_GPU_SHARED);
		x = take_floats(&a, 3, 20, 1, &rope.x);
		take_floats(&a, 1, 3, 1, &rope.inv_freq);
		take_floats(&a, 1, 10, 1, &norm.w);
		apart = arena_take(&a, 3 * 20 * 4, &rope.y);
		place = arena_take(&a, 3 * 20 * 4, &norm.y);
		memcpy(place, x, 3 * 20 * 4);
		norm.x = norm.y;
		arena_send(&a, queues[i]);
		OK(llm_gpu_rmsnorm(queues[i], &norm));
		rope.x = rope.y;
		OK(llm_gpu_to_host(queues[i], a.buf, 0, a.bytes));
		OK(llm_gpu_finish(queues[i]));
		memcpy(apart, place, 3 * 20 * 4);
		arena_send(&a, queues[i]);
		OK(llm_gpu_rope(queues[i], &rope));
		rope.x = norm.y;
		rope.y = norm.y;
		OK(llm_gpu_rope(queues[i], &rope));
		arena_fetch(&a, queues[i]);
		assert_memory_equal(apart, place, 3 * 20 * 4);
		for (int c = 0; c < 10; c++)
			assert_false(place[c] == x[c]);
		arena_close(&a);
	}
}

static void add_and_gated_activations(void **state)
{
	random_begin(__func__);
	FOR_EACH_WIDTH(i)
	for (int round = 0; round < ROUNDS; round++) {
		struct llm_gpu_binary op = { .kind = round % 3,
					     .rows = random_in(1, 9),
					     .cols = random_in(1, 600) };
		float *av, *bv, *y, *before;
		struct arena a;

		op.lda = op.cols + random_in(0, 7);
		op.ldb = op.cols + random_in(0, 7);
		op.ldy = op.lda;
		arena_open(&a, gpus[i], (size_t)op.rows * (2 * op.lda + op.ldb) * 4 + 4096,
			   any_sharing());
		av = take_floats(&a, op.rows, op.lda, 12, &op.a);
		bv = take_floats(&a, op.rows, op.ldb, 3, &op.b);
		y = av;
		op.y = op.a;
		if (random_in(0, 1))
			y = arena_take(&a, (size_t)op.rows * op.ldy * 4, &op.y);
		before = malloc((size_t)op.rows * op.lda * 4);
		memcpy(before, av, (size_t)op.rows * op.lda * 4);
		arena_send(&a, queues[i]);
		OK(llm_gpu_binary(queues[i], &op));
		arena_fetch(&a, queues[i]);
		for (unsigned int r = 0; r < op.rows; r++)
			for (unsigned int c = 0; c < op.cols; c++) {
				double p = before[(size_t)r * op.lda + c],
				       q = bv[(size_t)r * op.ldb + c], want, bound;

				if (op.kind == LLM_GPU_ADD)
					want = p + q, bound = fabs(want) * 0x1p-24;
				else if (op.kind == LLM_GPU_SILU)
					want = p / (1 + exp(-p)) * q,
					bound = fabs(want) * 0x1p-20 + 1e-12;
				else
					want = 0.5 * p *
					       (1 +
						tanh(sqrt(2 / M_PI) * (p + 0.044715 * p * p * p))) *
					       q,
					bound = fabs(want) * 0x1p-16 + 1e-12;
				assert_close("element by element", y[(size_t)r * op.ldy + c], want,
					     bound);
			}
		free(before);
		arena_close(&a);
	}
}

/* Compares with the device's kernel; values may be one off if the GPU's quotients are not exact. */
static void quant_has_the_npus_numbers(void **state)
{
	random_begin(__func__);
	FOR_EACH_WIDTH(i)
	for (int round = 0; round < ROUNDS; round++) {
		struct llm_gpu_quant op = { .rows = random_in(1, 9),
					    .cols = random_in(1, 700),
					    .planes = random_in(0, 2) };
		unsigned int padded = (op.cols + 3) / 4 * 4,
			     rows = op.planes > 1 ? 2 * op.rows : op.rows;
		int8_t *q, *want = malloc(padded);
		float *x, *scale, *rest = malloc(op.cols * 4), want_scale;
		struct arena a;

		op.ldx = op.cols + random_in(0, 7);
		op.ldq = padded + random_in(0, 7);
		arena_open(&a, gpus[i], (size_t)rows * (op.ldx * 4 + op.ldq + 4) + 4096,
			   any_sharing());
		x = take_floats(&a, op.rows, op.ldx, powf(10, 8 * random_float()), &op.x);
		q = arena_take(&a, (size_t)rows * op.ldq, &op.q);
		scale = arena_take(&a, rows * 4, &op.scale);
		/* Special rows. */
		if (round % 4 == 1)
			memset(x, 0, op.cols * 4);
		if (round % 4 == 2)
			x[random_in(0, op.cols - 1)] = NAN;
		if (round % 4 == 3)
			x[random_in(0, op.cols - 1)] = -INFINITY;
		arena_send(&a, queues[i]);
		OK(llm_gpu_quant(queues[i], &op));
		arena_fetch(&a, queues[i]);
		for (unsigned int r = 0; r < rows; r++) {
			const float *from = x + (size_t)(r % op.rows) * op.ldx;

			/* The second plane quantises the difference to the GPU's first plane. */
			if (r >= op.rows)
				fw_kernels_generic.rest(rest, from,
							q + (size_t)(r - op.rows) * op.ldq,
							scale[r - op.rows], op.cols);
			fw_kernels_generic.quant(want, &want_scale, r < op.rows ? from : rest,
						 op.cols);
			if (isnan(want_scale))
				assert_true(isnan(scale[r]));
			else
				assert_close("scale", scale[r], want_scale,
					     llm_gpu_info(gpus[i])->exact ? 0
									  : want_scale * 0x1p-22);
			for (unsigned int c = 0; c < padded; c++)
				if (abs(q[(size_t)r * op.ldq + c] - want[c]) >
				    !llm_gpu_info(gpus[i])->exact)
					fail_msg("quant: column %u of %u is %d, of the NPU %d", c,
						 op.cols, q[(size_t)r * op.ldq + c], want[c]);
		}
		free(want);
		free(rest);
		arena_close(&a);
	}
}

static void store_has_the_npus_bytes(void **state)
{
	random_begin(__func__);
	FOR_EACH_WIDTH(i)
	for (int round = 0; round < ROUNDS; round++) {
		struct llm_gpu_store op = { .rows = random_in(1, 9),
					    .type = round % 3,
					    .row = random_in(0, 20) };
		size_t row_bytes, cache_bytes;
		uint8_t *cache, *want;
		struct arena a;
		float *x;

		if (!llm_gpu_info(gpus[i])->exact && op.type == VNPU_KV_Q8_0)
			continue;
		op.cols = op.type == VNPU_KV_Q8_0 ? 32 * random_in(1, 9) : random_in(1, 300);
		op.ldx = op.cols + random_in(0, 7);
		op.ld_dst = op.cols + (op.type == VNPU_KV_Q8_0 ? 32 : 1) * random_in(0, 3);
		row_bytes = VNPU_KV_BYTES(op.type, op.ld_dst);
		cache_bytes = row_bytes * (op.row + op.rows + 2);
		arena_open(&a, gpus[i], (size_t)op.rows * op.ldx * 4 + cache_bytes + 4096,
			   any_sharing());
		x = take_floats(&a, op.rows, op.ldx, powf(10, 4 * random_float()), &op.x);
		cache = arena_take(&a, cache_bytes, &op.dst);
		want = malloc(cache_bytes);
		memset(want, 0xee, cache_bytes);
		/* Values beyond F16's range, and zeros. */
		if (round % 4 == 1)
			x[random_in(0, op.cols - 1)] = 1e9f;
		if (round % 4 == 2)
			memset(x, 0, op.cols * 4);
		if (round % 4 == 3)
			x[random_in(0, op.cols - 1)] = 1e-6f;
		for (unsigned int r = 0; r < op.rows; r++)
			if (op.type == VNPU_KV_F32)
				memcpy(want + row_bytes * (op.row + r), x + (size_t)r * op.ldx,
				       op.cols * 4);
			else
				fw_kernels_generic.store(want + row_bytes * (op.row + r),
							 x + (size_t)r * op.ldx, op.cols, op.type);
		arena_send(&a, queues[i]);
		OK(llm_gpu_store(queues[i], &op));
		arena_fetch(&a, queues[i]);
		assert_memory_equal(cache, want, cache_bytes);
		free(want);
		arena_close(&a);
	}
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Element @d of cache row @j. */
static double cached(const uint8_t *cache, const struct llm_gpu_attn *op, unsigned int ld,
		     unsigned int j, unsigned int d)
{
	const uint8_t *row = cache + j * VNPU_KV_BYTES(op->kv_type, ld);
	uint16_t h;

	switch (op->kv_type) {
	case VNPU_KV_F32:
		return ((const float *)row)[d];
	case VNPU_KV_F16:
		return fw_f16_to_f32(((const uint16_t *)row)[d]);
	default:
		memcpy(&h, row + d / 32 * 34, 2);
		return (double)((const int8_t *)row)[d / 32 * 34 + 2 + d % 32] * fw_f16_to_f32(h);
	}
}

static void check_attn(const struct llm_gpu_attn *op, const float *q, const uint8_t *k,
		       const uint8_t *v, const float *y)
{
	double *p = malloc(op->ctx_rows * sizeof(*p));

	for (unsigned int r = 0; r < op->rows; r++)
		for (unsigned int h = 0; h < op->heads; h++) {
			unsigned int first = h / (op->heads / op->kv_heads) * op->head_dim,
				     sees = op->pos + r + 1;
			double most = -INFINITY, total = 0;

			for (unsigned int j = 0; j < sees; j++) {
				p[j] = 0;
				for (unsigned int d = 0; d < op->head_dim; d++)
					p[j] += q[(size_t)r * op->ldq + h * op->head_dim + d] *
						cached(k, op, op->ldk, j, first + d);
				p[j] *= op->scale;
				most = fmax(most, p[j]);
			}
			for (unsigned int j = 0; j < sees; j++)
				total += p[j] = exp(p[j] - most);
			for (unsigned int d = 0; d < op->head_dim; d++) {
				double want = 0;

				for (unsigned int j = 0; j < sees; j++)
					want += p[j] / total * cached(v, op, op->ldv, j, first + d);
				assert_close("attention",
					     y[(size_t)r * op->ldy + h * op->head_dim + d], want,
					     256 * 0x1p-24);
			}
		}
	free(p);
}

/* Takes rows of a cache as STORE writes them; rows that must not be read are NaNs. */
static uint8_t *take_cache(struct arena *a, const struct llm_gpu_attn *op, unsigned int ld,
			   struct llm_gpu_area *area)
{
	size_t row_bytes = VNPU_KV_BYTES(op->kv_type, ld);
	uint8_t *cache = arena_take(a, op->ctx_rows * row_bytes, area);
	float *x = malloc(ld * 4);

	memset(cache, 0xff, op->ctx_rows * row_bytes);
	for (unsigned int j = 0; j < op->pos + op->rows; j++) {
		random_floats(x, ld);
		if (op->kv_type == VNPU_KV_F32)
			memcpy(cache + j * row_bytes, x, ld * 4);
		else
			fw_kernels_generic.store(cache + j * row_bytes, x, ld, op->kv_type);
	}
	free(x);
	return cache;
}

static void attention(const char *name, unsigned int kv_type)
{
	random_begin(name);
	FOR_EACH_WIDTH(i)
	for (int round = 0; round < ROUNDS; round++) {
		unsigned int unit = kv_type == VNPU_KV_Q8_0 ? 32 : 1, cols, kv_cols;
		struct llm_gpu_attn op = { .kv_type = kv_type,
					   .rows = round % 3 ? random_in(1, 20) : 1,
					   .kv_heads = random_in(1, 3) };
		struct arena a;
		uint8_t *k, *v;
		float *q, *y;

		op.heads = op.kv_heads * random_in(1, 7);
		op.head_dim = unit == 32  ? 32 * random_in(1, 4)
			      : round % 4 ? 16 * random_in(1, 9)
					  : random_in(1, 140);
		/* Sometimes keys that groups of work-items divide, the last for last rows only. */
		op.pos = round % 5 ? random_in(0, 150) : 128 * random_in(1, 20) - random_in(1, 10);
		op.ctx_rows = op.pos + op.rows + random_in(0, 5);
		op.scale = 1 / sqrtf(op.head_dim);
		cols = op.heads * op.head_dim;
		kv_cols = op.kv_heads * op.head_dim;
		op.ldq = cols + random_in(0, 7);
		op.ldy = cols + random_in(0, 7);
		op.ldk = kv_cols + unit * random_in(0, 2);
		op.ldv = kv_cols + unit * random_in(0, 2);
		arena_open(&a, gpus[i],
			   (size_t)op.rows * (op.ldq + op.ldy) * 4 +
				   (size_t)op.ctx_rows * (op.ldk + op.ldv) * 4 + 4096,
			   any_sharing());
		q = take_floats(&a, op.rows, op.ldq, 2, &op.q);
		k = take_cache(&a, &op, op.ldk, &op.k);
		v = take_cache(&a, &op, op.ldv, &op.v);
		y = arena_take(&a, (size_t)op.rows * op.ldy * 4, &op.y);
		arena_send(&a, queues[i]);
		OK(llm_gpu_attn(queues[i], &op));
		arena_fetch(&a, queues[i]);
		check_attn(&op, q, k, v, y);
		arena_close(&a);
	}
}

static void attention_over_f32(void **state)
{
	attention(__func__, VNPU_KV_F32);
}

static void attention_over_f16(void **state)
{
	attention(__func__, VNPU_KV_F16);
}

static void attention_over_q8_0(void **state)
{
	attention(__func__, VNPU_KV_Q8_0);
}

/* Row r + 1 sees a value that row r does not see, and both are in one group. */
static void attention_skips_values_that_a_row_does_not_see(void **state)
{
	random_begin(__func__);
	FOR_EACH_WIDTH(i)
	{
		struct llm_gpu_attn op = { .rows = 2,
					   .heads = 1,
					   .kv_heads = 1,
					   .head_dim = 20,
					   .ctx_rows = 41,
					   .pos = 39,
					   .ldq = 20,
					   .ldk = 20,
					   .ldv = 20,
					   .ldy = 20,
					   .scale = 0.2f };
		struct arena a;
		float *v, *y;

		arena_open(&a, gpus[i], 32768, LLM_GPU_SHARED);
		take_floats(&a, 2, 20, 1, &op.q);
		take_floats(&a, 41, 20, 1, &op.k);
		v = take_floats(&a, 41, 20, 1, &op.v);
		for (int d = 0; d < 20; d++)
			v[40 * 20 + d] = NAN;
		y = arena_take(&a, 2 * 20 * 4, &op.y);
		arena_send(&a, queues[i]);
		OK(llm_gpu_attn(queues[i], &op));
		arena_fetch(&a, queues[i]);
		for (int d = 0; d < 20; d++) {
			assert_false(isnan(y[d]));
			assert_true(isnan(y[20 + d]));
		}
		arena_close(&a);
	}
}

/* ---- bad input ------------------------------------------------------------------------------- */

#define BAD(fn, good, part, ...)            \
	do {                                \
		__typeof__(good) op = good; \
		__VA_ARGS__;                \
		REFUSED(fn(q, &op), part);  \
	} while (0)

static void bad_operands_are_refused(void **state)
{
	struct llm_gpu_queue *q;
	struct llm_gpu_area at;
	struct arena a;

	if (no_platform)
		skip();
	q = queues[0];
	arena_open(&a, gpus[0], 8192, LLM_GPU_SHARED);
	at = (struct llm_gpu_area){ a.buf, 0 };

	struct llm_gpu_rmsnorm norm = { at,	   at,	       at,
					.rows = 2, .heads = 2, .head_dim = 8,
					.ldx = 16, .ldy = 16 };
	BAD(llm_gpu_rmsnorm, norm, "sizes are", op.rows = 0);
	BAD(llm_gpu_rmsnorm, norm, "sizes are", op.head_dim = 0);
	BAD(llm_gpu_rmsnorm, norm, "sizes are", op.heads = op.head_dim = UINT32_MAX);
	BAD(llm_gpu_rmsnorm, norm, "a norm: x: not inside", op.x.off = 8192 - 64);
	BAD(llm_gpu_rmsnorm, norm, ": weights: missing", op.w.buf = NULL);
	BAD(llm_gpu_rmsnorm, norm, "a norm: y: rows overlap", op.ldy = 15);

	struct llm_gpu_rope rope = { at,	   at,	       at,
				     .rows = 2,	   .heads = 2, .head_dim = 8,
				     .rot_dim = 8, .ldx = 16,  .ldy = 16 };
	BAD(llm_gpu_rope, rope, "a rotation of 7", op.rot_dim = 7);
	BAD(llm_gpu_rope, rope, "a rotation of 10", op.rot_dim = 10);
	BAD(llm_gpu_rope, rope, "mode 2", op.mode = 2);
	BAD(llm_gpu_rope, rope, "position 16777215", op.pos = (1 << 24) - 1);
	BAD(llm_gpu_rope, rope, "a rotation: frequencies: not inside", op.inv_freq.off = 8192 - 12);

	struct llm_gpu_binary add = {
		.a = at, .b = at, .y = at, .rows = 2, .cols = 16, .lda = 16, .ldb = 16, .ldy = 16
	};
	BAD(llm_gpu_binary, add, "of unknown kind", op.kind = 3);
	BAD(llm_gpu_binary, add, "element-wise operator: b: not inside", op.ldb = 4096);
	BAD(llm_gpu_binary, add, "not a multiple of 4", op.a.off = 2);

	struct llm_gpu_quant quant = { at, at, at, .rows = 2, .cols = 15, .ldx = 15, .ldq = 16 };
	BAD(llm_gpu_quant, quant, "a quantisation: q: rows overlap", op.ldq = 15);
	BAD(llm_gpu_quant, quant, "a quantisation: scales: not inside", op.scale.off = 8192 - 4);
	BAD(llm_gpu_quant, quant, "a quantisation: scales: not inside",
	    (op.planes = 2, op.scale.off = 8192 - 8));
	BAD(llm_gpu_quant, quant, "to 3 planes", op.planes = 3);

	struct llm_gpu_store store = {
		at, at, .rows = 2, .cols = 32, .type = VNPU_KV_Q8_0, .ldx = 32, .ld_dst = 32
	};
	BAD(llm_gpu_store, store, "blocks of 32", op.cols = 31);
	BAD(llm_gpu_store, store, "blocks of 32", op.ld_dst = 33);
	BAD(llm_gpu_store, store, "unknown type", op.type = 3);
	BAD(llm_gpu_store, store, "a store: cache: not inside", op.row = 8192 / 34);
	BAD(llm_gpu_store, store, "a store to row 4294967295", op.row = UINT32_MAX);
	BAD(llm_gpu_store, store, "not a multiple of 2", op.dst.off = 1);

	struct llm_gpu_attn attn = { at,
				     at,
				     at,
				     at,
				     .rows = 2,
				     .heads = 4,
				     .kv_heads = 2,
				     .head_dim = 8,
				     .ctx_rows = 4,
				     .pos = 2,
				     .ldq = 32,
				     .ldk = 16,
				     .ldv = 16,
				     .ldy = 32,
				     .scale = 1 };
	BAD(llm_gpu_attn, attn, "with 3 KV heads", op.kv_heads = 3);
	BAD(llm_gpu_attn, attn, "with 0 KV heads", op.kv_heads = 0);
	BAD(llm_gpu_attn, attn, "over a cache of 4", op.pos = 3);
	BAD(llm_gpu_attn, attn, "over a cache of 4", op.pos = UINT32_MAX);
	BAD(llm_gpu_attn, attn, "of 8 elements over Q8_0", op.kv_type = VNPU_KV_Q8_0);
	BAD(llm_gpu_attn, attn, "attention: keys: not inside", op.ctx_rows = 8192);
	BAD(llm_gpu_attn, attn, "of 2048 elements", op.head_dim = 2048);
	OK(llm_gpu_finish(q));
	arena_close(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rmsnorm_of_rows_and_of_heads),
		cmocka_unit_test(rope_of_both_pairings_at_any_position),
		cmocka_unit_test(rope_and_norm_in_place),
		cmocka_unit_test(add_and_gated_activations),
		cmocka_unit_test(quant_has_the_npus_numbers),
		cmocka_unit_test(store_has_the_npus_bytes),
		cmocka_unit_test(attention_over_f32),
		cmocka_unit_test(attention_over_f16),
		cmocka_unit_test(attention_over_q8_0),
		cmocka_unit_test(attention_skips_values_that_a_row_does_not_see),
		cmocka_unit_test(bad_operands_are_refused),
	};

	return cmocka_run_group_tests_name("gpu_ops", tests, gpu_setup, gpu_teardown);
}
