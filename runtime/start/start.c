// SPDX-License-Identifier: MIT
#include "start.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "checksum.h"
#include "llm_fail.h"
#include "reader.h"

#define PANEL_ROWS 64
/*
 * Of the file, in one piece: the longer, the fewer tasks; the shorter, the sooner the first layer
 * is there, and the smaller the ring. A share of all weights, so that the ring is 1/40 of them,
 * within limits: storage reads short pieces slowly, and gives all its bandwidth for 1 MiB already.
 */
#define PIECES_PER_MODEL (40 * START_RING)
#define MIN_PIECE_BYTES (64u << 10)
#define MAX_PIECE_BYTES (4u << 20)

_Static_assert(START_RING == READER_RING, "the reader has a buffer for each");

/* ---- pieces ---- */

/* Rows and columns of a matrix; @which -1: the output matrix. No rows: there is none. */
static void shape_matrix(const struct shape *s, int which, uint32_t *rows, uint32_t *cols)
{
	uint32_t stack = s->experts ? s->experts : 1;

	*cols = which == LLM_ATTN_OUTPUT   ? s->heads * s->head_dim
		: which == LLM_FFN_DOWN	   ? s->ffn
		: which == LLM_SHARED_DOWN ? s->shared_ffn
					   : s->dim;
	switch (which) {
	case LLM_ATTN_Q:
		*rows = s->heads * s->head_dim;
		break;
	case LLM_ATTN_K:
	case LLM_ATTN_V:
		*rows = s->kv_heads * s->head_dim;
		break;
	case LLM_FFN_GATE:
		*rows = s->gated ? s->ffn * stack : 0;
		break;
	case LLM_FFN_UP:
		*rows = s->ffn * stack;
		break;
	case LLM_FFN_DOWN:
		*rows = s->dim * stack;
		break;
	case LLM_SHARED_GATE:
	case LLM_SHARED_UP:
		*rows = s->shared_ffn;
		break;
	case LLM_SHARED_DOWN:
		*rows = s->shared_ffn ? s->dim : 0;
		break;
	case LLM_ATTN_OUTPUT:
		*rows = s->dim;
		break;
	default:
		*rows = s->vocab;
		break;
	}
}

static struct llm_part matrix_part(const struct llm_model *m, enum llm_weights weights,
				   unsigned int layer, int which)
{
	bool output = which < 0;

	return (struct llm_part){
		.t = output ? m->output : m->layers[layer].matrix[which],
		.format = llm_format_choose(m, weights, output ? 0 : layer, which),
		.packed = m->packed[0],
		.bits = output ? NULL : m->layers[layer].bits[which],
		.rows = output ? m->n_vocab : llm_model_rows(m, (enum llm_matrix)which),
		.cols = output ? m->n_embd : llm_model_cols(m, (enum llm_matrix)which),
	};
}

struct list {
	struct start_piece *pieces;
	uint32_t n, max;
	double piece_bytes; /* about so many each */
};

static bool list_add(struct list *l, const struct start_piece *piece)
{
	if (l->n == l->max) {
		uint32_t max = l->max ? 2 * l->max : 256;
		struct start_piece *pieces = realloc(l->pieces, max * sizeof(*pieces));

		if (!pieces)
			return false;
		l->pieces = pieces;
		l->max = max;
	}
	l->pieces[l->n++] = *piece;
	return true;
}

/* The pieces of one matrix. */
static bool add_matrix(struct list *l, const struct llm_model *m, enum llm_weights weights,
		       const struct shape *shape, const struct llm_width *widths,
		       unsigned int layer, int which)
{
	enum llm_op op = which < 0 ? LLM_OP_HEAD : llm_matrix_op(which, shape->experts);
	double bits = widths[op].bits;
	uint32_t rows, cols, each;
	struct llm_part part;

	shape_matrix(shape, which, &rows, &cols);
	if (!rows)
		return true;
	if (m)
		part = matrix_part(m, weights, layer, which);
	if (m)
		part.nr = PANEL_ROWS;
	each = (uint32_t)(l->piece_bytes / (m ? (double)llm_part_bytes(&part)
					      : (double)PANEL_ROWS * cols * bits / 8));
	each = (each ? each : 1) * PANEL_ROWS;
	for (uint32_t row = 0; row < rows; row += each) {
		struct start_piece piece = {
			.layer = layer,
			.op = op,
			.matrix = which,
			.row = row,
			.rows = rows - row < each ? rows - row : each,
		};

		piece.bytes = (uint64_t)((double)piece.rows * cols * bits / 8);
		if (m) {
			part.row = row;
			part.nr = piece.rows;
			piece.bytes = llm_part_bytes(&part);
		}
		if (m ? llm_part_unpacks(&part) : weights == LLM_WEIGHTS_W8A8 && bits < 8)
			piece.unpacked = (uint64_t)piece.rows * cols;
		piece.packed = m && part.format != LLM_FORMAT_WK
				       ? llm_pack_bytes(part.format, piece.rows, cols)
			       : piece.unpacked ? piece.unpacked
						: piece.bytes;
		if (!list_add(l, &piece))
			return false;
	}
	return true;
}

