/* SPDX-License-Identifier: MIT */
/*
 * Engines: a model file, its tokenizer, the CPU lane's threads and the device, opened together or
 * not at all.
 *
 * Placement cpu loads nothing: matmuls read the matrices from the mapped file. For the NPU
 * llm_engine_open() quantises and packs them (model/packed.h).
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpus.h"
#include "engine.h"
#include "gpu.h"
#include "gpu_lane.h"
#include "llm_fail.h"
#include "panels_cache.h"
#include "shadow_weights.h"
#include "start.h"

/* How long an idle thread polls for its next loop; not at all with a device, which may need the
 * CPUs (transport sim); but a little with experts, as tokens are the CPU lane's alone then. */
#define CPU_SPIN_US 50
#define EXPERTS_SPIN_US 10

uint64_t engine_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Settles the choices left to auto by the file; a dry run of a shape has none. */
static int engine_settle(struct llm_engine *e, const struct llm_options *opts)
{
	const struct llm_model *m = &e->loaded.model;
	bool virtual_clock = opts->profile || opts->dry_run;
	struct llm_choices_file file = { .path = e->path };
	int packed;

	/* A dry run plans the weights asked for, even if the file's could not run with them. */
	if (!opts->model || (opts->dry_run && opts->choices.weights != LLM_WEIGHTS_AUTO))
		return llm_choices_settle(&opts->choices, NULL, virtual_clock, &e->info.choices);
	packed = m->packed[0] ? llm_choice_parse(LLM_CHOICE_WEIGHTS, m->packed) : LLM_WEIGHTS_AUTO;
	if (packed < 0 || (m->packed[0] && !llm_weights_packed((enum llm_weights)packed)))
		return llm_fail(-ENOTSUP, "%s: packed for unknown weights '%s'", e->path,
				m->packed);
	file.packed = (enum llm_weights)packed;
	file.q4 = engine_has_q4(m);
	file.blocks = engine_has_blocks(m);
	file.placements = engine_placements(&e->shape);
	return llm_choices_settle(&opts->choices, &file, virtual_clock, &e->info.choices);
}

static int engine_read(struct llm_engine *e)
{
	struct llm_loaded *l = &e->loaded;
	uint64_t from_ns = engine_now_ns();
	char line[256];
	int err;

	err = gguf_open(e->path, &l->file, line, sizeof(line));
	if (err)
		return llm_fail(err, "%s", line);
	err = llm_model_read(&l->model, l->file, e->path);
	if (err)
		return err;
	e->file_ns = engine_now_ns() - from_ns;
	err = tokenizer_create(l->file, &e->tok, line, sizeof(line));
	e->tokenizer_ns = engine_now_ns() - from_ns - e->file_ns;
	if (err)
		return llm_fail(err, "%s: %s", e->path, line);
	if (tokenizer_n_vocab(e->tok) > l->model.n_vocab)
		return llm_fail(-EINVAL,
				"%s: %zu tokens in the vocabulary, %u rows in token_embd.weight",
				e->path, tokenizer_n_vocab(e->tok), l->model.n_vocab);
	return 0;
}

static void engine_describe(struct llm_engine *e)
{
	const struct llm_model *m = &e->loaded.model;
	struct llm_engine_info *info = &e->info;
	const char *name;
	size_t bytes;

	snprintf(info->arch, sizeof(info->arch), "%s", m->arch);
	if (!gguf_string(e->loaded.file, "general.name", &name, &bytes))
		snprintf(info->name, sizeof(info->name), "%.*s", bytes < 64 ? (int)bytes : 64,
			 name);
	llm_model_type(m, e->loaded.file, info->type, sizeof(info->type));
	info->n_params = m->n_params;
	info->n_params_active = m->n_params_active;
	info->file_bytes = m->file_bytes;
	info->n_layer = m->n_layer;
	info->n_embd = m->n_embd;
	info->n_head = m->n_head;
	info->n_head_kv = m->n_head_kv;
	info->head_dim = m->head_dim;
	info->n_ff = m->n_ff;
	info->n_vocab = m->n_vocab;
	info->n_ctx_train = m->n_ctx_train;
	info->n_ctx_covered = m->n_ctx_covered;
	info->bos = tokenizer_bos(e->tok);
	info->eos = tokenizer_eos(e->tok);
	info->add_bos = tokenizer_adds_bos(e->tok);
	info->vocab_warning = tokenizer_warning(e->tok);
}

