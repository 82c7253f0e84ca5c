/* SPDX-License-Identifier: MIT */
/*
 * The memory of a loaded model: its peak, and whether huge pages are behind the weights. The model
 * has random weights and embeddings that are two thirds of them, so that one copy too many shows.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "llm.h"
#include "llm_quantize.h"

#define DIM 2048
#define KV_DIM 512
#define FFN 5632
#define VOCAB 49152
#define PROMPT 64
#define TOKENS 8
#define HUGE (2ul << 20)

static char folder[64];

static const char *in_folder(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static int make_folder(void **state)
{
	FILE *f;

	snprintf(folder, sizeof(folder), "%s/vnpu-memory-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(folder))
		return -1;
	f = fopen(in_folder("shape.conf"), "w");
	fprintf(f,
		"[model]\nlayers = 1\ndim = %d\nheads = 32\nkv_heads = 8\nhead_dim = 64\n"
		"ffn = %d\nvocab = %d\nactivation = silu\ngated = yes\ntied = yes\nqkv_bias = no\n",
		DIM, FFN, VOCAB);
	return fclose(f);
}

static int remove_folder(void **state)
{
	unlink(in_folder("shape.conf"));
	unlink(in_folder("m.gguf"));
	unlink(in_folder("packed.gguf"));
	return rmdir(folder);
}

/* Writes m.gguf of the type. */
static void make_model(enum llm_quantize_type type)
{
	char out[128], shape[128];
	struct llm_quantize_options o = { .shape = shape, .out = out, .type = type, .seed = 7 };

	snprintf(out, sizeof(out), "%s", in_folder("m.gguf"));
	snprintf(shape, sizeof(shape), "%s", in_folder("shape.conf"));
	if (llm_quantize(&o, NULL))
		fail_msg("%s", llm_error());
}

/* A line of /proc/self/status in bytes. */
static size_t status_bytes(const char *name)
{
	FILE *f = fopen("/proc/self/status", "r");
	size_t kib = 0, len = strlen(name);
	char line[256];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, name, len) && line[len] == ':')
			kib = strtoul(line + len + 1, NULL, 10);
	}
	fclose(f);
	return kib << 10;
}

/* The process's memory once the heap has given back what it does not need. */
static size_t resident(void)
{
	malloc_trim(0);
	return status_bytes("VmRSS");
}

/* False if the kernel refuses it, or if the peak has the memory of a sanitizer in it. */
static bool reset_peak(void)
{
#ifdef __SANITIZE_ADDRESS__
	return false;
#endif
	int fd = open("/proc/self/clear_refs", O_WRONLY);
	bool ok = fd >= 0 && write(fd, "5", 1) == 1;

	if (fd >= 0)
		close(fd);
	return ok;
}

static struct llm_engine *open_engine(const char *name, enum llm_weights weights)
{
	struct llm_options o = { .model = in_folder(name),
				 .choices = { .placement = LLM_PLACE_NPU, .weights = weights },
				 .device = { .transport = NPU_TRANSPORT_SIM } };
	struct llm_engine *engine;

	if (llm_engine_open(&o, &engine))
		fail_msg("%s", llm_error());
	return engine;
}

/* Evaluates a prompt and some tokens. */
static void evaluate(struct llm_session *s)
{
	int32_t ids[PROMPT];

	for (int i = 0; i < PROMPT; i++)
		ids[i] = (i * 7919 + 300) % VOCAB;
	if (llm_session_eval(s, ids, PROMPT))
		fail_msg("%s", llm_error());
	for (int i = 0; i < TOKENS; i++) {
		ids[0] = (i * 104729 + 5000) % VOCAB;
		if (llm_session_eval(s, ids, 1))
			fail_msg("%s", llm_error());
	}
}

/*
 * What loading the model and evaluating may take: the file, or the weights if they have other types
 * than the file; KV cache; activations; and 5 % of all that.
 */
