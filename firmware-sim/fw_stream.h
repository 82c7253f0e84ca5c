/* SPDX-License-Identifier: MIT */
/*
 * A job as the device runs it: the private, checked form of a command stream and its binding table.
 */
#ifndef FW_STREAM_H
#define FW_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "isa_ops.h"

/*
 * A command whose every operand is known to lie where it may. The union is as submitted; addresses
 * and params are resolved beside it.
 */
struct fw_cmd {
	uint64_t va[ISA_MAX_OPERANDS]; /* operands in the order of the command's structure */
	uint64_t pos; /* value of the command's param, 0 where it has none */
	uint32_t index; /* in the stream, which counts BARRIERs and SLEEPs too */
	uint64_t tile0; /* number of its first tile in its region */
	uint64_t nr_tiles;
	/*
	 * What one tile takes. Matmuls: tile_m, tile_n as cut by the firmware; ATTN:
	 * queries of a KV head, and 1.
	 */
	uint32_t tile_rows, tile_cols;
	union {
		struct vnpu_cmd hdr;
#define FW_CMD_OF(NAME, name, number, minor, cmd) struct vnpu_cmd_##cmd name;
		VNPU_TENSOR_OPS(FW_CMD_OF)
#undef FW_CMD_OF
	} u;
};

/*
 * Commands between two barriers: they run concurrently. SLEEPs are only here: the region
 * lasts sleep_ns at least.
 */
struct fw_region {
	/* In the stream; the BARRIER that ends the region is its last command. */
	uint32_t first_index;
	uint32_t first_cmd, nr_cmds;
	uint64_t nr_tiles;
	uint64_t cost; /* rough, in cycles of one worker: whether it pays to wake the others */
	uint64_t sleep_ns;
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC, written by the engine where a job is timed */
};

struct fw_prog {
	/* Of the engine (kernels.h), or 0: how MATMUL_I8 is cut; stay from job to job. */
	uint32_t i8_rows, i8_step;
	struct fw_cmd *cmds;
	uint32_t nr_cmds, max_cmds;
	struct fw_region *regions;
	uint32_t nr_regions, max_regions;
	uint32_t nr_stream_cmds; /* BARRIERs, SLEEPs and END included */
	uint64_t sleep_ns; /* of all SLEEPs together */
	uint64_t record_va, record_bytes; /* the record slot; 0 bytes: none */
};

/*
 * Checks everything about @stream and @table (private copies, 8-byte aligned) and fills in @prog,
 * whose memory is kept from job to job. @as_size: bytes of the context's address space. 0; -EINVAL
 * with the reason as one line in @why; -ENOMEM.
 */
int fw_prog_decode(struct fw_prog *prog, const void *stream, size_t stream_bytes, const void *table,
		   size_t table_bytes, uint64_t as_size, char *why, size_t why_bytes);
/* All regions' costs, rough; a sleep counts as well. */
uint64_t fw_prog_cost(const struct fw_prog *prog);
void fw_prog_free(struct fw_prog *prog);

#endif /* FW_STREAM_H */
