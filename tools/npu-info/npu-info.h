/* SPDX-License-Identifier: MIT */
#ifndef NPU_INFO_H
#define NPU_INFO_H

#include "npu.h"

/* Prints a line per check. Returns 0 if this user can open a device of vnpu.ko, else 1. */
int npu_info_doctor(void);

struct json_object;

/* Show the OpenCL devices, or why there is none and what to install: as text, as a JSON array, and
 * as the doctor's line, which is no check. */
void npu_info_opencl_text(void);
struct json_object *npu_info_opencl_json(void);
void npu_info_opencl_doctor(void);

#endif /* NPU_INFO_H */
