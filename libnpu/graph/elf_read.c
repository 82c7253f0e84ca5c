// SPDX-License-Identifier: MIT
/*
 * Reads a compiled graph (docs/elf.md). The file may have any contents: headers are checked here
 * against the file's size before libelf sees them, and everything else is checked where it is used.
 * The caller's bytes are copied once and not read again.
 */
#include <ctype.h>
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "isa_ops.h"
#include "npu_fail.h"
#include "npu_graph.h"

/* Limits the work that a forged file can cause; no compiler writes as many. */
#define ELF_MAX_SECTIONS 64

struct elf_reader {
	struct npu_image *img;
	uint8_t *file;
	size_t bytes;
	Elf *elf;
	Elf64_Shdr *shdrs;
	uint32_t nr_sections;
	Elf_Data *symtab;
	size_t strtab, cmd_ndx, const_ndx, scratch_ndx;
	uint32_t *slot_of_symbol; /* by symbol; VNPU_SLOT_NONE if it has none */
	size_t nr_syms;
};

#define BAD(...) npu_fail(-EINVAL, "image: " __VA_ARGS__)

/* ---- headers ---- */

static int elf_check_header(struct elf_reader *r)
{
	Elf64_Ehdr ehdr;

	if (r->bytes < sizeof(ehdr) || memcmp(r->file, ELFMAG, SELFMAG))
		return BAD("no ELF file");
	memcpy(&ehdr, r->file, sizeof(ehdr));
	if (ehdr.e_ident[EI_CLASS] != ELFCLASS64 || ehdr.e_ident[EI_DATA] != ELFDATA2LSB ||
	    ehdr.e_ident[EI_VERSION] != EV_CURRENT || ehdr.e_version != EV_CURRENT)
		return BAD("not a 64-bit little-endian ELF file");
	if (ehdr.e_type != ET_REL || ehdr.e_machine != NPU_ELF_MACHINE ||
	    ehdr.e_ehsize != sizeof(ehdr) || ehdr.e_phnum)
		return BAD("an ELF file, but not a compiled graph; npuc build makes one");
	if (ehdr.e_shentsize != sizeof(Elf64_Shdr) || ehdr.e_shnum < 2 ||
	    ehdr.e_shnum > ELF_MAX_SECTIONS || ehdr.e_shstrndx >= ehdr.e_shnum)
		return BAD("%u section headers of %u bytes", ehdr.e_shnum, ehdr.e_shentsize);
	if (ehdr.e_shoff % 8 || ehdr.e_shoff > r->bytes ||
	    r->bytes - ehdr.e_shoff < (size_t)ehdr.e_shnum * sizeof(Elf64_Shdr))
		return BAD("its section headers lie outside the file of %zu bytes", r->bytes);
	r->nr_sections = ehdr.e_shnum;
	r->shdrs = (Elf64_Shdr *)(r->file + ehdr.e_shoff);
	if (r->shdrs[0].sh_type != SHT_NULL || r->shdrs[ehdr.e_shstrndx].sh_type != SHT_STRTAB)
		return BAD("its section names are no string table");
	return 0;
}

static int elf_check_sections(struct elf_reader *r)
{
	for (uint32_t i = 1; i < r->nr_sections; i++) {
		const Elf64_Shdr *s = &r->shdrs[i];

		switch (s->sh_type) {
		case SHT_PROGBITS:
		case SHT_SYMTAB:
		case SHT_STRTAB:
		case SHT_RELA:
		case SHT_NOTE:
		case SHT_NOBITS:
			break;
		default:
			return BAD("section %u has type %u", i, s->sh_type);
		}
		if (s->sh_flags & SHF_COMPRESSED)
			return BAD("section %u is compressed", i);
		if (s->sh_size > NPU_IMAGE_MAX_BYTES || (s->sh_addralign & (s->sh_addralign - 1)) ||
		    s->sh_addralign > 4096)
			return BAD("section %u has an invalid size or alignment", i);
		if (s->sh_type == SHT_NOBITS)
			continue;
		if (s->sh_offset > r->bytes || s->sh_size > r->bytes - s->sh_offset)
			return BAD("section %u lies outside the file of %zu bytes", i, r->bytes);
		if (s->sh_addralign > 1 && s->sh_offset % s->sh_addralign)
			return BAD("section %u is not aligned", i);
		if (s->sh_type == SHT_STRTAB &&
		    (!s->sh_size || r->file[s->sh_offset + s->sh_size - 1]))
			return BAD("string table %u has no end", i);
		if ((s->sh_type == SHT_SYMTAB || s->sh_type == SHT_RELA) &&
		    (s->sh_entsize !=
			     (s->sh_type == SHT_SYMTAB ? sizeof(Elf64_Sym) : sizeof(Elf64_Rela)) ||
		     s->sh_size % s->sh_entsize || s->sh_addralign != 8))
			return BAD("section %u has entries of a wrong size", i);
		if (s->sh_link >= r->nr_sections)
			return BAD("section %u refers to section %u", i, s->sh_link);
	}
	return 0;
}

