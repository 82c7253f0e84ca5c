// SPDX-License-Identifier: MIT
#include "stats.h"

#include <inttypes.h>
#include <stdio.h>

#include "options.h"
#include "tool.h"

static double per_second(uint64_t n, uint64_t ns)
{
	return ns ? (double)n * 1e9 / (double)ns : 0;
}

/* Prints how well the ends of the lanes' work were predicted. */
static void print_waits(const struct llm_session *s, bool tokens)
{
	struct llm_wait_stats w;

	if (!llm_session_waits(s, tokens, &w) || !w.waits)
		return;
	fprintf(stderr,
		"waits    %s: %" PRIu64 " predicted, %" PRIu64 " overslept, %" PRIu64
		" given up; slept %.3f s, polled %.3f s\n",
		tokens ? "decode" : "prefill", w.waits, w.overslept, w.given_up, w.slept_s,
		w.polled_s);
	fprintf(stderr,
		"         late by (us, percentiles 10 50 90 99) %.0f %.0f %.0f %.0f of %.0f %.0f "
		"%.0f %.0f predicted\n",
		w.late_us[0], w.late_us[1], w.late_us[2], w.late_us[3], w.predicted_us[0],
		w.predicted_us[1], w.predicted_us[2], w.predicted_us[3]);
}

/* One cell of the breakdown @b. */
static void print_item(uint64_t ns, const struct llm_breakdown *b)
{
	if (b->tokens)
		fprintf(stderr, " %9.4f %6.2f%%", (double)ns / 1e6 / (double)b->tokens,
			100 * (double)ns / (double)b->ns);
	else
		fprintf(stderr, " %9s %6s ", "-", "-");
}

/* Prints which kinds of work the time of a prompt's and of a generated token went into. */
static void print_breakdown(const struct llm_session *s)
{
	struct llm_breakdown b[2];
	const char *item;

	for (int tokens = 0; tokens < 2; tokens++)
		llm_session_breakdown(s, tokens, &b[tokens]);
	if (!b[0].tokens && !b[1].tokens) {
		fputs("time     per kind of work: only known with placement npu on the wall "
		      "clock\n",
		      stderr);
		return;
	}
	fprintf(stderr, "ms per token      prefill            decode\n");
	for (unsigned int i = 0; (item = llm_breakdown_item(i)); i++) {
		fprintf(stderr, "%9s", item);
		for (int tokens = 0; tokens < 2; tokens++)
			print_item(b[tokens].item_ns[i], &b[tokens]);
		fputc('\n', stderr);
	}
	fprintf(stderr, "%9s", "total");
	for (int tokens = 0; tokens < 2; tokens++)
		print_item(b[tokens].ns, &b[tokens]);
	fputc('\n', stderr);
}

/* Prints what shadow outliers cost, if there were any. */
static void print_shadow(const struct llm_shadow_stats *s)
{
	if (!s->all_bytes)
		return;
	fprintf(stderr,
		"shadow   %" PRIu64 " outliers, added to %" PRIu64
		" matmuls, %.3f s; weights %.2f MiB "
		"in memory of %.2f MiB, %" PRIu64 " channels (%.2f MiB) read\n",
		s->outliers, s->merges, (double)s->ns / 1e9, (double)s->hot_bytes / (1 << 20),
		(double)s->all_bytes / (1 << 20), s->reads, (double)s->read_bytes / (1 << 20));
}

/* ---- cold starts ---- */

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static double mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

static void print_lane(const char *name, const struct llm_cold_lane *lane)
{
	fprintf(stderr, "%9s %9.3f %9.3f %9.3f %9.3f %9.3f\n", name, ms(lane->read_ns),
		ms(lane->pack_ns), ms(lane->graph_ns), ms(lane->compute_ns), ms(lane->bubble_ns));
}

static bool has_worked(const struct llm_cold_lane *lane)
{
	return lane->read_ns + lane->pack_ns + lane->graph_ns + lane->compute_ns;
}

