// SPDX-License-Identifier: MIT
/*
 * The document: libnpu's events and added ones, sorted by time, with an end for each beginning.
 *
 * libnpu's lines are parsed and written again, so the output is always valid JSON; numbers keep
 * their digits. Lines of a process that was killed or ran out of disk may be missing or incomplete:
 * jobs without an end get one, ends without a job are left out.
 */
#define _GNU_SOURCE
#include "npu-trace.h"

#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "npu_json.h"
#include "tool.h"

void *doc_grow(void *array, size_t nr, size_t *room, size_t size)
{
	void *grown = array;

	if (nr == *room) {
		grown = realloc(array, (*room ? 2 * *room : 1024) * size);
		if (!grown)
			tool_fail("no memory for %zu events", nr);
		else
			*room = *room ? 2 * *room : 1024;
	}
	return grown;
}

static int doc_put(struct doc *doc, int64_t time_ns, int64_t duration_ns, const char *text)
{
	struct doc_event *grown =
		doc_grow(doc->events, doc->nr_events, &doc->room_events, sizeof(*grown));
	char *copy = grown ? strdup(text) : NULL;

	if (grown)
		doc->events = grown;
	if (!copy)
		return grown ? tool_fail("no memory for an event") : 1;
	doc->events[doc->nr_events] = (struct doc_event){
		.time_ns = time_ns,
		.duration_ns = duration_ns,
		.order = doc->nr_events,
		.text = copy,
	};
	doc->nr_events++;
	return 0;
}

int doc_add(struct doc *doc, char ph, int pid, int tid, int64_t time_ns, int64_t duration_ns,
	    const char *name, const char *fmt, ...)
{
	char dur[48] = "", *more, *text;
	va_list ap;
	int ret;

	if (ph == 'X')
		snprintf(dur, sizeof(dur), ",\"dur\":%lld.%03d", (long long)(duration_ns / 1000),
			 (int)(duration_ns % 1000));
	va_start(ap, fmt);
	ret = vasprintf(&more, fmt, ap);
	va_end(ap);
	if (ret < 0)
		return tool_fail("no memory for an event");
	ret = asprintf(
		&text, "{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d,\"ts\":%lld.%03d%s,\"name\":\"%s\"%s}",
		ph, pid, tid, (long long)(time_ns / 1000), (int)(time_ns % 1000), dur, name, more);
	free(more);
	if (ret < 0)
		return tool_fail("no memory for an event");
	ret = doc_put(doc, time_ns, duration_ns, text);
	free(text);
	return ret;
}

/* ---- libnpu's lines ---- */

/* Reads microseconds with a fraction as nanoseconds. A double would be off after three months. */
static bool read_us(struct json_object *o, int64_t *ns)
{
	const char *s = o ? json_object_get_string(o) : NULL;
	int64_t v = 0, unit = 1000;

	if (!s || !isdigit((unsigned char)*s))
		return false;
	for (; isdigit((unsigned char)*s); s++) {
		if (v > INT64_MAX / 10000 - 10)
			return false;
		v = v * 10 + (*s - '0');
	}
	v *= 1000;
	if (*s == '.')
		for (s++; isdigit((unsigned char)*s); s++) {
			unit /= 10;
			v += (*s - '0') * unit;
		}
	*ns = v;
	/* Sums of two times must not overflow. */
	return !*s && v < INT64_MAX / 4;
}

static int64_t get_int(struct json_object *o, const char *key)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v) ? json_object_get_int64(v) : 0;
}

static const char *get_text(struct json_object *o, const char *key)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v) && json_object_is_type(v, json_type_string)
		       ? json_object_get_string(v)
		       : "";
}

static struct doc_job *find_id(struct doc *doc, uint64_t id)
{
	/* Searched from the end, as jobs end soon after they begin. */
	for (size_t i = doc->nr_jobs; i-- > 0;)
		if (doc->jobs[i].id == id)
			return &doc->jobs[i];
	return NULL;
}

