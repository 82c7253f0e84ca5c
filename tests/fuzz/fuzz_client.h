/* SPDX-License-Identifier: MIT */
/*
 * The tables of a client process. Its threads take entries from and put them into these tables
 * without locks, so that they use objects that others are destroying; an entry is replaced
 * atomically, and whoever gets the old one disposes of it. Half of the time all threads choose the
 * same file, buffer, context, queue and syncobj, given by a counter that changes slowly.
 */
#ifndef FUZZ_CLIENT_H
#define FUZZ_CLIENT_H

#include "fuzz.h"

#define NR_FILES 5
#define NR_BOS 12
#define NR_CTXS 6
#define NR_QUEUES 8
#define NR_SYNCOBJS 8
#define NR_BINDS 12
#define NR_FDS 16

struct bind {
	uint32_t ctx;
	uint32_t handle;
	uint64_t va;
	uint64_t size;
};

struct file {
	int fd;
	uint32_t bos[NR_BOS];
	uint32_t ctxs[NR_CTXS];
	uint32_t queues[NR_QUEUES];
	uint32_t syncobjs[NR_SYNCOBJS];
	uint64_t status_offset[NR_QUEUES];
	struct bind binds[NR_BINDS];
};

/* Mappings go to places of one size in a reserved range, so that they replace nothing else. */
#define NR_PLACES 32
#define PLACE_SIZE (1ul << 20)

struct client {
	struct file files[NR_FILES];
	uint32_t hot;
	/* sync_files, syncobjs, dma-bufs, eventfds, other clients' files, firmware fds */
	int fds[NR_FDS];
	uint8_t *places;
};

extern struct client *cl;

/* The entry of a table of @nr that all threads prefer at the moment. */
uint32_t hot(uint32_t nr);
/* An entry of a table, or an invalid number. */
uint32_t pick(const uint32_t *table, uint32_t nr);
/* Puts @value into the table. Returns the value that it replaces. */
uint32_t put(uint32_t *table, uint32_t nr, uint32_t value);
int pick_fd(void);
/* Takes ownership of @fd. */
void put_fd(int fd);
/* The client's pointer for this call: mostly @arg itself, sometimes a bad one. */
void *arg_or_worse(void *arg, size_t size);
/*
 * The same, but never an address with random contents: the DRM core trusts the count of calls with
 * many syncobjs, and warns of an allocation that is too large (drm_syncobj_array_find() of 6.12).
 */
void *arg_or_none(void *arg, size_t size);
/* Makes a call, mostly with @arg as it is. */
int call(enum fz_call c, int fd, void *arg);
/* An absolute time: in the past, soon, or far ahead. */
int64_t some_deadline(void);

void drm_step(struct file *f);
void core_step(struct file *f);
void memory_step(struct file *f);
void sync_step(struct file *f);

#endif /* FUZZ_CLIENT_H */
