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
	const struct llm_session *session; /* of whom it hears */
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

/* ---- counters of a cold start ---- */

/* What has been loaded so far, in bytes. */
struct loaded {
	uint64_t read; /* from the file */
	uint64_t waiting; /* of it, what is not packed yet */
	uint64_t weights; /* packed */
};

static void put_counter(struct timeline *t, const char *name, uint64_t ns, struct json_object *args)
{
	struct json_object *e = event(t, "C", name, 0, ns);

	json_object_object_add(e, "args", args);
	put(t, e);
}

static void put_loaded(struct timeline *t, uint64_t ns, const struct loaded *l,
		       const struct llm_cold_stats *cold)
{
	struct json_object *memory = json_object_new_object(), *read = json_object_new_object();

	json_object_object_add(memory, "weights", json_out_u64(l->weights));
	json_object_object_add(memory, "read, not packed", json_out_u64(l->waiting));
	json_object_object_add(memory, "KV cache", json_out_u64(cold->kv.peak));
	json_object_object_add(memory, "activations", json_out_u64(cold->activations.peak));
	put_counter(t, "bytes in memory", ns, memory);
	json_object_object_add(read, "weights", json_out_u64(l->read));
	put_counter(t, "bytes read", ns, read);
}

static int end_cmp(const void *a, const void *b)
{
	const struct llm_span *const *x = a, *const *y = b;

	if ((*x)->end_ns != (*y)->end_ns)
		return (*x)->end_ns < (*y)->end_ns ? -1 : 1;
	return *x < *y ? -1 : *x > *y;
}

/* The spans that load weights, in the order of their ends; *@nr of them. NULL: no memory. */
static const struct llm_span **loading(const struct llm_span *spans, size_t n, size_t *nr)
{
	const struct llm_span **list = malloc((n + 1) * sizeof(*list));

	*nr = 0;
	for (size_t i = 0; list && i < n; i++)
		if (spans[i].file_bytes)
			list[(*nr)++] = &spans[i];
	if (list)
		qsort(list, *nr, sizeof(*list), end_cmp);
	return list;
}

/* 0, or 1 after a message. */
static int put_counters(struct timeline *t, uint64_t at_ns, const struct llm_span *spans, size_t n)
{
	struct loaded now = { 0 };
	struct llm_cold_stats cold;
	size_t nr;
	const struct llm_span **list = loading(spans, n, &nr);

	if (!list)
		return tool_fail("no memory for a timeline");
	llm_session_cold(t->session, &cold);
	for (size_t i = 0; i < nr; i++) {
		bool read = !strcmp(list[i]->op, "read");

		now.read += read ? list[i]->file_bytes : 0;
		now.waiting += read ? list[i]->file_bytes : -list[i]->file_bytes;
		now.weights += read ? 0 : list[i]->packed_bytes;
		put_loaded(t, at_ns + list[i]->end_ns, &now, &cold);
	}
	free(list);
	return 0;
}

static void heard(void *ud, uint64_t at_ns, const struct llm_span *spans, size_t n)
{
	struct timeline *t = ud;

	if (t->failed)
		return;
	t->failed = put_process(t, t->listening);
	for (size_t i = 0; i < n && !t->failed; i++)
		put_task(t, at_ns, spans, &spans[i]);
	if (!t->failed)
		t->failed = put_counters(t, at_ns, spans, n);
}

int timeline_listen(struct timeline *t, const char *name, struct llm_session *session)
{
	char *copy = strdup(name);

	if (!copy)
		return tool_fail("no memory for a timeline");
	free(t->listening);
	t->listening = copy;
	t->session = session;
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
