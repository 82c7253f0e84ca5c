/* SPDX-License-Identifier: MIT */
/*
 * The engine's choices: where a forward pass runs, in what arithmetic, and how
 * its parts are put together.
 *
 * What a choice and its values are called, what they mean and what goes together is one table
 * (choices.c). Command lines, help, manual pages, shell completion, fields, columns and errors are
 * made from it: a further choice is an enum and a field of struct llm_choices here, its rows in the
 * table, and the code that acts on it.
 *
 *	int value = llm_choice_parse(LLM_CHOICE_WEIGHTS, "w8a8");
 *	if (value < 0)
 *		errx(2, "%s", llm_error());
 *	llm_choices_set(&opts.choices, LLM_CHOICE_WEIGHTS, (unsigned int)value);
 *
 * The first value of each choice, 0, is its default. Functions that can fail return -EINVAL and
 * leave a line in llm_error().
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
	/* What the other choices can run on; of several the NPU. By the wall clock that is
	 * npu, since the NPU is the same cores as the CPU there, and to hand over between
	 * them only costs; by a profile's it is fine, since its NPU is slow at floats.
	 * Both give the same bits. */
	LLM_PLACE_AUTO = 0,
	/* Prefill: matmuls on the NPU, float operators on the CPU; decode: as npu. */
	LLM_PLACE_FINE,
	LLM_PLACE_CPU, /* everything on the CPU, no device is opened */
	/* Everything but the embedding look-up on the NPU, one job per chunk or token. */
	LLM_PLACE_NPU,
	LLM_PLACE_GPU, /* everything but the embedding look-up on the GPU: OpenCL (gpu.h) */
	/* Float operators on the GPU, each matmul on the NPU or the GPU, whichever is sooner done
	 * with it, or cut between them (HeteroLLM 4) */
	LLM_PLACE_LAYER,
};

/* What the matmuls compute with. */
enum llm_weights {
	/* f32 on the CPU; elsewhere what the file was packed for, w4a8 for Q4_0, else w8a8. Without
	 * a file, in a plan: w8a8 on the NPU, w4a16 with placement layer, else f16. */
	LLM_WEIGHTS_AUTO = 0,
	LLM_WEIGHTS_F32, /* the file's weights, widened row by row while they are used */
	LLM_WEIGHTS_W8A8, /* INT8 per output channel, activations integers per row */
	LLM_WEIGHTS_F16, /* planned only */
	/*
	 * INT4 in groups of 32 (packed.h); the output matrix stays INT8 unless the file has 4 bits:
	 */
	LLM_WEIGHTS_W4A16, /* activations and arithmetic are floats (HeteroLLM, table 2) */
	LLM_WEIGHTS_W4A8, /* activations integers per row */
};

/*
 * What a row of activations is rounded to where the matmuls are of integers. With one scale for
 * all of a row, a few large values take the others' bits, most in what the down projection
 * reads and in what the output matrix does. 16 bits are two planes of INT8 (VNPU_OP_QUANT16)
 * and twice the arithmetic; outliers that stay floats (VNPU_OP_QUANT_OUTLIERS) are a few
 * hundredths of it on a CPU, and about as much on an NPU whose vector unit is as much slower
 * than its matrix unit as phones' are.
 */
enum llm_activations {
	/* INT8; outliers apart for down projections, INT16 for the output matrix */
	LLM_ACTIVATIONS_OUTLIERS = 0,
	LLM_ACTIVATIONS_INT8, /* everywhere */
	LLM_ACTIVATIONS_MIXED, /* INT8; INT16 for down projections and the output matrix */
	LLM_ACTIVATIONS_INT16, /* everywhere */
};

/* As large as the steps of the engines' tiles, so that the rows which a chunk leaves unused cost
 * about nothing. */
#define LLM_BUCKET_ROWS 32

/* Which static graphs a prompt's chunks run on. The last three are those of placement layer, whose
 * graphs are of single matmuls, with 32, 64, ... 1024 tokens (HeteroLLM 4.1.1). */
enum llm_graphs {
	LLM_GRAPHS_BUCKETED = 0, /* one per multiple of LLM_BUCKET_ROWS tokens, made when needed */
	LLM_GRAPHS_SHARED, /* one, to which every chunk is padded (llm.npu 3.2: chunk-sharing) */
	LLM_GRAPHS_ONLINE, /* one of exactly the prompt's length, made when the prompt is there */
	LLM_GRAPHS_PADDED, /* the next larger one; past 1024 tokens several of 1024 before it */
	LLM_GRAPHS_PIPE, /* several in sequence, the last one padded */
};

/* How placement layer cuts a matmul between GPU and NPU (HeteroLLM 4.1; partition.h). */
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
	LLM_KV_Q8_0, /* INT8 with an F16 scale per 32 values; heads must be multiples of 32 */
};

