# SPDX-License-Identifier: MIT
#
# The rooms of the source tree, and which headers each of them sees. Read by the Makefile, checked by tests/cli/rooms.sh.
#
#   ROOM_public      the room's headers that others may include
#   ROOM_uses        the rooms whose public headers it may include
#   ROOM_exceptions  single headers beyond that, to be removed some day
#   ROOM_folder      the folder of its files, if that is not its name
#
# A file is compiled with -I of its own folder, and for each room that it uses, of a folder with links to that room's public
# headers. So headers are included by their plain names (uapi's by folder and name, in angle brackets), and a header may include
# only headers that its includers see too. A new folder of sources is a new room. tests/ see everything.

# ---- uapi: the ABIs --------------------------------------------------------------------------------------------------

ROOMS := uapi/drm uapi/linux uapi/npu
$(foreach r,$(ROOMS),$(eval $(r)_folder := uapi))
uapi/drm_public := drm
uapi/linux_public := linux
uapi/npu_public := npu

# ---- independent of any device: arithmetic, the phone's numbers, the host's CPUs, and how to wait ---------------------

ROOMS += kernels soc host wait
kernels_public := kernels.h cpu_kernels.h cpu_kernels_pack.h cpu_sparse.h
kernels_uses := uapi/npu
soc_public := soc.h soc_cost.h npu_time.h predictor.h predictor_tree.h
host_public := cpus.h
wait_public := expect.h polling.h

# ---- the ISA's operations: for the device, the compiler and listings ------------------------------------------------

ROOMS += isa
isa_public := isa_ops.h
isa_uses := uapi/npu

# ---- the device ------------------------------------------------------------------------------------------------------

ROOMS += firmware-sim
firmware-sim_public := fw.h
firmware-sim_uses := uapi/drm uapi/linux uapi/npu isa kernels soc host wait

# ---- libnpu ----------------------------------------------------------------------------------------------------------
# Programs see libnpu; only the library's own rooms, which know one another, see libnpu/inside.

NPU_ROOMS := libnpu libnpu/device libnpu/graph libnpu/sim libnpu/trace
ROOMS += $(NPU_ROOMS) libnpu/inside
libnpu_public := npu.h npu_graph.h npu_json.h
libnpu/inside_folder := libnpu
libnpu/inside_public := npu_fail.h npu_fd.h npu_fsize.h npu_private.h

libnpu/graph_public := image.h
libnpu/graph_uses := libnpu libnpu/inside isa soc uapi/npu
libnpu/device_public := transport.h va.h flights.h
libnpu/device_uses := libnpu libnpu/inside libnpu/graph libnpu/trace isa wait uapi/drm uapi/npu
libnpu/trace_public := trace.h probes.h
libnpu/trace_uses := libnpu libnpu/inside libnpu/graph libnpu/device wait uapi/drm uapi/npu
# The only room that sees the device's code: it runs a device inside the process.
libnpu/sim_uses := libnpu libnpu/inside libnpu/device soc host wait uapi/drm uapi/linux uapi/npu kernels firmware-sim

# ---- runtime: each room uses those before it -----------------------------------------------------------------------------
# Programs see runtime/api.

RUNTIME_BELOW := runtime/api libnpu uapi/npu soc kernels host wait
RUNTIME_ROOMS := runtime/base runtime/grammar runtime/sample runtime/draft runtime/gguf runtime/text runtime/model runtime/shadow runtime/start runtime/attention runtime/quantize runtime/schedule \
	runtime/partition runtime/lanes/opencl runtime/lanes runtime/pass runtime
ROOMS += runtime/api $(RUNTIME_ROOMS)
runtime/api_folder := runtime
runtime/api_public := llm.h llm_chat.h llm_choices.h llm_quantize.h llm_sampler.h llm_vocab.h

