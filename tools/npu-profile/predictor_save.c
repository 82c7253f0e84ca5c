// SPDX-License-Identifier: MIT
/* Writes predictor files (predictor_tree.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "predictor_fit.h"
#include "predictor_tree.h"
#include "tool.h"

static void write_node(FILE *f, const struct predictor_node *node, uint32_t i)
{
	fprintf(f, "\n[node.%u]\n", i);
	if (!node->leaf) {
		fprintf(f, "feature = %s\nat_most = %.17g\nthen = %u\nelse = %u\n",
			predictor_feature_names[node->feature], node->at, node->below, node->above);
		return;
	}
	for (int t = 0; t < NR_TERMS; t++)
		if (node->coefficients[t] > 0)
			fprintf(f, "%s = %.17g\n", predictor_term_names[t], node->coefficients[t]);
}

int predictor_save(const struct predictor *p, const char *path)
{
	const struct predictor_options *o = &p->info.options;
	FILE *f = fopen(path, "we");
	int err = 0;

	if (!f)
		return tool_fail("predictor %s: %s", path, strerror(errno));
	fprintf(f,
		"# Times of matmuls, learned by npu-profile fit; the format is in "
		"soc/predictor_tree.h.\n"
		"[predictor]\nversion = %d\nlane = %s\nsource = %s\nsamples = %u\nleaves = %s\n"
		"max_depth = %u\n"
		"min_samples = %u\ntile_m = %u\ntile_k = %u\ntile_n = %u\nnodes = %u\n",
		PREDICTOR_VERSION, soc_lane_name(p->info.lane), p->info.source, p->info.samples,
		predictor_leaves_name(o->leaves), o->max_depth, o->min_samples, o->tile_m,
		o->tile_k, o->tile_n, p->nr_nodes);
	for (uint32_t i = 0; i < p->nr_nodes; i++)
		write_node(f, &p->nodes[i], i);
	fputs("\n[end]\ncomplete = yes\n", f);
	if (ferror(f))
		err = -EIO;
	if (fclose(f) && !err)
		err = -errno;
	return err ? tool_fail("predictor %s: %s: the file is not complete", path, strerror(-err))
		   : 0;
}
