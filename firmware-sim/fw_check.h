/* SPDX-License-Identifier: MIT */
/*
 * Checks of one command: whether its operands lie within their slots, and how it is divided into
 * tiles. fw_op_*.c use them to check their operations.
 *
 * Nothing is trusted: each number is checked against a limit before it is used in arithmetic, and
 * products without a limit are computed with overflow checks.
 */
#ifndef FW_CHECK_H
#define FW_CHECK_H

#include <stdbool.h>

#include "fw_stream.h"

/* A stream being checked, and the position in it. */
struct decoder {
	struct fw_prog *prog;
	const struct vnpu_slot *slots;
	const uint64_t *params;
	uint32_t nr_slots, nr_params; /* of the stream */
	uint16_t isa_minor; /* of the stream */
	uint32_t index; /* of the present command */
	const struct isa_op *op; /* of the present command; NULL before the first one */
	char *why;
	size_t why_bytes;
};

/* Writes the reason to @d->why. Returns -EINVAL. */
__attribute__((cold, format(printf, 2, 3))) int fw_refuse(struct decoder *d, const char *fmt, ...);

/* Runs a check; returns its error. */
#define CHECK(call)                       \
	do {                              \
		int check_err = (call);   \
		if (check_err)            \
			return check_err; \
	} while (0)

/* The functions below return 0, or -EINVAL with the reason. */

/* Checks that @value is in 1..@max. */
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
/* *value = param @index, 0 for VNPU_PARAM_NONE; at most @max. */
int fw_check_param(struct decoder *d, const char *name, uint32_t index, uint64_t max,
		   uint64_t *value);
/* Checks rows and cols, as most commands have them. */
int fw_check_shape(struct decoder *d, uint32_t rows, uint32_t cols);
/* Checks the group size of 4-bit weights, which must divide k. */
int fw_check_group(struct decoder *d, uint32_t group, uint32_t k);
/* Checks a block type, enum vnpu_kq_type, whose block must divide k. */
int fw_check_kq(struct decoder *d, uint32_t type, uint32_t k);
/* Checks n and k, and the size of a MATMUL_WK's weights: a table, and panels of 1 to 8 bits. */
int fw_check_wk(struct decoder *d, uint64_t w_bytes, uint32_t n, uint32_t k);

/*
 * Checks of operand @i of the command: set its address in @c->va[i]. Its name, type and access come
 * from the table in isa_ops.h.
 */

/* Checks that the operand has @bytes and is aligned to @align. */
int fw_check_operand(struct decoder *d, struct fw_cmd *c, unsigned int i, uint64_t bytes,
		     unsigned int align);
/* Checks an operand of @rows x @cols elements in rows that are @ld apart: f32, s8, or s8p. */
int fw_check_matrix(struct decoder *d, struct fw_cmd *c, unsigned int i, uint64_t rows,
		    uint64_t cols, uint32_t ld);
/* Checks an operand of @n elements of 4 bytes. */
int fw_check_vector(struct decoder *d, struct fw_cmd *c, unsigned int i, uint64_t n);
/* Checks an operand that is a cache of @type (enum vnpu_kv_type). */
int fw_check_cache(struct decoder *d, struct fw_cmd *c, unsigned int i, uint64_t rows,
		   uint64_t cols, uint32_t ld, uint32_t type);
/* Computes the bytes from the first to the last of @rows of @row_bytes, @stride_bytes apart. */
int fw_check_extent(struct decoder *d, unsigned int i, uint64_t rows, uint64_t stride_bytes,
		    uint64_t row_bytes, uint64_t *bytes);

static inline uint64_t div_up(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

/* Whether the command before this one, without a BARRIER between them, is an @op too. */
bool fw_follows(const struct decoder *d, enum vnpu_op op);

/* Divides @c into tiles of whole rows, or of parts of a row if @split is set and rows are long. */
void fw_cut_rows(struct fw_cmd *c, uint32_t rows, uint64_t cols, bool split);

#endif /* FW_CHECK_H */