/* How the runtime learns that the NPU is done. */
enum llm_sync {
	LLM_SYNC_FAST = 0, /* poll the queue's status page, then wait */
	LLM_SYNC_DRIVER, /* wait in the driver */
};

/* Which of the tasks that are ready a lane of a forward pass takes (scheduler.h). */
enum llm_order {
	LLM_ORDER_AUTO = 0, /* layer where chunks overlap, else fifo */
	LLM_ORDER_FIFO, /* the lowest number: the plan's own order */
	LLM_ORDER_LAYER, /* the lowest layer: chunks go through the layers side by side */
};

/* ---- one of each ---- */

/* Zeros are the defaults. */
struct llm_choices {
	enum llm_placement placement;
	enum llm_weights weights;
	enum llm_activations activations;
	enum llm_graphs graphs;
	enum llm_partition partition;
	enum llm_kv kv;
	enum llm_sync sync;
	enum llm_order order;
};

/* The fields of struct llm_choices. */
enum llm_choice {
	LLM_CHOICE_PLACEMENT,
	LLM_CHOICE_WEIGHTS,
	LLM_CHOICE_ACTIVATIONS,
	LLM_CHOICE_GRAPHS,
	LLM_CHOICE_PARTITION,
	LLM_CHOICE_KV,
	LLM_CHOICE_SYNC,
	LLM_CHOICE_ORDER,
	LLM_NR_CHOICES,
};

unsigned int llm_choices_get(const struct llm_choices *choices, enum llm_choice choice);
void llm_choices_set(struct llm_choices *choices, enum llm_choice choice, unsigned int value);

/* ---- the table ---- */

/* Placements as a set: 1 << enum llm_placement of each. */
#define LLM_PLACED_ON(placement) (1u << (placement))

struct llm_choice_value {
	const char *name;
	const char *doc; /* its first line is enough for --help, all of it is the manual's */
	/* The placements that can execute it, and those that it can be planned for. */
	unsigned int runs, plans;
	unsigned int traits; /* what the predicates below ask for */
};

struct llm_choice_info {
	const char *name; /* of the option, the field and the column */
	const char *doc; /* as that of a value */
	const struct llm_choice_value *values; /* by value; the first is the default */
	unsigned int n_values;
	unsigned int runs, plans; /* the placements where it makes a difference */
	bool integers; /* only where the arithmetic is of integers */
	size_t offset; /* in struct llm_choices */
};

const struct llm_choice_info *llm_choice_info(enum llm_choice choice);
/* "?" for a value that is none. */
const char *llm_choice_name(enum llm_choice choice, unsigned int value);
/* The value; llm_error() lists the names that there are. */
int llm_choice_parse(enum llm_choice choice, const char *name);
/* Whether @choice makes a difference beside the others in @settled, for a model that is executed
 * or, with @planned, in a plan. */
bool llm_choice_applies(enum llm_choice choice, const struct llm_choices *settled, bool planned);

bool llm_placement_has_npu(enum llm_placement p); /* a device is opened */
bool llm_placement_has_gpu(enum llm_placement p);
bool llm_weights_integers(enum llm_weights w); /* activations are rounded to integers */
bool llm_weights_4bit(enum llm_weights w);
bool llm_weights_packed(enum llm_weights w); /* into panels, as the NPU reads them */
bool llm_graphs_whole_prompt(enum llm_graphs g); /* they ask for no chunks of a prompt */

/* ---- what the choices leave open ---- */

/* What a model's file decides. */
struct llm_choices_file {
	const char *path; /* for errors */
	enum llm_weights packed; /* what llm-quantize packed it for; AUTO: it is not packed */
	bool q4; /* most of its weights are Q4_0 */
};

/*
 * Settles placement and weights where @asked leaves them to auto: by each other, by the other
 * choices, by the file and by the clock. @file NULL: there is none, all is planned only. It fails
 * where two things that were asked for by name exclude each other, and where the file excludes what
 * was asked for. -ENOTSUP: @asked can only be planned.
 */
int llm_choices_settle(const struct llm_choices *asked, const struct llm_choices_file *file,
		       bool virtual_clock, struct llm_choices *settled);

/* ---- presets ---- */

/* Some choices by one name. */
struct llm_preset {
	const char *name;
	const char *doc; /* as that of a choice */
	unsigned int sets; /* 1 << enum llm_choice of each; the others stay as they are */
	struct llm_choices choices;
};
const struct llm_preset *llm_preset(unsigned int i); /* NULL past the last one */
/* Its number; llm_error() lists the names that there are. */
int llm_preset_parse(const char *name);
void llm_preset_apply(const struct llm_preset *preset, struct llm_choices *choices);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* LLM_CHOICES_H */
