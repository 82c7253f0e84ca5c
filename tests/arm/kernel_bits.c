// SPDX-License-Identifier: MIT
/*
 * kernel_bits SEED: computes all kernels on random data and prints one line per call. Each set of
 * kernels that this machine can run must give the bits of the portable one, and two machines must
 * print the same lines, which tests/arm/check.sh compares. Operands end at the end of a mapping.
 *
 * First prints "set NAME" for each set, the portable one first and the best one last. Exits with
 * status 1 if a set differs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu_kernels.h"
#include "fw_data.h"
#include "kernels.h"
#include "unpack_panel.h"

static const struct fw_kernels *sets[FW_ISA_NEON_I8MM];
static unsigned int nr_sets;
static int status;
static _Alignas(64) uint8_t scratch[FW_SCRATCH_BYTES];

/* Allocations of a case, freed at its end. */
static struct {
	void *map;
	size_t bytes;
} maps[64];
static unsigned int nr_maps;

/* Memory that ends at an inaccessible page. */
static void *need(size_t bytes)
{
	size_t page = sysconf(_SC_PAGESIZE), size = (bytes + page - 1) / page * page;
	uint8_t *map =
		mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (nr_maps == sizeof(maps) / sizeof(maps[0]) || map == MAP_FAILED ||
	    mprotect(map + size, page, PROT_NONE)) {
		fprintf(stderr, "kernel_bits: %zu bytes: %s\n", bytes, strerror(errno));
		exit(2);
	}
	maps[nr_maps].map = map;
	maps[nr_maps++].bytes = size + page;
	return map + size - bytes;
}

static void end_case(void)
{
	while (nr_maps) {
		nr_maps--;
		munmap(maps[nr_maps].map, maps[nr_maps].bytes);
	}
}

static float *random_floats(size_t n, float scale)
{
	float *x = need(n * sizeof(*x));
	size_t i;

	for (i = 0; i < n; i++)
		x[i] = rng_float() * scale;
	return x;
}

static void *random_bytes(size_t n, bool extreme)
{
	int8_t *x = need(n);
	size_t i;

	for (i = 0; i < n; i++) {
		x[i] = (int8_t)rng_u32();
		if (extreme)
			x[i] = x[i] & 7 ? -128 : 127;
	}
	return x;
}

/* lo..hi */
static uint32_t random_in(uint32_t lo, uint32_t hi)
{
	return lo + rng_below(hi - lo + 1);
}

/* ---- comparing ------------------------------------------------------------------------------- */

enum of { F32, F16, BYTES };

/* Replaces all NaNs by one, because sign and payload are unspecified. */
static void settle(void *y, size_t bytes, enum of of)
{
	uint32_t *f32 = y;
	uint16_t *f16 = y;
	size_t i;

	for (i = 0; of == F32 && i < bytes / 4; i++)
		if ((f32[i] & 0x7fffffff) > 0x7f800000)
			f32[i] = 0x7fc00000;
	for (i = 0; of == F16 && i < bytes / 2; i++)
		if ((f16[i] & 0x7fff) > 0x7c00)
			f16[i] = 0x7e00;
}

/* FNV-1a */
static uint64_t checksum(const uint8_t *p, size_t n)
{
	uint64_t sum = 0xcbf29ce484222325;

	while (n--)
		sum = (sum ^ *p++) * 0x100000001b3;
	return sum;
}

/* All sets run @call, which writes to y[bytes] or leaves it unchanged. */
static void compare(const char *what, size_t bytes, enum of of,
		    void (*call)(const struct fw_kernels *k, void *y, const void *arg),
		    const void *arg)
{
	uint8_t *ref = need(bytes), *y = need(bytes);
	unsigned int s;
	size_t i;

	for (s = 0; s < nr_sets; s++) {
		memset(s ? y : ref, 0x55, bytes);
		call(sets[s], s ? y : ref, arg);
		settle(s ? y : ref, bytes, of);
		for (i = 0; s && i < bytes && y[i] == ref[i]; i++)
			;
		if (!s || i == bytes)
			continue;
		fprintf(stderr, "%s: %s differs from %s at byte %zu of %zu\n", what, sets[s]->name,
			sets[0]->name, i, bytes);
		status = 1;
	}
	printf("%s %016llx\n", what, (unsigned long long)checksum(ref, bytes));
}

