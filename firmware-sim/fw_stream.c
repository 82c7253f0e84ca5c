// SPDX-License-Identifier: MIT
/*
 * Validates command streams in one pass over the binding table and one over the commands; each
 * operation checks its commands (fw_op.h). The addresses in the output need no further check.
 */
#include "fw_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fw_op.h"

#define MAX_SLEEP_NS 60000000000ull

/* Checks the slot for the job's times. */
static int check_profile_slot(struct decoder *d, const struct vnpu_table_hdr *hdr)
{
	const struct vnpu_slot *slot;

	if (hdr->reserved)
		return fw_refuse(d, "table: reserved field is not 0");
	if (hdr->record_slot == VNPU_SLOT_NONE)
		return 0;
	if (hdr->record_slot >= hdr->nr_slots)
		return fw_refuse(d, "table: record slot %u of %u", hdr->record_slot, hdr->nr_slots);
	slot = &d->slots[hdr->record_slot];
	if (!(slot->flags & VNPU_SLOT_WRITE))
		return fw_refuse(d, "table: record slot %u is not writable", hdr->record_slot);
	if (slot->size_bytes < sizeof(struct vnpu_record))
		return fw_refuse(d, "table: record slot %u: a record of %zu bytes exceeds its %llu",
				 hdr->record_slot, sizeof(struct vnpu_record),
				 (unsigned long long)slot->size_bytes);
	d->prog->record_va = slot->va;
	d->prog->record_bytes = slot->size_bytes;
	return 0;
}

static int check_table(struct decoder *d, const void *table, size_t bytes, uint64_t as_size)
{
	const struct vnpu_table_hdr *hdr = table;
	const struct vnpu_slot *slot;
	size_t hdr_bytes = VNPU_TABLE_HDR_BYTES_1_0;
	uint32_t i;

	if (bytes < hdr_bytes)
		return fw_refuse(d, "table: %zu bytes", bytes);
	if (hdr->magic != VNPU_TABLE_MAGIC)
		return fw_refuse(d, "table: magic %#x", hdr->magic);
	if (hdr->version >> 16 != VNPU_ISA_MAJOR || (hdr->version & 0xffff) > VNPU_ISA_MINOR)
		return fw_refuse(d, "table: version %#x, this device has %#x", hdr->version,
				 VNPU_ISA_VERSION);
	if (hdr->version & 0xffff)
		hdr_bytes = sizeof(*hdr);
	if (hdr->nr_slots > VNPU_MAX_SLOTS || hdr->nr_params > VNPU_MAX_PARAMS)
		return fw_refuse(d, "table: %u slots and %u params", hdr->nr_slots, hdr->nr_params);
	if (bytes != hdr_bytes + hdr->nr_slots * sizeof(*slot) + hdr->nr_params * sizeof(uint64_t))
		return fw_refuse(d, "table: %zu bytes for %u slots and %u params", bytes,
				 hdr->nr_slots, hdr->nr_params);
	d->slots = (const struct vnpu_slot *)((const uint8_t *)table + hdr_bytes);
	d->params = (const uint64_t *)(d->slots + hdr->nr_slots);
	for (i = 0; i < hdr->nr_slots; i++) {
		slot = &d->slots[i];
		if (slot->flags & ~(VNPU_SLOT_READ | VNPU_SLOT_WRITE) || slot->reserved)
			return fw_refuse(d, "table: slot %u: unknown flag or reserved field", i);
		if (slot->va % 64)
			return fw_refuse(d, "table: slot %u: address %#llx is not a multiple of 64",
					 i, (unsigned long long)slot->va);
		if (!slot->size_bytes && slot->va)
			return fw_refuse(d, "table: slot %u: unused, but at %#llx", i,
					 (unsigned long long)slot->va);
		if (slot->va > as_size || slot->size_bytes > as_size - slot->va)
			return fw_refuse(
				d, "table: slot %u: %#llx + %#llx leaves the address space", i,
				(unsigned long long)slot->va, (unsigned long long)slot->size_bytes);
	}
	return hdr_bytes == sizeof(*hdr) ? check_profile_slot(d, hdr) : 0;
}

