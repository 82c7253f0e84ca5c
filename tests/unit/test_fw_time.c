// SPDX-License-Identifier: MIT
/* Device times: a pure function of a decoded job; the runtime's plan computes the same. */
#include "fw_time_data.h"
#include "plan.h"

static enum npu_time_order order_of(bool permuted)
{
	return permuted ? NPU_TIME_WEIGHTS_STREAMED : NPU_TIME_WEIGHTS_STATIONARY;
}

static struct vnpu_cmd_matmul_i8 matmul_of(uint32_t m, uint32_t k, uint32_t n)
{
	return (struct vnpu_cmd_matmul_i8){
		.bias = { .slot = VNPU_SLOT_NONE },
		.m = m,
		.n = n,
		.k = k,
		.lda = (k + 3) / 4 * 4,
		.ldc = n,
		.tile_m = any(1, 64),
		.tile_n = 64 * any(1, 8),
	};
}

static uint64_t matmul_ns(uint32_t m, uint32_t k, uint32_t n, bool permuted)
{
	struct vnpu_cmd_matmul_i8 c = matmul_of(m, k, n);

	return cmd_ns(VNPU_OP_MATMUL_I8, &c, sizeof(c), permuted);
}

static void add_norm(struct job_builder *b, uint32_t rows, uint32_t cols)
{
	struct vnpu_cmd_rmsnorm c = {
		.rows = rows, .cols = cols, .ldx = cols, .ldy = cols, .eps = 1e-5f
	};

	job_cmd(b, VNPU_OP_RMSNORM, &c, sizeof(c));
}

static void add_quant(struct job_builder *b, enum llm_input input, uint32_t rows, uint32_t cols)
{
	struct vnpu_cmd_quant c = {
		.rows = rows, .cols = cols, .ldx = cols, .ldq = (cols + 3) / 4 * 4
	};
	struct vnpu_cmd_quant_outliers apart = {
		.rows = rows, .cols = cols, .ldx = cols, .ldq = c.ldq
	};

	struct vnpu_cmd_quant_static given = {
		.rows = rows, .cols = cols, .ldx = cols, .ldq = c.ldq
	};

	if (input == LLM_INPUT_OUTLIERS)
		job_cmd(b, VNPU_OP_QUANT_OUTLIERS, &apart, sizeof(apart));
	else if (input == LLM_INPUT_STATIC)
		job_cmd(b, VNPU_OP_QUANT_STATIC, &given, sizeof(given));
	else
		job_cmd(b, input == LLM_INPUT_INT16 ? VNPU_OP_QUANT16 : VNPU_OP_QUANT, &c,
			sizeof(c));
}

static void add_binary(struct job_builder *b, enum vnpu_op op, uint32_t rows, uint32_t cols)
{
	struct vnpu_cmd_binary c = {
		.rows = rows, .cols = cols, .lda = cols, .ldb = cols, .ldy = cols
	};

	job_cmd(b, op, &c, sizeof(c));
}

static void add_act(struct job_builder *b, uint32_t rows, uint32_t cols)
{
	struct vnpu_cmd_act c = {
		.rows = rows, .cols = cols, .ldx = cols, .ldy = cols, .kind = VNPU_ACT_SILU
	};

	job_cmd(b, VNPU_OP_ACT, &c, sizeof(c));
}

static void add_rope(struct job_builder *b, uint32_t rows, uint32_t heads, uint32_t head_dim)
{
	struct vnpu_cmd_rope c = {
		.rows = rows,
		.heads = heads,
		.head_dim = head_dim,
		.rot_dim = head_dim,
		.ldx = heads * head_dim,
		.ldy = heads * head_dim,
		.pos_param = VNPU_PARAM_NONE,
	};

	job_cmd(b, VNPU_OP_ROPE, &c, sizeof(c));
}

static void add_attn(struct job_builder *b, uint32_t rows, const struct shape *s, uint32_t ctx_rows,
		     uint32_t param, enum vnpu_kv_type kv_type)
{
	struct vnpu_cmd_attn c = {
		.rows = rows,
		.heads = s->heads,
		.kv_heads = s->kv_heads,
		.head_dim = s->head_dim,
		.ctx_rows = ctx_rows,
		.ldq = s->heads * s->head_dim,
		.ldk = s->kv_heads * s->head_dim,
		.ldv = s->kv_heads * s->head_dim,
		.ldy = s->heads * s->head_dim,
		.pos_param = param,
		.scale = 1,
		.kv_type = kv_type,
	};

	job_cmd(b, VNPU_OP_ATTN, &c, sizeof(c));
}

