/* SPDX-License-Identifier: MIT */
/*
 * Models for tests: random weights in a GGUF file of any architecture that the runtime knows, and
 * their forward pass in double precision, written for clarity and only from the architectures'
 * definitions.
 */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include <npu/vnpu_isa.h>

#include "activations.h"
#include "gguf_image.h"
#include "gguf_quantize.h"
#include "llm.h"
#include "quant_w4.h"

#define TINY_MAX_TENSORS 64
#define TINY_MAX_KEYS 48

struct tiny_config {
	const char *arch;
	unsigned int n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_ctx, rot_dim;
	bool bias, head_norms, untied, rope_factors;
	double eps, freq_base, rope_scale; /* rope_scale 1: no such key */
};

struct tiny_tensor {
	char name[64];
	uint64_t dims[2]; /* columns, rows (1: a vector) */
	float *data;
	bool half; /* written as F16 */
	/* Not NULL: written in their place, with the same values in @type (tiny_blocks.h). */
	void *blocks;
	enum gguf_type type;
};

struct tiny_key {
	char name[64];
	char kind; /* u: u32, f: f32, s: string; F and I: arrays of f32 and i32 */
	double number;
	const char *string;
	const void *values; /* [n] of 4 bytes each, the caller's */
	size_t n;
};

struct tiny_model {
	struct tiny_config c;
	struct tiny_tensor tensors[TINY_MAX_TENSORS];
	unsigned int n_tensors;
	struct tiny_key keys[TINY_MAX_KEYS];
	unsigned int n_keys;
	uint64_t random;
	int fd;
	char path[32];
};

static inline double tiny_uniform(struct tiny_model *t)
{
	return (double)(random_u64(&t->random) >> 11) * 0x1p-52 - 1.0;
}

/* Adds a tensor of values @mean +- @spread; a vector if @rows is 0. */
static inline void tiny_add(struct tiny_model *t, const char *name, unsigned int rows,
			    unsigned int cols, double mean, double spread)
{
	struct tiny_tensor *tensor = &t->tensors[t->n_tensors++];
	size_t n = (size_t)cols * (rows ? rows : 1);

	if (t->n_tensors > TINY_MAX_TENSORS)
		abort();
	snprintf(tensor->name, sizeof(tensor->name), "%s", name);
	tensor->dims[0] = cols;
	tensor->dims[1] = rows ? rows : 1;
	tensor->half = false;
	tensor->blocks = NULL;
	tensor->data = malloc(n * sizeof(float));
	for (size_t i = 0; i < n; i++)
		tensor->data[i] = (float)(mean + spread * tiny_uniform(t));
}

static inline void tiny_add_layer(struct tiny_model *t, unsigned int layer, const char *what,
				  unsigned int rows, unsigned int cols, double mean, double spread)
{
	char name[64];

	snprintf(name, sizeof(name), "blk.%u.%s", layer, what);
	tiny_add(t, name, rows, cols, mean, spread);
}

static inline void tiny_set_key(struct tiny_model *t, struct tiny_key key)
{
	for (unsigned int i = 0; i < t->n_keys; i++) {
		if (!strcmp(t->keys[i].name, key.name)) {
			t->keys[i] = key;
			return;
		}
	}
	if (t->n_keys == TINY_MAX_KEYS)
		abort();
	t->keys[t->n_keys++] = key;
}

/* Sets or replaces a key; a name that begins with '.' is appended to the architecture's. */
static inline void tiny_key(struct tiny_model *t, const char *name, char kind, double number,
			    const char *string)
{
	struct tiny_key key = { .kind = kind, .number = number, .string = string };

	snprintf(key.name, sizeof(key.name), "%s%s", name[0] == '.' ? t->c.arch : "", name);
	tiny_set_key(t, key);
}

