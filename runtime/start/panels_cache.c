// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "panels_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "llm_fail.h"
#include "panels_file.h"
#include "panels_room.h"

/* Without an evaluation for so long, the next is not about to begin. */
#define IDLE_NS 50000000l

struct panels_cache {
	char *path;
	const struct llm_model *model;
	const char *weights;
	char source[PANELS_SOURCE_BYTES]; /* what a cache must be made of */
	uint64_t limit_bytes;
	struct gguf_file *file; /* NULL: not found */
	/* Of the thread that makes it: */
	struct llm_packed *packed;
	bool keep_mapped;
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	unsigned int busy; /* evaluations under way */
	struct timespec idle_from; /* without them it may be written from then on */
	bool hurry; /* somebody waits for it */
	struct llm_panels_cache info;
};

/* ---- finding it ---- */

static void cannot(struct panels_cache *c, const char *line)
{
	c->info.state = LLM_PANELS_FAILED;
	snprintf(c->info.why, sizeof(c->info.why), "%s", line);
}

/* Not what it should be: the next one takes its place. */
static void discard(struct panels_cache *c)
{
	struct stat st;

	if (!lstat(c->path, &st) && S_ISREG(st.st_mode))
		unlink(c->path);
}

/* Whether it begins as a cache does, or is too short to tell: not somebody's other file. */
static bool may_be_cache(const char *path)
{
	char magic[4] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, magic, sizeof(magic));

	if (fd >= 0)
		close(fd);
	return n >= 0 && !memcmp(magic, "GGUF", (size_t)n);
}

static bool says(const struct gguf_file *file, const char *key, const char *want)
{
	const char *value;
	size_t bytes;

	return !gguf_string(file, key, &value, &bytes) && bytes == strlen(want) &&
	       !memcmp(value, want, bytes);
}

static bool is_of(const struct panels_cache *c, const struct gguf_file *file)
{
	return says(file, LLM_PANELS_SOURCE, c->source) && says(file, "vnpu.weights", c->weights);
}

/* Uses the panels of an open file, or does without. 0, or -ENOMEM with the error line. */
static int use(struct panels_cache *c, struct llm_model *model, struct gguf_file *file)
{
	char line[256];
	int err = -EINVAL;

	if (!panels_file_is_cache(file)) {
		snprintf(line, sizeof(line), "%s: is no cache of panels: give it another name",
			 c->path);
		cannot(c, line);
		gguf_close(file);
		return 0;
	}
	if (is_of(c, file))
		err = llm_model_use_panels(model, file, c->path);
	if (err) {
		gguf_close(file);
		if (err == -ENOMEM)
			return err;
		discard(c);
		return 0;
	}
	c->file = file;
	c->info.state = LLM_PANELS_FOUND;
	c->info.bytes = gguf_shard(file, 0)->bytes;
	/* It has been used; where that cannot be noted, it goes as if it had not. */
	futimens(gguf_shard(file, 0)->fd, NULL);
	return 0;
}

static int look(struct panels_cache *c, struct llm_model *model)
{
	struct gguf_file *file;
	char line[256];
	int err = gguf_open(c->path, &file, line, sizeof(line));

	if (!err)
		return use(c, model, file);
	if ((err == -EINVAL || err == -ENOTSUP) && may_be_cache(c->path))
		discard(c);
	else if (err != -ENOENT)
		cannot(c, line);
	return 0;
}

int panels_cache_open(struct llm_model *model, const struct gguf_file *file, const char *path,
		      enum llm_weights weights, uint64_t limit_bytes, struct panels_cache **cache)
{
	struct panels_cache *c = calloc(1, sizeof(*c));
	pthread_condattr_t monotonic;
	int err;

	*cache = c;
	if (!c)
		return llm_fail(-ENOMEM, "%s: no memory for its cache of panels", path);
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&c->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	c->model = model;
	c->weights = llm_choice_name(LLM_CHOICE_WEIGHTS, weights);
	c->limit_bytes = limit_bytes;
	c->info.state = LLM_PANELS_DUE;
	if (asprintf(&c->path, "%s.%s.panels", path, c->weights) < 0) {
		c->path = NULL;
		err = llm_fail(-ENOMEM, "%s: no memory for its cache of panels", path);
	} else {
		err = panels_file_source(file, path, c->source);
	}
	c->info.path = c->path;
	err = err ? err : look(c, model);
	if (err) {
		panels_cache_close(c);
		*cache = NULL;
	}
	return err;
}

