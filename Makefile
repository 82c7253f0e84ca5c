# SPDX-License-Identifier: MIT
#
# vnpu: see README.md. `make bench` and `make check` need no step before them.
#
#   make bench | check                   set up, build, measure or test
#   make check-full                      what is too long for check: newer kernels, debug kernels (tests/check-full.sh)
#   make deps | all | kmod | insmod | rmmod | install | clean
#
# Variables: BUILD=DIR (build), SAN=1 (ASan and UBSan, into $(BUILD)/san), KDIR=DIR (kernel to build the module for),
# VNPU_DATA=DIR (models and texts for the larger tests), DEPS=no (never install packages), V=1 (show commands).

SHELL := /bin/bash
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

BUILD ?= build
VERSION := 0.1.0
PREFIX ?= /usr/local
CC := gcc
Q := $(if $(V),,@)

ifdef SAN
O := $(BUILD)/san
SANFLAGS := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
else
O := $(BUILD)
endif

# -ffp-contract=off: float results must not depend on which compiler fuses what.
CFLAGS ?= -O2 -g
ALL_CFLAGS := -std=gnu11 $(CFLAGS) -Wall -Wextra -Werror -Wno-unused-parameter -Wmissing-prototypes -Wstrict-prototypes \
	-fvisibility=hidden -fPIC -pthread -ffp-contract=off -fno-math-errno $(SANFLAGS) \
	-Iuapi -Ifirmware-sim -Ilibnpu -Iruntime $(shell pkg-config --cflags libdrm 2>/dev/null) \
	-DVNPU_VERSION='"$(VERSION)"' -MMD -MP
# '$$ORIGIN' so that nothing installed is needed.
LDFLAGS_COMMON := -pthread $(SANFLAGS)
LIBS_NPU := $(shell pkg-config --libs libdrm libelf 2>/dev/null) -lm
LIBS_LLM := $(shell pkg-config --libs libpcre2-8 2>/dev/null) -lm
LIBS_TOOLS := $(shell pkg-config --libs json-c nettle 2>/dev/null)
LIBS_npu-top := $(shell pkg-config --libs ncursesw 2>/dev/null)

# ---- sources: the name of the folder is the name of the library ----------------------------------------------------

