// SPDX-License-Identifier: MIT
/* Writing model files: see llm_quantize.h. */
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cpus.h"
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
	char known[128] = "";

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
	err = quantize_check_calibration(&q);
	if (err) {
		gguf_close(q.file);
		return err;
	}
	q.writer = gguf_writer_create();
	q.pool = llm_pool_create(threads, 0);
	err = q.pool ? quantize_run(&q)
		     : llm_fail(-ENOMEM, "%u threads cannot be started", threads);
	if (!err && result)
		*result = q.sum;
	llm_pool_free(q.pool);
	gguf_writer_free(q.writer);
	free(q.shadows);
	llm_model_release(&q.model);
	gguf_close(q.file);
	return err;
}
