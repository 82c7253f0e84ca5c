/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VNPU_VM_H
#define VNPU_VM_H

struct drm_device;
struct drm_file;
struct file;
struct vm_area_struct;
struct vnpu_ctx;
struct vnpu_device;

void vnpu_vm_init(struct vnpu_ctx *ctx);
void vnpu_vm_clear(struct vnpu_ctx *ctx);
void vnpu_vm_fini(struct vnpu_ctx *ctx);
int vnpu_vm_mmap(struct vnpu_device *vdev, struct vm_area_struct *vma);

int vnpu_ioctl_vm_bind(struct drm_device *drm, void *data, struct drm_file *file);

#endif /* VNPU_VM_H */