FW_MAIN := firmware-sim/vnpu_fw.c firmware-sim/port_kmd.c
FW_SRC := $(filter-out $(FW_MAIN),$(wildcard firmware-sim/*.c))
NPU_SRC := $(wildcard libnpu/*.c)
LLM_SRC := $(wildcard runtime/*.c)
TOOLS := llm-bench llm-cli llm-perplexity llm-logits llm-vocab npuc npu-info npu-top
# tools/NAME.c and tools/NAME-*.c make build/bin/NAME; everything else in tools/ is shared by them.
tool_src = $(wildcard tools/$(1).c tools/$(1)-*.c)
TOOLS_SHARED := $(filter-out $(foreach t,$(TOOLS),$(call tool_src,$(t))),$(wildcard tools/*.c))
UNIT := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/test_*.c))
KTEST := $(patsubst tests/kmod/%.c,%,$(wildcard tests/kmod/test_*.c))
BENCH := $(patsubst tests/bench/%.c,%,$(wildcard tests/bench/bench_*.c))
# Not cmocka's: each is one long run.
FUZZ := fuzz_ioctl soak_kill

obj = $(patsubst %.c,$(O)/obj/%.o,$(1))
BINS := $(addprefix $(O)/bin/,vnpu-fw $(foreach t,$(TOOLS),$(if $(call tool_src,$(t)),$(t))))
TESTS := $(addprefix $(O)/tests/,$(UNIT) $(KTEST) $(BENCH) $(FUZZ) abi32 abi64)

.PHONY: all tests
all: $(O)/lib/libnpu.a $(O)/lib/libnpu.so $(O)/lib/libllm.a $(BINS)
tests: all $(TESTS)

# ---- rules -----------------------------------------------------------------------------------------------------------

# A SIMD file is compiled for its instruction set and called only where the host has it.
$(O)/obj/%_avx2.o: ISA := -mavx2 -mfma -mf16c
$(O)/obj/%_avx512.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c

$(O)/obj/%.o: %.c Makefile
	$(Q)mkdir -p $(@D)
	@echo "  CC      $<"
	$(Q)$(CC) $(ALL_CFLAGS) $(ISA) -c -o $@ $<

# The revision, for llm-bench's build_commit; touched only when it changes.
$(O)/obj/build_commit.h: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)c=$$(git -c safe.directory='*' rev-parse --short HEAD 2>/dev/null); \
		echo "#define VNPU_COMMIT \"$${c:-unknown}\"" > $@.new; \
		cmp -s $@.new $@ && rm -f $@.new || mv $@.new $@
$(O)/obj/tools/build_commit.o: ISA := -I$(O)/obj
$(O)/obj/tools/build_commit.o: $(O)/obj/build_commit.h
.PHONY: FORCE
FORCE:

define archive
	$(Q)mkdir -p $(@D)
	@echo "  AR      $@"
	$(Q)rm -f $@ && ar rcsD $@ $^
endef
$(O)/lib/libvnpufw.a: $(call obj,$(FW_SRC))
	$(archive)
# libnpu carries the device core for its sim transport.
$(O)/lib/libnpu.a: $(call obj,$(NPU_SRC) $(FW_SRC))
	$(archive)
$(O)/lib/libllm.a: $(call obj,$(LLM_SRC))
	$(archive)

$(O)/lib/libnpu.so: $(call obj,$(NPU_SRC) $(FW_SRC)) libnpu/libnpu.map
	@echo "  LD      $@"
	$(Q)$(CC) -shared -Wl,-soname,libnpu.so.0 -Wl,--version-script=libnpu/libnpu.map $(LDFLAGS_COMMON) -o $@ $(filter %.o,$^) $(LIBS_NPU)

define link
	$(Q)mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(LDFLAGS_COMMON) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(1)
endef

$(O)/bin/vnpu-fw: $(call obj,$(FW_MAIN)) $(O)/lib/libvnpufw.a
	$(call link,-lm)

define tool_rule
$(O)/bin/$(1): $(call obj,$(call tool_src,$(1)) $(TOOLS_SHARED)) $(O)/lib/libllm.a $(O)/lib/libnpu.a
	$$(call link,$(LIBS_TOOLS) $(LIBS_$(1)) $(LIBS_LLM) $(LIBS_NPU))
endef
$(foreach t,$(TOOLS),$(eval $(call tool_rule,$(t))))

$(O)/tests/test_%: $(O)/obj/tests/unit/test_%.o $(O)/lib/libllm.a $(O)/lib/libnpu.a
	$(call link,-lcmocka $(LIBS_TOOLS) $(LIBS_LLM) $(LIBS_NPU))
$(addprefix $(O)/tests/,$(KTEST)): $(O)/tests/%: $(O)/obj/tests/kmod/%.o $(O)/lib/libnpu.a
	$(call link,-lcmocka $(LIBS_NPU))
# A program of 32 bits and one of 64, which have to see the same.
$(O)/tests/abi32: ISA := -m32 -D_FILE_OFFSET_BITS=64
$(O)/tests/abi32 $(O)/tests/abi64: tests/kmod/abi.c $(wildcard uapi/*/*.h) Makefile
	$(Q)mkdir -p $(@D)
	@echo "  CC      $@"
	$(Q)$(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) $(ISA) -static -o $@ $<
$(addprefix $(O)/tests/,$(BENCH)): $(O)/tests/%: $(O)/obj/tests/bench/%.o $(O)/lib/libllm.a $(O)/lib/libnpu.a
	$(call link,$(LIBS_TOOLS) $(LIBS_LLM) $(LIBS_NPU))
$(O)/tests/fuzz_ioctl: $(call obj,$(wildcard tests/fuzz/fuzz_*.c))
	$(call link)
$(O)/tests/soak_kill: $(call obj,tests/fuzz/soak_kill.c tests/fuzz/compute.c) $(O)/lib/libnpu.a
	$(call link,$(LIBS_NPU))

-include $(shell find $(O)/obj -name '*.d' 2>/dev/null)
.SECONDARY:

# ---- the module ----------------------------------------------------------------------------------------------------
# Built in a folder of its own per kernel, from links to kmod/, so that several kernels can stand beside one another.

KVER ?= $(shell ls -d /lib/modules/6.12*/build 2>/dev/null | sort -V | tail -1 | cut -d/ -f4)
KDIR ?= /lib/modules/$(KVER)/build
KOUT := $(BUILD)/kmod/$(KVER)

.PHONY: kmod
kmod:
	@test -d "$(KDIR)" || { echo "no kernel headers at '$(KDIR)': run make deps, or give KDIR="; exit 1; }
	$(Q)mkdir -p $(KOUT)
	$(Q)cp -asf $(CURDIR)/kmod/. $(KOUT)/ && cp -asf $(CURDIR)/uapi $(CURDIR)/tests/kunit $(KOUT)/
	$(Q)$(MAKE) --no-print-directory -C $(KDIR) M=$(abspath $(KOUT)) modules $(if $(W),W=$(W))

# ---- what people type ----------------------------------------------------------------------------------------------

MODEL := share/models/docs6m/docs6m-q8_0.gguf
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

# A second make, so that pkg-config and the kernel headers are looked up after the packages are there.
.PHONY: deps bench check check-full insmod rmmod install clean
deps:
	$(Q)$(if $(filter no,$(DEPS)),true,tools/install-deps.sh)

bench: deps
	@echo "bench: building, then llm-bench on $(MODEL)"
	$(Q)$(MAKE) --no-print-directory all
	$(O)/bin/llm-bench -m $(MODEL)

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

# For the kernel that runs, where kmod alone is for the one that the virtual machine boots.
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

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(PREFIX)/lib/pkgconfig \
		$(DESTDIR)$(PREFIX)/include/vnpu $(DESTDIR)$(PREFIX)/share/vnpu/models/docs6m \
		$(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man8
	install $(addprefix $(O)/bin/,$(TOOLS)) $(DESTDIR)$(PREFIX)/bin/
	install $(O)/bin/vnpu-fw $(DESTDIR)$(PREFIX)/sbin/
	install -m 644 $(O)/lib/libnpu.a $(DESTDIR)$(PREFIX)/lib/
	install $(O)/lib/libnpu.so $(DESTDIR)$(PREFIX)/lib/libnpu.so.0
	ln -sf libnpu.so.0 $(DESTDIR)$(PREFIX)/lib/libnpu.so
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' libnpu/libnpu.pc.in \
		> $(DESTDIR)$(PREFIX)/lib/pkgconfig/libnpu.pc
	install -m 644 libnpu/npu.h libnpu/npu_graph.h $(DESTDIR)$(PREFIX)/include/vnpu/
	install -m 644 docs/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	install -m 644 docs/man/*.8 $(DESTDIR)$(PREFIX)/share/man/man8/
	install -m 644 share/models/docs6m/docs6m-q8_0.gguf share/models/docs6m/*.md \
		$(DESTDIR)$(PREFIX)/share/vnpu/models/docs6m/
	install -d $(DESTDIR)$(PREFIX)/lib/udev/rules.d $(DESTDIR)$(PREFIX)/lib/systemd/system
	install -m 644 share/udev/60-vnpu.rules $(DESTDIR)$(PREFIX)/lib/udev/rules.d/
	sed 's|@PREFIX@|$(PREFIX)|' share/systemd/vnpu-fw.service.in > $(DESTDIR)$(PREFIX)/lib/systemd/system/vnpu-fw.service

clean:
	rm -rf $(BUILD)
