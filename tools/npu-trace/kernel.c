// SPDX-License-Identifier: MIT
/*
 * Parses lines of tracefs, as kmod/vnpu_trace.h and the kernel's trace_output.c print them:
 *
 *	vnpu-fw-123     [001] ..... 12.345678: vnpu_job_start: dev=0 client=5 pid=99 comm=a
 *			b ctx=1 queue=1 hwq=0 ...
 *
 * Task names may contain any character, so spaces and colons do not separate fields. The event's
 * name is the first one with a time before it and the event's fields after it, and comm ends at the
 * last " ctx=".
 */
#include "npu-trace.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

static const struct {
	const char *name;
	enum kernel_kind kind;
	bool job; /* has queue, hwq and seqno */
} kernel_events[] = {
	{ "vnpu_bind: ", KERNEL_BIND, false },
	{ "vnpu_job_submit: ", KERNEL_SUBMIT, true },
	{ "vnpu_job_start: ", KERNEL_START, true },
	{ "vnpu_job_complete: ", KERNEL_COMPLETE, true },
	{ "vnpu_fault: ", KERNEL_FAULT, true },
	{ "vnpu_reset: ", KERNEL_RESET, false },
};

/* Parses "KEY=NUMBER" up to a space or the end, and moves *@p behind it. */
static bool take(const char **p, const char *key, bool negative, uint64_t max, uint64_t *value)
{
	size_t len = strlen(key);
	const char *s = *p;
	bool minus;
	uint64_t v = 0;

	if (strncmp(s, key, len))
		return false;
	s += len;
	minus = negative && *s == '-';
	s += minus;
	if (!isdigit((unsigned char)*s))
		return false;
	for (; isdigit((unsigned char)*s); s++) {
		if (v > (max - (uint64_t)(*s - '0')) / 10)
			return false;
		v = v * 10 + (uint64_t)(*s - '0');
	}
	if (*s && *s != ' ')
		return false;
	*value = minus ? -v : v;
	*p = s + strspn(s, " ");
	return true;
}

static bool take_u32(const char **p, const char *key, uint32_t *value)
{
	uint64_t v;

	if (!take(p, key, false, UINT32_MAX, &v))
		return false;
	*value = (uint32_t)v;
	return true;
}

static bool take_s32(const char **p, const char *key, int32_t *value)
{
	uint64_t v;

	if (!take(p, key, true, INT32_MAX, &v))
		return false;
	*value = (int32_t)v;
	return true;
}

static bool take_u64(const char **p, const char *key, uint64_t *value)
{
	return take(p, key, false, UINT64_MAX, value);
}

static bool take_comm(const char **p, char *comm, size_t size)
{
	static const char key[] = "comm=";
	const char *end = NULL, *s = *p;
	size_t len;

	if (strncmp(s, key, sizeof(key) - 1))
		return false;
	s += sizeof(key) - 1;
	for (const char *at = strstr(s, " ctx="); at; at = strstr(at + 1, " ctx="))
		end = at;
	if (!end || (size_t)(end - s) >= size)
		return false;
	len = (size_t)(end - s);
	memcpy(comm, s, len);
	comm[len] = 0;
	*p = end + 1;
	return true;
}

static bool parse_fields(const char *p, bool job, struct kernel_event *e)
{
	if (!take_u32(&p, "dev=", &e->dev))
		return false;
	if (e->kind != KERNEL_RESET &&
	    (!take_u64(&p, "client=", &e->client) || !take_s32(&p, "pid=", &e->pid) ||
	     !take_comm(&p, e->comm, sizeof(e->comm)) || !take_u32(&p, "ctx=", &e->ctx)))
		return false;
	if (job && (!take_u32(&p, "queue=", &e->queue) || !take_u32(&p, "hwq=", &e->hwq) ||
		    !take_u64(&p, "seqno=", &e->seqno)))
		return false;
	if (strlen(p) >= sizeof(e->fields))
		return false;
	strcpy(e->fields, p);
	e->fields[strcspn(e->fields, "\r\n")] = 0;
	switch (e->kind) {
	case KERNEL_START:
		return take_u64(&p, "queued_ns=", &e->queued_ns);
	case KERNEL_COMPLETE:
		return take_s32(&p, "error=", &e->error) &&
		       take_u64(&p, "duration_ns=", &e->duration_ns) &&
		       take_u64(&p, "busy_ns=", &e->busy_ns) && !strncmp(p, "by=", 3);
	case KERNEL_FAULT:
		return !strncmp(p, "va=", 3);
	case KERNEL_BIND:
		return !strncmp(p, "op=", 3);
	case KERNEL_RESET:
		return !strncmp(p, "cause=", 6);
	case KERNEL_SUBMIT:
		return !strncmp(p, "cmd_va=", 7);
	}
	return false;
}

