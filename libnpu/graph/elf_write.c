// SPDX-License-Identifier: MIT
/*
 * Writes a compiled graph as an ELF file (docs/elf.md) with libelf, which writes to a file
 * descriptor: a memfd that is read back.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image.h"
#include "npu_fail.h"
#include "npu_fd.h"
#include "npu_fsize.h"

struct elf_strings {
	char *data;
	size_t bytes, cap;
};

struct elf_writer {
	const struct npu_image *img;
	Elf *elf;
	struct elf_strings shstr, str;
	Elf64_Sym *syms;
	uint32_t nr_syms, first_global;
	uint32_t const_sym, scratch_sym, *binding_syms;
	struct npu_elf_binding *bindings;
	Elf64_Rela *relas;
	char *params;
	size_t params_bytes;
	uint8_t *note;
	size_t cmd_ndx, const_ndx, scratch_ndx, symtab_ndx, strtab_ndx;
	int err;
};

/* Offset of @s in the table; 0, the empty string, if out of memory. */
static uint32_t elf_string(struct elf_writer *w, struct elf_strings *t, const char *s)
{
	size_t n = strlen(s) + 1, at;
	char *grown;

	if (!t->bytes)
		t->bytes = 1;
	if (t->bytes + n > t->cap) {
		grown = realloc(t->data, t->cap * 2 + n + 256);
		if (!grown) {
			w->err = -ENOMEM;
			return 0;
		}
		if (!t->cap)
			grown[0] = 0;
		t->data = grown;
		t->cap = t->cap * 2 + n + 256;
	}
	at = t->bytes;
	memcpy(t->data + at, s, n);
	t->bytes += n;
	return (uint32_t)at;
}

static size_t elf_section(struct elf_writer *w, const char *name, Elf64_Word type,
			  Elf64_Xword flags, uint32_t align, uint32_t entsize, Elf_Type data_type,
			  void *data, size_t bytes)
{
	uint32_t name_at = elf_string(w, &w->shstr, name);
	Elf_Scn *scn = w->err ? NULL : elf_newscn(w->elf);
	Elf64_Shdr *shdr = scn ? elf64_getshdr(scn) : NULL;
	Elf_Data *d = shdr ? elf_newdata(scn) : NULL;

	if (!d) {
		if (!w->err)
			w->err = -ENOMEM;
		return 0;
	}
	shdr->sh_name = name_at;
	shdr->sh_type = type;
	shdr->sh_flags = flags;
	shdr->sh_entsize = entsize;
	d->d_align = align;
	d->d_buf = data;
	d->d_size = bytes;
	d->d_type = data_type;
	d->d_version = EV_CURRENT;
	return elf_ndxscn(scn);
}

static void elf_link(struct elf_writer *w, size_t ndx, size_t link, size_t info)
{
	Elf64_Shdr *shdr = w->err ? NULL : elf64_getshdr(elf_getscn(w->elf, ndx));

	if (!shdr)
		return;
	shdr->sh_link = (Elf64_Word)link;
	shdr->sh_info = (Elf64_Word)info;
}

static void elf_add_content(struct elf_writer *w)
{
	const struct npu_image *img = w->img;

	w->cmd_ndx = elf_section(w, ".vnpu.cmd", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 8, 0,
				 ELF_T_BYTE, img->cmd, img->cmd_bytes);
	if (img->const_bytes)
		w->const_ndx = elf_section(w, ".vnpu.const", SHT_PROGBITS, SHF_ALLOC, 64, 0,
					   ELF_T_BYTE, img->consts, img->const_bytes);
	if (img->scratch_bytes)
		w->scratch_ndx = elf_section(w, ".vnpu.scratch", SHT_NOBITS, SHF_ALLOC | SHF_WRITE,
					     64, 0, ELF_T_BYTE, NULL, img->scratch_bytes);
}

static uint32_t elf_symbol(struct elf_writer *w, const char *name, unsigned char bind, size_t shndx,
			   uint64_t size)
{
	w->syms[w->nr_syms] = (Elf64_Sym){
		.st_name = elf_string(w, &w->str, name),
		.st_info = ELF64_ST_INFO(bind, STT_OBJECT),
		.st_shndx = (Elf64_Section)shndx,
		.st_size = size,
	};
	return w->nr_syms++;
}

