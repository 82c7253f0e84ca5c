// SPDX-License-Identifier: MIT
/*
 * Calibrating: evaluates a text with float weights, and observes the inputs of all matmuls, and
 * queries, keys and values. calibrate_heads.c finds which heads matter.
 *
 * shadow_stats.h says what is collected. A smoothed model is not made for that: its activations are
 * those of the original, divided by the factors.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate.h"
#include "engine.h"
#include "llm_calibration.h"
#include "llm_fail.h"
#include "shadow_stats.h"

struct calibrator {
	const struct llm_calibrate_options *opts;
	struct llm_calibration *result;
	struct llm_engine *engine;
	struct llm_session *session;
	struct shadow_stats stats;
	int32_t *ids;
	unsigned int window, n_windows;
	unsigned int run, n_runs; /* evaluations of the text */
	uint64_t done, all; /* windows, of those and for the importance of heads */
};

static const char *text_name(const struct llm_calibrate_options *o)
{
	return o->text_name ? o->text_name : "the text";
}

/* Whether the exponents of smoothing are searched. */
static bool searches(const struct llm_calibrate_options *o)
{
	return o->smooth == LLM_SMOOTH_AUTO || o->smooth == LLM_SMOOTH_WEIGHTS;
}

static int check(const struct llm_calibrate_options *o)
{
	if (!o->model)
		return llm_fail(-EINVAL, "no model to calibrate is given");
	if (!o->bytes)
		return llm_fail(-EINVAL, "%s: is empty; give a text to calibrate with",
				text_name(o));
	if (!(o->outlier_channels > 0 && o->outlier_channels < 1))
		return llm_fail(-EINVAL,
				"%g is no share of channels with outliers: above 0, below 1",
				o->outlier_channels);
	if (!(o->hot >= 0 && o->hot <= 1))
		return llm_fail(-EINVAL, "%g is no share of outliers in hot channels: 0 to 1",
				o->hot);
	if (!(o->pruning >= 0 && o->pruning <= 1))
		return llm_fail(-EINVAL, "%g is no share of inputs to prune: 0 to 1", o->pruning);
	if (!(o->smooth <= 1 || searches(o)))
		return llm_fail(-EINVAL, "%g is no exponent of smoothing: 0 to 1", o->smooth);
	if (searches(o) && !(o->smooth_bits >= 1 && o->smooth_bits <= 8))
		return llm_fail(-EINVAL, "smoothing for weights of %g bits: choose 1 to 8",
				o->smooth_bits);
	return 0;
}

/* With float weights, and full attention or the sparse one whose ratios are to be found. */
static int open_engine(const struct calibrator *c, enum llm_attention attention,
		       struct llm_engine **engine)
{
	const struct llm_options opts = {
		.model = c->opts->model,
		.choices = { .placement = LLM_PLACE_CPU,
			     .weights = LLM_WEIGHTS_F32,
			     .kv = LLM_KV_F32,
			     .attention = attention,
			     .ratios = LLM_RATIOS_UNIFORM },
		.sparse_from = 1,
		.threads = c->opts->threads,
		.chunk = SHADOW_CHUNK,
	};

	return llm_engine_open(&opts, engine);
}

static int open_session(struct calibrator *c)
{
	int err = open_engine(c, LLM_ATTENTION_FULL, &c->engine);

	if (err)
		return err;
	c->window = SHADOW_WINDOW;
	if (c->engine->info.n_ctx_train < c->window)
		c->window = c->engine->info.n_ctx_train;
	return llm_session_create(c->engine, c->window, &c->session);
}

