// SPDX-License-Identifier: MIT
/*
 * Order steal in sessions: what the CPU takes from the NPU's queue is computed to the same bits,
 * with all types of weights and activations, however a prompt is cut into chunks, on both clocks.
 * TEST_SEED=N repeats a run, but for what the wall clock's times decide.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "llm.h"
#include "llm_quantize.h"
#include "soc_cost.h"
#include "tiny_random.h"

#define MAX_TOKENS 1300
/* Evaluations: a prompt, a token, and a prompt after them. */
#define STEPS 3

static struct tiny_config config(const char *arch)
{
	return tiny_any(arch, MAX_TOKENS, any(2, 3), 64, any(2, 6));
}

/* Tasks of other lanes that the CPU ran, of all passes; each is a matmul of the NPU's. */
static void count_taken(void *ud, uint64_t at_ns, const struct llm_span *spans, size_t n)
{
	unsigned int *taken = ud;

	for (size_t i = 0; i < n; i++) {
		if (spans[i].lane == spans[i].home)
			continue;
		assert_int_equal(spans[i].home, SOC_NPU);
		assert_int_equal(spans[i].lane, SOC_CPU);
		assert_true(!strcmp(spans[i].op, "qkv") || !strcmp(spans[i].op, "attn_output") ||
			    !strcmp(spans[i].op, "gate_up") || !strcmp(spans[i].op, "down"));
		++*taken;
	}
}

struct prompts {
	int32_t ids[MAX_TOKENS];
	unsigned int steps[STEPS];
	size_t bytes; /* of a token's logits */
};

static struct prompts prompts_of(unsigned int n_vocab)
{
	struct prompts p = { .steps = { any(150, 250), 1, any(2, 100) },
			     .bytes = n_vocab * sizeof(float) };

	for (int i = 0; i < MAX_TOKENS; i++)
		p.ids[i] = (int32_t)any(0, n_vocab - 1);
	return p;
}

/* [STEPS] logits, after evaluating all of it @times times, to be freed. Adds to *@taken. */
static char *logits_of(const struct prompts *p, const struct llm_options *o, int times,
		       unsigned int *taken)
{
	char *logits = malloc(STEPS * p->bytes);
	struct llm_engine *engine;
	struct llm_session *s;

	if (llm_engine_open(o, &engine) || llm_session_create(engine, MAX_TOKENS, &s))
		fail_msg("%s", llm_error());
	llm_session_listen(s, count_taken, taken);
	for (int i = 0; i < times; i++) {
		unsigned int done = 0;

		assert_int_equal(llm_session_truncate(s, 0), 0);
		for (int step = 0; step < STEPS; step++) {
			if (llm_session_eval(s, p->ids + done, p->steps[step]))
				fail_msg("%s", llm_error());
			done += p->steps[step];
			memcpy(logits + (size_t)step * p->bytes, llm_session_logits(s), p->bytes);
		}
	}
	llm_session_free(s);
	llm_engine_close(engine);
	return logits;
}

static struct llm_options options_of(const char *path, enum llm_weights weights,
				     enum llm_activations activations)
{
	return (struct llm_options){
		.model = path,
		.choices = { .placement = LLM_PLACE_FINE,
			     .weights = weights,
			     .activations = activations,
			     .order = LLM_ORDER_FIFO },
		.threads = 1,
		.device = { .transport = NPU_TRANSPORT_SIM, .threads = 1 },
	};
}

/* Tasks that the CPU took on the virtual clock, and on the wall clock. */
struct taken {
	unsigned int simulated, really;
};

/* Compared with the whole prompt at once, by the NPU. */
static void check(const char *path, unsigned int n_vocab, enum llm_weights weights,
		  enum llm_activations activations, struct taken *taken)
{
	static const char *const profiles[] = { NULL, "sd8gen3", "sd8elite" };
	struct llm_options o = options_of(path, weights, activations);
	const struct prompts p = prompts_of(n_vocab);
	unsigned int none = 0;
	char *want = logits_of(&p, &o, 1, &none);

	assert_int_equal(none, 0);
	for (int i = 0; i < 3; i++) {
		char *got;

		o.choices.order = LLM_ORDER_STEAL;
		o.choices.graphs = any(0, 1) ? LLM_GRAPHS_FIXED : LLM_GRAPHS_BUCKETED;
		o.choices.sync = any(0, 1) ? LLM_SYNC_FAST : LLM_SYNC_DRIVER;
		o.chunk = any(8, 25);
		o.profile = profiles[i];
		o.jitter = 0.2f;
		o.seed = any(0, 1000);
		o.threads = o.device.threads = any(1, 3);
		/* The wall clock knows no times before the first prompt. */
		got = logits_of(&p, &o, o.profile ? 1 : 3,
				o.profile ? &taken->simulated : &taken->really);
		if (memcmp(got, want, STEPS * p.bytes))
			fail_msg("weights %s, activations %s, chunks of %u, %s: other logits "
				 "after %u, %u and %u tokens",
				 llm_choice_name(LLM_CHOICE_WEIGHTS, weights),
				 llm_choice_name(LLM_CHOICE_ACTIVATIONS, activations), o.chunk,
				 o.profile ? o.profile : "wall clock", p.steps[0], p.steps[1],
				 p.steps[2]);
		free(got);
	}
	free(want);
}

