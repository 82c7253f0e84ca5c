/* SPDX-License-Identifier: MIT */
/* A job with a command of nearly every operation, on random data. */
#ifndef FW_ALL_OPS_H
#define FW_ALL_OPS_H

#include "fw_fake.h"

/* The job's data: 64 KiB of inputs, as much of weights (read-only), outputs. */
#define ALL_DATA 0x100000
#define ALL_WEIGHTS 0x110000
#define ALL_OUT 0x120000
#define ALL_OUT_BYTES (28 * 4096)
#define ALL_END (ALL_OUT + ALL_OUT_BYTES)

#define ALL_SCALE 4092 /* in ALL_WEIGHTS: a scale for all rows */

enum { ALL_SLOT_IN, ALL_SLOT_W, ALL_SLOT_OUT, ALL_SLOT_UNUSED };
enum { ALL_PARAM_POS, ALL_PARAM_HUGE, ALL_PARAM_ROW };

static UNUSED void all_ops_elementwise(struct job_builder *b)
{
	struct vnpu_cmd_copy copy = {
		.src = ref_to(ALL_SLOT_IN, 0),
		.dst = ref_to(ALL_SLOT_OUT, 0),
		.rows = 3,
		.row_bytes = 100,
		.src_stride_bytes = 128,
		.dst_stride_bytes = 112,
		.dst_row_param = ALL_PARAM_ROW,
	};
	struct vnpu_cmd_binary add = {
		.a = ref_to(ALL_SLOT_IN, 0),
		.b = ref_to(ALL_SLOT_IN, 4096),
		.y = ref_to(ALL_SLOT_OUT, 4096),
		.rows = 3,
		.cols = 50,
		.lda = 50,
		.ldb = 52,
		.ldy = 64,
	};
	struct vnpu_cmd_binary mul = add;
	struct vnpu_cmd_act act = {
		.x = ref_to(ALL_SLOT_IN, 0),
		.y = ref_to(ALL_SLOT_OUT, 12288),
		.rows = 3,
		.cols = 50,
		.ldx = 50,
		.ldy = 64,
		.kind = VNPU_ACT_GELU,
	};

	struct vnpu_cmd_glu glu = {
		.a = ref_to(ALL_SLOT_IN, 0),
		.b = ref_to(ALL_SLOT_IN, 4096),
		.y = ref_to(ALL_SLOT_OUT, 61440),
		.rows = 3,
		.cols = 50,
		.lda = 50,
		.ldb = 52,
		.ldy = 64,
		.kind = VNPU_ACT_SILU,
	};

	mul.ldb = 0;
	mul.y.offset = 8192;
	job_cmd(b, VNPU_OP_COPY, &copy, sizeof(copy));
	job_cmd(b, VNPU_OP_ADD, &add, sizeof(add));
	job_cmd(b, VNPU_OP_MUL, &mul, sizeof(mul));
	job_cmd(b, VNPU_OP_ACT, &act, sizeof(act));
	job_cmd(b, VNPU_OP_GLU, &glu, sizeof(glu));
}

static UNUSED void all_ops_rows(struct job_builder *b)
{
	struct vnpu_cmd_rmsnorm norm = {
		.x = ref_to(ALL_SLOT_IN, 0),
		.w = ref_to(ALL_SLOT_W, 0),
		.y = ref_to(ALL_SLOT_OUT, 16384),
		.rows = 3,
		.cols = 50,
		.ldx = 50,
		.ldy = 64,
		.eps = 1e-5f,
	};
	struct vnpu_cmd_rope rope = {
		.x = ref_to(ALL_SLOT_IN, 0),
		.inv_freq = ref_to(ALL_SLOT_W, 1024),
		.y = ref_to(ALL_SLOT_OUT, 20480),
		.rows = 3,
		.heads = 2,
		.head_dim = 20,
		.rot_dim = 16,
		.ldx = 48,
		.ldy = 40,
		.pos_param = ALL_PARAM_POS,
		.mode = VNPU_ROPE_HALVES,
	};
	struct vnpu_cmd_softmax softmax = {
		.x = ref_to(ALL_SLOT_IN, 0),
		.y = ref_to(ALL_SLOT_OUT, 24576),
		.rows = 3,
		.cols = 50,
		.ldx = 50,
		.ldy = 50,
		.scale = 0.5f,
		.limit_param = ALL_PARAM_POS,
	};

	struct vnpu_cmd_layernorm layernorm = {
		.x = ref_to(ALL_SLOT_IN, 0),
		.w = ref_to(ALL_SLOT_W, 0),
		.bias = ref_to(ALL_SLOT_W, 400),
		.y = ref_to(ALL_SLOT_OUT, 108736),
		.rows = 3,
		.cols = 50,
		.ldx = 50,
		.ldy = 64,
		.eps = 1e-5f,
	};

	job_cmd(b, VNPU_OP_RMSNORM, &norm, sizeof(norm));
	job_cmd(b, VNPU_OP_LAYERNORM, &layernorm, sizeof(layernorm));
	job_cmd(b, VNPU_OP_ROPE, &rope, sizeof(rope));
	job_cmd(b, VNPU_OP_SOFTMAX, &softmax, sizeof(softmax));
}

