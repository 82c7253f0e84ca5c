// SPDX-License-Identifier: MIT
/* The table of the engine's choices: names, what goes together, and what auto settles to. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "llm.h"

static void expect_error(const char *const *words)
{
	for (; *words; words++)
		if (!strstr(llm_error(), *words))
			fail_msg("no '%s' in: %s", *words, llm_error());
}
#define EXPECT_ERROR(...) expect_error((const char *const[]){ __VA_ARGS__, NULL })

/* ---- the table ---- */

static void every_name_parses_to_its_value_and_no_other(void **state)
{
	for (enum llm_choice c = 0; c < LLM_NR_CHOICES; c++) {
		const struct llm_choice_info *info = llm_choice_info(c);

		assert_true(info->n_values > 1 && info->doc[0] && (info->runs || info->plans));
		for (unsigned int v = 0; v < info->n_values; v++) {
			assert_true(info->values[v].name && info->values[v].doc[0]);
			assert_string_equal(llm_choice_name(c, v), info->values[v].name);
			assert_int_equal(llm_choice_parse(c, info->values[v].name), v);
		}
		assert_string_equal(llm_choice_name(c, info->n_values), "?");
	}
}

static void an_unknown_name_is_refused_with_all_that_there_are(void **state)
{
	static const char *const bad[] = { "", "aut", "autox", "AUTO", " auto", "tpu", "0" };

	for (enum llm_choice c = 0; c < LLM_NR_CHOICES; c++) {
		const struct llm_choice_info *info = llm_choice_info(c);

		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			assert_int_equal(llm_choice_parse(c, bad[i]), -EINVAL);
			EXPECT_ERROR(info->name, bad[i]);
			for (unsigned int v = 0; v < info->n_values; v++)
				EXPECT_ERROR(info->values[v].name);
		}
	}
	assert_int_equal(llm_preset_parse("tpu"), -EINVAL);
	for (unsigned int i = 0; llm_preset(i); i++)
		EXPECT_ERROR(llm_preset(i)->name);
}

static void each_choice_is_a_field_of_its_own(void **state)
{
	for (enum llm_choice c = 0; c < LLM_NR_CHOICES; c++) {
		struct llm_choices one = { 0 };

		llm_choices_set(&one, c, 1);
		for (enum llm_choice other = 0; other < LLM_NR_CHOICES; other++)
			assert_int_equal(llm_choices_get(&one, other), other == c);
	}
	assert_int_equal(llm_choices_get(&(struct llm_choices){ .kv = LLM_KV_Q8_0 }, LLM_CHOICE_KV),
			 LLM_KV_Q8_0);
	assert_int_equal(
		llm_choices_get(&(struct llm_choices){ .sync = LLM_SYNC_DRIVER }, LLM_CHOICE_SYNC),
		LLM_SYNC_DRIVER);
}

/* Or else auto would not be free to choose one, and a struct of zeros would not do. */
static void defaults_can_be_had_with_every_placement(void **state)
{
	for (enum llm_choice c = 0; c < LLM_NR_CHOICES; c++)
		for (unsigned int p = 1; p < llm_choice_info(LLM_CHOICE_PLACEMENT)->n_values; p++) {
			assert_true(llm_choice_info(c)->values[0].runs & LLM_PLACED_ON(p));
			assert_true(llm_choice_info(c)->values[0].plans & LLM_PLACED_ON(p));
		}
}

static void what_can_run_can_be_planned(void **state)
{
	for (enum llm_choice c = 0; c < LLM_NR_CHOICES; c++)
		for (unsigned int v = 0; v < llm_choice_info(c)->n_values; v++)
			assert_int_equal(llm_choice_info(c)->values[v].runs &
						 ~llm_choice_info(c)->values[v].plans,
					 0);
}

