/* SPDX-License-Identifier: MIT */
#ifndef NPU_RELAX_H
#define NPU_RELAX_H

/* Between two looks at a word that another CPU writes. */
static inline void npu_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif /* NPU_RELAX_H */
