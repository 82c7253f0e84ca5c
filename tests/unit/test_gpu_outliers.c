// SPDX-License-Identifier: MIT
/*
 * The GPU lane's outliers of activations: random rows and weights compared with the device's
 * portable kernels, ranges of channels, bad operands.
 */
#include "gpu_fixture.h"

#include <math.h>

#include "kernels.h"
#include "npu_graph.h"

#define ROUNDS 30

static _Alignas(64) uint8_t scratch[FW_SCRATCH_BYTES];

static void random_row(float *x, unsigned int n, int round)
{
	for (unsigned int i = 0; i < n; i++)
		x[i] = random_float();
	/*
	 * Few or too many outliers, anywhere or in one lane; equal
	 * magnitudes; zeros; NaN, infinity.
	 */
	for (unsigned int i = random_in(0, 24); i; i--)
		x[round % 8 == 1 && n > 64 ? random_in(0, (n - 1) / 64) * 64
					   : random_in(0, n - 1)] *= 1000;
	if (round % 8 == 2)
		for (unsigned int i = 0; i < n; i++)
			x[i] = random_in(0, 1) ? 0.3f : -0.3f;
	if (round % 8 == 3)
		memset(x, 0, n * 4);
	if (round % 8 == 4)
		x[random_in(0, n - 1)] = random_in(0, 1) ? NAN : -INFINITY;
}

static void check_row(int device, const float *x, const int8_t *q, float scale,
		      const struct vnpu_outliers *o, unsigned int n)
{
	bool exact = llm_gpu_info(gpus[device])->exact;
	unsigned int padded = (n + 3) / 4 * 4;
	int8_t *want = malloc(padded);
	struct vnpu_outliers list;
	float want_scale;

	fw_kernels_generic.quant_outliers(want, &want_scale, &list, x, n);
	if (isnan(want_scale))
		assert_true(isnan(scale));
	else
		assert_true(fabsf(scale - want_scale) <= (exact ? 0 : want_scale * 0x1p-22f));
	for (unsigned int c = 0; c < padded; c++)
		if (abs(q[c] - want[c]) > !exact)
			fail_msg("column %u of %u is %d, of the NPU %d", c, n, q[c], want[c]);
	for (int j = 0; j < VNPU_OUTLIERS; j++) {
		double back, from;

		assert_true(o->column[j] == list.column[j]);
		if (list.column[j] < 0) {
			assert_true(o->value[j] == 0);
			continue;
		}
		from = x[(unsigned int)list.column[j]];
		back = (double)q[(unsigned int)list.column[j]] * scale + o->value[j];
		assert_true(fabs(back - from) <= fabs(from) * 0x1p-24);
		if (exact)
			assert_true(o->value[j] == list.value[j]);
	}
	free(want);
}

static void rows_have_the_npus_numbers_and_outliers(void **state)
{
	random_begin(__func__);
	FOR_EACH_WIDTH(i)
	for (int round = 0; round < ROUNDS; round++) {
		struct llm_gpu_quant_outliers op = { .rows = random_in(1, 5),
						     .cols = random_in(1, 1500) };
		unsigned int padded = (op.cols + 3) / 4 * 4;
		struct vnpu_outliers *lists;
		float *x, *scale;
		struct arena a;
		int8_t *q;

		op.ldx = op.cols + random_in(0, 7);
		op.ldq = padded + random_in(0, 7);
		arena_open(&a, gpus[i],
			   (size_t)op.rows * (op.ldx * 4 + op.ldq + 4 + sizeof(*lists)) + 4096,
			   random_in(0, 1) ? LLM_GPU_SHARED : LLM_GPU_COPIED);
		x = arena_take(&a, (size_t)op.rows * op.ldx * 4, &op.x);
		q = arena_take(&a, (size_t)op.rows * op.ldq, &op.q);
		scale = arena_take(&a, op.rows * 4, &op.scale);
		lists = arena_take(&a, op.rows * sizeof(*lists), &op.outliers);
		for (unsigned int r = 0; r < op.rows; r++)
			random_row(x + (size_t)r * op.ldx, op.cols, round);
		arena_send(&a, queues[i]);
		OK(llm_gpu_quant_outliers(queues[i], &op));
		arena_fetch(&a, queues[i]);
		for (unsigned int r = 0; r < op.rows; r++)
			check_row(i, x + (size_t)r * op.ldx, q + (size_t)r * op.ldq, scale[r],
				  &lists[r], op.cols);
		arena_close(&a);
	}
}

