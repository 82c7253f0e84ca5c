// SPDX-License-Identifier: MIT
#include "fw_check.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

typedef unsigned long long ull;

/* Elements per tile of a simple operator: some 10 us of work. */
#define TILE_ELEMS 16384u

int fw_refuse(struct decoder *d, const char *fmt, ...)
{
	va_list ap;
	int n = 0;

	if (d->op)
		n = snprintf(d->why, d->why_bytes, "command %u (%s): ", d->index, d->op->name);
	if (n >= 0 && (size_t)n < d->why_bytes) {
		va_start(ap, fmt);
		vsnprintf(d->why + n, d->why_bytes - n, fmt, ap);
		va_end(ap);
	}
	return -EINVAL;
}

int fw_check_finite(struct decoder *d, const char *name, float value)
{
	return isfinite(value) ? 0 : fw_refuse(d, "%s is not finite", name);
}

int fw_check_param(struct decoder *d, const char *name, uint32_t index, uint64_t max,
		   uint64_t *value)
{
	*value = 0;
	if (index == VNPU_PARAM_NONE)
		return 0;
	if (index >= d->nr_params)
		return fw_refuse(d, "%s: param %u of %u", name, index, d->nr_params);
	if (d->params[index] > max)
		return fw_refuse(d, "%s: param %u is %llu, more than %llu", name, index,
				 (ull)d->params[index], (ull)max);
	*value = d->params[index];
	return 0;
}

int fw_check_shape(struct decoder *d, uint32_t rows, uint32_t cols)
{
	CHECK(fw_check_bounded(d, "rows", rows, VNPU_MAX_DIM));
	return fw_check_bounded(d, "cols", cols, VNPU_MAX_DIM);
}

int fw_check_group(struct decoder *d, uint32_t group, uint32_t k)
{
	if (group != 32 && group != 64 && group != 128)
		return fw_refuse(d, "group is %u, not 32, 64 or 128", group);
	if (k % group)
		return fw_refuse(d, "k %u is not a multiple of the group, %u", k, group);
	return 0;
}

int fw_check_kq(struct decoder *d, uint32_t type, uint32_t k)
{
	const struct vnpu_kq_form f = vnpu_kq_form(type);

	if (!f.block)
		return fw_refuse(d, "type %u is not known", type);
	if (d->isa_minor < vnpu_kq_minor(type))
		return fw_refuse(d, "type %u is unknown in ISA %u.%u", type, VNPU_ISA_MAJOR,
				 d->isa_minor);
	if (k % f.block)
		return fw_refuse(d, "k %u is not a multiple of the type's block of %u", k, f.block);
	return 0;
}

int fw_check_wk(struct decoder *d, uint64_t w_bytes, uint32_t n, uint32_t k)
{
	uint64_t panels = div_up(n, VNPU_PANEL_N), least, most;

	CHECK(fw_check_bounded(d, "n", n, VNPU_MAX_DIM));
	CHECK(fw_check_bounded(d, "k", k, VNPU_MAX_K_I8));
	least = VNPU_WK_TABLE_BYTES(n) + panels * VNPU_PANEL_WK_BYTES(k, 1);
	most = VNPU_WK_TABLE_BYTES(n) + panels * VNPU_PANEL_WK_BYTES(k, 8);
	if (w_bytes < least || w_bytes > most || w_bytes % 64)
		return fw_refuse(d, "w_bytes is %llu, not %llu..%llu in steps of 64", (ull)w_bytes,
				 (ull)least, (ull)most);
	return 0;
}

int fw_check_extent(struct decoder *d, unsigned int i, uint64_t rows, uint64_t stride_bytes,
		    uint64_t row_bytes, uint64_t *bytes)
{
	if (__builtin_mul_overflow(rows - 1, stride_bytes, bytes) ||
	    __builtin_add_overflow(*bytes, row_bytes, bytes))
		return fw_refuse(d, "%s: %llu rows %llu bytes apart overflow",
				 d->op->operands[i].name, (ull)rows, (ull)stride_bytes);
	return 0;
}

