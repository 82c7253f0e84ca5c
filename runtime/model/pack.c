/* SPDX-License-Identifier: MIT */
/* Packing: each panel of 64 channels is an independent task of the pool. */
#include "pack.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "adaptive.h"
#include "gguf_blocks.h"
#include "gguf_recast.h"
#include "cpu_kernels.h"
#include "npu_graph.h"
#include "quant_w4.h"
#include "threadpool.h"

#define PANEL_ROWS 64

_Static_assert(LLM_W4_GROUP == QUANT_W4_GROUP, "the sizes of groups are equal");

struct pack {
	const struct llm_packer *packer;
	const struct llm_part *part;
	const struct gguf_tensor *t;
	enum llm_format format;
	void *panels;
	unsigned int rows, cols;
	const uint8_t *bits; /* of WK: [rows] */
	struct adaptive_channel *errors; /* of WK: [panels], for the allocation */
	/* Per thread: a widened row, a panel's scales, its rows as bytes; or its new blocks. */
	size_t scratch_bytes;
	atomic_uint bad_row; /* the first row with a value that is not finite; UINT_MAX: none */
};

#define NUMBER_KQ 256

int32_t llm_format_number(enum llm_format format)
{
	return llm_format_is_kq(format) ? NUMBER_KQ + (int32_t)llm_format_kq(format)
					: (int32_t)format;
}

enum llm_format llm_format_of_number(int32_t number)
{
	if (number >= 0 && number < LLM_FORMAT_KQ)
		return (enum llm_format)number;
	if (number >= NUMBER_KQ && number < NUMBER_KQ + VNPU_NR_KQ_TYPES)
		return LLM_FORMAT_KQ + (enum llm_format)(number - NUMBER_KQ);
	return LLM_NR_FORMATS;
}

enum llm_format llm_format_own(enum gguf_type type)
{
	/* 1 more; 0: none. */
	static const uint8_t kq[] = {
#define OWN(from, to) [GGUF_##from] = VNPU_KQ_##to + 1
		OWN(Q2_K, Q2_K),       OWN(Q3_K, Q3_K),	    OWN(Q4_K, Q4_K),   OWN(Q5_K, Q5_K),
		OWN(Q6_K, Q6_K),       OWN(Q4_1, Q4_1),	    OWN(Q5_0, Q5_0),   OWN(Q5_1, Q5_1),
		OWN(IQ4_NL, IQ4_NL),   OWN(IQ4_XS, IQ4_XS), OWN(MXFP4, MXFP4), OWN(IQ3_S, IQ3_S),
		OWN(IQ3_XXS, IQ3_XXS), OWN(IQ2_XXS, IQ2),   OWN(IQ2_XS, IQ2),  OWN(IQ2_S, IQ2),
		OWN(IQ1_S, IQ1),       OWN(IQ1_M, IQ1),	    OWN(TQ1_0, Q2_K),  OWN(TQ2_0, Q2_K),
#undef OWN
	};

	if (type == GGUF_Q4_0)
		return LLM_FORMAT_W4;
	if ((size_t)type >= sizeof(kq) || !kq[type])
		return LLM_FORMAT_W8;
	return LLM_FORMAT_KQ + kq[type] - 1u;
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
	if (format == LLM_FORMAT_WK)
		return 0;
	return format == LLM_FORMAT_W4 ? npu_w4_bytes(rows, cols, LLM_W4_GROUP)
				       : npu_w8_bytes(rows, cols);
}

/* Bytes of a panel's scales in scratch: an F32 per row, or an F16 per group. */
static size_t scales_bytes(enum llm_format format, unsigned int cols)
{
	size_t row =
		format == LLM_FORMAT_W4 ? cols / LLM_W4_GROUP * sizeof(uint16_t) : sizeof(float);

	return (PANEL_ROWS * row + 63) / 64 * 64;
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
	const uint8_t *src = (const uint8_t *)p->part->data + (n - p->part->row) * row_bytes(p);
	uint8_t *dst = bytes + (size_t)r * p->cols;

	gguf_dequantize(p->t->type, src, row, p->cols);
	if (p->format == LLM_FORMAT_W4)
		return quant_w4(row, p->cols, dst,
				(uint16_t *)scales + r * (p->cols / LLM_W4_GROUP));
	if (p->format == LLM_FORMAT_WK && p->bits[n] < ADAPTIVE_MAX_BITS) {
		((float *)scales)[r] = adaptive_quantize(row, p->cols, p->bits[n], (int8_t *)dst);
		return isfinite(((float *)scales)[r]);
	}
	return !p->packer->kernels->quant((int8_t *)dst, (float *)scales + r, row, p->cols);
}