static int check_header(struct decoder *d, const struct vnpu_stream_hdr *hdr, size_t bytes,
			const struct vnpu_table_hdr *table)
{
	if (bytes < sizeof(*hdr))
		return fw_refuse(d, "stream: %zu bytes", bytes);
	if (hdr->magic != VNPU_STREAM_MAGIC)
		return fw_refuse(d, "stream: magic %#x", hdr->magic);
	if (hdr->isa_major != VNPU_ISA_MAJOR || hdr->isa_minor > VNPU_ISA_MINOR)
		return fw_refuse(d, "stream: ISA %u.%u, this device has %u.%u", hdr->isa_major,
				 hdr->isa_minor, VNPU_ISA_MAJOR, VNPU_ISA_MINOR);
	if (hdr->size_bytes != bytes || bytes > VNPU_MAX_STREAM_BYTES)
		return fw_refuse(d, "stream: says %u bytes, has %zu", hdr->size_bytes, bytes);
	if (hdr->nr_slots > table->nr_slots || hdr->nr_params > table->nr_params)
		return fw_refuse(d, "stream: needs %u slots and %u params, the table has %u and %u",
				 hdr->nr_slots, hdr->nr_params, table->nr_slots, table->nr_params);
	if (hdr->reserved)
		return fw_refuse(d, "stream: reserved field is not 0");
	d->nr_slots = hdr->nr_slots;
	d->nr_params = hdr->nr_params;
	d->isa_minor = hdr->isa_minor;
	return 0;
}

/* Makes room for one more element in an array that doubles. */
static int grow(void **array, uint32_t nr, uint32_t *max, size_t elem_bytes)
{
	uint32_t want = *max ? *max * 2 : 64;
	void *bigger;

	if (nr < *max)
		return 0;
	bigger = realloc(*array, want * elem_bytes);
	if (!bigger)
		return -ENOMEM;
	*array = bigger;
	*max = want;
	return 0;
}

/* Closes the current region unless it is empty, and opens the next. */
static int next_region(struct fw_prog *p, uint32_t first_index)
{
	struct fw_region *r = p->nr_regions ? &p->regions[p->nr_regions - 1] : NULL;
	int err;

	if (r && !r->nr_cmds && !r->sleep_ns)
		return 0;
	err = grow((void **)&p->regions, p->nr_regions, &p->max_regions, sizeof(*p->regions));
	if (err)
		return err;
	p->regions[p->nr_regions++] =
		(struct fw_region){ .first_index = first_index, .first_cmd = p->nr_cmds };
	return 0;
}

/* Copies the command, and the shape that may follow it. */
static int copy_cmd(struct decoder *d, struct fw_cmd *c, const struct vnpu_cmd *cmd)
{
	const struct vnpu_shape *shape =
		(const struct vnpu_shape *)((const uint8_t *)cmd + d->op->bytes);

	memset(c, 0, sizeof(*c));
	memcpy(&c->u, cmd, d->op->bytes);
	if (!(cmd->flags & VNPU_CMD_SHAPED))
		return 0;
	c->width = shape->width;
	CHECK(fw_check_reserved(d, shape->reserved));
	return fw_check_bounded(d, "width", c->width, VNPU_MAX_DIM);
}

static int add_cmd(struct decoder *d, const struct vnpu_cmd *cmd)
{
	struct fw_prog *p = d->prog;
	struct fw_region *r = &p->regions[p->nr_regions - 1];
	uint64_t cost = 0, sum;
	struct fw_cmd *c;
	int err;

	err = grow((void **)&p->cmds, p->nr_cmds, &p->max_cmds, sizeof(*p->cmds));
	if (err)
		return err;
	c = &p->cmds[p->nr_cmds];
	err = copy_cmd(d, c, cmd);
	if (!err)
		err = fw_ops[cmd->op]->check(d, c, &cost);
	if (err)
		return err;
	c->index = d->index;
	c->tile0 = r->nr_tiles;
	r->nr_tiles += c->nr_tiles;
	r->cost = __builtin_add_overflow(r->cost, cost, &sum) ? UINT64_MAX : sum;
	r->nr_cmds++;
	p->nr_cmds++;
	return 0;
}

