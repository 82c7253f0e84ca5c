/* SPDX-License-Identifier: MIT */
/*
 * The engine's choices: where a forward pass runs, in which arithmetic, and how its parts are put
 * together.
 *
 * One table (choices.c) holds the names and meanings of the choices and their values, and which of
 * them exclude each other. Command lines, help, manual pages, shell completion, fields, columns and
 * errors are made from it. To add a choice, add an enum and a field of struct llm_choices here, its
 * rows in the table, and the code that acts on it.
 *
 *	int value = llm_choice_parse(LLM_CHOICE_WEIGHTS, "w8a8");
 *	if (value < 0)
 *		errx(2, "%s", llm_error());
 *	llm_choices_set(&opts.choices, LLM_CHOICE_WEIGHTS, (unsigned int)value);
 *
 * The first value of each choice, 0, is its default. Functions that can fail return -EINVAL, and
 * llm_error() says why.
 */
#ifndef LLM_CHOICES_H
#define LLM_CHOICES_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- the values ---- */

/* Where a forward pass runs. */
enum llm_placement {
	/* A placement that the other choices can run on, if possible one with the NPU: npu on the
	 * wall clock, where NPU and CPU are the same cores, so that handovers only cost time; fine
	 * on the virtual clock, whose NPU is slow at floats. Both give the same bits. */
	LLM_PLACE_AUTO = 0,
	/* Prefill: matmuls on the NPU, float operators on the CPU; decode: as npu. */
	LLM_PLACE_FINE,
	LLM_PLACE_CPU, /* everything on the CPU; no device is opened */
	/* Everything but the embedding look-up on the NPU, one job per chunk or token. Of a
	 * prompt's last layer, what its keys and values and the wanted logits need. */
	LLM_PLACE_NPU,
	LLM_PLACE_GPU, /* everything but the embedding look-up on the GPU: OpenCL (gpu.h) */
	/* Float operators on the GPU; each matmul on the NPU or the GPU, whichever ends sooner, or
	 * cut between them (HeteroLLM 4) */
	LLM_PLACE_LAYER,
	/* Prefill: matmuls on the NPU, attention and shadow outliers on the CPU, the other float
	 * operators where the choice of floats says; decode: as fine (llm.npu 3) */
	LLM_PLACE_LINEAR,
};

/* The types of weights and activations in matmuls. */
enum llm_weights {
	/* f32 on the CPU; elsewhere what the file was packed for, native if it has block types of
	 * MATMUL_KQ, w4a8 for Q4_0, else w8a8. Without a file, in a dry run: w8a8 on the NPU, w4a16
	 * with placement layer, else f16. */
	LLM_WEIGHTS_AUTO = 0,
	LLM_WEIGHTS_F32, /* the file's weights, widened row by row as the matmul reads them */
	LLM_WEIGHTS_W8A8, /* INT8, a scale per output channel; integer activations */
	LLM_WEIGHTS_F16, /* only in dry runs */
	/* INT4 in groups of 32 (packed.h); the output matrix is INT8 unless the file's is Q4_0. */
	LLM_WEIGHTS_W4A16, /* float activations and arithmetic (HeteroLLM, table 2) */
	LLM_WEIGHTS_W4A8, /* integer activations */
	/* Each matrix in its own type: Q4_0, those of MATMUL_KQ and those that can be rewritten as
	 * one of them (docs/gguf.md), others as in W8A8; integer activations. */
	LLM_WEIGHTS_NATIVE,
	/* Only in dry runs: INT8 with a scale for each 32 values along k, whose sums an NPU adds as
	 * floats, as K-quants and AWQ have it (llm.npu 2.3) */
	LLM_WEIGHTS_W8A8_GROUPS,
	/* A file of llm-quantize: 1 to 8 bits for each 64 output channels, a scale per output
	 * channel; the output matrix is INT8; integer activations (EdgeFlow 4.1). Rows that would
	 * have outliers apart are INT16. */
	LLM_WEIGHTS_ADAPTIVE,
};

/*
 * The integers that activations are rounded to in integer matmuls, with one scale per row. A few
 * large values raise the scale and so take bits from the others, most of all before the down
 * projection and the output matrix. INT16 is two planes of INT8 (VNPU_OP_QUANT16), twice the
 * arithmetic. Keeping the outliers as floats (VNPU_OP_QUANT_OUTLIERS) costs a few per cent on a
 * CPU, and about as much as INT16 on an NPU with a phone's ratio of vector to matrix speed.
 */