static void properties_are_those_of_the_values(void **state)
{
	for (enum llm_placement p = LLM_PLACE_FINE;
	     p < llm_choice_info(LLM_CHOICE_PLACEMENT)->n_values; p++) {
		assert_int_equal(llm_placement_has_npu(p), p != LLM_PLACE_CPU);
		assert_int_equal(llm_placement_has_gpu(p),
				 p == LLM_PLACE_GPU || p == LLM_PLACE_LAYER);
	}
	for (enum llm_weights w = 0; w < llm_choice_info(LLM_CHOICE_WEIGHTS)->n_values; w++) {
		bool w4 = w == LLM_WEIGHTS_W4A8 || w == LLM_WEIGHTS_W4A16;

		assert_int_equal(llm_weights_4bit(w), w4);
		assert_int_equal(llm_weights_integers(w),
				 w == LLM_WEIGHTS_W8A8 || w == LLM_WEIGHTS_W4A8 ||
					 w == LLM_WEIGHTS_NATIVE || w == LLM_WEIGHTS_W8A8_GROUPS ||
					 w == LLM_WEIGHTS_ADAPTIVE);
		assert_int_equal(llm_weights_packed(w), w4 || w == LLM_WEIGHTS_W8A8 ||
								w == LLM_WEIGHTS_NATIVE ||
								w == LLM_WEIGHTS_ADAPTIVE);
	}
	for (enum llm_graphs g = 0; g < llm_choice_info(LLM_CHOICE_GRAPHS)->n_values; g++)
		assert_int_equal(llm_graphs_whole_prompt(g), g != LLM_GRAPHS_BUCKETED &&
								     g != LLM_GRAPHS_FIXED &&
								     g != LLM_GRAPHS_SHARED);
	for (enum llm_activations a = 0; a < llm_choice_info(LLM_CHOICE_ACTIVATIONS)->n_values; a++)
		assert_int_equal(llm_activations_static(a),
				 a == LLM_ACTIVATIONS_STATIC || a == LLM_ACTIVATIONS_STATIC_MAX);
}

