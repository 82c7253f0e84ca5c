// SPDX-License-Identifier: MIT
/* Plans of forward passes over a SoC's lanes: what is in them, what waits for what, and how near
 * the model is to what is published. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "plan.h"

static struct soc *soc;
static struct shape llama;

static int setup(void **state)
{
	char why[512];

	soc = soc_load("sd8gen3", why, sizeof(why));
	if (!soc)
		puts(why);
	return !soc || shape_load("llama3.2-1b", &llama);
}

static int teardown(void **state)
{
	soc_free(soc);
	return 0;
}

/* A pass in chunks of one size, that overlap or do not. */
struct prompt {
	struct plan_options o;
	struct plan_pass pass;
	struct plan_division division;
};

static struct prompt prompt_of(enum llm_placement placement, uint32_t tokens, uint32_t chunk)
{
	return (struct prompt){
		.o = { .soc = soc,
		       .shape = &llama,
		       .cuts = soc,
		       .choices = { .placement = placement,
				    .graphs = LLM_GRAPHS_FIXED,
				    .operands = placement == LLM_PLACE_LAYER ? LLM_OPERANDS_PERMUTED
									     : LLM_OPERANDS_NATURAL,
				    .weights = placement == LLM_PLACE_GPU ? LLM_WEIGHTS_F16
									  : LLM_WEIGHTS_W8A8 } },
		.pass = { .n_tokens = tokens, .logits = PLAN_LOGITS_LAST },
		.division = { .chunk = chunk ? chunk : tokens, .overlap = true },
	};
}

static struct plan *plan_of(const struct prompt *p)
{
	struct plan *plan = plan_forward_divided(&p->o, &p->pass, &p->division);

	assert_non_null(plan);
	return plan;
}

static struct sched_run run_of(const struct prompt *p, enum soc_sync sync)
{
	struct sched_options so = { .clock = SCHED_VIRTUAL, .soc = p->o.soc, .sync = sync };
	struct plan *plan = plan_of(p);
	struct sched_run run;

	assert_int_equal(sched_run(plan->tasks, &so, &run), 0);
	plan_free(plan);
	return run;
}

static uint64_t time_of(const struct prompt *p, enum soc_sync sync)
{
	struct sched_run run = run_of(p, sync);
	uint64_t ns = run.makespan_ns;

	sched_run_free(&run);
	return ns;
}

static void test_tasks_are_where_the_placement_says(void **state)
{
	static const enum llm_placement placements[] = { LLM_PLACE_CPU, LLM_PLACE_GPU,
							 LLM_PLACE_NPU, LLM_PLACE_FINE };

	for (size_t i = 0; i < 4; i++) {
		struct prompt o = prompt_of(placements[i], 300, 128);
		struct plan *p = plan_of(&o);
		struct sched_tasks *plan = p->tasks;
		uint32_t on[SOC_NR_LANES] = { 0 };

		/* Three chunks of ten operators a layer and the embedding; norm and head once. Of
		 * placement npu's last layer, three operators of each chunk and ten of a token. */
		if (placements[i] == LLM_PLACE_NPU)
			assert_int_equal(sched_nr_tasks(plan),
					 3 * (1 + 10 * (llama.layers - 1) + 3) + 10 + 2);
		else
			assert_int_equal(sched_nr_tasks(plan), 3 * (1 + 10 * llama.layers) + 2);
		for (uint32_t t = 0; t < sched_nr_tasks(plan); t++)
			on[sched_get(plan, t)->home]++;
		switch (placements[i]) {
		case LLM_PLACE_CPU:
			assert_int_equal(on[SOC_NPU] + on[SOC_GPU], 0);
			break;
		case LLM_PLACE_GPU:
			assert_int_equal(on[SOC_CPU], 3);
			assert_int_equal(on[SOC_NPU], 0);
			break;
		case LLM_PLACE_NPU:
			assert_int_equal(on[SOC_CPU], 3);
			assert_int_equal(on[SOC_GPU], 0);
			break;
		default:
			assert_int_equal(on[SOC_NPU], 3 * 4 * llama.layers + 1);
			assert_int_equal(on[SOC_GPU], 0);
			break;
		}
		plan_free(p);
	}
}

/* Tasks of the last layer's operator @op. */
static uint32_t last_layers(const struct prompt *o, enum llm_op op)
{
	struct plan *p = plan_of(o);
	uint32_t n = 0;

	for (uint32_t t = 0; t < sched_nr_tasks(p->tasks); t++)
		n += sched_get(p->tasks, t)->op == op &&
		     sched_get(p->tasks, t)->layer + 1 == llama.layers;
	plan_free(p);
	return n;
}

