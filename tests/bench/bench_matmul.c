// SPDX-License-Identifier: MIT
/*
 * Matmul: GOPS (2 m n k per second) of each instruction set of this host, and the fraction of the
 * host's peak: vpdpbusd on registers only, or for one row, which reads every weight once, reading
 * memory.
 *
 *	bench_matmul [-t SECONDS per figure (0.3)] [-i ISA] [-w i8|w4|w4f|wk|q4_k|...] [-g GROUP
 *	(32)] [-s MxNxK] [kernel] [device]
 *
 * -s: only this shape. q4_k and so on: MATMUL_KQ with weights of this type. wk: few shapes, each
 * with every width of 1 to 8 bits, after MATMUL_I8.
 *
 * kernel: one call on one thread, without and with huge pages. device: a compiled graph on the sim
 * transport with one and two workers, as a program would run it.
 *
 * GOPS are on the wall clock, and so show how well the workers share the work. Hosts have other
 * work and varying frequencies, so the fraction of the peak is in CPU time, and subject and peer
 * run alternately for about a millisecond each, at the same frequency and load. Figures are medians
 * over the turns; ratios are to the peer's turns directly before and after. A neighbour on a core's
 * other hardware thread slows users of caches more than users of registers only. If the peer's
 * speed shows that some turns had no neighbour, their median is printed too.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "isa_ops.h"
#include "kernels.h"
#include "npu.h"
#include "npu_graph.h"
#include "peak.h"
#include "reader.h"

#define HUGE (2ul << 20)
#define MEMORY_BYTES (256ul << 20)
#define TURN_S 1e-3
#define MAX_TURNS 4000
/* A turn is quiet if the peer before and after it reaches this fraction of its greatest speed in
 * this run; the median needs this many quiet turns. */
#define QUIET 0.97
#define MIN_QUIET_TURNS 20
#define MAX_THREADS 2

