#!/bin/bash
# SPDX-License-Identifier: MIT
# An installation works: the programs, and the libraries through their pkg-config files, with the headers for C and for C++; and
# packagers can choose the folders.
set -u
. tests/cli/common.bash

prefix=$scratch/opt
if make DEPS=no BUILD="$BUILD" PREFIX="$prefix" install >"$scratch/log" 2>&1; then ok "make install"; else not_ok "make install" "$(tail "$scratch/log")"; fi
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib

cat >"$scratch/use.c" <<'C'
#include <npu.h>
#include <npu_graph.h>
#include <stdio.h>
#include <stdlib.h>

/* y = x + x on the device. */
int main(void)
{
	struct npu_device_options opts = { NPU_TRANSPORT_SIM };
	struct npu_graph *g = npu_graph_create("twice");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 1, 16);
	struct npu_device *dev;
	struct npu_context *ctx;
	struct npu_queue *queue;
	struct npu_buffer *in, *out;
	struct npu_program *prog;
	struct npu_job *job;
	uint64_t seqno;
	size_t bytes;
	void *image;

	npu_graph_output(g, "y", npu_add(g, x, x));
	if (npu_graph_compile(g, &image, &bytes) || npu_device_open(&opts, &dev) || npu_context_create(dev, &ctx) ||
	    npu_queue_create(ctx, NULL, &queue) || npu_buffer_create(ctx, 64, 0, &in) ||
	    npu_buffer_create(ctx, 64, 0, &out) || npu_program_load(ctx, image, bytes, &prog) ||
	    npu_job_create(prog, &job) || npu_job_bind(job, "x", in, 0, 64) || npu_job_bind(job, "y", out, 0, 64)) {
		fprintf(stderr, "%s\n", npu_error());
		return 1;
	}
	((float *)npu_buffer_data(in))[15] = 21;
	if (npu_queue_submit(queue, &job, 1, NULL, &seqno) || npu_queue_wait(queue, seqno, NPU_FOREVER, NPU_WAIT_DRIVER)) {
		fprintf(stderr, "%s\n", npu_error());
		return 1;
	}
	printf("%g\n", (double)((float *)npu_buffer_data(out))[15]);
	npu_job_free(job);
	npu_program_free(prog);
	npu_buffer_free(in);
	npu_buffer_free(out);
	npu_queue_free(queue);
	npu_context_free(ctx);
	npu_device_close(dev);
	npu_graph_free(g);
	free(image);
	return 0;
}
C
flags=$(pkg-config --cflags --libs libnpu)
gcc -Wall -Werror -o "$scratch/use-c" "$scratch/use.c" $flags 2>"$scratch/err" && run "$scratch/use-c"
same "a C program on the shared library" "$(<"$scratch/out")" 42
: >"$scratch/out"
g++ -Wall -Werror -Wno-missing-field-initializers -x c++ -o "$scratch/use-c++" "$scratch/use.c" -x none $flags 2>"$scratch/err" && run "$scratch/use-c++"
same "a C++ program on the shared library" "$(<"$scratch/out")" 42
same "debian/libnpu0.symbols lists all symbols" "$(sed -n 's/^ \(npu_[a-z0-9_]*\)@.*/\1/p' debian/libnpu0.symbols | sort | xargs)" \
	"$(nm -D --defined-only "$prefix/lib/libnpu.so" | awk '$3 ~ /^npu_/ {sub(/@.*/, "", $3); print $3}' | sort | xargs)"
same "libnpu exports npu_ names only" "$(nm -D --defined-only "$prefix/lib/libnpu.so" | awk '$2 != "A" && $3 !~ /^npu_/ {n++} END {print n + 0}')" 0

# The program of README.md.
sed -n '/^    #include <stdio.h>$/,/^    \$ gcc/s/^    //p' README.md | grep -v '^\$' >"$scratch/continue.c"
flags=$(pkg-config --cflags --libs libllm)
prompt="The kernel allocates"
want=$("$bin/llm-cli" -m $model -p "$prompt" --temp 0 -n 100)
gcc -Wall -Wextra -Wno-unused-parameter -Werror -o "$scratch/continue" "$scratch/continue.c" $flags 2>"$scratch/err" && run "$scratch/continue" $model "$prompt"
same "README.md's program on libllm" "$(<"$scratch/out")" "$want"
: >"$scratch/out"
g++ -Wall -Werror -o "$scratch/continue-c++" -x c++ "$scratch/continue.c" -x none $flags 2>"$scratch/err" && run "$scratch/continue-c++" $model "$prompt"
same "README.md's program as C++" "$(<"$scratch/out")" "$want"
run "$scratch/continue" $model "$(yes "the kernel" | head -n 1000)"
same "README.md's program refuses a text that is too long" "$rc $(<"$scratch/err")" "1 the text is too long"
run "$scratch/continue" /nowhere.gguf x
same "libllm reports an error" "$rc $(<"$scratch/err")" "1 /nowhere.gguf: No such file or directory"
for h in "$prefix"/include/vnpu/{npu,llm}*.h; do
	echo "#include <vnpu/$(basename "$h")>" >"$scratch/alone.c"
	for lang in c c++; do
		passes "$(basename "$h") stands alone in $lang" gcc -x $lang -Wall -Wextra -Werror -fsyntax-only $flags "$scratch/alone.c"
	done
