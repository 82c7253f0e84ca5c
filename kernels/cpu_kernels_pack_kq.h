/* SPDX-License-Identifier: MIT */
/*
 * MATMUL_W4's and MATMUL_KQ's panels, part of cpu_kernels_pack_simd.h: the words of a block are
 * transposed as they are in the file, with its numbers' bits in the file's order, and then each
 * word of a plane is put together from some of them.
 */

#define GROUPS (PANEL / LANES) /* of rows that are transposed together */

/* The type whose layout blocks of @type have in memory. */
INLINE uint32_t kq_layout(uint32_t type)
{
	switch (type) {
	case VNPU_KQ_MXFP4:
		return VNPU_KQ_IQ4_NL;
	case VNPU_KQ_IQ3_S:
	case VNPU_KQ_IQ3_XXS:
		return VNPU_KQ_IQ4_XS;
	case VNPU_KQ_IQ2:
	case VNPU_KQ_IQ1:
		return VNPU_KQ_Q3_K;
	default:
		return type;
	}
}

/* Where the parts of a block are in the file; -1: there is none. Blocks of 256 have
 * 32 words of nibbles, 16 of pairs of bits and 8 of single bits; others have 4 of nibbles. */
struct kq_file {
	int bytes, nibbles, pairs, singles;
};

INLINE struct kq_file kq_file(uint32_t type)
{
	switch (type) {
	case VNPU_KQ_Q2_K:
		return (struct kq_file){ 84, -1, 16, -1 };
	case VNPU_KQ_Q3_K:
		return (struct kq_file){ 110, -1, 32, 0 };
	case VNPU_KQ_Q4_K:
		return (struct kq_file){ 144, 16, -1, -1 };
	case VNPU_KQ_Q5_K:
		return (struct kq_file){ 176, 48, -1, 16 };
	case VNPU_KQ_Q6_K:
		return (struct kq_file){ 210, 0, 128, -1 };
	case VNPU_KQ_Q4_1:
		return (struct kq_file){ 20, 4, -1, -1 };
	case VNPU_KQ_Q5_0:
		return (struct kq_file){ 22, 6, -1, -1 };
	case VNPU_KQ_IQ4_NL:
		return (struct kq_file){ 18, 2, -1, -1 };
	case VNPU_KQ_IQ4_XS:
		return (struct kq_file){ 136, 8, -1, -1 };
	default: /* Q5_1 */
		return (struct kq_file){ 24, 8, -1, -1 };
	}
}

/* ---- numbers ---- */

/* The plane of 4 bits of 32 k, from the words that have their nibbles at @shift: four bytes of a
 * word are consecutive k. */
INLINE void plane_4(uint8_t *to, const vu *words, unsigned int shift)
{
#pragma GCC unroll 4
	for (unsigned int i = 0; i < 4; i++) {
		vu a = words[2 * i] >> shift, b = words[2 * i + 1] >> shift;

		store_words(to + i * 256, (a & 0x0f0f0f0f) | (b << 4 & 0xf0f0f0f0));
	}
}

/* The same if the low nibbles are the first 16 k and the high ones the others. */
INLINE void plane_4_small(uint8_t *to, const vu words[4])
{
#pragma GCC unroll 2
	for (unsigned int i = 0; i < 2; i++) {
		vu a = words[2 * i], b = words[2 * i + 1];

		store_words(to + i * 256, (a & 0x0f0f0f0f) | (b << 4 & 0xf0f0f0f0));
		store_words(to + (i + 2) * 256, (a >> 4 & 0x0f0f0f0f) | (b & 0xf0f0f0f0));
	}
}

INLINE void plane_2(uint8_t *to, const vu words[8], unsigned int shift)
{
#pragma GCC unroll 2
	for (unsigned int i = 0; i < 2; i++) {
		vu v = { 0 };

#pragma GCC unroll 4
		for (unsigned int q = 0; q < 4; q++)
			v |= (words[4 * i + q] >> shift & 0x03030303) << 2 * q;
		store_words(to + i * 256, v);
	}
}

