// SPDX-License-Identifier: MIT
/*
 * An image from an ELF file. libelf finds the sections; every offset, index and size in them is checked here, and the
 * result holds copies, so that any bytes may be given. The commands themselves are the firmware's to check.
 */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "npu_fail.h"
#include "vnpu_isa.h"

/* Raw bytes of a section inside the file's copy. */
struct span {
	const uint8_t *data;
	size_t bytes;
	size_t index; /* of the section; 0: there is none */
};

struct reader {
	uint8_t *file;
	size_t file_bytes;
	struct span cmd, consts, params, note, symtab, strtab, rela;
};

static int bad(const char *what)
{
	return npu_fail(-EINVAL, "not a vnpu image: %s", what);
}

static int find_sections(struct reader *r, Elf *elf)
{
	const struct {
		const char *name;
		uint32_t type;
		struct span *span;
	} wanted[] = {
		{ ".vnpu.cmd", SHT_PROGBITS, &r->cmd },	      { ".vnpu.const", SHT_PROGBITS, &r->consts },
		{ ".vnpu.params", SHT_PROGBITS, &r->params }, { ".note.vnpu", SHT_NOTE, &r->note },
		{ ".symtab", SHT_SYMTAB, &r->symtab },	      { ".strtab", SHT_STRTAB, &r->strtab },
		{ ".rela.vnpu.cmd", SHT_RELA, &r->rela },
	};
	Elf_Scn *scn = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf, &names))
		return bad("its section names cannot be read");
	while ((scn = elf_nextscn(elf, scn))) {
		const Elf64_Shdr *h = elf64_getshdr(scn);
		const char *name = h ? elf_strptr(elf, names, h->sh_name) : NULL;

		if (!h || !name)
			return bad("a section header cannot be read");
		for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
			struct span *s = wanted[i].span;

			if (strcmp(name, wanted[i].name))
				continue;
			if (s->index || h->sh_type != wanted[i].type)
				return npu_fail(-EINVAL,
						"not a vnpu image: section %s is there twice or of a wrong type", name);
			if (h->sh_offset > r->file_bytes || h->sh_size > r->file_bytes - h->sh_offset)
				return npu_fail(-EINVAL, "not a vnpu image: section %s lies beyond the end of the file",
						name);
			s->data = r->file + h->sh_offset;
			s->bytes = h->sh_size;
			s->index = elf_ndxscn(scn);
		}
	}
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (!wanted[i].span->index)
			return npu_fail(-EINVAL, "not a vnpu image: there is no section %s", wanted[i].name);
	return 0;
}

static int copy_span(const struct span *s, uint8_t **data, size_t *bytes)
{
	*data = malloc(s->bytes ? s->bytes : 1);
	if (!*data)
		return npu_fail(-ENOMEM, "no memory for %zu bytes of an image", s->bytes);
	memcpy(*data, s->data, s->bytes);
	*bytes = s->bytes;
	return 0;
}

static int read_note(const struct reader *r, struct image *im)
{
	struct {
		Elf64_Nhdr hdr;
		char name[8];
		uint32_t isa_version, nr_cmds;
		uint64_t macs, bytes_moved;
	} note;

	if (r->note.bytes < sizeof(note))
		return bad("its note is too short");
	memcpy(&note, r->note.data, sizeof(note));
	if (note.hdr.n_namesz != 5 || memcmp(note.name, "vnpu", 5) || note.hdr.n_type != NT_VNPU_GRAPH ||
	    note.hdr.n_descsz < 24)
		return bad("its note is not vnpu's");
	im->isa_version = note.isa_version;
	im->nr_cmds = note.nr_cmds;
	im->macs = note.macs;
	im->bytes_moved = note.bytes_moved;
	if (note.isa_version >> 16 != VNPU_ISA_MAJOR)
		return npu_fail(-EPROTO, "the image is for ISA %u.%u, this library knows %d.%d: compile it again",
				note.isa_version >> 16, note.isa_version & 0xffff, VNPU_ISA_MAJOR, VNPU_ISA_MINOR);
	return 0;
}

static int read_params(const struct reader *r, struct image *im)
{
	const char *s = (const char *)r->params.data;
	size_t left = r->params.bytes;

	im->params = calloc(VNPU_MAX_PARAMS, sizeof(*im->params));
	if (!im->params)
		return npu_fail(-ENOMEM, "out of memory");
	while (left) {
		size_t n = strnlen(s, left);

		if (n == left || !n)
			return bad("a param's name is empty or not terminated");
		if (im->nr_params == VNPU_MAX_PARAMS)
			return bad("it has too many params");
		im->params[im->nr_params] = strdup(s);
		if (!im->params[im->nr_params])
			return npu_fail(-ENOMEM, "out of memory");
		im->nr_params++;
		s += n + 1;
		left -= n + 1;
	}
	return 0;
}

/* A copy of the string at @at of .strtab. */
static int read_name(const struct reader *r, uint32_t at, char **name)
{
	const char *s = (const char *)r->strtab.data + at;

	if (at >= r->strtab.bytes || strnlen(s, r->strtab.bytes - at) == r->strtab.bytes - at || !*s)
		return bad("a symbol has no name");
	*name = strdup(s);
	return *name ? 0 : npu_fail(-ENOMEM, "out of memory");
}