/* Called after the weights are packed. The virtual clock models a GPU even without OpenCL. */
static int engine_load_gpu(struct llm_engine *e, const struct llm_options *opts)
{
	int err;

	if (opts->gpu && !strcmp(opts->gpu, LLM_GPU_HOST)) {
		e->info.gpu = LLM_GPU_HOST;
		return 0;
	}
	err = llm_gpu_open(opts->gpu, NULL, &e->loaded.gpu);
	if (err == -ENODEV && e->soc && !opts->gpu)
		return 0;
	if (err == -ENODEV)
		return llm_fail(err,
				"placement %s: %s; or --clock virtual, which has a GPU of its own",
				llm_choice_name(LLM_CHOICE_PLACEMENT, e->info.choices.placement),
				llm_error());
	if (err)
		return err;
	e->info.gpu = llm_gpu_info(e->loaded.gpu)->name;
	return lane_gpu_load(&e->loaded);
}

/* The scale of each input in a slot of its own, for bindings. */
static int engine_load_scales(struct llm_engine *e)
{
	bool max = e->info.choices.activations == LLM_ACTIVATIONS_STATIC_MAX;
	size_t n = (size_t)e->shadow.n_layer * SHADOW_INPUTS;
	uint8_t *slots;
	int err = npu_buffer_create(e->loaded.ctx, n * LLM_SCALE_BYTES, NPU_BUFFER_DEVICE_READ_ONLY,
				    &e->loaded.scales);

	if (err)
		return llm_fail(err, "%s: scales of activations: %s", e->path, npu_error());
	slots = npu_buffer_data(e->loaded.scales);
	for (size_t i = 0; i < n; i++) {
		const struct shadow_input *in = &e->shadow.inputs[i];
		float scale = max ? in->limit / 127 : in->scale;

		memcpy(slots + i * LLM_SCALE_BYTES, &scale, sizeof(scale));
	}
	return 0;
}

/* What the lanes need of a file's calibration. */
static int engine_load_outliers(struct llm_engine *e)
{
	int err;

	if (!llm_activations_static(e->info.choices.activations))
		return 0;
	e->loaded.shadow = &e->shadow;
	err = engine_load_scales(e);
	if (err || e->info.choices.activations == LLM_ACTIVATIONS_STATIC_MAX)
		return err;
	return shadow_weights_create(&e->shadow, &e->loaded.model, e->loaded.file, e->path,
				     &e->loaded.shadow_weights);
}

/* The pieces in which weights are loaded. Those that a dry run only plans are a shape's. */
static int engine_cut(struct llm_engine *e)
{
	enum llm_weights weights = e->info.choices.weights;
	bool of_file = e->path && !(e->planned_bits > 0);
	struct llm_width widths[LLM_NR_OPS];

	for (unsigned int op = 0; op < LLM_NR_OPS; op++) {
		widths[op] = e->own_widths ? e->widths[op] : llm_weights_width(weights);
		if (e->planned_bits > 0 && op != LLM_OP_HEAD)
			widths[op].bits = e->planned_bits;
	}
	e->pieces = start_pieces(of_file ? &e->loaded.model : NULL, weights, &e->shape, widths,
				 &e->nr_pieces);
	return e->pieces ? 0 : llm_fail(-ENOMEM, "no memory for a list of the weights");
}

