// SPDX-License-Identifier: MIT
/* The command line of shadowattn: see shadowattn.h. */
#include "shadowattn.h"

static const struct command *const commands[] = { &command_plan };

static const struct program program = {
	.name = "shadowattn",
	.usage = "usage: shadowattn plan [options]\n"
		 "Prints a table of what shadowAttn's method brings on modelled SoCs.\n",
	/* The engine of the paper's experiments (4). */
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
	return program_run(&program, argc, argv);
}
