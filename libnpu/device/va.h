/* SPDX-License-Identifier: MIT */
/* Free ranges of a context's addresses, or of a file's offsets. */
#ifndef NPU_VA_H
#define NPU_VA_H

#include <stdint.h>

/* Sorted by start. */
struct npu_va_range {
	struct npu_va_range *next;
	uint64_t start, size;
};

/* The range [start, start + size) is free. Returns 0 or -ENOMEM. */
int npu_va_init(struct npu_va_range **list, uint64_t start, uint64_t size);
/* First fit; 0 if there is no room. */
uint64_t npu_va_alloc(struct npu_va_range **list, uint64_t size, uint64_t align);
/* -ENOMEM: the range is lost. */
int npu_va_free(struct npu_va_range **list, uint64_t start, uint64_t size);
void npu_va_fini(struct npu_va_range **list);

#endif /* NPU_VA_H */
