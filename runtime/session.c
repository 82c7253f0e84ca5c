/* SPDX-License-Identifier: MIT */
/*
 * Sessions: a KV cache, the memory that a chunk is computed in, and the logits.
 *
 * Tokens are evaluated in chunks of the engine's size. n_past moves only when all of them are done, so a failed
 * evaluation leaves a session that can be used again: cache rows beyond n_past are never read before they are written.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "engine.h"
#include "forward.h"
#include "hetero.h"
#include "llm_fail.h"

#define DEFAULT_MAX_CTX 4096
/* As the NPU's operands: VNPU_MAX_DIM. */
#define MAX_ROWS (1u << 24)
#define AREA_ALIGN 64

int llm_memory_alloc(struct llm_engine *engine, struct llm_memory *mem, size_t bytes, const char *what)
{
	int err;

	if (engine->ctx) {
		err = npu_buffer_create(engine->ctx, bytes, 0, &mem->buf);
		if (err)
			return llm_fail(err, "%s of %zu bytes: %s", what, bytes, npu_error());
		mem->data = npu_buffer_data(mem->buf);
	} else {
		/* Not malloc(): pages that a short session never touches shall not be zeroed. */
		mem->data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (mem->data == MAP_FAILED) {
			mem->data = NULL;
			return llm_fail(-ENOMEM, "no memory for %s of %zu bytes", what, bytes);
		}
	}
	mem->bytes = bytes;
	return 0;
}

void llm_memory_free(struct llm_memory *mem)
{
	if (mem->buf)
		npu_buffer_free(mem->buf);
	else if (mem->data)
		munmap(mem->data, mem->bytes);
	memset(mem, 0, sizeof(*mem));
}

static int session_alloc_kv(struct llm_session *s)
{
	const struct llm_model *m = &s->engine->model;
	size_t bytes;

	s->kv_row_bytes = VNPU_KV_BYTES(llm_kv_type(s->engine->info.choices.kv), m->kv_dim);
	s->kv_stride = (s->kv_rows * s->kv_row_bytes + AREA_ALIGN - 1) / AREA_ALIGN * AREA_ALIGN;
	if (__builtin_mul_overflow(s->kv_stride, 2 * (size_t)m->n_layer, &bytes))
		return llm_fail(-ENOMEM, "a KV cache for %u tokens in %u blocks has more bytes than can be counted",
				s->n_ctx, m->n_layer);
	s->stats.kv_bytes = bytes;
	return llm_memory_alloc(s->engine, &s->kv, bytes, "a KV cache");
}

static int session_alloc_work(struct llm_session *s)
{
	const struct llm_model *m = &s->engine->model;
	size_t chunk = llm_hetero_rows(s->engine->info.choices.placement, s->engine->info.choices.graphs, s->chunk), end = 0;
	const struct {
		struct llm_area *area;
		size_t rows, cols;
	} areas[] = {
		{ &s->x, chunk, m->n_embd },   { &s->y, chunk, m->n_embd },  { &s->xn, chunk, m->n_embd },
		{ &s->q, chunk, m->q_dim },    { &s->k, chunk, m->kv_dim },  { &s->v, chunk, m->kv_dim },
		{ &s->att, chunk, m->q_dim },  { &s->gate, chunk, m->n_ff }, { &s->up, chunk, m->n_ff },
		{ &s->logits, 1, m->n_vocab },
	};
	int err;

	for (size_t i = 0; i < sizeof(areas) / sizeof(areas[0]); i++) {
		areas[i].area->off = end;
		areas[i].area->bytes = areas[i].rows * areas[i].cols * sizeof(float);
		end += (areas[i].area->bytes + AREA_ALIGN - 1) / AREA_ALIGN * AREA_ALIGN;
	}
	err = llm_memory_alloc(s->engine, &s->work, end, "work memory of a session");
	for (size_t i = 0; !err && i < sizeof(areas) / sizeof(areas[0]); i++)
		areas[i].area->data = (float *)((char *)s->work.data + areas[i].area->off);
	return err;
}

static int session_alloc_lane(struct llm_session *s)
{
	struct llm_engine *e = s->engine;

	s->scratch_floats = (llm_forward_scratch(e) + 15) / 16 * 16;
	s->scratch = aligned_alloc(AREA_ALIGN, s->scratch_floats * sizeof(float) * e->info.threads);
	if (!s->scratch)
		return llm_fail(-ENOMEM, "no memory for %u threads' scratch of %zu bytes", e->info.threads,
				s->scratch_floats * sizeof(float));
	return 0;
}

