/* SPDX-License-Identifier: MIT */
/*
 * The layout of both ABIs, field by field. It is compiled, never run: as C for 32 and 64 bits and
 * as C++, and whatever moves a field, leaves a hole or changes a size stops the compiler. A new
 * field is a new line here.
 */
#include <stddef.h>
#include <drm/vnpu_accel.h>
#include <linux/vnpu_fw.h>

#ifdef __cplusplus
#define ASSERT(c, text) static_assert(c, text)
#else
#define ASSERT(c, text) _Static_assert(c, text)
#endif
/* Every structure is a multiple of 8 bytes. */
#define SIZE(s, bytes) ASSERT(sizeof(struct s) == (bytes) && (bytes) % 8 == 0, "size of " #s)
#define FIELD(s, f, at, bytes)                                                         \
	ASSERT(offsetof(struct s, f) == (at) && sizeof(((struct s *)0)->f) == (bytes), \
	       "place of " #s "." #f)
/* The field begins where the one before it ends: no implicit padding. */
#define NEXT(s, f, before)                                                           \
	ASSERT(offsetof(struct s, f) ==                                              \
		       offsetof(struct s, before) + sizeof(((struct s *)0)->before), \
	       "hole before " #s "." #f)
/*
 * The field begins a cache line of its own, so that who polls it is not disturbed by what stands
 * before it.
 */
#define LINE(s, f) ASSERT(offsetof(struct s, f) % 64 == 0, "cache line of " #s "." #f)
#define LAST(s, f)                                                                     \
	ASSERT(offsetof(struct s, f) + sizeof(((struct s *)0)->f) == sizeof(struct s), \
	       "padding behind " #s)

SIZE(drm_vnpu_obj_array, 16);
FIELD(drm_vnpu_obj_array, stride, 0, 4);
FIELD(drm_vnpu_obj_array, count, 4, 4);
NEXT(drm_vnpu_obj_array, count, stride);
FIELD(drm_vnpu_obj_array, array, 8, 8);
NEXT(drm_vnpu_obj_array, array, count);
LAST(drm_vnpu_obj_array, array);

SIZE(drm_vnpu_query_device, 56);
FIELD(drm_vnpu_query_device, name, 0, 32);
FIELD(drm_vnpu_query_device, isa_version, 32, 4);
NEXT(drm_vnpu_query_device, isa_version, name);
FIELD(drm_vnpu_query_device, fw_abi, 36, 4);
NEXT(drm_vnpu_query_device, fw_abi, isa_version);
FIELD(drm_vnpu_query_device, fw_features, 40, 8);
NEXT(drm_vnpu_query_device, fw_features, fw_abi);
FIELD(drm_vnpu_query_device, va_bits, 48, 4);
NEXT(drm_vnpu_query_device, va_bits, fw_features);
FIELD(drm_vnpu_query_device, pad, 52, 4);
NEXT(drm_vnpu_query_device, pad, va_bits);
LAST(drm_vnpu_query_device, pad);

SIZE(drm_vnpu_query_limits, 80);
FIELD(drm_vnpu_query_limits, max_ctx_per_file, 0, 4);
FIELD(drm_vnpu_query_limits, max_queues_per_file, 4, 4);
NEXT(drm_vnpu_query_limits, max_queues_per_file, max_ctx_per_file);
FIELD(drm_vnpu_query_limits, max_queue_depth, 8, 4);
NEXT(drm_vnpu_query_limits, max_queue_depth, max_queues_per_file);
FIELD(drm_vnpu_query_limits, max_jobs_per_submit, 12, 4);
NEXT(drm_vnpu_query_limits, max_jobs_per_submit, max_queue_depth);
FIELD(drm_vnpu_query_limits, max_syncs_per_job, 16, 4);
NEXT(drm_vnpu_query_limits, max_syncs_per_job, max_jobs_per_submit);
FIELD(drm_vnpu_query_limits, max_waiting_jobs, 20, 4);
NEXT(drm_vnpu_query_limits, max_waiting_jobs, max_syncs_per_job);
FIELD(drm_vnpu_query_limits, max_binds_per_call, 24, 4);
NEXT(drm_vnpu_query_limits, max_binds_per_call, max_waiting_jobs);
FIELD(drm_vnpu_query_limits, priorities, 28, 4);
NEXT(drm_vnpu_query_limits, priorities, max_binds_per_call);
FIELD(drm_vnpu_query_limits, max_bo_bytes, 32, 8);
NEXT(drm_vnpu_query_limits, max_bo_bytes, priorities);
FIELD(drm_vnpu_query_limits, mem_limit_bytes, 40, 8);
NEXT(drm_vnpu_query_limits, mem_limit_bytes, max_bo_bytes);
FIELD(drm_vnpu_query_limits, max_cmd_bytes, 48, 4);
NEXT(drm_vnpu_query_limits, max_cmd_bytes, mem_limit_bytes);
FIELD(drm_vnpu_query_limits, default_timeout_ms, 52, 4);
NEXT(drm_vnpu_query_limits, default_timeout_ms, max_cmd_bytes);
FIELD(drm_vnpu_query_limits, max_timeout_ms, 56, 4);
NEXT(drm_vnpu_query_limits, max_timeout_ms, default_timeout_ms);
FIELD(drm_vnpu_query_limits, max_fence_ms, 60, 4);
NEXT(drm_vnpu_query_limits, max_fence_ms, max_timeout_ms);
FIELD(drm_vnpu_query_limits, max_ctx_per_user, 64, 4);
NEXT(drm_vnpu_query_limits, max_ctx_per_user, max_fence_ms);
FIELD(drm_vnpu_query_limits, max_queues_per_user, 68, 4);
NEXT(drm_vnpu_query_limits, max_queues_per_user, max_ctx_per_user);
FIELD(drm_vnpu_query_limits, max_bytes_per_user, 72, 8);
NEXT(drm_vnpu_query_limits, max_bytes_per_user, max_queues_per_user);
LAST(drm_vnpu_query_limits, max_bytes_per_user);

SIZE(drm_vnpu_query_state, 40);
FIELD(drm_vnpu_query_state, state, 0, 4);
FIELD(drm_vnpu_query_state, epoch, 4, 4);
NEXT(drm_vnpu_query_state, epoch, state);
FIELD(drm_vnpu_query_state, busy_ns, 8, 8);
NEXT(drm_vnpu_query_state, busy_ns, epoch);
FIELD(drm_vnpu_query_state, mem_bytes, 16, 8);
NEXT(drm_vnpu_query_state, mem_bytes, busy_ns);
FIELD(drm_vnpu_query_state, nr_jobs, 24, 8);
NEXT(drm_vnpu_query_state, nr_jobs, mem_bytes);
FIELD(drm_vnpu_query_state, nr_resets, 32, 4);
NEXT(drm_vnpu_query_state, nr_resets, nr_jobs);
FIELD(drm_vnpu_query_state, last_loss, 36, 4);
NEXT(drm_vnpu_query_state, last_loss, nr_resets);
LAST(drm_vnpu_query_state, last_loss);

SIZE(drm_vnpu_dev_query, 16);
FIELD(drm_vnpu_dev_query, type, 0, 4);
FIELD(drm_vnpu_dev_query, size, 4, 4);
NEXT(drm_vnpu_dev_query, size, type);
FIELD(drm_vnpu_dev_query, pointer, 8, 8);
NEXT(drm_vnpu_dev_query, pointer, size);
LAST(drm_vnpu_dev_query, pointer);

SIZE(drm_vnpu_bo_create, 16);
FIELD(drm_vnpu_bo_create, size, 0, 8);
FIELD(drm_vnpu_bo_create, flags, 8, 4);
NEXT(drm_vnpu_bo_create, flags, size);
FIELD(drm_vnpu_bo_create, handle, 12, 4);
NEXT(drm_vnpu_bo_create, handle, flags);
LAST(drm_vnpu_bo_create, handle);

SIZE(drm_vnpu_bo_info, 24);
FIELD(drm_vnpu_bo_info, handle, 0, 4);
FIELD(drm_vnpu_bo_info, flags, 4, 4);
NEXT(drm_vnpu_bo_info, flags, handle);
FIELD(drm_vnpu_bo_info, size, 8, 8);
NEXT(drm_vnpu_bo_info, size, flags);
FIELD(drm_vnpu_bo_info, mmap_offset, 16, 8);
NEXT(drm_vnpu_bo_info, mmap_offset, size);
LAST(drm_vnpu_bo_info, mmap_offset);

SIZE(drm_vnpu_ctx_create, 24);
FIELD(drm_vnpu_ctx_create, flags, 0, 4);
FIELD(drm_vnpu_ctx_create, ctx_id, 4, 4);
NEXT(drm_vnpu_ctx_create, ctx_id, flags);
FIELD(drm_vnpu_ctx_create, va_start, 8, 8);
NEXT(drm_vnpu_ctx_create, va_start, ctx_id);
FIELD(drm_vnpu_ctx_create, va_range, 16, 8);
NEXT(drm_vnpu_ctx_create, va_range, va_start);
LAST(drm_vnpu_ctx_create, va_range);

SIZE(drm_vnpu_ctx_destroy, 8);
FIELD(drm_vnpu_ctx_destroy, ctx_id, 0, 4);
FIELD(drm_vnpu_ctx_destroy, pad, 4, 4);
NEXT(drm_vnpu_ctx_destroy, pad, ctx_id);
LAST(drm_vnpu_ctx_destroy, pad);

SIZE(drm_vnpu_ctx_get_state, 40);
FIELD(drm_vnpu_ctx_get_state, ctx_id, 0, 4);
FIELD(drm_vnpu_ctx_get_state, state, 4, 4);
NEXT(drm_vnpu_ctx_get_state, state, ctx_id);
FIELD(drm_vnpu_ctx_get_state, fault_va, 8, 8);
NEXT(drm_vnpu_ctx_get_state, fault_va, state);
FIELD(drm_vnpu_ctx_get_state, seqno, 16, 8);
NEXT(drm_vnpu_ctx_get_state, seqno, fault_va);
FIELD(drm_vnpu_ctx_get_state, queue_id, 24, 4);
NEXT(drm_vnpu_ctx_get_state, queue_id, seqno);
FIELD(drm_vnpu_ctx_get_state, fault_flags, 28, 4);
NEXT(drm_vnpu_ctx_get_state, fault_flags, queue_id);
FIELD(drm_vnpu_ctx_get_state, epoch, 32, 4);
NEXT(drm_vnpu_ctx_get_state, epoch, fault_flags);
FIELD(drm_vnpu_ctx_get_state, pad, 36, 4);
NEXT(drm_vnpu_ctx_get_state, pad, epoch);
LAST(drm_vnpu_ctx_get_state, pad);

SIZE(drm_vnpu_bind_op, 40);
FIELD(drm_vnpu_bind_op, op, 0, 4);
FIELD(drm_vnpu_bind_op, flags, 4, 4);
NEXT(drm_vnpu_bind_op, flags, op);
FIELD(drm_vnpu_bind_op, handle, 8, 4);
NEXT(drm_vnpu_bind_op, handle, flags);
FIELD(drm_vnpu_bind_op, pad, 12, 4);
NEXT(drm_vnpu_bind_op, pad, handle);
FIELD(drm_vnpu_bind_op, bo_offset, 16, 8);
NEXT(drm_vnpu_bind_op, bo_offset, pad);
FIELD(drm_vnpu_bind_op, va, 24, 8);
NEXT(drm_vnpu_bind_op, va, bo_offset);
FIELD(drm_vnpu_bind_op, size, 32, 8);
NEXT(drm_vnpu_bind_op, size, va);
LAST(drm_vnpu_bind_op, size);

SIZE(drm_vnpu_vm_bind, 24);
FIELD(drm_vnpu_vm_bind, ctx_id, 0, 4);
FIELD(drm_vnpu_vm_bind, flags, 4, 4);
NEXT(drm_vnpu_vm_bind, flags, ctx_id);
FIELD(drm_vnpu_vm_bind, ops, 8, 16);
NEXT(drm_vnpu_vm_bind, ops, flags);
LAST(drm_vnpu_vm_bind, ops);

SIZE(drm_vnpu_queue_status, 32);
FIELD(drm_vnpu_queue_status, completed_seqno, 0, 8);
FIELD(drm_vnpu_queue_status, error, 8, 4);
NEXT(drm_vnpu_queue_status, error, completed_seqno);
FIELD(drm_vnpu_queue_status, epoch, 12, 4);
NEXT(drm_vnpu_queue_status, epoch, error);
FIELD(drm_vnpu_queue_status, started_seqno, 16, 8);
NEXT(drm_vnpu_queue_status, started_seqno, epoch);
FIELD(drm_vnpu_queue_status, progress, 24, 8);
NEXT(drm_vnpu_queue_status, progress, started_seqno);
LAST(drm_vnpu_queue_status, progress);

SIZE(drm_vnpu_queue_create, 32);
FIELD(drm_vnpu_queue_create, ctx_id, 0, 4);
FIELD(drm_vnpu_queue_create, priority, 4, 4);
NEXT(drm_vnpu_queue_create, priority, ctx_id);
FIELD(drm_vnpu_queue_create, depth, 8, 4);
NEXT(drm_vnpu_queue_create, depth, priority);
FIELD(drm_vnpu_queue_create, flags, 12, 4);
NEXT(drm_vnpu_queue_create, flags, depth);
FIELD(drm_vnpu_queue_create, queue_id, 16, 4);
NEXT(drm_vnpu_queue_create, queue_id, flags);
FIELD(drm_vnpu_queue_create, pad, 20, 4);
NEXT(drm_vnpu_queue_create, pad, queue_id);
FIELD(drm_vnpu_queue_create, status_offset, 24, 8);
NEXT(drm_vnpu_queue_create, status_offset, pad);
LAST(drm_vnpu_queue_create, status_offset);

SIZE(drm_vnpu_queue_destroy, 8);
FIELD(drm_vnpu_queue_destroy, queue_id, 0, 4);
FIELD(drm_vnpu_queue_destroy, pad, 4, 4);
NEXT(drm_vnpu_queue_destroy, pad, queue_id);
LAST(drm_vnpu_queue_destroy, pad);

SIZE(drm_vnpu_sync_op, 16);
FIELD(drm_vnpu_sync_op, flags, 0, 4);
FIELD(drm_vnpu_sync_op, handle, 4, 4);
NEXT(drm_vnpu_sync_op, handle, flags);
FIELD(drm_vnpu_sync_op, timeline_value, 8, 8);
NEXT(drm_vnpu_sync_op, timeline_value, handle);
LAST(drm_vnpu_sync_op, timeline_value);

SIZE(drm_vnpu_job, 64);
FIELD(drm_vnpu_job, queue_id, 0, 4);
FIELD(drm_vnpu_job, flags, 4, 4);
NEXT(drm_vnpu_job, flags, queue_id);
FIELD(drm_vnpu_job, cmd_va, 8, 8);
NEXT(drm_vnpu_job, cmd_va, flags);
FIELD(drm_vnpu_job, table_va, 16, 8);
NEXT(drm_vnpu_job, table_va, cmd_va);
FIELD(drm_vnpu_job, cmd_size, 24, 4);
NEXT(drm_vnpu_job, cmd_size, table_va);
FIELD(drm_vnpu_job, table_size, 28, 4);
NEXT(drm_vnpu_job, table_size, cmd_size);
FIELD(drm_vnpu_job, timeout_ms, 32, 4);
NEXT(drm_vnpu_job, timeout_ms, table_size);
FIELD(drm_vnpu_job, pad, 36, 4);
NEXT(drm_vnpu_job, pad, timeout_ms);
FIELD(drm_vnpu_job, syncs, 40, 16);
NEXT(drm_vnpu_job, syncs, pad);
FIELD(drm_vnpu_job, seqno, 56, 8);
NEXT(drm_vnpu_job, seqno, syncs);
LAST(drm_vnpu_job, seqno);

SIZE(drm_vnpu_submit, 24);
FIELD(drm_vnpu_submit, ctx_id, 0, 4);
FIELD(drm_vnpu_submit, flags, 4, 4);
NEXT(drm_vnpu_submit, flags, ctx_id);
FIELD(drm_vnpu_submit, jobs, 8, 16);
NEXT(drm_vnpu_submit, jobs, flags);
LAST(drm_vnpu_submit, jobs);

SIZE(drm_vnpu_wait, 32);
FIELD(drm_vnpu_wait, queue_id, 0, 4);
FIELD(drm_vnpu_wait, flags, 4, 4);
NEXT(drm_vnpu_wait, flags, queue_id);
FIELD(drm_vnpu_wait, seqno, 8, 8);
NEXT(drm_vnpu_wait, seqno, flags);
FIELD(drm_vnpu_wait, timeout_ns, 16, 8);
NEXT(drm_vnpu_wait, timeout_ns, seqno);
FIELD(drm_vnpu_wait, status, 24, 4);
NEXT(drm_vnpu_wait, status, timeout_ns);
FIELD(drm_vnpu_wait, epoch, 28, 4);
NEXT(drm_vnpu_wait, epoch, status);
LAST(drm_vnpu_wait, epoch);

SIZE(vnpu_ctl_version, 16);
FIELD(vnpu_ctl_version, min, 0, 4);
FIELD(vnpu_ctl_version, max, 4, 4);
NEXT(vnpu_ctl_version, max, min);
FIELD(vnpu_ctl_version, features, 8, 8);
NEXT(vnpu_ctl_version, features, max);
LAST(vnpu_ctl_version, features);

SIZE(vnpu_ctl_add_dev, 120);
FIELD(vnpu_ctl_add_dev, size, 0, 4);
FIELD(vnpu_ctl_add_dev, version, 4, 4);
NEXT(vnpu_ctl_add_dev, version, size);
FIELD(vnpu_ctl_add_dev, abi_features, 8, 8);
NEXT(vnpu_ctl_add_dev, abi_features, version);
FIELD(vnpu_ctl_add_dev, client_features, 16, 8);
NEXT(vnpu_ctl_add_dev, client_features, abi_features);
FIELD(vnpu_ctl_add_dev, name, 24, 32);
NEXT(vnpu_ctl_add_dev, name, client_features);
FIELD(vnpu_ctl_add_dev, isa_version, 56, 4);
NEXT(vnpu_ctl_add_dev, isa_version, name);
FIELD(vnpu_ctl_add_dev, nr_queues, 60, 4);
NEXT(vnpu_ctl_add_dev, nr_queues, isa_version);
FIELD(vnpu_ctl_add_dev, queue_depth, 64, 4);
NEXT(vnpu_ctl_add_dev, queue_depth, nr_queues);
FIELD(vnpu_ctl_add_dev, nr_ctx, 68, 4);
NEXT(vnpu_ctl_add_dev, nr_ctx, queue_depth);
FIELD(vnpu_ctl_add_dev, va_bits, 72, 4);
NEXT(vnpu_ctl_add_dev, va_bits, nr_ctx);
FIELD(vnpu_ctl_add_dev, flags, 76, 4);
NEXT(vnpu_ctl_add_dev, flags, va_bits);
FIELD(vnpu_ctl_add_dev, mem_limit, 80, 8);
NEXT(vnpu_ctl_add_dev, mem_limit, flags);
FIELD(vnpu_ctl_add_dev, dev_id, 88, 4);
NEXT(vnpu_ctl_add_dev, dev_id, mem_limit);
FIELD(vnpu_ctl_add_dev, fw_fd, 92, 4);
NEXT(vnpu_ctl_add_dev, fw_fd, dev_id);
FIELD(vnpu_ctl_add_dev, timeout_ms, 96, 4);
NEXT(vnpu_ctl_add_dev, timeout_ms, fw_fd);
FIELD(vnpu_ctl_add_dev, max_timeout_ms, 100, 4);
NEXT(vnpu_ctl_add_dev, max_timeout_ms, timeout_ms);
FIELD(vnpu_ctl_add_dev, user_ctx, 104, 4);
NEXT(vnpu_ctl_add_dev, user_ctx, max_timeout_ms);
FIELD(vnpu_ctl_add_dev, user_queues, 108, 4);
NEXT(vnpu_ctl_add_dev, user_queues, user_ctx);
FIELD(vnpu_ctl_add_dev, user_mem, 112, 8);
NEXT(vnpu_ctl_add_dev, user_mem, user_queues);
LAST(vnpu_ctl_add_dev, user_mem);

SIZE(vnpu_ctl_attach, 24);
FIELD(vnpu_ctl_attach, size, 0, 4);
FIELD(vnpu_ctl_attach, version, 4, 4);
NEXT(vnpu_ctl_attach, version, size);
FIELD(vnpu_ctl_attach, abi_features, 8, 8);
NEXT(vnpu_ctl_attach, abi_features, version);
FIELD(vnpu_ctl_attach, dev_id, 16, 4);
NEXT(vnpu_ctl_attach, dev_id, abi_features);
FIELD(vnpu_ctl_attach, fw_fd, 20, 4);
NEXT(vnpu_ctl_attach, fw_fd, dev_id);
LAST(vnpu_ctl_attach, fw_fd);

SIZE(vnpu_ctl_del_dev, 8);
FIELD(vnpu_ctl_del_dev, dev_id, 0, 4);
FIELD(vnpu_ctl_del_dev, flags, 4, 4);
NEXT(vnpu_ctl_del_dev, flags, dev_id);
LAST(vnpu_ctl_del_dev, flags);

SIZE(vnpu_ctl_info, 56);
FIELD(vnpu_ctl_info, dev_id, 0, 4);
FIELD(vnpu_ctl_info, state, 4, 4);
NEXT(vnpu_ctl_info, state, dev_id);
FIELD(vnpu_ctl_info, accel_minor, 8, 4);
NEXT(vnpu_ctl_info, accel_minor, state);
FIELD(vnpu_ctl_info, fw_pid, 12, 4);
NEXT(vnpu_ctl_info, fw_pid, accel_minor);
FIELD(vnpu_ctl_info, epoch, 16, 4);
NEXT(vnpu_ctl_info, epoch, fw_pid);
FIELD(vnpu_ctl_info, pad, 20, 4);
NEXT(vnpu_ctl_info, pad, epoch);
FIELD(vnpu_ctl_info, name, 24, 32);
NEXT(vnpu_ctl_info, name, pad);
LAST(vnpu_ctl_info, name);

SIZE(vnpu_fw_info, 192);
FIELD(vnpu_fw_info, magic, 0, 8);
FIELD(vnpu_fw_info, version, 8, 4);
NEXT(vnpu_fw_info, version, magic);
FIELD(vnpu_fw_info, epoch, 12, 4);
NEXT(vnpu_fw_info, epoch, version);
FIELD(vnpu_fw_info, sq_entries, 16, 4);
NEXT(vnpu_fw_info, sq_entries, epoch);
FIELD(vnpu_fw_info, cq_entries, 20, 4);
NEXT(vnpu_fw_info, cq_entries, sq_entries);
FIELD(vnpu_fw_info, nr_queues, 24, 4);
NEXT(vnpu_fw_info, nr_queues, cq_entries);
FIELD(vnpu_fw_info, nr_ctx, 28, 4);
NEXT(vnpu_fw_info, nr_ctx, nr_queues);
FIELD(vnpu_fw_info, va_bits, 32, 4);
NEXT(vnpu_fw_info, va_bits, nr_ctx);
FIELD(vnpu_fw_info, dev_id, 36, 4);
NEXT(vnpu_fw_info, dev_id, va_bits);
FIELD(vnpu_fw_info, ctl_offset, 40, 8);
NEXT(vnpu_fw_info, ctl_offset, dev_id);
FIELD(vnpu_fw_info, sq_offset, 48, 8);
NEXT(vnpu_fw_info, sq_offset, ctl_offset);
FIELD(vnpu_fw_info, cq_offset, 56, 8);
NEXT(vnpu_fw_info, cq_offset, sq_offset);
FIELD(vnpu_fw_info, status_offset, 64, 8);
NEXT(vnpu_fw_info, status_offset, cq_offset);
FIELD(vnpu_fw_info, abi_features, 72, 8);
NEXT(vnpu_fw_info, abi_features, status_offset);
FIELD(vnpu_fw_info, reserved, 80, 48);
NEXT(vnpu_fw_info, reserved, abi_features);
FIELD(vnpu_fw_info, sq_tail, 128, 4);
NEXT(vnpu_fw_info, sq_tail, reserved);
FIELD(vnpu_fw_info, cq_head, 132, 4);
NEXT(vnpu_fw_info, cq_head, sq_tail);
FIELD(vnpu_fw_info, over, 136, 4);
NEXT(vnpu_fw_info, over, cq_head);
FIELD(vnpu_fw_info, pad, 140, 52);
NEXT(vnpu_fw_info, pad, over);
LAST(vnpu_fw_info, pad);
LINE(vnpu_fw_info, sq_tail);

SIZE(vnpu_fw_ctl, 128);
FIELD(vnpu_fw_ctl, sq_head, 0, 4);
FIELD(vnpu_fw_ctl, pad0, 4, 60);
NEXT(vnpu_fw_ctl, pad0, sq_head);
FIELD(vnpu_fw_ctl, cq_tail, 64, 4);
NEXT(vnpu_fw_ctl, cq_tail, pad0);
FIELD(vnpu_fw_ctl, pad1, 68, 60);
NEXT(vnpu_fw_ctl, pad1, cq_tail);
LAST(vnpu_fw_ctl, pad1);
LINE(vnpu_fw_ctl, sq_head);
LINE(vnpu_fw_ctl, cq_tail);

SIZE(vnpu_fw_sqe, 64);
FIELD(vnpu_fw_sqe, type, 0, 4);
FIELD(vnpu_fw_sqe, priority, 4, 4);
NEXT(vnpu_fw_sqe, priority, type);
FIELD(vnpu_fw_sqe, ctx, 8, 4);
NEXT(vnpu_fw_sqe, ctx, priority);
FIELD(vnpu_fw_sqe, queue, 12, 4);
NEXT(vnpu_fw_sqe, queue, ctx);
FIELD(vnpu_fw_sqe, tag, 16, 8);
NEXT(vnpu_fw_sqe, tag, queue);
FIELD(vnpu_fw_sqe, seqno, 24, 8);
NEXT(vnpu_fw_sqe, seqno, tag);
FIELD(vnpu_fw_sqe, cmd_va, 32, 8);
NEXT(vnpu_fw_sqe, cmd_va, seqno);
FIELD(vnpu_fw_sqe, table_va, 40, 8);
NEXT(vnpu_fw_sqe, table_va, cmd_va);
FIELD(vnpu_fw_sqe, cmd_size, 48, 4);
NEXT(vnpu_fw_sqe, cmd_size, table_va);
FIELD(vnpu_fw_sqe, table_size, 52, 4);
NEXT(vnpu_fw_sqe, table_size, cmd_size);
FIELD(vnpu_fw_sqe, flags, 56, 4);
NEXT(vnpu_fw_sqe, flags, table_size);
FIELD(vnpu_fw_sqe, pad, 60, 4);
NEXT(vnpu_fw_sqe, pad, flags);
LAST(vnpu_fw_sqe, pad);

SIZE(vnpu_fw_cqe, 64);
FIELD(vnpu_fw_cqe, type, 0, 4);
FIELD(vnpu_fw_cqe, status, 4, 4);
NEXT(vnpu_fw_cqe, status, type);
FIELD(vnpu_fw_cqe, tag, 8, 8);
NEXT(vnpu_fw_cqe, tag, status);
FIELD(vnpu_fw_cqe, busy_ns, 16, 8);
NEXT(vnpu_fw_cqe, busy_ns, tag);
FIELD(vnpu_fw_cqe, fault_va, 24, 8);
NEXT(vnpu_fw_cqe, fault_va, busy_ns);
FIELD(vnpu_fw_cqe, flags, 32, 4);
NEXT(vnpu_fw_cqe, flags, fault_va);
FIELD(vnpu_fw_cqe, pad, 36, 4);
NEXT(vnpu_fw_cqe, pad, flags);
FIELD(vnpu_fw_cqe, reserved, 40, 24);
NEXT(vnpu_fw_cqe, reserved, pad);
LAST(vnpu_fw_cqe, reserved);

SIZE(vnpu_fw_enter, 24);
FIELD(vnpu_fw_enter, flags, 0, 4);
FIELD(vnpu_fw_enter, sq_seen, 4, 4);
NEXT(vnpu_fw_enter, sq_seen, flags);
FIELD(vnpu_fw_enter, timeout_ns, 8, 8);
NEXT(vnpu_fw_enter, timeout_ns, sq_seen);
FIELD(vnpu_fw_enter, nr_completed, 16, 4);
NEXT(vnpu_fw_enter, nr_completed, timeout_ns);
FIELD(vnpu_fw_enter, pad, 20, 4);
NEXT(vnpu_fw_enter, pad, nr_completed);
LAST(vnpu_fw_enter, pad);

SIZE(vnpu_fw_start, 8);
FIELD(vnpu_fw_start, flags, 0, 4);
FIELD(vnpu_fw_start, accel_minor, 4, 4);
NEXT(vnpu_fw_start, accel_minor, flags);
LAST(vnpu_fw_start, accel_minor);

/* An entry of a ring is one cache line. */
ASSERT(sizeof(struct vnpu_fw_sqe) == 64, "an sqe is a cache line");
ASSERT(sizeof(struct vnpu_fw_cqe) == 64, "a cqe is a cache line");

/* Old numbers keep their meaning. */
#define ID(name, nr) ASSERT((DRM_VNPU_##name) == (nr), "number of " #name)
ID(DEV_QUERY, 0);
ID(BO_CREATE, 1);
ID(BO_INFO, 2);
ID(CTX_CREATE, 3);
ID(CTX_DESTROY, 4);
ID(CTX_GET_STATE, 5);
ID(VM_BIND, 6);
ID(QUEUE_CREATE, 7);
ID(QUEUE_DESTROY, 8);
ID(SUBMIT, 9);
ID(WAIT, 10);

#define CALL(name, nr)                                                     \
	ASSERT(_IOC_TYPE(name) == 0xDA && _IOC_NR(name) == (nr), "number " \
								 "of " #name)
CALL(VNPU_CTL_VERSION, 0x00);
CALL(VNPU_CTL_ADD_DEV, 0x01);
CALL(VNPU_CTL_ATTACH, 0x02);
CALL(VNPU_CTL_DEL_DEV, 0x03);
CALL(VNPU_CTL_INFO, 0x04);
CALL(VNPU_FW_START, 0x20);
CALL(VNPU_FW_ENTER, 0x21);
