// SPDX-License-Identifier: MIT
/* npuc: compiles graphs in text form; disassembles and describes compiled ones. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npu_graph.h"
#include "tool.h"

static const char usage[] =
	"usage: npuc build GRAPH.txt -o GRAPH.elf     compile a graph (\"-\" reads stdin)\n"
	"       npuc dis GRAPH.elf                    print its symbols, params and commands\n"
	"       npuc info GRAPH.elf                   print its sizes and what one run costs\n"
	"       npuc isa                              print the operations of the instruction set\n"
	"       npuc --help | --version\n"
	"\n"
	"  --profile NAME    build: predict one run's device time on that SoC's NPU, for info to "
	"show;\n"
	"                    dis: show that of each command. A name in share/profiles, or a file\n"
	"\n"
	"A graph has one statement per line; # begins a comment. Tensors are [rows][cols].\n"
	"\n";

static int write_file(const char *path, const void *data, size_t bytes)
{
	FILE *f = fopen(path, "wb");
	size_t n;

	if (!f)
		return tool_fail("%s: %m", path);
	n = fwrite(data, 1, bytes, f);
	if (fclose(f) || n != bytes)
		return tool_fail("%s: cannot write %zu bytes: %m", path, bytes);
	return 0;
}

static int build(const char *in, const char *out, const char *profile)
{
	struct npu_graph *g;
	size_t bytes;
	void *image;
	char *text;
	int ret;

	text = tool_read_file(in, &bytes);
	if (!text)
		return 1;
	if (strlen(text) != bytes) {
		free(text);
		return tool_fail("%s: not a text file: it has a NUL byte", in);
	}
	g = npu_graph_parse(in, text);
	free(text);
	if (!g)
		return tool_fail("%s", npu_error());
	if (profile && npu_graph_predict(g, profile)) {
		ret = tool_fail("%s", npu_error());
	} else if (npu_graph_compile(g, &image, &bytes)) {
		ret = tool_fail("%s: %s", in, npu_error());
	} else {
		ret = write_file(out, image, bytes);
		free(image);
	}
	npu_graph_free(g);
	return ret;
}

static int dis(const char *path, const void *image, size_t bytes, const char *profile)
{
	if (npu_image_disassemble(image, bytes, profile, stdout))
		return tool_fail("%s: %s", path, npu_error());
	return 0;
}

static int info(const char *path, const void *image, size_t bytes, const char *profile)
{
	struct npu_image_info i;

	if (npu_image_info(image, bytes, &i))
		return tool_fail("%s: %s", path, npu_error());
	printf("graph         %s\n", i.name);
	printf("isa           %u.%u\n", i.isa_version >> 16, i.isa_version & 0xffff);
	printf("commands      %u in %" PRIu64 " bytes\n", i.nr_cmds, i.cmd_bytes);
	printf("symbols       %u\n", i.nr_symbols);
	printf("params        %u\n", i.nr_params);
	printf("constants     %" PRIu64 " bytes\n", i.const_bytes);
	printf("scratch       %" PRIu64 " bytes\n", i.scratch_bytes);
	printf("one run       %" PRIu64 " multiply-accumulates, %" PRIu64 " bytes moved\n", i.macs,
	       i.bytes_moved);
	if (i.profile[0])
		printf("device time   %" PRIu64 " ns, %" PRIu64 " cycles on %s\n", i.device_ns,
		       i.device_cycles, i.profile);
	return 0;
}

/* Reads an image and prints it with @fn. */
static int look(const char *path, const char *profile,
		int (*fn)(const char *path, const void *image, size_t bytes, const char *profile))
{
	size_t bytes;
	char *image = tool_read_file(path, &bytes);
	int ret;

	if (!image)
		return 1;
	ret = fn(path, image, bytes, profile);
	free(image);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "profile", required_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ 0 },
	};
	const char *out = NULL, *profile = NULL, *verb, *in;
	int c;

	tool_begin("npuc");
	while ((c = getopt_long(argc, argv, ":ho:", options, NULL)) != -1) {
		switch (c) {
		case 'o':
			out = optarg;
			break;
		case 'p':
			profile = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			npu_graph_syntax(stdout);
			return tool_finish(0);
		case 'v':
			printf("npuc %s (%s)\n", VNPU_VERSION, tool_build_commit);
			return tool_finish(0);
		default:
			return tool_bad_option(c, argv, options);
		}
	}
	if (argc - optind == 1 && !strcmp(argv[optind], "isa") && !out && !profile)
		return tool_finish(npu_isa_print(stdout) ? tool_fail("%s", npu_error()) : 0);
	if (argc - optind != 2)
		return tool_usage("want build, dis or info and one file, or isa; see npuc --help");
	verb = argv[optind];
	in = argv[optind + 1];
	if (!strcmp(verb, "build"))
		return out ? tool_finish(build(in, out, profile))
			   : tool_usage("build needs -o GRAPH.elf");
	if (out)
		return tool_usage("-o goes with build only");
	if (!strcmp(verb, "dis"))
		return tool_finish(look(in, profile, dis));
	if (!strcmp(verb, "info"))
		return profile ? tool_usage("--profile goes with build and dis only")
			       : tool_finish(look(in, NULL, info));
	return tool_usage("'%s': want build, dis or info", verb);
}
