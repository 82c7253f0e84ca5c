// SPDX-License-Identifier: MIT
/*
 * Images as text: a line for the graph, then for each symbol, param and command.
 */
#include <errno.h>
#include <string.h>

#include "image.h"
#include "npu_fail.h"
#include "npu_graph.h"

typedef unsigned long long ull;

struct disasm {
	const struct npu_image *img;
	FILE *out;
};

static void dis_ref(const struct disasm *d, const char *field, const struct vnpu_ref *ref)
{
	const struct npu_image *img = d->img;

	fprintf(d->out, " %s=", field);
	if (ref->slot == VNPU_SLOT_NONE)
		fprintf(d->out, "none");
	else if (ref->slot == img->const_slot)
		fprintf(d->out, "__const");
	else if (ref->slot == img->scratch_slot)
		fprintf(d->out, "__scratch");
	else
		fprintf(d->out, "%s", img->symbols[ref->slot].name);
	if (ref->slot != VNPU_SLOT_NONE && ref->offset)
		fprintf(d->out, "+%llu", (ull)ref->offset);
}

static void dis_param(const struct disasm *d, const char *field, uint32_t param)
{
	if (param == VNPU_PARAM_NONE)
		return;
	if (param < d->img->nr_params)
		fprintf(d->out, " %s=%s", field, d->img->params[param]);
	else
		fprintf(d->out, " %s=param%u", field, param);
}

#define REF(field) dis_ref(d, #field, &c.field)

static void dis_copy(const struct disasm *d, const void *p)
{
	struct vnpu_cmd_copy c;

	memcpy(&c, p, sizeof(c));
	REF(dst);
	REF(src);
	fprintf(d->out, " rows=%u row_bytes=%u src_stride=%llu dst_stride=%llu", c.rows, c.row_bytes,
		(ull)c.src_stride_bytes, (ull)c.dst_stride_bytes);
	dis_param(d, "dst_row", c.dst_row_param);
}

static void dis_binary(const struct disasm *d, const void *p)
{
	struct vnpu_cmd_binary c;

	memcpy(&c, p, sizeof(c));
	REF(y);
	REF(a);
	REF(b);
	fprintf(d->out, " rows=%u cols=%u lda=%u ldb=%u ldy=%u", c.rows, c.cols, c.lda, c.ldb, c.ldy);
}

static void dis_act(const struct disasm *d, const void *p)
{
	struct vnpu_cmd_act c;

	memcpy(&c, p, sizeof(c));
	fprintf(d->out, " %s", c.kind == VNPU_ACT_SILU ? "silu" : c.kind == VNPU_ACT_GELU ? "gelu" : "?");
	REF(y);
	REF(x);
	fprintf(d->out, " rows=%u cols=%u ldx=%u ldy=%u", c.rows, c.cols, c.ldx, c.ldy);
}

static void dis_rmsnorm(const struct disasm *d, const void *p)
{
	struct vnpu_cmd_rmsnorm c;

	memcpy(&c, p, sizeof(c));
	REF(y);
	REF(x);
	REF(w);
	fprintf(d->out, " rows=%u cols=%u ldx=%u ldy=%u eps=%g", c.rows, c.cols, c.ldx, c.ldy, (double)c.eps);
}

static void dis_rope(const struct disasm *d, const void *p)
{
	struct vnpu_cmd_rope c;

	memcpy(&c, p, sizeof(c));
	REF(y);
	REF(x);
	REF(inv_freq);
	fprintf(d->out, " rows=%u heads=%u head_dim=%u rot_dim=%u ldx=%u ldy=%u mode=%s", c.rows, c.heads, c.head_dim,
		c.rot_dim, c.ldx, c.ldy, c.mode == VNPU_ROPE_HALVES ? "halves" : "adjacent");
	dis_param(d, "pos", c.pos_param);
}

static void dis_softmax(const struct disasm *d, const void *p)
{
	struct vnpu_cmd_softmax c;

	memcpy(&c, p, sizeof(c));
	REF(y);
	REF(x);
	fprintf(d->out, " rows=%u cols=%u ldx=%u ldy=%u scale=%g", c.rows, c.cols, c.ldx, c.ldy, (double)c.scale);
	dis_param(d, "limit", c.limit_param);
}

static void dis_quant(const struct disasm *d, const void *p)
{
	struct vnpu_cmd_quant c;

	memcpy(&c, p, sizeof(c));
	REF(q);
	REF(scale);
	REF(x);
	fprintf(d->out, " rows=%u cols=%u ldx=%u ldq=%u", c.rows, c.cols, c.ldx, c.ldq);
}

static void dis_dequant(const struct disasm *d, const void *p)
{
	struct vnpu_cmd_dequant c;

	memcpy(&c, p, sizeof(c));
	REF(y);
	REF(q);
	REF(scale);
	fprintf(d->out, " rows=%u cols=%u ldq=%u ldy=%u", c.rows, c.cols, c.ldq, c.ldy);
}

