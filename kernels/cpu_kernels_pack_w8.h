/* SPDX-License-Identifier: MIT */
/*
 * MATMUL_I8's panels, part of cpu_kernels_pack_simd.h.
 *
 * A division takes as long as ten other operations. So x / scale, rounded to an integer, is x times
 * 1 / scale plus a constant that makes the sum's last bit worth 2^-14, in whose bits the integer
 * then stands. These roundings and those of the division move the result by less than one such
 * unit. Only if the sum is within two units of the middle between two integers does the division
 * decide.
 */

#define FRACTION 14
/* 512 + 256, to leave the sum's exponent alone; 1/2, to round; 2 units, to test +-2 of them. */
#define FIXED (768.5f + 0x1p-13f)
#define NEAR_HALF 0x3ffcu /* bits that are 0 next to the middle */
#define GROUP (4 * LANES) /* values that are quantised together: a register of bytes */
#define RUN 64 /* values of a row at a time; a multiple of GROUP */
#define CHUNK 1024 /* values of each row between two turns of transposing */

/* Bytes of RUN values. */
INLINE size_t run_bytes(enum cpu_row_type type)
{
	return type == CPU_ROWS_F32 ? RUN * 4 : type == CPU_ROWS_Q8_0 ? RUN / 32 * 34 : RUN * 2;
}

/* LANES values of a run from value @i on; those of Q8_0 without their scale. */
INLINE vf load_values(enum cpu_row_type type, const uint8_t *run, unsigned int i)
{
	if (type == CPU_ROWS_F32)
		return load_f32(run + i * 4);
	if (type == CPU_ROWS_F16)
		return load_f16(run + i * 2);
	if (type == CPU_ROWS_BF16)
		return load_bf16(run + i * 2);
	return load_i8(run + i / 32 * 34 + 2 + i % 32);
}

/* The scale of value @i of a run. */
INLINE float block_scale(enum cpu_row_type type, const uint8_t *run, unsigned int i)
{
	uint16_t h;

	if (type != CPU_ROWS_Q8_0)
		return 1;
	memcpy(&h, run + i / 32 * 34, sizeof(h));
	return widen_f16(h);
}

/* Of a row: the scale, and its reciprocal. */
struct row_scale {
	float scale, inverse;
};

/* GROUP values, divided: |x / scale| is at most 127, and adding 1.5 * 2^23 drops the fraction. */
static __attribute__((noinline)) void divide_group(enum cpu_row_type type, int8_t *q,
						   const uint8_t *run, unsigned int at, float scale)
{
	vu w[4];

	for (unsigned int v = 0; v < 4; v++) {
		unsigned int i = at + v * LANES;
		vf x = load_values(type, run, i) * block_scale(type, run, i);

		x = x / scale + 12582912.0f;
		w[v] = (vu)x << FRACTION;
	}
	store_bytes(q, w, FRACTION);
}

/* RUN values of a row to bytes. */
INLINE void quant_run(enum cpu_row_type type, int8_t *q, const uint8_t *run,
		      const struct row_scale *s)
{
#pragma GCC unroll 4
	for (unsigned int at = 0; at < RUN; at += GROUP) {
		vu w[4];

#pragma GCC unroll 4
		for (unsigned int v = 0; v < 4; v++) {
			unsigned int i = at + v * LANES;
			float by = type == CPU_ROWS_Q8_0 ? block_scale(type, run, i) * s->inverse
							 : s->inverse;

			w[v] = (vu)scale_values(load_values(type, run, i), by, FIXED);
		}
		if (__builtin_expect(near_half(w, NEAR_HALF), 0))
			divide_group(type, q + at, run, at, s->scale);
		else
			store_bytes(q + at, w, FRACTION);
	}
}

/* @n values. The bytes @ahead of them are needed next, and prefetched; 16 rows of F32 would take
 * too much of the first cache. */