static UNUSED void all_ops_int8(struct job_builder *b)
{
	struct vnpu_cmd_quant quant = {
		.x = ref_to(ALL_SLOT_IN, 0),
		.q = ref_to(ALL_SLOT_OUT, 28672),
		.scale = ref_to(ALL_SLOT_OUT, 32768),
		.rows = 9,
		.cols = 70,
		.ldx = 70,
		.ldq = 73,
	};
	struct vnpu_cmd_quant_static given = {
		.x = ref_to(ALL_SLOT_IN, 0),
		.static_scale = ref_to(ALL_SLOT_W, ALL_SCALE),
		.q = ref_to(ALL_SLOT_OUT, 31744),
		.scale = ref_to(ALL_SLOT_OUT, 34816),
		.rows = 9,
		.cols = 70,
		.ldx = 70,
		.ldq = 73,
	};
	struct vnpu_cmd_quant_outliers apart = {
		.x = ref_to(ALL_SLOT_IN, 0),
		.q = ref_to(ALL_SLOT_OUT, 77824),
		.scale = ref_to(ALL_SLOT_OUT, 78848),
		.outliers = ref_to(ALL_SLOT_OUT, 79872),
		.rows = 9,
		.cols = 70,
		.ldx = 70,
		.ldq = 73,
	};
	struct vnpu_cmd_dequant dequant = {
		.q = ref_to(ALL_SLOT_OUT, 28672),
		.scale = ref_to(ALL_SLOT_OUT, 32768),
		.y = ref_to(ALL_SLOT_OUT, 36864),
		.rows = 9,
		.cols = 70,
		.ldq = 73,
		.ldy = 70,
	};
	struct vnpu_cmd_matmul_i8 matmul = {
		.a = ref_to(ALL_SLOT_OUT, 28672),
		.a_scale = ref_to(ALL_SLOT_OUT, 32768),
		.w = ref_to(ALL_SLOT_W, 4096),
		.bias = ref_to(ALL_SLOT_W, 2048),
		.c = ref_to(ALL_SLOT_OUT, 40960),
		.m = 9,
		.n = 130,
		.k = 70,
		.lda = 73,
		.ldc = 130,
		.tile_m = 4,
		.tile_n = 64,
	};

	job_cmd(b, VNPU_OP_QUANT, &quant, sizeof(quant));
	quant.q.offset += 1024;
	quant.scale.offset += 1024;
	job_cmd(b, VNPU_OP_QUANT16, &quant, sizeof(quant));
	job_cmd(b, VNPU_OP_QUANT_STATIC, &given, sizeof(given));
	job_cmd(b, VNPU_OP_QUANT_OUTLIERS, &apart, sizeof(apart));
	job_plain(b, VNPU_OP_BARRIER);
	job_cmd(b, VNPU_OP_DEQUANT, &dequant, sizeof(dequant));
	job_cmd(b, VNPU_OP_MATMUL_I8, &matmul, sizeof(matmul));
}

