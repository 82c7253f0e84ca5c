// SPDX-License-Identifier: MIT
/*
 * Caches of panels: what the first cold start makes, later ones use with the same bits; one of
 * another model, too large or too old is not used. TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "panels_fixture.h"

static const struct {
	enum llm_quantize_type file, packed;
	enum llm_weights weights;
} kinds[] = {
	{ LLM_QUANTIZE_F32, LLM_QUANTIZE_W8A8, LLM_WEIGHTS_W8A8 },
	{ LLM_QUANTIZE_Q8_0, LLM_QUANTIZE_W8A8, LLM_WEIGHTS_W8A8 },
	{ LLM_QUANTIZE_Q4_0, LLM_QUANTIZE_W4A8, LLM_WEIGHTS_W4A8 },
	{ LLM_QUANTIZE_F16, LLM_QUANTIZE_W4A16, LLM_WEIGHTS_W4A16 },
	{ LLM_QUANTIZE_Q4_0, LLM_QUANTIZE_NATIVE, LLM_WEIGHTS_NATIVE },
};
#define NR_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* All panels of the cache are those of the file that llm_quantize() packs. */
static void compare_with_packed(const struct room *r, enum llm_quantize_type type)
{
	struct llm_quantize_options q = { .in = r->model, .type = type };
	struct gguf_file *cache, *packed;
	char out[96], line[256];

	snprintf(out, sizeof(out), "%s/packed", r->folder);
	q.out = out;
	if (llm_quantize(&q, NULL))
		fail_msg("%s", llm_error());
	assert_int_equal(gguf_open(out, &packed, line, sizeof(line)), 0);
	assert_int_equal(gguf_open(r->cache, &cache, line, sizeof(line)), 0);
	assert_true(gguf_n_tensors(cache) > 1);
	for (size_t i = 0; i < gguf_n_tensors(cache); i++) {
		const struct gguf_tensor *t = gguf_tensor(cache, i);
		const struct gguf_tensor *same = gguf_find_tensor(packed, t->name);

		assert_non_null(same);
		assert_int_equal(same->bytes, t->bytes);
		assert_memory_equal(same->data, t->data, t->bytes);
	}
	gguf_close(cache);
	gguf_close(packed);
	unlink(out);
}

static void the_first_start_makes_it_and_others_use_it(void **state)
{
	for (unsigned int i = 0; i < 2 * NR_KINDS; i++) {
		struct room r;
		char *want;

		enter(&r, kinds[i % NR_KINDS].file, kinds[i % NR_KINDS].weights);
		if (r.o.choices.placement == LLM_PLACE_FINE && any(0, 1))
			r.o.choices.order = LLM_ORDER_STEAL;
		if (any(0, 2) == 0)
			r.o.profile = "sd8elite";
		want = warm(&r);
		begins(&r, want, LLM_PANELS_MADE);
		compare_with_packed(&r, kinds[i % NR_KINDS].packed);
		begins(&r, want, LLM_PANELS_FOUND);
		begins(&r, want, LLM_PANELS_FOUND);
		assert_int_equal(files_in(r.folder, false), 2);
		free(want);
		leave(&r);
	}
}

static void nothing_is_packed_with_it(void **state)
{
	struct llm_session_stats stats;
	struct llm_engine *engine;
	struct llm_session *s;
	struct room r;
	char *want;

	enter(&r, LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8);
	want = warm(&r);
	begins(&r, want, LLM_PANELS_MADE);
	assert_int_equal(llm_engine_open(&r.o, &engine), 0);
	assert_int_equal(llm_session_create(engine, MAX_TOKENS, &s), 0);
	assert_int_equal(llm_session_eval(s, r.p.ids, 20), 0);
	llm_session_stats(s, &stats);
	assert_true(stats.start.read_bytes + stats.start.cached_bytes > 0);
	/* The panels are in place: there is no buffer for what is read. */
	assert_int_equal(stats.start.ring_bytes, 0);
	assert_string_equal(strstr(llm_engine_info(engine)->type, "Q8_0"), "Q8_0");
	llm_session_free(s);
	llm_engine_close(engine);
	free(want);
	leave(&r);
}

struct pass {
	struct llm_engine *engine;
	unsigned int n; /* passes so far */
	bool wait; /* for it, in the second pass */
	bool seen; /* that pass came while it was being made */
};

