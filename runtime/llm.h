/* SPDX-License-Identifier: MIT */
/*
 * The LLM runtime: models, sessions, tokens.
 *
 *	struct llm_options opts = { .model = "m.gguf" };
 *	struct llm_generate_options g = { .max_tokens = 100, .token = print };
 *	struct llm_engine *engine;
 *	struct llm_session *s;
 *	if (llm_engine_open(&opts, &engine) || llm_session_create(engine, 0, &s))
 *		errx(1, "%s", llm_error());
 *	n = llm_tokenize(engine, text, text_bytes, LLM_TOKENIZE_BOS, ids, max_ids);
 *	llm_generate(s, ids, n, &g, NULL);
 *
 * An engine is a loaded model on a device; it does not change and may serve several sessions. A
 * session is one token timeline: a KV cache and the logits of its last token. One session is used
 * by one thread at a time.
 *
 * The life of a token, which llm_generate() leads through all of it:
 *
 *	text	llm_tokenize() cuts a text into pieces of the model's vocabulary.
 *	ids	Each piece has a number. A token is such a number at its place in the session.
 *	eval	llm_session_eval() takes ids chunk by chunk, and looks up the row of floats of each.
 *	plan	A chunk's way through the layers becomes tasks: matmuls, or slices of them,
 *		attention, norms, each with the lane that is to do it and the tasks it waits for.
 *	lanes	NPU, GPU and CPU do the tasks. Attention leaves the token's keys and values in the
 *		KV cache, where later tokens find them.
 *	logits	The last row times the output matrix: how likely each token would be next.
 *	sample	llm_sample() draws one of them by a seed, or llm_argmax() takes the likeliest.
 *	text	llm_token_text() has its bytes. To get the next one, it is evaluated itself.
 *
 * Errors: 0 or a negative errno, and one line from llm_error() (of the calling thread) that names
 * the file, tensor or device and what to do. No function prints anything.
 */
#ifndef LLM_H
#define LLM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "llm_choices.h"
#include "npu.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct llm_engine;
struct llm_session;
struct llm_sampler;

const char *llm_error(void);

/* Limits of options. */
#define LLM_MAX_THREADS 1024
#define LLM_MAX_CHUNK 8192

/* ---- what models multiply -------------------------------------------------------------------- */

/* Bits of a weight in memory, and of an activation as the matmul reads it; @w not AUTO. */
double llm_weight_bits(enum llm_weights w);
unsigned int llm_act_bits(enum llm_weights w);

/* A matmul [m][k] x [k][n] with constant weights, for any number m of tokens. */
struct llm_matmul {
	uint64_t k, n;
};
#define LLM_MAX_MATMULS 8
/*
 * The matmuls of a layer of a model, and of its output matrix last, in the order of a forward
 * pass. @shape: a file, or a name of share/shapes (VNPU_SHAPES names another folder). 0 with their
 * number in *@n; else -errno, and llm_error() names the shape.
 */
int llm_shape_matmuls(const char *shape, struct llm_matmul list[LLM_MAX_MATMULS], unsigned int *n);

/* ---- OpenCL's devices ------------------------------------------------------------------------ */

/* A device that can be an engine's GPU lane: llm_options.gpu. */
struct llm_gpu_info {
	char platform[64], name[128], version[96]; /* as the platform says */
	bool cpu; /* the device is the host's processor */
	unsigned int compute_units;
	uint64_t memory_bytes, max_buffer_bytes;
	bool unified; /* it has the host's memory */
	bool fp16; /* it computes in F16 (cl_khr_fp16); the runtime does not */
	bool out_of_order; /* its queues can be */
	bool exact; /* it divides as IEEE 754 says */
};

/*
 * All devices of all platforms, in the platforms' order: the first @max to @list, and in *@n how
 * many there are. -ENODEV: there is no platform, and llm_error() says what to install; 0 devices on
 * platforms that are there are no error.
 */
int llm_gpu_list(struct llm_gpu_info *list, unsigned int max, unsigned int *n);

/* ---- engine ---------------------------------------------------------------------------------- */

