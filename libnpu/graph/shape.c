// SPDX-License-Identifier: MIT
/*
 * The shapes of matmuls (llm.npu 4): all widths of the lines of their rows give the same results,
 * so the compiler takes the one that the modelled NPU is fastest with.
 */
#include "op.h"
#include "predict.h"

/* The best width so far for a command of @m rows. */
struct search {
	const struct soc_npu *npu; /* NULL: times are unknown, so the squarest is best */
	struct fw_cmd *cmd;
	uint32_t m, width; /* 0: none yet */
	uint64_t ns;
};

static uint32_t longer_side(uint32_t m, uint32_t width)
{
	return width > m / width ? width : m / width;
}

static void try_width(struct search *s, uint32_t width)
{
	uint32_t side = longer_side(s->m, width), best;
	uint64_t ns = 0;

	if (s->npu) {
		s->cmd->width = width;
		ns = fw_time_cmd_ns(s->npu, s->cmd);
	}
	best = s->width ? longer_side(s->m, s->width) : UINT32_MAX;
	if (s->width && (ns > s->ns || (ns == s->ns && side > best)))
		return;
	/* Of two that are as square, the wider one has fewer lines. */
	if (s->width && ns == s->ns && side == best && width < s->width)
		return;
	s->width = width;
	s->ns = ns;
}

/* @cmd: the matmul as the device would run it; NULL if @npu is. */
static uint32_t best_width(const struct soc_npu *npu, struct fw_cmd *cmd, uint32_t m)
{
	struct search s = { .npu = npu, .cmd = cmd, .m = m };

	for (uint32_t d = 1; (uint64_t)d * d <= m; d++) {
		if (m % d)
			continue;
		try_width(&s, d);
		try_width(&s, m / d);
	}
	return s.width;
}

static bool searches(const struct npu_graph *g)
{
	for (uint32_t i = 0; i < g->nr_live; i++)
		if (g->ops[g->order[i]].search)
			return true;
	return false;
}

void shape_stated(struct npu_graph *g)
{
	for (uint32_t i = 0; i < g->nr_ops; i++)
		g->ops[i].found = g->ops[i].width;
}

int shape_search(struct npu_graph *g, const struct npu_image *img, bool *found)
{
	struct fw_prog prog = { 0 };
	uint32_t cmd = 0;
	int ret = 0;

	*found = searches(g);
	if (*found && g->soc)
		ret = npu_predict(img, &prog);
	if (!*found || ret)
		return ret;
	/* The device's form has neither barriers nor SLEEPs. */
	for (uint32_t i = 0; i < g->nr_live; i++) {
		struct graph_op *op = &g->ops[g->order[i]];

		if (op->search)
			op->found = best_width(g->soc ? &g->soc->npu : NULL,
					       g->soc ? &prog.cmds[cmd] : NULL, op->out[0]->rows);
		cmd += op->op != VNPU_OP_SLEEP;
	}
	fw_prog_free(&prog);
	return 0;
}