/* ---- matmuls --------------------------------------------------------------------------------- */

static void call_i8(const struct fw_kernels *k, void *y, const void *arg)
{
	struct fw_matmul_i8 t = *(const struct fw_matmul_i8 *)arg;

	t.c = y;
	k->matmul_i8(&t, scratch);
}

static void call_add_outliers(const struct fw_kernels *k, void *y, const void *arg)
{
	struct fw_add_outliers t = *(const struct fw_add_outliers *)arg;

	t.y = y;
	k->add_outliers(&t, scratch);
}

/* With the weights of a matmul; @wk: those of MATMUL_WK, or NULL. */
static void test_add_outliers(uint32_t m, uint32_t n, uint32_t k, uint32_t group,
			      const uint8_t *panels, const struct fw_wk_panel *wk)
{
	size_t ldx = n + rng_below(9), ldy = n + rng_below(9);
	struct vnpu_outliers *lists = need(m * sizeof(*lists));
	float *x = random_floats((m - 1) * ldx + n, 10);
	struct fw_add_outliers t = { x, lists, panels, NULL, m, n, k, group, ldx, ldy, wk };
	char what[96];

	for (uint32_t i = 0; i < m; i++)
		for (uint32_t j = 0, column = rng_below(k); j < VNPU_OUTLIERS;
		     j++, column += 1 + rng_below(k / 8 + 1)) {
			lists[i].value[j] = rng_float() * 10;
			lists[i].column[j] = (float)column;
		}
	snprintf(what, sizeof(what), "add_outliers%s m %u n %u k %u group %u", wk ? "_wk" : "", m,
		 n, k, group);
	compare(what, ((m - 1) * ldy + n) * 4, F32, call_add_outliers, &t);
}

static void test_i8(uint32_t m, uint32_t n, uint32_t k, bool extreme)
{
	uint32_t k4 = (k + 3) / 4 * 4;
	size_t lda = k4 + rng_below(9), ldc = n + rng_below(9);
	int8_t *a = random_bytes((m - 1) * lda + k4, extreme),
	       *w = random_bytes((size_t)n * k, extreme);
	float *a_scale = random_floats(m, 0.1f), *w_scale = random_floats(n, 0.1f),
	      *bias = random_floats(n, 10);
	uint8_t *panels = need((n + 63) / 64 * VNPU_PANEL_I8_BYTES(k));
	struct fw_matmul_i8 t = { a, a_scale, panels, bias, NULL, m, n, k, lda, ldc, NULL };
	char what[96];

	if (rng_below(2))
		t.bias = NULL;
	pack_w8(panels, w, w_scale, n, k);
	snprintf(what, sizeof(what), "matmul_i8 m %u n %u k %u", m, n, k);
	compare(what, ((m - 1) * ldc + n) * 4, F32, call_i8, &t);
	test_add_outliers(m, n, k, 0, panels, NULL);
	end_case();
}

static void call_w4(const struct fw_kernels *k, void *y, const void *arg)
{
	struct fw_matmul_w4 t = *(const struct fw_matmul_w4 *)arg;

	t.c = y;
	(t.a_scale ? k->matmul_w4 : k->matmul_w4f)(&t, scratch);
}

