/* SPDX-License-Identifier: MIT */
/*
 * The tensors of a model.
 *
 * llm_model_read() takes each tensor that the architecture names from the file and checks its shape
 * against the hyperparameters. Tensors that are left over are an error: a model with experts,
 * adapters or norms that the runtime does not know would give wrong results.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm_fail.h"
#include "model.h"
#include "model_keys.h"
#include "model_reader.h"

/* Of a tensor that is read before the weights; a longer one of one dimension is none of a model. */
#define MAX_VECTOR_BYTES (1u << 20)

const char *const llm_matrix_names[LLM_NR_MATRICES] = {
	[LLM_ATTN_Q] = "attn_q",	  [LLM_ATTN_K] = "attn_k",
	[LLM_ATTN_V] = "attn_v",	  [LLM_ATTN_OUTPUT] = "attn_output",
	[LLM_FFN_GATE] = "ffn_gate",	  [LLM_FFN_UP] = "ffn_up",
	[LLM_FFN_DOWN] = "ffn_down",	  [LLM_SHARED_GATE] = "ffn_gate_shexp",
	[LLM_SHARED_UP] = "ffn_up_shexp", [LLM_SHARED_DOWN] = "ffn_down_shexp",
};

bool llm_model_is_stack(const struct llm_model *model, enum llm_matrix which)
{
	return model->n_expert && which >= LLM_FFN_GATE && which <= LLM_FFN_DOWN;
}

const char *llm_model_matrix_name(const struct llm_model *model, enum llm_matrix which)
{
	static const char *const stacks[LLM_NR_MATRICES] = {
		[LLM_FFN_GATE] = "ffn_gate_exps",
		[LLM_FFN_UP] = "ffn_up_exps",
		[LLM_FFN_DOWN] = "ffn_down_exps",
	};

	return llm_model_is_stack(model, which) ? stacks[which] : llm_matrix_names[which];
}

/* Rows of a matrix, and of one expert's in a stack. */
static unsigned int rows_of(const struct llm_model *model, enum llm_matrix which)
{
	switch (which) {
	case LLM_ATTN_Q:
		return model->q_dim;
	case LLM_ATTN_K:
	case LLM_ATTN_V:
		return model->kv_dim;
	case LLM_FFN_GATE:
		return llm_model_gated(model) ? model->n_ff : 0;
	case LLM_FFN_UP:
		return model->n_ff;
	case LLM_SHARED_GATE:
	case LLM_SHARED_UP:
		return model->n_ff_shared;
	case LLM_SHARED_DOWN:
		return model->n_ff_shared ? model->n_embd : 0;
	default:
		return model->n_embd;
	}
}

unsigned int llm_model_rows(const struct llm_model *model, enum llm_matrix which)
{
	return rows_of(model, which) * (llm_model_is_stack(model, which) ? model->n_expert : 1);
}

uint32_t llm_model_act(const struct llm_model *model)
{
	switch (model->features->activation) {
	case SHAPE_GELU:
		return VNPU_ACT_GELU;
	case SHAPE_RELU:
		return VNPU_ACT_RELU;
	default:
		return VNPU_ACT_SILU;
	}
}

uint32_t llm_model_rope_mode(const struct llm_model *model)
{
	return model->features->rope_halves ? VNPU_ROPE_HALVES : VNPU_ROPE_ADJACENT;
}

unsigned int llm_model_qk_norm_cols(const struct llm_model *model, bool keys)
{
	if (model->features->qk_norms == LLM_QK_NORMS_HEAD)
		return model->head_dim;
	return keys ? model->kv_dim : model->q_dim;
}

bool llm_model_is_plain(const struct llm_model *model)
{
	const struct llm_arch *a = model->features;

	return a->norms == LLM_NORMS_BEFORE && !a->layer_norm && !model->parallel &&
	       a->qk_norms != LLM_QK_NORMS_ROW && a->activation == SHAPE_SILU && !a->no_gate &&
	       !a->fused_qkv && !a->fused_gate_up && !model->window && !(model->attn_cap > 0) &&
	       !model->n_expert;
}

unsigned int llm_model_cols(const struct llm_model *model, enum llm_matrix which)
{
	switch (which) {
	case LLM_ATTN_OUTPUT:
		return model->q_dim;
	case LLM_FFN_DOWN:
		return model->n_ff;
	case LLM_SHARED_DOWN:
		return model->n_ff_shared;
	default:
		return model->n_embd;
	}
}

