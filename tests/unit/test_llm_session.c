// SPDX-License-Identifier: MIT
/* Engines and sessions on the embedded model: options, chunks, contexts, errors, threads. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "llm_refs.h"
#include "npu_random.h"

#define CHUNK 16

static char model[512];

static const enum llm_placement placements[] = { LLM_PLACE_CPU, LLM_PLACE_FINE, LLM_PLACE_NPU };
#define NR_PLACEMENTS 3

/* ---- engines --------------------------------------------------------------------------------- */

static void expect_open(const struct llm_options *opts, int err, const char *word)
{
	struct llm_engine *engine = (struct llm_engine *)1;

	assert_int_equal(llm_engine_open(opts, &engine), err);
	assert_null(engine);
	if (!strstr(llm_error(), word))
		fail_msg("no '%s' in: %s", word, llm_error());
}

static void test_options_that_exclude_each_other_are_refused(void **state)
{
	expect_open(&(struct llm_options){ 0 }, -EINVAL, "model");
	expect_open(&(struct llm_options){ .model = model,
					   .choices.placement = LLM_PLACE_CPU,
					   .choices.weights = LLM_WEIGHTS_W8A8 },
		    -EINVAL, "w8a8");
	expect_open(&(struct llm_options){ .model = model,
					   .choices.placement = LLM_PLACE_NPU,
					   .choices.weights = LLM_WEIGHTS_F32 },
		    -EINVAL, "f32");
	expect_open(&(struct llm_options){ .model = model,
					   .choices.placement = LLM_PLACE_FINE,
					   .choices.weights = LLM_WEIGHTS_F32 },
		    -EINVAL, "f32");
	expect_open(&(struct llm_options){ .model = model, .choices.placement = 9 }, -EINVAL, "9");
	expect_open(&(struct llm_options){ .model = model, .choices.kv = 3 }, -EINVAL, "kv 3");
	expect_open(&(struct llm_options){ .model = model, .choices.weights = LLM_WEIGHTS_F16 },
		    -ENOTSUP, "f16");
	expect_open(&(struct llm_options){ .model = model, .profile = "no-such-soc" }, -EINVAL,
		    "no-such-soc");
	expect_open(&(struct llm_options){ .model = model, .chunk = LLM_MAX_CHUNK + 1 }, -EINVAL,
		    "8193 tokens; at most 8192");
	expect_open(&(struct llm_options){ .model = model, .threads = 1000000 }, -EINVAL,
		    "1000000");
	expect_open(&(struct llm_options){ .model = "/nowhere/m.gguf",
					   .choices.placement = LLM_PLACE_CPU },
		    -ENOENT, "/nowhere/m.gguf");
}

static void test_the_engine_describes_its_model(void **state)
{
	struct llm_engine *engine = ref_open(model, LLM_PLACE_CPU, 3, 0);
	const struct llm_engine_info *info = llm_engine_info(engine);

	assert_string_equal(info->arch, "llama");
	assert_string_equal(info->type, "llama 5.8M Q8_0");
	assert_int_equal(info->n_params, 5770496);
	assert_true(info->n_layer == 6 && info->n_embd == 256 && info->n_head == 8 &&
		    info->n_head_kv == 4);
	assert_true(info->head_dim == 32 && info->n_ff == 768 && info->n_vocab == 4096 &&
		    info->n_ctx_train == 512);
	assert_true(info->bos == 1 && info->eos == 2 && info->add_bos);
	assert_true(info->choices.placement == LLM_PLACE_CPU &&
		    info->choices.weights == LLM_WEIGHTS_F32);
	assert_true(info->threads == 3 && info->chunk == 256);
	assert_null(info->device);
	assert_null(llm_engine_device(engine));
	llm_engine_close(engine);
}

struct progress_log {
	double last;
	int calls, stop_at;
};

static int log_progress(void *ud, double fraction, const char *what)
{
	struct progress_log *log = ud;

	assert_true(fraction > log->last && fraction <= 1 && what[0]);
	log->last = fraction;
	return ++log->calls == log->stop_at;
}