INLINE void quant_runs(enum cpu_row_type type, int8_t *q, const uint8_t *src, unsigned int n,
		       const struct row_scale *s, size_t ahead)
{
	_Alignas(64) uint8_t last[RUN * 4] = { 0 };
	size_t bytes = run_bytes(type);
	unsigned int i = 0;

	for (; i + RUN <= n; i += RUN, src += bytes) {
		for (size_t line = 0; type != CPU_ROWS_F32 && line < bytes; line += 64)
			__builtin_prefetch(src + ahead + line);
		quant_run(type, q + i, src, s);
	}
	if (i < n) {
		memcpy(last, src, (n - i) * bytes / RUN);
		quant_run(type, q + i, last, s);
	}
}

static float value_at(enum cpu_row_type type, const uint8_t *src, unsigned int i)
{
	uint32_t bits = 0;
	uint16_t h;
	float f;

	if (type == CPU_ROWS_Q8_0)
		return block_scale(type, src, i) * (float)(int8_t)src[i / 32 * 34 + 2 + i % 32];
	if (type == CPU_ROWS_F16) {
		memcpy(&h, src + i * 2, sizeof(h));
		return widen_f16(h);
	}
	if (type == CPU_ROWS_BF16)
		memcpy((uint8_t *)&bits + 2, src + i * 2, 2);
	else
		memcpy(&bits, src + i * 4, 4);
	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* As quant_runs(), for scales that are subnormal: x / scale may leave -127..127. */
static void divide_runs(enum cpu_row_type type, int8_t *q, const uint8_t *src, unsigned int n,
			float scale)
{
	memset(q, 0, (n + RUN - 1) / RUN * RUN);
	for (unsigned int i = 0; i < n; i++) {
		float x = value_at(type, src, i) / scale;

		x = x > 127 ? 127 : x < -127 ? -127 : x;
		x = x + 12582912.0f - 12582912.0f;
		q[i] = (int8_t)x;
	}
}

/* ---- the greatest magnitudes ---- */

/* The bits of the greatest magnitude of @n F16 or BF16. */
static uint16_t most_16(const uint8_t *src, size_t n)
{
	v16 most = { 0 }, v;
	uint16_t top = 0, one;
	size_t i = 0;

	for (; i + 2 * LANES <= n; i += 2 * LANES) {
		memcpy(&v, src + i * 2, sizeof(v));
		most = greater_16(most, v & 0x7fff);
	}
	for (unsigned int l = 0; l < 2 * LANES; l++)
		top = (uint16_t)most[l] > top ? (uint16_t)most[l] : top;
	for (; i < n; i++) {
		memcpy(&one, src + i * 2, sizeof(one));
		one &= 0x7fff;
		top = one > top ? one : top;
	}
	return top;
}

static uint32_t most_32(const uint8_t *src, size_t n)
{
	vi most = { 0 }, v;
	uint32_t top = 0, one;
	size_t i = 0;

	for (; i + LANES <= n; i += LANES) {
		memcpy(&v, src + i * 4, sizeof(v));
		most = greater_32(most, v & 0x7fffffff);
	}
	for (unsigned int l = 0; l < LANES; l++)
		top = (uint32_t)most[l] > top ? (uint32_t)most[l] : top;
	for (; i < n; i++) {
		memcpy(&one, src + i * 4, sizeof(one));
		one &= 0x7fffffff;
		top = one > top ? one : top;
	}
	return top;
}

/* The bits of an F16 not above @x >= 0, so that a greater one's value is above x. */
static uint16_t below_f16(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	if (x >= 65504)
		return 0x7bff;
	if (x < 0x1p-14f)
		return (uint16_t)(x * 0x1p24f);
	return (uint16_t)((bits >> 13) - (112u << 10));
}

/* The bytes of a block of Q8_0. */
typedef int8_t b32 __attribute__((vector_size(32)));

/* Bits of the magnitude of a block's scale. */
INLINE uint16_t scale_bits(const uint8_t *block)
{
	uint16_t h;

	memcpy(&h, block, sizeof(h));
	return h & 0x7fff;
}

/* The greatest magnitude of a block's bytes. */
INLINE int top_of_block(const uint8_t *block)
{
	int top = 0;

	for (int k = 2; k < 34; k++) {
		int q = (int8_t)block[k];

		q = q < 0 ? -q : q;
		top = q > top ? q : top;
	}
	return top;
}

/* As most_q8_0(), of any blocks. Most cannot have the greatest value, as their scale times 128 is
 * no greater; their other bytes are not read. */
static float most_of_blocks(const uint8_t *src, const uint8_t *end)
{
	uint16_t limit = 0;
	float most = 0;

	for (; src < end; src += 34) {
		uint16_t h = scale_bits(src);
		float x;

		if (h <= limit)
			continue;
		x = widen_f16(h) * (float)top_of_block(src);
		if (x > most) {
			most = x;
			limit = below_f16(most / 128);
		}
	}
	return most;
}

/*
 * Of @n >= 1 values of Q8_0. Quantisers give each block a byte of +-127, and none of -128. Then the
 * block with the greatest scale has the greatest value, and no branch depends on values. False: a
 * scale is not finite.
 */
static bool most_q8_0(const uint8_t *src, size_t n, float *most)
{
	const uint8_t *end = src + (n + 31) / 32 * 34, *first = src;
	uint64_t any = 0, part[4];
	uint16_t top = 0;
	b32 least = { 0 };

	for (const uint8_t *block = src; block < end; block += 34) {
		uint16_t h = scale_bits(block);
		b32 bytes;

		memcpy(&bytes, block + 2, sizeof(bytes));
		least |= bytes == INT8_MIN;
		first = h > top ? block : first;
		top = h > top ? h : top;
	}
	if (top >= 0x7c00)
		return false;
	memcpy(part, &least, sizeof(part));
	for (int i = 0; i < 4; i++)
		any |= part[i];
	*most = !any && top_of_block(first) == 127 ? widen_f16(top) * 127.0f
						   : most_of_blocks(src, end);
	return true;
}

/* False: a value is not finite. */
static bool row_scale(enum cpu_row_type type, const uint8_t *src, size_t n, struct row_scale *s)
{
	float most = 0;
	uint32_t bits;

	switch (type) {
	case CPU_ROWS_Q8_0:
		if (!most_q8_0(src, n, &most))
			return false;
		break;
	case CPU_ROWS_F16:
		bits = most_16(src, n);
		if (bits >= 0x7c00)
			return false;
		most = widen_f16((uint16_t)bits);
		break;
	default:
		bits = type == CPU_ROWS_F32 ? most_32(src, n) : (uint32_t)most_16(src, n) << 16;
		if (bits >= 0x7f800000)
			return false;
		memcpy(&most, &bits, sizeof(most));
	}
	s->scale = most / 127.0f;
	s->inverse = s->scale >= 0x1p-126f ? 1 / s->scale : 0;
	return true;
}

/* ---- panels ---- */

/* Rows that are quantised and transposed together: few, so that they stay in the first cache from
 * the search of their scales on, but a whole cache line of each word of the panel. */
#define ROWS 16

/* Four words of each row, as lines of the panel, of which the first @lines are written. */
INLINE void pack_four(uint8_t *to, const uint8_t *const row[ROWS], size_t at, unsigned int lines,
		      vi sums[ROWS / LANES])
{
#pragma GCC unroll 4
	for (unsigned int g = 0; g < ROWS / LANES; g++) {
		vu t[4];

		transpose(t, row + g * LANES, at);
#pragma GCC unroll 4
		for (unsigned int i = 0; i < 4; i++) {
			if (i < lines) {
				store_words(to + i * 256 + g * LANES * 4, t[i]);
				sums[g] = add_bytes(sums[g], t[i]);
			}
		}
	}
}

/* Writes @n values of each row as words of the panel, and adds them to the channels' sums. Reads
 * steps of 16; those beyond n up to the next word are zeros. */
INLINE void pack_words(uint8_t *to, const uint8_t *const row[ROWS], unsigned int n,
		       vi sums[ROWS / LANES])
{
	unsigned int k = 0;

	for (; k + 16 <= n; k += 16)
		pack_four(to + k * 64, row, k, 4, sums);
	if (k < n)
		pack_four(to + k * 64, row, k, (n - k + 3) / 4, sums);
}

static void end_w8(uint8_t *panel, const struct cpu_rows *rows, const vi sums[PANEL / LANES],
		   const float scales[PANEL])
{
	size_t words = (rows->cols + 3) / 4;

	memcpy(panel + words * 256, sums, PANEL * 4);
	memcpy(panel + words * 256 + 256, scales, PANEL * 4);
	clear_rest(panel, rows->nr, words + 2, 4);
}

INLINE void quant_chunk(enum cpu_row_type type, int8_t *q, const uint8_t *src, unsigned int n,
			const struct row_scale *s, size_t ahead)
{
	if (s->inverse > 0)
		quant_runs(type, q, src, n, s, ahead);
	else if (s->scale > 0)
		divide_runs(type, q, src, n, s->scale);
	else
		memset(q, 0, (n + RUN - 1) / RUN * RUN);
}

/* Rows @r0 to @r0 + ROWS - 1 of a panel. As struct cpu_pack's functions. */
INLINE int w8_rows(enum cpu_row_type type, uint8_t *panel, const struct cpu_rows *rows,
		   unsigned int r0, float *scales, vi sums[ROWS / LANES])
{
	const unsigned int nr = rows->nr - r0 < ROWS ? rows->nr - r0 : ROWS;
	const uint8_t *data = rows->data + r0 * rows->bytes, *row[ROWS];
	_Alignas(64) int8_t q[ROWS][CHUNK];
	struct row_scale s[ROWS];

	for (unsigned int r = 0; r < ROWS; r++)
		row[r] = (const uint8_t *)q[r < nr ? r : 0];
	for (unsigned int r = 0; r < nr; r++) {
		if (!row_scale(type, data + r * rows->bytes, rows->cols, &s[r]))
			return (int)(r0 + r);
		scales[r] = s[r].scale;
	}
	for (unsigned int k = 0; k < rows->cols; k += CHUNK) {
		unsigned int n = rows->cols - k < CHUNK ? rows->cols - k : CHUNK;

		for (unsigned int r = 0; r < nr; r++)
			quant_chunk(type, q[r], data + r * rows->bytes + k / RUN * run_bytes(type),
				    n, &s[r], ROWS * rows->bytes);
		pack_words(panel + k * 64ull + r0 * 4, row, n, sums);
	}
	return -1;
}

INLINE int w8_panel(enum cpu_row_type type, uint8_t *panel, const struct cpu_rows *rows)
{
	vi sums[PANEL / LANES] = { 0 };
	float scales[PANEL] = { 0 };

	for (unsigned int r0 = 0; r0 < rows->nr; r0 += ROWS) {
		int bad = w8_rows(type, panel, rows, r0, scales + r0, sums + r0 / LANES);

		if (bad >= 0)
			return bad;
	}
	end_w8(panel, rows, sums, scales);
	return -1;
}

static int pack_w8(uint8_t *panel, enum cpu_row_type type, const struct cpu_rows *rows)
{
	switch (type) {
	case CPU_ROWS_F32:
		return w8_panel(CPU_ROWS_F32, panel, rows);
	case CPU_ROWS_F16:
		return w8_panel(CPU_ROWS_F16, panel, rows);
	case CPU_ROWS_BF16:
		return w8_panel(CPU_ROWS_BF16, panel, rows);
	default:
		return w8_panel(CPU_ROWS_Q8_0, panel, rows);
	}
}

static void pack_bytes(uint8_t *panel, const struct cpu_rows *rows, const float *scales)
{
	unsigned int whole = rows->cols / 16 * 16;
	uint8_t last[PANEL][16] = { { 0 } };
	float all[PANEL] = { 0 };
	vi sums[PANEL / LANES] = { 0 };
	const uint8_t *row[PANEL];

	find_rows(row, rows);
	for (unsigned int r = 0; r < PANEL; r += ROWS)
		pack_words(panel + r * 4, row + r, whole, sums + r / LANES);
	for (unsigned int r = 0; r < PANEL; r++) {
		memcpy(last[r], row[r] + whole, rows->cols - whole);
		row[r] = last[r];
	}
	for (unsigned int r = 0; r < PANEL; r += ROWS)
		pack_words(panel + whole * 64ull + r * 4, row + r, rows->cols - whole,
			   sums + r / LANES);
	memcpy(all, scales, rows->nr * sizeof(*scales));
	end_w8(panel, rows, sums, all);
}
