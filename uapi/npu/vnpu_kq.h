/* SPDX-License-Identifier: MIT */
/* The block types of MATMUL_KQ's weights: their forms, as vnpu_isa.h explains them, and sizes. */
#ifndef VNPU_KQ_H
#define VNPU_KQ_H

#include <stdint.h>

#define VNPU_KQ_TYPES(X)             \
	X(Q2_K, q2_k, 256, 16, 2, 1) \
	X(Q3_K, q3_k, 256, 16, 3, 0) \
	X(Q4_K, q4_k, 256, 32, 4, 1) \
	X(Q5_K, q5_k, 256, 32, 5, 1) \
	X(Q6_K, q6_k, 256, 16, 6, 0) \
	X(Q4_1, q4_1, 32, 32, 4, 1)  \
	X(Q5_0, q5_0, 32, 32, 5, 0)  \
	X(Q5_1, q5_1, 32, 32, 5, 1)

#define VNPU_KQ_NUMBER(NAME, name, block, group, bits, mins) VNPU_KQ_##NAME,
enum vnpu_kq_type { VNPU_KQ_TYPES(VNPU_KQ_NUMBER) VNPU_NR_KQ_TYPES };
#undef VNPU_KQ_NUMBER

struct vnpu_kq_form {
	uint16_t block;
	uint8_t group, bits, mins;
};

/* The form of @type; all 0 if there is no such type. */
static inline struct vnpu_kq_form vnpu_kq_form(uint32_t type)
{
#define VNPU_KQ_CASE(NAME, name, block, group, bits, mins) \
	case VNPU_KQ_##NAME:                               \
		return (struct vnpu_kq_form){ block, group, bits, mins };
	switch (type) {
		VNPU_KQ_TYPES(VNPU_KQ_CASE)
	}
#undef VNPU_KQ_CASE
	return (struct vnpu_kq_form){ 0, 0, 0, 0 };
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
