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
 * An engine is a loaded model on a device. It may serve several sessions, and does not change; only
 * what passes with drafts take is remembered, from one drafter to the next. A session is one
 * sequence of tokens: a KV cache and the logits of its last token. Only one thread at a time may
 * use a session.
 *
 * The stages of a token's life, from eval on also run by llm_generate():
 *
 *	text	llm_tokenize() splits a text into pieces of the model's vocabulary.
 *	ids	Each piece has a number, its id. A token is an id at a position of the session.
 *	eval	llm_session_eval() evaluates ids in chunks, starting with their embeddings.
 *	plan	Each chunk's operators become tasks of a plan: norms, attention, matmuls or slices
 *		of them, each with a lane and the tasks that it depends on.
 *	lanes	The NPU, the GPU and the CPU run the tasks. RoPE's task stores the keys and values
 *		of the tokens in the KV cache.
 *	logits	The last row times the output matrix: a score for each token as the next one.
 *	sample	llm_sample() draws a token with a seeded generator; llm_argmax() takes the best.
 *	text	llm_token_text() returns its bytes. Evaluating the token gives the next logits.
 *
 * Functions return 0 or a negative errno; llm_error() then returns one line that names the file,
 * tensor or device and what to do about it. The line is per thread. No function prints anything.
 */
#ifndef LLM_H
#define LLM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "llm_choices.h"
#include "llm_sampler.h"
#include "npu.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct llm_engine;
struct llm_session;

const char *llm_error(void);

/* Limits of options. */
#define LLM_MAX_THREADS 1024
#define LLM_MAX_CHUNK 8192

/* ---- matmuls of a model ---------------------------------------------------------------------- */

/* Bits per weight in memory, and per activation as the matmul reads it; @w must not be AUTO. Of
 * NATIVE those of matrices whose type the NPU lacks. */
double llm_weight_bits(enum llm_weights w);
unsigned int llm_act_bits(enum llm_weights w);
unsigned int llm_weight_group(enum llm_weights w); /* values along k with one scale; 0: all */

/* A matmul [m][k] x [k][n] with constant weights, for any number m of tokens. */
struct llm_matmul {
	uint64_t k, n;
};
#define LLM_MAX_MATMULS 8
/*
 * Lists the matmuls of one layer, then the output matrix, in the order of a forward pass. @shape is
 * a file, or a name in share/shapes (or in the folder VNPU_SHAPES). Returns 0 with the number of
 * matmuls in *@n, or -errno; llm_error() names the shape.
 */
int llm_shape_matmuls(const char *shape, struct llm_matmul list[LLM_MAX_MATMULS], unsigned int *n);

/* ---- OpenCL devices -------------------------------------------------------------------------- */

/* An OpenCL device that can be an engine's GPU lane: llm_options.gpu. */
struct llm_gpu_info {
	char platform[64], name[128], version[96]; /* as the platform reports them */
	bool cpu; /* the device is the host's processor */
	unsigned int compute_units;
	uint64_t memory_bytes, max_buffer_bytes;
	bool unified; /* shares the host's memory */
	bool fp16; /* supports F16 arithmetic (cl_khr_fp16), which the runtime does not use */
	bool out_of_order; /* supports out-of-order queues, which the runtime does not use */
	bool exact; /* division is correctly rounded (IEEE 754) */
};

/*
 * Lists the devices of all platforms in the platforms' order: stores the first @max in @list and
 * the total in *@n. Returns -ENODEV if there is no platform; llm_error() then says what to install.
 * Platforms without devices are no error: *@n is 0.
 */
int llm_gpu_list(struct llm_gpu_info *list, unsigned int max, unsigned int *n);

/* ---- engine ---------------------------------------------------------------------------------- */