/* Index of the section, 0 if there is none. */
static size_t elf_find(struct elf_reader *r, const char *name, Elf64_Word type)
{
	size_t shstrndx;
	const char *s;

	if (elf_getshdrstrndx(r->elf, &shstrndx))
		return 0;
	for (size_t i = 1; i < r->nr_sections; i++) {
		if (r->shdrs[i].sh_type != type)
			continue;
		s = elf_strptr(r->elf, shstrndx, r->shdrs[i].sh_name);
		if (s && !strcmp(s, name))
			return i;
	}
	return 0;
}

/* The section's bytes; NULL if it does not exist or is empty. */
static Elf_Data *elf_data(struct elf_reader *r, size_t ndx)
{
	Elf_Scn *scn = ndx ? elf_getscn(r->elf, ndx) : NULL;
	Elf_Data *d = scn ? elf_getdata(scn, NULL) : NULL;

	return d && d->d_buf && d->d_size == r->shdrs[ndx].sh_size ? d : NULL;
}

static bool elf_copy_name(char out[NPU_NAME_BYTES], const char *s)
{
	size_t n = 0;

	while (s && n < NPU_NAME_BYTES && isgraph((unsigned char)s[n])) {
		out[n] = s[n];
		n++;
	}
	if (!s || !n || n == NPU_NAME_BYTES || s[n])
		return false;
	out[n] = 0;
	return true;
}

/* ---- contents ---- */

/* Reads the note at *at if it is of @type and has a descriptor of exactly @bytes; advances *at. */
static bool elf_take_note(const Elf_Data *d, size_t *at, Elf64_Word type, void *desc, size_t bytes)
{
	const size_t head = sizeof(Elf64_Nhdr) + NPU_NOTE_NAME_ROOM;
	const uint8_t *p = (const uint8_t *)d->d_buf + *at;
	Elf64_Nhdr nhdr;

	if (d->d_size - *at < head + bytes)
		return false;
	memcpy(&nhdr, p, sizeof(nhdr));
	if (nhdr.n_namesz != sizeof(NPU_NOTE_NAME) || nhdr.n_descsz != bytes ||
	    nhdr.n_type != type || memcmp(p + sizeof(nhdr), NPU_NOTE_NAME, sizeof(NPU_NOTE_NAME)))
		return false;
	memcpy(desc, p + head, bytes);
	*at += head + bytes;
	return true;
}

static int elf_read_note(struct elf_reader *r)
{
	Elf_Data *d = elf_data(r, elf_find(r, ".note.vnpu", SHT_NOTE));
	struct npu_elf_note *note = &r->img->note;
	struct npu_elf_times *times = &r->img->times;
	char name[NPU_NAME_BYTES];
	size_t at = 0;

	if (!d)
		return BAD("no .note.vnpu; this is not a compiled graph");
	if (!elf_take_note(d, &at, NPU_NOTE_GRAPH, note, sizeof(*note)))
		return BAD("its note is short, or of another kind or version");
	if (!memchr(note->name, 0, sizeof(note->name)) || !elf_copy_name(name, note->name))
		return BAD("the graph's name in its note is not printable");
	if (note->isa_version >> 16 != VNPU_ISA_MAJOR)
		return BAD("for ISA %u.%u, this libnpu knows %u.x; compile it again",
			   note->isa_version >> 16, note->isa_version & 0xffff, VNPU_ISA_MAJOR);
	if (at == d->d_size)
		return 0;
	if (!elf_take_note(d, &at, NPU_NOTE_TIMES, times, sizeof(*times)) || at != d->d_size)
		return BAD("its second note is of another kind or version");
	if (!memchr(times->profile, 0, sizeof(times->profile)) ||
	    !elf_copy_name(name, times->profile))
		return BAD("the profile's name in its note is not printable");
	return 0;
}