/* Placements gpu and layer. */
static bool session_is_layered(const struct llm_session *s)
{
	return s->engine->info.choices.placement == LLM_PLACE_GPU || s->engine->info.choices.placement == LLM_PLACE_LAYER;
}

int llm_session_create(struct llm_engine *engine, unsigned int n_ctx, struct llm_session **session)
{
	unsigned int n_ctx_train = engine->info.n_ctx_train, chunk = engine->info.chunk;
	struct llm_session *s;
	int err;

	*session = NULL;
	if (!n_ctx)
		n_ctx = n_ctx_train < DEFAULT_MAX_CTX ? n_ctx_train : DEFAULT_MAX_CTX;
	if (n_ctx > MAX_ROWS - chunk)
		return llm_fail(-EINVAL,
				"a context of %u tokens, a KV cache of %llu bytes; at most %u tokens are possible",
				n_ctx,
				2ull * n_ctx * engine->model.n_layer *
					VNPU_KV_BYTES(llm_kv_type(engine->info.choices.kv), engine->model.kv_dim),
				MAX_ROWS - chunk);
	s = calloc(1, sizeof(*s));
	if (!s)
		return llm_fail(-ENOMEM, "no memory for a session");
	s->engine = engine;
	atomic_fetch_add(&engine->refs, 1);
	s->n_ctx = n_ctx;
	s->chunk = chunk;
	if (session_is_layered(s))
		s->chunk = n_ctx;
	else if (engine->info.choices.graphs == LLM_GRAPHS_BUCKETED && n_ctx < chunk)
		s->chunk = (n_ctx + LLM_BUCKET_ROWS - 1) / LLM_BUCKET_ROWS * LLM_BUCKET_ROWS;
	s->chunk = s->chunk < chunk ? s->chunk : chunk;
	s->kv_rows = n_ctx;
	/* There attention writes the tokens' own rows only. */
	if (engine->ctx && !session_is_layered(s))
		s->kv_rows += engine->info.choices.graphs == LLM_GRAPHS_BUCKETED ? LLM_BUCKET_ROWS : chunk;
	err = session_alloc_kv(s);
	if (!err)
		err = session_alloc_work(s);
	if (!err)
		err = session_alloc_lane(s);
	if (!err && session_is_layered(s))
		err = llm_hetero_create(s);
	else if (!err && engine->ctx)
		err = llm_npu_lane_create(s);
	if (err) {
		llm_session_free(s);
		return err;
	}
	*session = s;
	return 0;
}

void llm_session_free(struct llm_session *s)
{
	if (!s)
		return;
	llm_npu_lane_free(s);
	llm_hetero_free(s);
	llm_forward_free(s);
	llm_memory_free(&s->kv);
	llm_memory_free(&s->work);
	llm_memory_free(&s->all_memory);
	free(s->scratch);
	llm_engine_put(s->engine);
	free(s);
}

unsigned int llm_session_n_ctx(const struct llm_session *session)
{
	return session->n_ctx;
}

unsigned int llm_session_n_past(const struct llm_session *session)
{
	return session->n_past;
}

int llm_session_truncate(struct llm_session *session, unsigned int n_past)
{
	if (n_past > session->n_past)
		return llm_fail(-EINVAL, "cannot cut a session of %u tokens to %u", session->n_past, n_past);
	session->n_past = n_past;
	return 0;
}