/* The same with an array, which is read when the file is written. */
static inline void tiny_array(struct tiny_model *t, const char *name, char kind, const void *values,
			      size_t n)
{
	struct tiny_key key = { .kind = kind, .values = values, .n = n };

	snprintf(key.name, sizeof(key.name), "%s", name);
	tiny_set_key(t, key);
}

static inline void tiny_drop_key(struct tiny_model *t, const char *name)
{
	char full[64];

	snprintf(full, sizeof(full), "%s%s", name[0] == '.' ? t->c.arch : "", name);
	for (unsigned int i = 0; i < t->n_keys; i++) {
		if (!strcmp(t->keys[i].name, full)) {
			t->keys[i] = t->keys[--t->n_keys];
			return;
		}
	}
	abort();
}

static inline struct tiny_tensor *tiny_find(struct tiny_model *t, const char *name)
{
	for (unsigned int i = 0; i < t->n_tensors; i++) {
		if (!strcmp(t->tensors[i].name, name))
			return &t->tensors[i];
	}
	return NULL;
}

static inline void tiny_drop_tensor(struct tiny_model *t, const char *name)
{
	struct tiny_tensor *tensor = tiny_find(t, name);

	free(tensor->data);
	free(tensor->blocks);
	*tensor = t->tensors[--t->n_tensors];
}

static inline void tiny_keys(struct tiny_model *t)
{
	const struct tiny_config *c = &t->c;

	tiny_key(t, "general.architecture", 's', 0, c->arch);
	tiny_key(t, "general.name", 's', 0, "tiny");
	tiny_key(t, ".block_count", 'u', c->n_layer, NULL);
	tiny_key(t, ".embedding_length", 'u', c->n_embd, NULL);
	tiny_key(t, ".feed_forward_length", 'u', c->n_ff, NULL);
	tiny_key(t, ".context_length", 'u', c->n_ctx, NULL);
	tiny_key(t, ".attention.head_count", 'u', c->n_head, NULL);
	tiny_key(t, ".attention.head_count_kv", 'u', c->n_head_kv, NULL);
	tiny_key(t, ".attention.layer_norm_rms_epsilon", 'f', c->eps, NULL);
	tiny_key(t, ".rope.freq_base", 'f', c->freq_base, NULL);
	if (c->head_dim * c->n_head != c->n_embd) {
		tiny_key(t, ".attention.key_length", 'u', c->head_dim, NULL);
		tiny_key(t, ".attention.value_length", 'u', c->head_dim, NULL);
	}
	if (c->rot_dim != c->head_dim)
		tiny_key(t, ".rope.dimension_count", 'u', c->rot_dim, NULL);
	if (c->rope_scale != 1) {
		tiny_key(t, ".rope.scaling.type", 's', 0, "linear");
		tiny_key(t, ".rope.scaling.factor", 'f', c->rope_scale, NULL);
	}
}

