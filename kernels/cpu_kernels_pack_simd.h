/* SPDX-License-Identifier: MIT */
/*
 * Packing in the registers of one instruction set. Each file that includes this one defines first:
 * INLINE; LANES, the 32-bit words of a register; the types vf, vi and vu (of floats, int32s and
 * uint32s), in GCC's vectors; the orders of shuffles; and the operations used here, with their
 * comments.
 *
 * A panel is a matrix of words, each of one channel: the transposed matrix of the rows' words.
 * transpose() makes four registers of it from 16 bytes each of as many rows as a register has
 * words. Whatever moves bits inside words is done after that, on whole registers.
 */
#include <string.h>

#include <npu/vnpu_isa.h>

#include "cpu_kernels_pack.h"

#define PANEL VNPU_PANEL_N

/* out[i]: word i of the 16 bytes at @at of each row. */
INLINE void transpose(vu out[4], const uint8_t *const *row, size_t at)
{
	const vu a = load_rows(row, at), b = load_rows(row + 1, at), c = load_rows(row + 2, at),
		 d = load_rows(row + 3, at);
	const vu ab = __builtin_shuffle(a, b, ZIP_LOW), ab2 = __builtin_shuffle(a, b, ZIP_HIGH),
		 cd = __builtin_shuffle(c, d, ZIP_LOW), cd2 = __builtin_shuffle(c, d, ZIP_HIGH);

	out[0] = __builtin_shuffle(ab, cd, PAIRS_LOW);
	out[1] = __builtin_shuffle(ab, cd, PAIRS_HIGH);
	out[2] = __builtin_shuffle(ab2, cd2, PAIRS_LOW);
	out[3] = __builtin_shuffle(ab2, cd2, PAIRS_HIGH);
}

INLINE void store_words(uint8_t *to, vu words)
{
	memcpy(to, &words, sizeof(words));
}

/* The rows of a panel; those that are not there are the last one, and their lanes are cleared in
 * the end. */
static void find_rows(const uint8_t *row[PANEL], const struct cpu_rows *rows)
{
	for (unsigned int r = 0; r < PANEL; r++)
		row[r] = rows->data + (r < rows->nr ? r : rows->nr - 1) * rows->bytes;
}

/* Clears the channels from @nr on in each of @count lines of 64 elements of @size bytes. */
static void clear_rest(uint8_t *to, unsigned int nr, size_t count, size_t size)
{
	for (size_t i = 0; nr < PANEL && i < count; i++)
		memset(to + i * PANEL * size + nr * size, 0, (PANEL - nr) * size);
}

/* A finite F16: as its exponent is moved to the place of F32's, it is 2^112 times too small. */
INLINE float widen_f16(uint16_t h)
{
	uint32_t bits = (uint32_t)(h & 0x7fff) << 13;
	float f;

	memcpy(&f, &bits, sizeof(f));
	f *= 0x1p112f;
	return h & 0x8000 ? -f : f;
}

#include "cpu_kernels_pack_w8.h"
#include "cpu_kernels_pack_kq.h"