static void test_loading_reports_its_progress_and_can_be_stopped(void **state)
{
	struct progress_log log = { 0 };
	struct llm_options opts = { .model = model, .progress = log_progress, .ud = &log };
	struct llm_engine *engine;

	if (llm_engine_open(&opts, &engine))
		fail_msg("%s", llm_error());
	assert_true(log.last == 1 && log.calls == 6 * 7 + 1);
	assert_int_equal(llm_engine_info(engine)->choices.weights, LLM_WEIGHTS_W8A8);
	llm_engine_close(engine);
	log = (struct progress_log){ .stop_at = 10 };
	assert_int_equal(llm_engine_open(&opts, &engine), -ECANCELED);
	assert_int_equal(log.calls, 10);
	assert_null(engine);
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* The logits after the first @n tokens of prompt 4, evaluated in calls of @piece tokens. */
static void eval_pieces(struct llm_engine *engine, const struct reference *ref, size_t n,
			size_t piece, float *logits)
{
	struct llm_session *s = ref_session(engine, 0);

	for (size_t i = 0; i < n; i += piece)
		ref_eval(s, ref->ids + i, n - i < piece ? n - i : piece);
	assert_int_equal(llm_session_n_past(s), n);
	memcpy(logits, llm_session_logits(s), ref->n_vocab * sizeof(*logits));
	llm_session_free(s);
}

static void test_cpu_logits_do_not_depend_on_chunks_or_threads(void **state)
{
	static const size_t lengths[] = { 1,	     CHUNK - 1,	    CHUNK, CHUNK + 1,
					  2 * CHUNK, 3 * CHUNK + 5, 200 };
	struct llm_engine *a = ref_open(model, LLM_PLACE_CPU, 1, CHUNK);
	struct llm_engine *b = ref_open(model, LLM_PLACE_CPU, 3, 64);
	static float want[REF_MAX_VOCAB], got[REF_MAX_VOCAB];
	struct reference ref;

	ref_load_docs6m(&ref, 4);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		eval_pieces(a, &ref, lengths[i], lengths[i], want);
		eval_pieces(a, &ref, lengths[i], 1, got);
		assert_memory_equal(got, want, sizeof(want));
		eval_pieces(b, &ref, lengths[i], lengths[i], got);
		assert_memory_equal(got, want, sizeof(want));
		eval_pieces(b, &ref, lengths[i], 7, got);
		assert_memory_equal(got, want, sizeof(want));
	}
	llm_engine_close(a);
	llm_engine_close(b);
}

/* The NPU rounds activations row by row, so chunks change results by float rounding only. */
static void test_npu_results_do_not_depend_on_chunks(void **state)
{
	static const size_t lengths[] = { 1,	     2,		CHUNK - 1,    CHUNK,
					  CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 5 };
	static float want[REF_MAX_VOCAB], got[REF_MAX_VOCAB];
	struct reference ref;

	ref_load_docs6m(&ref, 4);
	for (int p = 1; p < NR_PLACEMENTS; p++) {
		struct llm_engine *a = ref_open(model, placements[p], 2, CHUNK);
		struct llm_engine *b = ref_open(model, placements[p], 1, 64);

		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			eval_pieces(a, &ref, lengths[i], lengths[i], want);
			eval_pieces(a, &ref, lengths[i], 1, got);
			assert_true(ref_error(got, want, ref.n_vocab) < 0.03);
			eval_pieces(a, &ref, lengths[i], 5, got);
			assert_true(ref_error(got, want, ref.n_vocab) < 0.03);
			eval_pieces(b, &ref, lengths[i], lengths[i], got);
			assert_true(ref_error(got, want, ref.n_vocab) < 0.03);
		}
		llm_engine_close(a);
		llm_engine_close(b);
	}
}

