// SPDX-License-Identifier: MIT
/*
 * The compiler: random graphs must give the same bits as their operators one at a time; commands
 * between two barriers must not access one another's memory; every barrier must be needed; results
 * must not depend on the number of threads.
 */
#include <errno.h>

#include <npu/vnpu_isa.h>

#include "image.h"
#include "npu_run.h"
#include "npu_ranges.h"
#include "npu_random.h"

/* ---- random graphs ---- */

#define MAX_NODES 40
#define ROWS 5u
#define HEADS 2u
#define DIM 8u
#define COLS (HEADS * DIM)
#define CTX 16u
#define BYTES (ROWS * COLS * 4)

enum kind {
	K_ADD,
	K_MUL,
	K_ADD_ROW,
	K_SILU,
	K_GELU,
	K_NORM,
	K_HEAD_NORM,
	K_ROPE,
	K_SOFTMAX,
	K_MATMUL,
	K_MATMUL16, /* with two planes of activations */
	K_OUTLIERS, /* with separate outliers */
	K_REQUANT,
	K_ATTN,
	K_READ, /* + the state m */
	K_STORE_M, /* stores all of the state m */
	K_STORE_K, /* stores rows pos.. of the cache k */
	K_STORE_V,
	NR_KINDS,
};

/* Node i makes value i + 2; values 0 and 1 are the inputs. A store's value is its operand's. */
struct node {
	enum kind kind;
	unsigned int a, b;
	bool output;
};

struct dag {
	struct node nodes[MAX_NODES];
	unsigned int nr;
	int64_t pos;
	float inputs[2][ROWS * COLS], row[COLS], head[DIM], freq[DIM / 2];
	float m[ROWS * COLS], k[CTX * COLS], v[CTX * COLS];
	uint8_t *weight;
};

/* Results of a run. */
struct dag_result {
	float values[MAX_NODES + 2][ROWS * COLS];
	float m[ROWS * COLS], k[CTX * COLS], v[CTX * COLS];
};

static bool is_store(enum kind kind)
{
	return kind == K_STORE_M || kind == K_STORE_K || kind == K_STORE_V;
}

static struct dag *dag_random(void)
{
	struct dag *d = calloc(1, sizeof(*d));
	int8_t w[COLS * COLS];
	float scales[COLS];

	d->nr = random_in(1, MAX_NODES);
	d->pos = random_in(0, CTX - ROWS);
	random_floats(d->inputs[0], ROWS * COLS);
	random_floats(d->inputs[1], ROWS * COLS);
	random_floats(d->row, COLS);
	random_floats(d->head, DIM);
	random_floats(d->freq, DIM / 2);
	random_floats(d->m, ROWS * COLS);
	random_floats(d->k, CTX * COLS);
	random_floats(d->v, CTX * COLS);
	for (unsigned int i = 0; i < COLS * COLS; i++)
		w[i] = (int8_t)(random_in(0, 254) - 127);
	for (unsigned int i = 0; i < COLS; i++)
		scales[i] = 0.001f;
	d->weight = malloc(npu_w8_bytes(COLS, COLS));
	npu_pack_w8(d->weight, COLS, COLS, 0, COLS, w, scales);
	for (unsigned int i = 0; i < d->nr; i++) {
		/* Prefer recent values: these make chains, in which memory is reused. */
		unsigned int near = i + 2 > 4 ? i + 2 - 4 : 0;

		d->nodes[i] = (struct node){
			.kind = random_in(0, NR_KINDS - 1),
			.a = random_u32() & 1 ? random_in(near, i + 1) : random_in(0, i + 1),
			.b = random_in(0, i + 1),
			.output = random_u32() % 4 == 0,
		};
	}
	d->nodes[d->nr - 1].kind = K_ADD;
	d->nodes[d->nr - 1].output = true;
	return d;
}

static void dag_free(struct dag *d)
{
	free(d->weight);
	free(d);
}

/* The tensors that nodes share, created when first needed. */
struct build {
	struct npu_graph *g;
	const struct dag *d;
	struct npu_tensor *m, *k, *v, *w;
	int pos;
};

static struct npu_tensor *build_state(struct build *b, struct npu_tensor **t, const char *name,
				      uint32_t rows)
{
	if (!*t)
		*t = npu_graph_state(b->g, name, NPU_F32, rows, COLS);
	return *t;
}

