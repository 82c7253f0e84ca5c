/* SPDX-License-Identifier: MIT */
/*
 * shadowattn: figures of shadowAttn's method.
 *
 *	plan		what the order of heads brings on the modelled SoCs, policy by policy (3.4,
 *			figure 9)
 *	recall		which of the greatest scores the estimate finds, of a model and a text
 */
#ifndef SHADOWATTN_H
#define SHADOWATTN_H

#include "trial.h"

extern const struct command command_plan;

/* recall [options] MODEL TEXT: returns the exit status. */
int recall_main(int argc, char **argv);

#endif /* SHADOWATTN_H */
