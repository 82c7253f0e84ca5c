// SPDX-License-Identifier: MIT
/*
 * Models in several files: opened as what they were split from; files that are missing, damaged,
 * or of another model are refused with their names. TEST_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "gguf_shards.h"
#include "gguf_writer.h"
#include "tiny_random.h"

#define MODEL "share/models/docs6m/docs6m-q8_0.gguf"

static char err[512];

static struct gguf_file *open_whole(void)
{
	struct gguf_file *file;

	if (gguf_open(MODEL, &file, err, sizeof(err)))
		fail_msg("%s", err);
	return file;
}

static void assert_same_tensors(const struct gguf_file *a, const struct gguf_file *b)
{
	assert_int_equal(gguf_n_tensors(a), gguf_n_tensors(b));
	for (size_t i = 0; i < gguf_n_tensors(a); i++) {
		const struct gguf_tensor *x = gguf_tensor(a, i), *y = gguf_tensor(b, i);
		uint8_t bytes[100];
		uint64_t at = any(0, (unsigned int)(x->bytes - sizeof(bytes)));

		assert_string_equal(x->name, y->name);
		assert_int_equal(x->type, y->type);
		assert_int_equal(x->n_dims, y->n_dims);
		assert_memory_equal(x->dims, y->dims, sizeof(x->dims));
		assert_int_equal(x->bytes, y->bytes);
		assert_memory_equal(x->data, y->data, x->bytes);
		assert_ptr_equal(gguf_find_tensor(a, x->name), x);
		assert_int_equal(gguf_tensor_read(a, x, at, bytes, sizeof(bytes)), 0);
		assert_memory_equal(bytes, (const uint8_t *)y->data + at, sizeof(bytes));
		gguf_tensor_ahead(a, x);
		gguf_tensor_done(a, x);
	}
}

static void assert_same_metadata(const struct gguf_file *a, const struct gguf_file *b)
{
	const struct gguf_file *files[2] = { a, b };
	struct gguf_writer *w[2];
	const void *data[2];
	size_t bytes[2];

	for (int i = 0; i < 2; i++) {
		w[i] = gguf_writer_create();
		gguf_writer_copy(w[i], files[i], NULL, 0);
		assert_int_equal(gguf_writer_data(w[i], &data[i], &bytes[i]), 0);
	}
	assert_int_equal(bytes[0], bytes[1]);
	assert_memory_equal(data[0], data[1], bytes[0]);
	gguf_writer_free(w[0]);
	gguf_writer_free(w[1]);
}

static void shards_are_opened_as_the_whole_file(void **state)
{
	struct gguf_file *whole = open_whole(), *file;
	struct shards s;

	for (unsigned int n = 2; n <= MAX_SHARDS; n++) {
		shards_make(&s, MODEL, n, &seed_state);
		if (gguf_open(s.path[0], &file, err, sizeof(err)))
			fail_msg("%s", err);
		assert_int_equal(gguf_n_shards(file), n);
		assert_same_tensors(file, whole);
		assert_same_metadata(file, whole);
		gguf_close(file);
		shards_free(&s);
	}
	assert_int_equal(gguf_n_shards(whole), 1);
	gguf_close(whole);
}

/* As gguf-split --merge leaves a file, or splits one that is small. */
static void a_model_of_no_or_one_shard_is_a_whole_file(void **state)
{
	struct gguf_file *whole = open_whole(), *file;
	struct shards s;

	for (uint16_t count = 0; count < 2; count++) {
		struct shard_keys k = { 0, count, (int32_t)gguf_n_tensors(whole) };
		char other[96];

		shards_make(&s, MODEL, 1, &seed_state);
		shard_write(&s, whole, 0, &k);
		snprintf(other, sizeof(other), "%s/any.gguf", s.folder);
		assert_int_equal(rename(s.path[0], other), 0);
		if (gguf_open(other, &file, err, sizeof(err)))
			fail_msg("%s", err);
		assert_int_equal(gguf_n_shards(file), 1);
		assert_same_tensors(file, whole);
		assert_same_metadata(file, whole);
		gguf_close(file);
		shards_free(&s);
	}
	gguf_close(whole);
}

