/* SPDX-License-Identifier: MIT */
/* The internals of engines and sessions. */
#ifndef ENGINE_H
#define ENGINE_H

#include <stdatomic.h>

#include "attention.h"
#include "engine_text.h"
#include "llm.h"
#include "loaded.h"
#include "run.h"
#include "shadow.h"
#include "tokenizer.h"
#include "widths.h"

struct panels_cache;

struct llm_engine {
	struct llm_engine_info info;
	char *path;
	struct tokenizer *tok; /* NULL: a dry run of a shape */
	struct engine_text text;
	struct shape shape;
	struct llm_loaded loaded;
	/* Weights NATIVE of a file, and ADAPTIVE: each matmul has its own. */
	bool own_widths;
	struct llm_width widths[LLM_NR_OPS];
	struct shadow shadow; /* activations static and static-max; inputs NULL: neither */
	struct attention *attention; /* NULL: it is full */
	/* A dry run plans a file of adaptive weights, of so many bits on average; 0: not so. */
	double planned_bits;
	/* Of the weights, for the start: [nr_pieces]. */
	struct start_piece *pieces;
	uint32_t nr_pieces;
	struct panels_cache *cache; /* NULL: none */
	bool keep_mapped; /* the host reads the panels, too */
	bool dry_run; /* only a shape is loaded */
	struct npu_device *dev; /* NULL: no NPU is used */
	struct soc *soc; /* of the virtual clock; NULL: the wall clock */
	struct soc *cuts_soc; /* that matmuls are cut for on the wall clock */
	struct predictor *predictor, *gpu_predictor; /* of lane npu, and of gpu; NULL: none */
	unsigned int chunk; /* as asked for; 0: the default */
	float jitter; /* of the virtual clock's durations */
	uint64_t seed;
	/* The host's time for opening it: all of it; of that, the file, its tokenizer, and the
	 * device. */
	uint64_t open_ns, file_ns, tokenizer_ns, device_ns;
	/* Tests and experiments replace the solver (plan_options.cut) before a session is made. */
	void (*cut)(void *ud, const struct partition_options *o, uint32_t m, uint64_t k, uint64_t n,
		    struct cut *cut);
	void *cut_ud;
	/* Costs of token trees' widths, as the last drafter's generation has left them: the next
	 * drafter begins with them. 0: unknown. */
	_Atomic double widths_known[WIDTHS];
	atomic_uint refs; /* the caller's and one per session */
};

void llm_engine_put(struct llm_engine *engine);
/* Whether the choices can run the file's model, once devices are open. 0 or -ENOTSUP with the
 * error line. */
int engine_check_features(const struct llm_engine *engine);
/* Whether most of a file's weights are Q4_0, which the NPU uses as they are; and whether some are
 * of a block type that it has beside Q4_0. */
bool engine_has_q4(const struct llm_model *model);
bool engine_has_blocks(const struct llm_model *model);
/* The set of placements that have layers with experts, as llm_choices_file.placements. */
unsigned int engine_placements(const struct shape *shape);
/* Whether the settled choices have them. 0 or -ENOTSUP with the error line. */
int engine_check_experts(const struct llm_engine *engine);
/* Bytes of the loaded weights that a token's pass reads: of a layer's experts only its own. */
uint64_t engine_token_bytes(const struct llm_engine *engine);
uint64_t engine_now_ns(void); /* CLOCK_MONOTONIC */
/* Around each evaluation. Between them the cache of panels is made, once the weights are there. */
void llm_engine_busy(struct llm_engine *engine);
void llm_engine_idle(struct llm_engine *engine);

struct llm_session {
	struct llm_engine *engine;
	unsigned int n_ctx, n_past;
	struct lane_memory memory; /* not used in a dry run */
	struct pass_runner runner;
	bool has_logits;
	struct {
		llm_pass_fn fn; /* NULL: none */
		void *ud;
	} listener;
	uint64_t create_ns; /* the host's time for creating it */
	struct llm_session_stats stats;
	struct lane_tree tree; /* evaluated behind n_past; n 0: there is none to keep */
	struct llm_breakdown breakdowns[2]; /* of prompts, and of tokens */
	bool last_was_token; /* the last evaluation was of one token */
};

/* Whether @n tokens can be evaluated: 0, -EINVAL or -ENOSPC with the error line. */
int session_check(const struct llm_session *s, const int32_t *ids, size_t n);
/* Checks and evaluates @pass behind the session's tokens, which stay as they are: 0 or -errno with
 * the error line. The session has no logits then, and no tree. */
int session_pass(struct llm_session *s, struct pass *pass);
/* The same, and the pass's tokens become the session's. */
int session_run(struct llm_session *s, struct pass *pass);
/* Whether its sessions can verify trees of guesses: 0, or -ENOTSUP with the error line. */
int engine_check_trees(const struct llm_engine *e);
/* Choosing a token after the last evaluation took @ns. */
void session_count_sampling(struct llm_session *s, uint64_t ns);

#endif /* ENGINE_H */
