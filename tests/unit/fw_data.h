/* SPDX-License-Identifier: MIT */
/*
 * Data for tests of kernels: random numbers, the same from the same seed on every
 * machine, and packed weights.
 */
#ifndef FW_DATA_H
#define FW_DATA_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <npu/vnpu_isa.h>

static uint64_t rng_state;

static inline uint32_t rng_u32(void)
{
	rng_state += 0x9e3779b97f4a7c15ull;
	uint64_t z = rng_state;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) >> 32;
}

static inline uint32_t rng_below(uint32_t n)
{
	return rng_u32() % n;
}

/* -1..1 */
static inline float rng_float(void)
{
	return (float)(int32_t)rng_u32() / 2147483648.0f;
}

/* Packs w [n][k] as MATMUL_I8 wants it. */
static inline void pack_w8(uint8_t *panels, const int8_t *w, const float *scale, uint32_t n,
			   uint32_t k)
{
	uint32_t kb = (k + 3) / 4, i, j;
	uint8_t *panel;
	int32_t *sum;

	memset(panels, 0, (n + 63) / 64 * VNPU_PANEL_I8_BYTES(k));
	for (i = 0; i < n; i++) {
		panel = panels + i / 64 * VNPU_PANEL_I8_BYTES(k);
		sum = (int32_t *)(panel + (size_t)kb * 256) + i % 64;
		for (j = 0; j < k; j++) {
			panel[(size_t)j / 4 * 256 + i % 64 * 4 + j % 4] = w[(size_t)i * k + j];
			*sum += w[(size_t)i * k + j];
		}
		((float *)(panel + (size_t)kb * 256 + 256))[i % 64] = scale[i];
	}
}

/* Packs numbers u [n][k] with scales f16 [n][k / group] as MATMUL_W4 wants it. */
static inline void pack_w4(uint8_t *panels, const uint8_t *u, const uint16_t *scale, uint32_t n,
			   uint32_t k, uint32_t group)
{
	uint32_t i, j;
	uint8_t *at;

	memset(panels, 0, (n + 63) / 64 * VNPU_PANEL_W4_BYTES(k, group));
	for (i = 0; i < n; i++) {
		for (j = 0; j < k; j++) {
			at = panels + i / 64 * VNPU_PANEL_W4_BYTES(k, group) +
			     j / group * (group * 32 + 128);
			at[j % group / 8 * 256 + i % 64 * 4 + j % 4] |= u[(size_t)i * k + j]
									<< (j % 8 < 4 ? 0 : 4);
			memcpy(at + group * 32 + i % 64 * 2, &scale[i * (k / group) + j / group],
			       2);
		}
	}
}

/* Numbers u [n][k], d and dmin [n][k / block], scale and min [n][k / group]. */
struct kq_parts {
	const uint8_t *u;
	const uint16_t *d, *dmin;
	const int8_t *scale, *min;
};

/* Writes number u of column k of a channel: the lowest bits into the widest plane. */
static inline void put_kq(uint8_t *block, const struct vnpu_kq_form *f, uint32_t k, uint32_t n,
			  uint32_t u)
{
	uint8_t *plane = block + vnpu_kq_scales_bytes(*f) + k / 32 * f->bits * 256;
	uint32_t i = k % 32, p;

	for (p = 4; p; p /= 2) {
		if (!(f->bits & p))
			continue;
		/* k = 32 v / p + 4 q + j */
		plane[i / (32 / p) * 256 + n * 4 + i % 4] |= (u & ((1u << p) - 1))
							     << i % (32 / p) / 4 * p;
		u >>= p;
		plane += p * 256;
	}
}

/* What number @u counts for before it is scaled. */
static inline int kq_value(struct vnpu_kq_form f, uint8_t u)
{
	return f.levels ? vnpu_kq_levels[f.levels][u] : u - (f.mins ? 0 : 1 << (f.bits - 1));
}

/* Packs a matrix as MATMUL_KQ wants it. */
static inline void pack_kq(uint8_t *panels, uint32_t type, uint32_t n, uint32_t k,
			   const struct kq_parts *from)
{
	const struct vnpu_kq_form f = vnpu_kq_form(type);
	const uint32_t groups = f.block / f.group, blocks = k / f.block;
	uint32_t i, b, g, j;
	uint8_t *block;
	size_t at;

	memset(panels, 0, (n + 63) / 64 * vnpu_kq_panel_bytes(type, k));
	for (i = 0; i < n; i++) {
		for (b = 0; b < blocks; b++) {
			at = (size_t)i * blocks + b;
			block = panels + i / 64 * vnpu_kq_panel_bytes(type, k) +
				b * vnpu_kq_block_bytes(f);
			memcpy(block + i % 64 * 2, &from->d[at], 2);
			if (f.mins)
				memcpy(block + 128 + i % 64 * 2, &from->dmin[at], 2);
			for (g = 0; groups > 1 && g < groups; g++) {
				int8_t *s = (int8_t *)block + (f.mins ? 256 : 128) + g / 2 * 128 +
					    i % 64 * 2 + g % 2;

				*s = from->scale[at * groups + g];
				if (f.mins)
					s[groups * 64] = from->min[at * groups + g];
			}
			for (j = 0; j < f.block; j++)
				put_kq(block, &f, j, i % 64, from->u[at * f.block + j]);
		}
	}
}

