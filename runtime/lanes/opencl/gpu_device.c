// SPDX-License-Identifier: MIT
/* The GPU lane's devices: choosing one, and compiling the kernels for it. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu_private.h"
#include "llm_fail.h"

#define MAX_PLATFORMS 16
#define MAX_DEVICES 64

static const char *error_name(cl_int err)
{
	static const struct {
		cl_int err;
		const char *name;
	} names[] = {
#define NAME(e) { e, #e }
		NAME(CL_DEVICE_NOT_FOUND),
		NAME(CL_DEVICE_NOT_AVAILABLE),
		NAME(CL_COMPILER_NOT_AVAILABLE),
		NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE),
		NAME(CL_OUT_OF_RESOURCES),
		NAME(CL_OUT_OF_HOST_MEMORY),
		NAME(CL_BUILD_PROGRAM_FAILURE),
		NAME(CL_MAP_FAILURE),
		NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
		NAME(CL_INVALID_VALUE),
		NAME(CL_INVALID_BUFFER_SIZE),
		NAME(CL_INVALID_HOST_PTR),
		NAME(CL_INVALID_KERNEL_NAME),
		NAME(CL_INVALID_KERNEL_ARGS),
		NAME(CL_INVALID_ARG_INDEX),
		NAME(CL_INVALID_ARG_SIZE),
		NAME(CL_INVALID_ARG_VALUE),
		NAME(CL_INVALID_WORK_GROUP_SIZE),
		NAME(CL_INVALID_WORK_ITEM_SIZE),
#undef NAME
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].err == err)
			return names[i].name;
	return NULL;
}

int gpu_fail(cl_int err, const char *what)
{
	const char *name = error_name(err);
	int ret;

	switch (err) {
	case CL_MEM_OBJECT_ALLOCATION_FAILURE:
	case CL_OUT_OF_RESOURCES:
	case CL_OUT_OF_HOST_MEMORY:
	case CL_INVALID_BUFFER_SIZE:
		ret = -ENOMEM;
		break;
	default:
		ret = -EIO;
	}
	return name ? llm_fail(ret, "OpenCL: %s: %s", what, name)
		    : llm_fail(ret, "OpenCL: %s: error %d", what, err);
}

/* ---- devices --------------------------------------------------------------------------------- */

struct found {
	cl_platform_id platform;
	cl_device_id device;
};

/* Finds all devices, in the order of the platforms. Platforms without devices are skipped. */
static int find_all(struct found *found, unsigned int *n)
{
	cl_platform_id platforms[MAX_PLATFORMS];
	cl_device_id devices[MAX_DEVICES];
	cl_uint nr_platforms = 0, nr_devices, i, j;
	cl_int err = clGetPlatformIDs(MAX_PLATFORMS, platforms, &nr_platforms);

	*n = 0;
	/* The ICD loader's error -1001 means no platform, too. */
	if (err || !nr_platforms)
		return llm_fail(
			-ENODEV,
			"no OpenCL platform; install the one of the GPU, or pocl-opencl-icd, which "
			"computes on the CPU");
	if (nr_platforms > MAX_PLATFORMS)
		nr_platforms = MAX_PLATFORMS;
	for (i = 0; i < nr_platforms; i++) {
		nr_devices = 0;
		if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, MAX_DEVICES, devices,
				   &nr_devices))
			continue;
		for (j = 0; j < nr_devices && j < MAX_DEVICES && *n < MAX_DEVICES; j++)
			found[(*n)++] = (struct found){ platforms[i], devices[j] };
	}
	return 0;
}

/* A string property of the device, truncated to @bytes. */
static void device_text(cl_device_id device, cl_device_info what, char *text, size_t bytes)
{
	size_t need = 0;
	char *all;

	text[0] = 0;
	if (clGetDeviceInfo(device, what, 0, NULL, &need) || !need)
		return;
	all = malloc(need);
	if (all && !clGetDeviceInfo(device, what, need, all, NULL))
		snprintf(text, bytes, "%s", all);
	free(all);
}

static bool device_has(cl_device_id device, const char *extension)
{
	char list[8192], *p = list;
	size_t n = strlen(extension);

	device_text(device, CL_DEVICE_EXTENSIONS, list, sizeof(list));
	while ((p = strstr(p, extension))) {
		if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
			return true;
		p += n;
	}
	return false;
}

static uint64_t device_number(cl_device_id device, cl_device_info what, size_t bytes)
{
	uint64_t value = 0;

	/* Zero-extends numbers of any size, on a little-endian host. */
	return clGetDeviceInfo(device, what, bytes, &value, NULL) ? 0 : value;
}

