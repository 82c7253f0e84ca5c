// SPDX-License-Identifier: MIT
/*
 * npu-info: shows the device that a program would get, why, and what it can do; the OpenCL devices
 * for the GPU lane (opencl.c); with --doctor, what keeps a program from the device of vnpu.ko
 * (doctor.c).
 */
#include "npu-info.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpus.h"
#include "json_out.h"
#include "tool.h"

static const char usage[] =
	"usage: npu-info [--transport auto|drm|sim] [--device PATH] [--json]\n"
	"       npu-info --doctor\n"
	"\n"
	"Shows the NPU that a program would get, and why that one, and the OpenCL devices.\n"
	"\n"
	"  --transport T   auto (default): drm if a usable vnpu node is there, else sim\n"
	"  --device PATH   this /dev/accel/accelN\n"
	"  --json          one JSON object\n"
	"  --doctor        check each thing that /dev/accel needs and say how to fix what is "
	"missing\n"
	"  --help, --version\n"
	"\n"
	"NPU_TRANSPORT and NPU_DEVICE in the environment are the defaults of the first two.\n";

static const char *transport_name(enum npu_transport t)
{
	return t == NPU_TRANSPORT_DRM ? "drm" : "sim";
}

static void print_cpus(void)
{
	struct host_cpus cpus;

	host_cpus_read("", &cpus);
	printf("threads       %u: the affinity mask has %u CPU%s, ", cpus.threads, cpus.allowed,
	       cpus.allowed == 1 ? "" : "s");
	if (cpus.quota > 0)
		printf("%s grants the time of %.2f\n", cpus.file, cpus.quota);
	else
		puts("no control group has a quota");
}

static struct json_object *cpus_json(void)
{
	struct json_object *o = json_object_new_object();
	struct host_cpus cpus;

	host_cpus_read("", &cpus);
	json_object_object_add(o, "threads", json_out_u64(cpus.threads));
	json_object_object_add(o, "affinity", json_out_u64(cpus.allowed));
	json_object_object_add(o, "quota",
			       cpus.quota > 0 ? json_object_new_double(cpus.quota) : NULL);
	json_object_object_add(o, "quota_file", json_out_string(cpus.file[0] ? cpus.file : NULL));
	return o;
}

static int print_text(const struct npu_device_info *info, const struct npu_device_state *state)
{
	printf("transport     %s\n", transport_name(info->transport));
	printf("reason        %s\n", info->reason);
	if (info->transport == NPU_TRANSPORT_DRM)
		printf("node          %s\n", info->path);
	printf("device        %s\n", info->name);
	printf("isa           %u.%u\n", info->isa_version >> 16, info->isa_version & 0xffff);
	printf("state         %s, epoch %u, %u resets\n",
	       state->wedged ? "wedged"
	       : state->lost ? "firmware lost"
			     : "ready",
	       state->epoch, state->nr_resets);
	printf("address space %u bits per context\n", info->va_bits);
	printf("memory        %" PRIu64 " of %" PRIu64 " bytes\n", state->mem_bytes,
	       info->mem_limit_bytes);
	printf("busy          %.6f s with %" PRIu64 " jobs since the device exists\n",
	       state->busy_ns * 1e-9, state->nr_jobs);
	printf("queue depth   up to %u, and %u jobs that wait; %u jobs in a submission\n",
	       info->max_queue_depth, info->max_waiting_jobs, info->max_jobs_per_submit);
	printf("job timeout   %u ms, up to %u ms; a fence lasts up to %u ms\n",
	       info->default_timeout_ms, info->max_timeout_ms, info->max_fence_ms);
	print_cpus();
	npu_info_opencl_text();
	return 0;
}

