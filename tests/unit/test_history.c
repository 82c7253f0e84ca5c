// SPDX-License-Identifier: MIT
/*
 * History stores: what is read is what was stored, whatever a file has been through: cut off,
 * changed, removed, killed writers, several processes, a full disk. SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "checksum.h"
#include "history.h"
#include "llm.h"
#include "npu_random.h"

#define VOCABULARY 0x1234
#define N_VOCAB 1000
#define MAX_ANSWER 40

static char folder[64], path[128];

static struct history_store store_of(const char *name, uint32_t max_tokens)
{
	struct history_store s;

	assert_int_equal(history_open(name, VOCABULARY, N_VOCAB, max_tokens, &s), 0);
	return s;
}

/* Answer @i: its tokens follow from its number, which is the first. */
static size_t answer(uint32_t i, int32_t *ids)
{
	size_t n = 1 + i * 7 % MAX_ANSWER;

	for (size_t t = 0; t < n; t++)
		ids[t] = (int32_t)((i + t * 13) % N_VOCAB);
	return n;
}

static int store_answer(const struct history_store *s, uint32_t i)
{
	int32_t ids[MAX_ANSWER];

	return history_append(s, ids, answer(i, ids));
}

/* The numbers of a store's answers. */
struct seen {
	uint32_t numbers[2000], n;
	uint64_t tokens;
};

static int see(void *ud, const int32_t *ids, size_t n)
{
	struct seen *seen = ud;
	int32_t want[MAX_ANSWER];

	assert_int_equal(answer((uint32_t)ids[0], want), n);
	assert_memory_equal(ids, want, n * sizeof(*ids));
	seen->numbers[seen->n++] = (uint32_t)ids[0];
	seen->tokens += n;
	return 0;
}

static struct seen read_store(const struct history_store *s)
{
	struct seen seen = { .n = 0 };
	int err = history_read(s, see, &seen);

	if (err)
		fail_msg("%s", llm_error());
	return seen;
}

/* Answers @first and later ones, @n of them, and no others. */
static void check_answers(const struct history_store *s, uint32_t first, uint32_t n)
{
	struct seen seen = read_store(s);

	assert_int_equal(seen.n, n);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(seen.numbers[i], first + i);
}

static void check_refused(const struct history_store *s, int err, const char *why)
{
	struct seen seen = { .n = 0 };

	assert_int_equal(history_read(s, see, &seen), err);
	assert_non_null(strstr(llm_error(), s->path));
	assert_non_null(strstr(llm_error(), why));
	assert_int_equal(seen.n, 0);
	assert_int_equal(history_append(s, (const int32_t[]){ 1 }, 1), err);
	assert_non_null(strstr(llm_error(), why));
}

static size_t read_file(uint8_t *bytes, size_t max)
{
	FILE *f = fopen(path, "rb");
	size_t n = fread(bytes, 1, max, f);

	fclose(f);
	return n;
}

static void write_file(const uint8_t *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");

	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static void answers_are_read_in_their_order(void **state)
{
	struct history_store s = store_of(path, HISTORY_TOKENS);

	check_answers(&s, 0, 0);
	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(store_answer(&s, i), 0);
		check_answers(&s, 0, i + 1);
	}
	assert_int_equal(history_append(&s, NULL, 0), 0);
	check_answers(&s, 0, 100);
	assert_int_equal(unlink(path), 0);
	check_answers(&s, 0, 0);
	assert_int_equal(store_answer(&s, 3), 0);
	check_answers(&s, 3, 1);
}

static int stop_at_two(void *ud, const int32_t *ids, size_t n)
{
	return ++*(int *)ud == 2 ? 77 : 0;
}

static void a_reader_can_stop(void **state)
{
	struct history_store s = store_of(path, HISTORY_TOKENS);
	int calls = 0;

	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(store_answer(&s, i), 0);
	assert_int_equal(history_read(&s, stop_at_two, &calls), 77);
	assert_int_equal(calls, 2);
}

