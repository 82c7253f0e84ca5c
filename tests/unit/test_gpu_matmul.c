// SPDX-License-Identifier: MIT
/*
 * The GPU lane's matmuls: each format and width, on random shapes, compared with double precision
 * and with the device's portable kernels; ranges of channels; bad operands.
 */
#include "gpu_fixture.h"

#include <math.h>

#include "kernels.h"
#include "npu_graph.h"

#define U 0x1p-24
#define ROUNDS 14

/* A matmul with its operands on the host. */
struct matmul {
	struct llm_gpu_matmul op;
	unsigned int channels; /* of the weights */
	const void *x, *w;
	float *x_scale, *bias, *y;
	float *before; /* [m][ldy]: y before the matmul, if that adds to it */
	double *row; /* [k]: a channel's weights */
};

static size_t weight_bytes(const struct matmul *p)
{
	switch (p->op.format) {
	case LLM_GPU_W8:
		return npu_w8_bytes(p->channels, p->op.k);
	case LLM_GPU_W4:
		return npu_w4_bytes(p->channels, p->op.k, p->op.group);
	default:
		return (size_t)p->channels * p->op.ldw * (p->op.format == LLM_GPU_F32 ? 4 : 2);
	}
}

static void fill_w8(struct matmul *p, void *w)
{
	size_t n = (size_t)p->channels * p->op.k;
	float *scales = malloc(p->channels * sizeof(*scales));
	int8_t *rows = malloc(n);

	for (size_t i = 0; i < n; i++)
		rows[i] = (int8_t)random_in(0, 254) - 127;
	for (unsigned int c = 0; c < p->channels; c++)
		scales[c] = 0.01f + 0.01f * fabsf(random_float());
	npu_pack_w8(w, p->channels, p->op.k, 0, p->channels, rows, scales);
	free(rows);
	free(scales);
}

static void fill_w4(struct matmul *p, void *w)
{
	size_t n = (size_t)p->channels * p->op.k, groups = n / p->op.group;
	uint16_t *scales = malloc(groups * sizeof(*scales));
	uint8_t *rows = malloc(n);

	for (size_t i = 0; i < n; i++)
		rows[i] = (uint8_t)random_in(0, 15);
	for (size_t i = 0; i < groups; i++)
		scales[i] = fw_f32_to_f16(0.05f * random_float());
	npu_pack_w4(w, p->channels, p->op.k, p->op.group, 0, p->channels, rows, scales);
	free(rows);
	free(scales);
}

static void fill_rows(struct matmul *p, void *w)
{
	for (size_t i = 0; i < (size_t)p->channels * p->op.ldw; i++) {
		float v = random_float();

		if (p->op.format == LLM_GPU_F32)
			((float *)w)[i] = v;
		else
			((uint16_t *)w)[i] = fw_f32_to_f16(v);
	}
}

/* The exact weights of channel @c. */
static void channel_weights(const struct matmul *p, unsigned int c)
{
	const struct llm_gpu_matmul *op = &p->op;
	const uint8_t *panel;
	uint16_t scales[1024];
	uint8_t *numbers;

	switch (op->format) {
	case LLM_GPU_W8:
		panel = (const uint8_t *)p->w + c / 64 * VNPU_PANEL_I8_BYTES(op->k);
		for (unsigned int i = 0; i < op->k; i++)
			p->row[i] =
				(double)(int8_t)panel[i / 4 * 256 + c % 64 * 4 + i % 4] *
				((const float *)(panel + VNPU_PANEL_I8_BYTES(op->k) - 256))[c % 64];
		break;
	case LLM_GPU_W4:
		numbers = malloc(op->k);
		npu_unpack_w4(p->w, op->k, op->group, c, numbers, scales);
		for (unsigned int i = 0; i < op->k; i++)
			p->row[i] = (numbers[i] - 8.0) * fw_f16_to_f32(scales[i / op->group]);
		free(numbers);
		break;
	default:
		for (unsigned int i = 0; i < op->k; i++)
			p->row[i] =
				op->format == LLM_GPU_F32
					? ((const float *)p->w)[(size_t)c * op->ldw + i]
					: fw_f16_to_f32((
						  (const uint16_t *)p->w)[(size_t)c * op->ldw + i]);
	}
}

/* A sum of k products differs from the exact one by at most k + 4 roundings of the terms' absolute
 * values. Channels outside the range stay unchanged. */
