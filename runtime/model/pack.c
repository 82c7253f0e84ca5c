/* SPDX-License-Identifier: MIT */
/* Packing: each panel of 64 channels is an independent task of the pool. */
#include "pack.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_blocks.h"
#include "cpu_kernels.h"
#include "npu_graph.h"
#include "quant_w4.h"
#include "threadpool.h"

#define PANEL_ROWS 64
/* The file's pages are released after so many bytes. Each call costs the other threads a flush of
 * their page tables. */
#define RELEASE_BYTES (8u << 20)

_Static_assert(LLM_W4_GROUP == QUANT_W4_GROUP, "the sizes of groups are equal");

struct pack {
	const struct llm_packer *packer;
	const struct gguf_tensor *t;
	enum llm_format format;
	void *panels;
	unsigned int rows, cols;
	size_t scratch_bytes; /* per thread: a widened row, a panel's scales, its rows as bytes */
	atomic_uint bad_row; /* the first row with a value that is not finite; UINT_MAX: none */
};

enum llm_format llm_format_own(enum gguf_type type)
{
	switch (type) {
	case GGUF_Q4_0:
		return LLM_FORMAT_W4;
#define OWN(NAME, ...)    \
	case GGUF_##NAME: \
		return LLM_FORMAT_KQ + VNPU_KQ_##NAME;
		VNPU_KQ_TYPES(OWN)
	default:
		return LLM_FORMAT_W8;
	}
}

unsigned int llm_format_bits(enum llm_format format)
{
	if (llm_format_is_kq(format))
		return vnpu_kq_form(llm_format_kq(format)).bits;
	return format == LLM_FORMAT_W4 ? 4 : 8;
}

unsigned int llm_format_group(enum llm_format format)
{
	if (llm_format_is_kq(format))
		return vnpu_kq_form(llm_format_kq(format)).group;
	return format == LLM_FORMAT_W4 ? LLM_W4_GROUP : 0;
}

size_t llm_pack_bytes(enum llm_format format, unsigned int rows, unsigned int cols)
{
	if (llm_format_is_kq(format))
		return npu_kq_bytes(llm_format_kq(format), rows, cols);
	return format == LLM_FORMAT_W4 ? npu_w4_bytes(rows, cols, LLM_W4_GROUP)
				       : npu_w8_bytes(rows, cols);
}

/* Bytes of a panel's scales: an F32 per row, an F16 per group, or a block type's. */
static size_t scales_bytes(enum llm_format format, unsigned int cols)
{
	size_t row =
		format == LLM_FORMAT_W4 ? cols / LLM_W4_GROUP * sizeof(uint16_t) : sizeof(float);
	struct vnpu_kq_form f;

	if (llm_format_is_kq(format)) {
		f = vnpu_kq_form(llm_format_kq(format));
		row = cols / f.block * 2 * sizeof(uint16_t) + cols / f.group * 2;
	}
	return (PANEL_ROWS * row + 63) / 64 * 64;
}

/* A panel's rows in their block type, with the scales in @scales. */
static struct npu_kq_rows kq_rows(const struct pack *p, void *scales, uint8_t *bytes)
{
	const struct vnpu_kq_form f = vnpu_kq_form(llm_format_kq(p->format));
	size_t blocks = PANEL_ROWS * (p->cols / f.block), groups = PANEL_ROWS * (p->cols / f.group);
	struct npu_kq_rows r = { .numbers = bytes, .d = scales };

	r.dmin = r.d + blocks;
	r.scale = (int8_t *)(r.dmin + blocks);
	r.min = r.scale + groups;
	return r;
}

/* Takes the blocks of row @n of the matrix apart, to row @r. False: a scale is not finite. */
static bool kq_row(const struct pack *p, const uint8_t *src, unsigned int r,
		   const struct npu_kq_rows *rows)
{
	const struct vnpu_kq_form f = vnpu_kq_form(llm_format_kq(p->format));
	const size_t blocks = p->cols / f.block, groups = p->cols / f.group;
	const struct gguf_parts parts = {
		.numbers = rows->numbers + (size_t)r * p->cols,
		.d = rows->d + r * blocks,
		.dmin = rows->dmin + r * blocks,
		.scale = rows->scale + r * groups,
		.min = rows->min + r * groups,
	};
	bool finite = true;

	gguf_split(p->t->type, src, p->cols, &parts);
	for (size_t b = 0; b < blocks; b++) {
		finite &= (parts.d[b] & 0x7c00) != 0x7c00;
		finite &= !f.mins || (parts.dmin[b] & 0x7c00) != 0x7c00;
	}
	return finite;
}

