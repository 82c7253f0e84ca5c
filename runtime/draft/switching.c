// SPDX-License-Identifier: MIT
#include "switching.h"

#include <stddef.h>

static uint64_t sum(const uint64_t *values, uint32_t n)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < n; i++)
		total += values[i];
	return total;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint32_t nr_steps(const struct switching_profile *p)
{
	return p->blocks * p->chunks;
}

/* ---- all steps with the graphs for prefill ---- */

/* Loads the blocks from the first on, each when its graph for prefill is not needed any more. */
static void load_in_order(const struct switching_profile *p, enum switching_policy policy,
			  struct switching_load *loads, struct switching_times *times)
{
	const uint64_t *last_chunk = p->prefill_ns + (size_t)(p->chunks - 1) * p->blocks;
	uint64_t now = times->prefill_ns - sum(last_chunk, p->blocks);

	if (policy == SWITCHING_SYNCHRONOUS)
		now = times->prefill_ns;
	for (uint32_t b = 0; b < p->blocks; b++) {
		if (policy == SWITCHING_ASYNCHRONOUS)
			now = later(now,
				    times->prefill_ns - sum(last_chunk + b + 1, p->blocks - b - 1));
		loads[b] = (struct switching_load){ .block = b,
						    .step = nr_steps(p),
						    .start_ns = now,
						    .computed_ns = now,
						    .end_ns = now + p->load_ns[b] };
		now = loads[b].end_ns;
		times->peak_bytes =
			later(times->peak_bytes, sum(p->prefill_bytes + b + 1, p->blocks - b - 1) +
							 sum(p->decode_bytes, b + 1));
	}
	times->nr_loads = p->blocks;
	times->switched_ns = now;
}

/* ---- progressive ---- */

/* The time of @step when the last @switched blocks have the graphs for decoding. */
static uint64_t step_ns(const struct switching_profile *p, uint32_t step, uint32_t switched)
{
	uint32_t left = p->blocks - switched;

	return step % p->blocks < left ? p->prefill_ns[step] : p->decode_ns[step];
}

/* The steps from @step on that hide a load of @load_ns, or all; stores their time. */
static uint32_t hide(const struct switching_profile *p, uint32_t step, uint32_t switched,
		     uint64_t load_ns, uint64_t *time_ns)
{
	uint32_t n = 0;

	*time_ns = 0;
	while (*time_ns < load_ns && step + n < nr_steps(p))
		*time_ns += step_ns(p, step + n++, switched);
	return n;
}

static void switch_progressively(const struct switching_profile *p, uint32_t start,
				 struct switching_load *loads, struct switching_times *times)
{
	uint32_t step = start, block = p->blocks;
	uint64_t now = sum(p->prefill_ns, start);

	times->prefill_ns = now;
	for (uint32_t i = 0; i < p->blocks; i++) {
		uint64_t time_ns;
		uint32_t n;

		block--;
		n = hide(p, step, i, p->load_ns[block], &time_ns);
		loads[i] = (struct switching_load){
			block, step, n, now, now + p->load_ns[block], now + time_ns
		};
		if (n)
			times->prefill_ns = loads[i].computed_ns;
		times->peak_bytes = later(times->peak_bytes,
					  sum(p->prefill_bytes, block + 1) +
						  sum(p->decode_bytes + block, p->blocks - block));
		step += n;
		now = later(loads[i].end_ns, loads[i].computed_ns);
	}
	times->nr_loads = p->blocks;
	times->switched_ns = loads[p->blocks - 1].end_ns;
	if (step < nr_steps(p))
		times->prefill_ns = now + sum(p->decode_ns + step, nr_steps(p) - step);
}

void switching_plan(const struct switching_profile *p, enum switching_policy policy, uint32_t start,
		    struct switching_load *loads, struct switching_times *times)
{
	*times = (struct switching_times){
		.prefill_ns = sum(p->prefill_ns, nr_steps(p)),
		.peak_bytes = sum(p->prefill_bytes, p->blocks),
	};
	if (policy == SWITCHING_RESIDENT)
		times->peak_bytes += sum(p->decode_bytes, p->blocks);
	else if (policy == SWITCHING_PROGRESSIVE)
		switch_progressively(p, start, loads, times);
	else
		load_in_order(p, policy, loads, times);
	times->total_ns = later(times->prefill_ns, times->switched_ns);
}

uint32_t switching_best_start(const struct switching_profile *p, struct switching_load *loads)
{
	uint64_t least = UINT64_MAX;
	uint32_t best = 0;

	for (uint32_t start = 0; start <= nr_steps(p); start++) {
		struct switching_times t;

		switching_plan(p, SWITCHING_PROGRESSIVE, start, loads, &t);
		if (t.total_ns <= least) {
			least = t.total_ns;
			best = start;
		}
	}
	return best;
}