static void check_exact(const struct matmul *p)
{
	const struct llm_gpu_matmul *op = &p->op;

	for (unsigned int c = 0; c < p->channels; c++) {
		bool inside = c >= op->first && c - op->first < op->n;

		channel_weights(p, c);
		for (unsigned int r = 0; r < op->m; r++) {
			double sum = p->bias ? p->bias[c] : 0, size = fabs(sum), bound, term;
			float got = p->y[(size_t)r * op->ldy + c];
			uint32_t bits;

			if (!inside) {
				memcpy(&bits, &got, sizeof(bits));
				assert_int_equal(bits, 0xeeeeeeee);
				continue;
			}
			if (p->before) {
				sum += p->before[(size_t)r * op->ldy + c];
				size += fabs(p->before[(size_t)r * op->ldy + c]);
			}
			for (unsigned int i = 0; i < op->k; i++) {
				if (p->x_scale)
					term = (double)((const int8_t *)
								p->x)[(size_t)r * op->ldx + i] *
					       p->x_scale[r] * p->row[i];
				else
					term = (double)((const float *)
								p->x)[(size_t)r * op->ldx + i] *
					       p->row[i];
				sum += term;
				size += fabs(term);
			}
			bound = (op->k + 4) * U * size;
			if (!(fabs(got - sum) <= bound))
				fail_msg("format %d, %u x %u x %u, channel %u, row %u: %.9g, not "
					 "%.9g",
					 op->format, op->m, op->k, p->channels, c, r, got, sum);
		}
	}
}

/* Results must be bit-identical to the NPU's. */
static void check_same(const struct matmul *p)
{
	const struct llm_gpu_matmul *op = &p->op;
	float *want = malloc((size_t)op->m * p->channels * 4);
	struct fw_matmul_i8 i8 = { .a = p->x,
				   .a_scale = p->x_scale,
				   .w = p->w,
				   .bias = p->before ? NULL : p->bias,
				   .c = want,
				   .m = op->m,
				   .n = p->channels,
				   .k = op->k,
				   .lda = op->ldx,
				   .ldc = p->channels };
	struct fw_matmul_w4 w4 = { .a = p->x,
				   .a_scale = p->x_scale,
				   .w = p->w,
				   .bias = p->before ? NULL : p->bias,
				   .c = want,
				   .m = op->m,
				   .n = p->channels,
				   .k = op->k,
				   .group = op->group,
				   .lda = op->ldx,
				   .ldc = p->channels };

	if (op->format == LLM_GPU_W8)
		fw_kernels_generic.matmul_i8(&i8, NULL);
	else
		(p->x_scale ? fw_kernels_generic.matmul_w4 : fw_kernels_generic.matmul_w4f)(&w4,
											    NULL);
	for (unsigned int r = 0; r < op->m; r++)
		for (unsigned int c = op->first; c < op->first + op->n; c++) {
			float a = p->y[(size_t)r * op->ldy + c],
			      b = want[(size_t)r * p->channels + c];

			if (p->before) {
				b = p->before[(size_t)r * op->ldy + c] + b;
				b = p->bias ? b + p->bias[c] : b;
			}
			if (memcmp(&a, &b, 4))
				fail_msg("format %d, %u x %u x %u, channel %u, row %u: %a, of the "
					 "NPU %a",
					 op->format, op->m, op->k, p->channels, c, r, a, b);
		}
	free(want);
}

/* Whether this width adds in the NPU's order: a CPU's width, with a fused multiply-add. */
static bool keeps_order(int i)
{
#if defined(__x86_64__)
	return llm_gpu_vector(gpus[i]) > 4 && llm_gpu_info(gpus[i])->cpu &&
	       __builtin_cpu_supports("fma");
#else
	return false;
#endif
}

static void run_matmul(int i, enum llm_gpu_weights format, bool int8, bool bias, unsigned int m,
		       unsigned int channels, unsigned int k, unsigned int group,
		       enum llm_gpu_sharing sharing)
{
	struct matmul p = { .op = { .format = format, .m = m, .k = k, .group = group },
			    .channels = channels };
	size_t x_bytes, w_bytes, y_bytes;
	struct arena a;
	void *data;

	p.op.first = random_in(0, 2) ? random_in(0, channels - 1) : 0;
	p.op.n = random_in(1, channels - p.op.first);
	if (!random_in(0, 2))
		p.op.n = channels - p.op.first;
	p.op.ldx = (k + 3) / 4 * 4 + random_in(0, 5);
	p.op.ldw = k + random_in(0, 3);
	p.op.ldy = channels + random_in(0, 5);
	x_bytes = (size_t)m * p.op.ldx * (int8 ? 1 : 4);
	w_bytes = weight_bytes(&p);
	y_bytes = (size_t)m * p.op.ldy * 4;
	arena_open(&a, gpus[i], x_bytes + w_bytes + y_bytes + (m + channels) * 4 + 5 * 64, sharing);
	p.row = malloc(k * sizeof(*p.row));