static int build_pos(struct build *b)
{
	if (b->pos < 0)
		b->pos = npu_graph_param(b->g, "pos");
	return b->pos;
}

static struct npu_tensor *build_const(struct build *b, const char *name, unsigned int i,
				      const float *data, uint32_t cols)
{
	char full[32];

	snprintf(full, sizeof(full), "%s%u", name, i);
	return npu_graph_const(b->g, full, data, 1, cols);
}

static struct npu_tensor *build_attn(struct build *b, struct npu_tensor *x)
{
	return npu_attn(b->g, x, build_state(b, &b->k, "k", CTX), build_state(b, &b->v, "v", CTX),
			HEADS, HEADS, 0.3f, build_pos(b));
}

static struct npu_tensor *build_matmul(struct build *b, struct npu_tensor *x, enum kind kind)
{
	struct npu_tensor *s, *q, *y, *o = NULL;

	q = kind == K_MATMUL16 ? npu_quant16(b->g, x, &s)
	    : kind == K_MATMUL ? npu_quant(b->g, x, &s)
			       : npu_quant_outliers(b->g, x, &s, &o);
	if (!b->w)
		b->w = npu_graph_weight(b->g, "w", NPU_W8_PANEL, COLS, COLS);
	y = npu_matmul_i8(b->g, q, s, b->w, NULL);
	return kind == K_MATMUL16 ? npu_fold(b->g, y) : o ? npu_add_outliers(b->g, y, o, b->w) : y;
}

static struct npu_tensor *build_requant(struct build *b, struct npu_tensor *x)
{
	struct npu_tensor *s, *q = npu_quant(b->g, x, &s);

	return npu_dequant(b->g, q, s);
}

static struct npu_tensor *build_node(struct build *b, unsigned int i, struct npu_tensor *x,
				     struct npu_tensor *y)
{
	struct npu_graph *g = b->g;

	switch (b->d->nodes[i].kind) {
	case K_ADD:
		return npu_add(g, x, y);
	case K_MUL:
		return npu_mul(g, x, y);
	case K_ADD_ROW:
		return npu_add(g, x, build_const(b, "row", i, b->d->row, COLS));
	case K_SILU:
		return npu_silu(g, x);
	case K_GELU:
		return npu_gelu(g, x);
	case K_NORM:
		return npu_rmsnorm(g, x, build_const(b, "norm", i, b->d->row, COLS), 1e-5f);
	case K_HEAD_NORM:
		return npu_rmsnorm(g, x, build_const(b, "head", i, b->d->head, DIM), 1e-5f);
	case K_ROPE:
		return npu_rope(g, x, build_const(b, "freq", i, b->d->freq, DIM / 2), HEADS,
				build_pos(b), NPU_ROPE_HALVES);
	case K_SOFTMAX:
		return npu_softmax(g, x, 1.5f, NPU_NO_PARAM);
	case K_MATMUL:
	case K_MATMUL16:
	case K_OUTLIERS:
		return build_matmul(b, x, b->d->nodes[i].kind);
	case K_REQUANT:
		return build_requant(b, x);
	case K_ATTN:
		return build_attn(b, x);
	case K_READ:
		return npu_add(g, x, build_state(b, &b->m, "m", ROWS));
	case K_STORE_M:
		npu_ok(npu_store_rows(g, x, build_state(b, &b->m, "m", ROWS), NPU_NO_PARAM));
		return x;
	case K_STORE_K:
		npu_ok(npu_store_rows(g, x, build_state(b, &b->k, "k", CTX), build_pos(b)));
		return x;
	default:
		npu_ok(npu_store_rows(g, x, build_state(b, &b->v, "v", CTX), build_pos(b)));
		return x;
	}
}

/* The whole graph. Values that are outputs are called y2, y3, ... */
static struct npu_graph *dag_build(const struct dag *d, bool output[MAX_NODES + 2])
{
	struct build b = { .g = npu_graph_create("dag"), .d = d, .pos = -1 };
	struct npu_tensor *values[MAX_NODES + 2];
	char name[16];