/* The type of rows that kernels pack as W8; CPU_NR_ROW_TYPES: none. */
static enum cpu_row_type row_type(enum gguf_type type)
{
	switch (type) {
	case GGUF_F32:
		return CPU_ROWS_F32;
	case GGUF_F16:
		return CPU_ROWS_F16;
	case GGUF_BF16:
		return CPU_ROWS_BF16;
	case GGUF_Q8_0:
		return CPU_ROWS_Q8_0;
	default:
		return CPU_NR_ROW_TYPES;
	}
}

/* Packs rows that no kernel reads as they are. As struct cpu_pack's functions. */
static int pack_widened(const struct pack *p, uint8_t *panel, unsigned int n0, unsigned int nr,
			unsigned int worker)
{
	uint8_t *scales = p->packer->scratch + worker * p->scratch_bytes;
	float *row = (float *)(scales + scales_bytes(p->format, p->cols));
	uint8_t *bytes = (uint8_t *)(row + p->cols);
	const struct cpu_rows rows = { bytes, p->cols, nr, p->cols };

	for (unsigned int r = 0; r < nr; r++)
		if (!pack_row(p, n0 + r, r, scales, row, bytes))
			return (int)r;
	if (p->format == LLM_FORMAT_W4)
		npu_pack_w4(p->panels, p->rows, p->cols, LLM_W4_GROUP, n0, nr, bytes,
			    (const uint16_t *)scales);
	else if (p->format == LLM_FORMAT_WK)
		npu_pack_wk(p->panels, p->rows, p->cols, p->bits, n0, nr, (const int8_t *)bytes,
			    (const float *)scales);
	else
		p->packer->kernels->pack->bytes(panel, &rows, (const float *)scales);
	return -1;
}

/* Packs rows of blocks, which are rewritten first if the NPU has no such type. As struct cpu_pack's
 * functions. */
static int pack_kq(const struct pack *p, uint8_t *panel, const struct cpu_rows *rows,
		   unsigned int worker)
{
	const enum gguf_type type = gguf_recast_type(p->t->type);
	const struct gguf_type_traits *traits = gguf_type_traits(type);
	uint8_t *scratch = p->packer->scratch + worker * p->scratch_bytes;
	const struct cpu_rows recast = {
		.data = scratch,
		.bytes = (size_t)(p->cols / traits->block_values) * traits->block_bytes,
		.nr = rows->nr,
		.cols = p->cols,
	};

	if (type == p->t->type)
		return p->packer->kernels->pack->kq(panel, llm_format_kq(p->format), rows);
	for (unsigned int r = 0; r < rows->nr; r++)
		gguf_recast(p->t->type, (const uint8_t *)rows->data + r * rows->bytes,
			    scratch + r * recast.bytes, p->cols);
	return p->packer->kernels->pack->kq(panel, llm_format_kq(p->format), &recast);
}

static void pack_refuse(struct pack *p, unsigned int row)
{
	unsigned int bad = atomic_load(&p->bad_row);

	while (row < bad && !atomic_compare_exchange_weak(&p->bad_row, &bad, row))
		;
}