/* Graphs of 32, 64, ... rows up to the shared one; the padding of the last chunk has no effect. */
static void test_bucketed_graphs_give_the_results_of_a_shared_one(void **state)
{
	static float want[REF_MAX_VOCAB], got[REF_MAX_VOCAB];
	struct reference ref;

	random_begin(__func__);
	ref_load_docs6m(&ref, 4);
	for (int p = 1; p < NR_PLACEMENTS; p++) {
		struct llm_options opts = { .model = model,
					    .choices.placement = placements[p],
					    .chunk = 96 };
		struct llm_engine *bucketed, *shared;

		if (llm_engine_open(&opts, &bucketed))
			fail_msg("%s", llm_error());
		opts.choices.graphs = LLM_GRAPHS_FIXED;
		opts.chunk = 100;
		if (llm_engine_open(&opts, &shared))
			fail_msg("%s", llm_error());
		assert_int_equal(llm_engine_info(shared)->choices.graphs, LLM_GRAPHS_FIXED);
		for (int i = 0; i < 6; i++) {
			size_t n = 2 + random_u32() % 95;

			eval_pieces(bucketed, &ref, n, n, got);
			eval_pieces(shared, &ref, n, n, want);
			if (memcmp(got, want, ref.n_vocab * sizeof(*got)))
				fail_msg("placement %d, %zu tokens: other logits", placements[p],
					 n);
		}
		llm_engine_close(bucketed);
		llm_engine_close(shared);
	}
}

static void test_npu_results_do_not_depend_on_threads_or_sync(void **state)
{
	static float want[REF_MAX_VOCAB];
	struct reference ref;

	ref_load_docs6m(&ref, 3);
	for (int p = 1; p < NR_PLACEMENTS; p++) {
		for (int i = 0; i < 4; i++) {
			struct llm_options opts = { .model = model,
						    .choices.placement = placements[p] };
			struct llm_engine *engine;
			struct llm_session *s;

			opts.threads = i ? 3 : 1;
			opts.device.threads = i == 2 ? 3 : 1;
			opts.choices.sync = i == 3 ? LLM_SYNC_DRIVER : LLM_SYNC_FAST;
			if (llm_engine_open(&opts, &engine))
				fail_msg("%s", llm_error());
			s = ref_session(engine, 0);
			ref_eval(s, ref.ids, 100);
			ref_eval(s, ref.ids + 100, 1);
			if (!i)
				memcpy(want, llm_session_logits(s), sizeof(want));
			assert_memory_equal(want, llm_session_logits(s), sizeof(want));
			llm_session_free(s);
			llm_engine_close(engine);
		}
	}
}

/* The CPU lane uses the device's kernels for floats, so both placements give the same bits. */
static void check_fine_and_npu(enum llm_kv kv)
{
	struct llm_engine *fine = ref_open_kv(model, LLM_PLACE_FINE, 2, CHUNK, kv);
	struct llm_engine *npu = ref_open_kv(model, LLM_PLACE_NPU, 2, CHUNK, kv);

	for (int p = 1; p <= 4; p++) {
		struct llm_session *a = ref_session(fine, 0), *b = ref_session(npu, 0);
		struct reference ref;

		ref_load_docs6m(&ref, p);
		ref_eval(a, ref.ids, ref.n_ids);
		ref_eval(b, ref.ids, ref.n_ids);
		for (size_t i = 0; i < ref.n_greedy; i++) {
			assert_memory_equal(llm_session_logits(a), llm_session_logits(b),
					    ref.n_vocab * sizeof(float));
			ref_eval(a, &ref.greedy[i], 1);
			ref_eval(b, &ref.greedy[i], 1);
		}
		llm_session_free(a);
		llm_session_free(b);
	}
	llm_engine_close(fine);
	llm_engine_close(npu);
}

static void test_fine_and_npu_placement_give_the_same_bits(void **state)
{
	for (enum llm_kv kv = 0; kv < llm_choice_info(LLM_CHOICE_KV)->n_values; kv++)
		check_fine_and_npu(kv);
}