/* @dims: columns, rows and matrices; 0: the tensor has no such dimension. */
static int reader_take_dims(struct reader *r, const char *name, const unsigned int dims[3],
			    bool optional, const struct gguf_tensor **t)
{
	char want[48];
	int n = snprintf(want, sizeof(want), "[%u", dims[0]);
	bool fits = true;

	for (int i = 1; i < 3 && dims[i]; i++)
		n += snprintf(want + n, sizeof(want) - (size_t)n, ", %u", dims[i]);
	snprintf(want + n, sizeof(want) - (size_t)n, "]");
	*t = gguf_find_tensor(r->file, name);
	if (*t && !gguf_type_is_float((*t)->type))
		return llm_fail(-EINVAL, "%s: tensor %s is %s, which is no type of weights",
				r->path, name, gguf_type_traits((*t)->type)->name);
	if (!*t) {
		if (optional)
			return 0;
		return llm_fail(-EINVAL, "%s: no tensor %s %s, which a %s model needs", r->path,
				name, want, r->model->arch);
	}
	for (int i = 0; i < 3; i++)
		fits &= (*t)->dims[i] == (dims[i] ? dims[i] : 1);
	if (!fits || (*t)->dims[3] != 1)
		return llm_fail(
			-EINVAL, "%s: tensor %s is [%llu, %llu, %llu, %llu], expected %s", r->path,
			name, (unsigned long long)(*t)->dims[0], (unsigned long long)(*t)->dims[1],
			(unsigned long long)(*t)->dims[2], (unsigned long long)(*t)->dims[3], want);
	/* taken[] is large enough: names in a file are unique, and each is taken once. */
	r->taken[r->nr_taken++] = *t;
	return 0;
}

int reader_take(struct reader *r, const char *name, unsigned int rows, unsigned int cols,
		bool optional, const struct gguf_tensor **t)
{
	const unsigned int dims[3] = { cols, rows, 0 };

	return reader_take_dims(r, name, dims, optional, t);
}

int reader_stack(struct reader *r, const char *name, unsigned int rows, unsigned int cols,
		 struct gguf_tensor *as_matrix)
{
	unsigned int n = r->model->n_expert;
	const unsigned int dims[3] = { cols, rows / n, n };
	const struct gguf_tensor *t;
	int err = reader_take_dims(r, name, dims, false, &t);

	if (err)
		return err;
	*as_matrix = *t;
	as_matrix->n_dims = 2;
	as_matrix->dims[1] = rows;
	as_matrix->dims[2] = 1;
	return 0;
}

/* What the panels of a layer's matrix hold in a file that is packed for weights adaptive. */
static int reader_widths(struct reader *r, const struct gguf_tensor *t, unsigned int rows,
			 unsigned int cols, uint8_t **bits)
{
	*bits = malloc(rows);
	if (!*bits)
		return llm_fail(-ENOMEM, "%s: no memory for the widths of tensor %s", r->path,
				t->name);
	if (llm_wk_widths(t, rows, cols, *bits))
		return 0;
	return llm_fail(-EINVAL,
			"%s: the table of tensor %s does not describe a matrix [%u, %u] in its "
			"%llu bytes; pack the original again",
			r->path, t->name, cols, rows, (unsigned long long)t->bytes);
}

static bool is_panels(const struct gguf_tensor *t)
{
	size_t n = strlen(t->name), end = strlen(".panels");

	return n > end && !strcmp(t->name + n - end, ".panels");
}

/* Of tensors of panels: how many come before @t in the file; NULL: how many there are. */
static size_t panels_before(const struct gguf_file *file, const struct gguf_tensor *t)
{
	size_t before = 0;

	for (size_t i = 0; i < gguf_n_tensors(file) && gguf_tensor(file, i) != t; i++)
		before += is_panels(gguf_tensor(file, i));
	return before;
}

/* The format of panels: what the file says, else that which has their size, as sizes differed then.
 * LLM_NR_FORMATS: none fits. */
