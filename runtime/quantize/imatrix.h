/* SPDX-License-Identifier: MIT */
/*
 * Files of llama-imatrix: how large a text's activations were in each input channel of a model's
 * matrices, as means of their squares.
 *
 * In a GGUF file, matrix NAME has the F32 tensors NAME.in_sum2 [matrices][channels], sums of
 * squares, and NAME.counts [matrices], how many were added. The older format has no magic: an int32
 * number of entries, and for each an int32 length and the name, an int32 number of calls, an int32
 * number of values, and these as floats, which are sums over calls.
 */
#ifndef IMATRIX_H
#define IMATRIX_H

#include <stddef.h>

struct imatrix;

/* 0, or -errno with the error line. */
int imatrix_open(const char *path, struct imatrix **imatrix);
void imatrix_close(struct imatrix *imatrix); /* NULL: nothing */
/* The means of matrix @name, *@n of them, none negative; NULL: it has none. */
const float *imatrix_find(const struct imatrix *imatrix, const char *name, size_t *n);

#endif /* IMATRIX_H */
