// SPDX-License-Identifier: MIT
/* The kernels for aarch64 with SDOT (FEAT_DotProd), which nearly every core since 2018 has. */
#if defined(__aarch64__)
#include "kernels_kq_neon.h"
#include "kernels_w4_neon.h"

#define FW_KERNELS_NAME fw_kernels_neon_dotprod
#define FW_KERNELS_LABEL "neon-dotprod"
#include "kernels_float.h"
#endif
