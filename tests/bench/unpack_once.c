// SPDX-License-Identifier: MIT
/*
 * Unpacks one panel, for unpack_count.sh: which instructions that takes.
 *
 *	unpack_once ISA FORMAT BITS NUMBERS of a channel
 *
 * FORMAT: wk, the product's, or one of unpack_formats.h. On x86-64 prints the address of each
 * instruction that was executed, in hexadecimal, on a line of its own: the processor traps after
 * each one. Elsewhere prints nothing; an emulator's log has the addresses, between those of
 * unpack_begin() and unpack_end().
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <npu/vnpu_isa.h>

#include "cpu_kernels.h"
#include "unpack_formats.h"

void unpack_begin(void);
void unpack_end(void);

#if defined(__x86_64__)
static uint64_t *executed;
static size_t nr_executed, max_executed;

/* The trap flag, bit 8 of the flags, is set for the code that a signal returns to. */
static void trapped(int sig, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

	if (nr_executed < max_executed)
		executed[nr_executed++] = (uint64_t)regs[REG_RIP];
}

void unpack_begin(void)
{
	struct sigaction action = { .sa_sigaction = trapped, .sa_flags = SA_SIGINFO };

	max_executed = 16u << 20;
	executed = malloc(max_executed * sizeof(*executed));
	if (!executed || sigaction(SIGTRAP, &action, NULL))
		exit(1);
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "cc", "memory");
}

void unpack_end(void)
{
	__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "cc", "memory");
	for (size_t i = 0; i < nr_executed; i++)
		printf("%llx\n", (unsigned long long)executed[i]);
}
#else
__attribute__((noinline)) void unpack_begin(void)
{
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void unpack_end(void)
{
	__asm__ volatile("" ::: "memory");
}
#endif

static const struct unpack_format *find(const char *isa, const char *name)
{
	const struct unpack_format *formats = unpack_formats_generic;

#if defined(__x86_64__)
	if (!strcmp(isa, "avx2"))
		formats = unpack_formats_avx2;
	if (!strcmp(isa, "avx512"))
		formats = unpack_formats_avx512;
#endif
	for (int i = 0; i < UNPACK_FORMATS; i++)
		if (!strcmp(formats[i].name, name))
			return &formats[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const struct cpu_kernels *set = argc == 5 ? cpu_kernels_get(argv[1]) : NULL;
	uint32_t bits = set ? (uint32_t)atoi(argv[3]) : 0, k = set ? (uint32_t)atoi(argv[4]) : 0;
	const struct unpack_format *format;
	uint8_t *to, *from, widths[64];

	format = set ? find(argv[1], argv[2]) : NULL;
	if (bits < 1 || bits > 8 || !k || k % UNPACK_GROUP ||
	    (!format && strcmp(argv[2], "wk") != 0)) {
		fprintf(stderr, "usage: unpack_once ISA wk|figure7-rows|figure7|k-quant|k-quant-O3 "
				"BITS NUMBERS, a multiple of 512; an ISA that this host has\n");
		return 2;
	}
	to = aligned_alloc(64, VNPU_PANEL_I8_BYTES(k));
	from = calloc(1, VNPU_PANEL_WK_BYTES(k, bits));
	if (!to || !from)
		return 1;
	memset(widths, (int)bits, sizeof(widths));
	unpack_begin();
	if (format)
		format->unpack(to, from, widths, k, false);
	else
		set->unpack_wk(to, from, k, bits, 64, false);
	unpack_end();
	return 0;
}
