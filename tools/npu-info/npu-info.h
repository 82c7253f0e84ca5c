/* SPDX-License-Identifier: MIT */
#ifndef NPU_INFO_H
#define NPU_INFO_H

#include "npu.h"

/* Prints one line per check. 0 if a program of this user can reach a device of vnpu.ko, else 1. */
int npu_info_doctor(void);

struct json_object;

/*
 * The devices of OpenCL, or that there is none and what to install: lines, an array, and the
 * doctor's line, which is no check.
 */
void npu_info_opencl_text(void);
struct json_object *npu_info_opencl_json(void);
void npu_info_opencl_doctor(void);

#endif /* NPU_INFO_H */
