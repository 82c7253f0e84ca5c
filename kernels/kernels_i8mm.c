// SPDX-License-Identifier: MIT
/* The kernels for aarch64 with SMMLA (FEAT_I8MM), and SDOT for single rows. */
#if defined(__aarch64__)
#include "kernels_kq_neon.h"
#include "kernels_w4_neon.h"

#define FW_KERNELS_NAME fw_kernels_neon_i8mm
#define FW_KERNELS_LABEL "neon-i8mm"
#include "kernels_float.h"
#endif
