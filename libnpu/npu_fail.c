// SPDX-License-Identifier: MIT
/* The error line: one buffer per thread, overwritten by the next error. */
#include <stdarg.h>
#include <stdio.h>

#include "npu.h"
#include "npu_fail.h"

static _Thread_local char npu_error_line[512];

const char *npu_error(void)
{
	return npu_error_line[0] ? npu_error_line : "no error";
}

int npu_fail(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(npu_error_line, sizeof(npu_error_line), fmt, ap);
	va_end(ap);
	return err;
}
