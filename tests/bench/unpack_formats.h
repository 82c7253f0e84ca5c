/* SPDX-License-Identifier: MIT */
/*
 * Other ways to keep weights of 1 to 8 bits, for bench_unpack: each channel by itself, and made
 * into panels of MATMUL_I8 like the product's. A format has [64][k] numbers of a panel of channels,
 * each with its own width, in the channels' order; k is a multiple of UNPACK_GROUP.
 */
#ifndef UNPACK_FORMATS_H
#define UNPACK_FORMATS_H

#include <stdbool.h>
#include <stdint.h>

#define UNPACK_GROUP 512

/* Bytes of a channel: as many as its bits, without sums and scales. */
static inline uint64_t unpack_channel_bytes(uint32_t k, uint32_t bits)
{
	return k / 8 * (uint64_t)bits;
}

struct unpack_format {
	const char *name;
	/* Packs numbers q [k] of -2^(bits-1)..2^(bits-1)-1; of 1 bit, -1 and 1. */
	void (*pack)(uint8_t *packed, const int8_t *q, uint32_t k, uint32_t bits);
	/* 64 channels, @packed one after another, to a panel's weights, s8 [k/4][64][4]; @past: not
	 * into the caches, if the format has such stores. */
	void (*unpack)(uint8_t *panel, const uint8_t *packed, const uint8_t bits[64], uint32_t k,
		       bool past);
};

/*
 * For vectors of R bits, by the instruction set's name. EdgeFlow 4.2 and its figure 7, with groups
 * of R numbers: first as rows, s8 [64][k], which no NPU takes here, then as panels. Blocks of
 * K-quants (3.2, challenge 2) with one width, planes of 4, 2 and 1 bits of 256 numbers: as the tree
 * is compiled, a number at a time, and with what the compiler makes of it for vectors (-O3).
 */
enum { UNPACK_FIGURE7_ROWS, UNPACK_FIGURE7, UNPACK_KQUANT, UNPACK_KQUANT_O3, UNPACK_FORMATS };
extern const struct unpack_format unpack_formats_generic[UNPACK_FORMATS];
#if defined(__x86_64__)
extern const struct unpack_format unpack_formats_avx2[UNPACK_FORMATS];
extern const struct unpack_format unpack_formats_avx512[UNPACK_FORMATS];
#endif

#endif /* UNPACK_FORMATS_H */
