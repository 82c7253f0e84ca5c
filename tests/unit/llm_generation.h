/* SPDX-License-Identifier: MIT */
/* For tests of llm_generate(): what its callback was told, and a model with random weights. */
#ifndef LLM_GENERATION_H
#define LLM_GENERATION_H

#include "llm.h"
#include "tiny_model.h"

#define RECORD_TOKENS 96

/* All calls of one generation. */
struct record {
	int32_t ids[RECORD_TOKENS];
	uint64_t at_ns[RECORD_TOKENS];
	size_t text_end[RECORD_TOKENS]; /* bytes of text after each token */
	uint64_t n;
	char text[4096];
	size_t bytes;
	bool ended; /* there was a call with id -1 */
	size_t rest; /* its bytes */
	uint64_t stop_after; /* tokens; 0: never */
};

/* The callback: @ud is a struct record. */
static int record(void *ud, const struct llm_generated *token)
{
	struct record *r = ud;

	assert_false(r->ended);
	assert_in_range(r->bytes + token->text_bytes, 0, sizeof(r->text) - 1);
	memcpy(r->text + r->bytes, token->text, token->text_bytes);
	r->bytes += token->text_bytes;
	assert_int_equal(token->n, r->n);
	if (token->id < 0) {
		assert_int_equal(token->id, -1);
		assert_true(token->text_bytes > 0);
		r->ended = true;
		r->rest = token->text_bytes;
		return 1;
	}
	assert_in_range(r->n, 0, RECORD_TOKENS - 1);
	assert_true(!r->n || token->at_ns >= r->at_ns[r->n - 1]);
	r->at_ns[r->n] = token->at_ns;
	r->text_end[r->n] = r->bytes;
	r->ids[r->n++] = token->id;
	return r->n == r->stop_after;
}

static const struct tiny_config tiny = {
	.arch = "llama",
	.n_layer = 2,
	.n_embd = 64,
	.n_head = 4,
	.n_head_kv = 2,
	.head_dim = 16,
	.n_ff = 96,
	.n_vocab = 300,
	.n_ctx = 1024,
	.rot_dim = 16,
	.untied = true,
	.eps = 1e-5,
	.freq_base = 10000,
	.rope_scale = 1,
};

#endif /* LLM_GENERATION_H */
