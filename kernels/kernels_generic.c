// SPDX-License-Identifier: MIT
/* The portable kernels: all others must have the same results, bit for bit. */
#include <math.h>

#include "kernels.h"
#include "kernels_kq.h"
#include "kernels_w4.h"
#include "kernels_wk.h"

/* Number (k, n) of a panel of MATMUL_WK. */
static int wk_number(const struct fw_wk_panel *p, uint32_t k, uint32_t n)
{
	uint32_t line = k % 8 / 4 * 4 + n / 16, plane, to = 0, u = 0;
	const uint8_t *at = wk_k_block(p, k / 8 * 8) + n % 16 * 4 + k % 4;

	if (p->bits == 8)
		return (int8_t)at[line * 64];
	for (plane = 4; plane; plane /= 2) {
		if (!(p->bits & plane))
			continue;
		u |= (at[line % plane * 64] >> line / plane * plane & ((1 << plane) - 1)) << to;
		at += plane * 64;
		to += plane;
	}
	return p->bits == 1 ? 2 * (int)u - 1 : (int)u - wk_zero(p->bits);
}

static void matmul_wk(const struct fw_matmul_i8 *t)
{
	const struct fw_wk_panel *p;
	const float *scale;
	uint32_t m, n, k;
	int32_t acc;
	float y;

	for (m = 0; m < t->m; m++) {
		for (n = 0; n < t->n; n++) {
			p = &t->wk[n / VNPU_PANEL_N];
			scale = (const float *)(wk_sums(p, t->k) + 256);
			acc = 0;
			for (k = 0; k < t->k; k++)
				acc += t->a[m * t->lda + k] * wk_number(p, k, n % VNPU_PANEL_N);
			y = (float)acc * (t->a_scale[m] * scale[n % VNPU_PANEL_N]);
			t->c[m * t->ldc + n] = t->bias ? y + t->bias[n] : y;
		}
	}
}

static void kernel_matmul_i8(const struct fw_matmul_i8 *t, void *scratch)
{
	uint32_t kb = (t->k + 3) / 4, n0, m, n, b, cols;
	const uint8_t *panel = t->w;
	const int8_t *a, *w;
	const float *scale;
	int32_t acc[VNPU_PANEL_N];
	float y;

	if (t->wk) {
		matmul_wk(t);
		return;
	}
	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N, panel += VNPU_PANEL_I8_BYTES(t->k)) {
		cols = t->n - n0 < VNPU_PANEL_N ? t->n - n0 : VNPU_PANEL_N;
		scale = (const float *)(panel + (size_t)kb * 256 + 256);
		for (m = 0; m < t->m; m++) {
			a = t->a + m * t->lda;
			w = (const int8_t *)panel;
			for (n = 0; n < VNPU_PANEL_N; n++)
				acc[n] = 0;
			for (b = 0; b < kb; b++, a += 4, w += 256)
				for (n = 0; n < VNPU_PANEL_N; n++)
					acc[n] += a[0] * w[4 * n] + a[1] * w[4 * n + 1] +
						  a[2] * w[4 * n + 2] + a[3] * w[4 * n + 3];
			for (n = 0; n < cols; n++) {
				y = (float)acc[n] * (t->a_scale[m] * scale[n]);
				t->c[m * t->ldc + n0 + n] = t->bias ? y + t->bias[n0 + n] : y;
			}
		}
	}
}

/* The float of an f16, exact. */
static float f16_float(const uint8_t *p)
{
	uint32_t h = p[0] | p[1] << 8, exponent = h >> 10 & 31, mantissa = h & 1023;
	float x = exponent ? ldexpf(1024 + mantissa, (int)exponent - 25) : ldexpf(mantissa, -24);

	if (exponent == 31)
		x = mantissa ? NAN : INFINITY;
	return h >> 15 ? -x : x;
}

/* Number k of channel n of a group, without its scale. */
static int w4_number(const uint8_t *w, uint32_t k, uint32_t n)
{
	return (w[k / 8 * 256 + n * 4 + k % 4] >> k % 8 / 4 * 4 & 15) - W4_ZERO;
}

static void kernel_matmul_w4(const struct fw_matmul_w4 *t, void *scratch)
{
	uint32_t n, m, k0, k;
	const uint8_t *w;
	const int8_t *a;
	int32_t acc;
	float c;

	for (m = 0; m < t->m; m++) {
		for (n = 0; n < t->n; n++) {
			a = (const int8_t *)t->a + m * t->lda;
			w = t->w + n / VNPU_PANEL_N * VNPU_PANEL_W4_BYTES(t->k, t->group);
			c = 0;
			for (k0 = 0; k0 < t->k; k0 += t->group, w += w4_group_bytes(t->group)) {
				acc = 0;
				for (k = 0; k < t->group; k++)
					acc += a[k0 + k] * w4_number(w, k, n % VNPU_PANEL_N);
				c = fmaf((float)acc,
					 f16_float(w4_scales(w, t->group) + n % VNPU_PANEL_N * 2),
					 c);
			}
			c *= t->a_scale[m];
			t->c[m * t->ldc + n] = t->bias ? c + t->bias[n] : c;
		}
	}
}

