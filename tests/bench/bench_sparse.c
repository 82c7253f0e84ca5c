// SPDX-License-Identifier: MIT
/*
 * Attention of a prompt in chunks of 256 tokens, on one thread: full, and sparse with the estimate
 * of the NPU's kernel or of the CPU (shadowAttn, sections 2.2 and 3.2).
 *
 *	bench_sparse [-r RATIOS in percent (20,30,40)] [-n RUNS (3)] [-s SHAPE (all)]
 *		[-t TOKENS (all)] [-i CPU SET (best)]
 *
 * For each shape, tokens and ratio: milliseconds of a layer with full attention; of shadow (packing
 * the keys, QK_I8, selection, sparse attention) and of C/G (float scores in place of the estimate);
 * full / shadow and full / C/G; and nanoseconds per query and key of each step. One KV head of the
 * layer is computed, all its steps head by head, and multiplied by how many there are. Full
 * attention and the steps alternate, chunk by chunk; figures are medians of the thread's own time.
 * Scores are spread as a model's: queries and keys share a few directions, and near ones are alike.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cpu_sparse.h"
#include "kernels.h"

#define CHUNK 256
#define MAX_TOKENS 4096
#define MAX_RUNS 15
#define MAX_RATIOS 8
#define DIRECTIONS 4

static const struct shape {
	const char *name;
	unsigned int heads, kv_heads, dim;
} shapes[] = {
	{ "phonelm-0.5b", 16, 16, 64 },
	{ "phonelm-1.5b", 16, 16, 160 },
	{ "qwen2-0.5b", 14, 2, 64 },
	{ "qwen2-1.5b", 12, 2, 128 },
};

enum { ESTIMATE, SCORES, SELECT_S16, SELECT_F32, SPARSE, FULL, NR_STEPS };

static struct bench {
	const struct fw_kernels *kernels;
	const struct cpu_sparse *cpu;
	unsigned int runs, ratios[MAX_RATIOS], nr_ratios;
	uint64_t random;
	unsigned int group, dim, tokens;
	float *q, *k, *y; /* [tokens][group * dim], k: [tokens][dim] */
	uint16_t *cache; /* F16, keys and then values [tokens][dim] */
	uint8_t *panels;
	int8_t *q8;
	int16_t *s16; /* of a head's chunk: [CHUNK][lds] */
	float *s32;
	uint32_t *positions, *nr;
	void *scratch;
	double s[NR_STEPS][MAX_RUNS]; /* seconds of each step */
} b;

/* The thread's own time: others of a shared host do not count. */
static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void die(const char *what)
{
	fprintf(stderr, "bench_sparse: %s\n", what);
	exit(1);
}

static void *allocate(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

	if (!p)
		die("out of memory");
	memset(p, 0, bytes);
	return p;
}

/* splitmix64; about normal. */
static float normal(void)
{
	float sum = 0;

	for (int i = 0; i < 4; i++) {
		uint64_t z = b.random += 0x9e3779b97f4a7c15u;

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
		z = (z ^ z >> 27) * 0x94d049bb133111ebu;
		sum += (float)(z >> 40) * 0x1p-24f - 0.5f;
	}
	return sum * 1.7f;
}

/* Rows that share some directions, whose strengths change slowly from token to token. */
static void fill_rows(float *x, float directions[DIRECTIONS][256], unsigned int tokens)
{
	float strength[DIRECTIONS];

	for (int i = 0; i < DIRECTIONS; i++)
		strength[i] = normal();
	for (unsigned int t = 0; t < tokens; t++, x += b.dim) {
		for (int i = 0; i < DIRECTIONS; i++)
			strength[i] = 0.95f * strength[i] + 0.3f * normal();
		for (unsigned int d = 0; d < b.dim; d++) {
			x[d] = normal();
			for (int i = 0; i < DIRECTIONS; i++)
				x[d] += strength[i] * directions[i][d];
		}
	}
}

static void fill(void)
{
	float directions[DIRECTIONS][256], *rows = allocate(b.tokens * b.dim * sizeof(float));
	size_t ldq = b.group * b.dim;

	for (int i = 0; i < DIRECTIONS; i++)
		for (unsigned int d = 0; d < 256; d++)
			directions[i][d] = 0.5f * normal();
	fill_rows(b.k, directions, b.tokens);
	for (unsigned int h = 0; h < b.group; h++) {
		fill_rows(rows, directions, b.tokens);
		for (unsigned int t = 0; t < b.tokens; t++)
			memcpy(b.q + t * ldq + h * b.dim, rows + t * b.dim, b.dim * sizeof(float));
	}
	b.kernels->store(b.cache, b.k, b.tokens * b.dim, VNPU_KV_F16);
	fill_rows(rows, directions, b.tokens);
	b.kernels->store(b.cache + b.tokens * b.dim, rows, b.tokens * b.dim, VNPU_KV_F16);
	free(rows);
}

/* ---- the steps of a chunk from token @pos on ------------------------------------------------- */

static size_t lds(void)
{
	return (b.tokens + 63) / 64 * 64 + 64;
}