	data = arena_take(&a, w_bytes, &p.op.w);
	p.w = data;
	(format == LLM_GPU_W8 ? fill_w8 : format == LLM_GPU_W4 ? fill_w4 : fill_rows)(&p, data);
	data = arena_take(&a, x_bytes, &p.op.x);
	p.x = data;
	for (size_t j = 0; j < (size_t)m * p.op.ldx; j++)
		if (int8)
			((int8_t *)data)[j] = (int8_t)random_in(0, 254) - 127;
		else
			((float *)data)[j] = random_float();
	if (int8) {
		p.x_scale = arena_take(&a, m * 4, &p.op.x_scale);
		random_floats(p.x_scale, m);
	}
	if (bias) {
		p.bias = arena_take(&a, channels * 4, &p.op.bias);
		random_floats(p.bias, channels);
	}
	p.y = arena_take(&a, y_bytes, &p.op.y);
	memset(p.y, 0xee, y_bytes);
	p.op.add = (format == LLM_GPU_W8 || format == LLM_GPU_W4) && random_in(0, 1);
	for (unsigned int r = 0; p.op.add && r < m; r++)
		random_floats(p.y + (size_t)r * p.op.ldy + p.op.first, p.op.n);
	if (p.op.add) {
		p.before = malloc(y_bytes);
		memcpy(p.before, p.y, y_bytes);
	}

	arena_send(&a, queues[i]);
	OK(llm_gpu_matmul(queues[i], &p.op));
	arena_fetch(&a, queues[i]);
	check_exact(&p);
	if (format == LLM_GPU_W8 || (format == LLM_GPU_W4 && keeps_order(i)))
		check_same(&p);
	free(p.row);
	free(p.before);
	arena_close(&a);
}

static const unsigned int groups[] = { 32, 64, 128 };

static void random_matmuls(const char *name, enum llm_gpu_weights format, bool int8)
{
	random_begin(name);
	FOR_EACH_WIDTH(i)
	for (unsigned int round = 0; round < ROUNDS; round++) {
		unsigned int group = groups[random_in(0, 2)];
		unsigned int k = format == LLM_GPU_W4 ? group * random_in(1, 512 / group)
						      : random_in(1, 400);

		/* The first rounds test each number of rows that has its own kernel. */
		run_matmul(i, format, int8, random_in(0, 1),
			   round < 6 ? round + 1 : random_in(5, 70), random_in(1, 300), k, group,
			   random_in(0, 1) ? LLM_GPU_SHARED : LLM_GPU_COPIED);
	}
	/* Of a single panel, tiles of so many rows fill the device. */
	for (int i = 0; i < NR_WIDTHS; i++)
		run_matmul(i, format, int8, random_in(0, 1),
			   256 * llm_gpu_info(gpus[i])->compute_units + random_in(1, 8), 64, 64, 32,
			   LLM_GPU_SHARED);
}

static void w8_has_the_npus_bits(void **state)
{
	random_matmuls(__func__, LLM_GPU_W8, true);
}

static void w4_of_int8_activations(void **state)
{
	random_matmuls(__func__, LLM_GPU_W4, true);
}

static void w4_of_float_activations(void **state)
{
	random_matmuls(__func__, LLM_GPU_W4, false);
}

static void f32_rows(void **state)
{
	random_matmuls(__func__, LLM_GPU_F32, false);
}

static void f16_rows(void **state)
{
	random_matmuls(__func__, LLM_GPU_F16, false);
}

/* 2^16 greatest products: sums that neither a float nor a short can hold. */
static void w8_sums_are_exact_at_the_greatest_k(void **state)
{
	enum { K = 1 << 16 };
	FOR_EACH_WIDTH(i)
	for (unsigned int m = 1; m <= 5; m += 4) {
		struct llm_gpu_matmul op = {
			.format = LLM_GPU_W8, .m = m, .k = K, .n = 3, .ldx = K, .ldy = 3
		};
		struct arena a;
		float ones[3] = { 1, 1, 1 }, *scale, *y;
		int8_t *rows = malloc(3 * K), *x;
		void *w;

		arena_open(&a, gpus[i], npu_w8_bytes(3, K) + m * K + 4096, LLM_GPU_SHARED);
		w = arena_take(&a, npu_w8_bytes(3, K), &op.w);
		memset(rows, -127, 3 * K);
		for (unsigned int c = 0; c < 3; c++)
			rows[c * K + K - 1] = 126;
		npu_pack_w8(w, 3, K, 0, 3, rows, ones);
		x = arena_take(&a, m * K, &op.x);
		memset(x, 127, m * K);
		scale = arena_take(&a, m * 4, &op.x_scale);
		for (unsigned int r = 0; r < m; r++)
			scale[r] = 1;
		y = arena_take(&a, m * 3 * 4, &op.y);
		arena_send(&a, queues[i]);
		OK(llm_gpu_matmul(queues[i], &op));
		arena_fetch(&a, queues[i]);
		for (unsigned int j = 0; j < m * 3; j++)
			assert_true(y[j] == (float)(-127 * 127 * (K - 1) + 127 * 126));
		free(rows);
		arena_close(&a);
	}
}