enum llm_activations {
	/* INT8; separate outliers for down projections, INT16 for the output matrix */
	LLM_ACTIVATIONS_ROW_OUTLIERS = 0,
	LLM_ACTIVATIONS_INT8, /* everywhere */
	LLM_ACTIVATIONS_MIXED, /* INT8; INT16 for down projections and the output matrix */
	LLM_ACTIVATIONS_INT16, /* everywhere */
	/* Row outliers for all of a layer's matmuls, which is what LLM.int8 does with columns. */
	LLM_ACTIVATIONS_ROW_OUTLIERS_ALL,
	/*
	 * Prompts with placement linear, in files that llm-quantize has calibrated: INT8 with one
	 * scale for all rows of a matmul's input, the file's. Values beyond it are clamped; in
	 * inputs that are not pruned, what was clamped is multiplied on the CPU in floats and added
	 * (llm.npu 3.3: shadow outliers). The output matrix and single tokens: as ROW_OUTLIERS.
	 */
	LLM_ACTIVATIONS_STATIC,
	/* The same without shadow outliers, and a scale that holds the calibration text's largest
	 * value: plain per-tensor quantisation. */
	LLM_ACTIVATIONS_STATIC_MAX,
};

/* A multiple of the devices' tile heights, so that a chunk's padding costs next to nothing. */
#define LLM_BUCKET_ROWS 32

/* The static graphs that a prompt's chunks run on. PADDED and PIPE are for placement layer, whose
 * graphs are single matmuls of 32, 64, ... 1024 tokens (HeteroLLM 4.1.1). */
enum llm_graphs {
	LLM_GRAPHS_BUCKETED = 0, /* one per multiple of LLM_BUCKET_ROWS tokens, made when needed */
	LLM_GRAPHS_FIXED, /* one, to which every chunk is padded; placement linear has SHARED */
	LLM_GRAPHS_ONLINE, /* one of exactly the prompt's length, made when the prompt arrives */
	/* The next larger one; beyond 1024 tokens, full ones of 1024 before it. */
	LLM_GRAPHS_PADDED,
	LLM_GRAPHS_PIPE, /* several in sequence, the last one padded */
	/* Placement linear: subgraphs of one length, built once, that all chunks share; the last
	 * chunk is padded (llm.npu 3.2: chunk-sharing graphs) */
	LLM_GRAPHS_SHARED,
};

/* How placement layer cuts a matmul between GPU and NPU (HeteroLLM 4.1; partition.h). */
enum llm_partition {
	LLM_PARTITION_NONE = 0, /* not at all */
	LLM_PARTITION_ROW, /* the GPU takes rows of the weights: output columns */
	LLM_PARTITION_SEQUENCE, /* the NPU takes one graph's tokens, the GPU the rest */
	LLM_PARTITION_MULTI_SEQUENCE, /* the same with several graphs */
	LLM_PARTITION_HYBRID, /* as ROW, and the NPU's graphs are padded or the GPU takes tokens */
	LLM_PARTITION_AUTO, /* whichever is the fastest */
};

/*
 * Which operand of a matmul the NPU keeps in its arrays; the other one is streamed past it
 * (HeteroLLM 3.2). Results have the same bits; device times and plans count the order.
 */
enum llm_operands {
	LLM_OPERANDS_AUTO = 0, /* permuted with placement layer (HeteroLLM 4.1), else natural */
	LLM_OPERANDS_NATURAL, /* the weights */
	LLM_OPERANDS_PERMUTED, /* the activations: C^T = W^T A^T */
};

/* The type of the KV cache. */
enum llm_kv {
	LLM_KV_F16 = 0,
	LLM_KV_F32,
	LLM_KV_Q8_0, /* INT8, an F16 scale per 32 values; the head size must be a multiple of 32 */
};

/*
 * Whether placement layer divides a prompt into chunks that follow one another through the layers,
 * so that the GPU's float operators of one run beside the NPU's matmuls of another. This is not
 * HeteroLLM's.
 */