/* Local symbols come before global ones. */
static void elf_add_symbols(struct elf_writer *w)
{
	const struct npu_image *img = w->img;

	w->syms = calloc(img->nr_symbols + 3, sizeof(*w->syms));
	w->bindings = calloc(img->nr_symbols + 1, sizeof(*w->bindings));
	if (!w->syms || !w->bindings) {
		w->err = -ENOMEM;
		return;
	}
	w->nr_syms = 1;
	if (w->const_ndx)
		w->const_sym = elf_symbol(w, "__const", STB_LOCAL, w->const_ndx, img->const_bytes);
	if (w->scratch_ndx)
		w->scratch_sym =
			elf_symbol(w, "__scratch", STB_LOCAL, w->scratch_ndx, img->scratch_bytes);
	w->first_global = w->nr_syms;
	for (uint32_t i = 0; i < img->nr_symbols; i++) {
		const struct npu_image_symbol *s = &img->symbols[i];

		w->bindings[i] = (struct npu_elf_binding){
			.symbol = elf_symbol(w, s->name, STB_GLOBAL, SHN_UNDEF, s->bytes),
			.kind = s->kind,
			.dtype = s->dtype,
			.rows = s->rows,
			.cols = s->cols,
			.group = s->group,
		};
	}
	w->symtab_ndx = elf_section(w, ".symtab", SHT_SYMTAB, 0, 8, sizeof(Elf64_Sym), ELF_T_SYM,
				    w->syms, w->nr_syms * sizeof(Elf64_Sym));
	elf_section(w, ".vnpu.bindings", SHT_PROGBITS, 0, 8, sizeof(*w->bindings), ELF_T_BYTE,
		    w->bindings, img->nr_symbols * sizeof(*w->bindings));
}

static void elf_add_relocs(struct elf_writer *w, const struct npu_image_reloc *relocs, uint32_t nr)
{
	const struct npu_image *img = w->img;
	size_t ndx;

	if (!nr || w->err)
		return;
	w->relas = calloc(nr, sizeof(*w->relas));
	if (!w->relas) {
		w->err = -ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < nr; i++) {
		uint32_t sym = relocs[i].slot == img->const_slot ? w->const_sym
			       : relocs[i].slot == img->scratch_slot
				       ? w->scratch_sym
				       : w->bindings[relocs[i].slot].symbol;

		w->relas[i] = (Elf64_Rela){
			.r_offset = relocs[i].offset,
			.r_info = ELF64_R_INFO((Elf64_Xword)sym, R_VNPU_REF),
			.r_addend = (Elf64_Sxword)relocs[i].addend,
		};
	}
	ndx = elf_section(w, ".rela.vnpu.cmd", SHT_RELA, SHF_INFO_LINK, 8, sizeof(Elf64_Rela),
			  ELF_T_RELA, w->relas, nr * sizeof(Elf64_Rela));
	elf_link(w, ndx, w->symtab_ndx, w->cmd_ndx);
}

static void elf_add_params(struct elf_writer *w)
{
	const struct npu_image *img = w->img;
	char *p;

	if (!img->nr_params || w->err)
		return;
	p = w->params = calloc(img->nr_params, NPU_NAME_BYTES);
	if (!p) {
		w->err = -ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < img->nr_params; i++) {
		size_t n = strlen(img->params[i]) + 1;

		memcpy(p, img->params[i], n);
		p += n;
	}
	elf_section(w, ".vnpu.params", SHT_PROGBITS, SHF_MERGE | SHF_STRINGS, 1, 1, ELF_T_BYTE,
		    w->params, (size_t)(p - w->params));
}

/* Writes one note at @at. Returns its end. */
static uint8_t *elf_put_note(uint8_t *at, Elf64_Word type, const void *desc, size_t bytes)
{
	Elf64_Nhdr nhdr = { .n_namesz = sizeof(NPU_NOTE_NAME),
			    .n_descsz = (Elf64_Word)bytes,
			    .n_type = type };

	memcpy(at, &nhdr, sizeof(nhdr));
	memcpy(at + sizeof(nhdr), NPU_NOTE_NAME, sizeof(NPU_NOTE_NAME));
	at += sizeof(nhdr) + NPU_NOTE_NAME_ROOM;
	memcpy(at, desc, bytes);
	return at + bytes;
}