/* One line, which begins with @path and contains @words. */
static void assert_refused(const char *open, int ret, const char *path, const char *words)
{
	struct gguf_file *file;

	err[0] = 0;
	assert_int_equal(gguf_open(open, &file, err, sizeof(err)), ret);
	assert_null(file);
	if (strncmp(err, path, strlen(path)) || !strstr(err, words) || strchr(err, '\n'))
		fail_msg("'%s' does not say '%s' of %s in one line", err, words, path);
}

static void a_missing_shard_is_named(void **state)
{
	struct shards s;

	shards_make(&s, MODEL, 3, &seed_state);
	unlink(s.path[2]);
	assert_refused(s.path[0], -ENOENT, s.path[2], "is missing: shard 3 of 3");
	shards_free(&s);
}

static void a_later_shard_names_the_first(void **state)
{
	char first[128], other[96];
	struct shards s;

	shards_make(&s, MODEL, 3, &seed_state);
	snprintf(first, sizeof(first), "is shard 2 of 3 of a model; open the first, %s", s.path[0]);
	assert_refused(s.path[1], -EINVAL, s.path[1], first);
	/* A name that says nothing. */
	snprintf(other, sizeof(other), "%s/x.gguf", s.folder);
	assert_int_equal(rename(s.path[1], other), 0);
	assert_refused(other, -EINVAL, other, "is shard 2 of 3 of a model; open the first");
	shards_free(&s);
}

static void the_first_shard_needs_its_name(void **state)
{
	char other[96];
	struct shards s;

	shards_make(&s, MODEL, 3, &seed_state);
	snprintf(other, sizeof(other), "%s/m-1-of-3.gguf", s.folder);
	assert_int_equal(rename(s.path[0], other), 0);
	assert_refused(other, -EINVAL, other, "its name must end with -00001-of-00003.gguf");
	shards_free(&s);
}

static void shards_of_other_models_are_refused(void **state)
{
	static const struct {
		struct shard_keys k;
		const char *words;
	} cases[] = {
		{ { 2, 3, 0 }, "split.no is 2 and split.count 3" },
		{ { 1, 4, 0 }, "split.no is 1 and split.count 4" },
		{ { 0, 3, 0 }, "split.no is 0 and split.count 3" },
		{ { 1, 1, 0 }, "is not shard 2 of 3 as its name says" },
		{ { 3, 3, 0 }, "which is no shard of a model" },
	};
	struct gguf_file *whole = open_whole();
	struct shards s;

	shards_make(&s, MODEL, 3, &seed_state);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		shard_write(&s, whole, 1, &cases[i].k);
		assert_refused(s.path[0], -EINVAL, s.path[1], cases[i].words);
	}
	gguf_close(whole);
	shards_free(&s);
}

static void tensors_must_be_there_once(void **state)
{
	struct gguf_file *whole = open_whole();
	struct shard_keys k;
	struct shards s;

	shards_make(&s, MODEL, 3, &seed_state);
	/* One of the last shard's is the first one's again. */
	s.first[1] = 1;
	s.first[2] = s.first[3] - 1;
	for (unsigned int i = 0; i < 3; i++) {
		k = shard_says(&s, i);
		shard_write(&s, whole, i, &k);
	}
	k = shard_says(&s, 2);
	s.first[2] = 0;
	s.first[3] = 1;
	shard_write(&s, whole, 2, &k);
	assert_refused(s.path[0], -EINVAL, s.path[0], "occurs twice");
	/* And one more than there should be. */
	s.first[3] = 2;
	shard_write(&s, whole, 2, &k);
	assert_refused(s.path[0], -EINVAL, s.path[0],
		       "the shards have 57 tensors, and split.tensors.count is 56");
	gguf_close(whole);
	shards_free(&s);
}

static void a_damaged_shard_is_named(void **state)
{
	struct gguf_file *whole = open_whole();
	struct shards s;

	do {
		shards_make(&s, MODEL, 3, &seed_state);
		if (s.first[3] == s.first[2])
			shards_free(&s);
	} while (s.first[3] == s.first[2]);
	assert_int_equal(truncate(s.path[2], 200), 0);
	assert_refused(s.path[0], -EINVAL, s.path[2], "");
	shard_write(&s, whole, 2, &(struct shard_keys){ 2, 3, (int32_t)s.first[3] });
	assert_int_equal(truncate(s.path[2], (off_t)gguf_tensor(whole, s.first[3] - 1)->bytes), 0);
	assert_refused(s.path[0], -EINVAL, s.path[2], "");
	file_write(s.path[2], "GGML", 4);
	assert_refused(s.path[0], -EINVAL, s.path[2], "not a GGUF file");
	file_write(s.path[2], "", 0);
	assert_refused(s.path[0], -EINVAL, s.path[2], "it is empty");
	gguf_close(whole);
	shards_free(&s);
}

