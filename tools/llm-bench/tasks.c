// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "tasks.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define MAX_TOKENS 1000000

static const char *text_of(struct json_object *o, const char *name)
{
	struct json_object *v = json_object_object_get(o, name);

	return json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL;
}

static char *joined(const char *a, const char *b)
{
	char *text;

	return asprintf(&text, "%s%s", a ? a : "", b) < 0 ? NULL : text;
}

/* Reads @o into @task. NULL, or what is wrong with it. */
static const char *task_from(struct json_object *o, struct bench_task *task)
{
	const char *kind = text_of(o, "kind"), *prompt = text_of(o, "prompt");
	struct json_object *n = json_object_object_get(o, "n");

	if (!json_object_is_type(o, json_type_object))
		return "no JSON object";
	if (!kind || !*kind || !prompt || !*prompt)
		return "no \"kind\" or \"prompt\"";
	if (!json_object_is_type(n, json_type_int) || json_object_get_int64(n) < 2 ||
	    json_object_get_int64(n) > MAX_TOKENS)
		return "\"n\" is not a number of tokens, at least 2";
	task->n = (unsigned int)json_object_get_int64(n);
	task->kind = strdup(kind);
	task->text = joined(text_of(o, "context"), prompt);
	return task->kind && task->text ? NULL : "no memory for it";
}

/* Adds the task of a line. */
static const char *add_line(struct bench_tasks *tasks, const char *line)
{
	struct bench_task *list = realloc(tasks->list, (tasks->n + 1) * sizeof(*list));
	struct json_object *o;
	const char *why;

	if (!list)
		return "no memory for it";
	tasks->list = list;
	list[tasks->n] = (struct bench_task){ 0 };
	o = json_tokener_parse(line);
	why = task_from(o, &list[tasks->n++]);
	json_object_put(o);
	return why;
}

int tasks_read(struct bench_tasks *tasks, const char *path)
{
	size_t bytes, number = 0;
	char *text = tool_read_file(path, &bytes), *next = text, *line;
	const char *why = NULL;
	int status = text ? 0 : 1;

	while (!status && !why && (line = strsep(&next, "\n"))) {
		number++;
		if (*line)
			why = add_line(tasks, line);
	}
	if (why)
		status = tool_fail("%s:%zu: %s", path, number, why);
	else if (!status && !tasks->n)
		status = tool_fail("%s: no tasks", path);
	free(text);
	return status;
}

void tasks_free(struct bench_tasks *tasks)
{
	for (size_t i = 0; i < tasks->n; i++) {
		free(tasks->list[i].kind);
		free(tasks->list[i].text);
	}
	free(tasks->list);
}

const char *tasks_kind(const struct bench_tasks *tasks, size_t i)
{
	for (size_t t = 0; t < tasks->n; t++) {
		const char *kind = tasks->list[t].kind;
		size_t first = 0;

		while (strcmp(tasks->list[first].kind, kind) != 0)
			first++;
		if (first == t && !i--)
			return kind;
	}
	return NULL;
}
