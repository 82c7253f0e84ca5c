// SPDX-License-Identifier: MIT
/* Unpacking of MATMUL_WK's panels to MATMUL_I8's on the CPU, by each set of this host's kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "cpu_kernels.h"
#include "npu_random.h"
#include "unpack_panel.h"

static const char *const names[] = { "generic", "avx2", "avx512" };

/* Buffers have exactly a panel's bytes, so that the sanitizer sees more; the packed panel is at an
 * odd address, as it may be in a file. */
static void check(uint32_t lanes, uint32_t k, uint32_t bits)
{
	const size_t packed_bytes = VNPU_PANEL_WK_BYTES(k, bits), bytes = npu_w8_bytes(lanes, k);
	uint8_t *packed = unpack_random_wk(lanes, k, bits), *odd = malloc(packed_bytes + 1);
	uint8_t *want = malloc(bytes), *panel = aligned_alloc(64, bytes);

	memcpy(odd + 1, packed + VNPU_WK_TABLE_BYTES(lanes), packed_bytes);
	unpack_by_rows(want, packed, lanes, k);
	for (int i = 0; i < 6; i++) {
		const struct cpu_kernels *set = cpu_kernels_get(names[i / 2]);

		if (!set)
			continue;
		memset(panel, 0x55, bytes);
		set->unpack_wk(panel, odd + 1, k, bits, lanes, i % 2);
		if (memcmp(panel, want, bytes))
			fail_msg("%s%s: %u channels of %u numbers of %u bits differ", set->name,
				 i % 2 ? ", past the caches" : "", lanes, k, bits);
	}
	free(packed);
	free(odd);
	free(want);
	free(panel);
}

static void panels_equal_the_rows_packed_again(void **state)
{
	random_begin(__func__);
	rng_state = random_u32();
	for (uint32_t bits = 1; bits <= 8; bits++) {
		for (int i = 0; i < 12; i++)
			check(random_in(1, 64), random_in(1, 200), bits);
		check(64, random_in(1, 1000), bits);
	}
}

/* Eight numbers of a channel are packed together, four are in a step of MATMUL_I8. */
static void the_last_numbers_of_a_channel_are_padded_with_zeros(void **state)
{
	random_begin(__func__);
	rng_state = random_u32();
	for (uint32_t bits = 1; bits <= 8; bits++)
		for (uint32_t k = 1; k <= 17; k++)
			check(64, k, bits);
}

static void lanes_without_a_channel_become_zeros(void **state)
{
	random_begin(__func__);
	rng_state = random_u32();
	for (uint32_t bits = 1; bits <= 8; bits++)
		for (uint32_t lanes = 1; lanes <= 64; lanes++)
			check(lanes, random_in(1, 20), bits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(panels_equal_the_rows_packed_again),
		cmocka_unit_test(the_last_numbers_of_a_channel_are_padded_with_zeros),
		cmocka_unit_test(lanes_without_a_channel_become_zeros),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
