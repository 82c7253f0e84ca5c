/* SPDX-License-Identifier: MIT */
/* Ctrl-C. */
#ifndef INTERRUPT_H
#define INTERRUPT_H

#include <stdbool.h>

/* From now on the next Ctrl-C is noted, and stops a load; the one after it ends the program. A
 * signal that is ignored, as under nohup and in background jobs, stays so. */
void interrupt_watch(void);
bool interrupt_seen(void);
/* Waits until @fd can be read, or until there is a Ctrl-C: false. */
bool interrupt_wait(int fd);
/* The one that was seen has done its work: watches for the next. */
void interrupt_again(void);
/* Ends by the signal after all if one was seen, so that the shell sees it. */
void interrupt_end(void);

#endif /* INTERRUPT_H */
