/* SPDX-License-Identifier: MIT */
/*
 * What a generation does with its drafter (llm.h, CoordGen 3.1; docs/coordgen.md: a step).
 *
 *	drafter_prompt(d, s, prompt, n);
 *	for (;;) {
 *		drafter_step(d, s, last, most);
 *		... choose tokens along the tree: path [n], and the token next behind it ...
 *		drafter_keep(d, s, path, n, next);
 *	}
 *	drafter_end(d);
 */
#ifndef DRAFTER_H
#define DRAFTER_H

#include "acceptance.h"
#include "engine.h"
#include "history.h"
#include "retrieval.h"
#include "reuse.h"
#include "widths.h"

struct llm_drafter {
	struct llm_engine *engine; /* a reference */
	struct llm_drafter_options o;
	bool calibrates, reuses;
	/* The tokens that sessions have evaluated, prompts and answers. */
	struct retrieval *retrieval;
	/* The last of them was read for a pass that has not succeeded. If it comes again, it is the
	 * same one. */
	bool ahead;
	struct calibrated *calibrated; /* of the same tokens; NULL: no prompt yet */
	struct automaton *history; /* NULL: none */
	struct history_store store;
	bool stores; /* answers go to the store */
	struct acceptance acceptance; /* of these texts: another drafter learns it anew */
	struct widths_times times; /* of the engine's device (llm_engine.widths_known) */
	struct reuse reuse;
	/* The step's: what it drafted, and the tree that was evaluated. */
	struct tree_growth growth;
	struct token_tree tree;
	uint32_t width; /* the index of its graph's */
	uint32_t spared; /* steps since something was drafted */
	uint64_t drafting_ns; /* of the step's tree, before its pass */
	struct llm_draft_step step;
	struct drafter_answer {
		int32_t *ids;
		size_t n, room;
	} answer; /* tokens of the generation so far */
	struct llm_drafter_stats stats;
};

/* Evaluates a prompt as llm_session_eval() does, and learns from it; @n may be 0. */
int drafter_prompt(struct llm_drafter *d, struct llm_session *s, const int32_t *prompt, size_t n);

/* The next tokens of the context. 0 or the error of retrieval_read(). */
int drafter_read(struct llm_drafter *d, const int32_t *ids, size_t n);

/* Drafts and evaluates d->tree, whose root is @token, of at most @most nodes: if it has one node as
 * llm_session_eval(), else as llm_verify_tree(). */
int drafter_step(struct llm_drafter *d, struct llm_session *s, int32_t token, uint32_t most);

/* The session keeps @path [n] of the tree, behind which @next was chosen. */
int drafter_keep(struct llm_drafter *d, struct llm_session *s, const uint8_t *path, uint32_t n,
		 int32_t next);

/* A token of the answer. 0 or -ENOMEM with the error line. */
int drafter_answer(struct llm_drafter *d, int32_t token);
/* The answer is complete: stores it, and what passes cost. */
void drafter_end(struct llm_drafter *d);

#endif /* DRAFTER_H */