static enum llm_format reader_format(const struct reader *r, const struct gguf_tensor *t,
				     unsigned int rows, unsigned int cols)
{
	enum llm_format f = 0, end = LLM_FORMAT_KQ + VNPU_KQ_IQ4_NL;
	int32_t number;

	if (t->type != GGUF_I8)
		return LLM_NR_FORMATS;
	if (r->formats) {
		size_t i = panels_before(r->file, t);

		if (i >= r->nr_formats)
			return LLM_NR_FORMATS;
		memcpy(&number, r->formats + i, sizeof(number));
		f = llm_format_of_number(number);
		end = f < LLM_NR_FORMATS ? f + 1 : f;
	}
	while (f < end && t->bytes != llm_pack_bytes(f, rows, cols))
		f++;
	return f < end ? f : LLM_NR_FORMATS;
}

/* Takes @name.panels in a packed model, with their format, else @name.weight. @bits: of a layer's
 * matrix, whose widths its table tells if it is packed so. */
int reader_matrix(struct reader *r, const char *name, unsigned int rows, unsigned int cols,
		  bool optional, const struct gguf_tensor **t, enum llm_format *format,
		  uint8_t **bits)
{
	char full[96];

	snprintf(full, sizeof(full), "%s.%s", name, r->model->packed[0] ? "panels" : "weight");
	if (!r->model->packed[0])
		return reader_take(r, full, rows, cols, optional, t);
	*t = gguf_find_tensor(r->file, full);
	if (!*t)
		return llm_fail(-EINVAL, "%s: no tensor %s, which a packed %s model needs", r->path,
				full, r->model->arch);
	r->taken[r->nr_taken++] = *t;
	r->model->n_params += (uint64_t)rows * cols - (*t)->bytes;
	if (bits && !strcmp(r->model->packed, LLM_PACKED_ADAPTIVE)) {
		*format = LLM_FORMAT_WK;
		return reader_widths(r, *t, rows, cols, bits);
	}
	*format = reader_format(r, *t, rows, cols);
	if (*format < LLM_NR_FORMATS)
		return 0;
	return llm_fail(-EINVAL, "%s: tensor %s of %llu bytes does not hold a matrix [%u, %u]",
			r->path, full, (unsigned long long)(*t)->bytes, cols, rows);
}

/* A widened copy of all values of a tensor. */
static int reader_widen(struct reader *r, const struct gguf_tensor *t, float **values)
{
	size_t n = t->dims[0] * t->dims[1];

	*values = malloc(n * sizeof(float));
	if (!*values)
		return llm_fail(-ENOMEM, "%s: no memory for tensor %s", r->path, t->name);
	gguf_dequantize(t->type, t->data, *values, n);
	for (size_t i = 0; i < n; i++) {
		if (!isfinite((*values)[i]))
			return llm_fail(-EINVAL,
					"%s: tensor %s holds a value that is not finite at %zu",
					r->path, t->name, i);
	}
	return 0;
}

int reader_vector(struct reader *r, const char *name, unsigned int n, bool optional, float **vector)
{
	const struct gguf_tensor *t;
	int err = reader_take(r, name, 0, n, optional, &t);

	return err || !t ? err : reader_widen(r, t, vector);
}

int reader_wide_matrix(struct reader *r, const char *name, unsigned int rows, unsigned int cols,
		       float **values)
{
	const struct gguf_tensor *t;
	int err = reader_take(r, name, rows, cols, false, &t);

	return err ? err : reader_widen(r, t, values);
}

/* Factors of RoPE's frequencies; NULL: the file has none of this @name. */
static int reader_factors(struct reader *r, const char *name, float **factors)
{
	unsigned int n = r->model->rot_dim / 2;
	int err = reader_vector(r, name, n, true, factors);

	for (unsigned int i = 0; !err && *factors && i < n; i++)
		if (!((*factors)[i] > 0))
			err = llm_fail(-EINVAL, "%s: tensor %s holds %g at %u", r->path, name,
				       (double)(*factors)[i], i);
	return err;
}

/* Llama 3 extends contexts by one set of factors; longrope by one for contexts up to the original
 * length, and another for longer ones. */
static int reader_rope(struct reader *r, const struct llm_rope *rope)
{
	float *near = NULL, *far = NULL;
	int err = reader_factors(r, "rope_freqs.weight", &near);

	if (!err && !near)
		err = reader_factors(r, "rope_factors_short.weight", &near);
	if (!err)
		err = reader_factors(r, "rope_factors_long.weight", &far);
	if (!err)
		err = llm_model_make_freqs(r->model, rope, near, far, r->path);
	free(near);
	free(far);
	return err;
}

