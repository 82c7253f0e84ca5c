/* SPDX-License-Identifier: MIT */
/* The block types of MATMUL_KQ's weights: their forms, as vnpu_isa.h explains them, and sizes. */
#ifndef VNPU_KQ_H
#define VNPU_KQ_H

#include <stdint.h>

#define VNPU_KQ_TYPES(X)                            \
	X(Q2_K, q2_k, 256, 16, 2, 1, EVEN)          \
	X(Q3_K, q3_k, 256, 16, 3, 0, EVEN)          \
	X(Q4_K, q4_k, 256, 32, 4, 1, EVEN)          \
	X(Q5_K, q5_k, 256, 32, 5, 1, EVEN)          \
	X(Q6_K, q6_k, 256, 16, 6, 0, EVEN)          \
	X(Q4_1, q4_1, 32, 32, 4, 1, EVEN)           \
	X(Q5_0, q5_0, 32, 32, 5, 0, EVEN)           \
	X(Q5_1, q5_1, 32, 32, 5, 1, EVEN)           \
	X(IQ4_NL, iq4_nl, 32, 32, 4, 0, IQ4)        \
	X(IQ4_XS, iq4_xs, 256, 32, 4, 0, IQ4)       \
	X(MXFP4, mxfp4, 32, 32, 4, 0, E2M1)         \
	X(IQ3_S, iq3_s, 256, 32, 4, 0, IQ3_S)       \
	X(IQ3_XXS, iq3_xxs, 256, 32, 4, 0, IQ3_XXS) \
	X(IQ2, iq2, 256, 16, 3, 0, IQ2)             \
	X(IQ1, iq1, 256, 16, 3, 0, IQ1)

#define VNPU_KQ_NUMBER(NAME, name, block, group, bits, mins, levels) VNPU_KQ_##NAME,
enum vnpu_kq_type { VNPU_KQ_TYPES(VNPU_KQ_NUMBER) VNPU_NR_KQ_TYPES };
#undef VNPU_KQ_NUMBER

/* The version that brought @type, 1.minor. */
static inline uint16_t vnpu_kq_minor(uint32_t type)
{
	return type < VNPU_KQ_IQ4_NL ? 6 : 10;
}

enum vnpu_kq_levels {
	VNPU_KQ_LEVELS_EVEN, /* none */
	VNPU_KQ_LEVELS_IQ4, /* of IQ4_NL and IQ4_XS */
	VNPU_KQ_LEVELS_E2M1, /* twice the numbers of 4 bits of MXFP4 */
	VNPU_KQ_LEVELS_IQ3_S, /* the values of its code book's points, with signs */
	VNPU_KQ_LEVELS_IQ3_XXS,
	VNPU_KQ_LEVELS_IQ2, /* of IQ2_XXS, IQ2_XS and IQ2_S */
	VNPU_KQ_LEVELS_IQ1, /* eight times -1, 0 and 1, each with an eighth more or less */
	VNPU_NR_KQ_LEVELS
};

/* In the order of enum vnpu_kq_levels. */
static const int8_t vnpu_kq_levels[VNPU_NR_KQ_LEVELS][16] = {
	{ 0 },
	{ -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 },
	{ 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 },
	{ -15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15 },
	{ -62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62 },
	{ -43, -25, -8, 8, 25, 43 },
	{ -9, -7, -1, 1, 7, 9 },
};

struct vnpu_kq_form {
	uint16_t block;
	uint8_t group, bits, mins;
	uint8_t levels; /* enum vnpu_kq_levels */
};

/* The form of @type; all 0 if there is no such type. */
static inline struct vnpu_kq_form vnpu_kq_form(uint32_t type)
{
#define VNPU_KQ_FORM(NAME, name, block, group, bits, mins, levels) \
	{ block, group, bits, mins, VNPU_KQ_LEVELS_##levels },
	static const struct vnpu_kq_form forms[] = {
		VNPU_KQ_TYPES(VNPU_KQ_FORM){ 0, 0, 0, 0, 0 } /* of all other numbers */
	};
#undef VNPU_KQ_FORM

	if (type > VNPU_NR_KQ_TYPES)
		type = VNPU_NR_KQ_TYPES;
	return forms[type];
}

/* Bytes of a block's scales and minima in a panel, and of the block. */
static inline uint64_t vnpu_kq_scales_bytes(struct vnpu_kq_form f)
{
	uint64_t groups = f.block / f.group;

	return (128 + (groups > 1 ? groups * 64 : 0)) * (1 + f.mins);
}

static inline uint64_t vnpu_kq_block_bytes(struct vnpu_kq_form f)
{
	return vnpu_kq_scales_bytes(f) + f.block / 32 * 256u * f.bits;
}

/* Bytes of a panel; 0: there is no such type, or k is no multiple of its block. */
static inline uint64_t vnpu_kq_panel_bytes(uint32_t type, uint64_t k)
{
	struct vnpu_kq_form f = vnpu_kq_form(type);

	return !f.block || k % f.block ? 0 : k / f.block * vnpu_kq_block_bytes(f);
}

#endif /* VNPU_KQ_H */