static void test_the_last_layer_computes_what_somebody_reads(void **state)
{
	static const uint32_t at[] = { 5, 200, 299 };
	struct prompt o = prompt_of(LLM_PLACE_NPU, 300, 128);
	uint64_t last_ns = time_of(&o, SOC_SYNC_FAST), none_ns, all_ns;

	assert_int_equal(last_layers(&o, LLM_OP_QKV), 4);
	assert_int_equal(last_layers(&o, LLM_OP_ATTN), 1);
	o.pass.logits = PLAN_LOGITS_NONE;
	none_ns = time_of(&o, SOC_SYNC_FAST);
	assert_int_equal(last_layers(&o, LLM_OP_QKV), 3);
	assert_int_equal(last_layers(&o, LLM_OP_ATTN), 0);
	/* All rows of chunks with chosen tokens. */
	o.pass.logits = PLAN_LOGITS_AT;
	o.pass.at = at;
	o.pass.nr_at = 3;
	assert_int_equal(last_layers(&o, LLM_OP_ATTN), 3);
	o.pass.at = at + 1;
	o.pass.nr_at = 2;
	assert_int_equal(last_layers(&o, LLM_OP_ATTN), 2);
	o.pass.logits = PLAN_LOGITS_ALL;
	all_ns = time_of(&o, SOC_SYNC_FAST);
	assert_int_equal(last_layers(&o, LLM_OP_ATTN), 3);
	assert_true(none_ns < last_ns && last_ns < all_ns);
	/* The papers' graphs have whole layers. */
	o = prompt_of(LLM_PLACE_FINE, 300, 128);
	assert_int_equal(last_layers(&o, LLM_OP_ATTN), 3);
}

static bool waits_for(const struct sched_tasks *plan, uint32_t task, uint32_t chunk, uint32_t layer,
		      uint16_t op)
{
	size_t n;
	const uint32_t *before = sched_predecessors(plan, task, &n);

	for (size_t i = 0; i < n; i++) {
		const struct sched_task *t = sched_get(plan, before[i]);

		if (t->chunk == chunk && t->layer == layer && t->op == op)
			return true;
	}
	return false;
}

static void test_attention_waits_for_the_caches_of_all_earlier_chunks(void **state)
{
	struct prompt o = prompt_of(LLM_PLACE_FINE, 1000, 256);
	struct sched_options so = { .clock = SCHED_VIRTUAL, .soc = soc };
	struct plan *p = plan_of(&o);
	struct sched_tasks *plan = p->tasks;
	struct sched_run run;

	assert_int_equal(sched_run(plan, &so, &run), 0);
	for (uint32_t id = 0; id < sched_nr_tasks(plan); id++) {
		const struct sched_task *t = sched_get(plan, id);
		size_t n;

		sched_predecessors(plan, id, &n);
		if (t->op != LLM_OP_ATTN) {
			assert_in_range(n, 0, 1);
			continue;
		}
		assert_int_equal(n, t->chunk + 1);
		for (uint32_t c = 0; c <= t->chunk; c++)
			assert_true(waits_for(plan, id, c, t->layer, LLM_OP_ROPE));
	}
	sched_run_free(&run);
	plan_free(p);
}

static void test_chunks_one_after_another_are_a_chain(void **state)
{
	struct prompt o = prompt_of(LLM_PLACE_FINE, 4000, 16);
	struct sched_options so = { .clock = SCHED_VIRTUAL, .soc = soc };
	struct sched_tasks *plan;
	struct sched_run run;
	struct plan *p;

	o.division.overlap = false;
	p = plan_of(&o);
	plan = p->tasks;
	assert_int_equal(sched_run(plan, &so, &run), 0);
	for (uint32_t id = 0; id < sched_nr_tasks(plan); id++) {
		size_t n;
		const uint32_t *before = sched_predecessors(plan, id, &n);

		assert_int_equal(n, id > 0);
		assert_true(!id || *before == id - 1);
	}
	sched_run_free(&run);
	plan_free(p);
}

