// SPDX-License-Identifier: GPL-2.0-only
/*
 * The one place where the tracepoints' code is made.
 */
#define CREATE_TRACE_POINTS
#include "vnpu_trace.h"