	values[0] = npu_graph_input(b.g, "x0", NPU_F32, ROWS, COLS);
	values[1] = npu_graph_input(b.g, "x1", NPU_F32, ROWS, COLS);
	for (unsigned int i = 0; i < d->nr; i++) {
		const struct node *n = &d->nodes[i];

		values[i + 2] = build_node(&b, i, values[n->a], values[n->b]);
		output[i + 2] = n->output && !is_store(n->kind);
		snprintf(name, sizeof(name), "y%u", i + 2);
		if (output[i + 2])
			npu_graph_output(b.g, name, values[i + 2]);
	}
	return b.g;
}

/* Runs a graph that uses some of the dag's inputs, states and outputs, and binds those. */
static void dag_run_image(struct fixture *f, const struct dag *d, const void *image, size_t bytes,
			  struct dag_result *r, unsigned int first_value)
{
	struct {
		const char *name;
		void *data;
		size_t bytes;
	} known[MAX_NODES + 8] = {
		{ "x0", (void *)d->inputs[0], BYTES }, { "x1", (void *)d->inputs[1], BYTES },
		{ "m", r->m, sizeof(r->m) },	       { "k", r->k, sizeof(r->k) },
		{ "v", r->v, sizeof(r->v) },	       { "w", d->weight, npu_w8_bytes(COLS, COLS) },
	};
	char names[MAX_NODES + 2][16];
	struct npu_buffer *bufs[MAX_NODES + 8] = { 0 };
	struct npu_program *prog;
	struct npu_job *job;
	unsigned int nr = 6;
	int ret;

	for (unsigned int i = first_value; i < d->nr + 2; i++) {
		snprintf(names[i], sizeof(names[i]), "y%u", i);
		known[nr].name = names[i];
		known[nr].data = r->values[i];
		known[nr++].bytes = BYTES;
	}
	npu_ok(npu_program_load(f->ctx, image, bytes, &prog));
	npu_ok(npu_job_create(prog, &job));
	for (unsigned int i = 0; i < nr; i++) {
		npu_ok(npu_buffer_create(f->ctx, known[i].bytes, 0, &bufs[i]));
		memcpy(npu_buffer_data(bufs[i]), known[i].data, known[i].bytes);
		ret = npu_job_bind(job, known[i].name, bufs[i], 0, known[i].bytes);
		assert_true(!ret || ret == -ENOENT);
	}
	ret = npu_job_param(job, "pos", d->pos);
	assert_true(!ret || ret == -ENOENT);
	npu_ok(fixture_run(f, job));
	for (unsigned int i = 0; i < nr; i++) {
		if (i != 0 && i != 1 && i != 5)
			memcpy(known[i].data, npu_buffer_data(bufs[i]), known[i].bytes);
		npu_buffer_free(bufs[i]);
	}
	npu_job_free(job);
	npu_program_free(prog);
}

static struct dag_result *dag_result_new(const struct dag *d)
{
	struct dag_result *r = calloc(1, sizeof(*r));

	memcpy(r->values[0], d->inputs[0], BYTES);
	memcpy(r->values[1], d->inputs[1], BYTES);
	memcpy(r->m, d->m, sizeof(r->m));
	memcpy(r->k, d->k, sizeof(r->k));
	memcpy(r->v, d->v, sizeof(r->v));
	return r;
}

/* Runs every node as a graph of its own, in the order in which they were added. */
static struct dag_result *dag_run_naive(struct fixture *f, const struct dag *d)
{
	struct dag_result *r = dag_result_new(d);
	struct dag one = *d;
	size_t bytes;
	void *image;

	for (unsigned int i = 0; i < d->nr; i++) {
		const struct node *n = &d->nodes[i];
		struct build b = { .g = npu_graph_create("one"), .d = d, .pos = -1 };
		struct npu_tensor *x = npu_graph_input(b.g, "x0", NPU_F32, ROWS, COLS);
		struct npu_tensor *y = npu_graph_input(b.g, "x1", NPU_F32, ROWS, COLS), *t;

		memcpy(one.inputs[0], r->values[n->a], BYTES);
		memcpy(one.inputs[1], r->values[n->b], BYTES);
		t = build_node(&b, i, x, y);
		if (t != x)
			npu_graph_output(b.g, "y2", t);
		npu_ok(npu_graph_compile(b.g, &image, &bytes));
		npu_graph_free(b.g);
		one.nr = 1;
		/* dag_run_image() puts the result into values[2]: let that be the node's place. */
		struct dag_result *step = dag_result_new(&one);

		memcpy(step->m, r->m, sizeof(r->m));
		memcpy(step->k, r->k, sizeof(r->k));
		memcpy(step->v, r->v, sizeof(r->v));
		dag_run_image(f, &one, image, bytes, step, 2);
		free(image);
		memcpy(r->m, step->m, sizeof(r->m));
		memcpy(r->k, step->k, sizeof(r->k));
		memcpy(r->v, step->v, sizeof(r->v));
		memcpy(r->values[i + 2], t != x ? step->values[2] : r->values[n->a], BYTES);
		free(step);
	}
	return r;
}