static int reader_output_vectors(struct reader *r)
{
	struct llm_model *m = r->model;
	int err = reader_vector(r, "output_norm.weight", m->n_embd, false, &m->output_norm);

	if (!err && m->features->layer_norm)
		err = reader_vector(r, "output_norm.bias", m->n_embd, false, &m->output_norm_bias);
	if (!err && m->features->output_bias)
		err = reader_vector(r, "output.bias", m->n_vocab, true, &m->output_bias);
	for (unsigned int i = 0; !err && i < m->n_embd; i++) {
		m->output_norm[i] *= m->logit_scale;
		if (m->output_norm_bias)
			m->output_norm_bias[i] *= m->logit_scale;
	}
	return err;
}

static int reader_embeddings(struct reader *r)
{
	struct llm_model *m = r->model;
	const struct gguf_tensor *t = gguf_find_tensor(r->file, "token_embd.weight");
	bool tied = false;
	int err;

	if (!t)
		return llm_fail(
			-EINVAL,
			"%s: no tensor token_embd.weight [%u, n_vocab], which a %s model needs",
			r->path, m->n_embd, m->arch);
	if (t->dims[1] < 1 || t->dims[1] > VNPU_MAX_DIM)
		return llm_fail(-EINVAL, "%s: tensor token_embd.weight has %llu rows, not 1..%u",
				r->path, (unsigned long long)t->dims[1], VNPU_MAX_DIM);
	m->n_vocab = (unsigned int)t->dims[1];
	err = reader_take(r, "token_embd.weight", m->n_vocab, m->n_embd, false, &m->token_embd);
	if (!err)
		err = reader_matrix(r, "output", m->n_vocab, m->n_embd, true, &m->output,
				    &m->output_format, NULL);
	if (!err)
		err = reader_output_vectors(r);
	if (!err && m->packed[0] && !gguf_bool(r->file, "vnpu.tied", &tied) && tied)
		m->n_params -= (uint64_t)m->n_vocab * m->n_embd;
	if (!err && !m->output)
		m->output = m->token_embd;
	return err;
}

static bool reader_took(const struct reader *r, const struct gguf_tensor *t)
{
	for (size_t i = 0; i < r->nr_taken; i++) {
		if (r->taken[i] == t)
			return true;
	}
	return false;
}

static int reader_checksums(struct reader *r)
{
	const struct gguf_tensor *t = gguf_find_tensor(r->file, LLM_CHECKSUMS);
	size_t panels = panels_before(r->file, NULL);

	if (r->formats && r->nr_formats != panels)
		return llm_fail(-EINVAL,
				"%s: " LLM_FORMATS " has %zu formats for %zu tensors of panels; "
				"pack the original again",
				r->path, r->nr_formats, panels);
	if (!t || t->type != GGUF_I8 || t->bytes != panels * sizeof(uint64_t))
		return llm_fail(-EINVAL,
				"%s: no tensor " LLM_CHECKSUMS " for %zu tensors of panels; pack "
				"the original again",
				r->path, panels);
	r->model->checksums = t;
	r->taken[r->nr_taken++] = t;
	r->model->n_params -= t->bytes;
	return 0;
}

bool llm_model_checksum(const struct llm_model *model, const struct gguf_file *file,
			const struct gguf_tensor *t, uint64_t *sum)
{
	if (!model->checksums)
		return false;
	memcpy(sum, (const uint8_t *)model->checksums->data + panels_before(file, t) * sizeof(*sum),
	       sizeof(*sum));
	return true;
}

/* Reads whether the model is packed, and for which weights. */
static int reader_packing(struct reader *r)
{
	const char *weights;
	uint64_t version;
	size_t bytes;
	int err = gguf_u64(r->file, "vnpu.panels", &version);

	if (err == -ENOENT)
		return 0;
	if (err || !version || version > LLM_PANELS_VERSION)
		return llm_fail(
			-ENOTSUP,
			"%s: was packed by another version of llm-quantize; pack the original "
			"again",
			r->path);
	if (gguf_string(r->file, "vnpu.weights", &weights, &bytes) || !bytes ||
	    bytes >= sizeof(r->model->packed))
		return llm_fail(-EINVAL, "%s: vnpu.weights does not say what it was packed for",
				r->path);
	memcpy(r->model->packed, weights, bytes);
	r->has_checksums = version > 1;
	if (version > 2 && gguf_i32_array(r->file, LLM_FORMATS, &r->formats, &r->nr_formats))
		return llm_fail(-EINVAL,
				"%s: no " LLM_FORMATS " that says what the panels hold; pack the "
				"original again",
				r->path);
	return 0;
}

