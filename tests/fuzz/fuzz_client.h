/* SPDX-License-Identifier: MIT */
/*
 * What a client process holds. Its threads take from and put into these tables without any lock, so
 * that they use things that others destroy at that moment; an entry is replaced atomically, and
 * whoever gets the old one disposes of it. Half of the time all threads choose the same file,
 * buffer, context, queue and syncobj, which a counter names for a while.
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

/*
 * Where all mappings go: places of one size in a reserved range, so that nothing else is ever
 * hit.
 */
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

/* The place of a table of @nr that all threads like for now. */
uint32_t hot(uint32_t nr);
/* One of a table, or a number that is none. */
uint32_t pick(const uint32_t *table, uint32_t nr);
/* Puts @value into the table; what it replaces. */
uint32_t put(uint32_t *table, uint32_t nr, uint32_t value);
int pick_fd(void);
/* Takes over @fd. */
void put_fd(int fd);
/* The client's pointer for this call: mostly @arg itself, now and then a bad one. */
void *arg_or_worse(void *arg, size_t size);
/*
 * The same, but never what happens to lie at an address: the kernel's own calls about many syncobjs
 * believe any number of them, and warn of an allocation that is too large (drm_syncobj_array_find()
 * of 6.12).
 */
void *arg_or_none(void *arg, size_t size);
/* A call with @arg, mostly as it is. */
int call(enum fz_call c, int fd, void *arg);
/* An absolute time: passed, soon, or far. */
int64_t some_deadline(void);

void drm_step(struct file *f);
void core_step(struct file *f);
void memory_step(struct file *f);
void sync_step(struct file *f);

#endif /* FUZZ_CLIENT_H */
