/* SPDX-License-Identifier: MIT */
/*
 * Engines: a model file, its tokenizer, the CPU lane's threads and the device, opened together or not at all.
 *
 * On the CPU nothing is loaded: the matrices are read from the mapped file when they are used. For the NPU they are
 * quantised and packed now (quant.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "hetero.h"
#include "llm_fail.h"

#define DEFAULT_CHUNK 256
/* Placements gpu and layer take a prompt whole, as far as memory is no matter. */
#define DEFAULT_LAYER_CHUNK 2048
/* How long an idle thread polls for its next loop. With a device the CPUs may be its own (sim), so it sleeps at once. */
#define CPU_SPIN_US 50

/* The numbers among the options. */
static int engine_check(const struct llm_options *opts)
{
	if (!opts->model)
		return llm_fail(-EINVAL, "no model file given");
	if (!(opts->gpu_share >= 0 && opts->gpu_share <= 1))
		return llm_fail(-EINVAL, "a GPU's share of %g; it is from 0 to 1", (double)opts->gpu_share);
	if (opts->gpu_share > 0 && opts->choices.partition == LLM_PARTITION_NONE)
		return llm_fail(-EINVAL, "a GPU's share without a partition; choose placement layer and partition row, "
					 "sequence, multi-sequence or hybrid");
	if (opts->threads > LLM_MAX_THREADS)
		return llm_fail(-EINVAL, "%u threads; at most %u are possible", opts->threads,
				LLM_MAX_THREADS);
	if (opts->chunk > LLM_MAX_CHUNK)
		return llm_fail(-EINVAL, "a chunk of %u tokens; at most %u are possible",
				opts->chunk, LLM_MAX_CHUNK);
	return 0;
}

/* Whether most of a file's weights have 4 bits: on the NPU they are computed with as they are. */
static bool engine_q4(const struct llm_model *m)
{
	uint64_t bytes = 0, q4 = 0;

	for (unsigned int i = 0; i < m->n_layer; i++) {
		for (int w = 0; w < LLM_NR_MATRICES; w++) {
			bytes += m->layers[i].matrix[w]->bytes;
			q4 += m->layers[i].matrix[w]->type == GGUF_Q4_0 ? m->layers[i].matrix[w]->bytes : 0;
		}
	}
	return q4 > bytes / 2;
}

/* Settles what the options leave open, by what the file is. */
static int engine_settle(struct llm_engine *e, const struct llm_options *opts)
{
	const struct llm_model *m = &e->model;
	struct llm_choices_file file = { .path = e->path, .q4 = engine_q4(m) };
	struct llm_engine_info *info = &e->info;
	int packed =
		m->packed[0] ? llm_choice_parse(LLM_CHOICE_WEIGHTS, m->packed) : LLM_WEIGHTS_AUTO;
	int err;

	if (packed < 0 || (m->packed[0] && !llm_weights_packed((enum llm_weights)packed)))
		return llm_fail(-ENOTSUP, "%s: packed for weights '%s', which are not known",
				e->path, m->packed);
	file.packed = (enum llm_weights)packed;
	err = llm_choices_settle(&opts->choices, &file, opts->profile != NULL, &info->choices);
	if (err)
		return err;
	if (info->choices.kv == LLM_KV_Q8_0 && m->head_dim % VNPU_Q8_0_VALUES)
		return llm_fail(-EINVAL,
				"%s: heads of %u values; a KV cache of q8_0 needs a multiple of "
				"%d, choose f16 or f32",
				e->path, m->head_dim, VNPU_Q8_0_VALUES);
	info->threads = opts->threads ? opts->threads : llm_pool_cpus();
	if (info->threads > LLM_MAX_THREADS)
		info->threads = LLM_MAX_THREADS;
	info->chunk = opts->chunk				       ? opts->chunk
		      : llm_placement_has_gpu(info->choices.placement) ? DEFAULT_LAYER_CHUNK
								       : DEFAULT_CHUNK;
	return 0;
}

