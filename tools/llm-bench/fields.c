// SPDX-License-Identifier: MIT
/* A result of llm-bench as named fields. Fields that do not apply or were not measured are null. */
#include <json-c/json.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "json_out.h"
#include "llm-bench.h"
#include "tool.h"

/* llama-bench's fields in its order, then ours. Other choices come after these. */
static const struct bench_field fixed_fields[] = {
	{ "build_commit", "TEXT" },
	{ "build_number", "INTEGER" },
	{ "cpu_info", "TEXT" },
	{ "gpu_info", "TEXT" },
	{ "backends", "TEXT" },
	{ "model_filename", "TEXT" },
	{ "model_type", "TEXT" },
	{ "model_size", "INTEGER" },
	{ "model_n_params", "INTEGER" },
	{ "n_batch", "INTEGER" },
	{ "n_ubatch", "INTEGER" },
	{ "n_threads", "INTEGER" },
	{ "cpu_mask", "TEXT" },
	{ "cpu_strict", "INTEGER" },
	{ "poll", "INTEGER" },
	{ "type_k", "TEXT" },
	{ "type_v", "TEXT" },
	{ "n_gpu_layers", "INTEGER" },
	{ "split_mode", "TEXT" },
	{ "main_gpu", "INTEGER" },
	{ "no_kv_offload", "INTEGER" },
	{ "flash_attn", "INTEGER" },
	{ "tensor_split", "TEXT" },
	{ "use_mmap", "INTEGER" },
	{ "embeddings", "INTEGER" },
	{ "n_prompt", "INTEGER" },
	{ "n_gen", "INTEGER" },
	{ "n_depth", "INTEGER" },
	{ "task", "TEXT" },
	{ "test_time", "TEXT" },
	{ "avg_ns", "INTEGER" },
	{ "stddev_ns", "INTEGER" },
	{ "avg_ts", "REAL" },
	{ "stddev_ts", "REAL" },
	{ "samples_ns", NULL },
	{ "samples_ts", NULL },
	{ "transport", "TEXT" },
	{ "clock", "TEXT" },
	{ "profile", "TEXT" },
	{ "preset", "TEXT" },
	{ "graphs", "TEXT" },
	{ "placement", "TEXT" },
	{ "partition", "TEXT" },
	{ "sync", "TEXT" },
	{ "order", "TEXT" },
	{ "weights", "TEXT" },
	{ "activations", "TEXT" },
	{ "kv", "TEXT" },
	{ "start", "TEXT" },
	{ "attention", "TEXT" },
	{ "draft", "TEXT" },
	{ "chunk", "INTEGER" },
	{ "npu_threads", "INTEGER" },
	{ "ttft_ms", "REAL" },
	{ "syncs", "REAL" },
	{ "driver_waits", "REAL" },
	{ "npu_submits", "REAL" },
	{ "npu_jobs", "REAL" },
	{ "decision_ns", "REAL" },
	{ "busy_npu", "REAL" },
	{ "busy_gpu", "REAL" },
	{ "busy_cpu", "REAL" },
	{ "busy_storage", "REAL" },
	{ "bubble_npu", "REAL" },
	{ "bubble_gpu", "REAL" },
	{ "bubble_cpu", "REAL" },
	{ "bubble_storage", "REAL" },
	{ "energy_j", "REAL" },
	{ "power_w", "REAL" },
	{ "peak_memory_bytes", "INTEGER" },
	{ "model_n_params_active", "INTEGER" },
	{ "weight_bytes_read", "INTEGER" },
	{ "kv_bytes_read", "INTEGER" },
	{ "memory_gbps", "REAL" },
	{ "shadow_ms", "REAL" },
	{ "shadow_merges", "REAL" },
	{ "shadow_reads", "REAL" },
	{ "shadow_weight_bytes", "INTEGER" },
	{ "ratio", "REAL" },
	{ "sparse_from", "INTEGER" },
	{ "attn_keys", "REAL" },
	{ "attn_estimate_ms", "REAL" },
	{ "attn_select_ms", "REAL" },
	{ "attn_attend_ms", "REAL" },
	{ "attn_launches", "REAL" },
	{ "start_read_bytes", "INTEGER" },
	{ "start_cached_bytes", "INTEGER" },
	{ "start_wait_ms", "REAL" },
	{ "start_pack_ms", "REAL" },
	{ "panels_cache", "TEXT" },
	{ "recall", "REAL" },
	{ "accepted_per_step", "REAL" },
	{ "draft_nodes", "REAL" },
	{ "token_ms", "REAL" },
	{ "plain_token_ms", "REAL" },
	{ "draft_ms", "REAL" },
	{ "calibrate_ms", "REAL" },
	{ "calibrate_head_ms", "REAL" },
	{ "graph_switch_ms", "REAL" },
	{ "graph_load_ms", "REAL" },
	{ "graph_bytes", "INTEGER" },
	{ "graph_peak_bytes", "INTEGER" },
	{ "decode_width", "INTEGER" },
	{ "output_sha256", "TEXT" },
	{ "predictor", "TEXT" },
	{ "modelled_ns", "INTEGER" },
	{ "prefill_breakdown", NULL },
	{ "decode_breakdown", NULL },
	{ "cold_breakdown", NULL },
};