static inline void tiny_create(struct tiny_model *t, const struct tiny_config *config,
			       uint64_t seed)
{
	const struct tiny_config *c = &t->c;
	unsigned int q, kv;

	memset(t, 0, sizeof(*t));
	t->fd = -1;
	t->c = *config;
	t->random = seed;
	q = c->n_head * c->head_dim;
	kv = c->n_head_kv * c->head_dim;
	tiny_keys(t);
	tiny_add(t, "token_embd.weight", c->n_vocab, c->n_embd, 0, 1);
	if (c->untied)
		tiny_add(t, "output.weight", c->n_vocab, c->n_embd, 0, 1);
	tiny_add(t, "output_norm.weight", 0, c->n_embd, 1, 0.5);
	if (c->rope_factors)
		tiny_add(t, "rope_freqs.weight", 0, c->rot_dim / 2, 4, 3);
	for (unsigned int i = 0; i < c->n_layer; i++) {
		double e = sqrt(3.0 / c->n_embd);

		tiny_add_layer(t, i, "attn_norm.weight", 0, c->n_embd, 1, 0.5);
		tiny_add_layer(t, i, "ffn_norm.weight", 0, c->n_embd, 1, 0.5);
		tiny_add_layer(t, i, "attn_q.weight", q, c->n_embd, 0, e);
		tiny_add_layer(t, i, "attn_k.weight", kv, c->n_embd, 0, e);
		tiny_add_layer(t, i, "attn_v.weight", kv, c->n_embd, 0, e);
		tiny_add_layer(t, i, "attn_output.weight", c->n_embd, q, 0, sqrt(3.0 / q));
		tiny_add_layer(t, i, "ffn_gate.weight", c->n_ff, c->n_embd, 0, e);
		tiny_add_layer(t, i, "ffn_up.weight", c->n_ff, c->n_embd, 0, e);
		tiny_add_layer(t, i, "ffn_down.weight", c->n_embd, c->n_ff, 0, sqrt(3.0 / c->n_ff));
		if (c->bias) {
			tiny_add_layer(t, i, "attn_q.bias", 0, q, 0, 1);
			tiny_add_layer(t, i, "attn_k.bias", 0, kv, 0, 1);
			tiny_add_layer(t, i, "attn_v.bias", 0, kv, 0, 1);
		}
		if (c->head_norms) {
			tiny_add_layer(t, i, "attn_q_norm.weight", 0, c->head_dim, 1, 0.5);
			tiny_add_layer(t, i, "attn_k_norm.weight", 0, c->head_dim, 1, 0.5);
		}
	}
}

static inline void tiny_free(struct tiny_model *t)
{
	for (unsigned int i = 0; i < t->n_tensors; i++) {
		free(t->tensors[i].data);
		free(t->tensors[i].blocks);
	}
	if (t->fd >= 0)
		close(t->fd);
}

/* <unk>, <s>, </s>, the bytes, and dummy pieces. */
static inline void tiny_put_vocab(struct image *m, unsigned int n_vocab)
{
	char piece[32];

	image_key(m, "tokenizer.ggml.model", 8);
	image_string(m, "llama");
	image_array(m, "tokenizer.ggml.tokens", 8, n_vocab);
	for (unsigned int i = 0; i < n_vocab; i++) {
		if (i < 3)
			snprintf(piece, sizeof(piece), "%s",
				 i == 0	  ? "<unk>"
				 : i == 1 ? "<s>"
					  : "</s>");
		else if (i < 259)
			snprintf(piece, sizeof(piece), "<0x%02X>", i - 3);
		else
			snprintf(piece, sizeof(piece), "piece%u", i);
		image_string(m, piece);
	}
	image_array(m, "tokenizer.ggml.scores", 6, n_vocab);
	for (unsigned int i = 0; i < n_vocab; i++) {
		float score = -(float)i;

		image_put(m, &score, sizeof(score));
	}
	image_array(m, "tokenizer.ggml.token_type", 5, n_vocab);
	for (unsigned int i = 0; i < n_vocab; i++)
		image_u32(m, i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1);
}

static inline void tiny_put_key(struct image *m, const struct tiny_key *key)
{
	float f = (float)key->number;

	if (key->kind == 'F' || key->kind == 'I') {
		image_array(m, key->name, key->kind == 'F' ? 6 : 5, key->n);
		image_put(m, key->values, 4 * key->n);
		return;
	}
	image_key(m, key->name, key->kind == 'u' ? 4 : key->kind == 'f' ? 6 : 8);
	if (key->kind == 'u')
		image_u32(m, (uint32_t)key->number);
	else if (key->kind == 'f')
		image_put(m, &f, sizeof(f));
	else
		image_string(m, key->string);
}

static inline enum gguf_type tiny_type(const struct tiny_tensor *tensor)
{
	return tensor->blocks ? tensor->type : tensor->half ? GGUF_F16 : GGUF_F32;
}

