/* SPDX-License-Identifier: MIT */
/*
 * Checksums of tensors: XXH3 with 64 bits, of any number of parts in their order.
 *
 *	struct llm_checksum c;
 *	llm_checksum_begin(&c);
 *	llm_checksum_add(&c, part, bytes);	as often as needed
 *	sum = llm_checksum_end(&c);
 */
#ifndef CHECKSUM_H
#define CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Makes the state's size known, so that it needs no allocation. */
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

struct llm_checksum {
	XXH3_state_t xxh3;
};

void llm_checksum_begin(struct llm_checksum *c);
void llm_checksum_add(struct llm_checksum *c, const void *bytes, size_t n);
uint64_t llm_checksum_end(const struct llm_checksum *c);

#endif /* CHECKSUM_H */