static void dag_compare(const struct dag *d, const bool output[MAX_NODES + 2],
			const struct dag_result *a, const struct dag_result *b)
{
	for (unsigned int i = 2; i < d->nr + 2; i++)
		if (output[i] && memcmp(a->values[i], b->values[i], BYTES))
			fail_msg("output %u of %u nodes differs", i, d->nr);
	if (memcmp(a->m, b->m, sizeof(a->m)) || memcmp(a->k, b->k, sizeof(a->k)) ||
	    memcmp(a->v, b->v, sizeof(a->v)))
		fail_msg("a state differs after %u nodes", d->nr);
}

static void random_graphs_give_what_their_operators_give_one_at_a_time(void **state)
{
	struct fixture *f = *state;
	bool output[MAX_NODES + 2];
	size_t bytes;
	void *image;

	random_begin(__func__);
	for (int round = 0; round < 30; round++) {
		struct dag *d = dag_random();
		struct npu_graph *g = dag_build(d, output);
		struct dag_result *want = dag_run_naive(f, d), *got = dag_result_new(d);

		npu_ok(npu_graph_compile(g, &image, &bytes));
		npu_graph_free(g);
		dag_run_image(f, d, image, bytes, got, 2);
		dag_compare(d, output, got, want);
		free(image);
		free(want);
		free(got);
		dag_free(d);
	}
}

static void results_do_not_depend_on_the_number_of_threads(void **state)
{
	const unsigned int threads[] = { 1, 3 };
	bool output[MAX_NODES + 2];
	size_t bytes;
	void *image;

	random_begin(__func__);
	for (int round = 0; round < 15; round++) {
		struct dag *d = dag_random();
		struct npu_graph *g = dag_build(d, output);
		struct dag_result *results[2];

		npu_ok(npu_graph_compile(g, &image, &bytes));
		npu_graph_free(g);
		for (int i = 0; i < 2; i++) {
			const struct npu_device_options opts = {
				.transport = NPU_TRANSPORT_SIM,
				.threads = threads[i],
			};
			struct fixture f;

			npu_ok(npu_device_open(&opts, &f.dev));
			npu_ok(npu_context_create(f.dev, &f.ctx));
			npu_ok(npu_queue_create(f.ctx, NULL, &f.queue));
			results[i] = dag_result_new(d);
			dag_run_image(&f, d, image, bytes, results[i], 2);
			npu_queue_free(f.queue);
			npu_context_free(f.ctx);
			npu_device_close(f.dev);
		}
		dag_compare(d, output, results[0], results[1]);
		free(results[0]);
		free(results[1]);
		free(image);
		dag_free(d);
	}
}

/* Operations whose result may replace an operand; the instruction set says "exactly". */
static bool works_in_place(uint16_t op)
{
	static const uint16_t ops[] = { VNPU_OP_ADD,	 VNPU_OP_MUL,	      VNPU_OP_ACT,
					VNPU_OP_GLU,	 VNPU_OP_RMSNORM,     VNPU_OP_ROPE,
					VNPU_OP_SOFTMAX, VNPU_OP_ADD_OUTLIERS };

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (ops[i] == op)
			return true;
	return false;
}

static void check_in_place(const struct vnpu_cmd *cmd)
{
	struct range r[ISA_MAX_OPERANDS];
	unsigned int n = ranges_of(cmd, r);

	for (unsigned int i = 0; i < n; i++) {
		for (unsigned int k = 0; k < i; k++) {
			if (!ranges_conflict(&r[i], &r[k]))
				continue;
			if (r[i].begin != r[k].begin || r[i].end != r[k].end ||
			    r[i].write == r[k].write)
				fail_msg("%s: %s and %s overlap", isa_op(cmd->op)->name, r[k].field,
					 r[i].field);
			if (!works_in_place(cmd->op))
				fail_msg("%s in place", isa_op(cmd->op)->name);
		}
	}
}

