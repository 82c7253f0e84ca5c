/* SPDX-License-Identifier: MIT */
/*
 * llmnpu: figures of llm.npu's method on the modelled SoCs, all from plans on the virtual clock.
 *
 *	subgraphs	what is shared by chunks, and what that saves (3.2)
 *	fits		matrices in the NPU's address space (4)
 *	chunks		a prompt's time by the length of its chunks (3.2, figure 8)
 *	steps		naive NPU, chunk sharing, shadow outliers, out-of-order (3.2 to 3.4)
 *	merging		what shadow outliers cost, by pruning (3.3)
 */
#ifndef LLMNPU_H
#define LLMNPU_H

#include "trial.h"

extern const struct command command_subgraphs, command_fits, command_chunks, command_steps,
	command_merging;

#endif /* LLMNPU_H */