static void pack_panel(void *arg, unsigned int task, unsigned int worker)
{
	struct pack *p = arg;
	const struct cpu_pack *kernels = p->packer->kernels->pack;
	const enum cpu_row_type type = row_type(p->t->type);
	unsigned int n0 = p->part->row + task * PANEL_ROWS;
	uint8_t *panel = (uint8_t *)p->panels +
			 n0 / PANEL_ROWS * llm_pack_bytes(p->format, PANEL_ROWS, p->cols);
	const struct cpu_rows rows = {
		.data = (const uint8_t *)p->part->data + (size_t)task * PANEL_ROWS * row_bytes(p),
		.bytes = row_bytes(p),
		.nr = p->rows - n0 < PANEL_ROWS ? p->rows - n0 : PANEL_ROWS,
		.cols = p->cols,
	};
	int bad;

	if (llm_format_is_kq(p->format))
		bad = pack_kq(p, panel, &rows, worker);
	else if (p->format == LLM_FORMAT_W4 && p->t->type == GGUF_Q4_0)
		bad = kernels->w4(panel, &rows);
	else if (p->format == LLM_FORMAT_W8 && type != CPU_NR_ROW_TYPES)
		bad = kernels->w8(panel, type, &rows);
	else
		bad = pack_widened(p, panel, n0, rows.nr, worker);
	if (bad >= 0)
		pack_refuse(p, n0 + (unsigned int)bad);
}

