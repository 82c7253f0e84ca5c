/* SPDX-License-Identifier: MIT */
/* A job as the device runs it: the private, validated form of a command stream and its table. */
#ifndef FW_STREAM_H
#define FW_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isa_ops.h"

/*
 * A command whose operands have all been checked. The union is as submitted; resolved addresses and
 * params are beside it.
 */
struct fw_cmd {
	uint64_t va[ISA_MAX_OPERANDS]; /* operands in the order of isa_ops.c */
	uint32_t width; /* of a line of a matmul's rows; 0: one line has all of them */
	uint64_t pos; /* value of the command's param; 0 if it has none */
	uint32_t index; /* in the stream with BARRIERs and SLEEPs */
	uint64_t tile0; /* index of its first tile in the region */
	uint64_t nr_tiles;
	/*
	 * Size of a tile. Matmuls: tile_m, tile_n as limited by the firmware; ATTN: queries of a KV
	 * head, and KV heads: those of whole_segments, and of the segments behind them.
	 */
	uint32_t tile_rows, tile_cols, part_cols;
	uint32_t most; /* consecutive tiles that a worker takes at once; 0: one */
	/* QK_I8, ATTN_I8: the command before it, in the same region, is one too; they share a
	 * set-up. */
	bool fused;
	/* ATTN: segments of keys that its tiles divide, or 1; how many of them, the first ones, are
	 * read in whole rows; and where in the engine's memory for parts their sums are. */
	uint64_t nr_segments, whole_segments, parts;
	uint64_t busy_ns; /* of all workers; written by the engine if the job is timed */
	union {
		struct vnpu_cmd hdr;
#define FW_CMD_OF(NAME, name, number, minor, cmd) struct vnpu_cmd_##cmd name;
		VNPU_TENSOR_OPS(FW_CMD_OF)
#undef FW_CMD_OF
	} u;
};

/*
 * Commands between two barriers, which run concurrently. SLEEPs are not commands here: the region
 * lasts at least sleep_ns.
 */
struct fw_region {
	/* In the stream; the BARRIER that ends the region counts as its last command. */
	uint32_t first_index;
	uint32_t first_cmd, nr_cmds;
	uint64_t nr_tiles;
	/* Estimate in cycles of one worker, to decide whether waking the others pays. */
	uint64_t cost;
	uint64_t sleep_ns;
	uint64_t parts_bytes; /* of the engine's memory for parts */
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC; written by the engine if the job is timed */
};

/* Size of the engine's memory for the parts of results that tiles leave to each other. */
#define FW_PARTS_BYTES (16ul << 20)

struct fw_prog {
	/* Of the engine (kernels.h), for the tiles of MATMUL_I8, or 0; kept from job to job. */
	uint32_t i8_rows, i8_step;
	unsigned int workers; /* of the engine, or 0: as 1; for the tiles of ATTN */
	struct fw_cmd *cmds;
	uint32_t nr_cmds, max_cmds;
	struct fw_region *regions;
	uint32_t nr_regions, max_regions;
	uint32_t nr_stream_cmds; /* with BARRIERs, SLEEPs and END */
	uint64_t sleep_ns; /* sum of all SLEEPs */
	uint64_t record_va, record_bytes; /* the record slot; 0 bytes: no record */
};

/*
 * Validates @stream and @table (private copies, 8-byte aligned) and fills in @prog, whose memory is
 * reused from job to job. @as_size: size of the context's address space in bytes. 0; -EINVAL with
 * the reason as one line in @why; -ENOMEM.
 */
int fw_prog_decode(struct fw_prog *prog, const void *stream, size_t stream_bytes, const void *table,
		   size_t table_bytes, uint64_t as_size, char *why, size_t why_bytes);
/* Estimated cost of all regions, with sleeps. */
uint64_t fw_prog_cost(const struct fw_prog *prog);
void fw_prog_free(struct fw_prog *prog);

#endif /* FW_STREAM_H */
