// SPDX-License-Identifier: MIT
/* Writes a model with the same metadata and tensors, but its matrices in another type. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "imatrix.h"
#include "llm_fail.h"
#include "quantize.h"

/* Counts of tensors to warn of: already quantised ones, those whose rows do not fit a block, so
 * that they become another type, and those of unknown importance. */
struct doubts {
	unsigned int again, odd, unknown;
};

/* The importance of its columns. A matrix that the file does not have gets none. */
static int take_importance(const struct quantize *q, struct quantize_tensor *t,
			   struct doubts *doubts)
{
	uint64_t matrices = t->dims[2] * t->dims[3];

	if (!q->imatrix || !gguf_searches(t->type))
		return 0;
	t->importance = imatrix_find(q->imatrix, t->name, &t->n_importance);
	doubts->unknown += !t->importance;
	if (t->importance && t->n_importance != t->dims[0] &&
	    t->n_importance != t->dims[0] * matrices)
		return llm_fail(-EINVAL, "%s: %s has %zu channels, and %" PRIu64 " in %s",
				q->opts->imatrix, t->name, t->n_importance, t->dims[0], q->in);
	return 0;
}

static int add_tensor(struct quantize *q, const struct gguf_tensor *from, bool head,
		      struct quantize_tensor *t, struct doubts *doubts)
{
	enum gguf_type type = quantize_target(q, from->name, from->dims, from->type, head);
	int ret;

	*t = (struct quantize_tensor){
		.name = from->name, .type = type, .n_dims = from->n_dims, .from = from
	};
	memcpy(t->dims, from->dims, sizeof(t->dims));
	quantize_smooth(q, t);
	ret = take_importance(q, t, doubts);
	doubts->again += (type != from->type || t->fold.in) &&
			 gguf_type_traits(from->type)->block_values > 1 &&
			 gguf_type_traits(type)->block_values > 1;
	doubts->odd +=
		from->dims[0] % gguf_type_traits(q->type)->block_values && type != from->type;
	quantize_add(q, t);
	return ret;
}

static void warn(const struct quantize *q, const struct doubts *doubts)
{
	const struct llm_quantize_options *opts = q->opts;
	char line[512];

	if (doubts->again && opts->warn) {
		snprintf(line, sizeof(line),
			 "%s: %u tensors are quantised already, and the errors add up; better "
			 "begin with F32 "
			 "or F16",
			 q->in, doubts->again);
		opts->warn(opts->ud, line);
	}
	if (doubts->odd && opts->warn) {
		unsigned int block = gguf_type_traits(q->type)->block_values;

		snprintf(line, sizeof(line),
			 "%s: %u tensors become %s: their rows are no multiple of %u values", q->in,
			 doubts->odd, block == 32 ? "F16" : "types of smaller blocks", block);
		opts->warn(opts->ud, line);
	}
	if (doubts->unknown && opts->warn) {
		snprintf(line, sizeof(line),
			 "%s: says nothing of %u tensors, whose channels are taken to be alike",
			 opts->imatrix, doubts->unknown);
		opts->warn(opts->ud, line);
	}
}

/* I8 tensors are no weights, but the panels of a packed file, or data of another program. */
static int refuse_bytes(const struct quantize *q)
{
	for (size_t i = 0; i < gguf_n_tensors(q->file); i++) {
		const struct gguf_tensor *t = gguf_tensor(q->file, i);

		if (gguf_type_is_float(t->type))
			continue;
		if (gguf_find_tensor(q->file, "output.panels"))
			return llm_fail(
				-EINVAL,
				"%s: is packed for the NPU, which cannot be undone; take the "
				"original file",
				q->in);
		return llm_fail(-EINVAL, "%s: tensor %s is %s, which is no type of weights", q->in,
				t->name, gguf_type_traits(t->type)->name);
	}
	return 0;
}

int quantize_convert(struct quantize *q)
{
	/* Not copied: keys that depend on the type, and the alignment, as the writer's is the
	 * default. */
	static const char *const except[] = { "general.file_type", "general.quantization_version",
					      "general.alignment" };
	bool tied = !gguf_find_tensor(q->file, "output.weight");
	size_t n = gguf_n_tensors(q->file), i;
	struct quantize_tensor *tensors = calloc(n + 1, sizeof(*tensors));
	struct doubts doubts = { 0 };
	uint64_t alignment;
	bool aligned = !gguf_u64(q->file, "general.alignment", &alignment) && alignment == 32;
	int ret = refuse_bytes(q);

	if (ret) {
		free(tensors);
		return ret;
	}
	if (!tensors)
		return llm_fail(-ENOMEM, "%s: no memory for %zu tensors", q->in, n);
	quantize_copy_metadata(q, except, aligned ? 2 : 3);
	gguf_writer_u32(q->writer, "general.quantization_version", 2);
	gguf_writer_u32(q->writer, "general.file_type", q->file_type);
	for (i = 0; i < n && !ret; i++) {
		const struct gguf_tensor *from = gguf_tensor(q->file, i);

		if (quantize_replaced(q, from))
			continue;
		ret = add_tensor(q, from,
				 !strcmp(from->name, tied ? "token_embd.weight" : "output.weight"),
				 &tensors[i], &doubts);
	}
	if (!ret)
		ret = quantize_check_rules(q);
	if (!ret)
		warn(q, &doubts);
	if (!ret)
		ret = quantize_add_shadows(q);
	if (!ret)
		ret = quantize_save(q);
	free(tensors);
	return ret;
}