#define NR_FIXED (sizeof(fixed_fields) / sizeof(fixed_fields[0]))

static bool is_fixed(const char *name)
{
	for (size_t i = 0; i < NR_FIXED; i++)
		if (!strcmp(fixed_fields[i].name, name))
			return true;
	return false;
}

const struct bench_field *bench_fields(void)
{
	static struct bench_field fields[NR_FIXED + LLM_NR_CHOICES + 1];
	size_t n = NR_FIXED;

	if (fields[0].name)
		return fields;
	memcpy(fields, fixed_fields, sizeof(fixed_fields));
	for (enum llm_choice c = 0; c < LLM_NR_CHOICES; c++)
		if (!is_fixed(llm_choice_info(c)->name))
			fields[n++] = (struct bench_field){ llm_choice_info(c)->name, "TEXT" };
	return fields;
}

static double sample_ts(const struct bench_result *r, unsigned int i)
{
	return (double)(r->test.n_prompt + r->test.n_gen) * 1e9 / (double)r->samples_ns[i];
}

static double sample_ns(const struct bench_result *r, unsigned int i)
{
	return (double)r->samples_ns[i];
}

static struct bench_stat stat_of(const struct bench_result *r,
				 double (*sample)(const struct bench_result *, unsigned int))
{
	struct bench_stat st = { 0 };
	double squares = 0;

	for (unsigned int i = 0; i < r->n; i++)
		st.mean += sample(r, i) / r->n;
	for (unsigned int i = 0; i < r->n; i++)
		squares += (sample(r, i) - st.mean) * (sample(r, i) - st.mean);
	st.stddev = r->n > 1 ? sqrt(squares / (r->n - 1)) : NAN;
	return st;
}

struct bench_stat bench_stat_ns(const struct bench_result *r)
{
	return stat_of(r, sample_ns);
}

struct bench_stat bench_stat_ts(const struct bench_result *r)
{
	return stat_of(r, sample_ts);
}

void bench_test_name(const struct bench_test *test, char *name, size_t bytes)
{
	char pp[16] = "", tg[16] = "", depth[24] = "";

	if (test->kind) {
		snprintf(name, bytes, "%s", test->kind);
		return;
	}
	if (test->replay)
		snprintf(pp, sizeof(pp), "replay");
	else if (test->n_prompt)
		snprintf(pp, sizeof(pp), "pp%u", test->n_prompt);
	if (test->n_gen && !test->replay)
		snprintf(tg, sizeof(tg), "tg%u", test->n_gen);
	if (test->n_depth)
		snprintf(depth, sizeof(depth), " @ d%u", test->n_depth);
	snprintf(name, bytes, "%s%s%s%s", pp, *pp && *tg ? "+" : "", tg, depth);
}

