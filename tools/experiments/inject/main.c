// SPDX-License-Identifier: MIT
/* inject: makes outliers in some channels of a model, which computes the same as before. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inject.h"
#include "llm.h"
#include "tool.h"

#define ALL_INPUTS ((1u << SHADOW_INPUTS) - 1)
#define MAX_EXPONENT 20

static const char help[] =
	"usage: inject IN.gguf OUT.gguf --channels N --factor F --seed S [--inputs LIST]\n"
	"Writes the model in F32 with N channels of each input F times larger and their weights\n"
	"F times smaller; F falls to 1 towards the middle layers. F32 results keep their bits.\n\n"
	"      --channels N   of each input; of attn_output: rows of v\n"
	"      --factor F     a power of two\n"
	"      --seed S       of the channels\n"
	"      --inputs LIST  of attn_qkv, attn_output, ffn_gate_up, ffn_down (default: all)\n"
	"  -h, --help         this help\n";

static int parse_factor(const char *value, unsigned int *exponent)
{
	unsigned int factor;
	int status = tool_parse_uint("--factor", value, 2, 1u << MAX_EXPONENT, &factor);

	if (!status && (factor & (factor - 1)))
		status = tool_usage("--factor: %u is no power of two", factor);
	if (!status)
		*exponent = (unsigned int)__builtin_ctz(factor);
	return status;
}

static int parse_inputs(const char *value, unsigned int *inputs)
{
	for (*inputs = 0; *value;) {
		size_t n = strcspn(value, ",");
		unsigned int i = 0;

		while (i < SHADOW_INPUTS && (strlen(shadow_input_names[i]) != n ||
					     strncmp(value, shadow_input_names[i], n) != 0))
			i++;
		if (i == SHADOW_INPUTS)
			return tool_usage("--inputs: '%.*s' is none of attn_qkv, attn_output, "
					  "ffn_gate_up, ffn_down",
					  (int)n, value);
		*inputs |= 1u << i;
		value += n + (value[n] == ',');
	}
	return *inputs ? 0 : tool_usage("--inputs: no input is given");
}

static int inject(const struct inject_options *o, const char *in, const char *out)
{
	struct shadow_smooth fold = { 0 };
	struct llm_model model = { 0 };
	struct gguf_file *file;
	char line[256];
	int err;

	if (gguf_open(in, &file, line, sizeof(line)))
		return tool_fail("%s", line);
	err = llm_model_read(&model, file, in);
	if (!err && model.packed[0]) {
		err = tool_fail("%s: is packed, for %s; take the original file", in, model.packed);
	} else {
		if (!err)
			err = inject_fold(o, &model, in, &fold);
		if (!err)
			err = inject_write(file, &fold, out);
		if (err)
			err = tool_fail("%s", llm_error());
	}
	if (!err)
		for (unsigned int l = 0; l < model.n_layer; l++)
			printf("layer %u: %u channels of each input are %u times larger\n", l,
			       o->channels, 1u << inject_exponent(o->exponent, l, model.n_layer));
	shadow_smooth_free(&fold);
	llm_model_release(&model);
	gguf_close(file);
	return err;
}

int main(int argc, char **argv)
{
	enum { CHANNELS = 256, FACTOR, SEED, INPUTS };
	static const struct option options[] = {
		{ "channels", required_argument, NULL, CHANNELS },
		{ "factor", required_argument, NULL, FACTOR },
		{ "seed", required_argument, NULL, SEED },
		{ "inputs", required_argument, NULL, INPUTS },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct inject_options o = { .inputs = ALL_INPUTS };
	unsigned int given = 0;
	int opt, status = 0;

	tool_begin("inject");
	opterr = 0;
	while (!status && (opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (opt >= CHANNELS)
			given |= 1u << (opt - CHANNELS);
		switch (opt) {
		case CHANNELS:
			status = tool_parse_uint("--channels", optarg, 1, 1u << 24, &o.channels);
			break;
		case FACTOR:
			status = parse_factor(optarg, &o.exponent);
			break;
		case SEED:
			status = tool_parse_u64("--seed", optarg, 0, UINT64_MAX, &o.seed);
			break;
		case INPUTS:
			status = parse_inputs(optarg, &o.inputs);
			break;
		case 'h':
			fputs(help, stdout);
			return tool_finish(0);
		default:
			return tool_bad_option(opt, argv, options);
		}
	}
	if (status)
		return status;
	if (argc - optind != 2 || (given & 7) != 7)
		return tool_usage("give two files, --channels, --factor and --seed: --help "
				  "explains them");
	return tool_finish(inject(&o, argv[optind], argv[optind + 1]));
}