static inline size_t tiny_bytes(const struct tiny_tensor *tensor)
{
	const struct gguf_type_traits *traits = gguf_type_traits(tiny_type(tensor));

	return tensor->dims[0] * tensor->dims[1] / traits->block_values * traits->block_bytes;
}

static inline void tiny_put_values(struct image *m, const struct tiny_tensor *tensor)
{
	size_t n = tensor->dims[0] * tensor->dims[1];

	if (tensor->blocks || !tensor->half)
		return image_put(m, tensor->blocks ? tensor->blocks : tensor->data,
				 tiny_bytes(tensor));
	for (size_t i = 0; i < n; i++) {
		uint16_t half;

		if (!gguf_quantize(GGUF_F16, &tensor->data[i], &half, 1))
			abort();
		image_put(m, &half, sizeof(half));
	}
}

/* Writes the file in memory; its path is valid until tiny_free(). */
static inline const char *tiny_write(struct tiny_model *t)
{
	struct image m = { 0 };
	uint64_t offset = 0;

	image_header(&m, t->n_tensors, t->n_keys + 4);
	for (unsigned int i = 0; i < t->n_keys; i++)
		tiny_put_key(&m, &t->keys[i]);
	tiny_put_vocab(&m, t->c.n_vocab);
	for (unsigned int i = 0; i < t->n_tensors; i++) {
		const struct tiny_tensor *tensor = &t->tensors[i];

		image_tensor(&m, tensor->name, tensor->dims[1] > 1 ? 2 : 1, tensor->dims,
			     tiny_type(tensor), offset);
		offset += (tiny_bytes(tensor) + 31) / 32 * 32;
	}
	for (unsigned int i = 0; i < t->n_tensors; i++) {
		image_pad(&m, 32);
		tiny_put_values(&m, &t->tensors[i]);
	}
	image_pad(&m, 32);
	if (t->fd >= 0)
		close(t->fd);
	t->fd = memfd_create("tiny", MFD_CLOEXEC);
	if (t->fd < 0 || write(t->fd, m.data, m.bytes) != (ssize_t)m.bytes)
		abort();
	free(m.data);
	snprintf(t->path, sizeof(t->path), "/proc/self/fd/%d", t->fd);
	return t->path;
}

/* ---- the forward pass ------------------------------------------------------------------------ */

struct tiny_pass {
	struct tiny_model *t;
	unsigned int layer;
	enum llm_weights weights; /* of linear layers: F32, W8A8, W4A8 or W4A16 */
	enum llm_activations activations;
	/* Least distance, in steps, of an activation from a rounding tie. */
	double tie;
};

static inline const float *tiny_weights(struct tiny_pass *p, const char *what)
{
	char name[64];
	struct tiny_tensor *tensor;

	snprintf(name, sizeof(name), "blk.%u.%s", p->layer, what);
	tensor = tiny_find(p->t, name);
	return tensor ? tensor->data : NULL;
}

static inline double tiny_max(const double *x, unsigned int n)
{
	double max = 0;

	for (unsigned int i = 0; i < n; i++)
		max = fmax(max, fabs(x[i]));
	return max;
}

/* An INT8 weight as vnpu_isa.h defines it, in float32, which determines its rounding. */
static inline double tiny_w8(float w, float scale)
{
	return scale > 0 ? (double)nearbyintf(w / scale) * (double)scale : 0;
}

/* One row of weights as the linear layer uses them. */
static inline void tiny_row(const struct tiny_pass *p, double *row, const float *w,
			    unsigned int cols, bool w4)
{
	float max = 0;

	for (unsigned int c = 0; c < cols; c++)
		max = fmaxf(max, fabsf(w[c]));
	for (unsigned int c = 0; c < cols && !w4; c++)
		row[c] = p->weights == LLM_WEIGHTS_F32 ? (double)w[c] : tiny_w8(w[c], max / 127.0f);
	for (unsigned int c = 0; c < cols && w4; c += QUANT_W4_GROUP) {
		uint8_t q[QUANT_W4_GROUP];
		uint16_t half;
		float scale;

		if (!quant_w4(w + c, QUANT_W4_GROUP, q, &half))
			abort();
		gguf_dequantize(GGUF_F16, &half, &scale, 1);
		for (unsigned int i = 0; i < QUANT_W4_GROUP; i++)
			row[c + i] = (double)((int)q[i] - 8) * (double)scale;
	}
}

