/* SPDX-License-Identifier: MIT */
/* The table of the engine's choices, and the functions that read it: see llm_choices.h. Those that
 * settle them are in choices_settle.c. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "choices_private.h"
#include "llm.h"
#include "llm_fail.h"

/* ---- the table ---- */

#define ON(placement) LLM_PLACED_ON(LLM_PLACE_##placement)
#define ANYWHERE (ON(FINE) | ON(CPU) | ON(NPU) | ON(GPU) | ON(LAYER) | ON(LINEAR))
#define WITH_NPU (ANYWHERE & ~ON(CPU))
#define MATMULS_ON_NPU (WITH_NPU & ~ON(GPU))
#define WITH_CPU_FLOATS (ON(FINE) | ON(CPU) | ON(LINEAR))

#define TRAIT_NPU (1u << 0)
#define TRAIT_GPU (1u << 1)
#define TRAIT_INTEGERS (1u << 2)
#define TRAIT_4BIT (1u << 3)
#define TRAIT_WHOLE_PROMPT (1u << 4)
#define TRAIT_STATIC (1u << 5)

/* clang-format would join or split the lines of names, docs, placements and traits. */
/* clang-format off */
static const struct llm_choice_value placements[] = {
	[LLM_PLACE_AUTO] = { "auto",
		"npu, or fine on the virtual clock; another one if other options exclude that",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_PLACE_FINE] = { "fine",
		"prefill: matmuls on the NPU, float operators on the CPU; decode: as npu",
		ANYWHERE, ANYWHERE, TRAIT_NPU },
	[LLM_PLACE_CPU] = { "cpu",
		"all on the CPU; no device is opened",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_PLACE_NPU] = { "npu",
		"all but the embedding look-up on the NPU, one job per chunk or token",
		ANYWHERE, ANYWHERE, TRAIT_NPU },
	[LLM_PLACE_GPU] = { "gpu",
		"all but the embedding look-up on an OpenCL device\n"
		"Without OpenCL it runs on the virtual clock only.",
		ANYWHERE, ANYWHERE, TRAIT_NPU | TRAIT_GPU },
	[LLM_PLACE_LAYER] = { "layer",
		"float operators on the GPU, each matmul on the NPU, the GPU, or cut between both\n"
		"A matmul goes where it ends sooner (HeteroLLM 4). Without OpenCL it runs on the "
		"virtual clock only.",
		ANYWHERE, ANYWHERE, TRAIT_NPU | TRAIT_GPU },
	[LLM_PLACE_LINEAR] = { "linear",
		"prefill: matmuls on the NPU, attention on the CPU; decode: as fine (llm.npu 3)\n"
		"The CPU also multiplies shadow outliers. Other float operators are where "
		"--floats says.",
		ANYWHERE, ANYWHERE, TRAIT_NPU },
};