static void test_longer_prompts_and_contexts_take_longer(void **state)
{
	static const enum llm_placement placements[] = { LLM_PLACE_CPU, LLM_PLACE_GPU,
							 LLM_PLACE_NPU, LLM_PLACE_FINE };

	for (size_t i = 0; i < 4; i++) {
		struct prompt o = prompt_of(placements[i], 64, 64);
		uint64_t last = 0, ns;

		for (; o.pass.n_tokens <= 1024; o.pass.n_tokens *= 2) {
			ns = time_of(&o, SOC_SYNC_FAST);
			assert_true(ns > last);
			last = ns;
		}
		o.pass.n_tokens = 1;
		for (last = 0; o.pass.n_past <= 8192; o.pass.n_past += 2048) {
			ns = time_of(&o, SOC_SYNC_FAST);
			assert_true(ns > last);
			last = ns;
		}
	}
}

static void test_padding_costs_what_its_rows_do(void **state)
{
	struct prompt whole = prompt_of(LLM_PLACE_NPU, 512, 256),
		      padded = prompt_of(LLM_PLACE_NPU, 300, 256);

	assert_int_equal(time_of(&whole, SOC_SYNC_FAST), time_of(&padded, SOC_SYNC_FAST));
	padded.division.chunk = 300;
	assert_true(time_of(&padded, SOC_SYNC_FAST) < time_of(&whole, SOC_SYNC_FAST));
}

static void test_buckets_pad_the_last_chunk_only(void **state)
{
	struct prompt bucketed = prompt_of(LLM_PLACE_NPU, 300, 256),
		      exact = prompt_of(LLM_PLACE_NPU, 320, 256);
	struct prompt shared = prompt_of(LLM_PLACE_NPU, 300, 256);
	uint64_t ns;

	bucketed.o.choices.graphs = exact.o.choices.graphs = LLM_GRAPHS_BUCKETED;
	ns = time_of(&bucketed, SOC_SYNC_FAST);
	assert_int_equal(ns, time_of(&exact, SOC_SYNC_FAST));
	assert_true(ns < time_of(&shared, SOC_SYNC_FAST));
	exact.pass.n_tokens = 321;
	assert_true(ns < time_of(&exact, SOC_SYNC_FAST));
}

static void test_the_drivers_synchronisation_costs_more(void **state)
{
	struct prompt o = prompt_of(LLM_PLACE_FINE, 1, 0);

	/* Four launches a layer, and the head's. */
	assert_true(time_of(&o, SOC_SYNC_DRIVER) >
		    time_of(&o, SOC_SYNC_FAST) +
			    (4 * llama.layers + 1) *
				    (uint64_t)(soc->npu.launch_us - soc->npu.launch_awake_us) *
				    1000 * 9 / 10);
}

static void test_decoding_is_bound_by_memory(void **state)
{
	struct prompt o = prompt_of(LLM_PLACE_GPU, 1, 0);
	struct sched_run run = run_of(&o, SOC_SYNC_FAST);
	double floor_ns =
		(double)llm_shape_weight_bytes(&llama, o.o.choices.weights) / soc->gpu.dram_gbps;

	assert_true((double)run.makespan_ns > floor_ns && (double)run.makespan_ns < 1.3 * floor_ns);
	sched_run_free(&run);
}

/* ---- shapes ---- */

static void test_all_shapes_are_read_and_have_their_models_size(void **state)
{
	/* Parameters in 1e9, of the models' cards. */
	static const struct {
		const char *name;
		double params;
	} cards[] = {
		{ "llama3-8b", 8.03 },
		{ "llama2-7b", 6.74 },
		{ "llama3.2-3b", 3.21 },
		{ "llama3.2-1b", 1.24 },
		{ "internlm2-1.8b", 1.89 },
		{ "qwen1.5-1.8b", 1.84 },
		{ "qwen1.5-moe-a2.7b", 14.3 },
		{ "gemma-2b", 2.51 },
		{ "phi2-2.7b", 2.78 },
		{ "phi3-3.8b", 3.82 },
		{ "mistral-7b", 7.24 },
		{ "qwen2.5-0.5b", 0.494 },
		{ "qwen2.5-1.5b", 1.54 },
		/* Their cards round to a half, and do not say whether with the embeddings. */
		{ "phonelm-0.5b", 0 },
		{ "phonelm-1.5b", 0 },
	};

	for (size_t i = 0; i < sizeof(cards) / sizeof(cards[0]); i++) {
		struct shape s;
		double params;

		assert_int_equal(shape_load(cards[i].name, &s), 0);
		assert_string_equal(s.name, cards[i].name);
		params = (double)shape_params(&s) / 1e9;
		assert_true(params > 0.4);
		if (!cards[i].params)
			continue;
		if (params < 0.95 * cards[i].params || params > 1.05 * cards[i].params)
			fail_msg("%s: %.3f, its card says %.3f", s.name, params, cards[i].params);
	}
}

