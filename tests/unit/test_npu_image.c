// SPDX-License-Identifier: MIT
/*
 * Compiled graphs as files: what is written can be read back, also by binutils; listings are right;
 * and no sequence of bytes does any harm.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "image.h"
#include "npu_fixture.h"
#include "npu_random.h"

/* A file with one of everything. */
static void *sample_image(size_t *bytes)
{
	struct npu_graph *g = npu_graph_create("sample");
	int pos = npu_graph_param(g, "pos");
	const float freq[2] = { 1, 0.01f };
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 2, 8), *k, *v, *w, *s, *q, *t;
	void *image;

	k = npu_graph_state(g, "k", NPU_F32, 16, 8);
	v = npu_graph_state(g, "v", NPU_F32, 16, 8);
	w = npu_graph_weight(g, "w", NPU_W8_PANEL, 8, 8);
	t = npu_rope(g, x, npu_graph_const(g, "inv_freq", freq, 1, 2), 2, pos, NPU_ROPE_HALVES);
	npu_ok(npu_store_rows(g, t, k, pos));
	npu_ok(npu_store_rows(g, x, v, pos));
	t = npu_attn(g, t, k, v, 2, 2, 0.5f, pos);
	q = npu_quant(g, t, &s);
	t = npu_matmul_i8(g, q, s, w, NULL);
	npu_graph_output(g, "y", npu_add(g, npu_silu(g, t), x));
	npu_ok(npu_graph_predict(g, "sd8gen3"));
	npu_ok(npu_graph_compile(g, &image, bytes));
	npu_graph_free(g);
	return image;
}

static void a_written_image_is_read_back(void **state)
{
	static const char *const names[] = { "x", "k", "v", "w", "y" };
	static const uint32_t kinds[] = { NPU_SYMBOL_INPUT, NPU_SYMBOL_STATE, NPU_SYMBOL_STATE,
					  NPU_SYMBOL_WEIGHT, NPU_SYMBOL_OUTPUT };
	const uint64_t sizes[] = { 64, 512, 512, npu_w8_bytes(8, 8), 64 };
	struct npu_image_info info;
	struct npu_image img;
	size_t bytes;
	void *image = sample_image(&bytes);

	npu_ok(npu_image_parse(image, bytes, &img));
	assert_int_equal(img.nr_symbols, 5);
	for (int i = 0; i < 5; i++) {
		assert_string_equal(img.symbols[i].name, names[i]);
		assert_int_equal(img.symbols[i].kind, kinds[i]);
		assert_int_equal(img.symbols[i].bytes, sizes[i]);
	}
	assert_int_equal(img.symbols[3].dtype, NPU_W8_PANEL);
	assert_int_equal(img.symbols[1].rows, 16);
	assert_int_equal(img.nr_params, 1);
	assert_string_equal(img.params[0], "pos");
	assert_int_equal(img.const_bytes, 8);
	assert_true(((float *)img.consts)[1] == 0.01f);
	assert_int_equal(img.const_slot, 5);
	assert_int_equal(img.scratch_slot, 6);
	npu_ok(npu_image_info(image, bytes, &info));
	assert_string_equal(info.name, "sample");
	assert_int_equal(info.nr_cmds, img.note.nr_cmds);
	assert_int_equal(info.scratch_bytes, img.scratch_bytes);
	assert_int_equal(info.isa_version, VNPU_ISA_MAJOR << 16);
	assert_string_equal(info.profile, "sd8gen3");
	assert_true(info.device_ns > 600000 && info.device_cycles > 450000);
	assert_int_equal(info.device_ns, img.times.device_ns);
	assert_int_equal(info.device_cycles, img.times.device_cycles);
	npu_image_release(&img);
	free(image);
}

static char *disassemble(const void *image, size_t bytes, const char *profile)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	npu_ok(npu_image_disassemble(image, bytes, profile, f));
	fclose(f);
	return text;
}