static int engine_read(struct llm_engine *e, const struct llm_options *opts)
{
	char line[256];
	int err;

	err = gguf_open(e->path, &e->file, line, sizeof(line));
	if (err)
		return llm_fail(err, "%s", line);
	err = llm_model_read(&e->model, e->file, e->path);
	if (!err)
		err = engine_settle(e, opts);
	if (err)
		return err;
	err = tokenizer_create(e->file, &e->tok, line, sizeof(line));
	if (err)
		return llm_fail(err, "%s: %s", e->path, line);
	if (tokenizer_n_vocab(e->tok) > e->model.n_vocab)
		return llm_fail(-EINVAL,
				"%s: %zu tokens in the vocabulary, %u rows in token_embd.weight",
				e->path, tokenizer_n_vocab(e->tok), e->model.n_vocab);
	return 0;
}

static void engine_describe(struct llm_engine *e)
{
	const struct llm_model *m = &e->model;
	struct llm_engine_info *info = &e->info;
	const char *name;
	size_t bytes;

	snprintf(info->arch, sizeof(info->arch), "%s", m->arch);
	if (!gguf_string(e->file, "general.name", &name, &bytes))
		snprintf(info->name, sizeof(info->name), "%.*s", bytes < 64 ? (int)bytes : 64, name);
	llm_model_type(m, e->file, info->type, sizeof(info->type));
	info->n_params = m->n_params;
	info->file_bytes = m->file_bytes;
	info->n_layer = m->n_layer;
	info->n_embd = m->n_embd;
	info->n_head = m->n_head;
	info->n_head_kv = m->n_head_kv;
	info->head_dim = m->head_dim;
	info->n_ff = m->n_ff;
	info->n_vocab = m->n_vocab;
	info->n_ctx_train = m->n_ctx_train;
	info->bos = tokenizer_bos(e->tok);
	info->eos = tokenizer_eos(e->tok);
	info->add_bos = tokenizer_adds_bos(e->tok);
}

/* After the weights are packed. Without OpenCL the virtual clock has a GPU all the same. */
static int engine_load_gpu(struct llm_engine *e, const struct llm_options *opts)
{
	int err;

	if (opts->gpu && !strcmp(opts->gpu, LLM_GPU_HOST)) {
		e->info.gpu = LLM_GPU_HOST;
		return 0;
	}
	err = llm_gpu_open(opts->gpu, NULL, &e->gpu);
	if (err == -ENODEV && e->profile && !opts->gpu)
		return 0;
	if (err == -ENODEV)
		return llm_fail(err,
				"placement %s: %s; or --clock virtual, which has a GPU of its own",
				llm_choice_name(LLM_CHOICE_PLACEMENT, e->info.choices.placement),
				llm_error());
	if (err)
		return err;
	e->info.gpu = llm_gpu_info(e->gpu)->name;
	return hetero_gpu_load(e);
}

static int engine_load_npu(struct llm_engine *e, const struct llm_options *opts)
{
	struct llm_packed_source src = {
		.model = &e->model,
		.file = e->file,
		.path = e->path,
		.weights = e->info.choices.weights,
		.activations = e->info.choices.activations,
		.pool = e->pool,
		.kernels = e->kernels,
		.keep_mapped = llm_placement_has_gpu(e->info.choices.placement),
		.progress = opts->progress,
		.ud = opts->ud,
	};
	struct npu_device_options device = opts->device;
	int err;

	/* The last row of a chunk is bound where it lies, and bindings are 64-byte aligned. */
	if (e->model.n_embd % 16)
		return llm_fail(-ENOTSUP,
				"%s: an embedding of %u is not a multiple of 16, which the NPU's graphs need; "
				"choose placement cpu",
				e->path, e->model.n_embd);
	/* One SoC on both sides of the transport. */
	if (!device.profile)
		device.profile = opts->profile;
	err = npu_device_open(&device, &e->dev);
	if (!err)
		err = npu_context_create(e->dev, &e->ctx);
	if (err)
		return llm_fail(err, "%s", npu_error());
	e->info.device = npu_device_info(e->dev);
	src.ctx = e->ctx;
	err = llm_packed_load(&e->packed, &src);
	e->info.weight_bytes = e->packed.weight_bytes;
	if (!err && llm_placement_has_gpu(e->info.choices.placement))
		err = engine_load_gpu(e, opts);
	return err;
}

