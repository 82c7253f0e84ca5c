/* SPDX-License-Identifier: MIT */
/*
 * The device's implementation of an operation: a struct of functions in fw_op_*.c. isa_ops.h
 * describes the commands.
 *
 * The struct is called fw_op_ and the operation's name, by which fw_ops.c finds it.
 */
#ifndef FW_OP_H
#define FW_OP_H

#include <stdbool.h>

#include "fw_check.h"
#include "fw_exec.h"
#include "npu_time.h"

/* Largest number of memory ranges that a tile accesses. */
#define FW_TILE_RANGES 5
/* Largest number of multiply-accumulates in a tile, so that a cancelled job ends within some ms. */
#define FW_TILE_MACS (5ull << 27)

/* The part of a command that a worker takes at a time. */
struct fw_tile {
	const struct fw_kernels *k;
	const struct fw_exec_job *job;
	const struct fw_cmd *cmd;
	const struct isa_op *op;
	uint8_t *base; /* base of the address space */
	void *scratch; /* FW_SCRATCH_BYTES */
	uint64_t row, rows, col, cols;
	uint64_t nr; /* tiles of the command that are run as this one */
	uint64_t segment; /* ATTN: of the keys */
	struct fw_access acc[FW_TILE_RANGES];
	unsigned int nr_acc;
	struct fw_fault *fault; /* out, if prepare() returns -EFAULT */
	/* MATMUL_WK, ADD_OUTLIERS_WK: a copy of the tile's part of the table. */
	struct vnpu_wk_panel table[FW_WK_PANELS];
	uint32_t nr_panels;
};

struct fw_op {
	/*
	 * Checks @c, whose union is filled in: resolves its operands and params, divides it into
	 * tiles, and estimates its cost in cycles of one worker. 0 or -EINVAL.
	 */
	int (*check)(struct decoder *d, struct fw_cmd *c, uint64_t *cost);
	/* Sets the part of the command that tiles @index.. are, and its memory ranges. Returns as
	 * fw_tile_run(). */
	int (*prepare)(struct fw_tile *t, uint64_t index);
	/* Prepares the memory for parts, before the first tile of a region. NULL: uses none. */
	void (*begin)(const struct fw_cmd *c, uint8_t *parts);
	/* Computes a prepared tile, a struct fw_tile. */
	void (*run)(void *tile);
	/*
	 * Size in bytes of a panel of weights, operand 2, if a tile's panels are consecutive from
	 * its first channel on. NULL: no weights, or their places are in memory.
	 */
	uint64_t (*panel_bytes)(const struct fw_cmd *c);
	/* The cost of the command on the modelled NPU. */
	struct npu_cost (*time)(const struct soc_npu *npu, const struct fw_cmd *c);
};

#define FW_OP_ROW(NAME, name, number, minor, cmd) extern const struct fw_op fw_op_##name;
VNPU_TENSOR_OPS(FW_OP_ROW)
#undef FW_OP_ROW

extern const struct fw_op *const fw_ops[ISA_NR_OPS];

/* ---- for prepare() and run() ---- */

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The address of operand @i in this process. */
static inline void *tile_at(const struct fw_tile *t, unsigned int i)
{
	return t->base + t->cmd->va[i];
}

static inline float *tile_f32(const struct fw_tile *t, unsigned int i, uint64_t row, uint64_t ld,
			      uint64_t col)
{
	return (float *)tile_at(t, i) + row * ld + col;
}

/* The tile accesses @bytes of operand @i, from @begin on. */
static inline void tile_touch(struct fw_tile *t, unsigned int i, uint64_t begin, uint64_t bytes)
{
	bool write = t->op->operands[i].access == VNPU_SLOT_WRITE;

	t->acc[t->nr_acc++] = (struct fw_access){ t->cmd->va[i] + begin, bytes, write };
}

/* The tile accesses its rows and columns of operand @i, a matrix of 4-byte elements. */
static inline void tile_touch_f32(struct fw_tile *t, unsigned int i, uint64_t ld)
{
	tile_touch(t, i, (t->row * ld + t->col) * 4, ((t->rows - 1) * ld + t->cols) * 4);
}

/* Sets the tile to part @index of a command over [rows][cols]. */
void tile_place(struct fw_tile *t, uint64_t rows, uint64_t cols, uint64_t index);

/*
 * For tiles of at most FW_WK_PANELS panels of MATMUL_WK, in operand 2 with @w_bytes: copies the
 * table's part for the tile's columns and checks it. *begin, *bytes: the range of its panels in the
 * weights. Returns as fw_tile_run().
 */
int tile_wk_table(struct fw_tile *t, uint64_t w_bytes, uint32_t k, uint64_t *begin,
		  uint64_t *bytes);
/* The panels of the checked copy, for the kernels. */
void tile_wk_panels(const struct fw_tile *t, struct fw_wk_panel *panels);

/* ---- for time() ---- */

#define FLOAT_BYTES (FLOAT_BITS / 8.0)
#define SCALE_BYTES 4.0 /* per quantised row */

/* @ops operations on each of @elements; reads and writes @floats and @bytes. */
struct npu_cost fw_vector_time(const struct soc_npu *npu, double elements, double ops,
			       double floats, double bytes);
/* The average width of weights of MATMUL_WK, which follows from their size: the table is in memory.
 * Sums, scales and the table do not count. */
double fw_wk_bits(uint64_t w_bytes, uint32_t n, uint32_t k);
/* Bits of a cached value. F32 counts as F16: this host stores F32, the modelled NPU F16. */
double fw_kv_bits(uint32_t type);

#endif /* FW_OP_H */