enum llm_division {
	LLM_DIVISION_NONE = 0, /* one chunk, as far as memory goes */
	LLM_DIVISION_FASTEST, /* as many as are the fastest, simulated */
};

/* Where placement linear puts a prompt's float operators. */
enum llm_floats {
	/* cpu on the virtual clock; all on the wall clock, where NPU and CPU are the same cores, so
	 * that handovers only cost time */
	LLM_FLOATS_AUTO = 0,
	LLM_FLOATS_CPU, /* all on the CPU */
	/* Norms, residuals and RoPE on the CPU; activation functions on the NPU, in one subgraph
	 * with the FFN's matmuls; each matmul's subgraph quantises its input (llm.npu 3.4) */
	LLM_FLOATS_NORMS,
	LLM_FLOATS_NPU, /* the CPU has attention only (EdgeFlow 3.2) */
	LLM_FLOATS_ALL, /* attention too is on the NPU: the CPU has shadow outliers only */
};

/* The weights that placement linear has on a modelled NPU. */
enum llm_space {
	LLM_SPACE_ALL = 0, /* all of them */
	/* As many as it can address (soc.h: space_gib), the FFN's first; the CPU computes with the
	 * others (llm.npu 4) */
	LLM_SPACE_LIMITED,
};

/* Which way of synchronising matmuls are cut for. */
enum llm_solver {
	LLM_SOLVER_FAST = 0, /* the fast one, also where sync is driver: what that alone costs */
	LLM_SOLVER_SYNC, /* the one in use */
};

/* Cores of the modelled SoC that the CPU lane has (soc.h). */
enum llm_cores {
	LLM_CORES_FOUR = 0, /* the four fastest */
	LLM_CORES_BIG, /* one */
	LLM_CORES_MIDDLE, /* one (shadowAttn 4) */
	LLM_CORES_LITTLE, /* one */
};

/* How the runtime learns that the NPU is done. */
enum llm_sync {
	LLM_SYNC_FAST = 0, /* poll the queue's status page, then wait in the driver */
	LLM_SYNC_DRIVER, /* wait in the driver */
};

/* Which of its ready tasks a lane takes next (scheduler.h). */
enum llm_order {
	/* Where chunks overlap, ooe with placement linear and layer with others; else fifo. On the
	 * wall clock, whose lanes share the cores, placement linear does not overlap them. */
	LLM_ORDER_AUTO = 0,
	LLM_ORDER_FIFO, /* the first one in the plan; chunks follow one another */
	/* One of the lowest layer, so that chunks advance together; in it, of the earliest chunk
	 * (EdgeFlow 4.3: position-guided priority) */
	LLM_ORDER_LAYER,
	/* One of the earliest chunk; later chunks fill gaps (llm.npu 3.4: simply overlapping) */
	LLM_ORDER_CHUNK,
	/* The one with the greatest C: out of order (llm.npu 3.4, equation 6) */
	LLM_ORDER_OOE,
	/* As LAYER; and an idle CPU takes a matmul from a long queue of the NPU (EdgeFlow 4.3) */
	LLM_ORDER_STEAL,
};

/* When the weights are loaded. */
enum llm_start {
	LLM_START_WARM = 0, /* before the first evaluation, by llm_engine_open() */
	/* In the first evaluation, layer by layer, beside the computing of the layers that are
	 * there (EdgeFlow 4) */
	LLM_START_COLD,
};

/*
 * The attention of a prompt's chunks (shadowAttn 2.2, 3.2). All but full compute it for the keys
 * that an estimate finds important, a share of those that a query sees: llm_options.ratio. The
 * first chunks of a prompt have full attention: llm_options.sparse_from.
 */
enum llm_attention {
	LLM_ATTENTION_FULL = 0,
	LLM_ATTENTION_SPARSE, /* the CPU estimates, in floats: C/G-Sparse */
	LLM_ATTENTION_BLOCK, /* the CPU estimates whole blocks of 64 queries and 64 keys */
	/* All of it on the NPU in INT8, with static scales: NPU-Full; nothing is sparse */
	LLM_ATTENTION_NPU,
	LLM_ATTENTION_SHADOW, /* the NPU estimates, in INT8; the CPU computes: shadowAttn */
};

