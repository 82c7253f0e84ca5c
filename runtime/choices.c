/* SPDX-License-Identifier: MIT */
/* The runtime's choices and their names on command lines. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "llm.h"
#include "llm_fail.h"

static const char *const placement_names[] = {
	[LLM_PLACE_AUTO] = "auto",
	[LLM_PLACE_FINE] = "fine",
	[LLM_PLACE_CPU] = "cpu",
	[LLM_PLACE_NPU] = "npu",
	[LLM_PLACE_GPU] = "gpu",
	[LLM_PLACE_LAYER] = "layer",
};
static const char *const weights_names[] = {
	[LLM_WEIGHTS_AUTO] = "auto",
	[LLM_WEIGHTS_F32] = "f32",
	[LLM_WEIGHTS_W8A8] = "w8a8",
	[LLM_WEIGHTS_F16] = "f16",
	[LLM_WEIGHTS_W4A16] = "w4a16",
	[LLM_WEIGHTS_W4A8] = "w4a8",
};
static const char *const activations_names[] = {
	[LLM_ACTIVATIONS_OUTLIERS] = "outliers",
	[LLM_ACTIVATIONS_INT8] = "int8",
	[LLM_ACTIVATIONS_MIXED] = "mixed",
	[LLM_ACTIVATIONS_INT16] = "int16",
};
static const char *const graphs_names[] = {
	[LLM_GRAPHS_BUCKETED] = "bucketed",
	[LLM_GRAPHS_SHARED] = "shared",
	[LLM_GRAPHS_ONLINE] = "online",
	[LLM_GRAPHS_PADDED] = "padded",
	[LLM_GRAPHS_PIPE] = "pipe",
};
static const char *const partition_names[] = {
	[LLM_PARTITION_NONE] = "none",
	[LLM_PARTITION_ROW] = "row",
	[LLM_PARTITION_SEQUENCE] = "sequence",
	[LLM_PARTITION_MULTI_SEQUENCE] = "multi-sequence",
	[LLM_PARTITION_HYBRID] = "hybrid",
	[LLM_PARTITION_AUTO] = "auto",
};
static const char *const kv_names[] = {
	[LLM_KV_F16] = "f16",
	[LLM_KV_F32] = "f32",
	[LLM_KV_Q8_0] = "q8_0",
};
static const char *const sync_names[] = {
	[LLM_SYNC_FAST] = "fast",
	[LLM_SYNC_DRIVER] = "driver",
};

#define COUNT(a) ((unsigned int)(sizeof(a) / sizeof((a)[0])))

static const char *choice_name(const char *const *names, unsigned int n, unsigned int value)
{
	return value < n ? names[value] : "?";
}

static int choice_parse(const char *what, const char *const *names, unsigned int n, const char *name)
{
	char list[64] = "";

	for (unsigned int i = 0; i < n; i++) {
		if (!strcmp(name, names[i]))
			return (int)i;
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i ? ", " : "", names[i]);
	}
	return llm_fail(-EINVAL, "unknown %s '%s'; known are %s", what, name, list);
}

const char *llm_placement_name(enum llm_placement p)
{
	return choice_name(placement_names, COUNT(placement_names), p);
}

const char *llm_weights_name(enum llm_weights w)
{
	return choice_name(weights_names, COUNT(weights_names), w);
}

const char *llm_activations_name(enum llm_activations a)
{
	return choice_name(activations_names, COUNT(activations_names), a);
}

const char *llm_graphs_name(enum llm_graphs g)
{
	return choice_name(graphs_names, COUNT(graphs_names), g);
}

const char *llm_partition_name(enum llm_partition p)
{
	return choice_name(partition_names, COUNT(partition_names), p);
}

const char *llm_kv_name(enum llm_kv kv)
{
	return choice_name(kv_names, COUNT(kv_names), kv);
}

const char *llm_sync_name(enum llm_sync s)
{
	return choice_name(sync_names, COUNT(sync_names), s);
}

enum llm_placement llm_placement_of(enum llm_placement p, bool virtual_clock)
{
	if (p != LLM_PLACE_AUTO)
		return p;
	return virtual_clock ? LLM_PLACE_FINE : LLM_PLACE_NPU;
}

int llm_placement_parse(const char *name, enum llm_placement *p)
{
	int value = choice_parse("placement", placement_names, COUNT(placement_names), name);

	if (value < 0)
		return value;
	*p = (enum llm_placement)value;
	return 0;
}

int llm_weights_parse(const char *name, enum llm_weights *w)
{
	int value = choice_parse("weights", weights_names, COUNT(weights_names), name);

	if (value < 0)
		return value;
	*w = (enum llm_weights)value;
	return 0;
}

int llm_activations_parse(const char *name, enum llm_activations *a)
{
	int value = choice_parse("activations", activations_names, COUNT(activations_names), name);

	if (value < 0)
		return value;
	*a = (enum llm_activations)value;
	return 0;
}

int llm_graphs_parse(const char *name, enum llm_graphs *g)
{
	int value = choice_parse("graphs", graphs_names, COUNT(graphs_names), name);

	if (value < 0)
		return value;
	*g = (enum llm_graphs)value;
	return 0;
}

int llm_partition_parse(const char *name, enum llm_partition *p)
{
	int value = choice_parse("partition", partition_names, COUNT(partition_names), name);

	if (value < 0)
		return value;
	*p = (enum llm_partition)value;
	return 0;
}

int llm_kv_parse(const char *name, enum llm_kv *kv)
{
	int value = choice_parse("KV cache", kv_names, COUNT(kv_names), name);

	if (value < 0)
		return value;
	*kv = (enum llm_kv)value;
	return 0;
}

int llm_sync_parse(const char *name, enum llm_sync *s)
{
	int value = choice_parse("sync", sync_names, COUNT(sync_names), name);

	if (value < 0)
		return value;
	*s = (enum llm_sync)value;
	return 0;
}

int llm_choices_check(enum llm_placement placement, enum llm_graphs graphs, enum llm_partition partition)
{
	if (placement == LLM_PLACE_LAYER)
		return 0;
	if (graphs > LLM_GRAPHS_SHARED)
		return llm_fail(-EINVAL, "graphs %s are those of placement layer; choose it, or graphs bucketed",
				llm_graphs_name(graphs));
	if (partition != LLM_PARTITION_NONE)
		return llm_fail(-EINVAL, "partition %s: only placement layer cuts products; choose it, or partition none",
				llm_partition_name(partition));
	return 0;
}
