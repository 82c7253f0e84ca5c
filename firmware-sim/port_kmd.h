/* SPDX-License-Identifier: MIT */
/* The device core's port to vnpu.ko: a mapped firmware fd. */
#ifndef PORT_KMD_H
#define PORT_KMD_H

#include "fw.h"

/* Bits of VNPU_FW_FEATURES that this port understands: none is defined yet. */
#define PORT_KMD_FEATURES 0ULL

struct port_kmd {
	struct fw_port port;
	int fd;
	/* Mappings: info, sq, ctl, cq, status. */
	struct {
		void *addr;
		size_t bytes;
	} maps[5];
	unsigned int nr_maps;
	void *last_info; /* replaces the info page when the kernel revokes it */
	_Atomic bool lost; /* the rings were revoked: the mappings are private memory */
};

/*
 * Maps the rings of the firmware fd @fd, which stays the caller's. Handles SIGBUS of the process:
 * as MMU faults, and for the end of the session, after which info->over is set. One port at a time.
 * 0 or -errno, -EIO if the session has ended; *what is then the part that failed.
 */
int port_kmd_open(struct port_kmd *p, int fd, const char **what);
void port_kmd_close(struct port_kmd *p);

#endif /* PORT_KMD_H */
