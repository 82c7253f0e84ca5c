/* SPDX-License-Identifier: MIT */
/*
 * The session's activations on a GPU with memory of its own, beside the host's: which copy is
 * current where, so that operators find what others wrote, and only that is transferred.
 *
 *	before an operator	gpu_mirror_read() of what it reads
 *	after it		gpu_mirror_wrote() of what it wrote
 *	when others may look	gpu_mirror_publish(): what operators wrote goes to the host
 *	when others have begun	gpu_mirror_forget(): the host's copies may be newer
 *
 * What operators of this lane wrote stays in the device's memory for the next ones. It must: a
 * driver may take the bytes of a transfer to the device as soon as that is enqueued (OpenCL 1.2,
 * section 5.2.2), so bytes that a queued transfer has yet to bring to the host cannot be sent
 * back. Where they are wanted with others' columns beside them, gpu_mirror_read() waits.
 *
 * One thread at a time. 0, or -errno with the error line.
 */
#ifndef GPU_MIRROR_H
#define GPU_MIRROR_H

#include "gpu.h"

/* Some bytes of each of some rows. */
struct gpu_region {
	struct llm_gpu_buffer *buf;
	size_t off; /* bytes, as the rest */
	size_t rows, width, stride;
};

#define GPU_MIRROR_REGIONS 64

struct gpu_mirror {
	struct llm_gpu_queue *queue;
	/* Current on the device. If @newer, the host's copy is older. */
	struct {
		struct gpu_region r;
		bool newer;
	} regions[GPU_MIRROR_REGIONS];
	unsigned int nr;
	bool bringing; /* transfers to the host may be under way */
};

/* The bytes @off .. @off + @bytes - 1 of @buf become current on the device. */
int gpu_mirror_read(struct gpu_mirror *m, struct llm_gpu_buffer *buf, size_t off, size_t bytes);
int gpu_mirror_wrote(struct gpu_mirror *m, const struct gpu_region *region);
/* Enqueues the transfers to the host; they end before what is enqueued after them. */
int gpu_mirror_publish(struct gpu_mirror *m);
void gpu_mirror_forget(struct gpu_mirror *m);

#endif /* GPU_MIRROR_H */