static void full(unsigned int pos)
{
	unsigned int queries = CHUNK * b.group, most = fw_attn_queries(b.dim);
	size_t row_bytes = b.dim * sizeof(uint16_t), ldq = b.group * b.dim;

	for (unsigned int first = 0; first < queries; first += most) {
		struct fw_attn t = {
			.q = b.q + pos * ldq,
			.y = b.y + pos * ldq,
			.ldq = ldq,
			.ldy = ldq,
			.heads = 1,
			.group = b.group,
			.first = first,
			.nr_q = queries - first < most ? queries - first : most,
			.pos = pos,
			.k = b.cache,
			.v = b.cache + b.tokens * b.dim,
			.k_row_bytes = row_bytes,
			.v_row_bytes = row_bytes,
			.kv_type = VNPU_KV_F16,
			.head_dim = b.dim,
			.scale = 1 / sqrtf((float)b.dim),
		};

		b.kernels->attn(&t, b.scratch);
	}
}

/* Packs a chunk's keys for the NPU. */
static void pack(unsigned int pos)
{
	b.kernels->pack_keys(b.panels, b.k + pos * b.dim, b.dim, CHUNK, b.dim, pos, 0.05f);
}

/* What the NPU does: multiplies the queries of head @h with all keys. */
static void estimate(unsigned int pos, unsigned int h)
{
	struct fw_qk_i8 t = {
		.q = b.q8,
		.k = b.panels,
		.scores = b.s16,
		.pos = pos,
		.rows = CHUNK,
		.head_dim = b.dim,
		.panels = (pos + CHUNK + 63) / 64,
		.shift = vnpu_qk_shift(b.dim),
		.ldq = b.dim,
		.lds = lds(),
	};
	float scale;

	for (unsigned int r = 0; r < CHUNK; r++)
		b.kernels->quant_static(b.q8 + r * b.dim, &scale,
					b.q + ((pos + r) * b.group + h) * b.dim, b.dim, 0.05f);
	b.kernels->qk_i8(&t, b.scratch);
}

static void scores(unsigned int pos, unsigned int h)
{
	struct cpu_sparse_scores t = {
		.q = b.q + (pos * b.group + h) * b.dim,
		.ldq = b.group * b.dim,
		.group = 1,
		.nr_q = CHUNK,
		.pos = pos,
		.k = b.cache,
		.k_row_bytes = b.dim * sizeof(uint16_t),
		.kv_type = VNPU_KV_F16,
		.head_dim = b.dim,
		.scores = b.s32,
		.ld = lds(),
	};

	b.cpu->scores(&t, b.scratch);
}

static void select_rows(unsigned int pos, unsigned int percent, bool f32)
{
	for (unsigned int i = 0; i < CHUNK; i++) {
		unsigned int n = pos + i + 1, keep = (n * percent + 99) / 100;
		uint32_t *found = b.positions + i * lds();

		b.nr[i] = (uint32_t)(f32 ? b.cpu->select_f32(found, b.s32 + i * lds(), n, keep)
					 : b.cpu->select_s16(found, b.s16 + i * lds(), n, keep));
	}
}