/* A cache of each narrow type is written, and another with random bytes is read. */
static UNUSED void all_ops_caches(struct job_builder *b)
{
	struct vnpu_cmd_store store = {
		.x = ref_to(ALL_SLOT_IN, 0),
		.dst = ref_to(ALL_SLOT_OUT, 53248),
		.rows = 3,
		.cols = 64,
		.ldx = 70,
		.ld_dst = 96,
		.row_param = ALL_PARAM_ROW,
		.type = VNPU_KV_Q8_0,
	};
	struct vnpu_cmd_attn attn = {
		.q = ref_to(ALL_SLOT_IN, 0),
		.k = ref_to(ALL_SLOT_IN, 8194),
		.v = ref_to(ALL_SLOT_IN, 16386),
		.y = ref_to(ALL_SLOT_OUT, 57344),
		.rows = 3,
		.heads = 2,
		.kv_heads = 1,
		.head_dim = 32,
		.ctx_rows = 12,
		.ldq = 64,
		.ldk = 64,
		.ldv = 32,
		.ldy = 64,
		.pos_param = ALL_PARAM_POS,
		.scale = 0.2f,
		.kv_type = VNPU_KV_Q8_0,
	};

	job_cmd(b, VNPU_OP_STORE, &store, sizeof(store));
	job_cmd(b, VNPU_OP_ATTN, &attn, sizeof(attn));
}

/* INT8 rows quantised by all_ops_int8(), and rows of floats. */
static UNUSED void all_ops_w4(struct job_builder *b)
{
	struct vnpu_cmd_matmul_w4 c = {
		.a = ref_to(ALL_SLOT_OUT, 28672),
		.a_scale = ref_to(ALL_SLOT_OUT, 32768),
		.w = ref_to(ALL_SLOT_W, 20480),
		.bias = ref_to(ALL_SLOT_W, 2048),
		.c = ref_to(ALL_SLOT_OUT, 65536),
		.m = 9,
		.n = 70,
		.k = 64,
		.lda = 73,
		.ldc = 70,
		.tile_m = 4,
		.tile_n = 64,
		.group = 32,
	};

	job_cmd(b, VNPU_OP_MATMUL_W4, &c, sizeof(c));
	c.a = ref_to(ALL_SLOT_IN, 0);
	c.a_scale = ref_to(VNPU_SLOT_NONE, 0);
	c.c = ref_to(ALL_SLOT_OUT, 69632);
	job_cmd(b, VNPU_OP_MATMUL_W4F, &c, sizeof(c));
}

/* Outliers for the rows of all_ops_int8(), with the weights of its matmul and of a 4-bit one. */
static UNUSED void all_ops_outliers(struct job_builder *b)
{
	struct vnpu_cmd_add_outliers c = {
		.x = ref_to(ALL_SLOT_IN, 0),
		.outliers = ref_to(ALL_SLOT_OUT, 79872),
		.w = ref_to(ALL_SLOT_W, 4096),
		.y = ref_to(ALL_SLOT_OUT, 81920),
		.m = 9,
		.n = 130,
		.k = 70,
		.ldx = 131,
		.ldy = 130,
	};

	job_cmd(b, VNPU_OP_ADD_OUTLIERS, &c, sizeof(c));
	c.w = ref_to(ALL_SLOT_W, 20480);
	c.y = ref_to(ALL_SLOT_OUT, 90112);
	c.n = c.ldy = 70;
	c.k = 64;
	c.group = 32;
	job_cmd(b, VNPU_OP_ADD_OUTLIERS, &c, sizeof(c));
}

#define ALL_WK 28672 /* in ALL_WEIGHTS: 70 channels of 61 numbers, panels of 3 and 5 bits */

static UNUSED void all_ops_wk(struct job_builder *b)
{
	struct vnpu_cmd_matmul_wk c = {
		.a = ref_to(ALL_SLOT_OUT, 28672),
		.a_scale = ref_to(ALL_SLOT_OUT, 32768),
		.w = ref_to(ALL_SLOT_W, ALL_WK),
		.bias = ref_to(ALL_SLOT_W, 2048),
		.c = ref_to(ALL_SLOT_OUT, 73728),
		.m = 9,
		.n = 70,
		.k = 61,
		.lda = 73,
		.ldc = 70,
		.tile_m = 4,
		.tile_n = 128,
		.w_bytes = 64 + 8 * 64 * (3 + 5) + 2 * 512,
	};

	struct vnpu_cmd_add_outliers_wk add = {
		.x = ref_to(ALL_SLOT_IN, 0),
		.outliers = ref_to(ALL_SLOT_OUT, 79872),
		.w = ref_to(ALL_SLOT_W, ALL_WK),
		.y = ref_to(ALL_SLOT_OUT, 94208),
		.m = 9,
		.n = 70,
		.k = 61,
		.ldx = 71,
		.ldy = 70,
		.w_bytes = c.w_bytes,
	};

	job_cmd(b, VNPU_OP_MATMUL_WK, &c, sizeof(c));
	job_cmd(b, VNPU_OP_ADD_OUTLIERS_WK, &add, sizeof(add));
}

