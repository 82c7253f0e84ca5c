/* SPDX-License-Identifier: MIT */
/*
 * Writes model files: with another type of weights, with random weights of a given shape, or
 * calibrated for static activations.
 *
 *	struct llm_quantize_options opts = { .in = "m.gguf", .out = "q.gguf" };
 *	if (llm_quantize_type_parse("q8_0", &opts.type) || llm_quantize(&opts, NULL))
 *		errx(1, "%s", llm_error());
 *
 * The same with a calibration:
 *
 *	struct llm_calibrate_options cal = { LLM_CALIBRATE_DEFAULTS, .model = "m.gguf",
 *					     .text = text, .bytes = bytes };
 *	if (llm_calibrate(&cal, &opts.calibration) || llm_quantize(&opts, NULL))
 *		errx(1, "%s", llm_error());
 *	llm_calibration_free(opts.calibration);
 */
#ifndef LLM_QUANTIZE_H
#define LLM_QUANTIZE_H

#include "llm.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum llm_quantize_type {
	LLM_QUANTIZE_F32 = 0,
	LLM_QUANTIZE_F16,
	LLM_QUANTIZE_Q8_0,
	LLM_QUANTIZE_Q4_0,
	LLM_QUANTIZE_Q4_1,
	LLM_QUANTIZE_Q5_0,
	LLM_QUANTIZE_Q5_1,
	LLM_QUANTIZE_IQ4_NL,
	/* K-quants. Some matrices have more bits than the name says, as in llama.cpp's files: most
	 * in L, some in M, few in S. */
	LLM_QUANTIZE_Q2_K,
	LLM_QUANTIZE_Q2_K_S,
	LLM_QUANTIZE_Q3_K_S,
	LLM_QUANTIZE_Q3_K_M,
	LLM_QUANTIZE_Q3_K_L,
	LLM_QUANTIZE_Q4_K_S,
	LLM_QUANTIZE_Q4_K_M,
	LLM_QUANTIZE_Q5_K_S,
	LLM_QUANTIZE_Q5_K_M,
	LLM_QUANTIZE_Q6_K,
	/* Packed as the NPU reads them (docs/gguf.md), for engines with these weights. Loading such
	 * a file takes no packing; it cannot be quantised again. */
	LLM_QUANTIZE_W8A8,
	LLM_QUANTIZE_W4A8,
	LLM_QUANTIZE_W4A16,
	LLM_QUANTIZE_NATIVE,
	LLM_QUANTIZE_ADAPTIVE, /* 1 to 8 bits: llm_quantize_options.bits */
};
const char *llm_quantize_type_name(enum llm_quantize_type type); /* "f32", ... "adaptive" */
/* Finds a type by its name in upper or lower case; q3_k, q4_k and q5_k are those with _m. -EINVAL:
 * llm_error() lists the names. */
int llm_quantize_type_parse(const char *name, enum llm_quantize_type *type);
bool llm_quantize_type_is_packed(enum llm_quantize_type type);

/* ---- calibrating ----------------------------------------------------------------------------- */

/*
 * What a text's activations tell of the inputs of a model's matmuls (llm.npu 3.3): for each input
 * one scale for all rows, how large its outliers are, and which channels have them. A layer has
 * four inputs: of q, k and v; of attn_output; of gate and up; of down. And of its attention
 * (shadowAttn 3.2, 3.3): the scales of each head's queries, keys and values, and how much the loss
 * grows without the head.
 */
struct llm_calibration;