static const struct llm_choice_value weights[] = {
	[LLM_WEIGHTS_AUTO] = { "auto",
		"f32 on the CPU; elsewhere what the file was packed for, native if it has "
		"block types other than Q4_0 and Q8_0, w4a8 for Q4_0, else w8a8\n"
		"By the virtual clock w8a8 for adaptive, which a phone's NPU does not have.\n"
		"In a dry run, which has no file: w8a8 with placements npu, fine and linear, "
		"w4a16 with layer, f16 with cpu and gpu.",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_WEIGHTS_F32] = { "f32",
		"the file's weights, widened while they are read",
		ON(CPU), ANYWHERE, 0 },
	[LLM_WEIGHTS_W8A8] = { "w8a8",
		"INT8 with a scale per output channel; integer activations with a scale per row\n"
		"A file of adaptive weights is unpacked for it by the CPU (EdgeFlow 4.2).",
		WITH_NPU, ANYWHERE, TRAIT_INTEGERS },
	[LLM_WEIGHTS_F16] = { "f16",
		"floats of 16 bits",
		0, ANYWHERE, 0 },
	[LLM_WEIGHTS_W4A16] = { "w4a16",
		"INT4 with a scale per 32 values of a row; activations and arithmetic in floats\n"
		"Blocks of Q4_0 are used as they are; other types get the scale of least squared "
		"error. The output matrix has 8 bits unless it is Q4_0 in the file; so have "
		"matrices whose rows are no multiple of 32.",
		WITH_NPU, ANYWHERE, TRAIT_4BIT },
	[LLM_WEIGHTS_W4A8] = { "w4a8",
		"the weights of w4a16; integer activations",
		WITH_NPU, ANYWHERE, TRAIT_4BIT | TRAIT_INTEGERS },
	[LLM_WEIGHTS_NATIVE] = { "native",
		"each matrix in the file's own type, where the NPU has it; integer activations\n"
		"These are Q4_0, Q4_1, Q5_0, Q5_1 and Q2_K to Q6_K, whose numbers and scales are "
		"used as they are, and TQ1_0, TQ2_0, IQ1_S, IQ1_M, IQ3_XXS, IQ3_S and MXFP4, whose "
		"values are. Matrices of other types are as in w8a8.",
		WITH_NPU, ANYWHERE, TRAIT_INTEGERS },
	[LLM_WEIGHTS_W8A8_GROUPS] = { "w8a8-groups",
		"INT8 with a scale per 32 values of a row, whose sums are added as floats\n"
		"This is what K-quants and AWQ cost an NPU (llm.npu 2.3).",
		0, ANYWHERE, TRAIT_INTEGERS },
	[LLM_WEIGHTS_ADAPTIVE] = { "adaptive",
		"1 to 8 bits for each 64 output channels, with a scale per output channel "
		"(EdgeFlow 4.1); integer activations\n"
		"llm-quantize makes such files. The output matrix has 8 bits.",
		ON(FINE) | ON(NPU) | ON(LINEAR), ANYWHERE, TRAIT_INTEGERS },
};

static const struct llm_choice_value activations[] = {
	[LLM_ACTIVATIONS_ROW_OUTLIERS] = { "row-outliers",
		"INT8; down projections multiply outliers separately, as floats, and the output "
		"matrix reads INT16\n"
		"Outliers are a row's few large values, whose scale would leave the others few "
		"bits.",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_ACTIVATIONS_INT8] = { "int8",
		"INT8 everywhere",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_ACTIVATIONS_MIXED] = { "mixed",
		"INT8; INT16 for down projections and the output matrix",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_ACTIVATIONS_INT16] = { "int16",
		"INT16 everywhere\n"
		"An INT16 row is two planes of 8 bits: the NPU passes over the rows twice, over "
		"the weights once.",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_ACTIVATIONS_ROW_OUTLIERS_ALL] = { "row-outliers-all",
		"INT8; all of a layer's matmuls multiply outliers separately, and the output "
		"matrix reads INT16",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_ACTIVATIONS_STATIC] = { "static",
		"prompts: INT8 with the calibrated file's scale for all rows, and shadow outliers "
		"on the CPU (llm.npu 3.3); tokens and the output matrix: as row-outliers",
		ON(FINE) | ON(LINEAR), ON(FINE) | ON(LINEAR), TRAIT_STATIC },
	[LLM_ACTIVATIONS_STATIC_MAX] = { "static-max",
		"the same without shadow outliers, with a scale for the calibration text's largest "
		"value: plain per-tensor quantisation (EdgeFlow 3.2)",
		ON(FINE) | ON(LINEAR), ON(FINE) | ON(LINEAR), TRAIT_STATIC },
};

static const struct llm_choice_value graphs[] = {
	[LLM_GRAPHS_BUCKETED] = { "bucketed",
		"one for each multiple of 32 tokens, made when a chunk first needs it; fixed with "
		"--switching",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_GRAPHS_FIXED] = { "fixed",
		"a single one, to which every chunk is padded",
		ANYWHERE & ~ON(LINEAR), ANYWHERE & ~ON(LINEAR), 0 },
	[LLM_GRAPHS_ONLINE] = { "online",
		"one of exactly the prompt's length, made on the CPU when the prompt arrives",
		ON(LAYER) | ON(LINEAR), ON(LAYER) | ON(LINEAR), TRAIT_WHOLE_PROMPT },
	[LLM_GRAPHS_PADDED] = { "padded",
		"full ones of 1024 tokens, then the next larger of 32, 64, ... 1024 for the rest",
		ON(LAYER), ON(LAYER), TRAIT_WHOLE_PROMPT },
	[LLM_GRAPHS_PIPE] = { "pipe",
		"several of 32, 64, ... 1024 tokens in sequence, the last one padded",
		ON(LAYER), ON(LAYER), TRAIT_WHOLE_PROMPT },
	[LLM_GRAPHS_SHARED] = { "shared",
		"subgraphs of one length for all chunks; the last one is padded (llm.npu 3.2)",
		ON(LINEAR), ON(LINEAR), 0 },
};

