// SPDX-License-Identifier: MIT
/*
 * Damaged caches of panels: none changes a logit, and the next start makes another. TEST_SEED=N
 * repeats a run.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "panels_fixture.h"

/* The key that makes a file of panels a cache. */
#define SOURCE "vnpu.source"

static void flip_bit(const char *path, uint64_t at, unsigned int bit)
{
	int fd = open(path, O_RDWR);
	uint8_t byte;

	assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= (uint8_t)(1u << bit);
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	close(fd);
}

/* One byte of the cache becomes another. */
static void flip(const char *path, uint64_t at)
{
	flip_bit(path, at, any(0, 7));
}

/* Where a text is within the first bytes of a file. */
static uint64_t at_text(const char *path, const char *text)
{
	char begin[4096];
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, begin, sizeof(begin));
	const char *at = memmem(begin, n < 0 ? 0 : (size_t)n, text, strlen(text));

	close(fd);
	assert_non_null(at);
	return (uint64_t)(at - begin);
}

/* A start with a damaged cache has the model's logits, or fails and removes it. */
static void survives(const struct room *r, const char *want)
{
	char *got = calloc(STEPS, r->p.bytes);
	struct llm_engine *engine;
	struct llm_session *s;

	if (llm_engine_open(&r->o, &engine))
		fail_msg("%s", llm_error());
	assert_int_equal(llm_session_create(engine, MAX_TOKENS, &s), 0);
	if (llm_session_eval(s, r->p.ids, r->p.steps[0])) {
		if (!strstr(llm_error(), r->cache) || !strstr(llm_error(), "tensor ") ||
		    !strstr(llm_error(), "start again"))
			fail_msg("%s: names neither tensor nor cache", llm_error());
		assert_false(exists(r->cache));
	} else {
		assert_memory_equal(llm_session_logits(s), want, r->p.bytes);
	}
	llm_session_free(s);
	llm_engine_close(engine);
	free(got);
}

static void no_flipped_bit_gives_other_logits(void **state)
{
	struct room r;
	char *want;

	enter(&r, LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8);
	want = warm(&r);
	for (int i = 0; i < 60; i++) {
		uint64_t bytes;

		begin(&r, want);
		bytes = bytes_of(r.cache);
		/* The beginning is metadata and the table of tensors; without its first four bytes
		 * it would be anybody's file. */
		flip(r.cache, i % 2 ? 4 + random_u64(&seed_state) % (bytes - 4)
				    : 4 + any(0, 4000) % (bytes - 4));
		survives(&r, want);
		begin(&r, want);
		begins(&r, want, LLM_PANELS_FOUND);
	}
	free(want);
	leave(&r);
}

/* A cache that does not say so of its own is one all the same, and no user's file. */
static void each_flipped_bit_of_its_mark_is_mended(void **state)
{
	struct room r;
	char *want;

	enter(&r, LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8);
	want = warm(&r);
	for (unsigned int bit = 0; bit < 8 * strlen(SOURCE); bit++) {
		begins(&r, want, LLM_PANELS_MADE);
		flip_bit(r.cache, at_text(r.cache, SOURCE) + bit / 8, bit % 8);
		begins(&r, want, LLM_PANELS_MADE);
		assert_int_equal(files_in(r.folder, false), 2);
		unlink(r.cache);
	}
	free(want);
	leave(&r);
}

static void a_flipped_bit_of_a_matrix_names_it(void **state)
{
	struct gguf_file *file;
	const struct gguf_tensor *t;
	struct llm_engine *engine;
	struct llm_session *s;
	char line[256], *want;
	struct room r;

	enter(&r, LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8);
	want = warm(&r);
	begins(&r, want, LLM_PANELS_MADE);
	assert_int_equal(gguf_open(r.cache, &file, line, sizeof(line)), 0);
	t = gguf_find_tensor(file, "blk.1.ffn_down.panels");
	flip(r.cache, gguf_tensor_offset(file, t) + t->bytes / 2);
	gguf_close(file);
	assert_int_equal(llm_engine_open(&r.o, &engine), 0);
	assert_int_equal(llm_session_create(engine, MAX_TOKENS, &s), 0);
	assert_int_equal(llm_session_eval(s, r.p.ids, 20), -EINVAL);
	assert_non_null(strstr(llm_error(), "blk.1.ffn_down.panels"));
	assert_non_null(strstr(llm_error(), "this cache has been removed: start again"));
	llm_session_free(s);
	llm_engine_close(engine);
	assert_false(exists(r.cache));
	begins(&r, want, LLM_PANELS_MADE);
	begins(&r, want, LLM_PANELS_FOUND);
	free(want);
	leave(&r);
}

static void a_short_one_is_made_again(void **state)
{
	struct room r;
	char *want;

	enter(&r, LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8);
	want = warm(&r);
	begins(&r, want, LLM_PANELS_MADE);
	for (int i = 0; i < 10; i++) {
		uint64_t bytes = bytes_of(r.cache);

		/* The last tensor may be padded. */
		assert_int_equal(
			truncate(r.cache, i ? (off_t)(random_u64(&seed_state) % (bytes - 64)) : 0),
			0);
		begins(&r, want, LLM_PANELS_MADE);
		begins(&r, want, LLM_PANELS_FOUND);
	}
	free(want);
	leave(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_flipped_bit_gives_other_logits),
		cmocka_unit_test(each_flipped_bit_of_its_mark_is_mended),
		cmocka_unit_test(a_flipped_bit_of_a_matrix_names_it),
		cmocka_unit_test(a_short_one_is_made_again),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
