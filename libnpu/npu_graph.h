/* SPDX-License-Identifier: MIT */
/*
 * Static graphs: build, compile to ELF, disassemble.
 *
 * A graph is tensors and operators with all shapes known. npu_graph_compile() orders the operators,
 * places scratch memory, lowers them to a command stream (<npu/vnpu_isa.h>) and writes an ELF
 * file:
 *
 *	.vnpu.cmd	the stream; relocations fill in the operands
 *	.vnpu.const	constants (npu_graph_const)
 *	.vnpu.scratch	size of the memory for results that are not outputs
 *	.symtab		one symbol per binding (inputs, outputs, weights, states), and __const
 *			and __scratch
 *	.vnpu.bindings	kind, type and shape of each binding; its index is its slot
 *	.vnpu.params	names of the params
 *	.rela.vnpu.cmd	symbol and offset of each operand
 *	.note.vnpu	ISA version, the graph's name, multiply-accumulates and bytes moved by one
 *			run; with npu_graph_predict() the device time of one run
 *
 * docs/elf.md has the format byte for byte.
 *
 * An error while building a graph is kept for npu_graph_compile(), which reports the first one: an
 * operator with an operand of a wrong shape returns NULL, and so does one with a NULL operand. With
 * a NULL graph functions return NULL or -EINVAL. Tensors belong to their graph.
 */
#ifndef NPU_GRAPH_H
#define NPU_GRAPH_H

#include "npu.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct npu_graph;
struct npu_tensor;

enum npu_dtype {
	NPU_F32,
	NPU_S8, /* [rows][cols rounded up to 4] */
	NPU_W8_PANEL, /* [n][k] INT8 weights as npu_pack_w8() packs them */
	NPU_F16, /* caches: IEEE binary16 */
	/* Caches: blocks of 32 values with an F16 scale (VNPU_KV_Q8_0); cols a multiple of 32. */
	NPU_Q8_0,
	/*
	 * [n][k] 4-bit weights in groups along k, as npu_pack_w4() packs
	 * them; npu_graph_weight_w4().
	 */
	NPU_W4_PANEL,
	/* [n][k] weights of 1 to 8 bits, as npu_pack_wk() packs them; npu_graph_weight_wk(). */
	NPU_WK_PANEL,
	/* [n][k] weights in GGUF's block types, as npu_pack_kq() packs them;
	 * npu_graph_weight_kq(). */
	NPU_KQ_PANEL,
	/* [positions][head_dim] INT8 keys of one KV head in panels of 64 positions
	 * (<npu/vnpu_isa.h>: QK_I8); positions a multiple of 64. */
	NPU_K8_PANEL,
	NPU_S16, /* scores */
	/* [positions][head_dim] INT8 values of one KV head (<npu/vnpu_isa.h>: ATTN_I8); positions a
	 * multiple of 64. */
	NPU_V8_PANEL,
	NPU_U32, /* [rows][1] positions of npu_rope_at() and npu_attn_at() */
	NPU_U64, /* [rows][1] masks of npu_attn_mask() */
};

struct npu_graph *npu_graph_create(const char *name); /* NULL: out of memory */
void npu_graph_free(struct npu_graph *g);

/* ---- tensors: [rows][cols], row-major, dense; but rows of s8 begin at multiples of 4 bytes --- */

/* Memory that is bound for each job; the graph reads it. */
struct npu_tensor *npu_graph_input(struct npu_graph *g, const char *name, enum npu_dtype type,
				   uint32_t rows, uint32_t cols);
/*
 * The same for some columns of a wider f32 matrix whose rows are @ld elements apart, such as a head
 * of a row's queries. The binding extends from the first element to the last. Not for an operand
 * of a norm per head, and not with several rows for scales (npu_matmul_i8(), npu_dequant()) or
 * outliers (npu_add_outliers()): the device reads them dense.
 */