static void dis_matmul(const struct disasm *d, const void *p)
{
	struct vnpu_cmd_matmul_i8 c;

	memcpy(&c, p, sizeof(c));
	REF(c);
	REF(a);
	REF(a_scale);
	REF(w);
	REF(bias);
	fprintf(d->out, " m=%u n=%u k=%u lda=%u ldc=%u tile=%ux%u", c.m, c.n, c.k, c.lda, c.ldc, c.tile_m, c.tile_n);
}

static void dis_attn(const struct disasm *d, const void *p)
{
	struct vnpu_cmd_attn c;

	memcpy(&c, p, sizeof(c));
	REF(y);
	REF(q);
	REF(k);
	REF(v);
	fprintf(d->out, " rows=%u heads=%u kv_heads=%u head_dim=%u ctx_rows=%u ldq=%u ldk=%u ldv=%u ldy=%u scale=%g",
		c.rows, c.heads, c.kv_heads, c.head_dim, c.ctx_rows, c.ldq, c.ldk, c.ldv, c.ldy, (double)c.scale);
	dis_param(d, "pos", c.pos_param);
}

static void dis_cmd(const struct disasm *d, uint32_t at, const struct vnpu_cmd *cmd)
{
	const void *p = d->img->cmd + at;
	struct vnpu_cmd_sleep sleep;

	fprintf(d->out, "%6x: %s", at, npu_cmd_name(cmd->op));
	switch (cmd->op) {
	case VNPU_OP_SLEEP:
		memcpy(&sleep, p, sizeof(sleep));
		fprintf(d->out, " duration_ns=%llu", (ull)sleep.duration_ns);
		break;
	case VNPU_OP_COPY:
		dis_copy(d, p);
		break;
	case VNPU_OP_ADD:
	case VNPU_OP_MUL:
		dis_binary(d, p);
		break;
	case VNPU_OP_ACT:
		dis_act(d, p);
		break;
	case VNPU_OP_RMSNORM:
		dis_rmsnorm(d, p);
		break;
	case VNPU_OP_ROPE:
		dis_rope(d, p);
		break;
	case VNPU_OP_SOFTMAX:
		dis_softmax(d, p);
		break;
	case VNPU_OP_QUANT:
		dis_quant(d, p);
		break;
	case VNPU_OP_DEQUANT:
		dis_dequant(d, p);
		break;
	case VNPU_OP_MATMUL_I8:
		dis_matmul(d, p);
		break;
	case VNPU_OP_ATTN:
		dis_attn(d, p);
		break;
	}
	fputc('\n', d->out);
}

static void dis_head(const struct disasm *d)
{
	static const char *const kinds[] = { "input", "weight", "state", "output" };
	static const char *const types[] = { "f32", "s8", "w8" };
	const struct npu_image *img = d->img;

	fprintf(d->out, "graph %s isa=%u.%u cmds=%u macs=%llu bytes_moved=%llu\n", img->note.name,
		img->note.isa_version >> 16, img->note.isa_version & 0xffff, img->note.nr_cmds, (ull)img->note.macs,
		(ull)img->note.bytes_moved);
	for (uint32_t i = 0; i < img->nr_symbols; i++) {
		const struct npu_image_symbol *s = &img->symbols[i];

		fprintf(d->out, "slot %u %s %s %s [%u][%u] bytes=%llu\n", i, kinds[s->kind], s->name, types[s->dtype],
			s->rows, s->cols, (ull)s->bytes);
	}
	if (img->const_slot != VNPU_SLOT_NONE)
		fprintf(d->out, "slot %u const __const bytes=%llu\n", img->const_slot, (ull)img->const_bytes);
	if (img->scratch_slot != VNPU_SLOT_NONE)
		fprintf(d->out, "slot %u scratch __scratch bytes=%llu\n", img->scratch_slot, (ull)img->scratch_bytes);
	for (uint32_t i = 0; i < img->nr_params; i++)
		fprintf(d->out, "param %u %s\n", i, img->params[i]);
}

int npu_image_disassemble(const void *image, size_t image_bytes, FILE *out)
{
	struct npu_image img;
	struct disasm d = { .img = &img, .out = out };
	struct vnpu_cmd cmd;
	int ret = npu_image_parse(image, image_bytes, &img);

	if (ret)
		return ret;
	dis_head(&d);
	for (uint32_t at = sizeof(struct vnpu_stream_hdr); at < img.cmd_bytes; at += cmd.size_bytes) {
		memcpy(&cmd, img.cmd + at, sizeof(cmd));
		dis_cmd(&d, at, &cmd);
	}
	npu_image_release(&img);
	return ferror(out) ? npu_fail(-EIO, "writing the listing: %s", strerror(errno)) : 0;
}
