// SPDX-License-Identifier: MIT
#include "fw_copy.h"

#include <linux/vnpu_fw.h>
#include <stdlib.h>
#include <string.h>

uint32_t fw_copy_room(const struct fw_aspace *as, struct fw_copy *copy, uint64_t va, uint32_t bytes,
		      uint32_t max_bytes, const char **why)
{
	*why = "its size is out of bounds";
	if (!bytes || bytes % 8 || bytes > max_bytes)
		return VNPU_FW_INVALID;
	*why = "it leaves the address space";
	if (va % 8 || va > as->size || bytes > as->size - va)
		return VNPU_FW_INVALID;
	if (bytes > copy->max_bytes) {
		free(copy->data);
		copy->max_bytes = 0;
		copy->data = malloc(bytes);
		*why = "out of memory";
		if (!copy->data)
			return VNPU_FW_FAILED;
		copy->max_bytes = bytes;
	}
	return VNPU_FW_OK;
}

void fw_copy_in(void *arg)
{
	struct fw_copy_in *c = arg;

	/* The table first, because it changes from job to job. */
	c->same = c->same && !memcmp(c->dst[1], c->src[1], c->bytes[1]) &&
		  !memcmp(c->dst[0], c->src[0], c->bytes[0]);
	if (c->same)
		return;
	memcpy(c->dst[0], c->src[0], c->bytes[0]);
	memcpy(c->dst[1], c->src[1], c->bytes[1]);
}
