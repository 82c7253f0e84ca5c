// SPDX-License-Identifier: MIT
/* The source of the GPU lane's kernels, embedded in the program: they are compiled for the device
 * at run time. */
#include "gpu_private.h"

#define SOURCE(name)                                                  \
	__asm__(".section .rodata\n"                                  \
		".globl gpu_source_" #name ", gpu_end_" #name "\n"    \
		".hidden gpu_source_" #name ", gpu_end_" #name "\n"   \
		"gpu_source_" #name ":\n"                             \
		".incbin \"runtime/lanes/opencl/gpu_" #name ".cl\"\n" \
		"gpu_end_" #name ":\n"                                \
		".byte 0\n"                                           \
		".text\n");                                           \
	extern const char gpu_source_##name[], gpu_end_##name[]

SOURCE(common);
SOURCE(panels);
SOURCE(outliers);
SOURCE(rows);
SOURCE(ops);
SOURCE(attn);

void gpu_sources_get(const char *sources[GPU_NR_SOURCES], size_t bytes[GPU_NR_SOURCES])
{
	unsigned int i = 0;

#define GET(name)                                                          \
	do {                                                               \
		sources[i] = gpu_source_##name;                            \
		bytes[i++] = (size_t)(gpu_end_##name - gpu_source_##name); \
	} while (0)
	GET(common);
	GET(panels);
	GET(outliers);
	GET(rows);
	GET(ops);
	GET(attn);
}
