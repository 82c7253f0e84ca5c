// SPDX-License-Identifier: MIT
#include "checksum.h"

void llm_checksum_begin(struct llm_checksum *c)
{
	XXH3_INITSTATE(&c->xxh3);
	XXH3_64bits_reset(&c->xxh3);
}

void llm_checksum_add(struct llm_checksum *c, const void *bytes, size_t n)
{
	XXH3_64bits_update(&c->xxh3, bytes, n);
}

uint64_t llm_checksum_end(const struct llm_checksum *c)
{
	return XXH3_64bits_digest(&c->xxh3);
}
