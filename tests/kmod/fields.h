/* SPDX-License-Identifier: MIT */
/*
 * A structure of the ABI as a table of its fields. From the table come all arguments that the
 * kernel must refuse: each bit of a pad, each flag without a name, values outside an enum, ids of
 * other files, arrays and pointers of every bad kind. After each refusal the test's `check`
 * function looks for changes, and the good argument must work again.
 */
#ifndef FIELDS_H
#define FIELDS_H

#include "vnpu_raw.h"

enum field_kind {
	FIELD_ZERO, /* a pad, or flags without names: each bit is refused */
	FIELD_FLAGS, /* each bit outside .known is refused */
	FIELD_ENUM, /* values above .known are refused */
	FIELD_VALUE, /* ids, sizes, addresses: those in .bad are refused with their errors */
	FIELD_ARRAY, /* struct drm_vnpu_obj_array */
	FIELD_ANY, /* an output, or good with every value: accepted with all bits set */
	FIELD_OTHER, /* tested by hand */
};

/* An entry with error 0 ends a list of these. */
struct field_bad {
	uint64_t value;
	int error;
};

struct field_array {
	uint32_t max;
	size_t size;
	bool written; /* the kernel writes to the elements */
	void (*fill)(void *element, uint32_t i);
};

struct field {
	const char *name;
	size_t offset, size;
	enum field_kind kind;
	uint64_t known;
	const struct field_bad *bad;
	const struct field_array *array;
};

#define FIELD(type, member, k, ...)                                                   \
	{                                                                             \
		.name = #member, .offset = offsetof(type, member),                    \
		.size = sizeof(((type *)0)->member), .kind = FIELD_##k, ##__VA_ARGS__ \
	}

struct target {
	const char *name;
	size_t size;
	const struct field *fields;
	size_t nr_fields;
	void (*good)(void *arg); /* fills in an argument for which the call succeeds */
	int (*call)(void *arg); /* 0 or -errno */
	void (*undo)(void *arg); /* undoes a successful call; may be NULL */
	void (*check)(void); /* fails the test if anything has changed since the last good call */
	/* For an ioctl, not for a structure inside its argument: */
	int (*fd)(void);
	unsigned long cmd;
};

#define TARGET(type, table, ...)                                           \
	{                                                                  \
		.name = #type, .size = sizeof(type), .fields = table,      \
		.nr_fields = sizeof(table) / sizeof(*(table)), __VA_ARGS__ \
	}

/* A structure inside the argument of an ioctl. */
#define PART(called, type, table, g, c, u, k)                                                   \
	{                                                                                       \
		.name = called, .size = sizeof(type), .fields = table,                          \
		.nr_fields = sizeof(table) / sizeof(*(table)), .good = g, .call = c, .undo = u, \
		.check = k                                                                      \
	}

#define FIELD_MAX_ARG 512

static unsigned int field_cases __attribute__((unused));

/* ---- memory at the edge of a mapping ---- */

#define EDGE_SIZE (64 * PAGE)

