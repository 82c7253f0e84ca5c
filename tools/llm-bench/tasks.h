/* SPDX-License-Identifier: MIT */
/*
 * Tasks of llm-bench: prompts whose answers repeat parts of them, generated with drafts and without
 * by turns.
 *
 * A file of tasks has a JSON object in each line: "kind", a word such as summary, qa, ui or reply;
 * "prompt", a text; "context", a text in front of it, or none; and "n", the tokens to generate. A
 * kind is a test. Its tasks are one user's, in their order: each answer becomes history of the
 * tasks after it.
 */
#ifndef TASKS_H
#define TASKS_H

#include <stddef.h>
#include <stdint.h>

struct bench_task {
	char *kind, *text; /* text: context and prompt */
	unsigned int n;
};

struct bench_tasks {
	struct bench_task *list;
	size_t n;
};

/* 0, or 1 after a message. Call tasks_free() in either case. */
int tasks_read(struct bench_tasks *tasks, const char *path);
void tasks_free(struct bench_tasks *tasks);
/* The @i-th of the kinds, in the order of their first tasks; NULL past the last one. */
const char *tasks_kind(const struct bench_tasks *tasks, size_t i);

#endif /* TASKS_H */
