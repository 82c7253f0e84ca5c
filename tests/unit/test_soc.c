// SPDX-License-Identifier: MIT
/* Profiles: those that come with vnpu, and files that are wrong in every way that can be listed. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "soc.h"

static char why[512];
static char path[] = "/tmp/vnpu-profile-XXXXXX.conf";

/* A value that every key takes; of two that differ the larger one. */
static double usual(const struct soc_key *key)
{
	return !strcmp(key->key, "f16_rate") ? 3 : !strcmp(key->key, "little_rate") ? 0.5 : 40;
}

static double other(const struct soc_key *key)
{
	return !strcmp(key->key, "f16_rate") ? 2.5 : !strcmp(key->key, "little_rate") ? 0.25 : 37;
}

/* A whole profile as text; the number of key @skip is left out, that of @change is @value. */
static char *text_of(size_t skip, size_t change, const char *value)
{
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);
	const char *section = "";
	struct soc_key key;

	for (size_t i = 0; !soc_key(i, &key); i++) {
		if (strcmp(section, key.section))
			fprintf(f, "[%s]\n", key.section);
		section = key.section;
		if (i == change)
			fprintf(f, "%s = %s\n", key.key, value);
		else if (i != skip)
			fprintf(f, "%s = %g @ assumed: test %zu\n", key.key, usual(&key), i);
	}
	fclose(f);
	return text;
}

static struct soc *load_text(const char *text, size_t bytes)
{
	int fd;
	struct soc *p;

	strcpy(path + strlen(path) - 11, "XXXXXX.conf");
	fd = mkstemps(path, 5);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, bytes), bytes);
	close(fd);
	why[0] = '\0';
	p = soc_load(path, why, sizeof(why));
	unlink(path);
	return p;
}

static void refused(const char *text, size_t bytes, const char *says)
{
	struct soc *p = load_text(text, bytes);

	if (p || !strstr(why, says))
		fail_msg("%s; wanted: %s", p ? "it was taken" : why, says);
	if (!strstr(why, path))
		fail_msg("it does not name the file: %s", why);
}

#define NONE ((size_t)-1)

static size_t find(const char *section, const char *name)
{
	struct soc_key key;
	size_t i = 0;

	while (!soc_key(i, &key) && (strcmp(key.section, section) || strcmp(key.key, name)))
		i++;
	return i;
}

static void test_every_number_is_read_where_it_belongs(void **state)
{
	struct soc_key key;

	for (size_t i = 0; !soc_key(i, &key); i++) {
		char value[64], *text;
		struct soc *p;

		snprintf(value, sizeof(value), "%g @ published: a table, row 3", other(&key));
		text = text_of(NONE, i, value);
		p = load_text(text, strlen(text));

		/*
		 * Lanes may not have more bandwidth than the SoC, nor two together more than there
		 * is, nor a core more than the CPU.
		 */
		if (i == find("soc", "dram_shared_gbps") || i == find("soc", "dram_peak_gbps") ||
		    i == find("cpu", "dram_gbps")) {
			assert_null(p);
			free(text);
			continue;
		}
		if (!p)
			fail_msg("%s", why);
		for (size_t k = 0; !soc_key(k, &key); k++) {
			assert_true(soc_value(p, k) == (k == i ? other(&key) : usual(&key)));
			assert_int_equal(p->notes[k].source, k == i ? SOC_PUBLISHED : SOC_ASSUMED);
		}
		assert_string_equal(p->notes[i].text, "a table, row 3");
		soc_free(p);
		free(text);
	}
}

static void test_profiles_that_come_with_vnpu_are_whole(void **state)
{
	static const char *const names[] = { "sd8gen3", "sd8gen2", "sd8elite", "host" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct soc *p = soc_load(names[i], why, sizeof(why));

		if (!p)
			fail_msg("%s", why);
		assert_string_equal(p->name, names[i]);
		assert_true(strlen(p->title) > 0);
		soc_free(p);
	}
}

static void test_a_missing_number_is_named(void **state)
{
	struct soc_key key;

	for (size_t i = 0; !soc_key(i, &key); i++) {
		char *text = text_of(i, NONE, NULL), says[128];

		snprintf(says, sizeof(says), "[%s] %s is missing", key.section, key.key);
		refused(text, strlen(text), says);
		free(text);
	}
}