/* Divides the text into windows, a rest is left out. */
static int divide(struct calibrator *c)
{
	const struct llm_calibrate_options *o = c->opts;
	const struct llm_engine_info *info = llm_engine_info(c->engine);
	long n = llm_tokenize(c->engine, o->text, o->bytes, LLM_TOKENIZE_BOS, NULL, 0);

	if (n < 0)
		return (int)n;
	if ((unsigned long)n < c->window)
		return llm_fail(-EINVAL, "%s: has %ld tokens, a window %u: give a longer text",
				text_name(o), n, c->window);
	c->ids = malloc((size_t)n * sizeof(*c->ids));
	if (!c->ids)
		return llm_fail(-ENOMEM, "no memory for %ld tokens", n);
	llm_tokenize(c->engine, o->text, o->bytes, LLM_TOKENIZE_BOS, c->ids, (size_t)n);
	if (o->max_tokens < c->window)
		return llm_fail(-EINVAL,
				"%u tokens to calibrate with are less than a window: allow %u",
				o->max_tokens, c->window);
	n = (unsigned long)n < o->max_tokens ? n : (long)o->max_tokens;
	c->n_windows = (unsigned int)n / c->window;
	for (unsigned int w = 0; info->add_bos && info->bos >= 0 && w < c->n_windows; w++)
		c->ids[(size_t)w * c->window] = info->bos;
	return 0;
}

static void on_tensor(void *ud, const char *tensor, unsigned int layer, unsigned int pos,
		      unsigned int rows, unsigned int cols, const float *data)
{
	/* The results that are an input, in the order of the inputs. */
	static const char *const names[SHADOW_INPUTS] = { "attn_norm", "attn", "ffn_norm", "act" },
				 *const attention[ATTENTION_TENSORS] = { "q_rope", "k_rope", "v" };
	struct calibrator *c = ud;

	for (unsigned int i = 0; i < SHADOW_INPUTS; i++)
		if (!strcmp(tensor, names[i]))
			shadow_stats_add(&c->stats, layer, i, rows, data);
	/* Two evaluations are enough: smoothing leaves them as they are. */
	for (enum attention_tensor t = 0; t < ATTENTION_TENSORS && c->run < 2; t++)
		if (!strcmp(tensor, attention[t]))
			attention_stats_add(&c->result->attention, t, layer, pos, rows, data);
}

/* calibrate_text.evaluated: some windows more were. */
static int report(void *ud, unsigned int windows, const char *what)
{
	struct calibrator *c = ud;

	c->done += windows;
	if (!c->opts->progress ||
	    !c->opts->progress(c->opts->ud, (double)c->done / (double)c->all, what))
		return 0;
	return llm_fail(-ECANCELED, "%s: calibration interrupted; nothing was written",
			c->opts->model);
}

/* Evaluates the whole text once. */
static int evaluate(struct calibrator *c)
{
	char what[64];
	int err = 0;

	for (unsigned int w = 0; !err && w < c->n_windows; w++) {
		err = llm_session_truncate(c->session, 0);
		if (!err)
			err = llm_session_eval(c->session, c->ids + (size_t)w * c->window,
					       c->window);
		if (!err && c->stats.failed)
			err = llm_fail(-ERANGE,
				       "%s: layer %u: the input of %s holds a value that is not "
				       "finite; is the model damaged?",
				       c->opts->model, c->stats.failed_layer,
				       shadow_input_names[c->stats.failed_input]);
		snprintf(what, sizeof(what), "calibrating: window %u of %u, %u of %u times", w + 1,
			 c->n_windows, c->run + 1, c->n_runs);
		if (!err)
			err = report(c, 1, what);
	}
	c->run++;
	return err;
}

static int smooth(struct calibrator *c)
{
	struct shadow_smooth *sm = &c->result->smooth;
	const struct llm_model *m = &c->engine->loaded.model;
	const struct llm_calibrate_options *o = c->opts;
	struct shadow_search aim = { o->smooth_bits, o->smooth == LLM_SMOOTH_WEIGHTS };
	int err = searches(o) ? shadow_smooth_search(sm, m, &c->stats, &aim)
			      : shadow_smooth_create(sm, m, &c->stats, o->smooth);

	if (err)
		return err;
	for (size_t i = 0; i < (size_t)sm->n_layer * SHADOW_INPUTS; i++)
		c->stats.inputs[i].divisors = sm->factors[i];
	shadow_stats_restart(&c->stats);
	return evaluate(c);
}