struct llm_options {
	const char *model; /* a GGUF file, or the first of a split model */
	/* Only simulates what evaluations take on @profile: reads the model's shape, no weights;
	 * computes no results; ids may be NULL. */
	bool dry_run;
	/* For a dry run, in place of @model: a file, or a name in share/shapes. */
	const char *shape;
	/* Zeros are the defaults; llm_choices_settle() says which values exclude each other. */
	struct llm_choices choices;
	/* Threads of the CPU lane, at most LLM_MAX_THREADS; 0: one per CPU that the process may
	 * use, by its affinity mask and the quota of its control groups */
	unsigned int threads;
	/* Tokens of a prefill graph (of the largest one, if bucketed); with placements gpu and
	 * layer, of the longest undivided prompt. At most LLM_MAX_CHUNK; 0: 256, or 2048 there;
	 * with activations static what the file was calibrated for, if it says so. */
	unsigned int chunk;
	/* Activations static: the share of matmul inputs whose outliers are pruned, the least
	 * important ones first (llm.npu 3.3). 0: those that the file has no weights for, or with
	 * @shape the paper's 0.85; negative: none are. At most 1. */
	float pruning;
	/* Weights adaptive in a dry run: the average width, 1 to 8; 0: LLM_ADAPTIVE_BITS. W8A8:
	 * that of a file whose weights the CPU unpacks for it; 0: the file has 8 bits. A file that
	 * llm-quantize made for adaptive weights has its own widths. */
	float bits;
#define LLM_ADAPTIVE_BITS 5
	/* Attention sparse, block and shadow: the share of the keys that a query sees, on average
	 * over heads, up to 1; 0: LLM_SPARSE_RATIO. */
	double ratio;
#define LLM_SPARSE_RATIO 0.2
	/* Attention other than full: chunks that end within so many tokens have full attention
	 * all the same, since an estimate costs more than it saves there. 0: LLM_SPARSE_FROM;
	 * 1: none has. */
	unsigned int sparse_from;
#define LLM_SPARSE_FROM 1024
	/* Attention shadow and npu: the pairs of scales that graphs are made for, an odd number
	 * squared up to LLM_MAX_SCALE_BUCKETS, and the step between them, above 0 and below 1
	 * (shadowAttn 3.3). 0: 9, and 0.5. */
	unsigned int scale_buckets;
	float scale_step;
#define LLM_MAX_SCALE_BUCKETS 81
	/* Choice switching: tokens of decoding's graphs, a divisor of a chunk's below it, and
	 * layers of a block, at most as many as the model has. 0: a quarter of a chunk, or the
	 * next smaller divisor (CoordGen 3.2), and LLM_BLOCK_LAYERS. */
	unsigned int decode_width, block_layers;
#define LLM_BLOCK_LAYERS 4
	/* NULL: the wall clock. Otherwise a profile (docs/soc-model.md) whose SoC the virtual clock
	 * models: it tells how long evaluations would take there. Results are the same. */
	const char *profile;
	/* Virtual clock: each task's duration varies by up to this fraction, uniformly distributed
	 * and drawn with @seed, differently in each pass. 0 to below 1; 0: none. */
	float jitter;
	uint64_t seed;
	struct npu_device_options device;
	/* The OpenCL device of placements gpu and layer: an index into llm_gpu_list(), a part of
	 * "platform name", or LLM_GPU_HOST to compute on the CPU lane instead. NULL: VNPU_OPENCL's
	 * device, else the first GPU, else the first device; without any device, the host computes
	 * the results on the virtual clock, and llm_engine_open() fails on the wall clock. */
	const char *gpu;
#define LLM_GPU_HOST "host"
	/* Placement layer on the wall clock: the profile of this machine that matmuls are cut for;
	 * NULL: "host". On the virtual clock they are cut for @profile. */
	const char *cuts_profile;
	/* A file of npu-profile that predicts the times of matmuls on the NPU or the GPU, whichever
	 * it was made for, or one of each, with a comma between them; NULL: none. With placement
	 * layer the solver uses them (HeteroLLM 4.3); with other placements they give the times of
	 * matmuls on those lanes of the virtual clock. */
	const char *predictor;
	/*
	 * Start cold of a file that is not packed: keeps the panels that it was packed to in a
	 * cache beside it, MODEL.WEIGHTS.panels, which later cold starts use without packing. This
	 * is the most that all such caches of the folder may have together, in bytes; those that
	 * have not been used for longest are removed for others. 0: there is no cache. See
	 * llm_engine_panels_cache().
	 */
	uint64_t panels_cache_bytes;
	/* Called while loading with a fraction 0..1; non-zero stops the load with -ECANCELED. */
	int (*progress)(void *ud, double fraction, const char *what);
	void *ud;
};

/* Whether a model may be opened with the options, as far as that does not depend on its file or on
 * this machine. -EINVAL for a number out of its range and for options that exclude each other,
 * -ENOTSUP for choices that are only for dry runs. llm_engine_open() begins with it. */
int llm_options_check(const struct llm_options *opts);

/* Loads a model. Errors: -EINVAL for a bad file or options that exclude each other, -ENOTSUP for an
 * architecture, tensor type or tokenizer that is not supported, -ENOENT, -EACCES, -ENOMEM, and the
 * device's errors. */
int llm_engine_open(const struct llm_options *opts, struct llm_engine **engine);
/* Frees it with its last session and sampler, and waits for its cache of panels if that is being
 * made. */
void llm_engine_close(struct llm_engine *engine);