/* Each type of cache has its size, and logits as near to F32's as its rounding permits. */
static void test_narrow_caches_are_smaller_and_near_the_exact_one(void **state)
{
	static const double bound[] = {
		[LLM_KV_F16] = 1e-3, [LLM_KV_F32] = 0, [LLM_KV_Q8_0] = 1.5e-2
	};
	static const uint64_t bytes_of_32[] = {
		[LLM_KV_F16] = 64, [LLM_KV_F32] = 128, [LLM_KV_Q8_0] = 34
	};
	static float want[REF_MAX_VOCAB];
	const enum llm_kv order[] = { LLM_KV_F32, LLM_KV_F16, LLM_KV_Q8_0 };
	struct reference ref;

	ref_load_docs6m(&ref, 4);
	for (int i = 0; i < 3; i++) {
		struct llm_engine *engine = ref_open_kv(model, LLM_PLACE_CPU, 2, CHUNK, order[i]);
		struct llm_session *s = ref_session(engine, 256);
		const struct llm_engine_info *info = llm_engine_info(engine);
		struct llm_session_stats stats;
		double error;

		assert_int_equal(info->choices.kv, order[i]);
		llm_session_stats(s, &stats);
		assert_int_equal(stats.kv_bytes, 2ull * info->n_layer * 256 *
							 (info->n_head_kv * info->head_dim / 32) *
							 bytes_of_32[order[i]]);
		ref_eval(s, ref.ids, ref.n_ids);
		if (!i)
			memcpy(want, llm_session_logits(s), ref.n_vocab * sizeof(float));
		error = ref_error(llm_session_logits(s), want, ref.n_vocab);
		print_message("%s: logits differ by %.2g of the greatest\n",
			      llm_choice_name(LLM_CHOICE_KV, order[i]), error);
		assert_true(error <= bound[order[i]]);
		llm_session_free(s);
		llm_engine_close(engine);
	}
}

/*
 * Evaluates the first @n tokens of prompt 4 in one call, then one token, on the virtual clock;
 * returns the stats, and the logits in @logits.
 */
static struct llm_session_stats eval_virtual(enum llm_placement placement, const char *profile,
					     const struct reference *ref, size_t n, float *logits)
{
	struct llm_options opts = {
		.model = model, .choices.placement = placement, .chunk = CHUNK, .profile = profile
	};
	struct llm_session_stats stats;
	struct llm_engine *engine;
	struct llm_session *s;

	if (llm_engine_open(&opts, &engine))
		fail_msg("%s", llm_error());
	s = ref_session(engine, 0);
	ref_eval(s, ref->ids, n);
	ref_eval(s, ref->ids + n, 1);
	memcpy(logits, llm_session_logits(s), ref->n_vocab * sizeof(*logits));
	llm_session_stats(s, &stats);
	if (profile)
		assert_int_equal(llm_session_now_ns(s), stats.virtual_clock.ns);
	llm_session_free(s);
	llm_engine_close(engine);
	return stats;
}

static unsigned int lane_named(const char *name)
{
	for (unsigned int lane = 0; lane < llm_nr_lanes(); lane++) {
		if (!strcmp(llm_lane_name(lane), name))
			return lane;
	}
	fail_msg("no lane '%s'", name);
	return 0;
}

static void test_each_lane_has_a_name_of_its_own(void **state)
{
	assert_in_range(llm_nr_lanes(), 3, LLM_MAX_LANES);
	assert_true(lane_named("npu") != lane_named("gpu") &&
		    lane_named("gpu") != lane_named("cpu"));
	assert_null(llm_lane_name(llm_nr_lanes()));
	assert_null(llm_lane_name(UINT32_MAX));
}

static unsigned int item_named(const char *name)
{
	for (unsigned int i = 0; llm_breakdown_item(i); i++) {
		if (!strcmp(llm_breakdown_item(i), name))
			return i;
	}
	fail_msg("no item '%s'", name);
	return 0;
}

static void check_breakdown(const struct llm_breakdown *b, uint64_t tokens, uint64_t least_ns)
{
	static const char *const busy[] = { "matmul", "attention", "store", "rope",   "norm",
					    "quant",  "other",	   "start", "runtime" };
	uint64_t sum_ns = 0;

	for (unsigned int i = 0; i < LLM_MAX_BREAKDOWN; i++)
		sum_ns += b->item_ns[i];
	for (size_t i = 0; i < sizeof(busy) / sizeof(busy[0]); i++)
		assert_in_range(b->item_ns[item_named(busy[i])], 1, b->ns);
	assert_int_equal(b->tokens, tokens);
	assert_int_equal(sum_ns, b->ns);
	assert_int_equal(b->ns - b->item_ns[item_named("sampling")], least_ns);
}

