/* SPDX-License-Identifier: MIT */
/*
 * What the objects of npu.h are made of. An object holds a reference to what it was made from.
 */
#ifndef NPU_PRIVATE_H
#define NPU_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include <drm/vnpu_accel.h>

#include "expect.h"
#include "image.h"
#include "npu.h"
#include "npu_fail.h"
#include "polling.h"
#include "transport.h"

#define NPU_PAGE DRM_VNPU_PAGE_SIZE

struct npu_device {
	atomic_uint refs;
	struct transport *t;
	struct npu_device_info info;
	struct drm_vnpu_query_limits limits;
	atomic_ullong submits, jobs, waits, polls;
	uint32_t trace_nr; /* which opening of a device in this process */
};

/* Free address ranges of a context, by address. */
struct npu_va_range {
	struct npu_va_range *next;
	uint64_t start, size;
};

struct npu_context {
	atomic_uint refs;
	struct npu_device *dev;
	uint32_t id;
	pthread_mutex_t lock; /* va_free */
	struct npu_va_range *va_free;
};

struct npu_buffer {
	atomic_uint refs;
	struct npu_context *ctx;
	uint32_t handle, flags;
	size_t size;
	size_t wanted; /* as the caller said; size is a multiple of the page */
	uint64_t va;
	void *data;
};

struct npu_program {
	atomic_uint refs;
	struct npu_context *ctx;
	struct npu_image image;
	struct npu_buffer *code; /* the relocated stream, then the constants */
	size_t const_offset;
	struct expect expect; /* of its jobs */
};

struct npu_job {
	struct npu_program *prog;
	struct npu_buffer *table; /* the binding table, and behind it the record of its times */
	uint32_t table_bytes;
	struct vnpu_slot *slots; /* in the table */
	uint64_t *params;
	struct vnpu_record *record; /* NULL: the device cannot */
	/* In place of that behind the table, with room for each command; NULL: not wanted. */
	struct npu_buffer *records;
	struct npu_buffer **bound; /* by symbol; NULL: not bound */
	struct npu_buffer *scratch;
	uint32_t timeout_ms;
	struct npu_queue *queue; /* of the last submission */
	uint64_t seqno;
};

/* Jobs whose duration is predicted; older ones are waited for without. */
#define NPU_QUEUE_HISTORY 256

struct npu_flight {
	uint64_t seqno;
	struct npu_program *prog; /* not a reference: only compared while its job is in flight */
	int64_t submitted_ns;
	int64_t expected_ns; /* when it should be done */
};

struct npu_queue {
	atomic_uint refs;
	struct npu_context *ctx;
	uint32_t id, depth;
	bool dead;
	const struct drm_vnpu_queue_status *status;
	uint64_t submitted;
	_Atomic uint64_t done; /* highest that is known */
	struct npu_buffer *scratch; /* of all its jobs, which run one after another */
	struct npu_flight history[NPU_QUEUE_HISTORY];
	int64_t last_done_ns;
	struct polling poll;
	struct sleeps sleeps; /* of fast waits */
	struct npu_trace_queue *trace; /* NULL: its jobs are not traced */
};

struct npu_fence {
	struct npu_device *dev;
	uint32_t handle;
};

int64_t npu_now_ns(void);
/* Absolute time of a relative timeout. */
int64_t npu_deadline_ns(int64_t timeout_ns);

/* A device on a transport of the caller's choice, which it owns from here on, also on failure. */
int npu_device_open_on(struct transport *t, enum npu_transport kind, const char *path,
		       const char *reason, struct npu_device **dev);
struct npu_device *npu_device_get(struct npu_device *dev);
struct npu_context *npu_context_get(struct npu_context *ctx);
struct npu_buffer *npu_buffer_get(struct npu_buffer *buf);
struct npu_program *npu_program_get(struct npu_program *prog);
struct npu_queue *npu_queue_get(struct npu_queue *queue);
void npu_queue_put(struct npu_queue *queue);

int npu_va_init(struct npu_va_range **list, uint64_t start, uint64_t size);
/* First fit; 0 if there is no room. */
uint64_t npu_va_alloc(struct npu_va_range **list, uint64_t size, uint64_t align);
int npu_va_free(struct npu_va_range **list, uint64_t start, uint64_t size);
void npu_va_fini(struct npu_va_range **list);

/* The job may be changed and submitted. */
bool npu_job_idle(const struct npu_job *job);
/* Everything bound? Point the job at the queue's scratch memory. */
int npu_job_prepare(struct npu_job *job, struct npu_queue *queue);

#endif /* NPU_PRIVATE_H */