static int elf_read_memory(struct elf_reader *r)
{
	struct npu_image *img = r->img;
	Elf_Data *d;

	r->cmd_ndx = elf_find(r, ".vnpu.cmd", SHT_PROGBITS);
	r->const_ndx = elf_find(r, ".vnpu.const", SHT_PROGBITS);
	r->scratch_ndx = elf_find(r, ".vnpu.scratch", SHT_NOBITS);
	d = elf_data(r, r->cmd_ndx);
	if (!d || d->d_size < sizeof(struct vnpu_stream_hdr) + sizeof(struct vnpu_cmd) ||
	    d->d_size > VNPU_MAX_STREAM_BYTES || d->d_size % 8)
		return BAD("no .vnpu.cmd, or one of a wrong size");
	img->cmd = malloc(d->d_size);
	if (!img->cmd)
		return npu_fail(-ENOMEM, "image: out of memory");
	memcpy(img->cmd, d->d_buf, d->d_size);
	img->cmd_bytes = (uint32_t)d->d_size;
	d = elf_data(r, r->const_ndx);
	if (d) {
		img->const_bytes = d->d_size;
		img->consts = malloc(d->d_size);
		if (!img->consts)
			return npu_fail(-ENOMEM, "image: out of memory");
		memcpy(img->consts, d->d_buf, d->d_size);
	}
	if (r->scratch_ndx)
		img->scratch_bytes = r->shdrs[r->scratch_ndx].sh_size;
	return 0;
}

/* A binding's group is valid for its type. */
static bool elf_group_ok(const struct npu_elf_binding *b)
{
	switch (b->dtype) {
	case NPU_W4_PANEL:
		return npu_w4_bytes(1, b->group, b->group);
	case NPU_KQ_PANEL:
		return b->group < VNPU_NR_KQ_TYPES;
	default:
		return !b->group;
	}
}

static int elf_read_binding(struct elf_reader *r, const struct npu_elf_binding *b, uint32_t slot)
{
	struct npu_image_symbol *s = &r->img->symbols[slot];
	Elf64_Sym sym;

	if (b->kind >= NPU_SYMBOL_KINDS || b->dtype >= NPU_NR_DTYPES || !b->symbol ||
	    b->symbol >= r->nr_syms || !elf_group_ok(b))
		return BAD("binding %u has an invalid value", slot);
	memcpy(&sym, (uint8_t *)r->symtab->d_buf + b->symbol * sizeof(sym), sizeof(sym));
	if (sym.st_shndx != SHN_UNDEF || !sym.st_size || sym.st_size > NPU_IMAGE_MAX_BYTES)
		return BAD("the symbol of binding %u is defined here, or has an invalid size",
			   slot);
	if (!elf_copy_name(s->name, elf_strptr(r->elf, r->strtab, sym.st_name)))
		return BAD("the name of binding %u is not printable", slot);
	if (r->slot_of_symbol[b->symbol] != VNPU_SLOT_NONE)
		return BAD("'%s' is bound twice", s->name);
	r->slot_of_symbol[b->symbol] = slot;
	s->kind = b->kind;
	s->dtype = b->dtype;
	s->rows = b->rows;
	s->cols = b->cols;
	s->group = b->group;
	s->bytes = sym.st_size;
	return 0;
}

static int elf_read_symtab(struct elf_reader *r)
{
	size_t ndx = elf_find(r, ".symtab", SHT_SYMTAB);

	r->symtab = elf_data(r, ndx);
	if (!r->symtab)
		return BAD("no symbol table");
	r->strtab = r->shdrs[ndx].sh_link;
	if (r->shdrs[r->strtab].sh_type != SHT_STRTAB)
		return BAD("its symbol table has no names");
	r->nr_syms = r->symtab->d_size / sizeof(Elf64_Sym);
	r->slot_of_symbol = malloc(r->nr_syms * sizeof(*r->slot_of_symbol));
	if (!r->slot_of_symbol)
		return npu_fail(-ENOMEM, "image: out of memory");
	memset(r->slot_of_symbol, 0xff, r->nr_syms * sizeof(*r->slot_of_symbol));
	return 0;
}

