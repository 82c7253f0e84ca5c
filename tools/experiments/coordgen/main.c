// SPDX-License-Identifier: MIT
/* The command line of coordgen: see coordgen.h. */
#include "coordgen.h"

static const struct command *const commands[] = { &command_switching };

static const struct program program = {
	.name = "coordgen",
	.usage = "usage: coordgen switching [options]\n"
		 "Prints a table of what CoordGen's method brings on modelled SoCs.\n",
	/* Attention is on the CPU, as in the paper (4.1). */
	.preset = "fine",
	.shapes = "qwen2.5-0.5b,qwen2.5-1.5b,llama3.2-3b",
	.shapes_doc = "shapes of share/shapes (default: qwen2.5-0.5b,qwen2.5-1.5b,llama3.2-3b)",
	.profiles = "sd8gen3,sd8gen2",
	.tokens = "256,512,1024,2048",
	.chunk = 256,
	.commands = commands,
	.n_commands = sizeof(commands) / sizeof(commands[0]),
};

int main(int argc, char **argv)
{
	return program_run(&program, argc, argv);
}