int fw_check_operand(struct decoder *d, struct fw_cmd *c, unsigned int i, uint64_t bytes,
		     unsigned int align)
{
	const struct isa_operand *o = &d->op->operands[i];
	const struct vnpu_ref *ref = (const struct vnpu_ref *)((const uint8_t *)&c->u + o->at);
	const struct vnpu_slot *slot;

	if (ref->reserved)
		return fw_refuse(d, "%s: reserved field is not 0", o->name);
	if (ref->slot >= d->nr_slots)
		return fw_refuse(d, "%s: slot %u of %u", o->name, ref->slot, d->nr_slots);
	slot = &d->slots[ref->slot];
	if (!(slot->flags & o->access))
		return fw_refuse(d, "%s: slot %u is not %s", o->name, ref->slot,
				 o->access == VNPU_SLOT_WRITE ? "writable" : "readable");
	if (ref->offset > slot->size_bytes || bytes > slot->size_bytes - ref->offset)
		return fw_refuse(d, "%s: %llu bytes at %llu exceed the %llu of slot %u", o->name,
				 (ull)bytes, (ull)ref->offset, (ull)slot->size_bytes, ref->slot);
	if (ref->offset % align)
		return fw_refuse(d, "%s: offset %llu is not a multiple of %u", o->name,
				 (ull)ref->offset, align);
	c->va[i] = slot->va + ref->offset;
	return 0;
}

int fw_check_matrix(struct decoder *d, struct fw_cmd *c, unsigned int i, uint64_t rows,
		    uint64_t cols, uint32_t ld)
{
	const struct isa_operand *o = &d->op->operands[i];
	unsigned int elem_bytes = o->type == ISA_F32 ? 4 : 1;
	uint64_t bytes;

	if (o->type == ISA_S8P)
		cols = (cols + 3) / 4 * 4;
	if (ld < cols)
		return fw_refuse(d, "%s: rows %u elements apart, but %llu long", o->name, ld,
				 (ull)cols);
	CHECK(fw_check_extent(d, i, rows, (uint64_t)ld * elem_bytes, cols * elem_bytes, &bytes));
	return fw_check_operand(d, c, i, bytes, elem_bytes);
}

int fw_check_vector(struct decoder *d, struct fw_cmd *c, unsigned int i, uint64_t n)
{
	return fw_check_operand(d, c, i, n * 4, 4);
}

int fw_check_cache(struct decoder *d, struct fw_cmd *c, unsigned int i, uint64_t rows,
		   uint64_t cols, uint32_t ld, uint32_t type)
{
	const char *name = d->op->operands[i].name;
	uint64_t bytes;

	if (ld < cols)
		return fw_refuse(d, "%s: rows %u values apart, but %llu long", name, ld, (ull)cols);
	if (type == VNPU_KV_Q8_0 && ld % VNPU_Q8_0_VALUES)
		return fw_refuse(d, "%s: rows %u values apart, not a multiple of %u", name, ld,
				 VNPU_Q8_0_VALUES);
	CHECK(fw_check_extent(d, i, rows, VNPU_KV_BYTES(type, ld), VNPU_KV_BYTES(type, cols),
			      &bytes));
	return fw_check_operand(d, c, i, bytes, type == VNPU_KV_F32 ? 4 : 2);
}

bool fw_follows(const struct decoder *d, enum vnpu_op op)
{
	const struct fw_prog *p = d->prog;

	return p->regions[p->nr_regions - 1].nr_cmds && p->cmds[p->nr_cmds - 1].u.hdr.op == op;
}

void fw_cut_rows(struct fw_cmd *c, uint32_t rows, uint64_t cols, bool split)
{
	c->tile_cols = split && cols > TILE_ELEMS ? TILE_ELEMS : cols;
	c->tile_rows = c->tile_cols >= TILE_ELEMS ? 1 : TILE_ELEMS / c->tile_cols;
	c->nr_tiles = div_up(rows, c->tile_rows) * div_up(cols, c->tile_cols);
}
