// SPDX-License-Identifier: MIT
/*
 * The table of operations: it describes commands whole, and the device takes operands as it says.
 */
#include "fw_all_ops.h"

#include "isa_probe.h"

/* Marks @bytes at @at, none of which was marked before. */
static void mark(bool *seen, const char *op, const char *name, uint32_t at, uint32_t bytes)
{
	for (uint32_t i = at; i < at + bytes; i++) {
		if (seen[i])
			fail_msg("%s: byte %u is %s, and something else", op, i, name);
		seen[i] = true;
	}
}

static void every_byte_of_a_command_is_something_once(void **state)
{
	for (uint16_t i = 1; i < ISA_NR_OPS; i++) {
		const struct isa_op *op = isa_op(i);
		uint32_t unknown = 0;
		bool seen[256] = { 0 };

		mark(seen, op->name, "the header", 0, sizeof(struct vnpu_cmd));
		for (const struct isa_operand *o = op->operands; o->name; o++)
			mark(seen, op->name, o->name, o->at, sizeof(struct vnpu_ref));
		for (const struct isa_field *f = op->fields; f->name; f++)
			mark(seen, op->name, f->name, f->at,
			     f->kind == ISA_U64 || f->kind == ISA_U32X2 ? 8 : 4);
		for (uint32_t at = 0; at < op->bytes; at++)
			unknown += !seen[at];
		/* A word at most is reserved. */
		if (unknown > 4 || seen[op->bytes])
			fail_msg("%s: %u of %u bytes are not in the table", op->name, unknown,
				 op->bytes);
	}
}

static void the_device_takes_operands_as_the_table_says(void **state)
{
	struct fake *f = fake_create(16);
	bool seen[ISA_NR_OPS] = { 0 };
	struct job_builder b;
	struct vnpu_cmd *cmd;

	all_ops_make(&b, f, 1);
	for (uint32_t at = sizeof(struct vnpu_stream_hdr); at < b.stream_bytes;
	     at += cmd->size_bytes) {
		cmd = (struct vnpu_cmd *)(b.stream + at);
		if (cmd->op > VNPU_OP_SLEEP)
			probe_cmd(cmd, b.params, b.nr_params);
		seen[cmd->op] = true;
	}
	for (uint16_t op = 1; op < ISA_NR_OPS; op++)
		if (!seen[op] && op != VNPU_OP_MATMUL_KQ)
			fail_msg("%s was not looked at", isa_op(op)->name);
	fake_destroy(f);
}

static void numbers_beyond_the_table_are_no_operations(void **state)
{
	assert_null(isa_op(0));
	assert_null(isa_op(ISA_NR_OPS));
	assert_null(isa_op(UINT16_MAX));
	assert_string_equal(isa_op(VNPU_OP_MATMUL_W4F)->name, "matmul_w4f");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_of_a_command_is_something_once),
		cmocka_unit_test(the_device_takes_operands_as_the_table_says),
		cmocka_unit_test(numbers_beyond_the_table_are_no_operations),
	};

	rng_seed("test_isa_ops");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