INLINE void plane_1(uint8_t *to, const vu words[8], unsigned int shift)
{
	vu v = { 0 };

#pragma GCC unroll 8
	for (unsigned int q = 0; q < 8; q++)
		v |= (words[q] >> shift & 0x01010101) << q;
	store_words(to, v);
}

/* Exchanges the bits of @low with those that are @distance above them. */
INLINE vu exchange(vu x, unsigned int distance, uint32_t low)
{
	vu t = (x >> distance ^ x) & low;

	return x ^ t ^ t << distance;
}

/* From words whose bit i is k = i, to bit k / 4 of byte k % 4: rotates the 5 bits of the index
 * by two, as four exchanges of two of them. */
INLINE vu spread_bits(vu x)
{
	x = exchange(x, 1, 0x22222222);
	x = exchange(x, 3, 0x0a0a0a0a);
	x = exchange(x, 6, 0x00cc00cc);
	return exchange(x, 12, 0x0000f0f0);
}

/* ---- scales ---- */

INLINE vu bytes_6(vu low, vu high)
{
	return (low & 0x0f0f0f0f) | (high & 0x03030303) << 4;
}

/* Of bytes in 0..63, those minus 32. */
INLINE vu minus_32(vu x)
{
	vu sign;

	x ^= 0x20202020;
	sign = x & 0x20202020;
	return x | sign << 1 | sign << 2;
}

/* The scales of a block, four bytes to a word. */
struct kq_scales {
	vu d; /* dmin in the upper half */
	vu scale[4], min[4]; /* blocks of 256 */
	vu fifth; /* in blocks of 32: the fifth bits of the numbers */
};

INLINE void q3_k_scales(struct kq_scales *s, const vu *t)
{
	const vu a = t[0] >> 16 | t[1] << 16, b = t[1] >> 16 | t[2] << 16,
		 high = t[2] >> 16 | t[3] << 16;

	s->d = t[3] >> 16;
	s->scale[0] = minus_32(bytes_6(a, high));
	s->scale[1] = minus_32(bytes_6(b, high >> 2));
	s->scale[2] = minus_32(bytes_6(a >> 4, high >> 4));
	s->scale[3] = minus_32(bytes_6(b >> 4, high >> 6));
}

/* A nibble in each byte, from the lower or upper half of the words' 8. */
INLINE vu spread_nibbles(vu x, unsigned int half)
{
	x = half ? x >> 16 : x & 0xffff;
	return (x & 0x000f) | (x & 0x00f0) << 4 | (x & 0x0f00) << 8 | (x & 0xf000) << 12;
}

/* The same of 8 pairs of bits, in 16. */
INLINE vu spread_pairs(vu x, unsigned int half)
{
	x = half ? x >> 8 : x;
	return (x & 0x03) | (x & 0x0c) << 6 | (x & 0x30) << 12 | (x & 0xc0) << 18;
}

INLINE void iq4_xs_scales(struct kq_scales *s, const vu *t)
{
	s->d = t[0];
	for (unsigned int half = 0; half < 2; half++)
		s->scale[half] = minus_32(
			bytes_6(spread_nibbles(t[1], half), spread_pairs(t[0] >> 16, half)));
}