static void the_listing_names_symbols_params_and_operands(void **state)
{
	static const char *const lines[] = {
		"graph sample isa=1.0 cmds=",
		"slot 0 input x f32 [2][8] bytes=64\n",
		"slot 1 state k f32 [16][8] bytes=512\n",
		"slot 3 weight w w8 [8][8] bytes=1024\n",
		"slot 4 output y f32 [2][8] bytes=64\n",
		"slot 5 const __const bytes=8\n",
		"slot 6 scratch __scratch bytes=",
		"param 0 pos\n",
		": copy dst=v src=x rows=2 row_bytes=32 src_stride=32 dst_stride=32 dst_row=pos\n",
		" x=x inv_freq=__const rows=2 heads=2 head_dim=4 rot_dim=4 ldx=8 ldy=8 mode=halves "
		"pos=pos\n",
		" k=k v=v rows=2 heads=2 kv_heads=2 head_dim=4 ctx_rows=16 ldq=8 ldk=8 ldv=8 ldy=8 "
		"scale=0.5 kv=f32 pos=pos\n",
		" w=w bias=none m=2 n=8 k=8 lda=8 ldc=8 tile=2x64\n",
		": barrier\n",
		": end\n",
	};
	size_t bytes;
	void *image = sample_image(&bytes);
	char *text = disassemble(image, bytes, NULL);

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (!strstr(text, lines[i]))
			fail_msg("missing: %sin:\n%s", lines[i], text);
	free(text);
	free(image);
}

/* A stream has the lowest version that it needs, and a cache its type. */
static void narrow_caches_need_version_1_2(void **state)
{
	static const char *const names[] = { "f16", "q8_0" };
	static const enum npu_dtype types[] = { NPU_F16, NPU_Q8_0 };
	static const uint64_t sizes[] = { 16 * 64, 16 * 34 };

	for (int i = 0; i < 2; i++) {
		struct npu_graph *g = npu_graph_create("kv");
		struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 2, 32), *k;
		char line[128], *text;
		struct npu_image img;
		size_t bytes;
		void *image;

		k = npu_graph_state(g, "k", types[i], 16, 32);
		npu_ok(npu_store_rows(g, x, k, NPU_NO_PARAM));
		npu_graph_output(g, "y", npu_attn(g, x, k, k, 1, 1, 0.5f, NPU_NO_PARAM));
		npu_ok(npu_graph_compile(g, &image, &bytes));
		npu_graph_free(g);
		npu_ok(npu_image_parse(image, bytes, &img));
		assert_int_equal(img.note.isa_version, VNPU_ISA_MAJOR << 16 | 2);
		assert_int_equal(((const struct vnpu_stream_hdr *)img.cmd)->isa_minor, 2);
		assert_int_equal(img.symbols[1].dtype, types[i]);
		assert_int_equal(img.symbols[1].bytes, sizes[i]);
		npu_image_release(&img);
		text = disassemble(image, bytes, NULL);
		snprintf(line, sizeof(line),
			 ": store dst=k x=x rows=2 cols=32 ldx=32 ld_dst=32 type=%s\n", names[i]);
		assert_non_null(strstr(text, line));
		snprintf(line, sizeof(line), " scale=0.5 kv=%s\n", names[i]);
		assert_non_null(strstr(text, line));
		free(text);
		free(image);
	}
}

/* A stream does not need a newer device than its operations do. */
static void an_image_has_the_isa_version_that_its_operations_need(void **state)
{
	struct npu_graph *g = npu_graph_create("w4");
	struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 2, 128);
	struct npu_image_info info;
	struct npu_image img;
	char *text;
	size_t bytes;
	void *image;

	npu_graph_output(g, "y",
			 npu_matmul_w4f(g, x, npu_graph_weight_w4(g, "w", 8, 128, 64), NULL));
	npu_ok(npu_graph_compile(g, &image, &bytes));
	npu_graph_free(g);
	npu_ok(npu_image_info(image, bytes, &info));
	assert_int_equal(info.isa_version, 1 << 16 | 2);
	npu_ok(npu_image_parse(image, bytes, &img));
	assert_int_equal(((struct vnpu_stream_hdr *)img.cmd)->isa_minor, 2);
	assert_int_equal(img.symbols[1].dtype, NPU_W4_PANEL);
	assert_int_equal(img.symbols[1].group, 64);
	npu_image_release(&img);
	text = disassemble(image, bytes, NULL);
	assert_non_null(strstr(text, "graph w4 isa=1.2 cmds=2 macs=2048 bytes_moved=5440\n"));
	assert_non_null(strstr(text, "slot 1 weight w w4 [8][128] group=64 bytes=4352\n"));
	assert_non_null(strstr(
		text, ": matmul_w4f c=y a=x w=w bias=none m=2 n=8 k=128 group=64 lda=128 ldc=8 "
		      "tile=2x64\n"));
	free(text);
	free(image);
}

