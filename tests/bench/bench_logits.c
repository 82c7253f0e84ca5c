// SPDX-License-Identifier: MIT
/*
 * Compares logits with another engine's, which peer_logits.sh makes:
 *
 *	bench_logits MODEL PLACEMENT PROMPT ID... < LOGITS
 *
 * evaluates the first PROMPT ids as a prompt and each of the others as a decoded token, with the
 * other engine's logits f32 [ids][vocabulary] on standard input. Prints for the prompt and for the
 * decoded tokens the greatest difference, in parts of the greatest logit of its position, and the
 * median of those of all positions.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "llm.h"

struct comparison {
	unsigned int n_vocab;
	float *theirs;
	double *differences; /* by position, of those so far */
	size_t n;
	bool failed;
};

static void compare(void *ud, size_t i, const float *ours)
{
	struct comparison *c = ud;
	double differ = 0, most = 0;

	if (fread(c->theirs, sizeof(float), c->n_vocab, stdin) != c->n_vocab) {
		c->failed = true;
		return;
	}
	for (unsigned int v = 0; v < c->n_vocab; v++) {
		differ = fmax(differ, fabs((double)ours[v] - (double)c->theirs[v]));
		most = fmax(most, fabs((double)c->theirs[v]));
	}
	c->differences[c->n++] = differ / most;
}

static int rising(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Prints what was found since the last time. */
static void print(struct comparison *c, const char *what)
{
	qsort(c->differences, c->n, sizeof(*c->differences), rising);
	if (c->n)
		printf("%s %.1e %.1e ", what, c->differences[c->n - 1], c->differences[c->n / 2]);
	c->n = 0;
}

static int run(struct llm_session *s, const int32_t *ids, unsigned int n, unsigned int prompt,
	       struct comparison *c)
{
	int err = llm_session_eval_all(s, ids, prompt, compare, c);

	print(c, "prompt");
	for (unsigned int i = prompt; i < n && !err && !c->failed; i++) {
		err = llm_session_eval(s, &ids[i], 1);
		if (!err)
			compare(c, i, llm_session_logits(s));
	}
	print(c, "decode");
	printf("\n");
	return err;
}

int main(int argc, char **argv)
{
	struct llm_options opts = { .choices.kv = LLM_KV_F32 };
	struct comparison c = { 0 };
	struct llm_engine *engine;
	struct llm_session *s;
	int n = argc - 4, placement;
	int32_t *ids = calloc((size_t)argc, sizeof(*ids));

	placement = n < 1 ? -1 : llm_choice_parse(LLM_CHOICE_PLACEMENT, argv[2]);
	if (placement < 0 || !ids)
		return 2;
	opts.model = argv[1];
	opts.choices.placement = (enum llm_placement)placement;
	opts.choices.activations = LLM_ACTIVATIONS_INT16;
	for (int i = 0; i < n; i++)
		ids[i] = atoi(argv[4 + i]);
	if (llm_engine_open(&opts, &engine) ||
	    llm_session_create(engine, n < 512 ? 512 : (unsigned int)n, &s)) {
		fprintf(stderr, "%s\n", llm_error());
		return 1;
	}
	c.n_vocab = llm_engine_info(engine)->n_vocab;
	c.theirs = calloc(c.n_vocab, sizeof(float));
	c.differences = calloc((size_t)n, sizeof(*c.differences));
	if (!c.theirs || !c.differences ||
	    run(s, ids, (unsigned int)n, (unsigned int)atoi(argv[3]), &c) || c.failed)
		return 1;
	free(c.theirs);
	free(c.differences);
	free(ids);
	llm_session_free(s);
	llm_engine_close(engine);
	return 0;
}
