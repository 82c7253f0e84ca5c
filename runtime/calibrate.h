/* SPDX-License-Identifier: MIT */
/* The parts of llm_calibrate(). */
#ifndef CALIBRATE_H
#define CALIBRATE_H

#include "attention_stats.h"
#include "llm.h"

/* Windows of a text, side by side, and a session that holds one. */
struct calibrate_text {
	struct llm_session *session;
	const int32_t *ids; /* [n_windows][window] */
	unsigned int window, n_windows;
	/* Called after each evaluation of the text, of so many windows; an error ends it all. */
	int (*evaluated)(void *ud, unsigned int windows, const char *what);
	void *ud;
};

/* How often calibrate_heads() and calibrate_gains() evaluate the text, together. */
unsigned int calibrate_times(const struct attention_stats *stats);
unsigned int calibrate_limits_times(void); /* and calibrate_limits() */

/*
 * Evaluates the text without each head, then without each layer, and notes what the loss grows by
 * (shadowAttn 3.2, equations 1 and 2). A layer that is removed adds nothing to what it is given.
 * 0, or an error of an evaluation or of evaluated(), with the error line.
 */
int calibrate_heads(const struct calibrate_text *text, struct attention_stats *stats);

/*
 * The session of the next two is of an engine with attention sparse, whose ratios they change.
 * Errors as above.
 *
 * Notes what the loss falls by if one head has all keys and the others have few (head_ratios.h).
 */
int calibrate_gains(const struct calibrate_text *text, struct attention_stats *stats);

/* Chooses the limit of the products of importance, and that of gains, with which the text's loss is
 * least (head_ratios.h). The text should be another than that of the functions above. */
int calibrate_limits(const struct calibrate_text *text, struct attention_stats *stats);

#endif /* CALIBRATE_H */