static void sparse(unsigned int pos, unsigned int h)
{
	size_t row_bytes = b.dim * sizeof(uint16_t), ldq = b.group * b.dim;
	struct cpu_sparse_attn t = {
		.q = b.q + pos * ldq + h * b.dim,
		.y = b.y + pos * ldq + h * b.dim,
		.ldq = ldq,
		.ldy = ldq,
		.group = 1,
		.nr_q = CHUNK,
		.k = b.cache,
		.v = b.cache + b.tokens * b.dim,
		.k_row_bytes = row_bytes,
		.v_row_bytes = row_bytes,
		.kv_type = VNPU_KV_F16,
		.head_dim = b.dim,
		.scale = 1 / sqrtf((float)b.dim),
		.positions = b.positions,
		.ld = lds(),
		.nr = b.nr,
	};

	b.cpu->attn(&t, b.scratch);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Adds the time since @from to a step of a run; returns the time. */
static double spent(unsigned int step, unsigned int run, double from)
{
	double now = now_s();

	b.s[step][run] += now - from;
	return now;
}

static void measure_head(unsigned int run, unsigned int percent, unsigned int pos, unsigned int h)
{
	double at = now_s();

	scores(pos, h);
	at = spent(SCORES, run, at);
	select_rows(pos, percent, true);
	at = spent(SELECT_F32, run, at);
	estimate(pos, h);
	at = spent(ESTIMATE, run, at);
	select_rows(pos, percent, false);
	at = spent(SELECT_S16, run, at);
	sparse(pos, h);
	spent(SPARSE, run, at);
}

static void measure_run(unsigned int run, unsigned int percent)
{
	double at;

	for (unsigned int step = 0; step < NR_STEPS; step++)
		b.s[step][run] = 0;
	for (unsigned int pos = 0; pos < b.tokens; pos += CHUNK) {
		at = now_s();
		full(pos);
		at = spent(FULL, run, at);
		pack(pos);
		spent(ESTIMATE, run, at);
		for (unsigned int h = 0; h < b.group; h++)
			measure_head(run, percent, pos, h);
	}
}

static int compare(const void *x, const void *y)
{
	double d = *(const double *)x - *(const double *)y;

	return d < 0 ? -1 : d > 0;
}

static void measure(const struct shape *s, unsigned int percent)
{
	double ms[NR_STEPS], pairs = (double)b.group * b.tokens * (b.tokens + 1) / 2, shadow, cg;

	for (unsigned int run = 0; run < b.runs; run++)
		measure_run(run, percent);
	for (unsigned int step = 0; step < NR_STEPS; step++) {
		qsort(b.s[step], b.runs, sizeof(double), compare);
		ms[step] = b.s[step][b.runs / 2] * 1e3;
	}
	shadow = ms[ESTIMATE] + ms[SELECT_S16] + ms[SPARSE];
	cg = ms[SCORES] + ms[SELECT_F32] + ms[SPARSE];
	printf("%-12s %6u %4u%% %9.1f %9.1f %9.1f %6.2f %6.2f  ", s->name, b.tokens, percent,
	       ms[FULL] * s->kv_heads, shadow * s->kv_heads, cg * s->kv_heads, ms[FULL] / shadow,
	       ms[FULL] / cg);
	for (unsigned int step = 0; step < NR_STEPS; step++)
		printf(" %6.3f", ms[step] * 1e6 / pairs);
	printf("\n");
	fflush(stdout);
}

static void begin_shape(const struct shape *s, unsigned int tokens)
{
	b.group = s->heads / s->kv_heads;
	b.dim = s->dim;
	b.tokens = tokens;
	b.q = allocate(tokens * b.group * b.dim * sizeof(float));
	b.y = allocate(tokens * b.group * b.dim * sizeof(float));
	b.k = allocate(tokens * b.dim * sizeof(float));
	b.cache = allocate(2 * tokens * b.dim * sizeof(uint16_t));
	b.panels = allocate((tokens + 63) / 64 * VNPU_QK_PANEL_BYTES(b.dim));
	b.q8 = allocate(CHUNK * b.dim);
	b.s16 = allocate(CHUNK * lds() * sizeof(int16_t));
	b.s32 = allocate(CHUNK * lds() * sizeof(float));
	b.positions = allocate(CHUNK * lds() * sizeof(uint32_t));
	b.nr = allocate(CHUNK * sizeof(uint32_t));
	fill();
}

static void end_shape(void)
{
	free(b.q);
	free(b.y);
	free(b.k);
	free(b.cache);
	free(b.panels);
	free(b.q8);
	free(b.s16);
	free(b.s32);
	free(b.positions);
	free(b.nr);
}

static void measure_all(const char *shape, unsigned int only)
{
	printf("%s, CPU lane %s\n%-12s %6s %5s %9s %9s %9s %6s %6s   ns per query and key: "
	       "estimate, scores, select s16, f32, sparse, full\n",
	       b.kernels->name, b.cpu->name, "shape", "tokens", "ratio", "full ms", "shadow ms",
	       "C/G ms", "shadow", "C/G");
	for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
		for (unsigned int tokens = 1024; tokens <= MAX_TOKENS; tokens *= 2) {
			if ((only && tokens != only) || (shape && strcmp(shape, shapes[s].name)))
				continue;
			begin_shape(&shapes[s], tokens);
			for (unsigned int i = 0; i < b.nr_ratios; i++)
				measure(&shapes[s], b.ratios[i]);
			end_shape();
		}
}

static void read_ratios(char *list)
{
	char *next, *item;

	b.nr_ratios = 0;
	for (item = strtok_r(list, ",", &next); item; item = strtok_r(NULL, ",", &next)) {
		unsigned int percent = (unsigned int)atoi(item);

		if (percent < 1 || percent > 100 || b.nr_ratios == MAX_RATIOS)
			die("-r: up to 8 ratios of 1 to 100 percent");
		b.ratios[b.nr_ratios++] = percent;
	}
}

int main(int argc, char **argv)
{
	const char *shape = NULL, *set = NULL;
	char usual[] = "20,30,40";
	unsigned int only = 0;
	int c;

	b.runs = 3;
	read_ratios(usual);
	while ((c = getopt(argc, argv, "r:n:s:t:i:")) >= 0) {
		if (c == 'r')
			read_ratios(optarg);
		else if (c == 'n')
			b.runs = (unsigned int)atoi(optarg);
		else if (c == 's')
			shape = optarg;
		else if (c == 't')
			only = (unsigned int)atoi(optarg);
		else if (c == 'i')
			set = optarg;
		else
			return 2;
	}
	if (b.runs < 1 || b.runs > MAX_RUNS)
		die("-n: 1 to 15 runs");
	b.kernels = fw_kernels_get(FW_ISA_AUTO);
	b.cpu = cpu_sparse_get(set);
	if (!b.cpu)
		die("this host does not have that instruction set");
	b.scratch = allocate(CPU_SPARSE_SCRATCH_BYTES + FW_SCRATCH_BYTES);
	measure_all(shape, only);
	return 0;
}
