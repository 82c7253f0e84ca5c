/* SPDX-License-Identifier: MIT */
/*
 * The device core: processes the rings of uapi/linux/vnpu_fw.h.
 *
 * The core takes submissions, validates them, runs them on its worker threads and completes them.
 * struct fw_port hides what is at the other end: vnpu-fw connects it to the rings of vnpu.ko
 * (port_kmd.c), libnpu's sim transport to rings in its own process.
 *
 * Threads: fw_core_run() is the command processor. It runs in its caller's thread, which is also
 * the first worker; cfg.threads - 1 more workers sleep until they are needed. Jobs run one at a
 * time, in an order that is fair to contexts (fw_queue.h); all workers share the tiles of a job's
 * concurrent commands. Results do not depend on the number of threads.
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

/* Memory that a tile accesses: [va, va + size), as addresses of the context. */
struct fw_access {
	uint64_t va;
	uint64_t size;
	bool write;
};

/* A context's address space as the core sees it: address va is at base + va in this process. */
struct fw_aspace {
	uint32_t ctx;
	uint8_t *base;
	uint64_t size;
	void *priv; /* for the port */
};

struct fw_port_ops {
	/*
	 * VNPU_FW_ENTER: processes the entries in the completion ring. With VNPU_FW_ENTER_WAIT,
	 * sleeps until sq_tail differs from sq_seen or timeout_ns (absolute, -1 for none) passes.
	 * 0, -EINTR, or an error that ends the core.
	 */
	int (*enter)(void *priv, uint32_t flags, uint32_t sq_seen, int64_t timeout_ns);
	/* Fills in as->base, size and priv for as->ctx. 0 or -errno. */
	int (*map)(void *priv, struct fw_aspace *as);
	void (*unmap)(void *priv, struct fw_aspace *as);
	/*
	 * Calls fn(arg), which accesses no context memory other than the nr_acc ranges of acc,
	 * under the protection of the MMU. 0; or -EFAULT and *fault if an access was refused; fn
	 * may then have run partly or not at all. Several workers may call it at once.
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
	uint8_t *status; /* struct drm_vnpu_queue_status of queue q at status + q * 4096 */
	const struct fw_port_ops *ops;
	void *priv;
};

struct soc_npu;

struct fw_config {
	unsigned int threads; /* number of workers; 0: host_threads() */
	unsigned int spin_us; /* time to poll the ring before sleeping; 0: does not poll */
	enum fw_isa isa; /* AUTO: the best one that the host has */
	/* The modelled NPU (soc.h) for device times; must outlive the core. NULL: times are 0. */
	const struct soc_npu *npu;
	void (*log)(void *ud, const char *line); /* NULL: no log */
	void *ud;
};

struct fw_core;

/* Creates a core on @port; @port must outlive it. NULL with errno set: ENOMEM, ENOTSUP (the host
 * does not have the isa), EINVAL (the port's info page is not valid). */
struct fw_core *fw_core_create(const struct fw_config *cfg, struct fw_port *port);
/*
 * Serves until fw_core_stop(), until enter() fails, or until the info page says that the session is
 * over. Returns 0 after a stop; the error of enter(), or -EIO if the session is over and enter()
 * does not say why; or -EPROTO if the rings are not valid.
 */
int fw_core_run(struct fw_core *core);
/*
 * How the other end broke the protocol, after fw_core_run() has detected it; else NULL. The string
 * belongs to the core.
 */
const char *fw_core_broken(const struct fw_core *core);
/* Makes fw_core_run() return at its next check. May be called from any thread and from a signal
 * handler. The caller must also end a sleep in enter(). */
void fw_core_stop(struct fw_core *core);
void fw_core_destroy(struct fw_core *core);

#endif /* FW_H */
