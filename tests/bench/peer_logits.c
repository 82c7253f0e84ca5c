// SPDX-License-Identifier: MIT
/*
 * The logits that a llama.cpp gives, for peer_logits.sh, which compiles this with its headers:
 *
 *	peer_logits MODEL VOCABULARY PROMPT ID...
 *
 * evaluates the first PROMPT ids together and each of the others alone, and writes the logits of
 * all positions to standard output, f32 [ids][VOCABULARY]. Caches are F32 if it can have such.
 */
#include <stdio.h>
#include <stdlib.h>

#include "llama.h"

static void quiet(enum ggml_log_level level, const char *text, void *ud)
{
	if (level == GGML_LOG_LEVEL_ERROR)
		fputs(text, stderr);
}

static struct llama_context *create_context(struct llama_model *model, int n)
{
	struct llama_context_params params = llama_context_default_params();
	struct llama_context *ctx;

	params.n_ctx = params.n_batch = params.n_ubatch = (uint32_t)(n < 512 ? 512 : n);
	params.n_threads = params.n_threads_batch = 1;
	params.flash_attn = false;
	params.type_k = params.type_v = GGML_TYPE_F32;
	ctx = llama_init_from_model(model, params);
	if (ctx)
		return ctx;
	params.type_k = params.type_v = GGML_TYPE_F16;
	return llama_init_from_model(model, params);
}

/* Ids first .. last - 1. */
static int eval(struct llama_context *ctx, char **ids, int first, int last, size_t vocab)
{
	struct llama_batch batch = llama_batch_init(last - first, 0, 1);
	int err;

	for (int i = 0; i < last - first; i++) {
		batch.token[i] = atoi(ids[first + i]);
		batch.pos[i] = first + i;
		batch.n_seq_id[i] = 1;
		batch.seq_id[i][0] = 0;
		batch.logits[i] = 1;
	}
	batch.n_tokens = last - first;
	err = llama_decode(ctx, batch);
	for (int i = 0; !err && i < last - first; i++)
		fwrite(llama_get_logits_ith(ctx, i), sizeof(float), vocab, stdout);
	llama_batch_free(batch);
	return err;
}

int main(int argc, char **argv)
{
	struct llama_model_params params = llama_model_default_params();
	int n = argc - 4, err = 0;
	struct llama_model *model;
	struct llama_context *ctx;

	if (n < 1)
		return 2;
	llama_log_set(quiet, NULL);
	params.n_gpu_layers = 0;
	model = llama_model_load_from_file(argv[1], params);
	ctx = model ? create_context(model, n) : NULL;
	if (!ctx)
		return 1;
	for (int i = 0, last = atoi(argv[3]); i < n && !err; i = last++)
		err = eval(ctx, argv + 4, i, last, (size_t)atoi(argv[2]));
	return err ? 1 : 0;
}