/* Each command's line has its time, and the times add up to the image's prediction. */
static void a_listing_for_a_profile_has_the_time_of_each_command(void **state)
{
	unsigned long long ns = 0, cycles = 0, sum_ns, sum_cycles, t[4];
	struct npu_image_info info;
	size_t bytes, nr = 0;
	void *image = sample_image(&bytes);
	char *text = disassemble(image, bytes, "sd8gen3"),
	     *line = strstr(text, "\nprofile sd8gen3 ");

	npu_ok(npu_image_info(image, bytes, &info));
	assert_non_null(line);
	assert_int_equal(sscanf(strstr(line, "launch_ns="),
				"launch_ns=%llu launch_cycles=%llu device_ns=%llu cycles=%llu",
				&t[0], &t[1], &t[2], &t[3]),
			 4);
	sum_ns = t[0];
	sum_cycles = t[1];
	for (line = strchr(line + 1, '\n') + 1; *line; line = strchr(line, '\n') + 1, nr++) {
		char *end = strchr(line, '\n'), *at = strstr(line, " device_ns=");

		assert_true(at && at < end);
		assert_int_equal(sscanf(at, " device_ns=%llu cycles=%llu", &ns, &cycles), 2);
		sum_ns += ns;
		sum_cycles += cycles;
	}
	assert_int_equal(nr, info.nr_cmds);
	assert_int_equal(sum_ns, info.device_ns);
	assert_int_equal(sum_cycles, info.device_cycles);
	assert_int_equal(t[2], info.device_ns);
	assert_int_equal(t[3], info.device_cycles);
	free(text);
	npu_fails(npu_image_disassemble(image, bytes, "no-such-soc", stderr), -ENOENT,
		  "profile no-such-soc");
	free(image);
}

static void a_graph_predicts_for_the_given_profile_or_not_at_all(void **state)
{
	static const char *const profiles[] = { NULL, "sd8gen3", "sd8elite", "host" };
	uint64_t ns[4];

	for (int i = 0; i < 4; i++) {
		struct npu_graph *g = npu_graph_create("one");
		struct npu_tensor *x = npu_graph_input(g, "x", NPU_F32, 64, 64);
		struct npu_image_info info;
		size_t bytes;
		void *image;

		npu_graph_output(g, "y", npu_gelu(g, x));
		npu_fails(npu_graph_predict(g, "no-such-soc"), -ENOENT, "profile no-such-soc");
		npu_fails(npu_graph_predict(g, "/dev/null"), -EINVAL, "profile /dev/null");
		/* The last call counts. */
		npu_ok(npu_graph_predict(g, "sd8gen2"));
		npu_ok(npu_graph_predict(g, profiles[i]));
		npu_ok(npu_graph_compile(g, &image, &bytes));
		npu_ok(npu_image_info(image, bytes, &info));
		assert_string_equal(info.profile, profiles[i] ? profiles[i] : "");
		ns[i] = info.device_ns;
		npu_graph_free(g);
		free(image);
	}
	assert_int_equal(ns[0], 0);
	assert_true(ns[1] && ns[2] && ns[3] && ns[1] != ns[2] && ns[2] != ns[3]);
}