struct llm_options {
	const char *model; /* a GGUF file */
	/* Only its shape is read, and what evaluations take is simulated on the profile: no
	 * weights, no results, and ids may be NULL. */
	bool dry_run;
	/* Of a dry run, in place of a model: a file, or a name of share/shapes. */
	const char *shape;
	/* Zeros: the defaults; llm_choices_settle(): what goes together. */
	struct llm_choices choices;
	/* CPU lane, at most LLM_MAX_THREADS; 0: one per CPU that the process may use */
	unsigned int threads;
	/* Tokens of a prefill graph, bucketed: of the largest one; placements gpu and layer: of a
	 * prompt taken whole. At most LLM_MAX_CHUNK; 0: 256, there 2048 */
	unsigned int chunk;
	/* The clock: NULL for the wall's. Else a profile (docs/soc-model.md), and every
	 * evaluation's time is what it would take on that SoC; results are the same. */
	const char *profile;
	/* The virtual clock: what tasks take varies evenly by up to this fraction, 0 to below 1;
	 * which way @seed says, for each session anew. 0: not at all. */
	float jitter;
	uint64_t seed;
	struct npu_device_options device;
	/* Placements gpu and layer: which OpenCL device, a number in llm_gpu_list() or a part of
	 * "platform name"; or LLM_GPU_HOST, the CPU lane in its place. Without OpenCL they run on
	 * the virtual clock only, if nothing is said: there the host computes what the modelled
	 * GPU takes its time for. */
	const char *gpu;
#define LLM_GPU_HOST "host"
	/* Placement layer on the wall's clock: a profile of the machine, for which products are
	 * cut; NULL: host. The virtual clock's own is taken there. */
	const char *cuts_profile;
	/* What has been learned of matmuls on the NPU, as npu-profile writes it; NULL: nothing.
	 * Placement layer cuts matmuls by it (HeteroLLM 4.3); what they take on the virtual clock's
	 * NPU with other placements is its. */
	const char *predictor;
	/* Called while loading with a fraction 0..1; non-zero stops the load with -ECANCELED. */
	int (*progress)(void *ud, double fraction, const char *what);
	void *ud;
};

/* Loads a model. -EINVAL a bad file or options that do not fit together, -ENOTSUP an
 * architecture, tensor type or tokenizer that is not supported, -ENOENT, -EACCES, -ENOMEM,
 * and the device's errors. */
int llm_engine_open(const struct llm_options *opts, struct llm_engine **engine);
void llm_engine_close(struct llm_engine *engine);

struct llm_engine_info {
	char arch[16]; /* "llama", "qwen2", "qwen3" */
	char name[64]; /* general.name */
	char type[32]; /* "llama 5.8M Q8_0", as llama-bench's model_type */
	uint64_t n_params;
	uint64_t file_bytes; /* sum of the tensors in the file */
	uint64_t weight_bytes; /* weights as the matmuls read them (packed, or the file's own) */
	unsigned int n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_ctx_train;
	struct llm_choices choices; /* as they were settled: placement and weights are never AUTO */
	unsigned int threads, chunk;
	const char *profile; /* the virtual clock's; NULL: the wall's clock */
	const struct npu_device_info *device; /* NULL with LLM_PLACE_CPU */
	const char *gpu; /* the OpenCL device's name, or LLM_GPU_HOST; NULL: none is used */
	int bos, eos; /* -1: none */
	bool add_bos; /* the tokenizer puts BOS in front of a text */
};
const struct llm_engine_info *llm_engine_info(const struct llm_engine *engine);
/* The device behind the engine, for its counts; NULL with LLM_PLACE_CPU. The engine owns it. */
struct npu_device *llm_engine_device(const struct llm_engine *engine);
/* There is an OpenCL device, so that placements gpu and layer run by the wall clock too. */
bool llm_has_gpu(void);

/* ---- text <-> tokens ------------------------------------------------------------------------- */

#define LLM_TOKENIZE_BOS (1u << 0) /* put BOS in front if the model wants it */
/* Control tokens written in the text ("<|im_end|>") become their ids. */
#define LLM_TOKENIZE_SPECIAL (1u << 1)

/*
 * Token ids of @text. Returns how many there are; if that is more than @max, only
 * @max were stored. -errno.
 */
long llm_tokenize(const struct llm_engine *engine, const char *text, size_t bytes,
		  unsigned int flags, int32_t *ids, size_t max);
/* Bytes of one token as they follow in a text (not NUL-terminated, may be part of a UTF-8
 * sequence); control tokens are empty. Returns the number of bytes, of which at most @max were
 * stored; -EINVAL for an unknown id. */
int llm_token_text(const struct llm_engine *engine, int32_t id, char *buf, size_t max);
/*
 * Text of a sequence, with the tokenizer's leading space removed. As llm_tokenize() in its result.
 */
long llm_detokenize(const struct llm_engine *engine, const int32_t *ids, size_t n, char *buf,
		    size_t max);
/* An end-of-text or end-of-turn token. */
bool llm_token_is_end(const struct llm_engine *engine, int32_t id);

/* ---- sessions -------------------------------------------------------------------------------- */

/*
 * @n_ctx tokens of context; 0: what the model was trained with, at most 4096.
 * -ENOMEM names the bytes.
 */
