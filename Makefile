# SPDX-License-Identifier: MIT
#
# vnpu: see README.md. `make bench` and `make check` need no preparation.
#
#   make bench | check                   set up, build, measure or test
#   make bench-peer LLAMA_BENCH=PROGRAMS A/B with llama-bench of others; ARGS= for tests/bench/peer.sh; docs/benchmarks.md
#   make check-full                      tests too long for check: newer kernels, debug kernels (tests/check-full.sh)
#   make deps | all | experiments | kmod | insmod | rmmod | install | clean
#   make deb                             Debian packages, into $(BUILD)/deb; docs/packaging.md
#
# Variables: BUILD=DIR (build), SAN=1 (ASan and UBSan, into $(BUILD)/san), SAN=thread (TSan, into $(BUILD)/tsan),
# KDIR=DIR (kernel to build the module for), VNPU_DATA=DIR (models and texts for the larger tests),
# DEPS=no (never install packages), V=1 (show commands).
# install takes DESTDIR, PREFIX (/usr/local), LIBDIR, UNITDIR, UDEVDIR and SYSUSERSDIR.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

BUILD ?= build
VERSION := 0.1.0
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
UNITDIR ?= $(PREFIX)/lib/systemd/system
UDEVDIR ?= $(PREFIX)/lib/udev/rules.d
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
CC := gcc
Q := $(if $(V),,@)

ifeq ($(SAN),)
O := $(BUILD)
else ifeq ($(SAN),1)
O := $(BUILD)/san
SANFLAGS := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
# ASan sees what is outside of an object. UBSan's checks of that, by the size that the compiler knows and by pointers that wrap, would
# double the time to compile kernels. With checks most of that time goes into register allocation, which is
# much faster if each function is one region.
SANFLAGS_kernels := -fno-sanitize=object-size,pointer-overflow -fira-region=one
else ifeq ($(SAN),thread)
# TSan does not know fences. Those of the tree order a store before a load; what a thread hands over is behind a release and an
# acquire of the word itself, which TSan knows.
O := $(BUILD)/tsan
SANFLAGS := -fsanitize=thread -Wno-tsan -fno-omit-frame-pointer
else
$(error SAN=$(SAN) is neither 1 nor thread)
endif

# -ffp-contract=off: float results must not depend on the compiler's choice of fused operations.
CFLAGS ?= -O2 -g
ALL_CFLAGS := -std=gnu11 $(CPPFLAGS) $(CFLAGS) -Wall -Wextra -Werror -Wno-unused-parameter -Wmissing-prototypes -Wstrict-prototypes \
	-fvisibility=hidden -fPIC -pthread -ffp-contract=off -fno-math-errno $(SANFLAGS) \
	$(shell pkg-config --cflags libdrm 2>/dev/null) \
	-DVNPU_VERSION='"$(VERSION)"' -MMD -MP
LDFLAGS_COMMON := -pthread $(SANFLAGS) $(LDFLAGS)
LIBS_NPU := $(shell pkg-config --libs libdrm libelf inih 2>/dev/null) -lm
LIBS_LLM := $(shell pkg-config --libs libpcre2-8 liburing libutf8proc libxxhash json-c OpenCL 2>/dev/null) -lm
LIBS_INIH := $(shell pkg-config --libs inih 2>/dev/null)
LIBS_TOOLS := $(shell pkg-config --libs json-c nettle 2>/dev/null)
LIBS_SECCOMP := $(shell pkg-config --libs libseccomp 2>/dev/null)
LIBS_npu-top := $(shell pkg-config --libs ncursesw 2>/dev/null)

# ---- sources: a folder is a room -------------------------------------------------------------------------------------

include rooms.mk