/* Bytes that the command wrote to stderr, or -1 if it failed. */
static long stderr_of(const char *command, const char *file)
{
	char line[1024], out[256];
	int fd = fixture_file(out, sizeof(out));
	long n;

	snprintf(line, sizeof(line), "LC_ALL=C %s %s 2>%s >/dev/null", command, file, out);
	n = system(line) ? -1 : lseek(fd, 0, SEEK_END);
	close(fd);
	unlink(out);
	return n;
}

static void binutils_read_the_file_without_a_warning(void **state)
{
	char path[256];
	int fd = fixture_file(path, sizeof(path));
	size_t bytes;
	void *image = sample_image(&bytes);

	assert_int_equal(write(fd, image, bytes), bytes);
	close(fd);
	free(image);
	if (stderr_of("readelf --version", "") || stderr_of("objdump --version", "")) {
		unlink(path);
		skip();
	}
	assert_int_equal(stderr_of("readelf -a", path), 0);
	assert_int_equal(stderr_of("objdump -h -t -r", path), 0);
	unlink(path);
}

/* ---- invalid images ---- */

static void refused(const void *image, size_t bytes, const char *text)
{
	struct npu_image img;
	int ret = npu_image_parse(image, bytes, &img);

	if (ret != -EINVAL || !strstr(npu_error(), text))
		fail_msg("%d: %s (wanted: %s)", ret, npu_error(), text);
}

static Elf64_Shdr *section(void *image, const char *name)
{
	Elf64_Ehdr *ehdr = image;
	Elf64_Shdr *shdrs = (Elf64_Shdr *)((uint8_t *)image + ehdr->e_shoff);

	for (unsigned int i = 1; i < ehdr->e_shnum; i++)
		if (!strcmp((char *)image + shdrs[ehdr->e_shstrndx].sh_offset + shdrs[i].sh_name,
			    name))
			return &shdrs[i];
	fail_msg("no section %s", name);
	return NULL;
}

/* Each damages one thing in a good image. */
enum damage {
	D_MAGIC,
	D_CLASS,
	D_TYPE,
	D_MACHINE,
	D_SHOFF,
	D_SHNUM,
	D_SHSTRNDX,
	D_SECTION_OFFSET,
	D_SECTION_SIZE,
	D_SECTION_TYPE,
	D_SECTION_ALIGN,
	D_COMPRESSED,
	D_STRTAB_END,
	D_NOTE_NAME,
	D_NOTE_SECOND,
	D_NOTE_SECOND_SIZE,
	D_NOTE_PROFILE,
	D_NOTE_ISA,
	D_NOTE_TEXT,
	D_NO_CMD,
	D_SYMTAB_ENTSIZE,
	D_BINDING_KIND,
	D_BINDING_TYPE,
	D_BINDING_GROUP,
	D_BINDING_NO_GROUP,
	D_BINDING_SYMBOL,
	D_BINDING_TWICE,
	D_SYMBOL_NAME,
	D_SYMBOL_SIZE,
	D_SAME_NAMES,
	D_RELA_OFFSET,
	D_RELA_ALIGN,
	D_RELA_TYPE,
	D_RELA_SYMBOL,
	D_RELA_TARGET,
	D_PARAM_TEXT,
	D_PARAM_END,
	D_STREAM_MAGIC,
	D_STREAM_SIZE,
	D_STREAM_SLOTS,
	D_STREAM_CMDS,
	D_CMD_OP,
	D_CMD_SIZE,
	D_CMD_FLAGS,
	D_CMD_SLOT,
	D_NO_END,
	NR_DAMAGE,
};