static int session_check(const struct llm_session *s, const int32_t *ids, size_t n)
{
	unsigned int n_vocab = s->engine->info.n_vocab;

	if (!n)
		return llm_fail(-EINVAL, "no tokens to evaluate");
	if (n > s->n_ctx - s->n_past)
		return llm_fail(-ENOSPC, "%zu tokens after %u do not fit a context of %u", n, s->n_past, s->n_ctx);
	for (size_t i = 0; i < n; i++) {
		if (ids[i] < 0 || (unsigned int)ids[i] >= n_vocab)
			return llm_fail(-EINVAL, "token %zu is %d, not one of the vocabulary's %u", i, ids[i], n_vocab);
	}
	return 0;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t llm_session_now_ns(const struct llm_session *s)
{
	return s->engine->profile ? s->stats.virtual_clock.ns : now_ns();
}

void llm_session_listen(struct llm_session *session, llm_run_fn fn, void *ud)
{
	session->listener.fn = fn;
	session->listener.ud = ud;
}

static int session_forward(struct llm_session *s, const int32_t *ids, unsigned int pos, unsigned int n,
			   enum llm_want want)
{
	struct llm_pass pass = {
		.s = s,
		.products = &llm_forward_cpu_products,
		.ids = ids,
		.pos = pos,
		.n = n,
		.want = want,
	};
	int err = s->engine->ctx && !s->hetero ? llm_forward_npu_products(s, n, &pass.products) : 0;

	return err ? err : llm_forward(&pass);
}

struct session_listener {
	void (*fn)(void *ud, size_t i, const float *logits);
	void *ud;
};

/* @all NULL: only the last token's logits. */
static int session_run(struct llm_session *s, const int32_t *ids, size_t n, const struct session_listener *all)
{
	unsigned int chunk = all ? llm_session_all_rows(s) : s->chunk, n_vocab = s->engine->info.n_vocab;
	uint64_t start = llm_session_now_ns(s);
	int err = session_check(s, ids, n);

	if (err)
		return err;
	s->has_logits = false;
	for (size_t done = 0; done < n;) {
		unsigned int rows = n - done < chunk ? (unsigned int)(n - done) : chunk;
		unsigned int pos = s->n_past + (unsigned int)done;
		enum llm_want want = all ? LLM_WANT_ALL : done + rows == n ? LLM_WANT_LAST : LLM_WANT_NONE;

		err = session_forward(s, ids + done, pos, rows, want);
		if (err)
			return err;
		for (size_t i = 0; all && i < rows; i++)
			all->fn(all->ud, done + i, s->all.data + i * n_vocab);
		if (all && done + rows == n)
			memcpy(s->logits.data, s->all.data + (size_t)(rows - 1) * n_vocab, n_vocab * sizeof(float));
		done += rows;
	}
	s->n_past += (unsigned int)n;
	s->has_logits = true;
	if (n == 1) {
		s->stats.decode_tokens++;
		s->stats.decode_ns += llm_session_now_ns(s) - start;
	} else {
		s->stats.prefill_tokens += n;
		s->stats.prefill_ns += llm_session_now_ns(s) - start;
	}
	return 0;
}

int llm_session_eval(struct llm_session *session, const int32_t *ids, size_t n)
{
	return session_run(session, ids, n, NULL);
}

int llm_session_eval_all(struct llm_session *session, const int32_t *ids, size_t n,
			 void (*fn)(void *ud, size_t i, const float *logits), void *ud)
{
	const struct session_listener all = { .fn = fn, .ud = ud };
	size_t bytes = (size_t)llm_session_all_rows(session) * session->engine->info.n_vocab * sizeof(float);
	int err;

	if (!session->all.data) {
		err = llm_memory_alloc(session->engine, &session->all_memory, bytes, "logits of all tokens");
		if (err)
			return err;
		session->all = (struct llm_area){ .data = session->all_memory.data, .bytes = bytes };
	}
	return session_run(session, ids, n, &all);
}

const float *llm_session_logits(const struct llm_session *session)
{
	return session->has_logits ? session->logits.data : NULL;
}

void llm_session_stats(const struct llm_session *session, struct llm_session_stats *stats)
{
	*stats = session->stats;
}

bool llm_session_waits(const struct llm_session *session, bool tokens, struct llm_wait_stats *stats)
{
	static const double percents[] = { 10, 50, 90, 99 };
	const struct waits *w = llm_hetero_waits(session, tokens);

	memset(stats, 0, sizeof(*stats));
	if (!w)
		return false;
	stats->waits = w->nr_samples;
	stats->overslept = w->nr_overslept;
	stats->given_up = w->nr_given_up;
	stats->slept_s = (double)w->slept_ns / 1e9;
	stats->polled_s = (double)w->polled_ns / 1e9;
	for (int i = 0; i < 4; i++) {
		stats->predicted_us[i] = waits_percentile(w, WAITS_PREDICTED, percents[i]) / 1e3;
		stats->took_us[i] = waits_percentile(w, WAITS_TOOK, percents[i]) / 1e3;
		stats->late_us[i] = waits_percentile(w, WAITS_LATE, percents[i]) / 1e3;
	}
	return true;
}
