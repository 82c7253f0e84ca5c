/* SPDX-License-Identifier: MIT */
/*
 * What a command of each operation is made of: the one table of the instruction set, for the
 * firmware that checks commands, the compiler that writes them, the disassembler that shows them,
 * and docs/isa.md. It knows no code.
 */
#ifndef ISA_OPS_H
#define ISA_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <npu/vnpu_isa.h>

#define ISA_MAX_OPERANDS 5
#define ISA_MAX_FIELDS 12

/* What an operand is made of. */
enum isa_type {
	ISA_NONE, /* this operation has none of it: slot VNPU_SLOT_NONE, and the rest 0 */
	ISA_BYTES,
	ISA_F32,
	ISA_S8,
	ISA_S8P, /* rows of s8 that are filled up to a multiple of 4 */
	ISA_KV, /* a cache, of the enum vnpu_kv_type that the command says */
	ISA_OUTLIERS, /* struct vnpu_outliers */
	ISA_W8, /* packed weights: MATMUL_I8's, MATMUL_W4's and MATMUL_WK's */
	ISA_W4,
	ISA_WK,
	ISA_W8_W4, /* W8 with a group of 0, else W4 */
	ISA_NR_TYPES,
};

/* By enum isa_type. */
extern const char *const isa_type_names[ISA_NR_TYPES];

struct isa_operand {
	const char *name;
	uint16_t at; /* of its struct vnpu_ref in the command */
	uint8_t access; /* VNPU_SLOT_READ or VNPU_SLOT_WRITE */
	uint8_t type; /* enum isa_type */
	bool optional; /* may be absent */
	/*
	 * "[rows][columns]" or "[elements]": sums of products of the command's fields, and of the
	 * values of its params. "": none.
	 */
	const char *shape;
	/*
	 * The field with the distance between rows, in elements; 0 there: one row is used for all.
	 * NULL: dense.
	 */
	const char *ld;
};

enum isa_field_kind {
	ISA_U32,
	ISA_U32_OR_NONE, /* left out of a listing where it is 0 */
	ISA_U32X2, /* two of them, side by side */
	ISA_U64,
	ISA_FLOAT,
	ISA_PARAM, /* index of a param, or VNPU_PARAM_NONE */
	ISA_NAMED, /* a value of an enum */
	ISA_MODE, /* the same; a listing shows it beside the name of the operation */
};

/* A field that is no operand. */
struct isa_field {
	const char *name;
	uint16_t at;
	uint8_t kind; /* enum isa_field_kind */
	const char *values; /* ISA_NAMED, ISA_MODE: the names of 0, 1.., with | between them */
};

struct isa_op {
	const char *name;
	uint32_t bytes; /* of its command */
	uint16_t minor; /* the version that brought it, 1.minor */
	/* In the order of the command, and in that of a listing; the last ones have no name. */
	struct isa_operand operands[ISA_MAX_OPERANDS + 1];
	struct isa_field fields[ISA_MAX_FIELDS + 1];
};

#define ISA_COUNT_OP(...) +1
/* Numbers of operations are 1..ISA_NR_OPS - 1. */
enum { ISA_NR_OPS = 1 VNPU_OPS(ISA_COUNT_OP) };
#undef ISA_COUNT_OP

extern const struct isa_op isa_ops[ISA_NR_OPS];

/* Of an enum vnpu_op; NULL if there is no such operation. */
static inline const struct isa_op *isa_op(uint16_t op)
{
	return op && op < ISA_NR_OPS ? &isa_ops[op] : NULL;
}

/* Operands of an operation. */
static inline unsigned int isa_nr_operands(const struct isa_op *op)
{
	unsigned int n = 0;

	while (op->operands[n].name)
		n++;
	return n;
}

#endif /* ISA_OPS_H */
