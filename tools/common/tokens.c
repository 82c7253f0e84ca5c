// SPDX-License-Identifier: MIT
/* Prompts and lists of ids: see tokens.h. */
#include <errno.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokens.h"
#include "tool.h"

int tokens_from_text(const struct llm_engine *engine, const char *text, size_t bytes,
		     unsigned int flags, struct token_list *list)
{
	/*
	 * Tokens have at least a byte each, except BOS and the dummy space, so one call is enough
	 * except for unusual models.
	 */
	size_t room = bytes + 16;

	for (;;) {
		int32_t *ids = malloc(room * sizeof(*ids));
		long n;

		if (!ids)
			return tool_fail("no memory for %zu tokens", room);
		n = llm_tokenize(engine, text, bytes, flags, ids, room);
		if (n < 0) {
			free(ids);
			return tool_fail("%s", llm_error());
		}
		if ((size_t)n <= room) {
			*list = (struct token_list){ .ids = ids, .n = (size_t)n };
			return 0;
		}
		free(ids);
		room = (size_t)n;
	}
}

int tokens_from_list(const char *what, const char *s, struct token_list *list)
{
	int32_t *ids = malloc((strlen(s) / 2 + 1) * sizeof(*ids));
	size_t n = 0;

	if (!ids)
		return tool_fail("no memory for %zu bytes of token ids", strlen(s));
	for (;;) {
		char *end;
		long id;

		s += strspn(s, " ");
		errno = 0;
		id = strtol(s, &end, 10);
		if (*s < '0' || *s > '9' || errno || id > INT32_MAX) {
			free(ids);
			return tool_usage(
				"%s: token ids are numbers with commas between them, as in 1,2,3; "
				"not '%s'",
				what, s);
		}
		ids[n++] = (int32_t)id;
		s = end + strspn(end, " ");
		if (!*s)
			break;
		if (*s == ',')
			s++;
	}
	*list = (struct token_list){ .ids = ids, .n = n };
	return 0;
}

void tokens_sha256(const int32_t *ids, size_t n, char hex[TOKENS_SHA256_CHARS + 1])
{
	unsigned char digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx ctx;

	sha256_init(&ctx);
	for (size_t i = 0; i < n; i++) {
		uint32_t v = (uint32_t)ids[i];
		unsigned char le[4] = { v & 0xff, v >> 8 & 0xff, v >> 16 & 0xff, v >> 24 };

		sha256_update(&ctx, sizeof(le), le);
	}
	sha256_digest(&ctx, sizeof(digest), digest);
	for (size_t i = 0; i < sizeof(digest); i++)
		sprintf(hex + 2 * i, "%02x", digest[i]);
}