/* Of all pieces together, in the file. */
static double all_bytes(const struct llm_model *m, const struct shape *shape,
			const struct llm_width *widths)
{
	double bytes = m ? (double)m->output->bytes
			 : (double)shape->dim * shape->vocab * widths[LLM_OP_HEAD].bits / 8;
	uint32_t rows, cols;
	double bits;

	for (unsigned int i = 0; i < shape->layers; i++) {
		for (int which = 0; which < LLM_NR_MATRICES; which++) {
			shape_matrix(shape, which, &rows, &cols);
			if (!rows)
				continue;
			bits = widths[llm_matrix_op(which, shape->experts)].bits;
			bytes += m ? (double)m->layers[i].matrix[which]->bytes
				   : (double)rows * cols * bits / 8;
		}
	}
	return bytes;
}

struct start_piece *start_pieces(const struct llm_model *model, enum llm_weights weights,
				 const struct shape *shape,
				 const struct llm_width widths[LLM_NR_OPS], uint32_t *nr)
{
	struct list l = { .piece_bytes = all_bytes(model, shape, widths) / PIECES_PER_MODEL };
	bool ok = true;

	l.piece_bytes = fmin(fmax(l.piece_bytes, MIN_PIECE_BYTES), MAX_PIECE_BYTES);
	for (uint32_t layer = 0; layer < shape->layers && ok; layer++)
		for (int which = 0; which < LLM_NR_MATRICES && ok; which++)
			ok = add_matrix(&l, model, weights, shape, widths, layer, which);
	ok = ok && add_matrix(&l, model, weights, shape, widths, shape->layers, -1);
	*nr = l.n;
	if (ok)
		return l.pieces;
	free(l.pieces);
	return NULL;
}

/* ---- starts ---- */

struct start {
	struct llm_packed_source src;
	struct llm_packed *packed;
	struct llm_packer packer;
	const struct start_piece *pieces;
	struct reader_file *files; /* by shard */
	struct reader_part *parts; /* by piece */
	const void **data; /* by piece: where it has been read to */
	uint32_t nr;
	struct reader *reader;
	uint64_t total; /* bytes of all pieces */
	uint64_t done; /* of those that are packed */
	atomic_uint nr_packed;
	struct llm_start_stats stats; /* once it is complete; pack_ns so far */
	struct llm_checksum sum; /* of the packed tensor so far */
	pthread_mutex_t lock; /* start_lock()'s */
	pthread_mutex_t failing; /* of the next two */
	int err; /* the first error; 0: none */
	char line[512]; /* and its line */
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct llm_part piece_part(const struct start *s, uint32_t i)
{
	const struct start_piece *p = &s->pieces[i];
	struct llm_part part = matrix_part(s->src.model, s->src.weights, p->layer, p->matrix);

	part.row = p->row;
	part.nr = p->rows;
	return part;
}

/* Where a piece is in place; NULL: it is to be copied. */
static const void *place_of(const struct start *s, uint32_t i, const struct llm_part *part)
{
	const struct start_piece *p = &s->pieces[i];

	if (!llm_packed_in_place(s->packed, p->layer))
		return NULL;
	return (const uint8_t *)llm_packed_panels(s->packed, p->layer, p->matrix) +
	       llm_part_offset(part);
}

/* Where the pieces are in their files. */
static int place_parts(struct start *s)
{
	for (uint32_t i = 0; i < s->nr; i++) {
		const struct llm_part part = piece_part(s, i);

		if (s->pieces[i].bytes > INT32_MAX)
			return llm_fail(-ENOTSUP,
					"%s: 64 rows of tensor %s have %llu bytes; at most 2 GiB "
					"are possible",
					s->src.path, part.t->name,
					(unsigned long long)s->pieces[i].bytes);
		s->parts[i] = (struct reader_part){
			.file = part.t->shard,
			.offset = gguf_tensor_offset(s->src.file, part.t) + llm_part_offset(&part),
			.bytes = (uint32_t)s->pieces[i].bytes,
			.at = place_of(s, i, &part),
		};
		s->total += s->pieces[i].bytes;
	}
	return 0;
}

static bool list_files(struct start *s)
{
	size_t n = gguf_n_shards(s->src.file);

	s->files = calloc(n, sizeof(*s->files));
	for (size_t i = 0; s->files && i < n; i++) {
		const struct gguf_shard *shard = gguf_shard(s->src.file, i);

		s->files[i] = (struct reader_file){ shard->fd, shard->map, shard->bytes };
	}
	return s->files;
}

int start_open(const struct llm_packed_source *src, const struct start_piece *pieces, uint32_t nr,
	       struct llm_packed *packed, struct start **start)
{
	/* The checksum's state has the alignment of vectors. */
	struct start *s = aligned_alloc(_Alignof(struct start), sizeof(*s));
	int err;

