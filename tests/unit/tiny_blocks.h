/* SPDX-License-Identifier: MIT */
/* Tensors of block types for tiny models: random blocks whose values have a given size. */
#ifndef TINY_BLOCKS_H
#define TINY_BLOCKS_H

#include "dequant.h"
#include "tiny_model.h"

static inline void tiny_put_f16(uint8_t *to, float x)
{
	if (!gguf_quantize(GGUF_F16, &x, to, 1))
		abort();
}

/* Where a block of @type has its F16 scale, and a second one @times as large. */
struct tiny_scale {
	uint8_t at, second_at;
	int8_t times;
};

static inline struct tiny_scale tiny_scale(enum gguf_type type)
{
	switch (type) {
	case GGUF_Q4_1:
		return (struct tiny_scale){ 0, 2, -8 };
	case GGUF_Q5_1:
		return (struct tiny_scale){ 0, 2, -16 };
	case GGUF_Q4_K:
	case GGUF_Q5_K:
		return (struct tiny_scale){ 0, 2, 4 };
	case GGUF_Q2_K:
		return (struct tiny_scale){ 80, 82, 1 };
	case GGUF_Q3_K:
		return (struct tiny_scale){ 108, 0, 0 };
	case GGUF_Q6_K:
		return (struct tiny_scale){ 208, 0, 0 };
	case GGUF_TQ1_0:
		return (struct tiny_scale){ 52, 0, 0 };
	case GGUF_TQ2_0:
		return (struct tiny_scale){ 64, 0, 0 };
	default:
		return (struct tiny_scale){ 0 };
	}
}

static inline void tiny_set_scale(enum gguf_type type, uint8_t *block, float d)
{
	const struct tiny_scale s = tiny_scale(type);
	uint8_t half[2];
	int exponent;

	if (type == GGUF_MXFP4) {
		frexpf(d, &exponent);
		block[0] = (uint8_t)(exponent + 127);
		return;
	}
	if (type != GGUF_IQ1_M) {
		tiny_put_f16(block + s.at, d);
		if (s.times)
			tiny_put_f16(block + s.second_at, d * (float)s.times);
		return;
	}
	tiny_put_f16(half, d);
	for (int i = 0; i < 4; i++)
		block[49 + 2 * i] =
			(uint8_t)((block[49 + 2 * i] & 15) | (half[i / 2] >> i % 2 * 4 & 15) << 4);
}

/* Gives a tensor random blocks of @type, whose values are @size in the mean square, and makes its
 * data their values. */
static inline void tiny_set_type(struct tiny_model *t, struct tiny_tensor *tensor,
				 enum gguf_type type, double size)
{
	const struct gguf_type_traits *traits = gguf_type_traits(type);
	size_t n = tensor->dims[0] * tensor->dims[1], bytes = traits->block_bytes;
	uint8_t *blocks = malloc(n / traits->block_values * bytes);

	for (size_t i = 0; i < n; i += traits->block_values) {
		uint8_t *block = blocks + i / traits->block_values * bytes;
		double sum = 0;

		for (size_t j = 0; j < bytes; j++)
			block[j] = (uint8_t)(random_u64(&t->random) >> 56);
		tiny_set_scale(type, block, 1);
		gguf_dequantize(type, block, tensor->data + i, traits->block_values);
		for (size_t j = 0; j < traits->block_values; j++)
			sum += (double)tensor->data[i + j] * (double)tensor->data[i + j];
		tiny_set_scale(type, block, (float)(size / sqrt(sum / traits->block_values)));
	}
	gguf_dequantize(type, blocks, tensor->data, n);
	free(tensor->blocks);
	tensor->blocks = blocks;
	tensor->type = type;
}

#endif /* TINY_BLOCKS_H */
