// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checksum.h"
#include "llm_fail.h"
#include "new_file.h"

static const char magic[8] = "VNPUHIST";
#define VERSION 1

struct header {
	char magic[8];
	uint32_t version, n_vocab;
	uint64_t vocabulary;
	uint64_t checksum; /* of what is before it */
};

/* Before an answer's tokens. */
struct answer {
	uint32_t n; /* tokens, not 0 */
	uint32_t check; /* of n and the checksum: its lower 32 bits */
	uint64_t checksum; /* of the tokens */
};

/* A file's content. Answers begin at its header's end; at @end an unfinished one may follow. */
struct content {
	uint8_t *bytes;
	size_t size, end;
	uint64_t tokens;
};

static uint64_t checksum(const void *bytes, size_t n)
{
	struct llm_checksum c;

	llm_checksum_begin(&c);
	llm_checksum_add(&c, bytes, n);
	return llm_checksum_end(&c);
}

static struct header header_of(const struct history_store *s)
{
	struct header h = { .version = VERSION,
			    .n_vocab = s->n_vocab,
			    .vocabulary = s->vocabulary };

	memcpy(h.magic, magic, sizeof(magic));
	h.checksum = checksum(&h, offsetof(struct header, checksum));
	return h;
}

static uint32_t answer_check(const struct answer *a)
{
	uint64_t both[2] = { a->n, a->checksum };

	return (uint32_t)checksum(both, sizeof(both));
}

static struct answer answer_of(const int32_t *ids, size_t n)
{
	struct answer a = { .n = (uint32_t)n, .checksum = checksum(ids, n * sizeof(*ids)) };

	a.check = answer_check(&a);
	return a;
}

static size_t answer_bytes(uint64_t n)
{
	return sizeof(struct answer) + n * sizeof(int32_t);
}

/* ---- the name ---- */

static int set_path(struct history_store *s, const char *name)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int n;

	if (!s->by_name)
		n = snprintf(s->path, sizeof(s->path), "%s", name);
	else if (state && state[0] == '/')
		n = snprintf(s->path, sizeof(s->path), "%s/vnpu/%s.history", state, name);
	else if (home && home[0] == '/')
		n = snprintf(s->path, sizeof(s->path), "%s/.local/state/vnpu/%s.history", home,
			     name);
	else
		return llm_fail(-ENOENT, "no folder for the history %s: set HOME, or give a path",
				name);
	if ((size_t)n >= sizeof(s->path))
		return llm_fail(-ENAMETOOLONG, "the name of the history is too long: %.40s...",
				name);
	return 0;
}

int history_open(const char *name, uint64_t vocabulary, uint32_t n_vocab, uint32_t max_tokens,
		 struct history_store *store)
{
	if (!name[0] || !n_vocab || !max_tokens)
		return llm_fail(-EINVAL, "a history has a name, a vocabulary and a bound");
	*store = (struct history_store){
		.by_name = !strchr(name, '/'),
		.vocabulary = vocabulary,
		.n_vocab = n_vocab,
		.max_tokens = max_tokens,
	};
	return set_path(store, name);
}

/* ---- reading ---- */

static int failed(const struct history_store *s, const char *what)
{
	return llm_fail(-errno, "%s: cannot %s: %s", s->path, what, strerror(errno));
}

static int check_header(const struct history_store *s, const struct content *c)
{
	const struct header want = header_of(s);
	struct header h;

	if (c->size < sizeof(h) || memcmp(c->bytes, magic, sizeof(magic)))
		return llm_fail(-EINVAL, "%s: is another file, no history store: name another",
				s->path);
	memcpy(&h, c->bytes, sizeof(h));
	if (h.version != VERSION)
		return llm_fail(-EINVAL, "%s: a history of version %u; this program knows %u",
				s->path, h.version, VERSION);
	if (h.checksum != checksum(&h, offsetof(struct header, checksum)))
		return llm_fail(-EINVAL, "%s: a broken history: its header; remove it", s->path);
	if (memcmp(&h, &want, sizeof(h)))
		return llm_fail(-EINVAL,
				"%s: a history of another vocabulary; name another, or remove it",
				s->path);
	return 0;
}

static bool ids_are_valid(const struct history_store *s, const int32_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ids[i] < 0 || (uint32_t)ids[i] >= s->n_vocab)
			return false;
	return true;
}