struct npu_tensor *npu_graph_input_columns(struct npu_graph *g, const char *name, uint32_t rows,
					   uint32_t cols, uint32_t ld);
/* Bound and read as an input: weights [n][k] as NPU_W8_PANEL, or an f32 vector with rows = 1. */
struct npu_tensor *npu_graph_weight(struct npu_graph *g, const char *name, enum npu_dtype type,
				    uint32_t rows, uint32_t cols);
/* The same for NPU_W4_PANEL: each @group of consecutive k (32, 64 or 128) shares a scale. */
struct npu_tensor *npu_graph_weight_w4(struct npu_graph *g, const char *name, uint32_t n,
				       uint32_t k, uint32_t group);
/* The same for NPU_WK_PANEL: channel i, a row, has @bits[i] bits (1 to 8) and a scale. @bits only
 * determine the size of the binding; each run reads the panels' widths from the bound memory. */
struct npu_tensor *npu_graph_weight_wk(struct npu_graph *g, const char *name, uint32_t n,
				       uint32_t k, const uint8_t *bits);
/* The same for NPU_KQ_PANEL. @type: enum vnpu_kq_type of <npu/vnpu_isa.h>, whose block k is a
 * multiple of. */
struct npu_tensor *npu_graph_weight_kq(struct npu_graph *g, const char *name, uint32_t type,
				       uint32_t n, uint32_t k);
/* Memory bound, read, written and kept between runs (a KV cache): NPU_F32, NPU_F16, NPU_Q8_0. */
struct npu_tensor *npu_graph_state(struct npu_graph *g, const char *name, enum npu_dtype type,
				   uint32_t rows, uint32_t cols);
/* Constant data in the image. Copies @data. */
struct npu_tensor *npu_graph_const(struct npu_graph *g, const char *name, const float *data,
				   uint32_t rows, uint32_t cols);
/* Makes an operator's result a binding that the graph writes. Returns @t. */
struct npu_tensor *npu_graph_output(struct npu_graph *g, const char *name, struct npu_tensor *t);
/*
 * The same for some columns of a wider matrix of f32 or s16 whose rows are @ld elements apart, of
 * s16 a multiple of 64, so that several graphs or processors can write their columns of one result
 * without a copy. The binding extends from the first element to the last; the graph does not write
 * between its rows. Not allowed for the result of a norm per head, or for its operand; with several
 * rows neither for scales and outliers that an operator reads or writes.
 */
struct npu_tensor *npu_graph_output_columns(struct npu_graph *g, const char *name,
					    struct npu_tensor *t, uint32_t ld);
/* Declares an integer that is set for each run. Returns the index for operators, or a negative
 * errno. */
int npu_graph_param(struct npu_graph *g, const char *name);
#define NPU_NO_PARAM (-1)

/* 0 of NULL, so that a caller asks once, at the end, whether a tensor failed. */
uint32_t npu_tensor_rows(const struct npu_tensor *t);
uint32_t npu_tensor_cols(const struct npu_tensor *t);
/* Size in bytes that a binding of the tensor needs; 0 of NULL. */
size_t npu_tensor_bytes(const struct npu_tensor *t);

/* ---- operators (exact meaning: vnpu_isa.h) --------------------------------------------------- */

struct npu_tensor *npu_add(struct npu_graph *g, struct npu_tensor *a,
			   struct npu_tensor *b); /* b: same shape, or one row */