static void a_matmul_takes_its_launch_and_the_modelled_time(void **state)
{
	for (int i = 0; i < 300; i++) {
		struct npu_time_matmul op = {
			.m = any(1, 2048),
			.k = any(1, 16384),
			.n = any(1, 16384),
			.type = NPU_TIME_I8,
			.order = order_of(i % 2),
			.weight_bits = 8,
		};
		double alone = npu_time_alone_ns(&soc->npu, npu_time_matmul(&soc->npu, &op));
		uint64_t ns = matmul_ns(op.m, op.k, op.n, i % 2);

		assert_true(fabs((double)ns - launch_ns() - alone) <= 1);
	}
}

/* Scale and round, where a scale that has to be found first takes a maximum too. */
static void a_static_scale_takes_two_operations_per_value(void **state)
{
	static const struct {
		enum llm_input input;
		double ops;
	} quants[] = { { LLM_INPUT_INT8, 3 }, { LLM_INPUT_STATIC, 2 } };
	struct job_builder b;

	for (int i = 0; i < 300; i++) {
		uint32_t rows = any(1, 2048), cols = any(1, 16384);
		double n = (double)rows * cols;
		struct npu_cost cost =
			npu_time_vector(&soc->npu, n, quants[i % 2].ops, 3 * n + 4.0 * rows);

		begin(&b);
		add_quant(&b, quants[i % 2].input, rows, cols);
		assert_true(fabs((double)job_ns(&b) - launch_ns() -
				 npu_time_alone_ns(&soc->npu, cost)) <= 1);
	}
}

static void a_matmul_of_4_bits_reads_half_the_bytes(void **state)
{
	for (int i = 0; i < 300; i++) {
		struct vnpu_cmd_matmul_w4 c = {
			.bias = { .slot = VNPU_SLOT_NONE },
			.a_scale = { .slot = VNPU_SLOT_NONE },
			.m = any(1, 2048),
			.n = any(1, 16384),
			.k = any(1, 128) * 128,
			.tile_m = 32,
			.tile_n = 64,
			.group = 32u << any(0, 2),
		};
		struct npu_time_matmul op = { .m = c.m,
					      .k = c.k,
					      .n = c.n,
					      .type = NPU_TIME_F16,
					      .order = order_of(i % 2),
					      .weight_bits = 4 };
		uint64_t ns;

		c.lda = c.k;
		c.ldc = c.n;
		ns = cmd_ns(VNPU_OP_MATMUL_W4F, &c, sizeof(c), i % 2);
		assert_true(fabs((double)ns - launch_ns() -
				 npu_time_alone_ns(&soc->npu, npu_time_matmul(&soc->npu, &op))) <=
			    1);
		op.type = NPU_TIME_I8;
		op.group = c.group;
		c.a_scale.slot = 0;
		ns = cmd_ns(VNPU_OP_MATMUL_W4, &c, sizeof(c), i % 2);
		assert_true(fabs((double)ns - launch_ns() -
				 npu_time_alone_ns(&soc->npu, npu_time_matmul(&soc->npu, &op))) <=
			    1);
	}
}

/* Sums, scales and the table do not count; below 8 bits, all weights are widened. */
static void a_matmul_of_k_bits_reads_k_bits_of_each_weight(void **state)
{
	for (int i = 0; i < 300; i++) {
		uint32_t bits = 1 + i % 8, panels = any(1, 200);
		bool permuted = any(0, 1);
		struct vnpu_cmd_matmul_wk c = {
			.bias = { .slot = VNPU_SLOT_NONE },
			.m = any(1, 2048),
			.n = panels * 64,
			.k = any(1, 2000) * 8,
			.tile_m = 32,
			.tile_n = 64,
		};
		struct npu_time_matmul op = {
			.m = c.m,
			.k = c.k,
			.n = c.n,
			.type = NPU_TIME_I8,
			.order = order_of(permuted),
			.weight_bits = bits,
		};
		uint64_t ns;

		c.lda = c.k;
		c.ldc = c.n;
		c.w_bytes = VNPU_WK_TABLE_BYTES(c.n) + panels * VNPU_PANEL_WK_BYTES(c.k, bits);
		ns = cmd_ns(VNPU_OP_MATMUL_WK, &c, sizeof(c), permuted);
		assert_true(fabs((double)ns - launch_ns() -
				 npu_time_alone_ns(&soc->npu, npu_time_matmul(&soc->npu, &op))) <=
			    1);
		if (bits == 8)
			assert_int_equal(ns, matmul_ns(c.m, c.k, c.n, permuted));
	}
}

