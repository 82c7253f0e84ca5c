/* SPDX-License-Identifier: MIT */
/*
 * Finds out on aarch64 whether a refused access was a write. Linux appends records to a signal's
 * frame, each with a magic number and its size, up to one of size 0
 * (arch/arm64/include/uapi/asm/sigcontext.h). One of them is the exception syndrome register
 * ESR_EL1 (Arm Architecture Reference Manual, D24.2.40). The definitions are repeated here so that
 * every host can test this code.
 */
#ifndef FW_ESR_H
#define FW_ESR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FW_ESR_RECORD 0x45535201u

/* Of ESR_EL1: the exception class, that of a data abort from user space, and its bits. */
#define FW_ESR_CLASS(esr) ((uint32_t)((esr) >> 26 & 0x3f))
#define FW_ESR_DATA_ABORT 0x24
#define FW_ESR_WRITE (1u << 6)
/* A cache maintenance instruction; these always count as writes. */
#define FW_ESR_MAINTENANCE (1u << 8)

/* True if the @bytes of records say that the access was a write; false if they do not say. */
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
