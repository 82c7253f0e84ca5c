// SPDX-License-Identifier: MIT
/*
 * Leaving a CPU: by not being allowed to use it for a moment. The CPUs that are allowed again are
 * those that were online: one that comes later is not used by this thread.
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
