#!/bin/bash
# SPDX-License-Identifier: MIT
# The Debian packages that make deb builds: one version everywhere, nothing that lintian calls an error or a warning,
# each file in the package where one looks for it, and programs that run from there. chroot.sh installs them.
set -u
. tests/cli/common.bash

version=$(sed -n 's/^VERSION := //p' Makefile)
same "dkms.conf has the Makefile's version" "$version" "$(sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' dkms.conf)"
same "debian/changelog has the Makefile's version" "$version" "$(dpkg-parsechangelog -S Version)"

# Files whose licence is not the tree's stand in folders that debian/copyright has paragraphs for.
licences() { find "$1" -type f -exec grep -hom1 'SPDX-License-Identifier: .*' {} + | sed -e 's/^[^:]*: //' -e 's| \*/$||' | sort -u; }
same "the module and its KUnit suites are under the licence that debian/copyright says" "$(licences kmod; licences tests/kunit)" \
	$'GPL-2.0-only\nGPL-2.0-only'
same "uapi/linux is under the licence that debian/copyright says" "$(licences uapi/linux)" "GPL-2.0 WITH Linux-syscall-note"
same "the rest is under the licence that debian/copyright says" \
	"$(for d in docs firmware-sim kernels libnpu runtime share soc tests/[!k]* tests/k[!u]* tools uapi/drm uapi/npu; do licences $d; done | sort -u)" MIT

debs=$BUILD/deb
if ! make DEPS=no BUILD="$BUILD" deb >"$scratch/log" 2>&1; then
	not_ok "make deb" "$(tail -20 "$scratch/log")"
	finish
	exit 1
fi
ok "make deb"

lintian -I --pedantic --tag-display-limit 0 --fail-on none --allow-root "$debs/vnpu_${version}_"*.changes >"$scratch/lintian" 2>&1
same "lintian runs" "status $?" "status 0"
cat "$scratch/lintian"
same "lintian finds no error and no warning" "none$(grep -E '^[EW]:' "$scratch/lintian")" none

for p in vnpu-dkms libnpu0 libnpu-dev libllm0 libllm-dev vnpu-tools; do
	deb=$(echo "$debs/${p}_${version}_"*.deb)
	dpkg-deb -x "$deb" "$scratch/$p"
	(cd "$scratch/$p" && find . ! -type d | sed 's/^\.//') >"$scratch/$p.list"
	dpkg-deb -f "$deb" >"$scratch/$p.control"
done

# has NAME PACKAGE FILE...: the package has these files, or links.
has() {
	local name=$1 package=$2 missing
	shift 2
	missing=$(printf '%s\n' "$@" | grep -vxFf "$scratch/$package.list")
	if [ $# -gt 0 ] && [ -z "$missing" ]; then ok "$name"; else not_ok "$name" "$package lacks $missing"; fi
}

lib=/usr/lib/$(gcc -print-multiarch)
src=/usr/src/vnpu-$version
has "vnpu-dkms has the module's sources" vnpu-dkms "$src/dkms.conf" $(find kmod uapi -type f | sed "s|^|$src/|")
has "vnpu-dkms has hooks for kernels and for headers" vnpu-dkms /etc/kernel/{postinst.d,header_postinst.d}/vnpu-dkms
has "libnpu0 has the library" libnpu0 "$lib/libnpu.so.0"
has "libnpu-dev has what a program is built with" libnpu-dev "$lib"/{libnpu.so,libnpu.a,pkgconfig/libnpu.pc} \
	/usr/include/vnpu/{npu.h,npu_graph.h,npu_json.h,drm/vnpu_accel.h,linux/vnpu_fw.h}
has "libllm0 has the library" libllm0 "$lib/libllm.so.0"
has "libllm-dev has what a program is built with" libllm-dev "$lib"/{libllm.so,libllm.a,pkgconfig/libllm.pc} \
	/usr/include/vnpu/{llm,llm_chat,llm_choices,llm_quantize,llm_sampler,llm_vocab}.h
same "no file is in two packages" "none$(sort "$scratch"/*.list | grep -v /usr/share/doc | uniq -d)" none
has "vnpu-tools has every program" vnpu-tools /usr/sbin/vnpu-fw \
	$(cd "$debs/vnpu-$version/build/bin" && printf '/usr/bin/%s\n' * | grep -vx /usr/bin/vnpu-fw)
has "vnpu-tools has the manual pages" vnpu-tools $(cd docs/man && for f in *.?; do echo "/usr/share/man/man${f##*.}/$f.gz"; done)
has "vnpu-tools has the model, the unit, its user and the udev rule" vnpu-tools /usr/share/vnpu/models/docs6m/docs6m-q8_0.gguf \
	/lib/systemd/system/vnpu-fw.service /usr/lib/sysusers.d/vnpu.conf /lib/udev/rules.d/60-vnpu.rules
same "nothing of the sources is in vnpu-tools" "none$(grep -E '\.[chd]$' "$scratch/vnpu-tools.list")" none

same "the unit starts the program that is in the package" \
	"$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$scratch/vnpu-tools/lib/systemd/system/vnpu-fw.service")" /usr/sbin/vnpu-fw
