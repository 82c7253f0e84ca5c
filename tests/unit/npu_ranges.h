/* SPDX-License-Identifier: MIT */
/*
 * The memory that a command accesses, by the table of operations, and whether two commands may run
 * at the same time.
 */
#ifndef NPU_RANGES_H
#define NPU_RANGES_H

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "isa_ops.h"
#include "npu_graph.h"

struct range {
	uint32_t slot;
	uint64_t begin, end;
	bool write;
	const char *field;
};

/* The value of a param that is not known: more than any. */
#define ANY_PARAM (1u << 24)

/* The value of field @name, @len characters, of the command at @cmd; @params NULL: unknown. */
static inline uint64_t range_field(const struct isa_op *op, const void *cmd, const char *name,
				   size_t len, const uint64_t *params)
{
	const struct isa_field *f = op->fields;
	uint64_t value = 0;

	while (f->name && (strlen(f->name) != len || strncmp(f->name, name, len)))
		f++;
	if (!f->name)
		fail_msg("%s has no field %.*s", op->name, (int)len, name);
	memcpy(&value, (const uint8_t *)cmd + f->at, f->kind == ISA_U64 ? 8 : 4);
	if (f->kind != ISA_PARAM)
		return value;
	return value == VNPU_PARAM_NONE ? 0 : params ? params[value] : ANY_PARAM;
}

static inline uint64_t range_factor(const struct isa_op *op, const void *cmd, const char **at,
				    const uint64_t *params)
{
	const char *name = *at;

	if (isdigit((unsigned char)*name))
		return strtoull(name, (char **)at, 10);
	*at += strcspn(name, "+*/]");
	return range_field(op, cmd, name, (size_t)(*at - name), params);
}

/* Evaluates a sum of products such as "pos+2*rows" or "heads*head_dim", up to its bracket. */
static inline uint64_t range_sum(const struct isa_op *op, const void *cmd, const char **at,
				 const uint64_t *params)
{
	uint64_t sum = 0, product = range_factor(op, cmd, at, params);
	char sign;

	while ((sign = *(*at)++) != ']') {
		if (sign == '*') {
			product *= range_factor(op, cmd, at, params);
		} else if (sign == '/') {
			product /= range_factor(op, cmd, at, params);
		} else {
			sum += product;
			product = range_factor(op, cmd, at, params);
		}
	}
	return sum + product;
}

/* Bytes of @cols elements of @o in one row. */
static inline uint64_t range_row_bytes(const struct isa_op *op, const void *cmd,
				       const struct isa_operand *o, uint64_t cols)
{
	switch ((enum isa_type)o->type) {
	case ISA_F32:
	case ISA_POSITIONS:
		return cols * 4;
	case ISA_MASKS:
		return cols * 8;
	case ISA_S16:
		return cols * 2;
	case ISA_V8:
		return VNPU_PV_COLUMNS(cols);
	/* A panel has as many bytes as its positions would have alone. */
	case ISA_K8:
	case ISA_S8P:
		return (cols + 3) / 4 * 4;
	case ISA_OUTLIERS:
		return cols * sizeof(struct vnpu_outliers);
	case ISA_KV:
		for (const struct isa_field *f = op->fields; f->name; f++)
			if (f->kind == ISA_NAMED)
				return VNPU_KV_BYTES(
					range_field(op, cmd, f->name, strlen(f->name), NULL), cols);
		fail_msg("%s: of what %s is made is not said", op->name, o->name);
		return 0;
	default:
		return cols;
	}
}

static inline uint64_t range_weights(const struct isa_op *op, const void *cmd, enum isa_type type,
				     uint64_t n, uint64_t k)
{
	uint32_t group =
		type == ISA_W4 || type == ISA_W8_W4 ? range_field(op, cmd, "group", 5, NULL) : 0;

	if (type == ISA_WK)
		return range_field(op, cmd, "w_bytes", 7, NULL);
	return group ? npu_w4_bytes(n, k, group) : npu_w8_bytes(n, k);
}

/* Bytes of operand @o of the command at @cmd, from its first to its last. */
static inline uint64_t range_bytes(const struct isa_op *op, const void *cmd,
				   const struct isa_operand *o, const uint64_t *params)
{
	uint64_t rows = 1, cols, row_bytes, stride;
	const char *at = o->shape + 1;

	cols = range_sum(op, cmd, &at, params);
	if (*at == '[') {
		at++;
		rows = cols;
		cols = range_sum(op, cmd, &at, params);
	}
	if (o->type == ISA_W8 || o->type == ISA_W4 || o->type == ISA_WK || o->type == ISA_W8_W4)
		return range_weights(op, cmd, o->type, rows, cols);
	row_bytes = range_row_bytes(op, cmd, o, cols);
	if (!o->ld)
		return rows * row_bytes;
	stride = range_field(op, cmd, o->ld, strlen(o->ld), NULL);
	/* Rows of s8 may start anywhere. */
	if (o->type != ISA_S8P)
		stride = range_row_bytes(op, cmd, o, stride);
	return stride ? (rows - 1) * stride + row_bytes : row_bytes;
}

static inline unsigned int ranges_of(const struct vnpu_cmd *cmd, struct range r[ISA_MAX_OPERANDS])
{
	const struct isa_op *op = isa_op(cmd->op);
	struct vnpu_ref ref;
	unsigned int n = 0;

	for (const struct isa_operand *o = op->operands; o->name; o++) {
		memcpy(&ref, (const uint8_t *)cmd + o->at, sizeof(ref));
		if (ref.slot == VNPU_SLOT_NONE)
			continue;
		r[n++] = (struct range){
			.slot = ref.slot,
			.begin = ref.offset,
			.end = ref.offset + range_bytes(op, cmd, o, NULL),
			.write = o->access == VNPU_SLOT_WRITE,
			.field = o->name,
		};
	}
	return n;
}

static inline bool ranges_conflict(const struct range *a, const struct range *b)
{
	return a->slot == b->slot && a->begin < b->end && b->begin < a->end &&
	       (a->write || b->write);
}

static inline const char *cmds_conflict(const struct vnpu_cmd *a, const struct vnpu_cmd *b)
{
	struct range ra[ISA_MAX_OPERANDS], rb[ISA_MAX_OPERANDS];
	unsigned int na = ranges_of(a, ra), nb = ranges_of(b, rb);

	for (unsigned int i = 0; i < na; i++)
		for (unsigned int k = 0; k < nb; k++)
			if (ranges_conflict(&ra[i], &rb[k]))
				return ra[i].field;
	return NULL;
}

#endif /* NPU_RANGES_H */
