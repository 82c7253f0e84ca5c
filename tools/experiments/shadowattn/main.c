// SPDX-License-Identifier: MIT
/* The command line of shadowattn: see shadowattn.h. */
#include <string.h>

#include "shadowattn.h"
#include "tool.h"

static const struct command *const commands[] = { &command_plan };

static const struct program program = {
	.name = "shadowattn",
	.usage = "usage: shadowattn plan [options]\n"
		 "       shadowattn recall [options] MODEL.gguf TEXT\n"
		 "Prints tables of what shadowAttn's method brings: plan on modelled SoCs, with\n"
		 "these options, recall of a model (recall --help).\n",
	/* The engine of the paper's experiments (4); attention is what is planned here. */
	.preset = "llm.npu",
	.shapes = "phonelm-0.5b,phonelm-1.5b,qwen2.5-0.5b,qwen2.5-1.5b",
	.shapes_doc = "shapes of share/shapes (default: the paper's heads and dimensions)",
	.profiles = "sd8gen3",
	.tokens = "2048",
	.chunk = 256,
	.cores = LLM_CORES_MIDDLE,
	.commands = commands,
	.n_commands = sizeof(commands) / sizeof(commands[0]),
};

int main(int argc, char **argv)
{
	tool_begin(program.name);
	if (argc > 1 && !strcmp(argv[1], "recall"))
		return recall_main(argc - 1, argv + 1);
	return program_run(&program, argc, argv);
}