static const char *cpu_info(void)
{
	static char name[128];
	char line[256];
	FILE *f;

	if (*name)
		return name;
	f = fopen("/proc/cpuinfo", "re");
	if (!f)
		return NULL;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "model name : %127[^\n]", name) == 1)
			break;
	fclose(f);
	return *name ? name : NULL;
}

static struct json_object *utc(time_t t)
{
	char text[32];
	struct tm tm;

	if (!gmtime_r(&t, &tm) || !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
		return NULL;
	return json_object_new_string(text);
}

static struct json_object *integer(double v)
{
	return isfinite(v) ? json_object_new_int64(llround(v)) : NULL;
}

static void add(struct json_object *o, const char *name, struct json_object *value)
{
	json_object_object_add(o, name, value);
}

static void add_model(struct json_object *o, const struct bench_result *r)
{
	add(o, "build_commit", json_out_string(tool_build_commit));
	add(o, "cpu_info", json_out_string(cpu_info()));
	add(o, "model_filename", json_out_string(r->config->opts.model));
	add(o, "model_type", json_out_string(r->info->type));
	add(o, "model_size", json_out_u64(r->info->file_bytes));
	add(o, "model_n_params", json_out_u64(r->info->n_params));
	add(o, "n_threads", r->dry ? NULL : json_out_u64(r->info->threads));
	add(o, "n_prompt", json_out_u64(r->test.n_prompt));
	add(o, "n_gen", json_out_u64(r->test.n_gen));
	add(o, "n_depth", json_out_u64(r->test.n_depth));
	add(o, "task", json_out_string(r->test.kind));
	add(o, "test_time", utc(r->time));
}

static void add_times(struct json_object *o, const struct bench_result *r)
{
	struct bench_stat ns = bench_stat_ns(r), ts = bench_stat_ts(r);
	struct json_object *samples_ns = json_object_new_array(),
			   *samples_ts = json_object_new_array();

	for (unsigned int i = 0; i < r->n; i++) {
		json_object_array_add(samples_ns, json_out_u64(r->samples_ns[i]));
		json_object_array_add(samples_ts, json_out_double(sample_ts(r, i)));
	}
	add(o, "avg_ns", integer(ns.mean));
	add(o, "stddev_ns", integer(ns.stddev));
	add(o, "avg_ts", json_out_double(ts.mean));
	add(o, "stddev_ts", json_out_double(ts.stddev));
	add(o, "samples_ns", samples_ns);
	add(o, "samples_ts", samples_ts);
}

static void add_choices(struct json_object *o, const struct bench_result *r)
{
	const struct npu_device_info *dev = r->info->device;
	unsigned int npu_threads = r->config->opts.device.threads;
	bool sim = dev && dev->transport == NPU_TRANSPORT_SIM;

	add(o, "transport", json_out_string(dev ? engine_transport_name(dev->transport) : NULL));
	add(o, "clock", json_out_string(r->info->profile ? "virtual" : "wall"));
	add(o, "profile", json_out_string(r->info->profile));
	add(o, "preset", json_out_string(r->config->preset));
	for (enum llm_choice c = 0; c < LLM_NR_CHOICES; c++) {
		const struct llm_choices *choices = &r->info->choices;
		const char *name = llm_choice_name(c, llm_choices_get(choices, c));

		add(o, llm_choice_info(c)->name,
		    json_out_string(llm_choice_applies(c, choices, r->dry) ? name : NULL));
	}
	/* Placement layer chooses chunks for prompts only. */
	if (!r->test.n_prompt && r->info->choices.placement == LLM_PLACE_LAYER)
		add(o, "chunk", NULL);
	else
		add(o, "chunk", json_out_u64(r->chunk ? r->chunk : r->info->chunk));
	add(o, "npu_threads", sim && npu_threads ? json_out_u64(npu_threads) : NULL);
}

/* A count per repetition. */
static struct json_object *count(const struct bench_result *r, uint64_t total)
{
	return r->info->device ? json_out_double((double)total / r->n) : NULL;
}

/* The busy fraction of a lane's measured time; NaN: unknown. */
static double lane_busy(const struct bench_result *r, unsigned int lane)
{
	double ns = bench_stat_ns(r).mean * r->n;
	const char *name = llm_lane_name(lane);

	if (r->info->profile)
		return (double)r->virtual_clock.lanes[lane].busy_ns / ns;
	/* The device counts its own time. */
	if (!strcmp(name, "npu"))
		return r->info->device && r->npu_busy_known ? (double)r->npu_busy_ns / ns : NAN;
	if (strcmp(name, "cpu") && !r->info->gpu)
		return NAN;
	/* Beside a GPU, and by order steal, it is another thread that waits for the NPU. */
	if (r->info->gpu || r->info->choices.order == LLM_ORDER_STEAL)
		return (double)r->lanes[lane].busy_ns / ns;
	return 1 - (double)r->npu_wait_ns / ns;
}

static void add_lane(struct json_object *o, const char *what, unsigned int lane,
		     struct json_object *value)
{
	char name[32];

