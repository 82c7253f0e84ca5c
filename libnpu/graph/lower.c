// SPDX-License-Identifier: MIT
/* Lowering: operators to commands, each by its struct npu_op (op.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

#define NPU_OP_ROW(NAME, name, number, minor, cmd) [number] = &npu_op_##name,
const struct npu_op *const npu_ops[ISA_NR_OPS] = { VNPU_TENSOR_OPS(NPU_OP_ROW) };

void lower_needs(struct lower_out *o, uint16_t isa_minor)
{
	if (o->isa_minor < isa_minor)
		o->isa_minor = isa_minor;
}

/* The next command, cleared except for its header; NULL if there is no room. */
static void *lower_cmd(struct lower_out *o, enum vnpu_op op, uint16_t flags)
{
	uint32_t bytes = isa_bytes(isa_op(op), flags);
	struct vnpu_cmd *cmd;
	uint8_t *grown;

	if (o->err)
		return NULL;
	if (o->bytes + bytes > VNPU_MAX_STREAM_BYTES) {
		o->err = -E2BIG;
		return NULL;
	}
	if (o->bytes + bytes > o->cap) {
		grown = realloc(o->cmd, o->cap * 2 + 4096);
		if (!grown) {
			o->err = -ENOMEM;
			return NULL;
		}
		o->cmd = grown;
		o->cap = o->cap * 2 + 4096;
	}
	cmd = memset(o->cmd + o->bytes, 0, bytes);
	cmd->op = op;
	cmd->flags = flags;
	cmd->size_bytes = bytes;
	o->bytes += bytes;
	o->nr_cmds++;
	lower_needs(o, isa_op(op)->minor);
	if (flags & VNPU_CMD_PERMUTED)
		lower_needs(o, ISA_PERMUTED_MINOR);
	if (flags & VNPU_CMD_SHAPED)
		lower_needs(o, ISA_SHAPED_MINOR);
	return cmd;
}

void lower_ref(struct lower_out *o, struct vnpu_ref *ref, const struct npu_tensor *t, uint32_t row)
{
	struct npu_image_reloc *grown;

	if (!t) {
		ref->slot = VNPU_SLOT_NONE;
		return;
	}
	if (o->nr_relocs == o->cap_relocs) {
		grown = realloc(o->relocs, (o->cap_relocs * 2 + 64) * sizeof(*grown));
		if (!grown) {
			o->err = -ENOMEM;
			return;
		}
		o->relocs = grown;
		o->cap_relocs = o->cap_relocs * 2 + 64;
	}
	o->relocs[o->nr_relocs++] = (struct npu_image_reloc){
		.offset = (uint32_t)((uint8_t *)ref - o->cmd),
		.slot = t->slot,
		.addend = t->offset + (uint64_t)row * t->ld * 4,
	};
}

uint64_t lower_refs(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	const struct isa_operand *operand = isa_op(op->op)->operands;
	const struct npu_tensor *t;
	unsigned int in = 0, out = 0;
	uint64_t bytes = 0;

	for (; operand->name; operand++) {
		if (operand->access == VNPU_SLOT_READ)
			t = op->in[in++];
		else
			t = op->state ? op->state : op->out[out++];
		lower_ref(o, (struct vnpu_ref *)((uint8_t *)cmd + operand->at), t, 0);
		bytes += t ? t->bytes : 0;
	}
	return bytes;
}

void lower_operands(struct lower_out *o, void *cmd, const struct graph_op *op)
{
	o->bytes_moved += lower_refs(o, cmd, op);
}

static void lower_op(struct lower_out *o, const struct graph_op *op)
{
	/* One line of all rows is what a command without a shape has. */
	bool shaped = op->found && op->found != op->out[0]->rows;
	void *cmd = lower_cmd(o, op->op, op->flags | (shaped ? VNPU_CMD_SHAPED : 0));

	if (!cmd)
		return;
	if (shaped)
		((struct vnpu_shape *)((uint8_t *)cmd + isa_op(op->op)->bytes))->width = op->found;
	if (op->op == VNPU_OP_SLEEP)
		((struct vnpu_cmd_sleep *)cmd)->duration_ns = op->duration_ns;
	else
		npu_ops[op->op]->lower(o, cmd, op);
}

int lower_graph(const struct npu_graph *g, struct lower_out *o)
{
	*o = (struct lower_out){ .cmd = calloc(1, 4096),
				 .cap = 4096,
				 .bytes = sizeof(struct vnpu_stream_hdr) };
	if (!o->cmd)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->nr_live; i++) {
		const struct graph_op *op = &g->ops[g->order[i]];

		if (i && g->ops[g->order[i - 1]].region != op->region)
			lower_cmd(o, VNPU_OP_BARRIER, 0);
		lower_op(o, op);
	}
	lower_cmd(o, VNPU_OP_END, 0);
	return o->err;
}