struct region {
	const struct vnpu_cmd *cmds[128];
	unsigned int nr;
};

static unsigned int split_regions(const struct npu_image *img, struct region *regions)
{
	unsigned int nr = 0;

	regions[0].nr = 0;
	for (uint32_t at = sizeof(struct vnpu_stream_hdr); at < img->cmd_bytes;) {
		const struct vnpu_cmd *cmd = (const void *)(img->cmd + at);

		if (cmd->op == VNPU_OP_BARRIER)
			regions[++nr].nr = 0;
		else if (cmd->op != VNPU_OP_END)
			regions[nr].cmds[regions[nr].nr++] = cmd;
		at += cmd->size_bytes;
	}
	return nr + 1;
}

static void check_region(const struct region *now, const struct region *before)
{
	bool needed = false;

	assert_true(now->nr > 0);
	for (unsigned int i = 0; i < now->nr; i++) {
		check_in_place(now->cmds[i]);
		for (unsigned int k = 0; k < i; k++) {
			const char *field = cmds_conflict(now->cmds[i], now->cmds[k]);

			if (field)
				fail_msg("%s and %s run at the same time and share %s",
					 isa_op(now->cmds[i]->op)->name,
					 isa_op(now->cmds[k]->op)->name, field);
		}
		for (unsigned int k = 0; before && k < before->nr; k++)
			needed |= cmds_conflict(now->cmds[i], before->cmds[k]) != NULL;
	}
	if (before && !needed)
		fail_msg("a barrier divides commands that have nothing to do with each other");
}

static void concurrent_commands_share_no_memory_and_every_barrier_is_needed(void **state)
{
	struct region *regions = calloc(2 * MAX_NODES + 1, sizeof(*regions));
	bool output[MAX_NODES + 2];
	struct npu_image img;
	size_t bytes;
	void *image;

	random_begin(__func__);
	for (int round = 0; round < 400; round++) {
		struct dag *d = dag_random();
		struct npu_graph *g = dag_build(d, output);
		unsigned int nr;

		npu_ok(npu_graph_compile(g, &image, &bytes));
		npu_graph_free(g);
		npu_ok(npu_image_parse(image, bytes, &img));
		nr = split_regions(&img, regions);
		for (unsigned int i = 0; i < nr; i++)
			check_region(&regions[i], i ? &regions[i - 1] : NULL);
		npu_image_release(&img);
		free(image);
		dag_free(d);
	}
	free(regions);
}

/* ---- shapes of compiled graphs ---- */

static unsigned int count_regions(struct npu_graph *g, struct npu_image_info *info)
{
	struct region *regions = calloc(64, sizeof(*regions));
	struct npu_image img;
	unsigned int nr;
	size_t bytes;
	void *image;

	npu_ok(npu_graph_compile(g, &image, &bytes));
	npu_ok(npu_image_info(image, bytes, info));
	npu_ok(npu_image_parse(image, bytes, &img));
	nr = split_regions(&img, regions);
	npu_image_release(&img);
	free(image);
	npu_graph_free(g);
	free(regions);
	return nr;
}

static void independent_operators_share_a_region(void **state)
{
	struct npu_graph *g = npu_graph_create("qkv");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 4, 64), *s,
			  *q = npu_quant(g, x, &s);
	static const char *const names[] = { "q", "k", "v" };
	struct npu_image_info info;
	char w[16];

	/* Added one after another, each with its activation, but only three regions. */
	for (int i = 0; i < 3; i++) {
		snprintf(w, sizeof(w), "w%d", i);
		npu_graph_output(
			g, names[i],
			npu_silu(g, npu_matmul_i8(g, q, s,
						  npu_graph_weight(g, w, NPU_W8_PANEL, 64, 64),
						  NULL)));
	}
	assert_int_equal(count_regions(g, &info), 3);
	/* quant, 3 matmuls, 3 silus, 2 barriers, end */
	assert_int_equal(info.nr_cmds, 10);
}

