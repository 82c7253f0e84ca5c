// SPDX-License-Identifier: MIT
/*
 * An image as an ELF file, by libelf: a relocatable object of no machine, laid out in memory through a memfd.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "image.h"
#include "npu_fail.h"

enum section {
	SEC_NULL,
	SEC_CMD,
	SEC_CONST,
	SEC_PARAMS,
	SEC_NOTE,
	SEC_SYMTAB,
	SEC_STRTAB,
	SEC_RELA,
	SEC_SHSTRTAB,
	NR_SECTIONS
};

/* Bytes that grow; the first failure sticks. */
struct bytes {
	uint8_t *data;
	size_t size;
	int error;
};

static size_t bytes_add(struct bytes *b, const void *data, size_t size)
{
	size_t at = b->size;
	uint8_t *more;

	if (b->error || !size)
		return at;
	more = realloc(b->data, b->size + size);
	if (!more) {
		b->error = -ENOMEM;
		return 0;
	}
	memcpy(more + at, data, size);
	b->data = more;
	b->size += size;
	return at;
}

static uint32_t bytes_add_string(struct bytes *b, const char *s)
{
	return bytes_add(b, s, strlen(s) + 1);
}

struct writer {
	const struct image *im;
	Elf *elf;
	struct bytes params, note, symtab, strtab, rela, shstrtab;
};

static void add_symbol(struct writer *w, Elf64_Sym sym, const char *name)
{
	sym.st_name = bytes_add_string(&w->strtab, name);
	bytes_add(&w->symtab, &sym, sizeof(sym));
}

/* Index 0 is ELF's null symbol, 1 the graph's name as a file symbol, and then come the bindings. */
static void make_symbols(struct writer *w)
{
	bytes_add(&w->strtab, "", 1);
	bytes_add(&w->symtab, &(Elf64_Sym){ 0 }, sizeof(Elf64_Sym));
	add_symbol(w, (Elf64_Sym){ .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FILE), .st_shndx = SHN_ABS }, w->im->name);
	for (uint32_t i = 0; i < w->im->nr_symbols; i++) {
		const struct image_symbol *s = &w->im->symbols[i];
		Elf64_Sym sym = { .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), .st_size = s->bytes };

		switch (s->kind) {
		case IMAGE_EXTERNAL:
			sym.st_shndx = SHN_UNDEF;
			sym.st_value = s->flags;
			break;
		case IMAGE_CONSTANTS:
			sym.st_shndx = SEC_CONST;
			break;
		case IMAGE_TEMPORARY:
			sym.st_shndx = SHN_COMMON;
			sym.st_value = 64; /* a common symbol's value is its alignment */
			break;
		}
		add_symbol(w, sym, s->name);
	}
}

static void make_note(struct writer *w)
{
	const struct {
		uint32_t isa_version, nr_cmds;
		uint64_t macs, bytes_moved;
	} desc = { w->im->isa_version, w->im->nr_cmds, w->im->macs, w->im->bytes_moved };
	const Elf64_Nhdr hdr = { .n_namesz = 5, .n_descsz = sizeof(desc), .n_type = NT_VNPU_GRAPH };

	bytes_add(&w->note, &hdr, sizeof(hdr));
	bytes_add(&w->note, "vnpu\0\0\0", 8);
	bytes_add(&w->note, &desc, sizeof(desc));
}

static void make_relocs(struct writer *w)
{
	for (uint32_t i = 0; i < w->im->nr_relocs; i++) {
		const struct image_reloc *r = &w->im->relocs[i];
		const Elf64_Rela rela = { .r_offset = r->offset, .r_info = ELF64_R_INFO(r->symbol + 2, R_VNPU_SLOT) };

		bytes_add(&w->rela, &rela, sizeof(rela));
	}
}

static int add_section(struct writer *w, const char *name, Elf64_Shdr hdr, Elf_Type type, const void *data, size_t size)
{
	Elf_Scn *scn = elf_newscn(w->elf);
	Elf_Data *d = scn ? elf_newdata(scn) : NULL;
	Elf64_Shdr *shdr = scn ? elf64_getshdr(scn) : NULL;

	if (!d || !shdr)
		return -ENOMEM;
	d->d_buf = (void *)data;
	d->d_size = size;
	d->d_type = type;
	d->d_version = EV_CURRENT;
	d->d_align = hdr.sh_addralign;
	hdr.sh_name = bytes_add_string(&w->shstrtab, name);
	*shdr = hdr;
	return 0;
}

