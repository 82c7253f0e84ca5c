// SPDX-License-Identifier: MIT
#include "panels_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checksum.h"
#include "gguf_writer.h"
#include "llm_fail.h"
#include "panels_room.h"

/* Raised when the same weights become other panels: caches of before are not used then. */
#define PACKING_VERSION 2
/* Of writing: less than a millisecond */
#define STEP_BYTES (1u << 20)

#define WHEN_BYTES 32

/* 0 or -errno. */
static int when_changed(const struct gguf_shard *shard, char when[WHEN_BYTES])
{
	struct stat st;

	if (fstat(shard->fd, &st))
		return -errno;
	snprintf(when, WHEN_BYTES, "%lld.%09ld", (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	return 0;
}

/* One number for the sizes and times of all shards. */
static int when_changed_all(const struct gguf_file *model, char when[WHEN_BYTES])
{
	struct llm_checksum c;
	int err = 0;

	llm_checksum_begin(&c);
	for (size_t i = 0; i < gguf_n_shards(model) && !err; i++) {
		const struct gguf_shard *shard = gguf_shard(model, i);

		err = when_changed(shard, when);
		llm_checksum_add(&c, when, err ? 0 : strlen(when) + 1);
		llm_checksum_add(&c, &shard->bytes, sizeof(shard->bytes));
	}
	snprintf(when, WHEN_BYTES, "%016" PRIx64, llm_checksum_end(&c));
	return err;
}

int panels_file_source(const struct gguf_file *model, const char *path,
		       char source[PANELS_SOURCE_BYTES])
{
	size_t n = gguf_n_shards(model);
	uint64_t bytes = 0;
	char when[WHEN_BYTES];
	int err;

	for (size_t i = 0; i < n; i++)
		bytes += gguf_shard(model, i)->bytes;
	err = n > 1 ? when_changed_all(model, when) : when_changed(gguf_shard(model, 0), when);
	if (err)
		return llm_fail(err, "%s: cannot be examined: %s", path, strerror(-err));
	snprintf(source, PANELS_SOURCE_BYTES, "%d %" PRIu64 " %s", PACKING_VERSION, bytes, when);
	return 0;
}

static bool has_string(const struct gguf_file *file, const char *key)
{
	const char *value;
	size_t bytes;

	return !gguf_string(file, key, &value, &bytes);
}

bool panels_file_is_cache(const struct gguf_file *file)
{
	uint64_t version;

	return !has_string(file, "general.architecture") &&
	       (has_string(file, LLM_PANELS_SOURCE) || !gguf_u64(file, "vnpu.panels", &version));
}

/* A matrix; @matrix -1: the output matrix. */
struct panels {
	const struct panels_file *file;
	const struct llm_packed *packed;
	unsigned int layer;
	int matrix;
	uint64_t bytes;
	uint64_t sum; /* its checksum, once it is written */
};

static int put_panels(void *ud, struct gguf_sink *sink)
{
	struct panels *p = ud;
	const uint8_t *data = llm_packed_panels(p->packed, p->layer, p->matrix);
	struct llm_checksum c;
	int err = 0;

	llm_checksum_begin(&c);
	for (uint64_t done = 0; done < p->bytes && !err; done += STEP_BYTES) {
		uint64_t left = p->bytes - done, bytes = left < STEP_BYTES ? left : STEP_BYTES;

		p->file->pause(p->file->ud);
		llm_checksum_add(&c, data + done, bytes);
		err = gguf_sink_put(sink, data + done, bytes);
	}
	p->sum = llm_checksum_end(&c);
	return err;
}

/* All matrices, in the order of the file. */
struct matrices {
	struct panels *panels;
	size_t n;
};

static int put_checksums(void *ud, struct gguf_sink *sink)
{
	const struct matrices *m = ud;
	int err = 0;

	for (size_t i = 0; i < m->n && !err; i++)
		err = gguf_sink_put(sink, &m->panels[i].sum, sizeof(m->panels[i].sum));
	return err;
}

static void add_panels(struct gguf_writer *w, struct panels *p, const char *name)
{
	const uint64_t dims[GGUF_MAX_DIMS] = { p->bytes, 1, 1, 1 };

	gguf_writer_tensor_made(w, name, GGUF_I8, 1, dims, put_panels, p);
}

/* A layer's matrices one after another, so that its part of the file can be a buffer. */
static void add_matrices(struct gguf_writer *w, const struct panels_file *f,
			 const struct llm_packed *packed, struct matrices *m)
{
	uint64_t dims[GGUF_MAX_DIMS] = { 0, 1, 1, 1 };
	struct panels *p = m->panels;
	char name[96];

	for (unsigned int i = 0; i < packed->n_layer; i++) {
		for (int which = 0; which < LLM_NR_MATRICES; which++) {
			if (!packed->layers[i].part[which].bytes)
				continue;
			*p = (struct panels){
				.file = f, .packed = packed, .layer = i, .matrix = which
			};
			p->bytes = packed->layers[i].part[which].bytes;
			snprintf(name, sizeof(name), "blk.%u.%s.panels", i,
				 llm_model_matrix_name(f->model, which));
			add_panels(w, p++, name);
		}
	}
	*p = (struct panels){ .file = f, .packed = packed, .layer = packed->n_layer, .matrix = -1 };
	p->bytes = packed->output_bytes;
	add_panels(w, p++, "output.panels");
	m->n = (size_t)(p - m->panels);
	dims[0] = m->n * sizeof(uint64_t);
	gguf_writer_tensor_made(w, LLM_CHECKSUMS, GGUF_I8, 1, dims, put_checksums, m);
}

static int save(const struct panels_file *f, struct gguf_writer *w, uint64_t *bytes)
{
	char line[512];
	int err;

	*bytes = gguf_writer_bytes(w);
	err = panels_room_take(f->path, *bytes, f->limit_bytes);
	if (err)
		return err;
	err = gguf_writer_save(w, f->path, line, sizeof(line));
	if (err)
		return llm_fail(err, "%s", line);
	/* Another process may have made one as well. */
	return panels_room_trim(f->path, *bytes, f->limit_bytes);
}

int panels_file_write(const struct panels_file *f, const struct llm_packed *packed, uint64_t *bytes)
{
	struct matrices m = { .n = (size_t)packed->n_layer * LLM_NR_MATRICES + 1 };
	struct gguf_writer *w = gguf_writer_create();
	int err;

	m.panels = calloc(m.n, sizeof(*m.panels));
	if (w && m.panels) {
		gguf_writer_align(w);
		gguf_writer_u32(w, "vnpu.panels", LLM_PANELS_VERSION);
		gguf_writer_string(w, "vnpu.weights", f->weights, strlen(f->weights));
		gguf_writer_string(w, LLM_PANELS_SOURCE, f->source, strlen(f->source));
		add_matrices(w, f, packed, &m);
		gguf_writer_array(w, LLM_FORMATS, GGUF_KV_I32, m.n);
		for (size_t i = 0; i < m.n; i++)
			gguf_writer_i32_element(
				w, llm_format_number(llm_packed_format(packed, m.panels[i].layer,
								       m.panels[i].matrix)));
		err = save(f, w, bytes);
	} else {
		err = llm_fail(-ENOMEM, "%s: no memory to write it", f->path);
	}
	gguf_writer_free(w);
	free(m.panels);
	return err;
}
