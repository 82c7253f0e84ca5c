/* SPDX-License-Identifier: MIT */
/* Part of kernel_bits.c: attention, with masks and at positions. */

struct attn {
	struct fw_attn t;
	uint32_t queries;
};

static void call_attn(const struct fw_kernels *k, void *y, const void *arg)
{
	const struct attn *x = arg;
	struct fw_attn t = x->t;
	uint32_t left;

	t.y = y;
	for (t.first = 0; t.first < x->queries; t.first += t.nr_q) {
		left = x->queries - t.first;
		t.nr_q = left < fw_attn_queries(t.head_dim) ? left : fw_attn_queries(t.head_dim);
		k->attn(&t, scratch);
	}
}

/* A cache of @keys rows that ends with the last value, written by the portable kernels. */
static void *random_cache(uint64_t keys, uint32_t dim, size_t row_bytes, uint32_t type)
{
	uint8_t *rows = need((keys - 1) * row_bytes + VNPU_KV_BYTES(type, dim));
	float *x = need(dim * sizeof(*x));
	uint64_t j;
	uint32_t d;

	for (j = 0; j < keys; j++) {
		for (d = 0; d < dim; d++)
			x[d] = rng_float() * 2;
		if (type == VNPU_KV_F32)
			memcpy(rows + j * row_bytes, x, dim * sizeof(*x));
		else
			sets[0]->store(rows + j * row_bytes, x, dim, type);
	}
	return rows;
}

/* One head of random type and shape, with at most @most rows; @name: of the lines. */
static struct attn random_attn(uint32_t type, uint32_t most, uint64_t keys, char *name,
			       size_t name_bytes)
{
	static const uint32_t dims[] = { 32, 64, 96, 128, 256, 1, 8, 17, 80, 100 };
	uint32_t unit = type == VNPU_KV_Q8_0 ? 32 : 1,
		 dim = dims[rng_below(type == VNPU_KV_Q8_0 ? 5 : 10)], group = random_in(1, 8),
		 rows = random_in(1, most);
	uint64_t pos = rng_below((uint32_t)keys), ldk = dim + unit * rng_below(5),
		 ldv = dim + unit * rng_below(5);
	struct attn x = { .queries = group * rows };

	x.t = (struct fw_attn){
		.ldq = group * dim + rng_below(5),
		.heads = 1,
		.group = group,
		.pos = pos,
		.k_row_bytes = VNPU_KV_BYTES(type, ldk),
		.v_row_bytes = VNPU_KV_BYTES(type, ldv),
		.kv_type = type,
		.head_dim = dim,
		.scale = 1 / sqrtf(dim),
	};
	x.t.ldy = x.t.ldq + 3;
	x.t.k = random_cache(pos + rows, dim, x.t.k_row_bytes, type);
	x.t.v = random_cache(pos + rows, dim, x.t.v_row_bytes, type);
	x.t.q = random_floats((rows - 1) * x.t.ldq + group * dim, 2);
	snprintf(name, name_bytes, "attn type %u dim %u group %u rows %u at %llu", type, dim, group,
		 rows, (unsigned long long)pos);
	return x;
}

static void compare_attn(const char *what, const struct attn *x)
{
	uint32_t rows = x->queries / x->t.group;

	compare(what, ((rows - 1) * x->t.ldy + x->t.group * x->t.head_dim) * 4, F32, call_attn, x);
}

static void test_attn(void)
{
	struct attn x;
	char what[96];

	for (int round = 0; round < 60; round++) {
		x = random_attn(round % 3, round % 2 ? 1 : 12, round % 4 ? 100 : 300, what,
				sizeof(what));
		compare_attn(what, &x);
		end_case();
	}
}

/* Masks of random bits, few or many. */
static void test_attn_mask(void)
{
	uint64_t *mask, bits;
	struct attn x;
	char what[96];

	for (int round = 0; round < 30; round++) {
		x = random_attn(round % 3, VNPU_MASK_ROWS, round % 4 ? 100 : 600, what,
				sizeof(what));
		mask = need(VNPU_MASK_ROWS * sizeof(*mask));
		for (uint32_t i = 0; i < VNPU_MASK_ROWS; i++) {
			bits = (uint64_t)rng_u32() << 32 | rng_u32();
			mask[i] = bits &
				  (round % 2 ? (uint64_t)rng_u32() << 32 | rng_u32() : UINT64_MAX);
		}
		x.t.mask = mask;
		x.t.window = round % 4 < 2 ? random_in(1, 80) : 0;
		x.t.cap = round % 3 ? 0 : 3;
		strcat(what, ", masked");
		compare_attn(what, &x);
		end_case();
	}
}

/* Any positions, a few beyond the span. */
static void test_attn_at(void)
{
	struct attn x;
	uint32_t *at;
	char what[96];

	for (int round = 0; round < 30; round++) {
		x = random_attn(round % 3, 12, round % 4 ? 100 : 600, what, sizeof(what));
		x.t.span = x.queries / x.t.group;
		at = need(x.t.span * sizeof(*at));
		for (uint32_t i = 0; i < x.t.span; i++)
			at[i] = rng_below(x.t.span + 1);
		x.t.at = at;
		x.t.window = round % 4 < 2 ? random_in(1, 80) : 0;
		x.t.cap = round % 3 ? 0 : 3;
		strcat(what, ", at positions");
		compare_attn(what, &x);
		end_case();
	}
}
