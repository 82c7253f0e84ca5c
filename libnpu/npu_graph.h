/* SPDX-License-Identifier: MIT */
/*
 * Static graphs: build, compile to ELF, disassemble.
 *
 * A graph is tensors and operators with all shapes known. npu_graph_compile() orders it, plans its
 * scratch memory, lowers it to a command stream (uapi/npu/vnpu_isa.h) and writes an ELF file:
 *
 *	.vnpu.cmd	the stream; operands are filled in by relocation
 *	.vnpu.const	constants (npu_graph_const)
 *	.vnpu.scratch	size of the memory for results that are no outputs
 *	.symtab		a symbol per binding: inputs, outputs, weights and states;
 *			and __const and __scratch
 *	.vnpu.bindings	kind, type and shape of each binding; its place is its slot
 *	.vnpu.params	names of the params
 *	.rela.vnpu.cmd	which operand is at which offset of which symbol
 *	.note.vnpu	ISA version, multiply-accumulates and bytes moved by one run, the graph's
 *			name; with npu_graph_predict() the device time of one run
 *
 * docs/elf.md has the format byte for byte.
 *
 * Building never fails half-way: an operator with an operand of a wrong shape returns
 * NULL, NULL operands give NULL, and npu_graph_compile() reports the first error.
 * Tensors belong to their graph.
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
	/*
	 * Caches: blocks of 32 values with an F16 scale (VNPU_KV_Q8_0); columns a multiple of 32.
	 */
	NPU_Q8_0,
	/*
	 * [n][k] 4-bit weights in groups along k, as npu_pack_w4() packs
	 * them; npu_graph_weight_w4().
	 */
	NPU_W4_PANEL,
	/* [n][k] weights of 1 to 8 bits, as npu_pack_wk() packs them; npu_graph_weight_wk(). */
	NPU_WK_PANEL,
};

struct npu_graph *npu_graph_create(const char *name); /* NULL: no memory */
void npu_graph_free(struct npu_graph *g);

/* ---- tensors: [rows][cols], row-major, dense; but rows of s8 begin at multiples of 4 bytes --- */

/* Bound from outside, read. */
struct npu_tensor *npu_graph_input(struct npu_graph *g, const char *name, enum npu_dtype type,
				   uint32_t rows, uint32_t cols);
/* Bound from outside, read; weights [n][k] as NPU_W8_PANEL, or f32 vectors with rows = 1. */
struct npu_tensor *npu_graph_weight(struct npu_graph *g, const char *name, enum npu_dtype type,
				    uint32_t rows, uint32_t cols);
/* The same as NPU_W4_PANEL: each @group of k, 32, 64 or 128 of them, has a scale. */
struct npu_tensor *npu_graph_weight_w4(struct npu_graph *g, const char *name, uint32_t n,
				       uint32_t k, uint32_t group);
/* The same as NPU_WK_PANEL: channel i, a row, has @bits[i] bits, 1 to 8, and a scale.
 * Only the size of what will be bound depends on them; which panels are how wide is read
 * from there at each run. */
struct npu_tensor *npu_graph_weight_wk(struct npu_graph *g, const char *name, uint32_t n,
				       uint32_t k, const uint8_t *bits);
/*
 * Bound from outside, read and written, kept between runs (a KV cache):
 * NPU_F32, NPU_F16 or NPU_Q8_0.
 */
struct npu_tensor *npu_graph_state(struct npu_graph *g, const char *name, enum npu_dtype type,
				   uint32_t rows, uint32_t cols);
/* In the image. @data is copied. */
struct npu_tensor *npu_graph_const(struct npu_graph *g, const char *name, const float *data,
				   uint32_t rows, uint32_t cols);
/* Makes the result of an operator a binding of its own, written by the graph. Returns @t. */
struct npu_tensor *npu_graph_output(struct npu_graph *g, const char *name, struct npu_tensor *t);
/*
 * The same as some columns of a wider f32 matrix, whose rows are @ld elements apart: what several
 * graphs, or other processors, compute of one result comes together without a copy. The binding
 * begins at the first element and ends with the last; what lies between its rows is left alone. Not
 * for the result of a norm per head, nor for its operand.
 */
struct npu_tensor *npu_graph_output_columns(struct npu_graph *g, const char *name,
					    struct npu_tensor *t, uint32_t ld);
/* An integer given at each run; the returned index goes to the operators. Negative: -errno. */
int npu_graph_param(struct npu_graph *g, const char *name);
#define NPU_NO_PARAM (-1)

uint32_t npu_tensor_rows(const struct npu_tensor *t);
uint32_t npu_tensor_cols(const struct npu_tensor *t);
/* Bytes that a binding of the tensor needs. */
size_t npu_tensor_bytes(const struct npu_tensor *t);

/* ---- operators (exact meaning: vnpu_isa.h) --------------------------------------------------- */