INLINE void big_scales(uint32_t type, struct kq_scales *s, const uint8_t *const *row, size_t at)
{
	vu t[4], end[4];

	switch (type) {
	case VNPU_KQ_Q2_K:
		transpose(t, row, at);
		transpose(end, row, at + 68);
		s->d = end[3];
		for (int i = 0; i < 4; i++) {
			s->scale[i] = t[i] & 0x0f0f0f0f;
			s->min[i] = t[i] >> 4 & 0x0f0f0f0f;
		}
		break;
	case VNPU_KQ_Q3_K:
		transpose(t, row, at + 94);
		q3_k_scales(s, t);
		break;
	case VNPU_KQ_IQ4_XS:
		transpose(t, row, at);
		iq4_xs_scales(s, t);
		break;
	case VNPU_KQ_Q6_K:
		transpose(s->scale, row, at + 192);
		transpose(end, row, at + 194);
		s->d = end[3] >> 16;
		break;
	default: /* Q4_K, Q5_K */
		transpose(t, row, at);
		s->d = t[0];
		s->scale[0] = t[1] & 0x3f3f3f3f;
		s->min[0] = t[2] & 0x3f3f3f3f;
		s->scale[1] = bytes_6(t[3], t[1] >> 6);
		s->min[1] = bytes_6(t[3] >> 4, t[2] >> 6);
	}
}

INLINE void small_scales(uint32_t type, struct kq_scales *s, const uint8_t *const *row, size_t at)
{
	vu t[4];

	transpose(t, row, at);
	s->d = t[0] ^ 0x80000000; /* the file has -dmin */
	s->fifth = type == VNPU_KQ_Q5_0 ? t[0] >> 16 | t[1] << 16 : t[1];
}

/* Sets the lanes of @bad whose d or dmin is not finite. */
INLINE void store_scales(uint32_t type, uint8_t *to, const struct kq_scales *s, vi *bad)
{
	const struct vnpu_kq_form f = vnpu_kq_form(type);
	const unsigned int words = f.block > 32 ? f.block / f.group / 4 : 0;

	*bad |= (s->d & 0x7c00) == 0x7c00;
	store_halves(to, s->d);
	to += 128;
	if (f.mins) {
		*bad |= (s->d & 0x7c000000) == 0x7c000000;
		store_halves(to, s->d >> 16);
		to += 128;
	}
#pragma GCC unroll 4
	for (unsigned int i = 0; i < words; i++) {
		store_halves(to + 256 * i, s->scale[i]);
		store_halves(to + 256 * i + 128, s->scale[i] >> 16);
		if (f.mins) {
			store_halves(to + 256 * (words + i), s->min[i]);
			store_halves(to + 256 * (words + i) + 128, s->min[i] >> 16);
		}
	}
}

/* ---- panels ---- */

INLINE void transpose_words(vu *words, unsigned int n, const uint8_t *const *row, size_t at)
{
	for (unsigned int i = 0; i < n; i += 4)
		transpose(words + i, row, at + 4 * i);
}

/* The numbers of a block of 256 of as many channels as a register has words. */
INLINE void big_numbers(uint32_t type, uint8_t *to, const uint8_t *const *row, size_t at)
{
	const struct kq_file file = kq_file(type);
	vu nibbles[32], pairs[16], singles[8];

	if (file.nibbles >= 0)
		transpose_words(nibbles, 32, row, at + (size_t)file.nibbles);
	if (file.pairs >= 0)
		transpose_words(pairs, 16, row, at + (size_t)file.pairs);
	if (file.singles >= 0)
		transpose_words(singles, 8, row, at + (size_t)file.singles);
	for (unsigned int part = 0; part < 8; part++) {
		if (type == VNPU_KQ_IQ4_XS)
			plane_4_small(to, nibbles + part * 4);
		else if (file.nibbles >= 0 && type == VNPU_KQ_Q6_K)
			plane_4(to, nibbles + part / 4 * 16 + part % 2 * 8, part % 4 / 2 * 4);
		else if (file.nibbles >= 0)
			plane_4(to, nibbles + part / 2 * 8, part % 2 * 4);
		to += file.nibbles >= 0 ? 1024 : 0;
		if (file.pairs >= 0)
			plane_2(to, pairs + part / 4 * 8, part % 4 * 2);
		to += file.pairs >= 0 ? 512 : 0;
		if (file.singles >= 0)
			plane_1(to, singles, part);
		to += file.singles >= 0 ? 256 : 0;
	}
}