	*start = s;
	if (!s)
		return llm_fail(-ENOMEM, "%s: no memory to load it", src->path);
	memset(s, 0, sizeof(*s));
	s->src = *src;
	s->packed = packed;
	s->packer = (struct llm_packer){ .pool = src->pool, .kernels = src->kernels };
	s->pieces = pieces;
	s->nr = nr;
	atomic_init(&s->nr_packed, 0);
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->failing, NULL);
	s->parts = calloc((size_t)nr + 1, sizeof(*s->parts));
	s->data = calloc((size_t)nr + 1, sizeof(*s->data));
	err = list_files(s) && s->parts && s->data ? place_parts(s) : -ENOMEM;
	if (!err)
		err = reader_open(s->files, (uint32_t)gguf_n_shards(src->file), s->parts, nr,
				  &s->reader);
	if (err == -ENOMEM)
		llm_fail(err, "%s: no memory to load it", src->path);
	if (err) {
		start_close(s);
		*start = NULL;
	}
	return err;
}

/* ---- errors, which stay ---- */

/* A cache that cannot be used would be in the way of a good one. */
static void remove_cache(struct start *s)
{
	size_t used = strlen(s->line);

	snprintf(s->line + used, sizeof(s->line) - used,
		 unlink(s->src.path) ? "; remove this cache, and start again"
				     : "; this cache has been removed: start again");
}

/* Records an error, and sets the line of the first one. */
__attribute__((format(printf, 3, 4))) static int fail(struct start *s, int err, const char *fmt,
						      ...)
{
	va_list args;

	pthread_mutex_lock(&s->failing);
	if (!s->err) {
		va_start(args, fmt);
		vsnprintf(s->line, sizeof(s->line), fmt, args);
		va_end(args);
		s->err = err;
		if (s->src.cache && err != -ENOMEM)
			remove_cache(s);
	}
	err = llm_fail(s->err, "%s", s->line);
	pthread_mutex_unlock(&s->failing);
	return err;
}

/* 0, or the error that there has been. */
static int failed(struct start *s)
{
	int err;

	pthread_mutex_lock(&s->failing);
	err = s->err ? llm_fail(s->err, "%s", s->line) : 0;
	pthread_mutex_unlock(&s->failing);
	return err;
}

/* ---- steps ---- */

int start_read(struct start *s, uint32_t i)
{
	const struct llm_part part = piece_part(s, i);
	int err = failed(s);

	if (err)
		return err;
	err = reader_wait(s->reader, i, &s->data[i]);
	return err ? fail(s, err, "%s: tensor %s cannot be read: %s", s->src.path, part.t->name,
			  err == -EIO ? "I/O error, or the file has become shorter"
				      : strerror(-err))
		   : 0;
}

