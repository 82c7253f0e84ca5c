/* SPDX-License-Identifier: MIT */
/*
 * The GPU lane: a device of any OpenCL 1.2 platform that computes in parallel with the NPU, in the
 * same memory and with the same packed weights (HeteroLLM, sections 4.1 and 4.2).
 *
 *	struct llm_gpu *gpu;
 *	struct llm_gpu_queue *q;
 *	struct llm_gpu_buffer *work, *weights;
 *	if (llm_gpu_open(NULL, NULL, &gpu) || llm_gpu_queue_create(gpu, &q) ||
 *	    llm_gpu_map(gpu, npu_buffer_data(a), npu_buffer_size(a), LLM_GPU_SHARED, &work) ||
 *	    llm_gpu_map(gpu, npu_buffer_data(b), npu_buffer_size(b), LLM_GPU_SHARED, &weights))
 *		errx(1, "%s", llm_error());
 *	llm_gpu_to_device(q, weights, 0, npu_buffer_size(b));
 *	llm_gpu_to_device(q, work, x_off, x_bytes);
 *	llm_gpu_matmul(q, &(struct llm_gpu_matmul){ ... });
 *	llm_gpu_to_host(q, work, y_off, y_bytes);
 *	llm_gpu_finish(q);
 *
 * Memory. A buffer is host memory that is mapped for the device, once for the life of an engine or
 * a session; operators take areas, a buffer and a byte offset. A shared buffer has one copy if the
 * platform allows it (CL_MEM_USE_HOST_PTR on a device with the host's memory), a copied buffer two.
 * to_device and to_host make the writes of one side visible to the other, with or without a copy.
 * The OpenCL standard requires them in either case.
 *
 * Synchronisation. There are two ways, with the same results:
 *
 *	driver	to_device, operators, to_host, finish: correct on every platform
 *	fast	operators and a flag, in shared buffers of a coherent device: the host writes
 *		operands, the operators run, then a kernel writes a word that the host polls
 *		(HeteroLLM section 4.2). Nothing is copied or mapped, and learning of the end
 *		takes no call
 *
 * OpenCL 1.2 does not guarantee that host and kernels see one another's writes without such calls
 * (only fine-grained SVM of OpenCL 2 does). In practice they do if CPU and GPU share coherent
 * caches, or if a kernel starts with empty caches and writes them back at its end. llm_gpu_open()
 * tests the device in both directions. If the test fails, llm_gpu_coherent() is false, a thread of
 * the driver writes flags when it reports the end, and callers must use the driver's way.
 *
 * Order. Operators of a queue run one after another, in the order of the calls.
 *
 * Numbers. Matrices are row-major; ld* is the number of elements from row to row. Operators have
 * the semantics and layouts of the NPU's commands of the same name (uapi/npu/vnpu_isa.h). Sums of
 * INT8 products are exact, and floats are accumulated in F32. If the device fuses multiply-add,
 * rounds quotients correctly (info.exact) and does not divide a row of weights between work-items,
 * as CPUs, then matmuls with panels and quantised rows are bit-identical to the NPU's. Otherwise
 * they differ by rounding, and a quantised value by 1 if its quotient is a tie.
 *
 * Errors: 0, or a negative errno and llm_error(). -EINVAL for a shape that the format does not
 * allow, or an area that is misaligned or not inside its buffer; nothing was queued then. -ENOMEM,
 * and -EIO for other errors of the platform.
 *
 * Threads: only one thread at a time may use a queue; any may use the rest. Free buffers and queues
 * before their llm_gpu.
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
	/* Floats per vector of a work-item: 4, 8 or 16; 0: a CPU's register width, 4 on a GPU. */
	unsigned int vector;
};

/*
 * Opens a device and compiles the kernels for it. Some platforms compile part of a kernel only when
 * it first runs, and cache that for the next process (PoCL: a second each, in POCL_CACHE_DIR or
 * ~/.cache/pocl), so run each kernel once before measuring.
 * @select: an index into llm_gpu_list(), or a part of "platform name" in any case of letters; NULL:
 * VNPU_OPENCL, else the first GPU, else the first device. -ENODEV for no platform or device,
 * -ENOENT if @select matches none, -EINVAL for the options.
 */
int llm_gpu_open(const char *select, const struct llm_gpu_options *opts, struct llm_gpu **gpu);
void llm_gpu_close(struct llm_gpu *gpu);
const struct llm_gpu_info *llm_gpu_info(const struct llm_gpu *gpu);
/* Whether host and kernels see one another's writes to shared buffers without calls. */
bool llm_gpu_coherent(const struct llm_gpu *gpu);
unsigned int llm_gpu_vector(const struct llm_gpu *gpu); /* floats per vector of a work-item */