static double clock_s(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

static double seconds(void)
{
	return clock_s(CLOCK_MONOTONIC);
}

static void die(const char *what)
{
	fprintf(stderr, "bench_matmul: %s\n", what);
	exit(1);
}

/* Random bytes or zeros. */
static void *fill(size_t bytes, bool random, bool huge)
{
	size_t size = (bytes + 2 * HUGE - 1) / HUGE * HUGE, i;
	uint8_t *p =
		mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t x = 1;

	if (p == MAP_FAILED)
		die("out of memory");
	p += -(uintptr_t)p % HUGE;
	madvise(p, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	for (i = 0; i < size / 4; i++)
		((uint32_t *)p)[i] = random ? x = x * 1664525 + 1013904223 : 0;
	return p;
}

/* Activations that have been quantised have no -128, without which AVX2's kernels are faster. */
static void make_activations(void *p, size_t bytes)
{
	int8_t *a = p;

	for (size_t i = 0; i < bytes; i++)
		a[i] = a[i] == -128 ? 127 : a[i];
}

static void unfill(void *p, size_t bytes)
{
	munmap(p, (bytes + 2 * HUGE - 1) / HUGE * HUGE);
}

/* ---- the peers ------------------------------------------------------------------------------- */

struct peer {
	double (*rate)(double limit); /* GOPS or GB/s of one thread, over @limit seconds */
	double limit, result;
};

static uint8_t *memory; /* in pages of the subject's size, which makes a difference of 25 % */

static reader_fn reader;

/* GB/s of this thread's CPU time. */
static double read_rate(double limit)
{
	static __thread size_t at;
	double start = clock_s(CLOCK_THREAD_CPUTIME_ID), t;
	uint64_t n = 0;

	do {
		reader(memory + at);
		at = (at + READER_BYTES) % MEMORY_BYTES;
		n += READER_BYTES;
		t = clock_s(CLOCK_THREAD_CPUTIME_ID) - start;
	} while (t < limit);
	return n / t * 1e-9;
}

/* The faster one on this host. */
static void choose_reader(void)
{
	double best = 0;

	for (unsigned int i = 0; i < 5 * READERS; i++) {
		reader_fn fastest = reader;
		double rate;

		reader = readers[i % READERS];
		rate = read_rate(0.02);
		if (rate > best)
			best = rate;
		else
			reader = fastest;
	}
}

static void *peer_main(void *arg)
{
	struct peer *p = arg;

	p->result = p->rate(p->limit);
	return NULL;
}

/* The mean rate of @threads threads that run together. */
static double peer_rate(double (*rate)(double), unsigned int threads, double limit)
{
	struct peer p[MAX_THREADS];
	pthread_t id[MAX_THREADS];
	double sum = 0;
	unsigned int i;

	p[0] = (struct peer){ rate, limit, 0 };
	for (i = 1; i < threads; i++) {
		p[i] = p[0];
		if (pthread_create(&id[i], NULL, peer_main, &p[i]))
			die("no thread");
	}
	peer_main(&p[0]);
	for (i = 0; i < threads; i++) {
		if (i)
			pthread_join(id[i], NULL);
		sum += p[i].result;
	}
	return sum / threads;
}

/* ---- taking turns ---------------------------------------------------------------------------- */

struct subject {
	void (*run)(void *arg);
	void *arg;
	double giga; /* operations or bytes of a run, in 1e9 */
	unsigned int threads;
};

struct figure {
	double rate, ratio;
	double quiet, quiet_ratio; /* fraction of quiet turns, and their ratio; 0: too few */
};

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, unsigned int n)
{
	qsort(v, n, sizeof(*v), ascending);
	return v[n / 2];
}

/* @peers: rates before each of @n turns and after the last one. Overwrites @ratios. */
static void quiet_turns(struct figure *f, unsigned int threads, const double *peers, double *ratios,
			unsigned int n)
{
	static double sorted[MAX_TURNS + 1], fastest[MAX_THREADS + 1];
	unsigned int quiet = 0, i;
	double least;

	memcpy(sorted, peers, (n + 1) * sizeof(*peers));
	qsort(sorted, n + 1, sizeof(*sorted), ascending);
	/* Not the maximum, which may be an error of reading the clock late. */
	least = sorted[n * 95 / 100];
	if (least > fastest[threads])
		fastest[threads] = least;
	least = fastest[threads] * QUIET;
	for (i = 0; i < n; i++)
		if (peers[i] >= least && peers[i + 1] >= least)
			ratios[quiet++] = ratios[i];
	if (quiet < MIN_QUIET_TURNS)
		return;
	f->quiet = (double)quiet / n;
	f->quiet_ratio = median(ratios, quiet);
}

/* @peer may be NULL: no ratio. */
static struct figure measure(const struct subject *s, double (*peer)(double), double limit)
{
	static double rates[MAX_TURNS], ratios[MAX_TURNS], sorted[MAX_TURNS], peers[MAX_TURNS + 1];
	unsigned int n = 0, runs, i;
	double end, start, cpu, t;
	struct figure f = { 0 };

	s->run(s->arg);
	start = seconds();
	s->run(s->arg);
	t = seconds() - start;
	runs = t < TURN_S ? TURN_S / t : 1;
	if (peer)
		peers[0] = peer_rate(peer, s->threads, TURN_S);
	end = seconds() + limit;
	do {
		start = seconds();
		cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID);
		for (i = 0; i < runs; i++)
			s->run(s->arg);
		t = seconds() - start;
		cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu;
		rates[n] = s->giga * runs / t;
		if (peer) {
			peers[n + 1] = peer_rate(peer, s->threads, TURN_S);
			ratios[n] = s->giga * runs / cpu / ((peers[n] + peers[n + 1]) / 2);
		}
		n++;
	} while (n < MAX_TURNS && seconds() < end);
	f.rate = median(rates, n);
	if (peer) {
		memcpy(sorted, ratios, n * sizeof(*ratios));
		f.ratio = median(sorted, n);
		/* The speed of memory varies too much to detect quiet turns. */
		if (peer != read_rate)
			quiet_turns(&f, s->threads, peers, ratios, n);
	}
	return f;
}