static const struct llm_choice_value partitions[] = {
	[LLM_PARTITION_NONE] = { "none",
		"not at all",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_PARTITION_ROW] = { "row",
		"the GPU gets output columns",
		ON(LAYER), ON(LAYER), 0 },
	[LLM_PARTITION_SEQUENCE] = { "sequence",
		"the NPU gets the tokens of one graph, the GPU those after them",
		ON(LAYER), ON(LAYER), 0 },
	[LLM_PARTITION_MULTI_SEQUENCE] = { "multi-sequence",
		"the NPU gets the tokens of several graphs, the GPU those after them",
		ON(LAYER), ON(LAYER), 0 },
	[LLM_PARTITION_HYBRID] = { "hybrid",
		"as row, and the NPU's graphs are padded or the GPU gets tokens too",
		ON(LAYER), ON(LAYER), 0 },
	[LLM_PARTITION_AUTO] = { "auto",
		"whichever is the fastest",
		ON(LAYER), ON(LAYER), 0 },
};

static const struct llm_choice_value operands[] = {
	[LLM_OPERANDS_AUTO] = { "auto",
		"permuted with placement layer, else natural",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_OPERANDS_NATURAL] = { "natural",
		"the weights; activations are streamed past them",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_OPERANDS_PERMUTED] = { "permuted",
		"the activations; the weights are streamed (HeteroLLM 3.2)\n"
		"What is kept has to be loaded first, so this is the faster order for fewer rows "
		"than output channels. Results have the same bits.",
		ANYWHERE, ANYWHERE, 0 },
};

static const struct llm_choice_value kvs[] = {
	[LLM_KV_F16] = { "f16",
		"floats of 16 bits",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_KV_F32] = { "f32",
		"floats of 32 bits, which are exact and twice as large",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_KV_Q8_0] = { "q8_0",
		"INT8 with an F16 scale per 32 values, 17/32 of the size of f16\n"
		"The model's head size must be a multiple of 32.",
		ANYWHERE, ANYWHERE, 0 },
};

static const struct llm_choice_value syncs[] = {
	[LLM_SYNC_FAST] = { "fast",
		"poll the queue's status page for about as long as such jobs take, then wait in "
		"the driver",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_SYNC_DRIVER] = { "driver",
		"wait in the driver at once",
		ANYWHERE, ANYWHERE, 0 },
};

static const struct llm_choice_value orders[] = {
	[LLM_ORDER_AUTO] = { "auto",
		"ooe with placement linear on the virtual clock; with others layer where chunks "
		"overlap, else fifo",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_ORDER_FIFO] = { "fifo",
		"the first in the plan; chunks follow one another",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_ORDER_LAYER] = { "layer",
		"one of the lowest layer, so that chunks advance together; in it, of the earliest "
		"chunk (EdgeFlow 4.3)",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_ORDER_CHUNK] = { "chunk",
		"one of the earliest chunk; later chunks fill the gaps",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_ORDER_OOE] = { "ooe",
		"out of order: the one that keeps the NPU busiest, by its C value (llm.npu 3.4)",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_ORDER_STEAL] = { "steal",
		"as layer; and an idle CPU takes a matmul from a long queue of the NPU "
		"(EdgeFlow 4.3)\n"
		"It does if the queue takes the NPU longer than the matmul takes the CPU. Results "
		"have the same bits.",
		ON(FINE), ON(FINE), 0 },
};

static const struct llm_choice_value divisions[] = {
	[LLM_DIVISION_NONE] = { "none",
		"one chunk, as far as memory goes",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_DIVISION_FASTEST] = { "fastest",
		"chunks that follow one another through the layers, as many as are the fastest\n"
		"The GPU's float operators of one chunk run beside the NPU's matmuls of another. "
		"HeteroLLM has no such thing.",
		ON(LAYER), ON(LAYER), 0 },
};