/* ---- memory ---------------------------------------------------------------------------------- */

#define LLM_GPU_PAGE 4096

enum llm_gpu_sharing {
	LLM_GPU_SHARED, /* one copy if the device has the host's memory, else like COPIED */
	LLM_GPU_COPIED, /* a second copy in the device's memory */
};

/* Maps @host, which must be aligned to LLM_GPU_PAGE, stays the caller's, and must stay in place
 * until llm_gpu_unmap() (no npu_buffer_unmap() before that). Memory may have one buffer per
 * llm_gpu, of at most info.max_buffer_bytes. The contents of a copied buffer are undefined until
 * to_device or an operator has written them. */
int llm_gpu_map(struct llm_gpu *gpu, void *host, size_t bytes, enum llm_gpu_sharing sharing,
		struct llm_gpu_buffer **buf);
/* Allocates memory that only operators use. */
int llm_gpu_alloc(struct llm_gpu *gpu, size_t bytes, struct llm_gpu_buffer **buf);
/* No queued operator may use the buffer any more. */
void llm_gpu_unmap(struct llm_gpu_buffer *buf);
/* Whether host and device share one copy. */
bool llm_gpu_shared(const struct llm_gpu_buffer *buf);

/* A place in a buffer; buf NULL: an optional operand is absent. */
struct llm_gpu_area {
	struct llm_gpu_buffer *buf;
	size_t off; /* bytes */
};

/* ---- queues ---------------------------------------------------------------------------------- */

int llm_gpu_queue_create(struct llm_gpu *gpu, struct llm_gpu_queue **queue);
/* Waits for the operators in the queue. */
void llm_gpu_queue_free(struct llm_gpu_queue *queue);

/* Submits the queued operators to the device; finish and flag do so too. */
int llm_gpu_flush(struct llm_gpu_queue *q);
/* Waits for all of them. -EIO: one failed. */
int llm_gpu_finish(struct llm_gpu_queue *q);

/* Make @bytes at @off of a buffer, as the host wrote them, visible to later operators, or as
 * operators wrote them to the host, once the transfer is done. Neither side may write there in the
 * meantime. */
int llm_gpu_to_device(struct llm_gpu_queue *q, struct llm_gpu_buffer *buf, size_t off,
		      size_t bytes);
int llm_gpu_to_host(struct llm_gpu_queue *q, struct llm_gpu_buffer *buf, size_t off, size_t bytes);

/*
 * Writes @value to a 32-bit word of host memory when the operators before it are done, so that the
 * host can poll the word, with llm_gpu_flag_is(), which has acquire order. @flag is in a buffer of
 * llm_gpu_map(). A kernel writes it if the device is coherent and the buffer shared, else a thread
 * of the driver; the host then sees results only after to_host. The word must stay mapped until it
 * is written.
 */
int llm_gpu_flag(struct llm_gpu_queue *q, struct llm_gpu_area flag, uint32_t value);
static inline bool llm_gpu_flag_is(const void *word, uint32_t value)
{
	return __atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE) == value;
}

/* ---- operators ------------------------------------------------------------------------------- */

/* Layouts of weights. All lanes share one copy. */
enum llm_gpu_weights {
	LLM_GPU_W8, /* panels of MATMUL_I8 (VNPU_PANEL_I8_BYTES); INT8 activations */
	/* Panels of MATMUL_W4 (VNPU_PANEL_W4_BYTES); INT8 activations as with MATMUL_W4, or F32
	 * ones as with MATMUL_W4F. */
	LLM_GPU_W4,
	LLM_GPU_F32, /* [..][ldw] */
	LLM_GPU_F16, /* [..][ldw], IEEE binary16 */
};

/*
 * y[r][c] = bias[c] + sum over i of x[r][i] w[c][i], for r in 0..m-1 and c in first..first + n - 1.
 * This is a range of the weights' rows; x, w, bias and y are those of the whole matmul, so that
 * lanes can share it (HeteroLLM 4.1: row-cutting). Up to four rows take one pass over the weights;
 * more are computed in tiles, or in passes of four rows if their tiles do not fill the device.
 *
 * x is F32 [m][ldx], or, if x_scale is given, INT8 [m][ldx] with ldx >= align4(k) and F32
 * x_scale[m], as QUANT writes them. Activations of W8 are always INT8, like the NPU's, so that each
 * lane gives the same results.
 */
