// SPDX-License-Identifier: MIT
/* Makes samples of two readings: counters become fractions of the time between them. */
#include "npu-top.h"

#include <stdlib.h>
#include <string.h>

#include "tool.h"

const char *const top_sort_names[TOP_SORTS] = { "npu", "memory", "time", "pid" };

static double fraction(uint64_t part_ns, uint64_t whole_ns)
{
	/* A driver may count a long job only at its end, so this may exceed 1. */
	return !whole_ns ? -1 : part_ns >= whole_ns ? 1 : (double)part_ns / (double)whole_ns;
}

static const struct top_client *find_client(const struct top *top, const struct top_client *like)
{
	for (size_t i = 0; i < top->nr_clients; i++)
		if (top->clients[i].info.client_id == like->info.client_id &&
		    !strcmp(top->clients[i].info.pdev, like->info.pdev))
			return &top->clients[i];
	return NULL;
}

static struct top_device *find_device(const struct top *top, const char *node)
{
	for (size_t i = 0; i < top->nr_devices; i++)
		if (!strcmp(top->devices[i].node, node))
			return &top->devices[i];
	return NULL;
}

static void compare_client(const struct top_client *old, struct top_client *now)
{
	uint64_t wall_ns = now->time_ns - old->time_ns;

	for (unsigned int i = 0; i < now->info.nr_engines; i++) {
		struct top_engine *e = &now->info.engines[i];
		uint64_t part_ns;

		for (unsigned int k = 0; k < old->info.nr_engines; k++) {
			const struct top_engine *o = &old->info.engines[k];

			if (strcmp(o->name, e->name))
				continue;
			/* If a counter goes back, keeps the greater value until it is exceeded. */
			if (e->busy_ns < o->busy_ns)
				e->busy_ns = o->busy_ns;
			part_ns = e->busy_ns - o->busy_ns;
			e->busy = fraction(part_ns / e->capacity, wall_ns);
		}
		if (e->busy > now->busy)
			now->busy = e->busy;
	}
}

/* Saturates below TOP_UNKNOWN. */
static void add_known(uint64_t *sum, uint64_t v)
{
	uint64_t old = *sum == TOP_UNKNOWN ? 0 : *sum;

	if (v != TOP_UNKNOWN)
		*sum = v > TOP_UNKNOWN - 1 - old ? TOP_UNKNOWN - 1 : old + v;
}

/* For drivers without npu_busy_time_us or npu_memory_utilization: sums over the clients. */
static void sum_clients(const struct top *top, struct top_device *dev)
{
	uint64_t memory = TOP_UNKNOWN;
	double busy = -1;

	for (size_t i = 0; i < top->nr_clients; i++) {
		const struct top_client *c = &top->clients[i];

		if (strcmp(c->node, dev->node))
			continue;
		dev->nr_clients++;
		add_known(&memory, c->info.resident_bytes);
		if (c->busy >= 0)
			busy = (busy > 0 ? busy : 0) + c->busy;
	}
	if (dev->busy_us == TOP_UNKNOWN && !dev->gone) {
		dev->busy = busy > 1 ? 1 : busy;
		dev->from_clients = true;
	}
	if (dev->memory_bytes == TOP_UNKNOWN && !dev->gone) {
		dev->memory_bytes = memory;
		dev->from_clients = true;
	}
}

static void compare_device(const struct top_device *old, struct top_device *now)
{
	memcpy(now->history, old->history, sizeof(now->history));
	now->nr_history = old->nr_history;
	/* If the counter went back, it is another device. */
	if (!old->gone && now->busy_us != TOP_UNKNOWN && old->busy_us != TOP_UNKNOWN &&
	    now->busy_us >= old->busy_us) {
		uint64_t wall_us = (now->time_ns - old->time_ns) / 1000;

		now->busy = fraction(now->busy_us - old->busy_us, wall_us);
	}
}

