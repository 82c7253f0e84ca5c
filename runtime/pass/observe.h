/* SPDX-License-Identifier: MIT */
/* Showing the results of operators: when the last slice of one has been computed. */
#ifndef OBSERVE_H
#define OBSERVE_H

#include "run.h"

struct observation;

/* 0 or -ENOMEM with the error line. */
int observation_create(const struct pass_runner *r, const struct pass *pass,
		       const struct plan *plan, struct observation **seen);
void observation_free(struct observation *seen); /* NULL: nothing */
/* @task has been computed. */
void observe(struct observation *seen, uint32_t task);

#endif /* OBSERVE_H */
