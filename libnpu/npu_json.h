/* SPDX-License-Identifier: MIT */
/*
 * JSON strings, for programs that add their own events to a trace (npu.h) with names and arguments
 * of arbitrary bytes.
 */
#ifndef NPU_JSON_H
#define NPU_JSON_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* Buffer size for @chars bytes of text if all of them have to be escaped. */
#define NPU_JSON_TEXT_SIZE(chars) (6 * (chars) + 1)

/*
 * Writes @s as the inside of a JSON string into @out of @size bytes: escapes control characters,
 * quotes and backslashes, and replaces bytes that are not UTF-8 by '?'. Truncates at a whole
 * character. Returns the length.
 */
size_t npu_json_text(char *out, size_t size, const char *s);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* NPU_JSON_H */