/* A prompt of some chunks, and a few tokens. */
static void test_a_breakdown_adds_up_to_the_time_and_changes_no_result(void **state)
{
	const struct llm_generate_options opts = { .max_tokens = 4, .ignore_end = true };
	struct llm_engine *engine = ref_open(model, LLM_PLACE_NPU, 2, CHUNK);
	struct llm_generate_result want, got;
	struct llm_session_stats stats;
	struct llm_breakdown b;
	struct reference ref;
	struct llm_session *s;

	ref_load_docs6m(&ref, 4);
	s = ref_session(engine, 0);
	assert_int_equal(llm_generate(s, ref.ids, 2 * CHUNK + 3, &opts, &want), 0);
	for (int tokens = 0; tokens < 2; tokens++) {
		llm_session_breakdown(s, tokens, &b);
		assert_int_equal(b.tokens + b.ns, 0);
	}
	llm_session_free(s);

	s = ref_session(engine, 0);
	assert_int_equal(llm_session_measure(s, true), 0);
	assert_int_equal(llm_generate(s, ref.ids, 2 * CHUNK + 3, &opts, &got), 0);
	assert_int_equal(got.last, want.last);
	llm_session_stats(s, &stats);
	llm_session_breakdown(s, false, &b);
	check_breakdown(&b, 2 * CHUNK + 3, stats.prefill_ns);
	llm_session_breakdown(s, true, &b);
	check_breakdown(&b, 3, stats.decode_ns);
	assert_true(b.item_ns[item_named("sampling")] > 0);
	/* What comes after is not measured. */
	assert_int_equal(llm_session_measure(s, false), 0);
	ref_eval(s, ref.ids, 1);
	llm_session_breakdown(s, true, &b);
	assert_int_equal(b.tokens, 3);
	llm_session_free(s);
	llm_engine_close(engine);
}

static void test_only_placement_npu_on_the_wall_clock_can_be_broken_down(void **state)
{
	for (int i = 0; i < 2 * NR_PLACEMENTS; i++) {
		struct llm_options opts = { .model = model,
					    .choices.placement = placements[i / 2],
					    .chunk = CHUNK,
					    .profile = i % 2 ? "sd8gen3" : NULL };
		bool can = placements[i / 2] == LLM_PLACE_NPU && !opts.profile;
		struct llm_engine *engine;
		struct llm_session *s;

		if (llm_engine_open(&opts, &engine))
			fail_msg("%s", llm_error());
		s = ref_session(engine, 64);
		assert_int_equal(llm_session_measure(s, true), can ? 0 : -ENOTSUP);
		if (!can)
			assert_non_null(strstr(llm_error(), "placement npu on the wall clock"));
		assert_int_equal(llm_session_measure(s, false), 0);
		llm_session_free(s);
		llm_engine_close(engine);
	}
}

static void test_the_virtual_clock_changes_no_result(void **state)
{
	static float want[REF_MAX_VOCAB], got[REF_MAX_VOCAB];
	struct reference ref;

	ref_load_docs6m(&ref, 4);
	for (int i = 0; i < NR_PLACEMENTS; i++) {
		struct llm_session_stats wall =
			eval_virtual(placements[i], NULL, &ref, 3 * CHUNK + 5, want);
		struct llm_session_stats a =
			eval_virtual(placements[i], "sd8gen3", &ref, 3 * CHUNK + 5, got);
		struct llm_session_stats b;

		assert_memory_equal(got, want, ref.n_vocab * sizeof(*got));
		assert_int_equal(wall.virtual_clock.ns, 0);
		assert_true(wall.prefill_ns > 0 && wall.decode_ns > 0);
		/*
		 * On a SoC, whose NPU is slow at floats, a token of
		 * placement fine is several graphs.
		 */
		assert_int_equal(a.npu_jobs, placements[i] == LLM_PLACE_FINE
						     ? a.virtual_clock.launches
						     : wall.npu_jobs);
		/* The time is the SoC's: always the same, and different on another SoC. */
		assert_int_equal(a.prefill_ns + a.decode_ns, a.virtual_clock.ns);
		assert_true(a.prefill_ns > 0 && a.decode_ns > 0);
		assert_true(a.virtual_clock.energy_j > 0 && a.virtual_clock.dram_bytes > 0);
		for (unsigned int lane = 0; lane < llm_nr_lanes(); lane++)
			assert_true(a.virtual_clock.lanes[lane].busy_ns <= a.virtual_clock.ns);
		assert_int_equal(a.virtual_clock.lanes[lane_named("gpu")].busy_ns, 0);
		assert_int_equal(a.virtual_clock.lanes[lane_named("npu")].busy_ns > 0,
				 placements[i] != LLM_PLACE_CPU);
		assert_true(a.virtual_clock.lanes[lane_named("cpu")].busy_ns > 0 ||
			    placements[i] == LLM_PLACE_NPU);
		b = eval_virtual(placements[i], "sd8gen3", &ref, 3 * CHUNK + 5, got);
		assert_memory_equal(&a.virtual_clock, &b.virtual_clock, sizeof(a.virtual_clock));
		/* These are the plan's too, but on the wall clock its tasks are in order. */
		assert_true(a.decision_ns && a.decisions && a.decisions == b.decisions);
		assert_true(!wall.decision_ns && !wall.decisions);
		b = eval_virtual(placements[i], "sd8elite", &ref, 3 * CHUNK + 5, got);
		assert_memory_equal(got, want, ref.n_vocab * sizeof(*got));
		assert_true(b.virtual_clock.ns < a.virtual_clock.ns);
	}
}