static void bad_operands_are_refused(void **state)
{
	struct llm_gpu_matmul good = { .format = LLM_GPU_W4,
				       .m = 2,
				       .k = 64,
				       .n = 70,
				       .ldx = 64,
				       .ldy = 70,
				       .group = 32 },
			      op;
	struct llm_gpu_queue *q;
	struct arena a;

	if (no_platform)
		skip();
	q = queues[0];
	arena_open(&a, gpus[0], 65536, LLM_GPU_SHARED);
	arena_take(&a, npu_w4_bytes(70, 64, 32), &good.w);
	arena_take(&a, 2 * 64 * 4, &good.x);
	arena_take(&a, 2 * 70 * 4, &good.y);
	OK(llm_gpu_matmul(q, &good));

#define BAD(part, ...)                                 \
	do {                                           \
		op = good;                             \
		__VA_ARGS__;                           \
		REFUSED(llm_gpu_matmul(q, &op), part); \
	} while (0)
	BAD("sizes are", op.m = 0);
	BAD("sizes are", op.k = 0);
	BAD("sizes are", op.n = 0);
	BAD("sizes are", op.m = UINT32_MAX);
	BAD("sizes are", op.first = UINT32_MAX);
	BAD("sizes are", op.n = UINT32_MAX; op.first = 2);
	BAD("unknown format", op.format = 4);
	BAD("groups are 32", op.group = 48);
	BAD("groups are 32", op.group = 0);
	BAD("groups are 32", op.k = 65);
	BAD("INT8 activations", op.format = LLM_GPU_W8);
	BAD("F32 activations", op.format = LLM_GPU_F32; op.ldw = 64; op.x_scale = good.x);
	BAD("cannot add to its result", op.format = LLM_GPU_F32; op.ldw = 64; op.add = true);
	BAD(": x: missing", op.x.buf = NULL);
	BAD(": weights: missing", op.w.buf = NULL);
	BAD(": y: missing", op.y.buf = NULL);
	BAD("a matmul: weights: not a multiple of 64", op.w.off += 32);
	BAD("a matmul: x: not a multiple of 4", op.x.off += 2);
	BAD("a matmul: y: not a multiple of 4", op.y.off += 1);
	BAD("a matmul: weights: not inside", op.w.off = 65536 - 64);
	BAD("a matmul: weights: not inside", op.n = 4000; op.ldy = 4000);
	BAD("a matmul: x: not inside", op.x.off = 65536 - 2 * 64 * 4 + 4);
	BAD("a matmul: x: not inside", op.x.off = SIZE_MAX - 3);
	BAD("a matmul: x: not inside", op.ldx = UINT32_MAX);
	BAD("a matmul: y: not inside", op.y.off = 65536);
	BAD("a matmul: x: rows overlap", op.ldx = 63);
	BAD("a matmul: y: rows overlap", op.ldy = 69);
	BAD("a matmul: bias: not inside", op.bias = (struct llm_gpu_area){ a.buf, 65536 - 69 * 4 });
	BAD("a matmul: scales of x: not inside",
	    op.x_scale = (struct llm_gpu_area){ a.buf, 65536 - 4 });
	/* Memory of another device. */
	struct arena other;

	arena_open(&other, gpus[1], 65536, LLM_GPU_SHARED);
	BAD("memory of another device", op.y.buf = other.buf);
	arena_close(&other);
	OK(llm_gpu_finish(q));
	arena_close(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(w8_has_the_npus_bits),
		cmocka_unit_test(w4_of_int8_activations),
		cmocka_unit_test(w4_of_float_activations),
		cmocka_unit_test(f32_rows),
		cmocka_unit_test(f16_rows),
		cmocka_unit_test(w8_sums_are_exact_at_the_greatest_k),
		cmocka_unit_test(bad_operands_are_refused),
	};

	return cmocka_run_group_tests_name("gpu_matmul", tests, gpu_setup, gpu_teardown);
}
