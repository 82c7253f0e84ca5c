// SPDX-License-Identifier: GPL-2.0-only
/*
 * A context's address space, and the aperture through which the firmware sees it.
 *
 * The firmware maps [ctx << va_bits, (ctx + 1) << va_bits) of its fd: a VMA that starts without
 * pages. A fault looks the address up in the bindings and inserts the pages of the pinned buffer;
 * if there is no binding it raises SIGBUS. The process's page tables are thus the device's MMU.
 * One entry maps a huge page of a buffer where that is bound whole and aligned: a device that
 * streams weights then misses its TLB a five-hundredth as often.
 *
 * A PFN mapping holds no reference to the page, so unbinding goes in this order: remove the binding
 * under vm_lock, zap the pages with unmap_mapping_range(), and only then unpin.
 */

#include <linux/pagemap.h>

#include "vnpu_compat.h"
#include "vnpu_ctx.h"
#include "vnpu_fw.h"
#include "vnpu_gem.h"
#include "vnpu_trace.h"

/* Pages per fault: an aligned block. 64 instead of 1 makes a first access five times cheaper. */
#define VNPU_FAULT_AROUND 64ul

/* ---- VM_BIND ---- */

static void vnpu_binding_free(struct vnpu_binding *binding)
{
	drm_gem_shmem_unpin(&binding->bo->base);
	drm_gem_object_put(&binding->bo->base.base);
	kfree(binding);
}

/* The steps of a MAP that can fail or sleep, except taking the address range. */
static struct vnpu_binding *vnpu_binding_create(struct drm_file *file,
						const struct drm_vnpu_bind_op *op)
{
	struct drm_gem_object *obj = drm_gem_object_lookup(file, op->handle);
	struct vnpu_binding *binding;
	int ret = -EINVAL;

	if (!obj)
		return ERR_PTR(-ENOENT);
	if (op->bo_offset > obj->size || op->size > obj->size - op->bo_offset)
		goto err_put;
	if ((to_vnpu_bo(obj)->flags & DRM_VNPU_BO_DEVICE_READ_ONLY) &&
	    !(op->flags & DRM_VNPU_BIND_READ_ONLY))
		goto err_put;
	ret = -ENOMEM;
	binding = kzalloc(sizeof(*binding), GFP_KERNEL_ACCOUNT);
	if (!binding)
		goto err_put;
	binding->bo = to_vnpu_bo(obj);
	binding->bo_page = op->bo_offset >> PAGE_SHIFT;
	binding->read_only = op->flags & DRM_VNPU_BIND_READ_ONLY;
	ret = drm_gem_shmem_pin(&binding->bo->base);
	/* What shmem says of a lack of memory would mean that the range is bound already. */
	if (ret == -ENOSPC)
		ret = -ENOMEM;
	if (ret)
		goto err_free;
	return binding;

err_free:
	kfree(binding);
err_put:
	drm_gem_object_put(obj);
	return ERR_PTR(ret);
}

static int vnpu_bind(struct vnpu_ctx *ctx, struct drm_file *file,
		     const struct drm_vnpu_bind_op *ops, u32 nr)
{
	struct vnpu_bind_step *steps = kvcalloc(nr, sizeof(*steps), GFP_KERNEL_ACCOUNT);
	struct vnpu_binding *binding;
	int ret = 0;

	if (!steps)
		return -ENOMEM;
	for (u32 i = 0; i < nr && !ret; i++) {
		ret = vnpu_space_check(&ctx->space, &ops[i]);
		if (ret || ops[i].op != DRM_VNPU_BIND_MAP)
			continue;
		binding = vnpu_ctx_banned(ctx) ? ERR_PTR(-ECANCELED)
					       : vnpu_binding_create(file, &ops[i]);
		if (IS_ERR(binding)) {
			ret = PTR_ERR(binding);
			continue;
		}
		steps[i].map = true;
		steps[i].binding = binding;
	}

	mutex_lock(&ctx->bind_lock);
	/* A binding made after vnpu_vm_clear() would never be removed. */
	if (!ret && READ_ONCE(ctx->closing))
		ret = -ECANCELED;
	/* Excludes faults of the device, so that it sees all operations or none. */
	if (!ret) {
		guard(rwsem_write)(&ctx->vm_lock);
		ret = vnpu_space_commit(&ctx->space, ops, steps, nr);
	}
	for (u32 i = 0; i < nr && !ret; i++)
		if (!steps[i].map)
			vnpu_fw_zap(ctx->vdev, ctx->num, ops[i].va, ops[i].size);
	mutex_unlock(&ctx->bind_lock);

	/* Free bindings that were removed, or the new ones if the call failed. */
	for (u32 i = 0; i < nr; i++)
		if (steps[i].binding && steps[i].map == !!ret)
			vnpu_binding_free(steps[i].binding);
	kvfree(steps);
	return ret;
}