/* The first windows, by which the importance of heads is found. */
static unsigned int head_windows(const struct calibrator *c)
{
	unsigned int windows = c->opts->head_tokens / c->window;

	return windows < c->n_windows ? windows : c->n_windows;
}

/* And those behind them, with which the limits are chosen; if there are none, the same. */
static unsigned int limit_windows(const struct calibrator *c)
{
	unsigned int windows = head_windows(c), left = c->n_windows - windows;

	return left && left < windows ? left : windows;
}

static int collect(struct calibrator *c)
{
	const struct llm_model *m = &c->engine->loaded.model;
	struct llm_calibration *result = c->result;
	unsigned int per_window = (c->window + SHADOW_CHUNK - 1) / SHADOW_CHUNK;
	int err;

	for (unsigned int i = 0; i < SHADOW_INPUTS; i++)
		result->channels[i] = shadow_channels(m, i);
	result->n_tokens = c->n_windows * c->window;
	result->n_chunks = c->n_windows * per_window;
	err = attention_stats_create(&result->attention, m->n_layer, m->n_head, m->n_head_kv,
				     m->head_dim);
	if (!err)
		err = shadow_stats_create(&c->stats, m->n_layer, result->channels, result->n_chunks,
					  c->opts->outlier_channels);
	if (err)
		return err;
	llm_session_observe(c->session, on_tensor, c);
	c->n_runs = c->opts->smooth >= 0 ? 3 : 2;
	c->all = (uint64_t)c->n_runs * c->n_windows +
		 (uint64_t)head_windows(c) * calibrate_times(&result->attention) +
		 (uint64_t)limit_windows(c) * calibrate_limits_times();
	err = evaluate(c);
	if (!err)
		err = attention_stats_settle(&result->attention);
	if (!err && c->opts->smooth >= 0)
		err = smooth(c);
	if (!err) {
		shadow_stats_count(&c->stats);
		err = evaluate(c);
	}
	if (!err)
		err = shadow_stats_finish(&c->stats, c->opts->hot, &result->shadow);
	return err ? err : shadow_prune(&result->shadow, c->opts->pruning);
}

/* What heads and layers are worth. */
static int importance(struct calibrator *c)
{
	struct calibrate_text text = {
		.session = c->session,
		.ids = c->ids,
		.window = c->window,
		.n_windows = head_windows(c),
		.evaluated = report,
		.ud = c,
	};
	struct llm_engine *sparse;
	int err;

	llm_session_observe(c->session, NULL, NULL);
	if (!text.n_windows)
		return 0;
	err = calibrate_heads(&text, &c->result->attention);
	if (!err)
		err = open_engine(c, LLM_ATTENTION_SPARSE, &sparse);
	if (err)
		return err;
	err = llm_session_create(sparse, c->window, &text.session);
	if (!err)
		err = calibrate_gains(&text, &c->result->attention);
	if (c->n_windows > text.n_windows)
		text.ids += (size_t)text.n_windows * c->window;
	text.n_windows = limit_windows(c);
	if (!err)
		err = calibrate_limits(&text, &c->result->attention);
	llm_session_free(text.session);
	llm_engine_close(sparse);
	return err;
}

/* ---- the length of chunks ---- */

#define CHUNK_TOKENS 1024
#define MIN_CHUNK 32

/* What a prompt takes in such chunks. The calibration is not in the file yet, so the plan has a
 * scale per row: another operation for each value that is quantised. */
