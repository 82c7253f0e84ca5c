/* SPDX-License-Identifier: MIT */
/*
 * A compiled graph, out of its ELF file (docs/elf.md): what the loader and the tools work with.
 */
#ifndef NPU_IMAGE_H
#define NPU_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <npu/vnpu_isa.h>

/* EM_NONE: there is no number for us, and the note says whose file it is. */
#define NPU_ELF_MACHINE 0
#define NPU_NOTE_NAME "vnpu"
#define NPU_NOTE_NAME_ROOM ((sizeof(NPU_NOTE_NAME) + 3) & ~3u)
#define NPU_NOTE_GRAPH 0x100
#define NPU_NOTE_TIMES 0x101
/* At r_offset lies a struct vnpu_ref: slot = the symbol's, offset = the symbol's value + addend. */
#define R_VNPU_REF 1

#define NPU_NAME_BYTES 64 /* NUL included */
/* Constants, scratch memory and a job's record need a slot each. */
#define NPU_MAX_SYMBOLS (VNPU_MAX_SLOTS - 3)

/* By enum npu_dtype. */
#define NPU_NR_DTYPES 7
extern const char *const npu_dtype_names[NPU_NR_DTYPES];

enum npu_symbol_kind {
	NPU_SYMBOL_INPUT = 0,
	NPU_SYMBOL_WEIGHT = 1,
	NPU_SYMBOL_STATE = 2,
	NPU_SYMBOL_OUTPUT = 3,
	NPU_SYMBOL_KINDS = 4,
};

/* An entry of .vnpu.bindings; entry i is slot i. */
struct npu_elf_binding {
	uint32_t symbol; /* index in .symtab; its st_size is what a binding needs */
	uint32_t kind; /* enum npu_symbol_kind */
	uint32_t dtype; /* enum npu_dtype */
	uint32_t rows, cols;
	uint32_t group; /* of NPU_W4_PANEL, else 0 */
};

/* Descriptor of the note. */
struct npu_elf_note {
	uint32_t isa_version;
	uint32_t nr_cmds;
	uint64_t macs;
	uint64_t bytes_moved;
	char name[NPU_NAME_BYTES];
};

/* Descriptor of a second note, which is there if the graph was compiled for a profile. */
struct npu_elf_times {
	uint64_t device_ns, device_cycles; /* of one run, launch included */
	char profile[32];
};

struct npu_image_symbol {
	char name[NPU_NAME_BYTES];
	uint32_t kind, dtype, rows, cols, group;
	uint64_t bytes;
};

struct npu_image {
	struct npu_elf_note note;
	struct npu_elf_times times; /* profile "": none */
	uint8_t *cmd; /* relocated */
	uint32_t cmd_bytes;
	uint8_t *consts;
	uint64_t const_bytes, scratch_bytes;
	struct npu_image_symbol *symbols; /* by slot */
	uint32_t nr_symbols;
	char (*params)[NPU_NAME_BYTES];
	uint32_t nr_params;
	uint32_t const_slot, scratch_slot; /* or VNPU_SLOT_NONE */
	uint32_t nr_slots;
};

/* A relocation on its way into a file: @slot below nr_symbols, or const_slot or scratch_slot. */
struct npu_image_reloc {
	uint32_t offset; /* of the struct vnpu_ref in the stream */
	uint32_t slot;
	uint64_t addend;
};

/*
 * Read an ELF file; any bytes are survived. 0, or -EINVAL (-ENOMEM) with
 * npu_error() naming what is wrong.
 */
int npu_image_parse(const void *file, size_t bytes, struct npu_image *img);
void npu_image_release(struct npu_image *img);
/* Write an ELF file from @img, whose stream is not relocated yet. */
int npu_image_write(const struct npu_image *img, const struct npu_image_reloc *relocs,
		    uint32_t nr_relocs, void **file, size_t *bytes);

#endif /* NPU_IMAGE_H */
