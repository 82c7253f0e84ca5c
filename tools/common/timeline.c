// SPDX-License-Identifier: MIT
#include "timeline.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_out.h"
#include "tool.h"

struct timeline {
	FILE *f;
	char *path;
	char *process; /* name of the current one */
	char *listening; /* name of the session's process */
	bool failed; /* a pass could not be added */
	int pid;
	uint64_t nr_events, nr_flows;
};

struct timeline *timeline_open(const char *path)
{
	struct timeline *t = calloc(1, sizeof(*t));

	if (!t || !(t->path = strdup(path))) {
		tool_fail("no memory for a timeline");
		free(t);
		return NULL;
	}
	t->f = fopen(path, "we");
	if (!t->f) {
		tool_fail("%s: %s", path, strerror(errno));
		free(t->path);
		free(t);
		return NULL;
	}
	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", t->f);
	return t;
}

static void put(struct timeline *t, struct json_object *event)
{
	fprintf(t->f, "%s%s", t->nr_events++ ? ",\n" : "",
		json_object_to_json_string_ext(event, JSON_C_TO_STRING_PLAIN));
	json_object_put(event);
}

/* An event of type @ph; times are in microseconds. */
static struct json_object *event(const struct timeline *t, const char *ph, const char *name,
				 int tid, uint64_t ns)
{
	struct json_object *e = json_object_new_object();

	json_object_object_add(e, "ph", json_out_string(ph));
	json_object_object_add(e, "name", json_out_string(name));
	json_object_object_add(e, "pid", json_object_new_int(t->pid));
	json_object_object_add(e, "tid", json_object_new_int(tid));
	json_object_object_add(e, "ts", json_object_new_double((double)ns / 1e3));
	return e;
}

static void put_name(struct timeline *t, const char *what, int tid, const char *name)
{
	struct json_object *e = event(t, "M", what, tid, 0), *args = json_object_new_object();

	json_object_object_add(args, "name", json_out_string(name));
	json_object_object_add(e, "args", args);
	put(t, e);
}

static int put_process(struct timeline *t, const char *name)
{
	if (t->process && !strcmp(t->process, name))
		return 0;
	free(t->process);
	t->process = strdup(name);
	if (!t->process)
		return tool_fail("no memory for a timeline");
	t->pid++;
	put_name(t, "process_name", 0, name);
	for (unsigned int lane = 0; lane < llm_nr_lanes(); lane++)
		put_name(t, "thread_name", (int)lane + 1, llm_lane_name(lane));
	return 0;
}

static void put_slice(struct timeline *t, const char *name, int lane, uint64_t start_ns,
		      uint64_t ns, struct json_object *args)
{
	struct json_object *e = event(t, "X", name, lane + 1, start_ns);

	json_object_object_add(e, "dur", json_object_new_double((double)ns / 1e3));
	json_object_object_add(e, "args", args);
	put(t, e);
}

/* A flow from the end of one task to the start of another on another lane. */
static void put_flow(struct timeline *t, const struct llm_span *from, const struct llm_span *to,
		     uint64_t at_ns)
{
	struct json_object *s =
		event(t, "s", "handover", (int)from->lane + 1, at_ns + from->end_ns);
	struct json_object *f = event(t, "f", "handover", (int)to->lane + 1, at_ns + to->start_ns);

	t->nr_flows++;
	for (int i = 0; i < 2; i++) {
		json_object_object_add(i ? f : s, "cat", json_out_string("sync"));
		json_object_object_add(i ? f : s, "id", json_out_u64(t->nr_flows));
	}
	json_object_object_add(f, "bp", json_out_string("e"));
	put(t, s);
	put(t, f);
}

static void put_task(struct timeline *t, uint64_t at_ns, const struct llm_span *spans,
		     const struct llm_span *span)
{
	struct json_object *args = json_object_new_object();
	int lane = (int)span->lane;

	json_object_object_add(args, "chunk", json_out_u64(span->chunk));
	json_object_object_add(args, "layer", json_out_u64(span->layer));
	json_object_object_add(args, "slice", json_out_u64(span->slice));
	json_object_object_add(
		args, "waited_us",
		json_object_new_double((double)(span->start_ns - span->ready_ns) / 1e3));
	if (span->home != span->lane)
		json_object_object_add(args, "home", json_out_string(llm_lane_name(span->home)));
	put_slice(t, span->op, lane, at_ns + span->start_ns, span->end_ns - span->start_ns, args);
	if (span->overhead_ns)
		put_slice(t, "start", lane, at_ns + span->start_ns, span->overhead_ns,
			  json_object_new_object());
	for (size_t i = 0; i < span->nr_after; i++)
		if (spans[span->after[i]].lane != span->lane)
			put_flow(t, &spans[span->after[i]], span, at_ns);
}

static void heard(void *ud, uint64_t at_ns, const struct llm_span *spans, size_t n)
{
	struct timeline *t = ud;

	if (t->failed)
		return;
	t->failed = put_process(t, t->listening);
	for (size_t i = 0; i < n && !t->failed; i++)
		put_task(t, at_ns, spans, &spans[i]);
}

int timeline_listen(struct timeline *t, const char *name, struct llm_session *session)
{
	char *copy = strdup(name);

	if (!copy)
		return tool_fail("no memory for a timeline");
	free(t->listening);
	t->listening = copy;
	llm_session_listen(session, heard, t);
	return 0;
}

int timeline_close(struct timeline *t)
{
	bool failed;
	int status = t->failed;

	fputs("\n]}\n", t->f);
	failed = ferror(t->f);
	if (fclose(t->f) || failed)
		status = tool_fail("%s: %s", t->path,
				   errno ? strerror(errno) : "it could not be written");
	free(t->process);
	free(t->listening);
	free(t->path);
	free(t);
	return status;
}
