// SPDX-License-Identifier: MIT
/*
 * Writes a model with its matrices as NPU panels, so that loading only copies them. Everything else
 * stays as it was, so results are those of the original file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checksum.h"
#include "cpu_kernels.h"
#include "llm_fail.h"
#include "packed.h"
#include "quantize.h"

/* A matrix, which is packed when the writer comes to it. */
struct panels {
	struct quantize *q;
	struct llm_packer *packer;
	const struct gguf_tensor *from;
	char name[96];
	enum llm_format format;
	uint64_t dims[GGUF_MAX_DIMS];
	struct shadow_fold fold; /* of smoothing */
	uint64_t sum; /* its checksum, once it is written */
};

static double average_bits(const struct quantize *q)
{
	return q->opts->bits > 0 ? q->opts->bits : LLM_ADAPTIVE_BITS;
}

static int pack_tensor(struct panels *p, const struct gguf_tensor *t, void *bytes,
		       unsigned int *bad)
{
	if (p->format == LLM_FORMAT_WK)
		return llm_pack_adaptive(p->packer, t, average_bits(p->q), bytes, bad);
	return llm_pack_matrix(p->packer, t, p->format, bytes, bad);
}

/* A smoothed matrix as floats, for packing. */
struct smoothed {
	struct quantize_tensor t;
	float *values;
};

static void smooth_task(void *arg, unsigned int task, unsigned int worker)
{
	struct smoothed *s = arg;
	uint64_t first = (uint64_t)task * QUANTIZE_TASK_VALUES, left = s->t.n - first;

	quantize_read(&s->t, first, s->values + first,
		      left < QUANTIZE_TASK_VALUES ? left : QUANTIZE_TASK_VALUES);
}

static int pack_smoothed(struct panels *p, void *bytes, unsigned int *bad)
{
	struct gguf_tensor floats = *p->from;
	struct smoothed s = { .t = { .from = p->from, .fold = p->fold } };
	int err;

	memcpy(s.t.dims, p->from->dims, sizeof(s.t.dims));
	s.t.n = p->from->dims[0] * p->from->dims[1];
	s.values = malloc(s.t.n * sizeof(*s.values));
	if (!s.values)
		return -ENOMEM;
	llm_pool_run(p->q->pool, smooth_task, &s,
		     (unsigned int)((s.t.n + QUANTIZE_TASK_VALUES - 1) / QUANTIZE_TASK_VALUES));
	floats.type = GGUF_F32;
	floats.data = s.values;
	floats.bytes = s.t.n * sizeof(*s.values);
	err = pack_tensor(p, &floats, bytes, bad);
	free(s.values);
	return err;
}

/* -errno with the error line. */
static int pack(struct panels *p, void *bytes)
{
	struct quantize *q = p->q;
	unsigned int bad;
	int err = p->fold.in ? pack_smoothed(p, bytes, &bad) : pack_tensor(p, p->from, bytes, &bad);

	if (err == -ERANGE)
		return llm_fail(err,
				"%s: row %u of tensor %s holds a value that is not finite, or too "
				"great for "
				"4 bits; is the model damaged?",
				q->in, bad, p->from->name);
	return err ? llm_fail(err, "no memory to pack tensor %s with %u threads", p->from->name,
			      llm_pool_threads(q->pool))
		   : 0;
}

/* A tensor's function for the writer. Its positive errors have set the error line. */
static int make_panels(void *ud, struct gguf_sink *sink)
{
	struct panels *p = ud;
	struct quantize *q = p->q;
	void *bytes = aligned_alloc(64, (p->dims[0] + 63) / 64 * 64);
	int ret;

	if (!bytes)
		ret = -llm_fail(-ENOMEM, "no memory for tensor %s of %llu bytes", p->name,
				(unsigned long long)p->dims[0]);
	else
		ret = -pack(p, bytes);
	if (!ret) {
		struct llm_checksum c;

		llm_checksum_begin(&c);
		llm_checksum_add(&c, bytes, p->dims[0]);
		p->sum = llm_checksum_end(&c);
		ret = gguf_sink_put(sink, bytes, p->dims[0]);
	}
	free(bytes);
	gguf_tensor_done(q->file, p->from);
	return ret ? ret : -quantize_progress(q, p->from->dims[0] * p->from->dims[1], p->name);
}