	snprintf(name, sizeof(name), "%s_%s", what, llm_lane_name(lane));
	add(o, name, value);
}

static void add_lanes(struct json_object *o, const struct bench_result *r)
{
	for (unsigned int lane = 0; lane < llm_nr_lanes(); lane++)
		add_lane(o, "busy", lane, json_out_double(lane_busy(r, lane)));
	for (unsigned int lane = 0; lane < llm_nr_lanes(); lane++) {
		double busy = lane_busy(r, lane);

		/* An unused lane of the SoC has no bubbles. */
		add_lane(o, "bubble", lane,
			 r->info->profile && !busy ? NULL : json_out_double(1 - busy));
	}
}

static void add_counts(struct json_object *o, const struct bench_result *r)
{
	const struct llm_virtual_stats *v = &r->virtual_clock;
	bool planned = r->info->profile;

	add(o, "ttft_ms", r->ttft_ns ? json_out_double((double)r->ttft_ns / r->n / 1e6) : NULL);
	/* On the virtual clock both counts are the plan's, also in a dry run. */
	add(o, "syncs",
	    planned ? json_out_double((double)v->handovers / r->n)
		    : count(r, r->counts.waits + r->counts.polls));
	add(o, "driver_waits", count(r, r->counts.waits));
	add(o, "npu_submits", count(r, r->counts.submits));
	add(o, "npu_jobs",
	    planned ? json_out_double((double)v->launches / r->n) : count(r, r->counts.jobs));
	add(o, "decision_ns",
	    r->decisions ? json_out_double((double)r->decision_ns / (double)r->decisions) : NULL);
}

/* Milliseconds per token by kind of work; null if nothing was measured. */
static struct json_object *breakdown(const struct llm_breakdown *b)
{
	double per_ms = 1e6 * (double)b->tokens;
	struct json_object *o;
	const char *item;