/* In ALL_WEIGHTS: 128 positions of 70 numbers. */
#define ALL_KEYS 36864
#define ALL_VALUES 46080

/* INT8 rows quantised by all_ops_int8() as a head's queries, and rows of floats. */
static UNUSED void all_ops_qk(struct job_builder *b)
{
	struct vnpu_cmd_qk_i8 c = {
		.q = ref_to(ALL_SLOT_OUT, 28672),
		.k = ref_to(ALL_SLOT_W, ALL_KEYS),
		.scores = ref_to(ALL_SLOT_OUT, 98304),
		.rows = 9,
		.head_dim = 70,
		.ctx_rows = 128,
		.ldq = 73,
		.lds = 192,
		.pos_param = ALL_PARAM_POS,
		.shift = 5,
	};

	struct vnpu_cmd_attn_i8 attn = {
		.q = ref_to(ALL_SLOT_IN, 0),
		.k = ref_to(ALL_SLOT_W, ALL_KEYS),
		.v = ref_to(ALL_SLOT_W, ALL_VALUES),
		.scales = ref_to(ALL_SLOT_W, ALL_SCALE - 8),
		.y = ref_to(ALL_SLOT_OUT, 102400),
		.rows = 5,
		.heads = 2,
		.head_dim = 70,
		.ctx_rows = 128,
		.ldq = 150,
		.ldy = 140,
		.pos_param = ALL_PARAM_POS,
		.scale = 0.1f,
	};

	job_cmd(b, VNPU_OP_QK_I8, &c, sizeof(c));
	job_cmd(b, VNPU_OP_ATTN_I8, &attn, sizeof(attn));
}

/* Of a token tree: random positions and masks. */
static UNUSED void all_ops_tree(struct job_builder *b)
{
	struct vnpu_cmd_rope_at rope = {
		.rope = {
			.x = ref_to(ALL_SLOT_IN, 0),
			.inv_freq = ref_to(ALL_SLOT_W, 1024),
			.y = ref_to(ALL_SLOT_OUT, 106496),
			.rows = 3,
			.heads = 2,
			.head_dim = 20,
			.rot_dim = 16,
			.ldx = 48,
			.ldy = 40,
			.pos_param = ALL_PARAM_POS,
			.mode = VNPU_ROPE_ADJACENT,
		},
		.positions = ref_to(ALL_SLOT_IN, 20000),
	};
	struct vnpu_cmd_attn_mask attn = {
		.attn = {
			.q = ref_to(ALL_SLOT_IN, 0),
			.k = ref_to(ALL_SLOT_IN, 8192),
			.v = ref_to(ALL_SLOT_IN, 16384),
			.y = ref_to(ALL_SLOT_OUT, 107008),
			.rows = 4,
			.heads = 6,
			.kv_heads = 2,
			.head_dim = 18,
			.ctx_rows = 16,
			.ldq = 110,
			.ldk = 36,
			.ldv = 40,
			.ldy = 108,
			.pos_param = ALL_PARAM_POS,
			.scale = 0.2f,
		},
		.mask = ref_to(ALL_SLOT_IN, 20008),
		.window = 6,
		.cap = 20,
	};

	job_cmd(b, VNPU_OP_ROPE_AT, &rope, sizeof(rope));
	job_cmd(b, VNPU_OP_ATTN_MASK, &attn, sizeof(attn));
}

/* Of chosen rows: random positions, most of them beyond the span. */
static UNUSED void all_ops_chosen(struct job_builder *b)
{
	struct vnpu_cmd_attn_at c = {
		.attn = {
			.q = ref_to(ALL_SLOT_IN, 0),
			.k = ref_to(ALL_SLOT_IN, 8192),
			.v = ref_to(ALL_SLOT_IN, 16384),
			.y = ref_to(ALL_SLOT_OUT, 110592),
			.rows = 4,
			.heads = 6,
			.kv_heads = 2,
			.head_dim = 18,
			.ctx_rows = 16,
			.ldq = 110,
			.ldk = 36,
			.ldv = 40,
			.ldy = 108,
			.pos_param = ALL_PARAM_POS,
			.scale = 0.2f,
		},
		.positions = ref_to(ALL_SLOT_IN, 20000),
		.window = 9,
		.cap = 20,
		.span = 11,
	};

	job_cmd(b, VNPU_OP_ATTN_AT, &c, sizeof(c));
}

