// SPDX-License-Identifier: MIT
/*
 * A thread leaves its CPU by excluding that CPU from its affinity for a moment. It may then use the
 * CPUs that were online; it will not use one that comes online later.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "polling.h"

bool polling_move(void)
{
	int cpu = sched_getcpu();
	cpu_set_t all, others;

	if (cpu < 0 || sched_getaffinity(0, sizeof(all), &all))
		return false;
	others = all;
	CPU_CLR(cpu, &others);
	if (!CPU_COUNT(&others) || sched_setaffinity(0, sizeof(others), &others))
		return false;
	sched_setaffinity(0, sizeof(all), &all);
	return true;
}
