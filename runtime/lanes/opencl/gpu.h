/* SPDX-License-Identifier: MIT */
/*
 * The GPU lane: a device of any OpenCL 1.2 platform that computes beside the NPU, in the same
 * memory and from the same packed weights (HeteroLLM, sections 4.1 and 4.2).
 *
 *	struct llm_gpu *gpu;
 *	struct llm_gpu_queue *q;
 *	struct llm_gpu_buffer *work, *weights;
 *	uint64_t product;
 *	if (llm_gpu_open(NULL, NULL, &gpu) || llm_gpu_queue_create(gpu, &q) ||
 *	    llm_gpu_map(gpu, npu_buffer_data(a), npu_buffer_size(a), LLM_GPU_SHARED, &work) ||
 *	    llm_gpu_map(gpu, npu_buffer_data(b), npu_buffer_size(b), LLM_GPU_SHARED, &weights))
 *		errx(1, "%s", llm_error());
 *	llm_gpu_to_device(q, weights, 0, npu_buffer_size(b), NULL);
 *	llm_gpu_to_device(q, work, x_off, x_bytes, NULL);
 *	llm_gpu_matmul(q, &(struct llm_gpu_matmul){ ... }, NULL);
 *	llm_gpu_to_host(q, work, y_off, y_bytes, NULL);
 *	llm_gpu_finish(q);
 *
 * Memory. A buffer is host memory that the device sees, given as address and size once, for as
 * long as an engine or a session lives; operators take areas of it, a buffer and a byte
 * offset. Of a shared buffer there is one copy, if the platform can have it so
 * (CL_MEM_USE_HOST_PTR on a device with the host's memory); of a copied one, there are two.
 * to_device and to_host make what one side wrote visible to the other, by a copy or without.
 * They are what the standard demands in either case.
 *
 * Synchronisation comes in two ways, and both give the same results:
 *
 *	driver	to_device, operators, to_host, finish: the driver's own, right on every platform
 *	fast	operators and a flag, in shared buffers of a device that is coherent: the host
 *		writes operands, the operators run, then a last kernel writes a word that the
 *		host polls (HeteroLLM section 4.2). No call is made to learn of the end, and
 *		nothing is copied or mapped
 *
 * The caveat of the fast way: OpenCL 1.2 promises nothing of what host and kernels see of one
 * another's writes without such calls (only fine-grained SVM of OpenCL 2 does). In practice it is
 * so where CPU and GPU share coherent caches or where a kernel begins with empty caches and its end
 * writes them back. llm_gpu_open() tries it out on the device, in both directions; where it does
 * not hold, llm_gpu_coherent() is false, flags are written by a thread of the driver when it
 * reports the end, and callers use the driver's way.
 *
 * Order. A queue is out-of-order where the device has such queues. struct llm_gpu_order names the
 * operators that one has to wait for; without it (NULL) an operator waits for all that were put
 * into the queue before it.
 *
 * Numbers. Matrices are row-major, ld* the elements from row to row. Operators mean what the
 * device's commands of the same name mean (uapi/npu/vnpu_isa.h) and read and write the same
 * layouts. INT8 products are exact. Where the device fuses multiply-add, quotients are correctly
 * rounded (info.exact) and no row of weights is divided between work-items, as on a CPU, products
 * of panels and quantised rows are those of the NPU to the bit; else they differ by rounding, and a
 * quantised number by 1 where its quotient is a tie. Accumulation is in F32 always.
 *
 * Errors: 0 or a negative errno and llm_error(). -EINVAL: a shape that the format has not, or an
 * area that is misaligned or does not lie in its buffer; nothing was put into the queue then.
 * -ENOMEM, and -EIO for what the platform reports else.
 *
 * Threads: a queue is used by one thread at a time, everything else by any. Buffers and queues
 * go before their llm_gpu.
 */
#ifndef GPU_H
#define GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "llm.h"