static void check_peak(const char *name, enum llm_weights weights)
{
	const size_t row = 3 * DIM + 2 * DIM + 2 * KV_DIM + 2 * FFN;
	size_t before = resident(), peak, wanted;
	struct llm_session_stats stats;
	struct llm_engine *engine;
	struct llm_session *s;
	struct stat st;

	if (!reset_peak())
		skip();
	engine = open_engine(name, weights);
	assert_int_equal(llm_session_create(engine, PROMPT + TOKENS, &s), 0);
	evaluate(s);
	peak = status_bytes("VmHWM") - before;
	llm_session_stats(s, &stats);
	assert_int_equal(stat(in_folder(name), &st), 0);
	wanted = (size_t)st.st_size;
	if (llm_engine_info(engine)->weight_bytes > wanted)
		wanted = llm_engine_info(engine)->weight_bytes;
	wanted += stats.kv_bytes + (PROMPT * row + VOCAB) * sizeof(float);
	print_message("%s, weights %d: %.1f MiB of %.1f\n", name, weights, (double)peak / 1048576,
		      (double)wanted / 1048576);
	assert_true(peak <= wanted + wanted / 20);
	llm_session_free(s);
	llm_engine_close(engine);
}

static void test_q8_0_is_in_memory_once(void **state)
{
	make_model(LLM_QUANTIZE_Q8_0);
	check_peak("m.gguf", LLM_WEIGHTS_W8A8);
}

static void test_q4_0_is_in_memory_once(void **state)
{
	make_model(LLM_QUANTIZE_Q4_0);
	check_peak("m.gguf", LLM_WEIGHTS_W4A8);
	check_peak("m.gguf", LLM_WEIGHTS_W8A8);
}

static void test_a_larger_file_does_not_stay_in_memory(void **state)
{
	make_model(LLM_QUANTIZE_F16);
	check_peak("m.gguf", LLM_WEIGHTS_W8A8);
}

static void test_a_packed_file_is_in_memory_once(void **state)
{
	char in[128], out[128];
	struct llm_quantize_options o = { .in = in, .out = out, .type = LLM_QUANTIZE_W8A8 };

	make_model(LLM_QUANTIZE_Q8_0);
	snprintf(in, sizeof(in), "%s", in_folder("m.gguf"));
	snprintf(out, sizeof(out), "%s", in_folder("packed.gguf"));
	if (llm_quantize(&o, NULL))
		fail_msg("%s", llm_error());
	check_peak("packed.gguf", LLM_WEIGHTS_W8A8);
}

/* ---- cold starts ---- */

/* Drops the file's pages from the page cache, or brings all of them into it. */
static void cache(const char *path, bool dropped)
{
	static char buf[1 << 16];
	int fd = open(path, O_RDONLY);

	assert_true(fd >= 0);
	assert_int_equal(fsync(fd), 0);
	if (dropped)
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	else
		while (read(fd, buf, sizeof(buf)) > 0)
			;
	close(fd);
}

/*
 * The process's peak is what the start reports of weights, KV cache, activations and ring: within
 * 2 % of it and 4 MiB, for the tokenizer, threads' stacks and programs.
 */
static void check_cold_peak(const char *name, bool dropped)
{
	struct llm_options o = { .model = in_folder(name),
				 .choices = { .placement = LLM_PLACE_NPU, .start = LLM_START_COLD },
				 .threads = 2,
				 .device = { .transport = NPU_TRANSPORT_SIM, .threads = 2 } };
	size_t before = resident(), peak, sum;
	struct llm_engine *engine;
	struct llm_cold_stats c;
	struct llm_session *s;

	cache(o.model, dropped);
	if (!reset_peak())
		skip();
	if (llm_engine_open(&o, &engine))
		fail_msg("%s", llm_error());
	assert_int_equal(llm_session_create(engine, PROMPT + TOKENS, &s), 0);
	evaluate(s);
	peak = status_bytes("VmHWM") - before;
	assert_true(llm_session_cold(s, &c));
	sum = c.weights.peak + c.kv.peak + c.activations.peak + c.ring.peak;
	print_message(
		"%s, %s: %.1f MiB; weights %.1f, KV %.1f, activations %.1f, ring %.1f of %.1f, "
		"sum %.1f\n",
		name, dropped ? "dropped" : "cached", (double)peak / 1048576,
		(double)c.weights.peak / 1048576, (double)c.kv.peak / 1048576,
		(double)c.activations.peak / 1048576, (double)c.ring.peak / 1048576,
		(double)c.ring.bound / 1048576, (double)sum / 1048576);
	assert_in_range(peak, sum - sum / 50, sum + sum / 50 + (4 << 20));
	llm_session_free(s);
	llm_engine_close(engine);
}