sources = $(wildcard $(addsuffix /*.c,$(1)))
# Arithmetic and the phone's numbers go into the library whose code calls them.
LLM_BELOW := $(wildcard kernels/cpu_*.c soc/predictor*.c) soc/soc_cost.c
FW_MAIN := firmware-sim/vnpu_fw.c firmware-sim/port_kmd.c firmware-sim/confine.c
FW_SRC := $(filter-out $(FW_MAIN) $(LLM_BELOW),$(call sources,firmware-sim isa kernels soc host wait))
NPU_SRC := $(call sources,$(NPU_ROOMS))
LLM_SRC := $(call sources,$(RUNTIME_ROOMS)) $(LLM_BELOW)
# tools/NAME/*.c and tools/common make build/bin/NAME.
TOOLS_SHARED := $(call sources,tools/common)
# tools/experiments/NAME/*.c make build/experiments/NAME. Files other than main.c are also linked into experiments that use them,
# and into tests, which compare the solver with all cuts.
parts = $(filter-out %/main.c,$(call sources,$(filter tools/experiments/%,$(1))))
ORACLES := $(call parts,tools/experiments/calibration) $(call parts,tools/experiments/cuts)
GAME := $(call parts,tools/experiments/game)
UNIT := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/test_*.c))
KTEST := $(patsubst tests/kmod/%.c,%,$(wildcard tests/kmod/test_*.c))
BENCH := $(patsubst tests/bench/%.c,%,$(wildcard tests/bench/bench_*.c))
# These do not use cmocka: each is one long run.
FUZZ := fuzz_ioctl soak_kill follow

obj = $(patsubst %.c,$(O)/obj/%.o,$(1))
BINS := $(addprefix $(O)/bin/,vnpu-fw $(TOOLS))
EXPERIMENT_BINS := $(patsubst tools/%/main.c,$(O)/%,$(wildcard tools/experiments/*/main.c))
TESTS := $(addprefix $(O)/tests/,$(UNIT) $(KTEST) $(BENCH) $(FUZZ) abi32 abi64 accel_as_dri.so fake_node.so discrete_layer.so)

.PHONY: all experiments tests
all: $(O)/lib/libnpu.a $(O)/lib/libnpu.so $(O)/lib/libllm.a $(O)/lib/libllm.so $(BINS)
experiments: $(EXPERIMENT_BINS)
tests: all experiments $(TESTS)

# ---- rooms: which headers a file can include (rooms.mk) --------------------------------------------------------------

folder = $(or $($(1)_folder),$(1))
shown = $(O)/include/$(subst /,-,$(1))
headers = $(addprefix $(call folder,$(1))/,$($(1)_public))
TEST_INCLUDES := -I. -Itests/unit $(addprefix -I,$(sort $(foreach r,$(filter-out $(TOOLS:%=tools/%),$(ROOMS)),$(call folder,$(r)))))
# The flags of a file in folder $(1).
includes = $(if $(filter tests/%,$(1)),$(TEST_INCLUDES),$(if $(filter $(ROOMS),$(1)),,$(error $(1) is no room of rooms.mk))-I$(1) \
	$(foreach r,$($(1)_uses),-I$(call shown,$(r))) $(if $($(1)_exceptions),-I$(call shown,exceptions/$(1))))
compile = $(CC) $(ALL_CFLAGS) $(SANFLAGS_$(1)) $(call includes,$(1))

# link_headers FOLDER,HEADERS
define link_headers
	$(Q)mkdir -p $(1) && ln -sr -t $(1) $(2)

endef
$(O)/include/made: rooms.mk Makefile
	$(foreach r,$(ROOMS),$(foreach h,$(call headers,$(r)) $($(r)_exceptions),$(if $(wildcard $(h)),,$(error rooms.mk: no $(h)))))
	$(Q)rm -rf $(@D)
	$(foreach r,$(ROOMS),$(if $($(r)_public),$(call link_headers,$(call shown,$(r)),$(call headers,$(r)))))
	$(foreach r,$(ROOMS),$(if $($(r)_exceptions),$(call link_headers,$(call shown,exceptions/$(r)),$($(r)_exceptions))))
	$(Q)touch $@

