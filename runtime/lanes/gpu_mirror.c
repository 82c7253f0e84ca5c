// SPDX-License-Identifier: MIT
/* Which copy of a session's activations is current, on a GPU with memory of its own. */
#include "gpu_mirror.h"

static size_t end_of(const struct gpu_region *r)
{
	return r->off + (r->rows - 1) * r->stride + r->width;
}

static bool whole(const struct gpu_region *r)
{
	return r->rows == 1 || r->width == r->stride;
}

/* Whether @r has every byte from @off to @end. */
static bool covers(const struct gpu_region *r, const struct llm_gpu_buffer *buf, size_t off,
		   size_t end)
{
	return r->buf == buf && whole(r) && r->off <= off && end_of(r) >= end;
}

/* Whether any of its rows begins before @end and ends after @off; columns between are not asked. */
static bool touches(const struct gpu_region *r, const struct llm_gpu_buffer *buf, size_t off,
		    size_t end)
{
	return r->buf == buf && r->off < end && end_of(r) > off;
}

static bool same(const struct gpu_region *a, const struct gpu_region *b)
{
	return a->buf == b->buf && a->off == b->off && a->rows == b->rows && a->width == b->width &&
	       a->stride == b->stride;
}

static void drop(struct gpu_mirror *m, unsigned int i)
{
	m->regions[i] = m->regions[--m->nr];
}

static int keep(struct gpu_mirror *m, const struct gpu_region *r, bool newer)
{
	int err;

	for (unsigned int i = 0; i < m->nr; i++)
		if (same(&m->regions[i].r, r) ||
		    (newer &&
		     covers(r, m->regions[i].r.buf, m->regions[i].r.off, end_of(&m->regions[i].r))))
			drop(m, i--);
	if (m->nr == GPU_MIRROR_REGIONS) {
		err = gpu_mirror_publish(m);
		if (err)
			return err;
		m->nr = 0;
	}
	m->regions[m->nr].r = *r;
	m->regions[m->nr++].newer = newer;
	return 0;
}

int gpu_mirror_read(struct gpu_mirror *m, struct llm_gpu_buffer *buf, size_t off, size_t bytes)
{
	const struct gpu_region r = { buf, off, 1, bytes, bytes };
	size_t end = off + bytes;
	bool newer = false;
	int err = 0;

	for (unsigned int i = 0; i < m->nr; i++) {
		if (covers(&m->regions[i].r, buf, off, end))
			return 0;
		newer = newer || (m->regions[i].newer && touches(&m->regions[i].r, buf, off, end));
	}
	if (newer)
		err = gpu_mirror_publish(m);
	/* The host's bytes must be there when the transfer is enqueued. */
	if (!err && m->bringing)
		err = llm_gpu_finish(m->queue);
	if (err)
		return err;
	m->bringing = false;
	err = llm_gpu_to_device(m->queue, buf, off, bytes);
	return err ? err : keep(m, &r, false);
}

int gpu_mirror_wrote(struct gpu_mirror *m, const struct gpu_region *region)
{
	return keep(m, region, true);
}

static int bring(struct gpu_mirror *m, const struct gpu_region *r)
{
	size_t rows = whole(r) ? 1 : r->rows, bytes = whole(r) ? end_of(r) - r->off : r->width;
	int err = 0;

	for (size_t i = 0; i < rows && !err; i++)
		err = llm_gpu_to_host(m->queue, r->buf, r->off + i * r->stride, bytes);
	m->bringing = true;
	return err;
}

int gpu_mirror_publish(struct gpu_mirror *m)
{
	int err = 0;

	for (unsigned int i = 0; i < m->nr && !err; i++) {
		if (m->regions[i].newer)
			err = bring(m, &m->regions[i].r);
		m->regions[i].newer = m->regions[i].newer && err;
	}
	return err;
}

void gpu_mirror_forget(struct gpu_mirror *m)
{
	for (unsigned int i = 0; i < m->nr; i++)
		if (!m->regions[i].newer)
			drop(m, i--);
}