bool llm_model_is_copy(const struct gguf_file *file, const struct gguf_tensor *t)
{
	size_t n = strlen(t->name), end = strlen(".shadow");
	uint64_t version;

	return n > end && !strcmp(t->name + n - end, ".shadow") &&
	       gguf_u64(file, "vnpu.shadow", &version) != -ENOENT;
}

/* Refuses tensors that were not taken. */
static int reader_rest(struct reader *r)
{
	for (size_t i = 0; i < gguf_n_tensors(r->file); i++) {
		const struct gguf_tensor *t = gguf_tensor(r->file, i);
		uint64_t n = t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];

		if (llm_model_is_copy(r->file, t)) {
			r->model->file_bytes += t->bytes;
			continue;
		}
		if (r->nr_taken != gguf_n_tensors(r->file) && !reader_took(r, t))
			return llm_fail(
				-ENOTSUP,
				"%s: tensor %s is unknown in a %s model of %u layers; results "
				"without it would be wrong",
				r->path, t->name, r->model->arch, r->model->n_layer);
		r->model->n_params += n;
		r->model->file_bytes += t->bytes;
	}
	return 0;
}

static void model_count_active(struct llm_model *m)
{
	uint64_t idle = (uint64_t)m->n_layer * (m->n_expert - m->n_expert_used) * m->n_ff *
			m->n_embd * (llm_model_gated(m) ? 3 : 2);

	m->n_params_active = m->n_params - idle;
}

/* Begins to read all vectors, so that the kernel waits for storage once, not for each of them. */
static void vectors_ahead(const struct gguf_file *file)
{
	for (size_t i = 0; i < gguf_n_tensors(file); i++) {
		const struct gguf_tensor *t = gguf_tensor(file, i);

		if (t->n_dims == 1 && t->bytes <= MAX_VECTOR_BYTES)
			gguf_tensor_ahead(file, t);
	}
}

int llm_model_read(struct llm_model *model, const struct gguf_file *file, const char *path)
{
	struct reader r = { .model = model, .file = file, .path = path };
	const struct llm_arch *arch;
	struct llm_rope rope;
	const char *source;
	size_t bytes;
	int err;

	memset(model, 0, sizeof(*model));
	if (gguf_string(file, LLM_PANELS_SOURCE, &source, &bytes) != -ENOENT)
		return llm_fail(-EINVAL,
				"%s: is a cache of another file's panels: give that file, the name "
				"without .WEIGHTS.panels",
				path);
	if (!gguf_n_tensors(file))
		return llm_fail(-EINVAL, "%s: has %sno tensors: give a model", path,
				gguf_array_len(file, "tokenizer.ggml.tokens", &bytes)
					? ""
					: "a vocabulary and ");
	arch = llm_arch_find(file, path, &err);
	if (!arch)
		return err;
	err = llm_model_read_keys(model, arch, file, path, &rope);
	if (!err)
		err = reader_packing(&r);
	/* Cold starts of packed files did not gain by it. */
	if (!err && !model->packed[0])
		vectors_ahead(file);
	if (!err) {
		r.taken = calloc(gguf_n_tensors(file), sizeof(*r.taken));

		model->layers = calloc(model->n_layer, sizeof(*model->layers));
		model->parts =
			calloc((size_t)model->n_layer * LLM_NR_MATRICES, sizeof(*model->parts));
		if (!model->layers || !model->parts || !r.taken)
			err = llm_fail(-ENOMEM, "%s: no memory for %u layers", path,
				       model->n_layer);
	}
	if (!err)
		err = reader_embeddings(&r);
	for (unsigned int i = 0; !err && i < model->n_layer; i++)
		err = reader_layer(&r, i);
	if (!err)
		err = reader_rope(&r, &rope);
	if (!err && r.has_checksums)
		err = reader_checksums(&r);
	if (!err)
		err = reader_rest(&r);
	if (!err)
		model_count_active(model);
	free(r.taken);
	if (err)
		llm_model_release(model);
	return err;
}

