// SPDX-License-Identifier: MIT
/* Writing model files: see llm_quantize.h. */
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cpus.h"
#include "imatrix.h"
#include "llm_fail.h"
#include "quantize.h"

static const struct {
	const char *name;
	enum gguf_type type;
	enum gguf_file_type file_type;
} types[] = {
	[LLM_QUANTIZE_F32] = { "f32", GGUF_F32, GGUF_FILE_F32 },
	[LLM_QUANTIZE_F16] = { "f16", GGUF_F16, GGUF_FILE_F16 },
	[LLM_QUANTIZE_Q8_0] = { "q8_0", GGUF_Q8_0, GGUF_FILE_Q8_0 },
	[LLM_QUANTIZE_Q4_0] = { "q4_0", GGUF_Q4_0, GGUF_FILE_Q4_0 },
	[LLM_QUANTIZE_Q4_1] = { "q4_1", GGUF_Q4_1, GGUF_FILE_Q4_1 },
	[LLM_QUANTIZE_Q5_0] = { "q5_0", GGUF_Q5_0, GGUF_FILE_Q5_0 },
	[LLM_QUANTIZE_Q5_1] = { "q5_1", GGUF_Q5_1, GGUF_FILE_Q5_1 },
	[LLM_QUANTIZE_IQ4_NL] = { "iq4_nl", GGUF_IQ4_NL, GGUF_FILE_IQ4_NL },
	[LLM_QUANTIZE_Q2_K] = { "q2_k", GGUF_Q2_K, GGUF_FILE_Q2_K },
	[LLM_QUANTIZE_Q2_K_S] = { "q2_k_s", GGUF_Q2_K, GGUF_FILE_Q2_K_S },
	[LLM_QUANTIZE_Q3_K_S] = { "q3_k_s", GGUF_Q3_K, GGUF_FILE_Q3_K_S },
	[LLM_QUANTIZE_Q3_K_M] = { "q3_k_m", GGUF_Q3_K, GGUF_FILE_Q3_K_M },
	[LLM_QUANTIZE_Q3_K_L] = { "q3_k_l", GGUF_Q3_K, GGUF_FILE_Q3_K_L },
	[LLM_QUANTIZE_Q4_K_S] = { "q4_k_s", GGUF_Q4_K, GGUF_FILE_Q4_K_S },
	[LLM_QUANTIZE_Q4_K_M] = { "q4_k_m", GGUF_Q4_K, GGUF_FILE_Q4_K_M },
	[LLM_QUANTIZE_Q5_K_S] = { "q5_k_s", GGUF_Q5_K, GGUF_FILE_Q5_K_S },
	[LLM_QUANTIZE_Q5_K_M] = { "q5_k_m", GGUF_Q5_K, GGUF_FILE_Q5_K_M },
	[LLM_QUANTIZE_Q6_K] = { "q6_k", GGUF_Q6_K, GGUF_FILE_Q6_K },
	[LLM_QUANTIZE_W8A8] = { .name = "w8a8" },
	[LLM_QUANTIZE_W4A8] = { .name = "w4a8" },
	[LLM_QUANTIZE_W4A16] = { .name = "w4a16" },
	[LLM_QUANTIZE_NATIVE] = { .name = "native" },
	[LLM_QUANTIZE_ADAPTIVE] = { .name = "adaptive" },
};
#define NR_TYPES (sizeof(types) / sizeof(types[0]))

const char *llm_quantize_type_name(enum llm_quantize_type type)
{
	return (size_t)type < NR_TYPES ? types[type].name : "?";
}

int llm_quantize_type_parse(const char *name, enum llm_quantize_type *type)
{
	static const char *const short_names[] = { "q3_k", "q4_k", "q5_k" };
	char known[256] = "", full[8];

	for (size_t i = 0; i < sizeof(short_names) / sizeof(short_names[0]); i++)
		if (!strcasecmp(name, short_names[i])) {
			snprintf(full, sizeof(full), "%s_m", short_names[i]);
			name = full;
		}

	for (size_t i = 0; i < NR_TYPES; i++) {
		size_t used = strlen(known);

		if (!strcasecmp(name, types[i].name)) {
			*type = (enum llm_quantize_type)i;
			return 0;
		}
		snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "", types[i].name);
	}
	return llm_fail(-EINVAL, "'%s' is none of %s", name, known);
}

bool llm_quantize_type_is_packed(enum llm_quantize_type type)
{
	return type >= LLM_QUANTIZE_W8A8;
}

