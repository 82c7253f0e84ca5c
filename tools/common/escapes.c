// SPDX-License-Identifier: MIT
/* Escapes in texts of a command line: see escapes.h. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "escapes.h"
#include "tool.h"

/* Decodes what follows a backslash. Returns its length; 0: it is no escape. */
static size_t decode(const char *s, char *byte)
{
	static const char letters[] = "nrt'\"\\", bytes[] = "\n\r\t'\"\\";
	const char *letter = *s ? strchr(letters, *s) : NULL;
	char digits[3] = { 0 };

	if (letter) {
		*byte = bytes[letter - letters];
		return 1;
	}
	if (s[0] != 'x' || !isxdigit((unsigned char)s[1]) || !isxdigit((unsigned char)s[2]))
		return 0;
	memcpy(digits, s + 1, 2);
	*byte = (char)strtoul(digits, NULL, 16);
	return 3;
}

char *escapes_decode(const char *text, size_t *bytes)
{
	char *decoded = malloc(strlen(text) + 1), *to = decoded;

	if (!decoded) {
		tool_fail("no memory for a text");
		return NULL;
	}
	while (*text) {
		size_t n = *text == '\\' ? decode(text + 1, to) : 0;

		if (!n)
			*to = *text;
		text += n + 1;
		to++;
	}
	*to = '\0';
	*bytes = (size_t)(to - decoded);
	return decoded;
}
