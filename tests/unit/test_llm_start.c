// SPDX-License-Identifier: MIT
/*
 * Cold starts in sessions: the same bits as with weights that were loaded before, whatever the
 * placement, the weights and the first evaluation are, from the page cache or from storage; errors
 * name the tensor and stay. TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "gguf.h"
#include "llm.h"
#include "llm_prompts.h"
#include "llm_quantize.h"
#include "tiny_random.h"

static struct tiny_config config(const char *arch)
{
	return tiny_any(arch, MAX_TOKENS, any(2, 4), 64, any(2, 6));
}

/* Drops the file's pages from the page cache, so that it has to be read. */
static void drop(const char *path)
{
	int fd = open(path, O_RDONLY);

	assert_true(fd >= 0);
	assert_int_equal(fsync(fd), 0);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

static void check(const char *path, unsigned int n_vocab, enum llm_weights weights)
{
	static const enum llm_placement places[] = { LLM_PLACE_NPU, LLM_PLACE_FINE,
						     LLM_PLACE_LINEAR };

	for (int i = 0; i < 6; i++) {
		struct llm_options o = {
			.model = path,
			.choices = { .placement = places[i % 3], .weights = weights },
			.threads = any(1, 3),
			.chunk = any(0, 1) ? any(8, 64) : 0,
			.device = { .transport = NPU_TRANSPORT_SIM, .threads = any(1, 3) },
		};
		const struct prompts p = prompts_of(n_vocab);
		char *want = logits_of(&p, &o), *got;

		o.choices.start = LLM_START_COLD;
		o.choices.order = any(0, 1) ? LLM_ORDER_LAYER : LLM_ORDER_AUTO;
		o.profile = any(0, 3) ? NULL : "sd8elite";
		if (any(0, 1))
			drop(path);
		got = logits_of(&p, &o);
		if (memcmp(got, want, STEPS * p.bytes))
			fail_msg("placement %s, weights %s, chunks of %u: other logits after %u, "
				 "%u and %u tokens",
				 llm_choice_name(LLM_CHOICE_PLACEMENT, o.choices.placement),
				 llm_choice_name(LLM_CHOICE_WEIGHTS, weights), o.chunk, p.steps[0],
				 p.steps[1], p.steps[2]);
		free(want);
		free(got);
	}
}

static void a_cold_start_has_the_bits_of_a_warm_one(void **state)
{
	static const enum llm_weights weights[] = { LLM_WEIGHTS_W8A8, LLM_WEIGHTS_W4A8,
						    LLM_WEIGHTS_W4A16 };

	for (size_t i = 0; i < 3; i++) {
		const struct tiny_config c = config(tiny_any_arch(false));
		struct tiny_model t;

		tiny_create(&t, &c, random_u64(&seed_state));
		tiny_write(&t);
		for (size_t w = 0; w < 3; w++)
			check(t.path, c.n_vocab, weights[w]);
		tiny_free(&t);
	}
}

/* Blocks as the file has them, and files that were packed for the NPU. */
static void so_it_has_with_all_types_of_files(void **state)
{
	static const struct {
		enum llm_quantize_type type;
		enum llm_weights weights;
	} files[] = { { LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8 },
		      { LLM_QUANTIZE_Q4_0, LLM_WEIGHTS_NATIVE },
		      { LLM_QUANTIZE_W8A8, LLM_WEIGHTS_W8A8 },
		      { LLM_QUANTIZE_W4A8, LLM_WEIGHTS_W4A8 },
		      { LLM_QUANTIZE_ADAPTIVE, LLM_WEIGHTS_ADAPTIVE },
		      { LLM_QUANTIZE_ADAPTIVE, LLM_WEIGHTS_W8A8 } };
	const struct tiny_config c = config("llama");
	char out[] = "/tmp/test_llm_start-XXXXXX";
	int fd = mkstemp(out);
	struct tiny_model t;

	assert_true(fd >= 0);
	close(fd);
	tiny_create(&t, &c, random_u64(&seed_state));
	tiny_write(&t);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		const struct llm_quantize_options q = { .in = t.path,
							.out = out,
							.type = files[i].type };

		if (llm_quantize(&q, NULL))
			fail_msg("%s", llm_error());
		check(out, c.n_vocab, files[i].weights);
	}
	unlink(out);
	tiny_free(&t);
}