static int elf_read_bindings(struct elf_reader *r)
{
	struct npu_image *img = r->img;
	Elf_Data *d = elf_data(r, elf_find(r, ".vnpu.bindings", SHT_PROGBITS));
	struct npu_elf_binding b;
	int ret = 0;

	if (d) {
		if (d->d_size % sizeof(b) || d->d_size / sizeof(b) > NPU_MAX_SYMBOLS)
			return BAD(".vnpu.bindings has %zu bytes", d->d_size);
		img->nr_symbols = (uint32_t)(d->d_size / sizeof(b));
	}
	img->symbols = calloc(img->nr_symbols + 1, sizeof(*img->symbols));
	if (!img->symbols)
		return npu_fail(-ENOMEM, "image: out of memory");
	for (uint32_t i = 0; i < img->nr_symbols && !ret; i++) {
		memcpy(&b, (uint8_t *)d->d_buf + i * sizeof(b), sizeof(b));
		ret = elf_read_binding(r, &b, i);
		for (uint32_t k = 0; k < i && !ret; k++)
			if (!strcmp(img->symbols[k].name, img->symbols[i].name))
				ret = BAD("the name '%s' is taken twice", img->symbols[i].name);
	}
	img->nr_slots = img->nr_symbols;
	img->const_slot = img->const_bytes ? img->nr_slots++ : VNPU_SLOT_NONE;
	img->scratch_slot = img->scratch_bytes ? img->nr_slots++ : VNPU_SLOT_NONE;
	return ret;
}

static int elf_read_params(struct elf_reader *r)
{
	struct npu_image *img = r->img;
	Elf_Data *d = elf_data(r, elf_find(r, ".vnpu.params", SHT_PROGBITS));
	const char *p, *end;

	img->params = calloc(VNPU_MAX_PARAMS, sizeof(*img->params));
	if (!img->params)
		return npu_fail(-ENOMEM, "image: out of memory");
	if (!d)
		return 0;
	p = d->d_buf;
	end = p + d->d_size;
	if (end[-1])
		return BAD(".vnpu.params has no end");
	for (; p < end; p += strlen(p) + 1) {
		if (img->nr_params == VNPU_MAX_PARAMS ||
		    !elf_copy_name(img->params[img->nr_params], p))
			return BAD(".vnpu.params: param %u is not printable, or one too many",
				   img->nr_params);
		img->nr_params++;
	}
	return 0;
}

static int elf_apply_rela(struct elf_reader *r, const Elf64_Rela *rela, uint64_t index)
{
	struct npu_image *img = r->img;
	size_t symbol = ELF64_R_SYM(rela->r_info);
	struct vnpu_ref ref = { 0 };
	Elf64_Sym sym;

	if (ELF64_R_TYPE(rela->r_info) != R_VNPU_REF || symbol >= r->nr_syms)
		return BAD("relocation %llu has a type or a symbol that does not exist",
			   (unsigned long long)index);
	if (rela->r_offset % 8 || rela->r_offset < sizeof(struct vnpu_stream_hdr) ||
	    rela->r_offset > img->cmd_bytes - sizeof(ref))
		return BAD("relocation %llu lies outside the stream", (unsigned long long)index);
	memcpy(&sym, (uint8_t *)r->symtab->d_buf + symbol * sizeof(sym), sizeof(sym));
	if (r->slot_of_symbol[symbol] != VNPU_SLOT_NONE)
		ref.slot = r->slot_of_symbol[symbol];
	else if (sym.st_shndx && sym.st_shndx == r->const_ndx && img->const_slot != VNPU_SLOT_NONE)
		ref.slot = img->const_slot;
	else if (sym.st_shndx && sym.st_shndx == r->scratch_ndx &&
		 img->scratch_slot != VNPU_SLOT_NONE)
		ref.slot = img->scratch_slot;
	else
		return BAD("relocation %llu is for a symbol without memory",
			   (unsigned long long)index);
	ref.offset = (uint64_t)rela->r_addend + (sym.st_shndx ? sym.st_value : 0);
	memcpy(img->cmd + rela->r_offset, &ref, sizeof(ref));
	return 0;
}

static int elf_relocate(struct elf_reader *r)
{
	size_t ndx = elf_find(r, ".rela.vnpu.cmd", SHT_RELA);
	Elf_Data *d = elf_data(r, ndx);
	Elf64_Rela rela;
	int ret = 0;

	if (!d)
		return 0;
	if (r->shdrs[ndx].sh_info != r->cmd_ndx)
		return BAD("its relocations are not for .vnpu.cmd");
	for (size_t i = 0; i < d->d_size / sizeof(rela) && !ret; i++) {
		memcpy(&rela, (uint8_t *)d->d_buf + i * sizeof(rela), sizeof(rela));
		ret = elf_apply_rela(r, &rela, i);
	}
	return ret;
}

