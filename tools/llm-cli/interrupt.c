// SPDX-License-Identifier: MIT
/* Ctrl-C: see interrupt.h. */
#define _GNU_SOURCE /* pipe2 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "interrupt.h"
#include "progress.h"

static volatile sig_atomic_t seen;
/* The handler writes a byte, which wakes interrupt_wait() whichever thread had the signal. */
static int wake[2] = { -1, -1 };

/*
 * The handler is removed after one signal, so a second Ctrl-C ends the program even within a long
 * evaluation.
 */
static void on_interrupt(int sig)
{
	ssize_t n;

	seen = 1;
	progress_stop();
	n = write(wake[1], "", 1);
	(void)n;
}

void interrupt_watch(void)
{
	struct sigaction sa = { .sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND }, before;

	if (wake[0] < 0 && pipe2(wake, O_CLOEXEC | O_NONBLOCK))
		return;
	if (!sigaction(SIGINT, NULL, &before) && before.sa_handler != SIG_IGN)
		sigaction(SIGINT, &sa, NULL);
}

bool interrupt_seen(void)
{
	return seen;
}

bool interrupt_wait(int fd)
{
	struct pollfd fds[] = { { .fd = fd, .events = POLLIN },
				{ .fd = wake[0], .events = POLLIN } };

	while (!seen && !fds[0].revents && !fds[1].revents)
		poll(fds, 2, -1);
	return !seen;
}

void interrupt_again(void)
{
	char byte;

	while (read(wake[0], &byte, 1) > 0)
		;
	seen = 0;
	interrupt_watch();
}

void interrupt_end(void)
{
	if (!seen)
		return;
	signal(SIGINT, SIG_DFL);
	raise(SIGINT);
}