static void scratch_memory_is_reused_and_results_are_placed_over_operands(void **state)
{
	struct npu_graph *g = npu_graph_create("chain");
	struct npu_tensor *t = npu_graph_input(g, "x", NPU_F32, 16, 64);
	struct npu_image_info info;

	for (int i = 0; i < 20; i++)
		t = npu_silu(g, t);
	npu_graph_output(g, "y", t);
	assert_int_equal(count_regions(g, &info), 20);
	assert_int_equal(info.scratch_bytes, 16 * 64 * 4);

	/* Nothing in place, because results differ in size: at most two are live at a time. */
	g = npu_graph_create("matmuls");
	t = npu_graph_input(g, "x", NPU_F32, 8, 64);
	for (uint32_t i = 0; i < 10; i++) {
		struct npu_tensor *s, *q = npu_quant(g, t, &s);
		char w[8];

		snprintf(w, sizeof(w), "w%u", i);
		t = npu_matmul_i8(g, q, s, npu_graph_weight(g, w, NPU_W8_PANEL, 64, 64), NULL);
	}
	npu_graph_output(g, "y", t);
	count_regions(g, &info);
	assert_int_equal(info.scratch_bytes, 8 * 64 * 4 + 8 * 64 + 64);
}

static void operators_that_nobody_needs_are_left_out(void **state)
{
	struct npu_graph *g = npu_graph_create("dead");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 4, 4), *q, *s;
	struct npu_image_info info;

	q = npu_quant(g, npu_silu(g, x), &s);
	npu_dequant(g, q, s);
	npu_graph_output(g, "y", npu_gelu(g, x));
	assert_int_equal(count_regions(g, &info), 1);
	assert_int_equal(info.nr_cmds, 2);
	assert_int_equal(info.scratch_bytes, 0);
}

static void a_sleep_separates_earlier_from_later_operators(void **state)
{
	struct npu_graph *g = npu_graph_create("sleep");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 4, 4);
	struct npu_image_info info;

	npu_graph_output(g, "a", npu_silu(g, x));
	npu_ok(npu_sleep(g, 1000));
	npu_graph_output(g, "b", npu_silu(g, x));
	assert_int_equal(count_regions(g, &info), 3);
}

static void macs_and_bytes_are_counted_exactly(void **state)
{
	struct npu_graph *g = npu_graph_create("cost");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 3, 50), *s, *q, *y, *k;
	struct npu_image_info info;

	q = npu_quant(g, x, &s);
	y = npu_matmul_i8(g, q, s, npu_graph_weight(g, "w", NPU_W8_PANEL, 70, 50), NULL);
	npu_graph_output(g, "y", npu_silu(g, y));
	count_regions(g, &info);
	assert_int_equal(info.macs, 3 * 50 * 70);
	assert_int_equal(info.bytes_moved,
			 (600 + 156 + 12) + (156 + 12 + npu_w8_bytes(70, 50) + 840) + (840 + 840));
	assert_int_equal(info.nr_symbols, 3);

	g = npu_graph_create("attn");
	k = npu_graph_state(g, "k", NPU_F32, 10, 8);
	npu_graph_output(
		g, "y",
		npu_attn(g, npu_graph_input(g, "q", NPU_F32, 3, 16), k, k, 4, 2, 1, NPU_NO_PARAM));
	count_regions(g, &info);
	/* The last three of ten rows attend to 8, 9, 10, with 4 heads of 4, for q k and p v. */
	assert_int_equal(info.macs, 2 * 27 * 16);
}

/* As operators return it: of wrong operands, or without memory. */
static void a_tensor_that_failed_is_empty(void **state)
{
	struct npu_graph *g = npu_graph_create("failed");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 3, 50);
	struct npu_tensor *bad = npu_add(g, x, npu_graph_input(g, "y", NPU_F32, 3, 49));

	assert_null(bad);
	assert_int_equal(npu_tensor_rows(bad), 0);
	assert_int_equal(npu_tensor_cols(bad), 0);
	assert_int_equal(npu_tensor_bytes(bad), 0);
	assert_int_equal(npu_tensor_rows(x), 3);
	assert_int_equal(npu_tensor_cols(x), 50);
	assert_int_equal(npu_tensor_bytes(x), 600);
	npu_graph_free(g);
}

