/* SPDX-License-Identifier: MIT */
/*
 * Timelines: runs of the scheduler as Chrome's trace event format, which Perfetto's UI
 * and chrome://tracing open.
 *
 * A run is a process, a lane a thread. A task is a slice with its chunk, layer and how long it was
 * ready before it began; what starting it took is a slice of its own inside. A result that crosses
 * lanes is a flow from one to the other.
 */
#ifndef TIMELINE_H
#define TIMELINE_H

#include "llm.h"

struct timeline;

/* NULL after a message. */
struct timeline *timeline_open(const char *path);
/* Adds what @session evaluates from now on, under @name, at the time of the engine's clock; on the
 * wall clock that is CLOCK_MONOTONIC. Runs of the same @name follow one another in one process. The
 * timeline must outlive the session. 0, or 1 after a message. */
int timeline_listen(struct timeline *t, const char *name, struct llm_session *session);
/* 0, or 1 after a message: also if any of the runs could not be added. */
int timeline_close(struct timeline *t);

#endif /* TIMELINE_H */
