/* SPDX-License-Identifier: MIT */
/*
 * Plain reads of memory, as fast as the host can: the bound of whatever reads each byte once, such
 * as the weights of a token. Intel's cores read faster from four places at a time, AMD's from one,
 * so there are two ways, and a caller measures which one is faster.
 */
#ifndef READER_H
#define READER_H

#include <stdint.h>

/* Bytes of a call. */
#define READER_BYTES (256ul << 10)
/* Prefetches go up to this far beyond what a call reads. */
#define READER_AHEAD 8192ul
#define READERS 2

/* Reads READER_BYTES at @memory, which is aligned to 64 bytes. */
typedef void (*reader_fn)(const uint8_t *memory);

extern const reader_fn readers[READERS];

#endif /* READER_H */