INLINE void kq_block(uint32_t type, uint8_t *block, unsigned int lane, const uint8_t *const *row,
		     size_t at, vi *bad)
{
	const struct vnpu_kq_form f = vnpu_kq_form(type);
	const uint32_t layout = kq_layout(type);
	uint8_t *numbers = block + vnpu_kq_scales_bytes(f) + lane * 4;
	struct kq_scales s;
	vu words[4];

	if (f.block > 32) {
		big_scales(layout, &s, row, at);
		big_numbers(layout, numbers, row, at);
	} else {
		small_scales(layout, &s, row, at);
		transpose(words, row, at + (size_t)kq_file(layout).nibbles);
		plane_4_small(numbers, words);
		if (f.bits == 5)
			store_words(numbers + 1024, spread_bits(s.fifth));
	}
	store_scales(type, block + lane * 2, &s, bad);
}

/* More rows are read side by side than processors notice and prefetch by themselves. */
#define AHEAD 256

/* The cache lines that follow AHEAD bytes after those of a block at @at. */
INLINE void prefetch_rows(const uint8_t *const *row, size_t at, size_t bytes)
{
	for (size_t line = (at + 63) / 64 * 64; line < at + bytes; line += 64)
		for (unsigned int r = 0; r < LANES; r++)
			__builtin_prefetch(row[r] + line + AHEAD);
}

/* The first of @nr channels that is bad; -1: none. */
static int first_bad(const vi bad[GROUPS], unsigned int nr)
{
	for (unsigned int r = 0; r < nr; r++)
		if (bad[r / LANES][r % LANES])
			return (int)r;
	return -1;
}

INLINE int kq_panel(uint32_t type, uint8_t *panel, const struct cpu_rows *rows)
{
	const struct vnpu_kq_form f = vnpu_kq_form(type);
	const size_t bytes = vnpu_kq_block_bytes(f), scales = vnpu_kq_scales_bytes(f);
	const uint8_t *row[PANEL];
	vi bad[GROUPS] = { 0 };

	find_rows(row, rows);
	for (unsigned int b = 0; b < rows->cols / f.block; b++, panel += bytes) {
		const size_t size = (size_t)kq_file(kq_layout(type)).bytes;

		for (unsigned int g = 0; g < GROUPS; g++) {
			prefetch_rows(row + g * LANES, b * size, size);
			kq_block(type, panel, g * LANES, row + g * LANES, b * size, &bad[g]);
		}
		clear_rest(panel, rows->nr, scales / 128, 2);
		clear_rest(panel + scales, rows->nr, (bytes - scales) / 256, 4);
	}
	return first_bad(bad, rows->nr);
}

#define KQ_PANEL(NAME, ...)  \
	case VNPU_KQ_##NAME: \
		return kq_panel(VNPU_KQ_##NAME, panel, rows);
static int pack_kq(uint8_t *panel, uint32_t type, const struct cpu_rows *rows)
{
	switch (type) {
		VNPU_KQ_TYPES(KQ_PANEL)
	}
	return -1;
}
#undef KQ_PANEL

static int pack_w4(uint8_t *panel, const struct cpu_rows *rows)
{
	const uint8_t *row[PANEL];
	vi bad[GROUPS] = { 0 };

	find_rows(row, rows);
	for (unsigned int b = 0; b < rows->cols / 32; b++, panel += VNPU_PANEL_W4_BYTES(32, 32)) {
		for (unsigned int g = 0; g < GROUPS; g++) {
			vu words[4], d[4];

			prefetch_rows(row + g * LANES, b * 18ul, 18);
			transpose(d, row + g * LANES, b * 18ul);
			transpose(words, row + g * LANES, b * 18ul + 2);
			plane_4_small(panel + g * LANES * 4, words);
			store_halves(panel + 1024 + g * LANES * 2, d[0]);
			bad[g] |= (d[0] & 0x7c00) == 0x7c00;
		}
		clear_rest(panel, rows->nr, 4, 4);
		clear_rest(panel + 1024, rows->nr, 1, 2);
	}
	return first_bad(bad, rows->nr);
}
