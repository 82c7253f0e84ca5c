// SPDX-License-Identifier: MIT
/* Errors, numbers and files of the command-line tools: see tool.h. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "progress.h"
#include "tool.h"

const char *tool_name = "vnpu";

void tool_begin(const char *name)
{
	tool_name = name;
	/* open() takes the lowest free number. To use the stream is still an error. */
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
			return;
}

static void tool_say(const char *fmt, va_list ap)
{
	progress_clear();
	/* Output before the failure comes first if both go to one file. */
	fflush(stdout);
	flockfile(stderr);
	fprintf(stderr, "%s: ", tool_name);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	funlockfile(stderr);
}

int tool_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tool_say(fmt, ap);
	va_end(ap);
	return 1;
}

int tool_usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tool_say(fmt, ap);
	va_end(ap);
	return 2;
}

int tool_finish(int status)
{
	const char *why = NULL;

	if (ferror(stdout))
		why = "a write failed";
	/* close() reports errors of network file systems. */
	if (fflush(stdout) || close(STDOUT_FILENO))
		why = strerror(errno);
	/* A tool that has failed already has printed its message. */
	if (why && !status)
		status = tool_fail("stdout: %s: the output is not complete", why);
	return status;
}

int tool_parse_u64(const char *what, const char *s, uint64_t min, uint64_t max, uint64_t *value)
{
	unsigned long long v;
	char *end;

	errno = 0;
	v = strtoull(s, &end, 10);
	if (*s < '0' || *s > '9' || *end || errno || v < min || v > max)
		return tool_usage("%s: '%s' is not a number from %llu to %llu", what, s,
				  (unsigned long long)min, (unsigned long long)max);
	*value = v;
	return 0;
}

int tool_parse_uint(const char *what, const char *s, unsigned int min, unsigned int max,
		    unsigned int *value)
{
	uint64_t v;
	int err = tool_parse_u64(what, s, min, max, &v);

	if (!err)
		*value = (unsigned int)v;
	return err;
}

int tool_parse_float(const char *what, const char *s, float min, float max, float *value)
{
	char *end;
	float v = strtof(s, &end);

	/* A NaN fails the comparison. */
	if (end == s || *end || !(v >= min && v <= max))
		return tool_usage("%s: '%s' is not a number from %g to %g", what, s, min, max);
	*value = v;
	return 0;
}

int tool_parse_double(const char *what, const char *s, double min, double max, double *value)
{
	char *end;
	double v = strtod(s, &end);

	if (end == s || *end || !(v >= min && v <= max))
		return tool_usage("%s: '%s' is not a number from %g to %g", what, s, min, max);
	*value = v;
	return 0;
}

int tool_parse_seed(const char *what, const char *s, uint64_t *seed)
{
	unsigned long long v;
	char *end;

	if (!strcmp(s, "-1")) {
		if (getrandom(seed, sizeof(*seed), 0) != sizeof(*seed))
			return tool_fail("%s: no random number: %s", what, strerror(errno));
		fprintf(stderr, "%s: seed %" PRIu64 "\n", tool_name, *seed);
		return 0;
	}
	errno = 0;
	v = strtoull(s, &end, 10);
	if (*s < '0' || *s > '9' || *end || errno)
		return tool_usage("%s: '%s' is not a number from -1, which draws one, to %" PRIu64,
				  what, s, UINT64_MAX);
	*seed = v;
	return 0;
}

/* The most that a file without a size gives: a device or a pipe may have no end. */
#define TOOL_STREAM_MIB 1024u

/* Grows *@buf of *@room bytes, of which @n are used, or prints why not. */
static bool tool_read_more(const char *path, bool endless, size_t n, char **buf, size_t *room)
{
	char *grown;

	if (*room - n >= 2)
		return true;
	if (endless && *room >= (size_t)TOOL_STREAM_MIB << 20) {
		tool_fail("%s: more than %u MiB, and not a regular file", path, TOOL_STREAM_MIB);
		return false;
	}
	*room = *room ? 2 * *room : 65536;
	grown = realloc(*buf, *room);
	if (grown)
		*buf = grown;
	else
		tool_fail("%s: no memory for %zu bytes", path, *room);
	return grown;
}

/* NULL after a message with @path. */
static char *tool_read_stream(const char *path, FILE *f, size_t *bytes)
{
	struct stat st;
	bool endless = fstat(fileno(f), &st) || !S_ISREG(st.st_mode), good;
	size_t n = 0, room = 0, got = 1;
	char *buf = NULL;

	while ((good = tool_read_more(path, endless, n, &buf, &room)) && got) {
		got = fread(buf + n, 1, room - n - 1, f);
		n += got;
	}
	if (good && ferror(f))
		good = !tool_fail("%s: %s", path, strerror(errno));
	if (!good) {
		free(buf);
		return NULL;
	}
	buf[n] = '\0';
	*bytes = n;
	return buf;
}

char *tool_read_file(const char *path, size_t *bytes)
{
	FILE *f;
	char *text;

	if (!strcmp(path, "-"))
		return tool_read_stream("stdin", stdin, bytes);
	f = fopen(path, "rbe");
	if (!f) {
		tool_fail("%s: %s", path, strerror(errno));
		return NULL;
	}
	text = tool_read_stream(path, f, bytes);
	fclose(f);
	return text;
}

uint64_t tool_peak_memory(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long kib = 0;
	char line[256];

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmHWM: %llu kB", &kib) == 1)
			break;
	fclose(f);
	return kib * 1024;
}

uint64_t tool_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

const char *tool_default_model(void)
{
	/* From build/bin, from build/san/bin, and from an installed PREFIX/bin. */
	static const char *const places[] = {
		"../../share/models/docs6m/docs6m-q8_0.gguf",
		"../../../share/models/docs6m/docs6m-q8_0.gguf",
		"../share/models/docs6m/docs6m-q8_0.gguf",
		"../share/vnpu/models/docs6m/docs6m-q8_0.gguf",
	};
	static char path[4096 + 64], found[4096];
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (n <= 0)
		return NULL;
	exe[n] = '\0';
	slash = strrchr(exe, '/');
	if (!slash)
		return NULL;
	*slash = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if ((size_t)snprintf(path, sizeof(path), "%s/%s", exe, places[i]) >= sizeof(path))
			continue;
		if (!access(path, R_OK))
			return realpath(path, found) ? found : path;
	}
	return NULL;
}

/* Whether @arg is --NAME=VALUE of a long option with the code @code; names may be shortened. */
static bool is_valued(const char *arg, const struct option *longs, int code)
{
	size_t n = strcspn(arg, "=");

	if (strncmp(arg, "--", 2) != 0 || !arg[n])
		return false;
	for (; longs->name; longs++)
		if (longs->val == code && !strncmp(longs->name, arg + 2, n - 2))
			return true;
	return false;
}

int tool_bad_option(int c, char **argv, const struct option *longs)
{
	const char *arg = argv[optind - 1];

	if (c == ':')
		return tool_usage("%s needs a value: --help explains it", arg);
	/*
	 * optopt is an unknown letter, or the code of a long option with a value that it does not
	 * take.
	 */
	if (optopt && is_valued(arg, longs, optopt))
		return tool_usage("'%s': this option takes no value", arg);
	if (optopt)
		return tool_usage("unknown option '-%c': --help lists the options", optopt);
	return tool_usage("unknown option '%s': --help lists the options", arg);
}
