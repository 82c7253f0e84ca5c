/* SPDX-License-Identifier: MIT */
/*
 * USDT probes for perf, bpftrace or gdb. Provider "libnpu"; docs/tracing.md is their manual.
 *
 * A probe without a listener is one nop, but its arguments are always computed, so they must be
 * cheap. ctx and queue are the driver's ids, as in its tracepoints; texts are NUL-terminated.
 */
#ifndef NPU_PROBES_H
#define NPU_PROBES_H

#include <sys/sdt.h>

/*
 * A device was opened. @transport: enum npu_transport; @path: its node, "" for sim; @reason: why
 * this transport.
 */
#define npu_probe_device_open(transport, path, reason) \
	DTRACE_PROBE3(libnpu, device_open, transport, path, reason)

/* A buffer was created and bound at @va of the context; a buffer is about to be unbound and freed.
 * */
#define npu_probe_buffer_create(ctx, va, bytes, flags) \
	DTRACE_PROBE4(libnpu, buffer_create, ctx, va, bytes, flags)
#define npu_probe_buffer_free(ctx, va, bytes) DTRACE_PROBE3(libnpu, buffer_free, ctx, va, bytes)

/* A program was loaded into device memory, with its command stream at @va. */
#define npu_probe_program_load(ctx, program, va, cmd_bytes, const_bytes) \
	DTRACE_PROBE5(libnpu, program_load, ctx, program, va, cmd_bytes, const_bytes)

/* Operand @symbol of a job of @program was bound to the memory at @va. */
#define npu_probe_job_bind(ctx, program, symbol, va, bytes) \
	DTRACE_PROBE5(libnpu, job_bind, ctx, program, symbol, va, bytes)

/* Before the device call that submits @nr_jobs jobs; after it, once per job if it succeeded. */
#define npu_probe_submit(ctx, queue, nr_jobs) DTRACE_PROBE3(libnpu, submit, ctx, queue, nr_jobs)
#define npu_probe_job_submit(ctx, queue, seqno, program) \
	DTRACE_PROBE4(libnpu, job_submit, ctx, queue, seqno, program)

/* A thread begins to wait for a job (@mode: enum npu_wait_mode); a thread has seen a job's end:
 * @status 0 or a negative errno, @ns since the submission, 0 if that is no longer known. */
#define npu_probe_wait(ctx, queue, seqno, mode) DTRACE_PROBE4(libnpu, wait, ctx, queue, seqno, mode)
#define npu_probe_job_done(ctx, queue, seqno, status, ns) \
	DTRACE_PROBE5(libnpu, job_done, ctx, queue, seqno, status, ns)

/* A thread begins to wait for a point of a fence; its wait has ended: @status 0 or a negative
 * errno. */
#define npu_probe_fence_wait(handle, point, timeout_ns) \
	DTRACE_PROBE3(libnpu, fence_wait, handle, point, timeout_ns)
#define npu_probe_fence_done(handle, point, status) \
	DTRACE_PROBE3(libnpu, fence_done, handle, point, status)

#endif /* NPU_PROBES_H */
