// SPDX-License-Identifier: MIT
/*
 * Models in several files run, and are quantised and cached, with the bits of the files that they
 * were split from. TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "gguf_shards.h"
#include "llm.h"
#include "llm_prompts.h"
#include "llm_quantize.h"
#include "tiny_random.h"

/* A model in one file and in several. */
struct model {
	char whole[40];
	struct shards s;
	unsigned int n_vocab;
};

static void quantize(const char *in, const char *out, enum llm_quantize_type type)
{
	const struct llm_quantize_options q = { .in = in, .out = out, .type = type };

	if (llm_quantize(&q, NULL))
		fail_msg("%s", llm_error());
}

static void enter(struct model *m, enum llm_quantize_type type)
{
	const struct tiny_config c =
		tiny_any(tiny_any_arch(false), MAX_TOKENS, any(2, 4), 64, any(2, 6));
	struct tiny_model t;

	strcpy(m->whole, "/tmp/test_llm_split-XXXXXX");
	close(mkstemp(m->whole));
	tiny_create(&t, &c, random_u64(&seed_state));
	quantize(tiny_write(&t), m->whole, type);
	tiny_free(&t);
	m->n_vocab = c.n_vocab;
	shards_make(&m->s, m->whole, any(2, MAX_SHARDS), &seed_state);
}

static void leave(struct model *m)
{
	shards_free(&m->s);
	unlink(m->whole);
}

/* Drops all shards from the page cache, or some of them. */
static void drop(const struct shards *s, bool all)
{
	for (unsigned int i = 0; i < s->n; i++) {
		int fd = open(s->path[i], O_RDONLY);

		assert_int_equal(fsync(fd), 0);
		if (all || any(0, 1))
			posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
}

static void compare(const struct model *m, enum llm_placement placement, enum llm_weights weights)
{
	struct llm_options o = {
		.model = m->whole,
		.choices = { .placement = placement, .weights = weights },
		.threads = any(1, 3),
		.device = { .transport = NPU_TRANSPORT_SIM, .threads = any(1, 3) },
	};
	const struct prompts p = prompts_of(m->n_vocab);
	char *want = logits_of(&p, &o), *got;

	o.model = m->s.path[0];
	for (int i = 0; i < (placement == LLM_PLACE_CPU ? 2 : 4); i++) {
		o.choices.start = i < 2 ? LLM_START_WARM : LLM_START_COLD;
		if (i % 2)
			drop(&m->s, any(0, 1));
		got = logits_of(&p, &o);
		if (memcmp(got, want, STEPS * p.bytes))
			fail_msg("%u shards, placement %s, weights %s, start %s: other logits",
				 m->s.n, llm_choice_name(LLM_CHOICE_PLACEMENT, placement),
				 llm_choice_name(LLM_CHOICE_WEIGHTS, weights),
				 llm_choice_name(LLM_CHOICE_START, o.choices.start));
		free(got);
	}
	free(want);
}

static void a_split_model_has_the_bits_of_the_whole(void **state)
{
	static const struct {
		enum llm_quantize_type type;
		enum llm_weights weights;
	} files[] = { { LLM_QUANTIZE_F32, LLM_WEIGHTS_W8A8 },
		      { LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8 },
		      { LLM_QUANTIZE_Q4_0, LLM_WEIGHTS_NATIVE },
		      { LLM_QUANTIZE_Q4_0, LLM_WEIGHTS_W4A16 },
		      { LLM_QUANTIZE_W8A8, LLM_WEIGHTS_W8A8 },
		      { LLM_QUANTIZE_W4A8, LLM_WEIGHTS_W4A8 },
		      { LLM_QUANTIZE_ADAPTIVE, LLM_WEIGHTS_ADAPTIVE } };
	struct model m;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		bool packed = llm_quantize_type_is_packed(files[i].type);

		enter(&m, files[i].type);
		compare(&m, LLM_PLACE_NPU, files[i].weights);
		compare(&m, LLM_PLACE_LINEAR, files[i].weights);
		if (!packed)
			compare(&m, LLM_PLACE_CPU, LLM_WEIGHTS_AUTO);
		leave(&m);
	}
}