/* Whether @i is the last piece of its matrix, of its layer. */
static bool ends_matrix(const struct start *s, uint32_t i)
{
	return i + 1 == s->nr || s->pieces[i + 1].matrix != s->pieces[i].matrix ||
	       s->pieces[i + 1].layer != s->pieces[i].layer;
}

static bool ends_layer(const struct start *s, uint32_t i)
{
	return i + 1 == s->nr || s->pieces[i + 1].layer != s->pieces[i].layer;
}

/*
 * Compares a packed tensor with its checksum in the file, piece by piece: the bytes are those that
 * have been copied. The first piece of a matrix begins with its first row.
 */
static int check_sum(struct start *s, uint32_t i, const struct llm_part *part)
{
	uint64_t want;

	if (!llm_model_checksum(s->src.model, s->src.file, part->t, &want))
		return 0;
	if (!part->row)
		llm_checksum_begin(&s->sum);
	llm_checksum_add(&s->sum, part->data, s->pieces[i].bytes);
	if (!ends_matrix(s, i) || llm_checksum_end(&s->sum) == want)
		return 0;
	return fail(s, -EINVAL,
		    "%s: tensor %s has another checksum than when it was written: the file is "
		    "damaged%s",
		    s->src.path, part->t->name,
		    s->src.cache ? "" : "; copy it again, or pack the original again");
}

/* All is packed: only what it has cost remains. */
static void complete(struct start *s)
{
	struct reader_stats r;

	reader_stats(s->reader, &r);
	s->stats.read_bytes = r.direct_bytes + r.buffered_bytes;
	s->stats.cached_bytes = r.cached_bytes;
	s->stats.ring_bytes = r.ring_bytes;
	s->stats.ring_peak_bytes = r.peak_bytes;
	s->stats.wait_ns = r.wait_ns;
	reader_close(s->reader);
	s->reader = NULL;
	llm_packer_release(&s->packer);
}

int start_pack(struct start *s, uint32_t i)
{
	const struct start_piece *p = &s->pieces[i];
	struct llm_part part = piece_part(s, i);
	uint64_t from_ns = now_ns();
	unsigned int bad;
	int err = failed(s), damaged;

	if (err)
		return err;
	part.data = s->data[i];
	err = llm_pack_part(&s->packer, &part, llm_packed_panels(s->packed, p->layer, p->matrix),
			    &bad);
	damaged = err ? 0 : check_sum(s, i, &part);
	reader_release(s->reader, i);
	if (err == -ERANGE)
		return fail(s, -EINVAL, "%s: row %u of tensor %s holds a value that is not finite",
			    s->src.path, bad, part.t->name);
	if (err)
		return fail(s, err, "%s: no memory to quantise the weights", s->src.path);
	if (damaged)
		return damaged;
	if (ends_layer(s, i) && !s->src.keep_mapped)
		llm_packed_unmap(s->packed, p->layer);
	s->stats.pack_ns += now_ns() - from_ns;
	s->done += p->bytes;
	if (i + 1 == s->nr)
		complete(s);
	atomic_store(&s->nr_packed, i + 1);
	if (s->src.progress && ends_matrix(s, i) &&
	    s->src.progress(s->src.ud, (double)s->done / (double)s->total, part.t->name))
		return fail(s, -ECANCELED, "%s: loading was stopped at tensor %s", s->src.path,
			    part.t->name);
	return 0;
}

int start_finish(struct start *s)
{
	int err = 0;

	for (uint32_t i = start_packed(s); i < s->nr && !err; i++) {
		err = start_read(s, i);
		err = err ? err : start_pack(s, i);
	}
	return err;
}

uint32_t start_packed(const struct start *s)
{
	return atomic_load(&s->nr_packed);
}

bool start_is_complete(const struct start *s)
{
	return start_packed(s) == s->nr;
}

void start_lock(struct start *s)
{
	pthread_mutex_lock(&s->lock);
}

void start_unlock(struct start *s)
{
	pthread_mutex_unlock(&s->lock);
}

void start_close(struct start *s)
{
	if (!s)
		return;
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->failing);
	reader_close(s->reader);
	llm_packer_release(&s->packer);
	free(s->files);
	free(s->parts);
	free(s->data);
	free(s);
}

struct llm_start_stats start_stats(const struct start *s)
{
	return start_is_complete(s) ? s->stats : (struct llm_start_stats){ 0 };
}
