// SPDX-License-Identifier: MIT
/*
 * The port to vnpu.ko. A context's aperture is one mapping of the firmware fd, which the kernel fills page by page: the
 * page tables of this process are the MMU. An access that the kernel refuses raises SIGBUS in the worker; its handler
 * jumps back to the guard around the tile with the address and the direction.
 *
 * When the kernel resets the device it takes all mappings away, those of the rings too, and whoever touches one gets
 * SIGBUS. The handler then puts memory of our own there: what is read or written no longer matters, and the next ENTER
 * tells what happened. A SIGBUS from anywhere else is a bug and ends the process as it always does.
 */
#define _GNU_SOURCE /* REG_ERR */
#include "port_kmd.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

struct guard {
	sigjmp_buf env;
	const struct fw_aspace *as;
	struct fw_fault fault;
};

/* The guard that this thread is in. */
static _Thread_local struct guard *volatile current;

/* The port whose rings are mapped; there is one in a process. */
static struct port_kmd *volatile mapped;

static bool is_write(const void *context)
{
#if defined(__x86_64__)
	const ucontext_t *uc = context;

	return uc->uc_mcontext.gregs[REG_ERR] & 2;
#else
	return false;
#endif
}

/* Memory of our own in place of the part of the rings that @addr lies in. False if it is not of the rings. */
static bool replace_part(uintptr_t addr)
{
	struct port_kmd *p = mapped;
	int err = errno;
	unsigned int i;
	void *own;

	for (i = 0; p && i < p->nr_maps; i++) {
		if (addr - (uintptr_t)p->maps[i].addr >= p->maps[i].bytes)
			continue;
		own = mmap(p->maps[i].addr, p->maps[i].bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		errno = err;
		return own != MAP_FAILED;
	}
	return false;
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	struct guard *g = current;
	uintptr_t addr = (uintptr_t)info->si_addr;
	uintptr_t base = g ? (uintptr_t)g->as->base : 0;

	if (g && addr - base < g->as->size) {
		g->fault.va = addr - base;
		g->fault.write = is_write(context);
		siglongjmp(g->env, 1);
	}
	/* Returning repeats the access, which then ends the process. */
	if (!replace_part(addr))
		signal(SIGBUS, SIG_DFL);
}

static int port_guard(void *priv, struct fw_aspace *as, const struct fw_access *acc, unsigned int nr_acc,
		      void (*fn)(void *arg), void *arg, struct fw_fault *fault)
{
	struct guard g;

	/* The buffer is sigsetjmp()'s to fill in, the fault the handler's. */
	g.as = as;
	/* The signal mask is not saved: the handler runs with SA_NODEFER and changes nothing. */
	if (sigsetjmp(g.env, 0)) {
		current = NULL;
		*fault = g.fault;
		return -EFAULT;
	}
	current = &g;
	fn(arg);
	current = NULL;
	return 0;
}

static int port_enter(void *priv, uint32_t flags, uint32_t sq_seen, int64_t timeout_ns)
{
	struct vnpu_fw_enter arg = { .flags = flags, .sq_seen = sq_seen, .timeout_ns = timeout_ns };
	struct port_kmd *p = priv;

	return ioctl(p->fd, VNPU_FW_ENTER, &arg) ? -errno : 0;
}

static int port_map(void *priv, struct fw_aspace *as)
{
	struct port_kmd *p = priv;
	uint32_t bits = p->port.info->va_bits;
	void *addr;

	addr = mmap(NULL, 1ull << bits, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, p->fd,
		    (off_t)as->ctx << bits);
	if (addr == MAP_FAILED)
		return -errno;
	as->base = addr;
	as->size = 1ull << bits;
	return 0;
}

static void port_unmap(void *priv, struct fw_aspace *as)
{
	munmap(as->base, as->size);
}

static const struct fw_port_ops port_ops = {
	.enter = port_enter,
	.map = port_map,
	.unmap = port_unmap,
	.guard = port_guard,
};

static void *map_part(struct port_kmd *p, uint64_t offset, size_t bytes, int prot)
{
	size_t page = sysconf(_SC_PAGESIZE);
	void *addr;

	bytes = (bytes + page - 1) / page * page;
	addr = mmap(NULL, bytes, prot, MAP_SHARED, p->fd, offset);
	if (addr == MAP_FAILED)
		return NULL;
	p->maps[p->nr_maps].addr = addr;
	p->maps[p->nr_maps++].bytes = bytes;
	return addr;
}

int port_kmd_open(struct port_kmd *p, int fd, const char **what)
{
	struct sigaction sa = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER };
	const struct vnpu_fw_info *info;

	memset(p, 0, sizeof(*p));
	p->fd = fd;
	mapped = p;
	*what = "SIGBUS handler";
	if (sigaction(SIGBUS, &sa, NULL))
		goto fail;
	*what = "info page";
	info = map_part(p, 0, sizeof(*info), PROT_READ);
	if (!info)
		goto fail;
	p->port.info = info;
	if (info->magic != VNPU_FW_INFO_MAGIC || info->version != VNPU_FW_ABI) {
		errno = EPROTO;
		goto fail;
	}
	*what = "submission ring";
	p->port.sq = map_part(p, info->sq_offset, info->sq_entries * sizeof(struct vnpu_fw_sqe), PROT_READ);
	if (!p->port.sq)
		goto fail;
	*what = "control page";
	p->port.ctl = map_part(p, info->ctl_offset, sizeof(struct vnpu_fw_ctl), PROT_READ | PROT_WRITE);
	if (!p->port.ctl)
		goto fail;
	*what = "completion ring";
	p->port.cq =
		map_part(p, info->cq_offset, info->cq_entries * sizeof(struct vnpu_fw_cqe), PROT_READ | PROT_WRITE);
	if (!p->port.cq)
		goto fail;
	*what = "status pages";
	p->port.status = map_part(p, info->status_offset, info->nr_queues * 4096ul, PROT_READ | PROT_WRITE);
	if (!p->port.status)
		goto fail;
	p->port.ops = &port_ops;
	p->port.priv = p;
	return 0;
fail:
	port_kmd_close(p);
	return -errno;
}

void port_kmd_close(struct port_kmd *p)
{
	int err = errno;

	mapped = NULL;
	while (p->nr_maps) {
		p->nr_maps--;
		munmap(p->maps[p->nr_maps].addr, p->maps[p->nr_maps].bytes);
	}
	errno = err;
}
