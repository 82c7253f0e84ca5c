// SPDX-License-Identifier: MIT
/*
 * The portable kernels: what every other set must equal, bit for bit.
 */
#include "kernels.h"

static void kernel_matmul_i8(const struct fw_matmul_i8 *t, void *scratch)
{
	uint32_t kb = (t->k + 3) / 4, n0, m, n, b, cols;
	const uint8_t *panel = t->w;
	const int8_t *a, *w;
	const float *scale;
	int32_t acc[VNPU_PANEL_N];
	float y;

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
					acc[n] += a[0] * w[4 * n] + a[1] * w[4 * n + 1] + a[2] * w[4 * n + 2] +
						  a[3] * w[4 * n + 3];
			for (n = 0; n < cols; n++) {
				y = (float)acc[n] * (t->a_scale[m] * scale[n]);
				t->c[m * t->ldc + n0 + n] = t->bias ? y + t->bias[n0 + n] : y;
			}
		}
	}
}

#define FW_KERNELS_NAME fw_kernels_generic
#define FW_KERNELS_LABEL "generic"
#include "kernels_float.h"
