/* SPDX-License-Identifier: MIT */
/* The error line of a thread, behind npu_error(). */
#ifndef NPU_FAIL_H
#define NPU_FAIL_H

/* Sets the line and returns @err, a negative errno. */
int npu_fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif /* NPU_FAIL_H */