static void test_a_cold_start_takes_what_it_reports(void **state)
{
	char in[128], out[128];
	struct llm_quantize_options o = { .in = in, .out = out, .type = LLM_QUANTIZE_W8A8 };

	make_model(LLM_QUANTIZE_Q8_0);
	check_cold_peak("m.gguf", true);
	check_cold_peak("m.gguf", false);
	snprintf(in, sizeof(in), "%s", in_folder("m.gguf"));
	snprintf(out, sizeof(out), "%s", in_folder("packed.gguf"));
	if (llm_quantize(&o, NULL))
		fail_msg("%s", llm_error());
	check_cold_peak("packed.gguf", true);
	check_cold_peak("packed.gguf", false);
}

static void test_a_file_that_has_become_shorter_is_an_error(void **state)
{
	struct llm_engine *engine;
	struct llm_session *s;
	int32_t id = VOCAB - 1;

	make_model(LLM_QUANTIZE_Q4_0);
	engine = open_engine("m.gguf", LLM_WEIGHTS_W4A8);
	assert_int_equal(llm_session_create(engine, 8, &s), 0);
	assert_int_equal(llm_session_eval(s, &id, 1), 0);
	assert_int_equal(truncate(in_folder("m.gguf"), 1 << 20), 0);
	assert_int_equal(llm_session_eval(s, &id, 1), -EIO);
	assert_non_null(strstr(llm_error(), "token_embd.weight: the row of token 49151"));
	llm_session_free(s);
	llm_engine_close(engine);
}

/* ---- huge pages ------------------------------------------------------------------------------ */

/* Whether this kernel gives a file in memory huge pages on request (MADV_COLLAPSE, Linux 6.1). */
static bool kernel_has_huge_pages(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	uint8_t *room = mmap(NULL, 2 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *at;
	bool ok;

	assert_true(fd >= 0 && room != MAP_FAILED);
	assert_int_equal(ftruncate(fd, HUGE), 0);
	at = room + (-(uintptr_t)room & (HUGE - 1));
	at = mmap(at, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	at[0] = 1;
	ok = !madvise(at, HUGE, 25);
	munmap(room, 2 * HUGE);
	close(fd);
	return ok;
}

/* Bytes of the device's mappings that it only reads, and those of them in huge pages. */
static void weights_in_smaps(size_t *bytes, size_t *huge)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	bool weights = false;
	char line[512];
	size_t kib;

	assert_non_null(f);
	*bytes = *huge = 0;
	while (fgets(line, sizeof(line), f)) {
		if (strchr("0123456789abcdef", line[0]))
			weights = strstr(line, " r--s ") && strstr(line, "memfd:vnpu-sim");
		else if (weights && sscanf(line, "Rss: %zu", &kib) == 1)
			*bytes += kib << 10;
		else if (weights && sscanf(line, "ShmemPmdMapped: %zu", &kib) == 1)
			*huge += kib << 10;
	}
	fclose(f);
}

static void test_the_device_reads_weights_from_huge_pages(void **state)
{
	struct llm_engine *engine;
	struct llm_session *s;
	size_t bytes, huge;

	if (!kernel_has_huge_pages())
		skip();
	make_model(LLM_QUANTIZE_Q8_0);
	engine = open_engine("m.gguf", LLM_WEIGHTS_W8A8);
	assert_int_equal(llm_session_create(engine, PROMPT + TOKENS, &s), 0);
	evaluate(s);
	weights_in_smaps(&bytes, &huge);
	assert_true(bytes >= llm_engine_info(engine)->weight_bytes);
	/* The last part of a buffer is less than a huge page. */
	assert_true(huge >= bytes - 2 * HUGE);
	llm_session_free(s);
	llm_engine_close(engine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_q8_0_is_in_memory_once),
		cmocka_unit_test(test_q4_0_is_in_memory_once),
		cmocka_unit_test(test_a_larger_file_does_not_stay_in_memory),
		cmocka_unit_test(test_a_packed_file_is_in_memory_once),
		cmocka_unit_test(test_a_cold_start_takes_what_it_reports),
		cmocka_unit_test(test_a_file_that_has_become_shorter_is_an_error),
		cmocka_unit_test(test_the_device_reads_weights_from_huge_pages),
	};

	/*
	 * Blocks of this size are mappings of their own. glibc raises the bound with every block
	 * that is freed, and what a model takes would depend on the tests before it: the pages of
	 * a block from the heap are there already, used or not.
	 */
	mallopt(M_MMAP_THRESHOLD, 256 << 10);
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
