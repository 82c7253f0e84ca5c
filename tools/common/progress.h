/* SPDX-License-Identifier: MIT */
/*
 * A progress bar on stderr: one line that is drawn over and removed at the end. Nothing is written
 * unless stderr is a terminal.
 */
#ifndef PROGRESS_H
#define PROGRESS_H

/* Shows @fraction (0..1) of @what as done. Cheap to call often. */
void progress_show(double fraction, const char *what);
/* Removes the bar. */
void progress_clear(void);
/* As struct llm_options wants it; stops the load once progress_stop() was called. */
int progress_load(void *ud, double fraction, const char *what);
/* From a signal handler: progress_load() asks to stop from now on. */
void progress_stop(void);

#endif /* PROGRESS_H */