/* A long end of the second pass, in which nothing is made unless somebody waits for it. */
static void watch(void *ud, uint64_t at_ns, const struct llm_span *spans, size_t n)
{
	struct llm_panels_cache before, after;
	struct pass *pass = ud;

	if (!pass->n++)
		return;
	llm_engine_panels_cache(pass->engine, false, &before);
	usleep(100000);
	llm_engine_panels_cache(pass->engine, false, &after);
	pass->seen = before.state == LLM_PANELS_MAKING;
	if (pass->seen)
		assert_int_equal(after.state, LLM_PANELS_MAKING);
	llm_engine_panels_cache(pass->engine, pass->wait, &after);
	if (pass->wait)
		assert_int_equal(after.state, LLM_PANELS_MADE);
}

/* Two evaluations, and what came of the second: true if it began before the cache was made. */
static bool two_evaluations(const struct room *r, bool wait)
{
	struct llm_panels_cache cache;
	struct pass pass = { .wait = wait };
	struct llm_session *s;

	unlink(r->cache);
	assert_int_equal(llm_engine_open(&r->o, &pass.engine), 0);
	assert_int_equal(llm_session_create(pass.engine, MAX_TOKENS, &s), 0);
	llm_session_listen(s, watch, &pass);
	for (int i = 0; i < 2; i++)
		assert_int_equal(llm_session_eval(s, r->p.ids, 1), 0);
	do
		llm_engine_panels_cache(pass.engine, false, &cache);
	while (cache.state == LLM_PANELS_MAKING);
	assert_int_equal(cache.state, LLM_PANELS_MADE);
	llm_session_free(s);
	llm_engine_close(pass.engine);
	return pass.seen;
}

static void it_is_made_between_evaluations(void **state)
{
	struct room r;

	enter(&r, LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8);
	/* It is made before the second one where that comes late. */
	for (int i = 0; i < 2; i++) {
		int tries = 0;

		while (!two_evaluations(&r, i))
			assert_true(tries++ < 50);
	}
	leave(&r);
}

static void without_an_evaluation_none_is_made(void **state)
{
	struct llm_panels_cache cache;
	struct llm_engine *engine;
	struct room r;

	enter(&r, LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8);
	assert_int_equal(llm_engine_open(&r.o, &engine), 0);
	llm_engine_panels_cache(engine, true, &cache);
	assert_int_equal(cache.state, LLM_PANELS_DUE);
	llm_engine_close(engine);
	assert_false(exists(r.cache));
	leave(&r);
}

/* By the time of the last change, or by the size with the old time. */
static void one_of_a_changed_model_is_made_again(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct stat st;
		struct room r;
		char *want;

		enter(&r, LLM_QUANTIZE_F32, LLM_WEIGHTS_W8A8);
		want = warm(&r);
		begins(&r, want, LLM_PANELS_MADE);
		free(want);
		assert_int_equal(stat(r.model, &st), 0);
		make_model(&r, r.model, i ? LLM_QUANTIZE_F16 : LLM_QUANTIZE_F32);
		if (i)
			utimensat(AT_FDCWD, r.model, (struct timespec[2]){ st.st_mtim, st.st_mtim },
				  0);
		want = warm(&r);
		begins(&r, want, LLM_PANELS_MADE);
		begins(&r, want, LLM_PANELS_FOUND);
		free(want);
		leave(&r);
	}
}

/* A model and its cache, of another name in the same folder. */
static void make_another(struct room *r, struct room *first, const char *name)
{
	char *want;

	*r = *first;
	snprintf(r->model, sizeof(r->model), "%s/%s.gguf", r->folder, name);
	snprintf(r->cache, sizeof(r->cache), "%s.w8a8.panels", r->model);
	make_model(r, r->model, LLM_QUANTIZE_Q8_0);
	r->o.model = r->model;
	want = warm(r);
	begins(r, want, LLM_PANELS_MADE);
	free(want);
}

/* Its last use was @seconds ago. */
static void age(const char *path, time_t seconds)
{
	const struct timespec at = { .tv_sec = time(NULL) - seconds };

	assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[2]){ at, at }, 0), 0);
}

/* Of a model that was changed, or short. */
static void one_that_cannot_be_used_is_removed_at_once(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct room r;
		char *want;

		enter(&r, LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8);
		want = warm(&r);
		begins(&r, want, LLM_PANELS_MADE);
		if (i)
			assert_int_equal(truncate(r.cache, any(0, 5000)), 0);
		else
			assert_int_equal(utimensat(AT_FDCWD, r.model, NULL, 0), 0);
		/* Another is not made. */
		r.o.panels_cache_bytes = 1;
		fails(&r, want, "allow more");
		assert_false(exists(r.cache));
		free(want);
		leave(&r);
	}
}

