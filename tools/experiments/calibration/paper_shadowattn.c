// SPDX-License-Identifier: MIT
/* shadowAttn 2.2 and 3.4. */
#include "calibration_private.h"

static double qk_ms(const struct soc *p, unsigned int heads)
{
	const struct npu_time_matmul op = { .m = 128,
					    .k = 64,
					    .n = 2048,
					    .type = NPU_TIME_I8,
					    .weight_bits = 8,
					    .dynamic = true,
					    .heads = heads };

	return calibration_npu_ms(p, &op);
}

/*
 * A CPU's attention with the given share of positions, its estimate included,
 * over one of all positions.
 */
static double sparse_ratio(const struct soc *p, double density, double *estimate_share)
{
	struct soc_op op = { .kind = SOC_ATTENTION,
			     .m = 128,
			     .k = 64,
			     .n = 1,
			     .kv_heads = 1,
			     .ctx = 2048,
			     .act_bits = 16,
			     .density = 1 };
	double full = soc_op_cost(p, SOC_CPU, &op).ns, sparse, estimate;

	op.density = density;
	sparse = soc_op_cost(p, SOC_CPU, &op).ns;
	op.kind = SOC_QK_ESTIMATE;
	estimate = soc_op_cost(p, SOC_CPU, &op).ns;
	if (estimate_share)
		*estimate_share = estimate / (estimate + sparse);
	return (estimate + sparse) / full;
}

void calibration_shadowattn(struct maker *m)
{
	static const char fused[] = "shadowAttn 3.4", sparse[] = "shadowAttn 2.2, figure 4a";
	double share, at20 = sparse_ratio(m->p, 0.2, &share);

	calibration_fitted(m, "Q K^T of 1 head, 128 x 64 x 2048", fused, "ms", 2, qk_ms(m->p, 1),
			   "npu.dynamic_setup_us");
	calibration_fitted(m, "Q K^T of 4 heads, 128 x 64 x 2048", fused, "ms", 4, qk_ms(m->p, 4),
			   "npu.dynamic_ns");
	calibration_predicted(m, "Q K^T of 2 heads, 128 x 64 x 2048", fused, "ms", 3,
			      qk_ms(m->p, 2), NULL);
	calibration_fitted(m, "attention with 40 % of the positions", sparse, "", 1 - 0.124,
			   sparse_ratio(m->p, 0.4, NULL), "cpu.gather");
	calibration_fitted(m, "attention with 20 % of the positions", sparse, "", 1 - 0.343, at20,
			   "cpu.vector_gelems");
	calibration_predicted(m, "attention with 30 % of the positions", sparse, "", 1 - 0.247,
			      sparse_ratio(m->p, 0.3, NULL), "of one with all");
	calibration_predicted(m, "estimate's share with 20 % of the positions", sparse, "", 0.667,
			      share, NULL);
}
