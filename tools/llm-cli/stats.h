/* SPDX-License-Identifier: MIT */
/* The statistics of llm-cli, which option --stats asks for. */
#ifndef STATS_H
#define STATS_H

#include "llm.h"

/* Prints them on stderr. @drafter: NULL: none was used. Loading the model took @load_ns. */
void stats_print(struct llm_engine *engine, const struct llm_session *s,
		 const struct llm_drafter *drafter, uint64_t load_ns);

#endif /* STATS_H */