static int check(const struct llm_quantize_options *opts)
{
	if ((size_t)opts->type >= NR_TYPES)
		return llm_fail(-EINVAL, "%d is no type of weights", (int)opts->type);
	if (opts->bits != 0 && opts->type != LLM_QUANTIZE_ADAPTIVE)
		return llm_fail(-EINVAL, "an average width is of adaptive, not of %s",
				llm_quantize_type_name(opts->type));
	if (opts->bits != 0 && !(opts->bits >= 1 && opts->bits <= 8))
		return llm_fail(-EINVAL, "an average of %g bits: choose 1 to 8", opts->bits);
	if (!opts->out)
		return llm_fail(-EINVAL, "no file to write is given");
	if (!opts->in == !opts->shape)
		return llm_fail(-EINVAL, "give either a model or a shape");
	if (opts->n_rules && (opts->shape || llm_quantize_type_is_packed(opts->type)))
		return llm_fail(-EINVAL, "types of single matrices are of a model that is not "
					 "packed");
	if (opts->imatrix && (opts->shape || llm_quantize_type_is_packed(opts->type)))
		return llm_fail(-EINVAL,
				"%s: a file of importance is for a model that is not "
				"packed",
				opts->imatrix);
	if (opts->shape && opts->calibration)
		return llm_fail(-EINVAL, "shape %s: a calibration is of a model, not of a shape",
				opts->shape);
	if (opts->shape && llm_quantize_type_is_packed(opts->type))
		return llm_fail(-EINVAL,
				"shape %s: make f32, f16 or a quantised type first, and pack that "
				"as %s",
				opts->shape, llm_quantize_type_name(opts->type));
	return 0;
}

/* The output must not replace a file of the model, of which there are several if it is split. */
static int check_output(const struct quantize *q)
{
	struct stat out, in;

	if (!q->file || stat(q->opts->out, &out))
		return 0;
	for (size_t i = 0; i < gguf_n_shards(q->file); i++) {
		if (!fstat(gguf_shard(q->file, i)->fd, &in) && in.st_dev == out.st_dev &&
		    in.st_ino == out.st_ino)
			return llm_fail(-EINVAL,
					"%s is a file of the model %s: give another output file",
					q->opts->out, q->opts->in);
	}
	return 0;
}

/* Reads what the types of matrices depend on: 0 if the file does not say. */
static void quantize_read_shape(struct quantize *q)
{
	const char *arch = "";
	uint64_t layers = 0, experts = 0, heads = 0, kv = 0;
	size_t bytes = 0;
	char key[128];

	if (!q->file || gguf_string(q->file, "general.architecture", &arch, &bytes) || bytes > 64)
		return;
	snprintf(key, sizeof(key), "%.*s.block_count", (int)bytes, arch);
	gguf_u64(q->file, key, &layers);
	snprintf(key, sizeof(key), "%.*s.attention.head_count", (int)bytes, arch);
	gguf_u64(q->file, key, &heads);
	snprintf(key, sizeof(key), "%.*s.attention.head_count_kv", (int)bytes, arch);
	gguf_u64(q->file, key, &kv);
	snprintf(key, sizeof(key), "%.*s.expert_count", (int)bytes, arch);
	gguf_u64(q->file, key, &experts);
	q->n_layer = (unsigned int)layers;
	q->n_expert = (unsigned int)experts;
	q->sharing = kv ? (unsigned int)(heads / kv) : 1;
}

static int quantize_run(struct quantize *q)
{
	if (q->opts->shape)
		return quantize_synthetic(q);
	return llm_quantize_type_is_packed(q->opts->type) ? quantize_panels(q)
							  : quantize_convert(q);
}

int llm_quantize(const struct llm_quantize_options *opts, struct llm_quantize_result *result)
{
	unsigned int threads = opts->threads ? opts->threads : host_threads();
	struct quantize q = { .opts = opts, .in = opts->in ? opts->in : opts->shape };
	char line[512];
	int err = check(opts);

	if (err)
		return err;
	q.type = types[opts->type].type;
	q.file_type = types[opts->type].file_type;
	err = opts->in ? gguf_open(opts->in, &q.file, line, sizeof(line)) : 0;
	if (err)
		return llm_fail(err, "%s", line);
	err = check_output(&q);
	if (!err)
		err = quantize_check_calibration(&q);
	if (err) {
		gguf_close(q.file);
		return err;
	}
	quantize_read_shape(&q);
	q.writer = gguf_writer_create();
	q.pool = llm_pool_create(threads, 0);
	err = q.pool ? quantize_open_rules(&q)
		     : llm_fail(-ENOMEM, "%u threads cannot be started", threads);
	if (!err && opts->imatrix)
		err = imatrix_open(opts->imatrix, &q.imatrix);
	if (!err)
		err = quantize_run(&q);
	if (!err && result)
		*result = q.sum;
	llm_pool_free(q.pool);
	gguf_writer_free(q.writer);
	free(q.shadows);
	quantize_close_rules(&q);
	imatrix_close(q.imatrix);
	llm_model_release(&q.model);
	gguf_close(q.file);
	return err;
}
