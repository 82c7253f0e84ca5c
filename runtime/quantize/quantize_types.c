// SPDX-License-Identifier: MIT
/*
 * The type of each tensor of the new file.
 *
 * The names of files with K-quants are llama.cpp's, and so are the matrices that get more bits than
 * the others in them (llama-quantize): values and down projections, on which the error of a layer
 * depends most, in its first layers or spread over all. With eight experts, as in Mixtral,
 * attention is so small a part of a model that it gets more bits as well.
 */
#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gguf_quantize.h"
#include "llm_fail.h"
#include "quantize.h"

/* Layers in which a matrix gets more bits. */
enum layers {
	NONE = 0,
	ALL,
	FIRST_TWO,
	FIRST_FOUR,
	FIRST_SIXTEENTH,
	FIRST_EIGHTH,
	SPREAD, /* the first and the last eighth, and every third one between */
};

/* One kind of matrix: its type in some layers, and in the others. F32, which is 0: the file's. */
struct kind {
	enum layers layers;
	enum gguf_type more, less;
};

/* Matrices that differ from the file's type. */
static const struct mix {
	enum gguf_file_type file;
	struct kind value, down, output, qkv;
	/* Values if four or more query heads share them; F32: the same. */
	enum gguf_type shared_value;
} mixes[] = {
	{ GGUF_FILE_Q2_K, .value = { ALL, GGUF_Q3_K }, .down = { ALL, GGUF_Q3_K },
	  .output = { ALL, GGUF_Q3_K }, .shared_value = GGUF_Q4_K },
	{ GGUF_FILE_Q2_K_S, .down = { FIRST_EIGHTH, GGUF_Q4_K }, .shared_value = GGUF_Q4_K },
	{ GGUF_FILE_Q3_K_M, .value = { FIRST_TWO, GGUF_Q5_K, GGUF_Q4_K },
	  .down = { FIRST_SIXTEENTH, GGUF_Q5_K, GGUF_Q4_K }, .output = { ALL, GGUF_Q4_K },
	  .qkv = { ALL, GGUF_Q4_K } },
	{ GGUF_FILE_Q3_K_L, .value = { ALL, GGUF_Q5_K }, .down = { ALL, GGUF_Q5_K },
	  .output = { ALL, GGUF_Q5_K }, .qkv = { ALL, GGUF_Q4_K } },
	{ GGUF_FILE_Q4_K_S, .value = { FIRST_FOUR, GGUF_Q5_K },
	  .down = { FIRST_EIGHTH, GGUF_Q5_K } },
	{ GGUF_FILE_Q4_K_M, .value = { SPREAD, GGUF_Q6_K }, .down = { SPREAD, GGUF_Q6_K },
	  .qkv = { ALL, GGUF_Q5_K } },
	{ GGUF_FILE_Q5_K_M, .value = { SPREAD, GGUF_Q6_K }, .down = { SPREAD, GGUF_Q6_K },
	  .qkv = { ALL, GGUF_Q6_K } },
};

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !strcmp(s + n - m, end);
}

static bool is_among(enum layers layers, unsigned int layer, unsigned int n)
{
	switch (layers) {
	case NONE:
		return false;
	case ALL:
		return true;
	case FIRST_TWO:
		return layer < 2;
	case FIRST_FOUR:
		return layer < 4;
	case FIRST_SIXTEENTH:
		return layer < n / 16;
	case FIRST_EIGHTH:
		return layer < n / 8;
	case SPREAD:
		return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
	}
	return false;
}

/* Whether the type of a matrix is that of attention beside eight experts. */
static bool is_beside_experts(const struct quantize *q, const char *name, enum gguf_type *type)
{
	bool narrow = q->file_type == GGUF_FILE_Q2_K || q->file_type == GGUF_FILE_Q3_K_S ||
		      q->file_type == GGUF_FILE_Q3_K_M || q->file_type == GGUF_FILE_IQ4_NL ||
		      q->file_type == GGUF_FILE_Q4_K_S || q->file_type == GGUF_FILE_Q4_K_M;
	bool output = ends_with(name, ".attn_output.weight");

	if (q->n_expert != 8 || gguf_type_traits(q->type)->block_values == 1)
		return false;
	*type = !output ? GGUF_Q8_0 : narrow ? GGUF_Q5_K : q->type;
	return output || ends_with(name, ".attn_v.weight") || ends_with(name, ".attn_k.weight");
}

static enum gguf_type mixed_type(const struct quantize *q, const char *name)
{
	const struct mix *mix = NULL;
	const struct kind *kind = NULL;
	unsigned int layer;
	enum gguf_type type;

	for (size_t i = 0; i < sizeof(mixes) / sizeof(mixes[0]); i++)
		if (mixes[i].file == q->file_type)
			mix = &mixes[i];
	if (is_beside_experts(q, name, &type))
		return type;
	if (!mix || sscanf(name, "blk.%u.", &layer) != 1)
		return q->type;
	if (ends_with(name, ".attn_v.weight") && mix->shared_value && q->sharing >= 4)
		return mix->shared_value;
	if (ends_with(name, ".attn_v.weight"))
		kind = &mix->value;
	else if (strstr(name, ".ffn_down"))
		kind = &mix->down;
	else if (ends_with(name, ".attn_output.weight"))
		kind = &mix->output;
	else if (ends_with(name, ".attn_qkv.weight"))
		kind = &mix->qkv;
	if (!kind)
		return q->type;
	type = is_among(kind->layers, layer, q->n_layer) ? kind->more : kind->less;
	return type ? type : q->type;
}

