// SPDX-License-Identifier: MIT
/* Files of llama-imatrix: see imatrix.h. */
#include "imatrix.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf.h"
#include "llm_fail.h"

#define MAX_ENTRIES 100000
#define MAX_NAME 256
#define MAX_VALUES (1 << 26)

static const char sums[] = ".in_sum2", counts[] = ".counts";

struct entry {
	char *name;
	float *means;
	size_t n;
};

struct imatrix {
	const char *path;
	struct entry *entries;
	size_t n;
};

/* Makes room for one more. NULL: no memory. */
static struct entry *add_entry(struct imatrix *m, const char *name, size_t bytes, size_t n)
{
	struct entry *grown = realloc(m->entries, (m->n + 1) * sizeof(*grown)), *e;

	if (!grown)
		return NULL;
	m->entries = grown;
	e = &grown[m->n];
	*e = (struct entry){ strndup(name, bytes), malloc(n * sizeof(float) + 1), n };
	m->n++;
	return e->name && e->means ? e : NULL;
}

static int check(const struct imatrix *m, const struct entry *e)
{
	for (size_t i = 0; i < e->n; i++)
		if (!isfinite(e->means[i]) || e->means[i] < 0)
			return llm_fail(-EINVAL, "%s: channel %zu of %s has no importance", m->path,
					i, e->name);
	return 0;
}

static int no_memory(const struct imatrix *m)
{
	return llm_fail(-ENOMEM, "%s: no memory for its values", m->path);
}

/* ---- GGUF ---- */

static int take_tensor(struct imatrix *m, const struct gguf_file *file, const struct gguf_tensor *t)
{
	size_t base = strlen(t->name) - strlen(sums), n = t->dims[0] * t->dims[1];
	const struct gguf_tensor *counted;
	char name[MAX_NAME + sizeof(counts)];
	struct entry *e;

	snprintf(name, sizeof(name), "%.*s%s", (int)base, t->name, counts);
	counted = gguf_find_tensor(file, name);
	if (!counted || t->type != GGUF_F32 || counted->type != GGUF_F32 || n > MAX_VALUES ||
	    counted->bytes / sizeof(float) != t->dims[1])
		return llm_fail(-EINVAL, "%s: %s does not fit %s", m->path, name, t->name);
	e = add_entry(m, t->name, base, n);
	if (!e)
		return no_memory(m);
	memcpy(e->means, t->data, n * sizeof(float));
	for (size_t i = 0; i < n; i++) {
		float count;

		memcpy(&count, (const char *)counted->data + i / t->dims[0] * sizeof(count),
		       sizeof(count));
		/* An expert that the text never reached has no sums: its channels are alike. */
		e->means[i] = count > 0 ? e->means[i] / count : 1;
	}
	return check(m, e);
}

static int read_gguf(struct imatrix *m)
{
	struct gguf_file *file;
	char line[512];
	int err = gguf_open(m->path, &file, line, sizeof(line));

	if (err)
		return llm_fail(err, "%s", line);
	for (size_t i = 0; i < gguf_n_tensors(file) && !err; i++) {
		const struct gguf_tensor *t = gguf_tensor(file, i);
		size_t n = strlen(t->name);

		if (n > strlen(sums) && n < MAX_NAME && !strcmp(t->name + n - strlen(sums), sums))
			err = take_tensor(m, file, t);
	}
	gguf_close(file);
	return err;
}

/* ---- the older format ---- */

/* False: the file ends, or the number is not from @min to @max. */
static bool read_int(FILE *f, int32_t min, int32_t max, int32_t *v)
{
	return fread(v, sizeof(*v), 1, f) == 1 && *v >= min && *v <= max;
}

static int read_entry(struct imatrix *m, FILE *f)
{
	char name[MAX_NAME];
	int32_t bytes, calls, n;
	struct entry *e;

	if (!read_int(f, 1, MAX_NAME - 1, &bytes) ||
	    fread(name, 1, (size_t)bytes, f) != (size_t)bytes ||
	    !read_int(f, 0, INT32_MAX, &calls) || !read_int(f, 1, MAX_VALUES, &n))
		return llm_fail(-EINVAL, "%s: entry %zu is none of llama-imatrix's", m->path, m->n);
	e = add_entry(m, name, (size_t)bytes, (size_t)n);
	if (!e)
		return no_memory(m);
	if (fread(e->means, sizeof(float), e->n, f) != e->n)
		return llm_fail(-EINVAL, "%s: ends within %s", m->path, e->name);
	for (size_t i = 0; i < e->n && calls > 0; i++)
		e->means[i] /= (float)calls;
	return check(m, e);
}

/* What follows the entries, a number of chunks and the text's name, is of no use here. */
static int read_entries(struct imatrix *m, FILE *f)
{
	int32_t n;
	int err = 0;

	if (!read_int(f, 1, MAX_ENTRIES, &n))
		return llm_fail(-EINVAL, "%s: not a file of llama-imatrix", m->path);
	while (n-- > 0 && !err)
		err = read_entry(m, f);
	return err;
}

int imatrix_open(const char *path, struct imatrix **imatrix)
{
	FILE *f = fopen(path, "rbe");
	struct imatrix *m = f ? calloc(1, sizeof(*m)) : NULL;
	char magic[4] = "";
	int err;

	*imatrix = m;
	if (!m) {
		err = f ? -ENOMEM : -errno;
		if (f)
			fclose(f);
		return llm_fail(err, "%s: %s", path, strerror(-err));
	}
	m->path = path;
	if (fread(magic, sizeof(magic), 1, f) == 1 && !memcmp(magic, "GGUF", sizeof(magic))) {
		err = read_gguf(m);
	} else {
		rewind(f);
		err = read_entries(m, f);
	}
	fclose(f);
	if (!err && !m->n)
		err = llm_fail(-EINVAL, "%s: not a file of llama-imatrix", path);
	return err;
}

void imatrix_close(struct imatrix *imatrix)
{
	for (size_t i = 0; imatrix && i < imatrix->n; i++) {
		free(imatrix->entries[i].name);
		free(imatrix->entries[i].means);
	}
	if (imatrix)
		free(imatrix->entries);
	free(imatrix);
}

const float *imatrix_find(const struct imatrix *imatrix, const char *name, size_t *n)
{
	for (size_t i = 0; i < imatrix->n; i++)
		if (!strcmp(imatrix->entries[i].name, name)) {
			*n = imatrix->entries[i].n;
			return imatrix->entries[i].means;
		}
	return NULL;
}
