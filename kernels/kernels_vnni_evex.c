// SPDX-License-Identifier: MIT
/* The kernels with vpdpbusd of 256 bits, in the encoding of AVX-512 VNNI and VL. */
#if defined(__x86_64__)
#define VNNI_ENCODING "%{evex%} "
#include "kernels_vnni_kq.h"
#include "kernels_vnni_w4.h"

#define kernel_matmul_w4f fw_matmul_w4f_avx2
#define FW_KERNELS_NAME fw_kernels_vnni_evex
#define FW_KERNELS_LABEL "avx-vnni"
#include "kernels_float.h"
#endif