/* The answer at @at of which all is there; false: an unfinished one, or the end. */
static bool answer_at(const struct content *c, size_t at, struct answer *a)
{
	if (c->size - at < sizeof(*a))
		return false;
	memcpy(a, c->bytes + at, sizeof(*a));
	return a->check != answer_check(a) || c->size - at >= answer_bytes(a->n);
}

/* Headers of 32 and 16 bytes: an answer's tokens are aligned. */
static const int32_t *ids_at(const struct content *c, size_t at)
{
	return (const int32_t *)(const void *)(c->bytes + at + sizeof(struct answer));
}

static int check_answers(const struct history_store *s, struct content *c)
{
	struct answer a;

	for (c->end = sizeof(struct header); answer_at(c, c->end, &a);
	     c->end += answer_bytes(a.n)) {
		const int32_t *ids = ids_at(c, c->end);

		if (!a.n || a.check != answer_check(&a) ||
		    a.checksum != checksum(ids, a.n * sizeof(*ids)) || !ids_are_valid(s, ids, a.n))
			return llm_fail(-EINVAL,
					"%s: a broken history: the answer at byte %zu; remove it",
					s->path, c->end);
		c->tokens += a.n;
	}
	return 0;
}

static int read_bytes(const struct history_store *s, int fd, struct content *c)
{
	size_t done = 0;

	c->bytes = malloc(c->size);
	if (!c->bytes)
		return llm_fail(-ENOMEM, "%s: no memory for %zu bytes", s->path, c->size);
	while (done < c->size) {
		ssize_t n = pread(fd, c->bytes + done, c->size - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed(s, "read it");
		if (!n)
			return llm_fail(-EINVAL, "%s: became shorter while it was read", s->path);
		done += (size_t)n;
	}
	return 0;
}

static int is_folder(const struct history_store *s)
{
	return llm_fail(-EISDIR, "%s: is a folder: name a file in it", s->path);
}

/* Reads and checks the file; an empty one has no answers. Free bytes in either case. */
static int load(const struct history_store *s, int fd, struct content *c)
{
	struct stat st;
	int err;

	*c = (struct content){ 0 };
	if (fstat(fd, &st))
		return failed(s, "look at it");
	if (S_ISDIR(st.st_mode))
		return is_folder(s);
	if (!S_ISREG(st.st_mode))
		return llm_fail(-EINVAL, "%s: is no regular file, as a history store is", s->path);
	if (!st.st_size)
		return 0;
	c->size = (size_t)st.st_size;
	err = read_bytes(s, fd, c);
	if (!err)
		err = check_header(s, c);
	return err ? err : check_answers(s, c);
}

static int lock(const struct history_store *s, int fd, int how)
{
	while (flock(fd, how))
		if (errno != EINTR)
			return failed(s, "lock it");
	return 0;
}

static int hand_over(const struct content *c, history_answer_fn answer, void *ud)
{
	int ret = 0;

	for (size_t at = sizeof(struct header); !ret && at < c->end;) {
		struct answer a;

		memcpy(&a, c->bytes + at, sizeof(a));
		ret = answer(ud, ids_at(c, at), a.n);
		at += answer_bytes(a.n);
	}
	return ret;
}

int history_read(const struct history_store *store, history_answer_fn answer, void *ud)
{
	/* Does not wait for a writer of a FIFO. */
	int fd = open(store->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err;
	struct content c = { 0 };

	if (fd < 0)
		return errno == ENOENT ? 0 : failed(store, "open it");
	err = lock(store, fd, LOCK_SH);
	if (!err)
		err = load(store, fd, &c);
	close(fd);
	if (!err)
		err = hand_over(&c, answer, ud);
	free(c.bytes);
	return err;
}

/* ---- writing ---- */

/* Makes the missing folders of the path; what fails is found when the file is opened. */
static void make_folders(const struct history_store *s)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s", s->path);
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(path, 0700);
		*slash = '/';
	}
}

static int failed_to_open(const struct history_store *s)
{
	if (errno == EISDIR)
		return is_folder(s);
	if (errno == ENOENT)
		return llm_fail(-ENOENT, "%s: cannot make it: its folder does not exist", s->path);
	return failed(s, "open it");
}

