// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "llm.h"
#include "llm_fail.h"

#define WINDOW 512
#define MAX_TOKENS 8192

static void on_tensor(void *ud, const char *tensor, unsigned int layer, unsigned int pos,
		      unsigned int rows, unsigned int cols, const float *data)
{
	/* The results that are an input, in the order of the inputs. */
	static const char *const names[SHADOW_INPUTS] = { "attn_norm", "attn", "ffn_norm", "act" };
	static const char *const streams[2] = { "attn_residual", "layer_output" };
	static const char *const rotated[2] = { "q_rope", "k_rope" };
	struct bits_activations *a = ud;

	a->tokens += strcmp(tensor, "embed") ? 0 : rows;
	for (unsigned int i = 0; i < 2; i++)
		for (size_t at = 0; !strcmp(tensor, rotated[i]) && at < (size_t)rows * cols; at++)
			a->heads[i][layer * a->n_head + at % cols / a->head_dim] +=
				(double)data[at] * data[at];
	for (unsigned int i = 0; i < 2; i++)
		for (size_t at = 0; !strcmp(tensor, streams[i]) && at < (size_t)rows * cols; at++)
			a->streams[i][layer] += (double)data[at] * data[at];
	for (unsigned int i = 0; i < SHADOW_INPUTS; i++) {
		if (strcmp(tensor, names[i]) != 0)
			continue;
		for (size_t at = 0; at < (size_t)rows * cols; at++)
			a->squares[i][layer * (size_t)cols + at % cols] +=
				(double)data[at] * data[at];
	}
}

static int evaluate(struct llm_session *s, const int32_t *ids, long n, unsigned int window)
{
	int err = 0;

	for (long at = 0; !err && at + window <= n; at += window) {
		err = llm_session_truncate(s, 0);
		if (!err)
			err = llm_session_eval(s, ids + at, window);
	}
	return err;
}

/* With an open engine and room for the squares. */
static int observe(struct llm_engine *engine, const char *text, size_t bytes,
		   struct bits_activations *a)
{
	unsigned int train = llm_engine_info(engine)->n_ctx_train;
	unsigned int window = train < WINDOW ? train : WINDOW;
	struct llm_session *s = NULL;
	int32_t *ids = calloc(MAX_TOKENS, sizeof(*ids));
	long n = ids ? llm_tokenize(engine, text, bytes, LLM_TOKENIZE_BOS, ids, MAX_TOKENS)
		     : llm_fail(-ENOMEM, "no memory for %d tokens", MAX_TOKENS);
	int err = n < 0 ? (int)n : llm_session_create(engine, window, &s);

	if (!err && n < (long)window)
		err = llm_fail(-EINVAL, "the text has %ld tokens, a window %u", n, window);
	if (!err) {
		llm_session_observe(s, on_tensor, a);
		err = evaluate(s, ids, n < MAX_TOKENS ? n : MAX_TOKENS, window);
	}
	llm_session_free(s);
	free(ids);
	return err;
}

int bits_observe(const char *model, const char *text, size_t bytes, struct bits_activations *a)
{
	struct llm_options opts = {
		.model = model,
		.choices = { .placement = LLM_PLACE_CPU,
			     .weights = LLM_WEIGHTS_F32,
			     .kv = LLM_KV_F32 },
	};
	struct llm_engine *engine;
	int err = llm_engine_open(&opts, &engine);

	if (err)
		return err;
	for (unsigned int i = 0; i < SHADOW_INPUTS; i++) {
		a->squares[i] = calloc((size_t)a->n_layer * a->channels[i], sizeof(double));
		if (!a->squares[i])
			err = llm_fail(-ENOMEM, "no memory for %u layers", a->n_layer);
	}
	for (unsigned int i = 0; i < 2; i++) {
		a->streams[i] = calloc(a->n_layer, sizeof(double));
		a->heads[i] = calloc((size_t)a->n_layer * a->n_head, sizeof(double));
		if (!a->streams[i] || !a->heads[i])
			err = llm_fail(-ENOMEM, "no memory for %u layers", a->n_layer);
	}
	if (!err)
		err = observe(engine, text, bytes, a);
	llm_engine_close(engine);
	return err;
}

void bits_activations_free(struct bits_activations *a)
{
	for (unsigned int i = 0; i < SHADOW_INPUTS; i++)
		free(a->squares[i]);
	for (unsigned int i = 0; i < 2; i++) {
		free(a->streams[i]);
		free(a->heads[i]);
	}
}
