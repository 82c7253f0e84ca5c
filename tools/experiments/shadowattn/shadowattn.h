/* SPDX-License-Identifier: MIT */
/*
 * shadowattn: figures of shadowAttn's method on the modelled SoCs.
 *
 *	plan		what the order of heads brings, policy by policy (3.4, figure 9)
 */
#ifndef SHADOWATTN_H
#define SHADOWATTN_H

#include "trial.h"

extern const struct command command_plan;

#endif /* SHADOWATTN_H */