static void describe(const struct found *f, struct llm_gpu_info *info)
{
	memset(info, 0, sizeof(*info));
	clGetPlatformInfo(f->platform, CL_PLATFORM_NAME, sizeof(info->platform) - 1, info->platform,
			  NULL);
	device_text(f->device, CL_DEVICE_NAME, info->name, sizeof(info->name));
	device_text(f->device, CL_DEVICE_VERSION, info->version, sizeof(info->version));
	info->cpu = device_number(f->device, CL_DEVICE_TYPE, sizeof(cl_device_type)) &
		    CL_DEVICE_TYPE_CPU;
	info->compute_units = (unsigned int)device_number(f->device, CL_DEVICE_MAX_COMPUTE_UNITS,
							  sizeof(cl_uint));
	info->memory_bytes = device_number(f->device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong));
	info->max_buffer_bytes =
		device_number(f->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong));
	info->unified = device_number(f->device, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(cl_bool));
	info->fp16 = device_has(f->device, "cl_khr_fp16");
	info->out_of_order = device_number(f->device, CL_DEVICE_QUEUE_PROPERTIES,
					   sizeof(cl_command_queue_properties)) &
			     CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
	info->exact =
		device_number(f->device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof(cl_device_fp_config)) &
		CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
}

int llm_gpu_list(struct llm_gpu_info *list, unsigned int max, unsigned int *n)
{
	struct found found[MAX_DEVICES];
	int err = find_all(found, n);

	for (unsigned int i = 0; !err && i < *n && i < max; i++)
		describe(&found[i], &list[i]);
	return err;
}

/* ---- choosing one ---------------------------------------------------------------------------- */

/* Whether @text contains @part, ignoring case. */
static bool contains(const char *text, const char *part)
{
	size_t n = strlen(part), i;

	for (; *text; text++) {
		for (i = 0;
		     i < n && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]);
		     i++)
			;
		if (i == n)
			return true;
	}
	return false;
}

static bool is_number(const char *s)
{
	return *s && !s[strspn(s, "0123456789")];
}

/* Whether PoCL's folder, which becomes *@dir, neither can be written nor made. */
static bool cache_refused(char *dir, size_t bytes)
{
	const char *cache = getenv("POCL_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");
	char above[4096], *slash;
	struct stat st;

	if (cache)
		snprintf(dir, bytes, "%s", cache);
	else if (xdg)
		snprintf(dir, bytes, "%s/pocl", xdg);
	else
		snprintf(dir, bytes, "%s/.cache/pocl", home ? home : "");
	snprintf(above, sizeof(above), "%s", dir);
	while (access(above, F_OK) && (slash = strrchr(above, '/')) && slash > above)
		*slash = '\0';
	return access(above, W_OK) || stat(above, &st) || !S_ISDIR(st.st_mode);
}

