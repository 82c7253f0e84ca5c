/* SPDX-License-Identifier: MIT */
/* Texts that end a generation (-r). */
#ifndef STOP_H
#define STOP_H

#include <stdbool.h>
#include <stddef.h>

struct stop_text {
	const char *given; /* as on the command line */
	char *text; /* NULL before stop_init() */
	size_t bytes;
};

struct stop {
	struct stop_text *texts;
	size_t n, longest;
	char *end; /* of the text so far: as much as may be the beginning of one of them */
	size_t n_end;
};

/* Adds a text, which the caller keeps. 0, or an exit status after a message. */
int stop_add(struct stop *stop, const char *text);
/* Call it when all are added. With @escapes they are decoded. 0, or an exit status after a
 * message; call stop_free() in either case. */
int stop_init(struct stop *stop, bool escapes);
/* Another text begins. */
void stop_begin(struct stop *stop);
/* Whether @text, which continues what was passed before, completes one of them. */
bool stop_seen(struct stop *stop, const char *text, size_t bytes);
void stop_free(struct stop *stop);

#endif /* STOP_H */