/* The type for rows that are no multiple of a block of 256: as llama.cpp's, of 32 values. */
static enum gguf_type narrower_block(enum gguf_type type)
{
	switch (type) {
	case GGUF_Q2_K:
	case GGUF_Q3_K:
		return GGUF_IQ4_NL;
	case GGUF_Q4_K:
		return GGUF_Q5_0;
	case GGUF_Q5_K:
		return GGUF_Q5_1;
	case GGUF_Q6_K:
		return GGUF_Q8_0;
	default:
		return GGUF_F16;
	}
}

static bool fits(enum gguf_type type, uint64_t row)
{
	return row % gguf_type_traits(type)->block_values == 0;
}

/* A file's output matrix: its error goes directly into the logits. */
static enum gguf_type head_type(enum gguf_type type)
{
	uint32_t block = gguf_type_traits(type)->block_values;

	if (block == 1)
		return type;
	return block == 256 ? GGUF_Q6_K : GGUF_Q8_0;
}

/* ---- rules ---- */

struct quantize_rules {
	size_t n;
	struct {
		regex_t pattern;
		enum gguf_type type;
		bool keeps, used;
	} rule[];
};

static int parse_type(const char *name, enum gguf_type *type)
{
	for (unsigned int t = 0; t < GGUF_TYPES; t++) {
		const struct gguf_type_traits *traits = gguf_type_traits((enum gguf_type)t);

		if (!traits || strcasecmp(name, traits->name) != 0)
			continue;
		*type = (enum gguf_type)t;
		return gguf_quantizes(*type) ? 0 : -ENOTSUP;
	}
	return -EINVAL;
}

static int add_rule(struct quantize_rules *rules, const struct llm_quantize_rule *from)
{
	enum gguf_type type = GGUF_F32;
	bool keeps = !*from->type;
	char line[256];
	int err = keeps ? 0 : parse_type(from->type, &type);

	if (err)
		return llm_fail(-EINVAL,
				"'%s' is %s: choose f32, f16, q8_0, q4_0, q4_1, q5_0, "
				"q5_1, q2_k, q3_k, q4_k, q5_k, q6_k or iq4_nl",
				from->type,
				err == -EINVAL ? "no type of tensors" : "a type that is only read");
	err = regcomp(&rules->rule[rules->n].pattern, from->pattern, REG_EXTENDED | REG_NOSUB);
	if (err) {
		regerror(err, &rules->rule[rules->n].pattern, line, sizeof(line));
		return llm_fail(-EINVAL, "'%s' is no regular expression: %s", from->pattern, line);
	}
	rules->rule[rules->n].type = type;
	rules->rule[rules->n].keeps = keeps;
	rules->n++;
	return 0;
}

int quantize_open_rules(struct quantize *q)
{
	const struct llm_quantize_options *opts = q->opts;
	int err = 0;

	q->rules = calloc(1, sizeof(*q->rules) + opts->n_rules * sizeof(q->rules->rule[0]));
	if (!q->rules)
		return llm_fail(-ENOMEM, "no memory for %zu types of tensors", opts->n_rules);
	for (size_t i = 0; i < opts->n_rules && !err; i++)
		err = add_rule(q->rules, &opts->rules[i]);
	return err;
}

/* What is to be kept need not be there. */
int quantize_check_rules(const struct quantize *q)
{
	for (size_t i = 0; i < q->rules->n; i++)
		if (!q->rules->rule[i].used && !q->rules->rule[i].keeps)
			return llm_fail(-EINVAL, "'%s' fits no matrix of %s",
					q->opts->rules[i].pattern, q->in);
	return 0;
}

void quantize_close_rules(struct quantize *q)
{
	for (size_t i = 0; q->rules && i < q->rules->n; i++)
		regfree(&q->rules->rule[i].pattern);
	free(q->rules);
}

/* Whether a rule sets the *@type of a matrix that is of type @from. The type of
 * output.weight is also that of embeddings that are the output matrix too, as in llama-quantize. */
static bool ruled(const struct quantize *q, const char *name, bool head, enum gguf_type from,
		  enum gguf_type *type)
{
	struct quantize_rules *rules = q->rules;

	for (size_t i = 0; i < rules->n; i++) {
		const regex_t *pattern = &rules->rule[i].pattern;

		if (regexec(pattern, name, 0, NULL, 0) &&
		    !(head && !rules->rule[i].keeps &&
		      !regexec(pattern, "output.weight", 0, NULL, 0)))
			continue;
		rules->rule[i].used = true;
		*type = rules->rule[i].keeps ? from : rules->rule[i].type;
		return true;
	}
	return false;
}

/*
 * Norms, biases and the experts' router stay as they are, since they are small and affect every
 * value.
 */
enum gguf_type quantize_target(const struct quantize *q, const char *name,
			       const uint64_t dims[GGUF_MAX_DIMS], enum gguf_type from, bool head)
{
	enum gguf_type type;

	if (dims[1] * dims[2] * dims[3] == 1 || !ends_with(name, ".weight") ||
	    ends_with(name, "_norm.weight") || ends_with(name, ".ffn_gate_inp.weight"))
		return from;
	if (!ruled(q, name, head, from, &type)) {
		type = q->opts->pure ? q->type : mixed_type(q, name);
		if (head && !q->opts->pure)
			type = head_type(q->type);
	}
	if (!fits(type, dims[0]))
		type = narrower_block(type);
	return fits(type, dims[0]) ? type : GGUF_F16;
}