	if (!b->tokens)
		return NULL;
	o = json_object_new_object();
	for (unsigned int i = 0; (item = llm_breakdown_item(i)); i++)
		add(o, item, json_out_double((double)b->item_ns[i] / per_ms));
	add(o, "total", json_out_double((double)b->ns / per_ms));
	return o;
}

/* Shadow outliers: the host's time, and counts of a repetition; null without them. */
static void add_shadow(struct json_object *o, const struct bench_result *r)
{
	const struct llm_shadow_stats *s = &r->shadow;
	bool has = s->all_bytes && r->test.n_prompt;

	add(o, "shadow_ms", has ? json_out_double((double)s->ns / r->n / 1e6) : NULL);
	add(o, "shadow_merges", has ? json_out_double((double)s->merges / r->n) : NULL);
	add(o, "shadow_reads", has ? json_out_double((double)s->reads / r->n) : NULL);
	add(o, "shadow_weight_bytes", has ? json_out_u64(s->hot_bytes) : NULL);
}

/* Sparse attention: the share of the keys, the CPU's time, summed over threads, and the NPU's
 * launches of a repetition; null without it. */
static void add_attention(struct json_object *o, const struct bench_result *r)
{
	const struct llm_options *opts = &r->config->opts;
	const struct llm_attention_stats *a = &r->attention;
	bool sparse = r->info->choices.attention != LLM_ATTENTION_FULL, has = a->visible;
	double ms = 1e-6 / r->n;

	add(o, "ratio",
	    sparse ? json_out_double(opts->ratio != 0 ? opts->ratio : LLM_SPARSE_RATIO) : NULL);
	add(o, "sparse_from",
	    sparse ? json_out_u64(opts->sparse_from ? opts->sparse_from : LLM_SPARSE_FROM) : NULL);
	add(o, "attn_keys", has ? json_out_double((double)a->selected / (double)a->visible) : NULL);
	add(o, "attn_estimate_ms", has ? json_out_double((double)a->estimate_ns * ms) : NULL);
	add(o, "attn_select_ms", has ? json_out_double((double)a->select_ns * ms) : NULL);
	add(o, "attn_attend_ms", has ? json_out_double((double)a->attend_ns * ms) : NULL);
	add(o, "attn_launches", has ? json_out_double((double)a->launches / r->n) : NULL);
}

/* Blocks of layers with two graphs: the time of a repetition in which loads were waited for, that
 * of the loads, and what the graphs take; null without them. */
static void add_switching(struct json_object *o, const struct bench_result *r)
{
	const struct llm_switching_stats *s = &r->switching;
	bool has = r->info->decode_width;
	double ms = 1e-6 / r->n;

	add(o, "graph_switch_ms", has ? json_out_double((double)s->wait_ns * ms) : NULL);
	add(o, "graph_load_ms", has ? json_out_double((double)s->load_ns * ms) : NULL);
	add(o, "graph_bytes", has ? json_out_u64(s->graph_bytes) : NULL);
	add(o, "graph_peak_bytes", has ? json_out_u64(s->graph_peak_bytes) : NULL);
	add(o, "decode_width", has ? json_out_u64(r->info->decode_width) : NULL);
}

/* How the weights were loaded; null where none are packed. */
static void add_start(struct json_object *o, const struct bench_result *r)
{
	const struct llm_start_stats *s = &r->start;
	bool has = s->read_bytes + s->cached_bytes;

	add(o, "start_read_bytes", has ? json_out_u64(s->read_bytes) : NULL);
	add(o, "start_cached_bytes", has ? json_out_u64(s->cached_bytes) : NULL);
	add(o, "start_wait_ms", has ? json_out_double((double)s->wait_ns / 1e6) : NULL);
	add(o, "start_pack_ms", has ? json_out_double((double)s->pack_ns / 1e6) : NULL);
	add(o, "panels_cache",
	    json_out_string(r->cache.state ? llm_panels_state_name(r->cache.state) : NULL));
}

/* Drafts, of tasks and replays; null without them. */
static void add_draft(struct json_object *o, const struct bench_result *r)
{
	const struct bench_draft *d = &r->draft;
	double tokens = (double)r->test.n_gen * r->n, steps = (double)d->steps;
	bool by_turns = d->plain_ns, drafts = d->steps;

	add(o, "accepted_per_step", drafts ? json_out_double((double)d->tokens / steps) : NULL);
	add(o, "draft_nodes", drafts ? json_out_double((double)d->nodes / steps) : NULL);
	add(o, "token_ms", drafts ? json_out_double((double)d->ns / 1e6 / tokens) : NULL);
	add(o, "plain_token_ms",
	    by_turns ? json_out_double((double)d->plain_ns / 1e6 / tokens) : NULL);
	add(o, "draft_ms",
	    drafts && !r->test.replay ? json_out_double((double)d->draft_ns / 1e6 / steps) : NULL);
	add(o, "calibrate_ms",
	    d->calibrate_ns ? json_out_double((double)d->calibrate_ns / r->n / 1e6) : NULL);
	add(o, "calibrate_head_ms",
	    d->calibrate_ns ? json_out_double((double)d->head_ns / r->n / 1e6) : NULL);
}

/* ---- cold starts ---- */

static void add_ms(struct json_object *o, const char *name, uint64_t ns)
{
	add(o, name, json_out_double((double)ns / 1e6));
}

static struct json_object *cold_lane(const struct llm_cold_lane *lane)
{
	struct json_object *o = json_object_new_object();