static int read_job_begin(struct doc *doc, struct json_object *o, uint64_t id, int64_t ns)
{
	struct doc_job *grown = doc_grow(doc->jobs, doc->nr_jobs, &doc->room_jobs, sizeof(*grown));
	struct json_object *args;
	char *name;

	if (!grown)
		return 1;
	doc->jobs = grown;
	name = strdup(get_text(o, "name"));
	if (!name)
		return tool_fail("no memory for a job");
	if (!json_object_object_get_ex(o, "args", &args))
		args = o;
	doc->jobs[doc->nr_jobs++] = (struct doc_job){
		.pid = (int32_t)get_int(o, "pid"),
		.tid = (int32_t)get_int(o, "tid"),
		.dev = (uint32_t)get_int(args, "device"),
		.ctx = (uint32_t)get_int(args, "ctx"),
		.queue = (uint32_t)get_int(args, "queue"),
		.seqno = (uint64_t)get_int(args, "seqno"),
		.id = id,
		.begin_ns = ns,
		.name = name,
		.run_ns = -1,
	};
	return 0;
}

/* Reads an event b, n or e of a job. *@keep: false if its b is missing. */
static int read_job(struct doc *doc, struct json_object *o, char ph, int64_t ns, bool *keep)
{
	uint64_t id = strtoull(get_text(o, "id"), NULL, 16);
	struct json_object *args;
	struct doc_job *job;

	if (ph == 'b')
		return read_job_begin(doc, o, id, ns);
	job = find_id(doc, id);
	*keep = job && !job->end_ns;
	if (ph != 'e' || !*keep)
		return 0;
	job->end_ns = ns;
	job->end_tid = (int32_t)get_int(o, "tid");
	job->waited = json_object_object_get_ex(o, "args", &args) && get_int(args, "waited");
	return 0;
}

static int read_call(struct doc *doc, struct json_object *o, int64_t ns, int64_t duration_ns)
{
	struct doc_call *grown =
		doc_grow(doc->calls, doc->nr_calls, &doc->room_calls, sizeof(*grown));

	if (!grown)
		return 1;
	doc->calls = grown;
	doc->calls[doc->nr_calls++] = (struct doc_call){
		.tid = (int32_t)get_int(o, "tid"),
		.start_ns = ns,
		.end_ns = ns + duration_ns,
	};
	return 0;
}

static int read_event(struct doc *doc, struct json_object *o)
{
	const char *ph = get_text(o, "ph"), *cat = get_text(o, "cat");
	int64_t ns, duration_ns = 0;
	struct json_object *ts = NULL, *dur = NULL;
	bool keep = true;

	json_object_object_get_ex(o, "ts", &ts);
	json_object_object_get_ex(o, "dur", &dur);
	if (strlen(ph) != 1 || !strchr("XbneCM", *ph) || !read_us(ts, &ns) ||
	    (*ph == 'X' && !read_us(dur, &duration_ns))) {
		doc->bad++;
		return 0;
	}
	if (*ph == 'M' && !strcmp(get_text(o, "name"), "process_name"))
		doc->nr_processes++;
	if (strchr("bne", *ph)) {
		if (read_job(doc, o, *ph, ns, &keep))
			return 1;
		doc->bad += !keep;
	}
	if (*ph == 'X' && !strcmp(cat, "npu") && read_call(doc, o, ns, duration_ns))
		return 1;
	return keep ? doc_put(doc, ns, duration_ns,
			      json_object_to_json_string_ext(
				      o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE))
		    : 0;
}

static int read_line(struct doc *doc, struct json_tokener *tok, char *line, size_t len)
{
	struct json_object *o;
	int ret = 0;

	while (len && strchr(",\n\r ", line[len - 1]))
		len--;
	if (!len || (len == 1 && *line == '['))
		return 0;
	json_tokener_reset(tok);
	o = json_tokener_parse_ex(tok, line, (int)len);
	if (o && json_object_is_type(o, json_type_object) && json_tokener_get_parse_end(tok) == len)
		ret = read_event(doc, o);
	else
		doc->bad++;
	json_object_put(o);
	return ret;
}

