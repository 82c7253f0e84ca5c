/* SPDX-License-Identifier: MIT */
/* The engine's choices: where a forward pass runs, and how. */
#ifndef LLM_CHOICES_H
#define LLM_CHOICES_H

/* Where a forward pass runs. */
enum llm_placement {
	/* npu by the wall's clock, where the NPU is the same cores as the CPU, and to hand over between them only costs; fine by a
	 * profile's, whose NPU is slow at floats. The results are the same bits. */
	LLM_PLACE_AUTO = 0,
	LLM_PLACE_FINE, /* prefill: INT8 matmuls on the NPU, float operators on the CPU; decode: as LLM_PLACE_NPU */
	LLM_PLACE_CPU, /* everything on the CPU, no device is opened */
	LLM_PLACE_NPU, /* everything but the embedding look-up on the NPU, one job per chunk or token */
	LLM_PLACE_GPU, /* everything but the embedding look-up on the GPU: OpenCL (gpu.h) */
	/* Float operators on the GPU, each product on the NPU or the GPU, whichever is sooner done with it, or cut between
	 * them (HeteroLLM 4) */
	LLM_PLACE_LAYER,
};

/* What the matmuls compute with. */
enum llm_weights {
	LLM_WEIGHTS_AUTO = 0, /* f32 on the CPU; on the NPU w4a8 for a file of Q4_0, else w8a8 */
	LLM_WEIGHTS_F32, /* the file's weights widened to F32, row by row while they are used; CPU only */
	LLM_WEIGHTS_W8A8, /* INT8 per output channel, activations integers per row (enum llm_activations) */
	LLM_WEIGHTS_F16, /* planned only */
	/* INT4 in groups of 32 (packed.h); the output matrix stays INT8 unless the file has 4 bits: */
	LLM_WEIGHTS_W4A16, /* activations stay floats, and so does the arithmetic (HeteroLLM, table 2) */
	LLM_WEIGHTS_W4A8, /* activations integers per row */
};

/*
 * What a row of activations is rounded to where the matmuls are of integers. With one scale for all of a row, a few large values take
 * the others' bits, most in what the down projection reads and in what the output matrix does. 16 bits are two planes of INT8
 * (VNPU_OP_QUANT16) and twice the arithmetic; outliers that stay floats (VNPU_OP_QUANT_OUTLIERS) are a few hundredths of it on a
 * CPU, and about as much on an NPU whose vector unit is as much slower than its matrix unit as phones' are.
 */
enum llm_activations {
	/* INT8; outliers apart for down projections, INT16 for the output matrix */
	LLM_ACTIVATIONS_OUTLIERS = 0,
	LLM_ACTIVATIONS_INT8, /* everywhere */
	LLM_ACTIVATIONS_MIXED, /* INT8; INT16 for down projections and the output matrix */
	LLM_ACTIVATIONS_INT16, /* everywhere */
};

/* As large as the steps of the engines' tiles, so that the rows which a chunk leaves unused cost about nothing. */
#define LLM_BUCKET_ROWS 32

/* Which static graphs a prompt's chunks run on. The last three are those of placement layer, whose chunk is the whole
 * prompt, and whose graphs are a product each, of 32, 64, ... 1024 tokens (HeteroLLM 4.1.1). */
enum llm_graphs {
	LLM_GRAPHS_BUCKETED = 0, /* one per multiple of LLM_BUCKET_ROWS tokens, made when a chunk first needs it */
	LLM_GRAPHS_SHARED, /* one, to which every chunk is padded (llm.npu section 3.2: chunk-sharing graphs) */
	LLM_GRAPHS_ONLINE, /* one of exactly the prompt's length, which is made when the prompt is there */
	LLM_GRAPHS_PADDED, /* the next larger one; past 1024 tokens several of 1024 before it */
	LLM_GRAPHS_PIPE, /* several in sequence, the last one padded */
};

/* How placement layer cuts a product between GPU and NPU (HeteroLLM 4.1; partition.h). */
enum llm_partition {
	LLM_PARTITION_NONE = 0, /* not at all */
	LLM_PARTITION_ROW, /* the GPU takes rows of the weights: output columns */
	LLM_PARTITION_SEQUENCE, /* the NPU takes one graph's tokens, the GPU the rest */
	LLM_PARTITION_MULTI_SEQUENCE, /* the same with several graphs */
	LLM_PARTITION_HYBRID, /* rows of the weights, with padded graphs or with tokens besides */
	LLM_PARTITION_AUTO, /* whichever is the fastest */
};

/* What a KV cache is made of. */
enum llm_kv {
	LLM_KV_F16 = 0,
	LLM_KV_F32,
	LLM_KV_Q8_0, /* INT8 with an F16 scale per 32 values; for models whose heads are multiples of 32 */
};

/* How the runtime learns that the NPU is done. */
enum llm_sync {
	LLM_SYNC_FAST = 0, /* poll the queue's status page, then wait */
	LLM_SYNC_DRIVER, /* wait in the driver */
};

/* One of each. Zeros are the defaults. */
struct llm_choices {
	enum llm_placement placement;
	enum llm_weights weights;
	enum llm_activations activations;
	enum llm_graphs graphs;
	enum llm_partition partition;
	enum llm_kv kv;
	enum llm_sync sync;
};

#endif /* LLM_CHOICES_H */
