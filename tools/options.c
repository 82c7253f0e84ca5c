// SPDX-License-Identifier: MIT
/* The options that all llm tools share: see options.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "progress.h"
#include "tool.h"

const char engine_options_help[] =
	"  -m, --model FILE            the model, a GGUF file\n"
	"  -t, --threads N             threads of the CPU lane (default: one per CPU)\n"
	"      --transport NAME        auto, drm (/dev/accel) or sim (the device inside the process; default: auto)\n"
	"      --npu-threads N         workers of a sim device (default: one per CPU)\n"
	"      --preset NAME           placement, weights, graphs and partition together: cpu, npu, gpu or fine (that\n"
	"                              placement, the rest by default), hetero-layer or hetero-tensor (layer; w4a16);\n"
	"                              an option after it overrides its part\n"
	"      --placement NAME        fine (INT8 matmuls on the NPU, the rest on the CPU), npu (all on the NPU), cpu,\n"
	"                              gpu (all by OpenCL), layer (products on NPU and GPU, the rest on the GPU) or\n"
	"                              auto (npu, and fine by the virtual clock; the default)\n"
	"      --weights NAME          auto, f32 (as in the file, CPU only), w8a8 (INT8), w4a8 (INT4 weights,\n"
	"                              integer activations) or w4a16 (INT4 weights, float activations; default: auto)\n"
	"      --activations NAME      with w8a8 and w4a8: int8; outliers (int8, with outliers apart for down projections,\n"
	"                              and int16, in two passes, for the output matrix); mixed (int16 for both) or int16;\n"
	"                              default: outliers\n"
	"      --graphs NAME           of prompts: bucketed (a graph for each multiple of 32 tokens) or shared (one,\n"
	"                              which chunks are padded to; default: bucketed)\n"
	"      --partition NAME        with placement layer, how products are cut between GPU and NPU: none, row, sequence,\n"
	"                              multi-sequence, hybrid, auto (default: none)\n"
	"      --kv NAME               KV cache: f16, f32 or q8_0 (INT8 with an F16 scale per 32; default: f16)\n"
	"      --sync NAME             fast (poll the queue's status page) or driver (wait in the driver; default: "
	"fast)\n"
	"      --chunk N               tokens of the largest prefill graph (default: 256; gpu and layer: 2048)\n"
	"      --clock CLOCK           wall, or virtual: what a phone's SoC would take (default: wall)\n"
	"      --profile NAME          that SoC, of share/profiles, or a file (default: sd8gen3);\n"
	"                              implies --clock virtual\n"
	"      --gpu NAME              the OpenCL device, by number or part of its name (default: the first GPU), or\n"
	"                              host: the CPU lane in its place\n"
	"      --gpu-share F           cut products so that the GPU has this share, 0 to 1 (default: the fastest cut)\n"
	"      --cuts-profile NAME     on the wall's clock, the machine that products are cut for (default: host)\n"
	"      --list-devices          list the devices and exit\n"
	"  -h, --help                  this help\n"
	"      --version               the version\n";

static const struct {
	const char *name;
	enum npu_transport transport;
} transports[] = {
	{ "auto", NPU_TRANSPORT_AUTO },
	{ "drm", NPU_TRANSPORT_DRM },
	{ "sim", NPU_TRANSPORT_SIM },
};

static const struct engine_preset presets[] = {
	{ "cpu", LLM_PLACE_CPU, LLM_WEIGHTS_AUTO, LLM_GRAPHS_BUCKETED, LLM_PARTITION_NONE },
	{ "npu", LLM_PLACE_NPU, LLM_WEIGHTS_AUTO, LLM_GRAPHS_BUCKETED, LLM_PARTITION_NONE },
	{ "fine", LLM_PLACE_FINE, LLM_WEIGHTS_AUTO, LLM_GRAPHS_BUCKETED, LLM_PARTITION_NONE },
	{ "gpu", LLM_PLACE_GPU, LLM_WEIGHTS_AUTO, LLM_GRAPHS_BUCKETED, LLM_PARTITION_NONE },
	{ "hetero-layer", LLM_PLACE_LAYER, LLM_WEIGHTS_W4A16, LLM_GRAPHS_PADDED, LLM_PARTITION_NONE },
	{ "hetero-tensor", LLM_PLACE_LAYER, LLM_WEIGHTS_W4A16, LLM_GRAPHS_PIPE, LLM_PARTITION_AUTO },
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

const char *engine_transport_name(enum npu_transport transport)
{
	for (size_t i = 0; i < COUNT(transports); i++)
		if (transports[i].transport == transport)
			return transports[i].name;
	return "unknown";
}

int engine_parse_transport(const char *name, enum npu_transport *transport)
{
	for (size_t i = 0; i < COUNT(transports); i++) {
		if (!strcmp(transports[i].name, name)) {
			*transport = transports[i].transport;
			return 0;
		}
	}
	return tool_usage("--transport: '%s' is none of auto, drm, sim", name);
}

int engine_parse_placement(const char *name, enum llm_placement *placement)
{
	return llm_placement_parse(name, placement) ? tool_usage("--placement: %s", llm_error()) : 0;
}

int engine_parse_weights(const char *name, enum llm_weights *weights)
{
	return llm_weights_parse(name, weights) ? tool_usage("--weights: %s", llm_error()) : 0;
}

int engine_parse_activations(const char *name, enum llm_activations *activations)
{
	return llm_activations_parse(name, activations) ? tool_usage("--activations: %s", llm_error()) : 0;
}

int engine_parse_graphs(const char *name, enum llm_graphs *graphs)
{
	return llm_graphs_parse(name, graphs) ? tool_usage("--graphs: %s", llm_error()) : 0;
}

int engine_parse_partition(const char *name, enum llm_partition *partition)
{
	return llm_partition_parse(name, partition) ? tool_usage("--partition: %s", llm_error()) : 0;
}

int engine_parse_kv(const char *name, enum llm_kv *kv)
{
	return llm_kv_parse(name, kv) ? tool_usage("--kv: %s", llm_error()) : 0;
}

int engine_parse_sync(const char *name, enum llm_sync *sync)
{
	return llm_sync_parse(name, sync) ? tool_usage("--sync: %s", llm_error()) : 0;
}

const struct engine_preset *engine_preset(unsigned int i)
{
	return i < COUNT(presets) ? &presets[i] : NULL;
}

const struct engine_preset *engine_preset_find(const char *name)
{
	for (size_t i = 0; i < COUNT(presets); i++)
		if (!strcmp(presets[i].name, name))
			return &presets[i];
	tool_usage("--preset: '%s' is none of cpu, npu, fine, gpu, hetero-layer, hetero-tensor", name);
	return NULL;
}

int engine_parse_clock(const char *name, const char **profile)
{
	if (!strcmp(name, "wall"))
		*profile = NULL;
	else if (strcmp(name, "virtual"))
		return tool_usage("--clock: '%s' is none of wall, virtual", name);
	else if (!*profile)
		*profile = "sd8gen3";
	return 0;
}

int engine_parse_share(const char *value, float *share)
{
	char *end;
	double v = strtod(value, &end);

	if (*end || end == value || !(v >= 0 && v <= 1))
		return tool_usage("--gpu-share: '%s' is no number from 0 to 1", value);
	*share = (float)v;
	return 0;
}

bool engine_option_is(int c)
{
	switch (c) {
	case 'm':
	case 't':
	case OPT_TRANSPORT:
	case OPT_NPU_THREADS:
	case OPT_PLACEMENT:
	case OPT_WEIGHTS:
	case OPT_ACTIVATIONS:
	case OPT_GRAPHS:
	case OPT_PARTITION:
	case OPT_KV:
	case OPT_SYNC:
	case OPT_PRESET:
	case OPT_CHUNK:
	case OPT_CLOCK:
	case OPT_PROFILE:
	case OPT_GPU:
	case OPT_GPU_SHARE:
	case OPT_CUTS_PROFILE:
		return true;
	}
	return false;
}

int engine_option(struct llm_options *opts, int c, const char *value)
{
	const struct engine_preset *preset;

	switch (c) {
	case 'm':
		opts->model = value;
		return 0;
	case 't':
		return tool_parse_uint("-t", value, 1, ENGINE_MAX_THREADS, &opts->threads);
	case OPT_TRANSPORT:
		return engine_parse_transport(value, &opts->device.transport);
	case OPT_NPU_THREADS:
		return tool_parse_uint("--npu-threads", value, 1, ENGINE_MAX_THREADS, &opts->device.threads);
	case OPT_PLACEMENT:
		return engine_parse_placement(value, &opts->choices.placement);
	case OPT_WEIGHTS:
		return engine_parse_weights(value, &opts->choices.weights);
	case OPT_ACTIVATIONS:
		return engine_parse_activations(value, &opts->choices.activations);
	case OPT_GRAPHS:
		return engine_parse_graphs(value, &opts->choices.graphs);
	case OPT_PARTITION:
		return engine_parse_partition(value, &opts->choices.partition);
	case OPT_KV:
		return engine_parse_kv(value, &opts->choices.kv);
	case OPT_SYNC:
		return engine_parse_sync(value, &opts->choices.sync);
	case OPT_CHUNK:
		return tool_parse_uint("--chunk", value, 1, ENGINE_MAX_CHUNK, &opts->chunk);
	case OPT_CLOCK:
		return engine_parse_clock(value, &opts->profile);
	case OPT_PROFILE:
		opts->profile = value;
		return 0;
	case OPT_GPU:
		opts->gpu = value;
		return 0;
	case OPT_GPU_SHARE:
		return engine_parse_share(value, &opts->gpu_share);
	case OPT_CUTS_PROFILE:
		opts->cuts_profile = value;
		return 0;
	case OPT_PRESET:
		preset = engine_preset_find(value);
		if (!preset)
			return 2;
		opts->choices.placement = preset->placement;
		opts->choices.weights = preset->weights;
		opts->choices.graphs = preset->graphs;
		opts->choices.partition = preset->partition;
		return 0;
	}
	return 0;
}

int engine_open(struct llm_options *opts, struct llm_engine **engine)
{
	int err;

	if (!opts->model)
		return tool_usage("no model: give one with -m FILE");
	opts->progress = progress_load;
	err = llm_engine_open(opts, engine);
	progress_clear();
	return err ? tool_fail("%s", llm_error()) : 0;
}

static int list_device(enum npu_transport transport, const char *path)
{
	struct npu_device_options opts = { .transport = transport, .path = path };
	const struct npu_device_info *info;
	struct npu_device *dev;
	int err = npu_device_open(&opts, &dev);

	if (err) {
		printf("%-9s  not usable: %s\n", engine_transport_name(transport), npu_error());
		return err;
	}
	info = npu_device_info(dev);
	printf("%-9s  %-19s  %s, ISA %u.%u, %.0f MiB at most\n", engine_transport_name(transport),
	       transport == NPU_TRANSPORT_DRM ? info->path : "(in this process)", info->name,
	       info->isa_version >> 16, info->isa_version & 0xffff,
	       (double)info->mem_limit_bytes / (1 << 20));
	npu_device_close(dev);
	return 0;
}

int engine_list_devices(void)
{
	char path[32];
	unsigned int nodes = 0;

	for (unsigned int i = 0; i < 64; i++) {
		snprintf(path, sizeof(path), "/dev/accel/accel%u", i);
		if (access(path, F_OK))
			continue;
		nodes++;
		/* Other vendors' accelerators are here too: the line says what keeps each node from being used. */
		list_device(NPU_TRANSPORT_DRM, path);
	}
	if (!nodes)
		list_device(NPU_TRANSPORT_DRM, NULL);
	return list_device(NPU_TRANSPORT_SIM, NULL) ? 1 : 0;
}

int options_parse(const struct option_set *set, int argc, char **argv, void *ud, int *status)
{
	int c;

	*status = 0;
	while ((c = set->next(argc, argv, set->shortopts, set->longopts, NULL)) != -1) {
		switch (c) {
		case '?':
		case ':':
			*status = tool_bad_option(c, argv);
			return 1;
		case 'h':
		case OPT_HELP:
			set->help();
			return 1;
		case OPT_VERSION:
			printf("%s %s (%s)\n", tool_name, VNPU_VERSION, tool_build_commit);
			return 1;
		case OPT_LIST_DEVICES:
			*status = engine_list_devices();
			return 1;
		}
		*status = set->option(ud, c, optarg);
		if (*status)
			return 1;
	}
	return 0;
}
