/* SPDX-License-Identifier: MIT */
/* The structures behind npu.h. An object holds a reference to what it was created from. */
#ifndef NPU_PRIVATE_H
#define NPU_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include <drm/vnpu_accel.h>

#include "flights.h"
#include "image.h"
#include "npu.h"
#include "npu_fail.h"
#include "transport.h"
#include "va.h"

#define NPU_PAGE DRM_VNPU_PAGE_SIZE

struct npu_device {
	atomic_uint refs;
	struct transport *t;
	bool no_spare_cpu; /* as of the transport (transport.h) */
	struct npu_device_info info;
	struct drm_vnpu_query_limits limits;
	atomic_ullong submits, jobs, waits, polls;
	uint32_t trace_nr; /* number of this opening of a device in the process */
};

struct npu_context {
	atomic_uint refs;
	struct npu_device *dev;
	uint32_t id;
	pthread_mutex_t lock; /* for va_free */
	struct npu_va_range *va_free;
};

struct npu_buffer {
	atomic_uint refs;
	struct npu_context *ctx;
	uint32_t handle, flags;
	size_t size;
	size_t wanted; /* as requested; size is rounded up to the page */
	uint64_t va;
	size_t skew; /* addresses before @va that are its own: of a file's range, see buffer.c */
	void *data;
};

struct npu_program {
	atomic_uint refs;
	struct npu_context *ctx;
	struct npu_image image;
	struct npu_buffer *code; /* the relocated stream, then the constants */
	size_t const_offset;
	struct npu_pace *pace;
};

struct npu_job {
	struct npu_program *prog;
	struct npu_buffer *table; /* the binding table, followed by the record */
	uint32_t table_bytes;
	struct vnpu_slot *slots; /* in the table */
	uint64_t *params;
	struct vnpu_record *record; /* NULL: the device has no records */
	/* Replaces the record behind the table, with room for each command; NULL: not wanted. */
	struct npu_buffer *records;
	uint32_t hidden_cmds, hidden_workers; /* of the record, during a submission */
	struct npu_buffer **bound; /* by symbol; NULL: not bound */
	struct npu_buffer *scratch;
	uint32_t timeout_ms;
	struct npu_queue *queue; /* of the last submission */
	uint64_t seqno;
};

struct npu_queue {
	atomic_uint refs;
	struct npu_context *ctx;
	uint32_t id, depth;
	/* For dead, status and trace: jobs of other threads look at them, during a release too. */
	pthread_mutex_t lock;
	bool dead; /* released, and the device does nothing for its jobs any more */
	const struct drm_vnpu_queue_status *status;
	_Atomic uint64_t submitted; /* the last job */
	_Atomic uint64_t done; /* highest job known to have ended */
	struct npu_buffer *scratch; /* shared by its jobs, which run one after another */
	struct npu_flights flights;
	struct npu_trace_queue *trace; /* NULL: its jobs are not traced */
};

struct npu_fence {
	struct npu_device *dev;
	uint32_t handle;
};

int64_t npu_now_ns(void);
/* Absolute time of a relative timeout. */
int64_t npu_deadline_ns(int64_t timeout_ns);
/* For error lines: how long a wait took that timed out. */
long long npu_timeout_us(int64_t timeout_ns);

/* Opens a device on a transport that the caller chose. Takes ownership of @t, on failure too. */
int npu_device_open_on(struct transport *t, enum npu_transport kind, const char *path,
		       const char *reason, struct npu_device **dev);
struct npu_device *npu_device_get(struct npu_device *dev);
struct npu_context *npu_context_get(struct npu_context *ctx);
struct npu_buffer *npu_buffer_get(struct npu_buffer *buf);
struct npu_program *npu_program_get(struct npu_program *prog);
struct npu_queue *npu_queue_get(struct npu_queue *queue);
void npu_queue_put(struct npu_queue *queue);

/* These three may be called while another thread uses or releases the queue. */
/* The device is done with this job: it has ended, or the queue was released. */
bool npu_queue_idle(struct npu_queue *queue, uint64_t seqno);
/* The job has ended before the queue was released. */
bool npu_queue_ended(struct npu_queue *queue, uint64_t seqno);
/* Waits until the device is done with the job. */
void npu_queue_drain(struct npu_queue *queue, uint64_t seqno);

/* True if the job may be changed and submitted. */
bool npu_job_idle(const struct npu_job *job);
/* Checks that everything is bound, and points the job at the queue's scratch memory. */
int npu_job_prepare(struct npu_job *job, struct npu_queue *queue);
/* Around the device call that submits the job: the last run's times must not look like those of a
 * job that fails, but stay if the submission is @refused. A batch may have a job twice. */
void npu_job_hide_times(struct npu_job *job);
void npu_job_show_times(struct npu_job *job, bool refused);

#endif /* NPU_PRIVATE_H */
