/* SPDX-License-Identifier: MIT */
/*
 * Drops what vnpu-fw does not need before it serves clients. A client's command stream is hostile
 * input to code that is written for speed, so the process that runs it keeps only what serving
 * needs. Both steps are irrevocable.
 */
#ifndef CONFINE_H
#define CONFINE_H

#include <stddef.h>

/*
 * Becomes @user with the user's groups (NULL: stays the same user), without capabilities, with
 * no_new_privs so that none can be regained, and not dumpable: no core file with clients' memory,
 * no debugger of the same user. Writes to no file. Call it before starting threads. 0; or -1 with
 * one line in @why.
 */
int confine_privileges(const char *user, char *why, size_t why_bytes);

/*
 * Restricts the process to the system calls that serving a device needs; any other kills it. Open
 * files before. Threads inherit the restriction. Does nothing in a build with AddressSanitizer,
 * whose runtime makes calls of its own. 0; or -1 with one line in @why.
 */
int confine_calls(char *why, size_t why_bytes);

#endif /* CONFINE_H */
