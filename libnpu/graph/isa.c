// SPDX-License-Identifier: MIT
/* The table of operations in docs/isa.md. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "isa_ops.h"
#include "npu_fail.h"
#include "npu_graph.h"

/* Prints the read operands, an arrow, and the written ones; optional ones in parentheses. */
static void isa_print_operands(const struct isa_op *op, FILE *out)
{
	const struct isa_operand *o, *before = NULL;

	for (o = op->operands; o->name; o++) {
		if (o->type == ISA_NONE)
			continue;
		if (!before)
			fputs("`", out);
		else
			fputs(before->access == o->access ? ", " : " -> ", out);
		fprintf(out, "%s%s %s%s%s", o->optional ? "(" : "", o->name,
			isa_type_names[o->type], o->shape, o->optional ? ")" : "");
		before = o;
	}
	fputs(before ? "` " : "", out);
}

int npu_isa_print(FILE *out)
{
	fprintf(out, "Version %d.%d.\n\n", VNPU_ISA_MAJOR, VNPU_ISA_MINOR);
	fputs("| number | operation | since | bytes | operands |\n|---:|---|---|---:|---|\n", out);
	for (uint16_t i = 1; i < ISA_NR_OPS; i++) {
		const struct isa_op *op = isa_op(i);

		fprintf(out, "| %u | ", i);
		for (const char *c = op->name; *c; c++)
			fputc(toupper((unsigned char)*c), out);
		fprintf(out, " | %d.%u | %u | ", VNPU_ISA_MAJOR, op->minor, op->bytes);
		isa_print_operands(op, out);
		fputs("|\n", out);
	}
	if (ferror(out))
		return npu_fail(-EIO, "writing the table: %s", strerror(errno));
	return 0;
}