struct llm_engine_info {
	char arch[16]; /* "llama", "qwen2", "qwen3" */
	char name[64]; /* general.name */
	char type[64]; /* "llama 5.8M Q8_0", as llama-bench's model_type */
	uint64_t n_params;
	uint64_t n_params_active; /* those that a token meets: with experts, only its own */
	uint64_t file_bytes; /* sum of the tensors in the file */
	uint64_t weight_bytes; /* as the matmuls read them: packed, or in the file's types */
	uint64_t token_bytes; /* of those, what one token reads; 0 in a dry run */
	uint64_t kv_token_bytes; /* of a KV cache, for each token */
	unsigned int n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_ctx_train;
	struct llm_choices choices; /* settled: placement, weights and draft are never AUTO */
	unsigned int threads, chunk;
	/* Choice switching: of decoding's graphs, and of blocks; else 0. */
	unsigned int decode_width, block_layers;
	const char *profile; /* the virtual clock's; NULL: the wall clock */
	const struct npu_device_info *device; /* NULL with LLM_PLACE_CPU */
	const char *gpu; /* the OpenCL device's name, or LLM_GPU_HOST; NULL: no GPU is used */
	int bos, eos; /* -1: none */
	bool add_bos; /* the tokenizer puts BOS in front of a text */
	const char *vocab_warning; /* a line for the user, as llm_vocab_warning()'s; NULL: none */
	/* Tokens of context that training covers, or the file by extending RoPE; 0: a shape. */
	uint64_t n_ctx_covered;
};
const struct llm_engine_info *llm_engine_info(const struct llm_engine *engine);
/* The engine's NPU device, for its counters; NULL with LLM_PLACE_CPU. The engine owns it. */
struct npu_device *llm_engine_device(const struct llm_engine *engine);
/* Whether there is an OpenCL device for placements gpu and layer. */
bool llm_has_gpu(void);

/* What has become of a cache of panels (llm_options.panels_cache_bytes). */
enum llm_panels_state {
	LLM_PANELS_NONE = 0, /* there is to be none */
	LLM_PANELS_FOUND, /* the weights are its panels */
	LLM_PANELS_DUE, /* there was none of this model: the first evaluation will have it made */
	/* A thread makes it while nothing is evaluated. llm_engine_close() waits. */
	LLM_PANELS_MAKING,
	LLM_PANELS_MADE, /* for the next start */
	LLM_PANELS_FAILED, /* the weights are the model's, and it has no cache */
};
const char *llm_panels_state_name(enum llm_panels_state state); /* "none", ... "failed" */
struct llm_panels_cache {
	enum llm_panels_state state;
	const char *path; /* the engine's; NULL: NONE */
	uint64_t bytes; /* of the file: FOUND and MADE */
	char why[512]; /* FAILED: one line. A full disk, a read-only folder, too low a limit, ... */
};
/* @wait: as long as it is being made, which then does not wait for evaluations. Any thread. */
void llm_engine_panels_cache(struct llm_engine *engine, bool wait, struct llm_panels_cache *cache);

/* ---- text <-> tokens ------------------------------------------------------------------------- */

#define LLM_TOKENIZE_BOS (1u << 0) /* put BOS in front if the model wants it */
/* Recognise control tokens that are spelled out in the text ("<|im_end|>"). */
#define LLM_TOKENIZE_SPECIAL (1u << 1)

/*
 * Writes the token ids of @text to @ids, at most @max of them. Returns how many the text has, which
 * may be more than @max, or -errno.
 */
long llm_tokenize(const struct llm_engine *engine, const char *text, size_t bytes,
		  unsigned int flags, int32_t *ids, size_t max);
/* Writes the bytes of one token inside a text to @buf, at most @max of them: not NUL-terminated,
 * possibly a part of a UTF-8 sequence, none for a control token. Returns how many bytes the token
 * has, or -EINVAL for an unknown id. */
int llm_token_text(const struct llm_engine *engine, int32_t id, char *buf, size_t max);
/* Writes the text of a sequence to @buf, without the tokenizer's leading space. Returns bytes, with
 * the same meaning of @max as llm_tokenize(). */
long llm_detokenize(const struct llm_engine *engine, const int32_t *ids, size_t n, char *buf,
		    size_t max);
/* Whether @id is an end-of-text or end-of-turn token. */
bool llm_token_is_end(const struct llm_engine *engine, int32_t id);

/* ---- sessions -------------------------------------------------------------------------------- */

/*
 * Creates a session of at most @n_ctx tokens; 0: the context that the model was trained with, at
 * most 4096. -ENOMEM: llm_error() says how many bytes were wanted.
 */
int llm_session_create(struct llm_engine *engine, unsigned int n_ctx, struct llm_session **session);
void llm_session_free(struct llm_session *session);
unsigned int llm_session_n_ctx(const struct llm_session *session);
unsigned int llm_session_n_past(const struct llm_session *session); /* tokens evaluated so far */
/* Forgets all tokens from position @n_past on; -EINVAL if it is beyond the end. With 0 and choice
 * switching, the graphs for prefill come back, or an error says why not. */
int llm_session_truncate(struct llm_session *session, unsigned int n_past);