/* Fills the NPU's buffers, or only begins to, for the first pass to go on with. */
static int engine_load_weights(struct llm_engine *e, const struct llm_packed_source *src)
{
	int err = llm_packed_create(&e->loaded.packed, src);

	if (!err)
		err = start_open(src, e->pieces, e->nr_pieces, &e->loaded.packed, &e->loaded.start);
	if (!err && e->info.choices.start == LLM_START_WARM)
		err = start_finish(e->loaded.start);
	return err;
}

/* Looks for a cache of the model's panels, if there is to be one. */
static int engine_open_cache(struct llm_engine *e, const struct llm_options *opts)
{
	struct llm_loaded *l = &e->loaded;

	if (!opts->panels_cache_bytes)
		return 0;
	if (l->model.packed[0])
		return llm_fail(-EINVAL,
				"%s: is packed already, and needs no cache of panels: leave it out",
				e->path);
	return panels_cache_open(&l->model, l->file, e->path, e->info.choices.weights,
				 opts->panels_cache_bytes, &e->cache);
}

/* The file that has the matrices. */
static void engine_set_file(const struct llm_engine *e, struct llm_packed_source *src)
{
	src->cache = e->cache && panels_cache_file(e->cache);
	src->file = src->cache ? panels_cache_file(e->cache) : e->loaded.file;
	src->path = src->cache ? panels_cache_path(e->cache) : e->path;
}

static int engine_load_npu(struct llm_engine *e, const struct llm_options *opts)
{
	struct llm_packed_source src = {
		.model = &e->loaded.model,
		.weights = e->info.choices.weights,
		.activations = e->info.choices.activations,
		.pool = e->loaded.pool,
		.kernels = e->loaded.kernels,
		.keep_mapped = e->keep_mapped || (e->cache && panels_cache_is_due(e->cache)),
		/* A warm start has the time to fill huge pages, which decoding reads faster. */
		.in_place = e->info.choices.start == LLM_START_COLD,
		/* A cold start goes on when the caller's function may be gone. */
		.progress = e->info.choices.start == LLM_START_WARM ? opts->progress : NULL,
		.ud = opts->ud,
	};
	struct npu_device_options device = opts->device;
	uint64_t from_ns = engine_now_ns();
	int err;

	engine_set_file(e, &src);
	if (e->loaded.model.n_embd % LLM_EMBD_VALUES)
		return llm_fail(
			-ENOTSUP,
			"%s: an embedding of %u is not a multiple of %d, which the NPU's graphs "
			"need; choose placement cpu",
			e->path, e->loaded.model.n_embd, LLM_EMBD_VALUES);
	/* The device models the same SoC as the virtual clock. */
	if (!device.profile)
		device.profile = opts->profile;
	err = npu_device_open(&device, &e->dev);
	if (!err)
		err = npu_context_create(e->dev, &e->loaded.ctx);
	if (err)
		return llm_fail(err, "%s", npu_error());
	e->device_ns = engine_now_ns() - from_ns;
	e->info.device = e->loaded.device = npu_device_info(e->dev);
	src.ctx = e->loaded.ctx;
	err = engine_load_weights(e, &src);
	e->info.weight_bytes = e->loaded.packed.weight_bytes;
	err = err ? err : engine_load_outliers(e);
	if (!err && llm_placement_has_gpu(e->info.choices.placement))
		err = engine_load_gpu(e, opts);
	return err;
}

static int engine_load_cpu(struct llm_engine *e, const struct llm_options *opts)
{
	const struct llm_model *m = &e->loaded.model;

	e->info.weight_bytes = m->output->bytes;
	for (unsigned int i = 0; i < m->n_layer; i++) {
		for (int w = 0; w < LLM_NR_MATRICES; w++)
			if (m->layers[i].matrix[w])
				e->info.weight_bytes += m->layers[i].matrix[w]->bytes;
	}
	if (opts->progress && opts->progress(opts->ud, 1.0, "mapped"))
		return llm_fail(-ECANCELED, "%s: loading was stopped", e->path);
	return 0;
}

