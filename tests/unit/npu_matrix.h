/* SPDX-License-Identifier: MIT */
/* Operands of operators in tests, and comparison of results with those in double precision. */
#ifndef NPU_MATRIX_H
#define NPU_MATRIX_H

#include <math.h>

#include "npu_run.h"
#include "npu_random.h"

#define ROUNDS 12

/* Float results may differ by the precision of exp and by the order of sums. */
static inline void assert_near(const char *what, const float *got, const double *want, size_t n,
			       double tolerance)
{
	for (size_t i = 0; i < n; i++) {
		double bound = tolerance * (1 + fabs(want[i]));

		if (!(fabs((double)got[i] - want[i]) <= bound))
			fail_msg("%s: element %zu is %.9g, not %.9g", what, i, (double)got[i],
				 want[i]);
	}
}

struct matrix {
	float *f;
	double *want;
	float *got;
	size_t n;
};

static inline struct matrix matrix_new(size_t n)
{
	struct matrix m = { malloc(n * 4), malloc(n * 8), malloc(n * 4), n };

	random_floats(m.f, n);
	return m;
}

static inline void matrix_free(struct matrix *m)
{
	free(m->f);
	free(m->want);
	free(m->got);
}

#endif /* NPU_MATRIX_H */