struct llm_gpu_matmul {
	enum llm_gpu_weights format;
	unsigned int m, k, first, n;
	struct llm_gpu_area x, x_scale, w, bias, y;
	unsigned int ldx, ldw, ldy; /* ldw: F32 and F16 */
	unsigned int group; /* W4: 32, 64 or 128, a divisor of k */
	bool add; /* W8 and W4: adds to y, for the second plane of x (llm_gpu_quant) */
};
int llm_gpu_matmul(struct llm_gpu_queue *q, const struct llm_gpu_matmul *op);

/* QUANT (planes 0 or 1): per row scale = max|x| / 127 and q = round(x / scale); QUANT16 (planes 2);
 * see struct vnpu_cmd_quant. x F32 [rows][ldx], q INT8 [planes * rows][ldq], scale F32 [planes *
 * rows]. */
struct llm_gpu_quant {
	struct llm_gpu_area x, q, scale;
	unsigned int rows, cols, planes;
	unsigned int ldx, ldq;
};
int llm_gpu_quant(struct llm_gpu_queue *q, const struct llm_gpu_quant *op);

/* QUANT_OUTLIERS: INT8 and a row's outliers. x F32 [rows][ldx], q INT8 [rows][ldq], scale F32
 * [rows], outliers struct vnpu_outliers [rows]. */
struct llm_gpu_quant_outliers {
	struct llm_gpu_area x, q, scale, outliers;
	unsigned int rows, cols;
	unsigned int ldx, ldq;
};
int llm_gpu_quant_outliers(struct llm_gpu_queue *q, const struct llm_gpu_quant_outliers *op);

/* ADD_OUTLIERS: adds to y[r][c] the outliers of row r times the weights of channel c, for a range
 * of channels as in llm_gpu_matmul(). format: W8 or W4. */
struct llm_gpu_add_outliers {
	enum llm_gpu_weights format;
	unsigned int m, k, first, n;
	struct llm_gpu_area outliers, w, y;
	unsigned int ldy;
	unsigned int group; /* W4 */
};
int llm_gpu_add_outliers(struct llm_gpu_queue *q, const struct llm_gpu_add_outliers *op);

/* RMSNORM of each head: y[r][h][c] = x[r][h][c] / sqrt(mean over c of x^2 + eps) w[c], F32; rows of
 * x [rows][ldx] are heads of head_dim. heads is 1 for whole rows. y may be x. */
struct llm_gpu_rmsnorm {
	struct llm_gpu_area x, w, y;
	unsigned int rows, heads, head_dim;
	unsigned int ldx, ldy;
	float eps;
};
int llm_gpu_rmsnorm(struct llm_gpu_queue *q, const struct llm_gpu_rmsnorm *op);

/* ROPE: rotates pairs of the first rot_dim values of each head by (pos + row) inv_freq[i] and
 * copies the others; mode: enum vnpu_rope_mode. pos + rows is at most 2^24. y may be x. */
struct llm_gpu_rope {
	struct llm_gpu_area x, inv_freq, y;
	unsigned int rows, heads, head_dim, rot_dim, pos, mode;
	unsigned int ldx, ldy;
};
int llm_gpu_rope(struct llm_gpu_queue *q, const struct llm_gpu_rope *op);

/* ATTN: y = softmax(scale q k^T) v, causal; row r sees rows 0..pos + r of the cache, which has
 * ctx_rows. q, y F32 [rows][ld][heads][head_dim]; k, v of kv_type (enum vnpu_kv_type)
 * [ctx_rows][kv_heads][head_dim], ldk and ldv in values. */
struct llm_gpu_attn {
	struct llm_gpu_area q, k, v, y;
	unsigned int rows, heads, kv_heads, head_dim, ctx_rows, pos, kv_type;
	unsigned int ldq, ldk, ldv, ldy;
	float scale;
};
int llm_gpu_attn(struct llm_gpu_queue *q, const struct llm_gpu_attn *op);

/* Element-wise over [rows][cols], F32; y may be a or b. */
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
int llm_gpu_binary(struct llm_gpu_queue *q, const struct llm_gpu_binary *op);

/* STORE: converts x F32 [rows][cols] to @type (enum vnpu_kv_type) and stores it in a cache dst
 * [..][ld_dst] from row @row on. */
struct llm_gpu_store {
	struct llm_gpu_area x, dst;
	unsigned int rows, cols, row, type;
	unsigned int ldx, ld_dst;
};
int llm_gpu_store(struct llm_gpu_queue *q, const struct llm_gpu_store *op);

#endif /* GPU_H */
