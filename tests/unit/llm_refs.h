/* SPDX-License-Identifier: MIT */
/* Models with reference results, and their files. */
#ifndef LLM_REFS_H
#define LLM_REFS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm.h"

#define REF_MAX_IDS 512
#define REF_MAX_VOCAB 4096

struct reference {
	int32_t ids[REF_MAX_IDS]; /* a prompt */
	size_t n_ids;
	int32_t greedy[64]; /* the tokens that follow it */
	size_t n_greedy;
	float last[REF_MAX_VOCAB]; /* logits after the prompt */
	size_t n_vocab;
};

/* The source tree: VNPU_SRC, or the working directory. */
static inline const char *ref_src(void)
{
	const char *src = getenv("VNPU_SRC");

	return src ? src : ".";
}

static inline const char *ref_embedded(char *path, size_t bytes)
{
	snprintf(path, bytes, "%s/share/models/docs6m/docs6m-q8_0.gguf", ref_src());
	return path;
}

static inline size_t ref_read(const char *dir, const char *name, const char *suffix, void *data,
			      size_t max)
{
	char path[1024];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s.%s", dir, name, suffix);
	f = fopen(path, "rb");
	if (!f) {
		perror(path);
		exit(1);
	}
	n = fread(data, 4, max, f);
	fclose(f);
	return n;
}

/* Loads the float64 reference of prompt @name ("p1") in @dir. */
static inline void ref_load(struct reference *ref, const char *dir, const char *name)
{
	ref->n_ids = ref_read(dir, name, "ids.i32", ref->ids, REF_MAX_IDS);
	ref->n_greedy = ref_read(dir, name, "greedy.i32", ref->greedy, 64);
	ref->n_vocab = ref_read(dir, name, "last.f32", ref->last, REF_MAX_VOCAB);
}

/* Loads the reference of the embedded model's prompt pN. */
static inline void ref_load_docs6m(struct reference *ref, int n)
{
	char dir[512], name[16];

	snprintf(dir, sizeof(dir), "%s/tests/data/docs6m", ref_src());
	snprintf(name, sizeof(name), "p%d", n);
	ref_load(ref, dir, name);
}

/* Opens @path; an error ends the test with the runtime's line. */
static inline struct llm_engine *ref_open_kv(const char *path, enum llm_placement placement,
					     unsigned int threads, unsigned int chunk,
					     enum llm_kv kv)
{
	struct llm_options opts = { .model = path,
				    .choices.placement = placement,
				    .choices.kv = kv,
				    .threads = threads,
				    .chunk = chunk };
	struct llm_engine *engine;

	if (llm_engine_open(&opts, &engine))
		fail_msg("%s", llm_error());
	return engine;
}

/* With an F32 cache, as the references are exact. */
static inline struct llm_engine *ref_open(const char *path, enum llm_placement placement,
					  unsigned int threads, unsigned int chunk)
{
	return ref_open_kv(path, placement, threads, chunk, LLM_KV_F32);
}

static inline struct llm_session *ref_session(struct llm_engine *engine, unsigned int n_ctx)
{
	struct llm_session *s;

	if (llm_session_create(engine, n_ctx, &s))
		fail_msg("%s", llm_error());
	return s;
}

static inline void ref_eval(struct llm_session *s, const int32_t *ids, size_t n)
{
	if (llm_session_eval(s, ids, n))
		fail_msg("%s", llm_error());
}

/* Generates @n tokens greedily. */
static inline void ref_greedy(struct llm_engine *engine, struct llm_session *s, int32_t *ids,
			      size_t n)
{
	for (size_t i = 0; i < n; i++) {
		ids[i] = llm_argmax(llm_session_logits(s), llm_engine_info(engine)->n_vocab);
		if (i + 1 < n)
			ref_eval(s, &ids[i], 1);
	}
}

/* max |a - b| / max |b| */
static inline double ref_error(const float *a, const float *b, size_t n)
{
	double diff = 0, max = 0;

	for (size_t i = 0; i < n; i++) {
		double d = (double)a[i] - (double)b[i], m = (double)b[i];

		d = d < 0 ? -d : d;
		m = m < 0 ? -m : m;
		/* A NaN makes the error NaN. */
		diff = d <= diff ? diff : d;
		max = m > max ? m : max;
	}
	return diff / max;
}

#endif /* LLM_REFS_H */
