// SPDX-License-Identifier: MIT
/* The choice of the kernels for this host, and conversions that all kernels share. */
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "kernels.h"

#if defined(__x86_64__)
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA 18

/* Tile registers are 8 KB per thread: the kernel gives them only to processes that ask for them. */
static bool has_amx(void)
{
	uint32_t a, b, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && d & bit_AMX_TILE && d & bit_AMX_INT8 &&
	       !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA);
}
#endif

const struct fw_kernels *fw_kernels_get(enum fw_isa isa)
{
#if defined(__x86_64__)
	bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
		    __builtin_cpu_supports("f16c");
	/* vpdpbusd of 256 bits has an encoding of its own where there is no AVX-512. */
	bool vex = avx2 && __builtin_cpu_supports("avxvnni");
	bool evex =
		avx2 && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
	bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
		      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
		      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");

	if (avx512 && (isa == FW_ISA_AUTO || isa == FW_ISA_AVX512_AMX) && has_amx())
		return &fw_kernels_amx;
	if (avx512 && (isa == FW_ISA_AUTO || isa == FW_ISA_AVX512_VNNI))
		return &fw_kernels_avx512;
	if ((vex || evex) && (isa == FW_ISA_AUTO || isa == FW_ISA_AVX_VNNI))
		return vex ? &fw_kernels_vnni_vex : &fw_kernels_vnni_evex;
	if (avx2 && (isa == FW_ISA_AUTO || isa == FW_ISA_AVX2))
		return &fw_kernels_avx2;
#elif defined(__aarch64__)
	bool dotprod = getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
	bool i8mm = dotprod && getauxval(AT_HWCAP2) & HWCAP2_I8MM;

	if (i8mm && (isa == FW_ISA_AUTO || isa == FW_ISA_NEON_I8MM))
		return &fw_kernels_neon_i8mm;
	if (dotprod && (isa == FW_ISA_AUTO || isa == FW_ISA_NEON_DOTPROD))
		return &fw_kernels_neon_dotprod;
#endif
	return isa == FW_ISA_AUTO || isa == FW_ISA_GENERIC ? &fw_kernels_generic : NULL;
}

const char *fw_isa_name(enum fw_isa isa)
{
	const struct fw_kernels *k = fw_kernels_get(isa);

	return k ? k->name : NULL;
}

enum fw_isa fw_isa_find(const char *name)
{
	/* In the order of enum fw_isa. */
	static const char *const names[] = { "generic",	    "avx2",	  "avx-vnni",
					     "avx512-vnni", "avx512-amx", "neon-dotprod",
					     "neon-i8mm" };

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return FW_ISA_GENERIC + i;
	return FW_ISA_AUTO;
}

float fw_f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, man = h & 0x3ff, bits;
	float f;

	if (!exp) {
		/* man 2^-24, exactly. */
		f = (float)man * 0x1p-24f;
		return sign ? -f : f;
	}
	bits = sign | (exp == 31 ? 255 : exp + 112) << 23 | man << 13;
	memcpy(&f, &bits, sizeof(f));
	return f;
}

uint16_t fw_f32_to_f16(float x)
{
	uint32_t bits, sign, abs;
	float f;

	memcpy(&bits, &x, sizeof(bits));
	sign = bits >> 16 & 0x8000;
	abs = bits & 0x7fffffff;
	if (abs > 0x7f800000)
		return sign | 0x7e00;
	/* 65520, half-way to 2^16, and above. */
	if (abs >= 0x477ff000)
		return sign | 0x7c00;
	if (abs < 0x38800000) {
		/* Subnormal: next to 0.5, float has the result's units, and the addition rounds. */
		memcpy(&f, &abs, sizeof(f));
		f += 0.5f;
		memcpy(&abs, &f, sizeof(abs));
		return sign | (abs - 0x3f000000);
	}
	/* Drops 13 bits: adds half of their range, minus one if the remaining bits are even. */
	return sign | (abs - (112u << 23) + 0xfff + (abs >> 13 & 1)) >> 13;
}
