// SPDX-License-Identifier: MIT
/* Other ways to keep weights of 1 to 8 bits, for bench_unpack: vectors of 16 bytes. */
#define WK_VEC 16
#include "unpack_formats_simd.h"

const struct unpack_format unpack_formats_generic[UNPACK_FORMATS] = UNPACK_FORMATS_INIT;