/* The attention of single tokens, where that of prompts is not full. */
enum llm_decode {
	LLM_DECODE_FULL = 0, /* every key: decoding mainly waits for memory (shadowAttn 4) */
	/* As that of a prompt's chunks: fewer keys and values are read */
	LLM_DECODE_SPARSE,
};

/* How the ratio is divided among heads (shadowAttn 3.2; head_ratios.h). */
enum llm_ratios {
	/* By what each gains from all keys, if llm-quantize --calibrate has found it; else head */
	LLM_RATIOS_GAIN = 0,
	LLM_RATIOS_HEAD, /* by the paper's importance, if the file has it; else uniform */
	LLM_RATIOS_UNIFORM,
};

/* How the NPU's estimates and the CPU's work of a layer's heads follow one another (shadowAttn
 * 3.4, figure 9; head_plan.h). The paper's is greedy. */
enum llm_pipeline {
	LLM_PIPELINE_INSERTION = 0, /* fused, in an order that ends sooner than greedy's */
	LLM_PIPELINE_SEQUENTIAL, /* head after head, and each stage after the other */
	LLM_PIPELINE_OVERLAP, /* a head's estimate while the CPU is at the one before */
	LLM_PIPELINE_FUSED, /* and heads of one scale bucket are estimated in one launch */
	LLM_PIPELINE_GREEDY, /* and launches and heads are reordered: algorithm 1 */
};

/*
 * Graphs for decoding in place of prefill's (CoordGen 3.2). An NPU's graphs have fixed shapes, and
 * on a phone their weights in them. All but none have two of each block of layers: one for a chunk,
 * so that graphs are fixed, and one of llm_options.decode_width tokens, with which later passes are
 * computed.
 */
enum llm_switching {
	LLM_SWITCHING_NONE = 0, /* graphs of all layers, one for every length that comes */
	LLM_SWITCHING_RESIDENT, /* both graphs of each block stay in memory */
	LLM_SWITCHING_SYNC, /* decoding's are loaded when the prompt has been evaluated */
	/* A block's is loaded as soon as the last chunk has passed it */
	LLM_SWITCHING_ASYNC,
	/* Blocks are switched during the prompt, while others are computed; the chunks that are
	 * left run on a switched block's graph part by part */
	LLM_SWITCHING_PROGRESSIVE,
};

/* Where generation takes guesses of the next tokens from, which the model verifies together
 * (CoordGen; llm_drafter_create()). The tokens are the same with all. Decode sparse, and a GPU that
 * is not LLM_GPU_HOST, go with NONE only. */
enum llm_draft {
	/* None; llm-cli with a context or a history: REUSE; llm-bench with tasks: COORDGEN */
	LLM_DRAFT_AUTO = 0,
	LLM_DRAFT_NONE, /* one token after another */
	LLM_DRAFT_PLD, /* what followed in the session's tokens: prompt lookup (2.2) */
	LLM_DRAFT_SAM, /* and in past answers (4.1) */
	LLM_DRAFT_CALIBRATED, /* and what the model expected behind the prompt's tokens (3.3) */
	LLM_DRAFT_REUSE, /* as SAM, and plausible parts of rejected drafts (3.4) */
	LLM_DRAFT_COORDGEN, /* all of these */
};

/* ---- a set of choices ---- */

/* Zeros are the defaults. */
struct llm_choices {
	enum llm_placement placement;
	enum llm_weights weights;
	enum llm_activations activations;
	enum llm_graphs graphs;
	enum llm_partition partition;
	enum llm_operands operands;
	enum llm_kv kv;
	enum llm_sync sync;
	enum llm_order order;
	enum llm_division division;
	enum llm_solver solver;
	enum llm_cores cores;
	enum llm_floats floats;
	enum llm_space space;
	enum llm_start start;
	enum llm_attention attention;
	enum llm_decode decode;
	enum llm_ratios ratios;
	enum llm_pipeline pipeline;
	enum llm_switching switching;
	enum llm_draft draft;
};

