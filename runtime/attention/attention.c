// SPDX-License-Identifier: MIT
#include "attention.h"

#include <errno.h>
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "head_ratios.h"
#include "llm_fail.h"

/* Keys that a query keeps, whatever its head's ratio. */
#define LEAST_KEYS 16
/* What rounding may add to a number of keys: 0.07 of 100 keys is 7.000000000000001 in doubles. */
#define ROUNDING 1e-12

/* ---- what the file has ---- */

__attribute__((format(printf, 2, 3))) static int bad(const struct attention_options *o,
						     const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	return llm_fail(-EINVAL, "%s: %s; calibrate the original again: llm-quantize --calibrate",
			o->path, line);
}

/* Whether the file has the key, of whatever type. */
static bool has_key(const struct attention_options *o, const char *key)
{
	const float *values;
	size_t n;

	return gguf_f32_array(o->file, key, &values, &n) != -ENOENT;
}

/* Copies the @n values of a key; they may be unaligned in the file. */
static int read_floats(const struct attention_options *o, const char *key, size_t n, float *to)
{
	const float *values;
	size_t has;
	int err = gguf_f32_array(o->file, key, &values, &has);

	if (err)
		return bad(o, "no key %s, or no array of floats", key);
	if (has != n)
		return bad(o, "%s has %zu values, not %zu", key, has, n);
	memcpy(to, values, n * sizeof(*to));
	return 0;
}

static int read_scales(const struct attention_options *o, const char *key, size_t n, float *to)
{
	int err = read_floats(o, key, n, to);

	for (size_t i = 0; !err && i < n; i++)
		if (!isnormal(to[i]) || to[i] < 0)
			err = bad(o, "%s holds %g at %zu", key, (double)to[i], i);
	return err;
}

static bool is_calibrated(const struct attention_options *o, int *err)
{
	uint64_t version = 0;

	*err = 0;
	if (!o->file || gguf_u64(o->file, ATTENTION_KEY, &version))
		return false;
	if (version != ATTENTION_VERSION)
		*err = bad(o, "its calibration of attention has version %llu, not %d",
			   (unsigned long long)version, ATTENTION_VERSION);
	return !*err;
}

/* ---- ratios ---- */

/* The keys of an importance. */
struct importance_keys {
	const char *heads, *layers, *limit; /* layers NULL: heads have gains */
};
static const struct importance_keys paper_keys = {
	ATTENTION_KEY ".head_importance",
	ATTENTION_KEY ".layer_importance",
	ATTENTION_KEY ".limit",
};
static const struct importance_keys gain_keys = {
	ATTENTION_KEY ".head_gain",
	NULL,
	ATTENTION_KEY ".gain_limit",
};

static bool has_gains(const struct attention_options *o)
{
	return has_key(o, gain_keys.heads) || has_key(o, gain_keys.limit);
}

/* From which ratio on a head has all keys. */
static double whole_from(const struct attention *a)
{
	return a->kind == LLM_ATTENTION_SHADOW || a->kind == LLM_ATTENTION_SPARSE ? ATTENTION_WHOLE
										  : 1;
}

static int read_ratios(struct attention *a, const struct attention_options *o,
		       const struct importance_keys *keys)
{
	size_t n = (size_t)a->layers * a->heads;
	float *read = malloc((n + a->layers) * sizeof(*read));
	double *of = malloc((n + a->layers) * sizeof(*of));
	const struct head_importance importance = { a->layers, a->heads, of,
						    keys->layers ? of + n : NULL };
	struct head_share share = { .mean = a->ratio, .whole = whole_from(a) };
	float limit = 0;
	int err = read && of ? 0 : llm_fail(-ENOMEM, "no memory for the ratios of heads");

	if (!err)
		err = read_scales(o, keys->limit, 1, &limit);
	if (!err)
		err = read_floats(o, keys->heads, n, read);
	if (!err && keys->layers)
		err = read_floats(o, keys->layers, a->layers, read + n);
	for (size_t i = 0; !err && i < n + (keys->layers ? a->layers : 0); i++)
		of[i] = (double)read[i];
	share.limit = (double)limit;
	if (!err)
		err = head_ratios(&importance, &share, a->ratios);
	free(read);
	free(of);
	return err;
}

