#!/bin/bash
# SPDX-License-Identifier: MIT
# tools/install-deps.sh [build | deb]
# Installs the Debian packages that vnpu needs and that are missing: for building its programs (build), also its packages (deb),
# or, by default, all for building, tests and VM. Prints what it does and never asks. Run as root, or with a sudo that needs no
# password.
set -u

packages=(
	gcc make pkg-config libc6-dev			# user space
	libdrm-dev libelf-dev libinih-dev libpcre2-dev liburing-dev libutf8proc-dev libxxhash-dev libjson-c-dev nettle-dev libncurses-dev systemtap-sdt-dev
	ocl-icd-opencl-dev libseccomp-dev
)
packaging=(
	dpkg-dev debhelper
)
tests=(
	libcmocka-dev g++
	pocl-opencl-icd					# an OpenCL device on the CPU
	gcc-12-multilib					# gcc-multilib conflicts with cross compilers
	python3 strace binutils
	linux-headers-6.12-amd64			# the module; also brings the kernel that the VM boots
	qemu-system-x86 busybox-static cpio xz-utils kmod procps	# the VM
	linux-perf trace-cmd bpftrace			# the driver's tracepoints
	sparse flex bison bc mmdebstrap			# building other kernels, and the module for them
	gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user	# the kernels of aarch64
	lintian						# the Debian packages
	clang-format-14					# the form of the sources
)
case ${1:-all} in
build) ;;
deb) packages+=("${packaging[@]}") ;;
all) packages+=("${packaging[@]}" "${tests[@]}") ;;
*)
	echo "deps: no group '$1'; give build or deb, or nothing for all packages" >&2
	exit 2 ;;
esac

missing=()
for p in "${packages[@]}"; do
	dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || missing+=("$p")
done
if [ ${#missing[@]} -eq 0 ]; then
	echo "deps: all ${#packages[@]} packages are installed"
	exit 0
fi

echo "deps: installing ${missing[*]}"
as_root=()
if [ "$(id -u)" != 0 ]; then
	if ! sudo -n true 2>/dev/null; then
		echo "deps: not root, and sudo asks for a password; as root, run: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	as_root=(sudo -n)
fi
export DEBIAN_FRONTEND=noninteractive
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o Dpkg::Use-Pty=0 "$@"; }
log=$(mktemp)
if ! { apt update && apt install --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
	tail -20 "$log" >&2
	echo "deps: apt-get failed (see above); the 6.12 kernel comes from Debian 12's security archive" >&2
	exit 1
fi
rm -f "$log"
echo "deps: done"
