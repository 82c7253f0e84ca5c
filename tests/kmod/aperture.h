/* SPDX-License-Identifier: MIT */
/*
 * A test as the firmware: it reads and writes a context's memory through the aperture, and learns
 * which accesses fault.
 */
#ifndef APERTURE_H
#define APERTURE_H

#include <setjmp.h>
#include <signal.h>

#include "vnpu_raw.h"

#define SPAN (1ull << 32)

static __thread sigjmp_buf fault_jump;
static __thread volatile sig_atomic_t fault_armed;
static __thread void *fault_addr;

static inline void on_fault(int sig, siginfo_t *info, void *unused)
{
	if (!fault_armed)
		_exit(99);
	fault_addr = info->si_addr;
	siglongjmp(fault_jump, 1);
}

/* cmocka installs its own handlers around each test. */
static inline void arm(void)
{
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };

	sigaction(SIGBUS, &sa, NULL);
	sigaction(SIGSEGV, &sa, NULL);
}

/* The byte, or -1 if the access faults. */
static inline int peek(volatile uint8_t *p)
{
	volatile int v = -1;

	arm();
	fault_armed = 1;
	if (!sigsetjmp(fault_jump, 0))
		v = *p;
	fault_armed = 0;
	if (v < 0)
		assert_ptr_equal(fault_addr, p);
	return v;
}

static inline bool poke(volatile uint8_t *p, uint8_t v)
{
	volatile bool ok = false;

	arm();
	fault_armed = 1;
	if (!sigsetjmp(fault_jump, 0)) {
		*p = v;
		ok = true;
	}
	fault_armed = 0;
	if (!ok)
		assert_ptr_equal(fault_addr, p);
	return ok;
}

/* The number of the bench's context, from a job sent to the device. */
static inline uint32_t ctx_number(struct bench *b, uint32_t ctx, uint32_t queue)
{
	raw_submit(b->fd, ctx, queue);
	return raw_fw_serve(&b->fw, VNPU_FW_OK).ctx;
}

static inline uint8_t *aperture(struct bench *b, uint32_t num)
{
	uint8_t *p = raw_fw_map(b->fw.fd, (uint64_t)num << 32, SPAN, PROT_READ | PROT_WRITE);

	assert_non_null(p);
	return p;
}

#endif /* APERTURE_H */
