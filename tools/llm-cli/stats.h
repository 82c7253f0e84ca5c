/* SPDX-License-Identifier: MIT */
/* The statistics of llm-cli, which option --stats asks for. */
#ifndef STATS_H
#define STATS_H

#include "llm.h"

/* Prints them on stderr. Loading the model took @load_ns. */
void stats_print(struct llm_engine *engine, const struct llm_session *s, uint64_t load_ns);

#endif /* STATS_H */