static int add_sections(struct writer *w)
{
	const struct image *im = w->im;
	Elf64_Ehdr *ehdr = elf64_newehdr(w->elf);
	Elf_Scn *scn;
	int ret;

	if (!ehdr)
		return -ENOMEM;
	ehdr->e_ident[EI_DATA] = ELFDATA2LSB;
	ehdr->e_type = ET_REL;
	ehdr->e_machine = EM_NONE;
	ehdr->e_version = EV_CURRENT;
	ehdr->e_shstrndx = SEC_SHSTRTAB;
	bytes_add(&w->shstrtab, "", 1);

	ret = add_section(w, ".vnpu.cmd",
			  (Elf64_Shdr){ .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_addralign = 64 },
			  ELF_T_BYTE, im->cmds, im->cmd_bytes);
	ret = ret
		      ?: add_section(w, ".vnpu.const",
				     (Elf64_Shdr){ .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_addralign = 64 },
				     ELF_T_BYTE, im->consts, im->const_bytes);
	ret = ret
		      ?: add_section(w, ".vnpu.params",
				     (Elf64_Shdr){ .sh_type = SHT_PROGBITS,
						   .sh_flags = SHF_MERGE | SHF_STRINGS,
						   .sh_entsize = 1,
						   .sh_addralign = 1 },
				     ELF_T_BYTE, w->params.data, w->params.size);
	/* Stored in the byte order of the file by make_note(); ELF_T_NHDR would convert the descriptor too. */
	ret = ret
		      ?: add_section(w, ".note.vnpu", (Elf64_Shdr){ .sh_type = SHT_NOTE, .sh_addralign = 4 },
				     ELF_T_BYTE, w->note.data, w->note.size);
	ret = ret
		      ?: add_section(w, ".symtab",
				     (Elf64_Shdr){ .sh_type = SHT_SYMTAB,
						   .sh_link = SEC_STRTAB,
						   .sh_info = 2,
						   .sh_entsize = sizeof(Elf64_Sym),
						   .sh_addralign = 8 },
				     ELF_T_SYM, w->symtab.data, w->symtab.size);
	ret = ret
		      ?: add_section(w, ".strtab", (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_addralign = 1 }, ELF_T_BYTE,
				     w->strtab.data, w->strtab.size);
	ret = ret
		      ?: add_section(w, ".rela.vnpu.cmd",
				     (Elf64_Shdr){ .sh_type = SHT_RELA,
						   .sh_flags = SHF_INFO_LINK,
						   .sh_link = SEC_SYMTAB,
						   .sh_info = SEC_CMD,
						   .sh_entsize = sizeof(Elf64_Rela),
						   .sh_addralign = 8 },
				     ELF_T_RELA, w->rela.data, w->rela.size);
	ret = ret
		      ?: add_section(w, ".shstrtab", (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_addralign = 1 },
				     ELF_T_BYTE, NULL, 0);
	if (ret)
		return ret;
	/* The names are complete only now. */
	scn = elf_getscn(w->elf, SEC_SHSTRTAB);
	elf_getdata(scn, NULL)->d_buf = w->shstrtab.data;
	elf_getdata(scn, NULL)->d_size = w->shstrtab.size;
	return w->shstrtab.error;
}

/* The whole file behind @fd. */
static int read_back(int fd, void **file, size_t *file_bytes)
{
	off_t size = lseek(fd, 0, SEEK_END);
	size_t done = 0;

	if (size < 0)
		return -errno;
	*file = malloc(size);
	if (!*file)
		return -ENOMEM;
	while (done < (size_t)size) {
		ssize_t n = pread(fd, (char *)*file + done, size - done, done);

		if (n <= 0) {
			free(*file);
			*file = NULL;
			return n ? -errno : -EIO;
		}
		done += n;
	}
	*file_bytes = size;
	return 0;
}

static int write_elf(struct writer *w, void **file, size_t *file_bytes)
{
	int fd = memfd_create("vnpu-elf", MFD_CLOEXEC), ret;

	if (fd < 0)
		return npu_fail(-errno, "cannot make a memfd for the ELF file: %s", strerror(errno));
	elf_version(EV_CURRENT);
	w->elf = elf_begin(fd, ELF_C_WRITE, NULL);
	ret = w->elf ? add_sections(w) : -ENOMEM;
	if (!ret && elf_update(w->elf, ELF_C_WRITE) < 0)
		ret = npu_fail(-EIO, "libelf cannot write the ELF file: %s", elf_errmsg(-1));
	else if (ret)
		npu_fail(ret, "no memory for the ELF file");
	if (w->elf)
		elf_end(w->elf);
	if (!ret) {
		ret = read_back(fd, file, file_bytes);
		if (ret)
			npu_fail(ret, "cannot read the ELF file back: %s", strerror(-ret));
	}
	close(fd);
	return ret;
}

int elf_write(const struct image *im, void **file, size_t *file_bytes)
{
	struct writer w = { .im = im };
	int ret;

	for (uint32_t i = 0; i < im->nr_params; i++)
		bytes_add_string(&w.params, im->params[i]);
	make_symbols(&w);
	make_note(&w);
	make_relocs(&w);
	if (w.params.error || w.note.error || w.symtab.error || w.strtab.error || w.rela.error)
		ret = npu_fail(-ENOMEM, "no memory for the ELF file");
	else
		ret = write_elf(&w, file, file_bytes);
	free(w.params.data);
	free(w.note.data);
	free(w.symtab.data);
	free(w.strtab.data);
	free(w.rela.data);
	free(w.shstrtab.data);
	return ret;
}
