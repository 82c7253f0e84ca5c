// SPDX-License-Identifier: MIT
/* npu-info: the OpenCL devices, one of which can be the runtime's GPU lane. None is no error. */
#include "npu-info.h"

#include <inttypes.h>
#include <stdio.h>

#include "json_out.h"
#include "llm.h"

#define MAX_LISTED 64

/* Returns the number of devices, at most MAX_LISTED; if 0, *@why says why. */
static unsigned int list_devices(struct llm_gpu_info *list, const char **why)
{
	unsigned int n = 0;

	*why = NULL;
	if (llm_gpu_list(list, MAX_LISTED, &n)) {
		*why = llm_error();
		return 0;
	}
	if (!n)
		*why = "the installed OpenCL platforms find no device on this machine";
	return n < MAX_LISTED ? n : MAX_LISTED;
}

void npu_info_opencl_text(void)
{
	static struct llm_gpu_info list[MAX_LISTED];
	const char *why;
	unsigned int n = list_devices(list, &why);

	if (why)
		printf("opencl        none: %s\n", why);
	for (unsigned int i = 0; i < n; i++) {
		const struct llm_gpu_info *g = &list[i];

		printf("opencl %-6u %s, %s\n", i, g->platform, g->name);
		printf("              %s\n", g->version);
		printf("              %s, %u compute units, %" PRIu64
		       " MiB%s, buffers up to %" PRIu64 " MiB, %s\n",
		       g->cpu ? "CPU" : "GPU", g->compute_units, g->memory_bytes >> 20,
		       g->unified ? " shared with the host" : "", g->max_buffer_bytes >> 20,
		       g->fp16 ? "has F16" : "no F16");
	}
}

struct json_object *npu_info_opencl_json(void)
{
	static struct llm_gpu_info list[MAX_LISTED];
	struct json_object *all = json_object_new_array();
	const char *why;
	unsigned int n = list_devices(list, &why);

	for (unsigned int i = 0; i < n; i++) {
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "platform", json_out_string(list[i].platform));
		json_object_object_add(o, "name", json_out_string(list[i].name));
		json_object_object_add(o, "version", json_out_string(list[i].version));
		json_object_object_add(o, "cpu", json_object_new_boolean(list[i].cpu));
		json_object_object_add(o, "compute_units", json_out_u64(list[i].compute_units));
		json_object_object_add(o, "memory_bytes", json_out_u64(list[i].memory_bytes));
		json_object_object_add(o, "max_buffer_bytes",
				       json_out_u64(list[i].max_buffer_bytes));
		json_object_object_add(o, "host_unified", json_object_new_boolean(list[i].unified));
		json_object_object_add(o, "fp16", json_object_new_boolean(list[i].fp16));
		json_object_object_add(o, "out_of_order",
				       json_object_new_boolean(list[i].out_of_order));
		json_object_array_add(all, o);
	}
	return all;
}

void npu_info_opencl_doctor(void)
{
	static struct llm_gpu_info list[MAX_LISTED];
	const char *why;
	unsigned int n = list_devices(list, &why);

	if (why)
		printf("--    %s\n", why);
	else
		printf("ok    OpenCL has %u device%s; the first is '%s'\n", n, n == 1 ? "" : "s",
		       list[0].name);
}