static void test_w4(uint32_t m, uint32_t n, uint32_t k, uint32_t group, bool extreme, bool wild)
{
	size_t lda = k + rng_below(9), ldc = n + rng_below(9), i;
	int8_t *q = random_bytes((m - 1) * lda + k, extreme);
	float *x = random_floats((m - 1) * lda + k, 3), *a_scale = random_floats(m, 0.1f),
	      *bias = random_floats(n, 10);
	uint8_t *panels = need((n + 63) / 64 * VNPU_PANEL_W4_BYTES(k, group)),
		*u = random_bytes((size_t)n * k, false);
	uint16_t *scale = need((size_t)n * (k / group) * 2);
	struct fw_matmul_w4 t = { q, a_scale, panels, bias, NULL, m, n, k, group, lda, ldc };
	char what[96];

	for (i = 0; i < (size_t)n * k; i++)
		u[i] = extreme ? (u[i] & 7 ? 0 : 15) : u[i] & 15;
	for (i = 0; i < (size_t)n * (k / group); i++)
		scale[i] = random_f16(wild);
	pack_w4(panels, u, scale, n, k, group);
	if (rng_below(2))
		t.bias = NULL;
	snprintf(what, sizeof(what), "matmul_w4 m %u n %u k %u group %u", m, n, k, group);
	compare(what, ((m - 1) * ldc + n) * 4, F32, call_w4, &t);
	t.a = x;
	t.a_scale = NULL;
	snprintf(what, sizeof(what), "matmul_w4f m %u n %u k %u group %u", m, n, k, group);
	compare(what, ((m - 1) * ldc + n) * 4, F32, call_w4, &t);
	test_add_outliers(m, n, k, group, panels, NULL);
	end_case();
}

static void test_wk(uint32_t m, uint32_t n, uint32_t k, uint32_t width, bool extreme)
{
	uint32_t k4 = (k + 3) / 4 * 4, nr = (n + 63) / 64, i;
	size_t lda = k4 + rng_below(9), ldc = n + rng_below(9), j;
	int8_t *a = random_bytes((m - 1) * lda + k4, extreme), *q = need((size_t)n * k);
	float *a_scale = random_floats(m, 0.1f), *w_scale = random_floats(n, 0.1f),
	      *bias = random_floats(n, 10);
	uint32_t *bits = need(nr * sizeof(*bits));
	struct fw_wk_panel *panels = need(nr * sizeof(*panels));
	struct fw_matmul_i8 t = { a, a_scale, NULL, bias, NULL, m, n, k, lda, ldc, panels };
	uint8_t *w;
	char what[96];

	for (i = 0; i < nr; i++)
		bits[i] = width ? width : 1 + rng_below(8);
	for (j = 0; j < (size_t)n * k; j++)
		q[j] = random_wk(bits[j / k / 64]);
	w = need(wk_bytes(bits, n, k));
	pack_wk(w, q, w_scale, bits, n, k);
	for (i = 0; i < nr; i++)
		panels[i] = (struct fw_wk_panel){ w + ((struct vnpu_wk_panel *)w)[i].offset * 64ull,
						  bits[i] };
	if (rng_below(2))
		t.bias = NULL;
	snprintf(what, sizeof(what), "matmul_wk m %u n %u k %u, %u bits", m, n, k, width);
	compare(what, ((m - 1) * ldc + n) * 4, F32, call_i8, &t);
	test_add_outliers(m, n, k, 0, NULL, panels);
	end_case();
}

/* The CPU's sets, which are not those of the device. */
static void test_unpack(uint32_t lanes, uint32_t k, uint32_t bits)
{
	static const char *const names[] = { "generic", "avx2", "avx512" };
	size_t bytes = npu_w8_bytes(lanes, k), packed_bytes = VNPU_PANEL_WK_BYTES(k, bits), i;
	uint8_t *want = need(bytes), *panel = need(bytes), *w = need(packed_bytes);
	uint8_t *packed = unpack_random_wk(lanes, k, bits);
	const struct cpu_kernels *set;

	unpack_by_rows(want, packed, lanes, k);
	memcpy(w, packed + VNPU_WK_TABLE_BYTES(lanes), packed_bytes);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		set = cpu_kernels_get(names[i]);
		if (!set)
			continue;
		memset(panel, 0x55, bytes);
		set->unpack_wk(panel, w, k, bits, lanes, false);
		if (!memcmp(panel, want, bytes))
			continue;
		fprintf(stderr, "unpack_wk: %s: lanes %u k %u, %u bits differ\n", names[i], lanes,
			k, bits);
		status = 1;
	}
	printf("unpack_wk lanes %u k %u, %u bits %016llx\n", lanes, k, bits,
	       (unsigned long long)checksum(panel, bytes));
	free(packed);
	end_case();
}