/* A weight of @bits bits; of 1 bit, -1 or 1. */
static inline int8_t random_wk(uint32_t bits)
{
	return bits == 1 ? (int8_t)(rng_below(2) * 2 - 1)
			 : (int8_t)((int32_t)rng_below(1u << bits) - (1 << (bits - 1)));
}

/* Bytes of what pack_wk() makes, with a width for each panel. */
static inline uint64_t wk_bytes(const uint32_t *bits, uint32_t n, uint32_t k)
{
	uint64_t bytes = VNPU_WK_TABLE_BYTES(n);
	uint32_t p;

	for (p = 0; p < (n + 63) / 64; p++)
		bytes += VNPU_PANEL_WK_BYTES(k, bits[p]);
	return bytes;
}

/* Packs q [n][k] as MATMUL_WK wants it, bit by bit; what is beyond n and k are random bytes. */
static inline void pack_wk(uint8_t *w, const int8_t *q, const float *scale, const uint32_t *bits,
			   uint32_t n, uint32_t k)
{
	uint64_t at = VNPU_WK_TABLE_BYTES(n), bytes = wk_bytes(bits, n, k), i;
	uint32_t p, c, j, b, u, line, plane, down;
	int32_t sum;
	uint8_t *to;

	for (i = 0; i < bytes; i++)
		w[i] = i < at ? 0 : rng_u32();
	for (p = 0; p < (n + 63) / 64; p++, at += VNPU_PANEL_WK_BYTES(k, bits[p - 1])) {
		((struct vnpu_wk_panel *)w)[p] = (struct vnpu_wk_panel){ at / 64, bits[p] };
		for (c = p * 64; c < n && c < p * 64 + 64; c++) {
			sum = 0;
			for (j = 0; j < k; j++) {
				sum += q[(size_t)c * k + j];
				u = bits[p] == 1 ? q[(size_t)c * k + j] > 0
						 : q[(size_t)c * k + j] + (1 << (bits[p] - 1));
				line = j % 8 / 4 * 4 + c % 64 / 16;
				/*
				 * Bit b of u is in the plane of 4, 2 or 1 bits that it falls into,
				 * @down bits above its start.
				 */
				for (b = 0; b < bits[p] % 8; b++) {
					to = w + at + j / 8 * 64ull * bits[p] + c % 16 * 4 + j % 4;
					for (plane = 4, down = b; down >= (bits[p] & plane);
					     plane /= 2) {
						down -= bits[p] & plane;
						to += (bits[p] & plane) * 64;
					}
					to += line % plane * 64;
					*to &= ~(1 << (line / plane * plane + down));
					*to |= (u >> b & 1) << (line / plane * plane + down);
				}
				if (bits[p] == 8)
					w[at + j / 8 * 512ull + line * 64 + c % 16 * 4 + j % 4] =
						q[(size_t)c * k + j];
			}
			to = w + at + VNPU_PANEL_WK_BYTES(k, bits[p]) - 512 + c % 64 * 4;
			memcpy(to, &sum, 4);
			memcpy(to + 256, &scale[c], 4);
		}
	}
}

/* Lengths around the vectors' and the unrolled loops'. */
static inline size_t random_length(void)
{
	return rng_below(2) ? 1 + rng_below(70) : 1 + rng_below(700);
}

/* Numbers of every size, with the special ones among them. */
static inline float wild(void)
{
	static const float special[] = { 0,	   -0.0f,   INFINITY, -INFINITY, NAN, FLT_MAX,
					 -FLT_MAX, FLT_MIN, 1e-45f,   88.8f,	 -104 };
	uint32_t bits = rng_u32();
	float f;

	if (!rng_below(20))
		return special[rng_below(11)];
	memcpy(&f, &bits, sizeof(f));
	return rng_below(2) ? f : rng_float() * 20;
}

/* Signs, subnormals and zeros among them; seldom what is no number. */
static inline uint16_t random_f16(bool wild)
{
	uint16_t h = rng_u32() & 0x83ff;

	if (wild && !rng_below(200))
		return 0x7c00 | h;
	return rng_below(10) ? h | (10 + rng_below(8)) << 10 : rng_below(2) ? h : 0;
}

#endif /* FW_DATA_H */