static void print_cold_times(const struct llm_cold_stats *c)
{
	fprintf(stderr,
		"cold     ms before the evaluation: file %.3f, tokenizer %.3f, device %.3f, rest "
		"of opening %.3f, session %.3f, plan %.3f\n",
		ms(c->file_ns), ms(c->tokenizer_ns), ms(c->device_ns), ms(c->load_ns),
		ms(c->session_ns), ms(c->plan_ns));
	fprintf(stderr, "ms            read      pack    graphs   compute   bubbles\n");
	for (unsigned int lane = 0; lane < llm_nr_lanes(); lane++)
		if (has_worked(&c->lanes[lane]))
			print_lane(llm_lane_name(lane), &c->lanes[lane]);
	fprintf(stderr,
		"bound    longest of read %.3f, pack %.3f, compute %.3f; first layer's read %.3f, "
		"last layer's compute %.3f\n"
		"         together %.3f ms; the evaluation took %.3f ms, %.2f times as long\n",
		ms(c->read_ns), ms(c->pack_ns), ms(c->compute_ns), ms(c->first_read_ns),
		ms(c->last_compute_ns), ms(c->bound_ns), ms(c->ns),
		(double)c->ns / (double)c->bound_ns);
}

static void print_memory(const char *name, const struct llm_cold_memory *m, const char *end)
{
	fprintf(stderr, " %s %.2f of %.2f%s", name, mib(m->peak), mib(m->bound), end);
}

