// SPDX-License-Identifier: MIT
/* Normalisation by libutf8proc: see tokenizer_nfc.h. */
#include "tokenizer_nfc.h"

#include <errno.h>
#include <stdbool.h>
#include <utf8proc.h>

/* Whether a text may change: it has characters that form C is about, and not too many at once. */
static bool may_change(const uint8_t *text, size_t bytes)
{
	size_t pos = 0, marks = 0;
	bool found = false;

	while (pos < bytes) {
		utf8proc_int32_t c;

		/* Form C is the text itself below U+0300, whose UTF-8 begins with 0xcc. */
		if (text[pos] < 0xcc) {
			marks = 0;
			pos++;
			continue;
		}
		pos += (size_t)utf8proc_iterate(text + pos, (utf8proc_ssize_t)(bytes - pos), &c);
		found = true;
		marks = utf8proc_get_property(c)->combining_class ? marks + 1 : 0;
		if (marks > NFC_MAX_MARKS)
			return false;
	}
	return found;
}

int nfc_normalise(const uint8_t *text, size_t bytes, uint8_t **out, size_t *out_bytes)
{
	utf8proc_ssize_t n;

	*out = NULL;
	if (!may_change(text, bytes))
		return 0;
	n = utf8proc_map(text, (utf8proc_ssize_t)bytes, out, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
	/* Valid UTF-8 of less than 2 GiB has no other error. */
	if (n < 0)
		return -ENOMEM;
	*out_bytes = (size_t)n;
	return 0;
}
