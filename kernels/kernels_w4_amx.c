// SPDX-License-Identifier: MIT
/*
 * 4-bit weights with AMX. A part of a panel is unpacked to signed numbers u - 8, whose groups
 * kernels_amx.h multiplies. kernels_w4_avx512.c computes few rows.
 */
#if defined(__x86_64__)
#include "kernels_amx.h"
#include "kernels_avx512.h"
#include "kernels_w4_avx512.h"

/* Fewer rows are faster with vpdpbusd. */
#define AMX_MIN_ROWS(group) ((group) < 64 ? 16 : 10)
/* k at a time: the unpacked weights of a panel are 16 KB, a third of L1. */
#define AMX_PART 256

struct w4_amx {
	_Alignas(64) uint8_t w[AMX_PART / 4][VNPU_PANEL_N][4];
	int32_t acc[2][4][AMX_TILE][16];
	float scale[AMX_PART / 32][VNPU_PANEL_N];
	float sum[AMX_MOST_ROWS][VNPU_PANEL_N];
};

_Static_assert(sizeof(struct w4_amx) <= FW_SCRATCH_BYTES, "the sums of all rows fit");

/* Unpacks a part of a panel, @k long, to numbers from -8 to 7. */
static void amx_unpack(struct w4_amx *s, const uint8_t *w, uint32_t k, uint32_t group)
{
	const __m512i low = _mm512_set1_epi8(15), zero = _mm512_set1_epi8(W4_ZERO);
	uint8_t *u = s->w[0][0];
	uint32_t k0, b, i, g = 0;
	__m512i x, y;

	for (k0 = 0; k0 < k; k0 += group, w += w4_group_bytes(group), g++) {
		for (b = 0; b < group / 8; b++, u += 512) {
			for (i = 0; i < 256; i += 64) {
				x = _mm512_loadu_si512(w + b * 256 + i);
				y = _mm512_and_si512(_mm512_srli_epi16(x, 4), low);
				x = _mm512_and_si512(x, low);
				_mm512_store_si512(u + i, _mm512_sub_epi8(x, zero));
				_mm512_store_si512(u + 256 + i, _mm512_sub_epi8(y, zero));
			}
		}
		for (i = 0; i < VNPU_PANEL_N; i += 16)
			_mm512_storeu_ps(s->scale[g] + i, w4_scale(w, group, i));
	}
}

/* Rows m0.., @rows of them. */
static void amx_group(const struct fw_matmul_w4 *t, uint32_t m0, uint32_t rows, struct w4_amx *s)
{
	const uint32_t k = t->group < 64 ? t->group : 64, tiles = (rows + AMX_TILE - 1) / AMX_TILE,
		       whole = rows < AMX_TILE ? rows : AMX_TILE;
	const int8_t *a = (const int8_t *)t->a + m0 * t->lda;
	struct amx_groups p = { .lda = t->lda,
				.w_ld = VNPU_PANEL_N * 4,
				.tiles = t->group / k,
				.k = k,
				.ld = VNPU_PANEL_N };
	const uint8_t *w = t->w;
	uint32_t n0, k0, i, n, part, lines;
	size_t bytes;

	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
		memset(s->sum, 0, tiles * AMX_TILE * sizeof(s->sum[0]));
		for (k0 = 0; k0 < t->k; k0 += part, w += bytes) {
			part = t->k - k0 < AMX_PART ? t->k - k0 : AMX_PART;
			bytes = VNPU_PANEL_W4_BYTES(part, t->group);
			lines = fetch_portion(bytes, tiles);
			amx_unpack(s, w, part, t->group);
			for (i = 0; i < tiles; i++) {
				p.a = a + amx_row(rows, i) * t->lda + k0;
				fetch_lines(w + bytes + i * lines * 64, lines);
				for (n = 0; n < VNPU_PANEL_N; n += 16) {
					p.w = s->w[0][n];
					p.scale = s->scale[0] + n;
					p.min = p.scale;
					amx_groups(s->acc, &p, part / t->group, false,
						   s->sum[i * AMX_TILE] + n);
				}
			}
		}
		for (i = 0; i < tiles; i++)
			w4_store(t, m0 + amx_row(rows, i), whole, n0, s->sum[i * AMX_TILE]);
	}
}

void fw_matmul_w4_amx(const struct fw_matmul_w4 *t, void *scratch)
{
	const uint32_t most = amx_group_rows(t->m, t->k);
	uint32_t m0, rows;

	if (t->m < AMX_MIN_ROWS(t->group)) {
		fw_matmul_w4_avx512(t, scratch);
		return;
	}
	for (m0 = 0; m0 < t->m; m0 += rows) {
		rows = t->m - m0 < most ? t->m - m0 : most;
		amx_configure(rows, t->group < 64 ? t->group : 64);
		amx_group(t, m0, rows, scratch);
	}
	_tile_release();
}
#endif