static void push_history(struct top_device *dev)
{
	if (dev->nr_history == TOP_HISTORY)
		memmove(dev->history, dev->history + 1,
			--dev->nr_history * sizeof(dev->history[0]));
	dev->history[dev->nr_history++] = (float)dev->busy;
}

/* Appends devices that have disappeared. */
static int keep_gone_devices(const struct top *old, struct top *now)
{
	struct top_device *grown =
		realloc(now->devices, (now->nr_devices + old->nr_devices + 1) * sizeof(*grown));

	if (!grown)
		return tool_fail("no memory for the devices");
	now->devices = grown;
	for (size_t i = 0; i < old->nr_devices; i++) {
		const struct top_device *o = &old->devices[i];
		struct top_device *dev;

		if (find_device(now, o->node))
			continue;
		dev = &now->devices[now->nr_devices++];
		*dev = *o;
		dev->gone++;
		dev->busy = -1;
		dev->nr_clients = 0;
		dev->memory_bytes = TOP_UNKNOWN;
	}
	return 0;
}

int top_compare(const struct top *old, struct top *now)
{
	int err;

	for (size_t i = 0; i < now->nr_clients; i++) {
		const struct top_client *o = find_client(old, &now->clients[i]);

		if (o)
			compare_client(o, &now->clients[i]);
	}
	for (size_t i = 0; i < now->nr_devices; i++) {
		const struct top_device *o = find_device(old, now->devices[i].node);

		if (o)
			compare_device(o, &now->devices[i]);
	}
	err = keep_gone_devices(old, now);
	for (size_t i = 0; i < now->nr_devices && !err; i++) {
		sum_clients(now, &now->devices[i]);
		if (old->time_ns)
			push_history(&now->devices[i]);
	}
	now->interval_ns = old->time_ns ? now->time_ns - old->time_ns : 0;
	return err;
}

int top_sample(struct top *top)
{
	struct top now = { .root = top->root, .time_ns = tool_now_ns() };
	int err = top_read(&now);

	if (!err)
		err = top_compare(top, &now);
	if (err) {
		top_free(&now);
		return err;
	}
	top_free(top);
	*top = now;
	return 0;
}

void top_free(struct top *top)
{
	free(top->devices);
	free(top->clients);
	top->devices = NULL;
	top->clients = NULL;
	top->nr_devices = top->nr_clients = 0;
}

uint64_t top_client_ns(const struct top_client *client)
{
	uint64_t sum = TOP_UNKNOWN;

	for (unsigned int i = 0; i < client->info.nr_engines; i++)
		add_known(&sum, client->info.engines[i].busy_ns);
	return sum;
}

/* ---- order ---- */

static int descending(double a, double b)
{
	return (a < b) - (a > b);
}

/* Sorts unknown numbers last. */
static double known(uint64_t v)
{
	return v == TOP_UNKNOWN ? -1 : (double)v;
}

static int by_pid(const void *a, const void *b)
{
	const struct top_client *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->info.client_id > y->info.client_id) - (x->info.client_id < y->info.client_id);
}

static int by_npu(const void *a, const void *b)
{
	int d = descending(((const struct top_client *)a)->busy,
			   ((const struct top_client *)b)->busy);

	return d ? d : by_pid(a, b);
}

static int by_memory(const void *a, const void *b)
{
	int d = descending(known(((const struct top_client *)a)->info.total_bytes),
			   known(((const struct top_client *)b)->info.total_bytes));

	return d ? d : by_pid(a, b);
}

static int by_time(const void *a, const void *b)
{
	int d = descending(known(top_client_ns(a)), known(top_client_ns(b)));

	return d ? d : by_pid(a, b);
}

void top_sort(struct top *top, enum top_sort by)
{
	static int (*const orders[TOP_SORTS])(const void *, const void *) = { by_npu, by_memory,
									      by_time, by_pid };

	if (top->nr_clients)
		qsort(top->clients, top->nr_clients, sizeof(*top->clients), orders[by]);
}
