/* SPDX-License-Identifier: MIT */
/*
 * Checks of one command, for fw_stream.c: what its operands are, whether they lie where they may, and into how many tiles it is
 * cut.
 */
#ifndef FW_CHECK_H
#define FW_CHECK_H

#include "fw_stream.h"

/* A stream that is being checked, and where in it. */
struct decoder {
	struct fw_prog *prog;
	const struct vnpu_slot *slots;
	const uint64_t *params;
	uint32_t nr_slots, nr_params; /* of the stream */
	uint32_t index; /* of the command */
	const struct isa_op *op; /* of the command; NULL before the first one */
	char *why;
	size_t why_bytes;
};

/* Writes the reason into @d->why. Returns -EINVAL. */
__attribute__((format(printf, 2, 3))) int fw_refuse(struct decoder *d, const char *fmt, ...);

/* @c, whose union is filled in; the operation is known, and neither BARRIER, SLEEP nor END. Fills in the rest but its place in the
 * stream and in its region, and what it costs, roughly, in cycles of one worker. 0 or -EINVAL. */
int fw_check_cmd(struct decoder *d, struct fw_cmd *c, uint64_t *cost);

#endif /* FW_CHECK_H */
