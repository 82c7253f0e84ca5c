// SPDX-License-Identifier: MIT
/* The command line of llmnpu: see llmnpu.h. */
#include "llmnpu.h"

static const struct command *const commands[] = { &command_subgraphs, &command_fits,
						  &command_chunks, &command_steps,
						  &command_merging };

static const struct program program = {
	.name = "llmnpu",
	.usage = "usage: llmnpu subgraphs|fits|chunks|steps|merging [options]\n"
		 "Prints a table of what llm.npu's method brings on modelled SoCs.\n",
	.preset = "llm.npu",
	.shapes = "qwen1.5-1.8b,gemma-2b,phi2-2.7b,llama2-7b,mistral-7b",
	.shapes_doc = "shapes of share/shapes (default: the paper's five)",
	.profiles = "sd8gen3",
	.tokens = "1024",
	/* llm.npu 4 */
	.chunk = 256,
	.commands = commands,
	.n_commands = sizeof(commands) / sizeof(commands[0]),
};

int main(int argc, char **argv)
{
	return program_run(&program, argc, argv);
}