struct llm_gpu;
struct llm_gpu_buffer;
struct llm_gpu_queue;

/* ---- devices --------------------------------------------------------------------------------- */

struct llm_gpu_options {
	/*
	 * Floats of a work-item's vectors: 4, 8 or 16; 0: as many as the registers
	 * of a CPU hold, 4 on a GPU.
	 */
	unsigned int vector;
};

/*
 * Opens a device and compiles the kernels for it. Some platforms compile part of a kernel when it
 * first runs only, and keep it for the next process (PoCL: a second each, in POCL_CACHE_DIR or
 * ~/.cache/pocl): who measures lets each run once before.
 * @select: a number in llm_gpu_list(), or a part of "platform name", in any case of letters; NULL:
 * what VNPU_OPENCL says, and without it the first GPU, or else the first device. -ENODEV no
 * platform or no device at all, -ENOENT none like @select, -EINVAL options.
 */
int llm_gpu_open(const char *select, const struct llm_gpu_options *opts, struct llm_gpu **gpu);
void llm_gpu_close(struct llm_gpu *gpu);
const struct llm_gpu_info *llm_gpu_info(const struct llm_gpu *gpu);
/* Host and kernels see one another's writes to shared buffers without calls. */
bool llm_gpu_coherent(const struct llm_gpu *gpu);
unsigned int llm_gpu_vector(const struct llm_gpu *gpu); /* floats of a work-item's vectors */

/* ---- memory ---------------------------------------------------------------------------------- */

#define LLM_GPU_PAGE 4096

enum llm_gpu_sharing {
	LLM_GPU_SHARED, /* one copy where the device has the host's memory, else as COPIED */
	LLM_GPU_COPIED, /* a second copy in memory of the device's */
};

/* @host: begins a page of LLM_GPU_PAGE bytes; stays the caller's, and in place until
 * llm_gpu_unmap(): no npu_buffer_unmap() before that. Memory has one buffer per llm_gpu at most, of
 * at most info.max_buffer_bytes. What a copied buffer holds is undefined until to_device or an
 * operator has written it. */
int llm_gpu_map(struct llm_gpu *gpu, void *host, size_t bytes, enum llm_gpu_sharing sharing,
		struct llm_gpu_buffer **buf);
/* Memory that the host never sees, for what passes between operators. */
int llm_gpu_alloc(struct llm_gpu *gpu, size_t bytes, struct llm_gpu_buffer **buf);
/* When nothing that uses it is in any queue. */
void llm_gpu_unmap(struct llm_gpu_buffer *buf);
/* Whether host and device have one copy. */
bool llm_gpu_shared(const struct llm_gpu_buffer *buf);

/* A place in a buffer; buf NULL where an operand is optional and absent. */
struct llm_gpu_area {
	struct llm_gpu_buffer *buf;
	size_t off; /* bytes */
};

/* ---- queues ---------------------------------------------------------------------------------- */

int llm_gpu_queue_create(struct llm_gpu *gpu, struct llm_gpu_queue **queue);
/* Waits for what is in it. */
void llm_gpu_queue_free(struct llm_gpu_queue *queue);

/* What an operator waits for, and the ticket by which others can wait for it. */
struct llm_gpu_order {
	const uint64_t *after; /* tickets of this queue; 0 is a ticket of nothing */
	unsigned int nr_after; /* at most LLM_GPU_MAX_AFTER */
	uint64_t done; /* out: the operator's own */
};
#define LLM_GPU_MAX_AFTER 16

/* Hands what is in the queue to the device; finish, wait and flag do so too. */
int llm_gpu_flush(struct llm_gpu_queue *q);
/* Until operator @ticket is done, or all. -EIO: it failed. */
int llm_gpu_wait(struct llm_gpu_queue *q, uint64_t ticket);
int llm_gpu_finish(struct llm_gpu_queue *q);

/* @bytes at @off of a buffer: what the host wrote becomes visible to operators that come after, or
 * what they wrote to the host, when it is done. Neither side may write there meanwhile. */