/* ---- the subjects ---------------------------------------------------------------------------- */

struct shape {
	uint32_t m, n, k;
};

/* The measured command: MATMUL_I8, _W4, _W4F, _WK or _KQ. */
static enum vnpu_op op = VNPU_OP_MATMUL_I8;
static uint32_t group = 32;
static uint32_t bits; /* width of all weights of MATMUL_WK */
static uint32_t kq_type; /* of MATMUL_KQ */

#define MAX_N 151936

static const uint8_t *all_bits(void)
{
	static uint8_t each[MAX_N];

	memset(each, (int)bits, sizeof(each));
	return each;
}

static size_t weight_bytes(uint32_t n, uint32_t k)
{
	if (op == VNPU_OP_MATMUL_WK)
		return npu_wk_bytes(n, k, all_bits());
	if (op == VNPU_OP_MATMUL_KQ)
		return npu_kq_bytes(kq_type, n, k);
	return op == VNPU_OP_MATMUL_I8 ? npu_w8_bytes(n, k) : npu_w4_bytes(n, k, group);
}

static size_t row_bytes(uint32_t k)
{
	return op == VNPU_OP_MATMUL_W4F ? k * 4ul : (k + 3) / 4 * 4;
}

/* Scales in each block of a matrix: no subnormals, and beside minima 6 bits, as files have. */
static void set_kq_scales(uint8_t *w, const uint8_t *end)
{
	const struct vnpu_kq_form f = vnpu_kq_form(kq_type);

	for (; w < end; w += vnpu_kq_block_bytes(f)) {
		for (uint32_t i = 0; i < (f.mins ? 128 : 64); i++)
			((uint16_t *)w)[i] = 0x2000;
		for (uint32_t i = 256; f.mins && i < vnpu_kq_scales_bytes(f); i++)
			w[i] &= 63;
	}
}

/* Sets MATMUL_WK's table, and scales that are no subnormals, which would be unusually slow. */
static void set_scales(uint8_t *w, uint32_t n, uint32_t k)
{
	uint64_t panel_bytes = op == VNPU_OP_MATMUL_KQ
				       ? 0
				       : weight_bytes(1, op == VNPU_OP_MATMUL_I8 ? k : group),
		 at = VNPU_WK_TABLE_BYTES(n), i;
	struct vnpu_wk_panel *entry = (struct vnpu_wk_panel *)w;
	uint8_t *end = w + weight_bytes(n, k);

	if (op == VNPU_OP_MATMUL_KQ) {
		set_kq_scales(w, end);
		return;
	}

	if (op == VNPU_OP_MATMUL_WK) {
		panel_bytes = VNPU_PANEL_WK_BYTES(k, bits);
		for (w += at; w < end; at += panel_bytes, w += panel_bytes) {
			*entry++ = (struct vnpu_wk_panel){ (uint32_t)(at / 64), bits };
			for (i = 1; i <= 64; i++)
				((float *)(w + panel_bytes))[-i] = 0.01f;
		}
		return;
	}
	for (w += panel_bytes; w <= end; w += panel_bytes) {
		for (i = 1; i <= 64; i++) {
			if (op == VNPU_OP_MATMUL_I8)
				((float *)w)[-i] = 0.01f;
			else
				((uint16_t *)w)[-i] = 0x2000;
		}
	}
}

struct kernel_arg {
	const struct fw_kernels *k;
	struct fw_matmul_i8 i8;
	struct fw_matmul_w4 w4;
	struct fw_matmul_kq kq;
	void *scratch;
};