static void test_a_number_without_a_source_is_refused(void **state)
{
	static const char *const wrong[] = {
		"40",
		"40 @",
		"40 @ ",
		"40 @ assumed:",
		"40 @ assumed: ",
		"40 @ guessed: so",
		"40 @ assumed so",
		"40 published: so",
		"40 @ Published: so",
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char *text = text_of(NONE, find("npu", "array_cols"), wrong[i]);

		refused(text, strlen(text), "array_cols");
		free(text);
	}
}

static void test_what_is_no_number_is_refused(void **state)
{
	static const char *const wrong[] = { "",
					     "x @ assumed: x",
					     "@ assumed: x",
					     "nan @ assumed: x",
					     "inf @ assumed: x",
					     "1e999 @ assumed: x" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char *text = text_of(NONE, find("npu", "array_cols"), wrong[i]);

		refused(text, strlen(text), "not a number");
		free(text);
	}
}

static void test_numbers_out_of_range_are_refused(void **state)
{
	struct soc_key key;

	for (size_t i = 0; !soc_key(i, &key); i++) {
		static const char *const wrong[] = { "-1 @ assumed: x", "1e30 @ assumed: x" };

		for (int k = 0; k < 2; k++) {
			char *text = text_of(NONE, i, wrong[k]);

			refused(text, strlen(text), "outside");
			free(text);
		}
	}
}

static void test_what_is_counted_is_no_fraction(void **state)
{
	static const char *const counted[][2] = {
		{ "npu", "array_rows" },   { "npu", "array_cols" }, { "npu", "arrays" },
		{ "npu", "row_granule" },  { "npu", "hold_rows" },  { "npu", "gemv_rows" },
		{ "cpu", "panel_k" },	   { "cpu", "big_cores" },  { "cpu", "middle_cores" },
		{ "cpu", "little_cores" },
	};

	for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
		char *text = text_of(NONE, find(counted[i][0], counted[i][1]), "2.5 @ assumed: x");

		refused(text, strlen(text), "whole number");
		refused(text, strlen(text), counted[i][1]);
		free(text);
	}
}

/* "derived: sd8gen3 x 1.45: rule": the number is that. */
static void test_derived_numbers_follow_their_rules(void **state)
{
	static const char *const names[] = { "sd8gen2", "sd8elite" };
	struct soc *base = soc_load("sd8gen3", why, sizeof(why));
	struct soc_key key;

	assert_non_null(base);
	for (size_t i = 0; i < 2; i++) {
		struct soc *p = soc_load(names[i], why, sizeof(why));
		size_t derived = 0;

		assert_non_null(p);
		for (size_t k = 0; !soc_key(k, &key); k++) {
			double factor, wanted, got = soc_value(p, k);

			if (p->notes[k].source != SOC_DERIVED)
				continue;
			derived++;
			if (sscanf(p->notes[k].text, "sd8gen3 x %lf:", &factor) != 1)
				fail_msg("%s: %s", key.key, p->notes[k].text);
			wanted = factor * soc_value(base, k);
			/* Four digits, and what is counted is whole. */
			if (fabs(got - wanted) > 6e-4 * wanted &&
			    fabs(got - wanted) > 0.5 * key.whole)
				fail_msg("%s %s.%s: %g, %g by its rule", names[i], key.section,
					 key.key, got, wanted);
		}
		assert_true(derived > 30);
		soc_free(p);
	}
	soc_free(base);
}

static void test_the_cpu_lane_has_the_cores_that_it_is_given(void **state)
{
	struct soc *p = soc_load("sd8gen3", why, sizeof(why));
	double four_w;

	assert_non_null(p);
	assert_true(soc_cpu_share(p) == 1 && soc_cpu_cores(p) == 4);
	four_w = soc_cpu_active_w(p);
	/* One big and three middle ones. */
	assert_true(fabs(four_w - p->cpu.big_w - 3 * p->cpu.middle_w) < 1e-9);
	for (int cores = SOC_CORES_BIG; cores <= SOC_CORES_LITTLE; cores++) {
		double rate = cores == SOC_CORES_BIG	  ? p->cpu.big_rate
			      : cores == SOC_CORES_LITTLE ? p->cpu.little_rate
							  : 1;

		assert_int_equal(soc_use_cores(p, (enum soc_cores)cores), 0);
		assert_int_equal(soc_cpu_cores(p), 1);
		assert_true(fabs(soc_cpu_share(p) - rate / (p->cpu.big_rate + 3)) < 1e-9);
		assert_true(soc_cpu_active_w(p) < four_w);
	}
	soc_free(p);
	p = soc_load("sd8elite", why, sizeof(why));
	assert_non_null(p);
	assert_int_equal(soc_use_cores(p, SOC_CORES_LITTLE), -ENOENT);
	assert_true(soc_cpu_share(p) == 1);
	soc_free(p);
}

