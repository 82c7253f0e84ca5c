// SPDX-License-Identifier: MIT
/* Profiles: the table of what is in one, and reading it. */
#define _GNU_SOURCE /* dladdr */
#include "soc.h"

#include <dlfcn.h>
#include <errno.h>
#include <ini.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_FILE_BYTES (64u << 10)
/* inih cuts longer lines in two without a word. */
#define MAX_LINE_BYTES 198

struct entry {
	struct soc_key key;
	size_t offset;
	double min, max;
};

/* Section [soc] is the member memory; the others are called as theirs. */
#define MEMBER(section, member, key, unit, min, max, whole, what)                                 \
	{                                                                                         \
		{ #section, #key, unit, what, whole }, offsetof(struct soc, member.key), min, max \
	}
#define E(section, key, unit, min, max, what) \
	MEMBER(section, section, key, unit, min, max, false, what)
#define COUNT(section, key, unit, min, max, what) \
	MEMBER(section, section, key, unit, min, max, true, what)

/* A rate or a size that something is divided by is never 0; an overhead may be. */
#define TINY 1e-6

static const struct entry entries[] = {
	MEMBER(soc, memory, dram_peak_gbps, "GB/s", TINY, 1e5, false,
	       "what the memory's interface could do"),
	MEMBER(soc, memory, dram_shared_gbps, "GB/s", TINY, 1e5, false,
	       "bandwidth of two lanes or more together"),
	MEMBER(soc, memory, base_w, "W", 0, 1e4, false, "memory and all that is no lane"),

	COUNT(npu, array_rows, "", 1, 65536, "depth of an array"),
	COUNT(npu, array_cols, "", 1, 65536, "width of an array"),
	COUNT(npu, arrays, "", 1, 65536, "arrays"),
	E(npu, clock_mhz, "MHz", 1, 1e5, "clock"),
	COUNT(npu, row_granule, "rows", 1, 65536, "rows streamed at a time"),
	E(npu, line_ns, "ns", 0, 1e6, "a line of rows that begins within them, past a tile"),
	E(npu, f16_rate, "", TINY, 4, "F16 multiply-adds of an element and cycle"),
	E(npu, load_gbps, "GB/s", TINY, 1e5, "stationary operands that do not stay on the chip"),
	COUNT(npu, hold_rows, "rows", 1, 1e9, "streamed rows whose sums the arrays keep"),
	E(npu, hold_column_kib, "KiB", TINY, 1e9, "of a stationary column that stays"),
	E(npu, feed_bytes_per_cycle, "B", TINY, 1e9,
	  "activations and sums between arrays and memory on the chip"),
	COUNT(npu, gemv_rows, "rows", 0, 65536, "batches that the vector engine takes"),
	E(npu, gemv_gmacs, "G/s", TINY, 1e6, "multiply-adds of the vector engine, INT8"),
	E(npu, vector_gelems, "G/s", TINY, 1e6, "float operations of the vector engine"),
	E(npu, widen_gelems, "G/s", TINY, 1e6, "weights narrower than the arrays' values, widened"),
	E(npu, group_gsums, "G/s", TINY, 1e6, "sums of groups of k, added as floats"),
	E(npu, f16_emulated_ns, "ns", 0, 1e6, "a weight of an F16 matmul that is emulated"),
	E(npu, onchip_mib, "MiB", 0.001, 1e6, "memory on the chip"),
	E(npu, space_gib, "GiB", 0, 1e6, "weights that it can address"),
	E(npu, dram_gbps, "GB/s", TINY, 1e5, "bandwidth alone"),
	E(npu, launch_us, "us", 0, 1e9, "a graph's execution through the driver"),
	E(npu, launch_awake_us, "us", 0, 1e9, "a graph's execution where nobody sleeps"),
	E(npu, dynamic_setup_us, "us", 0, 1e9, "a matmul of two activations"),
	E(npu, dynamic_ns, "ns", 0, 1e6, "an element of its second operand"),
	E(npu, build_ms, "ms", 0, 1e6, "a graph's intermediate form"),
	E(npu, build_op_us, "us", 0, 1e9, "an operator of it"),
	E(npu, optimize_ns, "ns", 0, 1e6, "an element of a tensor of a graph that is compiled"),
	E(npu, graph_gbps, "GB/s", TINY, 1e5, "loading a compiled graph from storage"),
	E(npu, idle_w, "W", 0, 1e4, "power at rest"),
	E(npu, active_w, "W", 0, 1e4, "power at work"),

	E(gpu, tflops, "TFLOPS", TINY, 1e5, "sustained rate in F16"),
	E(gpu, half_rows, "rows", 0, 65536, "rows at which half the rate is reached"),
	E(gpu, gemv_tflops, "TFLOPS", TINY, 1e5, "row by row"),
	E(gpu, vector_gelems, "G/s", TINY, 1e6, "float operations on elements"),
	E(gpu, dram_gbps, "GB/s", TINY, 1e5, "bandwidth alone"),
	E(gpu, submit_us, "us", 0, 1e9, "a kernel behind another"),
	E(gpu, submit_drained_us, "us", 0, 1e9, "a kernel into an empty queue"),
	E(gpu, copy_us, "us", 0, 1e9, "a transfer between host and GPU"),
	E(gpu, idle_w, "W", 0, 1e4, "power at rest"),
	E(gpu, active_w, "W", 0, 1e4, "power at work"),

	COUNT(cpu, big_cores, "", 0, 4096, "big cores"),
	COUNT(cpu, middle_cores, "", 1, 4096, "middle cores"),
	COUNT(cpu, little_cores, "", 0, 4096, "little cores"),
	E(cpu, big_rate, "", 1, 100, "rate of a big core, in middle ones"),
	E(cpu, little_rate, "", TINY, 1, "rate of a little core, in middle ones"),
	E(cpu, int8_tops, "TOPS", TINY, 1e5, "INT8 matmul whose depth fits the cache"),
	E(cpu, f16_gflops, "GFLOPS", TINY, 1e7, "F16 and F32 matmuls"),
	COUNT(cpu, panel_k, "", 1, 1e9, "depth beyond which the INT8 rate falls"),
	E(cpu, pack_ns, "ns", 0, 1e6, "an activation quantised and packed"),
	E(cpu, gather, "", 1, 100, "a sparse matmul's cost relative to a dense one"),
	E(cpu, vector_gelems, "G/s", TINY, 1e6, "float operations on elements"),
	E(cpu, unpack_gelems, "G/s", TINY, 1e6, "weights of k-quants unpacked, by one core"),
	E(cpu, unpack_planes_gelems, "G/s", TINY, 1e6, "weights in planes unpacked, by one core"),
	E(cpu, dram_gbps, "GB/s", TINY, 1e5, "bandwidth alone"),
	E(cpu, core_gbps, "GB/s", TINY, 1e5, "bandwidth of one core"),
	E(cpu, dispatch_us, "us", 0, 1e9, "an operator given to the threads"),
	E(cpu, sleep_us, "us", 0, 1e9, "the shortest sleep"),
	E(cpu, poll_us, "us", 0, 1e9, "seeing a flag that is polled"),
	E(cpu, idle_w, "W", 0, 1e4, "power at rest"),
	E(cpu, big_w, "W", 0, 1e4, "power of a big core at work"),
	E(cpu, middle_w, "W", 0, 1e4, "power of a middle core at work"),
	E(cpu, little_w, "W", 0, 1e4, "power of a little core at work"),

	E(storage, read_gbps, "GB/s", TINY, 1e5, "a file, read by two threads"),
};
#define NR_ENTRIES (sizeof(entries) / sizeof(entries[0]))

int soc_key(size_t i, struct soc_key *key)
{
	if (i >= NR_ENTRIES)
		return -1;
	*key = entries[i].key;
	return 0;
}

double soc_value(const struct soc *p, size_t i)
{
	return *(const double *)((const char *)p + entries[i].offset);
}

const char *soc_source_name(enum soc_source s)
{
	static const char *const names[] = { "published", "fitted", "assumed", "derived" };

	return names[s];
}

struct reader {
	struct soc *p;
	const char *path;
	char *why;
	size_t why_bytes;
	bool failed;
};

static int fail(struct reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct reader *r, const char *fmt, ...)
{
	int n;
	va_list ap;

	if (r->failed)
		return 0;
	r->failed = true;
	n = snprintf(r->why, r->why_bytes, "profile %s: ", r->path);
	if (n < 0 || (size_t)n >= r->why_bytes)
		return 0;
	va_start(ap, fmt);
	vsnprintf(r->why + n, r->why_bytes - (size_t)n, fmt, ap);
	va_end(ap);
	return 0;
}

/* "published: text" after the '@'. */
static int parse_source(struct reader *r, const struct entry *e, const char *s,
			struct soc_note *note)
{
	s += strspn(s, " \t");
	for (int kind = 0; kind < SOC_NR_SOURCES; kind++) {
		const char *name = soc_source_name(kind);
		size_t len = strlen(name);

		if (strncmp(s, name, len) || s[len] != ':')
			continue;
		s += len + 1;
		s += strspn(s, " \t");
		if (!*s)
			return fail(
				r,
				"[%s] %s: '%s:' is followed by nothing: say where the number comes "
				"from",
				e->key.section, e->key.key, name);
		note->source = kind;
		note->text = strdup(s);
		return note->text ? 1 : fail(r, "no memory");
	}
	return fail(
		r,
		"[%s] %s: after '@' comes published:, fitted:, assumed: or derived:, and where the "
		"number is from",
		e->key.section, e->key.key);
}

static int parse_number(struct reader *r, size_t i, const char *value)
{
	const struct entry *e = &entries[i];
	char *end;
	double v = strtod(value, &end);

	if (end == value || !isfinite(v))
		return fail(r, "[%s] %s = %s: not a number", e->key.section, e->key.key, value);
	if (v < e->min || v > e->max)
		return fail(r, "[%s] %s = %g: outside %g to %g %s", e->key.section, e->key.key, v,
			    e->min, e->max, e->key.unit);
	if (e->key.whole && v != floor(v))
		return fail(r, "[%s] %s = %g: it counts things, and is a whole number",
			    e->key.section, e->key.key, v);
	end += strspn(end, " \t");
	if (*end != '@')
		return fail(r, "[%s] %s = %s: say where the number comes from: %g @ published: ...",
			    e->key.section, e->key.key, value, v);
	*(double *)((char *)r->p + e->offset) = v;
	return parse_source(r, e, end + 1, &r->p->notes[i]);
}

static int handle(void *user, const char *section, const char *name, const char *value)
{
	struct reader *r = user;

	if (r->failed)
		return 0;
	if (!strcmp(section, "soc") && !strcmp(name, "title")) {
		if (r->p->title[0])
			return fail(r, "[soc] title is given twice");
		snprintf(r->p->title, sizeof(r->p->title), "%s", value);
		return 1;
	}
	for (size_t i = 0; i < NR_ENTRIES; i++) {
		if (strcmp(section, entries[i].key.section) || strcmp(name, entries[i].key.key))
			continue;
		if (r->p->notes[i].text)
			return fail(r, "[%s] %s is given twice", section, name);
		return parse_number(r, i, value);
	}
	return fail(r, "[%s] %s: no such key", section, name);
}

/* Lines that inih would cut, and what is not text. */
static int check_lines(struct reader *r, const char *text, size_t bytes)
{
	size_t line = 1, len = 0;

	for (size_t i = 0; i < bytes; i++) {
		if (!text[i])
			return fail(r, "line %zu: not a text file", line);
		len = text[i] == '\n' ? 0 : len + 1;
		if (len > MAX_LINE_BYTES)
			return fail(r, "line %zu is longer than %d characters", line,
				    MAX_LINE_BYTES);
		line += text[i] == '\n';
	}
	return 1;
}

static int parse(struct reader *r, const char *text, size_t bytes)
{
	const struct soc *p = r->p;
	int line;

	if (!check_lines(r, text, bytes))
		return 0;
	line = ini_parse_string(text, handle, r);
	if (r->failed)
		return 0;
	if (line)
		return fail(r, "line %d: neither a section, nor a key, nor a comment", line);
	for (size_t i = 0; i < NR_ENTRIES; i++)
		if (!p->notes[i].text)
			return fail(r, "[%s] %s is missing: %s", entries[i].key.section,
				    entries[i].key.key, entries[i].key.what);
	if (p->memory.dram_shared_gbps > p->memory.dram_peak_gbps)
		return fail(r, "[soc] dram_shared_gbps is above dram_peak_gbps");
	if (p->npu.dram_gbps > p->memory.dram_shared_gbps ||
	    p->gpu.dram_gbps > p->memory.dram_shared_gbps ||
	    p->cpu.dram_gbps > p->memory.dram_shared_gbps)
		return fail(r, "a lane's dram_gbps is above [soc] dram_shared_gbps");
	if (p->cpu.core_gbps > p->cpu.dram_gbps)
		return fail(r, "[cpu] core_gbps is above dram_gbps");
	return 1;
}

static struct soc *read_profile(const char *path, FILE *f, char *why, size_t why_bytes)
{
	struct soc *p = calloc(1, sizeof(*p));
	char *text = malloc(MAX_FILE_BYTES + 1);
	struct reader r = { p, path, why, why_bytes, false };
	const char *base = strrchr(path, '/');
	size_t bytes = 0;

	base = base ? base + 1 : path;
	if (p)
		p->notes = calloc(NR_ENTRIES, sizeof(*p->notes));
	if (!p || !p->notes || !text) {
		fail(&r, "no memory");
	} else {
		snprintf(p->name, sizeof(p->name), "%.*s",
			 (int)(strstr(base, ".conf") ? strstr(base, ".conf") - base
						     : (long)strlen(base)),
			 base);
		bytes = fread(text, 1, MAX_FILE_BYTES + 1, f);
		if (ferror(f))
			fail(&r, "%s", strerror(errno));
		else if (bytes > MAX_FILE_BYTES)
			fail(&r, "larger than %u KiB: not a profile", MAX_FILE_BYTES >> 10);
	}
	if (!r.failed && bytes <= MAX_FILE_BYTES) {
		text[bytes] = '\0';
		parse(&r, text, bytes);
	}
	free(text);
	if (!r.failed)
		return p;
	soc_free(p);
	return NULL;
}

void soc_free(struct soc *p)
{
	if (!p)
		return;
	for (size_t i = 0; p->notes && i < NR_ENTRIES; i++)
		free(p->notes[i].text);
	free(p->notes);
	free(p);
}

/* ---- cores ---- */

struct cores {
	double big, middle, little;
};

static struct cores lane_cores(const struct soc *p, enum soc_cores which)
{
	const struct soc_cpu *cpu = &p->cpu;
	struct cores c = { which == SOC_CORES_BIG, which == SOC_CORES_MIDDLE,
			   which == SOC_CORES_LITTLE };

	if (which != SOC_CORES_FOUR)
		return c;
	c.big = fmin(cpu->big_cores, 4);
	c.middle = fmin(cpu->middle_cores, 4 - c.big);
	c.little = fmin(cpu->little_cores, 4 - c.big - c.middle);
	return c;
}

static double cores_rate(const struct soc *p, enum soc_cores which)
{
	const struct cores c = lane_cores(p, which);

	return c.big * p->cpu.big_rate + c.middle + c.little * p->cpu.little_rate;
}

int soc_use_cores(struct soc *p, enum soc_cores cores)
{
	if ((cores == SOC_CORES_BIG && !p->cpu.big_cores) ||
	    (cores == SOC_CORES_LITTLE && !p->cpu.little_cores))
		return -ENOENT;
	p->cores = cores;
	return 0;
}

double soc_cpu_share(const struct soc *p)
{
	return cores_rate(p, p->cores) / cores_rate(p, SOC_CORES_FOUR);
}

unsigned int soc_cpu_cores(const struct soc *p)
{
	const struct cores c = lane_cores(p, p->cores);

	return (unsigned int)(c.big + c.middle + c.little);
}

double soc_cpu_active_w(const struct soc *p)
{
	const struct cores c = lane_cores(p, p->cores);

	return c.big * p->cpu.big_w + c.middle * p->cpu.middle_w + c.little * p->cpu.little_w;
}

/* ---- files ---- */

static void cut_name(char *path)
{
	char *slash = strrchr(path, '/');

	*(slash ? slash : path) = '\0';
}

/*
 * Where the program lies, without its name: profiles are installed beside
 * it, and in a tree above it.
 */
static void program_dir(char *dir, size_t bytes)
{
	ssize_t n = readlink("/proc/self/exe", dir, bytes - 1);

	dir[n > 0 ? n : 0] = '\0';
	cut_name(dir);
}

/* The same for the library, or program, that this function is in. */
static void library_dir(char *dir, size_t bytes)
{
	Dl_info info;
	char *path = NULL;

	if (dladdr((const void *)(uintptr_t)library_dir, &info) && info.dli_fname)
		path = realpath(info.dli_fname, NULL);
	snprintf(dir, bytes, "%s", path ? path : "");
	free(path);
	cut_name(dir);
}

/* Opens NAME.conf of @kind in the first of @places, below @dir, that has it. NULL: none. */
static FILE *open_in(const char *dir, const char *const *places, const char *kind, const char *name,
		     char *path, size_t path_bytes)
{
	FILE *f = NULL;

	for (; !f && *places; places++) {
		snprintf(path, path_bytes, "%s%s/%s/%s.conf", dir, *places, kind, name);
		f = fopen(path, "r");
	}
	return f;
}

FILE *soc_open_file(const char *kind, const char *env, const char *name, char *path,
		    size_t path_bytes)
{
	/* Debian's libraries are in a folder of their own below PREFIX/lib. */
	static const char *const by_program[] = { "/../share/vnpu", "/../../share",
						  "/../../../share", NULL };
	static const char *const by_library[] = { "/../share/vnpu", "/../../share/vnpu",
						  "/../../share", NULL };
	static const char *const installed[] = { "/usr/local/share/vnpu", "/usr/share/vnpu", NULL };
	size_t len = strlen(name);
	const char *folder = getenv(env);
	char dir[4096];
	FILE *f;

	if (strchr(name, '/') || (len > 5 && !strcmp(name + len - 5, ".conf"))) {
		snprintf(path, path_bytes, "%s", name);
		return fopen(path, "r");
	}
	if (folder) {
		snprintf(path, path_bytes, "%s/%s.conf", folder, name);
		return fopen(path, "r");
	}
	program_dir(dir, sizeof(dir));
	f = open_in(dir, by_program, kind, name, path, path_bytes);
	if (f)
		return f;
	library_dir(dir, sizeof(dir));
	f = open_in(dir, by_library, kind, name, path, path_bytes);
	return f ? f : open_in("", installed, kind, name, path, path_bytes);
}

/* 0 with *f, or -errno with a line in @why. */
static int open_profile(const char *name, FILE **f, char *path, size_t path_bytes, char *why,
			size_t why_bytes)
{
	int err;

	errno = 0;
	*f = soc_open_file("profiles", "VNPU_PROFILES", name, path, path_bytes);
	if (*f)
		return 0;
	err = errno;
	snprintf(why, why_bytes,
		 "profile %s: %s; share/profiles has those that are known, or give a file", name,
		 strerror(err));
	return -err;
}

static struct soc *read_and_close(const char *path, FILE *f, char *why, size_t why_bytes)
{
	struct soc *p = read_profile(path, f, why, why_bytes);

	fclose(f);
	return p;
}

struct soc *soc_load(const char *name, char *why, size_t why_bytes)
{
	char path[4400];
	FILE *f;

	if (open_profile(name, &f, path, sizeof(path), why, why_bytes))
		return NULL;
	return read_and_close(path, f, why, why_bytes);
}

int soc_load_device(const char *name, struct soc **p, char *why, size_t why_bytes)
{
	char path[4400];
	FILE *f;
	int err;

	*p = NULL;
	err = open_profile(name ? name : SOC_DEFAULT, &f, path, sizeof(path), why, why_bytes);
	if (err)
		return !name && (err == -ENOENT || err == -ENOTDIR) ? 0 : err;
	*p = read_and_close(path, f, why, why_bytes);
	return *p ? 0 : -EINVAL;
}