static void kernel_run(void *arg)
{
	struct kernel_arg *a = arg;

	if (op == VNPU_OP_MATMUL_I8 || op == VNPU_OP_MATMUL_WK)
		a->k->matmul_i8(&a->i8, a->scratch);
	else if (op == VNPU_OP_MATMUL_KQ)
		a->k->matmul_kq(&a->kq, a->scratch);
	else
		(op == VNPU_OP_MATMUL_W4 ? a->k->matmul_w4 : a->k->matmul_w4f)(&a->w4, a->scratch);
}

static struct figure kernel_figure(const struct fw_kernels *k, const struct shape *s, bool huge,
				   double (*peer)(double), double giga, double limit)
{
	size_t w_bytes = weight_bytes(s->n, s->k), c_bytes = (size_t)s->m * s->n * 4,
	       a_bytes = s->m * row_bytes(s->k);
	/* Floats are 0: random bytes make subnormals. */
	void *a = fill(a_bytes, op != VNPU_OP_MATMUL_W4F, huge);
	float *scale = fill(s->m * 4, false, huge), *c = fill(c_bytes, false, huge);
	uint8_t *w = fill(w_bytes, true, huge), *scratch = fill(FW_SCRATCH_BYTES, false, huge);
	struct kernel_arg arg = {
		k,
		{ a, scale, w, NULL, c, s->m, s->n, s->k, (s->k + 3) / 4 * 4, s->n, NULL },
		{ a, op == VNPU_OP_MATMUL_W4 ? scale : NULL, w, NULL, c, s->m, s->n, s->k, group,
		  s->k, s->n },
		{ a, scale, w, NULL, c, s->m, s->n, s->k, kq_type, s->k, s->n },
		scratch,
	};
	struct subject subject = { kernel_run, &arg, giga, 1 };
	static struct fw_wk_panel panels[MAX_N / VNPU_PANEL_N];
	struct figure f;
	uint32_t i;

	make_activations(a, a_bytes);
	set_scales(w, s->n, s->k);
	for (i = 0; op == VNPU_OP_MATMUL_WK && i < (s->n + VNPU_PANEL_N - 1) / VNPU_PANEL_N; i++)
		panels[i] = (struct fw_wk_panel){ w + ((struct vnpu_wk_panel *)w)[i].offset * 64ull,
						  bits };
	if (op == VNPU_OP_MATMUL_WK)
		arg.i8.wk = panels;
	f = measure(&subject, peer, limit);
	unfill(a, a_bytes);
	unfill(scale, s->m * 4);
	unfill(c, c_bytes);
	unfill(w, w_bytes);
	unfill(scratch, FW_SCRATCH_BYTES);
	return f;
}

struct device_arg {
	struct npu_device *dev;
	struct npu_context *ctx;
	struct npu_queue *queue;
	struct npu_job *job;
};

static void device_run(void *arg)
{
	struct device_arg *d = arg;
	uint64_t seqno;

	if (npu_queue_submit(d->queue, &d->job, 1, NULL, &seqno) ||
	    npu_queue_wait(d->queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER))
		die(npu_error());
}

/* A buffer of random bytes, or zeros, for a symbol of the job. */
static struct npu_buffer *device_buffer(struct device_arg *d, const char *symbol, size_t bytes,
					bool random)
{
	struct npu_buffer *buf;
	uint32_t *p, x = 1;
	size_t i;

	if (npu_buffer_create(d->ctx, bytes, 0, &buf) ||
	    npu_job_bind(d->job, symbol, buf, 0, bytes))
		die(npu_error());
	p = npu_buffer_data(buf);
	for (i = 0; i < bytes / 4; i++)
		p[i] = random ? x = x * 1664525 + 1013904223 : 0;
	return buf;
}