static int add_sleep(struct decoder *d, const struct vnpu_cmd_sleep *cmd)
{
	struct fw_region *r = &d->prog->regions[d->prog->nr_regions - 1];

	if (cmd->duration_ns > MAX_SLEEP_NS)
		return fw_refuse(d, "%llu ns is more than 60 s",
				 (unsigned long long)cmd->duration_ns);
	if (cmd->duration_ns > r->sleep_ns)
		r->sleep_ns = cmd->duration_ns;
	/* At most 2^20 sleeps of a minute: no overflow. */
	d->prog->sleep_ns += cmd->duration_ns;
	return 0;
}

static int decode_cmds(struct decoder *d, const uint8_t *p, const uint8_t *end, uint32_t nr_cmds)
{
	static const struct isa_op unknown = { .name = "?" };
	const struct vnpu_cmd *cmd;
	int err = next_region(d->prog, 0);

	for (d->index = 0; !err; d->index++) {
		d->op = &unknown;
		if ((size_t)(end - p) < sizeof(*cmd))
			return fw_refuse(d, "the stream ends without END");
		cmd = (const struct vnpu_cmd *)p;
		if (!isa_op(cmd->op))
			return fw_refuse(d, "unknown operation %u", cmd->op);
		d->op = isa_op(cmd->op);
		if (cmd->flags & ~isa_flags(d->op, d->isa_minor))
			return fw_refuse(d, "flags %#x are unknown to it in ISA %u.%u", cmd->flags,
					 VNPU_ISA_MAJOR, d->isa_minor);
		if (cmd->size_bytes != isa_bytes(d->op, cmd->flags))
			return fw_refuse(d, "%u bytes, not %u", cmd->size_bytes,
					 isa_bytes(d->op, cmd->flags));
		if (cmd->size_bytes > (size_t)(end - p))
			return fw_refuse(d, "leaves the stream");
		p += cmd->size_bytes;
		if (cmd->op == VNPU_OP_END)
			break;
		if (cmd->op == VNPU_OP_BARRIER)
			err = next_region(d->prog, d->index + 1);
		else if (cmd->op == VNPU_OP_SLEEP)
			err = add_sleep(d, (const struct vnpu_cmd_sleep *)cmd);
		else
			err = add_cmd(d, cmd);
	}
	if (err)
		return err;
	if (p != end)
		return fw_refuse(d, "%zu bytes after END", (size_t)(end - p));
	if (d->index + 1 != nr_cmds)
		return fw_refuse(d, "END is command %u of %u", d->index + 1, nr_cmds);
	d->prog->nr_stream_cmds = nr_cmds;
	return 0;
}

int fw_prog_decode(struct fw_prog *prog, const void *stream, size_t stream_bytes, const void *table,
		   size_t table_bytes, uint64_t as_size, char *why, size_t why_bytes)
{
	struct decoder d = { .prog = prog, .why = why, .why_bytes = why_bytes };
	const struct vnpu_stream_hdr *hdr = stream;
	int err;

	prog->nr_cmds = 0;
	prog->nr_regions = 0;
	prog->sleep_ns = 0;
	prog->record_va = prog->record_bytes = 0;
	err = check_table(&d, table, table_bytes, as_size);
	if (!err)
		err = check_header(&d, hdr, stream_bytes, table);
	if (!err)
		err = decode_cmds(&d, (const uint8_t *)(hdr + 1),
				  (const uint8_t *)stream + stream_bytes, hdr->nr_cmds);
	if (err) {
		prog->nr_cmds = 0;
		prog->nr_regions = 0;
	}
	return err;
}

uint64_t fw_prog_cost(const struct fw_prog *prog)
{
	uint64_t cost = 0;
	uint32_t i;

	for (i = 0; i < prog->nr_regions; i++)
		if (__builtin_add_overflow(cost, prog->regions[i].cost, &cost) ||
		    __builtin_add_overflow(cost, prog->regions[i].sleep_ns, &cost))
			return UINT64_MAX;
	return cost;
}

void fw_prog_free(struct fw_prog *prog)
{
	free(prog->cmds);
	free(prog->regions);
	memset(prog, 0, sizeof(*prog));
}