struct llm_calibrate_options {
	const char *model; /* a GGUF file that is not packed; better one of F32 or F16 */
	const char *text; /* such as the model will meet, [bytes] */
	size_t bytes;
	const char *text_name; /* for errors; NULL: "the text" */
	/*
	 * Tokens of the text to evaluate at most. They are evaluated twice, with smoothing three
	 * times, in windows of 512 tokens, or of the context that the model was trained with if
	 * that is shorter, each with BOS as its first token; a rest of the text is left out.
	 */
	unsigned int max_tokens;
	/*
	 * An input's scale is such that in the median chunk of 256 tokens this share of its
	 * channels, at least one, have outliers: values beyond 127 scales. Above 0, below 1.
	 */
	double outlier_channels;
	/*
	 * The fewest channels that together have this share of the text's outliers are hot: their
	 * weights for outliers stay in memory. 0..1.
	 */
	double hot;
	/*
	 * This share of the inputs, the least important ones, are pruned: their outliers are lost,
	 * and the file has no weights for them. The importance is the largest magnitude by the
	 * scale. 0..1.
	 */
	double pruning;
	/*
	 * Smoothing (SmoothQuant): 0..1 divides a channel by max|x|^smooth / max|w|^(1 - smooth)
	 * and multiplies its weights with that, so large activations become smaller and their
	 * weights larger. The divisions are folded into norms, v and up; the function stays the
	 * same up to rounding. The statistics are those of the smoothed model. Negative: none.
	 *
	 * LLM_SMOOTH_AUTO (EdgeFlow 4.1) divides by max|x|^alpha, with the alpha of 0, 0.05, ... 1
	 * for each input with which the results of its matmuls lose least, if weights have
	 * smooth_bits on average, 1 to 8, and activations are INT8 with one scale for their largest
	 * value. LLM_SMOOTH_WEIGHTS: the same, if activations are floats.
	 */
	double smooth;
	double smooth_bits;
	/*
	 * A soc of share/profiles, or a file: the length of a prompt's chunks is chosen that is the
	 * fastest there, by dry runs of 1024 tokens in chunks of 32, 64, ... 1024 (llm.npu 3.2,
	 * figure 8), and kept in the file. NULL: the file has none, and engines take their default.
	 */
	const char *profile;
	/*
	 * Tokens of the text, in whole windows, that are evaluated again without each attention
	 * head, without each layer, and with few keys for all heads but one, to find which heads
	 * need many keys (shadowAttn 3.2; --ratios). With as many behind them, or with the same if
	 * the text ends there, the limits of ratios are chosen. 0, or less than a window: the file
	 * does not tell, and the ratios of heads are uniform.
	 */
	unsigned int head_tokens;
	unsigned int threads; /* 0: one per CPU allowed to the process; does not change results */
	/* As in llm_quantize_options. */
	int (*progress)(void *ud, double fraction, const char *what);
	void *ud;
};
#define LLM_SMOOTH_AUTO 2
#define LLM_SMOOTH_WEIGHTS 3
/* llm.npu's: 0.1 % to 0.3 % of the channels; less than 3 % of them have 80 % of the outliers; 85 %
 * of the inputs can be pruned. */
#define LLM_CALIBRATE_CHANNELS 0.003
#define LLM_CALIBRATE_HOT 0.8
#define LLM_CALIBRATE_PRUNING 0.85
#define LLM_CALIBRATE_TOKENS 8192
#define LLM_CALIBRATE_HEAD_TOKENS 1024
#define LLM_CALIBRATE_DEFAULTS                                                          \
	.max_tokens = LLM_CALIBRATE_TOKENS, .outlier_channels = LLM_CALIBRATE_CHANNELS, \
	.hot = LLM_CALIBRATE_HOT, .pruning = LLM_CALIBRATE_PRUNING, .smooth = -1,       \
	.smooth_bits = 8, .head_tokens = LLM_CALIBRATE_HEAD_TOKENS

/*
 * Evaluates the text on the CPU with the file's weights as floats. -EINVAL for options out of
 * range, a packed file, or a text or max_tokens of less than a window; -ERANGE for activations that
 * are not finite; -ECANCELED; and the errors of llm_engine_open().
 */
int llm_calibrate(const struct llm_calibrate_options *opts, struct llm_calibration **calibration);
void llm_calibration_free(struct llm_calibration *calibration); /* NULL: nothing */

struct llm_calibration_info {
	unsigned int n_inputs; /* four for each layer */
	unsigned int n_kept; /* not pruned */
	unsigned int n_tokens, n_chunks; /* of the text */
	unsigned int chunk; /* tokens of a prompt's chunks; 0: none was chosen */
};
void llm_calibration_info(const struct llm_calibration *calibration,
			  struct llm_calibration_info *info);
