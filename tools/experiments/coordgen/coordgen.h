/* SPDX-License-Identifier: MIT */
/*
 * coordgen: figures of CoordGen's method on the modelled SoCs, all from plans on the virtual clock.
 *
 *	switching	when graphs are switched from prefill to decoding (3.2)
 */
#ifndef COORDGEN_H
#define COORDGEN_H

#include "trial.h"

extern const struct command command_switching;

#endif /* COORDGEN_H */