const struct gguf_file *panels_cache_file(const struct panels_cache *c)
{
	return c->file;
}

const char *panels_cache_path(const struct panels_cache *c)
{
	return c->path;
}

bool panels_cache_is_due(struct panels_cache *c)
{
	return panels_cache_info(c, false).state == LLM_PANELS_DUE;
}

/* ---- making it ---- */

static void end(struct panels_cache *c, int err, uint64_t bytes)
{
	pthread_mutex_lock(&c->lock);
	c->info.bytes = bytes;
	c->info.state = LLM_PANELS_MADE;
	if (err)
		cannot(c, llm_error());
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* Waits until nothing is evaluated, unless somebody waits for the cache. */
static void give_way(void *ud)
{
	struct panels_cache *c = ud;
	struct timespec now;

	pthread_mutex_lock(&c->lock);
	while (!c->hurry) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (!c->busy && !is_before(&now, &c->idle_from))
			break;
		if (c->busy)
			pthread_cond_wait(&c->changed, &c->lock);
		else
			pthread_cond_timedwait(&c->changed, &c->lock, &c->idle_from);
	}
	pthread_mutex_unlock(&c->lock);
}

void panels_cache_busy(struct panels_cache *c)
{
	pthread_mutex_lock(&c->lock);
	c->busy++;
	pthread_mutex_unlock(&c->lock);
}

void panels_cache_idle(struct panels_cache *c)
{
	pthread_mutex_lock(&c->lock);
	c->busy--;
	clock_gettime(CLOCK_MONOTONIC, &c->idle_from);
	c->idle_from.tv_nsec += IDLE_NS;
	c->idle_from.tv_sec += c->idle_from.tv_nsec / 1000000000;
	c->idle_from.tv_nsec %= 1000000000;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static void make(struct panels_cache *c)
{
	const struct panels_file f = { c->path,	       c->model, c->weights, c->source,
				       c->limit_bytes, give_way, c };
	uint64_t bytes = 0;
	int err;

	err = panels_file_write(&f, c->packed, &bytes);
	for (unsigned int i = 0; i <= c->packed->n_layer && !c->keep_mapped; i++)
		llm_packed_unmap(c->packed, i);
	end(c, err, bytes);
}

/* The limit may be less than when this one was made. An error shows when one is made again. */
static void trim(struct panels_cache *c)
{
	if (c->info.bytes > c->limit_bytes)
		unlink(c->path);
	else
		panels_room_trim(c->path, c->info.bytes, c->limit_bytes);
}

static void *thread(void *arg)
{
	struct panels_cache *c = arg;

	if (c->file)
		trim(c);
	else
		make(c);
	return NULL;
}

/* Signals are the program's own; that of a file that grows past its limit is an error here. */
static int start_thread(struct panels_cache *c)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&c->thread, NULL, thread, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

void panels_cache_make(struct panels_cache *c, struct llm_packed *packed, bool keep_mapped)
{
	enum llm_panels_state state;

	pthread_mutex_lock(&c->lock);
	state = c->info.state;
	if (!c->has_thread && (state == LLM_PANELS_DUE || state == LLM_PANELS_FOUND)) {
		c->packed = packed;
		c->keep_mapped = keep_mapped;
		c->has_thread = !start_thread(c);
		if (state == LLM_PANELS_DUE)
			c->info.state = LLM_PANELS_MAKING;
		if (!c->has_thread)
			cannot(c, "no thread can be started for the cache of panels");
	}
	pthread_mutex_unlock(&c->lock);
}

/* With the lock. */
static void hurry(struct panels_cache *c)
{
	c->hurry = true;
	pthread_cond_broadcast(&c->changed);
}

struct llm_panels_cache panels_cache_info(struct panels_cache *c, bool wait)
{
	struct llm_panels_cache info;

	pthread_mutex_lock(&c->lock);
	if (wait)
		hurry(c);
	while (wait && c->info.state == LLM_PANELS_MAKING)
		pthread_cond_wait(&c->changed, &c->lock);
	info = c->info;
	pthread_mutex_unlock(&c->lock);
	return info;
}

void panels_cache_close(struct panels_cache *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	hurry(c);
	pthread_mutex_unlock(&c->lock);
	if (c->has_thread)
		pthread_join(c->thread, NULL);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->changed);
	gguf_close(c->file);
	free(c->path);
	free(c);
}