static void the_oldest_answers_go_at_the_bound(void **state)
{
	random_begin("bound");
	for (int round = 0; round < 20; round++) {
		uint32_t bound = random_in(MAX_ANSWER, 400);
		struct history_store s = store_of(path, bound);
		struct stat st;

		for (uint32_t i = 0; i < 100; i++) {
			struct seen seen;

			assert_int_equal(store_answer(&s, i), 0);
			seen = read_store(&s);
			assert_in_range(seen.tokens, 1, bound);
			assert_int_equal(seen.numbers[seen.n - 1], i);
			assert_int_equal(seen.numbers[0], i + 1 - seen.n);
		}
		assert_int_equal(stat(path, &st), 0);
		assert_in_range(st.st_size, 1, 32 + 20 * bound);
		assert_int_equal(st.st_mode & 0777, 0600);
		unlink(path);
	}
}

static int count(void *ud, const int32_t *ids, size_t n)
{
	*(size_t *)ud += n;
	return 0;
}

static void an_answer_beyond_the_bound_is_cut(void **state)
{
	struct history_store s = store_of(path, 10);
	int32_t ids[MAX_ANSWER] = { 0 };
	size_t tokens = 0;

	assert_int_equal(history_append(&s, ids, MAX_ANSWER), 0);
	assert_int_equal(history_read(&s, count, &tokens), 0);
	assert_int_equal(tokens, 10);
	/* A smaller bound later: the store shrinks to it. */
	s.max_tokens = 4;
	assert_int_equal(history_append(&s, ids, 3), 0);
	tokens = 0;
	assert_int_equal(history_read(&s, count, &tokens), 0);
	assert_int_equal(tokens, 3);
}

static void an_unfinished_answer_is_passed_over(void **state)
{
	struct history_store s = store_of(path, HISTORY_TOKENS);
	uint8_t bytes[4096];
	size_t ends[6] = { 32 }, n;

	for (uint32_t i = 0; i < 5; i++) {
		struct stat st;

		assert_int_equal(store_answer(&s, i), 0);
		assert_int_equal(stat(path, &st), 0);
		ends[i + 1] = (size_t)st.st_size;
	}
	n = read_file(bytes, sizeof(bytes));
	for (size_t cut = ends[0]; cut <= n; cut++) {
		uint32_t whole = 0;

		while (whole < 5 && ends[whole + 1] <= cut)
			whole++;
		write_file(bytes, cut);
		check_answers(&s, 0, whole);
		assert_int_equal(store_answer(&s, whole), 0);
		check_answers(&s, 0, whole + 1);
	}
	for (size_t cut = 1; cut < ends[0]; cut++) {
		write_file(bytes, cut);
		check_refused(&s, -EINVAL, "is another file, no history store");
	}
	write_file(bytes, 0);
	check_answers(&s, 0, 0);
	assert_int_equal(store_answer(&s, 0), 0);
	check_answers(&s, 0, 1);
}

static void every_changed_byte_is_found(void **state)
{
	struct history_store s = store_of(path, HISTORY_TOKENS);
	uint8_t bytes[4096], after[4096];
	size_t n;

	random_begin("changed");
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(store_answer(&s, i), 0);
	n = read_file(bytes, sizeof(bytes));
	for (size_t at = 0; at < n; at++) {
		uint8_t old = bytes[at];

		bytes[at] ^= (uint8_t)random_in(1, 255);
		write_file(bytes, n);
		check_refused(&s, -EINVAL, "histor");
		assert_int_equal(read_file(after, sizeof(after)), n);
		assert_memory_equal(after, bytes, n);
		bytes[at] = old;
	}
}

static void other_vocabularies_are_refused(void **state)
{
	struct history_store s = store_of(path, HISTORY_TOKENS), other = s;
	int32_t ids[] = { 1, N_VOCAB }, negative[] = { -1 };

	assert_int_equal(store_answer(&s, 1), 0);
	other.vocabulary++;
	check_refused(&other, -EINVAL, "another vocabulary");
	other = s;
	other.n_vocab++;
	check_refused(&other, -EINVAL, "another vocabulary");
	assert_int_equal(history_append(&s, ids, 2), -EINVAL);
	assert_non_null(strstr(llm_error(), path));
	assert_int_equal(history_append(&s, negative, 1), -EINVAL);
	check_answers(&s, 1, 1);
}