static void fill_weights(const struct llm_gpu_add_outliers *op, unsigned int channels, void *panels)
{
	size_t n = (size_t)channels * op->k;
	uint16_t *halves = malloc(n * sizeof(*halves));
	float *scales = malloc(channels * sizeof(*scales));
	uint8_t *numbers = malloc(n);

	for (size_t i = 0; i < n; i++) {
		numbers[i] = (uint8_t)random_in(0, op->format == LLM_GPU_W8 ? 255 : 15);
		halves[i] = fw_f32_to_f16(random_float());
	}
	for (unsigned int c = 0; c < channels; c++)
		scales[c] = random_float();
	if (op->format == LLM_GPU_W8)
		npu_pack_w8(panels, channels, op->k, 0, channels, (int8_t *)numbers, scales);
	else
		npu_pack_w4(panels, channels, op->k, op->group, 0, channels, numbers, halves);
	free(numbers);
	free(scales);
	free(halves);
}

/* Results are bit-identical: on any device a sum is fused multiply-adds in the list's order.
 * Channels outside the range stay unchanged. */
static void check_matmul(const struct llm_gpu_add_outliers *op, unsigned int channels,
			 const void *w, const struct vnpu_outliers *lists, const float *before,
			 const float *y)
{
	float *want = malloc((size_t)op->m * channels * 4);
	struct fw_add_outliers t = { .x = before,
				     .outliers = lists,
				     .w = w,
				     .y = want,
				     .m = op->m,
				     .n = channels,
				     .k = op->k,
				     .group = op->format == LLM_GPU_W4 ? op->group : 0,
				     .ldx = op->ldy,
				     .ldy = channels };

	fw_kernels_generic.add_outliers(&t, scratch);
	for (unsigned int r = 0; r < op->m; r++)
		for (unsigned int c = 0; c < channels; c++) {
			bool inside = c >= op->first && c - op->first < op->n;
			float is = inside ? want[(size_t)r * channels + c]
					  : before[(size_t)r * op->ldy + c];

			if (memcmp(&is, &y[(size_t)r * op->ldy + c], 4))
				fail_msg("row %u, channel %u of %u..%u: %a, not %a", r, c,
					 op->first, op->first + op->n, y[(size_t)r * op->ldy + c],
					 is);
		}
	free(want);
}

static void add_round(int device, enum llm_gpu_weights format)
{
	struct llm_gpu_add_outliers op = { .format = format,
					   .m = random_in(1, 9),
					   .group = 32u << random_in(0, 2) };
	unsigned int channels = random_in(1, 200);
	struct vnpu_outliers *lists;
	size_t w_bytes, y_bytes;
	float *y, *before;
	struct arena a;
	void *w;

	op.k = format == LLM_GPU_W4 ? op.group * random_in(1, 5) : random_in(1, 400);
	op.first = random_in(0, 1) ? random_in(0, channels - 1) : 0;
	op.n = random_in(1, channels - op.first);
	op.ldy = channels + random_in(0, 5);
	w_bytes = format == LLM_GPU_W8 ? npu_w8_bytes(channels, op.k)
				       : npu_w4_bytes(channels, op.k, op.group);
	y_bytes = (size_t)op.m * op.ldy * 4;
	arena_open(&a, gpus[device], w_bytes + y_bytes + op.m * sizeof(*lists) + 4096,
		   random_in(0, 1) ? LLM_GPU_SHARED : LLM_GPU_COPIED);
	w = arena_take(&a, w_bytes, &op.w);
	y = arena_take(&a, y_bytes, &op.y);
	lists = arena_take(&a, op.m * sizeof(*lists), &op.outliers);
	fill_weights(&op, channels, w);
	for (size_t i = 0; i < y_bytes / 4; i++)
		y[i] = random_float();
	for (unsigned int r = 0; r < op.m; r++) {
		unsigned int column = random_in(0, op.k - 1);

		/* Some columns repeat, or are beyond the last one: they end the list. */
		for (int j = 0; j < VNPU_OUTLIERS; j++, column += random_in(0, op.k / 16 + 3)) {
			lists[r].value[j] = random_float() * 50;
			lists[r].column[j] = random_in(0, 30) ? (float)column : -1;
		}
	}
	before = malloc(y_bytes);
	memcpy(before, y, y_bytes);
	arena_send(&a, queues[device]);
	OK(llm_gpu_add_outliers(queues[device], &op));
	arena_fetch(&a, queues[device]);
	check_matmul(&op, channels, w, lists, before, y);
	free(before);
	arena_close(&a);
}

