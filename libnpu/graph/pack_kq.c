// SPDX-License-Identifier: MIT
/* Packs weights in GGUF's block types into panels of 64 output channels (vnpu_isa.h: MATMUL_KQ). */
#include <string.h>

#include <npu/vnpu_isa.h>

#include "npu_graph.h"

size_t npu_kq_bytes(uint32_t type, uint32_t n, uint32_t k)
{
	return ((uint64_t)n + VNPU_PANEL_N - 1) / VNPU_PANEL_N * vnpu_kq_panel_bytes(type, k);
}

/* Where the parts of a block lie, from its start on. */
struct kq_places {
	struct vnpu_kq_form f;
	size_t dmin, scale, min, numbers; /* d is at 0 */
};

static struct kq_places kq_places(uint32_t type)
{
	struct kq_places p = { .f = vnpu_kq_form(type) };
	size_t scales = p.f.block > 32 ? p.f.block / p.f.group * 64u : 0;

	p.dmin = 128;
	p.scale = p.f.mins ? 256 : 128;
	p.min = p.scale + scales;
	p.numbers = vnpu_kq_scales_bytes(p.f);
	return p;
}

/* Four numbers to the planes of the quad @quad of 32 k: four neighbouring bytes of each plane. */
static inline void kq_pack_quad(uint8_t *planes, uint32_t bits, uint32_t quad, const uint8_t *u)
{
	uint32_t four, plane;

	memcpy(&four, u, 4);
	for (uint32_t p = 4; p; p /= 2) {
		if (!(bits & p))
			continue;
		memcpy(&plane, planes + quad * p / 8 * 256, 4);
		plane |= (four & 0x01010101u * ((1u << p) - 1)) << quad % (8 / p) * p;
		memcpy(planes + quad * p / 8 * 256, &plane, 4);
		four >>= p;
		planes += p * 256;
	}
}

static inline void kq_unpack_quad(const uint8_t *planes, uint32_t bits, uint32_t quad, uint8_t *u)
{
	uint32_t four = 0, plane, to = 0;

	for (uint32_t p = 4; p; p /= 2) {
		if (!(bits & p))
			continue;
		memcpy(&plane, planes + quad * p / 8 * 256, 4);
		four |= (plane >> quad % (8 / p) * p & 0x01010101u * ((1u << p) - 1)) << to;
		planes += p * 256;
		to += p;
	}
	memcpy(u, &four, 4);
}

/* A channel's part of a block; all pointers are to the channel's first value of the block. */
static void kq_pack_block(uint8_t *block, const struct kq_places *p, uint32_t lane,
			  const struct npu_kq_rows *row)
{
	const struct vnpu_kq_form f = p->f;

	memcpy(block + lane * 2, row->d, 2);
	if (f.mins)
		memcpy(block + p->dmin + lane * 2, row->dmin, 2);
	for (uint32_t g = 0; f.block > 32 && g < f.block / f.group; g++) {
		block[p->scale + (g / 2 * 64 + lane) * 2 + g % 2] = (uint8_t)row->scale[g];
		if (f.mins)
			block[p->min + (g / 2 * 64 + lane) * 2 + g % 2] = (uint8_t)row->min[g];
	}
	for (uint32_t k = 0; k < f.block; k += 4)
		kq_pack_quad(block + p->numbers + k / 32 * 256 * f.bits + lane * 4, f.bits,
			     k % 32 / 4, row->numbers + k);
}

/* The rows' parts of block @b of row @r. */
static struct npu_kq_rows kq_part(const struct npu_kq_rows *rows, struct vnpu_kq_form f, uint32_t k,
				  size_t r, uint32_t b)
{
	const size_t blocks = r * (k / f.block) + b, groups = blocks * (f.block / f.group);
	struct npu_kq_rows part = { .numbers = rows->numbers + blocks * f.block,
				    .d = rows->d + blocks };

	if (f.mins)
		part.dmin = rows->dmin + blocks;
	if (f.block > 32)
		part.scale = rows->scale + groups;
	if (f.block > 32 && f.mins)
		part.min = rows->min + groups;
	return part;
}

void npu_pack_kq(void *panels, uint32_t type, uint32_t n, uint32_t k, uint32_t n0, uint32_t nr,
		 const struct npu_kq_rows *rows)
{
	const struct kq_places p = kq_places(type);
	const size_t bytes = vnpu_kq_block_bytes(p.f);
	uint8_t *block = (uint8_t *)panels + n0 / VNPU_PANEL_N * vnpu_kq_panel_bytes(type, k);

	for (uint32_t r0 = 0; r0 < nr; r0 += VNPU_PANEL_N) {
		uint32_t lanes = nr - r0 < VNPU_PANEL_N ? nr - r0 : VNPU_PANEL_N;

		for (uint32_t b = 0; b < k / p.f.block; b++, block += bytes) {
			memset(block, 0, bytes);
			for (uint32_t lane = 0; lane < lanes; lane++) {
				struct npu_kq_rows part = kq_part(rows, p.f, k, r0 + lane, b);

				kq_pack_block(block, &p, lane, &part);
			}
		}
	}
}

static void kq_unpack_block(const uint8_t *block, const struct kq_places *p, uint32_t lane,
			    const struct npu_kq_rows *row)
{
	const struct vnpu_kq_form f = p->f;

	memcpy(row->d, block + lane * 2, 2);
	if (f.mins)
		memcpy(row->dmin, block + p->dmin + lane * 2, 2);
	for (uint32_t g = 0; f.block > 32 && g < f.block / f.group; g++) {
		row->scale[g] = (int8_t)block[p->scale + (g / 2 * 64 + lane) * 2 + g % 2];
		if (f.mins)
			row->min[g] = (int8_t)block[p->min + (g / 2 * 64 + lane) * 2 + g % 2];
	}
	for (uint32_t k = 0; k < f.block; k += 4)
		kq_unpack_quad(block + p->numbers + k / 32 * 256 * f.bits + lane * 4, f.bits,
			       k % 32 / 4, row->numbers + k);
}

void npu_unpack_kq(const void *panels, uint32_t type, uint32_t k, uint32_t channel,
		   const struct npu_kq_rows *row)
{
	const struct kq_places p = kq_places(type);
	const uint8_t *block =
		(const uint8_t *)panels + channel / VNPU_PANEL_N * vnpu_kq_panel_bytes(type, k);

	for (uint32_t b = 0; b < k / p.f.block; b++, block += vnpu_kq_block_bytes(p.f)) {
		struct npu_kq_rows part = kq_part(row, p.f, k, 0, b);

		kq_unpack_block(block, &p, channel % VNPU_PANEL_N, &part);
	}
}
