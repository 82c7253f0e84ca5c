// SPDX-License-Identifier: MIT
/* npu-trace: a timeline of a command's use of libnpu and the driver. */
#define _GNU_SOURCE
#include "npu-trace.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "npu_json.h"
#include "tool.h"

/* Interval for reading the driver's events */
#define KERNEL_READ_MS 100

static const char usage[] =
	"usage: npu-trace -o FILE [-k auto|yes|no] [--stats] -- COMMAND [ARGS]\n"
	"\n"
	"Runs COMMAND and writes a timeline of its use of vnpu devices, as Chrome's trace\n"
	"events: open FILE in https://ui.perfetto.dev or in chrome://tracing.\n"
	"\n"
	"  -o, --output FILE   the timeline, a regular file\n"
	"  -k, --kernel WHEN   record the driver's tracepoints too: yes, no, or auto (default),\n"
	"                      if they exist and are permitted\n"
	"      --stats         print jobs and percentiles of their times per queue on stderr\n"
	"  -h, --help, --version\n"
	"\n"
	"The exit status is COMMAND's.\n";

enum kernel_when { KERNEL_AUTO, KERNEL_YES, KERNEL_NO };

struct options {
	const char *output;
	enum kernel_when kernel;
	bool stats;
	char **command;
};

struct session {
	const struct options *opts;
	char *path; /* absolute, as the command may change its working directory */
	struct tracefs tracefs;
	bool recording; /* the driver's events */
	bool failed; /* reading them failed */
	char why[256]; /* why they are not recorded */
	struct kernel_trace kernel;
	struct doc doc;
};

static int parse_kernel(const char *s, enum kernel_when *when)
{
	static const char *const names[] = { "auto", "yes", "no" };

	for (unsigned int i = 0; i < 3; i++) {
		if (!strcmp(s, names[i])) {
			*when = i;
			return 0;
		}
	}
	return tool_usage("--kernel: '%s' is none of auto, yes, no", s);
}

/* ---- before the command ---- */

