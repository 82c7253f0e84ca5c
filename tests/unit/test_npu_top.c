// SPDX-License-Identifier: MIT
/*
 * npu-top: what it reads from files like those of /sys and /proc, what it computes from two
 * readings, and the lines that it writes.
 *
 * The sources are included in this test, which also controls the time.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "tools/npu-top/fdinfo.c"
#define find_client find_read_client
#include "tools/npu-top/read.c"
#undef find_client
#include "tools/npu-top/sample.c"
#include "tools/npu-top/text.c"

static uint64_t now_ns;

int tool_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	return 1;
}

uint64_t tool_now_ns(void)
{
	return now_ns;
}

#define SECOND 1000000000ull

/* ---- files ---- */

static char root[64];

static void put(const char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put_link(const char *target, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The path of a new file; creates the folders above it. */
static void make_place(char path[PATH_MAX], const char *fmt, va_list ap)
{
	size_t n = strlen(root);

	strcpy(path, root);
	vsnprintf(path + n, PATH_MAX - n, fmt, ap);
	for (char *p = path + n + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(path, 0755);
		*p = '/';
	}
	unlink(path);
}

static void put(const char *text, const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list ap;
	FILE *f;

	va_start(ap, fmt);
	make_place(path, fmt, ap);
	va_end(ap);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void put_link(const char *target, const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	make_place(path, fmt, ap);
	va_end(ap);
	assert_int_equal(symlink(target, path), 0);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void take_away(const char *path)
{
	char whole[PATH_MAX];

	snprintf(whole, sizeof(whole), "%s%s", root, path);
	nftw(whole, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static int make_root(void **state)
{
	strcpy(root, "/tmp/test_npu_top-XXXXXX");
	now_ns = SECOND;
	if (!mkdtemp(root))
		return -1;
	put("", "/proc/version");
	return 0;
}

static int remove_root(void **state)
{
	take_away("");
	return 0;
}

static void put_device(const char *node, const char *busy_us)
{
	put("1048576\n", "/sys/class/accel/%s/device/npu_memory_utilization", node);
	put(busy_us, "/sys/class/accel/%s/device/npu_busy_time_us", node);
}

static void put_fd(int pid, int fd, const char *node, const char *fdinfo)
{
	char target[64];

	snprintf(target, sizeof(target), "/dev/accel/%s", node);
	put_link(target, "/proc/%d/fd/%d", pid, fd);
	put(fdinfo, "/proc/%d/fdinfo/%d", pid, fd);
}

/* A client of accel0 with one engine. */
static void put_client(int pid, int id, const char *comm, uint64_t busy_ns, unsigned int capacity)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "pos:\t0\nflags:\t02100002\ndrm-driver:\tvnpu\ndrm-client-id:\t%d\n"
		 "drm-engine-npu:\t%" PRIu64 " ns\n"
		 "drm-engine-capacity-npu:\t%u\ndrm-total-memory:\t8 KiB\n"
		 "drm-resident-memory:\t4 KiB\n",
		 id, busy_ns, capacity);
	put_fd(pid, 3, "accel0", text);
	put(comm, "/proc/%d/comm", pid);
}

static void sample(struct top *top)
{
	assert_int_equal(top_sample(top), 0);
}

/* ---- fdinfo ---- */

static void fdinfo_of_vnpu_is_understood(void **state)
{
	struct top_fdinfo info;

	assert_true(top_fdinfo_parse(
		"pos:\t0\nflags:\t02100002\nmnt_id:\t9\nino:\t7\ndrm-driver:\tvnpu\n"
		"drm-client-id:\t12\ndrm-engine-npu:\t123456789 ns\ndrm-engine-capacity-npu:\t2\n"
		"drm-total-memory:\t3 MiB\ndrm-shared-memory:\t0\ndrm-active-memory:\t0\n"
		"drm-resident-memory:\t20 KiB\ndrm-purgeable-memory:\t0\n",
		&info));
	assert_string_equal(info.driver, "vnpu");
	assert_string_equal(info.pdev, "");
	assert_int_equal(info.client_id, 12);
	assert_int_equal(info.nr_engines, 1);
	assert_string_equal(info.engines[0].name, "npu");
	assert_int_equal(info.engines[0].busy_ns, 123456789);
	assert_int_equal(info.engines[0].capacity, 2);
	assert_int_equal(info.total_bytes, 3 << 20);
	assert_int_equal(info.resident_bytes, 20 << 10);
}

static void fdinfo_of_other_drivers_is_understood(void **state)
{
	struct top_fdinfo info;

	/* Another name, an address, capacity before time, bytes without a unit, several regions. */
	assert_true(top_fdinfo_parse(
		"drm-driver: amdxdna_accel_driver\ndrm-pdev: 0000:c5:00.1\ndrm-client-id: 5\n"
		"drm-engine-capacity-npu-x: 4\ndrm-engine-npu-x: 7 ns\ndrm-engine-copy: 9\n"
		"drm-total-cycles-npu-x: 55\ndrm-total-system: 100\ndrm-total-heap: 1 KiB",
		&info));
	assert_string_equal(info.pdev, "0000:c5:00.1");
	assert_int_equal(info.nr_engines, 2);
	assert_string_equal(info.engines[0].name, "npu-x");
	assert_int_equal(info.engines[0].capacity, 4);
	assert_int_equal(info.engines[1].busy_ns, 9);
	assert_int_equal(info.engines[1].capacity, 1);
	assert_int_equal(info.total_bytes, 1124);
	assert_int_equal(info.resident_bytes, TOP_UNKNOWN);
}

static void the_old_name_of_resident_memory_counts_only_alone(void **state)
{
	struct top_fdinfo info;

	assert_true(top_fdinfo_parse("drm-driver: a\ndrm-client-id: 1\ndrm-memory-vram: 8 KiB\n",
				     &info));
	assert_int_equal(info.resident_bytes, 8 << 10);
	assert_true(top_fdinfo_parse("drm-driver: a\ndrm-client-id: 1\ndrm-memory-vram: 8 KiB\n"
				     "drm-resident-vram: 4 KiB\n",
				     &info));
	assert_int_equal(info.resident_bytes, 4 << 10);
}

static void files_that_are_not_of_a_client_are_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"pos:\t0\nflags:\t02\n",
		"drm-driver:\tvnpu\n",
		"drm-client-id:\t1\n",
		"drm-driver:\ndrm-client-id:\t1\n",
		"drm-driver:\tvnpu\ndrm-client-id:\t-1\n",
		"drm-driver:\tvnpu\ndrm-client-id:\n",
		"drm-driver:\tvnpu\ndrm-client-id:\t1 ns\n",
		"drm-driver vnpu\ndrm-client-id 1\n",
	};
	struct top_fdinfo info;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(top_fdinfo_parse(bad[i], &info));
}

static void invalid_lines_are_left_out(void **state)
{
	struct top_fdinfo info;

	assert_true(top_fdinfo_parse(
		"drm-driver: vnpu\ndrm-client-id: 1\ndrm-engine-npu: fast\ndrm-engine-: 5 ns\n"
		"drm-engine-a: 5 us\ndrm-engine-b: -5 ns\ndrm-engine-capacity-c: 3\n"
		"drm-engine-capacity-d: 0\ndrm-engine-d: 1 ns\ndrm-total-memory: 5 KB\n"
		"drm-resident-memory:\n: 3\nnonsense\n\n",
		&info));
	assert_int_equal(info.nr_engines, 1);
	assert_string_equal(info.engines[0].name, "d");
	assert_int_equal(info.engines[0].capacity, 1);
	assert_int_equal(info.total_bytes, TOP_UNKNOWN);
	assert_int_equal(info.resident_bytes, TOP_UNKNOWN);
}

static void huge_numbers_stay_huge(void **state)
{
	struct top_fdinfo info;

	assert_true(top_fdinfo_parse(
		"drm-driver: vnpu\ndrm-client-id: 18446744073709551615\n"
		"drm-engine-npu: 99999999999999999999999 ns\n"
		"drm-total-a: 18446744073709551615 KiB\n"
		"drm-total-b: 18446744073709551615\ndrm-resident-a: 18014398509481984 KiB\n",
		&info));
	assert_true(info.client_id == UINT64_MAX);
	assert_true(info.engines[0].busy_ns == TOP_UNKNOWN - 1);
	assert_true(info.total_bytes == TOP_UNKNOWN - 1);
	assert_true(info.resident_bytes == TOP_UNKNOWN - 1);
}

static void engines_beyond_the_limit_are_left_out(void **state)
{
	char text[4096];
	size_t n = (size_t)sprintf(text, "drm-driver: vnpu\ndrm-client-id: 1\n");
	struct top_fdinfo info;

	for (int i = 0; i < 40; i++)
		n += (size_t)sprintf(text + n, "drm-engine-e%d: %d ns\n", i, i);
	assert_true(top_fdinfo_parse(text, &info));
	assert_int_equal(info.nr_engines, TOP_ENGINES);
}

static void damaged_fdinfo_does_no_harm(void **state)
{
	static const char good[] =
		"drm-driver:\tvnpu\ndrm-client-id:\t12\ndrm-engine-npu:\t123456789 ns\n"
		"drm-engine-capacity-npu:\t2\ndrm-total-memory:\t3 MiB\ndrm-pdev:\t0000:00:01.0\n";
	unsigned int seed = (unsigned int)time(NULL), understood = 0;

	print_message("seed %u\n", seed);
	srand(seed);
	for (int round = 0; round < 20000; round++) {
		struct top_fdinfo info;
		char text[sizeof(good)];

		memcpy(text, good, sizeof(good));
		for (int hits = rand() % 8; hits >= 0; hits--)
			text[(size_t)rand() % (sizeof(good) - 1)] = (char)(rand() % 255 + 1);
		understood += top_fdinfo_parse(text, &info);
		assert_true(info.nr_engines <= TOP_ENGINES);
	}
	assert_in_range(understood, 1, 19999);
}

/* ---- readings ---- */

static void utilisation_is_engine_time_over_wall_time_and_capacity(void **state)
{
	struct top top = { .root = root };

	put_device("accel0", "1000000\n");
	put_client(100, 1, "one\n", 5 * SECOND, 1);
	put_client(200, 2, "two\n", 5 * SECOND, 4);
	sample(&top);
	assert_int_equal(top.nr_clients, 2);
	assert_true(top.clients[0].busy < 0 && top.devices[0].busy < 0);
	assert_int_equal(top.devices[0].nr_history, 0);
	now_ns += 2 * SECOND;
	put_device("accel0", "1500000\n");
	put_client(100, 1, "one\n", 6 * SECOND, 1);
	put_client(200, 2, "two\n", 6 * SECOND, 4);
	sample(&top);
	top_sort(&top, TOP_SORT_PID);
	assert_float_equal(top.clients[0].busy, 0.5, 1e-9);
	assert_float_equal(top.clients[1].busy, 0.125, 1e-9);
	assert_float_equal(top.devices[0].busy, 0.25, 1e-9);
	assert_string_equal(top.clients[0].comm, "one");
	assert_int_equal(top.clients[0].info.total_bytes, 8192);
	assert_int_equal(top.devices[0].nr_clients, 2);
	assert_int_equal(top.devices[0].memory_bytes, 1048576);
	assert_false(top.devices[0].from_clients);
	assert_int_equal(top.interval_ns, 2 * SECOND);
	top_free(&top);
}

static void a_client_behind_several_descriptors_counts_once(void **state)
{
	static const char info[] = "drm-driver:\tvnpu\ndrm-client-id:\t7\ndrm-engine-npu:\t0 ns\n";
	struct top top = { .root = root };

	put_device("accel0", "0\n");
	put_fd(100, 3, "accel0", info);
	put_fd(100, 4, "accel0", info);
	put_fd(101, 3, "accel0", info);
	put_fd(101, 9, "accel0", info);
	put_fd(102, 3, "accel0", "drm-driver:\tvnpu\ndrm-client-id:\t8\n");
	put("a\n", "/proc/100/comm");
	sample(&top);
	top_sort(&top, TOP_SORT_PID);
	assert_int_equal(top.nr_clients, 2);
	assert_int_equal(top.clients[0].nr_processes + top.clients[1].nr_processes, 3);
	assert_int_equal(top.devices[0].nr_clients, 2);
	top_free(&top);
}

static void equal_ids_of_two_buses_are_two_clients(void **state)
{
	struct top top = { .root = root };

	put_device("accel0", "0\n");
	put_device("accel1", "0\n");
	put_fd(100, 3, "accel0", "drm-driver:\ta\ndrm-client-id:\t7\ndrm-pdev:\t0000:00:01.0\n");
	put_fd(100, 4, "accel1", "drm-driver:\ta\ndrm-client-id:\t7\ndrm-pdev:\t0000:00:02.0\n");
	sample(&top);
	assert_int_equal(top.nr_clients, 2);
	top_free(&top);
}

static void files_of_other_devices_are_not_clients(void **state)
{
	struct top top = { .root = root };

	put_device("accel0", "0\n");
	put("", "/sys/class/accel/accelerate/device/x");
	put("", "/sys/class/accel/other0/device/x");
	put_fd(100, 3, "../dri/renderD128", "drm-driver:\ti915\ndrm-client-id:\t1\n");
	put_fd(100, 4, "accel7", "drm-driver:\tvnpu\ndrm-client-id:\t2\n");
	put_link("/tmp/accel0", "/proc/100/fd/5");
	put_link("socket:[1]", "/proc/100/fd/6");
	put("", "/proc/self/fd/3");
	sample(&top);
	assert_int_equal(top.nr_devices, 1);
	assert_int_equal(top.nr_clients, 0);
	top_free(&top);
}

static void files_that_vanish_between_two_reads_are_left_out(void **state)
{
	struct top top = { .root = root };

	put_device("accel0", "0\n");
	put("gone\n", "/proc/100/comm");
	put_link("/dev/accel/accel0", "/proc/101/fd/3");
	put_client(102, 1, "there\n", 0, 1);
	take_away("/proc/102/comm");
	sample(&top);
	assert_int_equal(top.nr_clients, 1);
	assert_string_equal(top.clients[0].comm, "");
	assert_int_equal(top.hidden, 0);
	top_free(&top);
}

static void a_counter_that_goes_back_stands_still(void **state)
{
	struct top top = { .root = root };

	put_device("accel0", "0\n");
	put_client(100, 1, "a\n", 5 * SECOND, 1);
	sample(&top);
	now_ns += SECOND;
	put_client(100, 1, "a\n", 4 * SECOND, 1);
	sample(&top);
	assert_true(top.clients[0].busy == 0);
	assert_int_equal(top_client_ns(&top.clients[0]), 5 * SECOND);
	now_ns += SECOND;
	put_client(100, 1, "a\n", 5 * SECOND + SECOND / 4, 1);
	sample(&top);
	assert_float_equal(top.clients[0].busy, 0.25, 1e-9);
	top_free(&top);
}

static void utilisation_is_never_more_than_100_percent(void **state)
{
	struct top top = { .root = root };

	put_device("accel0", "0\n");
	put_client(100, 1, "a\n", 0, 1);
	sample(&top);
	now_ns += SECOND;
	put_client(100, 1, "a\n", UINT64_MAX, 1);
	put_device("accel0", "18446744073709551614\n");
	sample(&top);
	assert_true(top.clients[0].busy == 1 && top.devices[0].busy == 1);
	top_free(&top);
}

static void a_device_that_goes_is_kept_and_comes_back(void **state)
{
	struct top top = { .root = root };
	char line[TOP_LINE];

	put_device("accel0", "0\n");
	put_client(100, 1, "a\n", 0, 1);
	sample(&top);
	now_ns += SECOND;
	put_device("accel0", "500000\n");
	sample(&top);
	now_ns += SECOND;
	take_away("/sys/class/accel/accel0");
	sample(&top);
	assert_int_equal(top.nr_devices, 1);
	assert_true(top.devices[0].gone && top.devices[0].busy < 0);
	assert_int_equal(top.nr_clients, 0);
	top_line_device(line, 0, &top.devices[0]);
	assert_non_null(strstr(line, "gone"));
	now_ns += SECOND;
	put_device("accel0", "700000\n");
	sample(&top);
	assert_false(top.devices[0].gone);
	assert_true(top.devices[0].busy < 0);
	assert_int_equal(top.devices[0].nr_history, 3);
	top_free(&top);
}

static void a_device_whose_counter_starts_again_is_a_new_one(void **state)
{
	struct top top = { .root = root };

	put_device("accel0", "500000\n");
	sample(&top);
	now_ns += SECOND;
	put_device("accel0", "100\n");
	sample(&top);
	assert_true(top.devices[0].busy < 0);
	now_ns += SECOND;
	put_device("accel0", "500100\n");
	sample(&top);
	assert_float_equal(top.devices[0].busy, 0.5, 1e-9);
	top_free(&top);
}

static void a_driver_without_counters_shows_the_sum_of_its_clients(void **state)
{
	struct top top = { .root = root };

	put("", "/sys/class/accel/accel0/device/vendor");
	put_client(100, 1, "a\n", 0, 1);
	put_client(101, 2, "b\n", 0, 1);
	sample(&top);
	now_ns += SECOND;
	put_client(100, 1, "a\n", SECOND / 4, 1);
	put_client(101, 2, "b\n", SECOND / 2, 1);
	sample(&top);
	assert_true(top.devices[0].from_clients);
	assert_float_equal(top.devices[0].busy, 0.75, 1e-9);
	assert_int_equal(top.devices[0].memory_bytes, 8192);
	top_free(&top);
}

static void attributes_that_are_not_numbers_are_unknown(void **state)
{
	static const char *const bad[] = { "",	    "\n",    "x\n",
					   "-1\n",  "1 2\n", "99999999999999999999999\n",
					   "0x10\n" };
	struct top top = { .root = root };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put_device("accel0", bad[i]);
		sample(&top);
		assert_true(top.devices[0].busy_us == TOP_UNKNOWN);
	}
	top_free(&top);
}

static void the_sparkline_keeps_its_newest_samples(void **state)
{
	struct top top = { .root = root };
	char line[TOP_LINE];

	put_device("accel0", "0\n");
	for (unsigned int i = 0; i < TOP_HISTORY + 10; i++) {
		char busy[32];

		snprintf(busy, sizeof(busy), "%u\n",
			 i * (i < TOP_HISTORY + 9 ? 0 : 1) * 1000000 / (TOP_HISTORY + 9));
		put_device("accel0", busy);
		sample(&top);
		now_ns += SECOND;
	}
	assert_int_equal(top.devices[0].nr_history, TOP_HISTORY);
	top_line_history(line, 3, &top.devices[0]);
	assert_string_equal(line, "▁▁█");
	top_free(&top);
}

static void clients_come_in_the_order_that_was_asked_for(void **state)
{
	struct top_client clients[3] = {
		{ .pid = 3,
		  .busy = -1,
		  .info = { .total_bytes = 5, .nr_engines = 1, .engines = { { .busy_ns = 9 } } } },
		{ .pid = 1, .busy = 0.5, .info = { .total_bytes = TOP_UNKNOWN } },
		{ .pid = 2,
		  .busy = 0.5,
		  .info = { .total_bytes = 7, .nr_engines = 1, .engines = { { .busy_ns = 4 } } } },
	};
	static const int want[TOP_SORTS][3] = {
		{ 1, 2, 3 }, { 2, 3, 1 }, { 3, 2, 1 }, { 1, 2, 3 }
	};
	struct top top = { .clients = clients, .nr_clients = 3 };

	for (unsigned int s = 0; s < TOP_SORTS; s++) {
		top_sort(&top, s);
		for (int i = 0; i < 3; i++)
			assert_int_equal(clients[i].pid, want[s][i]);
	}
}

/* ---- text ---- */

static void check_clean(const char *in, const char *want)
{
	char s[64];

	strcpy(s, in);
	top_clean(s);
	assert_string_equal(s, want);
}

static void control_sequences_are_removed_from_names(void **state)
{
	check_clean("plain", "plain");
	check_clean("\x1b[31mred", "?[31mred");
	check_clean("a\nb\tc\x7f", "a?b?c?");
	check_clean("größe 模型 😀", "größe 模型 😀");
	check_clean("\xc2\x9b"
		    "1m",
		    "?1m"); /* CSI */
	check_clean("\xc3", "?");
	check_clean("\xff\xfe", "??");
	check_clean("\xc0\x80", "??"); /* overlong */
	check_clean("\xed\xa0\x80", "???"); /* surrogate */
	check_clean("\xe6\xa8", "??");
}

static void texts_are_cut_at_columns_not_bytes(void **state)
{
	char s[64] = "模型ab", t[64] = "ab",
	     u[64] = "a\u202e"
		     "b";

	assert_int_equal(top_clip(s, sizeof(s), 3), 2);
	assert_string_equal(s, "模");
	assert_int_equal(top_clip(t, sizeof(t), 10), 2);
	assert_string_equal(t, "ab");
	/* Characters that change the direction of writing. */
	assert_int_equal(top_clip(u, sizeof(u), 10), 3);
	assert_string_equal(u, "a?b");
}

static void check_bytes(uint64_t bytes, const char *want)
{
	char s[16];

	top_format_bytes(s, sizeof(s), bytes);
	assert_string_equal(s, want);
}

static void sizes_fit_into_their_column(void **state)
{
	check_bytes(0, "0B");
	check_bytes(999, "999B");
	check_bytes(1000, "1.0K");
	check_bytes(1536, "1.5K");
	check_bytes(102348, "99.9K");
	check_bytes(102400, "100K");
	check_bytes(999ull << 20, "999M");
	check_bytes(1000ull << 20, "1.0G");
	check_bytes(TOP_UNKNOWN - 1, "16.0E");
	check_bytes(TOP_UNKNOWN, "-");
	for (unsigned int bit = 0; bit < 64; bit++) {
		char s[16];

		top_format_bytes(s, sizeof(s), 1ull << bit);
		assert_in_range(strlen(s), 2, 5);
		top_format_bytes(s, sizeof(s), (1ull << bit) - 1);
		assert_in_range(strlen(s), 2, 5);
	}
}

static void check_time(uint64_t ns, const char *want)
{
	char s[32];

	top_format_time(s, sizeof(s), ns);
	assert_string_equal(s, want);
}

static void times_fit_into_their_column(void **state)
{
	check_time(0, "0:00.00");
	check_time(61 * SECOND + SECOND / 2, "1:01.50");
	check_time(999 * 60 * SECOND, "999:00.00");
	check_time(1000 * 60 * SECOND, "16h");
	check_time(TOP_UNKNOWN - 1, "5124095h");
	check_time(TOP_UNKNOWN, "-");
}

static unsigned int columns_of(const char *s)
{
	wchar_t wide[TOP_LINE];
	size_t n = mbstowcs(wide, s, TOP_LINE);

	assert_true(n != (size_t)-1);
	return (unsigned int)wcswidth(wide, n);
}

static void no_line_is_wider_than_the_terminal(void **state)
{
	struct top_client client = {
		.node = "accel0", .pid = 4194304, .nr_processes = 12, .busy = 1, .uid = 0
	};
	struct top_device dev = { .node = "accel0", .busy = 1, .nr_history = TOP_HISTORY };
	struct top top = { .hidden = 77 };
	char line[TOP_LINE];

	strcpy(client.user, "a-user-with-a-long-name");
	strcpy(client.comm, "模型😀模型模型");
	strcpy(dev.name, "ein Gerät mit einem recht langen Namen");
	client.info.total_bytes = client.info.resident_bytes = TOP_UNKNOWN - 1;
	for (unsigned int columns = 1; columns < 250; columns++) {
		top_line_clients_header(line, columns);
		assert_in_range(columns_of(line), 0, columns);
		top_line_client(line, columns, &client);
		assert_in_range(columns_of(line), 0, columns);
		top_line_device(line, columns, &dev);
		assert_in_range(columns_of(line), 1, columns);
		top_line_bar(line, columns, "NPU", 1, "100.0%");
		assert_in_range(columns_of(line), 1, columns);
		top_line_history(line, columns, &dev);
		assert_in_range(columns_of(line), 1, columns);
		top_line_hidden(line, columns, &top);
		assert_in_range(columns_of(line), 1, columns);
	}
}

static void narrow_terminals_keep_the_columns_that_matter(void **state)
{
	struct top_client client = {
		.node = "accel0", .pid = 123, .busy = 0.5, .user = "me", .comm = "llm-bench"
	};
	char line[TOP_LINE];

	top_line_client(line, 20, &client);
	assert_string_equal(line, "    123  50.0 llm-be");
	top_line_clients_header(line, 12);
	assert_string_equal(line, " NPU% COMMAN");
	top_line_clients_header(line, 0);
	assert_string_equal(line, "    PID USER     DEV      NPU%      TIME    MEM    RES COMMAND");
}

static void bars_are_as_long_as_their_fraction(void **state)
{
	char line[TOP_LINE];

	top_line_bar(line, 20, "NPU", 0.5, "50%");
	assert_string_equal(line, "NPU [|||||     50%]");
	top_line_bar(line, 20, "NPU", 1, "100%");
	assert_string_equal(line, "NPU [|||||||||100%]");
	top_line_bar(line, 20, "NPU", -1, "-");
	assert_string_equal(line, "NPU [            -]");
}

int main(void)
{
#define TREE(f) cmocka_unit_test_setup_teardown(f, make_root, remove_root)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fdinfo_of_vnpu_is_understood),
		cmocka_unit_test(fdinfo_of_other_drivers_is_understood),
		cmocka_unit_test(the_old_name_of_resident_memory_counts_only_alone),
		cmocka_unit_test(files_that_are_not_of_a_client_are_refused),
		cmocka_unit_test(invalid_lines_are_left_out),
		cmocka_unit_test(huge_numbers_stay_huge),
		cmocka_unit_test(engines_beyond_the_limit_are_left_out),
		cmocka_unit_test(damaged_fdinfo_does_no_harm),
		TREE(utilisation_is_engine_time_over_wall_time_and_capacity),
		TREE(a_client_behind_several_descriptors_counts_once),
		TREE(equal_ids_of_two_buses_are_two_clients),
		TREE(files_of_other_devices_are_not_clients),
		TREE(files_that_vanish_between_two_reads_are_left_out),
		TREE(a_counter_that_goes_back_stands_still),
		TREE(utilisation_is_never_more_than_100_percent),
		TREE(a_device_that_goes_is_kept_and_comes_back),
		TREE(a_device_whose_counter_starts_again_is_a_new_one),
		TREE(a_driver_without_counters_shows_the_sum_of_its_clients),
		TREE(attributes_that_are_not_numbers_are_unknown),
		TREE(the_sparkline_keeps_its_newest_samples),
		cmocka_unit_test(clients_come_in_the_order_that_was_asked_for),
		cmocka_unit_test(control_sequences_are_removed_from_names),
		cmocka_unit_test(texts_are_cut_at_columns_not_bytes),
		cmocka_unit_test(sizes_fit_into_their_column),
		cmocka_unit_test(times_fit_into_their_column),
		cmocka_unit_test(no_line_is_wider_than_the_terminal),
		cmocka_unit_test(narrow_terminals_keep_the_columns_that_matter),
		cmocka_unit_test(bars_are_as_long_as_their_fraction),
	};

	setlocale(LC_CTYPE, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
