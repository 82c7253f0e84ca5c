// SPDX-License-Identifier: MIT
/*
 * 4-bit weights with AMX. A panel's K block of 512 k is unpacked to signed numbers u - 8 for
 * tdpbssd. A tile of sums is 16 rows x 16 channels of one group. It goes through memory to the
 * vector unit, which converts it, scales it and adds it to 16 registers of float sums. That is the
 * bottleneck, not the multiplication, so the 32 k of a group of 32 may leave half of a tile empty.
 * kernels_w4_avx512.c computes few rows.
 */
#if defined(__x86_64__)
#include "kernels_avx512.h"
#include "kernels_w4_avx512.h"

/* Fewer rows are faster with vpdpbusd. */
#define AMX_MIN_ROWS 16
#define AMX_ROWS 16

/* The operand of ldtilecfg: tiles 0 to 3 are sums, 4 and 5 activations, 6 and 7 weights. */
struct amx_config {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
};

struct amx_scratch {
	struct w4_scratch w4;
	_Alignas(64) uint8_t a[W4_MAX_ROWS][MM_LD];
};

_Static_assert(sizeof(struct amx_scratch) <= FW_SCRATCH_BYTES && W4_K_BLOCK == MM_K_BLOCK,
	       "a K block of all rows fits");

/* Sets tiles of @k k. */
static void amx_configure(uint32_t k)
{
	struct amx_config config = {
		.palette = 1,
		.row_bytes = { 64, 64, 64, 64, k, k, 64, 64 },
		.rows = { 16, 16, 16, 16, 16, 16, k / 4, k / 4 },
	};

	_tile_loadconfig(&config);
}

/* Unpacks a K block of a panel, @k long, to numbers from -8 to 7. */
static void amx_unpack(struct w4_scratch *s, const uint8_t *w, uint32_t k, uint32_t group)
{
	const __m512i low = _mm512_set1_epi8(15), zero = _mm512_set1_epi8(W4_ZERO);
	uint8_t *u = s->w.u[0][0];
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

/* Copies @rows rows of a K block. */
static void amx_copy(uint8_t (*dst)[MM_LD], const int8_t *src, size_t lds, uint32_t rows,
		     uint32_t bytes)
{
	uint32_t r, i;

	for (r = 0; r < rows; r++, src += lds) {
		for (i = 0; i < bytes; i += 32) {
			_mm_prefetch(src + 8 * lds + i, _MM_HINT_T0);
			_mm256_storeu_si256((__m256i *)(dst[r] + i),
					    _mm256_loadu_si256((const __m256i *)(src + i)));
		}
	}
}

/* Computes the sums of the next group in tile @c, with operands in tiles @x and @y. */
#define AMX_GROUP(c, x, y)                                                           \
	do {                                                                         \
		_tile_zero(c);                                                       \
		for (i = 0; i < tiles; i++, a += k, w += (size_t)k * VNPU_PANEL_N) { \
			_tile_loadd(x, a, MM_LD);                                    \
			_tile_loadd(y, w, 256);                                      \
			_tile_dpbssd(c, x, y);                                       \
		}                                                                    \
	} while (0)

/* sum[16][64], 16 channels (0 if @start) += a[16][MM_LD] x w, @groups of @tiles times @k k. */
static void amx_block(const uint8_t *a, const uint8_t *w, const float *scale, uint32_t groups,
		      uint32_t tiles, uint32_t k, bool start, float *sum)
{
	_Alignas(64) int32_t acc[4][AMX_ROWS][16];
	uint32_t g, i, j, r, now;
	__m512 c[16], s;

#pragma GCC unroll 16
	for (r = 0; r < 16; r++)
		c[r] = start ? _mm512_setzero_ps() : _mm512_loadu_ps(sum + r * VNPU_PANEL_N);
	/* Four groups in four tiles, because a tile can be reused only after it has been stored. */
	for (g = 0; g < groups; g += now) {
		now = groups - g < 4 ? groups - g : 4;
		AMX_GROUP(0, 4, 6);
		if (now > 1)
			AMX_GROUP(1, 5, 7);
		if (now > 2)
			AMX_GROUP(2, 4, 6);
		if (now > 3)
			AMX_GROUP(3, 5, 7);
		_tile_stored(0, acc[0], 64);
		if (now > 1)
			_tile_stored(1, acc[1], 64);
		if (now > 2)
			_tile_stored(2, acc[2], 64);
		if (now > 3)
			_tile_stored(3, acc[3], 64);
		for (j = 0; j < now; j++, scale += VNPU_PANEL_N) {
			s = _mm512_loadu_ps(scale);
#pragma GCC unroll 16
			for (r = 0; r < 16; r++)
				c[r] = _mm512_fmadd_ps(
					_mm512_cvtepi32_ps(_mm512_load_si512(acc[j][r])), s, c[r]);
		}
	}
#pragma GCC unroll 16
	for (r = 0; r < 16; r++)
		_mm512_storeu_ps(sum + r * VNPU_PANEL_N, c[r]);
}

/* Rows m0.., @rows of them. */
static void amx_group(const struct fw_matmul_w4 *t, uint32_t m0, uint32_t rows,
		      struct amx_scratch *s)
{
	uint32_t k = t->group < 64 ? t->group : 64, blocks = (rows + AMX_ROWS - 1) / AMX_ROWS, n0,
		 k0, m, n, k_block, lines;
	const int8_t *a = (const int8_t *)t->a + m0 * t->lda;
	const uint8_t *w = t->w;
	size_t bytes;

	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
		for (k0 = 0; k0 < t->k; k0 += k_block, w += bytes) {
			k_block = t->k - k0 < W4_K_BLOCK ? t->k - k0 : W4_K_BLOCK;
			bytes = VNPU_PANEL_W4_BYTES(k_block, t->group);
			lines = fetch_portion(bytes, blocks);
			/* If K is one K block, copy it once for all panels. */
			if (!n0 || t->k > W4_K_BLOCK)
				amx_copy(s->a, a + k0, t->lda, rows, k_block);
			amx_unpack(&s->w4, w, k_block, t->group);
			/* Rows beyond the last one in its tile are computed but not used. */
			for (m = 0; m < blocks; m++) {
				fetch_lines(w + bytes + m * lines * 64, lines);
				for (n = 0; n < VNPU_PANEL_N; n += 16)
					amx_block(s->a[m * AMX_ROWS], s->w4.w.u[0][n],
						  s->w4.scale[0] + n, k_block / t->group,
						  t->group / k, k, !k0,
						  s->w4.sum[m * AMX_ROWS] + n);
			}
		}
		w4_store(t, m0, rows, n0, s->w4.sum[0]);
	}
}

void fw_matmul_w4_amx(const struct fw_matmul_w4 *t, void *scratch)
{
	uint32_t m0, rows;

	if (t->m < AMX_MIN_ROWS) {
		fw_matmul_w4_avx512(t, scratch);
		return;
	}
	amx_configure(t->group < 64 ? t->group : 64);
	for (m0 = 0; m0 < t->m; m0 += rows) {
		rows = t->m - m0 < W4_MAX_ROWS ? t->m - m0 : W4_MAX_ROWS;
		amx_group(t, m0, rows, scratch);
	}
	_tile_release();
}
#endif