# For tests/cli/rooms.sh: prints the command that compiles a file of ROOM=.
.PHONY: room-compile
room-compile: $(O)/include/made
	@: $(info $(call compile,$(ROOM)))

# ---- rules -----------------------------------------------------------------------------------------------------------

# A SIMD file is compiled for its instruction set and called only on hosts that have it; for another machine it is empty.
MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
ifeq ($(MACHINE),x86_64)
# Checks take the compiler ten times as long as the kernels: sets that this host cannot run have none.
ifneq ($(SAN),)
HOST_HAS := $(shell grep -m1 '^flags' /proc/cpuinfo)
UNCHECKED = $(if $(filter $(1),$(HOST_HAS)),,-fno-sanitize=all)
endif
# Tests of attention mostly compute fmaf(): here it is an instruction, but in a function of its own, since inlined it would take the
# compiler longer than all else in the file.
ifeq ($(SAN)$(filter fma,$(HOST_HAS)),1fma)
$(O)/obj/kernels/kernels_generic.o: ISA := -mfma -U__FP_FAST_FMAF
endif
$(O)/obj/%_avx2.o: ISA := -mavx2 -mfma -mf16c $(call UNCHECKED,avx2)
$(O)/obj/%_vex.o: ISA := -mavx2 -mfma -mf16c $(call UNCHECKED,avx_vnni)
$(O)/obj/%_evex.o: ISA := -mavx2 -mfma -mf16c $(call UNCHECKED,avx512_vnni)
# Cores before Ice Lake decode branches again that cross a 32-byte boundary, so their alignment would change the speed.
PLACED := -falign-functions=64 -Wa,-mbranches-within-32B-boundaries
AVX512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c $(PLACED)
$(O)/obj/%_avx512.o: ISA := $(AVX512) $(call UNCHECKED,avx512_vnni)
$(O)/obj/kernels/kernels_kq_row_avx512.o: ISA += -mavx512vbmi -mgfni
$(O)/obj/%_amx.o: ISA := $(AVX512) -mamx-tile -mamx-int8 $(call UNCHECKED,amx_int8)
# It keeps sums in registers that it names, which TSan's calls between its instructions would overwrite.
$(O)/obj/kernels/kernels_avx512.o: ISA += $(if $(filter thread,$(SAN)),-fno-sanitize=thread)
endif
ifeq ($(MACHINE),aarch64)
$(O)/obj/%_neon.o: ISA := -march=armv8.2-a+dotprod
$(O)/obj/%_i8mm.o: ISA := -march=armv8.2-a+dotprod+i8mm
endif

$(O)/obj/%.o: %.c Makefile rooms.mk | $(O)/include/made
	$(Q)mkdir -p $(@D)
	@echo "  CC      $<"
	$(Q)$(call compile,$(patsubst %/,%,$(dir $<))) $(ISA) -c -o $@ $<

# The revision, for llm-bench's build_commit; touched only when it changes.
$(O)/obj/build_commit.h: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)c=$$(git -c safe.directory='*' rev-parse --short HEAD 2>/dev/null); \
		echo "#define VNPU_COMMIT \"$${c:-unknown}\"" > $@.new; \
		cmp -s $@.new $@ && rm -f $@.new || mv $@.new $@