static int make_ratios(struct attention *a, const struct attention_options *o, bool calibrated)
{
	enum llm_ratios ratios = o->choices->ratios;

	if (!(a->ratio > 0 && a->ratio <= 1))
		return llm_fail(-EINVAL, "a ratio of %g of the keys: choose one up to 1", a->ratio);
	for (size_t i = 0; i < (size_t)a->layers * a->heads; i++)
		a->ratios[i] = a->ratio;
	a->by_head = calibrated && ratios != LLM_RATIOS_UNIFORM;
	if (!a->by_head)
		return 0;
	return read_ratios(a, o,
			   ratios == LLM_RATIOS_GAIN && has_gains(o) ? &gain_keys : &paper_keys);
}

static double ratio_of(const struct attention *a, unsigned int layer, unsigned int head)
{
	return a->ratios[(size_t)layer * a->heads + head];
}

bool attention_whole(const struct attention *a, unsigned int layer, unsigned int head)
{
	return (a->kind == LLM_ATTENTION_SHADOW || a->kind == LLM_ATTENTION_SPARSE) &&
	       ratio_of(a, layer, head) >= ATTENTION_WHOLE;
}

unsigned int attention_keep(const struct attention *a, unsigned int layer, unsigned int head,
			    unsigned int visible)
{
	double share = ratio_of(a, layer, head) * visible;
	unsigned int keep = (unsigned int)ceil(share * (1 - ROUNDING));

	keep = keep < LEAST_KEYS ? LEAST_KEYS : keep;
	return keep < visible ? keep : visible;
}

/* ---- scale buckets ---- */

static double mean_of(const float *scales, size_t n)
{
	struct scale_mean mean = { 0, 0 };

	for (size_t i = 0; i < n; i++)
		scale_mean_add(&mean, scales[i]);
	return scale_mean(&mean);
}

static int read_buckets(struct attention *a, const struct attention_options *o)
{
	size_t nq = (size_t)a->layers * a->heads, nk = (size_t)a->layers * a->kv_heads;
	unsigned int group = a->heads / a->kv_heads;
	float *q = malloc((nq + nk) * sizeof(*q)), *k = q ? q + nq : NULL;
	int err = q ? 0 : llm_fail(-ENOMEM, "no memory for the scales of attention");

	if (!err)
		err = read_scales(o, ATTENTION_KEY ".q_scales", nq, q);
	if (!err)
		err = read_scales(o, ATTENTION_KEY ".k_scales", nk, k);
	if (!err)
		err = read_scales(o, ATTENTION_KEY ".v_scales", nk, a->v_scales);
	if (!err)
		err = scale_buckets_init(&a->buckets, o->buckets, mean_of(q, nq), mean_of(k, nk),
					 o->step);
	for (size_t i = 0; !err && i < nq; i++)
		a->expected[i] = (uint8_t)scale_buckets_pick(&a->buckets, q[i], k[i / group]);
	free(q);
	return err;
}

/* All heads are in the middle. */
static int even_buckets(struct attention *a, const struct attention_options *o)
{
	int err = scale_buckets_init(&a->buckets, o->buckets, 1, 1, o->step);

	if (!err)
		memset(a->expected, (int)scale_buckets_pick(&a->buckets, 1, 1),
		       (size_t)a->layers * a->heads);
	return err;
}

static int make_buckets(struct attention *a, const struct attention_options *o, bool calibrated)
{
	if (calibrated)
		return read_buckets(a, o);
	if (o->file)
		return llm_fail(-ENODATA,
				"%s: attention %s needs the scales of queries and keys, which it "
				"lacks: llm-quantize --calibrate TEXT makes a file with them; or "
				"choose attention sparse",
				o->path, llm_choice_name(LLM_CHOICE_ATTENTION, a->kind));
	return even_buckets(a, o);
}

/* ---- balance ---- */

enum { OFFSETS, BALANCE, Q_SCALES, K_SCALES, BALANCE_KEYS };
static const char *const balance_keys[BALANCE_KEYS] = {
	ATTENTION_KEY ".key_offsets",
	ATTENTION_KEY ".balance",
	ATTENTION_KEY ".balanced_q_scales",
	ATTENTION_KEY ".balanced_k_scales",
};

/* Whether the file has any of the keys. */
static bool has_balance(const struct attention_options *o)
{
	bool has = false;

	for (int i = 0; i < BALANCE_KEYS; i++)
		has |= has_key(o, balance_keys[i]);
	return has;
}