/*
 * Opens and locks the file that has the name once it is locked: another process may have replaced
 * or removed it meanwhile. A descriptor, or an error.
 */
static int open_locked(const struct history_store *s)
{
	for (;;) {
		int fd = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600), err;
		struct stat opened, named;

		if (fd < 0)
			return failed_to_open(s);
		err = lock(s, fd, LOCK_EX);
		if (!err && fstat(fd, &opened))
			err = failed(s, "look at it");
		if (!err && !stat(s->path, &named) && named.st_dev == opened.st_dev &&
		    named.st_ino == opened.st_ino)
			return fd;
		close(fd);
		if (err)
			return err;
	}
}

static bool write_at(int fd, const void *bytes, size_t n, size_t at)
{
	for (size_t done = 0; done < n;) {
		ssize_t w = pwrite(fd, (const char *)bytes + done, n - done, (off_t)(at + done));

		if (w < 0 && errno != EINTR)
			return false;
		done += w > 0 ? (size_t)w : 0;
	}
	return true;
}

static bool write_answer(int fd, const int32_t *ids, size_t n, size_t at)
{
	const struct answer a = answer_of(ids, n);

	return write_at(fd, &a, sizeof(a), at) &&
	       write_at(fd, ids, n * sizeof(*ids), at + sizeof(a));
}

static int append(const struct history_store *s, int fd, const struct content *c,
		  const int32_t *ids, size_t n)
{
	int err;

	if ((c->end == c->size || !ftruncate(fd, (off_t)c->end)) &&
	    write_answer(fd, ids, n, c->end))
		return 0;
	err = failed(s, "write it");
	/* If this fails too, readers pass over what there is of the answer. */
	(void)!ftruncate(fd, (off_t)c->end);
	return err;
}

/* Where the answers begin that remain when the oldest go, until @n more tokens leave a quarter of
 * the bound: so the file is not written anew for each answer. */
static size_t keep_from(const struct history_store *s, const struct content *c, size_t n)
{
	uint64_t tokens = c->tokens, bound = s->max_tokens - s->max_tokens / 4;
	size_t at = sizeof(struct header);

	while (at < c->end && tokens + n > bound) {
		struct answer a;

		memcpy(&a, c->bytes + at, sizeof(a));
		tokens -= a.n;
		at += answer_bytes(a.n);
	}
	return at;
}

static bool write_new(const struct history_store *s, int fd, const struct content *c,
		      const int32_t *ids, size_t n)
{
	const struct header h = header_of(s);
	size_t from = keep_from(s, c, n), kept = from < c->end ? c->end - from : 0;

	return write_at(fd, &h, sizeof(h), 0) &&
	       (!kept || write_at(fd, c->bytes + from, kept, sizeof(h))) &&
	       write_answer(fd, ids, n, sizeof(h) + kept) && !fsync(fd);
}

/* Replaces the file, which others wait for by its lock. */
static int replace(const struct history_store *s, const struct content *c, const int32_t *ids,
		   size_t n)
{
	struct new_file f;
	int err = new_file_open(&f, s->path, 0600);

	if (!err && write_new(s, f.fd, c, ids, n)) {
		err = new_file_keep(&f);
	} else if (!err) {
		err = -errno;
		new_file_drop(&f);
	}
	errno = -err;
	return err ? failed(s, "write it") : 0;
}

int history_append(const struct history_store *store, const int32_t *ids, size_t n)
{
	struct content c = { 0 };
	int fd, err;

	if (!n)
		return 0;
	if (n > store->max_tokens)
		n = store->max_tokens;
	if (!ids_are_valid(store, ids, n))
		return llm_fail(-EINVAL, "%s: an answer with tokens that are not of the vocabulary",
				store->path);
	if (store->by_name)
		make_folders(store);
	fd = open_locked(store);
	if (fd < 0)
		return fd;
	err = load(store, fd, &c);
	if (!err && c.size && c.tokens + n <= store->max_tokens)
		err = append(store, fd, &c, ids, n);
	else if (!err)
		err = replace(store, &c, ids, n);
	/* Some file systems tell only now that they had no room. */
	if (close(fd) && !err)
		err = failed(store, "write it");
	free(c.bytes);
	return err;
}