$(O)/obj/tools/common/build_commit.o: ISA := -I$(O)/obj
$(O)/obj/tools/common/build_commit.o: $(O)/obj/build_commit.h
.PHONY: FORCE
FORCE:
# gpu_source.o embeds the text of the GPU lane's kernels.
$(O)/obj/runtime/lanes/opencl/gpu_source.o: $(wildcard runtime/lanes/opencl/*.cl)

define archive
	$(Q)mkdir -p $(@D)
	@echo "  AR      $@"
	$(Q)rm -f $@ && ar rcsD $@ $^
endef
$(O)/lib/libvnpufw.a: $(call obj,$(FW_SRC))
	$(archive)
# libnpu contains the device's code for its sim transport.
$(O)/lib/libnpu.a: $(call obj,$(NPU_SRC) $(FW_SRC))
	$(archive)
$(O)/lib/libllm.a: $(call obj,$(LLM_SRC))
	$(archive)

$(O)/lib/libnpu.so: $(call obj,$(NPU_SRC) $(FW_SRC)) libnpu/libnpu.map
	@echo "  LD      $@"
	$(Q)$(CC) -shared -Wl,-soname,libnpu.so.0 -Wl,--version-script=libnpu/libnpu.map $(LDFLAGS_COMMON) -o $@ $(filter %.o,$^) $(LIBS_NPU)
# libllm has its own copy of the device's kernels and times, which are no part of libnpu's interface.
$(O)/lib/libllm.so: $(call obj,$(LLM_SRC)) $(O)/lib/libvnpufw.a $(O)/lib/libnpu.so runtime/libllm.map
	@echo "  LD      $@"
	$(Q)$(CC) -shared -Wl,-z,defs -Wl,-soname,libllm.so.0 -Wl,--version-script=runtime/libllm.map $(LDFLAGS_COMMON) -o $@ \
		$(filter %.o,$^) $(filter %.a,$^) $(filter %.so,$^) $(LIBS_LLM) $(LIBS_INIH)

define link
	$(Q)mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(LDFLAGS_COMMON) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(1)
endef

$(O)/bin/vnpu-fw: $(call obj,$(FW_MAIN)) $(O)/lib/libvnpufw.a
	$(call link,$(LIBS_INIH) $(LIBS_SECCOMP) -lm)

define tool_rule
$(O)/bin/$(1): $(call obj,$(call sources,tools/$(1)) $(TOOLS_SHARED)) $(O)/lib/libllm.a $(O)/lib/libnpu.a
	$$(call link,$(LIBS_TOOLS) $(LIBS_$(1)) $(LIBS_LLM) $(LIBS_NPU))
endef
$(foreach t,$(TOOLS),$(eval $(call tool_rule,$(t))))

define experiment_rule
$(O)/experiments/$(1): $(call obj,$(call sources,tools/experiments/$(1)) $(call parts,$(tools/experiments/$(1)_uses)) $(TOOLS_SHARED)) \
		$(O)/lib/libllm.a $(O)/lib/libnpu.a
	$$(call link,$(LIBS_TOOLS) $(LIBS_LLM) $(LIBS_NPU))
endef
$(foreach e,$(notdir $(EXPERIMENT_BINS)),$(eval $(call experiment_rule,$(e))))

$(addprefix $(O)/tests/,test_calibration test_plan test_partition test_hetero bench_partition): $(call obj,$(ORACLES))
$(addprefix $(O)/tests/,test_scheduler test_gpu_game): $(call obj,$(GAME))
# The learning part of npu-profile.
$(O)/tests/test_predictor: $(call obj,$(wildcard tools/npu-profile/op_*.c tools/npu-profile/predictor_*.c) $(TOOLS_SHARED))
$(addprefix $(O)/tests/,test_fw_confine test_new_file): LIBS_TOOLS += $(LIBS_SECCOMP)
# ASan's checks of vectors, faster. They know where x86-64 has its shadow.
ASAN_VECTORS := $(if $(filter 1x86_64,$(SAN)$(MACHINE)),$(call obj,tests/unit/asan_vectors.c))
$(O)/obj/tests/unit/test_asan_vectors.o: ISA := $(if $(filter 1,$(SAN)),--param asan-instrumentation-with-call-threshold=0)
$(O)/tests/test_%: $(O)/obj/tests/unit/test_%.o $(ASAN_VECTORS) $(O)/lib/libllm.a $(O)/lib/libnpu.a
	$(call link,-lcmocka $(LIBS_TOOLS) $(LIBS_LLM) $(LIBS_NPU))
$(addprefix $(O)/tests/,$(KTEST)): $(O)/tests/%: $(O)/obj/tests/kmod/%.o $(O)/lib/libnpu.a
	$(call link,-lcmocka $(LIBS_NPU))
# Preloaded by tests/vm/igt.sh.
$(O)/tests/accel_as_dri.so: $(O)/obj/tests/vm/accel_as_dri.o
	$(Q)mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) -shared $(LDFLAGS_COMMON) -o $@ $<
# Preloaded by tests/cli/fw.sh.
$(O)/tests/fake_node.so: $(O)/obj/tests/cli/fake_node.o
	$(Q)mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) -shared $(LDFLAGS_COMMON) -o $@ $<
# A layer of OpenCL's loader, for tests/cli/hetero.sh.
$(O)/tests/discrete_layer.so: $(O)/obj/tests/cli/discrete_layer.o
	$(Q)mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) -shared $(LDFLAGS_COMMON) -o $@ $<
# A 32-bit and a 64-bit program, which must see the same structures.
# The folder has asm/, to which gcc-multilib would link; but that package conflicts with cross compilers.
$(O)/tests/abi32: ISA := -m32 -D_FILE_OFFSET_BITS=64 -idirafter /usr/include/$(shell $(CC) -print-multiarch)
$(O)/tests/abi32 $(O)/tests/abi64: tests/kmod/abi.c $(wildcard uapi/*/*.h) Makefile
	$(Q)mkdir -p $(@D)
	@echo "  CC      $@"
	$(Q)$(filter-out -MMD -MP,$(call compile,tests/kmod)) $(ISA) -static -o $@ $<