/* @size bytes of memory that end where nothing is mapped. A later call may overwrite them. */
static inline uint8_t *edge(size_t size)
{
	static uint8_t *area;

	if (!area) {
		area = mmap(NULL, EDGE_SIZE + PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(area, MAP_FAILED);
		assert_int_equal(mprotect(area + EDGE_SIZE, PAGE, PROT_NONE), 0);
	}
	assert_true(size <= EDGE_SIZE);
	return area + EDGE_SIZE - size;
}

static inline void edge_protect(int prot)
{
	assert_int_equal(mprotect(edge(EDGE_SIZE), EDGE_SIZE, prot), 0);
}

/*
 * Addresses outside user memory: null, unmapped, the hole of x86, the kernel, around the end of the
 * address space.
 */
static const uint64_t field_nowhere[] __attribute__((unused)) = {
	0,
	NOWHERE,
	0x7ffffffff000ull,
	0x800000000000ull,
	0x8000000000000000ull,
	0xffff888000000000ull,
	UINT64_MAX - 4095,
	UINT64_MAX - 7,
	UINT64_MAX,
};

#define NR_NOWHERE (sizeof(field_nowhere) / sizeof(*field_nowhere))

/* ---- cases ---- */

static inline void field_expect(const struct target *t, const char *field, const char *what,
				uint64_t value, int ret, int error)
{
	field_cases++;
	if (ret != -error)
		fail_msg("%s.%s %s %#llx: %d instead of %d", t->name, field, what,
			 (unsigned long long)value, ret, -error);
	if (error && t->check)
		t->check();
}

static inline void field_good(const struct target *t, uint8_t *arg, const char *field,
			      const char *what, uint64_t value)
{
	field_expect(t, field, what, value, t->call(arg), 0);
	if (t->undo)
		t->undo(arg);
	if (t->check)
		t->check();
}

static inline void field_untouched(const struct target *t, const struct field *f)
{
	uint8_t arg[FIELD_MAX_ARG] = { 0 };

	t->good(arg);
	field_good(t, arg, f ? f->name : "", "as it should be", 0);
}

static inline void field_put(uint8_t *arg, const struct field *f, uint64_t value)
{
	memcpy(arg + f->offset, &value, f->size);
}

static inline void field_refuse(const struct target *t, const struct field *f, const char *what,
				uint64_t value, int error)
{
	uint8_t arg[FIELD_MAX_ARG] = { 0 };

	t->good(arg);
	field_put(arg, f, value);
	field_expect(t, f->name, what, value, t->call(arg), error);
}

static inline void field_bits(const struct target *t, const struct field *f)
{
	for (size_t bit = 0; bit < f->size * 8; bit++) {
		uint8_t arg[FIELD_MAX_ARG] = { 0 };

		if (f->kind == FIELD_FLAGS && (f->known >> bit & 1))
			continue;
		t->good(arg);
		arg[f->offset + bit / 8] |= 1u << bit % 8;
		field_expect(t, f->name, "bit", bit, t->call(arg), EINVAL);
	}
}

static inline void field_enum(const struct target *t, const struct field *f)
{
	for (size_t bit = 0; bit < f->size * 8; bit++)
		if (1ull << bit > f->known)
			field_refuse(t, f, "enum", 1ull << bit, EINVAL);
	field_refuse(t, f, "enum", f->known + 1, EINVAL);
	field_refuse(t, f, "enum", UINT64_MAX, EINVAL);
}

/* ---- arrays ---- */

struct array_case {
	const struct target *t;
	const struct field *f;
	uint8_t arg[FIELD_MAX_ARG];
};

/* Elements at the edge of a mapping, or @beyond bytes across it, with zeros between them. */
static inline struct drm_vnpu_obj_array array_make(struct array_case *c, uint32_t stride,
						   uint32_t count, size_t beyond)
{
	const struct field_array *a = c->f->array;
	size_t used = a->size + (size_t)stride * (count - 1),
	       tail = stride > a->size ? stride - a->size : 0;
	uint8_t *first = edge(used + tail - beyond), *all = calloc(1, used + tail);

	memset(c->arg, 0, sizeof(c->arg));
	c->t->good(c->arg);
	assert_non_null(all);
	for (uint32_t i = 0; i < count; i++)
		a->fill(all + (size_t)i * stride, i);
	memcpy(first, all, used + tail - beyond);
	free(all);
	return (struct drm_vnpu_obj_array){ stride, count, (uintptr_t)first };
}

static inline void array_try(struct array_case *c, struct drm_vnpu_obj_array array,
			     const char *what, uint64_t value, int error)
{
	memcpy(c->arg + c->f->offset, &array, sizeof(array));
	if (error)
		field_expect(c->t, c->f->name, what, value, c->t->call(c->arg), error);
	else
		field_good(c->t, c->arg, c->f->name, what, value);
}

static inline void array_counts(struct array_case *c)
{
	const struct field_array *a = c->f->array;
	uint32_t size = a->size;
	const uint32_t too_many[] = { a->max + 1,
				      1u << 16,
				      UINT32_MAX / size,
				      UINT32_MAX / size + 1,
				      (1u << 31) / size + 1,
				      UINT32_MAX };
	struct drm_vnpu_obj_array array = array_make(c, size, 1, 0);

	for (size_t i = 0; i < sizeof(too_many) / sizeof(*too_many); i++) {
		array_make(c, size, 1, 0);
		array.count = too_many[i];
		array_try(c, array, "count", array.count, EINVAL);
	}
	array.count = 0;
	array_try(c, array, "no elements at a pointer", 0, EINVAL);
	array_make(c, size, 1, 0);
	array_try(c, (struct drm_vnpu_obj_array){ 0 }, "nothing", 0, 0);
	array_make(c, size, 1, 0);
	array_try(c, (struct drm_vnpu_obj_array){ .stride = UINT32_MAX }, "nothing with a stride",
		  0, 0);
	array_try(c, array_make(c, size, a->max, 0), "count", a->max, 0);
}

static inline void array_strides(struct array_case *c)
{
	uint32_t size = c->f->array->size;
	struct drm_vnpu_obj_array array;

	for (uint32_t stride = 0; stride < size; stride++) {
		array = array_make(c, size, 1, 0);
		array.stride = stride;
		array_try(c, array, "stride", stride, EINVAL);
	}
	for (uint32_t more = 1; more <= 16; more++) {
		array_try(c, array_make(c, size + more, 2, 0), "stride", size + more, 0);
		for (uint32_t at = 0; at < 2 * more; at++) {
			array = array_make(c, size + more, 2, 0);
			((uint8_t *)(uintptr_t)
				 array.array)[at / more * (size + more) + size + at % more] = 1;
			array_try(c, array, "stride with a tail", size + more, E2BIG);
		}
	}
	array_try(c, array_make(c, PAGE, 2, 0), "stride", PAGE, 0);
	array = array_make(c, size, 1, 0);
	array.stride = PAGE + 1;
	array_try(c, array, "stride", array.stride, E2BIG);
	array = array_make(c, size, 1, 0);
	array.stride = UINT32_MAX;
	array_try(c, array, "stride", array.stride, E2BIG);
}

static inline void array_pointers(struct array_case *c)
{
	uint32_t size = c->f->array->size;
	struct drm_vnpu_obj_array array;

	for (size_t i = 0; i < NR_NOWHERE; i++) {
		array = array_make(c, size, 1, 0);
		array.array = field_nowhere[i];
		array_try(c, array, "pointer", array.array, EFAULT);
		array = array_make(c, size + 8, 2, 0);
		array.array = field_nowhere[i];
		array_try(c, array, "pointer with a stride", array.array, EFAULT);
	}
	array_try(c, array_make(c, size, 2, 0), "at the edge", 0, 0);
	array_try(c, array_make(c, size, 2, 1), "over the edge", 1, EFAULT);
	array_try(c, array_make(c, size, 2, size), "over the edge", size, EFAULT);
	array_try(c, array_make(c, size, 2, size + 1), "over the edge", size + 1, EFAULT);
	array_try(c, array_make(c, size + 8, 2, 1), "its tail over the edge", 1, EFAULT);
	array_try(c, array_make(c, size + 8, 2, 9), "over the edge with a tail", 9, EFAULT);
	array = array_make(c, size, 2, 0);
	edge_protect(PROT_READ);
	array_try(c, array, "read-only", 0, c->f->array->written ? EFAULT : 0);
	edge_protect(PROT_READ | PROT_WRITE);
}

/* ---- the argument itself ---- */

static inline int field_ioctl(const struct target *t, unsigned long cmd, uint64_t arg)
{
	return raw_ioctl(t->fd(), cmd, (void *)(uintptr_t)arg);
}

static inline void argument_pointers(const struct target *t)
{
	uint8_t arg[FIELD_MAX_ARG] = { 0 };
	uint8_t *p;

	for (size_t i = 0; i < NR_NOWHERE; i++)
		field_expect(t, "", "argument at", field_nowhere[i],
			     field_ioctl(t, t->cmd, field_nowhere[i]), EFAULT);
	t->good(arg);
	p = memcpy(edge(t->size), arg, t->size);
	field_expect(t, "", "argument at the edge", 0, field_ioctl(t, t->cmd, (uintptr_t)p), 0);
	if (t->undo)
		t->undo(p);
	for (size_t beyond = 1; beyond <= t->size; beyond++) {
		memset(arg, 0, sizeof(arg));
		t->good(arg);
		p = memcpy(edge(t->size - beyond), arg, t->size - beyond);
		field_expect(t, "", "argument over the edge", beyond,
			     field_ioctl(t, t->cmd, (uintptr_t)p), EFAULT);
	}
}

/* ---- all of a structure ---- */

/* Checks that every byte is in the table once, so that additions to the ABI are added here. */
static inline void fields_complete(const struct target *t)
{
	uint8_t seen[FIELD_MAX_ARG] = { 0 };

	assert_true(t->size <= sizeof(seen));
	for (size_t i = 0; i < t->nr_fields; i++)
		for (size_t k = 0; k < t->fields[i].size; k++)
			assert_int_equal(seen[t->fields[i].offset + k]++, 0);
	for (size_t i = 0; i < t->size; i++)
		if (!seen[i])
			fail_msg("%s: byte %zu is in no field of the table", t->name, i);
}

static inline void field_test(const struct target *t, const struct field *f)
{
	struct array_case c = { .t = t, .f = f };
	uint8_t arg[FIELD_MAX_ARG] = { 0 };

	switch (f->kind) {
	case FIELD_ZERO:
	case FIELD_FLAGS:
		field_bits(t, f);
		break;
	case FIELD_ENUM:
		field_enum(t, f);
		break;
	case FIELD_VALUE:
		for (const struct field_bad *bad = f->bad; bad->error; bad++)
			field_refuse(t, f, "value", bad->value, bad->error);
		break;
	case FIELD_ARRAY:
		array_counts(&c);
		array_strides(&c);
		array_pointers(&c);
		break;
	case FIELD_ANY:
		t->good(arg);
		memset(arg + f->offset, 0xff, f->size);
		field_good(t, arg, f->name, "all bits set", 0);
		break;
	case FIELD_OTHER:
		break;
	}
	field_untouched(t, f);
}

static inline void fields_test(const struct target *t)
{
	unsigned int before = field_cases;

	fields_complete(t);
	field_untouched(t, NULL);
	for (size_t i = 0; i < t->nr_fields; i++)
		field_test(t, &t->fields[i]);
	if (t->cmd)
		argument_pointers(t);
	field_untouched(t, NULL);
	print_message("%s: %u cases\n", t->name, field_cases - before);
}

#endif /* FIELDS_H */
