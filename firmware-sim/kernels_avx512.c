// SPDX-License-Identifier: MIT
/*
 * AVX-512 VNNI: vpdpbusd multiplies unsigned by signed bytes, so 128 is added to the activations (their top bit is
 * flipped), and the sums begin at -128 times the sum of the weights, which each panel carries. In 32 bits all of this is
 * exact modulo 2^32, and the true sum fits.
 *
 * The register tile is 6 rows x 64 channels: 24 sums, 4 weights, 1 activation. The activations of some rows are flipped into
 * the worker's scratch, and then each panel, which is in the second-level cache and comes into the first a few steps ahead, is
 * multiplied with all of them, while the next one is fetched into the second; results leave from the registers. A long K is
 * taken in pieces, between which the sums wait in scratch. A single row skips all that: it flips its four bytes on
 * the way, since memory is the limit there.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels.h"
#include "kernels_avx512.h"
#include "kernels_w4.h"

#define MM_ROWS 6
#define FLIP ((int32_t)0x80808080)

/* One instruction and no more: as an intrinsic, GCC 12 copies sums to and fro and runs out of registers. */
#define DOT(sum, x, w) __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w))

#define EACH_ROW(f) f(0) f(1) f(2) f(3) f(4) f(5)
#define DECLARE(r)                                                      \
	__m512i c##r##0, c##r##1, c##r##2, c##r##3;                     \
	if ((r) < rows) {                                               \
		c##r##0 = _mm512_load_si512(first + (r)*first_ld);      \
		c##r##1 = _mm512_load_si512(first + (r)*first_ld + 16); \
		c##r##2 = _mm512_load_si512(first + (r)*first_ld + 32); \
		c##r##3 = _mm512_load_si512(first + (r)*first_ld + 48); \
	}