static int time_chunk(const struct llm_calibrate_options *o, unsigned int chunk, uint64_t *ns)
{
	const struct llm_options opts = {
		.model = o->model,
		.dry_run = true,
		.choices = { .placement = LLM_PLACE_LINEAR,
			     .weights = LLM_WEIGHTS_W8A8,
			     .activations = LLM_ACTIVATIONS_INT8,
			     .graphs = LLM_GRAPHS_SHARED },
		.profile = o->profile,
		.chunk = chunk,
	};
	struct llm_engine *engine;
	struct llm_session *s = NULL;
	int err = llm_engine_open(&opts, &engine);

	if (err)
		return err;
	err = llm_session_create(engine, CHUNK_TOKENS, &s);
	if (!err)
		err = llm_session_eval(s, NULL, CHUNK_TOKENS);
	if (!err)
		*ns = llm_session_now_ns(s);
	llm_session_free(s);
	llm_engine_close(engine);
	return err;
}

/* Of equally fast ones the shortest. */
static int choose_chunk(struct calibrator *c)
{
	uint64_t least = UINT64_MAX, ns;
	int err = 0;

	for (unsigned int chunk = MIN_CHUNK; chunk <= CHUNK_TOKENS && !err; chunk *= 2) {
		err = time_chunk(c->opts, chunk, &ns);
		if (err || ns >= least)
			continue;
		least = ns;
		c->result->chunk = chunk;
	}
	return err;
}

/* Inputs, and what smoothing folds factors into, are those of llama's layers. */
static int check_model(const struct calibrator *c)
{
	const struct llm_model *m = &c->engine->loaded.model;

	if (llm_model_is_plain(m))
		return 0;
	return llm_fail(-ENOTSUP,
			"%s: layers of a %s model%s are not calibrated, only those like llama's; "
			"choose activations without static scales",
			c->opts->model, m->arch, m->n_expert ? " with experts" : "");
}

int llm_calibrate(const struct llm_calibrate_options *opts, struct llm_calibration **calibration)
{
	struct calibrator c = { .opts = opts };
	int err = check(opts);

	*calibration = NULL;
	if (err)
		return err;
	c.result = calloc(1, sizeof(*c.result));
	if (!c.result)
		return llm_fail(-ENOMEM, "no memory for a calibration");
	err = open_session(&c);
	if (!err)
		err = check_model(&c);
	if (!err)
		err = divide(&c);
	if (!err && opts->profile)
		err = choose_chunk(&c);
	if (!err)
		err = collect(&c);
	if (!err)
		err = importance(&c);
	shadow_stats_free(&c.stats);
	free(c.ids);
	llm_session_free(c.session);
	llm_engine_close(c.engine);
	if (err)
		llm_calibration_free(c.result);
	else
		*calibration = c.result;
	return err;
}

void llm_calibration_free(struct llm_calibration *c)
{
	if (!c)
		return;
	shadow_free(&c->shadow);
	shadow_smooth_free(&c->smooth);
	attention_stats_free(&c->attention);
	free(c);
}

void llm_calibration_info(const struct llm_calibration *c, struct llm_calibration_info *info)
{
	*info = (struct llm_calibration_info){
		.n_inputs = c->shadow.n_layer * SHADOW_INPUTS,
		.n_tokens = c->n_tokens,
		.n_chunks = c->n_chunks,
		.chunk = c->chunk,
	};
	for (unsigned int i = 0; i < info->n_inputs; i++)
		info->n_kept += c->shadow.inputs[i].kept;
}

bool llm_calibration_input(const struct llm_calibration *c, unsigned int i,
			   struct llm_calibration_input *input)
{
	const struct shadow_input *in = &c->shadow.inputs[i];

	if (i >= c->shadow.n_layer * SHADOW_INPUTS)
		return false;
	*input = (struct llm_calibration_input){
		.layer = i / SHADOW_INPUTS,
		.name = shadow_input_names[i % SHADOW_INPUTS],
		.n_channels = c->channels[i % SHADOW_INPUTS],
		.scale = in->scale,
		.limit = in->limit,
		.importance = in->importance,
		.with_outliers = in->channels,
		.cold = in->cold,
		.n_hot = in->nr_hot,
		.kept = in->kept,
		.smooth = c->smooth.alphas ? c->smooth.alphas[i] : -1,
	};
	return true;
}
