/* SPDX-License-Identifier: MIT */
/*
 * Room for a cache of panels: all caches of a folder, the files *.panels that say what they were
 * made of, have a limit together. Those that have not been used for longest, by the time that they
 * were changed or used, are removed first. Programs that have one mapped keep it.
 */
#ifndef PANELS_ROOM_H
#define PANELS_ROOM_H

#include <stdint.h>

/*
 * Makes room for @bytes at @path beside the other caches of its folder. 0, or -errno with the error
 * line: -EFBIG: it is larger than the limit; -ENOSPC: the file system has not so much to give, and
 * nothing was removed; or a cache cannot be removed.
 */
int panels_room_take(const char *path, uint64_t bytes, uint64_t limit);
/* Removes others until they are within the limit together with that at @path, of @bytes. */
int panels_room_trim(const char *path, uint64_t bytes, uint64_t limit);

#endif /* PANELS_ROOM_H */