static void test_unpacks(void)
{
	uint32_t bits, i, lanes;

	for (bits = 1; bits <= 8; bits++) {
		for (i = 0; i < 8; i++) {
			lanes = random_in(1, 64);
			test_unpack(lanes, random_in(1, 100), bits);
		}
		test_unpack(64, random_in(1, 300), bits);
	}
}

static void call_kq(const struct fw_kernels *k, void *y, const void *arg)
{
	struct fw_matmul_kq t = *(const struct fw_matmul_kq *)arg;

	t.c = y;
	k->matmul_kq(&t, scratch);
}

static void test_kq(uint32_t type, uint32_t m, uint32_t n, uint32_t blocks, bool extreme)
{
	const struct vnpu_kq_form f = vnpu_kq_form(type);
	uint32_t k = blocks * f.block;
	size_t lda = k + rng_below(9), ldc = n + rng_below(9);
	int8_t *a = random_bytes((m - 1) * lda + k, extreme);
	float *a_scale = random_floats(m, 0.1f), *bias = random_floats(n, 10);
	size_t bytes = (n + 63) / 64 * vnpu_kq_panel_bytes(type, k), at;
	uint8_t *panels = random_bytes(bytes, extreme);
	struct fw_matmul_kq t = { a, a_scale, panels, bias, NULL, m, n, k, type, lda, ldc };
	uint16_t scale;
	char what[96];

	for (at = 0; at < bytes; at += vnpu_kq_block_bytes(f))
		for (uint32_t i = 0; i < 64u * (1 + f.mins); i++) {
			scale = random_f16(false);
			memcpy(panels + at + i * 2, &scale, 2);
		}
	if (rng_below(2))
		t.bias = NULL;
	snprintf(what, sizeof(what), "matmul_kq type %u m %u n %u k %u", type, m, n, k);
	compare(what, ((m - 1) * ldc + n) * 4, F32, call_kq, &t);
	test_add_outliers(m, n, k, VNPU_OUTLIERS_KQ + type, panels, NULL);
	end_case();
}

/* Also with more rows than a block has. */
static void test_matmuls(void)
{
	uint32_t round, m, n, k, group;

	for (round = 0; round < 60; round++) {
		m = random_in(1, round % 8 ? 20 : 300);
		n = random_in(1, round % 4 ? 70 : 200);
		k = random_in(1, round % 4 ? 300 : 1200);
		test_i8(m, n, k, round % 5 == 1);
	}
	test_i8(9, 3, VNPU_MAX_K_I8, true);
	test_i8(2, 65, VNPU_MAX_K_I8 - 5, false);
	for (round = 0; round < 60; round++) {
		group = 32 << rng_below(3);
		m = random_in(1, round % 8 ? 20 : 150);
		n = random_in(1, round % 4 ? 70 : 140);
		k = group * random_in(1, round % 4 ? 4 : 8);
		test_w4(m, n, k, group, round % 5 == 1, round % 5 == 2);
	}
	test_w4(11, 2, VNPU_MAX_K_I8, 64, true, false);
	for (round = 0; round < 80; round++) {
		m = random_in(1, round % 8 ? 20 : 150);
		n = random_in(1, round % 4 ? 70 : 140);
		k = random_in(1, round % 4 ? 300 : 700);
		test_wk(round % 3 ? m : 1, n, k, round % 9, round % 5 == 1);
	}
	for (round = 0; round < 80; round++) {
		m = random_in(1, round % 16 < 8 ? 9 : 150);
		n = random_in(1, round % 4 ? 70 : 140);
		k = random_in(1, 3);
		test_kq(round % VNPU_NR_KQ_TYPES, m, n, k, round % 5 == 1);
	}
	test_wk(1, 2, VNPU_MAX_K_I8, 8, true);
	test_wk(9, 3, VNPU_MAX_K_I8 - 5, 7, true);
}