/* Appends @n tokens and evaluates them. -ENOSPC if they do not fit into the context, -EINVAL for an
 * unknown id; nothing was evaluated then. A device error leaves n_past unchanged. */
int llm_session_eval(struct llm_session *session, const int32_t *ids, size_t n);
/*
 * Logits of the last token evaluated: n_vocab floats, valid until the next evaluation. NULL before
 * the first one, and after that token was forgotten (llm_session_truncate()).
 */
const float *llm_session_logits(const struct llm_session *session);
/* Like llm_session_eval(), and calls @fn with the logits of each token in order; @i is its index in
 * @ids. They take the memory of a few dozen tokens' logits, however long the prompt is. */
int llm_session_eval_all(struct llm_session *session, const int32_t *ids, size_t n,
			 void (*fn)(void *ud, size_t i, const float *logits), void *ud);

/* The same, but stores the logits of all tokens in @logits [n][n_vocab], for example to check a
 * draft of several tokens. */
int llm_verify(struct llm_session *session, const int32_t *ids, size_t n, float *logits);

/* A token that may come next. */
struct llm_candidate {
	int32_t id;
	float p; /* its probability: softmax over the vocabulary */
};
/*
 * Like llm_session_eval(), and calls @fn with the @k (1..LLM_MAX_CANDIDATES) most probable tokens
 * behind ids[at[i]], for i of 0..nr_at - 1 in order: @best [k], the most probable one first, of
 * equal ones the lowest id; valid during the call. @at rises. Only the rows of these positions are
 * multiplied with the output matrix, and their logits are reduced a few dozen rows at a time
 * (CoordGen 3.3): struct llm_session_stats.at says what that cost. It takes the memory of these
 * logits, and with placement npu of an embedding for each position. -EINVAL for positions that do
 * not rise or are not in @ids, or a @k out of range; nothing was evaluated then.
 */
#define LLM_MAX_CANDIDATES 64
int llm_session_eval_at(struct llm_session *session, const int32_t *ids, size_t n, const size_t *at,
			size_t nr_at, unsigned int k,
			void (*fn)(void *ud, size_t i, const struct llm_candidate *best), void *ud);

/* ---- token trees ----------------------------------------------------------------------------- */

/*
 * Guesses of the session's next tokens, as a tree (CoordGen 3.1). Node 0, the root, is the next
 * token: what plain decoding would evaluate now. Each other node is a guess of what follows its
 * parent, which is an earlier node. A tree of one node is plain decoding.
 *
 *	while (...) {
 *		llm_verify_tree(s, &tree);
 *		... follow the tree from the root by llm_tree_logits(): path [n] ...
 *		llm_tree_keep(s, path, n);
 *		... the token behind path[n - 1], by its logits, is the next tree's root ...
 *	}
 */
#define LLM_MAX_TREE 64
struct llm_tree {
	unsigned int n; /* nodes, 1..LLM_MAX_TREE */
	const int32_t *tokens; /* [n] */
	const uint8_t *parents; /* [n]; the root's is 0 */
};

/*
 * Evaluates all nodes in one pass: each at its position behind the session's tokens, as if the
 * tokens of its path from the root on were the session's next ones, and no other nodes were there.
 * The session keeps its tokens, but has no logits until llm_tree_keep() or the next evaluation.
 *
 * The logits of a node have the same bits as those of llm_session_eval() for its path, a token at a
 * time, and so have keys and values.
 *
 * -EINVAL for an unknown token or no tree, -ENOSPC if n nodes do not fit into the context, -ENOTSUP
 * for heads of more than 512 values, with choice decode sparse, since nodes have full attention,
 * and with a GPU other than LLM_GPU_HOST, whose attention has no trees. A device error leaves the
 * session's tokens as they were.
 */
int llm_verify_tree(struct llm_session *session, const struct llm_tree *tree);
/* Logits of a node of the tree, as long as llm_tree_keep() is possible: n_vocab floats. NULL in a
 * dry run, without a tree, or for a node that is none. */
const float *llm_tree_logits(const struct llm_session *session, unsigned int node);
/*
 * Appends the tokens of nodes @path [n] of that tree to the session, the root first, each the
 * parent of the next one: keys and values are moved to where they would be without the tree. The
 * logits of the session are those of path[n - 1], and the rest of the tree is forgotten.
 *
 * -EINVAL if @path is none, or if there is no tree: none was evaluated, one of its paths has been
 * kept, or the session was evaluated or truncated since.
 */
int llm_tree_keep(struct llm_session *session, const uint8_t *path, unsigned int n);
/*
 * Makes the graphs and memory for trees of up to @n nodes. Else the first tree of a width waits for
 * its graphs: of 1, 2, 4, .. 64 rows, of which a tree takes the narrowest that has its nodes.
 * -ENOTSUP as llm_verify_tree().
 */