static void a_choice_applies_where_it_makes_a_difference(void **state)
{
	static const struct {
		enum llm_choice choice;
		struct llm_choices settled;
		bool runs, plans;
	} cases[] = {
		{ LLM_CHOICE_GRAPHS, { .placement = LLM_PLACE_CPU }, false, true },
		{ LLM_CHOICE_GRAPHS, { .placement = LLM_PLACE_NPU }, true, true },
		{ LLM_CHOICE_SYNC, { .placement = LLM_PLACE_CPU }, false, true },
		{ LLM_CHOICE_PARTITION, { .placement = LLM_PLACE_GPU }, false, false },
		{ LLM_CHOICE_PARTITION, { .placement = LLM_PLACE_LAYER }, true, true },
		{ LLM_CHOICE_OPERANDS, { .placement = LLM_PLACE_CPU }, false, false },
		{ LLM_CHOICE_OPERANDS, { .placement = LLM_PLACE_GPU }, false, false },
		{ LLM_CHOICE_OPERANDS, { .placement = LLM_PLACE_FINE }, true, true },
		{ LLM_CHOICE_OPERANDS, { .placement = LLM_PLACE_LAYER }, true, true },
		{ LLM_CHOICE_ACTIVATIONS,
		  { .placement = LLM_PLACE_NPU, .weights = LLM_WEIGHTS_W4A8 },
		  true,
		  true },
		{ LLM_CHOICE_ACTIVATIONS,
		  { .placement = LLM_PLACE_NPU, .weights = LLM_WEIGHTS_W4A16 },
		  false,
		  false },
		{ LLM_CHOICE_KV,
		  { .placement = LLM_PLACE_CPU, .weights = LLM_WEIGHTS_F32 },
		  true,
		  true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(llm_choice_applies(cases[i].choice, &cases[i].settled, false),
				 cases[i].runs);
		assert_int_equal(llm_choice_applies(cases[i].choice, &cases[i].settled, true),
				 cases[i].plans);
	}
}

/* ---- settling ---- */

static const struct llm_choices_file plain = { .path = "plain.gguf" };
static const struct llm_choices_file q4 = { .path = "q4.gguf", .q4 = true };
static const struct llm_choices_file packed8 = { .path = "w8.gguf", .packed = LLM_WEIGHTS_W8A8 };
static const struct llm_choices_file adaptive = { .path = "wk.gguf",
						  .packed = LLM_WEIGHTS_ADAPTIVE };
static const struct llm_choices_file packed4 = { .path = "w4.gguf", .packed = LLM_WEIGHTS_W4A16 };

static void auto_is_what_the_other_options_can_run_on(void **state)
{
	static const struct {
		struct llm_choices asked;
		const struct llm_choices_file *file;
		bool virtual_clock;
		enum llm_placement placement;
		enum llm_weights weights;
	} cases[] = {
		{ { 0 }, &plain, false, LLM_PLACE_NPU, LLM_WEIGHTS_W8A8 },
		{ { 0 }, &plain, true, LLM_PLACE_FINE, LLM_WEIGHTS_W8A8 },
		{ { 0 }, &q4, false, LLM_PLACE_NPU, LLM_WEIGHTS_W4A8 },
		{ { 0 }, &packed8, false, LLM_PLACE_NPU, LLM_WEIGHTS_W8A8 },
		{ { 0 }, &packed4, true, LLM_PLACE_FINE, LLM_WEIGHTS_W4A16 },
		{ { 0 }, &adaptive, false, LLM_PLACE_NPU, LLM_WEIGHTS_ADAPTIVE },
		{ { 0 }, &adaptive, true, LLM_PLACE_FINE, LLM_WEIGHTS_W8A8 },
		{ { .weights = LLM_WEIGHTS_ADAPTIVE },
		  &adaptive,
		  true,
		  LLM_PLACE_FINE,
		  LLM_WEIGHTS_ADAPTIVE },
		{ { .weights = LLM_WEIGHTS_F32 }, &plain, false, LLM_PLACE_CPU, LLM_WEIGHTS_F32 },
		{ { .weights = LLM_WEIGHTS_F32 }, &plain, true, LLM_PLACE_CPU, LLM_WEIGHTS_F32 },
		{ { .weights = LLM_WEIGHTS_W4A16 },
		  &plain,
		  true,
		  LLM_PLACE_FINE,
		  LLM_WEIGHTS_W4A16 },
		{ { .weights = LLM_WEIGHTS_W4A8 },
		  &packed4,
		  false,
		  LLM_PLACE_NPU,
		  LLM_WEIGHTS_W4A8 },
		{ { .placement = LLM_PLACE_CPU }, &plain, false, LLM_PLACE_CPU, LLM_WEIGHTS_F32 },
		{ { .placement = LLM_PLACE_CPU }, &q4, true, LLM_PLACE_CPU, LLM_WEIGHTS_F32 },
		{ { .placement = LLM_PLACE_LAYER }, &q4, false, LLM_PLACE_LAYER, LLM_WEIGHTS_W4A8 },
		{ { .graphs = LLM_GRAPHS_PIPE }, &plain, false, LLM_PLACE_LAYER, LLM_WEIGHTS_W8A8 },
		{ { .partition = LLM_PARTITION_ROW },
		  &plain,
		  true,
		  LLM_PLACE_LAYER,
		  LLM_WEIGHTS_W8A8 },
		/* Plans, which have no file. */
		{ { 0 }, NULL, true, LLM_PLACE_FINE, LLM_WEIGHTS_W8A8 },
		{ { .placement = LLM_PLACE_NPU }, NULL, true, LLM_PLACE_NPU, LLM_WEIGHTS_W8A8 },
		{ { .placement = LLM_PLACE_LAYER },
		  NULL,
		  true,
		  LLM_PLACE_LAYER,
		  LLM_WEIGHTS_W4A16 },
		{ { .placement = LLM_PLACE_CPU }, NULL, true, LLM_PLACE_CPU, LLM_WEIGHTS_F16 },
		{ { .placement = LLM_PLACE_GPU }, NULL, true, LLM_PLACE_GPU, LLM_WEIGHTS_F16 },
		{ { .weights = LLM_WEIGHTS_F32 }, NULL, true, LLM_PLACE_CPU, LLM_WEIGHTS_F32 },
		{ { .weights = LLM_WEIGHTS_F16 }, NULL, true, LLM_PLACE_FINE, LLM_WEIGHTS_F16 },
		{ { .graphs = LLM_GRAPHS_ONLINE }, NULL, true, LLM_PLACE_LAYER, LLM_WEIGHTS_W4A16 },
		/* What can only be planned like this is. */
		{ { .placement = LLM_PLACE_CPU, .weights = LLM_WEIGHTS_W8A8 },
		  NULL,
		  true,
		  LLM_PLACE_CPU,
		  LLM_WEIGHTS_W8A8 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct llm_choices settled = { 0 };

		if (llm_choices_settle(&cases[i].asked, cases[i].file, cases[i].virtual_clock,
				       &settled))
			fail_msg("case %zu: %s", i, llm_error());
		if (settled.placement != cases[i].placement || settled.weights != cases[i].weights)
			fail_msg("case %zu: %s %s", i,
				 llm_choice_name(LLM_CHOICE_PLACEMENT, settled.placement),
				 llm_choice_name(LLM_CHOICE_WEIGHTS, settled.weights));
	}
}

/* HeteroLLM 4.1: the activations where prompts are cut between lanes; else the weights. */
static void operands_are_permuted_with_placement_layer_or_by_name(void **state)
{
	for (enum llm_placement p = LLM_PLACE_AUTO;
	     p < llm_choice_info(LLM_CHOICE_PLACEMENT)->n_values; p++) {
		struct llm_choices c = { .placement = p }, settled;

		assert_int_equal(llm_choices_settle(&c, &plain, false, &settled), 0);
		assert_int_equal(settled.operands, p == LLM_PLACE_LAYER ? LLM_OPERANDS_PERMUTED
									: LLM_OPERANDS_NATURAL);
		for (c.operands = LLM_OPERANDS_NATURAL; c.operands <= LLM_OPERANDS_PERMUTED;
		     c.operands++) {
			assert_int_equal(llm_choices_settle(&c, NULL, true, &settled), 0);
			assert_int_equal(settled.operands, c.operands);
		}
	}
}

#define REFUSED(choices, file, err, ...)                                        \
	do {                                                                    \
		struct llm_choices c = choices;                                 \
		assert_int_equal(llm_choices_settle(&c, file, false, &c), err); \
		EXPECT_ERROR(__VA_ARGS__);                                      \
	} while (0)
#define ASKED(...) ((struct llm_choices){ __VA_ARGS__ })

static void a_contradiction_names_both_sides_and_the_ways_out(void **state)
{
	REFUSED(ASKED(.placement = LLM_PLACE_CPU, .weights = LLM_WEIGHTS_W8A8), &plain, -EINVAL,
		"placement cpu", "weights w8a8", "choose placement fine or npu or gpu or layer",
		"or weights auto or f32");
	REFUSED(ASKED(.placement = LLM_PLACE_NPU, .weights = LLM_WEIGHTS_F32), &plain, -EINVAL,
		"placement npu", "weights f32", "choose placement cpu, or weights auto or w8a8");
	REFUSED(ASKED(.placement = LLM_PLACE_NPU, .graphs = LLM_GRAPHS_PIPE), &plain, -EINVAL,
		"placement npu", "graphs pipe", "placement layer", "graphs bucketed or fixed");
	REFUSED(ASKED(.placement = LLM_PLACE_GPU, .partition = LLM_PARTITION_ROW), NULL, -EINVAL,
		"placement gpu", "partition row", "placement layer", "partition none");
	REFUSED(ASKED(.weights = LLM_WEIGHTS_F32, .graphs = LLM_GRAPHS_PIPE), &plain, -EINVAL,
		"weights f32", "graphs pipe");
	REFUSED(ASKED(.weights = LLM_WEIGHTS_F16), &plain, -ENOTSUP,
		"weights f16 can only be planned");
	REFUSED(ASKED(.kv = 17), &plain, -EINVAL, "kv 17: there are 0 to");
	REFUSED(ASKED(.weights = LLM_WEIGHTS_ADAPTIVE), &plain, -EINVAL, "llm-quantize");
	REFUSED(ASKED(.placement = LLM_PLACE_LAYER), &adaptive, -EINVAL, "layer", "adaptive",
		"npu");
	REFUSED(ASKED(.placement = LLM_PLACE_GPU), &adaptive, -EINVAL, "gpu", "adaptive");
	REFUSED(ASKED(.placement = LLM_PLACE_CPU), &packed8, -EINVAL, "w8.gguf", "w8a8",
		"for f32 take the original");
	REFUSED(ASKED(.weights = LLM_WEIGHTS_F32), &packed8, -EINVAL, "w8.gguf", "w8a8",
		"for f32 take the original");
	REFUSED(ASKED(.weights = LLM_WEIGHTS_W4A8), &packed8, -EINVAL, "w8.gguf",
		"for w4a8 take the original");
	REFUSED(ASKED(.weights = LLM_WEIGHTS_W8A8), &packed4, -EINVAL, "w4.gguf", "w4a16",
		"for w8a8 take the original");
}

static void switching_has_one_graph_for_all_chunks(void **state)
{
	struct llm_choices c = { .switching = LLM_SWITCHING_ASYNC };

	assert_int_equal(llm_choices_settle(&c, &plain, true, &c), 0);
	assert_int_equal(c.placement, LLM_PLACE_NPU);
	assert_int_equal(c.graphs, LLM_GRAPHS_FIXED);
	REFUSED(ASKED(.switching = LLM_SWITCHING_SYNC, .placement = LLM_PLACE_CPU), &plain, -EINVAL,
		"placement cpu", "switching sync", "choose placement npu", "switching none");
	REFUSED(ASKED(.switching = LLM_SWITCHING_SYNC, .start = LLM_START_COLD), &plain, -EINVAL,
		"switching sync", "choose start warm");
	REFUSED(ASKED(.switching = LLM_SWITCHING_ASYNC, .order = LLM_ORDER_CHUNK), &plain, -EINVAL,
		"switching async", "choose order fifo");
	REFUSED(ASKED(.switching = LLM_SWITCHING_PROGRESSIVE, .attention = LLM_ATTENTION_SPARSE),
		NULL, -EINVAL, "switching progressive", "choose attention full");
}

static void sparse_decoding_cannot_verify_drafts(void **state)
{
	const struct llm_choices none = { .decode = LLM_DECODE_SPARSE, .draft = LLM_DRAFT_NONE };
	struct llm_choices c;

	for (enum llm_draft d = LLM_DRAFT_PLD; d <= LLM_DRAFT_COORDGEN; d++) {
		REFUSED(ASKED(.draft = d, .decode = LLM_DECODE_SPARSE), &plain, -EINVAL,
			llm_choice_name(LLM_CHOICE_DRAFT, d), "choose decode full", "draft none");
		assert_int_equal(llm_choices_settle(&ASKED(.draft = d), &plain, false, &c), 0);
	}
	assert_int_equal(llm_choices_settle(&none, &plain, false, &c), 0);
}

/* Values that are not the default ones: what somebody asked for. */
static unsigned int nr_named(const struct llm_choices *c)
{
	unsigned int n = 0;

	for (enum llm_choice i = 0; i < LLM_NR_CHOICES; i++)
		n += llm_choices_get(c, i) != 0;
	return n;
}

/* The same before a file is known. */
static int check_options(const struct llm_choices *asked, const struct llm_choices_file *file,
			 bool virtual_clock)
{
	const struct llm_options opts = {
		.model = file ? "m.gguf" : NULL,
		.dry_run = !file,
		.shape = file ? NULL : "llama3-8b",
		.profile = virtual_clock ? "sd8gen3" : NULL,
		.choices = *asked,
	};

	return llm_options_check(&opts);
}

static void check_settled(const struct llm_choices *asked, const struct llm_choices_file *file,
			  bool virtual_clock)
{
	struct llm_choices settled, again;
	int err = llm_choices_settle(asked, file, virtual_clock, &settled);

	if (err) {
		/*
		 * One side alone never contradicts anything, but for a file's and
		 * what can only be planned or is only in packed files.
		 */
		assert_true(nr_named(asked) > 1 || err == -ENOTSUP || (file && file->packed) ||
			    asked->weights == LLM_WEIGHTS_ADAPTIVE);
		return;
	}
	assert_int_equal(check_options(asked, file, virtual_clock), 0);
	assert_true(settled.placement != LLM_PLACE_AUTO && settled.weights != LLM_WEIGHTS_AUTO &&
		    settled.operands != LLM_OPERANDS_AUTO);
	for (enum llm_choice c = 0; c < LLM_NR_CHOICES; c++)
		assert_true(!llm_choices_get(asked, c) ||
			    llm_choices_get(&settled, c) == llm_choices_get(asked, c));
	assert_int_equal(llm_choices_settle(&settled, file, virtual_clock, &again), 0);
	assert_memory_equal(&again, &settled, sizeof(again));
}

/* Whether a value of @c excludes a placement, or needs a plan. */
static bool excludes(enum llm_choice c)
{
	const struct llm_choice_info *info = llm_choice_info(c);
	bool some = c == LLM_CHOICE_PLACEMENT;

	for (unsigned int v = 1; v < info->n_values; v++)
		some |= info->values[v].runs != info->values[0].runs ||
			info->values[v].plans != info->values[0].plans;
	return some;
}

/* Whether two values of @c go with the same placements; placements and weights are all unlike. */
static bool alike(enum llm_choice c, unsigned int a, unsigned int b)
{
	const struct llm_choice_value *values = llm_choice_info(c)->values;

	return a == b || (c != LLM_CHOICE_PLACEMENT && c != LLM_CHOICE_WEIGHTS &&
			  values[a].runs == values[b].runs && values[a].plans == values[b].plans &&
			  values[a].traits == values[b].traits);
}

/* The first value after @v that is like none up to it; 0: there is none. */
static unsigned int next_unlike(enum llm_choice c, unsigned int v)
{
	unsigned int n = llm_choice_info(c)->n_values, before;

	while (++v < n) {
		for (before = 0; before < v && !alike(c, before, v);)
			before++;
		if (before == v)
			return v;
	}
	return 0;
}

/* One of the values like @v, another one in each turn. */
static unsigned int one_like(enum llm_choice c, unsigned int v, unsigned int turn)
{
	unsigned int n = llm_choice_info(c)->n_values, at = turn / (c + 1) % n;

	while (!alike(c, v, at))
		at = (at + 1) % n;
	return at;
}

/* All combinations of values that exclude anything, each with one of those like it, and with the
 * values of other choices in turn. */
static void what_is_settled_keeps_what_was_asked_for_and_stays_settled(void **state)
{
	const struct llm_choices_file *const files[] = { NULL,	   &plain,   &q4,
							 &packed8, &packed4, &adaptive };
	unsigned int at[LLM_NR_CHOICES] = { 0 };
	struct llm_choices asked = { 0 };
	unsigned int turn = 0;
	enum llm_choice c;

	do {
		for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
			check_settled(&asked, files[f], false);
			check_settled(&asked, files[f], true);
		}
		turn++;
		for (c = 0; c < LLM_NR_CHOICES; c++) {
			at[c] = excludes(c) ? next_unlike(c, at[c]) : at[c];
			if (at[c])
				break;
		}
		for (enum llm_choice i = 0; i < LLM_NR_CHOICES; i++)
			llm_choices_set(&asked, i,
					excludes(i)
						? one_like(i, at[i], turn)
						: turn / (i + 1) % llm_choice_info(i)->n_values);
	} while (c < LLM_NR_CHOICES);
	print_message("%u combinations\n", turn);
}

/* ---- before there is a model ---- */

#define WRONG(err, words, ...)                                                      \
	do {                                                                        \
		const struct llm_options opts = { .model = "m.gguf", __VA_ARGS__ }; \
                                                                                    \
		assert_int_equal(llm_options_check(&opts), err);                    \
		EXPECT_ERROR(words);                                                \
	} while (0)

static void wrong_options_are_refused_whatever_the_model(void **state)
{
	const struct llm_choices sync = { .switching = LLM_SWITCHING_SYNC };
	const struct llm_options none = { 0 },
				 good = { .model = "m.gguf", .choices = sync, .decode_width = 64 };

	assert_int_equal(llm_options_check(&none), -EINVAL);
	assert_int_equal(llm_options_check(&good), 0);
	WRONG(-EINVAL, "at most 1024", .threads = LLM_MAX_THREADS + 1);
	WRONG(-EINVAL, "1 to 8", .bits = 9);
	WRONG(-EINVAL, "choose 64", .choices = sync, .decode_width = 48);
	WRONG(-EINVAL, "choose 8", .choices = sync, .decode_width = 64, .chunk = 32);
	WRONG(-EINVAL, "longer chunks", .choices = sync, .chunk = 1);
	WRONG(-EINVAL, "4 scale buckets", .scale_buckets = 4);
	WRONG(-EINVAL, "choose start cold", .panels_cache_bytes = 1);
	WRONG(-EINVAL, "has no graphs pipe",
	      .choices = { .placement = LLM_PLACE_NPU, .graphs = LLM_GRAPHS_PIPE });
	WRONG(-ENOTSUP, "can only be planned", .choices = { .weights = LLM_WEIGHTS_F16 });
}

/* ---- presets ---- */

static void a_preset_sets_its_choices_and_leaves_the_others(void **state)
{
	const struct llm_preset *preset =
		llm_preset((unsigned int)llm_preset_parse("hetero-tensor"));
	struct llm_choices c = { .weights = LLM_WEIGHTS_F32,
				 .kv = LLM_KV_Q8_0,
				 .sync = LLM_SYNC_DRIVER };

	llm_preset_apply(preset, &c);
	assert_true(c.placement == LLM_PLACE_LAYER && c.weights == LLM_WEIGHTS_W4A16);
	assert_true(c.graphs == LLM_GRAPHS_PIPE && c.partition == LLM_PARTITION_AUTO &&
		    c.operands == LLM_OPERANDS_PERMUTED);
	assert_true(c.kv == LLM_KV_Q8_0 && c.sync == LLM_SYNC_DRIVER);
	llm_preset_apply(llm_preset((unsigned int)llm_preset_parse("cpu")), &c);
	assert_true(c.placement == LLM_PLACE_CPU && c.weights == LLM_WEIGHTS_AUTO);
	assert_true(c.graphs == LLM_GRAPHS_BUCKETED && c.partition == LLM_PARTITION_NONE &&
		    c.operands == LLM_OPERANDS_AUTO && c.kv == LLM_KV_Q8_0);
}

static void every_preset_can_run_and_be_planned(void **state)
{
	unsigned int i;

	for (i = 0; llm_preset(i); i++) {
		struct llm_choices c = { 0 }, settled;

		assert_int_equal(llm_preset_parse(llm_preset(i)->name), i);
		assert_true(llm_preset(i)->doc[0] && llm_preset(i)->sets);
		llm_preset_apply(llm_preset(i), &c);
		assert_int_equal(llm_choices_settle(&c, &plain, false, &settled), 0);
		assert_int_equal(llm_choices_settle(&c, NULL, true, &settled), 0);
	}
	assert_true(i > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_name_parses_to_its_value_and_no_other),
		cmocka_unit_test(an_unknown_name_is_refused_with_all_that_there_are),
		cmocka_unit_test(each_choice_is_a_field_of_its_own),
		cmocka_unit_test(defaults_can_be_had_with_every_placement),
		cmocka_unit_test(what_can_run_can_be_planned),
		cmocka_unit_test(properties_are_those_of_the_values),
		cmocka_unit_test(a_choice_applies_where_it_makes_a_difference),
		cmocka_unit_test(auto_is_what_the_other_options_can_run_on),
		cmocka_unit_test(operands_are_permuted_with_placement_layer_or_by_name),
		cmocka_unit_test(a_contradiction_names_both_sides_and_the_ways_out),
		cmocka_unit_test(switching_has_one_graph_for_all_chunks),
		cmocka_unit_test(sparse_decoding_cannot_verify_drafts),
		cmocka_unit_test(what_is_settled_keeps_what_was_asked_for_and_stays_settled),
		cmocka_unit_test(wrong_options_are_refused_whatever_the_model),
		cmocka_unit_test(a_preset_sets_its_choices_and_leaves_the_others),
		cmocka_unit_test(every_preset_can_run_and_be_planned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
