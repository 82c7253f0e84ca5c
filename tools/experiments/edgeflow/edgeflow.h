/* SPDX-License-Identifier: MIT */
/*
 * edgeflow: figures of EdgeFlow's method on the modelled SoCs, all from plans on the virtual clock.
 *
 *	pipeline	the synergistic granular pipeline, step by step (4.3)
 */
#ifndef EDGEFLOW_H
#define EDGEFLOW_H

#include "trial.h"

extern const struct command command_pipeline;

#endif /* EDGEFLOW_H */
