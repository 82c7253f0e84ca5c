/* SPDX-License-Identifier: MIT */
/*
 * Timelines: passes of sessions in Chrome's trace event format, which Perfetto's UI and
 * chrome://tracing open.
 *
 * A session is a process of the trace, a lane a thread. A task is a slice of the trace with its
 * chunk, its layer and the time that it was ready before it began; the time to start it is a slice
 * inside. A dependency between lanes is a flow. Of a cold start, counters show the bytes of weights
 * that were read, and those in memory, beside the KV cache's and the activations' in use.
 */
#ifndef TIMELINE_H
#define TIMELINE_H

#include "llm.h"

struct timeline;

/* NULL after a message. */
struct timeline *timeline_open(const char *path);
/* Adds what @session evaluates from now on to the process @name, with times of the engine's clock
 * (CLOCK_MONOTONIC for the wall clock). Consecutive sessions of one @name share a process. The
 * timeline must outlive the session. 0, or 1 after a message. */
int timeline_listen(struct timeline *t, const char *name, struct llm_session *session);
/* 0, or 1 after a message, also if a pass could not be added. */
int timeline_close(struct timeline *t);

#endif /* TIMELINE_H */
