// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "panels_room.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "gguf.h"
#include "llm_fail.h"
#include "panels_file.h"

#define MIB 1048576.0

struct cache {
	char *path;
	uint64_t bytes;
	struct timespec used;
};

/* The other caches of a folder, the oldest first. */
struct folder {
	char *name;
	struct cache *caches;
	size_t n, max;
	uint64_t bytes; /* of all of them */
};

static bool is_cache(const char *path)
{
	struct gguf_file *file;
	char line[256];
	bool is;

	if (gguf_open(path, &file, line, sizeof(line)))
		return false;
	is = panels_file_is_cache(file);
	gguf_close(file);
	return is;
}

static bool has_name(const char *name, const char *but)
{
	size_t n = strlen(name), end = strlen(".panels");

	return n > end && !strcmp(name + n - end, ".panels") && strcmp(name, but) != 0;
}

/* Takes @path, the caller's, if it is a cache. False: no memory. */
static bool folder_add(struct folder *f, char *path)
{
	struct stat st;

	if (lstat(path, &st) || !S_ISREG(st.st_mode) || !is_cache(path)) {
		free(path);
		return true;
	}
	if (f->n == f->max) {
		struct cache *more = realloc(f->caches, (2 * f->max + 8) * sizeof(*more));

		if (!more) {
			free(path);
			return false;
		}
		f->caches = more;
		f->max = 2 * f->max + 8;
	}
	f->caches[f->n++] = (struct cache){ path, (uint64_t)st.st_size, st.st_mtim };
	f->bytes += (uint64_t)st.st_size;
	return true;
}

static int by_use(const void *a, const void *b)
{
	const struct cache *x = a, *y = b;

	if (x->used.tv_sec != y->used.tv_sec)
		return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
	if (x->used.tv_nsec != y->used.tv_nsec)
		return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
	return strcmp(x->path, y->path);
}

static void folder_free(struct folder *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->caches[i].path);
	free(f->caches);
	free(f->name);
}

/* The caches beside @path, but for itself. 0, or -errno with the error line. */
static int folder_read(struct folder *f, const char *path)
{
	const char *slash = strrchr(path, '/'), *own = slash ? slash + 1 : path;
	struct dirent *entry;
	bool ok = true;
	DIR *dir;

	*f = (struct folder){ .name = slash ? strndup(path, (size_t)(slash - path) + 1)
					    : strdup("./") };
	if (!f->name)
		return llm_fail(-ENOMEM, "%s: no memory for its folder", path);
	dir = opendir(f->name);
	if (!dir)
		return llm_fail(-errno, "%s: not made: its folder cannot be read: %s", path,
				strerror(errno));
	while (ok && (entry = readdir(dir))) {
		char *name;

		if (!has_name(entry->d_name, own))
			continue;
		ok = asprintf(&name, "%s%s", f->name, entry->d_name) >= 0 && folder_add(f, name);
	}
	closedir(dir);
	if (!ok)
		return llm_fail(-ENOMEM, "%s: no memory for its folder", path);
	if (f->n)
		qsort(f->caches, f->n, sizeof(*f->caches), by_use);
	return 0;
}

/* How many of the oldest must go for @bytes more; *@freed: their bytes. */
static size_t to_remove(const struct folder *f, uint64_t bytes, uint64_t limit, uint64_t *freed)
{
	size_t n = 0;

	for (*freed = 0; n < f->n && f->bytes - *freed + bytes > limit; n++)
		*freed += f->caches[n].bytes;
	return n;
}

static int remove_oldest(const struct folder *f, const char *path, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		/* Another process may have removed it. */
		if (unlink(f->caches[i].path) && errno != ENOENT)
			return llm_fail(-errno, "%s: not made: %s cannot be removed for it: %s",
					path, f->caches[i].path, strerror(errno));
	}
	return 0;
}

static int check_free(const struct folder *f, const char *path, uint64_t bytes, uint64_t freed)
{
	struct statvfs st;
	uint64_t has;

	if (statvfs(f->name, &st))
		return llm_fail(-errno, "%s: not made: its file system cannot be examined: %s",
				path, strerror(errno));
	has = (uint64_t)st.f_bavail * st.f_frsize + freed;
	if (has >= bytes)
		return 0;
	return llm_fail(-ENOSPC, "%s: not made: it needs %.1f MiB, and %.1f MiB are free", path,
			(double)bytes / MIB, (double)has / MIB);
}

int panels_room_take(const char *path, uint64_t bytes, uint64_t limit)
{
	struct folder f;
	uint64_t freed;
	size_t n;
	int err;

	if (bytes > limit)
		return llm_fail(-EFBIG,
				"%s: not made: it has %.1f MiB, and a cache of panels at most "
				"%.1f MiB: allow more",
				path, (double)bytes / MIB, (double)limit / MIB);
	err = folder_read(&f, path);
	if (!err) {
		n = to_remove(&f, bytes, limit, &freed);
		err = check_free(&f, path, bytes, freed);
		err = err ? err : remove_oldest(&f, path, n);
	}
	folder_free(&f);
	return err;
}

int panels_room_trim(const char *path, uint64_t bytes, uint64_t limit)
{
	struct folder f;
	uint64_t freed;
	int err = folder_read(&f, path);

	if (!err)
		err = remove_oldest(&f, path, to_remove(&f, bytes, limit, &freed));
	folder_free(&f);
	return err;
}
