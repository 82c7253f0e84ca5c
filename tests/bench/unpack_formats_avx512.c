// SPDX-License-Identifier: MIT
/* Other ways to keep weights of 1 to 8 bits, for bench_unpack: vectors of 64 bytes. */
#if defined(__x86_64__)
#include <immintrin.h>

#define WK_VEC 64
#include "unpack_formats_simd.h"

const struct unpack_format unpack_formats_avx512[UNPACK_FORMATS] = UNPACK_FORMATS_INIT;
#endif