/* Rounds x to steps of max |x| / 127; returns the scale. */
static inline double tiny_round(double *x, unsigned int n)
{
	double scale = tiny_max(x, n) / 127;

	for (unsigned int i = 0; scale > 0 && i < n; i++)
		x[i] = nearbyint(x[i] / scale) * scale;
	return scale;
}

/* The same twice, the second time the difference to the first; ties of the first do not matter. */
static inline void tiny_round_twice(double *x, unsigned int n)
{
	double rest[n], first[n];

	memcpy(first, x, n * sizeof(*x));
	tiny_round(first, n);
	for (unsigned int i = 0; i < n; i++)
		rest[i] = x[i] - first[i];
	tiny_round(rest, n);
	for (unsigned int i = 0; i < n; i++)
		x[i] = first[i] + rest[i];
}

static inline int tiny_descending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x < y) - (x > y);
}

/* The greatest |x| that is no outlier (vnpu_isa.h: QUANT_OUTLIERS). */
static inline double tiny_bound(const double *x, unsigned int n)
{
	double lanes[64] = { 0 };

	for (unsigned int i = 0; i < n; i++)
		lanes[i % 64] = fmax(lanes[i % 64], fabs(x[i]));
	qsort(lanes, 64, sizeof(*lanes), tiny_descending);
	for (unsigned int rank = 8; rank; rank--) {
		unsigned int beyond = 0;

		for (unsigned int i = 0; i < n; i++)
			beyond += fabs(x[i]) > lanes[rank];
		if (beyond <= VNPU_OUTLIERS)
			return lanes[rank];
	}
	return lanes[0];
}

/* Rounds x except its outliers; returns the scale. */
static inline double tiny_round_most(double *x, unsigned int n)
{
	double bound = tiny_bound(x, n), scale = bound / 127;

	for (unsigned int i = 0; scale > 0 && i < n; i++)
		if (fabs(x[i]) <= bound)
			x[i] = nearbyint(x[i] / scale) * scale;
	return scale;
}

/* y = W x + b. With 4 bits, the output layer and rows that are no multiple of a group have 8. */
static inline void tiny_linear(struct tiny_pass *p, double *y, const double *x, const float *w,
			       const float *bias, unsigned int rows, unsigned int cols)
{
	bool w4 = llm_weights_4bit(p->weights) && cols % QUANT_W4_GROUP == 0 &&
		  p->layer < p->t->c.n_layer;
	bool int8 = p->weights != LLM_WEIGHTS_F32 && !(w4 && p->weights == LLM_WEIGHTS_W4A16);
	bool head = p->layer == p->t->c.n_layer,
	     down = !head && w == tiny_weights(p, "ffn_down.weight");
	enum llm_input input =
		int8 ? llm_integer_input(p->activations, head, down) : LLM_INPUT_FLOATS;
	double in[cols], row[cols], scale;

	memcpy(in, x, cols * sizeof(*in));
	if (input == LLM_INPUT_INT16) {
		tiny_round_twice(in, cols);
	} else if (input != LLM_INPUT_FLOATS) {
		scale = input == LLM_INPUT_INT8 ? tiny_round(in, cols) : tiny_round_most(in, cols);
		for (unsigned int c = 0; scale > 0 && c < cols; c++)
			p->tie = fmin(p->tie, fabs(fabs(x[c] / scale - trunc(x[c] / scale)) - 0.5));
	}
	for (unsigned int r = 0; r < rows; r++) {
		tiny_row(p, row, w + (size_t)r * cols, cols, w4);
		y[r] = bias ? (double)bias[r] : 0;
		for (unsigned int c = 0; c < cols; c++)
			y[r] += in[c] * row[c];
	}
}