static int read_symbol(const struct reader *r, const Elf64_Sym *sym, struct image_symbol *s)
{
	s->bytes = sym->st_size;
	if (sym->st_shndx == SHN_UNDEF) {
		s->kind = IMAGE_EXTERNAL;
		s->flags = sym->st_value;
		if (!sym->st_value || sym->st_value & ~(uint64_t)(VNPU_SLOT_READ | VNPU_SLOT_WRITE))
			return bad("a symbol is neither read nor written");
	} else if (sym->st_shndx == SHN_COMMON) {
		s->kind = IMAGE_TEMPORARY;
		s->flags = VNPU_SLOT_READ | VNPU_SLOT_WRITE;
	} else if (sym->st_shndx == r->consts.index) {
		s->kind = IMAGE_CONSTANTS;
		s->flags = VNPU_SLOT_READ;
		if (sym->st_value || s->bytes != r->consts.bytes)
			return bad("its constants are not where their symbol says");
	} else {
		return bad("a symbol lies in a section where none may");
	}
	if (!s->bytes || s->bytes > 1ull << 48)
		return bad("a symbol has an impossible size");
	return read_name(r, sym->st_name, &s->name);
}

static int read_symbols(const struct reader *r, struct image *im)
{
	size_t n = r->symtab.bytes / sizeof(Elf64_Sym);
	Elf64_Sym sym;
	int ret;

	if (n < 2 || n - 2 > VNPU_MAX_SLOTS || r->symtab.bytes % sizeof(Elf64_Sym))
		return bad("its symbol table has an impossible size");
	memcpy(&sym, r->symtab.data + sizeof(sym), sizeof(sym));
	if (ELF64_ST_TYPE(sym.st_info) != STT_FILE)
		return bad("its first symbol is not the graph's name");
	ret = read_name(r, sym.st_name, &im->name);
	if (ret)
		return ret;
	im->symbols = calloc(n, sizeof(*im->symbols));
	if (!im->symbols)
		return npu_fail(-ENOMEM, "out of memory");
	for (size_t i = 2; i < n; i++) {
		memcpy(&sym, r->symtab.data + i * sizeof(sym), sizeof(sym));
		ret = read_symbol(r, &sym, &im->symbols[i - 2]);
		if (ret)
			return ret;
		im->nr_symbols++;
	}
	return 0;
}

static int read_relocs(const struct reader *r, struct image *im)
{
	size_t n = r->rela.bytes / sizeof(Elf64_Rela);

	if (r->rela.bytes % sizeof(Elf64_Rela) || n > r->cmd.bytes / 8)
		return bad("its relocations have an impossible size");
	im->relocs = calloc(n ? n : 1, sizeof(*im->relocs));
	if (!im->relocs)
		return npu_fail(-ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		Elf64_Rela rela;
		uint64_t symbol;

		memcpy(&rela, r->rela.data + i * sizeof(rela), sizeof(rela));
		symbol = ELF64_R_SYM(rela.r_info);
		if (ELF64_R_TYPE(rela.r_info) != R_VNPU_SLOT || rela.r_addend || symbol < 2 ||
		    symbol - 2 >= im->nr_symbols || rela.r_offset % 4 || r->cmd.bytes < 4 ||
		    rela.r_offset > r->cmd.bytes - 4)
			return npu_fail(-EINVAL, "not a vnpu image: relocation %zu is malformed", i);
		im->relocs[i].offset = rela.r_offset;
		im->relocs[i].symbol = symbol - 2;
	}
	im->nr_relocs = n;
	return 0;
}

static int read_image(struct reader *r, Elf *elf, struct image *im)
{
	const Elf64_Ehdr *ehdr = elf_kind(elf) == ELF_K_ELF ? elf64_getehdr(elf) : NULL;
	int ret;

	if (!ehdr || ehdr->e_ident[EI_DATA] != ELFDATA2LSB || ehdr->e_type != ET_REL || ehdr->e_machine != EM_NONE)
		return bad("it is no little-endian 64-bit ELF object of machine 0");
	ret = find_sections(r, elf);
	if (!ret && (r->cmd.bytes > VNPU_MAX_STREAM_BYTES || r->cmd.bytes < sizeof(struct vnpu_stream_hdr)))
		ret = bad("its command stream has an impossible size");
	ret = ret ?: read_note(r, im);
	ret = ret ?: read_params(r, im);
	ret = ret ?: read_symbols(r, im);
	ret = ret ?: read_relocs(r, im);
	ret = ret ?: copy_span(&r->cmd, &im->cmds, &im->cmd_bytes);
	return ret ?: copy_span(&r->consts, &im->consts, &im->const_bytes);
}

int elf_read(const void *file, size_t file_bytes, struct image *im)
{
	struct reader r = { .file_bytes = file_bytes };
	Elf *elf;
	int ret;

	memset(im, 0, sizeof(*im));
	if (file_bytes < sizeof(Elf64_Ehdr))
		return bad("it is shorter than an ELF header");
	/* libelf may write to what it is given, and wants it aligned. */
	r.file = malloc(file_bytes);
	if (!r.file)
		return npu_fail(-ENOMEM, "no memory for %zu bytes of an image", file_bytes);
	memcpy(r.file, file, file_bytes);
	elf_version(EV_CURRENT);
	elf = elf_memory((char *)r.file, file_bytes);
	ret = elf ? read_image(&r, elf, im) : bad("libelf does not know it");
	if (elf)
		elf_end(elf);
	free(r.file);
	if (ret)
		image_clear(im);
	return ret;
}