struct npu_tensor *npu_mul(struct npu_graph *g, struct npu_tensor *a, struct npu_tensor *b);
struct npu_tensor *npu_silu(struct npu_graph *g, struct npu_tensor *x);
struct npu_tensor *npu_gelu(struct npu_graph *g, struct npu_tensor *x); /* with tanh */
/* The device of these and of their kinds of npu_glu() needs ISA 1.10. */
struct npu_tensor *npu_gelu_erf(struct npu_graph *g, struct npu_tensor *x); /* exact */
struct npu_tensor *npu_gelu_quick(struct npu_graph *g, struct npu_tensor *x); /* with sigmoid */
struct npu_tensor *npu_relu(struct npu_graph *g, struct npu_tensor *x);
struct npu_tensor *npu_relu_squared(struct npu_graph *g, struct npu_tensor *x);
/* cap tanh(x / cap), of logits for instance; @cap above 0. */
struct npu_tensor *npu_cap(struct npu_graph *g, struct npu_tensor *x, float cap);
enum npu_glu_kind {
	NPU_GLU_SILU,
	NPU_GLU_GELU,
	NPU_GLU_GELU_ERF,
	NPU_GLU_GELU_QUICK,
	NPU_GLU_RELU,
	NPU_GLU_RELU_SQUARED,
};
/* The activation of a, times b: the gate of a feed-forward network. Shapes are equal. */
struct npu_tensor *npu_glu(struct npu_graph *g, struct npu_tensor *a, struct npu_tensor *b,
			   enum npu_glu_kind kind);
/* Normalises groups of w.cols columns: with w.cols = x.cols whole rows, with head_dim each head. */
struct npu_tensor *npu_rmsnorm(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *w,
			       float eps);
/* The same with the mean subtracted, and @bias, as w, or NULL. The device needs ISA 1.10. */
struct npu_tensor *npu_layernorm(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *w,
				 struct npu_tensor *bias, float eps);
enum npu_rope_mode { NPU_ROPE_ADJACENT, NPU_ROPE_HALVES };
/* inv_freq f32 [1][rot_dim/2]; row r is at position params[pos] + r. */
struct npu_tensor *npu_rope(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *inv_freq,
			    uint32_t heads, int pos, enum npu_rope_mode mode);
/*
 * The same with row r at position params[pos] + positions[r]: @positions NPU_U32 [rows][1], as an
 * input the depths of a token tree's nodes. The device needs ISA 1.10.
 */
struct npu_tensor *npu_rope_at(struct npu_graph *g, struct npu_tensor *x,
			       struct npu_tensor *inv_freq, struct npu_tensor *positions,
			       uint32_t heads, int pos, enum npu_rope_mode mode);
/* With limit, row r keeps its first params[limit] + r + 1 columns; NPU_NO_PARAM: all of them. */
struct npu_tensor *npu_softmax(struct npu_graph *g, struct npu_tensor *x, float scale, int limit);
/* Per-row symmetric INT8. *@scale: f32 [rows][1]. */
struct npu_tensor *npu_quant(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor **scale);
/*
 * Per-tensor symmetric INT8: @static_scale, f32 [1][1], for all rows. Values beyond 127 of it are
 * clamped (llm.npu 3.3). As a weight or an input it is a binding, so that a graph can have another
 * scale in each run. *@scale f32 [rows][1]: the same in every row, as matmuls take it; NaN with q 0
 * in a row with a NaN or an infinity, and in all rows if @static_scale is not finite or not above
 * 0. The device needs ISA 1.7.
 *
 *	s = npu_graph_weight(g, "scale", NPU_F32, 1, 1);
 *	q = npu_quant_static(g, x, s, &scale);
 *	y = npu_matmul_i8(g, q, scale, w, bias);
 */
struct npu_tensor *npu_quant_static(struct npu_graph *g, struct npu_tensor *x,
				    struct npu_tensor *static_scale, struct npu_tensor **scale);
struct npu_tensor *npu_dequant(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *scale);
/*
 * Per-row symmetric quantisation to nearly 16 bits in two INT8 planes: [2 * rows][cols] with scales
 * f32 [2 * rows][1]. The second half of the rows quantises the remainder of the first half. A
 * matmul's result then has twice the rows too, and npu_fold() adds its halves. Add a bias after
 * that.
 *
 *	q = npu_quant16(g, x, &scale);
 *	y = npu_fold(g, npu_matmul_i8(g, q, scale, w, NULL));
 */
struct npu_tensor *npu_quant16(struct npu_graph *g, struct npu_tensor *x,
			       struct npu_tensor **scale);
