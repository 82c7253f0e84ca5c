// SPDX-License-Identifier: MIT
/* Rows, what they are measured with, and their sums (calibration.h). */
#include "calibration.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibration_private.h"
#include "plan.h"

const unsigned int calibration_sizes[CALIBRATION_NR_SIZES] = { 64, 128, 256, 512, 1024 };

const char *calibration_kind_name(enum calibration_kind kind)
{
	static const char *const names[] = { "parameter", "fitted", "predicted" };

	return names[kind];
}

double calibration_error(const struct calibration_row *row)
{
	if (row->modelled < row->low)
		return row->modelled / row->low - 1;
	return row->modelled > row->high ? row->modelled / row->high - 1 : 0;
}

/* ---- rows ---- */

void calibration_add(struct maker *m, struct calibration_row row)
{
	struct calibration_row *rows;

	if (m->err)
		return;
	rows = realloc(m->c->rows, (m->c->n + 1) * sizeof(*rows));
	if (!rows) {
		m->err = -ENOMEM;
		return;
	}
	m->c->rows = rows;
	rows[m->c->n++] = row;
}

static void add_number(struct maker *m, enum calibration_kind kind, const char *name,
		       const char *source, const char *unit, double published, double modelled,
		       const char *note)
{
	calibration_add(m, (struct calibration_row){ .kind = kind,
						     .name = name,
						     .source = source,
						     .unit = unit,
						     .low = published,
						     .high = published,
						     .modelled = modelled,
						     .note = note });
}

void calibration_parameter(struct maker *m, const char *name, const char *source, const char *unit,
			   double published, double modelled)
{
	add_number(m, CALIBRATION_PARAMETER, name, source, unit, published, modelled, NULL);
}

void calibration_fitted(struct maker *m, const char *name, const char *source, const char *unit,
			double published, double modelled, const char *fixes)
{
	add_number(m, CALIBRATION_FITTED, name, source, unit, published, modelled, fixes);
}

void calibration_predicted(struct maker *m, const char *name, const char *source, const char *unit,
			   double published, double modelled, const char *assumption)
{
	add_number(m, CALIBRATION_PREDICTED, name, source, unit, published, modelled, assumption);
}

/* ---- one operator: ms ---- */

double calibration_npu_ms(const struct soc *p, const struct npu_time_matmul *op)
{
	return (npu_time_alone_ns(&p->npu, npu_time_matmul(&p->npu, op)) +
		soc_npu_start_ns(p, SOC_SYNC_DRIVER, false)) /
	       1e6;
}

double calibration_gpu_ms(const struct soc *p, const struct soc_op *op)
{
	return (soc_alone_ns(p, SOC_GPU, soc_op_cost(p, SOC_GPU, op)) +
		soc_gpu_submit_ns(p, true)) /
		       1e6 +
	       (p->gpu.copy_us + p->cpu.sleep_us) / 1e3;
}

double calibration_cpu_ms(const struct soc *p, const struct soc_op *op)
{
	return soc_alone_ns(p, SOC_CPU, soc_op_cost(p, SOC_CPU, op)) / 1e6;
}

/* ---- a forward pass ---- */

static int run_forward(const struct soc *p, const struct forward *f, struct forward_times *t)
{
	struct shape shape;
	struct plan_options o = {
		.soc = p,
		.cuts = p,
		.shape = &shape,
		.choices = f->choices,
		.chunk = f->chunk,
		.start = f->start,
		.launches = f->layer_launches ? PLAN_LAUNCH_LAYER : PLAN_LAUNCH_AUTO,
	};
	const struct plan_pass pass = { .n_past = f->n_past,
					.n_tokens = f->tokens,
					.logits = PLAN_LOGITS_LAST };
	struct sched_options so = {
		.clock = SCHED_VIRTUAL,
		.soc = p,
		.sync = f->choices.sync == LLM_SYNC_FAST ? SOC_SYNC_FAST : SOC_SYNC_DRIVER,
	};
	struct shadow shadow;
	struct plan *plan;
	struct sched_run run;
	double pruning = f->pruning > 0 ? f->pruning : f->pruning < 0 ? 0 : SHADOW_PRUNING;
	int err = shape_load(f->shape, &shape);

	err = err ? err : shadow_guess(&shadow, &shape, pruning);
	if (err)
		return err;
	if (llm_activations_static(f->choices.activations))
		o.shadow = &shadow;
	o.rows = plan_rows(&o, f->tokens);
	plan = plan_forward(&o, &pass);
	shadow_free(&shadow);
	if (!plan)
		return -ENOMEM;
	so.policy = plan->policy;
	so.param = plan->times;
	err = sched_run(plan->tasks, &so, &run);
	t->ms = (double)run.makespan_ns / 1e6;
	for (int lane = 0; lane < SOC_NR_LANES; lane++)
		t->busy_ms[lane] = (double)run.busy_ns[lane] / 1e6;
	t->joules = run.energy_j;
	t->dram_bytes = run.dram_bytes;
	sched_run_free(&run);
	plan_free(plan);
	return err;
}

struct forward_times calibration_forward(struct maker *m, const struct forward *f)
{
	struct forward_times t = { 0 };

	if (!m->err)
		m->err = run_forward(m->p, f, &t);
	return m->err ? (struct forward_times){ 0 } : t;
}

/* ---- sums ---- */

static void sum_up(struct calibration *c)
{
	for (size_t i = 0; i < c->n;) {
		const struct calibration_row *first = &c->rows[i];
		struct calibration_sum *sum = &c->sums[first->kind];
		double errors = 0;
		size_t n = 0;

		/* A characteristic's sizes follow one another. */
		for (; i < c->n && !strcmp(c->rows[i].name, first->name) &&
		       c->rows[i].kind == first->kind;
		     i++, n++) {
			double error = fabs(calibration_error(&c->rows[i]));

			errors += error;
			if (error <= sum->worst && sum->worst_row)
				continue;
			sum->worst = error;
			sum->worst_row = &c->rows[i];
		}
		sum->mean += errors / (double)n;
		sum->n++;
	}
	for (int kind = 0; kind < CALIBRATION_NR_KINDS; kind++)
		if (c->sums[kind].n)
			c->sums[kind].mean /= (double)c->sums[kind].n;
}

int calibration_make(const struct soc *p, struct calibration *c)
{
	struct maker m = { .p = p, .c = c };

	*c = (struct calibration){ 0 };
	if (!strcmp(p->name, "sd8gen3")) {
		calibration_heterollm(&m);
		calibration_llmnpu(&m);
		calibration_shadowattn(&m);
		calibration_coordgen(&m);
	}
	if (!strcmp(p->name, "sd8elite"))
		calibration_edgeflow(&m);
	if (!m.err)
		sum_up(c);
	return m.err;
}

void calibration_free(struct calibration *c)
{
	free(c->rows);
	*c = (struct calibration){ 0 };
}
