/* SPDX-License-Identifier: MIT */
/*
 * QK_I8 for one instruction set. Panels are multiplied one after another, each with all rows of a
 * group, so that a panel comes into the cache once; the rows stay in the worker's scratch, in the
 * form that the instruction set needs.
 *
 * A file that includes this one for qk_i8(), which is fw_kernels.qk_i8, defines
 *
 *	QK_ROWS		rows of a group, a multiple of QK_STEP; before
 *	QK_STEP		rows that are multiplied with a panel at a time; before
 *	qk_rows()	converts a group, the rows m0..m0 + rows - 1, into the scratch
 *	qk_sums()	acc[now][64] = rows m..m + now - 1 of the group times a panel; m is a
 *			multiple of QK_STEP
 */
#ifndef KERNELS_QK_H
#define KERNELS_QK_H

#include "kernels.h"

#define QK_INLINE static inline __attribute__((always_inline))

/* One row's scores of a panel from its sums. */
QK_INLINE void qk_narrow(int16_t *scores, const int32_t *acc, uint32_t shift)
{
#if defined(__AVX512F__)
	const __m512i half = _mm512_set1_epi32(1 << shift >> 1);
	const __m128i count = _mm_cvtsi32_si128((int)shift);

	for (int i = 0; i < VNPU_QK_PANEL; i += 16)
		_mm256_storeu_si256(
			(__m256i *)(scores + i),
			_mm512_cvtsepi32_epi16(_mm512_sra_epi32(
				_mm512_add_epi32(_mm512_loadu_si512(acc + i), half), count)));
#elif defined(__AVX2__)
	const __m256i half = _mm256_set1_epi32(1 << shift >> 1);
	const __m128i count = _mm_cvtsi32_si128((int)shift);
	__m256i a, b;

	/* packs works on halves of 128 bits: its quarters come out in the order 0 2 1 3. */
	for (int i = 0; i < VNPU_QK_PANEL; i += 16) {
		a = _mm256_add_epi32(_mm256_loadu_si256((const __m256i *)(acc + i)), half);
		b = _mm256_add_epi32(_mm256_loadu_si256((const __m256i *)(acc + i + 8)), half);
		a = _mm256_packs_epi32(_mm256_sra_epi32(a, count), _mm256_sra_epi32(b, count));
		_mm256_storeu_si256((__m256i *)(scores + i), _mm256_permute4x64_epi64(a, 0xd8));
	}
#elif defined(__ARM_FEATURE_DOTPROD)
	/* A rounding shift to the right. */
	const int32x4_t count = vdupq_n_s32(-(int32_t)shift);

	for (int i = 0; i < VNPU_QK_PANEL; i += 4)
		vst1_s16(scores + i, vqmovn_s32(vrshlq_s32(vld1q_s32(acc + i), count)));
#else
	int32_t s;

	for (int i = 0; i < VNPU_QK_PANEL; i++) {
		s = (acc[i] + (1 << shift >> 1)) >> shift;
		scores[i] = (int16_t)(s > INT16_MAX ? INT16_MAX : s < INT16_MIN ? INT16_MIN : s);
	}
#endif
}

/* The first of @t's rows that sees panel @panel; more than all of them if none does. */
static inline uint64_t qk_first_row(const struct fw_qk_i8 *t, uint32_t panel)
{
	uint64_t begin = (uint64_t)panel * VNPU_QK_PANEL;

	return begin > t->pos ? begin - t->pos : 0;
}

#if defined(QK_STEP)
static void qk_rows(const struct fw_qk_i8 *t, uint32_t m0, uint32_t rows, void *scratch);
static void qk_sums(const struct fw_qk_i8 *t, uint32_t m0, uint32_t m, uint32_t now,
		    const uint8_t *k, void *scratch, int32_t *acc);

/* Rows m0..m0 + rows - 1 of @t, which are in the scratch. */
static void qk_group(const struct fw_qk_i8 *t, uint32_t m0, uint32_t rows, void *scratch)
{
	_Alignas(64) int32_t acc[QK_STEP * VNPU_QK_PANEL];
	uint64_t first;

	for (uint32_t p = t->panel; p < t->panel + t->panels; p++) {
		const uint8_t *k = t->k + p * VNPU_QK_PANEL_BYTES(t->head_dim);

		first = qk_first_row(t, p);
		first = first > m0 ? first - m0 : 0;
		for (uint64_t m = first / QK_STEP * QK_STEP; m < rows; m += QK_STEP) {
			uint32_t now = rows - m < QK_STEP ? (uint32_t)(rows - m) : QK_STEP;

			qk_sums(t, m0, (uint32_t)m, now, k, scratch, acc);
			for (uint32_t r = m < first ? (uint32_t)(first - m) : 0; r < now; r++)
				qk_narrow(t->scores + (m0 + m + r) * t->lds + p * VNPU_QK_PANEL,
					  acc + r * VNPU_QK_PANEL, t->shift);
		}
	}
}

static void qk_i8(const struct fw_qk_i8 *t, void *scratch)
{
	for (uint32_t m0 = 0, rows; m0 < t->rows; m0 += rows) {
		rows = t->rows - m0 < QK_ROWS ? t->rows - m0 : QK_ROWS;
		qk_rows(t, m0, rows, scratch);
		qk_group(t, m0, rows, scratch);
	}
}
#endif

#endif /* KERNELS_QK_H */
