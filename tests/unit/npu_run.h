/* SPDX-License-Identifier: MIT */
/* Runs a graph once: allocates a buffer per binding, copies data in and out. */
#ifndef NPU_RUN_H
#define NPU_RUN_H

#include "npu_fixture.h"

struct run_binding {
	const char *name;
	const void *in; /* NULL: zeros */
	void *out; /* NULL: not wanted */
	size_t bytes;
};

struct run_param {
	const char *name;
	int64_t value;
};

/* Frees the graph. Returns the result of the wait. */
static inline int run_graph(struct fixture *f, struct npu_graph *g,
			    const struct run_binding *bindings, unsigned int nr,
			    const struct run_param *params, unsigned int nr_params)
{
	struct npu_buffer **bufs = calloc(nr + 1, sizeof(struct npu_buffer *));
	struct npu_job *job = fixture_job(f->ctx, g);
	int ret;

	for (unsigned int i = 0; i < nr; i++) {
		npu_ok(npu_buffer_create(f->ctx, bindings[i].bytes, 0, &bufs[i]));
		if (bindings[i].in)
			memcpy(npu_buffer_data(bufs[i]), bindings[i].in, bindings[i].bytes);
		fixture_bind(job, bindings[i].name, bufs[i]);
	}
	for (unsigned int i = 0; i < nr_params; i++)
		npu_ok(npu_job_param(job, params[i].name, params[i].value));
	ret = fixture_run(f, job);
	for (unsigned int i = 0; i < nr; i++) {
		if (!ret && bindings[i].out)
			memcpy(bindings[i].out, npu_buffer_data(bufs[i]), bindings[i].bytes);
		npu_buffer_free(bufs[i]);
	}
	npu_job_free(job);
	free(bufs);
	return ret;
}

#endif /* NPU_RUN_H */