/* Bytes of a row in the file. */
static size_t row_bytes(const struct pack *p)
{
	const struct gguf_type_traits *traits = gguf_type_traits(p->t->type);

	return (size_t)(p->cols / traits->block_values) * traits->block_bytes;
}

/* Quantises row @n of the matrix as row @r of the panel. False: a value is not finite. */
static bool pack_row(const struct pack *p, unsigned int n, unsigned int r, void *scales, float *row,
		     uint8_t *bytes)
{
	const uint8_t *src = (const uint8_t *)p->t->data + n * row_bytes(p);
	uint16_t *groups = (uint16_t *)scales + r * (p->cols / LLM_W4_GROUP);
	uint8_t *dst = bytes + (size_t)r * p->cols;

	if (llm_format_is_kq(p->format)) {
		const struct npu_kq_rows rows = kq_rows(p, scales, bytes);

		return kq_row(p, src, r, &rows);
	}
	if (p->format == LLM_FORMAT_W4 && p->t->type == GGUF_Q4_0)
		return quant_w4_from_q4_0(src, p->cols, dst, groups);
	gguf_dequantize(p->t->type, src, row, p->cols);
	if (p->format == LLM_FORMAT_W4)
		return quant_w4(row, p->cols, dst, groups);
	return !p->packer->kernels->quant((int8_t *)dst, (float *)scales + r, row, p->cols);
}

static void pack_refuse(struct pack *p, unsigned int row)
{
	unsigned int bad = atomic_load(&p->bad_row);

	while (row < bad && !atomic_compare_exchange_weak(&p->bad_row, &bad, row))
		;
}

/* Panel @task, of @bytes in the file, has been packed. Others may still read the panels before it,
 * whose pages then come back until the whole matrix is done. */
static void pack_release(const struct pack *p, unsigned int task, size_t bytes)
{
	unsigned int panels = (unsigned int)(RELEASE_BYTES / bytes + 1);

	if (p->packer->file && (task + 1) % panels == 0)
		gguf_tensor_part_done(p->packer->file, p->t, (uint64_t)(task + 1 - panels) * bytes,
				      (uint64_t)panels * bytes);
}

static void pack_panel(void *arg, unsigned int task, unsigned int worker)
{
	struct pack *p = arg;
	uint8_t *scales = p->packer->scratch + worker * p->scratch_bytes;
	float *row = (float *)(scales + scales_bytes(p->format, p->cols));
	uint8_t *bytes = (uint8_t *)(row + p->cols);
	struct npu_kq_rows rows;
	unsigned int n0 = task * PANEL_ROWS,
		     nr = p->rows - n0 < PANEL_ROWS ? p->rows - n0 : PANEL_ROWS;

	for (unsigned int r = 0; r < nr; r++) {
		if (!pack_row(p, n0 + r, r, scales, row, bytes)) {
			pack_refuse(p, n0 + r);
			return;
		}
	}
	if (llm_format_is_kq(p->format)) {
		rows = kq_rows(p, scales, bytes);
		npu_pack_kq(p->panels, llm_format_kq(p->format), p->rows, p->cols, n0, nr, &rows);
	} else if (p->format == LLM_FORMAT_W4) {
		npu_pack_w4(p->panels, p->rows, p->cols, LLM_W4_GROUP, n0, nr, bytes,
			    (const uint16_t *)scales);
	} else {
		npu_pack_w8(p->panels, p->rows, p->cols, n0, nr, (const int8_t *)bytes,
			    (const float *)scales);
	}
	pack_release(p, task, PANEL_ROWS * row_bytes(p));
}

