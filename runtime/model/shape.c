// SPDX-License-Identifier: MIT
#include "shape.h"

#include <errno.h>
#include <ini.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"
#include "soc.h"
#include <npu/vnpu_isa.h>

struct number {
	const char *key;
	size_t offset;
	uint32_t max;
};

static const struct number numbers[] = {
	{ "layers", offsetof(struct shape, layers), 4096 },
	{ "dim", offsetof(struct shape, dim), 1 << 20 },
	{ "heads", offsetof(struct shape, heads), 4096 },
	{ "kv_heads", offsetof(struct shape, kv_heads), 4096 },
	{ "head_dim", offsetof(struct shape, head_dim), 1 << 14 },
	{ "ffn", offsetof(struct shape, ffn), 1 << 22 },
	{ "vocab", offsetof(struct shape, vocab), VNPU_MAX_DIM },
	{ "experts", offsetof(struct shape, experts), 4096 },
	{ "experts_used", offsetof(struct shape, experts_used), 4096 },
	{ "shared_ffn", offsetof(struct shape, shared_ffn), 1 << 22 },
};
#define NR_NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

/* The first of those that are only of shapes with experts. */
#define EXPERTS 7

static const char *const flags[] = { "gated", "tied", "qkv_bias" };
#define NR_FLAGS 3

struct reader {
	struct shape *shape;
	const char *path;
	unsigned int seen; /* bits: numbers, then flags, then activation */
	int err;
};

static int parse_number(struct reader *r, size_t i, const char *value)
{
	char *end;
	unsigned long v = strtoul(value, &end, 10);

	if (end == value || *end || value[0] == '-' || v < 1 || v > numbers[i].max)
		return llm_fail(-EINVAL, "shape %s: %s = %s: a number from 1 to %u is wanted",
				r->path, numbers[i].key, value, numbers[i].max);
	*(uint32_t *)((char *)r->shape + numbers[i].offset) = (uint32_t)v;
	return 0;
}

static int parse_flag(struct reader *r, size_t i, const char *value)
{
	bool *const to[NR_FLAGS] = { &r->shape->gated, &r->shape->tied, &r->shape->qkv_bias };

	if (strcmp(value, "yes") && strcmp(value, "no"))
		return llm_fail(-EINVAL, "shape %s: %s = %s: yes or no is wanted", r->path,
				flags[i], value);
	*to[i] = value[0] == 'y';
	return 0;
}

static int parse_activation(struct reader *r, const char *value)
{
	static const char *const names[] = { "silu", "gelu", "relu" };

	for (int i = 0; i < 3; i++)
		if (!strcmp(value, names[i])) {
			r->shape->activation = i;
			return 0;
		}
	return llm_fail(-EINVAL, "shape %s: activation = %s: silu, gelu or relu is wanted", r->path,
			value);
}

static int parse_key(struct reader *r, const char *name, const char *value, unsigned int *bit)
{
	for (size_t i = 0; i < NR_NUMBERS; i++)
		if (!strcmp(name, numbers[i].key)) {
			*bit = i;
			return parse_number(r, i, value);
		}
	for (size_t i = 0; i < NR_FLAGS; i++)
		if (!strcmp(name, flags[i])) {
			*bit = NR_NUMBERS + i;
			return parse_flag(r, i, value);
		}
	*bit = NR_NUMBERS + NR_FLAGS;
	if (!strcmp(name, "activation"))
		return parse_activation(r, value);
	return llm_fail(-EINVAL, "shape %s: %s: no such key", r->path, name);
}

static int handle(void *user, const char *section, const char *name, const char *value)
{
	struct reader *r = user;
	unsigned int bit = 0;

	if (r->err)
		return 0;
	if (strcmp(section, "model"))
		r->err = llm_fail(-EINVAL, "shape %s: section [%s]: only [model] is known", r->path,
				  section);
	else
		r->err = parse_key(r, name, value, &bit);
	if (!r->err && (r->seen >> bit & 1))
		r->err = llm_fail(-EINVAL, "shape %s: %s is given twice", r->path, name);
	if (!r->err)
		r->seen |= 1u << bit;
	return !r->err;
}

