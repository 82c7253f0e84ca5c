// SPDX-License-Identifier: MIT
/* Arbitrary bytes as the inside of a JSON string. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "npu_json.h"

/* Length of the UTF-8 character at @s (RFC 3629: no surrogates or overlong forms); 0: invalid. */
static size_t utf8_length(const uint8_t *s)
{
	uint8_t low = 0x80, high = 0xbf;
	size_t n;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		n = 2;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		n = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		n = 4;
	else
		return 0;
	switch (s[0]) {
	case 0xe0:
		low = 0xa0;
		break;
	case 0xed:
		high = 0x9f;
		break;
	case 0xf0:
		low = 0x90;
		break;
	case 0xf4:
		high = 0x8f;
		break;
	}
	if (s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	return n;
}

size_t npu_json_text(char *out, size_t size, const char *s)
{
	const uint8_t *p = (const uint8_t *)s;
	size_t len = 0, n, take;
	char one[8];

	while (*p) {
		take = utf8_length(p);
		n = take ? take : 1;
		if (!take)
			one[0] = '?';
		else if (*p == '"' || *p == '\\')
			n = (size_t)snprintf(one, sizeof(one), "\\%c", *p);
		else if (*p < 0x20)
			n = (size_t)snprintf(one, sizeof(one), "\\u%04x", *p);
		else
			memcpy(one, p, take);
		if (len + n >= size)
			break;
		memcpy(out + len, one, n);
		len += n;
		p += take ? take : 1;
	}
	out[len] = 0;
	return len;
}
