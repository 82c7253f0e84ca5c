// SPDX-License-Identifier: MIT
#include "balance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* As many channels as any CPU takes at once. */
typedef float four __attribute__((vector_size(16)));
#define FOUR (sizeof(four) / sizeof(float))

struct balance *balance_create(unsigned int layers, unsigned int heads, unsigned int kv_heads,
			       unsigned int head_dim)
{
	size_t nk = (size_t)layers * kv_heads * head_dim, nq = (size_t)layers * heads * head_dim;
	struct balance *b = malloc(sizeof(*b));

	if (!b)
		return NULL;
	*b = (struct balance){
		.layers = layers,
		.heads = heads,
		.kv_heads = kv_heads,
		.head_dim = head_dim,
	};
	b->offsets = calloc(nk, sizeof(*b->offsets));
	b->keys = calloc(nk, sizeof(*b->keys));
	b->queries = calloc(nq, sizeof(*b->queries));
	if (!b->offsets || !b->keys || !b->queries) {
		balance_free(b);
		return NULL;
	}
	for (size_t i = 0; i < nk; i++)
		b->keys[i] = 1;
	for (size_t i = 0; i < nq; i++)
		b->queries[i] = 1;
	return b;
}

void balance_free(struct balance *b)
{
	if (!b)
		return;
	free(b->offsets);
	free(b->keys);
	free(b->queries);
	free(b);
}

static bool is_factor(float factor)
{
	return isnormal(factor) && factor > 0;
}

/* A KV head's, and those of its heads. */
static bool set_head(struct balance *b, size_t at, const float *balances, const float *s_q,
		     float s_k)
{
	unsigned int group = b->heads / b->kv_heads, n = b->head_dim;
	float *keys = b->keys + at * n, *queries = b->queries + at * group * n;
	bool valid = true;

	for (unsigned int c = 0; c < n; c++) {
		keys[c] = 1 / (balances[c] * s_k);
		valid &= is_factor(keys[c]);
		for (unsigned int h = 0; h < group; h++) {
			queries[h * n + c] = balances[c] / s_q[h];
			valid &= is_factor(queries[h * n + c]);
		}
	}
	return valid;
}

bool balance_set(struct balance *b, const float *offsets, const float *balances, const float *s_q,
		 const float *s_k)
{
	size_t heads = (size_t)b->layers * b->kv_heads, n = b->head_dim;
	unsigned int group = b->heads / b->kv_heads;
	bool valid = true;

	memcpy(b->offsets, offsets, heads * n * sizeof(*offsets));
	for (size_t at = 0; at < heads; at++)
		valid &= set_head(b, at, balances + at * n, s_q + at * group, s_k[at]);
	return valid;
}

static four load(const float *x)
{
	four v;

	memcpy(&v, x, sizeof(v));
	return v;
}

void balance_query(const struct balance *b, unsigned int layer, unsigned int head, float *to,
		   const float *q)
{
	const float *by = b->queries + ((size_t)layer * b->heads + head) * b->head_dim;
	size_t c = 0;

	for (; c + FOUR <= b->head_dim; c += FOUR) {
		four v = load(q + c) * load(by + c);

		memcpy(to + c, &v, sizeof(v));
	}
	for (; c < b->head_dim; c++)
		to[c] = q[c] * by[c];
}

void balance_key(const struct balance *b, unsigned int layer, unsigned int kv_head, float *to,
		 const float *k)
{
	size_t at = ((size_t)layer * b->kv_heads + kv_head) * b->head_dim, c = 0;
	const float *offsets = b->offsets + at, *by = b->keys + at;

	for (; c + FOUR <= b->head_dim; c += FOUR) {
		four v = (load(k + c) - load(offsets + c)) * load(by + c);

		memcpy(to + c, &v, sizeof(v));
	}
	for (; c < b->head_dim; c++)
		to[c] = (k[c] - offsets[c]) * by[c];
}