static int check_experts(const struct reader *r)
{
	const struct shape *s = r->shape;

	if (!s->experts && !s->experts_used && !s->shared_ffn)
		return 0;
	if (!s->experts || !s->experts_used || s->experts_used > s->experts)
		return llm_fail(
			-EINVAL,
			"shape %s: experts = %u, experts_used = %u: both are wanted, and no more "
			"used than there are",
			r->path, s->experts, s->experts_used);
	if ((uint64_t)s->experts * s->ffn <= VNPU_MAX_DIM &&
	    (uint64_t)s->experts * s->dim <= VNPU_MAX_DIM)
		return 0;
	return llm_fail(-EINVAL, "shape %s: %u experts of %u are more than %u rows of a stack",
			r->path, s->experts, s->ffn > s->dim ? s->ffn : s->dim, VNPU_MAX_DIM);
}

static int check(const struct reader *r)
{
	const struct shape *s = r->shape;

	for (size_t i = 0; i <= NR_NUMBERS + NR_FLAGS; i++)
		if (!(r->seen >> i & 1) && !(i >= EXPERTS && i < NR_NUMBERS))
			return llm_fail(-EINVAL, "shape %s: %s is missing", r->path,
					i < NR_NUMBERS		    ? numbers[i].key
					: i < NR_NUMBERS + NR_FLAGS ? flags[i - NR_NUMBERS]
								    : "activation");
	if (s->heads % s->kv_heads)
		return llm_fail(-EINVAL, "shape %s: heads = %u is no multiple of kv_heads = %u",
				r->path, s->heads, s->kv_heads);
	return check_experts(r);
}

int shape_load(const char *name, struct shape *shape)
{
	char path[4400];
	FILE *f = soc_open_file("shapes", "VNPU_SHAPES", name, path, sizeof(path));
	struct reader r = { .shape = shape, .path = path };
	const char *base = strrchr(path, '/');
	int line;

	if (!f)
		return llm_fail(
			-errno,
			"shape %s: %s; share/shapes has those that are known, or give a file", name,
			strerror(errno));
	*shape = (struct shape){ 0 };
	base = base ? base + 1 : path;
	snprintf(shape->name, sizeof(shape->name), "%.31s", base);
	if (strlen(base) > 5 && strlen(base) < sizeof(shape->name) &&
	    !strcmp(base + strlen(base) - 5, ".conf"))
		shape->name[strlen(base) - 5] = '\0';
	line = ini_parse_file(f, handle, &r);
	fclose(f);
	if (!r.err && line)
		r.err = llm_fail(-EINVAL,
				 "shape %s: line %d: neither a section, nor a key, nor a comment",
				 path, line);
	return r.err ? r.err : check(&r);
}

uint64_t shape_layer_weights(const struct shape *s)
{
	uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
	uint64_t ffn = (uint64_t)s->ffn * (s->experts ? s->experts : 1) + s->shared_ffn;

	return s->dim * (2 * q + 2 * kv) + s->dim * ffn * (s->gated ? 3 : 2);
}

/* Values of a layer's router, and of the gate of an expert for all tokens. */
static uint64_t router_params(const struct shape *s)
{
	return (uint64_t)s->dim * (s->experts + (s->shared_ffn ? 1 : 0));
}

uint64_t shape_active_params(const struct shape *s)
{
	uint64_t expert = (uint64_t)s->dim * s->ffn * (s->gated ? 3 : 2);

	return shape_params(s) - s->layers * (s->experts - s->experts_used) * expert;
}

uint64_t shape_params(const struct shape *s)
{
	uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
	uint64_t layer = shape_layer_weights(s) + router_params(s) + 2 * s->dim +
			 (s->qkv_bias ? q + 2 * kv : 0);

	return s->layers * layer + s->dim + (uint64_t)s->dim * s->vocab * (s->tied ? 1 : 2);
}