struct npu_tensor *npu_add(struct npu_graph *g, struct npu_tensor *a,
			   struct npu_tensor *b); /* b: same shape, or one row */
struct npu_tensor *npu_mul(struct npu_graph *g, struct npu_tensor *a, struct npu_tensor *b);
struct npu_tensor *npu_silu(struct npu_graph *g, struct npu_tensor *x);
struct npu_tensor *npu_gelu(struct npu_graph *g, struct npu_tensor *x);
enum npu_glu_kind { NPU_GLU_SILU, NPU_GLU_GELU };
/* silu(a) * b or gelu(a) * b: the gate of a feed-forward network. Shapes are equal. */
struct npu_tensor *npu_glu(struct npu_graph *g, struct npu_tensor *a, struct npu_tensor *b,
			   enum npu_glu_kind kind);
/*
 * Normalises groups of w.cols columns: w.cols = x.cols for a layer norm, =
 * head_dim for a norm per head.
 */
struct npu_tensor *npu_rmsnorm(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *w,
			       float eps);
enum npu_rope_mode { NPU_ROPE_ADJACENT, NPU_ROPE_HALVES };
/* inv_freq f32 [1][rot_dim/2]; row r is at position params[pos] + r. */
struct npu_tensor *npu_rope(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *inv_freq,
			    uint32_t heads, int pos, enum npu_rope_mode mode);
/* limit: row r keeps the first params[limit] + r + 1 columns; NPU_NO_PARAM: all. */
struct npu_tensor *npu_softmax(struct npu_graph *g, struct npu_tensor *x, float scale, int limit);
/* Per-row symmetric INT8. *@scale gets the f32 [rows][1] scales. */
struct npu_tensor *npu_quant(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor **scale);
struct npu_tensor *npu_dequant(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *scale);
/*
 * Per-row symmetric, nearly 16 bits, in two INT8 planes: [2 * rows][cols], and scales f32 [2 *
 * rows][1]. The second half of the rows is what the first one leaves. A product with it has twice
 * the rows too: npu_fold() adds its halves. A bias is added after that.
 *
 *	q = npu_quant16(g, x, &scale);
 *	y = npu_fold(g, npu_matmul_i8(g, q, scale, w, NULL));
 */
struct npu_tensor *npu_quant16(struct npu_graph *g, struct npu_tensor *x,
			       struct npu_tensor **scale);
/* [rows / 2][cols]: row r is x[r] + x[rows / 2 + r]. The number of rows is even. */
struct npu_tensor *npu_fold(struct npu_graph *g, struct npu_tensor *x);
/*
 * Per-row symmetric INT8 of most of a row; the few values that would take the others' bits stay
 * floats (vnpu_isa.h: QUANT_OUTLIERS), and npu_add_outliers() adds what they contribute to a
 * product with the same weights, NPU_W8_PANEL or NPU_W4_PANEL. Much of what npu_quant16() gives,
 * for some hundredths of its time. *@scale as npu_quant()'s; *@outliers f32 [rows][32].
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
 * The same with weights of 1 to 8 bits. Of 8 bits everywhere, the result
 * has npu_matmul_i8()'s bits.
 */
struct npu_tensor *npu_matmul_wk(struct npu_graph *g, struct npu_tensor *q,
				 struct npu_tensor *scale, struct npu_tensor *w,
				 struct npu_tensor *bias);
/* f32 [m][n] = x f32 [m][k] x 4-bit w [n][k]^T; bias f32 [1][n] or NULL. */
struct npu_tensor *npu_matmul_w4f(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *w,
				  struct npu_tensor *bias);
/*
 * Writes x [rows][cols] to rows params[row].. of the state, converted to the state's type. Later
 * operators that read the state see it. 0 or -errno.
 */
int npu_store_rows(struct npu_graph *g, struct npu_tensor *x, struct npu_tensor *state, int row);
/* Causal attention: q [rows][heads * head_dim], k and v states [ctx][kv_heads * head_dim] of one
 * type; head_dim is a multiple of 32 with NPU_Q8_0. */
struct npu_tensor *npu_attn(struct npu_graph *g, struct npu_tensor *q, struct npu_tensor *k,
			    struct npu_tensor *v, uint32_t heads, uint32_t kv_heads, float scale,
			    int pos);
/* Pause, for tests of timeouts and schedulers: everything after it waits. 0 or -errno. */
int npu_sleep(struct npu_graph *g, uint64_t duration_ns);

/* ---- graphs as text -------------------------------------------------------------------------- */

/*
 * Builds a graph from its text, a statement a line, as npuc(1) describes; @text is written to.
 * NULL: @name, which is what errors call the text, the line and why are npu_error().
 */
