/* SPDX-License-Identifier: MIT */
/* The runtime's error line, which llm_error() returns. */
#ifndef LLM_FAIL_H
#define LLM_FAIL_H

/* Sets the calling thread's error line and returns @err, a negative errno. */
int llm_fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif /* LLM_FAIL_H */