int llm_gpu_to_device(struct llm_gpu_queue *q, struct llm_gpu_buffer *buf, size_t off, size_t bytes,
		      struct llm_gpu_order *order);
int llm_gpu_to_host(struct llm_gpu_queue *q, struct llm_gpu_buffer *buf, size_t off, size_t bytes,
		    struct llm_gpu_order *order);

/*
 * Writes @value to a 32-bit word of the host's memory when what it waits for is done, so that the
 * host may poll the word in place of the driver: llm_gpu_flag_is() reads it with acquire
 * order. @flag: of a buffer that llm_gpu_map() made. By a kernel if the device is coherent and the
 * buffer shared, else by a thread of the driver; then the device's results are seen after to_host
 * only. The word must stay until it was written.
 */
int llm_gpu_flag(struct llm_gpu_queue *q, struct llm_gpu_area flag, uint32_t value,
		 struct llm_gpu_order *order);
static inline bool llm_gpu_flag_is(const void *word, uint32_t value)
{
	return __atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE) == value;
}

/* ---- operators ------------------------------------------------------------------------------- */

/* How weights lie in memory. One copy of them serves all lanes. */
enum llm_gpu_weights {
	LLM_GPU_W8, /* panels of MATMUL_I8 (VNPU_PANEL_I8_BYTES); INT8 activations */
	/*
	 * Panels of MATMUL_W4 (VNPU_PANEL_W4_BYTES); INT8 activations as
	 * MATMUL_W4, F32 ones as MATMUL_W4F.
	 */
	LLM_GPU_W4,
	LLM_GPU_F32, /* [..][ldw] */
	LLM_GPU_F16, /* [..][ldw], IEEE binary16 */
};

/*
 * y[r][c] = sum over i of x[r][i] w[c][i], + bias[c], for r in 0..m-1 and c in first..first + n -
 * 1: a range of the weights' rows, with x, w, bias and y those of the whole product, so that
 * lanes can share it (HeteroLLM 4.1: row-cutting). Up to four rows are computed in one pass over
 * the weights, more in tiles.
 *
 * x is F32 [m][ldx], or, where x_scale is given, INT8 [m][ldx] with ldx >= align4(k) and F32
 * x_scale[m], as QUANT writes them. Activations of W8 are always INT8 because the NPU's are: each
 * lane's results are then the same, whichever computes a column.
 */
struct llm_gpu_matmul {
	enum llm_gpu_weights format;
	unsigned int m, k, first, n;
	struct llm_gpu_area x, x_scale, w, bias, y;
	unsigned int ldx, ldw, ldy; /* ldw: F32 and F16 */
	unsigned int group; /* W4: 32, 64 or 128, which divides k */
	bool add; /* W8 and W4: y + the product, + bias: of the second plane of x (llm_gpu_quant) */
};
int llm_gpu_matmul(struct llm_gpu_queue *q, const struct llm_gpu_matmul *op,
		   struct llm_gpu_order *order);

/* QUANT: per row scale = max|x| / 127 and q = round(x / scale); see struct vnpu_cmd_quant. x F32
 * [rows][ldx], q INT8 [planes * rows][ldq], scale F32 [planes * rows]. With two planes QUANT16,
 * with none or one QUANT. */
struct llm_gpu_quant {
	struct llm_gpu_area x, q, scale;
	unsigned int rows, cols, planes;
	unsigned int ldx, ldq;
};
int llm_gpu_quant(struct llm_gpu_queue *q, const struct llm_gpu_quant *op,
		  struct llm_gpu_order *order);

/* QUANT_OUTLIERS: INT8 with a row's outliers apart. x F32 [rows][ldx], q INT8 [rows][ldq], scale
 * F32 [rows], outliers struct vnpu_outliers [rows]. */