struct npu_graph *npu_graph_parse(const char *name, char *text);
/* Prints the statements, a line each: form and meaning. 0 or -EIO. */
int npu_graph_syntax(FILE *out);

/* ---- compiling ------------------------------------------------------------------------------- */

/* Have npu_graph_compile() predict what one run takes on the modelled NPU of @profile (npu.h:
 * npu_device_options) and say so in the image; NULL: not to. 0, -ENOENT no such profile, -EINVAL a
 * file that is none, -ENOMEM. */
int npu_graph_predict(struct npu_graph *g, const char *profile);
/* ELF image in *image (free() it). 0 or -errno with npu_error(). */
int npu_graph_compile(struct npu_graph *g, void **image, size_t *image_bytes);
/* Prints header, symbols, params and commands of an image, one line each. With a @profile, not
 * NULL, each command's line ends with its device time there, and a line after the header has that
 * of the launch and of all. -EINVAL if it is no image, or no device would run it, or for the
 * profile as npu_graph_predict(). */
int npu_image_disassemble(const void *image, size_t image_bytes, const char *profile, FILE *out);

struct npu_image_info {
	char name[64];
	uint32_t isa_version;
	uint32_t nr_cmds, nr_symbols, nr_params;
	uint64_t cmd_bytes, const_bytes, scratch_bytes;
	uint64_t macs; /* multiply-accumulates of one run */
	uint64_t bytes_moved; /* operand bytes read and written by one run */
	char profile[32]; /* that it was compiled for; "": none */
	/* Predicted for one run there; attention for the last rows of its cache. */
	uint64_t device_ns, device_cycles;
};
int npu_image_info(const void *image, size_t image_bytes, struct npu_image_info *info);

/*
 * Prints the table of the instruction set as docs/isa.md has it: number, version and operands of
 * each operation. 0 or -EIO.
 */
int npu_isa_print(FILE *out);

/* ---- packed weights -------------------------------------------------------------------------- */

/* Bytes of an [n][k] matrix as NPU_W8_PANEL. */
size_t npu_w8_bytes(uint32_t n, uint32_t k);
/* Packs rows n0..n0 + nr - 1 (n0 a multiple of 64) of an [n][k] matrix with their scales into
 * @panels, which is the whole matrix's memory; rows beyond n in the last panel are zeroed. rows s8
 * [nr][k], scales f32 [nr]. */
void npu_pack_w8(void *panels, uint32_t n, uint32_t k, uint32_t n0, uint32_t nr, const int8_t *rows,
		 const float *scales);
/*
 * Bytes of an [n][k] matrix as NPU_W4_PANEL; 0: @group is not 32, 64 or 128, or does not divide k.
 */
size_t npu_w4_bytes(uint32_t n, uint32_t k, uint32_t group);
/* As npu_pack_w8(). @numbers [nr][k], one in a byte: u of 0..15 means (u - 8) times its group's
 * scale, and an f16 of @scales [nr][k / group]. Channels beyond n are zeroed, scales included. */
void npu_pack_w4(void *panels, uint32_t n, uint32_t k, uint32_t group, uint32_t n0, uint32_t nr,
		 const uint8_t *numbers, const uint16_t *scales);
/* One channel back from its panel: @numbers [k], @scales [k / group]. */
void npu_unpack_w4(const void *panels, uint32_t k, uint32_t group, uint32_t channel,
		   uint8_t *numbers, uint16_t *scales);

/*
 * Weights of 1 to 8 bits, each output channel with a width and a scale of its own, as EdgeFlow's
 * quantisation gives them (4.1); a panel of 64 channels is packed with the greatest width of its
 * own, so that channels that are sorted by width waste least. Numbers are
 * -2^(bits-1)..2^(bits-1)-1; those of 1 bit are -1 and 1, as a symmetric quantiser has no other use
 * for one bit. One of fewer bits is the same number in a wider panel.
 */

/* Bytes of an [n][k] matrix as NPU_WK_PANEL, with its table of panels. @bits [n]. 0: one of them is
 * not 1 to 8, or the table cannot say where the panels are, beyond 256 GiB. */
size_t npu_wk_bytes(uint32_t n, uint32_t k, const uint8_t *bits);
/* As npu_pack_w8(): rows n0.. of all, s8 [nr][k], with f32 @scales [nr]; @bits [n] are those of the
 * whole matrix at each call. A number that its panel's width does not have becomes the nearest one,
 * of 1 bit 0 becomes -1. Rows beyond n in the last panel get a scale of 0. */
void npu_pack_wk(void *panels, uint32_t n, uint32_t k, const uint8_t *bits, uint32_t n0,
		 uint32_t nr, const int8_t *rows, const float *scales);
/* One channel back from its panel: @row s8 [k]. */
void npu_unpack_wk(const void *panels, uint32_t k, uint32_t channel, int8_t *row, float *scale);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* NPU_GRAPH_H */