/* Of one row: a word of weights for each outlier, whatever their width. Of many: all weights. */
static void outliers_take_no_longer_with_narrower_weights(void **state)
{
	for (int i = 0; i < 100; i++) {
		uint32_t bits = 1 + i % 8, panels = any(1, 200), many = i % 2;
		struct vnpu_cmd_add_outliers_wk wk = { .m = many ? any(600, 2000) : 1,
						       .n = panels * 64,
						       .k = any(16, 1000) * 8 };
		struct vnpu_cmd_add_outliers w8 = { .m = wk.m, .n = wk.n, .k = wk.k };
		uint64_t ns, w8_ns;

		wk.ldx = wk.ldy = w8.ldx = w8.ldy = wk.n;
		wk.w_bytes = VNPU_WK_TABLE_BYTES(wk.n) + panels * VNPU_PANEL_WK_BYTES(wk.k, bits);
		ns = cmd_ns(VNPU_OP_ADD_OUTLIERS_WK, &wk, sizeof(wk), false);
		w8_ns = cmd_ns(VNPU_OP_ADD_OUTLIERS, &w8, sizeof(w8), false);
		assert_true(bits < 8 && many ? ns <= w8_ns : ns == w8_ns);
	}
}

static void a_layernorm_takes_seven_operations_per_value(void **state)
{
	for (int i = 0; i < 100; i++) {
		uint32_t rows = any(1, 2048), cols = any(1, 16384);
		struct vnpu_cmd_layernorm c = {
			.rows = rows, .cols = cols, .ldx = cols, .ldy = cols
		};
		double n = (double)rows * cols;
		struct npu_cost cost = npu_time_vector(&soc->npu, n, 7, 2 * (2 * n + 2.0 * cols));

		assert_true(fabs((double)cmd_ns(VNPU_OP_LAYERNORM, &c, sizeof(c), false) -
				 launch_ns() - npu_time_alone_ns(&soc->npu, cost)) <= 1);
	}
}

static void an_activation_takes_as_many_operations_as_it_has(void **state)
{
	static const double ops[] = {
		[VNPU_ACT_SILU] = 5,	   [VNPU_ACT_GELU] = 9, [VNPU_ACT_GELU_ERF] = 17,
		[VNPU_ACT_GELU_QUICK] = 6, [VNPU_ACT_RELU] = 1, [VNPU_ACT_RELU_SQUARED] = 2,
		[VNPU_ACT_CAP] = 7
	};

	for (uint32_t kind = 0; kind <= VNPU_ACT_CAP; kind++) {
		struct vnpu_cmd_act c = {
			.rows = 2048, .cols = 2048, .ldx = 2048, .ldy = 2048, .kind = kind
		};
		struct npu_cost cost = npu_time_vector(&soc->npu, 0x1p22, ops[kind], 0x1p24);

		c.cap = kind == VNPU_ACT_CAP ? 30 : 0;
		assert_true(fabs((double)cmd_ns(VNPU_OP_ACT, &c, sizeof(c), false) - launch_ns() -
				 npu_time_alone_ns(&soc->npu, cost)) <= 1);
	}
}