static const struct llm_choice_value solvers[] = {
	[LLM_SOLVER_FAST] = { "fast",
		"the fast one, whatever --sync says, which then shows what it costs alone",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_SOLVER_SYNC] = { "sync",
		"the one in use",
		ON(LAYER), ON(LAYER), 0 },
};

static const struct llm_choice_value cores[] = {
	[LLM_CORES_FOUR] = { "four",
		"the four fastest",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_CORES_BIG] = { "big",
		"one big core",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_CORES_MIDDLE] = { "middle",
		"one middle core, to which shadowAttn (4) limits itself",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_CORES_LITTLE] = { "little",
		"one little core",
		ANYWHERE, ANYWHERE, 0 },
};

static const struct llm_choice_value floats[] = {
	[LLM_FLOATS_AUTO] = { "auto",
		"cpu on the virtual clock; all on the wall clock, where NPU and CPU are the same "
		"cores",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_FLOATS_CPU] = { "cpu",
		"all on the CPU",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_FLOATS_NORMS] = { "norms",
		"norms, residuals and RoPE on the CPU, activation functions on the NPU\n"
		"Each subgraph of the NPU quantises its input (llm.npu 3.4).",
		ON(LINEAR), ON(LINEAR), 0 },
	[LLM_FLOATS_NPU] = { "npu",
		"all but attention on the NPU (EdgeFlow 3.2)",
		ON(LINEAR), ON(LINEAR), 0 },
	[LLM_FLOATS_ALL] = { "all",
		"attention too on the NPU; the CPU has shadow outliers only",
		ON(LINEAR), ON(LINEAR), 0 },
};

static const struct llm_choice_value spaces[] = {
	[LLM_SPACE_ALL] = { "all",
		"all of them",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_SPACE_LIMITED] = { "limited",
		"as many as it can address, the FFN's first; the CPU computes with the others "
		"(llm.npu 4)",
		ON(LINEAR), ON(LINEAR), 0 },
};

static const struct llm_choice_value starts[] = {
	[LLM_START_WARM] = { "warm",
		"when the model is opened, before the first prompt",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_START_COLD] = { "cold",
		"in the first prompt, layer by layer, while the layers before are computed "
		"(EdgeFlow 4)",
		ON(NPU) | ON(FINE) | ON(LINEAR), ON(NPU) | ON(FINE) | ON(LINEAR), 0 },
};

static const struct llm_choice_value attentions[] = {
	[LLM_ATTENTION_FULL] = { "full",
		"every key that a query sees, in floats",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_ATTENTION_SPARSE] = { "sparse",
		"the keys with the greatest scores, which the CPU estimates in floats "
		"(shadowAttn's C/G-Sparse)",
		WITH_CPU_FLOATS, WITH_CPU_FLOATS, 0 },
	[LLM_ATTENTION_BLOCK] = { "block",
		"blocks of 64 keys for blocks of 64 queries, which the CPU estimates by their "
		"means",
		WITH_CPU_FLOATS, WITH_CPU_FLOATS, 0 },
	[LLM_ATTENTION_NPU] = { "npu",
		"every key, in INT8 with static scales on the NPU (shadowAttn's NPU-Full)",
		ON(FINE) | ON(LINEAR), ON(FINE) | ON(LINEAR), 0 },
	[LLM_ATTENTION_SHADOW] = { "shadow",
		"the keys with the greatest scores, which the NPU estimates in INT8 "
		"(shadowAttn 3.2)",
		ON(FINE) | ON(LINEAR), ON(FINE) | ON(LINEAR), 0 },
};

static const struct llm_choice_value decodes[] = {
	[LLM_DECODE_FULL] = { "full",
		"every key, since decoding mainly waits for memory (shadowAttn 4)",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_DECODE_SPARSE] = { "sparse",
		"as that of a prompt: fewer keys and values are read",
		WITH_CPU_FLOATS, WITH_CPU_FLOATS, 0 },
};

