/* SPDX-License-Identifier: MIT */
/*
 * The device core: what runs behind the rings of uapi/linux/vnpu_fw.h.
 *
 * The core takes submissions, validates them, runs them on its worker threads and completes them.
 * It does not know who is at the other end: vnpu-fw gives it the rings of vnpu.ko (port_kmd.c),
 * libnpu's sim transport rings in its own process. Both look the same to the core through struct
 * fw_port.
 *
 * Threads: fw_core_run() is the command processor and runs in its caller's thread, which is also
 * the first worker; cfg.threads - 1 more workers sleep beside it. Jobs run one at a time, in an
 * order that is fair to contexts (fw_queue.h); the tiles of a job's concurrent commands are shared
 * between all workers. Results do not depend on the number of threads.
 */
#ifndef FW_H
#define FW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/vnpu_fw.h>

#include "kernels.h"

/* The first access that the MMU refused. */
struct fw_fault {
	uint64_t va;
	bool write;
};

/* Memory that a piece of work touches: [va, va + size), as addresses of the context. */
struct fw_access {
	uint64_t va;
	uint64_t size;
	bool write;
};

/* A context's address space as the core sees it: address va lies at base + va in this process. */
struct fw_aspace {
	uint32_t ctx;
	uint8_t *base;
	uint64_t size;
	void *priv; /* the port's */
};

struct fw_port_ops {
	/*
	 * VNPU_FW_ENTER: complete what lies in the completion ring and, with VNPU_FW_ENTER_WAIT,
	 * sleep until sq_tail differs from sq_seen or timeout_ns (absolute, -1 for none) passes. 0,
	 * -EINTR, or an error that ends the core.
	 */
	int (*enter)(void *priv, uint32_t flags, uint32_t sq_seen, int64_t timeout_ns);
	/* Fill in as->base, size and priv for as->ctx. 0 or -errno. */
	int (*map)(void *priv, struct fw_aspace *as);
	void (*unmap)(void *priv, struct fw_aspace *as);
	/*
	 * Call fn(arg), which touches no context memory but the nr_acc ranges of acc, under the
	 * protection of the MMU. 0; or -EFAULT and *fault if an access was refused, in which case
	 * fn may have run in part or not at all. Called by several workers at once.
	 */
	int (*guard)(void *priv, struct fw_aspace *as, const struct fw_access *acc,
		     unsigned int nr_acc, void (*fn)(void *arg), void *arg, struct fw_fault *fault);
};

/* One end of the rings, mapped. */
struct fw_port {
	const struct vnpu_fw_info *info;
	const struct vnpu_fw_sqe *sq;
	struct vnpu_fw_ctl *ctl;
	struct vnpu_fw_cqe *cq;
	uint8_t *status; /* queue q's struct drm_vnpu_queue_status at status + q * 4096 */
	const struct fw_port_ops *ops;
	void *priv;
};

struct soc_npu;

struct fw_config {
	unsigned int threads; /* workers, 0: one per CPU that the process may use */
	unsigned int spin_us; /* how long to poll the ring before sleeping; 0: not at all */
	enum fw_isa isa; /* AUTO: the best that the host has */
	/*
	 * The modelled NPU (profile.h) for jobs' device times; must outlive the core. NULL: device
	 * times are 0.
	 */
	const struct soc_npu *npu;
	void (*log)(void *ud, const char *line); /* NULL: quiet */
	void *ud;
};

struct fw_core;

/* A core on @port; both must outlive the core. NULL with errno set: ENOMEM, ENOTSUP (isa not on
 * this host), EINVAL (the port's info page makes no sense). */
struct fw_core *fw_core_create(const struct fw_config *cfg, struct fw_port *port);
/*
 * Serve until fw_core_stop(), until enter() fails, or until the info page says that the session is
 * over. 0 after a stop, else enter()'s error (-EIO where the session is over and enter() does not
 * say why), or -EPROTO if the rings make no sense.
 */
int fw_core_run(struct fw_core *core);
/*
 * How the other end broke the protocol, where fw_core_run() has found that it did; else NULL. The
 * core's.
 */
const char *fw_core_broken(const struct fw_core *core);
/* Make fw_core_run() return as soon as it next looks; callable from any thread and from a signal
 * handler. The caller must also end a sleep in enter(). */
void fw_core_stop(struct fw_core *core);
void fw_core_destroy(struct fw_core *core);

#endif /* FW_H */