	add_ms(o, "read_ms", lane->read_ns);
	add_ms(o, "pack_ms", lane->pack_ns);
	add_ms(o, "graph_ms", lane->graph_ns);
	add_ms(o, "compute_ms", lane->compute_ns);
	add_ms(o, "bubble_ms", lane->bubble_ns);
	return o;
}

static void add_memory(struct json_object *o, const char *name, const struct llm_cold_memory *m)
{
	struct json_object *memory = json_object_new_object();

	add(memory, "peak_bytes", json_out_u64(m->peak));
	add(memory, "bound_bytes", json_out_u64(m->bound));
	add(o, name, memory);
}

/* What the evaluation takes, what bounds it, and what came before it. */
static void add_cold_times(struct json_object *o, const struct llm_cold_stats *c)
{
	add_ms(o, "file_ms", c->file_ns);
	add_ms(o, "tokenizer_ms", c->tokenizer_ns);
	add_ms(o, "device_ms", c->device_ns);
	add_ms(o, "load_ms", c->load_ns);
	add_ms(o, "session_ms", c->session_ns);
	add_ms(o, "plan_ms", c->plan_ns);
	add_ms(o, "ms", c->ns);
	add_ms(o, "bound_ms", c->bound_ns);
	add_ms(o, "read_ms", c->read_ns);
	add_ms(o, "pack_ms", c->pack_ns);
	add_ms(o, "compute_ms", c->compute_ns);
	add_ms(o, "first_read_ms", c->first_read_ns);
	add_ms(o, "last_compute_ms", c->last_compute_ns);
}

/* The last repetition's start; null if it was not cold. */
static struct json_object *cold_breakdown(const struct bench_result *r)
{
	const struct llm_cold_stats *c = &r->cold;
	struct json_object *o, *lanes, *memory;