done
for h in "$prefix"/include/vnpu/{,npu/,drm/,linux/}*.h; do
	name=${h#"$prefix/include/vnpu/"}
	echo "#include <$name>" >"$scratch/alone.cc"
	for std in c++11 c++20; do
		passes "$name is $std" g++ -std=$std -pedantic -Wall -Wextra -Werror -fsyntax-only $flags "-I$prefix/include/vnpu" "$scratch/alone.cc"
	done
done
exported() { nm -D --defined-only "$prefix/lib/$1.so" | awk '$2 != "A" {sub(/@.*/, "", $3); print $3}' | sort | xargs; }
same "libllm exports what its headers declare" "$(exported libllm)" \
	"$(cat "$prefix"/include/vnpu/llm*.h | gcc -E -P $flags -x c - | grep -o '\bllm_[a-z0-9_]*(' | tr -d '(' | sort -u | xargs)"
same "debian/libllm0.symbols lists all symbols" "$(sed -n 's/^ \(llm_[a-z0-9_]*\)@.*/\1/p' debian/libllm0.symbols | sort | xargs)" "$(exported libllm)"

# A program that lies elsewhere, on the shared library.
cat >"$scratch/predict.c" <<'C'
#include <npu_graph.h>
#include <npu/vnpu_isa.h>
#include <stdio.h>

int main(void)
{
	struct npu_graph *g = npu_graph_create("twice");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 1, 16);
	int err;

	npu_graph_output(g, "y", npu_add(g, x, x));
	err = npu_graph_predict(g, "sd8gen3");
	printf("%d %s\n", err, err ? npu_error() : "");
	return npu_graph_input(NULL, "x", NPU_F32, 1, 1) || npu_graph_weight(NULL, "w", NPU_F32, 1, 1);
}
C
gcc -Wall -Werror -o "$scratch/predict" "$scratch/predict.c" $(pkg-config --cflags --libs libnpu) 2>"$scratch/err" && run "$scratch/predict"
same "a program finds the library's profiles; a graph that is NULL has no inputs" "$rc $(<"$scratch/out")" "0 0 "
same "make install tells what the loader needs" "$(grep -c "install: the loader does not look in $prefix/lib; .*LD_LIBRARY_PATH" "$scratch/log")" 1

# Tools that call only what the libraries export.
objects() { sed "s|^|$BUILD/obj/|; s|c$|o|"; }
ar rcs "$scratch/tools.a" $(find tools -name '*.c' | objects)
for t in llm-quantize llm-vocab llm-logits llm-perplexity npuc npu-top; do
	passes "$t links with the shared libraries" gcc -pthread -o "$scratch/$t" \
		$(find tools \( -name "$t.c" -o -name "$t-*.c" -o -path "tools/$t/*.c" \) | objects) "$scratch/tools.a" $flags \
		$(pkg-config --libs json-c nettle ncursesw) -lm
done
passes "a tool on the shared libraries runs" "$scratch/llm-quantize" $model "$scratch/q8_0.gguf" q8_0
same "and makes the same file" "$(cmp $model "$scratch/q8_0.gguf" && echo same)" same

(cd "$scratch" && run "$prefix/bin/llm-bench" -p 4 -n 2 -r 1 -o jsonl; exit $rc) && ok "llm-bench finds the installed model" || not_ok "llm-bench finds the installed model" "$(<"$scratch/err")"
same "completion is installed for its tools" "$(cd "$prefix/share/bash-completion/completions" && echo *)" \
	"$(sed -n 's/^complete -F [^ ]* //p' share/bash-completion/completions/llm-cli)"
same "the unit starts the installed vnpu-fw" "$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$prefix/lib/systemd/system/vnpu-fw.service")" "$prefix/sbin/vnpu-fw"
same "its user is installed" "$(<"$prefix/lib/sysusers.d/vnpu.conf")" "$(<share/sysusers/vnpu.conf)"
same "the udev rule is installed" "$(<"$prefix/lib/udev/rules.d/60-vnpu.rules")" "$(<share/udev/60-vnpu.rules)"
echo '#include <drm/vnpu_accel.h>
#include <linux/vnpu_fw.h>' >"$scratch/uapi.c"
passes "the interfaces of the driver compile from the installed headers" gcc -Wall -Werror -fsyntax-only $(pkg-config --cflags libnpu) "$scratch/uapi.c"

# As a packager does it: another root, and the distribution's folders.
run make DEPS=no BUILD="$BUILD" DESTDIR="$scratch/root" PREFIX=/usr LIBDIR=/usr/lib/triplet UNITDIR=/lib/systemd/system \
	UDEVDIR=/lib/udev/rules.d SYSUSERSDIR=/usr/lib/sysusers.d install
same "make install with DESTDIR" "$rc" 0
same "nothing installed names DESTDIR" "none$(grep -rlIF "$scratch" "$scratch/root")" none
same "the libraries and the user are where LIBDIR and SYSUSERSDIR say" "$(cd "$scratch/root/usr/lib" && find . ! -type d | sort | xargs)" \
	"./sysusers.d/vnpu.conf$(printf ' ./triplet/%s' lib{llm,npu}.{a,so,so.0} pkgconfig/lib{llm,npu}.pc)"
same "the pkg-config files have this LIBDIR" "$(PKG_CONFIG_PATH=$scratch/root/usr/lib/triplet/pkgconfig pkg-config --variable=libdir libnpu libllm)" "/usr/lib/triplet /usr/lib/triplet"
same "unit and rule are where UNITDIR and UDEVDIR say" "$(cd "$scratch/root/lib" && find . ! -type d | sort | xargs)" \
	"./systemd/system/vnpu-fw.service ./udev/rules.d/60-vnpu.rules"

for f in "$prefix"/share/man/man?/*; do
	n=$(basename "$f")
	[ -x "$prefix/bin/${n%.?}" ] || [ -x "$prefix/sbin/${n%.?}" ] || { not_ok "a program for $n"; continue; }
	ok "a program for $n"
done
finish