/* An input; its counts of channels are means over the text's chunks. */
struct llm_calibration_input {
	unsigned int layer;
	const char *name; /* "attn_qkv", "attn_output", "ffn_gate_up" or "ffn_down" */
	unsigned int n_channels;
	float scale; /* outliers are beyond 127 of it */
	float limit; /* the text's largest magnitude */
	float importance; /* limit / scale */
	double with_outliers, cold; /* channels with outliers; those of them that are not hot */
	unsigned int n_hot;
	bool kept; /* not pruned */
	double smooth; /* the exponent of its smoothing; negative: none */
};
/* Input @i, by layers. False: there are no more. */
bool llm_calibration_input(const struct llm_calibration *calibration, unsigned int i,
			   struct llm_calibration_input *input);

/* A matrix's own type. */
struct llm_quantize_rule {
	const char *pattern; /* an extended regular expression, found in tensors' names */
	/* Of tensors, such as "q6_k"; "" for the one that it has: then the pattern may fit none. */
	const char *type;
};

/* ---- writing --------------------------------------------------------------------------------- */

struct llm_quantize_options {
	const char *in; /* the model, as llm_options.model; NULL: random weights of @shape */
	const char *shape; /* a file, or a name in share/shapes; its vocabulary is a dummy */
	/* With @shape: an architecture, whose activation and FFN the model has, and random norms
	 * (docs/models.md). NULL: llama with norms of 1, or qwen2 where there are biases. */
	const char *arch;
	uint64_t seed; /* of the random weights; the same seed gives the same file */
	unsigned int n_vocab; /* vocabulary size for @shape; 0: the shape's */
	const char *out; /* replaced once all is written; a failure leaves the old file */
	enum llm_quantize_type type; /* with @shape: not a packed one */
	/* ADAPTIVE: the average width of each matrix of the layers, 1 to 8; 0: LLM_ADAPTIVE_BITS.
	 * Each panel of 64 output channels gets the width that loses least (EdgeFlow 4.1). */
	double bits;
	/*
	 * Importance of input channels, for types whose scales are searched: a file of
	 * llama-imatrix, GGUF or of the older format. NULL: all are alike.
	 */
	const char *imatrix;
	/*
	 * Types of single matrices, when @type is not packed. The first rule that fits counts.
	 */
	const struct llm_quantize_rule *rules;
	size_t n_rules;
	bool pure; /* all other matrices have @type, the output matrix too */
	/*
	 * Of the model @in, or NULL: @out has what @in has, calibrated or not. The file says which
	 * channels are hot and has the F16 weights of inputs that are kept (docs/gguf.md), and all
	 * its weights are smoothed if the calibration is.
	 */
	const struct llm_calibration *calibration;
	unsigned int threads; /* 0: one per CPU allowed to the process; does not change the file */
	/* NULL, or called with each warning before anything is written. */
	void (*warn)(void *ud, const char *line);
	/* NULL, or called while writing with a fraction 0..1 and a tensor's name; non-zero stops
	 * with -ECANCELED. */
	int (*progress)(void *ud, double fraction, const char *what);
	void *ud;
};

struct llm_quantize_result {
	size_t n_tensors;
	uint64_t n_values; /* of all tensors */
	uint64_t bytes_before, bytes_after; /* of the tensors' data; before: 0 with @shape */
	/* A calibrated file's weights for outliers, which are not in the numbers above. */
	size_t n_shadows;
	uint64_t shadow_bytes;
};

/*
 * Writes @out. Matrices get the type. Vectors and the experts' router stay as they are. The output
 * matrix of a quantised file is Q8_0, or Q6_K with K-quants. Where rows are no multiple of 256,
 * Q2_K and Q3_K become IQ4_NL, Q4_K Q5_0, Q5_K Q5_1, and Q6_K Q8_0, as in llama.cpp's files; where
 * they are no multiple of 32 either, F16.
 *
 * -EINVAL for options that exclude each other, an output that is a file of the model, a rule that
 * is none or fits no matrix, a calibration or an imatrix of another model, or a file that is no
 * model, is already packed, or has an impossible shape; -ERANGE for a value that the type cannot
 * hold; -ENOENT, -ENOTSUP, -ENOMEM, -ECANCELED, and the errors of writing. @result may be NULL;
 * success fills it in.
 */
int llm_quantize(const struct llm_quantize_options *opts, struct llm_quantize_result *result);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* LLM_QUANTIZE_H */