int llm_session_create(struct llm_engine *engine, unsigned int n_ctx, struct llm_session **session);
void llm_session_free(struct llm_session *session);
unsigned int llm_session_n_ctx(const struct llm_session *session);
unsigned int llm_session_n_past(const struct llm_session *session); /* tokens evaluated so far */
/* Forgets all tokens from position @n_past on; -EINVAL if it is beyond the end. */
int llm_session_truncate(struct llm_session *session, unsigned int n_past);

/* Evaluates @n tokens after those evaluated so far. -ENOSPC if they overfill the context, -EINVAL
 * for an unknown id: then nothing was evaluated. A device error leaves n_past where it was. */
int llm_session_eval(struct llm_session *session, const int32_t *ids, size_t n);
/*
 * Logits of the last token evaluated: n_vocab floats, valid until the next
 * call. NULL before the first.
 */
const float *llm_session_logits(const struct llm_session *session);
/* As llm_session_eval(), and calls @fn with the logits of every token in order (position within
 * @ids). Memory for them is that of a few dozen tokens, however many there are. */
int llm_session_eval_all(struct llm_session *session, const int32_t *ids, size_t n,
			 void (*fn)(void *ud, size_t i, const float *logits), void *ud);

/*
 * The same with the logits of all tokens in @logits [n][n_vocab]: what a draft of several
 * tokens is checked against.
 */
int llm_verify(struct llm_session *session, const int32_t *ids, size_t n, float *logits);

/*
 * The engine's clock: CLOCK_MONOTONIC, or what the session's evaluations have
 * taken on the virtual one.
 */
uint64_t llm_session_now_ns(const struct llm_session *session);

/* A task of a pass: an operator, or a slice of a matmul, of one layer for one chunk of tokens.
 * Times are from the pass's beginning. */
struct llm_span {
	const char *op; /* "embed", "qkv", ... */
	unsigned int chunk, layer, slice;
	unsigned int lane, home; /* where it ran, and where the plan put it */
	uint64_t ready_ns, start_ns, end_ns;
	uint64_t overhead_ns; /* of it, starting the work: from start_ns on */
	const uint32_t *after; /* what it came after: [nr_after] indices */
	size_t nr_after;
};
/* What a pass did when, for timelines: called after each one that went well, in the thread that
 * evaluates. @at_ns: when it began, on the engine's clock. */
typedef void (*llm_pass_fn)(void *ud, uint64_t at_ns, const struct llm_span *spans, size_t n);
/* @fn NULL: no more. */
void llm_session_listen(struct llm_session *session, llm_pass_fn fn, void *ud);

/*
 * The result of an operator, as soon as it is there: @tensor of @layer for @rows tokens from
 * position @pos on, floats [rows][cols], valid during the call. Tensors are embed; attn_norm, q, k,
 * v, q_rope, k_rope, attn, attn_output, attn_residual, ffn_norm, gate, up, act, down, layer_output
 * of each layer; output_norm and logits of the rows that have some. Calls come from any thread, one
 * at a time. Who observes pays: everything is computed operator by operator, with the same results,
 * and what it takes on the virtual clock stays the same.
 */
typedef void (*llm_observe_fn)(void *ud, const char *tensor, unsigned int layer, unsigned int pos,
			       unsigned int rows, unsigned int cols, const float *data);
/* @fn NULL: no more. */
void llm_session_observe(struct llm_session *session, llm_observe_fn fn, void *ud);

/* Who computes: lanes have numbers, 0 to llm_nr_lanes() - 1, and a program finds one by its name.
 * Another version may have others; the arrays below have room for them. */
#define LLM_MAX_LANES 8
unsigned int llm_nr_lanes(void);
const char *llm_lane_name(unsigned int lane); /* "npu", "gpu", "cpu"; NULL: there is no such lane */

struct llm_lane_stats {
	uint64_t busy_ns; /* while it had work under way */
};

/* What the evaluations so far have taken on the virtual clock's SoC; 0 with the wall clock. */
struct llm_virtual_stats {
	uint64_t ns;
	struct llm_lane_stats lanes[LLM_MAX_LANES];
	uint64_t launches; /* of NPU graphs */
	uint64_t handovers; /* results that another lane needed */
	double dram_bytes;
	double energy_j;
};

/* What the session has cost, in the engine's clock. */
struct llm_session_stats {
	uint64_t prefill_tokens, prefill_ns;
	uint64_t decode_tokens, decode_ns; /* evals of one token */
	struct llm_virtual_stats virtual_clock;
	uint64_t npu_jobs;
	uint64_t npu_wait_ns; /* time spent waiting for the NPU; not of placements gpu and layer */
	struct llm_lane_stats lanes[LLM_MAX_LANES]; /* of these, on the wall clock */
	uint64_t kv_bytes;
	unsigned int chunk; /* tokens of the last prompt's chunks, if the plan chose them; else 0 */
};
void llm_session_stats(const struct llm_session *session, struct llm_session_stats *stats);