int vnpu_ioctl_vm_bind(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct drm_vnpu_vm_bind *args = data;
	struct drm_vnpu_bind_op *ops;
	struct vnpu_ctx *ctx;
	int ret;

	if (args->flags)
		return -EINVAL;
	ctx = vnpu_ctx_get(to_vnpu_file(file), args->ctx_id);
	if (!ctx)
		return -ENOENT;
	ret = VNPU_UAPI_GET_ARRAY(&args->ops, VNPU_MAX_BINDS_PER_CALL, struct drm_vnpu_bind_op,
				  size, NULL, &ops);
	if (!ret && ops)
		ret = vnpu_bind(ctx, file, ops, args->ops.count);
	for (u32 i = 0; trace_vnpu_bind_enabled() && !ret && i < args->ops.count; i++)
		trace_vnpu_bind(ctx, &ops[i]);
	kvfree(ops);
	vnpu_ctx_put(ctx);
	return ret;
}

/* Returns whether there are more: a context may have millions of bindings. */
static bool vnpu_vm_clear_some(struct vnpu_ctx *ctx, struct list_head *gone)
{
	guard(rwsem_write)(&ctx->vm_lock);
	return vnpu_space_clear(&ctx->space, gone, VNPU_MAX_BINDS_PER_CALL);
}

/* Unmap everything when the context closes. */
void vnpu_vm_clear(struct vnpu_ctx *ctx)
{
	struct vnpu_binding *binding, *next;
	LIST_HEAD(gone);

	scoped_guard(mutex, &ctx->bind_lock) {
		while (vnpu_vm_clear_some(ctx, &gone))
			cond_resched();
		vnpu_fw_zap(ctx->vdev, ctx->num, 0, 1ull << ctx->vdev->va_bits);
	}
	list_for_each_entry_safe(binding, next, &gone, link) {
		vnpu_binding_free(binding);
		cond_resched();
	}
}

/* ---- the aperture ---- */

static u64 vnpu_aperture_page(const struct vnpu_ctx *ctx, pgoff_t pgoff)
{
	return pgoff & (vnpu_space_pages(&ctx->space) - 1);
}

static vm_fault_t vnpu_aperture_fill(struct vm_area_struct *vma, struct vnpu_ctx *ctx, u64 page,
				     bool write)
{
	struct vnpu_binding *b = vnpu_space_find(&ctx->space, page);
	u64 vma_first = vnpu_aperture_page(ctx, vma->vm_pgoff);
	u64 first, last, addr;
	vm_fault_t ret = VM_FAULT_NOPAGE;
	pgprot_t prot;

	if (!b || (b->read_only && write))
		return VM_FAULT_SIGBUS;
	/*
	 * Do not use the VMA's protection: with .pfn_mkwrite it is read-only, and every writable
	 * page would fault twice.
	 */
	prot = vm_get_page_prot(vma->vm_flags & ~(b->read_only ? VM_WRITE : 0));
	first = max3(round_down(page, VNPU_FAULT_AROUND), b->node.start, vma_first);
	last = min3(page | (VNPU_FAULT_AROUND - 1), b->node.start + b->node.size - 1,
		    vma_first + vma_pages(vma) - 1);
	addr = vma->vm_start + ((first - vma_first) << PAGE_SHIFT);
	for (; first <= last && ret == VM_FAULT_NOPAGE; first++, addr += PAGE_SIZE) {
		struct page *p = b->bo->base.pages[b->bo_page + first - b->node.start];

		ret = vmf_insert_pfn_prot(vma, addr, page_to_pfn(p), prot);
	}
	return ret;
}

static vm_fault_t vnpu_aperture_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct vnpu_ctx *ctx = vma->vm_private_data;
	vm_fault_t ret;

	if (!vnpu_fw_fault_begin(vma->vm_file))
		return VM_FAULT_SIGBUS;
	scoped_guard(rwsem_read, &ctx->vm_lock)
		ret = vnpu_aperture_fill(vma, ctx, vnpu_aperture_page(ctx, vmf->pgoff),
					 vmf->flags & FAULT_FLAG_WRITE);
	vnpu_fw_fault_end(vma->vm_file);
	return ret;
}

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
/* Whether the huge page of addresses around the fault is in the VMA and begins at page @first. */
static bool vnpu_aperture_aligned(struct vm_fault *vmf, const struct vnpu_ctx *ctx, u64 first)
{
	unsigned long start = vmf->address & HPAGE_PMD_MASK;
	struct vm_area_struct *vma = vmf->vma;

	return start >= vma->vm_start && vma->vm_end - start >= HPAGE_PMD_SIZE &&
	       vnpu_aperture_page(ctx, linear_page_index(vma, start)) == first;
}

