/* SPDX-License-Identifier: MIT */
/*
 * The fields of each operation's command: the table of the instruction set for the firmware, which
 * checks commands, the compiler, which writes them, the disassembler, and docs/isa.md. Data only.
 */
#ifndef ISA_OPS_H
#define ISA_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <npu/vnpu_isa.h>

#define ISA_MAX_OPERANDS 5
#define ISA_MAX_FIELDS 15

/* Type of an operand. */
enum isa_type {
	ISA_NONE, /* not used by the operation: slot VNPU_SLOT_NONE, and the rest 0 */
	ISA_BYTES,
	ISA_F32,
	ISA_S8,
	ISA_S8P, /* rows of s8, each padded to a multiple of 4 */
	ISA_KV, /* a cache, of the command's enum vnpu_kv_type */
	ISA_OUTLIERS, /* struct vnpu_outliers */
	ISA_W8, /* packed weights of MATMUL_I8, MATMUL_W4, MATMUL_WK and MATMUL_KQ */
	ISA_W4,
	ISA_WK,
	ISA_KQ,
	ISA_W8_W4, /* W8 if group is 0, else W4 */
	ISA_K8, /* packed keys of QK_I8 */
	ISA_S16,
	ISA_V8, /* packed values of ATTN_I8 */
	ISA_POSITIONS, /* u32 */
	ISA_MASKS, /* u64 */
	ISA_NR_TYPES,
};

/* Indexed by enum isa_type. */
extern const char *const isa_type_names[ISA_NR_TYPES];

/* "q4_k" and so on, indexed by enum vnpu_kq_type. */
extern const char *const isa_kq_names[VNPU_NR_KQ_TYPES];

struct isa_operand {
	const char *name;
	uint16_t at; /* offset of its struct vnpu_ref in the command */
	uint8_t access; /* VNPU_SLOT_READ or VNPU_SLOT_WRITE */
	uint8_t type; /* enum isa_type */
	bool optional; /* may be absent */
	/*
	 * "[rows][columns]" or "[elements]": sums of products of the command's fields and of the
	 * values of its params. "": none.
	 */
	const char *shape;
	/*
	 * The field with the distance between rows in elements; with 0 there, one row is used for
	 * all. NULL: rows are dense.
	 */
	const char *ld;
};

enum isa_field_kind {
	ISA_U32,
	ISA_U32_OR_NONE, /* a listing omits it if it is 0 */
	ISA_U32X2, /* two values side by side */
	ISA_U64,
	ISA_FLOAT,
	ISA_FLOAT_OR_NONE, /* a listing omits it if it is 0 */
	ISA_PARAM, /* index of a param, or VNPU_PARAM_NONE */
	ISA_NAMED, /* a value of an enum */
	ISA_MODE, /* the same; a listing shows it after the name of the operation */
};

/* A field that is not an operand. */
struct isa_field {
	const char *name;
	uint16_t at;
	uint8_t kind; /* enum isa_field_kind */
	const char *values; /* ISA_NAMED, ISA_MODE: the names of 0, 1, ..., separated by | */
};

struct isa_op {
	const char *name;
	uint32_t bytes; /* size of its command, without what a flag adds: isa_bytes() */
	uint16_t minor; /* version that added it, 1.minor */
	uint16_t flags; /* VNPU_CMD_* that its commands may have */
	/* In the order of a listing, those that are read first; the entry after the last has no
	 * name. */
	struct isa_operand operands[ISA_MAX_OPERANDS + 1];
	struct isa_field fields[ISA_MAX_FIELDS + 1];
};

#define ISA_COUNT_OP(...) +1
/* Numbers of operations are 1..ISA_NR_OPS - 1. */
enum { ISA_NR_OPS = 1 VNPU_OPS(ISA_COUNT_OP) };
#undef ISA_COUNT_OP

extern const struct isa_op isa_ops[ISA_NR_OPS];

/* The operation @op (enum vnpu_op); NULL if it does not exist. */
static inline const struct isa_op *isa_op(uint16_t op)
{
	return op && op < ISA_NR_OPS ? &isa_ops[op] : NULL;
}

/* The versions that added VNPU_CMD_PERMUTED and VNPU_CMD_SHAPED, 1.minor. */
#define ISA_PERMUTED_MINOR 5
#define ISA_SHAPED_MINOR 7
/* The version that added further values of enum vnpu_act. */
#define ISA_ACTS_MINOR 10

/* The flags that a command of @op may have in a stream of version 1.@minor. */
static inline uint16_t isa_flags(const struct isa_op *op, uint16_t minor)
{
	uint16_t known = 0;

	if (minor >= ISA_PERMUTED_MINOR)
		known |= VNPU_CMD_PERMUTED;
	if (minor >= ISA_SHAPED_MINOR)
		known |= VNPU_CMD_SHAPED;
	return op->flags & known;
}

/* The size of a command of @op with @flags. */
static inline uint32_t isa_bytes(const struct isa_op *op, uint16_t flags)
{
	return op->bytes + (flags & VNPU_CMD_SHAPED ? (uint32_t)sizeof(struct vnpu_shape) : 0);
}

/* Number of operands of an operation. */
static inline unsigned int isa_nr_operands(const struct isa_op *op)
{
	unsigned int n = 0;

	while (op->operands[n].name)
		n++;
	return n;
}

#endif /* ISA_OPS_H */