static void the_oldest_are_removed_for_others(void **state)
{
	struct room r[4];
	char *want, foreign[96];
	int fd;

	enter(&r[0], LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8);
	/* A file that is no cache does not count, and stays. */
	snprintf(foreign, sizeof(foreign), "%s/foreign.panels", r[0].folder);
	fd = open(foreign, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	close(fd);
	make_another(&r[1], &r[0], "one");
	make_another(&r[2], &r[0], "two");
	age(r[1].cache, 20);
	age(r[2].cache, 10);
	/* Use makes it the youngest. */
	want = warm(&r[1]);
	begins(&r[1], want, LLM_PANELS_FOUND);
	free(want);
	/* All have the same size. */
	r[0].o.panels_cache_bytes = 2 * bytes_of(r[1].cache);
	make_another(&r[3], &r[0], "three");
	assert_false(exists(r[2].cache));
	assert_true(exists(r[1].cache) && exists(r[3].cache));
	assert_int_equal(bytes_of(foreign), 1 << 20);
	leave(&r[0]);
}

static void a_lower_limit_holds_for_those_that_are_there(void **state)
{
	struct room r[3];
	char *want;

	enter(&r[0], LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8);
	make_another(&r[1], &r[0], "one");
	make_another(&r[2], &r[0], "two");
	want = warm(&r[2]);
	r[2].o.panels_cache_bytes = bytes_of(r[2].cache);
	begins(&r[2], want, LLM_PANELS_FOUND);
	assert_false(exists(r[1].cache));
	assert_true(exists(r[2].cache));
	r[2].o.panels_cache_bytes--;
	begins(&r[2], want, LLM_PANELS_FOUND);
	assert_false(exists(r[2].cache));
	begins(&r[2], want, LLM_PANELS_FAILED);
	assert_false(exists(r[2].cache));
	free(want);
	leave(&r[0]);
}

static void one_that_is_larger_than_the_limit_is_not_made(void **state)
{
	struct room r;
	char *want;

	enter(&r, LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8);
	want = warm(&r);
	begins(&r, want, LLM_PANELS_MADE);
	r.o.panels_cache_bytes = bytes_of(r.cache) - 1;
	unlink(r.cache);
	fails(&r, want, "allow more");
	assert_int_equal(files_in(r.folder, false), 1);
	r.o.panels_cache_bytes++;
	begins(&r, want, LLM_PANELS_MADE);
	free(want);
	leave(&r);
}

/* The device's memory is a file too, and is all there after a pass. */
static void limit_files(void *ud, uint64_t at_ns, const struct llm_span *spans, size_t n)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = 65536;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* By a limit of the process, whose signal would end it. */
static void what_cannot_be_written_leaves_the_run_going(void **state)
{
	struct llm_panels_cache cache;
	struct llm_engine *engine;
	struct rlimit limit;
	struct llm_session *s;
	struct room r;
	char *want;

	enter(&r, LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8);
	want = warm(&r);
	assert_int_equal(llm_engine_open(&r.o, &engine), 0);
	assert_int_equal(llm_session_create(engine, MAX_TOKENS, &s), 0);
	llm_session_listen(s, limit_files, NULL);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(llm_session_eval(s, r.p.ids, r.p.steps[0]), 0);
	llm_engine_panels_cache(engine, true, &cache);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_memory_equal(llm_session_logits(s), want, r.p.bytes);
	assert_int_equal(cache.state, LLM_PANELS_FAILED);
	assert_non_null(strstr(cache.why, "File too large"));
	assert_non_null(strstr(cache.why, r.cache));
	assert_int_equal(files_in(r.folder, false), 1);
	llm_session_free(s);
	llm_engine_close(engine);
	free(want);
	leave(&r);
}

static void in_a_folder_that_may_not_be_written_too(void **state)
{
	struct room r;
	char *want;

	if (!geteuid())
		skip(); /* root may; tests/cli/panels.sh has a file system that is read-only */
	enter(&r, LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8);
	want = warm(&r);
	assert_int_equal(chmod(r.folder, 0500), 0);
	fails(&r, want, "Permission denied");
	assert_int_equal(chmod(r.folder, 0700), 0);
	assert_int_equal(files_in(r.folder, false), 1);
	free(want);
	leave(&r);
}

static void a_file_of_its_name_that_is_none_stays(void **state)
{
	struct llm_quantize_options q = { .type = LLM_QUANTIZE_W8A8 };
	struct room r;
	uint64_t bytes;
	char *want;

	enter(&r, LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8);
	want = warm(&r);
	q.in = r.model;
	q.out = r.cache;
	assert_int_equal(llm_quantize(&q, NULL), 0);
	bytes = bytes_of(r.cache);
	fails(&r, want, "is no cache of panels");
	assert_int_equal(bytes_of(r.cache), bytes);
	free(want);
	leave(&r);
}

/* Neither what is no GGUF at all. */
static void a_text_of_its_name_stays(void **state)
{
	static const char text[] = "notes about panels\n";
	char back[sizeof(text)] = "";
	struct room r;
	char *want;
	int fd;

	enter(&r, LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8);
	want = warm(&r);
	fd = open(r.cache, O_RDWR | O_CREAT, 0600);
	assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
	fails(&r, want, r.cache);
	assert_int_equal(pread(fd, back, sizeof(back), 0), sizeof(text));
	assert_memory_equal(back, text, sizeof(text));
	assert_int_equal(bytes_of(r.cache), sizeof(text));
	close(fd);
	free(want);
	leave(&r);
}

struct user {
	const struct room *r;
	const char *want;
};

static void *use(void *arg)
{
	const struct user *u = arg;

	for (int i = 0; i < 5; i++) {
		const struct llm_panels_cache cache = begin(u->r, u->want);

		assert_true(cache.state == LLM_PANELS_MADE || cache.state == LLM_PANELS_FOUND);
		/* Others have it mapped, or are making it. */
		if (i % 2)
			unlink(u->r->cache);
	}
	return NULL;
}

static void engines_that_start_together_agree(void **state)
{
	pthread_t ids[4];
	struct user u;
	struct room r;
	char *want;

	enter(&r, LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8);
	want = warm(&r);
	u = (struct user){ &r, want };
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&ids[i], NULL, use, &u), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(ids[i], NULL);
	free(want);
	leave(&r);
}