static vm_fault_t vnpu_aperture_fill_huge(struct vm_fault *vmf, struct vnpu_ctx *ctx)
{
	u64 page = vnpu_aperture_page(ctx, vmf->pgoff), first = round_down(page, HPAGE_PMD_NR);
	struct vnpu_binding *b = vnpu_space_find(&ctx->space, page);
	struct page *p;

	if (!b || (b->read_only && (vmf->flags & FAULT_FLAG_WRITE)))
		return VM_FAULT_SIGBUS;
	/* Another thread's, or one that is being unmapped: fault again. */
	if (!pmd_none(pmdp_get_lockless(vmf->pmd)))
		return VM_FAULT_NOPAGE;
	if (first < b->node.start || b->node.start + b->node.size - first < HPAGE_PMD_NR ||
	    !vnpu_aperture_aligned(vmf, ctx, first))
		return VM_FAULT_FALLBACK;
	p = b->bo->base.pages[b->bo_page + first - b->node.start];
	if (!IS_ALIGNED(page_to_pfn(p), HPAGE_PMD_NR) || !folio_test_pmd_mappable(page_folio(p)))
		return VM_FAULT_FALLBACK;
	return vnpu_compat_insert_pfn_pmd(vmf, page_to_pfn(p), !b->read_only);
}

/* A write to a present read-only huge page comes here too, not to .pfn_mkwrite. */
static vm_fault_t vnpu_aperture_huge_fault(struct vm_fault *vmf, unsigned int order)
{
	struct vm_area_struct *vma = vmf->vma;
	struct vnpu_ctx *ctx = vma->vm_private_data;
	vm_fault_t ret;

	if (order != HPAGE_PMD_ORDER)
		return VM_FAULT_FALLBACK;
	if (!vnpu_fw_fault_begin(vma->vm_file))
		return VM_FAULT_SIGBUS;
	scoped_guard(rwsem_read, &ctx->vm_lock)
		ret = vnpu_aperture_fill_huge(vmf, ctx);
	vnpu_fw_fault_end(vma->vm_file);
	return ret;
}
#endif

/*
 * A write to a present read-only page. Without this hook the kernel would just make the page
 * writable. Read-write bindings have no read-only pages (mprotect() is refused), so if the binding
 * is not read-only, the page is being unmapped: fault again.
 */
static vm_fault_t vnpu_aperture_pfn_mkwrite(struct vm_fault *vmf)
{
	struct vnpu_ctx *ctx = vmf->vma->vm_private_data;
	struct vnpu_binding *b;

	guard(rwsem_read)(&ctx->vm_lock);
	b = vnpu_space_find(&ctx->space, vnpu_aperture_page(ctx, vmf->pgoff));
	return b && b->read_only ? VM_FAULT_SIGBUS : VM_FAULT_NOPAGE;
}

static int vnpu_aperture_mprotect(struct vm_area_struct *vma, unsigned long start,
				  unsigned long end, unsigned long newflags)
{
	return -EACCES;
}

static void vnpu_aperture_open(struct vm_area_struct *vma)
{
	kref_get(&((struct vnpu_ctx *)vma->vm_private_data)->ref);
}

static void vnpu_aperture_close(struct vm_area_struct *vma)
{
	vnpu_ctx_put(vma->vm_private_data);
}

static const struct vm_operations_struct vnpu_aperture_ops = {
	.open = vnpu_aperture_open,
	.close = vnpu_aperture_close,
	.mprotect = vnpu_aperture_mprotect,
	.fault = vnpu_aperture_fault,
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	.huge_fault = vnpu_aperture_huge_fault,
#endif
	.pfn_mkwrite = vnpu_aperture_pfn_mkwrite,
};

/* mmap() of the firmware fd at an offset in the apertures. */
int vnpu_vm_mmap(struct vnpu_device *vdev, struct vm_area_struct *vma)
{
	u64 per_ctx = 1ull << (vdev->va_bits - PAGE_SHIFT);
	u64 num = vma->vm_pgoff >> (vdev->va_bits - PAGE_SHIFT);
	struct vnpu_ctx *ctx;

	if (num > vdev->nr_ctx || (vma->vm_pgoff & (per_ctx - 1)) + vma_pages(vma) > per_ctx)
		return -EINVAL;
	/* This locks the VMA, and huge faults take the session's lock under the VMA's. */
	vm_flags_mod(vma, VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY | VM_HUGEPAGE,
		     VM_MAYEXEC);
	/* Contexts belong to the session that they were created in. */
	if (!vnpu_fw_fault_begin(vma->vm_file))
		return -ENODEV;
	ctx = vnpu_ctx_get_by_num(vdev, array_index_nospec(num, vdev->nr_ctx + 1));
	vnpu_fw_fault_end(vma->vm_file);
	if (!ctx)
		return -ENOENT;
	vma->vm_private_data = ctx;
	vma->vm_ops = &vnpu_aperture_ops;
	return 0;
}
