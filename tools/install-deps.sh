#!/bin/bash
# SPDX-License-Identifier: MIT
# Installs the Debian packages that vnpu's build, tests and VM need, and only those that are missing. Prints what it
# does and never asks. As root, or through sudo where that works without a password.
set -u

packages=(
	gcc make pkg-config libc6-dev			# user space
	libdrm-dev libelf-dev libpcre2-dev libjson-c-dev nettle-dev libncurses-dev systemtap-sdt-dev
	libcmocka-dev g++ gcc-multilib			# tests
	python3 strace binutils
	linux-headers-6.12-amd64			# the module, and through it the kernel that the VM boots
	qemu-system-x86 busybox-static cpio xz-utils kmod procps	# the VM
	sparse flex bison bc mmdebstrap			# other kernels to build it for, and to build
)

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
