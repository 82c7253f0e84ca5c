// SPDX-License-Identifier: MIT
/* The matmuls of a shape (llm.h). */
#include <assert.h>

#include "llm.h"
#include "ops.h"

int llm_shape_matmuls(const char *name, struct llm_matmul list[LLM_MAX_MATMULS], unsigned int *n)
{
	struct shape shape;
	int err = shape_load(name, &shape);

	*n = 0;
	if (err)
		return err;
	for (int op = 0; op < LLM_NR_OPS; op++) {
		uint64_t k, cols;

		if (!llm_op_matmul(&shape, op, &k, &cols))
			continue;
		assert(*n < LLM_MAX_MATMULS);
		list[(*n)++] = (struct llm_matmul){ .k = k, .n = cols };
	}
	return 0;
}