static void damage_file(uint8_t *image, enum damage what)
{
	Elf64_Ehdr *ehdr = (Elf64_Ehdr *)image;

	switch (what) {
	case D_MAGIC:
		image[1] = 'F';
		break;
	case D_CLASS:
		image[EI_CLASS] = ELFCLASS32;
		break;
	case D_TYPE:
		ehdr->e_type = ET_EXEC;
		break;
	case D_MACHINE:
		ehdr->e_machine = EM_X86_64;
		break;
	case D_SHOFF:
		ehdr->e_shoff = UINT64_MAX - 63;
		break;
	case D_SHNUM:
		ehdr->e_shnum = 60000;
		break;
	case D_SHSTRNDX:
		ehdr->e_shstrndx = 200;
		break;
	case D_SECTION_OFFSET:
		section(image, ".vnpu.cmd")->sh_offset = UINT64_MAX - 7;
		break;
	case D_SECTION_SIZE:
		section(image, ".vnpu.const")->sh_size = 1ull << 35;
		break;
	case D_SECTION_TYPE:
		section(image, ".vnpu.const")->sh_type = SHT_GROUP;
		break;
	case D_SECTION_ALIGN:
		section(image, ".vnpu.const")->sh_addralign = 48;
		break;
	case D_COMPRESSED:
		section(image, ".vnpu.const")->sh_flags |= SHF_COMPRESSED;
		break;
	default: {
		Elf64_Shdr *s = section(image, ".strtab");

		image[s->sh_offset + s->sh_size - 1] = 'x';
	}
	}
}

static void damage_tables(uint8_t *image, enum damage what)
{
	struct npu_elf_note *note = (void *)(image + section(image, ".note.vnpu")->sh_offset + 20);
	uint8_t *profile = (uint8_t *)(note + 1) + 20 + offsetof(struct npu_elf_times, profile);
	struct npu_elf_binding *b = (void *)(image + section(image, ".vnpu.bindings")->sh_offset);
	Elf64_Sym *syms = (void *)(image + section(image, ".symtab")->sh_offset);
	Elf64_Rela *rela = (void *)(image + section(image, ".rela.vnpu.cmd")->sh_offset);

	switch (what) {
	case D_NOTE_NAME:
		image[section(image, ".note.vnpu")->sh_offset + 12] = 'V';
		break;
	case D_NOTE_SECOND:
		image[section(image, ".note.vnpu")->sh_offset + 20 + sizeof(*note) + 8] = 2;
		break;
	case D_NOTE_SECOND_SIZE:
		section(image, ".note.vnpu")->sh_size -= 4;
		break;
	case D_NOTE_PROFILE:
		memset(profile, 'n', sizeof(((struct npu_elf_times *)0)->profile));
		break;
	case D_NOTE_ISA:
		note->isa_version = 7 << 16;
		break;
	case D_NOTE_TEXT:
		memset(note->name, 'n', sizeof(note->name));
		break;
	case D_NO_CMD:
		section(image, ".vnpu.cmd")->sh_name = section(image, ".vnpu.const")->sh_name;
		break;
	case D_SYMTAB_ENTSIZE:
		section(image, ".symtab")->sh_entsize = 8;
		break;
	case D_BINDING_KIND:
		b[1].kind = NPU_SYMBOL_KINDS;
		break;
	case D_BINDING_TYPE:
		b[1].dtype = 99;
		break;
	case D_BINDING_GROUP:
		b[1].group = 32;
		break;
	case D_BINDING_NO_GROUP:
		b[1].dtype = NPU_W4_PANEL;
		break;
	case D_BINDING_SYMBOL:
		b[1].symbol = 1000;
		break;
	case D_BINDING_TWICE:
		b[1].symbol = b[0].symbol;
		break;
	case D_SYMBOL_NAME:
		syms[b[2].symbol].st_name = 1u << 30;
		break;
	case D_SYMBOL_SIZE:
		syms[b[2].symbol].st_size = UINT64_MAX;
		break;
	case D_SAME_NAMES:
		syms[b[2].symbol].st_name = syms[b[0].symbol].st_name;
		break;
	case D_RELA_OFFSET:
		rela[3].r_offset = UINT64_MAX - 7;
		break;
	case D_RELA_ALIGN:
		rela[3].r_offset += 4;
		break;
	case D_RELA_TYPE:
		rela[3].r_info = ELF64_R_INFO(ELF64_R_SYM(rela[3].r_info), 9);
		break;
	case D_RELA_SYMBOL:
		rela[3].r_info = ELF64_R_INFO(900ull, R_VNPU_REF);
		break;
	default:
		section(image, ".rela.vnpu.cmd")->sh_info = 3;
	}
}