/* [rows / 2][cols]: row r is x[r] + x[rows / 2 + r]. x has an even number of rows. */
struct npu_tensor *npu_fold(struct npu_graph *g, struct npu_tensor *x);
/*
 * Per-row symmetric INT8 for most values of a row; the few large ones that would cost the others
 * precision stay floats (vnpu_isa.h: QUANT_OUTLIERS). npu_add_outliers() adds their contribution to
 * a matmul with the same weights, NPU_W8_PANEL, NPU_W4_PANEL, NPU_KQ_PANEL or, on a device of ISA
 * 1.8, NPU_WK_PANEL. Much of npu_quant16()'s precision for a few hundredths of its time. *@scale as
 * npu_quant(); *@outliers f32 [rows][32].
 *
 *	q = npu_quant_outliers(g, x, &scale, &outliers);
 *	y = npu_add_outliers(g, npu_matmul_i8(g, q, scale, w, bias), outliers, w);
 */
struct npu_tensor *npu_quant_outliers(struct npu_graph *g, struct npu_tensor *x,
				      struct npu_tensor **scale, struct npu_tensor **outliers);
struct npu_tensor *npu_add_outliers(struct npu_graph *g, struct npu_tensor *x,
				    struct npu_tensor *outliers, struct npu_tensor *w);
/* f32 [m][n] = q [m][k] x w [n][k]^T with scales; bias f32 [1][n] or NULL. */
struct npu_tensor *npu_matmul_i8(struct npu_graph *g, struct npu_tensor *q,
				 struct npu_tensor *scale, struct npu_tensor *w,
				 struct npu_tensor *bias);
/* The same with 4-bit weights. */
struct npu_tensor *npu_matmul_w4(struct npu_graph *g, struct npu_tensor *q,
				 struct npu_tensor *scale, struct npu_tensor *w,
				 struct npu_tensor *bias);
/*
 * The same with weights of 1 to 8 bits. If all weights have 8 bits, the result has the same bits as
 * npu_matmul_i8()'s.
 */
struct npu_tensor *npu_matmul_wk(struct npu_graph *g, struct npu_tensor *q,
				 struct npu_tensor *scale, struct npu_tensor *w,
				 struct npu_tensor *bias);
/* The same with weights in one of GGUF's block types. The device needs ISA 1.6. */
struct npu_tensor *npu_matmul_kq(struct npu_graph *g, struct npu_tensor *q,
				 struct npu_tensor *scale, struct npu_tensor *w,
				 struct npu_tensor *bias);
/* f32 [m][n] = x f32 [m][k] x 4-bit w [n][k]^T; bias f32 [1][n] or NULL. */
struct npu_tensor *npu_matmul_w4f(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *w,
				  struct npu_tensor *bias);
/*
 * Has the NPU permute the operands of the matmul whose result is @y, one of the five above: its
 * arrays keep activations while the weights are streamed past them. Without this they keep the
 * weights. @y has the same bits; only the device time differs (HeteroLLM 3.2). The device needs
 * ISA 1.5. Returns @y.
 *
 *	y = npu_matmul_permute(g, npu_matmul_i8(g, q, scale, w, bias));
 */
struct npu_tensor *npu_matmul_permute(struct npu_graph *g, struct npu_tensor *y);
/*
 * The rows of the matmul whose result is @y, one of the five above, as the pixels of an image with
 * lines of @width rows each, which divides their number; 0: npu_graph_compile() chooses the width.
 * Of all divisors it takes the one with the least time on the profile of npu_graph_predict(), and
 * among equals, as without a profile, the one that makes the image most nearly square. @y has the
 * same bits for every width; only the device time differs (llm.npu 4: equivalent shapes). Without
 * this call the rows are one line, which no width is faster than on the modelled NPUs. The device
 * needs ISA 1.7, unless the width is all rows. Returns @y.
 */
