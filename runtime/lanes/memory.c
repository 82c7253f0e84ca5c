// SPDX-License-Identifier: MIT
#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu_lane.h"
#include "experts.h"
#include "lane_attention.h"
#include "llm_fail.h"

#define AREA_ALIGN 64

int llm_memory_alloc(const struct llm_loaded *loaded, struct llm_memory *mem, size_t bytes,
		     const char *what)
{
	int err;

	if (loaded->ctx) {
		err = npu_buffer_create(loaded->ctx, bytes, 0, &mem->buf);
		if (err)
			return llm_fail(err, "%s of %zu bytes: %s", what, bytes, npu_error());
		mem->data = npu_buffer_data(mem->buf);
	} else {
		/* The kernel zeroes pages only when a session touches them. */
		mem->data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
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

static int alloc_kv(struct lane_memory *m, unsigned int kv_rows)
{
	const struct llm_model *model = &m->loaded->model;
	size_t bytes;
	int err;

	m->kv_rows = kv_rows;
	m->kv_row_bytes = VNPU_KV_BYTES(llm_kv_type(m->loaded->kv), model->kv_dim);
	m->kv_stride = (kv_rows * m->kv_row_bytes + AREA_ALIGN - 1) / AREA_ALIGN * AREA_ALIGN;
	if (__builtin_mul_overflow(m->kv_stride, 2 * (size_t)model->n_layer, &bytes))
		return llm_fail(-ENOMEM,
				"a KV cache for %u tokens in %u layers: its size overflows",
				kv_rows, model->n_layer);
	err = llm_memory_alloc(m->loaded, &m->kv, bytes, "a KV cache");
	if (!err && cache_pages_init(&m->kv_pages, m->kv.data, bytes))
		err = llm_fail(-ENOMEM, "no memory for a list of a KV cache's pages");
	return err;
}

void lane_memory_want_rows(struct lane_memory *m, unsigned int rows)
{
	struct cache_layout layout;

	if (!m->kv.data)
		return;
	layout = (struct cache_layout){ .areas = 2 * (size_t)m->loaded->model.n_layer,
					.stride = m->kv_stride,
					.row_bytes = m->kv_row_bytes };
	cache_pages_grow(&m->kv_pages, &layout, rows);
}

static int alloc_work(struct lane_memory *m)
{
	const struct llm_model *model = &m->loaded->model;
	unsigned int n_ff = model->n_expert ? 0 : model->n_ff;
	const struct {
		struct llm_area *area;
		size_t rows, cols;
	} areas[] = {
		{ &m->x, m->rows, model->n_embd },
		{ &m->y, m->rows, model->n_embd },
		{ &m->xn, m->rows, model->n_embd },
		{ &m->q, m->rows, model->q_dim },
		{ &m->k, m->rows, model->kv_dim },
		{ &m->v, m->rows, model->kv_dim },
		{ &m->att, m->rows, model->q_dim },
		{ &m->gate, m->rows, n_ff },
		{ &m->up, m->rows, n_ff },
		{ &m->logits, 1, model->n_vocab },
		{ &m->shadow, m->rows, lane_shadow_cols(m->loaded) },
	};
	size_t end = 0;
	int err;

	for (size_t i = 0; i < sizeof(areas) / sizeof(areas[0]); i++) {
		areas[i].area->in = &m->work;
		areas[i].area->off = end;
		areas[i].area->bytes = areas[i].rows * areas[i].cols * sizeof(float);
		end += (areas[i].area->bytes + AREA_ALIGN - 1) / AREA_ALIGN * AREA_ALIGN;
	}
	err = llm_memory_alloc(m->loaded, &m->work, end, "work memory of a session");
	for (size_t i = 0; !err && i < sizeof(areas) / sizeof(areas[0]); i++)
		areas[i].area->data = (float *)((char *)m->work.data + areas[i].area->off);
	return err;
}

uint64_t lane_memory_bytes(const struct lane_memory *m, const struct shape *shape,
			   unsigned int rows)
{
	/* x, y and xn; q and att; k and v; gate and up */
	uint64_t cols = 3ull * shape->dim + 2ull * shape->heads * shape->head_dim +
			2ull * shape->kv_heads * shape->head_dim +
			(shape->experts ? 0 : 2ull * shape->ffn);
	uint64_t bytes =
		(rows * cols + shape->vocab) * sizeof(float) + lane_experts_bytes(shape, rows);

	if (!m->loaded)
		return bytes;
	return bytes + (uint64_t)rows * lane_shadow_cols(m->loaded) * sizeof(float) +
	       m->all_memory.bytes +
	       (uint64_t)m->scratch_floats * sizeof(float) * m->loaded->threads + m->tree.bytes +
	       m->chosen.memory.bytes +
	       m->chosen.max_kept * m->loaded->model.n_embd * sizeof(float) +
	       lane_embedding_bytes(&m->loaded->model);
}

static int alloc_scratch(struct lane_memory *m)
{
	m->scratch_floats = (lane_cpu_scratch(&m->loaded->model) + 15) / 16 * 16;
	m->scratch =
		aligned_alloc(AREA_ALIGN, m->scratch_floats * sizeof(float) * m->loaded->threads);
	if (!m->scratch)
		return llm_fail(-ENOMEM, "no scratch memory for %u threads, %zu bytes each",
				m->loaded->threads, m->scratch_floats * sizeof(float));
	m->embedding = malloc(lane_embedding_bytes(&m->loaded->model));
	if (!m->embedding)
		return llm_fail(-ENOMEM, "no memory for a row of the embeddings");
	return 0;
}

int lane_memory_init(struct lane_memory *m, const struct llm_loaded *loaded, unsigned int rows,
		     unsigned int n_ctx, unsigned int pad)
{
	int err;

	*m = (struct lane_memory){ .loaded = loaded, .rows = rows, .n_ctx = n_ctx };
	err = alloc_kv(m, n_ctx + pad);
	err = err ? err : alloc_work(m);
	err = err ? err : lane_shadow_init(m);
	err = err ? err : lane_attention_init(m);
	err = err ? err : lane_experts_init(m);
	return err ? err : alloc_scratch(m);
}

int lane_memory_want_all(struct lane_memory *m)
{
	size_t bytes = (size_t)LANE_LOGIT_ROWS * m->loaded->model.n_vocab * sizeof(float);
	int err;

	if (m->all.data)
		return 0;
	err = llm_memory_alloc(m->loaded, &m->all_memory, bytes, "logits of all tokens");
	if (!err)
		m->all = (struct llm_area){ .in = &m->all_memory,
					    .data = m->all_memory.data,
					    .bytes = bytes };
	return err;
}

uint64_t lane_memory_tree_bytes(const struct lane_memory *m)
{
	return m->tree.bytes ? m->tree.bytes + m->all_memory.bytes : 0;
}

int lane_memory_want_tree(struct lane_memory *m)
{
	int err = lane_memory_want_all(m);

	if (err || m->tree.data)
		return err;
	return llm_memory_alloc(m->loaded, &m->tree,
				LANE_TREE_ANCESTORS + LLM_MAX_TREE * sizeof(uint64_t),
				"memory for token trees");
}

static int alloc_chosen(struct lane_memory *m)
{
	struct lane_chosen *c = &m->chosen;
	size_t positions = LANE_LOGIT_ROWS * sizeof(uint32_t),
	       bytes = (size_t)LANE_LOGIT_ROWS * m->loaded->model.n_embd * sizeof(float);
	int err = llm_memory_alloc(m->loaded, &c->memory, positions + 2 * bytes,
				   "memory for chosen tokens");
	char *at = c->memory.data;

	if (err)
		return err;
	c->x = (struct llm_area){ &c->memory, (float *)(at + positions), positions, bytes };
	c->y = (struct llm_area){ &c->memory, (float *)(at + positions + bytes), positions + bytes,
				  bytes };
	return 0;
}

int lane_memory_want_chosen(struct lane_memory *m, size_t n)
{
	struct lane_chosen *c = &m->chosen;
	int err = lane_memory_want_all(m);
	float *kept;

	if (!err && !c->memory.data)
		err = alloc_chosen(m);
	if (err || n <= c->max_kept)
		return err;
	kept = realloc(c->kept, n * m->loaded->model.n_embd * sizeof(float));
	if (!kept)
		return llm_fail(-ENOMEM, "no memory for %zu chosen tokens", n);
	c->kept = kept;
	c->max_kept = n;
	return 0;
}

void lane_memory_fini(struct lane_memory *m)
{
	cache_pages_fini(&m->kv_pages);
	llm_memory_free(&m->kv);
	llm_memory_free(&m->work);
	llm_memory_free(&m->all_memory);
	llm_memory_free(&m->tree);
	llm_memory_free(&m->chosen.memory);
	free(m->chosen.kept);
	lane_shadow_fini(m);
	lane_attention_fini(m);
	lane_experts_fini(m);
	free(m->scratch);
	free(m->embedding);
	memset(m, 0, sizeof(*m));
}
