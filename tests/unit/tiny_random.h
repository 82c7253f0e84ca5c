/* SPDX-License-Identifier: MIT */
/* Random numbers of a test: TEST_SEED, or the time; its seed is printed. And models of them. */
#ifndef TINY_RANDOM_H
#define TINY_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arch.h"
#include "tiny_model.h"

static uint64_t seed_state;

/* @min .. @max. */
static inline unsigned int any(unsigned int min, unsigned int max)
{
	return min + (unsigned int)(random_u64(&seed_state) % (max - min + 1));
}

/* For cmocka_run_group_tests(). */
static inline int tiny_setup(void **state)
{
	const char *seed = getenv("TEST_SEED");

	seed_state = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
	printf("TEST_SEED=%llu\n", (unsigned long long)seed_state);
	return 0;
}

/* One of all architectures that the runtime knows, or of those without experts. */
static inline const char *tiny_any_arch(bool experts)
{
	const struct tiny_arch *a;
	char name[32];

	do {
		const char *at = llm_arch_names();
		unsigned int n = 1;

		for (const char *c = at; (c = strchr(c, ',')); c++)
			n++;
		for (unsigned int skipped = any(0, n - 1); skipped; skipped--)
			at = strchr(at, ',') + strlen(", ");
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, ","), at);
	} while (!experts && strstr(name, "moe"));
	a = tiny_arch_of(name);
	if (strcmp(a->name, name) != 0)
		abort(); /* tiny_arch.h lacks it */
	return a->name;
}

/* A model of any small size, for contexts of @n_ctx tokens. @ffs: 64 values of the feed-forward
 * network, or of an expert's, each. Experts are whole panels with heads of a multiple of 32. */
static inline struct tiny_config tiny_any(const char *arch, unsigned int n_ctx, unsigned int layers,
					  unsigned int head_dim, unsigned int ffs)
{
	struct tiny_config c = {
		.arch = arch,
		.n_layer = layers,
		.n_head_kv = any(1, 2),
		.head_dim = head_dim,
		.n_ctx = n_ctx,
		.eps = 1e-5,
		.rope_scale = 1,
		.freq_base = 10000,
		.bias = !strncmp(arch, "qwen2", 5),
		.head_norms = !strncmp(arch, "qwen3", 5) || !strcmp(arch, "gemma3"),
		.untied = any(0, 1),
	};

	c.n_head = c.n_head_kv * any(2, 3);
	if (strstr(arch, "moe")) {
		c.n_head = 2 * c.n_head_kv;
		c.n_expert = any(1, 9);
		c.n_expert_used = any(1, c.n_expert);
		c.n_ff_shared = tiny_arch_of(arch)->shared_expert ? 64 * any(1, 2) : 0;
	}
	c.n_embd = c.n_head * c.head_dim;
	c.rot_dim = c.head_dim;
	c.n_ff = 64 * ffs;
	c.n_vocab = 16 * any(20, 40);
	if (tiny_arch_of(arch)->window_step)
		c.window = any(0, 1) ? any(1, 40) : any(1, n_ctx);
	if (tiny_arch_of(arch)->layer_norm) {
		c.bias = any(0, 1);
		c.all_biases = any(0, 1);
		c.rot_dim = c.head_dim / 2;
	}
	return c;
}

#endif /* TINY_RANDOM_H */
