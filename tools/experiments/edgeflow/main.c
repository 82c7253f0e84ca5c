// SPDX-License-Identifier: MIT
/* The command line of edgeflow: see edgeflow.h. */
#include "edgeflow.h"

static const struct command *const commands[] = { &command_pipeline, &command_start };

static const struct program program = {
	.name = "edgeflow",
	.usage = "usage: edgeflow pipeline | start [options]\n"
		 "Prints a table of what EdgeFlow's method brings on modelled SoCs.\n",
	.preset = "edgeflow",
	.shapes = "llama3-8b,qwen1.5-1.8b",
	.shapes_doc = "shapes of share/shapes (default: llama3-8b,qwen1.5-1.8b)",
	.profiles = "sd8elite,sd8gen3",
	.tokens = "256,512,1024",
	.bits = "4-7",
	/* Of figure 5's 256 tokens two chunks overlap. */
	.chunk = 128,
	.commands = commands,
	.n_commands = sizeof(commands) / sizeof(commands[0]),
};

int main(int argc, char **argv)
{
	return program_run(&program, argc, argv);
}