#define ROW(r)                                          \
	if ((r) < rows) {                               \
		int32_t four;                           \
		__builtin_memcpy(&four, k + (r)*ld, 4); \
		__m512i x = _mm512_set1_epi32(four);    \
		DOT(c##r##0, x, w0);                    \
		DOT(c##r##1, x, w1);                    \
		DOT(c##r##2, x, w2);                    \
		DOT(c##r##3, x, w3);                    \
	}
/* Four k of all rows, the @i-th from w and a on. */
#define STEP(i)                                                    \
	do {                                                       \
		const uint8_t *k = a + (i)*4, *line = w + (i)*256; \
                                                                   \
		w0 = _mm512_loadu_si512(line);                     \
		w1 = _mm512_loadu_si512(line + 64);                \
		w2 = _mm512_loadu_si512(line + 128);               \
		w3 = _mm512_loadu_si512(line + 192);               \
		_mm_prefetch(line + MM_AHEAD, _MM_HINT_T0);        \
		_mm_prefetch(line + MM_AHEAD + 64, _MM_HINT_T0);   \
		_mm_prefetch(line + MM_AHEAD + 128, _MM_HINT_T0);  \
		_mm_prefetch(line + MM_AHEAD + 192, _MM_HINT_T0);  \
		EACH_ROW(ROW)                                      \
	} while (0)
#define OUT(r)                                                  \
	if ((r) < rows) {                                       \
		_mm512_store_si512(acc + (r)*64, c##r##0);      \
		_mm512_store_si512(acc + (r)*64 + 16, c##r##1); \
		_mm512_store_si512(acc + (r)*64 + 32, c##r##2); \
		_mm512_store_si512(acc + (r)*64 + 48, c##r##3); \
	}

/* Where a tile's results go, of all channels of a panel. */
struct mm_out {
	const float *a_scale, *scale, *bias; /* [rows], [64], [64] or NULL */
	float *c;
	size_t ldc;
};

#define RESULT1(r, i)                                                                 \
	y = _mm512_mul_ps(_mm512_cvtepi32_ps(c##r##i), _mm512_mul_ps(a_scale, s##i)); \
	if (out->bias)                                                                \
		y = _mm512_add_ps(y, _mm512_loadu_ps(out->bias + (i)*16));            \
	_mm512_storeu_ps(out->c + (r)*out->ldc + (i)*16, y);
#define RESULT(r)                                          \
	if ((r) < rows) {                                  \
		a_scale = _mm512_set1_ps(out->a_scale[r]); \
		RESULT1(r, 0)                              \
		RESULT1(r, 1)                              \
		RESULT1(r, 2)                              \
		RESULT1(r, 3)                              \
	}

/* Bytes of a panel from what is multiplied to what is fetched into the first level meanwhile. */
#define MM_AHEAD 1024

/*
 * acc[rows][64] = first[rows][first_ld] + a[rows][ld] x w: @kb steps of four k. @lines cache lines, 1, 2, 4 or 8, are fetched
 * from @next on with each two steps. With @out the results go there, and acc stays as it is.
 */
static inline __attribute__((always_inline)) void mm_rows(const int rows, const size_t ld, const uint8_t *a,
							  const uint8_t *w, uint32_t kb, const uint8_t *next,
							  uint32_t lines, const int32_t *first, size_t first_ld,
							  int32_t *acc, const struct mm_out *out)
{
	const uint8_t *end = w + (size_t)(kb / 2) * 512;
	__m512 s0, s1, s2, s3, a_scale, y;
	__m512i w0, w1, w2, w3;

	EACH_ROW(DECLARE)
	for (; w != end; w += 512, a += 8, next += lines * 64) {
		_mm_prefetch(next, _MM_HINT_T1);
		if (lines > 1)
			_mm_prefetch(next + 64, _MM_HINT_T1);
		if (lines > 2) {
			_mm_prefetch(next + 128, _MM_HINT_T1);
			_mm_prefetch(next + 192, _MM_HINT_T1);
		}
		if (lines > 4) {
			_mm_prefetch(next + 256, _MM_HINT_T1);
			_mm_prefetch(next + 320, _MM_HINT_T1);
			_mm_prefetch(next + 384, _MM_HINT_T1);
			_mm_prefetch(next + 448, _MM_HINT_T1);
		}
		STEP(0);
		STEP(1);
	}
	if (kb % 2)
		STEP(0);
	if (out) {
		s0 = _mm512_loadu_ps(out->scale);
		s1 = _mm512_loadu_ps(out->scale + 16);
		s2 = _mm512_loadu_ps(out->scale + 32);
		s3 = _mm512_loadu_ps(out->scale + 48);
		EACH_ROW(RESULT)
		return;
	}
	EACH_ROW(OUT)
}

/* Rows are @ld apart, which every call of mm_rows() has as a constant, and so in its instructions; as full tiles have @lines. */
static void mm_block(uint32_t rows, size_t ld, const uint8_t *a, const uint8_t *w, uint32_t kb, const uint8_t *next,
		     uint32_t lines, const int32_t *first, size_t first_ld, int32_t *acc, const struct mm_out *out)
{
#define ROWS(n, ld, from)                                                                 \
	case (n) + (from):                                                                \
		if ((n) == MM_ROWS && lines == 1)                                         \
			mm_rows(n, ld, a, w, kb, next, 1, first, first_ld, acc, out);     \
		else                                                                      \
			mm_rows(n, ld, a, w, kb, next, lines, first, first_ld, acc, out); \
		break;
#define EACH_NUMBER(ld, from) \
	ROWS(1, ld, from) ROWS(2, ld, from) ROWS(3, ld, from) ROWS(4, ld, from) ROWS(5, ld, from) ROWS(6, ld, from)
	switch (rows + (ld == MM_LD_I8 ? 0 : MM_ROWS)) {
		EACH_NUMBER(MM_LD_I8, 0)
		EACH_NUMBER(MM_LD, MM_ROWS)
	}
}

/* What sums of flipped activations begin with. @sums: what follows the panel's weights. */
static void mm_first(int32_t *first, const uint8_t *sums)
{
	uint32_t i;

	for (i = 0; i < VNPU_PANEL_N; i += 16)
		_mm512_store_si512(first + i, _mm512_sub_epi32(_mm512_setzero_si512(),
							       _mm512_slli_epi32(_mm512_loadu_si512(sums + i * 4), 7)));
}

static void mm_gemv(const struct fw_matmul_i8 *t)
{
	uint32_t kb = (t->k + 3) / 4, n0, b;
	_Alignas(64) int32_t acc[VNPU_PANEL_N];
	__m512i c0, c1, c2, c3, x;
	const uint8_t *w = t->w;
	int32_t four;

	for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
		mm_first(acc, w + (size_t)kb * 256);
		c0 = _mm512_load_si512(acc);
		c1 = _mm512_load_si512(acc + 16);
		c2 = _mm512_load_si512(acc + 32);
		c3 = _mm512_load_si512(acc + 48);
		for (b = 0; b < kb; b++, w += 256) {
			__builtin_memcpy(&four, t->a + 4 * b, 4);
			x = _mm512_set1_epi32(four ^ FLIP);
			stream_ahead(w);
			stream_ahead(w + 64);
			stream_ahead(w + 128);
			stream_ahead(w + 192);
			c0 = _mm512_dpbusd_epi32(c0, x, _mm512_loadu_si512(w));
			c1 = _mm512_dpbusd_epi32(c1, x, _mm512_loadu_si512(w + 64));
			c2 = _mm512_dpbusd_epi32(c2, x, _mm512_loadu_si512(w + 128));
			c3 = _mm512_dpbusd_epi32(c3, x, _mm512_loadu_si512(w + 192));
		}
		_mm512_store_si512(acc, c0);
		_mm512_store_si512(acc + 16, c1);
		_mm512_store_si512(acc + 32, c2);
		_mm512_store_si512(acc + 48, c3);
		mm_store(t, 0, 1, n0, (const float *)(w + 256), acc);
		w += 512;
	}
}

/* Copies @rows rows of a piece with their top bits flipped, each to a multiple of 64 bytes. */
static void mm_flip(uint8_t *dst, size_t ldd, const int8_t *src, size_t lds, uint32_t rows, uint32_t bytes)
{
	__m512i flip = _mm512_set1_epi8((char)0x80);
	uint32_t r, i;
	__mmask64 m;

	for (r = 0; r < rows; r++, dst += ldd, src += lds) {
		for (i = 0; i < bytes; i += 64) {
			/* Pieces of rows are too short for the hardware to see them coming; and many a power of two apart, so
			 * that what is fetched too early is gone again. */
			_mm_prefetch(src + 2 * lds + i, _MM_HINT_T0);
			m = bytes - i < 64 ? (1ull << (bytes - i)) - 1 : ~0ull;
			_mm512_store_si512(dst + i, _mm512_xor_si512(flip, _mm512_maskz_loadu_epi8(m, src + i)));
		}
	}
}

/* How K is cut: the bytes of a piece, and from row to row of the flipped activations. */
struct mm_cut {
	uint32_t piece, ld;
	bool whole; /* not at all */
};

static struct mm_cut mm_cut(const struct fw_matmul_i8 *t)
{
	uint32_t pieces = (t->k + MM_PIECE_I8 - 1) / MM_PIECE_I8;

	if (t->wk)
		return (struct mm_cut){ MM_PIECE, MM_LD, false };
	/* Pieces of one size, in whole cache lines of activations. */
	return (struct mm_cut){ ((t->k + pieces - 1) / pieces + 63) / 64 * 64, MM_LD_I8, pieces == 1 };
}

static struct mm_out mm_out(const struct fw_matmul_i8 *t, uint32_t m, uint32_t n0, const uint8_t *sums)
{
	return (struct mm_out){
		.a_scale = t->a_scale + m,
		.scale = (const float *)(sums + 256),
		.bias = t->bias ? t->bias + n0 : NULL,
		.c = t->c + m * t->ldc + n0,
		.ldc = t->ldc,
	};
}

/* Fetches panel n0 / 64's share of the @bytes of activations from @k on, the next piece, into the second level. */
static void mm_activations(const struct fw_matmul_i8 *t, uint32_t m, uint32_t rows, uint32_t k, uint32_t bytes,
			   uint32_t n0)
{
	uint32_t panels = (t->n + VNPU_PANEL_N - 1) / VNPU_PANEL_N, share = (bytes / 64 + panels - 1) / panels * 64;
	uint32_t from = n0 / VNPU_PANEL_N * share, end = from + share < bytes ? from + share : bytes, i, r;

	for (r = 0; r < rows; r++)
		for (i = from; i < end && k + i < t->k; i += 64)
			_mm_prefetch(t->a + (m + r) * t->lda + k + i, _MM_HINT_T1);
}

/* Rows of the next tile, of @left: two of four rather than one of six and one of two, whose loads would be its limit. */
static uint32_t mm_now(uint32_t left)
{
	return left == MM_ROWS + 1 || left == MM_ROWS + 2 ? 4 : left < MM_ROWS ? left : MM_ROWS;
}

/* Rows m0.., @rows of them: as many as fit the scratch. @sums: of all, or of a tile if K is not cut. */
static void mm_group(const struct fw_matmul_i8 *t, const struct mm_cut *cut, uint32_t m0, uint32_t rows,
		     uint8_t *unpacked, uint8_t *flipped, int32_t *sums)
{
	uint32_t bytes = (t->k + 3) / 4 * 4, k0, n0, m, now, piece;
	_Alignas(64) int32_t first[VNPU_PANEL_N];
	/* So many with each two steps, which are as many of this panel's, that the next one's part is there when it is its turn. */
	uint32_t lines = rows <= MM_ROWS ? 8 : rows < 4 * MM_ROWS ? 4 : rows < 8 * MM_ROWS ? 2 : 1;
	struct mm_part part;
	const uint8_t *next;
	struct mm_out out;
	bool last, direct;
	int32_t *acc;

	for (k0 = 0; k0 < bytes; k0 += piece) {
		piece = bytes - k0 < cut->piece ? bytes - k0 : cut->piece;
		last = k0 + piece == bytes;
		mm_flip(flipped, cut->ld, t->a + m0 * t->lda + k0, t->lda, rows, piece);
		acc = sums;
		for (n0 = 0; n0 < t->n; n0 += VNPU_PANEL_N) {
			part = mm_part(t, n0, k0, piece, unpacked);
			if (!k0)
				mm_first(first, part.sums);
			next = part.next;
			direct = last && t->n - n0 >= VNPU_PANEL_N;
			for (m = 0; m < rows; m += now, acc += cut->whole ? 0 : now * VNPU_PANEL_N) {
				now = mm_now(rows - m);
				if (last)
					mm_expect(t, m0 + m, now, n0);
				else
					mm_activations(t, m0 + m, now, k0 + piece, cut->piece, n0);
				out = mm_out(t, m0 + m, n0, part.sums);
				mm_block(now, cut->ld, flipped + m * cut->ld, part.w, piece / 4, next, lines,
					 k0 ? acc : first, k0 ? VNPU_PANEL_N : 0, acc, direct ? &out : NULL);
				if ((size_t)(next - part.next) < part.next_bytes)
					next += piece * 8 * lines;
				if (last && !direct)
					mm_store(t, m0 + m, now, n0, out.scale, acc);
			}
		}
	}
}

static void kernel_matmul_i8(const struct fw_matmul_i8 *t, void *scratch)
{
	uint8_t *flipped = (uint8_t *)scratch + FW_UNPACK_BYTES;
	_Alignas(64) int32_t tile[MM_ROWS * VNPU_PANEL_N];
	struct mm_cut cut = mm_cut(t);
	uint32_t n0, m0, rows, most;
	struct fw_matmul_i8 part;

	if (t->wk && t->m <= WK_FEW) {
		fw_wk_few_avx512(t, scratch);
		return;
	}
	if (t->m == 1) {
		mm_gemv(t);
		return;
	}
	for (n0 = 0; n0 < t->n; n0 += part.n) {
		part = *t;
		/* Where no sums wait, their number is no limit for the columns. */
		most = cut.whole ? MM_ROWS_I8 : mm_columns(&part, t, n0, MM_ROWS, cut.ld);
		if (!t->wk && most > MM_ROWS_I8)
			most = MM_ROWS_I8;
		for (m0 = 0; m0 < t->m; m0 += rows) {
			rows = t->m - m0 < most ? t->m - m0 : most;
			mm_group(&part, &cut, m0, rows, scratch, flipped,
				 cut.whole ? tile : (int32_t *)(flipped + most * cut.ld));
		}
	}
}

#define kernel_matmul_w4 fw_matmul_w4_avx512
#define kernel_matmul_w4f fw_matmul_w4f_avx512
#define FW_KERNELS_NAME fw_kernels_avx512
#define FW_KERNELS_LABEL "avx512-vnni"
#include "kernels_float.h"
#endif