struct npu_tensor *npu_matmul_shape(struct npu_graph *g, struct npu_tensor *y, uint32_t width);
/*
 * Writes x [rows][cols] to the rows from params[row] on of @state, converted to its type. Operators
 * added later read the new rows. 0 or -errno.
 */
int npu_store_rows(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *state, int row);
/* Causal attention: q [rows][heads * head_dim], k and v states [ctx][kv_heads * head_dim] of one
 * type; head_dim is a multiple of 32 with NPU_Q8_0. */
struct npu_tensor *npu_attn(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *k,
			    struct npu_tensor *v, uint32_t heads, uint32_t kv_heads, float scale,
			    int pos);
/* How npu_attn_mask() differs from npu_attn(); what is 0 makes no difference. */
struct npu_attn_options {
	/*
	 * NPU_U64 [rows][1], rows at most 64 and head_dim at most 512: of the rows of this graph
	 * row r attends to its own and to those j < r for which bit j of mask[r] is set, as a node
	 * of a token tree to its ancestors (CoordGen 3.1). Rows before params[pos] are not masked.
	 * NULL: no mask.
	 */
	struct npu_tensor *mask;
	/* A row attends to the last so many of those, its own included; with the mask of a tree to
	 * the last so many of its path. */
	uint32_t window;
	float cap; /* a score s becomes cap tanh(s / cap) */
};
/*
 * npu_attn() with @options. Without a window, a row's result has the bits of npu_attn() in a cache
 * without the rows to which it does not attend. The device needs ISA 1.10; if @options is NULL or
 * all options are 0, the command is npu_attn()'s, which any has.
 *
 *	m = npu_graph_input(g, "ancestors", NPU_U64, rows, 1);
 *	y = npu_attn_mask(g, q, k, v, heads, kv_heads, scale, pos,
 *			  &(struct npu_attn_options){ .mask = m, .window = 4096 });
 */
struct npu_tensor *npu_attn_mask(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *k,
				 struct npu_tensor *v, uint32_t heads, uint32_t kv_heads,
				 float scale, int pos, const struct npu_attn_options *options);
/*
 * npu_attn() by rows that do not follow one another: row r is at params[pos] + positions[r] and
 * attends to the rows of the caches up to that one. @positions NPU_U32 [rows][1] are below @span,
 * and a greater one counts as @span - 1; params[pos] + @span must be within the caches. A row has
 * the bits of the row at the same position of npu_attn(). @window and @cap are those of
 * npu_attn_options, 0: none. The device needs ISA 1.11.
 *
 *	at = npu_graph_input(g, "positions", NPU_U32, rows, 1);
 *	q = npu_rope_at(g, q, freqs, at, heads, pos, NPU_ROPE_HALVES);
 *	y = npu_attn_at(g, q, k, v, heads, kv_heads, scale, pos,
 *			&(struct npu_attn_positions){ .positions = at, .span = 256 });
 */
struct npu_attn_positions {
	struct npu_tensor *positions;
	uint32_t span; /* 1 .. rows of the caches */
	uint32_t window;
	float cap;
};
struct npu_tensor *npu_attn_at(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *k,
			       struct npu_tensor *v, uint32_t heads, uint32_t kv_heads, float scale,
			       int pos, const struct npu_attn_positions *at);
/*
 * The scores by which queries find their important keys (shadowAttn 3.2): q s8 [rows][head_dim],
 * one query head, k NPU_K8_PANEL [positions][head_dim], an input. The result, s16
 * [rows][positions], is Q K^T shifted right by @shift: vnpu_qk_shift(head_dim) of
 * <npu/vnpu_isa.h> is the least with which no score is limited. Row r is at params[pos] + r and
 * gets the columns of the panels up to its own; its others are left as they are. Heads of one graph
 * run at the same time. The device needs ISA 1.9.
 *
 *	x = npu_graph_input_columns(g, "q0", rows, head_dim, heads * head_dim);
 *	q = npu_quant_static(g, x, npu_graph_input(g, "scale", NPU_F32, 1, 1), &scale);
 *	k = npu_graph_input(g, "k0", NPU_K8_PANEL, positions, head_dim);
 *	npu_graph_output(g, "scores0", npu_qk_i8(g, q, k, vnpu_qk_shift(head_dim), pos));
 */
