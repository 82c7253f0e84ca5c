/* SPDX-License-Identifier: MIT */
/*
 * What aarch64 tells a signal handler about a refused access. Linux appends records to the frame of
 * a signal, each with a magic number and its size, up to one of size 0
 * (arch/arm64/include/uapi/asm/sigcontext.h); one of them is the exception syndrome register
 * ESR_EL1 (Arm Architecture Reference Manual, D24.2.40). Written out here so that it is tested
 * everywhere.
 */
#ifndef FW_ESR_H
#define FW_ESR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FW_ESR_RECORD 0x45535201u

/* Of ESR_EL1: the exception class of a data abort from user space, and what is known of it. */
#define FW_ESR_CLASS(esr) ((uint32_t)((esr) >> 26 & 0x3f))
#define FW_ESR_DATA_ABORT 0x24
#define FW_ESR_WRITE (1u << 6)
/* A cache maintenance instruction, which counts as a write whatever it does. */
#define FW_ESR_MAINTENANCE (1u << 8)

/* Whether the @bytes of records say that the access was a write; false if they say nothing. */
static inline bool fw_esr_is_write(const void *records, size_t bytes)
{
	const uint8_t *at = records;
	struct {
		uint32_t magic, size;
	} head;
	uint64_t esr;

	while (bytes >= sizeof(head)) {
		memcpy(&head, at, sizeof(head));
		if (head.size < sizeof(head) || head.size > bytes)
			return false;
		if (head.magic == FW_ESR_RECORD && head.size >= sizeof(head) + sizeof(esr)) {
			memcpy(&esr, at + sizeof(head), sizeof(esr));
			return FW_ESR_CLASS(esr) == FW_ESR_DATA_ABORT && esr & FW_ESR_WRITE &&
			       !(esr & FW_ESR_MAINTENANCE);
		}
		at += head.size;
		bytes -= head.size;
	}
	return false;
}

#endif /* FW_ESR_H */