/* The NPU has the same numbers in wider panels, so integer activations give the same sums. */
static void unpacked_weights_have_the_bits_of_adaptive_ones(void **state)
{
	static const enum llm_activations forms[] = { LLM_ACTIVATIONS_INT8, LLM_ACTIVATIONS_MIXED,
						      LLM_ACTIVATIONS_INT16 };
	static const enum llm_placement places[] = { LLM_PLACE_NPU, LLM_PLACE_FINE,
						     LLM_PLACE_LINEAR };
	const struct tiny_config c = config("llama");
	char out[] = "/tmp/test_llm_start-XXXXXX";
	int fd = mkstemp(out);
	struct tiny_model t;

	assert_true(fd >= 0);
	close(fd);
	tiny_create(&t, &c, random_u64(&seed_state));
	tiny_write(&t);
	for (int i = 0; i < 9; i++) {
		const struct llm_quantize_options q = { .in = t.path,
							.out = out,
							.type = LLM_QUANTIZE_ADAPTIVE,
							.bits = 1 + (float)any(0, 70) / 10 };
		struct llm_options o = {
			.model = out,
			.choices = { .placement = places[i % 3],
				     .weights = LLM_WEIGHTS_ADAPTIVE,
				     .activations = forms[i / 3] },
			.threads = any(1, 3),
			.device = { .transport = NPU_TRANSPORT_SIM, .threads = any(1, 3) },
		};
		const struct prompts p = prompts_of(c.n_vocab);
		char *want, *got;

		if (llm_quantize(&q, NULL))
			fail_msg("%s", llm_error());
		want = logits_of(&p, &o);
		o.choices.weights = LLM_WEIGHTS_W8A8;
		for (int cold = 0; cold < 2; cold++) {
			o.choices.start = cold ? LLM_START_COLD : LLM_START_WARM;
			got = logits_of(&p, &o);
			assert_memory_equal(got, want, STEPS * p.bytes);
			free(got);
		}
		free(want);
	}
	unlink(out);
	tiny_free(&t);
}

struct thread {
	struct llm_engine *engine;
	const struct prompts *p;
	char *logits;
};

static void *other_session(void *arg)
{
	struct thread *t = arg;

	evaluate(t->engine, t->p, t->logits);
	return NULL;
}

static void sessions_that_begin_together_load_once(void **state)
{
	const struct tiny_config c = config("llama");
	struct llm_options o = {
		.choices = { .start = LLM_START_COLD, .weights = LLM_WEIGHTS_W8A8 },
		.threads = 2,
		.device = { .transport = NPU_TRANSPORT_SIM, .threads = 2 },
	};
	const struct prompts p = prompts_of(c.n_vocab);
	struct llm_engine *engine;
	struct thread threads[3];
	pthread_t ids[3];
	struct tiny_model t;

	tiny_create(&t, &c, random_u64(&seed_state));
	tiny_write(&t);
	o.model = t.path;
	if (llm_engine_open(&o, &engine))
		fail_msg("%s", llm_error());
	for (int i = 0; i < 3; i++) {
		threads[i] = (struct thread){ engine, &p, malloc(STEPS * p.bytes) };
		assert_int_equal(pthread_create(&ids[i], NULL, other_session, &threads[i]), 0);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(ids[i], NULL);
	for (int i = 1; i < 3; i++)
		assert_memory_equal(threads[i].logits, threads[0].logits, STEPS * p.bytes);
	for (int i = 0; i < 3; i++)
		free(threads[i].logits);
	llm_engine_close(engine);
	tiny_free(&t);
}

/* The first float of the tensor's data becomes a NaN. */
static void damage(const char *path, const char *name)
{
	const uint32_t nan = 0x7fc00000;
	struct gguf_file *file;
	const struct gguf_tensor *tensor;
	char line[256];
	int fd;

	assert_int_equal(gguf_open(path, &file, line, sizeof(line)), 0);
	tensor = gguf_find_tensor(file, name);
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, &nan, 4, (off_t)gguf_tensor_offset(file, tensor)), 4);
	close(fd);
	gguf_close(file);
}

static void an_error_names_the_tensor_and_stays(void **state)
{
	const struct tiny_config c = config("llama");
	struct llm_options o = {
		.choices = { .start = LLM_START_COLD, .weights = LLM_WEIGHTS_W8A8 },
		.threads = 2,
		.device = { .transport = NPU_TRANSPORT_SIM, .threads = 2 },
	};
	const struct prompts p = prompts_of(c.n_vocab);
	struct llm_engine *engine;
	struct llm_session *s, *later;
	struct tiny_model t;

	tiny_create(&t, &c, random_u64(&seed_state));
	tiny_write(&t);
	damage(t.path, "blk.1.ffn_down.weight");
	o.model = t.path;
	assert_int_equal(llm_engine_open(&o, &engine), 0);
	assert_int_equal(llm_session_create(engine, MAX_TOKENS, &s), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(llm_session_eval(s, p.ids, 20), -EINVAL);
		assert_non_null(strstr(llm_error(), "blk.1.ffn_down.weight"));
		assert_int_equal(llm_session_n_past(s), 0);
	}
	assert_int_equal(llm_session_create(engine, MAX_TOKENS, &later), 0);
	assert_int_equal(llm_session_eval(later, p.ids, 1), -EINVAL);
	assert_non_null(strstr(llm_error(), "blk.1.ffn_down.weight"));
	llm_session_free(later);
	llm_session_free(s);
	llm_engine_close(engine);
	/* It is never waited for. */
	assert_int_equal(llm_engine_open(&o, &engine), 0);
	llm_engine_close(engine);
	tiny_free(&t);
}

