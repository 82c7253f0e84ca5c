# SPDX-License-Identifier: MIT
#
# The rooms of the source tree, and which of them see which headers. The Makefile reads this, and tests/cli/rooms.sh tries it.
#
#   ROOM_public      the room's headers that others may include
#   ROOM_uses        the rooms whose public headers it includes
#   ROOM_exceptions  single headers beyond that, which are to go
#   ROOM_folder      where its files are, if that is not its name
#
# A file is compiled with -I of its own folder, and of one folder per room that it uses with links to the public headers there. So a
# header has to be found by its plain name (uapi's by folder and name, in angle brackets), and a header that is included brings
# in only what the includer may see itself. A new folder of sources is a new room. tests/ see everything.

# ---- uapi: the ABIs --------------------------------------------------------------------------------------------------

ROOMS := uapi/drm uapi/linux uapi/npu
$(foreach r,$(ROOMS),$(eval $(r)_folder := uapi))
uapi/drm_public := drm
uapi/linux_public := linux
uapi/npu_public := npu

# ---- what knows no device: arithmetic, the phone's numbers, and how to wait ------------------------------------------

ROOMS += kernels soc wait
kernels_public := kernels.h cpu_kernels.h
kernels_uses := uapi/npu
soc_public := soc.h soc_cost.h npu_time.h predictor.h predictor_tree.h
wait_public := expect.h polling.h

# ---- what the ISA's operations are: for the device, the compiler and listings ---------------------------------------

ROOMS += isa
isa_public := isa_ops.h
isa_uses := uapi/npu

# ---- the device ------------------------------------------------------------------------------------------------------

ROOMS += firmware-sim
firmware-sim_public := fw.h
firmware-sim_uses := uapi/drm uapi/linux uapi/npu isa kernels soc wait

# ---- libnpu ----------------------------------------------------------------------------------------------------------
# libnpu is what a program sees; libnpu/inside what only the library's own rooms do. Those know one another.

NPU_ROOMS := libnpu libnpu/device libnpu/graph libnpu/sim libnpu/trace
ROOMS += $(NPU_ROOMS) libnpu/inside
libnpu_public := npu.h npu_graph.h npu_json.h
libnpu/inside_folder := libnpu
libnpu/inside_public := npu_fail.h npu_private.h

libnpu/graph_public := image.h
libnpu/graph_uses := libnpu libnpu/inside isa soc uapi/npu
libnpu/device_public := transport.h
libnpu/device_uses := libnpu libnpu/inside libnpu/graph libnpu/trace isa wait uapi/drm uapi/npu
libnpu/trace_public := trace.h probes.h
libnpu/trace_uses := libnpu libnpu/inside libnpu/graph libnpu/device wait uapi/drm uapi/npu
# The only room that sees the device: it is one, inside the process.
libnpu/sim_uses := libnpu libnpu/inside libnpu/device soc wait uapi/drm uapi/linux uapi/npu kernels firmware-sim

# ---- runtime: each room uses those before it -----------------------------------------------------------------------------
# runtime/api is what a program sees.

RUNTIME_BELOW := runtime/api libnpu uapi/npu soc kernels wait
RUNTIME_ROOMS := runtime/base runtime/gguf runtime/text runtime/model runtime/quantize runtime/schedule runtime/partition \
	runtime/lanes/opencl runtime/lanes runtime/pass runtime
ROOMS += runtime/api $(RUNTIME_ROOMS)
runtime/api_folder := runtime
runtime/api_public := llm.h llm_choices.h llm_quantize.h llm_vocab.h

runtime/base_public := llm_fail.h threadpool.h
runtime/base_uses := $(RUNTIME_BELOW)
runtime/gguf_public := gguf.h gguf_quantize.h gguf_writer.h dequant.h
runtime/gguf_uses := $(runtime/base_uses) runtime/base
# Beside each other:
runtime/text_public := text.h tokenizer.h
runtime/text_uses := $(runtime/gguf_uses) runtime/gguf
runtime/model_public := activations.h model.h ops.h pack.h packed.h shape.h
runtime/model_uses := $(runtime/gguf_uses) runtime/gguf
runtime/quantize_uses := $(runtime/model_uses) runtime/model
runtime/schedule_public := scheduler.h waits.h
runtime/schedule_uses := $(runtime/model_uses) runtime/model runtime/text
runtime/partition_public := partition.h
runtime/partition_uses := $(runtime/schedule_uses) runtime/schedule
runtime/lanes/opencl_public := gpu.h
runtime/lanes/opencl_uses := $(runtime/partition_uses) runtime/partition
runtime/lanes_public := cpu_lane.h gpu_lane.h lane.h loaded.h memory.h npu_lane.h graphs.h
runtime/lanes_uses := $(runtime/lanes/opencl_uses) runtime/lanes/opencl
runtime/pass_public := plan.h run.h
runtime/pass_uses := $(runtime/lanes_uses) runtime/lanes
# An engine's inside is for experiments.
runtime_public := engine.h
runtime_uses := $(runtime/pass_uses) runtime/pass

# ---- tools: a room each ------------------------------------------------------------------------------------------------

TOOLS := llm-bench llm-cli llm-perplexity llm-logits llm-quantize llm-vocab npuc npu-info npu-profile npu-top npu-trace
ROOMS += tools/common $(TOOLS:%=tools/%)
tools/common_public := json_out.h options.h progress.h prompts.h range.h timeline.h tokens.h tool.h
tools/common_uses := runtime/api libnpu
$(foreach t,$(TOOLS),$(eval tools/$(t)_uses := tools/common runtime/api libnpu))
tools/npuc_uses += uapi/npu isa
tools/npu-profile_uses += soc

# ---- experiments: programs that only reproduce a figure ------------------------------------------------------------------
# tools/experiments/NAME makes build/experiments/NAME, which is not installed. They see the inside of the runtime.

EXPERIMENTS := calibration cuts game hetero
ROOMS += $(EXPERIMENTS:%=tools/experiments/%)
$(foreach e,$(EXPERIMENTS),$(eval tools/experiments/$(e)_uses := $(runtime_uses) runtime tools/common))
tools/experiments/cuts_public := cuts.h
tools/experiments/cuts_exceptions := runtime/partition/partition_private.h
# The parts of a program: a game, under either clock.
tools/experiments/game_public := game.h gpu_game.h
tools/experiments/hetero_uses += tools/experiments/cuts tools/experiments/game

# ---- exceptions: what still looks where it should not --------------------------------------------------------------------
# With the headers that the one meant includes in turn. Nothing is added here: a line goes when its file needs it no more.

# The firmware's own decoder and timing model, which say what a graph will take.
libnpu/graph_exceptions := firmware-sim/fw_time.h firmware-sim/fw_stream.h