same "the udev rule gives the accel node to group render" \
	"$(grep -c 'SUBSYSTEM=="accel".*GROUP="render", MODE="0660"' "$scratch/vnpu-tools/lib/udev/rules.d/60-vnpu.rules")" 1
dpkg-deb -e "$(echo "$debs/vnpu-tools_${version}_"*.deb)" "$scratch/vnpu-tools.scripts"
same "the user is made when vnpu-tools is configured" "$(grep -c '^ *systemd-sysusers .*vnpu.conf' "$scratch/vnpu-tools.scripts/postinst")" 1
same "libnpu-dev wants libnpu0 of its version" "$(grep -oE "libnpu0 \(= $version\)" "$scratch/libnpu-dev.control")" "libnpu0 (= $version)"
same "libllm-dev wants libllm0 and libnpu-dev of its version" "$(grep -oE "lib(llm0|npu-dev) \(= $version\)" "$scratch/libllm-dev.control" | xargs)" \
	"libllm0 (= $version) libnpu-dev (= $version)"
same "libllm0 wants libnpu0" "$(grep -oE '^Depends: .*libnpu0' "$scratch/libllm0.control" | grep -c .)" 1

(cd "$scratch" && run vnpu-tools/usr/bin/llm-bench --transport sim -p 4 -n 2 -r 1 -o jsonl; exit "$rc") &&
	ok "the packaged llm-bench runs the packaged model" || not_ok "the packaged llm-bench runs the packaged model" "$(<"$scratch/err")"

# A program against the packages alone, with the library and with the interface of the driver.
cat >"$scratch/use.c" <<'C'
#include <npu.h>
#include <drm/vnpu_accel.h>
#include <linux/vnpu_fw.h>
#include <stdio.h>

int main(void)
{
	struct npu_device_options opts = { NPU_TRANSPORT_SIM };
	struct npu_device *dev;

	if (npu_device_open(&opts, &dev))
		return puts(npu_error());
	npu_device_close(dev);
	return sizeof(struct drm_vnpu_submit) == 0 || sizeof(struct vnpu_ctl_add_dev) == 0;
}
C
export PKG_CONFIG_PATH=$scratch/libnpu-dev$lib/pkgconfig
flags=$(pkg-config --cflags libnpu | sed "s|-I/usr/include/vnpu|-I$scratch/libnpu-dev/usr/include/vnpu|")
passes "a program builds from libnpu-dev" gcc -Wall -Werror -o "$scratch/use" "$scratch/use.c" $flags "$scratch/libnpu0$lib/libnpu.so.0"
passes "and runs with libnpu0" env LD_LIBRARY_PATH="$scratch/libnpu0$lib" "$scratch/use"
passes "a static program builds from libnpu-dev" gcc -Wall -Werror -o "$scratch/use" "$scratch/use.c" $flags \
	"$scratch/libnpu-dev$lib/libnpu.a" $(pkg-config --libs libdrm libelf inih) -lm -pthread
passes "and runs alone" "$scratch/use"

cat >"$scratch/model.c" <<'C'
#include <vnpu/llm.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	struct llm_options opts = { .model = argv[1] };
	struct llm_engine *engine;

	if (llm_engine_open(&opts, &engine))
		return puts(llm_error());
	llm_engine_close(engine);
	return 0;
}
C
model=$scratch/vnpu-tools/usr/share/vnpu/models/docs6m/docs6m-q8_0.gguf
flags="$flags -I$scratch/libllm-dev/usr/include"
passes "a program builds from libllm-dev" gcc -Wall -Werror -o "$scratch/model" "$scratch/model.c" $flags "$scratch/libllm0$lib/libllm.so.0" "$scratch/libnpu0$lib/libnpu.so.0"
passes "and runs with libllm0" env LD_LIBRARY_PATH="$scratch/libnpu0$lib:$scratch/libllm0$lib" "$scratch/model" "$model"
passes "a static program builds from libllm-dev" gcc -Wall -Werror -o "$scratch/model" "$scratch/model.c" $flags \
	"$scratch/libllm-dev$lib/libllm.a" "$scratch/libnpu-dev$lib/libnpu.a" $(pkg-config --libs libdrm libelf inih libpcre2-8 libutf8proc libxxhash json-c OpenCL) -lm -pthread
passes "and runs alone" "$scratch/model" "$model"
finish