/* Parses the "SECONDS.FRACTION" that ends at @end. */
static bool parse_time(const char *line, const char *end, int64_t *ns)
{
	const char *s = end, *dot = NULL;
	int64_t v = 0, unit = 1000000000;

	while (s > line && (isdigit((unsigned char)s[-1]) || (s[-1] == '.' && !dot)))
		if (*--s == '.')
			dot = s;
	/* The clock starts at 0 with the machine, so times have no more digits than this. */
	if (!dot || dot == s || dot - s > 9 || end - dot < 2 || end - dot > 10 ||
	    (s > line && s[-1] != ' '))
		return false;
	for (; s < dot; s++)
		v = v * 10 + (*s - '0');
	v *= 1000000000;
	for (s = dot + 1; s < end; s++) {
		unit /= 10;
		v += (*s - '0') * unit;
	}
	*ns = v;
	return true;
}

static bool parse_lost(const char *line, uint64_t *lost)
{
	const char *at = strstr(line, " [LOST ");
	char *end;

	if (strncmp(line, "CPU:", 4) || !at)
		return false;
	at += strlen(" [LOST ");
	if (!isdigit((unsigned char)*at))
		return false;
	*lost = strtoull(at, &end, 10);
	return !strncmp(end, " EVENTS]", 8);
}

enum kernel_line kernel_parse(const char *line, struct kernel_event *event, uint64_t *lost)
{
	int64_t ns;

	if (!line[strspn(line, " \t\r")] || *line == '#')
		return KERNEL_LINE_NONE;
	if (parse_lost(line, lost))
		return KERNEL_LINE_LOST;
	for (const char *at = strstr(line, ": vnpu_"); at; at = strstr(at + 1, ": vnpu_")) {
		if (!parse_time(line, at, &ns))
			continue;
		for (size_t i = 0; i < sizeof(kernel_events) / sizeof(kernel_events[0]); i++) {
			size_t len = strlen(kernel_events[i].name);

			if (strncmp(at + 2, kernel_events[i].name, len))
				continue;
			*event = (struct kernel_event){ .kind = kernel_events[i].kind,
							.time_ns = ns };
			if (parse_fields(at + 2 + len, kernel_events[i].job, event))
				return KERNEL_LINE_EVENT;
		}
	}
	return KERNEL_LINE_BAD;
}

static int kernel_add_line(struct kernel_trace *k)
{
	struct kernel_event *grown, event;
	uint64_t lost = 0;

	switch (kernel_parse(k->line, &event, &lost)) {
	case KERNEL_LINE_NONE:
		return 0;
	case KERNEL_LINE_LOST:
		k->lost += lost;
		return 0;
	case KERNEL_LINE_BAD:
		k->bad++;
		return 0;
	case KERNEL_LINE_EVENT:
		break;
	}
	if (k->nr == k->room) {
		k->room = k->room ? 2 * k->room : 4096;
		grown = realloc(k->events, k->room * sizeof(*grown));
		if (!grown)
			return tool_fail("no memory for %zu events of the driver", k->room);
		k->events = grown;
	}
	k->events[k->nr++] = event;
	return 0;
}

int kernel_add_text(struct kernel_trace *k, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] != '\n') {
			/* Too long lines and those with a NUL are not ours and count as bad. */
			if (k->line_len < sizeof(k->line) - 1)
				k->line[k->line_len++] = text[i] ? text[i] : '?';
			continue;
		}
		k->line[k->line_len] = 0;
		k->line_len = 0;
		if (kernel_add_line(k))
			return 1;
	}
	return 0;
}

void kernel_free(struct kernel_trace *k)
{
	free(k->events);
	*k = (struct kernel_trace){ 0 };
}