static void a_job_s_time_is_that_of_its_launch_and_commands_in_ns_and_cycles(void **state)
{
	struct fake *f = fake_create(16);
	struct fw_prog prog = { 0 };
	struct fw_time_step step;
	struct fw_time_walk walk;
	struct job_builder b;
	uint64_t ns = fw_time_launch_ns(&soc->npu), cycles = fw_time_cycles(&soc->npu, ns),
		 cmds = 0;
	char why[256];

	all_ops_make(&b, f, 1);
	assert_int_equal(fw_prog_decode(&prog, b.stream, b.stream_bytes, b.table, b.table_bytes,
					1ull << FAKE_VA_BITS, why, sizeof(why)),
			 0);
	assert_int_equal(prog.nr_stream_cmds, b.nr_cmds);
	fw_time_begin(&walk, &soc->npu, &prog, b.stream);
	for (uint32_t i = 0; i < prog.nr_stream_cmds; i++) {
		fw_time_next(&walk, &step);
		assert_int_equal(step.index, i);
		assert_int_equal(step.start_ns, ns);
		ns += step.ns;
		cycles += step.cycles;
		if (step.op == VNPU_OP_BARRIER || step.op == VNPU_OP_END) {
			assert_int_equal(step.ns, 0);
		} else if (step.op == VNPU_OP_SLEEP) {
			assert_int_equal(step.ns, 1000);
		} else {
			assert_true(step.ns > 0);
			assert_int_equal(step.ns, fw_time_cmd_ns(&soc->npu, &prog.cmds[cmds]));
			assert_int_equal(step.op, prog.cmds[cmds].u.hdr.op);
			cmds++;
		}
	}
	assert_int_equal(step.op, VNPU_OP_END);
	assert_int_equal(step.region, prog.nr_regions - 1);
	assert_int_equal(cmds, prog.nr_cmds);
	assert_int_equal(ns, fw_time_job_ns(&soc->npu, &prog));
	assert_int_equal(cycles, fw_time_cycles(&soc->npu, ns));
	assert_true(fabs((double)cycles - (double)ns * soc->npu.clock_mhz / 1000) <= 1);

	/* Without a soc only indices and regions are known. */
	fw_time_begin(&walk, NULL, &prog, b.stream);
	for (uint32_t i = 0; i < prog.nr_stream_cmds; i++) {
		fw_time_next(&walk, &step);
		assert_int_equal(step.start_ns + step.ns + step.cycles, 0);
	}
	assert_int_equal(step.region, prog.nr_regions - 1);
	fw_prog_free(&prog);
	fake_destroy(f);
}

static void sleeps_take_their_time_one_after_another(void **state)
{
	struct job_builder b;

	begin(&b);
	job_sleep(&b, 1000000);
	job_sleep(&b, 2000000);
	job_plain(&b, VNPU_OP_BARRIER);
	job_sleep(&b, 500);
	assert_int_equal(job_ns(&b), (uint64_t)launch_ns() + 3000500);
	begin(&b);
	job_plain(&b, VNPU_OP_BARRIER);
	assert_int_equal(job_ns(&b), (uint64_t)launch_ns());
}

static void a_copy_takes_its_bytes(void **state)
{
	struct vnpu_cmd_copy c = { .rows = 1000,
				   .row_bytes = 42000,
				   .dst_row_param = VNPU_PARAM_NONE };
	struct job_builder b;

	c.src_stride_bytes = c.dst_stride_bytes = c.row_bytes;
	begin(&b);
	job_cmd(&b, VNPU_OP_COPY, &c, sizeof(c));
	assert_int_equal(job_ns(&b),
			 (uint64_t)(launch_ns() + 2.0 * 1000 * 42000 / soc->npu.dram_gbps + 0.5));
}

/* Attention takes longer the more of the cache a query attends to, which depends on the param. */
static void attention_takes_longer_the_fuller_its_cache_is(void **state)
{
	struct shape s = { .heads = 8, .kv_heads = 2, .head_dim = 64 };
	uint64_t last = 0;

	for (uint32_t pos = 64; pos <= 4096; pos *= 2) {
		struct npu_time_attention op = { .rows = 32,
						 .heads = 8,
						 .head_dim = 64,
						 .ctx = pos + 16.5,
						 .type = NPU_TIME_F16 };
		double alone = npu_time_alone_ns(&soc->npu, npu_time_attention(&soc->npu, &op));
		struct job_builder b;
		uint64_t ns;

		begin(&b);
		add_attn(&b, 32, &s, 8192, job_param(&b, pos), VNPU_KV_F16);
		ns = job_ns(&b);
		assert_true(fabs((double)ns - launch_ns() - alone) <= 1);
		assert_true(ns > last);
		last = ns;
	}
}

static void times_that_overflow_saturate(void **state)
{
	struct vnpu_cmd_matmul_i8 c = matmul_of(1u << 16, 1u << 16, 1u << 24);
	struct soc_npu slow = soc->npu;
	struct fw_prog prog = { 0 };
	struct job_builder b;

	slow.load_gbps = slow.dram_gbps = 1e-6;
	begin(&b);
	for (int i = 0; i < 40; i++)
		job_cmd(&b, VNPU_OP_MATMUL_I8, &c, sizeof(c));
	job_end(&b);
	decode(&prog, &b);
	assert_true(fw_time_cmd_ns(&slow, &prog.cmds[0]) > 1ull << 60);
	slow.launch_us = 1e9;
	assert_int_equal(fw_time_job_ns(&slow, &prog), UINT64_MAX);
	slow.clock_mhz = 1e5;
	assert_true(fw_time_cycles(&slow, UINT64_MAX) > 1ull << 62);
	fw_prog_free(&prog);
}

