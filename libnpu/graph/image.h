/* SPDX-License-Identifier: MIT */
/* A compiled graph as read from its ELF file (docs/elf.md), for the loader and the tools. */
#ifndef NPU_IMAGE_H
#define NPU_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <npu/vnpu_isa.h>

/* EM_NONE: no machine number is assigned; the note identifies the file. */
#define NPU_ELF_MACHINE 0
#define NPU_NOTE_NAME "vnpu"
#define NPU_NOTE_NAME_ROOM ((sizeof(NPU_NOTE_NAME) + 3) & ~3u)
#define NPU_NOTE_GRAPH 0x100
#define NPU_NOTE_TIMES 0x101
/* r_offset is that of a struct vnpu_ref: its slot is the symbol's, its offset value + addend. */
#define R_VNPU_REF 1

#define NPU_NAME_BYTES 64 /* NUL included */
/* Of a binding, of all constants, and of scratch memory. A file may be twice as large. */
#define NPU_IMAGE_MAX_BYTES (1ull << 36)
/* Three slots are reserved for constants, scratch memory and a job's record. */
#define NPU_MAX_SYMBOLS (VNPU_MAX_SLOTS - 3)

/* Indexed by enum npu_dtype. */
#define NPU_NR_DTYPES 13
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
	uint32_t symbol; /* index in .symtab; its st_size is the size of a binding */
	uint32_t kind; /* enum npu_symbol_kind */
	uint32_t dtype; /* enum npu_dtype */
	uint32_t rows, cols;
	uint32_t group; /* of NPU_W4_PANEL; the enum vnpu_kq_type of NPU_KQ_PANEL; else 0 */
};

/* Descriptor of the note. */
struct npu_elf_note {
	uint32_t isa_version;
	uint32_t nr_cmds;
	uint64_t macs;
	uint64_t bytes_moved;
	char name[NPU_NAME_BYTES];
};

/* Descriptor of a second note, present if the graph was compiled for a profile. */
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

/* A relocation to be written; @slot is below nr_symbols, or const_slot or scratch_slot. */
struct npu_image_reloc {
	uint32_t offset; /* of the struct vnpu_ref in the stream */
	uint32_t slot;
	uint64_t addend;
};

/* Reads an ELF file of any contents. 0, -ENOMEM, or -EINVAL if the file is not valid. */
int npu_image_parse(const void *file, size_t bytes, struct npu_image *img);
void npu_image_release(struct npu_image *img);
/* Writes an ELF file from @img, whose stream is not relocated yet. */
int npu_image_write(const struct npu_image *img, const struct npu_image_reloc *relocs,
		    uint32_t nr_relocs, void **file, size_t *bytes);

#endif /* NPU_IMAGE_H */
