/* SPDX-License-Identifier: MIT */
/*
 * Programs that print tables of prompts on modelled SoCs, all from plans on the virtual clock: a
 * command has a row or more for each model and SoC of the command line.
 *
 *	static const struct command *const commands[] = { &command_steps };
 *	static const struct program program = { .name = "llmnpu", ..., .commands = commands };
 *	int main(int argc, char **argv) { return program_run(&program, argc, argv); }
 */
#ifndef TRIAL_H
#define TRIAL_H

#include "llm.h"
#include "plan.h"
#include "range.h"

struct args {
	const char *shapes, *profiles; /* comma-separated */
	struct llm_choices choices;
	struct range tokens; /* of a prompt */
	struct range bits; /* of a file's weights; for programs that have cold starts */
	unsigned int chunk;
};

/* One model on one SoC. */
struct place {
	const struct args *args;
	const struct soc *soc;
	const struct shape *shape;
};

/* A cold start: struct plan_start of a file of @bits a weight, but 8 of the output matrix. */
struct trial_start {
	bool cold; /* false: the weights are there */
	bool graphs, ahead;
	double bits;
};

/* One prompt on it. */
struct trial {
	struct llm_choices choices;
	const struct sched_policy *policy; /* in place of the order's; NULL: that */
	double pruning; /* of shadow outliers */
	struct trial_start start;
	unsigned int chunk, tokens;
};

struct outcome {
	double ms, busy_ms[SOC_NR_LANES];
	double joules;
	double decision_ns; /* of the order's policy, on this host, for a task */
	unsigned int tasks, chunks;
	unsigned int taken; /* tasks that another lane than their home ran */
};

double bubbles(const struct outcome *o, enum soc_lane lane); /* share of the time */
/* 0, or 1 after a message. */
int run_trial(const struct place *place, const struct trial *trial, struct outcome *outcome);
/* The plan of a trial, without running it; NULL after a message. */
struct plan *plan_trial(const struct place *place, const struct trial *trial);

/* A command: a heading, and what it prints for each model and SoC: at once, or if @put is NULL for
 * each length of a prompt. 0, or an exit status. */
struct command {
	const char *name;
	void (*head)(void);
	int (*put)(const struct place *place);
	int (*put_tokens)(const struct place *place, unsigned int tokens);
};

struct program {
	const char *name, *usage;
	const char *preset; /* whose placement all command lines keep */
	/* If the command line says nothing else; shapes_doc says which these are. */
	const char *shapes, *profiles, *tokens, *shapes_doc;
	const char *bits; /* NULL: it has no cold starts */
	unsigned int chunk;
	enum llm_cores cores; /* of the CPU lane, if the command line says nothing else */
	const struct command *const *commands;
	unsigned int n_commands;
};
/* The program's main(). */
int program_run(const struct program *program, int argc, char **argv);

#endif /* TRIAL_H */
