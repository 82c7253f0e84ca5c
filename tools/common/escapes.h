/* SPDX-License-Identifier: MIT */
/* Escapes in texts of a command line, as llama.cpp has them. */
#ifndef ESCAPES_H
#define ESCAPES_H

#include <stddef.h>

/*
 * Returns a copy of @text, free() it, in which \n, \r, \t, \', \", \\ and \xHH (two hexadecimal
 * digits) are the bytes that they stand for; a backslash before anything else stays. A NUL follows
 * the *@bytes, of which some may be NUL. NULL after a message: no memory.
 */
char *escapes_decode(const char *text, size_t *bytes);

#endif /* ESCAPES_H */