static int session_create_file(struct session *s)
{
	int fd = open(s->opts->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666),
	    ret = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		ret = tool_fail("%s: %s", s->opts->output, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		ret = tool_fail("%s: the timeline must be a regular file", s->opts->output);
	else if (write(fd, "[\n", 2) != 2)
		ret = tool_fail("%s: %s", s->opts->output, strerror(errno));
	if (fd >= 0)
		close(fd);
	if (ret)
		return ret;
	s->path = realpath(s->opts->output, NULL);
	return s->path ? 0 : tool_fail("%s: %s", s->opts->output, strerror(errno));
}

static int session_begin(struct session *s)
{
	s->tracefs.pipe = -1;
	if (s->opts->kernel == KERNEL_NO)
		snprintf(s->why, sizeof(s->why), "not asked for");
	else
		s->recording = !tracefs_begin(&s->tracefs, s->why, sizeof(s->why));
	if (s->opts->kernel == KERNEL_YES && !s->recording)
		return tool_fail("--kernel yes: %s", s->why);
	return session_create_file(s);
}

static void session_tick(void *ud)
{
	struct session *s = ud;

	/* Prints one message only. */
	if (!s->failed && tracefs_read(&s->tracefs, &s->kernel))
		s->failed = true;
}

/* ---- after the command ---- */

/* The members of otherData. */
static char *session_about(const struct session *s)
{
	size_t room = 1, len = 0;
	char why[NPU_JSON_TEXT_SIZE(sizeof(s->why))], *command, *about;

	for (char **arg = s->opts->command; *arg; arg++)
		room += NPU_JSON_TEXT_SIZE(strlen(*arg));
	command = malloc(room);
	if (!command)
		return NULL;
	for (char **arg = s->opts->command; *arg; arg++) {
		if (len)
			command[len++] = ' ';
		len += npu_json_text(command + len, room - len, *arg);
	}
	npu_json_text(why, sizeof(why), s->recording ? "recorded" : s->why);
	if (asprintf(&about,
		     "\"version\":\"npu-trace " VNPU_VERSION
		     "\",\"clock\":\"CLOCK_MONOTONIC\",\"command\":\"%s\",\"kernel\":\"%s\","
		     "\"lost_kernel_events\":%llu,\"bad_kernel_lines\":%llu,\"bad_lines\":%llu",
		     command, why, (unsigned long long)s->kernel.lost,
		     (unsigned long long)s->kernel.bad, (unsigned long long)s->doc.bad) < 0)
		about = NULL;
	free(command);
	return about;
}

/* A file beside the output, for mkostemp(); its name does not become longer with the output's. */
static char *session_new_name(const struct session *s)
{
	const char *slash = strrchr(s->path, '/');
	char *new;

	if (asprintf(&new, "%.*s.npu-trace-XXXXXX", slash ? (int)(slash + 1 - s->path) : 0,
		     s->path) < 0)
		return NULL;
	return new;
}

/* Writes to a temporary file first: if the disk is full, the file keeps libnpu's raw events, which
 * viewers open too. */
static int session_write(struct session *s)
{
	char *about = session_about(s), *new = about ? session_new_name(s) : NULL;
	struct stat st;
	FILE *f = NULL;
	int fd = -1, err = ENOMEM;

	if (new) {
		fd = mkostemp(new, O_CLOEXEC);
		f = fd < 0 ? NULL : fdopen(fd, "w");
		err = f ? 0 : errno;
	}
	if (f) {
		err = -doc_write(&s->doc, f, about);
		if (!err && (stat(s->path, &st) || fchmod(fd, st.st_mode & 07777)))
			err = errno;
		if (fclose(f) && !err)
			err = errno;
		if (!err && rename(new, s->path))
			err = errno;
	}
	if (err && fd >= 0)
		unlink(new);
	free(new);
	free(about);
	return err ? tool_fail("%s: %s; it holds libnpu's events as they came", s->path,
			       strerror(err))
		   : 0;
}

static void session_summary(const struct session *s)
{
	const struct doc *doc = &s->doc;
	uint64_t dropped = doc->bad + s->kernel.bad + s->kernel.lost;

	fprintf(stderr, "npu-trace: %s: %zu events of %llu processes, %zu jobs", s->opts->output,
		doc->nr_events, (unsigned long long)doc->nr_processes, doc->nr_jobs);
	if (s->recording)
		fprintf(stderr, ", %llu of them and %llu others seen by the driver",
			(unsigned long long)doc->nr_tied,
			(unsigned long long)(doc->nr_kernel_jobs - doc->nr_tied));
	fprintf(stderr, "; %llu dropped\n", (unsigned long long)dropped);
	if (dropped)
		fprintf(stderr,
			"npu-trace: dropped: %llu of libnpu's lines, which are incomplete or have "
			"no beginning, %llu unreadable ones of the driver, %llu events that "
			"overflowed the kernel's buffer\n",
			(unsigned long long)doc->bad, (unsigned long long)s->kernel.bad,
			(unsigned long long)s->kernel.lost);
	if (!s->recording && s->opts->kernel == KERNEL_AUTO)
		fprintf(stderr, "npu-trace: without the driver's events: %s\n", s->why);
}

static int session_end(struct session *s)
{
	int ret = s->failed;

	if (s->recording)
		ret |= tracefs_end(&s->tracefs, &s->kernel);
	if (doc_read(&s->doc, s->path) || doc_finish(&s->doc) ||
	    doc_add_kernel(&s->doc, &s->kernel) || session_write(s))
		return 1;
	session_summary(s);
	if (s->opts->stats)
		ret |= doc_print_stats(&s->doc, stderr);
	return ret;
}

/* Ends this process in the same way as the command. */
static int die_like(int status)
{
	struct rlimit no_core = { 0 };

	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	setrlimit(RLIMIT_CORE, &no_core);
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}

static int session_run(struct session *s)
{
	int status = 0, err = 0, ret = session_begin(s);

	if (!ret) {
		err = run_command(s->opts->command, s->path, s->recording ? KERNEL_READ_MS : 0,
				  session_tick, s, &status);
		ret = session_end(s);
	} else if (s->recording) {
		tracefs_end(&s->tracefs, &s->kernel);
	}
	doc_free(&s->doc);
	kernel_free(&s->kernel);
	free(s->path);
	/* A failure of the command takes precedence over one of its trace. */
	if (err)
		return err;
	return status ? die_like(status) : ret;
}

int main(int argc, char **argv)
{
	static const struct option longopts[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "kernel", required_argument, NULL, 'k' },
		{ "stats", no_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ 0 },
	};
	struct options opts = { 0 };
	struct session session = { .opts = &opts };
	int c, ret;

	tool_begin("npu-trace");
	/* "+": arguments after COMMAND are its own. */
	while ((c = getopt_long(argc, argv, "+:ho:k:", longopts, NULL)) != -1) {
		switch (c) {
		case 'h':
			fputs(usage, stdout);
			return tool_finish(0);
		case 'v':
			printf("npu-trace %s (%s)\n", VNPU_VERSION, tool_build_commit);
			return tool_finish(0);
		case 'o':
			opts.output = optarg;
			break;
		case 'k':
			ret = parse_kernel(optarg, &opts.kernel);
			if (ret)
				return ret;
			break;
		case 's':
			opts.stats = true;
			break;
		default:
			return tool_bad_option(c, argv, longopts);
		}
	}
	if (!opts.output)
		return tool_usage("no file for the timeline: give one with -o FILE");
	if (optind == argc)
		return tool_usage("no command: npu-trace -o FILE -- COMMAND [ARGS]");
	opts.command = argv + optind;
	return session_run(&session);
}