static void add_panels(struct panels *p, const struct gguf_tensor *from, const char *name,
		       enum llm_format format)
{
	struct quantize *q = p->q;

	p->from = from;
	p->format = format;
	if (format == LLM_FORMAT_WK)
		p->dims[0] = llm_wk_bytes(average_bits(q), (unsigned int)from->dims[1],
					  (unsigned int)from->dims[0]);
	else
		p->dims[0] = llm_pack_bytes(format, (unsigned int)from->dims[1],
					    (unsigned int)from->dims[0]);
	for (int i = 1; i < GGUF_MAX_DIMS; i++)
		p->dims[i] = 1;
	snprintf(p->name, sizeof(p->name), "%s.panels", name);
	q->all += from->dims[0] * from->dims[1];
	q->sum.n_values += from->dims[0] * from->dims[1];
	q->sum.n_tensors++;
	q->sum.bytes_before += from->bytes;
	q->sum.bytes_after += p->dims[0];
	gguf_writer_tensor_made(q->writer, p->name, GGUF_I8, 1, p->dims, make_panels, p);
}

/* The checksums of all panels, which are written before. */
struct checksums {
	const struct panels *panels;
	size_t n;
};

static int make_checksums(void *ud, struct gguf_sink *sink)
{
	const struct checksums *c = ud;
	int err = 0;

	for (size_t i = 0; i < c->n && !err; i++)
		err = gguf_sink_put(sink, &c->panels[i].sum, sizeof(c->panels[i].sum));
	return err;
}

/* The panels of all matrices; returns their number. */
static size_t add_matrices(struct quantize *q, const struct llm_model *m, enum llm_weights weights,
			   struct panels *first)
{
	struct panels *panels = first;
	char name[64];

	for (unsigned int i = 0; i < m->n_layer; i++) {
		for (unsigned int w = 0; w < LLM_NR_MATRICES; w++) {
			if (!m->layers[i].matrix[w])
				continue;
			if (q->opts->calibration)
				panels->fold =
					shadow_fold_matrix(&q->opts->calibration->smooth, i, w);
			snprintf(name, sizeof(name), "blk.%u.%s", i, llm_model_matrix_name(m, w));
			add_panels(panels++, m->layers[i].matrix[w], name,
				   llm_format_choose(m, weights, i, (int)w));
		}
	}
	add_panels(panels++, m->output, "output", llm_format_choose(m, weights, 0, -1));
	return (size_t)(panels - first);
}

/* Whether the matrix is the tensor, or a part of it. */
static bool is_in(const struct gguf_tensor *matrix, const struct gguf_tensor *t)
{
	const uint8_t *begin = t->data, *at = matrix ? matrix->data : NULL;

	return at >= begin && at < begin + t->bytes;
}

/* Whether a tensor's place is taken by panels. Embeddings stay, also where they are the output
 * matrix. */
static bool is_packed(const struct llm_model *m, const struct gguf_tensor *t)
{
	if (t == m->token_embd || t == m->output)
		return t != m->token_embd;
	for (unsigned int i = 0; i < m->n_layer; i++)
		for (int w = 0; w < LLM_NR_MATRICES; w++)
			if (is_in(m->layers[i].matrix[w], t))
				return true;
	return false;
}

/* All else: vectors, routers, the embeddings, and the weights of a calibration that stays. */
static void add_others(struct quantize *q, const struct llm_model *m,
		       struct quantize_tensor *tensors)
{
	for (size_t i = 0; i < gguf_n_tensors(q->file); i++) {
		const struct gguf_tensor *from = gguf_tensor(q->file, i);
		struct quantize_tensor *t = &tensors[i];

		if (is_packed(m, from) || quantize_replaced(q, from))
			continue;
		*t = (struct quantize_tensor){
			.name = from->name, .type = from->type, .n_dims = from->n_dims, .from = from
		};
		memcpy(t->dims, from->dims, sizeof(t->dims));
		quantize_smooth(q, t);
		quantize_add(q, t);
	}
}