/* Checks the stream's outer form; the firmware checks the rest with each run's bindings. */
static int elf_check_stream(struct npu_image *img)
{
	struct vnpu_stream_hdr hdr;
	const struct isa_operand *o;
	const struct isa_op *op;
	struct vnpu_cmd cmd;
	uint32_t at = sizeof(hdr), nr = 0, slot;

	memcpy(&hdr, img->cmd, sizeof(hdr));
	if (hdr.magic != VNPU_STREAM_MAGIC || hdr.isa_major != VNPU_ISA_MAJOR ||
	    hdr.size_bytes != img->cmd_bytes || hdr.nr_slots != img->nr_slots ||
	    hdr.nr_params != img->nr_params || hdr.reserved)
		return BAD("the stream's header does not fit the file");
	do {
		if (img->cmd_bytes - at < sizeof(cmd))
			return BAD("the stream has no end");
		memcpy(&cmd, img->cmd + at, sizeof(cmd));
		op = isa_op(cmd.op);
		if (!op || cmd.flags & ~isa_flags(op, hdr.isa_minor) ||
		    cmd.size_bytes != isa_bytes(op, cmd.flags) ||
		    cmd.size_bytes > img->cmd_bytes - at)
			return BAD("command %u: opcode %u of %u bytes, flags %#x, does not exist",
				   nr, cmd.op, cmd.size_bytes, cmd.flags);
		for (o = op->operands; o->name; o++) {
			memcpy(&slot, img->cmd + at + o->at, sizeof(slot));
			if (slot >= img->nr_slots && slot != VNPU_SLOT_NONE)
				return BAD("command %u: slot %u of %u", nr, slot, img->nr_slots);
		}
		at += cmd.size_bytes;
		nr++;
	} while (cmd.op != VNPU_OP_END);
	if (at != img->cmd_bytes || nr != hdr.nr_cmds || nr != img->note.nr_cmds)
		return BAD("the stream has %u commands in %u bytes, its header says otherwise", nr,
			   at);
	return 0;
}

static int elf_parse(struct elf_reader *r)
{
	int ret = elf_check_header(r);

	if (!ret)
		ret = elf_check_sections(r);
	if (ret)
		return ret;
	if (elf_version(EV_CURRENT) == EV_NONE)
		return npu_fail(-ENOTSUP, "image: libelf is too old");
	r->elf = elf_memory((char *)r->file, r->bytes);
	if (!r->elf)
		return BAD("libelf: %s", elf_errmsg(-1));
	ret = elf_read_note(r);
	if (!ret)
		ret = elf_read_memory(r);
	if (!ret)
		ret = elf_read_symtab(r);
	if (!ret)
		ret = elf_read_bindings(r);
	if (!ret)
		ret = elf_read_params(r);
	if (!ret)
		ret = elf_relocate(r);
	return ret ? ret : elf_check_stream(r->img);
}

int npu_image_parse(const void *file, size_t bytes, struct npu_image *img)
{
	struct elf_reader r = { .img = img, .bytes = bytes };
	int ret;

	memset(img, 0, sizeof(*img));
	if (!file || !bytes || bytes > 2 * NPU_IMAGE_MAX_BYTES)
		return BAD("%zu bytes", bytes);
	r.file = malloc(bytes);
	if (!r.file)
		return npu_fail(-ENOMEM, "image: %zu bytes: out of memory", bytes);
	memcpy(r.file, file, bytes);
	ret = elf_parse(&r);
	if (r.elf)
		elf_end(r.elf);
	free(r.slot_of_symbol);
	free(r.file);
	if (ret)
		npu_image_release(img);
	return ret;
}

void npu_image_release(struct npu_image *img)
{
	free(img->cmd);
	free(img->consts);
	free(img->symbols);
	free(img->params);
	memset(img, 0, sizeof(*img));
}

int npu_image_info(const void *image, size_t image_bytes, struct npu_image_info *info)
{
	struct npu_image img;
	int ret = npu_image_parse(image, image_bytes, &img);

	memset(info, 0, sizeof(*info));
	if (ret)
		return ret;
	*info = (struct npu_image_info){
		.isa_version = img.note.isa_version,
		.nr_cmds = img.note.nr_cmds,
		.nr_symbols = img.nr_symbols,
		.nr_params = img.nr_params,
		.cmd_bytes = img.cmd_bytes,
		.const_bytes = img.const_bytes,
		.scratch_bytes = img.scratch_bytes,
		.macs = img.note.macs,
		.bytes_moved = img.note.bytes_moved,
		.device_ns = img.times.device_ns,
		.device_cycles = img.times.device_cycles,
	};
	strcpy(info->name, img.note.name);
	strcpy(info->profile, img.times.profile);
	npu_image_release(&img);
	return 0;
}