/* ---- element by element, and rows ------------------------------------------------------------ */

struct row {
	const float *a, *b;
	size_t n, live;
	int kernel;
};

static const char *const row_kernels[] = { "add",	"mul",	   "exp", "rmsnorm", "softmax",
					   "layernorm", "dequant", "act", "glu" };
#define ROW_ACT 7 /* from here on one for each activation */
#define NR_ROWS (ROW_ACT + VNPU_ACT_CAP + 1 + VNPU_ACT_RELU_SQUARED + 1)

static void call_row(const struct fw_kernels *k, void *y, const void *arg)
{
	const struct row *r = arg;
	uint32_t kind = (uint32_t)r->kernel - ROW_ACT;

	switch (r->kernel) {
	case 0:
		k->add(y, r->a, r->b, r->n);
		break;
	case 1:
		k->mul(y, r->a, r->b, r->n);
		break;
	case 2:
		k->exp(y, r->a, r->n);
		break;
	case 3:
		k->rmsnorm(y, r->a, r->b, r->n, 1e-5f);
		break;
	case 4:
		k->softmax(y, r->a, r->live, r->n, 0.7f);
		break;
	case 5:
		k->layernorm(y, r->a, r->b, r->live % 2 ? r->b : NULL, r->n, 1e-5f);
		break;
	case 6:
		k->dequant(y, (const int8_t *)r->a, 0.37f, r->n);
		break;
	default:
		if (kind <= VNPU_ACT_CAP)
			k->act(y, r->a, r->n, kind, 5);
		else
			k->glu(y, r->a, r->b, r->n, kind - VNPU_ACT_CAP - 1);
	}
}

/* The name of a row's kernel; activations have their number behind it. */
static void name_row(char *what, size_t bytes, const struct row *r)
{
	int kind = r->kernel - ROW_ACT;

	if (kind < 0)
		snprintf(what, bytes, "%s n %zu", row_kernels[r->kernel], r->n);
	else if (kind <= VNPU_ACT_CAP)
		snprintf(what, bytes, "%s %d n %zu", row_kernels[ROW_ACT], kind, r->n);
	else
		snprintf(what, bytes, "%s %d n %zu", row_kernels[ROW_ACT + 1],
			 kind - VNPU_ACT_CAP - 1, r->n);
}

/* A scale, then q. */
static void call_quant(const struct fw_kernels *k, void *y, const void *arg)
{
	const struct row *r = arg;
	float scale;

	k->quant((int8_t *)y + 4, &scale, r->a, r->n);
	settle(&scale, sizeof(scale), F32);
	memcpy(y, &scale, sizeof(scale));
}

/* A scale, then q; the scale given is one of the row's own values, and may be of any kind. */
static void call_quant_static(const struct fw_kernels *k, void *y, const void *arg)
{
	const struct row *r = arg;
	float scale;

	k->quant_static((int8_t *)y + 4, &scale, r->a, r->n, r->b[0] / 127);
	settle(&scale, sizeof(scale), F32);
	memcpy(y, &scale, sizeof(scale));
}

/* A scale, the outliers, then q. */
static void call_quant_outliers(const struct fw_kernels *k, void *y, const void *arg)
{
	const struct row *r = arg;
	struct vnpu_outliers o;
	float scale;

	k->quant_outliers((int8_t *)y + sizeof(scale) + sizeof(o), &scale, &o, r->a, r->n);
	settle(&scale, sizeof(scale), F32);
	memcpy(y, &scale, sizeof(scale));
	memcpy((uint8_t *)y + sizeof(scale), &o, sizeof(o));
}

static void call_store_f16(const struct fw_kernels *k, void *y, const void *arg)
{
	const struct row *r = arg;

	k->store(y, r->a, r->n, VNPU_KV_F16);
}