/* One file, whose lane says what it is for. */
static int engine_load_predictor(struct llm_engine *e, const char *path)
{
	struct predictor_info info;
	struct predictor *p, **to;
	char why[512];
	int err = predictor_load(path, &p, why, sizeof(why));

	if (err)
		return llm_fail(err, "%s", why);
	predictor_info(p, &info);
	to = info.lane == SOC_GPU ? &e->gpu_predictor : &e->predictor;
	if (info.lane == SOC_CPU)
		err = llm_fail(-EINVAL,
			       "%s: predicts lane cpu; plans ask for npu and gpu: make one with "
			       "npu-profile fit --lane npu",
			       path);
	else if (*to)
		err = llm_fail(-EINVAL, "%s: a second predictor of lane %s; give one of each", path,
			       soc_lane_name(info.lane));
	if (err)
		predictor_free(p);
	else
		*to = p;
	return err;
}

static int engine_load_predictors(struct llm_engine *e, const char *paths)
{
	char *copy = strdup(paths), *rest = copy, *path;
	int err = copy ? 0 : llm_fail(-ENOMEM, "no memory for the names of predictors");

	while (!err && (path = strsep(&rest, ",")))
		err = engine_load_predictor(e, path);
	free(copy);
	return err;
}

static_assert((int)LLM_CORES_LITTLE == (int)SOC_CORES_LITTLE &&
		      (int)LLM_CORES_FOUR == (int)SOC_CORES_FOUR,
	      "the choice is soc.h's");

static int engine_load_profiles(struct llm_engine *e, const struct llm_options *opts)
{
	const char *cuts = opts->cuts_profile ? opts->cuts_profile : "host";
	char why[512] = "";

	if (opts->profile) {
		e->soc = soc_load(opts->profile, why, sizeof(why));
		e->info.profile = e->soc ? e->soc->name : NULL;
		if (e->soc && soc_use_cores(e->soc, (enum soc_cores)e->info.choices.cores))
			return llm_fail(-EINVAL, "profile %s has no %s core", e->soc->name,
					llm_choice_name(LLM_CHOICE_CORES, e->info.choices.cores));
	} else if (e->info.choices.placement == LLM_PLACE_LAYER) {
		e->cuts_soc = soc_load(cuts, why, sizeof(why));
	}
	if (why[0])
		return llm_fail(-EINVAL, "%s", why);
	if (opts->dry_run && !opts->profile)
		return llm_fail(-EINVAL, "a dry run needs a profile for its times");
	return opts->predictor ? engine_load_predictors(e, opts->predictor) : 0;
}

/* plan_chunk() knows the placement's default chunk. */
static void engine_set_chunk(struct llm_engine *e, unsigned int given)
{
	const struct plan_options o = { .choices = e->info.choices, .chunk = given };

	e->chunk = given;
	e->info.chunk = plan_chunk(&o, UINT32_MAX / 2);
}

static int engine_set_blocks(struct llm_engine *e, const struct llm_options *opts)
{
	if (e->info.choices.switching == LLM_SWITCHING_NONE)
		return 0;
	e->info.decode_width = opts->decode_width;
	e->info.block_layers = opts->block_layers;
	return blocks_settle(e->info.chunk, e->shape.layers, &e->info.decode_width,
			     &e->info.block_layers);
}

static struct shape shape_of(const struct llm_model *m)
{
	return (struct shape){
		.layers = m->n_layer,
		.dim = m->n_embd,
		.heads = m->n_head,
		.kv_heads = m->n_head_kv,
		.head_dim = m->head_dim,
		.ffn = m->n_ff,
		.vocab = m->n_vocab,
		.activation = m->features->activation,
		.gated = llm_model_gated(m),
		.tied = m->output == m->token_embd,
		.norms_behind = m->features->norms != LLM_NORMS_BEFORE,
		.no_norms_before = m->features->norms == LLM_NORMS_AFTER,
		.parallel = m->parallel,
		.window = m->window,
		.window_step = m->features->window_step,
		.experts = m->n_expert,
		.experts_used = m->n_expert_used,
		.shared_ffn = m->n_ff_shared,
	};
}

