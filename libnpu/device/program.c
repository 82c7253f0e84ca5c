// SPDX-License-Identifier: MIT
/*
 * Programs: an image in device memory. Stream and constants share one buffer that
 * the device may only read.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "npu_json.h"
#include "npu_private.h"
#include "probes.h"
#include "trace.h"

struct npu_program *npu_program_get(struct npu_program *prog)
{
	atomic_fetch_add(&prog->refs, 1);
	return prog;
}

static int npu_program_make(struct npu_context *ctx, const void *image, size_t image_bytes,
			    struct npu_program **out)
{
	struct npu_program *prog;
	struct npu_image *img;
	size_t const_offset;
	int ret;

	*out = NULL;
	prog = calloc(1, sizeof(*prog));
	if (prog)
		prog->pace = calloc(1, sizeof(*prog->pace));
	if (!prog || !prog->pace) {
		free(prog);
		return npu_fail(-ENOMEM, "program: out of memory");
	}
	atomic_init(&prog->refs, 1);
	atomic_init(&prog->pace->refs, 1);
	prog->ctx = npu_context_get(ctx);
	img = &prog->image;
	ret = npu_image_parse(image, image_bytes, img);
	if (ret)
		goto err;
	if (img->note.isa_version >> 16 != ctx->dev->info.isa_version >> 16 ||
	    (img->note.isa_version & 0xffff) > (ctx->dev->info.isa_version & 0xffff)) {
		ret = npu_fail(-EPROTO,
			       "program %s: for ISA %u.%u, the device has %u.%u; compile it again",
			       img->note.name, img->note.isa_version >> 16,
			       img->note.isa_version & 0xffff, ctx->dev->info.isa_version >> 16,
			       ctx->dev->info.isa_version & 0xffff);
		goto err;
	}
	const_offset = (img->cmd_bytes + 63) & ~(size_t)63;
	ret = npu_buffer_create(ctx, const_offset + img->const_bytes, NPU_BUFFER_DEVICE_READ_ONLY,
				&prog->code);
	if (ret)
		goto err;
	prog->const_offset = const_offset;
	memcpy(prog->code->data, img->cmd, img->cmd_bytes);
	if (img->const_bytes)
		memcpy((uint8_t *)prog->code->data + const_offset, img->consts, img->const_bytes);
	npu_probe_program_load(ctx->id, (const char *)img->note.name, prog->code->va,
			       img->cmd_bytes, img->const_bytes);
	*out = prog;
	return 0;
err:
	npu_program_free(prog);
	return ret;
}

int npu_program_load(struct npu_context *ctx, const void *image, size_t image_bytes,
		     struct npu_program **out)
{
	char name[NPU_JSON_TEXT_SIZE(64)] = "";
	int64_t start_ns = npu_trace_begin();
	int ret = npu_program_make(ctx, image, image_bytes, out);

	if (start_ns) {
		if (!ret)
			npu_json_text(name, sizeof(name), (*out)->image.note.name);
		npu_trace_call(
			start_ns, "npu_program_load", ret,
			"\"ctx\":%u,\"program\":\"%s\",\"image_bytes\":%zu,\"cmd_bytes\":%zu",
			ctx->id, name, image_bytes, ret ? 0 : (size_t)(*out)->image.cmd_bytes);
	}
	return ret;
}

void npu_program_free(struct npu_program *prog)
{
	if (!prog || atomic_fetch_sub(&prog->refs, 1) != 1)
		return;
	npu_buffer_free(prog->code);
	npu_image_release(&prog->image);
	npu_pace_put(prog->pace);
	npu_context_free(prog->ctx);
	free(prog);
}