int llm_session_prepare_tree(struct llm_session *session, unsigned int n);

/* The time on the engine's clock: CLOCK_MONOTONIC, or on the virtual clock the sum of what the
 * session's evaluations have taken. */
uint64_t llm_session_now_ns(const struct llm_session *session);

/* A task of a pass: an operator, or a slice of a matmul, of one layer for one chunk of tokens.
 * Times count from the start of the pass. */
struct llm_span {
	const char *op; /* "embed", "qkv", ... */
	unsigned int chunk, layer, slice;
	unsigned int lane, home; /* the lane that ran it, and the one that the plan gave it to */
	uint64_t ready_ns, start_ns, end_ns;
	uint64_t overhead_ns; /* time to submit the work, which begins at start_ns */
	/* "read" and "pack": of a piece of the weights, as the file and as the lanes have it */
	uint64_t file_bytes, packed_bytes;
	const uint32_t *after; /* indices of the spans that it depended on: [nr_after] */
	size_t nr_after;
};
/* Called after each successful pass, in the thread that evaluates, with the pass's timeline.
 * @at_ns: the start of the pass on the engine's clock. */
typedef void (*llm_pass_fn)(void *ud, uint64_t at_ns, const struct llm_span *spans, size_t n);
/* @fn NULL: stops the calls. */
void llm_session_listen(struct llm_session *session, llm_pass_fn fn, void *ud);

/*
 * Called with each operator's result once it is computed: @tensor of @layer for @rows tokens from
 * position @pos on, floats [rows][cols], valid during the call. Tensors are embed; attn_norm, q, k,
 * v, q_rope, k_rope, attn, attn_output, attn_residual, ffn_norm, gate, up, act, down, layer_output
 * of each layer, where "experts" is in place of gate to down if there are any; output_norm and
 * logits of the rows that have logits. Calls come from any thread, one at a time. An observed
 * session is slower, because it computes operator by operator; results and times on the virtual
 * clock stay the same, but placement npu then takes the time of all rows of a prompt's last layer,
 * most of which it leaves out for others.
 */
typedef void (*llm_observe_fn)(void *ud, const char *tensor, unsigned int layer, unsigned int pos,
			       unsigned int rows, unsigned int cols, const float *data);
/* @fn NULL: stops the calls. */
void llm_session_observe(struct llm_session *session, llm_observe_fn fn, void *ud);

/* Lanes are numbered from 0 to llm_nr_lanes() - 1; a program finds one by its name. Another version
 * of the library may have other lanes, for which the arrays below leave room. */
#define LLM_MAX_LANES 8
unsigned int llm_nr_lanes(void);
const char *
llm_lane_name(unsigned int lane); /* "npu", "gpu", "cpu", "storage"; NULL: there is none */

struct llm_lane_stats {
	uint64_t busy_ns; /* time with work under way */
};

/* What the evaluations so far have taken on the virtual clock's SoC; 0 on the wall clock. */
struct llm_virtual_stats {
	uint64_t ns;
	struct llm_lane_stats lanes[LLM_MAX_LANES];
	uint64_t launches; /* of NPU graphs */
	uint64_t handovers; /* results that another lane needed */
	double dram_bytes;
	double energy_j;
};

/* Shadow outliers (llm.npu 3.3). Weights and reads are those of all the engine's sessions. */
struct llm_shadow_stats {
	uint64_t hot_bytes; /* of weights of hot channels, in memory */
	uint64_t all_bytes; /* what the weights of all channels would take */
	uint64_t reads, read_bytes; /* of other channels' weights, from the file */
	/* Results added to a matmul's, for which CPU and NPU have to wait for one another. */
	uint64_t merges;
	uint64_t outliers; /* values that were multiplied */
	uint64_t ns; /* the host's time for gathering, multiplying and adding */
};

/* Attention other than full (shadowAttn 3), in chunks that had it. */
struct llm_attention_stats {
	uint64_t key_bytes; /* of INT8 keys (and values), beside the KV cache */
	uint64_t score_bytes; /* of memory for scores, and for queries head by head */
	uint64_t visible, selected; /* keys that queries saw, and that were computed with */
	/* The host's time, summed over threads: for scores on the CPU, for selecting keys, and for
	 * computing with them. */
	uint64_t estimate_ns, select_ns, attend_ns;
	/* The NPU's estimates: launches, the jobs that they were submitted as, heads in them, and
	 * those in another scale bucket than the plan had them in. */
	uint64_t launches, jobs, heads, moved;
	uint64_t repacked; /* KV heads whose keys were quantised again, as they grew */
	uint64_t graphs, graph_bytes; /* of estimates that were made */
};