/* Every operation once, on random data. */
static UNUSED void all_ops_make(struct job_builder *b, struct fake *f, uint32_t ctx)
{
	struct vnpu_cmd_attn attn = {
		.q = ref_to(ALL_SLOT_IN, 0),
		.k = ref_to(ALL_SLOT_IN, 8192),
		.v = ref_to(ALL_SLOT_IN, 16384),
		.y = ref_to(ALL_SLOT_OUT, 49152),
		.rows = 4,
		.heads = 6,
		.kv_heads = 2,
		.head_dim = 18,
		.ctx_rows = 16,
		.ldq = 110,
		.ldk = 36,
		.ldv = 40,
		.ldy = 108,
		.pos_param = ALL_PARAM_POS,
		.scale = 0.2f,
	};
	float *in = (float *)(f->mem[ctx] + ALL_DATA), w_scale[130];
	float *vec = (float *)(f->mem[ctx] + ALL_WEIGHTS);
	uint16_t w4_scale[70 * 2];
	uint32_t wk_bits[2] = { 3, 5 };
	uint8_t w4[70 * 64];
	int8_t w[130 * 70];
	unsigned int i;

	fake_bind(f, ctx, ALL_DATA, 65536, true);
	fake_bind(f, ctx, ALL_WEIGHTS, 65536, false);
	fake_bind(f, ctx, ALL_OUT, ALL_OUT_BYTES, true);
	for (i = 0; i < 65536 / 4; i++)
		in[i] = rng_float() * 4;
	for (i = 0; i < 1024; i++)
		vec[i] = rng_float();
	vec[ALL_SCALE / 4] = 0.02f;
	for (i = 0; i < sizeof(w); i++)
		w[i] = rng_u32();
	for (i = 0; i < 130; i++)
		w_scale[i] = rng_float() * 0.01f;
	pack_w8(f->mem[ctx] + ALL_WEIGHTS + 4096, w, w_scale, 130, 70);
	for (i = 0; i < sizeof(w4); i++)
		w4[i] = rng_below(16);
	for (i = 0; i < 140; i++)
		w4_scale[i] = 0x2000 + rng_below(1024);
	pack_w4(f->mem[ctx] + ALL_WEIGHTS + 20480, w4, w4_scale, 70, 64, 32);
	for (i = 0; i < 70 * 61; i++)
		w[i] = random_wk(wk_bits[i / (64 * 61)]);
	pack_wk(f->mem[ctx] + ALL_WEIGHTS + ALL_WK, w, w_scale, wk_bits, 70, 61);
	vec[ALL_SCALE / 4 - 1] = vec[ALL_SCALE / 4 - 2] = 0.02f;
	for (i = 0; i < 2 * VNPU_QK_PANEL_BYTES(70) + VNPU_PV_BYTES(128, 70); i++)
		f->mem[ctx][ALL_WEIGHTS + ALL_KEYS + i] = (uint8_t)rng_u32();
	memset(f->mem[ctx] + ALL_OUT, 0, ALL_OUT_BYTES);

	job_begin(b);
	job_slot(b, ALL_DATA, 65536, VNPU_SLOT_READ);
	job_slot(b, ALL_WEIGHTS, 65536, VNPU_SLOT_READ);
	job_slot(b, ALL_OUT, ALL_OUT_BYTES, VNPU_SLOT_READ | VNPU_SLOT_WRITE);
	job_slot(b, 0, 0, 0);
	job_param(b, 5);
	job_param(b, 1ull << 40);
	job_param(b, 2);
	all_ops_elementwise(b);
	all_ops_rows(b);
	job_sleep(b, 1000);
	all_ops_int8(b);
	all_ops_w4(b);
	all_ops_outliers(b);
	all_ops_wk(b);
	all_ops_qk(b);
	job_plain(b, VNPU_OP_BARRIER);
	job_cmd(b, VNPU_OP_ATTN, &attn, sizeof(attn));
	all_ops_caches(b);
	all_ops_tree(b);
	all_ops_chosen(b);
	job_end(b);
}

#endif /* FW_ALL_OPS_H */