static void test_what_is_no_profile_is_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} wrong[] = {
		{ "", "is missing" },
		{ "[npu]\narray_rows 32\n", "line 2" },
		{ "[npu\n", "line 1" },
		{ "[npu]\nfoo = 1 @ assumed: x\n", "foo: no such key" },
		{ "[xpu]\narray_rows = 1 @ assumed: x\n", "array_rows: no such key" },
		{ "array_rows = 1 @ assumed: x\n", "no such key" },
		{ "[npu]\narray_rows = 1 @ assumed: x\narray_rows = 1 @ assumed: x\n",
		  "given twice" },
		{ "[soc]\ntitle = a\ntitle = b\n", "title is given twice" },
	};
	char line[400], *large = calloc(1, 70000);

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		refused(wrong[i].text, strlen(wrong[i].text), wrong[i].says);
	memset(line, 'x', sizeof(line));
	refused(line, sizeof(line), "line 1 is longer");
	refused("[npu]\n\0\n", 8, "not a text file");
	memset(large, '\n', 70000);
	refused(large, 70000, "not a profile");
	free(large);
}

static void test_a_file_that_is_not_there_is_named(void **state)
{
	assert_null(soc_load("/nowhere/at-all.conf", why, sizeof(why)));
	assert_non_null(strstr(why, "/nowhere/at-all.conf"));
	assert_null(soc_load("no-such-soc", why, sizeof(why)));
	assert_non_null(strstr(why, "no-such-soc"));
	assert_null(soc_load("/tmp/", why, sizeof(why)));
}

static void test_a_device_has_the_default_where_it_is_installed_and_no_other_unasked(void **state)
{
	char *text = text_of(NONE, find("npu", "array_cols"), "40"),
	     path[] = "/tmp/test_profile_XXXXXX.conf";
	int fd = mkstemps(path, 5);
	struct soc *p;

	assert_int_equal(soc_load_device(NULL, &p, why, sizeof(why)), 0);
	assert_string_equal(p->name, SOC_DEFAULT);
	soc_free(p);
	assert_int_equal(soc_load_device("sd8elite", &p, why, sizeof(why)), 0);
	assert_string_equal(p->name, "sd8elite");
	soc_free(p);
	/* As where the library is installed without its profiles. */
	setenv("VNPU_PROFILES", "/nowhere", 1);
	assert_int_equal(soc_load_device(NULL, &p, why, sizeof(why)), 0);
	assert_null(p);
	assert_int_equal(soc_load_device(SOC_DEFAULT, &p, why, sizeof(why)), -ENOENT);
	assert_non_null(strstr(why, SOC_DEFAULT ": No such file"));
	unsetenv("VNPU_PROFILES");
	assert_true(fd >= 0 && write(fd, text, strlen(text)) > 0);
	assert_int_equal(soc_load_device(path, &p, why, sizeof(why)), -EINVAL);
	assert_null(p);
	assert_non_null(strstr(why, "array_cols"));
	close(fd);
	unlink(path);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_number_is_read_where_it_belongs),
		cmocka_unit_test(test_profiles_that_come_with_vnpu_are_whole),
		cmocka_unit_test(test_a_missing_number_is_named),
		cmocka_unit_test(test_a_number_without_a_source_is_refused),
		cmocka_unit_test(test_what_is_no_number_is_refused),
		cmocka_unit_test(test_numbers_out_of_range_are_refused),
		cmocka_unit_test(test_what_is_counted_is_no_fraction),
		cmocka_unit_test(test_derived_numbers_follow_their_rules),
		cmocka_unit_test(test_the_cpu_lane_has_the_cores_that_it_is_given),
		cmocka_unit_test(test_what_is_no_profile_is_refused),
		cmocka_unit_test(test_a_file_that_is_not_there_is_named),
		cmocka_unit_test(
			test_a_device_has_the_default_where_it_is_installed_and_no_other_unasked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