/* A tiny file of three tensors whose bytes are their numbers. */
static void put_small_file(struct image *m)
{
	static const char *const names[] = { "a", "b", "c" };
	uint64_t dims[1] = { 40 };

	image_header(m, 3, 1);
	image_key(m, "general.architecture", 8);
	image_string(m, "none");
	for (uint64_t i = 0; i < 3; i++)
		image_tensor(m, names[i], 1, dims, GGUF_F32, 160 * i);
	image_pad(m, 32);
	for (int i = 0; i < 480; i++)
		image_put(m, &(uint8_t){ (uint8_t)i }, 1);
}

/* Puts a boundary value over the value of a key, or a random byte anywhere. */
static void mutate(struct image *m)
{
	static const char *const keys[] = { "split.no", "split.count", "split.tensors.count" };
	static const uint32_t values[] = { 0, 1, 2, 3, 4, 0x7fff, 0xffff, UINT32_MAX };
	const char *key = keys[any(0, 2)];
	uint8_t *at = memmem(m->data, m->bytes, key, strlen(key));
	uint32_t v = values[any(0, 7)];

	assert_non_null(at);
	if (any(0, 1))
		m->data[any(0, (unsigned int)m->bytes - 1)] = (uint8_t)any(0, 255);
	else if (any(0, 3))
		memcpy(at + strlen(key) + 4, &v, strlen(key) > 12 ? 4 : 2);
	else
		at[strlen(key)] = (uint8_t)any(0, 13); /* its type */
}

/* The last byte in the mapping and in the file. */
static void use(const struct gguf_file *file, const struct gguf_tensor *t)
{
	uint8_t byte;

	assert_int_equal(gguf_tensor_read(file, t, t->bytes - 1, &byte, 1), 0);
	assert_int_equal(((const uint8_t *)t->data)[t->bytes - 1], byte);
}

static void mutated_shards_do_no_harm(void **state)
{
	unsigned int accepted = 0, rounds = 2000;
	struct image m = { 0 }, shard = { 0 };
	struct gguf_file *whole, *file;
	struct shards s;
	char path[64];

	put_small_file(&m);
	strcpy(path, "/tmp/test_shards_whole-XXXXXX");
	close(mkstemp(path));
	file_write(path, m.data, m.bytes);
	shards_make(&s, path, 3, &seed_state);
	assert_int_equal(gguf_open(path, &whole, err, sizeof(err)), 0);
	for (unsigned int round = 0; round < rounds; round++) {
		unsigned int i = any(0, 2);
		struct shard_keys k = shard_says(&s, i);

		shard_make(&shard, whole, !i, &k, s.first[i], s.first[i + 1]);
		mutate(&shard);
		file_write(s.path[i], shard.data, shard.bytes);
		err[0] = 0;
		if (!gguf_open(s.path[0], &file, err, sizeof(err))) {
			accepted++;
			for (size_t t = 0; t < gguf_n_tensors(file); t++)
				use(file, gguf_tensor(file, t));
			gguf_close(file);
		} else {
			assert_true(err[0] && !file);
		}
		shard_write(&s, whole, i, &k);
	}
	print_message("%u of %u mutated models were accepted\n", accepted, rounds);
	gguf_close(whole);
	shards_free(&s);
	unlink(path);
	free(m.data);
	free(shard.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shards_are_opened_as_the_whole_file),
		cmocka_unit_test(a_model_of_no_or_one_shard_is_a_whole_file),
		cmocka_unit_test(a_missing_shard_is_named),
		cmocka_unit_test(a_later_shard_names_the_first),
		cmocka_unit_test(the_first_shard_needs_its_name),
		cmocka_unit_test(shards_of_other_models_are_refused),
		cmocka_unit_test(tensors_must_be_there_once),
		cmocka_unit_test(a_damaged_shard_is_named),
		cmocka_unit_test(mutated_shards_do_no_harm),
	};

	return cmocka_run_group_tests(tests, tiny_setup, NULL);
}