static void device_job(struct device_arg *d, const struct shape *s)
{
	struct npu_graph *g = npu_graph_create("matmul");
	struct npu_tensor *a = npu_graph_input(g, "a", op == VNPU_OP_MATMUL_W4F ? NPU_F32 : NPU_S8,
					       s->m, s->k),
			  *c;
	struct npu_tensor *scale = npu_graph_input(g, "a_scale", NPU_F32, s->m, 1), *w;
	struct npu_program *prog;
	size_t bytes;
	void *image;

	if (op == VNPU_OP_MATMUL_I8)
		w = npu_graph_weight(g, "w", NPU_W8_PANEL, s->n, s->k);
	else if (op == VNPU_OP_MATMUL_WK)
		w = npu_graph_weight_wk(g, "w", s->n, s->k, all_bits());
	else if (op == VNPU_OP_MATMUL_KQ)
		w = npu_graph_weight_kq(g, "w", kq_type, s->n, s->k);
	else
		w = npu_graph_weight_w4(g, "w", s->n, s->k, group);
	if (op == VNPU_OP_MATMUL_I8)
		c = npu_matmul_i8(g, a, scale, w, NULL);
	else if (op == VNPU_OP_MATMUL_WK)
		c = npu_matmul_wk(g, a, scale, w, NULL);
	else if (op == VNPU_OP_MATMUL_KQ)
		c = npu_matmul_kq(g, a, scale, w, NULL);
	else
		c = op == VNPU_OP_MATMUL_W4 ? npu_matmul_w4(g, a, scale, w, NULL)
					    : npu_matmul_w4f(g, a, w, NULL);
	npu_graph_output(g, "c", c);
	if (npu_graph_compile(g, &image, &bytes) || npu_program_load(d->ctx, image, bytes, &prog) ||
	    npu_job_create(prog, &d->job))
		die(npu_error());
	npu_program_free(prog);
	npu_graph_free(g);
	free(image);
}

