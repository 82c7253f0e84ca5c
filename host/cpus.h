/* SPDX-License-Identifier: MIT */
/*
 * How many threads the process may keep busy, computing or polling: one per CPU of its affinity
 * mask, but no more than the CPU time that its control groups grant it. A container with a quota of
 * one CPU still sees all CPUs of its host; with a thread for each of them it would spend its time
 * in a part of each period, and sleep for the rest of it.
 *
 * A quota is cpu.max of a control group (version 2), or cpu.cfs_quota_us and cpu.cfs_period_us
 * (version 1). It counts for all groups below, so the smallest one from the process's own group up
 * to the root holds. What cannot be read is no quota.
 */
#ifndef HOST_CPUS_H
#define HOST_CPUS_H

struct host_cpus {
	unsigned int threads; /* to keep busy at a time; at least 1 */
	unsigned int allowed; /* CPUs of the affinity mask */
	double quota; /* CPU time per time; 0: no quota */
	char file[512]; /* with this quota; cut if it is longer; "": no quota */
};

/* @root: where to look for /proc and /sys; "" but for tests. */
void host_cpus_read(const char *root, struct host_cpus *cpus);

/* The default number of threads. Opens files: not after a process has confined itself. */
unsigned int host_threads(void);

#endif /* HOST_CPUS_H */
