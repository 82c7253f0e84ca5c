/* SPDX-License-Identifier: MIT */
/*
 * A compiled graph in memory, between compiler, ELF file, loader and disassembler. docs/elf.md has the file's format.
 */
#ifndef NPU_PRIVATE_IMAGE_H
#define NPU_PRIVATE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#define IMAGE_CONST "__const"
#define IMAGE_SCRATCH "__scratch"

/* Relocation type: the 32-bit word at the offset becomes the slot number of the symbol. */
#define R_VNPU_SLOT 1
/* Type of the note "vnpu". */
#define NT_VNPU_GRAPH 1

enum image_symbol_kind {
	IMAGE_EXTERNAL, /* bound by the program */
	IMAGE_CONSTANTS, /* the constants section */
	IMAGE_TEMPORARY, /* memory that the loader provides */
};

/* A binding of the graph. Its index is its slot. */
struct image_symbol {
	char *name;
	enum image_symbol_kind kind;
	uint32_t flags; /* VNPU_SLOT_READ, VNPU_SLOT_WRITE */
	uint64_t bytes;
};

struct image_reloc {
	uint32_t offset; /* in the stream */
	uint32_t symbol;
};

struct image {
	char *name;
	uint8_t *cmds;
	size_t cmd_bytes;
	uint8_t *consts;
	size_t const_bytes;
	struct image_symbol *symbols;
	uint32_t nr_symbols;
	char **params;
	uint32_t nr_params;
	struct image_reloc *relocs;
	uint32_t nr_relocs;
	uint32_t isa_version;
	uint32_t nr_cmds;
	uint64_t macs;
	uint64_t bytes_moved;
};

/* Frees what the image holds, not the structure. */
void image_clear(struct image *im);
/* Writes every symbol's index where its relocations say. */
void image_relocate(struct image *im);

/* ELF file of @im in *file (free() it). 0 or -errno with npu_error(). */
int elf_write(const struct image *im, void **file, size_t *file_bytes);
/* Any bytes; everything is checked and copied. 0, -ENOMEM, or -EINVAL with npu_error() saying what is wrong. */
int elf_read(const void *file, size_t file_bytes, struct image *im);

#endif /* NPU_PRIVATE_IMAGE_H */