struct npu_tensor *npu_qk_i8(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *k,
			     uint32_t shift, int pos);
/*
 * Causal attention of one KV head in INT8 with static scales (shadowAttn 2.2): q f32 [rows][heads *
 * head_dim], the query heads that use it, k NPU_K8_PANEL and v NPU_V8_PANEL [positions][head_dim],
 * inputs, and @scales f32 [1][3], those of q, k and v. Row r is at params[pos] + r. positions is at
 * most 65536, and @scale above 0. KV heads of one graph run at the same time. The device needs ISA
 * 1.9.
 */
struct npu_tensor *npu_attn_i8(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *k,
			       struct npu_tensor *v, struct npu_tensor *scales, uint32_t heads,
			       float scale, int pos);
/* Pauses the job, for tests of timeouts and schedulers; later operators wait. 0 or -errno. */
int npu_sleep(struct npu_graph *g, uint64_t duration_ns);

/* ---- graphs as text -------------------------------------------------------------------------- */

/*
 * Builds a graph from text with one statement per line, as npuc(1) describes. Modifies @text. @name
 * is the text's name in errors. On an error returns NULL, and npu_error() names the line and the
 * cause.
 */
struct npu_graph *npu_graph_parse(const char *name, char *text);
/* Prints form and meaning of all statements, one line each. 0 or -EIO. */
int npu_graph_syntax(FILE *out);

/* ---- compiling ------------------------------------------------------------------------------- */

/* Makes npu_graph_compile() predict the time of one run on the modelled NPU of @profile (npu.h:
 * npu_device_options) and record it in the image; NULL: no prediction. 0; -ENOENT no such profile;
 * -EINVAL the profile is not valid; -ENOMEM. */
int npu_graph_predict(struct npu_graph *g, const char *profile);
/*
 * Compiles to an ELF image in *@image; the caller free()s it. 0; the first error of the graph's
 * functions; -ENOMEM; -E2BIG more bindings than a graph may have, more than 16 MiB of commands, or
 * more than 64 GiB in a tensor, in scratch memory or in all constants; -EFBIG an image over the
 * process's limit of file sizes (ulimit -f).
 */
int npu_graph_compile(struct npu_graph *g, void **image, size_t *image_bytes);
/* Prints header, symbols, params and commands of an image, one line each. With a @profile (not
 * NULL) each command's line ends with its device time, and a line after the header has the times of
 * the launch and of the whole run. -EINVAL if it is not an image, or no device would run it; for
 * @profile as npu_graph_predict(). */
int npu_image_disassemble(const void *image, size_t image_bytes, const char *profile, FILE *out);

struct npu_image_info {
	char name[64];
	uint32_t isa_version;
	uint32_t nr_cmds, nr_symbols, nr_params;
	uint64_t cmd_bytes, const_bytes, scratch_bytes;
	uint64_t macs; /* multiply-accumulates of one run */
	uint64_t bytes_moved; /* operand bytes read and written by one run */
	char profile[32]; /* profile of the prediction; "": none */
	/* Predicted for one run, with attention over a full cache. */
	uint64_t device_ns, device_cycles;
};
int npu_image_info(const void *image, size_t image_bytes, struct npu_image_info *info);

/*
 * Prints the instruction set as a table, as in docs/isa.md: number, version and operands of each
 * operation. 0 or -EIO.
 */
int npu_isa_print(FILE *out);

/* ---- packed weights -------------------------------------------------------------------------- */

