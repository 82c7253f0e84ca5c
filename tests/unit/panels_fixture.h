/* SPDX-License-Identifier: MIT */
/* Cold starts of a random model in a folder of its own, and what becomes of its cache of panels. */
#ifndef PANELS_FIXTURE_H
#define PANELS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "gguf.h"
#include "llm.h"
#include "llm_prompts.h"
#include "llm_quantize.h"
#include "tiny_random.h"

#define GIB (1ull << 30)

/* A model in a folder of its own, and prompts for it. */
struct room {
	char folder[32], model[64], cache[80];
	struct tiny_config shape;
	struct prompts p;
	struct llm_options o;
};

/* Other weights of the same shape each time. */
static inline void make_model(struct room *r, const char *path, enum llm_quantize_type type)
{
	struct llm_quantize_options q = { .out = path, .type = type };
	struct tiny_model t;

	tiny_create(&t, &r->shape, random_u64(&seed_state));
	tiny_write(&t);
	q.in = t.path;
	if (llm_quantize(&q, NULL))
		fail_msg("%s", llm_error());
	tiny_free(&t);
	r->p = prompts_of(r->shape.n_vocab);
}

static inline void enter(struct room *r, enum llm_quantize_type type, enum llm_weights weights)
{
	static const enum llm_placement places[] = { LLM_PLACE_NPU, LLM_PLACE_FINE,
						     LLM_PLACE_LINEAR };

	r->shape = tiny_any(tiny_any_arch(false), MAX_TOKENS, any(2, 4), 64, any(2, 6));
	strcpy(r->folder, "/tmp/test_panels_cache-XXXXXX");
	assert_non_null(mkdtemp(r->folder));
	snprintf(r->model, sizeof(r->model), "%s/m.gguf", r->folder);
	snprintf(r->cache, sizeof(r->cache), "%s.%s.panels", r->model,
		 llm_choice_name(LLM_CHOICE_WEIGHTS, weights));
	make_model(r, r->model, type);
	r->o = (struct llm_options){
		.model = r->model,
		.choices = { .placement = places[any(0, 2)], .weights = weights },
		.threads = any(1, 3),
		.device = { .transport = NPU_TRANSPORT_SIM, .threads = any(1, 3) },
	};
	r->o.choices.start = LLM_START_COLD;
	r->o.panels_cache_bytes = GIB;
}

/* The files in a folder, and with @remove none of them any longer. */
static inline unsigned int files_in(const char *folder, bool remove)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	unsigned int n = 0;
	char path[PATH_MAX];

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		n++;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (remove)
			unlink(path);
	}
	closedir(dir);
	return n;
}

static inline void leave(struct room *r)
{
	files_in(r->folder, true);
	assert_int_equal(rmdir(r->folder), 0);
}

static inline bool exists(const char *path)
{
	return !access(path, F_OK);
}

/* The logits of a warm start without a cache. */
static inline char *warm(const struct room *r)
{
	struct llm_options o = r->o;

	o.choices.start = LLM_START_WARM;
	o.choices.order = LLM_ORDER_AUTO;
	o.panels_cache_bytes = 0;
	return logits_of(&r->p, &o);
}

/* Starts, evaluates, and compares. Returns what has become of the cache. */
static inline struct llm_panels_cache begin(const struct room *r, const char *want)
{
	char *got = malloc(STEPS * r->p.bytes);
	struct llm_panels_cache cache;
	struct llm_engine *engine;

	if (llm_engine_open(&r->o, &engine))
		fail_msg("%s", llm_error());
	evaluate(engine, &r->p, got);
	llm_engine_panels_cache(engine, true, &cache);
	llm_engine_close(engine);
	if (memcmp(got, want, STEPS * r->p.bytes))
		fail_msg("other logits, with the cache %s", llm_panels_state_name(cache.state));
	free(got);
	cache.path = r->cache;
	return cache;
}

static inline void begins(const struct room *r, const char *want, enum llm_panels_state state)
{
	const struct llm_panels_cache cache = begin(r, want);

	if (cache.state != state)
		fail_msg("%s, not %s: %s", llm_panels_state_name(cache.state),
			 llm_panels_state_name(state), cache.why);
}

static inline void fails(const struct room *r, const char *want, const char *why)
{
	const struct llm_panels_cache cache = begin(r, want);

	assert_int_equal(cache.state, LLM_PANELS_FAILED);
	if (!strstr(cache.why, why) || !strstr(cache.why, r->cache))
		fail_msg("%s: does not say %s", cache.why, why);
}

static inline uint64_t bytes_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

#endif
