/* SPDX-License-Identifier: MIT */
/*
 * edgeflow: figures of EdgeFlow's method on the modelled SoCs, all from plans on the virtual clock.
 *
 *	pipeline	the synergistic granular pipeline, step by step (4.3)
 *	start		cold starts of llm.npu and of EdgeFlow, step by step (3.1, 3.2, 4)
 */
#ifndef EDGEFLOW_H
#define EDGEFLOW_H

#include "trial.h"

/* What the paper's pipeline improves on: the lowest layer, in it the first operator, of that the
 * earliest chunk. */
extern const struct sched_policy edgeflow_operator;
/* A prompt: with placement linear llm.npu's as 3.2 and figure 5 have it. */
struct trial edgeflow_trial(const struct place *place, enum llm_placement placement,
			    unsigned int tokens);

extern const struct command command_pipeline, command_start;

#endif /* EDGEFLOW_H */
