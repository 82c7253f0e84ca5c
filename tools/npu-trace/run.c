// SPDX-License-Identifier: MIT
/* Running the command: its signals, and its end. */
#define _GNU_SOURCE
#include "npu-trace.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool.h"

static const int forwarded[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2 };

/* Runs in the child. A failure writes errno to @report, which success closes. */
static void __attribute__((noreturn))
become(char **argv, const char *path, const sigset_t *mask, int report)
{
	int err;

	sigprocmask(SIG_SETMASK, mask, NULL);
	if (!setenv("NPU_TRACE", path, 1))
		execvp(argv[0], argv);
	err = errno;
	if (write(report, &err, sizeof(err)) < 0)
		_exit(126);
	_exit(126);
}

static void pass_signals(int fd, pid_t child)
{
	struct signalfd_siginfo info;

	while (read(fd, &info, sizeof(info)) == sizeof(info))
		/* The terminal sends its signals to the command too. */
		if (info.ssi_signo != SIGCHLD && info.ssi_code != SI_KERNEL)
			kill(child, (int)info.ssi_signo);
}

static void attend(int fd, pid_t child, int tick_ms, void (*tick)(void *ud), void *ud, int *status)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (waitpid(child, status, WNOHANG) == 0) {
		poll(&p, 1, tick_ms ? tick_ms : -1);
		pass_signals(fd, child);
		if (tick_ms)
			tick(ud);
	}
}

int run_command(char **argv, const char *path, int tick_ms, void (*tick)(void *ud), void *ud,
		int *status)
{
	struct signalfd_siginfo info;
	int report[2], fd, err = 0;
	sigset_t mask, before;
	pid_t child;

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
		sigaddset(&mask, forwarded[i]);
	/* If SIGCHLD were ignored, waitpid() would find no child. */
	signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_BLOCK, &mask, &before);
	fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0 || pipe2(report, O_CLOEXEC)) {
		tool_fail("%s: %s", argv[0], strerror(errno));
		return 126;
	}
	child = fork();
	if (child < 0) {
		tool_fail("%s: %s", argv[0], strerror(errno));
		return 126;
	}
	if (!child)
		become(argv, path, &before, report[1]);
	close(report[1]);
	if (read(report[0], &err, sizeof(err)) != sizeof(err))
		err = 0;
	close(report[0]);
	attend(fd, child, tick_ms, tick, ud, status);
	/* Drops signals for the command, which must not end this process before it has written. */
	while (read(fd, &info, sizeof(info)) > 0)
		;
	close(fd);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (!err)
		return 0;
	tool_fail("%s: %s", argv[0], strerror(err));
	return err == ENOENT ? 127 : 126;
}