int doc_read(struct doc *doc, const char *path)
{
	struct json_tokener *tok = json_tokener_new();
	FILE *f = fopen(path, "re");
	size_t room = 0;
	char *line = NULL;
	ssize_t len;
	int ret = 0;

	if (!f || !tok) {
		ret = tool_fail("%s: %s", path, strerror(f ? ENOMEM : errno));
	} else {
		json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
		while (!ret && (len = getline(&line, &room, f)) > 0)
			ret = read_line(doc, tok, line, (size_t)len);
		if (!ret && ferror(f))
			ret = tool_fail("%s: %s", path, strerror(errno));
	}
	if (f)
		fclose(f);
	if (tok)
		json_tokener_free(tok);
	free(line);
	return ret;
}

/* ---- sorting ---- */

static int compare_events(const void *pa, const void *pb)
{
	const struct doc_event *a = pa, *b = pb;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	/* A slice is sorted before those inside it. */
	if (a->duration_ns != b->duration_ns)
		return a->duration_ns > b->duration_ns ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

static int compare_jobs(const void *pa, const void *pb)
{
	const struct doc_job *a = pa, *b = pb;

#define DOC_COMPARE(field)        \
	if (a->field != b->field) \
	return a->field < b->field ? -1 : 1
	DOC_COMPARE(pid);
	DOC_COMPARE(ctx);
	DOC_COMPARE(queue);
	DOC_COMPARE(seqno);
	DOC_COMPARE(begin_ns);
#undef DOC_COMPARE
	return 0;
}

int doc_finish(struct doc *doc)
{
	int64_t last_ns = 0;
	int ret = 0;

	for (size_t i = 0; i < doc->nr_events; i++)
		if (doc->events[i].time_ns + doc->events[i].duration_ns > last_ns)
			last_ns = doc->events[i].time_ns + doc->events[i].duration_ns;
	for (size_t i = 0; i < doc->nr_jobs && !ret; i++) {
		char name[NPU_JSON_TEXT_SIZE(128)];

		if (doc->jobs[i].end_ns)
			continue;
		npu_json_text(name, sizeof(name), doc->jobs[i].name);
		ret = doc_add(doc, 'e', doc->jobs[i].pid, doc->jobs[i].tid, last_ns, 0, name,
			      ",\"cat\":\"job\",\"id\":\"0x%llx\",\"args\":{\"unfinished\":true}",
			      (unsigned long long)doc->jobs[i].id);
	}
	if (doc->nr_jobs)
		qsort(doc->jobs, doc->nr_jobs, sizeof(*doc->jobs), compare_jobs);
	return ret;
}

struct doc_job *doc_find_job(struct doc *doc, int32_t pid, uint32_t ctx, uint32_t queue,
			     uint64_t seqno, int64_t before_ns)
{
	struct doc_job key = { .pid = pid,
			       .ctx = ctx,
			       .queue = queue,
			       .seqno = seqno,
			       .begin_ns = before_ns },
		       *job;
	size_t low = 0, high = doc->nr_jobs;

	/* Finds the first greater one; the result is the one before it. */
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (compare_jobs(&doc->jobs[mid], &key) <= 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return NULL;
	job = &doc->jobs[low - 1];
	return job->pid == pid && job->ctx == ctx && job->queue == queue && job->seqno == seqno
		       ? job
		       : NULL;
}

int doc_write(struct doc *doc, FILE *f, const char *other)
{
	if (doc->nr_events)
		qsort(doc->events, doc->nr_events, sizeof(*doc->events), compare_events);
	fprintf(f, "{\"displayTimeUnit\":\"ns\",\"otherData\":{%s},\"traceEvents\":[\n", other);
	for (size_t i = 0; i < doc->nr_events; i++)
		fprintf(f, "%s%s\n", doc->events[i].text, i + 1 < doc->nr_events ? "," : "");
	fputs("]}\n", f);
	return ferror(f) || fflush(f) ? -(errno ? errno : EIO) : 0;
}

void doc_free(struct doc *doc)
{
	for (size_t i = 0; i < doc->nr_events; i++)
		free(doc->events[i].text);
	for (size_t i = 0; i < doc->nr_jobs; i++)
		free((char *)doc->jobs[i].name);
	free(doc->events);
	free(doc->jobs);
	free(doc->calls);
	*doc = (struct doc){ 0 };
}

/* ---- statistics ---- */

static int compare_ns(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* The percentile by nearest rank, in microseconds; -1: no values. */
static double percentile_us(int64_t *ns, size_t nr, unsigned int percent)
{
	size_t rank = (nr * percent + 99) / 100;

	return nr ? (double)ns[rank ? rank - 1 : 0] / 1e3 : -1;
}

static void print_times(FILE *f, int64_t *ns, size_t nr)
{
	if (nr)
		qsort(ns, nr, sizeof(*ns), compare_ns);
	for (unsigned int i = 0; i < 3; i++) {
		double us = percentile_us(ns, nr, (const unsigned int[]){ 50, 90, 99 }[i]);

		if (us < 0)
			fprintf(f, " %11s", "-");
		else
			fprintf(f, " %11.1f", us);
	}
}

static bool same_queue(const struct doc_job *a, const struct doc_job *b)
{
	return a->pid == b->pid && a->dev == b->dev && a->ctx == b->ctx && a->queue == b->queue;
}

static int compare_queues(const void *pa, const void *pb)
{
	const struct doc_job *a = *(const struct doc_job *const *)pa,
			     *b = *(const struct doc_job *const *)pb;

	if (a->pid == b->pid && a->dev != b->dev)
		return a->dev < b->dev ? -1 : 1;
	return compare_jobs(a, b);
}

static int compare_calls(const void *pa, const void *pb)
{
	const struct doc_call *a = pa, *b = pb;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

/* The time that threads spent in calls; nested calls count once. */
static int64_t calls_ns(struct doc_call *calls, size_t nr)
{
	int64_t sum = 0, from;

	if (nr)
		qsort(calls, nr, sizeof(*calls), compare_calls);
	for (size_t i = 0, outer = 0; i < nr; i++) {
		from = calls[i].start_ns;
		if (i && calls[outer].tid == calls[i].tid && from < calls[outer].end_ns)
			from = calls[outer].end_ns;
		if (calls[i].end_ns > from || calls[outer].tid != calls[i].tid) {
			sum += calls[i].end_ns - from;
			outer = i;
		}
	}
	return sum;
}

int doc_print_stats(const struct doc *doc, FILE *f)
{
	const struct doc_job **jobs = calloc(doc->nr_jobs + 1, sizeof(*jobs));
	int64_t *seen = calloc(doc->nr_jobs + 1, sizeof(*seen)),
		*run = calloc(doc->nr_jobs + 1, sizeof(*run));
	size_t nr_seen = 0, nr_run = 0, nr = 0;

	if (!jobs || !seen || !run) {
		free(jobs);
		free(seen);
		free(run);
		return tool_fail("no memory for statistics of %zu jobs", doc->nr_jobs);
	}
	for (size_t i = 0; i < doc->nr_jobs; i++)
		jobs[i] = &doc->jobs[i];
	qsort(jobs, doc->nr_jobs, sizeof(*jobs), compare_queues);
	fprintf(f, "%8s %6s %7s %5s %8s | %35s | %35s\n", "PID", "DEVICE", "CONTEXT", "QUEUE",
		"JOBS", "SUBMIT TO SEEN DONE, us p50 p90 p99", "ON THE DEVICE, us p50 p90 p99");
	for (size_t i = 0; i < doc->nr_jobs; i++) {
		const struct doc_job *job = jobs[i];

		nr++;
		if (job->end_ns)
			seen[nr_seen++] = job->end_ns - job->begin_ns;
		if (job->run_ns >= 0)
			run[nr_run++] = job->run_ns;
		if (i + 1 < doc->nr_jobs && same_queue(job, jobs[i + 1]))
			continue;
		fprintf(f, "%8d %6u %7u %5u %8zu |", job->pid, job->dev, job->ctx, job->queue, nr);
		print_times(f, seen, nr_seen);
		fputs(" |", f);
		print_times(f, run, nr_run);
		fputc('\n', f);
		nr = nr_seen = nr_run = 0;
	}
	fprintf(f, "%zu calls of libnpu took %.3f ms\n", doc->nr_calls,
		(double)calls_ns(doc->calls, doc->nr_calls) / 1e6);
	free(jobs);
	free(seen);
	free(run);
	return 0;
}
