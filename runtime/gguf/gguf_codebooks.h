/* SPDX-License-Identifier: MIT */
/*
 * The code books of the IQ types: points that a number in a file names, each the magnitudes of 8
 * values (IQ1 and IQ2) or 4 (IQ3) in its bytes, the first value in the lowest one.
 */
#ifndef GGUF_CODEBOOKS_H
#define GGUF_CODEBOOKS_H

#include <stdint.h>

struct gguf_codebooks {
	/* Of 8, 25 and 43. */
	uint64_t iq2_xxs[256], iq2_xs[512], iq2_s[1024];
	/* Of IQ1_S and IQ1_M: 128 + 8, that with 8 less or with 8 more. */
	uint64_t iq1[2048];
	uint32_t iq3_xxs[256]; /* of 4, 12, 20, 28, 36, 44, 52, 62 */
	uint32_t iq3_s[512]; /* of 1, 3, 5, ... 15 */
};

/* Expanded by the first call, for the program's life. */
const struct gguf_codebooks *gguf_codebooks(void);

#endif /* GGUF_CODEBOOKS_H */