int llm_pack_matrix(struct llm_packer *packer, const struct gguf_tensor *t, enum llm_format format,
		    void *panels, unsigned int *bad)
{
	struct pack p = {
		.packer = packer,
		.t = t,
		.format = format,
		.panels = panels,
		.rows = (unsigned int)t->dims[1],
		.cols = (unsigned int)t->dims[0],
	};
	size_t bytes;

	p.scratch_bytes =
		scales_bytes(format, p.cols) + (size_t)p.cols * (sizeof(float) + PANEL_ROWS);
	p.scratch_bytes = (p.scratch_bytes + 63) / 64 * 64;
	bytes = p.scratch_bytes * llm_pool_threads(packer->pool);
	if (bytes > packer->scratch_bytes) {
		llm_packer_release(packer);
		packer->scratch = aligned_alloc(64, bytes);
		if (!packer->scratch)
			return -ENOMEM;
		packer->scratch_bytes = bytes;
	}
	atomic_init(&p.bad_row, UINT32_MAX);
	llm_pool_run(packer->pool, pack_panel, &p, (p.rows + PANEL_ROWS - 1) / PANEL_ROWS);
	*bad = atomic_load(&p.bad_row);
	return *bad != UINT32_MAX ? -ERANGE : 0;
}

/* The first channel of a block type's panel with a d or dmin that is not finite; PANEL_ROWS: none.
 * They begin each block. */
static unsigned int kq_check(const uint8_t *panel, size_t bytes, struct vnpu_kq_form f)
{
	unsigned int first = PANEL_ROWS;
	uint16_t half;

	for (size_t at = 0; at < bytes; at += vnpu_kq_block_bytes(f)) {
		for (unsigned int r = 0; r < PANEL_ROWS * (1u + f.mins); r++) {
			memcpy(&half, panel + at + r * sizeof(half), sizeof(half));
			if ((half & 0x7c00) == 0x7c00 && r % PANEL_ROWS < first)
				first = r % PANEL_ROWS;
		}
	}
	return first;
}

/* The first channel of a panel that has a scale that is not finite; PANEL_ROWS: none. */
static unsigned int panel_check(const uint8_t *panel, size_t bytes, enum llm_format format)
{
	const size_t group_bytes = PANEL_ROWS * (LLM_W4_GROUP / 2 + sizeof(uint16_t));
	unsigned int first = PANEL_ROWS;

	for (unsigned int r = 0; format == LLM_FORMAT_W8 && r < first; r++) {
		float scale;

		memcpy(&scale, panel + bytes - (PANEL_ROWS - r) * sizeof(scale), sizeof(scale));
		if (!isfinite(scale))
			first = r;
	}
	if (llm_format_is_kq(format))
		return kq_check(panel, bytes, vnpu_kq_form(llm_format_kq(format)));
	for (size_t at = group_bytes; format == LLM_FORMAT_W4 && at <= bytes; at += group_bytes) {
		for (unsigned int r = 0; r < first; r++) {
			uint16_t scale;

			memcpy(&scale, panel + at - (PANEL_ROWS - r) * sizeof(scale),
			       sizeof(scale));
			if ((scale & 0x7c00) == 0x7c00)
				first = r;
		}
	}
	return first;
}

static void copy_panel(void *arg, unsigned int task, unsigned int worker)
{
	struct pack *p = arg;
	size_t bytes = llm_pack_bytes(p->format, PANEL_ROWS, p->cols);
	uint8_t *panel = (uint8_t *)p->panels + task * bytes;
	unsigned int bad;

	memcpy(panel, (const uint8_t *)p->t->data + task * bytes, bytes);
	bad = panel_check(panel, bytes, p->format);
	if (bad < PANEL_ROWS)
		pack_refuse(p, task * PANEL_ROWS + bad);
	pack_release(p, task, bytes);
}

int llm_pack_copy(struct llm_packer *packer, const struct gguf_tensor *t, enum llm_format format,
		  unsigned int rows, unsigned int cols, void *panels, unsigned int *bad)
{
	struct pack p = {
		.packer = packer,
		.t = t,
		.format = format,
		.panels = panels,
		.rows = rows,
		.cols = cols,
	};

	atomic_init(&p.bad_row, UINT32_MAX);
	llm_pool_run(packer->pool, copy_panel, &p, (rows + PANEL_ROWS - 1) / PANEL_ROWS);
	*bad = atomic_load(&p.bad_row);
	return *bad != UINT32_MAX ? -ERANGE : 0;
}

void llm_packer_release(struct llm_packer *packer)
{
	free(packer->scratch);
	packer->scratch = NULL;
	packer->scratch_bytes = 0;
}