static void damage_stream(uint8_t *image, enum damage what)
{
	uint8_t *cmd = image + section(image, ".vnpu.cmd")->sh_offset;
	Elf64_Shdr *params = section(image, ".vnpu.params");
	struct vnpu_stream_hdr *hdr = (void *)cmd;
	struct vnpu_cmd *first = (void *)(hdr + 1);
	Elf64_Rela *rela = (void *)(image + section(image, ".rela.vnpu.cmd")->sh_offset);

	switch (what) {
	case D_PARAM_TEXT:
		image[params->sh_offset] = ' ';
		break;
	case D_PARAM_END:
		params->sh_size--;
		break;
	case D_STREAM_MAGIC:
		hdr->magic++;
		break;
	case D_STREAM_SIZE:
		hdr->size_bytes += 8;
		break;
	case D_STREAM_SLOTS:
		hdr->nr_slots++;
		break;
	case D_STREAM_CMDS:
		hdr->nr_cmds--;
		break;
	case D_CMD_OP:
		first->op = 99;
		break;
	case D_CMD_SIZE:
		first->size_bytes = 0;
		break;
	case D_CMD_FLAGS:
		first->flags = 1;
		break;
	case D_CMD_SLOT:
		/* An operand without a relocation. */
		((struct vnpu_ref *)(cmd + rela[0].r_offset))->slot = 77;
		rela[0].r_offset = rela[1].r_offset;
		break;
	default: {
		struct vnpu_cmd *end = (void *)(cmd + hdr->size_bytes - sizeof(*end));

		end->op = VNPU_OP_BARRIER;
	}
	}
}

static void each_damage_to_an_image_is_refused_with_its_reason(void **state)
{
	static const char *const texts[NR_DAMAGE] = {
		[D_MAGIC] = "no ELF file",
		[D_CLASS] = "64-bit little-endian",
		[D_TYPE] = "not a compiled graph",
		[D_MACHINE] = "not a compiled graph",
		[D_SHOFF] = "section headers lie outside",
		[D_SHNUM] = "60000 section headers",
		[D_SHSTRNDX] = "section headers",
		[D_SECTION_OFFSET] = "lies outside the file",
		[D_SECTION_SIZE] = "lies outside the file",
		[D_SECTION_TYPE] = "has type 17",
		[D_SECTION_ALIGN] = "invalid size or alignment",
		[D_COMPRESSED] = "is compressed",
		[D_STRTAB_END] = "has no end",
		[D_NOTE_NAME] = "of another kind",
		[D_NOTE_SECOND] = "second note",
		[D_NOTE_SECOND_SIZE] = "second note",
		[D_NOTE_PROFILE] = "profile's name",
		[D_NOTE_ISA] = "for ISA 7.0",
		[D_NOTE_TEXT] = "not printable",
		[D_NO_CMD] = "no .vnpu.cmd",
		[D_SYMTAB_ENTSIZE] = "entries of a wrong size",
		[D_BINDING_KIND] = "binding 1 has an invalid value",
		[D_BINDING_TYPE] = "binding 1 has an invalid value",
		[D_BINDING_GROUP] = "binding 1 has an invalid value",
		[D_BINDING_NO_GROUP] = "binding 1 has an invalid value",
		[D_BINDING_SYMBOL] = "binding 1 has an invalid value",
		[D_BINDING_TWICE] = "'x' is bound twice",
		[D_SYMBOL_NAME] = "name of binding 2",
		[D_SYMBOL_SIZE] = "has an invalid size",
		[D_SAME_NAMES] = "'x' is taken twice",
		[D_RELA_OFFSET] = "relocation 3 lies outside",
		[D_RELA_ALIGN] = "relocation 3 lies outside",
		[D_RELA_TYPE] = "relocation 3 has a type",
		[D_RELA_SYMBOL] = "relocation 3 has a type",
		[D_RELA_TARGET] = "not for .vnpu.cmd",
		[D_PARAM_TEXT] = "param 0 is not printable",
		[D_PARAM_END] = ".vnpu.params has no end",
		[D_STREAM_MAGIC] = "header does not fit",
		[D_STREAM_SIZE] = "header does not fit",
		[D_STREAM_SLOTS] = "header does not fit",
		[D_STREAM_CMDS] = "its header says otherwise",
		[D_CMD_OP] = "opcode 99",
		[D_CMD_SIZE] = "of 0 bytes",
		[D_CMD_FLAGS] = "does not exist",
		[D_CMD_SLOT] = "slot 77 of 7",
		[D_NO_END] = "the stream has no end",
	};
	size_t bytes;
	uint8_t *image = sample_image(&bytes), *copy = malloc(bytes);

	for (enum damage what = 0; what < NR_DAMAGE; what++) {
		memcpy(copy, image, bytes);
		if (what <= D_STRTAB_END)
			damage_file(copy, what);
		else if (what <= D_RELA_TARGET)
			damage_tables(copy, what);
		else
			damage_stream(copy, what);
		refused(copy, bytes, texts[what]);
	}
	refused(NULL, 0, "0 bytes");
	free(copy);
	free(image);
}