static int read_offsets(const struct attention_options *o, size_t n, float *to)
{
	int err = read_floats(o, balance_keys[OFFSETS], n, to);

	for (size_t i = 0; !err && i < n; i++)
		if (!isfinite(to[i]))
			err = bad(o, "%s holds %g at %zu", balance_keys[OFFSETS], (double)to[i], i);
	return err;
}

/* @of: room for the arrays, one behind the other. */
static int read_balance(struct attention *a, const struct attention_options *o, float *of)
{
	size_t nq = (size_t)a->layers * a->heads, nk = (size_t)a->layers * a->kv_heads,
	       n = nk * a->head_dim;
	int err = read_offsets(o, n, of);

	if (!err)
		err = read_scales(o, balance_keys[BALANCE], n, of + n);
	if (!err)
		err = read_scales(o, balance_keys[Q_SCALES], nq, of + 2 * n);
	if (!err)
		err = read_scales(o, balance_keys[K_SCALES], nk, of + 2 * n + nq);
	if (!err && !balance_set(a->balance, of, of + n, of + 2 * n, of + 2 * n + nq))
		err = bad(o, "%s by %s or %s is no float", balance_keys[BALANCE],
			  balance_keys[Q_SCALES], balance_keys[K_SCALES]);
	return err;
}

static int make_balance(struct attention *a, const struct attention_options *o)
{
	size_t n = (size_t)a->layers * (2 * a->kv_heads * a->head_dim + a->heads + a->kv_heads);
	float *of;
	int err;

	if (!has_balance(o))
		return 0;
	of = malloc(n * sizeof(*of));
	a->balance = balance_create(a->layers, a->heads, a->kv_heads, a->head_dim);
	err = of && a->balance ? read_balance(a, o, of)
			       : llm_fail(-ENOMEM, "no memory to balance heads with");
	free(of);
	return err ? err : even_buckets(a, o);
}

void attention_query(const struct attention *a, unsigned int layer, unsigned int head, float *to,
		     const float *q)
{
	if (a->balance)
		balance_query(a->balance, layer, head, to, q);
	else
		memcpy(to, q, a->head_dim * sizeof(*to));
}

void attention_keys(const struct attention *a, unsigned int layer, unsigned int kv_head, float *k,
		    unsigned int n)
{
	for (unsigned int i = 0; a->balance && i < n; i++, k += a->head_dim)
		balance_key(a->balance, layer, kv_head, k, k);
}

/* ---- life ---- */

static struct attention *alloc(const struct attention_options *o)
{
	const struct shape *s = o->shape;
	struct attention *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->kind = o->choices->attention;
	a->layers = s->layers;
	a->heads = s->heads;
	a->kv_heads = s->kv_heads;
	a->head_dim = s->head_dim;
	a->from = o->from;
	a->ratio = o->ratio;
	a->ratios = calloc((size_t)s->layers * s->heads, sizeof(*a->ratios));
	a->expected = calloc((size_t)s->layers * s->heads, 1);
	a->v_scales = calloc((size_t)s->layers * s->kv_heads, sizeof(*a->v_scales));
	if (a->ratios && a->expected && a->v_scales)
		return a;
	attention_free(a);
	return NULL;
}

int attention_create(const struct attention_options *o, struct attention **out)
{
	bool npu = o->choices->attention == LLM_ATTENTION_SHADOW ||
		   o->choices->attention == LLM_ATTENTION_NPU,
	     calibrated;
	struct attention *a;
	int err;

	*out = NULL;
	if (o->choices->attention == LLM_ATTENTION_FULL)
		return 0;
	calibrated = is_calibrated(o, &err);
	if (err)
		return err;
	a = alloc(o);
	if (!a)
		return llm_fail(-ENOMEM, "no memory for the ratios of heads");
	err = make_ratios(a, o, calibrated);
	if (!err && npu)
		err = make_buckets(a, o, calibrated);
	if (!err && calibrated && a->kind == LLM_ATTENTION_SHADOW)
		err = make_balance(a, o);
	a->balanced = a->balance || (!o->file && a->kind == LLM_ATTENTION_SHADOW);
	if (err)
		attention_free(a);
	else
		*out = a;
	return err;
}

void attention_free(struct attention *a)
{
	if (!a)
		return;
	free(a->ratios);
	free(a->expected);
	free(a->v_scales);
	balance_free(a->balance);
	free(a);
}