static void elf_add_note(struct elf_writer *w)
{
	const size_t head = sizeof(Elf64_Nhdr) + NPU_NOTE_NAME_ROOM;
	const struct npu_image *img = w->img;
	uint8_t *end;

	w->note = calloc(1, 2 * head + sizeof(img->note) + sizeof(img->times));
	if (!w->note) {
		w->err = -ENOMEM;
		return;
	}
	end = elf_put_note(w->note, NPU_NOTE_GRAPH, &img->note, sizeof(img->note));
	if (img->times.profile[0])
		end = elf_put_note(end, NPU_NOTE_TIMES, &img->times, sizeof(img->times));
	elf_section(w, ".note.vnpu", SHT_NOTE, 0, 4, 0, ELF_T_BYTE, w->note,
		    (size_t)(end - w->note));
}

static void elf_add_strings(struct elf_writer *w)
{
	size_t ndx;

	elf_string(w, &w->str, "");
	w->strtab_ndx = elf_section(w, ".strtab", SHT_STRTAB, 0, 1, 0, ELF_T_BYTE, w->str.data,
				    w->str.bytes);
	elf_link(w, w->symtab_ndx, w->strtab_ndx, w->first_global);
	/* Add the section's own name before the table is complete. */
	elf_string(w, &w->shstr, ".shstrtab");
	ndx = elf_section(w, ".shstrtab", SHT_STRTAB, 0, 1, 0, ELF_T_BYTE, NULL, 0);
	if (!w->err) {
		Elf_Data *d = elf_getdata(elf_getscn(w->elf, ndx), NULL);

		d->d_buf = w->shstr.data;
		d->d_size = w->shstr.bytes;
		elf64_getehdr(w->elf)->e_shstrndx = (Elf64_Half)ndx;
	}
}

static int elf_build(struct elf_writer *w, int fd, const struct npu_image_reloc *relocs,
		     uint32_t nr_relocs)
{
	Elf64_Ehdr *ehdr;

	if (elf_version(EV_CURRENT) == EV_NONE)
		return -ENOTSUP;
	w->elf = elf_begin(fd, ELF_C_WRITE, NULL);
	ehdr = w->elf ? elf64_newehdr(w->elf) : NULL;
	if (!ehdr)
		return -ENOMEM;
	ehdr->e_ident[EI_DATA] = ELFDATA2LSB;
	ehdr->e_type = ET_REL;
	ehdr->e_machine = NPU_ELF_MACHINE;
	ehdr->e_version = EV_CURRENT;
	elf_add_content(w);
	elf_add_symbols(w);
	elf_add_relocs(w, relocs, nr_relocs);
	elf_add_params(w);
	elf_add_note(w);
	elf_add_strings(w);
	if (w->err)
		return w->err;
	errno = 0;
	if (elf_update(w->elf, ELF_C_WRITE) >= 0)
		return 0;
	return errno == EFBIG ? -EFBIG : -EIO;
}

static int elf_read_back(int fd, void **file, size_t *bytes)
{
	struct stat st;
	size_t got = 0;
	uint8_t *buf;
	ssize_t n;

	if (fstat(fd, &st))
		return -errno;
	buf = malloc((size_t)st.st_size);
	if (!buf)
		return -ENOMEM;
	while (got < (size_t)st.st_size) {
		n = pread(fd, buf + got, (size_t)st.st_size - got, (off_t)got);
		if (n <= 0) {
			free(buf);
			return n ? -errno : -EIO;
		}
		got += (size_t)n;
	}
	*file = buf;
	*bytes = got;
	return 0;
}

int npu_image_write(const struct npu_image *img, const struct npu_image_reloc *relocs,
		    uint32_t nr_relocs, void **file, size_t *bytes)
{
	struct elf_writer w = { .img = img };
	int fd = npu_fd_keep(memfd_create("npu-image", MFD_CLOEXEC)), ret;
	struct npu_fsize fsize;

	if (fd < 0)
		return npu_fail(-errno, "graph %s: memfd_create: %s", img->note.name,
				strerror(errno));
	npu_fsize_begin(&fsize);
	ret = elf_build(&w, fd, relocs, nr_relocs);
	npu_fsize_end(&fsize);
	if (!ret)
		ret = elf_read_back(fd, file, bytes);
	if (ret)
		npu_fail(ret, "graph %s: writing its ELF file: %s%s%s", img->note.name,
			 strerror(-ret), ret == -EIO ? ": " : "",
			 ret == -EIO	 ? elf_errmsg(-1)
			 : ret == -EFBIG ? "; raise ulimit -f"
					 : "");
	if (w.elf)
		elf_end(w.elf);
	close(fd);
	free(w.syms);
	free(w.bindings);
	free(w.relas);
	free(w.params);
	free(w.note);
	free(w.str.data);
	free(w.shstr.data);
	return ret;
}
