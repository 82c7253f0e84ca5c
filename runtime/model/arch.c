// SPDX-License-Identifier: MIT
#include "arch.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "llm_fail.h"

/* A feature that a row does not name is that of llama. */
static const struct llm_arch archs[] = {
	{ .name = "llama", .experts = LLM_EXPERTS_MAYBE },
	{ .name = "qwen2", .rope_halves = true, .needs_qkv_bias = true },
	{ .name = "qwen3", .rope_halves = true, .qk_norms = LLM_QK_NORMS_HEAD },
	{
		.name = "qwen2moe",
		.rope_halves = true,
		.needs_qkv_bias = true,
		.experts = LLM_EXPERTS_SHARED,
	},
	{
		.name = "qwen3moe",
		.rope_halves = true,
		.qk_norms = LLM_QK_NORMS_HEAD,
		.experts = LLM_EXPERTS_ALWAYS,
	},
	{ .name = "internlm2" },
	{ .name = "granite", .scales = true },
	{ .name = "smollm3", .no_rope_step = 4 },
	{ .name = "phonelm", .rope_halves = true, .activation = SHAPE_RELU },
	{
		.name = "olmo2",
		.norms = LLM_NORMS_AFTER,
		.qk_norms = LLM_QK_NORMS_ROW,
		.rope_halves = true,
	},
	{
		.name = "gemma",
		.activation = SHAPE_GELU,
		.rope_halves = true,
		.embd_root = true,
	},
	{
		.name = "gemma2",
		.norms = LLM_NORMS_BOTH,
		.activation = SHAPE_GELU,
		.rope_halves = true,
		.embd_root = true,
		.attn_cap = 50,
		.logit_cap = 30,
		.embd_scale_layers = 46,
		.window = 4096,
		.window_step = 2,
	},
	{
		.name = "gemma3",
		.norms = LLM_NORMS_BOTH,
		.qk_norms = LLM_QK_NORMS_HEAD,
		.activation = SHAPE_GELU,
		.rope_halves = true,
		.embd_root = true,
		.embd_scale_layers = 62,
		.window_step = 6,
		.window_rope_base = 10000,
	},
	{ .name = "phi3", .rope_halves = true, .fused_qkv = true, .fused_gate_up = true },
	{
		.name = "phi2",
		.layer_norm = true,
		.may_be_parallel = true,
		.is_parallel = true,
		.activation = SHAPE_GELU,
		.no_gate = true,
		.rope_halves = true,
		.fused_qkv = true,
		.output_bias = true,
	},
	{
		.name = "stablelm",
		.layer_norm = true,
		.may_be_parallel = true,
		.rope_halves = true,
	},
	{
		.name = "starcoder2",
		.layer_norm = true,
		.activation = SHAPE_GELU,
		.no_gate = true,
		.rope_halves = true,
	},
};
#define NR_ARCHS (sizeof(archs) / sizeof(archs[0]))

const struct llm_arch *llm_arch_named(const char *name, size_t bytes)
{
	for (size_t i = 0; i < NR_ARCHS; i++)
		if (bytes == strlen(archs[i].name) && !memcmp(name, archs[i].name, bytes))
			return &archs[i];
	return NULL;
}

static char names[512];

static void join_names(void)
{
	size_t n = 0;

	for (size_t i = 0; i < NR_ARCHS && n < sizeof(names); i++)
		n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "",
				      archs[i].name);
}

const char *llm_arch_names(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, join_names);
	return names;
}

const struct llm_arch *llm_arch_find(const struct gguf_file *file, const char *path, int *err)
{
	const struct llm_arch *arch;
	const char *name;
	size_t bytes;

	*err = gguf_string(file, "general.architecture", &name, &bytes);
	if (*err) {
		*err = llm_fail(-EINVAL, "%s: no general.architecture; is this a model?", path);
		return NULL;
	}
	arch = llm_arch_named(name, bytes);
	if (!arch)
		*err = llm_fail(-ENOTSUP, "%s: architecture '%.*s' is not supported; known are %s",
				path, bytes < 64 ? (int)bytes : 64, name, llm_arch_names());
	return arch;
}