static int engine_load_shape(struct llm_engine *e, const char *name)
{
	const struct shape *s = &e->shape;
	int err = shape_load(name, &e->shape);

	if (err)
		return err;
	snprintf(e->info.type, sizeof(e->info.type), "%s", s->name);
	e->info.n_params = shape_params(s);
	e->info.n_params_active = shape_active_params(s);
	e->info.n_layer = s->layers;
	e->info.n_embd = s->dim;
	e->info.n_head = s->heads;
	e->info.n_head_kv = s->kv_heads;
	e->info.head_dim = s->head_dim;
	e->info.n_ff = s->ffn;
	e->info.n_vocab = s->vocab;
	e->info.bos = e->info.eos = -1;
	return 0;
}

static int engine_load_file(struct llm_engine *e, const struct llm_options *opts)
{
	int err;

	e->path = strdup(opts->model);
	if (!e->path)
		return llm_fail(-ENOMEM, "no memory for an engine");
	err = engine_read(e);
	if (err)
		return err;
	engine_describe(e);
	e->shape = shape_of(&e->loaded.model);
	return 0;
}

/* The file's calibration; a shape has none, but a plan that stands for the paper's models. */
static int engine_read_shadow(struct llm_engine *e, const struct llm_options *opts)
{
	double pruning = opts->pruning > 0 ? (double)opts->pruning
			 : opts->pruning   ? 0
			 : opts->model	   ? SHADOW_AS_WRITTEN
					   : SHADOW_PRUNING;

	if (e->info.choices.activations == LLM_ACTIVATIONS_STATIC_MAX)
		pruning = 1;
	if (!opts->model)
		return shadow_guess(&e->shadow, &e->shape, pruning);
	return shadow_read(&e->shadow, &e->loaded.model, e->loaded.file, e->path, pruning);
}

static int engine_make_attention(struct llm_engine *e, const struct llm_options *opts)
{
	const struct attention_options o = {
		.shape = &e->shape,
		.choices = &e->info.choices,
		.file = e->loaded.file,
		.path = e->path,
		.ratio = opts->ratio != 0 ? opts->ratio : LLM_SPARSE_RATIO,
		.from = opts->sparse_from ? opts->sparse_from : LLM_SPARSE_FROM,
		.buckets = opts->scale_buckets ? opts->scale_buckets : SCALE_BUCKETS_DEFAULT,
		.step = opts->scale_step != 0 ? (double)opts->scale_step : SCALE_BUCKETS_SIGMA,
	};
	int err = attention_create(&o, &e->attention);

	e->loaded.attention = e->attention;
	return err;
}

/* Of the file of adaptive weights that a dry run plans in place of what there is. */
static double planned_bits(const struct llm_engine *e, const struct llm_options *opts)
{
	enum llm_weights weights = e->info.choices.weights;

	if (!opts->dry_run || !strcmp(e->loaded.model.packed, LLM_PACKED_ADAPTIVE))
		return 0;
	if (opts->bits > 0)
		return weights == LLM_WEIGHTS_ADAPTIVE || weights == LLM_WEIGHTS_W8A8
			       ? (double)opts->bits
			       : 0;
	return weights == LLM_WEIGHTS_ADAPTIVE ? LLM_ADAPTIVE_BITS : 0;
}

