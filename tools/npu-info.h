/* SPDX-License-Identifier: MIT */
#ifndef NPU_INFO_H
#define NPU_INFO_H

#include "npu.h"

/* Prints one line per check. 0 if a program of this user can reach a device of vnpu.ko, else 1. */
int npu_info_doctor(void);

#endif /* NPU_INFO_H */
