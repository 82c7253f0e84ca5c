/* SPDX-License-Identifier: MIT */
/*
 * Private copies of what a client has written: checked and run from there, whatever it does
 * meanwhile.
 */
#ifndef FW_COPY_H
#define FW_COPY_H

#include "fw.h"

/* Of a stream or a table; kept from job to job. */
struct fw_copy {
	void *data;
	size_t bytes, max_bytes;
};

/*
 * Room in private memory for [va, va + bytes) of the context. A status; *why says what was refused.
 */
uint32_t fw_copy_room(const struct fw_aspace *as, struct fw_copy *copy, uint64_t va, uint32_t bytes,
		      uint32_t max_bytes, const char **why);

/* A stream and its table. */
struct fw_copy_in {
	void *dst[2];
	const void *src[2];
	size_t bytes[2];
	bool same; /* in: dst may already be it; out: it was, byte by byte, and was left as it is */
};

/* Behind a guard (fw_port_ops): @arg is a struct fw_copy_in. */
void fw_copy_in(void *arg);

#endif /* FW_COPY_H */