/* The widths of the matmuls' weights, and their bytes. */
static int engine_widths(struct llm_engine *e, const struct llm_options *opts)
{
	enum llm_weights weights = e->info.choices.weights;
	const struct llm_model *m = &e->loaded.model;

	e->own_widths =
		weights == LLM_WEIGHTS_ADAPTIVE || (opts->model && weights == LLM_WEIGHTS_NATIVE);
	e->planned_bits = planned_bits(e, opts);
	e->info.weight_bytes = llm_shape_weight_bytes(&e->shape, weights);
	if (weights == LLM_WEIGHTS_ADAPTIVE && e->planned_bits > 0) {
		for (unsigned int op = 0; op < LLM_NR_OPS; op++)
			e->widths[op].bits = op == LLM_OP_HEAD ? 8 : e->planned_bits;
		e->info.weight_bytes = llm_shape_adaptive_bytes(&e->shape, e->planned_bits);
	} else if (e->own_widths) {
		e->info.weight_bytes = llm_matmul_widths(m, weights, e->widths);
	}
	if (!opts->model)
		e->info.file_bytes = e->planned_bits > 0
					     ? llm_shape_adaptive_bytes(&e->shape, e->planned_bits)
					     : e->info.weight_bytes;
	return 0;
}

static unsigned int spin_us(const struct llm_engine *e, bool npu)
{
	if (!npu)
		return CPU_SPIN_US;
	return e->shape.experts ? EXPERTS_SPIN_US : 0;
}

/* Loads what the settled choices need: profiles, threads, packed weights, devices. */
static int engine_load(struct llm_engine *e, const struct llm_options *opts)
{
	bool npu = llm_placement_has_npu(e->info.choices.placement);
	struct llm_loaded *l = &e->loaded;
	int err = engine_load_profiles(e, opts);

	if (!err)
		err = engine_open_cache(e, opts);
	if (!err)
		err = engine_widths(e, opts);
	e->info.kv_token_bytes = llm_shape_kv_bytes(&e->shape, 1, e->info.choices.kv);
	if (!err && llm_activations_static(e->info.choices.activations))
		err = engine_read_shadow(e, opts);
	if (!err)
		err = engine_make_attention(e, opts);
	engine_set_chunk(e, opts->chunk ? opts->chunk : e->shadow.chunk);
	if (!err)
		err = engine_set_blocks(e, opts);
	/* The CPU may take matmuls of a modelled NPU that has no room for them, or of one whose
	 * queue is long; experts are its own. */
	e->keep_mapped = llm_placement_has_gpu(e->info.choices.placement) ||
			 e->info.choices.space == LLM_SPACE_LIMITED ||
			 e->info.choices.order == LLM_ORDER_STEAL || e->shape.experts;
	if (!err && npu)
		err = engine_cut(e);
	if (err || opts->dry_run)
		return err;
	if (e->info.choices.attention == LLM_ATTENTION_NPU && l->model.head_dim % 16)
		return llm_fail(-ENOTSUP,
				"%s: heads of %u values; attention npu needs a multiple of 16, "
				"choose shadow or full",
				e->path, l->model.head_dim);
	if (e->info.choices.kv == LLM_KV_Q8_0 && l->model.head_dim % VNPU_Q8_0_VALUES)
		return llm_fail(
			-EINVAL,
			"%s: heads of %u values; a KV cache of q8_0 needs a multiple of %d, choose "
			"f16 or f32",
			e->path, l->model.head_dim, VNPU_Q8_0_VALUES);
	e->info.threads = opts->threads ? opts->threads : host_threads();
	if (e->info.threads > LLM_MAX_THREADS)
		e->info.threads = LLM_MAX_THREADS;
	l->path = e->path;
	l->threads = e->info.threads;
	l->kv = e->info.choices.kv;
	e->info.kv_token_bytes =
		2ull * l->model.n_layer * VNPU_KV_BYTES(llm_kv_type(l->kv), l->model.kv_dim);
	l->sync = e->info.choices.sync;
	l->operands = e->info.choices.operands;
	l->pool = llm_pool_create(l->threads, spin_us(e, npu));
	if (!l->pool)
		return llm_fail(-ENOMEM, "no memory for %u threads, or too many", l->threads);
	err = npu ? engine_load_npu(e, opts) : engine_load_cpu(e, opts);
	e->info.token_bytes = err ? 0 : engine_token_bytes(e);
	return err ? err : engine_check_features(e);
}

