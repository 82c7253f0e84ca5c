// SPDX-License-Identifier: MIT
/* npu-top: shows which programs use the accel devices, how busy these are, and their memory. */
#define _GNU_SOURCE
#include "npu-top.h"

#include <errno.h>
#include <getopt.h>
#include <locale.h>
#include <string.h>
#include <time.h>

#include "tool.h"

static const char usage[] =
	"usage: npu-top [--batch|--json] [-n N] [-d SECONDS] [--sort npu|memory|time|pid]\n"
	"\n"
	"Shows accel devices, their clients, utilisation and memory: full screen, or with\n"
	"\n"
	"  -b, --batch        plain text, one table per sample\n"
	"      --json         one JSON object per sample and line\n"
	"  -n, --samples N    end after N samples (default: no limit)\n"
	"  -d, --delay S      seconds between samples, 0.1 to 3600 (default: 1)\n"
	"      --sort KEY     order of the clients: npu (default), memory, time or pid\n"
	"      --sysroot DIR  read DIR/sys and DIR/proc\n"
	"  -h, --help, --version\n"
	"\n"
	"Keys: q quit, s next sort order, p pause, arrows and page keys scroll the clients.\n";

enum mode { MODE_SCREEN, MODE_BATCH, MODE_JSON };

struct options {
	enum mode mode;
	enum top_sort sort;
	uint64_t samples;
	float delay_s;
	const char *root;
};

static int parse_sort(const char *s, enum top_sort *sort)
{
	for (unsigned int i = 0; i < TOP_SORTS; i++) {
		if (!strcmp(s, top_sort_names[i])) {
			*sort = i;
			return 0;
		}
	}
	return tool_usage("--sort: '%s' is none of npu, memory, time, pid", s);
}

static int set_mode(struct options *opts, enum mode mode)
{
	if (opts->mode != MODE_SCREEN && opts->mode != mode)
		return tool_usage("--batch and --json: choose one");
	opts->mode = mode;
	return 0;
}

static int option(struct options *opts, int c, const char *value)
{
	switch (c) {
	case 'b':
		return set_mode(opts, MODE_BATCH);
	case 'j':
		return set_mode(opts, MODE_JSON);
	case 'n':
		return tool_parse_u64("-n", value, 1, 1000000000, &opts->samples);
	case 'd':
		return tool_parse_float("-d", value, 0.1f, 3600, &opts->delay_s);
	case 's':
		return parse_sort(value, &opts->sort);
	default:
		opts->root = value;
		return 0;
	}
}

/* The first sample is not printed; the second one is compared with it. */
static int run_batch(struct top *top, const struct options *opts)
{
	const uint64_t delay_ns = (uint64_t)((double)opts->delay_s * 1e9);

	for (uint64_t n = 0; !opts->samples || n < opts->samples; n++) {
		/* Relative to the last sample: a late one must not shorten the next interval. */
		uint64_t next_ns = top->time_ns + delay_ns;
		struct timespec until = { .tv_sec = (time_t)(next_ns / 1000000000),
					  .tv_nsec = (long)(next_ns % 1000000000) };

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
			;
		if (top_sample(top))
			return 1;
		top_sort(top, opts->sort);
		if (opts->mode == MODE_BATCH)
			top_print_text(stdout, top);
		else if (top_print_json(stdout, top))
			return 1;
		if (ferror(stdout))
			return 0; /* tool_finish() reports it */
	}
	return 0;
}

static int run(const struct options *opts)
{
	struct top top = { .root = opts->root };
	int ret = top_sample(&top);

	if (!ret && !top.nr_devices)
		ret = tool_fail(
			"no device in %s/sys/class/accel: load an accel driver (for a vnpu: "
			"modprobe vnpu, then start vnpu-fw; npu-info --doctor says what is "
			"missing)",
			opts->root);
	if (!ret)
		ret = opts->mode == MODE_SCREEN
			      ? top_screen(&top, opts->sort, (double)opts->delay_s, opts->samples)
			      : run_batch(&top, opts);
	top_free(&top);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct option longopts[] = {
		{ "batch", no_argument, NULL, 'b' },
		{ "json", no_argument, NULL, 'j' },
		{ "samples", required_argument, NULL, 'n' },
		{ "delay", required_argument, NULL, 'd' },
		{ "sort", required_argument, NULL, 's' },
		{ "sysroot", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ 0 },
	};
	struct options opts = { .delay_s = 1, .root = "" };
	int c, ret;

	tool_begin("npu-top");
	setlocale(LC_CTYPE, "");
	while ((c = getopt_long(argc, argv, ":bhn:d:", longopts, NULL)) != -1) {
		switch (c) {
		case 'h':
			fputs(usage, stdout);
			return tool_finish(0);
		case 'v':
			printf("npu-top %s (%s)\n", VNPU_VERSION, tool_build_commit);
			return tool_finish(0);
		case '?':
		case ':':
			return tool_bad_option(c, argv, longopts);
		}
		ret = option(&opts, c, optarg);
		if (ret)
			return ret;
	}
	if (optind < argc)
		return tool_usage("'%s': npu-top takes options only", argv[optind]);
	return tool_finish(run(&opts));
}