static void test_a_token_is_one_job_and_one_submit(void **state)
{
	for (int p = 1; p < NR_PLACEMENTS; p++) {
		struct llm_engine *engine = ref_open(model, placements[p], 2, CHUNK);
		struct llm_session *s = ref_session(engine, 0);
		struct npu_device_counts before, after;
		struct llm_session_stats stats;
		const int32_t ids[] = { 1, 400, 401, 402 };

		ref_eval(s, ids, 4);
		npu_device_counts(llm_engine_device(engine), &before);
		llm_session_stats(s, &stats);
		assert_int_equal(stats.npu_jobs, placements[p] == LLM_PLACE_NPU ? 2 : 6 * 4 + 1);
		assert_true(stats.prefill_tokens == 4 && stats.prefill_ns && !stats.decode_tokens);
		for (int i = 0; i < 5; i++)
			ref_eval(s, ids + 1, 1);
		npu_device_counts(llm_engine_device(engine), &after);
		assert_int_equal(after.submits - before.submits, 5);
		assert_int_equal(after.jobs - before.jobs, 5);
		llm_session_stats(s, &stats);
		assert_true(stats.decode_tokens == 5 && stats.decode_ns &&
			    stats.prefill_tokens == 4);
		llm_session_free(s);
		llm_engine_close(engine);
	}
}

static void test_a_chunk_on_the_npu_is_one_submit(void **state)
{
	struct llm_engine *engine = ref_open(model, LLM_PLACE_NPU, 1, CHUNK);
	struct llm_session *s = ref_session(engine, 0);
	struct npu_device_counts before, after;
	int32_t ids[3 * CHUNK];

	for (int i = 0; i < 3 * CHUNK; i++)
		ids[i] = 300 + i;
	npu_device_counts(llm_engine_device(engine), &before);
	ref_eval(s, ids, 3 * CHUNK);
	npu_device_counts(llm_engine_device(engine), &after);
	assert_int_equal(after.submits - before.submits, 3);
	/* 3 chunks, and the logits of the last row. */
	assert_int_equal(after.jobs - before.jobs, 4);
	llm_session_free(s);
	llm_engine_close(engine);
}

static void test_a_context_can_be_filled_to_its_end_and_not_beyond(void **state)
{
	struct reference ref;

	ref_load_docs6m(&ref, 4);
	for (int p = 0; p < NR_PLACEMENTS; p++) {
		struct llm_engine *engine = ref_open(model, placements[p], 2, CHUNK);
		struct llm_session *s = ref_session(engine, 2 * CHUNK + 3);
		static float logits[REF_MAX_VOCAB];

		assert_int_equal(llm_session_n_ctx(s), 2 * CHUNK + 3);
		assert_int_equal(llm_session_eval(s, ref.ids, 2 * CHUNK + 4), -ENOSPC);
		assert_non_null(strstr(llm_error(), "36"));
		assert_int_equal(llm_session_n_past(s), 0);
		assert_null(llm_session_logits(s));
		/* The padding of the last chunk goes beyond the context. */
		ref_eval(s, ref.ids, CHUNK + 5);
		ref_eval(s, ref.ids + CHUNK + 5, CHUNK - 2);
		assert_int_equal(llm_session_n_past(s), 2 * CHUNK + 3);
		memcpy(logits, llm_session_logits(s), sizeof(logits));
		assert_int_equal(llm_session_eval(s, ref.ids, 1), -ENOSPC);
		assert_memory_equal(llm_session_logits(s), logits, sizeof(logits));
		assert_int_equal(llm_session_truncate(s, 2 * CHUNK + 2), 0);
		ref_eval(s, ref.ids + 2 * CHUNK + 2, 1);
		assert_true(ref_error(llm_session_logits(s), logits, ref.n_vocab) <
			    (p ? 0.03 : 1e-6));
		llm_session_free(s);
		llm_engine_close(engine);
	}
}

