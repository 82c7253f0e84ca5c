/* SPDX-License-Identifier: MIT */
/*
 * Text in JSON, for programs that add events of their own to a trace (npu.h): names and arguments
 * there are texts of any bytes.
 */
#ifndef NPU_JSON_H
#define NPU_JSON_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* Room for @chars bytes of text, however many of them have to be escaped. */
#define NPU_JSON_TEXT_SIZE(chars) (6 * (chars) + 1)

/*
 * Writes @s as it stands between the quotes of a JSON string into @out of @size bytes: control
 * characters, quotes and backslashes escaped, bytes that are no UTF-8 as '?'. What does not fit is
 * left out, never half of a character. Returns the length.
 */
size_t npu_json_text(char *out, size_t size, const char *s);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* NPU_JSON_H */