static int save(struct quantize *q, const struct llm_model *m, const char *name,
		enum llm_weights weights)
{
	static const char *const except[] = { "general.file_type", "general.alignment" };
	struct llm_packer packer = { .pool = q->pool, .kernels = cpu_kernels_get(NULL) };
	size_t n = (size_t)m->n_layer * LLM_NR_MATRICES + 1;
	struct panels *panels = calloc(n, sizeof(*panels));
	struct quantize_tensor *tensors = calloc(gguf_n_tensors(q->file), sizeof(*tensors));
	struct checksums checksums = { .panels = panels };
	uint64_t dims[GGUF_MAX_DIMS] = { 0, 1, 1, 1 };
	int err;

	if (!panels || !tensors) {
		err = llm_fail(-ENOMEM, "%s: no memory for %zu tensors", q->in, n);
	} else {
		for (size_t i = 0; i < n; i++) {
			panels[i].q = q;
			panels[i].packer = &packer;
		}
		quantize_copy_metadata(q, except, 2);
		gguf_writer_align(q->writer);
		gguf_writer_u32(q->writer, "vnpu.panels", LLM_PANELS_VERSION);
		gguf_writer_string(q->writer, "vnpu.weights", name, strlen(name));
		gguf_writer_bool(q->writer, "vnpu.tied", m->output == m->token_embd);
		checksums.n = add_matrices(q, m, weights, panels);
		dims[0] = checksums.n * sizeof(uint64_t);
		add_others(q, m, tensors);
		gguf_writer_array(q->writer, LLM_FORMATS, GGUF_KV_I32, checksums.n);
		for (size_t i = 0; i < checksums.n; i++)
			gguf_writer_i32_element(q->writer, llm_format_number(panels[i].format));
		gguf_writer_tensor_made(q->writer, LLM_CHECKSUMS, GGUF_I8, 1, dims, make_checksums,
					&checksums);
		err = quantize_add_shadows(q);
		if (!err)
			err = quantize_save(q);
	}
	llm_packer_release(&packer);
	free(panels);
	free(tensors);
	return err;
}

/* Panels are the NPU's alone: those that it cannot have would be of no use. */
static int check_shape(const struct quantize *q, const struct llm_model *m)
{
	if (m->n_embd % LLM_EMBD_VALUES)
		return llm_fail(-ENOTSUP,
				"%s: an embedding of %u is not a multiple of %d, which the NPU's "
				"graphs need",
				q->in, m->n_embd, LLM_EMBD_VALUES);
	if (m->n_expert && !llm_experts_fill_panels(m->n_ff, m->n_embd))
		return llm_fail(-ENOTSUP,
				"%s: experts of %u values in an embedding of %u are no multiples "
				"of the NPU's panels of %d",
				q->in, m->n_ff, m->n_embd, VNPU_PANEL_N);
	return 0;
}

int quantize_panels(struct quantize *q)
{
	const char *name = llm_quantize_type_name(q->opts->type);
	int which = llm_choice_parse(LLM_CHOICE_WEIGHTS, name);
	struct llm_model m;
	int err = which < 0 ? which : llm_model_read(&m, q->file, q->in);

	if (err)
		return err;
	if (m.packed[0])
		err = llm_fail(-EINVAL, "%s: is packed already, for %s; take the original file",
			       q->in, m.packed);
	if (!err && q->opts->type == LLM_QUANTIZE_NATIVE && q->opts->calibration &&
	    q->opts->calibration->smooth.factors)
		err = llm_fail(-EINVAL,
			       "%s: native keeps the file's numbers, which smoothing changes; "
			       "choose w8a8 or w4a8",
			       q->in);
	if (!err)
		err = check_shape(q, &m);
	if (!err)
		err = save(q, &m, name, (enum llm_weights)which);
	llm_model_release(&m);
	return err;
}