/* Prints where the time and memory of a cold start went, if the session had one. */
static void print_cold(const struct llm_session *s, bool virtual_clock)
{
	struct llm_cold_stats c;

	if (!llm_session_cold(s, &c))
		return;
	print_cold_times(&c);
	fprintf(stderr, "loaded   %.2f MiB from storage, %.2f MiB from the page cache",
		mib(c.read_bytes), mib(c.cached_bytes));
	if (virtual_clock)
		fprintf(stderr, "; %.3f J", c.energy_j);
	fprintf(stderr, "\nmemory   MiB at most:");
	print_memory("weights", &c.weights, ",");
	print_memory("KV cache", &c.kv, ",");
	print_memory("activations", &c.activations, ",");
	print_memory("ring", &c.ring, "; ");
	fprintf(stderr, "the process %.2f\n", mib(tool_peak_memory()));
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* Prints what sparse attention did, if any chunk had it. */
static void print_attention(const struct llm_attention_stats *a)
{
	if (!a->visible && !a->key_bytes)
		return;
	if (a->visible)
		fprintf(stderr,
			"attention  %.1f %% of the keys; estimate %.3f s, selection %.3f s, the "
			"rest %.3f s of CPU time\n",
			100 * (double)a->selected / (double)a->visible, seconds(a->estimate_ns),
			seconds(a->select_ns), seconds(a->attend_ns));
	else
		fputs("attention  full: no chunk was long enough for an estimate\n", stderr);
	if (a->heads)
		fprintf(stderr,
			"           %" PRIu64 " heads estimated in %" PRIu64 " launches (%" PRIu64
			" jobs), %" PRIu64 " in another scale bucket than planned, keys of %" PRIu64
			" rescaled; %" PRIu64 " graphs of %.1f KiB\n",
			a->heads, a->launches, a->jobs, a->moved, a->repacked, a->graphs,
			(double)a->graph_bytes / 1024);
	if (a->key_bytes)
		fprintf(stderr, "           INT8 keys %.2f MiB, scores and queries %.2f MiB\n",
			mib(a->key_bytes), mib(a->score_bytes));
}

/* Prints what blocks of layers with two graphs took, if there are such. */
static void print_switching(const struct llm_engine_info *info, const struct llm_switching_stats *s)
{
	if (!info->decode_width)
		return;
	fprintf(stderr,
		"graphs   blocks of %u layers, %u and %u tokens: %" PRIu64
		" loaded in %.3f s, %.3f s waited for them; %.1f KiB, at most %.1f KiB\n",
		info->block_layers, info->chunk, info->decode_width, s->loads, seconds(s->load_ns),
		seconds(s->wait_ns), (double)s->graph_bytes / 1024,
		(double)s->graph_peak_bytes / 1024);
}

/* Prints what drafts brought and cost. */
static void print_draft(const struct llm_drafter *drafter, uint64_t decode_ns)
{
	struct llm_drafter_stats d;

	if (!drafter)
		return;
	llm_drafter_stats(drafter, &d);
	fprintf(stderr,
		"draft    %s: %" PRIu64 " tokens in %" PRIu64 " steps, %.2f a step; %.1f nodes in "
		"each of %" PRIu64 " trees; %.3f ms a token\n",
		llm_choice_name(LLM_CHOICE_DRAFT, d.draft), d.tokens, d.steps,
		d.steps ? (double)d.tokens / (double)d.steps : 0,
		d.trees ? (double)(d.nodes - (d.steps - d.trees)) / (double)d.trees : 0, d.trees,
		d.tokens ? ms(decode_ns + d.draft_ns) / (double)d.tokens : 0);
	fprintf(stderr,
		"         drafting %.4f ms a step; calibration of %" PRIu64
		" positions %.3f ms, of which the last layer %.3f, the output matrix %.3f; "
		"%" PRIu64 " rejected tokens kept\n",
		d.steps ? ms(d.draft_ns) / (double)d.steps : 0, d.calibrated,
		ms(d.layer_ns + d.head_ns + d.reduce_ns + d.store_ns), ms(d.layer_ns),
		ms(d.head_ns), d.reused);
	fprintf(stderr,
		"         from %" PRIu64 " tokens of context and %" PRIu64
		" of past answers, %.2f MiB\n",
		d.context_tokens, d.history_tokens, mib(d.bytes));
}

/* Waits until the cache of panels is made, if it is being made. */
static void print_cache(struct llm_engine *engine)
{
	struct llm_panels_cache cache;

	llm_engine_panels_cache(engine, true, &cache);
	/* A warning will say why. */
	if (cache.state == LLM_PANELS_FAILED)
		fputs("cache    failed\n", stderr);
	else if (cache.state != LLM_PANELS_NONE)
		fprintf(stderr, "cache    %s: %s, %.2f MiB\n", llm_panels_state_name(cache.state),
			cache.path, (double)cache.bytes / (1 << 20));
}

void stats_print(struct llm_engine *engine, const struct llm_session *s,
		 const struct llm_drafter *drafter, uint64_t load_ns)
{
	const struct llm_engine_info *info = llm_engine_info(engine);
	struct npu_device *dev = llm_engine_device(engine);
	struct llm_session_stats st;

	llm_session_stats(s, &st);
	fprintf(stderr, "model    %s, placement %s, weights %s, %u threads, loaded in %.3f s\n",
		info->type, llm_choice_name(LLM_CHOICE_PLACEMENT, info->choices.placement),
		llm_choice_name(LLM_CHOICE_WEIGHTS, info->choices.weights), info->threads,
		(double)load_ns / 1e9);
	if (info->device)
		fprintf(stderr, "device   %s over %s: %s\n", info->device->name,
			engine_transport_name(info->device->transport), info->device->reason);
	fprintf(stderr, "prefill  %" PRIu64 " tokens in %.3f s, %.2f t/s\n", st.prefill_tokens,
		(double)st.prefill_ns / 1e9, per_second(st.prefill_tokens, st.prefill_ns));
	fprintf(stderr, "decode   %" PRIu64 " tokens in %.3f s, %.2f t/s\n", st.decode_tokens,
		(double)st.decode_ns / 1e9, per_second(st.decode_tokens, st.decode_ns));
	print_draft(drafter, st.decode_ns + st.tree.ns + st.tree.keep_ns);
	if (dev) {
		struct npu_device_counts counts;

		npu_device_counts(dev, &counts);
		fprintf(stderr,
			"NPU      %" PRIu64 " jobs, %" PRIu64 " waits, %" PRIu64
			" polls, %.3f s waited for it\n",
			st.npu_jobs, counts.waits, counts.polls, (double)st.npu_wait_ns / 1e9);
	}
	print_shadow(&st.shadow);
	print_attention(&st.attention);
	print_switching(info, &st.switching);
	if (info->gpu)
		fprintf(stderr, "GPU      %s\n", info->gpu);
	print_waits(s, false);
	print_waits(s, true);
	print_breakdown(s);
	print_cold(s, info->profile);
	print_cache(engine);
	fprintf(stderr, "KV cache %.1f MiB for %u tokens, %u used\n",
		(double)st.kv_bytes / (1 << 20), llm_session_n_ctx(s), llm_session_n_past(s));
}
