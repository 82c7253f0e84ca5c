// SPDX-License-Identifier: MIT
/* With ASan, vectors that are not inside of a block of memory end the process. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sanitizer/asan_interface.h>

/* ASan sees them as it sees vectors, on any machine. */
struct v32 {
	uint8_t bytes[32];
};
struct v64 {
	uint8_t bytes[64];
};

#define BLOCK 160

#ifdef __SANITIZE_ADDRESS__
#define IS_CHECKED true
/* Reports are not read, and names take most of their time. */
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
	return "symbolize=0";
}
#else
#define IS_CHECKED false
#endif

/*
 * A child process that loads or stores a vector at @at of a block, of which bytes @hole to
 * @hole + 7 are not to be touched (-1: all may be); whether it came to its end.
 */
static bool is_allowed(bool stores, int bytes, int at, int hole)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		uint8_t *block = calloc(1, BLOCK), *other = calloc(1, BLOCK);
		uint8_t *to = stores ? block + at : other, *from = stores ? other : block + at;

		if (hole >= 0)
			ASAN_POISON_MEMORY_REGION(block + hole, 8);
		dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
		if (bytes == 32)
			*(volatile struct v32 *)to = *(const volatile struct v32 *)from;
		else
			*(volatile struct v64 *)to = *(const volatile struct v64 *)from;
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static void check(int bytes, int at, int hole)
{
	bool inside = at >= 0 && at + bytes <= BLOCK && hole < 0;

	/* Without ASan nothing is refused, and what is around a block is not to be touched. */
	if (!inside && !IS_CHECKED)
		return;
	for (int stores = 0; stores < 2; stores++)
		if (is_allowed(stores, bytes, at, hole) != inside)
			fail_msg("%s of %d bytes at %d of a block of %d with a hole at %d: %s",
				 stores ? "a store" : "a load", bytes, at, BLOCK, hole,
				 inside ? "refused" : "not noticed");
}

static void vectors_stay_inside_of_their_block(void **state)
{
	for (int bytes = 32; bytes <= 64; bytes *= 2) {
		for (int i = 0; i < 9; i++) {
			check(bytes, i, -1);
			check(bytes, BLOCK - bytes - i, -1);
		}
		/* By a byte, by some, and by all but one, on both sides. */
		for (int over = 1; over < bytes; over += over < 9 ? 1 : 11) {
			check(bytes, -over, -1);
			check(bytes, BLOCK - bytes + over, -1);
		}
	}
}

static void holes_of_a_block_are_noticed(void **state)
{
	for (int bytes = 32; bytes <= 64; bytes *= 2)
		for (int hole = 0; hole < bytes; hole += 8)
			check(bytes, 32, 32 + hole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vectors_stay_inside_of_their_block),
		cmocka_unit_test(holes_of_a_block_are_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
