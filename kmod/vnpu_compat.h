/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between the kernels that vnpu builds for, behind one name each. conftest.sh defines
 * the HAVE_ names.
 */
#ifndef VNPU_COMPAT_H
#define VNPU_COMPAT_H

#include <linux/err.h>
#include <linux/mm.h>

#include "vnpu_conf.h"

#ifdef HAVE_PFN_T
#include <linux/pfn_t.h>
#endif
#ifdef HAVE_FAUX_DEVICE
#include <linux/device/faux.h>
#else
#include <linux/platform_device.h>
#endif

/*
 * The parent of the DRM device, on no bus. Numbers are not reused: debugfs entries named after them
 * stay until the last file of a deleted device is closed.
 */
static inline struct device *vnpu_compat_parent_create(void)
{
	static atomic_t last = ATOMIC_INIT(-1);
	int nr = atomic_inc_return(&last) & INT_MAX;
#ifdef HAVE_FAUX_DEVICE
	struct faux_device *faux;
	char name[24];

	snprintf(name, sizeof(name), "vnpu.%d", nr);
	faux = faux_device_create(name, NULL, NULL);
	return faux ? &faux->dev : ERR_PTR(-ENODEV);
#else
	struct platform_device *pdev = platform_device_register_simple("vnpu", nr, NULL, 0);

	return IS_ERR(pdev) ? ERR_CAST(pdev) : &pdev->dev;
#endif
}

static inline void vnpu_compat_parent_destroy(struct device *dev)
{
#ifdef HAVE_FAUX_DEVICE
	faux_device_destroy(to_faux_device(dev));
#else
	platform_device_unregister(to_platform_device(dev));
#endif
}

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
static inline vm_fault_t vnpu_compat_insert_pfn_pmd(struct vm_fault *vmf, unsigned long pfn,
						    bool write)
{
#ifdef HAVE_PFN_T
	return vmf_insert_pfn_pmd(vmf, __pfn_to_pfn_t(pfn, PFN_DEV), write);
#else
	return vmf_insert_pfn_pmd(vmf, pfn, write);
#endif
}
#endif

#endif /* VNPU_COMPAT_H */
