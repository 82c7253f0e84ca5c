/* SPDX-License-Identifier: MIT */
/*
 * Whether the device takes a command's operands as the table of operations says: of the shape, with
 * the access, under the name. After cmocka.h.
 */
#ifndef ISA_PROBE_H
#define ISA_PROBE_H

#include <errno.h>
#include <stdio.h>

#include "fw_stream.h"
#include "npu_ranges.h"

#define PROBE_AS_BYTES (1ull << 47)

/* A job of one command, each operand of which is at the start of a slot of its own. */
struct probe {
	struct vnpu_slot slots[ISA_MAX_OPERANDS];
	const uint64_t *params;
	uint32_t nr_params;
	char why[256];
};

static inline int probe_run(struct probe *p, const struct vnpu_cmd *cmd)
{
	_Alignas(8) uint8_t stream[512], table[512];
	struct vnpu_stream_hdr *hdr = (struct vnpu_stream_hdr *)stream;
	struct vnpu_table_hdr *binding = (struct vnpu_table_hdr *)table;
	struct vnpu_cmd end = { .op = VNPU_OP_END, .size_bytes = sizeof(end) };
	struct fw_prog prog = { 0 };
	size_t table_bytes = sizeof(*binding) + sizeof(p->slots) + p->nr_params * sizeof(uint64_t);
	int err;

	*hdr = (struct vnpu_stream_hdr){
		.magic = VNPU_STREAM_MAGIC,
		.isa_major = VNPU_ISA_MAJOR,
		.isa_minor = VNPU_ISA_MINOR,
		.size_bytes = sizeof(*hdr) + cmd->size_bytes + sizeof(end),
		.nr_cmds = 2,
		.nr_slots = ISA_MAX_OPERANDS,
		.nr_params = p->nr_params,
	};
	*binding = (struct vnpu_table_hdr){
		.magic = VNPU_TABLE_MAGIC,
		.version = VNPU_ISA_VERSION,
		.nr_slots = ISA_MAX_OPERANDS,
		.nr_params = p->nr_params,
		.record_slot = VNPU_SLOT_NONE,
	};
	memcpy(hdr + 1, cmd, cmd->size_bytes);
	memcpy(stream + sizeof(*hdr) + cmd->size_bytes, &end, sizeof(end));
	memcpy(binding + 1, p->slots, sizeof(p->slots));
	if (p->nr_params)
		memcpy((uint8_t *)(binding + 1) + sizeof(p->slots), p->params,
		       p->nr_params * sizeof(uint64_t));
	p->why[0] = 0;
	err = fw_prog_decode(&prog, stream, hdr->size_bytes, table, table_bytes, PROBE_AS_BYTES,
			     p->why, sizeof(p->why));
	fw_prog_free(&prog);
	return err;
}

static inline void probe_refused(struct probe *p, const struct vnpu_cmd *cmd, const char *operand,
				 const char *why)
{
	char text[128];

	if (probe_run(p, cmd) != -EINVAL)
		fail_msg("%s: %s: not refused where it %s", isa_op(cmd->op)->name, operand, why);
	snprintf(text, sizeof(text), "command 0 (%s): %s: ", isa_op(cmd->op)->name, operand);
	if (strncmp(p->why, text, strlen(text)) || !strstr(p->why, why))
		fail_msg("%s: %s: '%s', not '%s'", isa_op(cmd->op)->name, operand, p->why, why);
}

static inline void probe_operand(struct probe *p, struct vnpu_cmd *cmd, unsigned int i)
{
	const struct isa_operand *o = &isa_op(cmd->op)->operands[i];
	struct vnpu_ref *ref = (struct vnpu_ref *)((uint8_t *)cmd + o->at), good = *ref;

	p->slots[i].size_bytes--;
	probe_refused(p, cmd, o->name, "exceed");
	p->slots[i].size_bytes++;
	p->slots[i].flags ^= VNPU_SLOT_READ | VNPU_SLOT_WRITE;
	probe_refused(p, cmd, o->name,
		      o->access == VNPU_SLOT_WRITE ? "is not writable" : "is not readable");
	p->slots[i].flags ^= VNPU_SLOT_READ | VNPU_SLOT_WRITE;
	ref->reserved = 1;
	probe_refused(p, cmd, o->name, "reserved");
	*ref = (struct vnpu_ref){ .slot = VNPU_SLOT_NONE };
	if (!o->optional)
		probe_refused(p, cmd, o->name, "slot");
	else if (probe_run(p, cmd))
		fail_msg("%s without %s: %s", isa_op(cmd->op)->name, o->name, p->why);
	*ref = good;
}

/* @cmd is valid but for where its operands are. */
static inline void probe_cmd(const struct vnpu_cmd *cmd, const uint64_t *params, uint32_t nr_params)
{
	struct probe p = { .params = params, .nr_params = nr_params };
	const struct isa_op *op = isa_op(cmd->op);
	_Alignas(8) uint8_t copy[256];
	struct vnpu_cmd *mine = memcpy(copy, cmd, cmd->size_bytes);
	unsigned int i, nr = isa_nr_operands(op);

	for (i = 0; i < nr; i++) {
		struct vnpu_ref *ref = (struct vnpu_ref *)(copy + op->operands[i].at);

		if (op->operands[i].type == ISA_NONE || ref->slot == VNPU_SLOT_NONE)
			continue;
		*ref = (struct vnpu_ref){ .slot = i };
		p.slots[i] = (struct vnpu_slot){
			.va = (uint64_t)(i + 1) << 40,
			.size_bytes = range_bytes(op, mine, &op->operands[i], params),
			.flags = op->operands[i].access,
		};
	}
	if (probe_run(&p, mine))
		fail_msg("%s", p.why);
	for (i = 0; i < nr; i++)
		if (p.slots[i].size_bytes)
			probe_operand(&p, mine, i);
}

#endif /* ISA_PROBE_H */
