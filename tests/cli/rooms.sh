#!/bin/bash
# SPDX-License-Identifier: MIT
# rooms.mk is enforced: a file that includes a header which its room may not see does not compile with make's flags, and no
# include uses a path to another folder.
set -u
. tests/cli/common.bash

# compile FILE: with make's flags for the room, which are quoted for a shell.
compile() {
	eval "$command -fsyntax-only -MF $scratch/x.d $1" >"$scratch/err" 2>&1
}

# refused_in ROOM FILE HEADER...: the file builds, but not with one of these headers.
refused_in() {
	local room=$1 file=$1/$2 header command
	shift 2
	command=$(make -s --no-print-directory DEPS=no BUILD="$BUILD" room-compile ROOM="$room")
	cp "$file" "$scratch/x.c"
	if compile "$scratch/x.c"; then ok "$file builds"; else not_ok "$file builds" "$(<"$scratch/err")"; fi
	for header; do
		{ echo "#include $header" && cat "$file"; } >"$scratch/x.c"
		if compile "$scratch/x.c"; then
			not_ok "$room cannot include $header" "it compiles"
		elif grep -q "fatal error: ${header:1:-1}: No such file" "$scratch/err"; then
			ok "$room cannot include $header"
		else
			not_ok "$room cannot include $header" "$(<"$scratch/err")"
		fi
	done
}

refused_in kernels cpu_kernels.c '"npu.h"' '"fw.h"' '"soc_cost.h"' '<drm/vnpu_accel.h>'
refused_in soc soc.c '"kernels.h"' '"llm.h"' '"fw_time.h"' '<npu/vnpu_isa.h>'
refused_in wait polling.c '"soc_cost.h"' '"fw.h"' '"npu.h"'
refused_in firmware-sim fw_queue.c '"npu.h"' '"llm.h"' '"transport.h"'
refused_in libnpu/graph lower.c '"llm.h"' '"model.h"' '"fw.h"' '"transport.h"' '<drm/vnpu_accel.h>'
refused_in libnpu/device buffer.c '"fw.h"' '"fw_exec.h"' '"sim.h"' '"graph.h"' '<linux/vnpu_fw.h>'
refused_in libnpu/sim sim_timer.c '"llm.h"' '"graph.h"' '"fw_exec.h"'
refused_in runtime/base threadpool.c '"gguf.h"' '"engine.h"'
refused_in runtime/draft automaton.c '"gguf.h"' '"model.h"' '"engine.h"'
refused_in runtime/model model.c '"scheduler.h"' '"gguf_private.h"' '"engine.h"'
refused_in runtime/start start.c '"scheduler.h"' '"lane.h"' '"engine.h"'
refused_in runtime/attention head_plan.c '"scheduler.h"' '"start.h"' '"engine.h"'
refused_in runtime/quantize quantize.c '"scheduler.h"' '"gguf_private.h"' '"engine.h"'
refused_in runtime/schedule waits.c '"plan.h"' '"partition.h"' '"hetero.h"' '"game.h"'
refused_in runtime/pass plan.c '"fw.h"' '"fw_time.h"' '"npu_private.h"' '"gpu_private.h"' '<drm/vnpu_accel.h>'
refused_in runtime sampler.c '"fw.h"' '"npu_private.h"' '"tool.h"'
refused_in tools/llm-cli llm-cli.c '"plan.h"' '"engine.h"' '"model.h"' '"fw.h"' '<npu/vnpu_isa.h>'
refused_in tools/llm-bench args.c '"scheduler.h"' '"plan.h"' '"gpu.h"' '"game.h"'
refused_in tools/experiments/hetero trial.c '"fw.h"' '"npu_private.h"' '"scheduler_private.h"'
refused_in tools/llm-quantize llm-quantize.c '"gguf.h"' '"quantize.h"' '"threadpool.h"'
refused_in tools/llm-vocab llm-vocab.c '"gguf.h"' '"tokenizer.h"' '"text.h"'
refused_in tools/npu-info opencl.c '"gpu.h"' '"npu_private.h"'
refused_in tools/npu-profile measure.c '"plan.h"' '"shape.h"' '"llm_fail.h"'
refused_in tools/npu-trace doc.c '"trace.h"' '"npu_private.h"' '"fw.h"'
refused_in tools/npuc npuc.c '"image.h"' '"fw_stream.h"' '"soc.h"'

run make -s --no-print-directory DEPS=no BUILD="$BUILD" room-compile ROOM=runtime/nowhere
same "a folder that is not in rooms.mk is refused" "$(grep -o 'runtime/nowhere is no room of rooms.mk' "$scratch/err")" \
	"runtime/nowhere is no room of rooms.mk"

sources=(kernels soc host wait isa firmware-sim libnpu runtime tools)
same "no include of a room's names a folder, but those of uapi" \
	"none$(grep -rnE --include='*.[ch]' '#\s*include\s*"[^"]*/' "${sources[@]}")" none
make -s --no-print-directory -f - >"$scratch/uses" <<'MAKE'
include rooms.mk
all: ; @: $(foreach r,$(RUNTIME_ROOMS) tools/common $(TOOLS:%=tools/%),$(info $(r) $($(r)_uses)))
MAKE
same "each room of the runtime and each tool uses libnpu" "$(grep -c ' libnpu\( \|$\)' "$scratch/uses")" "$(wc -l <"$scratch/uses")"
same "none of them uses the device's rooms, or libnpu's own" \
	"none$(grep -E 'firmware-sim|uapi/(drm|linux)|libnpu/' "$scratch/uses")" none
finish