static void results_have_the_npus_bits(void **state)
{
	random_begin(__func__);
	FOR_EACH_WIDTH(i)
	for (int round = 0; round < ROUNDS; round++)
		add_round(i, round % 2 ? LLM_GPU_W4 : LLM_GPU_W8);
}

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
	arena_open(&a, gpus[0], 65536, LLM_GPU_SHARED);
	at = (struct llm_gpu_area){ a.buf, 0 };

	struct llm_gpu_quant_outliers quant = { at,	   at,	       at,	  at,
						.rows = 2, .cols = 15, .ldx = 15, .ldq = 16 };
	BAD(llm_gpu_quant_outliers, quant, "sizes are", op.rows = 0);
	BAD(llm_gpu_quant_outliers, quant, "sizes are", op.cols = VNPU_MAX_K_I8 + 1);
	BAD(llm_gpu_quant_outliers, quant, "outliers: q: rows overlap", op.ldq = 15);
	BAD(llm_gpu_quant_outliers, quant, "outliers: scales: not inside",
	    op.scale.off = 65536 - 4);
	BAD(llm_gpu_quant_outliers, quant, "outliers: outliers: not inside",
	    op.outliers.off = 65536 - 252);
	BAD(llm_gpu_quant_outliers, quant, "outliers: x: missing", op.x.buf = NULL);

	struct llm_gpu_add_outliers add = { .format = LLM_GPU_W8,
					    .m = 2,
					    .k = 96,
					    .n = 64,
					    .outliers = at,
					    .w = at,
					    .y = at,
					    .ldy = 64,
					    .group = 32 };
	BAD(llm_gpu_add_outliers, add, "sizes are", op.m = 0);
	BAD(llm_gpu_add_outliers, add, "sizes are", op.k = VNPU_MAX_K_I8 + 1);
	BAD(llm_gpu_add_outliers, add, "of 0 channels", op.n = 0);
	BAD(llm_gpu_add_outliers, add, "channels from", op.first = UINT32_MAX);
	BAD(llm_gpu_add_outliers, add, "not in panels", op.format = LLM_GPU_F32);
	BAD(llm_gpu_add_outliers, add, "in groups of 64", op.format = LLM_GPU_W4; op.group = 64);
	BAD(llm_gpu_add_outliers, add, "outliers: weights: not inside", op.first = 1 << 14);
	BAD(llm_gpu_add_outliers, add, "outliers: outliers: not inside",
	    op.outliers.off = 65536 - 252);
	BAD(llm_gpu_add_outliers, add, "outliers: y: rows overlap", op.ldy = 63);
	OK(llm_gpu_finish(q));
	arena_close(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_have_the_npus_numbers_and_outliers),
		cmocka_unit_test(results_have_the_npus_bits),
		cmocka_unit_test(bad_operands_are_refused),
	};

	return cmocka_run_group_tests_name("gpu_outliers", tests, gpu_setup, gpu_teardown);
}