static void print_taken(const struct taken *taken)
{
	printf("the CPU took %u tasks on the virtual clock, %u on the wall clock\n",
	       taken->simulated, taken->really);
	assert_true(taken->simulated > 0);
}

static void tasks_that_the_cpu_takes_have_the_npus_bits(void **state)
{
	static const enum llm_weights weights[] = { LLM_WEIGHTS_W8A8, LLM_WEIGHTS_W4A8,
						    LLM_WEIGHTS_W4A16 };
	struct taken taken = { 0, 0 };

	for (size_t i = 0; i < 9; i++) {
		const struct tiny_config c = config(tiny_any_arch(false));
		struct tiny_model t;

		tiny_create(&t, &c, random_u64(&seed_state));
		tiny_write(&t);
		check(t.path, c.n_vocab, weights[i % 3], LLM_ACTIVATIONS_ROW_OUTLIERS, &taken);
		tiny_free(&t);
	}
	print_taken(&taken);
}

static void so_they_have_with_all_types_of_activations(void **state)
{
	struct taken taken = { 0, 0 };

	for (enum llm_activations a = LLM_ACTIVATIONS_INT8; a <= LLM_ACTIVATIONS_ROW_OUTLIERS_ALL;
	     a++) {
		const struct tiny_config c = config("qwen2");
		struct tiny_model t;

		tiny_create(&t, &c, random_u64(&seed_state));
		tiny_write(&t);
		check(t.path, c.n_vocab, LLM_WEIGHTS_W8A8, a, &taken);
		tiny_free(&t);
	}
	print_taken(&taken);
}

/* Q4_0 as the file has it, and files that were packed for the NPU. */
static void so_they_have_with_all_types_of_files(void **state)
{
	static const struct {
		enum llm_quantize_type type;
		enum llm_weights weights;
	} files[] = { { LLM_QUANTIZE_Q4_0, LLM_WEIGHTS_NATIVE },
		      { LLM_QUANTIZE_W8A8, LLM_WEIGHTS_W8A8 },
		      { LLM_QUANTIZE_W4A8, LLM_WEIGHTS_W4A8 } };
	const struct tiny_config c = config("llama");
	char out[] = "/tmp/test_llm_steal-XXXXXX";
	struct taken taken = { 0, 0 };
	int fd = mkstemp(out);
	struct tiny_model t;

	assert_true(fd >= 0);
	close(fd);
	tiny_create(&t, &c, random_u64(&seed_state));
	tiny_write(&t);
	for (size_t i = 0; i < 3; i++) {
		const struct llm_quantize_options q = { .in = t.path,
							.out = out,
							.type = files[i].type };

		if (llm_quantize(&q, NULL))
			fail_msg("%s", llm_error());
		check(out, c.n_vocab, files[i].weights, LLM_ACTIVATIONS_ROW_OUTLIERS, &taken);
	}
	print_taken(&taken);
	unlink(out);
	tiny_free(&t);
}

/* Later chunks come back to the rows of earlier ones. */
static void so_have_more_chunks_than_are_in_flight(void **state)
{
	static const enum llm_order orders[] = { LLM_ORDER_LAYER, LLM_ORDER_CHUNK,
						 LLM_ORDER_STEAL };
	const struct tiny_config c = config("llama");
	struct prompts p = prompts_of(c.n_vocab);
	unsigned int taken = 0;
	struct llm_options o;
	struct tiny_model t;
	char *want;

	tiny_create(&t, &c, random_u64(&seed_state));
	tiny_write(&t);
	p.steps[0] = any(1100, 1200);
	o = options_of(t.path, LLM_WEIGHTS_W8A8, LLM_ACTIVATIONS_ROW_OUTLIERS);
	want = logits_of(&p, &o, 1, &taken);
	for (int i = 0; i < 6; i++) {
		char *got;

		o.choices.order = orders[i / 2];
		o.profile = i % 2 ? "sd8elite" : NULL;
		o.chunk = any(48, 64);
		o.threads = o.device.threads = any(1, 3);
		got = logits_of(&p, &o, 1, &taken);
		if (memcmp(got, want, STEPS * p.bytes))
			fail_msg("order %s, chunks of %u, %s: other logits",
				 llm_choice_name(LLM_CHOICE_ORDER, o.choices.order), o.chunk,
				 o.profile ? o.profile : "wall clock");
		free(got);
	}
	free(want);
	tiny_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tasks_that_the_cpu_takes_have_the_npus_bits),
		cmocka_unit_test(so_they_have_with_all_types_of_activations),
		cmocka_unit_test(so_they_have_with_all_types_of_files),
		cmocka_unit_test(so_have_more_chunks_than_are_in_flight),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
