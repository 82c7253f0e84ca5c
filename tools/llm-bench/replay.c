// SPDX-License-Identifier: MIT
/*
 * A test that replays a trace of drafts: for each step how many nodes its tree had, and how many
 * tokens were accepted. It decodes what plain decoding does, by turns with it. Drafting takes no
 * time in it. So a model whose weights are random, or a dry run, decodes as fast as if its answers
 * could be guessed as well as in the trace.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm-bench.h"
#include "tool.h"

int trace_read(struct bench_trace *trace, const char *path)
{
	size_t bytes;
	char *text = tool_read_file(path, &bytes), *next = text, *line;
	size_t number = 0;
	int status = text ? 0 : 1;

	while (!status && (line = strsep(&next, "\n"))) {
		struct bench_trace_step step;
		char more;
		void *grown;

		number++;
		if (!*line)
			continue;
		if (sscanf(line, "%u %u %c", &step.nodes, &step.tokens, &more) != 2 ||
		    !step.tokens || step.tokens > step.nodes || step.nodes > LLM_MAX_TREE) {
			status = tool_fail("%s:%zu: not the nodes of a tree, at most %u, and how "
					   "many were accepted",
					   path, number, LLM_MAX_TREE);
			break;
		}
		grown = realloc(trace->steps, (trace->n + 1) * sizeof(step));
		if (!grown) {
			status = tool_fail("no memory for %s", path);
			break;
		}
		trace->steps = grown;
		trace->steps[trace->n++] = step;
		trace->tokens += step.tokens;
	}
	free(text);
	if (!status && !trace->n)
		status = tool_fail("%s: no steps", path);
	return status;
}

void trace_free(struct bench_trace *trace)
{
	free(trace->steps);
}

struct replay {
	struct llm_session *s;
	unsigned int depth;
	int32_t ids[LLM_MAX_TREE]; /* any tokens */
};

/* Each node follows the one before. */
static int replay_step(const struct replay *r, const struct bench_trace_step *step)
{
	uint8_t parents[LLM_MAX_TREE] = { 0 }, path[LLM_MAX_TREE];
	const struct llm_tree tree = { .n = step->nodes, .tokens = r->ids, .parents = parents };
	int err;

	for (unsigned int i = 0; i < step->nodes; i++) {
		parents[i] = (uint8_t)(i ? i - 1 : 0);
		path[i] = (uint8_t)i;
	}
	err = llm_verify_tree(r->s, &tree);
	return err ? err : llm_tree_keep(r->s, path, step->tokens);
}

/* Adds the time to *@ns. 0, or 1 after a message. */
static int replay_trace(const struct replay *r, const struct bench_trace *trace, uint64_t *ns)
{
	int err = llm_session_truncate(r->s, r->depth);
	uint64_t begin_ns = llm_session_now_ns(r->s);

	for (size_t i = 0; i < trace->n && !err; i++)
		err = replay_step(r, &trace->steps[i]);
	*ns += llm_session_now_ns(r->s) - begin_ns;
	return err ? tool_fail("%s", llm_error()) : 0;
}

static int replay_plain(const struct replay *r, uint64_t n, uint64_t *ns)
{
	int err = llm_session_truncate(r->s, r->depth);
	uint64_t begin_ns = llm_session_now_ns(r->s);

	for (uint64_t i = 0; i < n && !err; i++)
		err = llm_session_eval(r->s, r->ids, 1);
	*ns += llm_session_now_ns(r->s) - begin_ns;
	return err ? tool_fail("%s", llm_error()) : 0;
}

/* Makes a session with the tokens of the depth, and room for the widest tree behind the last
 * token. */
static int replay_begin(struct replay *r, const struct bench_tokens *tokens,
			const struct bench_result *result)
{
	unsigned int depth = result->test.n_depth, n_gen = result->test.n_gen;
	int32_t *ids = result->dry ? NULL : prompts_make(&tokens->prompts, depth + LLM_MAX_TREE);
	int err = 0;

	if (!result->dry && !ids)
		return 1;
	if (ids)
		memcpy(r->ids, ids + depth, sizeof(r->ids));
	r->depth = depth;
	if (llm_session_create(tokens->engine, depth + n_gen + LLM_MAX_TREE, &r->s) ||
	    (depth && llm_session_eval(r->s, ids, depth)) ||
	    llm_session_prepare_tree(r->s, LLM_MAX_TREE))
		err = tool_fail("%s", llm_error());
	free(ids);
	return err;
}

int bench_run_replay(struct bench_tokens *tokens, struct bench_result *result)
{
	const struct bench_trace *trace = &tokens->args->trace;
	struct bench_draft *d = &result->draft;
	unsigned int warmup = tokens->args->warmup && !result->dry;
	struct replay r = { 0 };
	int status;

	result->test.n_gen = (unsigned int)trace->tokens;
	status = replay_begin(&r, tokens, result);
	for (unsigned int i = 0; i < result->n + warmup && !status; i++) {
		uint64_t before;

		if (i == warmup)
			*d = (struct bench_draft){ 0 };
		before = d->ns;
		status = replay_plain(&r, trace->tokens, &d->plain_ns)
				 ?: replay_trace(&r, trace, &d->ns);
		if (i >= warmup)
			result->samples_ns[i - warmup] = d->ns - before;
	}
	d->steps = trace->n * result->n;
	d->tokens = trace->tokens * result->n;
	for (size_t i = 0; i < trace->n; i++)
		d->nodes += trace->steps[i].nodes * (uint64_t)result->n;
	llm_session_free(r.s);
	return status;
}