	if (!c->ns)
		return NULL;
	o = json_object_new_object();
	lanes = json_object_new_object();
	memory = json_object_new_object();
	add_cold_times(o, c);
	for (unsigned int lane = 0; lane < llm_nr_lanes(); lane++)
		add(lanes, llm_lane_name(lane), cold_lane(&c->lanes[lane]));
	add(o, "lanes", lanes);
	add(o, "read_bytes", json_out_u64(c->read_bytes));
	add(o, "cached_bytes", json_out_u64(c->cached_bytes));
	add(o, "energy_j", r->info->profile ? json_out_double(c->energy_j) : NULL);
	add_memory(memory, "weights", &c->weights);
	add_memory(memory, "kv", &c->kv);
	add_memory(memory, "activations", &c->activations);
	add_memory(memory, "ring", &c->ring);
	add(o, "memory", memory);
	return o;
}

static void add_costs(struct json_object *o, const struct bench_result *r)
{
	const struct llm_virtual_stats *v = &r->virtual_clock;
	double ns = bench_stat_ns(r).mean * r->n, weights = NAN, kv = NAN;
	double gbps;

	/*
	 * Each generated token reads all weights once, but of experts only its own, and the cache
	 * up to itself; how often a prompt's chunks read them depends on caches.
	 */
	if (!r->dry && !r->test.n_prompt) {
		weights = (double)r->info->token_bytes * r->test.n_gen;
		kv = (double)r->info->kv_token_bytes * r->test.n_gen *
		     (r->test.n_depth + (r->test.n_gen + 1) / 2.0);
	}
	gbps = r->info->profile ? v->dram_bytes / ns : (weights + kv) * r->n / ns;

	add_counts(o, r);
	add_lanes(o, r);
	add(o, "energy_j", r->info->profile ? json_out_double(v->energy_j / r->n) : NULL);
	add(o, "power_w", r->info->profile ? json_out_double(v->energy_j / ns * 1e9) : NULL);
	add(o, "peak_memory_bytes",
	    r->peak_memory_bytes ? json_out_u64(r->peak_memory_bytes) : NULL);
	add(o, "model_n_params_active", json_out_u64(r->info->n_params_active));
	add(o, "weight_bytes_read", integer(weights));
	add(o, "kv_bytes_read", integer(kv));
	add(o, "memory_gbps", json_out_double(gbps));
	add_shadow(o, r);
	add_attention(o, r);
	add_start(o, r);
	add_draft(o, r);
	add_switching(o, r);
	add(o, "output_sha256", json_out_string(*r->output_sha256 ? r->output_sha256 : NULL));
	add(o, "predictor", json_out_string(r->predictor));
	add(o, "modelled_ns", r->modelled_ns ? json_out_u64(r->modelled_ns) : NULL);
	add(o, "prefill_breakdown", breakdown(&r->breakdowns[0]));
	add(o, "decode_breakdown", breakdown(&r->breakdowns[1]));
	add(o, "cold_breakdown", cold_breakdown(r));
}

/* Where the operators run, as llama-bench names it. */
static const char *backends(const struct llm_engine_info *info, char *text, size_t bytes)
{
	snprintf(text, bytes, "CPU%s%s", info->device ? ",NPU" : "", info->gpu ? ",OpenCL" : "");
	return text;
}

/*
 * Fields of llama-bench that are settings of llama.cpp: what those settings are here. There is no
 * number of builds, no batch beside the chunk and no mask of CPUs, which are null.
 */
static void add_llama(struct json_object *o, const struct bench_result *r)
{
	const struct llm_engine_info *info = r->info;
	const char *kv = llm_choice_name(LLM_CHOICE_KV, info->choices.kv);
	bool cpu = info->choices.placement == LLM_PLACE_CPU;
	char text[32];

	add(o, "gpu_info", json_out_string(info->gpu));
	add(o, "backends", json_out_string(backends(info, text, sizeof(text))));
	add(o, "n_ubatch", json_object_get(json_object_object_get(o, "chunk")));
	add(o, "type_k", json_out_string(kv));
	add(o, "type_v", json_out_string(kv));
	add(o, "n_gpu_layers", json_out_u64(cpu ? 0 : info->n_layer));
	add(o, "split_mode", json_out_string("none"));
	add(o, "no_kv_offload", json_object_new_boolean(cpu));
	add(o, "flash_attn", json_object_new_boolean(true));
	add(o, "use_mmap", json_object_new_boolean(true));
	add(o, "embeddings", json_object_new_boolean(false));
}

/* In the order of the fields; unknown ones are null. */
struct json_object *bench_fields_make(const struct bench_result *r)
{
	struct json_object *known = json_object_new_object(), *o = json_object_new_object();

	add_model(known, r);
	add_times(known, r);
	add_choices(known, r);
	add_costs(known, r);
	add_llama(known, r);
	for (const struct bench_field *field = bench_fields(); field->name; field++)
		add(o, field->name, json_object_get(json_object_object_get(known, field->name)));
	json_object_put(known);
	return o;
}