static void test_shapes_that_are_wrong_are_refused(void **state)
{
#define REST_OF(dim, ffn)                                                       \
	"dim = " dim "\nheads = 4\nhead_dim = 16\nffn = " ffn "\nvocab = 100\n" \
	"activation = silu\ngated = yes\ntied = no\nqkv_bias = no\n"
#define REST REST_OF("64", "128")
#define EXPERTS "[model]\nlayers = 2\nkv_heads = 2\nexperts = 4096\nexperts_used = 2\n"
	static const struct {
		const char *text, *says;
	} wrong[] = {
		{ "", "layers is missing" },
		{ "[model]\nlayers = 2\n" REST, "kv_heads is missing" },
		{ "[model]\nlayers = 2\nkv_heads = 3\n" REST, "no multiple" },
		{ "[model]\nlayers = 0\nkv_heads = 2\n" REST, "layers = 0" },
		{ "[model]\nlayers = -2\nkv_heads = 2\n" REST, "layers = -2" },
		{ "[model]\nlayers = 2x\nkv_heads = 2\n" REST, "layers = 2x" },
		{ "[model]\nlayers = 99999\nkv_heads = 2\n" REST, "layers = 99999" },
		{ "[model]\nlayers = 2\nlayers = 2\nkv_heads = 2\n" REST, "given twice" },
		{ "[model]\nlayers = 2\nkv_heads = 2\ncolour = red\n" REST, "no such key" },
		{ "[shape]\nlayers = 2\n", "only [model]" },
		{ "[model]\nlayers = 2\nkv_heads\n" REST, "line 3" },
		{ "[model]\ngated = maybe\n", "yes or no" },
		{ "[model]\nactivation = tanh\n", "silu, gelu or relu" },
		{ "[model]\nlayers = 2\nkv_heads = 2\nexperts = 4\n" REST, "both are wanted" },
		{ "[model]\nlayers = 2\nkv_heads = 2\nshared_ffn = 4\n" REST, "both are wanted" },
		{ "[model]\nlayers = 2\nkv_heads = 2\nexperts = 4\nexperts_used = 5\n" REST,
		  "experts_used = 5" },
		{ "[model]\nlayers = 2\nkv_heads = 2\nexperts = 4097\n" REST, "from 1 to 4096" },
		{ EXPERTS REST_OF("64", "4097"), "4096 experts of 4097" },
		{ EXPERTS REST_OF("64", "1048576"), "4096 experts of 1048576" },
		{ EXPERTS REST_OF("1048576", "64"), "4096 experts of 1048576" },
	};
	struct shape s;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char path[] = "/tmp/vnpu-shape-XXXXXX.conf";
		int fd = mkstemps(path, 5);

		assert_true(fd >= 0);
		assert_int_equal(write(fd, wrong[i].text, strlen(wrong[i].text)),
				 strlen(wrong[i].text));
		close(fd);
		assert_int_equal(shape_load(path, &s), -EINVAL);
		unlink(path);
		if (!strstr(llm_error(), wrong[i].says))
			fail_msg("%s; wanted: %s", llm_error(), wrong[i].says);
	}
	assert_int_equal(shape_load("no-such-model", &s), -ENOENT);
	assert_non_null(strstr(llm_error(), "no-such-model"));
}

/* ---- placement layer ---- */

static struct prompt layer_prompt(uint32_t tokens, enum llm_partition partition,
				  enum llm_graphs graphs)
{
	struct prompt p = prompt_of(LLM_PLACE_LAYER, tokens, 0);

	p.o.choices.weights = LLM_WEIGHTS_W4A16;
	p.o.choices.partition = partition;
	p.o.choices.graphs = graphs;
	return p;
}

/* Each slice comes after all tasks of the operator before it, and nothing else in its chunk:
 * chunks' tasks are chained by operators. */