static char *read_file(const char *path, size_t *bytes)
{
	struct stat st;
	char *data;
	FILE *f = fopen(path, "rb");

	assert_non_null(f);
	assert_int_equal(fstat(fileno(f), &st), 0);
	*bytes = (size_t)st.st_size;
	data = malloc(*bytes);
	assert_int_equal(fread(data, 1, *bytes, f), *bytes);
	fclose(f);
	return data;
}

static void one_file_of_the_same_bytes_is_made_of_it(void **state)
{
	static const enum llm_quantize_type types[] = { LLM_QUANTIZE_F32,  LLM_QUANTIZE_Q8_0,
							LLM_QUANTIZE_Q4_0, LLM_QUANTIZE_Q4_K_M,
							LLM_QUANTIZE_W8A8, LLM_QUANTIZE_NATIVE };
	char a[96], b[96], *x, *y;
	size_t n_x, n_y;
	struct model m;

	enter(&m, LLM_QUANTIZE_F16);
	snprintf(a, sizeof(a), "%s/a.gguf", m.s.folder);
	snprintf(b, sizeof(b), "%s/b.gguf", m.s.folder);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		quantize(m.whole, a, types[i]);
		quantize(m.s.path[0], b, types[i]);
		x = read_file(a, &n_x);
		y = read_file(b, &n_y);
		assert_int_equal(n_x, n_y);
		assert_memory_equal(x, y, n_x);
		free(x);
		free(y);
	}
	leave(&m);
}

/* Starts, and returns what has become of the cache of panels. */
static enum llm_panels_state state_of(const struct model *m, const struct prompts *p,
				      const char *want)
{
	struct llm_options o = {
		.model = m->s.path[0],
		.choices = { .weights = LLM_WEIGHTS_W8A8, .start = LLM_START_COLD },
		.threads = 2,
		.device = { .transport = NPU_TRANSPORT_SIM, .threads = 2 },
		.panels_cache_bytes = 1ull << 30,
	};
	char *got = malloc(STEPS * p->bytes);
	struct llm_panels_cache cache;
	struct llm_engine *engine;

	if (llm_engine_open(&o, &engine))
		fail_msg("%s", llm_error());
	evaluate(engine, p, got);
	llm_engine_panels_cache(engine, true, &cache);
	llm_engine_close(engine);
	assert_memory_equal(got, want, STEPS * p->bytes);
	free(got);
	return cache.state;
}

static void a_cache_of_panels_is_of_all_shards(void **state)
{
	struct llm_options o = { .choices = { .weights = LLM_WEIGHTS_W8A8 },
				 .threads = 2,
				 .device = { .transport = NPU_TRANSPORT_SIM, .threads = 2 } };
	const struct timespec now[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	struct prompts p;
	struct model m;
	char *want;

	enter(&m, LLM_QUANTIZE_Q8_0);
	o.model = m.whole;
	p = prompts_of(m.n_vocab);
	want = logits_of(&p, &o);
	assert_int_equal(state_of(&m, &p, want), LLM_PANELS_MADE);
	assert_int_equal(state_of(&m, &p, want), LLM_PANELS_FOUND);
	/* Whichever is changed: it is of another model. */
	for (unsigned int i = 0; i < m.s.n; i++) {
		assert_int_equal(utimensat(AT_FDCWD, m.s.path[i], now, 0), 0);
		assert_int_equal(state_of(&m, &p, want), LLM_PANELS_MADE);
	}
	assert_int_equal(state_of(&m, &p, want), LLM_PANELS_FOUND);
	free(want);
	leave(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_split_model_has_the_bits_of_the_whole),
		cmocka_unit_test(one_file_of_the_same_bytes_is_made_of_it),
		cmocka_unit_test(a_cache_of_panels_is_of_all_shards),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