static const struct llm_choice_value ratios[] = {
	[LLM_RATIOS_GAIN] = { "gain",
		"by what the loss gains if a head alone has all keys, if llm-quantize has "
		"calibrated the file; else head",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_RATIOS_HEAD] = { "head",
		"by the importance of heads and layers, if the file is calibrated "
		"(shadowAttn 3.2); else uniform",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_RATIOS_UNIFORM] = { "uniform",
		"the same for all",
		ANYWHERE, ANYWHERE, 0 },
};

static const struct llm_choice_value pipelines[] = {
	[LLM_PIPELINE_INSERTION] = { "insertion",
		"as fused, in the order in which launches and heads end soonest if they are "
		"inserted one by one, the longest first",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_PIPELINE_SEQUENTIAL] = { "sequential",
		"head after head, each stage after the one before",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_PIPELINE_OVERLAP] = { "overlap",
		"the estimate of a head while the CPU computes the one before",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_PIPELINE_FUSED] = { "fused",
		"as overlap; and heads of one scale bucket are estimated in one launch",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_PIPELINE_GREEDY] = { "greedy",
		"as fused, in the order of algorithm 1 (shadowAttn 3.4)",
		ANYWHERE, ANYWHERE, 0 },
};

static const struct llm_choice_value switchings[] = {
	[LLM_SWITCHING_NONE] = { "none",
		"graphs of all layers, one for every length that comes",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_SWITCHING_RESIDENT] = { "resident",
		"both graphs of each block stay in memory",
		ON(NPU), ON(NPU) | ON(FINE), 0 },
	[LLM_SWITCHING_SYNC] = { "sync",
		"decoding's are loaded when the prompt has been evaluated",
		ON(NPU), ON(NPU) | ON(FINE), 0 },
	[LLM_SWITCHING_ASYNC] = { "async",
		"a block's is loaded as soon as the prompt's last chunk has passed the block",
		ON(NPU), ON(NPU) | ON(FINE), 0 },
	[LLM_SWITCHING_PROGRESSIVE] = { "progressive",
		"blocks are switched while the prompt's chunks pass others (CoordGen 3.2)\n"
		"The chunks that are left run on a switched block's graph part by part, with the "
		"same bits.",
		ON(NPU), ON(NPU) | ON(FINE), 0 },
};

static const struct llm_choice_value drafts[] = {
	[LLM_DRAFT_AUTO] = { "auto",
		"reuse if llm-cli has --context or --history, coordgen if llm-bench has --tasks; "
		"else none",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_DRAFT_NONE] = { "none",
		"nowhere: one token after another",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_DRAFT_PLD] = { "pld",
		"what followed the last tokens earlier in the session: prompt lookup "
		"(CoordGen 2.2)",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_DRAFT_SAM] = { "sam",
		"and in past answers (CoordGen 4.1)",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_DRAFT_CALIBRATED] = { "calibrated",
		"and from what the model expected behind the prompt's tokens (CoordGen 3.3)",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_DRAFT_REUSE] = { "reuse",
		"as sam, and from plausible parts of rejected guesses (CoordGen 3.4)",
		ANYWHERE, ANYWHERE, 0 },
	[LLM_DRAFT_COORDGEN] = { "coordgen",
		"from all of these",
		ANYWHERE, ANYWHERE, 0 },
};

#define COUNT(a) ((unsigned int)(sizeof(a) / sizeof((a)[0])))
#define VALUES(a) .values = a, .n_values = COUNT(a)
#define FIELD(field) .name = #field, .offset = offsetof(struct llm_choices, field)