static void refuses(const struct llm_options *o, const char *why)
{
	struct llm_engine *engine;

	assert_int_equal(llm_engine_open(o, &engine), -EINVAL);
	if (!strstr(llm_error(), why))
		fail_msg("%s: does not say %s", llm_error(), why);
}

static void it_is_for_cold_starts_of_files_that_are_not_packed(void **state)
{
	struct llm_quantize_options q = { .type = LLM_QUANTIZE_W8A8 };
	struct llm_options dry;
	char packed[96];
	struct room r;
	char *want;

	enter(&r, LLM_QUANTIZE_Q8_0, LLM_WEIGHTS_W8A8);
	dry = r.o;
	dry.dry_run = true;
	dry.profile = "sd8elite";
	refuses(&dry, "a dry run reads no weights");
	want = warm(&r);
	begins(&r, want, LLM_PANELS_MADE);
	free(want);
	r.o.choices.start = LLM_START_WARM;
	refuses(&r.o, "choose start cold");
	r.o.choices.start = LLM_START_COLD;
	snprintf(packed, sizeof(packed), "%s/packed.gguf", r.folder);
	q.in = r.model;
	q.out = packed;
	assert_int_equal(llm_quantize(&q, NULL), 0);
	r.o.model = packed;
	refuses(&r.o, "is packed already");
	r.o.model = r.cache;
	refuses(&r.o, "is a cache of another file's panels");
	leave(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_start_makes_it_and_others_use_it),
		cmocka_unit_test(nothing_is_packed_with_it),
		cmocka_unit_test(it_is_made_between_evaluations),
		cmocka_unit_test(without_an_evaluation_none_is_made),
		cmocka_unit_test(one_of_a_changed_model_is_made_again),
		cmocka_unit_test(one_that_cannot_be_used_is_removed_at_once),
		cmocka_unit_test(the_oldest_are_removed_for_others),
		cmocka_unit_test(a_lower_limit_holds_for_those_that_are_there),
		cmocka_unit_test(one_that_is_larger_than_the_limit_is_not_made),
		cmocka_unit_test(what_cannot_be_written_leaves_the_run_going),
		cmocka_unit_test(in_a_folder_that_may_not_be_written_too),
		cmocka_unit_test(a_file_of_its_name_that_is_none_stays),
		cmocka_unit_test(a_text_of_its_name_stays),
		cmocka_unit_test(engines_that_start_together_agree),
		cmocka_unit_test(it_is_for_cold_starts_of_files_that_are_not_packed),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
