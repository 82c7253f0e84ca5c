// SPDX-License-Identifier: MIT
/* Keeping the accepted path of a token tree: its rows of the KV cache move (CoordGen 3.1). */
#include <string.h>

#include "run.h"
#include "tree.h"

static void move_rows(const struct lane_memory *m, unsigned int pos, const struct tree_move *move)
{
	for (unsigned int i = 0; i < 2 * m->loaded->model.n_layer; i++) {
		size_t off = i % 2 ? lane_v_off(m, i / 2) : lane_k_off(m, i / 2);

		memmove(lane_kv(m, off, pos + move->to), lane_kv(m, off, pos + move->from),
			move->rows * m->kv_row_bytes);
	}
}

/* What it takes on the virtual clock to read and write so many rows of the cache. */
static void count_moves(struct pass_runner *r, unsigned int rows)
{
	const struct shape *s = r->opts.shape;
	const struct soc_op copy = {
		.kind = SOC_VECTOR,
		.m = rows,
		.n = 2ull * s->layers * s->kv_heads * s->head_dim,
		.ops = FLOAT_OPS_COPY,
		.act_bits = (unsigned int)llm_kv_bits(r->opts.choices.kv),
		.density = 1,
	};
	struct soc_cost cost;

	if (!r->opts.soc || !rows)
		return;
	cost = soc_op_cost(r->opts.soc, SOC_CPU, &copy);
	cost.ns = soc_alone_ns(r->opts.soc, SOC_CPU, cost) + soc_cpu_start_ns(r->opts.soc);
	r->sums.ns += (uint64_t)cost.ns;
	r->sums.busy_ns[SOC_CPU] += (uint64_t)cost.ns;
	r->sums.dram_bytes += cost.dram_bytes;
}

void pass_keep(struct pass_runner *r, unsigned int pos, const uint8_t *path, unsigned int n)
{
	struct tree_move moves[TREE_MAX];
	unsigned int nr = token_tree_moves(path, n, moves), rows = 0;

	for (unsigned int i = 0; i < nr; i++) {
		rows += moves[i].rows;
		if (r->lanes[SOC_CPU])
			move_rows(r->memory, pos, &moves[i]);
	}
	count_moves(r, rows);
}