static const struct llm_choice_info table[LLM_NR_CHOICES] = {
	[LLM_CHOICE_PLACEMENT] = {
		FIELD(placement), VALUES(placements), .runs = ANYWHERE, .plans = ANYWHERE,
		.doc = "where a forward pass runs",
	},
	[LLM_CHOICE_WEIGHTS] = {
		FIELD(weights), VALUES(weights), .runs = ANYWHERE, .plans = ANYWHERE,
		.doc = "types of weights and activations in matmuls",
	},
	[LLM_CHOICE_ACTIVATIONS] = {
		FIELD(activations), VALUES(activations), .runs = ANYWHERE, .plans = ANYWHERE,
		.integers = true,
		.doc = "integers that rows of activations are rounded to for integer matmuls\n"
		       "These are all matmuls with weights w8a8, w4a8, native and adaptive, and "
		       "with others those of matrices that have 8 bits.",
	},
	[LLM_CHOICE_GRAPHS] = {
		FIELD(graphs), VALUES(graphs), .runs = WITH_NPU, .plans = ANYWHERE,
		.doc = "static graphs that a prompt's chunks run on\n"
		       "With placement layer each graph is a single matmul.",
	},
	[LLM_CHOICE_PARTITION] = {
		FIELD(partition), VALUES(partitions), .runs = ON(LAYER), .plans = ON(LAYER),
		.doc = "how matmuls are cut between GPU and NPU",
	},
	[LLM_CHOICE_OPERANDS] = {
		FIELD(operands), VALUES(operands), .runs = MATMULS_ON_NPU, .plans = MATMULS_ON_NPU,
		.doc = "which operand of a matmul the NPU keeps in its arrays\n"
		       "Device times and plans count it; the host computes both alike.",
	},
	[LLM_CHOICE_KV] = {
		FIELD(kv), VALUES(kvs), .runs = ANYWHERE, .plans = ANYWHERE,
		.doc = "type of the KV cache, for all lanes",
	},
	[LLM_CHOICE_SYNC] = {
		FIELD(sync), VALUES(syncs), .runs = WITH_NPU, .plans = ANYWHERE,
		.doc = "how the runtime learns that the NPU is done",
	},
	[LLM_CHOICE_ORDER] = {
		FIELD(order), VALUES(orders), .runs = ANYWHERE, .plans = ANYWHERE,
		.doc = "which of its ready tasks a lane takes next",
	},
	[LLM_CHOICE_DIVISION] = {
		FIELD(division), VALUES(divisions), .runs = ON(LAYER), .plans = ON(LAYER),
		.doc = "how placement layer divides a prompt",
	},
	[LLM_CHOICE_SOLVER] = {
		FIELD(solver), VALUES(solvers), .runs = ON(LAYER), .plans = ON(LAYER),
		.doc = "which way of synchronising matmuls are cut for",
	},
	[LLM_CHOICE_CORES] = {
		FIELD(cores), VALUES(cores), .runs = ANYWHERE, .plans = ANYWHERE,
		.doc = "cores of the modelled SoC that the CPU lane has\n"
		       "They count on the virtual clock.",
	},
	[LLM_CHOICE_FLOATS] = {
		FIELD(floats), VALUES(floats), .runs = ON(LINEAR), .plans = ON(LINEAR),
		.doc = "where placement linear has a prompt's float operators",
	},
	[LLM_CHOICE_SPACE] = {
		FIELD(space), VALUES(spaces), .runs = ON(LINEAR), .plans = ON(LINEAR),
		.doc = "weights that placement linear has on a modelled NPU\n"
		       "On the wall clock the device has all.",
	},
	[LLM_CHOICE_START] = {
		FIELD(start), VALUES(starts), .runs = ON(NPU) | ON(FINE) | ON(LINEAR),
		.plans = ON(NPU) | ON(FINE) | ON(LINEAR),
		.doc = "when the weights are read and packed for the NPU",
	},
	[LLM_CHOICE_ATTENTION] = {
		FIELD(attention), VALUES(attentions), .runs = ANYWHERE, .plans = ANYWHERE,
		.doc = "attention of a prompt: with every key that a query sees, or with those "
		       "that an estimate finds important\n"
		       "Their share is --ratio. Chunks of up to --sparse-from tokens, counted "
		       "from the first, have full attention.",
	},
	[LLM_CHOICE_DECODE] = {
		FIELD(decode), VALUES(decodes), .runs = WITH_CPU_FLOATS, .plans = WITH_CPU_FLOATS,
		.doc = "attention of single tokens, where a prompt's is not full",
	},
	[LLM_CHOICE_RATIOS] = {
		FIELD(ratios), VALUES(ratios), .runs = WITH_CPU_FLOATS, .plans = WITH_CPU_FLOATS,
		.doc = "how the keys of sparse attention are divided among heads",
	},
	[LLM_CHOICE_PIPELINE] = {
		FIELD(pipeline), VALUES(pipelines), .runs = ON(FINE) | ON(LINEAR),
		.plans = ON(FINE) | ON(LINEAR),
		.doc = "how attention shadow orders a layer's heads on NPU and CPU",
	},
	[LLM_CHOICE_SWITCHING] = {
		FIELD(switching), VALUES(switchings), .runs = ON(NPU), .plans = ON(NPU) | ON(FINE),
		.doc = "when a block of layers gets its graph for decoding in place of a prompt's\n"
		       "All but none have graphs fixed, of --chunk tokens, and evaluate what "
		       "follows a prompt with graphs of --decode-width tokens.",
	},
	[LLM_CHOICE_DRAFT] = {
		FIELD(draft), VALUES(drafts), .runs = ANYWHERE, .plans = ANYWHERE,
		.doc = "where generation takes guesses of the next tokens from, which the model "
		       "verifies in one pass\n"
		       "The tokens are the same with all. Programs that generate nothing ignore "
		       "it.",
	},
};