struct llm_gpu_quant_outliers {
	struct llm_gpu_area x, q, scale, outliers;
	unsigned int rows, cols;
	unsigned int ldx, ldq;
};
int llm_gpu_quant_outliers(struct llm_gpu_queue *q, const struct llm_gpu_quant_outliers *op,
			   struct llm_gpu_order *order);

/* ADD_OUTLIERS, in place: y[r][c] + what the outliers of row r add to it with the weights of
 * channel c, for the channels of a range as llm_gpu_matmul() has it. format: W8 or W4. */
struct llm_gpu_add_outliers {
	enum llm_gpu_weights format;
	unsigned int m, k, first, n;
	struct llm_gpu_area outliers, w, y;
	unsigned int ldy;
	unsigned int group; /* W4 */
};
int llm_gpu_add_outliers(struct llm_gpu_queue *q, const struct llm_gpu_add_outliers *op,
			 struct llm_gpu_order *order);

/* RMSNORM of each head: y[r][h][c] = x[r][h][c] / sqrt(mean over c of x^2 + eps) w[c], F32, x
 * [rows][ldx] with head after head. heads 1 for whole rows. y may be x. */
struct llm_gpu_rmsnorm {
	struct llm_gpu_area x, w, y;
	unsigned int rows, heads, head_dim;
	unsigned int ldx, ldy;
	float eps;
};
int llm_gpu_rmsnorm(struct llm_gpu_queue *q, const struct llm_gpu_rmsnorm *op,
		    struct llm_gpu_order *order);

/* ROPE: the first rot_dim of each head turned in pairs by (pos + row) inv_freq[i], the others
 * copied; mode: enum vnpu_rope_mode. pos + rows is at most 2^24. y may be x. */
struct llm_gpu_rope {
	struct llm_gpu_area x, inv_freq, y;
	unsigned int rows, heads, head_dim, rot_dim, pos, mode;
	unsigned int ldx, ldy;
};
int llm_gpu_rope(struct llm_gpu_queue *q, const struct llm_gpu_rope *op,
		 struct llm_gpu_order *order);

/* ATTN: y = softmax(scale q k^T) v, causal; row r sees the cache's rows 0..pos + r, of which there
 * are ctx_rows. q, y F32 [rows][ld][heads][head_dim]; k, v of kv_type (enum vnpu_kv_type)
 * [ctx_rows][kv_heads][head_dim], ldk and ldv in values. */
struct llm_gpu_attn {
	struct llm_gpu_area q, k, v, y;
	unsigned int rows, heads, kv_heads, head_dim, ctx_rows, pos, kv_type;
	unsigned int ldq, ldk, ldv, ldy;
	float scale;
};
int llm_gpu_attn(struct llm_gpu_queue *q, const struct llm_gpu_attn *op,
		 struct llm_gpu_order *order);

/* Element by element over [rows][cols], F32; y may be a or b. */
enum llm_gpu_binary_kind {
	LLM_GPU_ADD, /* a + b */
	LLM_GPU_SILU, /* GLU: silu(a) b */
	LLM_GPU_GELU, /* GLU: gelu(a) b */
};
struct llm_gpu_binary {
	enum llm_gpu_binary_kind kind;
	struct llm_gpu_area a, b, y;
	unsigned int rows, cols;
	unsigned int lda, ldb, ldy;
};
int llm_gpu_binary(struct llm_gpu_queue *q, const struct llm_gpu_binary *op,
		   struct llm_gpu_order *order);

/*
 * STORE: rows of x F32 [rows][cols] to the rows row.. of a cache dst [..][ld_dst] of @type (enum
 * vnpu_kv_type; F32 copies).
 */
struct llm_gpu_store {
	struct llm_gpu_area x, dst;
	unsigned int rows, cols, row, type;
	unsigned int ldx, ld_dst;
};
int llm_gpu_store(struct llm_gpu_queue *q, const struct llm_gpu_store *op,
		  struct llm_gpu_order *order);

#endif /* GPU_H */