/* The fast waits of placements gpu and layer (HeteroLLM 4.2), of prompts or of single tokens:
 * each is for the end of one lane's work, which took took_us where predicted_us had been
 * predicted from those before. */
struct llm_wait_stats {
	uint64_t waits; /* that were predicted */
	uint64_t overslept; /* of them: it had ended when the sleep did */
	uint64_t given_up; /* polling was; then it was waited for in the driver */
	double slept_s, polled_s; /* of the waiting thread */
	/* Percentiles 10, 50, 90 and 99, of the last few thousand. */
	double predicted_us[4], took_us[4];
	double late_us[4]; /* took - predicted; below 0: it was early */
};
/* False: the session has no such waits; *@stats is zero then. */
bool llm_session_waits(const struct llm_session *session, bool tokens,
		       struct llm_wait_stats *stats);

/* ---- sampling -------------------------------------------------------------------------------- */

struct llm_sampler_options {
	float temperature; /* <= 0: greedy */
	int top_k; /* <= 0: off */
	float top_p; /* >= 1: off */
	float min_p; /* <= 0: off */
	uint64_t seed;
};

int llm_sampler_create(const struct llm_sampler_options *opts, unsigned int n_vocab,
		       struct llm_sampler **sampler);
void llm_sampler_free(struct llm_sampler *sampler);
int32_t llm_sample(struct llm_sampler *sampler, const float *logits);
/* The likeliest token; of equal ones the lowest id. */
int32_t llm_argmax(const float *logits, unsigned int n_vocab);

/* ---- generation ------------------------------------------------------------------------------ */

/* A token that was just chosen, and the text that can be shown now. */
struct llm_generated {
	int32_t id; /* -1: none, this is the last of the text */
	uint64_t n; /* tokens before it in this generation */
	uint64_t at_ns; /* when it was chosen, on the engine's clock */
	/* Whole characters, as many as there are: not NUL-terminated, and the library's. Bytes of a
	 * token may come with a later one. Those that make no character come as they are. */
	const char *text;
	size_t text_bytes;
};

struct llm_generate_options {
	uint64_t max_tokens; /* 0: the prompt is evaluated, and that is all. UINT64_MAX: no limit */
	struct llm_sampler *sampler; /* NULL: always the likeliest token */
	bool ignore_end; /* end tokens are tokens like others */
	/* Strings that end the text in front of them, wherever tokens begin and end: what may be
	 * the beginning of one is held back until that is known. */
	const char *const *stops;
	size_t nr_stops;
	/* Called with each token but an end token, before it is evaluated; non-zero ends the
	 * generation. At the end it is called once more, with id -1, if text was held back; but
	 * when a stop string or this function made the end, that text is dropped. NULL: nobody
	 * listens. */
	int (*token)(void *ud, const struct llm_generated *token);
	void *ud;
	/* NULL, or room for max_tokens: the ids of all tokens, those of a stop string too. */
	int32_t *ids;
};

/* Why a generation ended. */
enum llm_ended {
	LLM_ENDED_MAX = 0, /* there are max_tokens */
	LLM_ENDED_TOKEN, /* by an end token, which is not counted */
	LLM_ENDED_STRING, /* by a stop string */
	LLM_ENDED_CALLBACK, /* the program's function wanted it */
	LLM_ENDED_CONTEXT, /* the context is full: there is no room for the last token */
};

struct llm_generate_result {
	enum llm_ended ended;
	size_t stop; /* LLM_ENDED_STRING: index of the stop string */
	uint64_t n_tokens;
	/* The token that was chosen last, an end token too. It has not been evaluated: who goes on
	 * with the session puts it in front of what comes next. -1: none was chosen. */
	int32_t last;
	/* On the engine's clock, each from the call on: until the prompt was evaluated, until the
	 * first token was chosen (0: none was), until the end. */
	uint64_t prompt_ns, first_ns, total_ns;
};

/*
 * Evaluates @prompt, @n tokens after those that the session has, and goes on with tokens of the
 * model's own. @n may be 0 where the session has logits. *@result, unless that is NULL, is filled
 * in after an error too, but for why it ended.
 *
 * -EINVAL an unknown id, an empty prompt with nothing before it, an empty stop string; -ENOSPC a
 * prompt that does not fit the context: nothing was evaluated then. The errors of
 * llm_session_eval(): the session has the tokens that came before.
 */
int llm_generate(struct llm_session *session, const int32_t *prompt, size_t n,
		 const struct llm_generate_options *opts, struct llm_generate_result *result);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* LLM_H */
