/* SPDX-License-Identifier: MIT */
#ifndef NPU_JSON_TEXT_H
#define NPU_JSON_TEXT_H

#include <stddef.h>

/* Room for @chars bytes of text, however many of them have to be escaped. */
#define NPU_JSON_TEXT_SIZE(chars) (6 * (chars) + 1)

/*
 * @s as it stands between the quotes of a JSON string, into @out of @size bytes: control characters, quotes and backslashes
 * escaped, bytes that are no UTF-8 as '?'. What does not fit is left out, never half of a character. Returns the length.
 */
size_t npu_json_text(char *out, size_t size, const char *s);

#endif /* NPU_JSON_TEXT_H */