int llm_engine_open(const struct llm_options *opts, struct llm_engine **engine)
{
	uint64_t from_ns = engine_now_ns();
	struct llm_engine *e;
	int err = llm_options_check(opts);

	*engine = NULL;
	if (err)
		return err;
	e = calloc(1, sizeof(*e));
	if (!e)
		return llm_fail(-ENOMEM, "no memory for an engine");
	atomic_init(&e->refs, 1);
	engine_text_init(&e->text);
	e->loaded.kernels = cpu_kernels_get(NULL);
	e->loaded.sparse = cpu_sparse_get(NULL);
	e->loaded.floats = fw_kernels_get(FW_ISA_AUTO);
	e->dry_run = opts->dry_run;
	e->jitter = opts->jitter;
	e->seed = opts->seed;
	if (opts->model)
		err = engine_load_file(e, opts);
	err = err ? err : engine_settle(e, opts);
	if (!err && !opts->model)
		err = engine_load_shape(e, opts->shape);
	err = err ? err : engine_check_experts(e);
	err = err ? err : engine_load(e, opts);
	if (err) {
		llm_engine_put(e);
		return err;
	}
	e->open_ns = engine_now_ns() - from_ns;
	*engine = e;
	return 0;
}

void llm_engine_put(struct llm_engine *e)
{
	if (!e || atomic_fetch_sub(&e->refs, 1) > 1)
		return;
	start_close(e->loaded.start);
	panels_cache_close(e->cache);
	free(e->pieces);
	lane_gpu_unload(&e->loaded);
	llm_packed_free(&e->loaded.packed);
	shadow_weights_free(e->loaded.shadow_weights);
	if (e->loaded.scales)
		npu_buffer_free(e->loaded.scales);
	shadow_free(&e->shadow);
	attention_free(e->attention);
	if (e->loaded.ctx)
		npu_context_free(e->loaded.ctx);
	if (e->dev)
		npu_device_close(e->dev);
	llm_pool_free(e->loaded.pool);
	soc_free(e->soc);
	soc_free(e->cuts_soc);
	predictor_free(e->predictor);
	predictor_free(e->gpu_predictor);
	engine_text_fini(&e->text);
	if (e->tok)
		tokenizer_free(e->tok);
	llm_model_release(&e->loaded.model);
	if (e->loaded.file)
		gguf_close(e->loaded.file);
	free(e->path);
	free(e);
}

void llm_engine_close(struct llm_engine *engine)
{
	llm_engine_put(engine);
}

void llm_engine_busy(struct llm_engine *e)
{
	if (e->cache)
		panels_cache_busy(e->cache);
}

void llm_engine_idle(struct llm_engine *e)
{
	if (!e->cache)
		return;
	panels_cache_idle(e->cache);
	if (start_is_complete(e->loaded.start))
		panels_cache_make(e->cache, &e->loaded.packed, e->keep_mapped);
}

void llm_engine_panels_cache(struct llm_engine *engine, bool wait, struct llm_panels_cache *cache)
{
	*cache = (struct llm_panels_cache){ 0 };
	if (engine->cache)
		*cache = panels_cache_info(engine->cache, wait);
}

const char *llm_panels_state_name(enum llm_panels_state state)
{
	static const char *const names[] = {
		[LLM_PANELS_NONE] = "none", [LLM_PANELS_FOUND] = "found",
		[LLM_PANELS_DUE] = "due",   [LLM_PANELS_MAKING] = "making",
		[LLM_PANELS_MADE] = "made", [LLM_PANELS_FAILED] = "failed",
	};

	return names[state];
}

const struct llm_engine_info *llm_engine_info(const struct llm_engine *engine)
{
	return &engine->info;
}

struct npu_device *llm_engine_device(const struct llm_engine *engine)
{
	return engine->dev;
}

bool llm_has_gpu(void)
{
	unsigned int n;

	return !llm_gpu_list(NULL, 0, &n) && n;
}