static void call_store_q8_0(const struct fw_kernels *k, void *y, const void *arg)
{
	const struct row *r = arg;

	k->store(y, r->a, r->n / 32 * 32, VNPU_KV_Q8_0);
}

static void test_rows(void)
{
	static const float scales[] = { 10, 1, 1e-3f, 1e4f, 1e-6f, 1e30f, 1e-38f, 2.6e-43f };
	float *a, *b, scale;
	char what[96];
	struct row r;
	size_t i;

	for (int round = 0; round < 120; round++) {
		r.n = random_length();
		r.live = 1 + rng_below(r.n);
		scale = scales[rng_below(8)];
		r.a = a = random_floats(r.n, round % 3 ? 10 : scale);
		r.b = b = random_floats(r.n, 10);
		for (i = 0; i < r.n && round % 3 == 1; i++) {
			a[i] = wild();
			b[i] = wild();
		}
		for (r.kernel = 0; r.kernel < NR_ROWS; r.kernel++) {
			name_row(what, sizeof(what), &r);
			compare(what, r.n * 4, F32, call_row, &r);
		}
		snprintf(what, sizeof(what), "quant n %zu", r.n);
		compare(what, 4 + (r.n + 3) / 4 * 4, BYTES, call_quant, &r);
		snprintf(what, sizeof(what), "quant_static n %zu", r.n);
		compare(what, 4 + (r.n + 3) / 4 * 4, BYTES, call_quant_static, &r);
		snprintf(what, sizeof(what), "quant_outliers n %zu", r.n);
		compare(what, 4 + sizeof(struct vnpu_outliers) + (r.n + 3) / 4 * 4, BYTES,
			call_quant_outliers, &r);
		snprintf(what, sizeof(what), "store f16 n %zu", r.n);
		compare(what, r.n * 2, F16, call_store_f16, &r);
		snprintf(what, sizeof(what), "store q8_0 n %zu", r.n / 32 * 32);
		compare(what, r.n / 32 * 34, BYTES, call_store_q8_0, &r);
		end_case();
	}
}

/* ---- heads ----------------------------------------------------------------------------------- */

struct rope {
	const float *x, *inv_freq;
	uint64_t pos;
	uint32_t heads, dim, rot, mode;
};

static void call_rope(const struct fw_kernels *k, void *y, const void *arg)
{
	const struct rope *r = arg;

	k->rope(y, r->x, r->inv_freq, r->pos, r->heads, r->dim, r->rot, r->mode, scratch);
}

static void test_rope(void)
{
	float inv_freq[VNPU_MAX_HEAD_DIM / 2], f;
	struct rope r = { .inv_freq = inv_freq };
	char what[96];
	uint32_t i;

	for (int round = 0; round < 150; round++) {
		r.heads = random_in(1, 4);
		r.dim = round ? random_in(2, 300) : VNPU_MAX_HEAD_DIM;
		r.rot = 2 * random_in(1, r.dim / 2);
		r.mode = rng_below(2);
		r.pos = rng_below(round % 2 ? 100 : VNPU_MAX_DIM);
		/* By multiplying, because powf() may differ between machines. */
		for (i = 0, f = 1; i < r.rot / 2; i++, f *= 0.9f)
			inv_freq[i] = f;
		r.x = random_floats(r.heads * r.dim, 1);
		snprintf(what, sizeof(what), "rope %u x %u, %u by mode %u, at %llu", r.heads, r.dim,
			 r.rot, r.mode, (unsigned long long)r.pos);
		compare(what, r.heads * r.dim * 4, F32, call_rope, &r);
		end_case();
	}
}

#include "kernel_bits_attn.h"
#include "kernel_bits_qk.h"

/* ---- packing --------------------------------------------------------------------------------- */

/* What @rows are: an enum cpu_row_type, then Q4_0, then the types of KQ. */
#define PACK_W4 CPU_NR_ROW_TYPES
#define PACK_KQ (PACK_W4 + 1)