/* A file whose checksums are right, but which says that its vocabulary is smaller. */
static void ids_beyond_the_vocabulary_are_refused(void **state)
{
	struct history_store s = store_of(path, HISTORY_TOKENS);
	struct llm_checksum c;
	uint8_t bytes[4096];
	uint64_t sum;
	size_t n;

	assert_int_equal(store_answer(&s, 5), 0);
	n = read_file(bytes, sizeof(bytes));
	s.n_vocab = 6;
	memcpy(bytes + 12, &s.n_vocab, 4);
	llm_checksum_begin(&c);
	llm_checksum_add(&c, bytes, 24);
	sum = llm_checksum_end(&c);
	memcpy(bytes + 24, &sum, 8);
	write_file(bytes, n);
	check_refused(&s, -EINVAL, "the answer at byte 32");
}

static void what_is_no_store_is_refused(void **state)
{
	struct history_store s = store_of(path, HISTORY_TOKENS);

	write_file((const uint8_t *)"some notes of mine, which are longer than a header\n", 51);
	check_refused(&s, -EINVAL, "is another file, no history store");
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	check_refused(&s, -EINVAL, "is no regular file");
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	check_refused(&s, -EISDIR, "is a folder: name a file in it");
	rmdir(path);
	s = store_of("/nowhere/at/all", HISTORY_TOKENS);
	check_answers(&s, 0, 0);
	assert_int_equal(store_answer(&s, 1), -ENOENT);
	assert_non_null(strstr(llm_error(), "/nowhere/at/all: cannot make it: its folder does"));
}

static void names_are_files_of_the_state_folder(void **state)
{
	char want[256], name[5000];
	struct history_store s;

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = 0;
	setenv("XDG_STATE_HOME", folder, 1);
	s = store_of("mail", HISTORY_TOKENS);
	snprintf(want, sizeof(want), "%s/vnpu/mail.history", folder);
	assert_string_equal(s.path, want);
	assert_int_equal(store_answer(&s, 1), 0);
	check_answers(&s, 1, 1);
	assert_int_equal(unlink(s.path), 0);
	setenv("XDG_STATE_HOME", "relative", 1);
	setenv("HOME", folder, 1);
	s = store_of("mail", HISTORY_TOKENS);
	snprintf(want, sizeof(want), "%s/.local/state/vnpu/mail.history", folder);
	assert_string_equal(s.path, want);
	unsetenv("HOME");
	assert_int_equal(history_open("mail", 1, 1, 1, &s), -ENOENT);
	assert_int_equal(history_open("", 1, 1, 1, &s), -EINVAL);
	assert_int_equal(history_open("./mail", 1, 0, 1, &s), -EINVAL);
	assert_int_equal(history_open("./mail", 1, 1, 0, &s), -EINVAL);
	name[0] = '/';
	assert_int_equal(history_open(name, 1, 1, 1, &s), -ENAMETOOLONG);
}

/* Stores answers until the process is killed, or while there are numbers for them; says after each
 * that it is there. */
static void store_until_killed(const struct history_store *s, uint32_t first, int says)
{
	for (uint32_t i = first; i < N_VOCAB; i++)
		if (store_answer(s, i) || write(says, &i, sizeof(i)) != sizeof(i))
			_exit(1);
	for (;;)
		pause();
}

static void killed_writers_lose_nothing(void **state)
{
	struct history_store s = store_of(path, 300);
	uint32_t next = 0;

	random_begin("killed");
	for (int round = 0; round < 30 && next < N_VOCAB - 300; round++) {
		struct seen seen;
		int says[2];
		pid_t pid;
		uint32_t said;

		assert_int_equal(pipe(says), 0);
		pid = fork();
		if (!pid)
			store_until_killed(&s, next, says[1]);
		close(says[1]);
		usleep(random_in(0, 20000));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		while (read(says[0], &said, sizeof(said)) == sizeof(said))
			next = said + 1;
		close(says[0]);
		seen = read_store(&s);
		/* The killed writer may have stored one of which it did not tell. */
		assert_in_range(seen.n ? seen.numbers[seen.n - 1] + 1 : 0, next, next + 1);
		next = seen.n ? seen.numbers[seen.n - 1] + 1 : 0;
	}
}