static int engine_load_cpu(struct llm_engine *e, const struct llm_options *opts)
{
	const struct llm_model *m = &e->model;

	e->info.weight_bytes = m->output->bytes;
	for (unsigned int i = 0; i < m->n_layer; i++) {
		for (int w = 0; w < LLM_NR_MATRICES; w++)
			e->info.weight_bytes += m->layers[i].matrix[w]->bytes;
	}
	if (opts->progress && opts->progress(opts->ud, 1.0, "mapped"))
		return llm_fail(-ECANCELED, "%s: loading was stopped", e->path);
	return 0;
}

static int engine_load_profiles(struct llm_engine *e, const struct llm_options *opts)
{
	const char *cuts = opts->cuts_profile ? opts->cuts_profile : "host";
	char why[512] = "";

	if (opts->profile) {
		e->profile = profile_load(opts->profile, why, sizeof(why));
		e->info.profile = e->profile ? e->profile->name : NULL;
	} else if (e->info.choices.placement == LLM_PLACE_LAYER) {
		e->cuts_profile = profile_load(cuts, why, sizeof(why));
	}
	return why[0] ? llm_fail(-EINVAL, "%s", why) : 0;
}

/* What is in the file, and what it is to be computed with. */
static int engine_load(struct llm_engine *e, const struct llm_options *opts)
{
	bool npu;
	int err;

	e->path = strdup(opts->model);
	if (!e->path)
		return llm_fail(-ENOMEM, "no memory for an engine");
	err = engine_read(e, opts);
	if (!err)
		err = engine_load_profiles(e, opts);
	if (err)
		return err;
	npu = llm_placement_has_npu(e->info.choices.placement);
	e->pool = llm_pool_create(e->info.threads, npu ? 0 : CPU_SPIN_US);
	if (!e->pool)
		return llm_fail(-ENOMEM, "no memory, or no %u threads", e->info.threads);
	engine_describe(e);
	return npu ? engine_load_npu(e, opts) : engine_load_cpu(e, opts);
}

int llm_engine_open(const struct llm_options *opts, struct llm_engine **engine)
{
	struct llm_engine *e;
	int err = engine_check(opts);

	*engine = NULL;
	if (err)
		return err;
	e = calloc(1, sizeof(*e));
	if (!e)
		return llm_fail(-ENOMEM, "no memory for an engine");
	atomic_init(&e->refs, 1);
	e->kernels = cpu_kernels_get(NULL);
	e->floats = fw_kernels_get(FW_ISA_AUTO);
	e->jitter = opts->jitter;
	e->seed = opts->seed;
	e->gpu_share = opts->gpu_share;
	err = engine_load(e, opts);
	if (err) {
		llm_engine_put(e);
		return err;
	}
	*engine = e;
	return 0;
}

void llm_engine_put(struct llm_engine *e)
{
	if (!e || atomic_fetch_sub(&e->refs, 1) > 1)
		return;
	hetero_gpu_unload(e);
	llm_packed_free(&e->packed);
	if (e->ctx)
		npu_context_free(e->ctx);
	if (e->dev)
		npu_device_close(e->dev);
	llm_pool_free(e->pool);
	profile_free(e->profile);
	profile_free(e->cuts_profile);
	if (e->tok)
		tokenizer_free(e->tok);
	llm_model_release(&e->model);
	if (e->file)
		gguf_close(e->file);
	free(e->path);
	free(e);
}

void llm_engine_close(struct llm_engine *engine)
{
	llm_engine_put(engine);
}

const struct llm_engine_info *llm_engine_info(const struct llm_engine *engine)
{
	return &engine->info;
}

struct npu_device *llm_engine_device(const struct llm_engine *engine)
{
	return engine->dev;
}
