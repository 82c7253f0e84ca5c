/* SPDX-License-Identifier: MIT */
/*
 * llmnpu: figures of llm.npu's method on the modelled SoCs, all from plans on the virtual clock.
 *
 *	subgraphs	what is shared by chunks, and what that saves (3.2)
 *	fits		matrices in the NPU's address space (4)
 *	chunks		a prompt's time by the length of its chunks (3.2, figure 8)
 *	steps		naive NPU, chunk sharing, shadow outliers, out-of-order (3.2 to 3.4)
 *	merging		what shadow outliers cost, by pruning (3.3)
 */
#ifndef LLMNPU_H
#define LLMNPU_H

#include "llm.h"
#include "plan.h"
#include "range.h"

struct args {
	const char *shapes, *profiles; /* comma-separated */
	struct llm_choices choices;
	struct range tokens; /* of a prompt */
	unsigned int chunk; /* 0: 256 */
};

/* One model on one SoC. */
struct place {
	const struct args *args;
	const struct soc *soc;
	const struct shape *shape;
};

/* One prompt on it. */
struct trial {
	struct llm_choices choices;
	double pruning; /* of shadow outliers */
	unsigned int chunk, tokens;
};

struct outcome {
	double ms, busy_ms[SOC_NR_LANES];
	double joules;
	double decision_ns; /* of the order's policy, on this host, for a task */
	unsigned int tasks, chunks;
};

unsigned int chunk_of(const struct args *args);
double bubbles(const struct outcome *o, enum soc_lane lane); /* share of the time */
/* 0, or 1 after a message. */
int run_trial(const struct place *place, const struct trial *trial, struct outcome *outcome);
/* The plan of a trial, without running it; NULL after a message. */
struct plan *plan_trial(const struct place *place, const struct trial *trial);

/* A command: a heading, and what it prints for each model and SoC. 0, or an exit status. */
struct command {
	const char *name;
	void (*head)(void);
	int (*put)(const struct place *place);
};
extern const struct command command_subgraphs, command_fits, command_chunks, command_steps,
	command_merging;

#endif /* LLMNPU_H */