#define SETS(choice) (1u << LLM_CHOICE_##choice)
#define SETS_PLACEMENT \
	(SETS(PLACEMENT) | SETS(WEIGHTS) | SETS(GRAPHS) | SETS(PARTITION) | SETS(OPERANDS) | \
	 SETS(DIVISION))

static const struct llm_preset presets[] = {
	{ "cpu", "all on the CPU", SETS_PLACEMENT, { .placement = LLM_PLACE_CPU } },
	{ "npu", "all on the NPU", SETS_PLACEMENT, { .placement = LLM_PLACE_NPU } },
	{ "fine", "matmuls on the NPU, the rest of a prompt on the CPU", SETS_PLACEMENT,
	  { .placement = LLM_PLACE_FINE } },
	{ "gpu", "all on the GPU", SETS_PLACEMENT, { .placement = LLM_PLACE_GPU } },
	{ "hetero-layer", "HeteroLLM: each matmul on the GPU or the NPU", SETS_PLACEMENT,
	  { .placement = LLM_PLACE_LAYER, .weights = LLM_WEIGHTS_W4A16,
	    .graphs = LLM_GRAPHS_PADDED, .operands = LLM_OPERANDS_PERMUTED } },
	{ "hetero-tensor", "HeteroLLM: matmuls cut between GPU and NPU", SETS_PLACEMENT,
	  { .placement = LLM_PLACE_LAYER, .weights = LLM_WEIGHTS_W4A16, .graphs = LLM_GRAPHS_PIPE,
	    .partition = LLM_PARTITION_AUTO, .operands = LLM_OPERANDS_PERMUTED } },
	{ "llm.npu", "llm.npu: chunks share subgraphs, shadow outliers, out of order",
	  SETS_PLACEMENT | SETS(ACTIVATIONS) | SETS(ORDER) | SETS(FLOATS),
	  { .placement = LLM_PLACE_LINEAR, .weights = LLM_WEIGHTS_W8A8,
	    .activations = LLM_ACTIVATIONS_STATIC, .graphs = LLM_GRAPHS_SHARED } },
	{ "edgeflow", "EdgeFlow: cold starts; matmuls on the NPU, of which an idle CPU takes some",
	  SETS_PLACEMENT | SETS(ORDER) | SETS(START),
	  { .placement = LLM_PLACE_FINE, .order = LLM_ORDER_STEAL, .start = LLM_START_COLD } },
	{ "shadowattn", "shadowAttn: llm.npu with sparse attention, which the NPU estimates",
	  SETS_PLACEMENT | SETS(ACTIVATIONS) | SETS(ORDER) | SETS(FLOATS) | SETS(ATTENTION) |
	  SETS(CORES) | SETS(PIPELINE),
	  { .placement = LLM_PLACE_LINEAR, .weights = LLM_WEIGHTS_W8A8,
	    .activations = LLM_ACTIVATIONS_STATIC, .graphs = LLM_GRAPHS_SHARED,
	    .floats = LLM_FLOATS_NPU, .attention = LLM_ATTENTION_SHADOW,
	    .pipeline = LLM_PIPELINE_GREEDY, .cores = LLM_CORES_MIDDLE } },
	{ "coordgen", "CoordGen: guessed tokens, several of which the NPU verifies together",
	  SETS_PLACEMENT | SETS(DRAFT), { .draft = LLM_DRAFT_COORDGEN } },
	{ "best", "GPU and NPU together, whatever is the fastest", SETS_PLACEMENT,
	  { .placement = LLM_PLACE_LAYER, .weights = LLM_WEIGHTS_W4A16, .graphs = LLM_GRAPHS_PIPE,
	    .partition = LLM_PARTITION_AUTO, .operands = LLM_OPERANDS_PERMUTED,
	    .division = LLM_DIVISION_FASTEST } },
};