/* Bytes of an [n][k] matrix as NPU_W8_PANEL. */
size_t npu_w8_bytes(uint32_t n, uint32_t k);
/* Packs rows n0..n0 + nr - 1 (n0 a multiple of 64) of an [n][k] matrix with their scales into
 * @panels, the memory of the whole matrix. Zeroes the rows beyond n in the last panel. rows s8
 * [nr][k], scales f32 [nr]. */
void npu_pack_w8(void *panels, uint32_t n, uint32_t k, uint32_t n0, uint32_t nr, const int8_t *rows,
		 const float *scales);
/*
 * Bytes of an [n][k] matrix as NPU_W4_PANEL; 0: @group is not 32, 64 or 128, or does not divide k.
 */
size_t npu_w4_bytes(uint32_t n, uint32_t k, uint32_t group);
/* As npu_pack_w8(). @numbers [nr][k], one per byte: u in 0..15 means (u - 8) times the scale of its
 * group, an f16 of @scales [nr][k / group]. Zeroes the channels beyond n with their scales. */
void npu_pack_w4(void *panels, uint32_t n, uint32_t k, uint32_t group, uint32_t n0, uint32_t nr,
		 const uint8_t *numbers, const uint16_t *scales);
/* Unpacks one channel of its panel: @numbers [k], @scales [k / group]. */
void npu_unpack_w4(const void *panels, uint32_t k, uint32_t group, uint32_t channel,
		   uint8_t *numbers, uint16_t *scales);

/*
 * Weights of 1 to 8 bits: each output channel has its own width and scale, as in EdgeFlow's
 * quantisation (4.1). A panel of 64 channels has the width of its widest channel, so sort channels
 * by width to waste least. Numbers are -2^(bits-1)..2^(bits-1)-1, but -1 and 1 with 1 bit: a
 * symmetric quantiser has no use for 0 then. A narrower channel has the same numbers in a wider
 * panel.
 */

/* Bytes of an [n][k] matrix as NPU_WK_PANEL with its table of panels. @bits [n]. 0 if a width is
 * not 1 to 8, or the matrix exceeds 256 GiB, which the table's offsets cannot express. */
size_t npu_wk_bytes(uint32_t n, uint32_t k, const uint8_t *bits);
/* As npu_pack_w8(): rows from n0 on, s8 [nr][k], with f32 @scales [nr]. @bits [n] are those of the
 * whole matrix at each call. A number outside its panel's range becomes the nearest one in it; with
 * 1 bit, 0 becomes -1. Rows beyond n in the last panel get scale 0. */
void npu_pack_wk(void *panels, uint32_t n, uint32_t k, const uint8_t *bits, uint32_t n0,
		 uint32_t nr, const int8_t *rows, const float *scales);
/* Unpacks one channel of its panel: @row s8 [k]. */
void npu_unpack_wk(const void *panels, uint32_t k, uint32_t channel, int8_t *row, float *scale);

/*
 * Weights in GGUF's block types, enum vnpu_kq_type of <npu/vnpu_isa.h>, which has their forms and
 * what a weight means. Rows of such a matrix, or one channel of it:
 */
struct npu_kq_rows {
	uint8_t *numbers; /* [rows][k], u */
	uint16_t *d, *dmin; /* [rows][k / block], f16; dmin: only in types with minima */
	int8_t *scale, *min; /* [rows][k / group]: only in blocks of 256; min: with minima */
};

/* Bytes of an [n][k] matrix as NPU_KQ_PANEL. 0: no such type, or k is no multiple of its block. */
size_t npu_kq_bytes(uint32_t type, uint32_t n, uint32_t k);
/* As npu_pack_w8(). Channels beyond n are zeros. */
void npu_pack_kq(void *panels, uint32_t type, uint32_t n, uint32_t k, uint32_t n0, uint32_t nr,
		 const struct npu_kq_rows *rows);
/* Unpacks one channel of its panel to @row. */
void npu_unpack_kq(const void *panels, uint32_t type, uint32_t k, uint32_t channel,
		   const struct npu_kq_rows *row);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* NPU_GRAPH_H */
