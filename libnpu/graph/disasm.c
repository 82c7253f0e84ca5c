// SPDX-License-Identifier: MIT
/*
 * Images as text: a line for the graph, then for each symbol, param and command; with device times where wanted.
 */
#include <errno.h>
#include <string.h>

#include "image.h"
#include "npu_fail.h"
#include "npu_graph.h"
#include "predict.h"

typedef unsigned long long ull;

struct disasm {
	const struct npu_image *img;
	FILE *out;
	struct profile *profile; /* NULL: without times */
	struct fw_prog prog;
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

static const char *dis_act_kind(uint32_t kind)
{
	return kind == VNPU_ACT_SILU ? "silu" : kind == VNPU_ACT_GELU ? "gelu" : "?";
}

static void dis_act(const struct disasm *d, const void *p)
{
	struct vnpu_cmd_act c;

	memcpy(&c, p, sizeof(c));
	fprintf(d->out, " %s", dis_act_kind(c.kind));
	REF(y);
	REF(x);
	fprintf(d->out, " rows=%u cols=%u ldx=%u ldy=%u", c.rows, c.cols, c.ldx, c.ldy);
}

static void dis_glu(const struct disasm *d, const void *p)
{
	struct vnpu_cmd_glu c;

	memcpy(&c, p, sizeof(c));
	fprintf(d->out, " %s", dis_act_kind(c.kind));
	REF(y);
	REF(a);
	REF(b);
	fprintf(d->out, " rows=%u cols=%u lda=%u ldb=%u ldy=%u", c.rows, c.cols, c.lda, c.ldb, c.ldy);
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

static void dis_quant_outliers(const struct disasm *d, const void *p)
{
	struct vnpu_cmd_quant_outliers c;

	memcpy(&c, p, sizeof(c));
	REF(q);
	REF(scale);
	REF(outliers);
	REF(x);
	fprintf(d->out, " rows=%u cols=%u ldx=%u ldq=%u", c.rows, c.cols, c.ldx, c.ldq);
}

static void dis_add_outliers(const struct disasm *d, const void *p)
{
	struct vnpu_cmd_add_outliers c;

	memcpy(&c, p, sizeof(c));
	REF(y);
	REF(x);
	REF(outliers);
	REF(w);
	fprintf(d->out, " m=%u n=%u k=%u ldx=%u ldy=%u", c.m, c.n, c.k, c.ldx, c.ldy);
	if (c.group)
		fprintf(d->out, " group=%u", c.group);
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

static const char *dis_kv_type(uint32_t type)
{
	static const char *const names[] = { "f32", "f16", "q8_0" };

	return type <= VNPU_KV_Q8_0 ? names[type] : "?";
}

static void dis_matmul_w4(const struct disasm *d, const void *p)
{
	struct vnpu_cmd_matmul_w4 c;

	memcpy(&c, p, sizeof(c));
	REF(c);
	REF(a);
	if (c.hdr.op == VNPU_OP_MATMUL_W4)
		REF(a_scale);
	REF(w);
	REF(bias);
	fprintf(d->out, " m=%u n=%u k=%u group=%u lda=%u ldc=%u tile=%ux%u", c.m, c.n, c.k, c.group, c.lda, c.ldc,
		c.tile_m, c.tile_n);
}

static void dis_matmul_wk(const struct disasm *d, const void *p)
{
	struct vnpu_cmd_matmul_wk c;

	memcpy(&c, p, sizeof(c));
	REF(c);
	REF(a);
	REF(a_scale);
	REF(w);
	REF(bias);
	fprintf(d->out, " m=%u n=%u k=%u w_bytes=%llu lda=%u ldc=%u tile=%ux%u", c.m, c.n, c.k, (ull)c.w_bytes, c.lda,
		c.ldc, c.tile_m, c.tile_n);
}

static void dis_attn(const struct disasm *d, const void *p)
{
	struct vnpu_cmd_attn c;

	memcpy(&c, p, sizeof(c));
	REF(y);
	REF(q);
	REF(k);
	REF(v);
	fprintf(d->out,
		" rows=%u heads=%u kv_heads=%u head_dim=%u ctx_rows=%u ldq=%u ldk=%u ldv=%u ldy=%u scale=%g "
		"kv=%s",
		c.rows, c.heads, c.kv_heads, c.head_dim, c.ctx_rows, c.ldq, c.ldk, c.ldv, c.ldy, (double)c.scale,
		dis_kv_type(c.kv_type));
	dis_param(d, "pos", c.pos_param);
}

static void dis_store(const struct disasm *d, const void *p)
{
	struct vnpu_cmd_store c;

	memcpy(&c, p, sizeof(c));
	REF(dst);
	REF(x);
	fprintf(d->out, " rows=%u cols=%u ldx=%u ld_dst=%u type=%s", c.rows, c.cols, c.ldx, c.ld_dst,
		dis_kv_type(c.type));
	dis_param(d, "row", c.row_param);
}

static void dis_cmd(const struct disasm *d, uint32_t at, const struct vnpu_cmd *cmd, const struct fw_time_step *step)
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
	case VNPU_OP_GLU:
		dis_glu(d, p);
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
	case VNPU_OP_QUANT16:
		dis_quant(d, p);
		break;
	case VNPU_OP_QUANT_OUTLIERS:
		dis_quant_outliers(d, p);
		break;
	case VNPU_OP_ADD_OUTLIERS:
		dis_add_outliers(d, p);
		break;
	case VNPU_OP_DEQUANT:
		dis_dequant(d, p);
		break;
	case VNPU_OP_MATMUL_I8:
		dis_matmul(d, p);
		break;
	case VNPU_OP_MATMUL_W4:
	case VNPU_OP_MATMUL_W4F:
		dis_matmul_w4(d, p);
		break;
	case VNPU_OP_MATMUL_WK:
		dis_matmul_wk(d, p);
		break;
	case VNPU_OP_ATTN:
		dis_attn(d, p);
		break;
	case VNPU_OP_STORE:
		dis_store(d, p);
		break;
	}
	if (d->profile)
		fprintf(d->out, " device_ns=%llu cycles=%llu", (ull)step->ns, (ull)step->cycles);
	fputc('\n', d->out);
}

static void dis_head(const struct disasm *d)
{
	static const char *const kinds[] = { "input", "weight", "state", "output" };
	const struct npu_image *img = d->img;

	fprintf(d->out, "graph %s isa=%u.%u cmds=%u macs=%llu bytes_moved=%llu\n", img->note.name,
		img->note.isa_version >> 16, img->note.isa_version & 0xffff, img->note.nr_cmds, (ull)img->note.macs,
		(ull)img->note.bytes_moved);
	for (uint32_t i = 0; i < img->nr_symbols; i++) {
		const struct npu_image_symbol *s = &img->symbols[i];

		fprintf(d->out, "slot %u %s %s %s [%u][%u]", i, kinds[s->kind], s->name, npu_dtype_names[s->dtype], s->rows,
			s->cols);
		if (s->group)
			fprintf(d->out, " group=%u", s->group);
		fprintf(d->out, " bytes=%llu\n", (ull)s->bytes);
	}
	if (img->const_slot != VNPU_SLOT_NONE)
		fprintf(d->out, "slot %u const __const bytes=%llu\n", img->const_slot, (ull)img->const_bytes);
	if (img->scratch_slot != VNPU_SLOT_NONE)
		fprintf(d->out, "slot %u scratch __scratch bytes=%llu\n", img->scratch_slot, (ull)img->scratch_bytes);
	for (uint32_t i = 0; i < img->nr_params; i++)
		fprintf(d->out, "param %u %s\n", i, img->params[i]);
}

static void dis_profile(const struct disasm *d)
{
	const struct profile_npu *npu = &d->profile->npu;
	uint64_t launch = fw_time_launch_ns(npu), ns = fw_time_job_ns(npu, &d->prog);

	fprintf(d->out, "profile %s clock_mhz=%g launch_ns=%llu launch_cycles=%llu device_ns=%llu cycles=%llu\n",
		d->profile->name, npu->clock_mhz, (ull)launch, (ull)fw_time_cycles(npu, launch), (ull)ns,
		(ull)fw_time_cycles(npu, ns));
}

static void dis_image(const struct disasm *d)
{
	const struct npu_image *img = d->img;
	struct fw_time_step step = { 0 };
	struct fw_time_walk walk;
	struct vnpu_cmd cmd;

	dis_head(d);
	if (d->profile) {
		dis_profile(d);
		fw_time_begin(&walk, &d->profile->npu, &d->prog, img->cmd);
	}
	for (uint32_t at = sizeof(struct vnpu_stream_hdr); at < img->cmd_bytes; at += cmd.size_bytes) {
		memcpy(&cmd, img->cmd + at, sizeof(cmd));
		if (d->profile)
			fw_time_next(&walk, &step);
		dis_cmd(d, at, &cmd, &step);
	}
}

int npu_image_disassemble(const void *image, size_t image_bytes, const char *profile, FILE *out)
{
	struct npu_image img;
	struct disasm d = { .img = &img, .out = out };
	int ret = npu_image_parse(image, image_bytes, &img);

	if (ret)
		return ret;
	if (profile)
		ret = npu_profile_load(profile, &d.profile);
	if (!ret && profile)
		ret = npu_predict(&img, &d.prog);
	if (!ret) {
		dis_image(&d);
		if (ferror(out))
			ret = npu_fail(-EIO, "writing the listing: %s", strerror(errno));
	}
	fw_prog_free(&d.prog);
	profile_free(d.profile);
	npu_image_release(&img);
	return ret;
}
