/* SPDX-License-Identifier: MIT */
/*
 * A job as the device runs it: the private, checked form of a command stream and its binding table.
 */
#ifndef FW_STREAM_H
#define FW_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include <npu/vnpu_isa.h>

/* Greatest number of operands of a command. */
#define FW_MAX_OPERANDS 5

/*
 * A command whose every operand is known to lie where it may. The union is as submitted; addresses and params are
 * resolved beside it.
 */
struct fw_cmd {
	uint64_t va[FW_MAX_OPERANDS]; /* operands in the order of the command's structure */
	uint64_t pos; /* value of the command's param, 0 where it has none */
	uint32_t index; /* in the stream, which counts BARRIERs and SLEEPs too */
	uint64_t tile0; /* number of its first tile in its region */
	uint64_t nr_tiles;
	/* What one tile takes. Matmuls: tile_m, tile_n as cut by the firmware; ATTN: queries of a KV head, and 1. */
	uint32_t tile_rows, tile_cols;
	union {
		struct vnpu_cmd hdr;
		struct vnpu_cmd_copy copy;
		struct vnpu_cmd_binary binary;
		struct vnpu_cmd_act act;
		struct vnpu_cmd_rmsnorm rmsnorm;
		struct vnpu_cmd_rope rope;
		struct vnpu_cmd_softmax softmax;
		struct vnpu_cmd_quant quant;
		struct vnpu_cmd_dequant dequant;
		struct vnpu_cmd_matmul_i8 matmul;
		struct vnpu_cmd_matmul_w4 matmul_w4;
		struct vnpu_cmd_matmul_wk matmul_wk;
		struct vnpu_cmd_attn attn;
		struct vnpu_cmd_store store;
		struct vnpu_cmd_glu glu;
		struct vnpu_cmd_quant_outliers quant_outliers;
		struct vnpu_cmd_add_outliers add_outliers;
	} u;
};

/* Commands between two barriers: they run concurrently. SLEEPs are only here: the region lasts sleep_ns at least. */
struct fw_region {
	uint32_t first_index; /* in the stream; the BARRIER that ends the region is its last command */
	uint32_t first_cmd, nr_cmds;
	uint64_t nr_tiles;
	uint64_t cost; /* rough, in cycles of one worker: whether it pays to wake the others */
	uint64_t sleep_ns;
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC, written by the engine where a job is timed */
};

struct fw_prog {
	uint32_t i8_rows, i8_step; /* of the engine (kernels.h), or 0: how MATMUL_I8 is cut; stay from job to job */
	struct fw_cmd *cmds;
	uint32_t nr_cmds, max_cmds;
	struct fw_region *regions;
	uint32_t nr_regions, max_regions;
	uint32_t nr_stream_cmds; /* BARRIERs, SLEEPs and END included */
	uint64_t sleep_ns; /* of all SLEEPs together */
	uint64_t record_va, record_bytes; /* the profile slot; 0 bytes: none */
};

/*
 * Checks everything about @stream and @table (private copies, 8-byte aligned) and fills in @prog, whose memory is kept
 * from job to job. @as_size: bytes of the context's address space. 0; -EINVAL with the reason as one line in @why;
 * -ENOMEM.
 */
int fw_prog_decode(struct fw_prog *prog, const void *stream, size_t stream_bytes, const void *table, size_t table_bytes,
		   uint64_t as_size, char *why, size_t why_bytes);
/* All regions' costs, rough; a sleep counts as well. */
uint64_t fw_prog_cost(const struct fw_prog *prog);
void fw_prog_free(struct fw_prog *prog);

/* Of an enum vnpu_op: its name, NULL if there is no such operation; the bytes of its command. */
const char *fw_op_name(uint16_t op);
uint32_t fw_op_bytes(uint16_t op);

#endif /* FW_STREAM_H */