/* 64 GiB is the most; nothing here has that memory. */
static void what_no_image_can_hold_is_refused_when_compiled(void **state)
{
	const uint32_t rows = 1u << 14, cols = 1u << 20;
	struct fixture *f = *state;
	struct npu_graph *g = npu_graph_create("tensor");
	struct npu_program *prog;
	struct npu_tensor *x;
	size_t bytes;
	void *image;

	assert_null(npu_graph_input(g, "x", NPU_F32, rows + 1, cols));
	npu_fails(npu_graph_compile(g, &image, &bytes), -E2BIG,
		  "x: 16385 x 1048576 are 68723671040 bytes, a tensor may have 68719476736");
	npu_graph_free(g);
	g = npu_graph_create("scratch");
	x = npu_graph_input(g, "x", NPU_F32, rows, cols);
	npu_graph_output(g, "y", npu_add(g, npu_silu(g, x), npu_mul(g, x, x)));
	npu_fails(npu_graph_compile(g, &image, &bytes), -E2BIG, "bytes of scratch memory");
	npu_graph_free(g);
	g = npu_graph_create("fits");
	x = npu_graph_input(g, "x", NPU_F32, rows, cols);
	npu_graph_output(g, "y", npu_mul(g, npu_silu(g, x), x));
	npu_ok(npu_graph_compile(g, &image, &bytes));
	npu_ok(npu_program_load(f->ctx, image, bytes, &prog));
	npu_program_free(prog);
	npu_graph_free(g);
	free(image);
}

/* As where npu_graph_create() had no memory and the program looks only at the last result. */
static void without_a_graph_every_function_fails(void **state)
{
	struct npu_graph *g = npu_graph_create("other");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 1, 4), *scale;
	size_t bytes = 1;
	void *image = &bytes;

	assert_null(npu_graph_input(NULL, "x", NPU_F32, 1, 4));
	assert_non_null(strstr(npu_error(), "no graph"));
	assert_null(npu_add(NULL, NULL, NULL));
	assert_non_null(strstr(npu_error(), "no graph: add: an operand is missing"));
	assert_null(npu_add(NULL, x, x));
	assert_non_null(strstr(npu_error(), "of another graph"));
	assert_null(npu_quant(NULL, NULL, &scale));
	assert_null(npu_rmsnorm(NULL, NULL, NULL, 0));
	assert_null(npu_matmul_permute(NULL, NULL));
	assert_null(npu_attn_mask(NULL, NULL, NULL, NULL, 1, 1, 1, NPU_NO_PARAM,
				  &(struct npu_attn_options){ 0 }));
	assert_null(npu_attn_at(NULL, NULL, NULL, NULL, 1, 1, 1, NPU_NO_PARAM,
				&(struct npu_attn_positions){ .span = 1 }));
	assert_int_equal(npu_store_rows(NULL, NULL, NULL, 0), -EINVAL);
	assert_null(npu_graph_output(NULL, "y", NULL));
	assert_null(npu_graph_output(NULL, "y", x));
	assert_null(npu_graph_output_columns(NULL, "y", x, 8));
	npu_fails(npu_sleep(NULL, 1), -EINVAL, "no graph");
	npu_fails(npu_graph_param(NULL, "p"), -EINVAL, "no graph");
	npu_fails(npu_graph_predict(NULL, NULL), -EINVAL, "no graph");
	npu_fails(npu_graph_compile(NULL, &image, &bytes), -EINVAL, "no graph");
	assert_true(!image && !bytes);
	npu_graph_free(g);
}

#define with_device(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_device(random_graphs_give_what_their_operators_give_one_at_a_time),
		cmocka_unit_test(results_do_not_depend_on_the_number_of_threads),
		cmocka_unit_test(concurrent_commands_share_no_memory_and_every_barrier_is_needed),
		cmocka_unit_test(independent_operators_share_a_region),
		cmocka_unit_test(scratch_memory_is_reused_and_results_are_placed_over_operands),
		cmocka_unit_test(operators_that_nobody_needs_are_left_out),
		cmocka_unit_test(a_sleep_separates_earlier_from_later_operators),
		cmocka_unit_test(macs_and_bytes_are_counted_exactly),
		cmocka_unit_test(a_tensor_that_failed_is_empty),
		with_device(what_no_image_can_hold_is_refused_when_compiled),
		cmocka_unit_test(without_a_graph_every_function_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