static inline void tiny_norm(struct tiny_pass *p, double *y, const double *x, const float *w,
			     unsigned int n)
{
	double sum = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += x[i] * x[i];
	for (unsigned int i = 0; i < n; i++)
		y[i] = x[i] / sqrt(sum / n + p->t->c.eps) * (double)w[i];
}

static inline void tiny_rope(struct tiny_pass *p, double *head, unsigned int pos)
{
	const struct tiny_config *c = &p->t->c;
	struct tiny_tensor *factors = tiny_find(p->t, "rope_freqs.weight");
	bool halves = strcmp(c->arch, "llama") != 0;

	for (unsigned int i = 0; i < c->rot_dim / 2; i++) {
		double angle = pos * pow(c->freq_base, -2.0 * i / c->rot_dim) / c->rope_scale;
		unsigned int ia = halves ? i : 2 * i, ib = halves ? i + c->rot_dim / 2 : 2 * i + 1;
		double a = head[ia], b = head[ib];

		if (factors)
			angle /= (double)factors->data[i];
		head[ia] = a * cos(angle) - b * sin(angle);
		head[ib] = a * sin(angle) + b * cos(angle);
	}
}

static inline void tiny_heads(struct tiny_pass *p, double *x, unsigned int heads, const char *norm,
			      unsigned int pos)
{
	const float *w = tiny_weights(p, norm);

	for (unsigned int h = 0; h < heads; h++, x += p->t->c.head_dim) {
		if (w)
			tiny_norm(p, x, x, w, p->t->c.head_dim);
		tiny_rope(p, x, pos);
	}
}

/* Attention of position @pos over k and v [pos + 1][kv_dim] to out [q_dim]. */
static inline void tiny_attention(struct tiny_pass *p, double *out, const double *q,
				  const double *k, const double *v, unsigned int pos)
{
	const struct tiny_config *c = &p->t->c;
	unsigned int d = c->head_dim, kv_dim = c->n_head_kv * d;
	double *e = malloc((pos + 1) * sizeof(*e));

	for (unsigned int h = 0; h < c->n_head; h++) {
		unsigned int kv = h / (c->n_head / c->n_head_kv) * d;
		double sum = 0, max = -INFINITY;

		for (unsigned int t = 0; t <= pos; t++) {
			e[t] = 0;
			for (unsigned int i = 0; i < d; i++)
				e[t] += q[h * d + i] * k[(size_t)t * kv_dim + kv + i] / sqrt(d);
			max = fmax(max, e[t]);
		}
		for (unsigned int t = 0; t <= pos; t++)
			sum += e[t] = exp(e[t] - max);
		for (unsigned int i = 0; i < d; i++) {
			out[h * d + i] = 0;
			for (unsigned int t = 0; t <= pos; t++)
				out[h * d + i] += e[t] / sum * v[(size_t)t * kv_dim + kv + i];
		}
	}
	free(e);
}