#define WRITERS 4
#define EACH 40

static void several_processes_store_at_once(void **state)
{
	for (int bounded = 0; bounded < 2; bounded++) {
		struct history_store s = store_of(path, bounded ? 200 : HISTORY_TOKENS);
		pid_t pids[WRITERS];
		struct seen seen;

		for (uint32_t w = 0; w < WRITERS; w++) {
			pids[w] = fork();
			for (uint32_t i = 0; !pids[w] && i < EACH; i++)
				if (store_answer(&s, w * EACH + i))
					_exit(1);
			if (!pids[w])
				_exit(0);
		}
		for (uint32_t w = 0; w < WRITERS; w++) {
			int status;

			waitpid(pids[w], &status, 0);
			assert_int_equal(status, 0);
		}
		seen = read_store(&s);
		assert_in_range(seen.n, bounded ? 1 : WRITERS * EACH, WRITERS * EACH);
		/* Each process's answers are in its order, none twice. */
		for (uint32_t i = 0; i < seen.n; i++)
			for (uint32_t j = 0; j < i; j++)
				assert_true(seen.numbers[i] / EACH != seen.numbers[j] / EACH ||
					    seen.numbers[i] > seen.numbers[j]);
		unlink(path);
	}
}

/* A file may not become longer than @bytes, as on a disk that is full. */
static void limit_files(rlim_t bytes)
{
	const struct rlimit limit = { bytes, RLIM_INFINITY };

	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_full_disk_leaves_the_store(void **state)
{
	struct history_store s = store_of(path, HISTORY_TOKENS);
	struct stat st, after;

	signal(SIGXFSZ, SIG_IGN);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(store_answer(&s, i), 0);
	assert_int_equal(stat(path, &st), 0);
	for (rlim_t more = 0; more < 60; more += 4) {
		limit_files((rlim_t)st.st_size + more);
		assert_int_equal(store_answer(&s, 5), -EFBIG);
		limit_files(RLIM_INFINITY);
		assert_non_null(strstr(llm_error(), path));
		assert_int_equal(stat(path, &after), 0);
		assert_int_equal(after.st_size, st.st_size);
		check_answers(&s, 0, 5);
	}
	/* Likewise where the file is written anew. */
	s.max_tokens = 60;
	limit_files(40);
	assert_int_equal(store_answer(&s, 5), -EFBIG);
	limit_files(RLIM_INFINITY);
	check_answers(&s, 0, 5);
	assert_int_equal(store_answer(&s, 5), 0);
}

static int setup(void **state)
{
	strcpy(folder, "/tmp/test_history-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/store", folder);
	return 0;
}

static int teardown(void **state)
{
	char name[128];

	unlink(path);
	snprintf(name, sizeof(name), "%s/vnpu", folder);
	rmdir(name);
	return rmdir(folder);
}

/* Writers may be killed after a file beside the store has a name, before it is renamed. */
static int teardown_killed(void **state)
{
	char name[128];
	glob_t found;

	snprintf(name, sizeof(name), "%s/.vnpu-*.part", folder);
	if (!glob(name, 0, NULL, &found)) {
		for (size_t i = 0; i < found.gl_pathc; i++)
			unlink(found.gl_pathv[i]);
		globfree(&found);
	}
	return teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(answers_are_read_in_their_order, setup, teardown),
		cmocka_unit_test_setup_teardown(a_reader_can_stop, setup, teardown),
		cmocka_unit_test_setup_teardown(the_oldest_answers_go_at_the_bound, setup,
						teardown),
		cmocka_unit_test_setup_teardown(an_answer_beyond_the_bound_is_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(an_unfinished_answer_is_passed_over, setup,
						teardown),
		cmocka_unit_test_setup_teardown(every_changed_byte_is_found, setup, teardown),
		cmocka_unit_test_setup_teardown(other_vocabularies_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(ids_beyond_the_vocabulary_are_refused, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_is_no_store_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(names_are_files_of_the_state_folder, setup,
						teardown),
		cmocka_unit_test_setup_teardown(killed_writers_lose_nothing, setup,
						teardown_killed),
		cmocka_unit_test_setup_teardown(several_processes_store_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(a_full_disk_leaves_the_store, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