/* The fields of struct llm_choices. */
enum llm_choice {
	LLM_CHOICE_PLACEMENT,
	LLM_CHOICE_WEIGHTS,
	LLM_CHOICE_ACTIVATIONS,
	LLM_CHOICE_GRAPHS,
	LLM_CHOICE_PARTITION,
	LLM_CHOICE_OPERANDS,
	LLM_CHOICE_KV,
	LLM_CHOICE_SYNC,
	LLM_CHOICE_ORDER,
	LLM_CHOICE_DIVISION,
	LLM_CHOICE_SOLVER,
	LLM_CHOICE_CORES,
	LLM_CHOICE_FLOATS,
	LLM_CHOICE_SPACE,
	LLM_CHOICE_START,
	LLM_CHOICE_ATTENTION,
	LLM_CHOICE_DECODE,
	LLM_CHOICE_RATIOS,
	LLM_CHOICE_PIPELINE,
	LLM_CHOICE_SWITCHING,
	LLM_CHOICE_DRAFT,
	LLM_NR_CHOICES,
};

unsigned int llm_choices_get(const struct llm_choices *choices, enum llm_choice choice);
void llm_choices_set(struct llm_choices *choices, enum llm_choice choice, unsigned int value);

/* ---- the table ---- */

/* A bit of a set of placements. */
#define LLM_PLACED_ON(placement) (1u << (placement))

struct llm_choice_value {
	const char *name;
	const char *doc; /* --help shows the first line, the manual pages all of it */
	/* The sets of placements that can execute it, and that dry runs can plan it for. */
	unsigned int runs, plans;
	unsigned int traits; /* what the predicates below return */
};

struct llm_choice_info {
	const char *name; /* of the option, the field and the column */
	const char *doc; /* like that of a value */
	const struct llm_choice_value *values; /* [n_values]; the first one is the default */
	unsigned int n_values;
	unsigned int runs, plans; /* the placements where the choice has an effect */
	bool integers; /* only has an effect on integer arithmetic */
	size_t offset; /* in struct llm_choices */
};

const struct llm_choice_info *llm_choice_info(enum llm_choice choice);
/* "?" for an unknown value. */
const char *llm_choice_name(enum llm_choice choice, unsigned int value);
/* Returns the value, or -EINVAL; llm_error() then lists the names. */
int llm_choice_parse(enum llm_choice choice, const char *name);
/* Whether @choice has an effect with the others as in @settled, on a model that is executed or, if
 * @planned, in a dry run. */
bool llm_choice_applies(enum llm_choice choice, const struct llm_choices *settled, bool planned);

bool llm_placement_has_npu(enum llm_placement p); /* opens an NPU device */
bool llm_placement_has_gpu(enum llm_placement p);
bool llm_weights_integers(enum llm_weights w); /* activations are rounded to integers */
bool llm_weights_4bit(enum llm_weights w);
bool llm_weights_packed(enum llm_weights w); /* into panels, as the NPU reads them */
bool llm_activations_static(enum llm_activations a); /* one scale for all rows, the file's */
bool llm_graphs_whole_prompt(enum llm_graphs g); /* prompts need no division into chunks */

/* ---- settling what is left to auto ---- */

/* What a model's file decides. */
struct llm_choices_file {
	const char *path; /* for errors */
	enum llm_weights packed; /* what llm-quantize packed it for; AUTO: it is not packed */
	bool q4; /* most of its weights are Q4_0 */
	bool blocks; /* some are of a block type that MATMUL_KQ takes */
	/* Placements that have its experts, LLM_PLACED_ON() each; 0: it has none. */
	unsigned int placements;
};

/*
 * Copies @asked to @settled, with a placement, weights and operands chosen where they are auto: by
 * the other choices, the file and the clock. @file NULL: a dry run without a file. -EINVAL if two
 * choices exclude each other or the file excludes one; -ENOTSUP if @asked is only for dry runs.
 */
int llm_choices_settle(const struct llm_choices *asked, const struct llm_choices_file *file,
		       bool virtual_clock, struct llm_choices *settled);

/* ---- presets ---- */

/* A name for some choices. */
struct llm_preset {
	const char *name;
	const char *doc; /* like that of a choice */
	unsigned int sets; /* the choices that it sets, 1 << enum llm_choice each */
	struct llm_choices choices;
};
const struct llm_preset *llm_preset(unsigned int i); /* NULL past the last one */
/* Returns the preset's number, or -EINVAL; llm_error() then lists the names. */
int llm_preset_parse(const char *name);
void llm_preset_apply(const struct llm_preset *preset, struct llm_choices *choices);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* LLM_CHOICES_H */