/* clang-format on */

/* ---- one choice ---- */

/* The fields are enums without negative values, so they have the type unsigned int. */
_Static_assert(sizeof(struct llm_choices) == LLM_NR_CHOICES * sizeof(unsigned int),
	       "a field is no enum");

unsigned int llm_choices_get(const struct llm_choices *choices, enum llm_choice choice)
{
	unsigned int value;

	memcpy(&value, (const char *)choices + table[choice].offset, sizeof(value));
	return value;
}

void llm_choices_set(struct llm_choices *choices, enum llm_choice choice, unsigned int value)
{
	memcpy((char *)choices + table[choice].offset, &value, sizeof(value));
}

const struct llm_choice_info *llm_choice_info(enum llm_choice choice)
{
	return &table[choice];
}

const char *llm_choice_name(enum llm_choice choice, unsigned int value)
{
	return value < table[choice].n_values ? table[choice].values[value].name : "?";
}

int llm_choice_parse(enum llm_choice choice, const char *name)
{
	struct list known = { 0 };

	for (unsigned int v = 0; v < table[choice].n_values; v++) {
		if (!strcmp(name, table[choice].values[v].name))
			return (int)v;
		list_add(&known, table[choice].values[v].name, ", ");
	}
	return llm_fail(-EINVAL, "%s: '%s' is none of %s", table[choice].name, name, known.text);
}

static bool has_trait(enum llm_choice choice, unsigned int value, unsigned int trait)
{
	return table[choice].values[value].traits & trait;
}

bool llm_placement_has_npu(enum llm_placement p)
{
	return has_trait(LLM_CHOICE_PLACEMENT, p, TRAIT_NPU);
}

bool llm_placement_has_gpu(enum llm_placement p)
{
	return has_trait(LLM_CHOICE_PLACEMENT, p, TRAIT_GPU);
}

bool llm_weights_integers(enum llm_weights w)
{
	return has_trait(LLM_CHOICE_WEIGHTS, w, TRAIT_INTEGERS);
}

bool llm_weights_4bit(enum llm_weights w)
{
	return has_trait(LLM_CHOICE_WEIGHTS, w, TRAIT_4BIT);
}

bool llm_weights_packed(enum llm_weights w)
{
	return w != LLM_WEIGHTS_AUTO && weights[w].runs & ON(NPU);
}

bool llm_activations_static(enum llm_activations a)
{
	return has_trait(LLM_CHOICE_ACTIVATIONS, a, TRAIT_STATIC);
}

bool llm_graphs_whole_prompt(enum llm_graphs g)
{
	return has_trait(LLM_CHOICE_GRAPHS, g, TRAIT_WHOLE_PROMPT);
}

bool llm_choice_applies(enum llm_choice choice, const struct llm_choices *settled, bool planned)
{
	const struct llm_choice_info *info = &table[choice];

	if (info->integers && !llm_weights_integers(settled->weights))
		return false;
	return (planned ? info->plans : info->runs) & LLM_PLACED_ON(settled->placement);
}

/* ---- presets ---- */

const struct llm_preset *llm_preset(unsigned int i)
{
	return i < COUNT(presets) ? &presets[i] : NULL;
}

int llm_preset_parse(const char *name)
{
	struct list known = { 0 };

	for (unsigned int i = 0; i < COUNT(presets); i++) {
		if (!strcmp(name, presets[i].name))
			return (int)i;
		list_add(&known, presets[i].name, ", ");
	}
	return llm_fail(-EINVAL, "preset: '%s' is none of %s", name, known.text);
}

void llm_preset_apply(const struct llm_preset *preset, struct llm_choices *choices)
{
	for (enum llm_choice i = 0; i < LLM_NR_CHOICES; i++)
		if (preset->sets & 1u << i)
			llm_choices_set(choices, i, llm_choices_get(&preset->choices, i));
}