$(addprefix $(O)/tests/,bench_attn bench_matmul bench_memory): $(call obj,tests/bench/reader.c)
$(O)/tests/bench_unpack: $(call obj,$(wildcard tests/bench/unpack_formats*.c))
$(addprefix $(O)/tests/,$(BENCH)): $(O)/tests/%: $(O)/obj/tests/bench/%.o $(O)/lib/libllm.a $(O)/lib/libnpu.a
	$(call link,$(LIBS_TOOLS) $(LIBS_LLM) $(LIBS_NPU))
$(O)/tests/fuzz_ioctl: $(call obj,$(wildcard tests/fuzz/fuzz_*.c))
	$(call link)
$(O)/tests/soak_kill $(O)/tests/follow: $(O)/tests/%: $(O)/obj/tests/fuzz/%.o $(call obj,tests/fuzz/compute.c) $(O)/lib/libnpu.a
	$(call link,$(LIBS_NPU))

# Static, so that every instruction that it executes is in the file.
$(O)/tests/unpack_once: $(call obj,tests/bench/unpack_once.c $(wildcard tests/bench/unpack_formats*.c)) $(O)/lib/libllm.a $(O)/lib/libvnpufw.a
	$(call link,-static -lm)

$(O)/tests/kernel_bits: $(O)/obj/tests/arm/kernel_bits.o $(O)/lib/libllm.a $(O)/lib/libnpu.a
	$(call link,-lm)

-include $(shell find $(O)/obj -name '*.d' 2>/dev/null)
.SECONDARY:

# ---- the module ----------------------------------------------------------------------------------------------------
# Each kernel has its own build folder, with links to kmod/, so that the modules of several kernels can coexist.

KVER ?= $(shell ls -d /lib/modules/6.12*/build 2>/dev/null | sort -V | tail -1 | cut -d/ -f4)
KDIR ?= /lib/modules/$(KVER)/build
KOUT := $(BUILD)/kmod/$(KVER)

.PHONY: kmod
kmod:
	@test -d "$(KDIR)" || { echo "no kernel headers at '$(KDIR)': run make deps, or give KDIR="; exit 1; }
	$(Q)mkdir -p $(KOUT)
	$(Q)cp -asf $(CURDIR)/kmod/. $(KOUT)/ && cp -asf $(CURDIR)/uapi $(CURDIR)/tests/kunit $(KOUT)/
	$(Q)$(MAKE) --no-print-directory -C $(KDIR) M=$(abspath $(KOUT)) modules $(if $(W),W=$(W))

# ---- targets for people --------------------------------------------------------------------------------------------