static void check_chain(const struct sched_tasks *plan)
{
	uint32_t n = sched_nr_tasks(plan), begin = 0;

	for (uint32_t first = 1, last; first < n; begin = first, first = last) {
		const struct sched_task *t = sched_get(plan, first);

		for (last = first; last < n && sched_get(plan, last)->op == t->op; last++) {
			size_t nr_before;
			const uint32_t *before = sched_predecessors(plan, last, &nr_before);

			assert_int_equal(sched_get(plan, last)->layer, t->layer);
			assert_int_equal(sched_get(plan, last)->slice, last - first);
			assert_int_equal(nr_before, first - begin);
			for (size_t i = 0; i < nr_before; i++)
				assert_int_equal(before[i], begin + i);
		}
	}
}

static void check_lanes(const struct sched_tasks *plan, const struct sched_run *run)
{
	for (int lane = 0; lane < SOC_NR_LANES; lane++)
		for (uint32_t i = 0; i < run->nr_spans; i++)
			for (uint32_t k = 0; k < i; k++) {
				const struct sched_span *a = &run->spans[i], *b = &run->spans[k];

				if (a->lane == lane && b->lane == lane)
					assert_true(a->start_ns >= b->end_ns ||
						    b->start_ns >= a->end_ns);
			}
}

static void test_a_cut_matmul_is_a_task_a_slice(void **state)
{
	static const uint32_t tokens[] = { 1, 5, 64, 135, 300, 1500 };

	for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++)
		for (int partition = LLM_PARTITION_NONE; partition <= LLM_PARTITION_AUTO;
		     partition++) {
			struct prompt o = layer_prompt(tokens[i], partition, LLM_GRAPHS_PIPE);
			struct sched_options so = { .clock = SCHED_VIRTUAL,
						    .soc = soc,
						    .sync = SOC_SYNC_FAST };
			struct plan *p = plan_of(&o);
			struct sched_tasks *plan = p->tasks;
			struct sched_run run;
			uint64_t k, n, columns = 0;

			assert_non_null(plan);
			assert_int_equal(sched_run(plan, &so, &run), 0);
			check_chain(plan);
			check_lanes(plan, &run);
			for (uint32_t t = 0; t < sched_nr_tasks(plan); t++) {
				const struct sched_task *task = sched_get(plan, t);

				if (llm_op_matmul(&llama, task->op, &k, &n))
					columns += !task->slice;
				else
					assert_int_equal(task->home, task->op == LLM_OP_EMBED
									     ? SOC_CPU
									     : SOC_GPU);
			}
			assert_int_equal(columns, 4 * llama.layers + 1);
			sched_run_free(&run);
			plan_free(p);
		}
}

static uint64_t divided_ns(struct prompt *o)
{
	struct sched_options so = { .clock = SCHED_VIRTUAL, .soc = soc, .sync = SOC_SYNC_FAST };
	struct sched_run run;
	struct plan *p;
	uint64_t ns;

	assert_int_equal(plan_divide(&o->o, &o->pass, &o->division), 0);
	p = plan_of(o);
	so.policy = p->policy;
	assert_int_equal(sched_run(p->tasks, &so, &run), 0);
	check_lanes(p->tasks, &run);
	ns = run.makespan_ns;
	sched_run_free(&run);
	plan_free(p);
	return ns;
}

/* What is chosen from a few layers is no worse over all of them. */
static void test_chosen_chunks_are_faster_than_one(void **state)
{
	static const uint32_t tokens[] = { 9, 64, 300, 1024 };

	for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
		struct prompt o = layer_prompt(tokens[i], LLM_PARTITION_AUTO, LLM_GRAPHS_PIPE);
		uint64_t one = time_of(&o, SOC_SYNC_FAST), chosen = divided_ns(&o);

		assert_true(o.division.chunk < tokens[i] + 32);
		assert_true(o.division.chunk % 32 == 0 || !o.division.overlap);
		for (int op = 0; op < LLM_NR_OPS; op++)
			assert_true(o.division.gpu_busy[op] >= 0 && o.division.gpu_busy[op] < 1);
		assert_true((double)chosen <= 1.001 * (double)one);
	}
}

/* Where nothing is cut, the GPU is idle during matmuls, and has another chunk's operators then. */
static void test_chunks_pay_where_the_gpu_is_idle(void **state)
{
	struct prompt o = layer_prompt(1024, LLM_PARTITION_NONE, LLM_GRAPHS_PADDED);
	uint64_t one = time_of(&o, SOC_SYNC_FAST), chosen = divided_ns(&o);

	assert_true(o.division.overlap && chosen < one);
}

/*
 * Chunks that have no memory of their own wait for those before them. A prompt with memory for all
 * is the fastest, and one with memory for a single chunk the slowest. In between, tasks are taken
 * in a fixed order, which with more chunks to choose from may choose worse: of sd8gen3, memory for
 * two chunks takes 2.8 % less than for three.
 */