static void no_truncated_image_is_accepted(void **state)
{
	size_t bytes;
	uint8_t *image = sample_image(&bytes);

	for (size_t n = 0; n < bytes; n++) {
		/* Of exactly this size, so that ASan sees overruns. */
		uint8_t *cut = malloc(n ? n : 1);
		struct npu_image img;

		memcpy(cut, image, n);
		assert_int_equal(npu_image_parse(cut, n, &img), -EINVAL);
		free(cut);
	}
	free(image);
}

/* Whatever is accepted must load and list without harm; the firmware may refuse it. */
static void mutated_images_do_no_harm(void **state)
{
	struct fixture *f = *state;
	size_t bytes, accepted = 0, predicted = 0;
	uint8_t *image = sample_image(&bytes), *copy = malloc(bytes);
	FILE *null = fopen("/dev/null", "w");

	random_begin(__func__);
	for (int round = 0; round < 20000; round++) {
		struct npu_program *prog;
		unsigned int changes = random_in(1, 6);

		memcpy(copy, image, bytes);
		for (unsigned int i = 0; i < changes; i++) {
			size_t at = random_in(0, (uint32_t)bytes - 8);

			switch (random_u32() % 4) {
			case 0:
				copy[at] ^= 1u << random_in(0, 7);
				break;
			case 1:
				copy[at] = (uint8_t)random_u32();
				break;
			case 2:
				memset(copy + (at & ~7ull), 0xff, 8);
				break;
			default:
				memcpy(copy + (at & ~3ull), &(uint32_t){ random_in(0, 64) }, 4);
			}
		}
		if (npu_image_disassemble(copy, bytes, NULL, null)) {
			assert_int_equal(npu_image_disassemble(copy, bytes, "sd8gen3", null),
					 -EINVAL);
			continue;
		}
		accepted++;
		/* Unless a device would refuse its stream. */
		predicted += !npu_image_disassemble(copy, bytes, "sd8gen3", null);
		if (!npu_program_load(f->ctx, copy, bytes, &prog))
			npu_program_free(prog);
	}
	/* Changes of tensors' shapes and of unused bytes are no errors. */
	assert_true(accepted > 100 && predicted > 100 && predicted < accepted);
	fclose(null);
	free(copy);
	free(image);
}

#define with_device(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_written_image_is_read_back),
		cmocka_unit_test(the_listing_names_symbols_params_and_operands),
		cmocka_unit_test(narrow_caches_need_version_1_2),
		cmocka_unit_test(an_image_has_the_isa_version_that_its_operations_need),
		cmocka_unit_test(a_listing_for_a_profile_has_the_time_of_each_command),
		cmocka_unit_test(a_graph_predicts_for_the_given_profile_or_not_at_all),
		cmocka_unit_test(binutils_read_the_file_without_a_warning),
		cmocka_unit_test(each_damage_to_an_image_is_refused_with_its_reason),
		cmocka_unit_test(no_truncated_image_is_accepted),
		with_device(mutated_images_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