/*
 * llm_session_eval_at(): positions that had candidates, and the time of the last layer for them
 * (placement npu, which computes it for no others; 0 where all rows go through it), of the output
 * matrix, and of its result's reduction, on the engine's clock.
 */
struct llm_at_stats {
	uint64_t positions, layer_ns, head_ns, reduce_ns;
};

/* Token trees; times are on the engine's clock. */
struct llm_tree_stats {
	uint64_t trees, nodes; /* that were evaluated */
	uint64_t rows; /* of their graphs, padding included */
	uint64_t kept; /* tokens */
	uint64_t ns, keep_ns; /* of the passes, and of llm_tree_keep() */
	uint64_t bytes; /* of memory for them, once there is a tree: mostly its logits */
};

/* How the weights were loaded, once they are: of the engine, on the wall clock. */
struct llm_start_stats {
	uint64_t read_bytes; /* from storage */
	uint64_t cached_bytes; /* found in the page cache */
	uint64_t ring_bytes; /* of buffers for what has been read and not yet packed */
	uint64_t ring_peak_bytes; /* of those that were ever in use */
	uint64_t wait_ns; /* time in which reads were waited for */
	uint64_t pack_ns; /* time in which weights were packed for the NPU */
};

/* Choice switching (CoordGen 3.2), in passes that switched. */
struct llm_switching_stats {
	uint64_t loads, load_ns; /* of blocks' graphs, and the time that they took */
	uint64_t wait_ns; /* in which nothing was computed, until loads had ended */
	/* Of blocks' graphs: prefill's alone, and all in memory at most. On the virtual clock they
	 * have their weights in them; on the wall clock these are shared, and not counted. */
	uint64_t graph_bytes, graph_peak_bytes;
};

/* What the session has cost so far; times are on the engine's clock. */
struct llm_session_stats {
	uint64_t prefill_tokens, prefill_ns;
	uint64_t decode_tokens, decode_ns; /* evaluations of one token */
	struct llm_virtual_stats virtual_clock;
	uint64_t npu_jobs;
	uint64_t npu_wait_ns; /* time spent waiting for the NPU, but not in struct llm_wait_stats */
	/* How often the order's policy chose a lane's next task, and the host's time for that; 0 on
	 * the wall clock where one task follows another. */
	uint64_t decisions, decision_ns;
	struct llm_lane_stats lanes[LLM_MAX_LANES];
	uint64_t kv_bytes;
	struct llm_shadow_stats shadow; /* activations static; else 0 */
	struct llm_attention_stats attention; /* attention other than full; else 0 */
	struct llm_start_stats start; /* with an NPU; else 0 */
	struct llm_at_stats at;
	struct llm_tree_stats tree;
	struct llm_switching_stats switching;
	unsigned int chunk; /* tokens of the last prompt's chunks if the plan chose them; else 0 */
};
void llm_session_stats(const struct llm_session *session, struct llm_session_stats *stats);

/*
 * What a lane did in a cold start. The first four add up to the time with work under way, all five
 * to llm_cold_stats.ns; a lane without work has no bubbles.
 */
struct llm_cold_lane {
	uint64_t read_ns; /* storage: weights are read */
	uint64_t pack_ns; /* the CPU copies, packs, unpacks and checks them */
	uint64_t graph_ns; /* graphs are made and loaded */
	uint64_t compute_ns; /* operators */
	uint64_t bubble_ns; /* idle */
};

/* Bytes that were in use at most, and that are set aside. */
struct llm_cold_memory {
	uint64_t peak, bound;
};

/*
 * A cold start (EdgeFlow 4): the evaluation that loaded the weights, on the engine's clock. On the
 * wall clock reads run ahead by themselves from llm_engine_open() on, so the storage lane is at
 * work while a read is waited for; and lanes share the host's CPUs, so each takes longer than it
 * would alone.
 *
 * The pipeline is measured by what it takes if the longest of its three kinds of work hides the two
 * others, but for the beginning, when the first layer is read and nothing can be computed, and the
 * end, when all has been read and the last layer is computed. It can be faster where parts of these
 * are hidden too.
 *
 *	bound_ns = max(read_ns, pack_ns, compute_ns) + first_read_ns + last_compute_ns
 */