/* Opens the tiny model as it is packed for w8a8 in @out. */
static struct llm_engine *open_packed(const struct tiny_model *t, char *out)
{
	const struct llm_quantize_options q = { .in = t->path,
						.out = out,
						.type = LLM_QUANTIZE_W8A8 };
	const struct llm_options o = {
		.model = out,
		.choices = { .start = LLM_START_COLD },
		.threads = 2,
		.device = { .transport = NPU_TRANSPORT_SIM, .threads = 2 },
	};
	struct llm_engine *engine;
	int fd = mkstemp(out);

	assert_true(fd >= 0);
	close(fd);
	if (llm_quantize(&q, NULL) || llm_engine_open(&o, &engine))
		fail_msg("%s", llm_error());
	return engine;
}

/* Evaluates once. @tensor: which the error must name. */
static void evaluation_fails(struct llm_engine *engine, const struct prompts *p, int err,
			     const char *tensor)
{
	struct llm_session *s;

	assert_int_equal(llm_session_create(engine, MAX_TOKENS, &s), 0);
	assert_int_equal(llm_session_eval(s, p->ids, 20), err);
	if (!strstr(llm_error(), tensor))
		fail_msg("%s: does not name %s", llm_error(), tensor);
	llm_session_free(s);
}

static void packed_weights_are_used_in_place(void **state)
{
	const struct tiny_config c = config("qwen2");
	const struct prompts p = prompts_of(c.n_vocab);
	char out[] = "/tmp/test_llm_start-XXXXXX";
	struct llm_session_stats stats;
	struct llm_engine *engine;
	struct llm_session *s;
	struct tiny_model t;

	tiny_create(&t, &c, random_u64(&seed_state));
	tiny_write(&t);
	engine = open_packed(&t, out);
	assert_int_equal(llm_session_create(engine, MAX_TOKENS, &s), 0);
	if (llm_session_eval(s, p.ids, 20))
		fail_msg("%s", llm_error());
	llm_session_stats(s, &stats);
	assert_true(stats.start.read_bytes + stats.start.cached_bytes > 0);
	assert_int_equal(stats.start.ring_bytes, 0);
	llm_session_free(s);
	llm_engine_close(engine);
	unlink(out);
	tiny_free(&t);
}

/* Each buffer of a file keeps it open. */
static void without_descriptors_they_are_copied(void **state)
{
	const struct tiny_config c = config("llama");
	const struct prompts p = prompts_of(c.n_vocab);
	char out[] = "/tmp/test_llm_start-XXXXXX";
	struct llm_options o = {
		.model = out,
		.choices = { .start = LLM_START_COLD },
		.threads = 2,
		.device = { .transport = NPU_TRANSPORT_SIM, .threads = 2 },
	};
	struct llm_session_stats stats;
	struct llm_engine *engine;
	struct llm_session *s;
	struct rlimit limit;
	struct tiny_model t;
	int err = -EMFILE;

	tiny_create(&t, &c, random_u64(&seed_state));
	tiny_write(&t);
	llm_engine_close(open_packed(&t, out));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	/* The first number with which a model can be opened at all. */
	for (rlim_t n = 4; n < 64 && err; n++) {
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){ n, limit.rlim_max });
		err = llm_engine_open(&o, &engine);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	if (err || llm_session_create(engine, MAX_TOKENS, &s) || llm_session_eval(s, p.ids, 20))
		fail_msg("%s", llm_error());
	llm_session_stats(s, &stats);
	assert_true(stats.start.read_bytes + stats.start.cached_bytes > 0);
	assert_true(stats.start.ring_bytes > 0);
	llm_session_free(s);
	llm_engine_close(engine);
	unlink(out);
	tiny_free(&t);
}

/* What has happened to a file since it was opened. */
static void so_are_damaged_ones_found_in_place(void **state)
{
	const struct tiny_config c = config("llama");
	const struct prompts p = prompts_of(c.n_vocab);
	char flipped[] = "/tmp/test_llm_start-XXXXXX", cut[] = "/tmp/test_llm_start-XXXXXX";
	struct llm_engine *engine;
	struct tiny_model t;

	tiny_create(&t, &c, random_u64(&seed_state));
	tiny_write(&t);
	engine = open_packed(&t, flipped);
	damage(flipped, "blk.1.ffn_down.panels");
	evaluation_fails(engine, &p, -EINVAL, "blk.1.ffn_down.panels");
	llm_engine_close(engine);
	engine = open_packed(&t, cut);
	assert_int_equal(truncate(cut, 4096), 0);
	evaluation_fails(engine, &p, -EIO, "tensor ");
	llm_engine_close(engine);
	unlink(flipped);
	unlink(cut);
	tiny_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cold_start_has_the_bits_of_a_warm_one),
		cmocka_unit_test(so_it_has_with_all_types_of_files),
		cmocka_unit_test(unpacked_weights_have_the_bits_of_adaptive_ones),
		cmocka_unit_test(sessions_that_begin_together_load_once),
		cmocka_unit_test(an_error_names_the_tensor_and_stays),
		cmocka_unit_test(packed_weights_are_used_in_place),
		cmocka_unit_test(without_descriptors_they_are_copied),
		cmocka_unit_test(so_are_damaged_ones_found_in_place),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
