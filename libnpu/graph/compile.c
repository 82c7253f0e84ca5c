// SPDX-License-Identifier: MIT
/*
 * npu_graph_compile(): schedule, place scratch memory, assign slots, choose shapes, lower, write.
 *
 * Slots: one per binding (inputs, weights, states, outputs) in the order of their creation, then
 * one for all constants, then one for scratch memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "npu_fail.h"
#include "predict.h"

static bool is_binding(const struct npu_graph *g, const struct npu_tensor *t)
{
	if (t->kind == TENSOR_RESULT)
		return t->output && g->ops[t->producer].live;
	return t->kind != TENSOR_CONST;
}

static enum npu_symbol_kind symbol_kind(const struct npu_tensor *t)
{
	switch (t->kind) {
	case TENSOR_INPUT:
		return NPU_SYMBOL_INPUT;
	case TENSOR_WEIGHT:
		return NPU_SYMBOL_WEIGHT;
	case TENSOR_STATE:
		return NPU_SYMBOL_STATE;
	default:
		return NPU_SYMBOL_OUTPUT;
	}
}

static void compile_count(const struct npu_graph *g, struct npu_image *img)
{
	for (const struct npu_tensor *t = g->tensors; t; t = t->next) {
		if (is_binding(g, t))
			img->nr_symbols++;
		else if (t->kind == TENSOR_CONST)
			img->const_bytes = ((img->const_bytes + 63) & ~63ull) + t->bytes;
	}
	img->scratch_bytes = g->scratch_bytes;
	img->nr_slots = img->nr_symbols;
	img->const_slot = img->const_bytes ? img->nr_slots++ : VNPU_SLOT_NONE;
	img->scratch_slot = img->scratch_bytes ? img->nr_slots++ : VNPU_SLOT_NONE;
}

static void compile_bindings(struct npu_graph *g, struct npu_image *img)
{
	uint64_t const_end = 0;
	uint32_t slot = 0;

	for (struct npu_tensor *t = g->tensors; t; t = t->next) {
		if (is_binding(g, t)) {
			struct npu_image_symbol *s = &img->symbols[slot];

			strcpy(s->name, t->name);
			s->kind = symbol_kind(t);
			s->dtype = t->dtype;
			s->rows = t->rows;
			s->cols = t->cols;
			s->group = t->group;
			s->bytes = t->bytes;
			t->slot = slot++;
			t->offset = 0;
		} else if (t->kind == TENSOR_CONST) {
			t->slot = img->const_slot;
			t->offset = (const_end + 63) & ~63ull;
			memcpy(img->consts + t->offset, t->data, t->bytes);
			const_end = t->offset + t->bytes;
		} else {
			t->slot = img->scratch_slot;
		}
	}
}

static int compile_image(struct npu_graph *g, struct npu_image *img)
{
	compile_count(g, img);
	if (img->nr_symbols > NPU_MAX_SYMBOLS)
		return graph_fail(g, -E2BIG, "%u bindings, a graph may have %d", img->nr_symbols,
				  NPU_MAX_SYMBOLS);
	if (img->const_bytes > NPU_IMAGE_MAX_BYTES)
		return graph_fail(g, -E2BIG, "constants of %llu bytes, a graph may have %llu",
				  (unsigned long long)img->const_bytes, NPU_IMAGE_MAX_BYTES);
	img->symbols = calloc(img->nr_symbols + 1, sizeof(*img->symbols));
	img->consts = calloc(1, img->const_bytes + 1);
	img->params = calloc(VNPU_MAX_PARAMS, sizeof(*img->params));
	if (!img->symbols || !img->consts || !img->params)
		return graph_fail(g, -ENOMEM, "out of memory");
	compile_bindings(g, img);
	memcpy(img->params, g->params, sizeof(g->params));
	img->nr_params = g->nr_params;
	strcpy(img->note.name, g->name);
	return 0;
}

static int compile_stream(struct npu_graph *g, struct npu_image *img, struct lower_out *o)
{
	int ret;

	free(o->relocs);
	free(img->cmd);
	ret = lower_graph(g, o);
	img->cmd = o->cmd;
	if (ret)
		return graph_fail(g, ret,
				  ret == -E2BIG ? "its stream exceeds 16 MiB" : "out of memory");
	*(struct vnpu_stream_hdr *)o->cmd = (struct vnpu_stream_hdr){
		.magic = VNPU_STREAM_MAGIC,
		.isa_major = VNPU_ISA_MAJOR,
		.isa_minor = o->isa_minor,
		.size_bytes = o->bytes,
		.nr_cmds = o->nr_cmds,
		.nr_slots = img->nr_slots,
		.nr_params = img->nr_params,
	};
	img->cmd_bytes = o->bytes;
	img->note.isa_version = VNPU_ISA_MAJOR << 16 | o->isa_minor;
	img->note.nr_cmds = o->nr_cmds;
	img->note.macs = o->macs;
	img->note.bytes_moved = o->bytes_moved;
	return 0;
}

/* Twice if there are shapes to choose: what they cost is known of a stream only. */
static int compile_shapes(struct npu_graph *g, struct npu_image *img, struct lower_out *o)
{
	bool found = false;
	int ret;

	shape_stated(g);
	ret = compile_stream(g, img, o);
	if (!ret)
		ret = shape_search(g, img, &found);
	return ret || !found ? ret : compile_stream(g, img, o);
}

int npu_graph_predict(struct npu_graph *g, const char *name)
{
	struct soc *p = NULL;
	int ret;

	if (!g)
		return npu_fail(-EINVAL, "predict: no graph");
	ret = name ? npu_profile_load(name, &p) : 0;
	if (ret)
		return ret;
	soc_free(g->soc);
	g->soc = p;
	return 0;
}

static int compile_times(struct npu_graph *g, struct npu_image *img)
{
	struct fw_prog prog = { 0 };
	int ret;

	if (!g->soc)
		return 0;
	ret = npu_predict(img, &prog);
	if (ret)
		return ret;
	img->times.device_ns = fw_time_job_ns(&g->soc->npu, &prog);
	img->times.device_cycles = fw_time_cycles(&g->soc->npu, img->times.device_ns);
	strcpy(img->times.profile, g->soc->name);
	fw_prog_free(&prog);
	return 0;
}

int npu_graph_compile(struct npu_graph *g, void **image, size_t *image_bytes)
{
	struct lower_out o = { 0 };
	struct npu_image img = { 0 };
	int ret;

	*image = NULL;
	*image_bytes = 0;
	if (!g)
		return npu_fail(-EINVAL, "compile: no graph");
	ret = g->err;
	if (!ret)
		ret = schedule_plan(g);
	if (!ret)
		ret = scratch_plan(g);
	if (!ret)
		ret = compile_image(g, &img);
	if (!ret)
		ret = compile_shapes(g, &img, &o);
	if (!ret)
		ret = compile_times(g, &img);
	if (!ret)
		ret = npu_image_write(&img, o.relocs, o.nr_relocs, image, image_bytes);
	if (g->err)
		ret = npu_fail(g->err, "graph %s: %s", g->name[0] ? g->name : "?", g->why);
	free(o.relocs);
	npu_image_release(&img);
	return ret;
}