struct llm_cold_stats {
	/* Before the evaluation, on the wall clock; on the virtual clock 0: */
	uint64_t file_ns; /* opening the file, and reading what it says of the model */
	uint64_t tokenizer_ns;
	uint64_t device_ns; /* opening the NPU */
	uint64_t load_ns; /* the rest of llm_engine_open(): threads, buffers, the first requests */
	uint64_t session_ns; /* llm_session_create() */
	/* The evaluation: until its first task, when the plan is made; and from there to its end */
	uint64_t plan_ns, ns;
	struct llm_cold_lane lanes[LLM_MAX_LANES];
	/* Reading all weights; packing them; computing as if they and the graphs were there, in the
	 * order and with the times that the operators had. */
	uint64_t read_ns, pack_ns, compute_ns;
	uint64_t first_read_ns; /* reading what the first layer needs */
	uint64_t last_compute_ns; /* computing the last layer and the logits */
	uint64_t bound_ns;
	uint64_t read_bytes, cached_bytes; /* from storage, from the page cache */
	double energy_j; /* the evaluation's; 0 on the wall clock */
	struct llm_cold_memory weights, kv;
	struct llm_cold_memory activations; /* with logits, and scratch memory of the CPU lane */
	struct llm_cold_memory ring; /* llm_start_stats.ring_bytes */
};
/* False: no evaluation of this session has loaded weights, and *@stats is zero. */
bool llm_session_cold(const struct llm_session *session, struct llm_cold_stats *stats);

/* The fast waits of placements gpu and layer (HeteroLLM 4.2), of prompts or of single tokens. Each
 * waits for one lane's work: predicted_us was predicted from earlier work of the same kind, and
 * the work took took_us. */
struct llm_wait_stats {
	uint64_t waits; /* those with a prediction */
	uint64_t overslept; /* of these, the work had ended before the sleep did */
	uint64_t given_up; /* waits that polled for too long and went on in the driver */
	double slept_s, polled_s; /* time of the waiting thread */
	/* Percentiles 10, 50, 90 and 99 of the last few thousand waits. */
	double predicted_us[4], took_us[4];
	double late_us[4]; /* took - predicted; negative: earlier than predicted */
};
/* False: the session has no such waits, and *@stats is zero. */
bool llm_session_waits(const struct llm_session *session, bool tokens,
		       struct llm_wait_stats *stats);

/*
 * The breakdown of evaluations: which kinds of work their time went into, on the wall clock. The
 * sum of the items is @ns. Items are
 *
 *	matmul, attention	those operators
 *	store, rope, norm	storing K and V in the cache; RoPE; norms
 *	quant, outliers		rounding activations to integers; adding those kept as floats
 *	other			other operators of the device: residuals, activation functions
 *	waiting			workers of the device that wait for each other, at barriers too
 *	start			the device fetches and checks a job
 *	runtime			the rest of evaluations: plans, embeddings, submitting jobs, and
 *				waiting until their end is noticed
 *	sampling		llm_generate() chooses tokens
 *
 * The device's workers are threads that share its operators. Of a job's time an item has the part
 * that a worker spends on it on average.
 */
#define LLM_MAX_BREAKDOWN 16
const char *llm_breakdown_item(unsigned int item); /* NULL: there is no such item */
struct llm_breakdown {
	uint64_t tokens; /* evaluated; 0: nothing was measured */
	uint64_t ns; /* evaluations, and choosing the tokens after them */
	uint64_t item_ns[LLM_MAX_BREAKDOWN];
};
/* Turns measuring on or off for later evaluations. It costs them less than 1 %. -ENOTSUP: only
 * placement npu on the wall clock can be measured, on a device with ISA 1.6. */
int llm_session_measure(struct llm_session *session, bool on);
/* What was measured so far of prompts, or of evaluations of one token. */
void llm_session_breakdown(const struct llm_session *session, bool tokens,
			   struct llm_breakdown *breakdown);

/* ---- drafting -------------------------------------------------------------------------------- */

/*
 * Guesses of the next tokens, of which llm_generate() verifies several in one pass (CoordGen; see
 * docs/coordgen.md). A drafter learns from the prompts and answers of the generations that it is
 * used for, which may be those of several sessions of its engine, one after another: a chat has
 * one drafter. What passes of each width take is the engine's: on the wall clock a new drafter
 * begins with what the last generation has left. How often guesses come true is the drafter's: it
 * depends on the texts.
 */
struct llm_drafter;

/* A pass with which a generation went on. */
struct llm_draft_step {
	unsigned int nodes; /* that were evaluated, the root included; 1: a plain token */
	unsigned int width; /* rows of its graph: 1, 2, 4, .. 64 */
	unsigned int tokens; /* that it gave, 1..nodes */
	uint64_t draft_ns; /* the host's time for drafting, and for learning from the result */
	uint64_t pass_ns; /* on the engine's clock */
};

struct llm_drafter_options {
	enum llm_draft draft; /* AUTO: that of the engine's choices, which must not be NONE */
	/* A store of past answers, a name or a path (docs/history.md); answers are added to it.
	 * NULL: none. With PLD nothing is drafted from it. */
	const char *history;
	/* Nodes of each tree, at most LLM_MAX_TREE; 0: what is expected to be the fastest, by the
	 * time that passes of each width have taken, and by how many guesses came true. */
	unsigned int width;
	/* Called after each pass, in the thread that generates. May be NULL. */
	void (*step)(void *ud, const struct llm_draft_step *step);
	void *ud;
};