/* All matrices of the model that r->file has the panels of. */
static int reader_panels(struct reader *r)
{
	struct llm_model *m = r->model;
	char name[64];
	int err = reader_packing(r);

	if (!err && !r->has_checksums)
		err = llm_fail(-EINVAL, "%s: has no panels with checksums", r->path);
	if (!err)
		err = reader_matrix(r, "output", m->n_vocab, m->n_embd, false, &m->output,
				    &m->output_format, NULL);
	for (unsigned int i = 0; !err && i < m->n_layer; i++) {
		for (int w = 0; !err && w < LLM_NR_MATRICES; w++) {
			if (!llm_model_rows(m, w))
				continue;
			snprintf(name, sizeof(name), "blk.%u.%s", i, llm_model_matrix_name(m, w));
			err = reader_matrix(r, name, llm_model_rows(m, w), llm_model_cols(m, w),
					    false, &m->layers[i].matrix[w], &m->layers[i].format[w],
					    NULL);
		}
	}
	return err ? err : reader_checksums(r);
}

int llm_model_use_panels(struct llm_model *model, const struct gguf_file *panels, const char *path)
{
	struct llm_model m = *model;
	struct reader r = { .model = &m, .file = panels, .path = path };
	size_t bytes = model->n_layer * sizeof(*m.layers);
	int err;

	m.layers = malloc(bytes);
	r.taken = calloc(gguf_n_tensors(panels) + 1, sizeof(*r.taken));
	if (m.layers && r.taken) {
		memcpy(m.layers, model->layers, bytes);
		err = reader_panels(&r);
	} else {
		err = llm_fail(-ENOMEM, "%s: no memory for %u layers", path, model->n_layer);
	}
	free(r.taken);
	if (err) {
		free(m.layers);
		return err;
	}
	free(model->layers);
	m.n_params = model->n_params;
	*model = m;
	return 0;
}

void llm_model_release(struct llm_model *model)
{
	for (unsigned int i = 0; model->layers && i < model->n_layer; i++) {
		struct llm_layer *layer = &model->layers[i];

		free(layer->attn_norm);
		free(layer->ffn_norm);
		free(layer->attn_norm_bias);
		free(layer->ffn_norm_bias);
		free(layer->attn_post_norm);
		free(layer->ffn_post_norm);
		free(layer->q_norm);
		free(layer->k_norm);
		free(layer->router);
		free(layer->shared_gate);
		for (int w = 0; w < LLM_NR_MATRICES; w++) {
			free(layer->bias[w]);
			free(layer->bits[w]);
		}
	}
	free(model->layers);
	free(model->inv_freq);
	free(model->output_norm);
	free(model->output_norm_bias);
	free(model->output_bias);
	free(model->parts);
	memset(model, 0, sizeof(*model));
}

/* The name of the file's mix of types, or else of the type of most of its bytes. */
static const char *model_file_type(const struct llm_model *model, const struct gguf_file *file)
{
	uint64_t ftype, bytes[64] = { 0 };
	enum gguf_type best = GGUF_F32;

	if (model->packed[0])
		return model->packed;
	if (!gguf_u64(file, "general.file_type", &ftype)) {
		switch (ftype) {
		case 14:
			return "Q4_K - Small";
		case 15:
			return "Q4_K - Medium";
		case 16:
			return "Q5_K - Small";
		case 17:
			return "Q5_K - Medium";
		}
	}
	for (size_t i = 0; i < gguf_n_tensors(file); i++) {
		const struct gguf_tensor *t = gguf_tensor(file, i);

		if ((unsigned int)t->type >= 64 || llm_model_is_copy(file, t))
			continue;
		bytes[t->type] += t->bytes;
		if (bytes[t->type] > bytes[best])
			best = t->type;
	}
	return best == GGUF_F32 ? "all F32" : gguf_type_traits(best)->name;
}

/* "5.8M" */
static void put_params(char *text, size_t bytes, uint64_t n)
{
	double millions = (double)n / 1e6;

	snprintf(text, bytes, "%.1f%c", millions < 1000 ? millions : millions / 1000,
		 millions < 1000 ? 'M' : 'B');
}

void llm_model_type(const struct llm_model *model, const struct gguf_file *file, char *type,
		    size_t bytes)
{
	char all[16], active[16];

	put_params(all, sizeof(all), model->n_params);
	put_params(active, sizeof(active), model->n_params_active);
	snprintf(type, bytes, "%s %s%s%s %s", model->arch, all, model->n_expert ? ".A" : "",
		 model->n_expert ? active : "", model_file_type(model, file));
}