MODEL := share/models/docs6m/docs6m-q8_0.gguf
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

# The commands run a second make, which looks up pkg-config and the kernel headers after the packages are installed.
.PHONY: deps deps-build deps-deb bench bench-peer check check-full insmod rmmod install deb clean
deps deps-build deps-deb:
	$(Q)$(if $(filter no,$(DEPS)),true,tools/install-deps.sh $(patsubst deps-%,%,$(filter deps-%,$@)))

bench: deps-build
	@echo "bench: building, then llm-bench on $(MODEL)"
	$(Q)$(MAKE) --no-print-directory all
	$(O)/bin/llm-bench -m $(MODEL)

bench-peer: deps-build
	@echo "bench-peer: building, then llm-bench and every llama-bench of LLAMA_BENCH alternately"
	$(Q)$(MAKE) --no-print-directory all $(O)/tests/bench_memory
	$(Q)BUILD=$(O) tests/bench/peer.sh $(ARGS)

check: deps
	@echo "check: building the programs, the tests (twice, once with ASan and UBSan) and the module, then running them"
	$(Q)$(MAKE) --no-print-directory -j2 tests
	$(Q)BUILD=$(BUILD) tests/check.sh

check-full: deps
	@echo "check-full: building the programs and the tests, then kernels to run them on"
	$(Q)$(MAKE) --no-print-directory -j2 tests
	$(Q)BUILD=$(BUILD) tests/check-full.sh

.PHONY: san-tests
san-tests: $(addprefix $(O)/tests/,$(UNIT))

# For tests/bench/unpack_count.sh: the same program for this machine and for aarch64.
.PHONY: unpack-once
unpack-once: $(O)/tests/unpack_once
	$(Q)$(MAKE) --no-print-directory BUILD=$(ARM) CC=aarch64-linux-gnu-gcc $(ARM)/tests/unpack_once

# For tests/arm/check.sh: the program that compares kernels, for this machine and for aarch64, static as there are no aarch64
# libraries. The rest of the tree is only compiled for aarch64, with this machine's headers of other libraries.
ARM := $(O)/arm
.PHONY: arm-tests
arm-tests: $(O)/tests/kernel_bits
	$(Q)$(MAKE) --no-print-directory BUILD=$(ARM) CC=aarch64-linux-gnu-gcc LDFLAGS=-static \
		CPPFLAGS="$(addprefix -idirafter ,/usr/include /usr/include/$(shell $(CC) -print-multiarch))" \
		$(ARM)/tests/kernel_bits $(ARM)/lib/libnpu.a $(ARM)/lib/libllm.a $(FW_MAIN:%.c=$(ARM)/obj/%.o)

# insmod builds for the running kernel, kmod for the kernel that the VM boots.
RUNNING := $(shell uname -r)
insmod: deps
	@test -d /lib/modules/$(RUNNING)/build || \
		{ echo "insmod: no headers of the running kernel: as root, apt-get install linux-headers-$(RUNNING)"; exit 1; }
	$(Q)$(MAKE) --no-print-directory all
	$(Q)$(MAKE) --no-print-directory kmod KVER=$(RUNNING)
	$(SUDO) modprobe -a $$(modinfo -F depends $(BUILD)/kmod/$(RUNNING)/vnpu.ko | tr ',' ' ')
	$(SUDO) insmod $(BUILD)/kmod/$(RUNNING)/vnpu.ko
	@echo "insmod: vnpu.ko is loaded; as root start $(O)/bin/vnpu-fw, and /dev/accel/accel0 appears"

rmmod:
	$(SUDO) rmmod vnpu

# $(1): the library's name, $(2): its folder.
define install_lib
install -m 644 $(O)/lib/$(1).a $(DESTDIR)$(LIBDIR)/
	install -m 644 $(O)/lib/$(1).so $(DESTDIR)$(LIBDIR)/$(1).so.0
	ln -sf $(1).so.0 $(DESTDIR)$(LIBDIR)/$(1).so
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' $(2)/$(1).pc.in \
		> $(DESTDIR)$(LIBDIR)/pkgconfig/$(1).pc
