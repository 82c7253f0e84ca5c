// SPDX-License-Identifier: MIT
/* Images as text, one line per symbol, param and command, with device times if wanted. */
#include <errno.h>
#include <string.h>

#include "image.h"
#include "isa_ops.h"
#include "npu_fail.h"
#include "npu_graph.h"
#include "predict.h"

typedef unsigned long long ull;

struct disasm {
	const struct npu_image *img;
	FILE *out;
	struct soc *soc; /* NULL: no times */
	struct fw_prog prog;
};

static void dis_ref(const struct disasm *d, const char *field, const void *at)
{
	const struct npu_image *img = d->img;
	struct vnpu_ref ref;

	memcpy(&ref, at, sizeof(ref));
	fprintf(d->out, " %s=", field);
	if (ref.slot == VNPU_SLOT_NONE)
		fprintf(d->out, "none");
	else if (ref.slot == img->const_slot)
		fprintf(d->out, "__const");
	else if (ref.slot == img->scratch_slot)
		fprintf(d->out, "__scratch");
	else
		fprintf(d->out, "%s", img->symbols[ref.slot].name);
	if (ref.slot != VNPU_SLOT_NONE && ref.offset)
		fprintf(d->out, "+%llu", (ull)ref.offset);
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

/* Prints name @value of "a|b|c"; "?" if there is none. */
static void dis_value(const struct disasm *d, const char *names, uint32_t value)
{
	while (value-- && names) {
		names = strchr(names, '|');
		names = names ? names + 1 : NULL;
	}
	fprintf(d->out, "%.*s", names ? (int)strcspn(names, "|") : 1, names ? names : "?");
}

static void dis_field(const struct disasm *d, const struct isa_field *f, const uint8_t *cmd)
{
	uint32_t u32[2];
	uint64_t u64;
	float real;

	memcpy(u32, cmd + f->at, f->kind == ISA_U32X2 ? 8 : 4);
	memcpy(&real, u32, sizeof(real));
	switch ((enum isa_field_kind)f->kind) {
	case ISA_U32_OR_NONE:
		if (!u32[0])
			break;
		/* fall through */
	case ISA_U32:
		fprintf(d->out, " %s=%u", f->name, u32[0]);
		break;
	case ISA_U32X2:
		fprintf(d->out, " %s=%ux%u", f->name, u32[0], u32[1]);
		break;
	case ISA_U64:
		memcpy(&u64, cmd + f->at, sizeof(u64));
		fprintf(d->out, " %s=%llu", f->name, (ull)u64);
		break;
	case ISA_FLOAT_OR_NONE:
		if (!u32[0])
			break;
		/* fall through */
	case ISA_FLOAT:
		fprintf(d->out, " %s=%g", f->name, (double)real);
		break;
	case ISA_PARAM:
		dis_param(d, f->name, u32[0]);
		break;
	case ISA_NAMED:
		fprintf(d->out, " %s=", f->name);
		dis_value(d, f->values, u32[0]);
		break;
	case ISA_MODE:
		fputc(' ', d->out);
		dis_value(d, f->values, u32[0]);
		break;
	}
}

static void dis_width(const struct disasm *d, const uint8_t *at)
{
	struct vnpu_shape shape;

	memcpy(&shape, at, sizeof(shape));
	fprintf(d->out, " width=%u", shape.width);
}

/*
 * Prints the name and what stands beside it, the written and the read operands, the other fields.
 */
static void dis_cmd(const struct disasm *d, uint32_t at, const struct vnpu_cmd *hdr,
		    const struct fw_time_step *step)
{
	const uint8_t access[] = { VNPU_SLOT_WRITE, VNPU_SLOT_READ }, *cmd = d->img->cmd + at;
	const struct isa_op *op = isa_op(hdr->op);
	const struct isa_operand *o;
	const struct isa_field *f;

	fprintf(d->out, "%6x: %s%s", at, op->name,
		hdr->flags & VNPU_CMD_PERMUTED ? " permuted" : "");
	for (f = op->fields; f->name; f++)
		if (f->kind == ISA_MODE)
			dis_field(d, f, cmd);
	for (int i = 0; i < 2; i++)
		for (o = op->operands; o->name; o++)
			if (o->access == access[i] && o->type != ISA_NONE)
				dis_ref(d, o->name, cmd + o->at);
	for (f = op->fields; f->name; f++)
		if (f->kind != ISA_MODE)
			dis_field(d, f, cmd);
	if (hdr->flags & VNPU_CMD_SHAPED)
		dis_width(d, cmd + op->bytes);
	if (d->soc)
		fprintf(d->out, " device_ns=%llu cycles=%llu", (ull)step->ns, (ull)step->cycles);
	fputc('\n', d->out);
}

static void dis_head(const struct disasm *d)
{
	static const char *const kinds[] = { "input", "weight", "state", "output" };
	const struct npu_image *img = d->img;

	fprintf(d->out, "graph %s isa=%u.%u cmds=%u macs=%llu bytes_moved=%llu\n", img->note.name,
		img->note.isa_version >> 16, img->note.isa_version & 0xffff, img->note.nr_cmds,
		(ull)img->note.macs, (ull)img->note.bytes_moved);
	for (uint32_t i = 0; i < img->nr_symbols; i++) {
		const struct npu_image_symbol *s = &img->symbols[i];

		fprintf(d->out, "slot %u %s %s %s [%u][%u]", i, kinds[s->kind], s->name,
			npu_dtype_names[s->dtype], s->rows, s->cols);
		if (s->dtype == NPU_KQ_PANEL)
			fprintf(d->out, " type=%s", isa_kq_names[s->group]);
		else if (s->group)
			fprintf(d->out, " group=%u", s->group);
		fprintf(d->out, " bytes=%llu\n", (ull)s->bytes);
	}
	if (img->const_slot != VNPU_SLOT_NONE)
		fprintf(d->out, "slot %u const __const bytes=%llu\n", img->const_slot,
			(ull)img->const_bytes);
	if (img->scratch_slot != VNPU_SLOT_NONE)
		fprintf(d->out, "slot %u scratch __scratch bytes=%llu\n", img->scratch_slot,
			(ull)img->scratch_bytes);
	for (uint32_t i = 0; i < img->nr_params; i++)
		fprintf(d->out, "param %u %s\n", i, img->params[i]);
}

static void dis_profile(const struct disasm *d)
{
	const struct soc_npu *npu = &d->soc->npu;
	uint64_t launch = fw_time_launch_ns(npu), ns = fw_time_job_ns(npu, &d->prog);

	fprintf(d->out,
		"profile %s clock_mhz=%g launch_ns=%llu launch_cycles=%llu device_ns=%llu "
		"cycles=%llu\n",
		d->soc->name, npu->clock_mhz, (ull)launch, (ull)fw_time_cycles(npu, launch),
		(ull)ns, (ull)fw_time_cycles(npu, ns));
}

static void dis_image(const struct disasm *d)
{
	const struct npu_image *img = d->img;
	struct fw_time_step step = { 0 };
	struct fw_time_walk walk;
	struct vnpu_cmd cmd;

	dis_head(d);
	if (d->soc) {
		dis_profile(d);
		fw_time_begin(&walk, &d->soc->npu, &d->prog, img->cmd);
	}
	for (uint32_t at = sizeof(struct vnpu_stream_hdr); at < img->cmd_bytes;
	     at += cmd.size_bytes) {
		memcpy(&cmd, img->cmd + at, sizeof(cmd));
		if (d->soc)
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
		ret = npu_profile_load(profile, &d.soc);
	if (!ret && profile)
		ret = npu_predict(&img, &d.prog);
	if (!ret) {
		dis_image(&d);
		if (ferror(out))
			ret = npu_fail(-EIO, "writing the listing: %s", strerror(errno));
	}
	fw_prog_free(&d.prog);
	soc_free(d.soc);
	npu_image_release(&img);
	return ret;
}
