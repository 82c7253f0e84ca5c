/* SPDX-License-Identifier: MIT */
/*
 * Reads parts of files in order, ahead of their use, into a bounded ring of buffers.
 *
 * A part that is in the page cache is copied from there when it is waited for. The file's mapping
 * would need no copy, but a fault for every few pages, and in some virtual machines for every page.
 * So is a part of a file that the user neither owns nor may write, as the kernel does not say what
 * of it is cached. Others are read past the page cache (O_DIRECT), several at a time by io_uring,
 * into buffers that are used again and again: so a start touches no more memory than the weights
 * themselves and the ring, and other programs' files stay cached. Where the kernel has no io_uring
 * or the file system no direct reads, each part is read through the page cache when it is waited
 * for, and the kernel reads ahead. So is a part that a mapping has in place, by huge pages where
 * the page cache has them: nothing is copied then, and no memory cleared.
 */
#ifndef READER_H
#define READER_H

#include <stddef.h>
#include <stdint.h>

/* A file that is open, and mapped from its beginning to ask what of it is cached. */
struct reader_file {
	int fd;
	const void *map;
	uint64_t bytes;
};

struct reader_part {
	uint32_t file; /* its number */
	uint64_t offset; /* in the file, which has all of the part */
	uint32_t bytes; /* at least 1 */
	const void *at; /* where a mapping of the file that stays has it; NULL: it is copied */
};

/* What a reader has done so far. */
struct reader_stats {
	uint64_t direct_bytes; /* read past the page cache */
	uint64_t buffered_bytes; /* read through it */
	uint64_t cached_bytes; /* found in it */
	uint64_t wait_ns; /* in reader_wait() */
	size_t ring_bytes; /* of the buffers */
	size_t peak_bytes; /* of those that were ever in use */
};

struct reader;

/*
 * Begins to read. @files [nr_files] and @parts [nr] must stay until reader_close(). 0 or -ENOMEM;
 * everything else that can go wrong is an error of reader_wait(), or makes the reader slower.
 */
int reader_open(const struct reader_file *files, uint32_t nr_files, const struct reader_part *parts,
		uint32_t nr, struct reader **reader);
/*
 * Waits until part @i is there, and points *@data to its bytes, for a part in place those in its
 * mapping. Parts are waited for in their
 * order, by one thread at a time. 0, -errno of the read, -EIO: the file has become shorter;
 * -ENOBUFS: READER_RING parts have not been released.
 */
#define READER_RING 16
int reader_wait(struct reader *r, uint32_t i, const void **data);
/* The bytes of part @i are no longer needed: its buffer takes another part. Any thread. */
void reader_release(struct reader *r, uint32_t i);
void reader_close(struct reader *r);
void reader_stats(const struct reader *r, struct reader_stats *stats);

#endif /* READER_H */