/* One layer over x [n][n_embd], in place. */
static inline void tiny_block(struct tiny_pass *p, double *x, unsigned int n)
{
	const struct tiny_config *c = &p->t->c;
	unsigned int q_dim = c->n_head * c->head_dim, kv_dim = c->n_head_kv * c->head_dim,
		     E = c->n_embd;
	double *k = malloc((size_t)n * kv_dim * sizeof(*k)),
	       *v = malloc((size_t)n * kv_dim * sizeof(*v));
	double *h = malloc(E * sizeof(*h)), *y = malloc(E * sizeof(*y)),
	       *q = malloc(q_dim * sizeof(*q));
	double *a = malloc(q_dim * sizeof(*a)), *g = malloc(c->n_ff * sizeof(*g)),
	       *u = malloc(c->n_ff * sizeof(*u));

	for (unsigned int t = 0; t < n; t++, x += E) {
		tiny_norm(p, h, x, tiny_weights(p, "attn_norm.weight"), E);
		tiny_linear(p, q, h, tiny_weights(p, "attn_q.weight"),
			    tiny_weights(p, "attn_q.bias"), q_dim, E);
		tiny_linear(p, k + (size_t)t * kv_dim, h, tiny_weights(p, "attn_k.weight"),
			    tiny_weights(p, "attn_k.bias"), kv_dim, E);
		tiny_linear(p, v + (size_t)t * kv_dim, h, tiny_weights(p, "attn_v.weight"),
			    tiny_weights(p, "attn_v.bias"), kv_dim, E);
		tiny_heads(p, q, c->n_head, "attn_q_norm.weight", t);
		tiny_heads(p, k + (size_t)t * kv_dim, c->n_head_kv, "attn_k_norm.weight", t);
		tiny_attention(p, a, q, k, v, t);
		tiny_linear(p, y, a, tiny_weights(p, "attn_output.weight"), NULL, E, q_dim);
		for (unsigned int i = 0; i < E; i++)
			x[i] += y[i];
		tiny_norm(p, h, x, tiny_weights(p, "ffn_norm.weight"), E);
		tiny_linear(p, g, h, tiny_weights(p, "ffn_gate.weight"), NULL, c->n_ff, E);
		tiny_linear(p, u, h, tiny_weights(p, "ffn_up.weight"), NULL, c->n_ff, E);
		for (unsigned int i = 0; i < c->n_ff; i++)
			g[i] = g[i] / (1 + exp(-g[i])) * u[i];
		tiny_linear(p, y, g, tiny_weights(p, "ffn_down.weight"), NULL, E, c->n_ff);
		for (unsigned int i = 0; i < E; i++)
			x[i] += y[i];
	}
	free(k);
	free(v);
	free(h);
	free(y);
	free(q);
	free(a);
	free(g);
	free(u);
}

/* Logits [n][n_vocab] of all positions. */
static inline double tiny_forward(struct tiny_model *t, const int32_t *ids, unsigned int n,
				  enum llm_weights weights, enum llm_activations activations,
				  double *logits)
{
	struct tiny_pass p = { .t = t, .weights = weights, .activations = activations, .tie = 1 };
	unsigned int E = t->c.n_embd;
	const float *embd = tiny_find(t, "token_embd.weight")->data;
	struct tiny_tensor *output = tiny_find(t, "output.weight");
	double *x = malloc((size_t)n * E * sizeof(*x));

	for (unsigned int i = 0; i < n; i++) {
		for (unsigned int c = 0; c < E; c++)
			x[(size_t)i * E + c] = (double)embd[(size_t)ids[i] * E + c];
	}
	for (p.layer = 0; p.layer < t->c.n_layer; p.layer++)
		tiny_block(&p, x, n);
	for (unsigned int i = 0; i < n; i++) {
		tiny_norm(&p, x + (size_t)i * E, x + (size_t)i * E,
			  tiny_find(t, "output_norm.weight")->data, E);
		tiny_linear(&p, logits + (size_t)i * t->c.n_vocab, x + (size_t)i * E,
			    output ? output->data : embd, NULL, t->c.n_vocab, E);
	}
	free(x);
	return p.tie;
}

/* max |a - b| / max |b| */
static inline double tiny_error(const float *a, const double *b, size_t n)
{
	double diff = 0, max = 0;

	for (size_t i = 0; i < n; i++) {
		diff = fmax(diff, isfinite(a[i]) ? fabs((double)a[i] - b[i]) : INFINITY);
		max = fmax(max, fabs(b[i]));
	}
	return diff / max;
}

#endif /* TINY_MODEL_H */