/*
 * Errors: -EINVAL for options out of range, -ENOTSUP as llm_verify_tree() and in a dry run,
 * -ENOMEM. A store that cannot be read is no error: the drafter works without it, and
 * llm_drafter_stats.history_error says why. The drafter keeps the engine open.
 */
int llm_drafter_create(struct llm_engine *engine, const struct llm_drafter_options *opts,
		       struct llm_drafter **drafter);
void llm_drafter_free(struct llm_drafter *drafter);

/* Sums of all generations. */
struct llm_drafter_stats {
	enum llm_draft draft;
	uint64_t steps; /* passes after prompts */
	uint64_t trees; /* those of more than one node */
	uint64_t nodes; /* that were evaluated, the roots included */
	uint64_t tokens; /* that the passes gave */
	uint64_t draft_ns; /* the host's time: drafting, and learning from the results */
	/* Calibration (3.3): positions of prompts that have candidates, and the time that they
	 * cost, as in llm_at_stats on the engine's clock, and the host's for storing them. */
	uint64_t calibrated, layer_ns, head_ns, reduce_ns, store_ns;
	uint64_t reused; /* tokens that were kept of rejected drafts (3.4) */
	uint64_t bytes; /* memory of the drafter */
	uint64_t context_tokens, history_tokens; /* that it drafts from */
	/* Why there is no history; "": there is, or none was wanted. One line. */
	char history_error[512];
};
void llm_drafter_stats(const struct llm_drafter *drafter, struct llm_drafter_stats *stats);

/* ---- generation ------------------------------------------------------------------------------ */

/* A token that was just chosen, and the text that can be shown now. */
struct llm_generated {
	int32_t id; /* -1: no token, only the rest of the text */
	uint64_t n; /* tokens before it in this generation */
	uint64_t at_ns; /* when it was chosen, on the engine's clock */
	/* The library's, not NUL-terminated. It ends at the end of a character, so bytes of this
	 * token may come with a later one. Bytes that are not valid UTF-8 are passed unchanged. */
	const char *text;
	size_t text_bytes;
};

struct llm_generate_options {
	uint64_t max_tokens; /* 0: only evaluates the prompt. UINT64_MAX: no limit */
	struct llm_sampler *sampler; /* NULL: greedy, llm_argmax() */
	bool ignore_end; /* end tokens do not end the generation */
	/* Stop strings: the text ends before the first one in it, which may begin and end within
	 * tokens. Text that may be the beginning of one is held back until this is decided. */
	const char *const *stops;
	size_t nr_stops;
	/* Called with each token except an end token, before the session has it; non-zero ends the
	 * generation. If text is held back at the end, one more call passes it with id -1, unless
	 * a stop string or this function ended the generation: the text is dropped then. May be
	 * NULL. */
	int (*token)(void *ud, const struct llm_generated *token);
	void *ud;
	/* NULL, or room for max_tokens ids: all generated tokens, those of a stop string too. */
	int32_t *ids;
	/* NULL: one token after another. Otherwise several may be verified in a pass; everything
	 * else, results included, is as without. */
	struct llm_drafter *drafter;
};

/* Why a generation ended. */
enum llm_ended {
	LLM_ENDED_MAX = 0, /* max_tokens were generated */
	LLM_ENDED_TOKEN, /* an end token, which is not counted */
	LLM_ENDED_STRING, /* a stop string */
	LLM_ENDED_CALLBACK, /* the function token() */
	LLM_ENDED_CONTEXT, /* the context is full: there is no room for the last token */
};

struct llm_generate_result {
	enum llm_ended ended;
	size_t stop; /* LLM_ENDED_STRING: index of the stop string */
	uint64_t n_tokens;
	/* The token chosen last, which may be an end token. It has not been evaluated: to continue
	 * the session, put it in front of the next prompt. -1: no token was chosen. */
	int32_t last;
	/* Times on the engine's clock from the call until the prompt was evaluated, until the first
	 * token was chosen (0: none was), and until the end. */
	uint64_t prompt_ns, first_ns, total_ns;
};

/*
 * Appends the @n tokens of @prompt to the session, evaluates them, and generates tokens. @n may be
 * 0 if the session has logits. @result may be NULL; an error too fills it in, except for @ended.
 *
 * -EINVAL for an unknown id, an empty prompt without logits, an empty stop string, another engine's
 * drafter, or a sampler for a vocabulary of another size, -ENOSPC for a prompt that does not fit
 * into the context: nothing was evaluated then. After another error of llm_session_eval() the
 * session keeps the tokens evaluated before it.
 */
int llm_generate(struct llm_session *session, const int32_t *prompt, size_t n,
		 const struct llm_generate_options *opts, struct llm_generate_result *result);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* LLM_H */
