/* SPDX-License-Identifier: MIT */
/*
 * A progress bar on stderr: one line that is redrawn, and removed at the end. Nothing is written
 * unless stderr is a terminal.
 */
#ifndef PROGRESS_H
#define PROGRESS_H

/* Shows @fraction (0..1) of @what as done. Cheap to call often. */
void progress_show(double fraction, const char *what);
/* Removes the bar. */
void progress_clear(void);
/* For llm_options.progress; stops the load after progress_stop(). */
int progress_load(void *ud, double fraction, const char *what);
/* Makes progress_load() stop the load. May be called from a signal handler. */
void progress_stop(void);

#endif /* PROGRESS_H */
