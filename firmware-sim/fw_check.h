/* SPDX-License-Identifier: MIT */
/*
 * Checks of one command: whether its operands lie where they may, and into how many tiles it is
 * cut. fw_op_*.c say with them what each operation wants.
 *
 * Nothing is trusted: each number is bounded before it takes part in arithmetic, and what cannot be
 * bounded is multiplied with overflow checks.
 */
#ifndef FW_CHECK_H
#define FW_CHECK_H

#include <stdbool.h>

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
__attribute__((cold, format(printf, 2, 3))) int fw_refuse(struct decoder *d, const char *fmt, ...);

/* First refusal wins: each check runs only if all before it passed. */
#define CHECK(call)                       \
	do {                              \
		int check_err = (call);   \
		if (check_err)            \
			return check_err; \
	} while (0)

/* All of these return 0, or -EINVAL with the reason. */

/* 1..@max. */
static inline int fw_check_bounded(struct decoder *d, const char *name, uint64_t value,
				   uint64_t max)
{
	if (!value || value > max)
		return fw_refuse(d, "%s is %llu, not 1..%llu", name, (unsigned long long)value,
				 (unsigned long long)max);
	return 0;
}

static inline int fw_check_reserved(struct decoder *d, uint32_t value)
{
	return value ? fw_refuse(d, "reserved field is not 0") : 0;
}

int fw_check_finite(struct decoder *d, const char *name, float value);
/* The value of param @index in *value, 0 for VNPU_PARAM_NONE; at most @max. */
int fw_check_param(struct decoder *d, const char *name, uint32_t index, uint64_t max,
		   uint64_t *value);
/* rows and cols, as most commands have them. */
int fw_check_shape(struct decoder *d, uint32_t rows, uint32_t cols);
/* Weights of 4 bits: the size of a group, which divides k. */
int fw_check_group(struct decoder *d, uint32_t group, uint32_t k);

/*
 * Operand @i of the command: its address comes into @c->va[i]; its name, type and access are the
 * table's (isa_ops.h).
 */

/* It has @bytes, and begins at a multiple of @align. */
int fw_check_operand(struct decoder *d, struct fw_cmd *c, unsigned int i, uint64_t bytes,
		     unsigned int align);
/* It has @rows x @cols elements in rows that are @ld apart: f32, s8, or s8p. */
int fw_check_matrix(struct decoder *d, struct fw_cmd *c, unsigned int i, uint64_t rows,
		    uint64_t cols, uint32_t ld);
/* It has @n elements of 4 bytes. */
int fw_check_vector(struct decoder *d, struct fw_cmd *c, unsigned int i, uint64_t n);
/* It is a cache of @type (enum vnpu_kv_type). */
int fw_check_cache(struct decoder *d, struct fw_cmd *c, unsigned int i, uint64_t rows,
		   uint64_t cols, uint32_t ld, uint32_t type);
/* Bytes from its first to its last where it has @rows of @row_bytes, @stride_bytes apart. */
int fw_check_extent(struct decoder *d, unsigned int i, uint64_t rows, uint64_t stride_bytes,
		    uint64_t row_bytes, uint64_t *bytes);

static inline uint64_t div_up(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

/* Cuts @c into tiles of whole rows; of parts of a row where @split allows and rows are long. */
void fw_cut_rows(struct fw_cmd *c, uint32_t rows, uint64_t cols, bool split);

#endif /* FW_CHECK_H */