static void test_tokens_after_a_truncation_replace_those_before(void **state)
{
	struct reference ref, other;

	ref_load_docs6m(&ref, 3);
	ref_load_docs6m(&other, 4);
	for (int p = 0; p < NR_PLACEMENTS; p++) {
		struct llm_engine *engine = ref_open(model, placements[p], 2, CHUNK);
		struct llm_session *a = ref_session(engine, 0), *b = ref_session(engine, 0);

		ref_eval(a, ref.ids, 20);
		ref_eval(a, other.ids, 50);
		assert_int_equal(llm_session_truncate(a, 71), -EINVAL);
		assert_int_equal(llm_session_truncate(a, 20), 0);
		assert_int_equal(llm_session_n_past(a), 20);
		ref_eval(a, ref.ids + 20, 30);
		ref_eval(b, ref.ids, 20);
		ref_eval(b, ref.ids + 20, 30);
		assert_memory_equal(llm_session_logits(a), llm_session_logits(b),
				    ref.n_vocab * sizeof(float));
		llm_session_free(a);
		llm_session_free(b);
		llm_engine_close(engine);
	}
}

static void never_called(void *ud, size_t i, const float *logits)
{
	fail_msg("logits of token %zu, though nothing was to be evaluated", i);
}

static void test_bad_tokens_evaluate_nothing(void **state)
{
	const int32_t bad[][2] = { { 5, 4096 }, { -1, 5 }, { INT32_MAX, 5 }, { 5, INT32_MIN } };

	for (int p = 0; p < NR_PLACEMENTS; p++) {
		struct llm_engine *engine = ref_open(model, placements[p], 1, CHUNK);
		struct llm_session *s = ref_session(engine, 32);

		for (int i = 0; i < 4; i++) {
			assert_int_equal(llm_session_eval(s, bad[i], 2), -EINVAL);
			assert_non_null(strstr(llm_error(), "4096"));
			assert_int_equal(llm_session_eval_all(s, bad[i], 2, never_called, NULL),
					 -EINVAL);
		}
		assert_int_equal(llm_session_eval(s, bad[0], 0), -EINVAL);
		assert_int_equal(llm_session_n_past(s), 0);
		assert_null(llm_session_logits(s));
		llm_session_free(s);
		llm_engine_close(engine);
	}
}

static void test_too_large_contexts_are_refused(void **state)
{
	struct llm_engine *engine = ref_open(model, LLM_PLACE_CPU, 1, 0);
	struct llm_session *s = (struct llm_session *)1;

	assert_int_equal(llm_session_create(engine, UINT32_MAX, &s), -EINVAL);
	assert_non_null(strstr(llm_error(), "4294967295"));
	assert_null(s);
	llm_engine_close(engine);
}

static void test_a_session_outlives_the_close_of_its_engine(void **state)
{
	for (int p = 0; p < NR_PLACEMENTS; p++) {
		struct llm_engine *engine = ref_open(model, placements[p], 2, CHUNK);
		struct llm_session *s = ref_session(engine, 32);
		const int32_t ids[] = { 1, 300, 301 };

		llm_engine_close(engine);
		ref_eval(s, ids, 3);
		assert_non_null(llm_session_logits(s));
		llm_session_free(s);
	}
}

struct runner {
	struct llm_engine *engine;
	const struct reference *ref;
	int32_t greedy[16];
};

static void *run_greedy(void *arg)
{
	struct runner *r = arg;
	struct llm_session *s;

	if (llm_session_create(r->engine, 0, &s) || llm_session_eval(s, r->ref->ids, r->ref->n_ids))
		return (void *)1;
	for (int i = 0; i < 16; i++) {
		r->greedy[i] = llm_argmax(llm_session_logits(s), (unsigned int)r->ref->n_vocab);
		if (llm_session_eval(s, &r->greedy[i], 1))
			return (void *)1;
	}
	llm_session_free(s);
	return NULL;
}