runtime/base_public := checksum.h llm_fail.h new_file.h threadpool.h
runtime/base_uses := $(RUNTIME_BELOW)
# These know token ids, and the first two their bytes, but no model and no session.
runtime/grammar_public := grammar.h json_schema.h matcher.h pieces.h trie.h
runtime/grammar_uses := $(runtime/base_uses) runtime/base
runtime/sample_public := candidates.h dry.h mirostat.h penalties.h random.h recent.h
runtime/sample_uses := $(runtime/grammar_uses) runtime/grammar
runtime/draft_public := acceptance.h automaton.h calibrated.h history.h retrieval.h reuse.h switching.h tree.h widths.h
runtime/draft_uses := $(runtime/base_uses) runtime/base
runtime/gguf_public := gguf.h gguf_blocks.h gguf_quantize.h gguf_recast.h gguf_writer.h dequant.h
runtime/gguf_uses := $(runtime/base_uses) runtime/base
# These two do not see each other:
runtime/text_public := chat.h chat_format.h text.h tokenizer.h
runtime/text_uses := $(runtime/gguf_uses) runtime/gguf
runtime/model_public := activations.h adaptive.h arch.h model.h ops.h pack.h packed.h shape.h
runtime/model_uses := $(runtime/gguf_uses) runtime/gguf
runtime/shadow_public := shadow.h shadow_stats.h shadow_weights.h smooth.h
runtime/shadow_uses := $(runtime/model_uses) runtime/model
runtime/start_public := panels_cache.h start.h
runtime/start_uses := $(runtime/shadow_uses) runtime/shadow
runtime/attention_public := attention.h attention_stats.h balance.h balance_stats.h head_plan.h head_ratios.h llm_calibration.h scale_buckets.h
runtime/attention_uses := $(runtime/start_uses)
runtime/quantize_uses := $(runtime/start_uses) runtime/start runtime/attention
runtime/schedule_public := scheduler.h waits.h
runtime/schedule_uses := $(runtime/quantize_uses) runtime/text
runtime/partition_public := partition.h
runtime/partition_uses := $(runtime/schedule_uses) runtime/schedule
runtime/lanes/opencl_public := gpu.h
runtime/lanes/opencl_uses := $(runtime/partition_uses) runtime/partition
runtime/lanes_public := breakdown.h cache_pages.h cpu_lane.h gpu_lane.h lane.h loaded.h lane_attention.h memory.h npu_lane.h storage_lane.h graphs.h
runtime/lanes_uses := $(runtime/lanes/opencl_uses) runtime/lanes/opencl
runtime/pass_public := blocks.h plan.h run.h times.h
runtime/pass_uses := $(runtime/lanes_uses) runtime/lanes runtime/draft
# Experiments see the internals of engines.
runtime_public := engine.h engine_text.h
runtime_uses := $(runtime/pass_uses) runtime/pass runtime/grammar runtime/sample

# ---- tools: a room each ------------------------------------------------------------------------------------------------

TOOLS := llm-bench llm-cli llm-perplexity llm-logits llm-quantize llm-vocab npuc npu-info npu-profile npu-top npu-trace
ROOMS += tools/common $(TOOLS:%=tools/%)
tools/common_public := escapes.h json_out.h options.h progress.h prompts.h range.h timeline.h tokens.h tool.h
tools/common_uses := runtime/api libnpu
$(foreach t,$(TOOLS),$(eval tools/$(t)_uses := tools/common runtime/api libnpu))
tools/npuc_uses += uapi/npu isa
tools/npu-profile_uses += soc
tools/npu-info_uses += host

# ---- experiments: programs that only reproduce a figure ------------------------------------------------------------------
# tools/experiments/NAME makes build/experiments/NAME, which is not installed. They see the internals of the runtime.

EXPERIMENTS := bits calibration coordgen cuts edgeflow game hetero inject llmnpu shadowattn trial
ROOMS += $(EXPERIMENTS:%=tools/experiments/%)
$(foreach e,$(EXPERIMENTS),$(eval tools/experiments/$(e)_uses := $(runtime_uses) runtime tools/common))
tools/experiments/cuts_public := cuts.h
tools/experiments/cuts_exceptions := runtime/partition/partition_private.h
# A game on either clock, which is part of another program.
tools/experiments/game_public := game.h gpu_game.h
# Tables of prompts on modelled SoCs, which are parts of other programs.
tools/experiments/trial_public := trial.h
tools/experiments/coordgen_uses += tools/experiments/trial
tools/experiments/edgeflow_uses += tools/experiments/trial
tools/experiments/llmnpu_uses += tools/experiments/trial
tools/experiments/shadowattn_uses += tools/experiments/trial
tools/experiments/hetero_uses += tools/experiments/cuts tools/experiments/game

# ---- exceptions: headers that a room should not need ---------------------------------------------------------------------
# Each with the headers that it includes in turn. Add none; remove a line when its file no longer needs it.

# The firmware's decoder and timing model predict the time of a graph.
libnpu/graph_exceptions := firmware-sim/fw_time.h firmware-sim/fw_stream.h

