// SPDX-License-Identifier: MIT
/* Graphs as text: they equal the graphs of the same calls, and errors have a line number. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "npu_graph.h"

static struct npu_graph *parse(const char *text)
{
	char copy[4096];

	snprintf(copy, sizeof(copy), "%s", text);
	return npu_graph_parse("text", copy);
}

static void a_text_is_the_graph_of_its_calls(void **state)
{
	struct npu_graph *text =
		parse("graph g # a comment\n\n"
		      "param p\ninput x f32 3 8\nweight w w8 70 8\nstate s f16 9 8\n"
		      "store x s p\nq, scale = quant x\n"
		      "y = matmul q scale w\npermute y\nz = softmax y 0.5 p\noutput out z\n");
	struct npu_graph *calls = npu_graph_create("g");
	int p = npu_graph_param(calls, "p");
	struct npu_tensor *x = npu_graph_input(calls, "x", NPU_F32, 3, 8), *scale, *q, *y;
	struct npu_tensor *w = npu_graph_weight(calls, "w", NPU_W8_PANEL, 70, 8);
	struct npu_tensor *s = npu_graph_state(calls, "s", NPU_F16, 9, 8);
	void *a, *b;
	size_t a_bytes, b_bytes;

	npu_store_rows(calls, x, s, p);
	q = npu_quant(calls, x, &scale);
	y = npu_matmul_permute(calls, npu_matmul_i8(calls, q, scale, w, NULL));
	npu_graph_output(calls, "out", npu_softmax(calls, y, 0.5f, p));
	assert_non_null(text);
	assert_int_equal(npu_graph_compile(text, &a, &a_bytes), 0);
	assert_int_equal(npu_graph_compile(calls, &b, &b_bytes), 0);
	assert_int_equal(a_bytes, b_bytes);
	assert_memory_equal(a, b, a_bytes);
	free(a);
	free(b);
	npu_graph_free(text);
	npu_graph_free(calls);
}

static void the_first_error_has_its_line(void **state)
{
	static const char *const bad[][2] = {
		{ "", "text:1: there is no graph in the file" },
		{ "input x f32 1 1\n", "text:1: a graph begins with 'graph NAME'" },
		{ "graph g\ny = silu x\nz = nothing y\n", "text:2: 'x' is not a tensor" },
		{ "graph g\ninput x f32 2 2\n\nx = silu x\n", "text:4: 'x' is defined already" },
		{ "graph g\ninput x f32 2 2\ny = softmax x nan\n", "text:3: graph g: softmax: " },
		{ "graph g\ninput x f32 2 2\npermute x\n",
		  "text:3: graph g: permute: 'x' is no result of a matmul" },
		{ "graph g\ninput x f32 2 2\npermute y\n", "text:3: 'y' is not a tensor" },
		{ "graph g\ninput x f32 2 2\na, b, c, d = quant x\n",
		  "text:3: 'a,' is not a statement" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (parse(bad[i][0]))
			fail_msg("not refused: %s", bad[i][0]);
		if (strncmp(npu_error(), bad[i][1], strlen(bad[i][1])))
			fail_msg("'%s', not '%s'", npu_error(), bad[i][1]);
	}
}

/* Each form of an operation as a statement, with undefined words as arguments. */
static void every_form_that_is_listed_is_understood(void **state)
{
	char *list, *line, *save, text[512];
	unsigned int forms = 0;
	size_t bytes;
	FILE *f = open_memstream(&list, &bytes);

	assert_int_equal(npu_graph_syntax(f), 0);
	fclose(f);
	for (line = strtok_r(list, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *doc = strstr(line + 2, "  ");

		assert_non_null(doc);
		*doc = 0;
		if (!strstr(line, " = ") || strstr(line, "const "))
			continue;
		forms++;
		snprintf(text, sizeof(text), "graph g\n%s\n", line);
		assert_null(parse(text));
		if (strstr(npu_error(), "is not a statement") ||
		    strstr(npu_error(), "is not an operator") ||
		    strstr(npu_error(), " words, needs "))
			fail_msg("%s: %s", line, npu_error());
	}
	assert_true(forms > 15);
	free(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_is_the_graph_of_its_calls),
		cmocka_unit_test(the_first_error_has_its_line),
		cmocka_unit_test(every_form_that_is_listed_is_understood),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