/* Finds the device that @select means. */
static int choose(const struct found *found, unsigned int n, const char *select,
		  unsigned int *which)
{
	struct llm_gpu_info info;
	char both[sizeof(info.platform) + sizeof(info.name) + 1];
	unsigned int i;

	if (!n && cache_refused(both, sizeof(both)))
		return llm_fail(-EACCES,
				"no OpenCL device: PoCL keeps compiled kernels in %s, where "
				"nothing can be written; name another folder with POCL_CACHE_DIR",
				both);
	if (!n)
		return llm_fail(-ENODEV,
				"no OpenCL device: the installed platforms find none on this "
				"machine");
	if (!select) {
		for (i = 0; i < n; i++)
			if (device_number(found[i].device, CL_DEVICE_TYPE, sizeof(cl_device_type)) &
			    CL_DEVICE_TYPE_GPU)
				break;
		*which = i < n ? i : 0;
		return 0;
	}
	if (is_number(select)) {
		unsigned long number = strtoul(select, NULL, 10);

		if (number >= n)
			return llm_fail(
				-ENOENT,
				"no OpenCL device %s: there %s %u, counted from 0; npu-info lists "
				"them",
				select, n == 1 ? "is" : "are", n);
		*which = (unsigned int)number;
		return 0;
	}
	for (i = 0; i < n; i++) {
		describe(&found[i], &info);
		snprintf(both, sizeof(both), "%s %s", info.platform, info.name);
		if (*select && contains(both, select)) {
			*which = i;
			return 0;
		}
	}
	return llm_fail(-ENOENT, "no OpenCL device has '%s' in its name; npu-info lists them",
			select);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* On a CPU a work-item is part of a thread's loop, and vectors fill registers. On a
 * GPU neighbouring work-items run together, so there should be many, with short
 * vectors: loads of 16 bytes. */
static int choose_shape(struct llm_gpu *gpu, const struct llm_gpu_options *opts)
{
	unsigned int v = opts ? opts->vector : 0;
	struct gpu_shape *s = &gpu->shape;

	if (!v && gpu->info.cpu) {
		v = (unsigned int)device_number(gpu->device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT,
						sizeof(cl_uint));
		v = v >= 16 ? 16 : v >= 8 ? 8 : 4;
	}
	v = v ? v : 4;
	if (v != 4 && v != 8 && v != 16)
		return llm_fail(-EINVAL, "OpenCL: vectors of %u floats, not of 4, 8 or 16", v);
	s->vector = v;
	/* Sized for the 32 vector registers of AVX-512, or the 16 of AVX2. */
	if (gpu->info.cpu && v == 16)
		*s = (struct gpu_shape){ v, 4, 1, 8, 2, 1, 1, 1, 8, 64, 1 };
	else if (gpu->info.cpu && v == 8)
		*s = (struct gpu_shape){ v, 2, 1, 4, 2, 1, 1, 1, 8, 64, 1 };
	else
		*s = (struct gpu_shape){ v, 1, 8, 8, 1, 4, 16, 32, 4, 128, 32 };
	return 0;
}

/* Reports the first line of the compiler's output that is not empty. */
static int build_failed(struct llm_gpu *gpu)
{
	char log[16384] = "", *line = log;

	clGetProgramBuildInfo(gpu->program, gpu->device, CL_PROGRAM_BUILD_LOG, sizeof(log) - 1, log,
			      NULL);
	line += strspn(line, " \n");
	line[strcspn(line, "\n")] = 0;
	return llm_fail(-EIO, "OpenCL: %s cannot compile the kernels: %s", gpu->info.name, line);
}

static int build(struct llm_gpu *gpu)
{
	const struct gpu_shape *s = &gpu->shape;
	const char *sources[GPU_NR_SOURCES];
	size_t bytes[GPU_NR_SOURCES];
	char options[512];
	cl_int err;

	gpu_sources_get(sources, bytes);
	snprintf(options, sizeof(options),
		 "-cl-std=CL1.2 %s -DV=%u -DNV=%u -DSPLIT=%u -DR=%u -DGEMM_NV=%u -DGEMM_Y=%u "
		 "-DGROUP_X=%u -DROW_ITEMS=%u -DQUERIES=%u -DKEYS=%u -DATTN_ITEMS=%u -DTILE=%u",
		 gpu->info.exact ? "-cl-fp32-correctly-rounded-divide-sqrt" : "", s->vector,
		 s->gemv_vectors, s->gemv_split, s->gemm_rows, s->gemm_vectors, s->gemm_groups,
		 s->group, s->row_items, s->queries, s->keys, s->attn_items, GPU_ROWS_TILE);
	gpu->program =
		clCreateProgramWithSource(gpu->context, GPU_NR_SOURCES, sources, bytes, &err);
	if (err)
		return gpu_fail(err, "the kernels' source");
	err = clBuildProgram(gpu->program, 1, &gpu->device, options, NULL, NULL);
	if (err == CL_BUILD_PROGRAM_FAILURE)
		return build_failed(gpu);
	return err ? gpu_fail(err, "compiling the kernels") : 0;
}

static int open_device(struct llm_gpu *gpu, const char *select, const struct llm_gpu_options *opts)
{
	struct found found[MAX_DEVICES];
	unsigned int n, which = 0;
	cl_int cl_err;
	int err = find_all(found, &n);

	err = err ? err : choose(found, n, select, &which);
	if (err)
		return err;
	describe(&found[which], &gpu->info);
	gpu->device = found[which].device;
	err = choose_shape(gpu, opts);
	if (err)
		return err;
	gpu->context = clCreateContext(
		(cl_context_properties[]){ CL_CONTEXT_PLATFORM,
					   (cl_context_properties)found[which].platform, 0 },
		1, &gpu->device, NULL, NULL, &cl_err);
	if (cl_err)
		return gpu_fail(cl_err, gpu->info.name);
	err = build(gpu);
	return err ? err : gpu_probe(gpu, &gpu->coherent);
}

int llm_gpu_open(const char *select, const struct llm_gpu_options *opts, struct llm_gpu **out)
{
	const char *env = getenv("VNPU_OPENCL");
	struct llm_gpu *gpu = calloc(1, sizeof(*gpu));
	int err;

	*out = NULL;
	if (!gpu)
		return llm_fail(-ENOMEM, "no memory for an OpenCL device");
	err = open_device(gpu, select ? select : env && *env ? env : NULL, opts);
	if (err) {
		llm_gpu_close(gpu);
		return err;
	}
	*out = gpu;
	return 0;
}

void llm_gpu_close(struct llm_gpu *gpu)
{
	if (!gpu)
		return;
	if (gpu->program)
		clReleaseProgram(gpu->program);
	if (gpu->context)
		clReleaseContext(gpu->context);
	free(gpu);
}

const struct llm_gpu_info *llm_gpu_info(const struct llm_gpu *gpu)
{
	return &gpu->info;
}

bool llm_gpu_coherent(const struct llm_gpu *gpu)
{
	return gpu->coherent;
}

unsigned int llm_gpu_vector(const struct llm_gpu *gpu)
{
	return gpu->shape.vector;
}
