// SPDX-License-Identifier: MIT
/*
 * The table of packed weights of MATMUL_WK: where a tile's panels are, and how wide. It is in the
 * client's memory, so a tile copies its part once, and checks and uses the copy.
 */
#include <errno.h>
#include <string.h>

#include "fw_op.h"

/* The operand of packed weights in all operations that have them. */
#define WEIGHTS 2

static void copy_table(void *arg)
{
	struct fw_tile *t = arg;

	memcpy(t->table, (struct vnpu_wk_panel *)tile_at(t, WEIGHTS) + t->col / VNPU_PANEL_N,
	       t->nr_panels * sizeof(*t->table));
}

int tile_wk_table(struct fw_tile *t, uint64_t w_bytes, uint32_t k, uint64_t *begin, uint64_t *bytes)
{
	const struct fw_exec_job *job = t->job;
	uint64_t end = 0, at, panel;
	struct fw_access table;
	uint32_t i;

	t->nr_panels = div_up(t->cols, VNPU_PANEL_N);
	table = (struct fw_access){ t->cmd->va[WEIGHTS] + t->col / VNPU_PANEL_N * sizeof(*t->table),
				    t->nr_panels * sizeof(*t->table), false };
	CHECK(job->ops->guard(job->port_priv, job->as, &table, 1, copy_table, t, t->fault));
	*begin = w_bytes;
	for (i = 0; i < t->nr_panels; i++) {
		if (!t->table[i].bits || t->table[i].bits > 8)
			return -EINVAL;
		at = t->table[i].offset * 64ull;
		panel = VNPU_PANEL_WK_BYTES(k, t->table[i].bits);
		if (at > w_bytes || panel > w_bytes - at)
			return -EINVAL;
		*begin = min_u64(*begin, at);
		end = at + panel > end ? at + panel : end;
	}
	*bytes = end - *begin;
	return 0;
}

void tile_wk_panels(const struct fw_tile *t, struct fw_wk_panel *panels)
{
	const uint8_t *w = tile_at(t, WEIGHTS);
	uint32_t i;

	for (i = 0; i < t->nr_panels; i++)
		panels[i] =
			(struct fw_wk_panel){ w + t->table[i].offset * 64ull, t->table[i].bits };
}

double fw_wk_bits(uint64_t w_bytes, uint32_t n, uint32_t k)
{
	uint64_t panels = div_up(n, VNPU_PANEL_N);
	uint64_t all = panels * (VNPU_PANEL_WK_BYTES(k, 1) - 512);
	uint64_t own = w_bytes - VNPU_WK_TABLE_BYTES(n) - panels * 512;

	return (double)own / (double)all;
}