static void test_chunks_in_flight_have_rows_of_their_own(void **state)
{
	enum { CHUNKS = 4, CHUNK = 128 };
	uint64_t ns[CHUNKS + 1]; /* with memory for so many */

	for (uint32_t n = 1; n <= CHUNKS; n++) {
		struct prompt o = prompt_of(LLM_PLACE_FINE, 500, CHUNK);
		struct plan *p;

		o.o.rows = n * CHUNK;
		p = plan_of(&o);
		assert_int_equal(p->nr_chunks, CHUNKS);
		for (uint32_t c = 0; c < CHUNKS; c++) {
			assert_true(p->chunks[c].row + p->chunks[c].rows <= n * CHUNK);
			for (uint32_t k = 0; k < c; k++)
				assert_true(c - k >= n || p->chunks[k].row != p->chunks[c].row);
		}
		plan_free(p);
		ns[n] = time_of(&o, SOC_SYNC_FAST);
	}
	assert_true(ns[CHUNKS] < ns[1]);
	for (uint32_t n = 1; n <= CHUNKS; n++)
		assert_true(ns[CHUNKS] <= ns[n] && ns[n] <= ns[1]);
}

/* HeteroLLM 4.1.1, figure 9: what is made at run time is paid before the first product. */
static void test_graphs_of_the_exact_length_are_made_first(void **state)
{
	struct prompt online = layer_prompt(300, LLM_PARTITION_NONE, LLM_GRAPHS_ONLINE);
	struct prompt padded = layer_prompt(320, LLM_PARTITION_NONE, LLM_GRAPHS_PIPE);
	struct plan *p = plan_of(&online);
	struct sched_tasks *plan = p->tasks;
	const struct sched_task *build = sched_get(plan, 0);
	double made = npu_time_build_ns(&soc->npu, 4), elements = 0;

	/* The sequence counts too. */
	for (int op = 0; op < LLM_OP_HEAD; op++) {
		uint64_t k, n;

		if (llm_op_matmul(&llama, op, &k, &n))
			elements += (double)k * (double)n + 300.0 * (double)(k + n);
	}
	made += npu_time_optimize_ns(&soc->npu, elements);
	assert_int_equal(build->op, LLM_OP_BUILD);
	assert_string_equal(sched_op_name(plan, build), "build");
	assert_true(build->home == SOC_CPU && fabs(build->cost[SOC_CPU].ns - made) < 1);
	assert_int_equal(sched_get(plan, 1)->op, LLM_OP_EMBED);
	assert_true((double)time_of(&online, SOC_SYNC_FAST) > made);
	/* And no more than that, beside two graphs of 320 tokens. */
	assert_true((double)time_of(&online, SOC_SYNC_FAST) <
		    made + (double)time_of(&padded, SOC_SYNC_FAST));
	plan_free(p);
	/* A token's graphs are there. */
	online.pass.n_tokens = online.division.chunk = 1;
	p = plan_of(&online);
	plan = p->tasks;
	assert_int_equal(sched_get(plan, 0)->op, LLM_OP_EMBED);
	plan_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tasks_are_where_the_placement_says),
		cmocka_unit_test(test_the_last_layer_computes_what_somebody_reads),
		cmocka_unit_test(test_attention_waits_for_the_caches_of_all_earlier_chunks),
		cmocka_unit_test(test_chunks_one_after_another_are_a_chain),
		cmocka_unit_test(test_longer_prompts_and_contexts_take_longer),
		cmocka_unit_test(test_padding_costs_what_its_rows_do),
		cmocka_unit_test(test_buckets_pad_the_last_chunk_only),
		cmocka_unit_test(test_the_drivers_synchronisation_costs_more),
		cmocka_unit_test(test_decoding_is_bound_by_memory),
		cmocka_unit_test(test_all_shapes_are_read_and_have_their_models_size),
		cmocka_unit_test(test_shapes_that_are_wrong_are_refused),
		cmocka_unit_test(test_a_cut_matmul_is_a_task_a_slice),
		cmocka_unit_test(test_chosen_chunks_are_faster_than_one),
		cmocka_unit_test(test_chunks_pay_where_the_gpu_is_idle),
		cmocka_unit_test(test_chunks_in_flight_have_rows_of_their_own),
		cmocka_unit_test(test_graphs_of_the_exact_length_are_made_first),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