static int pack(const struct cpu_kernels *k, uint32_t of, uint8_t *panel,
		const struct cpu_rows *rows)
{
	if (of < PACK_W4)
		return k->pack->w8(panel, of, rows);
	if (of == PACK_W4)
		return k->pack->w4(panel, rows);
	return k->pack->kq(panel, of - PACK_KQ, rows);
}

static size_t pack_bytes(uint32_t of, uint32_t k)
{
	if (of < PACK_W4)
		return VNPU_PANEL_I8_BYTES(k);
	return of == PACK_W4 ? VNPU_PANEL_W4_BYTES(k, 32) : vnpu_kq_panel_bytes(of - PACK_KQ, k);
}

/* The sets of the CPU lane's kernels; the bytes are random, so that a few rows are not finite. */
static void test_pack(uint32_t of)
{
	static const char *const names[] = { "generic", "avx2", "avx512" };
	/* As cpu_kernels_pack.h says, whose layouts are not always the type's own. */
	static const uint32_t block_bytes[PACK_KQ + VNPU_NR_KQ_TYPES] = {
		4,  2,	2,  34, 18,  84, 110, 144, 176, 210,
		20, 22, 24, 18, 136, 18, 136, 136, 110, 110,
	};
	static const uint32_t blocks[PACK_KQ + VNPU_NR_KQ_TYPES] = {
		1,  1,	1,  32, 32,  256, 256, 256, 256, 256,
		32, 32, 32, 32, 256, 32,  256, 256, 256, 256,
	};
	uint32_t k = blocks[of] * (1 + rng_below(600 / blocks[of])), nr = 1 + rng_below(64);
	struct cpu_rows rows = { .bytes = k / blocks[of] * block_bytes[of], .nr = nr, .cols = k };
	size_t bytes = pack_bytes(of, k);
	uint8_t *data = random_bytes(nr * rows.bytes, false), *ref = need(bytes), *y = need(bytes);
	int bad;

	/* Of most matrices no exponent has all its bits. */
	if (rng_below(8))
		for (size_t i = 1; i < nr * rows.bytes; i += 2)
			data[i] &= 0xbb;
	rows.data = data;
	bad = pack(&cpu_kernels_generic, of, ref, &rows);
	for (size_t s = 1; s < sizeof(names) / sizeof(names[0]); s++) {
		const struct cpu_kernels *set = cpu_kernels_get(names[s]);

		if (!set ||
		    (pack(set, of, y, &rows) == bad && (bad >= 0 || !memcmp(y, ref, bytes))))
			continue;
		fprintf(stderr, "pack %u k %u rows %u: %s differs\n", of, k, nr, names[s]);
		status = 1;
	}
	printf("pack %u k %u rows %u bad %d %016llx\n", of, k, nr, bad,
	       bad < 0 ? (unsigned long long)checksum(ref, bytes) : 0);
	end_case();
}

int main(int argc, char **argv)
{
	enum fw_isa isa;

	if (argc != 2) {
		fprintf(stderr, "usage: kernel_bits SEED\n");
		return 2;
	}
	/* So that after a crash the last line shows where it happened. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	rng_state = strtoull(argv[1], NULL, 0);
	for (isa = FW_ISA_GENERIC; isa <= FW_ISA_NEON_I8MM; isa++) {
		if (!fw_kernels_get(isa))
			continue;
		sets[nr_sets++] = fw_kernels_get(isa);
		printf("set %s\n", sets[nr_sets - 1]->name);
	}
	if (fw_kernels_get(FW_ISA_AUTO) != sets[nr_sets - 1]) {
		fprintf(stderr, "kernel_bits: %s is chosen, not %s\n", fw_isa_name(FW_ISA_AUTO),
			sets[nr_sets - 1]->name);
		status = 1;
	}
	test_matmuls();
	test_unpacks();
	test_rows();
	test_rope();
	test_attn();
	test_attn_mask();
	test_attn_at();
	test_qk();
	for (uint32_t i = 0; i < 20 * (PACK_KQ + VNPU_NR_KQ_TYPES); i++)
		test_pack(i % (PACK_KQ + VNPU_NR_KQ_TYPES));
	return status;
}