static int print_json(const struct npu_device_info *info, const struct npu_device_state *state)
{
	struct json_object *o = json_object_new_object();
	char isa[16];
	int ret;

	snprintf(isa, sizeof(isa), "%u.%u", info->isa_version >> 16, info->isa_version & 0xffff);
	json_object_object_add(o, "transport", json_out_string(transport_name(info->transport)));
	json_object_object_add(o, "reason", json_out_string(info->reason));
	json_object_object_add(o, "node", json_out_string(info->path[0] ? info->path : NULL));
	json_object_object_add(o, "device", json_out_string(info->name));
	json_object_object_add(o, "isa", json_out_string(isa));
	json_object_object_add(o, "lost", json_object_new_boolean(state->lost));
	json_object_object_add(o, "wedged", json_object_new_boolean(state->wedged));
	json_object_object_add(o, "epoch", json_out_u64(state->epoch));
	json_object_object_add(o, "nr_resets", json_out_u64(state->nr_resets));
	json_object_object_add(o, "nr_jobs", json_out_u64(state->nr_jobs));
	json_object_object_add(o, "va_bits", json_out_u64(info->va_bits));
	json_object_object_add(o, "mem_bytes", json_out_u64(state->mem_bytes));
	json_object_object_add(o, "mem_limit_bytes", json_out_u64(info->mem_limit_bytes));
	json_object_object_add(o, "busy_ns", json_out_u64(state->busy_ns));
	json_object_object_add(o, "max_queue_depth", json_out_u64(info->max_queue_depth));
	json_object_object_add(o, "max_jobs_per_submit", json_out_u64(info->max_jobs_per_submit));
	json_object_object_add(o, "default_timeout_ms", json_out_u64(info->default_timeout_ms));
	json_object_object_add(o, "max_timeout_ms", json_out_u64(info->max_timeout_ms));
	json_object_object_add(o, "max_fence_ms", json_out_u64(info->max_fence_ms));
	json_object_object_add(o, "max_waiting_jobs", json_out_u64(info->max_waiting_jobs));
	json_object_object_add(o, "cpus", cpus_json());
	json_object_object_add(o, "opencl", npu_info_opencl_json());
	ret = json_out_line(stdout, o);
	json_object_put(o);
	return ret;
}

static int parse_transport(const char *s, enum npu_transport *t)
{
	if (!strcmp(s, "auto"))
		*t = NPU_TRANSPORT_AUTO;
	else if (!strcmp(s, "drm"))
		*t = NPU_TRANSPORT_DRM;
	else if (!strcmp(s, "sim"))
		*t = NPU_TRANSPORT_SIM;
	else
		return tool_usage("--transport: '%s' is none of auto, drm, sim", s);
	return 0;
}

static int show(const struct npu_device_options *opts, bool json)
{
	struct npu_device_state state;
	struct npu_device *dev;
	int ret;

	if (npu_device_open(opts, &dev))
		return tool_fail("%s", npu_error());
	if (npu_device_state(dev, &state))
		ret = tool_fail("%s", npu_error());
	else
		ret = json ? print_json(npu_device_info(dev), &state)
			   : print_text(npu_device_info(dev), &state);
	npu_device_close(dev);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "transport", required_argument, NULL, 't' },
		{ "device", required_argument, NULL, 'd' },
		{ "json", no_argument, NULL, 'j' },
		{ "doctor", no_argument, NULL, 'D' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ 0 },
	};
	struct npu_device_options opts = { 0 };
	bool json = false, doctor = false;
	int c;

	tool_begin("npu-info");
	while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (c) {
		case 't':
			if (parse_transport(optarg, &opts.transport))
				return 2;
			break;
		case 'd':
			opts.path = optarg;
			break;
		case 'j':
			json = true;
			break;
		case 'D':
			doctor = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return tool_finish(0);
		case 'v':
			printf("npu-info %s (%s)\n", VNPU_VERSION, tool_build_commit);
			return tool_finish(0);
		default:
			return tool_bad_option(c, argv, options);
		}
	}
	if (optind < argc)
		return tool_usage("'%s': npu-info takes options only", argv[optind]);
	if (doctor && (json || opts.transport || opts.path))
		return tool_usage("--doctor takes no other option");
	return tool_finish(doctor ? npu_info_doctor() : show(&opts, json));
}
