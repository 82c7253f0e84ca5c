// SPDX-License-Identifier: MIT
/*
 * Processes that are given fewer addresses than a context would have, for whatever reason: the test
 * refuses large mappings itself, as valgrind does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "npu_fixture.h"

static size_t most = SIZE_MAX;

/* In place of the C library's. */
void *mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	if (bytes > most) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, addr, bytes, prot, flags, fd, offset);
}

static struct npu_device *open_device(void)
{
	const struct npu_device_options opts = { .transport = NPU_TRANSPORT_SIM, .threads = 1 };
	struct npu_device *dev;

	npu_ok(npu_device_open(&opts, &dev));
	return dev;
}

static void a_context_has_the_addresses_that_there_are(void **state)
{
	static const unsigned int bits[] = { 36, 35, 33, 30, 27 };
	struct npu_device *dev = open_device();

	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
		struct npu_context *ctx;
		struct npu_buffer *a, *b;

		most = (1ull << bits[i]) + (1ull << 22);
		npu_ok(npu_context_create(dev, &ctx));
		npu_ok(npu_buffer_create(ctx, 3ull << (bits[i] < 34 ? bits[i] - 3 : 31), 0, &a));
		npu_ok(npu_buffer_create(ctx, 4096, 0, &b));
		npu_buffer_free(a);
		npu_buffer_free(b);
		npu_context_free(ctx);
	}
	most = SIZE_MAX;
	npu_device_close(dev);
}

static void too_few_are_an_error_with_their_number(void **state)
{
	struct npu_device *dev = open_device();
	struct npu_context *ctx;

	most = 60u << 20;
	npu_fails(npu_context_create(dev, &ctx), -ENOMEM,
		  "the sim transport cannot reserve even 64 MiB of addresses");
	most = SIZE_MAX;
	npu_device_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_context_has_the_addresses_that_there_are),
		cmocka_unit_test(too_few_are_an_error_with_their_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