static void test_sessions_of_one_engine_run_in_threads_of_their_own(void **state)
{
	struct reference refs[2];

	ref_load_docs6m(&refs[0], 1);
	ref_load_docs6m(&refs[1], 2);
	for (int p = 0; p < NR_PLACEMENTS; p++) {
		struct llm_engine *engine = ref_open(model, placements[p], 2, CHUNK);
		struct runner alone[2], both[2];
		pthread_t threads[2];
		void *failed;

		for (int i = 0; i < 2; i++) {
			alone[i] = both[i] = (struct runner){ .engine = engine, .ref = &refs[i] };
			assert_null(run_greedy(&alone[i]));
		}
		for (int i = 0; i < 2; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, run_greedy, &both[i]),
					 0);
		for (int i = 0; i < 2; i++) {
			pthread_join(threads[i], &failed);
			assert_null(failed);
			assert_memory_equal(both[i].greedy, alone[i].greedy,
					    sizeof(alone[i].greedy));
		}
		llm_engine_close(engine);
	}
}

static void test_detokenizing_gives_the_text_back(void **state)
{
	static const char text[] = "The kernel's \xc3\xa9t\xc3\xa9, 42\n\tend";
	struct llm_engine *engine = ref_open(model, LLM_PLACE_CPU, 1, 0);
	int32_t ids[64];
	char back[128];
	long n = llm_tokenize(engine, text, strlen(text), LLM_TOKENIZE_BOS, ids, 64);

	assert_true(n > 1 && n < 64 && ids[0] == 1);
	assert_int_equal(llm_detokenize(engine, ids, (size_t)n, back, sizeof(back)), strlen(text));
	assert_memory_equal(back, text, strlen(text));
	assert_true(llm_token_is_end(engine, 2) && !llm_token_is_end(engine, 300));
	assert_int_equal(llm_token_text(engine, 2, back, sizeof(back)), 0);
	assert_int_equal(llm_token_text(engine, 4096, back, sizeof(back)), -EINVAL);
	assert_int_equal(llm_tokenize(engine, text, strlen(text), 1u << 9, ids, 64), -EINVAL);
	llm_engine_close(engine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options_that_exclude_each_other_are_refused),
		cmocka_unit_test(test_the_engine_describes_its_model),
		cmocka_unit_test(test_loading_reports_its_progress_and_can_be_stopped),
		cmocka_unit_test(test_cpu_logits_do_not_depend_on_chunks_or_threads),
		cmocka_unit_test(test_npu_results_do_not_depend_on_chunks),
		cmocka_unit_test(test_bucketed_graphs_give_the_results_of_a_shared_one),
		cmocka_unit_test(test_npu_results_do_not_depend_on_threads_or_sync),
		cmocka_unit_test(test_fine_and_npu_placement_give_the_same_bits),
		cmocka_unit_test(test_narrow_caches_are_smaller_and_near_the_exact_one),
		cmocka_unit_test(test_each_lane_has_a_name_of_its_own),
		cmocka_unit_test(test_a_breakdown_adds_up_to_the_time_and_changes_no_result),
		cmocka_unit_test(test_only_placement_npu_on_the_wall_clock_can_be_broken_down),
		cmocka_unit_test(test_the_virtual_clock_changes_no_result),
		cmocka_unit_test(test_a_token_is_one_job_and_one_submit),
		cmocka_unit_test(test_a_chunk_on_the_npu_is_one_submit),
		cmocka_unit_test(test_a_context_can_be_filled_to_its_end_and_not_beyond),
		cmocka_unit_test(test_tokens_after_a_truncation_replace_those_before),
		cmocka_unit_test(test_bad_tokens_evaluate_nothing),
		cmocka_unit_test(test_too_large_contexts_are_refused),
		cmocka_unit_test(test_a_session_outlives_the_close_of_its_engine),
		cmocka_unit_test(test_sessions_of_one_engine_run_in_threads_of_their_own),
		cmocka_unit_test(test_detokenizing_gives_the_text_back),
	};

	ref_embedded(model, sizeof(model));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
