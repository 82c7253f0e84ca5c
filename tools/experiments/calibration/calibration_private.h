/* SPDX-License-Identifier: MIT */
/* What the papers' files (paper_*.c) build their rows with. */
#ifndef CALIBRATION_PRIVATE_H
#define CALIBRATION_PRIVATE_H

#include "calibration.h"
#include "llm.h"
#include "npu_time.h"
#include "plan.h"
#include "soc_cost.h"

/* Rows of a matmul for which a characteristic of no stated size is printed. */
#define CALIBRATION_NR_SIZES 5
extern const unsigned int calibration_sizes[CALIBRATION_NR_SIZES]; /* 64 .. 1024 */

struct maker {
	const struct soc *p;
	struct calibration *c;
	int err; /* the first one; nothing is added after it */
};

void calibration_add(struct maker *m, struct calibration_row row);
/* One published number. */
void calibration_parameter(struct maker *m, const char *name, const char *source, const char *unit,
			   double published, double modelled);
void calibration_fitted(struct maker *m, const char *name, const char *source, const char *unit,
			double published, double modelled, const char *fixes);
void calibration_predicted(struct maker *m, const char *name, const char *source, const char *unit,
			   double published, double modelled, const char *assumption);

/* One operator as a CPU measures it from outside, with what the driver takes: ms. */
double calibration_npu_ms(const struct soc *p, const struct npu_time_matmul *op);
double calibration_gpu_ms(const struct soc *p, const struct soc_op *op);
double calibration_cpu_ms(const struct soc *p, const struct soc_op *op);

/* A forward pass on the virtual clock. */
struct forward {
	const char *shape;
	struct llm_choices choices;
	unsigned int chunk; /* 0: the placement's default */
	bool layer_launches; /* one launch of the NPU for each layer, else the placement's */
	unsigned int n_past, tokens;
	/* Share of the inputs whose outliers are pruned; 0: the paper's; negative: none are. */
	double pruning;
	const struct plan_start *start; /* of a cold one; NULL: the weights are there */
};

struct forward_times {
	double ms, busy_ms[SOC_NR_LANES];
	double joules, dram_bytes;
};

/* An error is the maker's; then all is 0. */
struct forward_times calibration_forward(struct maker *m, const struct forward *f);

void calibration_heterollm(struct maker *m);
void calibration_llmnpu(struct maker *m);
void calibration_edgeflow(struct maker *m);
void calibration_shadowattn(struct maker *m);
void calibration_coordgen(struct maker *m);

#endif /* CALIBRATION_PRIVATE_H */