/* Scratch memory for all threads. */
static int take_scratch(struct llm_packer *packer, struct pack *p)
{
	size_t bytes;

	p->scratch_bytes =
		scales_bytes(p->format, p->cols) + (size_t)p->cols * (sizeof(float) + PANEL_ROWS);
	p->scratch_bytes = (p->scratch_bytes + 63) / 64 * 64;
	bytes = p->scratch_bytes * llm_pool_threads(packer->pool);
	if (bytes <= packer->scratch_bytes)
		return 0;
	llm_packer_release(packer);
	packer->scratch = aligned_alloc(64, bytes);
	if (!packer->scratch)
		return -ENOMEM;
	packer->scratch_bytes = bytes;
	return 0;
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

	for (unsigned int r = 0; (format == LLM_FORMAT_W8 || format == LLM_FORMAT_WK) && r < first;
	     r++) {
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

/* Where panel @panel of WK is, and its size. */
static size_t wk_place(const struct pack *p, unsigned int panel, size_t *bytes)
{
	size_t at = VNPU_WK_TABLE_BYTES(p->rows);

	for (unsigned int i = 0; i < panel; i++)
		at += VNPU_PANEL_WK_BYTES(p->cols, p->bits[i * PANEL_ROWS]);
	*bytes = VNPU_PANEL_WK_BYTES(p->cols, p->bits[panel * PANEL_ROWS]);
	return at;
}

/* Whether the part's bytes are in their place already, as those of a file in place are. */
static bool is_in_place(const struct llm_part *part, const void *panels)
{
	return part->data == (const uint8_t *)panels + llm_part_offset(part);
}

static void copy_panel(void *arg, unsigned int task, unsigned int worker)
{
	struct pack *p = arg;
	unsigned int panel = p->part->row / PANEL_ROWS + task;
	size_t bytes = llm_pack_bytes(p->format, PANEL_ROWS, p->cols), at = panel * bytes;
	unsigned int bad;

	if (p->format == LLM_FORMAT_WK)
		at = wk_place(p, panel, &bytes);
	if (!is_in_place(p->part, p->panels)) {
		memcpy((uint8_t *)p->panels + at,
		       (const uint8_t *)p->part->data + (at - llm_part_offset(p->part)), bytes);
		if (p->format == LLM_FORMAT_WK)
			((struct vnpu_wk_panel *)p->panels)[panel] =
				(struct vnpu_wk_panel){ (uint32_t)(at / 64),
							p->bits[panel * PANEL_ROWS] };
	}
	bad = panel_check((uint8_t *)p->panels + at, bytes, p->format);
	if (bad < PANEL_ROWS)
		pack_refuse(p, panel * PANEL_ROWS + bad);
}

/* Unpacks a panel of WK to that of W8 with the same numbers, sums and scales. The NPU reads it when
 * the whole matrix is there. */
static void unpack_panel(void *arg, unsigned int task, unsigned int worker)
{
	const struct pack *p = arg;
	unsigned int n0 = p->part->row + task * PANEL_ROWS;
	const size_t bytes = npu_w8_bytes(PANEL_ROWS, p->cols);
	uint8_t *panel = (uint8_t *)p->panels + n0 / PANEL_ROWS * bytes;
	uint64_t at = p->part->row ? 0 : VNPU_WK_TABLE_BYTES(p->rows);
	unsigned int bad;

	for (unsigned int r = p->part->row; r < n0; r += PANEL_ROWS)
		at += VNPU_PANEL_WK_BYTES(p->cols, p->bits[r]);
	p->packer->kernels->unpack_wk(panel, (const uint8_t *)p->part->data + at, p->cols,
				      p->bits[n0],
				      p->rows - n0 < PANEL_ROWS ? p->rows - n0 : PANEL_ROWS, true);
	bad = panel_check(panel, bytes, LLM_FORMAT_W8);
	if (bad < PANEL_ROWS)
		pack_refuse(arg, n0 + bad);
}

/* Whether the tensor's panels are of WK, whatever they shall become. */
static bool holds_wk(const struct llm_part *part)
{
	return part->packed && part->bits;
}

/* Bytes of the matrix's first @row rows in its tensor; with WK also those of the table, from the
 * first row on. */
static uint64_t bytes_before(const struct llm_part *part, unsigned int row)
{
	const struct gguf_type_traits *traits = gguf_type_traits(part->t->type);
	uint64_t bytes = VNPU_WK_TABLE_BYTES(part->rows);

	if (!part->packed)
		return (uint64_t)row * (part->cols / traits->block_values) * traits->block_bytes;
	if (!holds_wk(part))
		return llm_pack_bytes(part->format, row, part->cols);
	for (unsigned int r = 0; r < row; r += PANEL_ROWS)
		bytes += VNPU_PANEL_WK_BYTES(part->cols, part->bits[r]);
	return row ? bytes : 0;
}

uint64_t llm_part_offset(const struct llm_part *part)
{
	return bytes_before(part, part->row);
}

uint64_t llm_part_bytes(const struct llm_part *part)
{
	return bytes_before(part, part->row + part->nr) - bytes_before(part, part->row);
}

bool llm_part_unpacks(const struct llm_part *part)
{
	return holds_wk(part) && part->format == LLM_FORMAT_W8;
}

static void pack_init(struct pack *p, const struct llm_packer *packer, const struct llm_part *part,
		      void *panels)
{
	*p = (struct pack){
		.packer = packer,
		.part = part,
		.t = part->t,
		.format = part->format,
		.panels = panels,
		.rows = part->rows,
		.cols = part->cols,
		.bits = part->bits,
	};
	atomic_init(&p->bad_row, UINT32_MAX);
}

/* Runs @task for each panel of the part. 0 or -ERANGE. */
static int pack_run(struct pack *p, void (*task)(void *, unsigned int, unsigned int),
		    unsigned int *bad)
{
	llm_pool_run(p->packer->pool, task, p, (p->part->nr + PANEL_ROWS - 1) / PANEL_ROWS);
	*bad = atomic_load(&p->bad_row);
	return *bad != UINT32_MAX ? -ERANGE : 0;
}

int llm_pack_part(struct llm_packer *packer, const struct llm_part *part, void *panels,
		  unsigned int *bad)
{
	struct pack p;
	int err;

	pack_init(&p, packer, part, panels);
	if (llm_part_unpacks(part))
		return pack_run(&p, unpack_panel, bad);
	err = part->packed ? 0 : take_scratch(packer, &p);
	/* With what fills the table up. */
	if (part->packed && part->format == LLM_FORMAT_WK && !part->row &&
	    !is_in_place(part, panels))
		memcpy(panels, part->data, VNPU_WK_TABLE_BYTES(part->rows));
	return err ? err : pack_run(&p, part->packed ? copy_panel : pack_panel, bad);
}

static struct llm_part whole_part(const struct gguf_tensor *t, enum llm_format format)
{
	return (struct llm_part){
		.t = t,
		.format = format,
		.rows = (unsigned int)t->dims[1],
		.cols = (unsigned int)t->dims[0],
		.nr = (unsigned int)t->dims[1],
		.data = t->data,
	};
}

int llm_pack_matrix(struct llm_packer *packer, const struct gguf_tensor *t, enum llm_format format,
		    void *panels, unsigned int *bad)
{
	const struct llm_part all = whole_part(t, format);

	return llm_pack_part(packer, &all, panels, bad);
}

/* ---- WK ---- */

/* Fills a buffer of widths of rows with those of panels. */
static void spread_widths(uint8_t *bits, unsigned int rows, const uint8_t *widths)
{
	for (unsigned int r = 0; r < rows; r++)
		bits[r] = widths[r / PANEL_ROWS];
}

size_t llm_wk_bytes(double average, unsigned int rows, unsigned int cols)
{
	unsigned int panels = (rows + PANEL_ROWS - 1) / PANEL_ROWS;
	/* What adaptive_allocate() gives to all of them together. */
	size_t bits = panels + (size_t)floor((average - 1) * panels + 1e-6);

	return VNPU_WK_TABLE_BYTES(rows) + panels * VNPU_PANEL_WK_BYTES(cols, 0) +
	       bits * (VNPU_PANEL_WK_BYTES(cols, 1) - VNPU_PANEL_WK_BYTES(cols, 0));
}

bool llm_wk_widths(const struct gguf_tensor *t, unsigned int rows, unsigned int cols, uint8_t *bits)
{
	const struct vnpu_wk_panel *table = t->data;
	uint64_t at = VNPU_WK_TABLE_BYTES(rows);

	if (t->type != GGUF_I8 || t->bytes < at)
		return false;
	for (unsigned int p = 0; p < (rows + PANEL_ROWS - 1) / PANEL_ROWS; p++) {
		struct vnpu_wk_panel entry;

		memcpy(&entry, table + p, sizeof(entry));
		if (entry.offset != at / 64 || !entry.bits || entry.bits > ADAPTIVE_MAX_BITS)
			return false;
		for (unsigned int r = p * PANEL_ROWS; r < rows && r < (p + 1) * PANEL_ROWS; r++)
			bits[r] = (uint8_t)entry.bits;
		at += VNPU_PANEL_WK_BYTES(cols, entry.bits);
	}
	return at == t->bytes;
}

/* The error of a panel for the allocation: that of one channel with the sum of its channels'. */
static void measure_panel(void *arg, unsigned int task, unsigned int worker)
{
	struct pack *p = arg;
	float *row = (float *)(p->packer->scratch + worker * p->scratch_bytes);
	double sum = 0;

	for (unsigned int n = task * PANEL_ROWS; n < p->rows && n < (task + 1) * PANEL_ROWS; n++) {
		struct adaptive_channel c;

		gguf_dequantize(p->t->type, (const uint8_t *)p->t->data + n * row_bytes(p), row,
				p->cols);
		c = adaptive_measure(row, p->cols);
		if (!isfinite(c.mean_square))
			pack_refuse(p, n);
		sum += adaptive_error(&c, 0);
	}
	p->errors[task] = (struct adaptive_channel){ .max = (float)sqrt(sum), .mean_square = 1 };
}

int llm_pack_adaptive(struct llm_packer *packer, const struct gguf_tensor *t, double average,
		      void *panels, unsigned int *bad)
{
	unsigned int nr = (unsigned int)((t->dims[1] + PANEL_ROWS - 1) / PANEL_ROWS);
	uint8_t *bits = malloc(t->dims[1]), *widths = malloc(nr);
	struct llm_part all = whole_part(t, LLM_FORMAT_WK);
	struct pack p;
	int err;

	all.bits = bits;
	pack_init(&p, packer, &all, panels);
	p.errors = malloc(nr * sizeof(*p.errors));
	err = p.errors && bits && widths ? take_scratch(packer, &p) : -ENOMEM;
	if (!err)
		err = pack_run(&p, measure_panel, bad);
	if (!err)
		err = adaptive_allocate(p.errors, nr, average, widths);
	if (!err) {
		spread_widths(bits, p.rows, widths);
		err = pack_run(&p, pack_panel, bad);
	}
	free(p.errors);
	free(widths);
	free(bits);
	return err;
}

void llm_packer_release(struct llm_packer *packer)
{
	free(packer->scratch);
	packer->scratch = NULL;
	packer->scratch_bytes = 0;
}
