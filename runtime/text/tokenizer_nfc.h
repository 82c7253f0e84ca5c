/* SPDX-License-Identifier: MIT */
/* Unicode's normalisation form C: characters with their marks in one code point where there is one.
 */
#ifndef TOKENIZER_NFC_H
#define TOKENIZER_NFC_H

#include <stddef.h>
#include <stdint.h>

/* Longer runs of combining marks are left as they are: ordering them takes quadratic time. */
#define NFC_MAX_MARKS 1024

/*
 * Normalises valid UTF-8. *@out is NULL if nothing is to be changed, else the caller frees its
 * *@out_bytes. A text with a run of more than NFC_MAX_MARKS marks is not changed. 0 or -ENOMEM.
 */
int nfc_normalise(const uint8_t *text, size_t bytes, uint8_t **out, size_t *out_bytes);

#endif /* TOKENIZER_NFC_H */