/* ---- the runtime's plan ---------------------------------------------------------------------- */

/* The time of each operator of the first layer if it is a launch of its own. */
static void plan_layer(const struct shape *s, uint32_t tokens, enum llm_activations activations,
		       enum llm_kv kv, uint64_t ns[LLM_NR_OPS])
{
	struct plan_options o = {
		.soc = soc,
		.shape = s,
		.choices = { .placement = LLM_PLACE_NPU,
			     .weights = LLM_WEIGHTS_W8A8,
			     .activations = activations,
			     .graphs = LLM_GRAPHS_FIXED,
			     .kv = kv },
		.launches = PLAN_LAUNCH_OP,
		.chunk = tokens,
	};
	const struct plan_pass pass = { .n_tokens = tokens, .logits = PLAN_LOGITS_LAST };
	struct sched_options so = { .clock = SCHED_VIRTUAL, .soc = soc, .sync = SOC_SYNC_DRIVER };
	struct plan *p = plan_forward(&o, &pass);
	struct sched_tasks *plan = p->tasks;
	struct sched_run run;

	assert_non_null(plan);
	assert_int_equal(sched_run(plan, &so, &run), 0);
	for (uint32_t i = 0; i < sched_nr_tasks(plan); i++) {
		const struct sched_task *task = sched_get(plan, i);

		if (!task->layer || task->op == LLM_OP_HEAD)
			ns[task->op] = run.spans[i].end_ns - run.spans[i].start_ns;
	}
	sched_run_free(&run);
	plan_free(p);
}

/* The plan rounds starts and ends, the device each of up to three commands. */
#define SAME(name, plan, device)                                                                 \
	do {                                                                                     \
		if (fabs((double)(plan) - (double)(device)) > 4)                                 \
			fail_msg("%s of %u tokens: the plan has %llu ns, the device %llu", name, \
				 tokens, (unsigned long long)(plan),                             \
				 (unsigned long long)(device));                                  \
	} while (0)

/*
 * Adds the results of two planes, or the outliers' contribution to a matmul of depth @depth, by the
 * input @input.
 */
static void add_fold(struct job_builder *b, enum llm_input input, uint32_t rows, uint32_t depth,
		     uint32_t cols)
{
	struct vnpu_cmd_add_outliers c = {
		.m = rows, .n = cols, .k = depth, .ldx = cols, .ldy = cols
	};

	if (input == LLM_INPUT_INT16)
		add_binary(b, VNPU_OP_ADD, rows, cols);
	if (input == LLM_INPUT_OUTLIERS)
		job_cmd(b, VNPU_OP_ADD_OUTLIERS, &c, sizeof(c));
}

/* Types of the activations of the down projection, of the head and of all others. */
static void check_plan(const struct shape *s, uint32_t tokens, enum llm_activations activations,
		       enum llm_input down, enum llm_input head, enum llm_input inner)
{
	unsigned int planes = llm_input_planes(inner);
	uint32_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
	uint64_t ns[LLM_NR_OPS];
	struct job_builder b;

