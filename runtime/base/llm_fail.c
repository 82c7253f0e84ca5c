/* SPDX-License-Identifier: MIT */
/* The runtime's error line, one per thread. */
#include <stdarg.h>
#include <stdio.h>

#include "llm.h"
#include "llm_fail.h"

static _Thread_local char llm_error_line[512];

const char *llm_error(void)
{
	return llm_error_line;
}

int llm_fail(int err, const char *fmt, ...)
{
	/* A copy, as the error line itself may be one of the arguments. */
	char line[sizeof(llm_error_line)];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	snprintf(llm_error_line, sizeof(llm_error_line), "%s", line);
	return err;
}
