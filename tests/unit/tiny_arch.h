/* SPDX-License-Identifier: MIT */
/* What the architectures of tiny models compute, written from their definitions. */
#ifndef TINY_ARCH_H
#define TINY_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The multipliers of models that have them. */
#define TINY_EMBEDDING_SCALE 6.0
#define TINY_RESIDUAL_SCALE 0.25
#define TINY_ATTENTION_SCALE 0.125
#define TINY_LOGIT_SCALE 4.0

struct tiny_arch {
	const char *name;
	bool adjacent; /* pairs of RoPE */
	bool no_norm_before, norm_behind;
	bool layer_norm, parallel, row_norms;
	bool gelu, relu, no_gate;
	bool fused_qkv, fused_gate_up, output_bias;
	bool embd_root, scales;
	bool shared_expert; /* and the weights of a token's experts are the router's */
	unsigned int no_rope_step, window_step;
	double local_base; /* RoPE's in layers with a window; 0: the model's */
	double attn_cap, logit_cap;
};

static inline const struct tiny_arch *tiny_arch_of(const char *name)
{
	static const struct tiny_arch archs[] = {
		{ .name = "llama", .adjacent = true },
		{ .name = "qwen2" },
		{ .name = "qwen3" },
		{ .name = "qwen2moe", .shared_expert = true },
		{ .name = "qwen3moe" },
		{ .name = "internlm2", .adjacent = true },
		{ .name = "granite", .adjacent = true, .scales = true },
		{ .name = "smollm3", .adjacent = true, .no_rope_step = 4 },
		{ .name = "phonelm", .relu = true },
		{ .name = "olmo2", .no_norm_before = true, .norm_behind = true, .row_norms = true },
		{ .name = "gemma", .gelu = true, .embd_root = true },
		{ .name = "gemma2",
		  .gelu = true,
		  .embd_root = true,
		  .norm_behind = true,
		  .window_step = 2,
		  .attn_cap = 3,
		  .logit_cap = 6 },
		{ .name = "gemma3",
		  .gelu = true,
		  .embd_root = true,
		  .norm_behind = true,
		  .window_step = 6,
		  .local_base = 10000 },
		{ .name = "phi3", .fused_qkv = true, .fused_gate_up = true },
		{ .name = "phi2",
		  .layer_norm = true,
		  .parallel = true,
		  .gelu = true,
		  .no_gate = true,
		  .fused_qkv = true,
		  .output_bias = true },
		{ .name = "stablelm", .layer_norm = true },
		{ .name = "starcoder2", .layer_norm = true, .gelu = true, .no_gate = true },
	};

	for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++)
		if (!strcmp(archs[i].name, name))
			return &archs[i];
	return &archs[0];
}

#endif /* TINY_ARCH_H */