static void kernel_matmul_w4f(const struct fw_matmul_w4 *t, void *scratch)
{
	uint32_t n, m, k0, k;
	const uint8_t *w;
	const float *a;
	float c, scale;

	for (m = 0; m < t->m; m++) {
		for (n = 0; n < t->n; n++) {
			a = (const float *)t->a + m * t->lda;
			w = t->w + n / VNPU_PANEL_N * VNPU_PANEL_W4_BYTES(t->k, t->group);
			c = 0;
			for (k0 = 0; k0 < t->k; k0 += t->group, w += w4_group_bytes(t->group)) {
				scale = f16_float(w4_scales(w, t->group) + n % VNPU_PANEL_N * 2);
				for (k = 0; k < t->group; k++)
					c = fmaf(a[k0 + k],
						 (float)w4_number(w, k, n % VNPU_PANEL_N) * scale,
						 c);
			}
			t->c[m * t->ldc + n] = t->bias ? c + t->bias[n] : c;
		}
	}
}

/* Number k, below 32, of channel n, or its level, less the zero. */
static int kq_number(const uint8_t *numbers, struct vnpu_kq_form f, uint32_t k, uint32_t n)
{
	int u = 0, to = 0;

	for (uint32_t p = 4; p; p /= 2) {
		if (!(f.bits & p))
			continue;
		u |= (numbers[k * p / 32 * 256 + n * 4 + k % 4] >> k % (32 / p) / 4 * p &
		      ((1 << p) - 1))
		     << to;
		numbers += p * 256;
		to += (int)p;
	}
	return f.levels ? vnpu_kq_levels[f.levels][u] : u - kq_zero(f);
}

/* Adds a block's part to the sum @c. */
static float kq_add(float c, const int8_t *a, const uint8_t *w, struct vnpu_kq_form f, uint32_t n)
{
	const struct kq_block b = kq_block(w, f);
	int32_t acc = 0, low = 0, dot, sum;

	for (uint32_t g = 0; g < f.block / f.group; g++) {
		dot = sum = 0;
		for (uint32_t k = g * f.group; k < (g + 1) * f.group; k++, a++) {
			dot += *a * kq_number(b.numbers + k / 32 * 256 * f.bits, f, k % 32, n);
			sum += *a;
		}
		acc += b.scale ? dot * b.scale[(g / 2 * 64 + n) * 2 + g % 2] : dot;
		low += b.min ? sum * b.min[(g / 2 * 64 + n) * 2 + g % 2] : sum;
	}
	c = fmaf((float)acc, f16_float(b.d + n * 2), c);
	return f.mins ? fmaf((float)low, -f16_float(b.dmin + n * 2), c) : c;
}

static void kernel_matmul_kq(const struct fw_matmul_kq *t, void *scratch)
{
	const struct vnpu_kq_form f = vnpu_kq_form(t->type);
	const uint64_t panel_bytes = vnpu_kq_panel_bytes(t->type, t->k);
	const uint8_t *w;
	float c;

	for (uint32_t m = 0; m < t->m; m++) {
		for (uint32_t n = 0; n < t->n; n++) {
			w = t->w + n / VNPU_PANEL_N * panel_bytes;
			c = 0;
			for (uint32_t k = 0; k < t->k; k += f.block, w += vnpu_kq_block_bytes(f))
				c = kq_add(c, t->a + m * t->lda + k, w, f, n % VNPU_PANEL_N);
			c *= t->a_scale[m];
			t->c[m * t->ldc + n] = t->bias ? c + t->bias[n] : c;
		}
	}
}

#define QK_ROWS 1
#define QK_STEP 1
#include "kernels_qk.h"

/* Rows are read where they are. */
static void qk_rows(const struct fw_qk_i8 *t, uint32_t m0, uint32_t rows, void *scratch)
{
}

static void qk_sums(const struct fw_qk_i8 *t, uint32_t m0, uint32_t m, uint32_t now,
		    const uint8_t *k, void *scratch, int32_t *acc)
{
	const int8_t *q = t->q + (m0 + m) * t->ldq;
	uint32_t columns = (t->head_dim + 3) / 4 * 4;

	for (uint32_t n = 0; n < VNPU_QK_PANEL; n++) {
		acc[n] = 0;
		for (uint32_t d = 0; d < columns; d++)
			acc[n] += q[d] * (int8_t)k[d / 4 * 256 + n * 4 + d % 4];
	}
}

#define kernel_qk_i8 qk_i8
#define FW_KERNELS_NAME fw_kernels_generic
#define FW_KERNELS_LABEL "generic"
#include "kernels_float.h"
