// SPDX-License-Identifier: MIT
#include "predict.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "npu_fail.h"

/* Larger than any device's address space. */
#define SLOT_BYTES (1ull << 47)

static void *predict_table(const struct npu_image *img, size_t *bytes)
{
	struct vnpu_table_hdr *hdr;
	struct vnpu_slot *slots;

	*bytes = sizeof(*hdr) + img->nr_slots * sizeof(*slots) + img->nr_params * sizeof(uint64_t);
	hdr = calloc(1, *bytes);
	if (!hdr)
		return NULL;
	*hdr = (struct vnpu_table_hdr){
		.magic = VNPU_TABLE_MAGIC,
		.version = VNPU_ISA_VERSION,
		.nr_slots = img->nr_slots,
		.nr_params = img->nr_params,
		.record_slot = VNPU_SLOT_NONE,
	};
	slots = (struct vnpu_slot *)(hdr + 1);
	for (uint32_t i = 0; i < img->nr_slots; i++)
		slots[i] = (struct vnpu_slot){ .size_bytes = SLOT_BYTES,
					       .flags = VNPU_SLOT_READ | VNPU_SLOT_WRITE };
	return hdr;
}

int npu_profile_load(const char *name, struct soc **p)
{
	char why[512];
	int ret = soc_load_device(name, p, why, sizeof(why));

	if (ret)
		return npu_fail(ret, "%s", why);
	for (const char *c = (*p)->name; *c || c == (*p)->name; c++) {
		if (isgraph((unsigned char)*c))
			continue;
		soc_free(*p);
		*p = NULL;
		return npu_fail(
			-EINVAL,
			"profile %s: its name has to be of printable characters without spaces",
			name);
	}
	return 0;
}

/* Attention by the last rows of a cache. */
static void full_cache(struct fw_cmd *c)
{
	const struct vnpu_cmd_attn *attn = &c->u.attn;
	const struct vnpu_cmd_qk_i8 *qk = &c->u.qk_i8;
	const struct vnpu_cmd_attn_i8 *i8 = &c->u.attn_i8;
	const struct vnpu_cmd_attn_at *at = &c->u.attn_at;

	if ((c->u.hdr.op == VNPU_OP_ATTN || c->u.hdr.op == VNPU_OP_ATTN_MASK) &&
	    attn->pos_param != VNPU_PARAM_NONE)
		c->pos = attn->ctx_rows - attn->rows;
	if (c->u.hdr.op == VNPU_OP_ATTN_AT && attn->pos_param != VNPU_PARAM_NONE)
		c->pos = attn->ctx_rows - at->span;
	if (c->u.hdr.op == VNPU_OP_QK_I8 && qk->pos_param != VNPU_PARAM_NONE)
		c->pos = qk->ctx_rows - qk->rows;
	if (c->u.hdr.op == VNPU_OP_ATTN_I8 && i8->pos_param != VNPU_PARAM_NONE)
		c->pos = i8->ctx_rows - i8->rows;
}

int npu_predict(const struct npu_image *img, struct fw_prog *prog)
{
	char why[256];
	size_t bytes;
	void *table = predict_table(img, &bytes);
	int ret;

	if (!table)
		return npu_fail(-ENOMEM, "image: out of memory");
	ret = fw_prog_decode(prog, img->cmd, img->cmd_bytes, table, bytes, SLOT_BYTES, why,
			     sizeof(why));
	free(table);
	if (ret == -EINVAL)
		return npu_fail(ret, "image: no device would run it: %s", why);
	if (ret)
		return npu_fail(ret, "image: out of memory");
	for (uint32_t i = 0; i < prog->nr_cmds; i++)
		full_cache(&prog->cmds[i]);
	return 0;
}