endef

install: all
	install -d $(addprefix $(DESTDIR)$(PREFIX)/,bin sbin include/vnpu/drm include/vnpu/linux include/vnpu/npu share/man/man1 share/man/man8 \
		share/vnpu/models/docs6m share/vnpu/bpftrace share/vnpu/profiles share/vnpu/shapes \
		share/bash-completion/completions) $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(UNITDIR) $(DESTDIR)$(UDEVDIR) \
		$(DESTDIR)$(SYSUSERSDIR)
	install $(addprefix $(O)/bin/,$(TOOLS)) $(DESTDIR)$(PREFIX)/bin/
	install $(O)/bin/vnpu-fw $(DESTDIR)$(PREFIX)/sbin/
	$(call install_lib,libnpu,libnpu)
	$(call install_lib,libllm,runtime)
	install -m 644 $(call headers,libnpu) $(call headers,runtime/api) $(DESTDIR)$(PREFIX)/include/vnpu/
	install -m 644 uapi/drm/*.h $(DESTDIR)$(PREFIX)/include/vnpu/drm/
	install -m 644 uapi/linux/*.h $(DESTDIR)$(PREFIX)/include/vnpu/linux/
	install -m 644 uapi/npu/*.h $(DESTDIR)$(PREFIX)/include/vnpu/npu/
	install -m 644 docs/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	install -m 644 docs/man/*.8 $(DESTDIR)$(PREFIX)/share/man/man8/
	install -m 644 share/models/docs6m/docs6m-q8_0.gguf share/models/docs6m/*.md \
		$(DESTDIR)$(PREFIX)/share/vnpu/models/docs6m/
	install -m 644 share/bpftrace/*.bt $(DESTDIR)$(PREFIX)/share/vnpu/bpftrace/
	install -m 644 share/profiles/*.conf $(DESTDIR)$(PREFIX)/share/vnpu/profiles/
	install -m 644 share/shapes/*.conf $(DESTDIR)$(PREFIX)/share/vnpu/shapes/
	for t in llm-bench llm-cli llm-logits llm-perplexity; do install -m 644 share/bash-completion/completions/llm-cli \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$t || exit 1; done
	install -m 644 share/udev/60-vnpu.rules $(DESTDIR)$(UDEVDIR)/
	install -m 644 share/sysusers/vnpu.conf $(DESTDIR)$(SYSUSERSDIR)/
	sed 's|@PREFIX@|$(PREFIX)|' share/systemd/vnpu-fw.service.in > $(DESTDIR)$(UNITDIR)/vnpu-fw.service
	@if [ -n "$(DESTDIR)" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && /sbin/ldconfig -v -N -X 2>/dev/null | grep -q "^$(LIBDIR):"; then /sbin/ldconfig; \
	else echo "install: the loader does not look in $(LIBDIR); run programs with LD_LIBRARY_PATH=$(LIBDIR), or as root" \
		"add it to /etc/ld.so.conf and run ldconfig"; fi

# Packages are built in a copy of the tree without build folders, so that the tree stays clean.
deb: deps-deb
	@echo "deb: building Debian packages into $(BUILD)/deb"
	$(Q)rm -rf $(BUILD)/deb && mkdir -p $(BUILD)/deb/vnpu-$(VERSION)
	$(Q)tar -c --exclude-vcs --exclude=./build --exclude=./$(BUILD) . | tar -x -C $(BUILD)/deb/vnpu-$(VERSION)
	$(Q)cd $(BUILD)/deb/vnpu-$(VERSION) && env -u MAKEFLAGS -u MAKELEVEL dpkg-buildpackage -us -uc -J \
		> ../build.log 2>&1 || { tail -40 ../build.log; echo "deb: failed, see $(BUILD)/deb/build.log"; exit 1; }
	@ls -l $(BUILD)/deb/*.deb

clean:
	rm -rf $(BUILD)
