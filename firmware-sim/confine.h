/* SPDX-License-Identifier: MIT */
/*
 * What vnpu-fw gives up before it serves anybody. A client's command stream is hostile input to
 * code that is fast rather than simple, so the process that runs it keeps what serving needs and
 * nothing else. Both steps are for good.
 */
#ifndef CONFINE_H
#define CONFINE_H

#include <stddef.h>

/*
 * Becomes @user with the user's groups (NULL: stays who it is), without any capability, without a
 * way to get one back (no_new_privs), and not dumpable: no core file with clients' memory, no
 * debugger of the same user. Writes nowhere. Before the first thread. 0; or -1, and @why is one
 * line.
 */
int confine_privileges(const char *user, char *why, size_t why_bytes);

/*
 * From here on the process may make only the system calls that serving a device takes; any other
 * one kills it. What it opens it has to open before. In a build with AddressSanitizer, whose
 * runtime makes calls of its own, this does nothing. Threads inherit it. 0; or -1, and @why is one
 * line.
 */
int confine_calls(char *why, size_t why_bytes);

#endif /* CONFINE_H */
