#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# conftest.sh CC FLAGS... > vnpu_conf.h
#
# Stable kernels change interfaces inside one series, so the version number says nothing. Each test
# is a snippet that the kernel's own compiler flags accept or refuse; vnpu_compat.h turns the answers
# into one interface.

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# compiles NAME <<SNIPPET: define HAVE_NAME if the snippet compiles
compiles() {
	cat > "$tmp/t.c"
	if "$cc" "$@" -w -fsyntax-only "$tmp/t.c" 2> "$tmp/log"; then
		echo "#define HAVE_$name 1"
	else
		echo "/* no $name */"
	fi
}

cc=$1
shift
echo "/* Written by conftest.sh. */"

# If this fails, the flags are wrong and every answer below would be "no".
echo '#include <drm/drm_drv.h>
#include <drm/drm_accel.h>' > "$tmp/t.c"
"$cc" "$@" -w -fsyntax-only "$tmp/t.c" ||
	{ echo "conftest.sh: the kernel's headers do not compile" >&2; exit 1; }

name=FAUX_DEVICE
compiles "$@" <<'C'
#include <linux/device/faux.h>
struct faux_device *f(void) { return faux_device_create("x", (void *)0, (void *)0); }
C

name=DRM_DRIVER_DATE
compiles "$@" <<'C'
#include <drm/drm_drv.h>
const struct drm_driver d = { .date = "x" };
C

# The address of a function compiles only if it is declared; a call might without.
name=DRM_GEM_HUGE_MNT
compiles "$@" <<'C'
#include <drm/drm_gem.h>
int (*f)(struct drm_device *, const char *) = drm_gem_huge_mnt_create;
C

name=DRM_GEM_GET_UNMAPPED_AREA
compiles "$@" <<'C'
#include <drm/drm_gem.h>
void *f(void) { return drm_gem_get_unmapped_area; }
C

name=PFN_T
compiles "$@" <<'C'
#include <linux/mm.h>
#include <linux/pfn_t.h>
pfn_t f(unsigned long pfn) { return __pfn_to_pfn_t(pfn, 0); }
C