static struct figure device_figure(const struct fw_kernels *k, const struct shape *s,
				   unsigned int threads, double (*peer)(double), double giga,
				   double limit)
{
	struct npu_device_options opts = { .transport = NPU_TRANSPORT_SIM,
					   .threads = threads,
					   .isa = k->name };
	struct device_arg d;
	struct npu_buffer *bufs[4];
	struct subject subject = { device_run, &d, giga, threads };
	struct figure f;
	unsigned int i;

	if (npu_device_open(&opts, &d.dev) || npu_context_create(d.dev, &d.ctx) ||
	    npu_queue_create(d.ctx, NULL, &d.queue))
		die(npu_error());
	device_job(&d, s);
	bufs[0] = device_buffer(&d, "a", s->m * row_bytes(s->k), op != VNPU_OP_MATMUL_W4F);
	bufs[1] = device_buffer(&d, "a_scale", s->m * 4, false);
	bufs[2] = device_buffer(&d, "w", weight_bytes(s->n, s->k), true);
	bufs[3] = device_buffer(&d, "c", (size_t)s->m * s->n * 4, false);
	make_activations(npu_buffer_data(bufs[0]), s->m * row_bytes(s->k));
	set_scales(npu_buffer_data(bufs[2]), s->n, s->k);
	f = measure(&subject, peer, limit);
	npu_job_free(d.job);
	for (i = 0; i < 4; i++)
		npu_buffer_free(bufs[i]);
	npu_queue_free(d.queue);
	npu_context_free(d.ctx);
	npu_device_close(d.dev);
	return f;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct shape shapes[] = {
	{ 1, 1024, 1024 },   { 1, 4096, 4096 },	  { 1, 151936, 2048 }, { 2, 16384, 2048 },
	{ 4, 16384, 2048 },  { 8, 16384, 2048 },  { 16, 16384, 2048 }, { 64, 2048, 2048 },
	{ 128, 256, 2048 },  { 256, 2048, 2048 }, { 256, 4096, 896 },  { 96, 1024, 8192 },
	{ 256, 2560, 9728 }, { 512, 8192, 2048 }, { 512, 2048, 8192 },
};

static const struct shape wk_shapes[] = {
	{ 1, 151936, 2048 }, { 4, 16384, 2048 }, { 16, 16384, 2048 }, { 256, 2048, 2048 }
};

static uint8_t *memories[2]; /* in 4k pages, in huge ones */

/* Prints a figure and its ratio to a peer: memory for one row, the multipliers for more. */
static void row(const struct fw_kernels *k, const struct shape *s, const char *how,
		unsigned int threads, bool huge, double (*peak)(double), double limit)
{
	bool gemv = s->m == 1;
	double ops = 2.0 * s->m * s->n * s->k * 1e-9,
	       giga = gemv ? weight_bytes(s->n, s->k) * 1e-9 : ops;
	double (*peer)(double) = gemv ? read_rate : peak;
	struct figure f;

	memory = memories[huge];
	f = threads ? device_figure(k, s, threads, peer, giga, limit)
		    : kernel_figure(k, s, huge, peer, giga, limit);
	printf("%-12s %-10s %5u %6u %6u %9.1f", k->name, how, s->m, s->n, s->k,
	       f.rate / giga * ops);
	if (gemv)
		printf(" %6.1f GB/s", f.rate);
	if (peer)
		printf("  %.3f of %s", f.ratio, gemv ? "bandwidth" : "peak");
	if (f.quiet > 0)
		printf(", %.3f in the %.0f %% quiet turns", f.quiet_ratio, f.quiet * 100);
	printf("\n");
	fflush(stdout);
}

/* Prints one shape in all ways. */
static void rows(const struct fw_kernels *k, const struct shape *s, bool kernel, bool device,
		 double (*peak)(double), double limit)
{
	char how[4][16];

	snprintf(how[0], sizeof(how[0]), bits ? "4k %ub" : "4k pages", bits);
	snprintf(how[1], sizeof(how[1]), bits ? "huge %ub" : "huge pages", bits);
	snprintf(how[2], sizeof(how[2]), bits ? "dev x1 %ub" : "device x1", bits);
	snprintf(how[3], sizeof(how[3]), bits ? "dev x2 %ub" : "device x2", bits);
	if (kernel) {
		row(k, s, how[0], 0, false, peak, limit);
		row(k, s, how[1], 0, true, peak, limit);
	}
	if (device) {
		row(k, s, how[2], 1, false, peak, limit);
		if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
			row(k, s, how[3], 2, false, peak, limit);
	}
}

static void wk_rows(const struct fw_kernels *k, const struct shape *s, bool kernel, bool device,
		    double (*peak)(double), double limit)
{
	for (bits = 0; bits <= 8; bits++) {
		op = bits ? VNPU_OP_MATMUL_WK : VNPU_OP_MATMUL_I8;
		rows(k, s, kernel, device, peak, limit);
	}
	op = VNPU_OP_MATMUL_WK;
}

/* @one: this shape; NULL: the table's, without those where the portable kernels take seconds. */
static void table(enum fw_isa isa, const struct shape *one, bool kernel, bool device,
		  double (*peak)(double), double limit)
{
	const struct shape *s = op == VNPU_OP_MATMUL_WK ? wk_shapes : shapes, *end;
	const struct fw_kernels *k = fw_kernels_get(isa);

	end = s + (op == VNPU_OP_MATMUL_WK ? sizeof(wk_shapes) : sizeof(shapes)) / sizeof(*s);
	if (one) {
		s = one;
		end = one + 1;
	}
	for (; k && s < end; s++) {
		if (op == VNPU_OP_MATMUL_KQ && s->k % vnpu_kq_form(kq_type).block)
			continue;
		if (!one && isa == FW_ISA_GENERIC &&
		    (op == VNPU_OP_MATMUL_WK || (double)s->m * s->n * s->k > 7e7))
			continue;
		if (op == VNPU_OP_MATMUL_WK)
			wk_rows(k, s, kernel, device, peak, limit);
		else
			rows(k, s, kernel, device, peak, limit);
	}
}

/* False: no type of MATMUL_KQ. */
static bool parse_kq(const char *name)
{
	for (kq_type = 0; kq_type < VNPU_NR_KQ_TYPES; kq_type++)
		if (!strcmp(isa_kq_names[kq_type], name))
			return true;
	kq_type = 0;
	return false;
}

/* False: not a shape, or too large. */
static bool parse_shape(const char *text, struct shape *s)
{
	int end = 0;

	if (sscanf(text, "%5ux%6ux%6u%n", &s->m, &s->n, &s->k, &end) != 3 || text[end])
		return false;
	return s->m && s->m <= VNPU_MAX_DIM && s->n && s->n <= MAX_N && s->k &&
	       s->k <= VNPU_MAX_K_I8;
}

int main(int argc, char **argv)
{
	static const enum fw_isa isas[] = { FW_ISA_AVX512_AMX, FW_ISA_AVX512_VNNI,
					    FW_ISA_AVX_VNNI,   FW_ISA_AVX2,
					    FW_ISA_NEON_I8MM,  FW_ISA_NEON_DOTPROD,
					    FW_ISA_GENERIC };
	double limit = 0.3, (*peak)(double) = NULL;
	const char *isa = NULL;
	struct shape shape, *one = NULL;
	bool kernel, device;
	unsigned int i;
	int opt;

	while ((opt = getopt(argc, argv, "t:i:w:g:s:")) != -1) {
		if (opt == 's' && parse_shape(optarg, &shape))
			one = &shape;
		else if (opt == 't')
			limit = atof(optarg);
		else if (opt == 'i')
			isa = optarg;
		else if (opt == 'g')
			group = atoi(optarg);
		else if (opt == 'w' && !strcmp(optarg, "w4"))
			op = VNPU_OP_MATMUL_W4;
		else if (opt == 'w' && !strcmp(optarg, "w4f"))
			op = VNPU_OP_MATMUL_W4F;
		else if (opt == 'w' && !strcmp(optarg, "wk"))
			op = VNPU_OP_MATMUL_WK;
		else if (opt == 'w' && parse_kq(optarg))
			op = VNPU_OP_MATMUL_KQ;
		else if (opt != 'w' || strcmp(optarg, "i8"))
			limit = 0;
	}
	kernel = optind == argc || !strcmp(argv[optind], "kernel");
	device = optind == argc || !strcmp(argv[argc - 1], "device");
	if (one && (op == VNPU_OP_MATMUL_W4 || op == VNPU_OP_MATMUL_W4F) && one->k % group)
		limit = 0;
	if (limit <= 0 || (!kernel && !device) || !npu_w4_bytes(1, group, group)) {
		fprintf(stderr, "usage: bench_matmul [-t SECONDS] [-i ISA] [-w i8|w4|w4f|wk|"
				"q4_k|...] [-g 32|64|128] [-s MxNxK] [kernel] [device]\n");
		return 2;
	}
	for (i = 0; i < 2; i++)
		memories[i] = fill(MEMORY_BYTES + READER_AHEAD, true, i);
	memory = memories[1];
	choose_reader();
#if defined(__x86_64__)
	if (fw_kernels_get(FW_ISA_AVX512_VNNI))
		peak = vpdpbusd_rate;
#endif
	if (peak)
		printf("vpdpbusd peak %.1f GOPS, ", peer_rate(peak, 1, limit));
	for (i = 0; i < 2; i++) {
		memory = memories[i];
		printf("%sreading memory %.1f GB/s", i ? ", in huge pages " : "",
		       peer_rate(read_rate, 1, limit));
	}
	printf("\n");
	printf("%-12s %-10s %5s %6s %6s %9s\n", "isa", "", "m", "n", "k", "GOPS");
	for (i = 0; i < sizeof(isas) / sizeof(isas[0]); i++)
		if (!isa ||
		    (fw_kernels_get(isas[i]) && !strcmp(isa, fw_kernels_get(isas[i])->name)))
			table(isas[i], one, kernel, device, peak, limit);
	return 0;
}
