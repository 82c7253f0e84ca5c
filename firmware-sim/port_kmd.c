// SPDX-License-Identifier: MIT
/*
 * The port to vnpu.ko. A context's aperture is one mapping of the firmware fd, which the kernel
 * fills page by page: this process's page tables are the MMU. An access that the kernel refuses
 * raises SIGBUS in the worker; the handler jumps back to the guard around the tile with the address
 * and the direction.
 *
 * When the kernel ends the session, it sets over in the info page and then revokes all mappings,
 * including those of the rings; an access to them raises SIGBUS. The handler then replaces all of
 * them by private memory, first the info page, by one that has over set. What is read or written in
 * the other pages no longer matters: the core checks over before it uses anything, and ends. A
 * SIGBUS from anywhere else is a bug and kills the process as usual.
 */
#define _GNU_SOURCE /* REG_ERR, mremap */
#include "port_kmd.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__aarch64__)
#include "fw_esr.h"
#endif

struct guard {
	sigjmp_buf env;
	const struct fw_aspace *as;
	struct fw_fault fault;
};

/* The guard in which this thread is. */
static _Thread_local struct guard *volatile current;

/* The port whose rings are mapped; a process has one. */
static struct port_kmd *volatile mapped;

static bool is_write(const void *context)
{
	const ucontext_t *uc = context;

#if defined(__x86_64__)
	/* Bit 1 of the page fault's error code is a write. */
	return uc->uc_mcontext.gregs[REG_ERR] & 2;
#elif defined(__aarch64__)
	return fw_esr_is_write(uc->uc_mcontext.__reserved, sizeof(uc->uc_mcontext.__reserved));
#else
#error "add how signal frames of this machine tell a write from a read"
#endif
}

static bool is_of_rings(const struct port_kmd *p, uintptr_t addr)
{
	unsigned int i;

	for (i = 0; i < p->nr_maps; i++)
		if (addr - (uintptr_t)p->maps[i].addr < p->maps[i].bytes)
			return true;
	return false;
}

/*
 * Replaces the rings by private memory if @addr is in them. Both calls replace a mapping in one
 * step, so that no thread finds a gap. False if @addr is elsewhere or memory is short.
 */
static bool replace_rings(uintptr_t addr)
{
	struct port_kmd *p = mapped;
	unsigned int i = 0;

	if (!p || !is_of_rings(p, addr))
		return false;
	/* Another thread is replacing them: repeat the access until that is done. */
	if (atomic_exchange(&p->lost, true))
		return true;
	if (p->last_info) {
		if (mremap(p->last_info, p->maps[0].bytes, p->maps[0].bytes,
			   MREMAP_MAYMOVE | MREMAP_FIXED, p->maps[0].addr) == MAP_FAILED)
			return false;
		p->last_info = NULL;
		i++;
	}
	for (; i < p->nr_maps; i++)
		if (mmap(p->maps[i].addr, p->maps[i].bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			return false;
	return true;
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	struct guard *g = current;
	uintptr_t addr = (uintptr_t)info->si_addr;
	uintptr_t base = g ? (uintptr_t)g->as->base : 0;
	int err = errno;

	if (g && addr - base < g->as->size) {
		g->fault.va = addr - base;
		g->fault.write = is_write(context);
		siglongjmp(g->env, 1);
	}
	/* Return to repeat the access, which then kills the process. */
	if (!replace_rings(addr))
		signal(SIGBUS, SIG_DFL);
	errno = err;
}

static int port_guard(void *priv, struct fw_aspace *as, const struct fw_access *acc,
		      unsigned int nr_acc, void (*fn)(void *arg), void *arg, struct fw_fault *fault)
{
	struct guard g;

	/* sigsetjmp() fills in the buffer, the handler the fault. */
	g.as = as;
	/* The signal mask need not be saved: the handler (SA_NODEFER) does not change it. */
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

static size_t whole_pages(size_t bytes)
{
	size_t page = sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

static void *map_part(struct port_kmd *p, uint64_t offset, size_t bytes, int prot)
{
	void *addr;

	/* Mappings made after the loss would not be replaced. */
	if (atomic_load(&p->lost)) {
		errno = EIO;
		return NULL;
	}
	bytes = whole_pages(bytes);
	addr = mmap(NULL, bytes, prot, MAP_SHARED, p->fd, offset);
	if (addr == MAP_FAILED)
		return NULL;
	p->maps[p->nr_maps].addr = addr;
	p->maps[p->nr_maps++].bytes = bytes;
	return addr;
}

/* Prepares the page that replaces the info page: its constants, and over. */
static int make_last_info(struct port_kmd *p)
{
	size_t bytes = whole_pages(sizeof(struct vnpu_fw_info));
	struct vnpu_fw_info *last =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (last == MAP_FAILED)
		return -errno;
	*last = *p->port.info;
	last->over = 1;
	p->last_info = last;
	return 0;
}

/* Maps everything; on failure *what is the part that failed. */
static int map_rings(struct port_kmd *p, const char **what)
{
	const struct vnpu_fw_info *info;
	int err;

	*what = "info page";
	info = map_part(p, 0, sizeof(*info), PROT_READ);
	if (!info)
		return -errno;
	p->port.info = info;
	err = make_last_info(p);
	if (err)
		return err;
	*what = "info page, which is of another ABI";
	if (info->magic != VNPU_FW_INFO_MAGIC || info->version != VNPU_FW_ABI ||
	    info->abi_features & ~PORT_KMD_FEATURES)
		return -EPROTO;
	*what = "submission ring";
	p->port.sq = map_part(p, info->sq_offset, info->sq_entries * sizeof(struct vnpu_fw_sqe),
			      PROT_READ);
	if (!p->port.sq)
		return -errno;
	*what = "control page";
	p->port.ctl =
		map_part(p, info->ctl_offset, sizeof(struct vnpu_fw_ctl), PROT_READ | PROT_WRITE);
	if (!p->port.ctl)
		return -errno;
	*what = "completion ring";
	p->port.cq = map_part(p, info->cq_offset, info->cq_entries * sizeof(struct vnpu_fw_cqe),
			      PROT_READ | PROT_WRITE);
	if (!p->port.cq)
		return -errno;
	*what = "status pages";
	p->port.status =
		map_part(p, info->status_offset, info->nr_queues * 4096ul, PROT_READ | PROT_WRITE);
	return p->port.status ? 0 : -errno;
}

int port_kmd_open(struct port_kmd *p, int fd, const char **what)
{
	struct sigaction sa = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER };
	int err;

	memset(p, 0, sizeof(*p));
	p->fd = fd;
	mapped = p;
	*what = "SIGBUS handler";
	err = sigaction(SIGBUS, &sa, NULL) ? -errno : map_rings(p, what);
	/* Values read from memory that was revoked meanwhile are no reason. */
	if (err && atomic_load(&p->lost))
		err = -EIO;
	if (err) {
		port_kmd_close(p);
		return err;
	}
	p->port.ops = &port_ops;
	p->port.priv = p;
	return 0;
}

void port_kmd_close(struct port_kmd *p)
{
	if (p->last_info)
		munmap(p->last_info, p->maps[0].bytes);
	p->last_info = NULL;
	mapped = NULL;
	while (p->nr_maps) {
		p->nr_maps--;
		munmap(p->maps[p->nr_maps].addr, p->maps[p->nr_maps].bytes);
	}
}
