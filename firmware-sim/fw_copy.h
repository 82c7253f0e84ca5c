/* SPDX-License-Identifier: MIT */
/*
 * Private copies of what a client has written. The device validates and runs these, so that later
 * changes by the client have no effect.
 */
#ifndef FW_COPY_H
#define FW_COPY_H

#include "fw.h"

/* The copy of a stream or a table; its memory is reused by later jobs. */
struct fw_copy {
	void *data;
	size_t bytes, max_bytes;
};

/*
 * Makes room in private memory for [va, va + bytes) of the context. Returns a status; *why is the
 * reason of a refusal.
 */
uint32_t fw_copy_room(const struct fw_aspace *as, struct fw_copy *copy, uint64_t va, uint32_t bytes,
		      uint32_t max_bytes, const char **why);

/* A stream and its table. */
struct fw_copy_in {
	void *dst[2];
	const void *src[2];
	size_t bytes[2];
	bool same; /* in: dst may be equal to src; out: it is, byte by byte, and was not written */
};

/* The function for the guard (fw_port_ops); @arg is a struct fw_copy_in. */
void fw_copy_in(void *arg);

#endif /* FW_COPY_H */