	plan_layer(s, tokens, activations, LLM_KV_F16, ns);
	SAME("qkv", ns[LLM_OP_QKV], matmul_ns(planes * tokens, s->dim, q + 2 * kv, false));
	SAME("attn_output", ns[LLM_OP_ATTN_OUTPUT], matmul_ns(planes * tokens, q, s->dim, false));
	SAME("gate_up", ns[LLM_OP_GATE_UP], matmul_ns(planes * tokens, s->dim, 2 * s->ffn, false));
	SAME("down", ns[LLM_OP_DOWN],
	     matmul_ns(llm_input_planes(down) * tokens, s->ffn, s->dim, false));
	SAME("head", ns[LLM_OP_HEAD], matmul_ns(llm_input_planes(head), s->dim, s->vocab, false));
	begin(&b);
	add_norm(&b, tokens, s->dim);
	add_quant(&b, inner, tokens, s->dim);
	SAME("attn_norm", ns[LLM_OP_ATTN_NORM], job_ns(&b));
	begin(&b);
	add_rope(&b, tokens, s->heads + s->kv_heads, s->head_dim);
	add_fold(&b, inner, tokens, s->dim, q + kv);
	SAME("rope", ns[LLM_OP_ROPE], job_ns(&b));
	begin(&b);
	add_attn(&b, tokens, s, 4096, VNPU_PARAM_NONE, VNPU_KV_F16);
	SAME("attn", ns[LLM_OP_ATTN], job_ns(&b));
	begin(&b);
	add_fold(&b, inner, tokens, q, s->dim);
	add_binary(&b, VNPU_OP_ADD, tokens, s->dim);
	add_norm(&b, tokens, s->dim);
	add_quant(&b, inner, tokens, s->dim);
	SAME("ffn_norm", ns[LLM_OP_FFN_NORM], job_ns(&b));
	begin(&b);
	add_fold(&b, inner, tokens, s->dim, s->ffn);
	add_fold(&b, inner, tokens, s->dim, s->ffn);
	add_act(&b, tokens, s->ffn);
	add_binary(&b, VNPU_OP_MUL, tokens, s->ffn);
	add_quant(&b, down, tokens, s->ffn);
	SAME("act", ns[LLM_OP_ACT], job_ns(&b));
	begin(&b);
	add_fold(&b, down, tokens, s->ffn, s->dim);
	add_binary(&b, VNPU_OP_ADD, tokens, s->dim);
	SAME("add", ns[LLM_OP_ADD], job_ns(&b));
	for (int kv = 0; kv < 3; kv++) {
		static const enum llm_kv kvs[] = { LLM_KV_F32, LLM_KV_F16, LLM_KV_Q8_0 };
		uint64_t other[LLM_NR_OPS];

		plan_layer(s, tokens, activations, kvs[kv], other);
		begin(&b);
		add_attn(&b, tokens, s, 4096, VNPU_PARAM_NONE, (enum vnpu_kv_type)kv);
		SAME("attn of another cache", other[LLM_OP_ATTN], job_ns(&b));
		/* F32 counts as F16; types that the vector engine must widen take longer. */
		assert_true(kv == VNPU_KV_Q8_0 ? other[LLM_OP_ATTN] > ns[LLM_OP_ATTN]
					       : other[LLM_OP_ATTN] == ns[LLM_OP_ATTN]);
	}
}

static void a_plan_and_the_device_agree(void **state)
{
	static const uint32_t batches[] = { 1, 4, 5, 64, 300 };
	struct shape s;

	assert_int_equal(shape_load("llama3.2-1b", &s), 0);
	for (unsigned int i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
		check_plan(&s, batches[i], LLM_ACTIVATIONS_INT8, LLM_INPUT_INT8, LLM_INPUT_INT8,
			   LLM_INPUT_INT8);
		check_plan(&s, batches[i], LLM_ACTIVATIONS_ROW_OUTLIERS, LLM_INPUT_OUTLIERS,
			   LLM_INPUT_INT16, LLM_INPUT_INT8);
		check_plan(&s, batches[i], LLM_ACTIVATIONS_MIXED, LLM_INPUT_INT16, LLM_INPUT_INT16,
			   LLM_INPUT_INT8);
		check_plan(&s, batches[i], LLM_ACTIVATIONS_INT16, LLM_INPUT_INT16, LLM_INPUT_INT16,
			   LLM_INPUT_INT16);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_matmul_takes_its_launch_and_the_modelled_time),
		cmocka_unit_test(a_static_scale_takes_two_operations_per_value),
		cmocka_unit_test(a_layernorm_takes_seven_operations_per_value),
		cmocka_unit_test(an_activation_takes_as_many_operations_as_it_has),
		cmocka_unit_test(a_matmul_of_4_bits_reads_half_the_bytes),
		cmocka_unit_test(a_matmul_of_k_bits_reads_k_bits_of_each_weight),
		cmocka_unit_test(outliers_take_no_longer_with_narrower_weights),
		cmocka_unit_test(a_job_s_time_is_that_of_its_launch_and_commands_in_ns_and_cycles),
		cmocka_unit_test(sleeps_take_their_time_one_after_another),
		cmocka_unit_test(a_copy_takes_its_bytes),
		cmocka_unit_test(attention_takes_longer_the_fuller_its_cache_is),
		cmocka_unit_test(times_that_overflow_saturate),
		cmocka_unit_test(a_plan_and_the_device_agree),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
