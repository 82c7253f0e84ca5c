// SPDX-License-Identifier: MIT
#include "fw_time.h"

#include "fw_op.h"

/* Larger doubles do not fit a signed 64-bit integer, to which a CPU converts in one instruction. */
#define MAX_TIME 9e18

static uint64_t whole(double x)
{
	return x < MAX_TIME ? (uint64_t)(int64_t)x : (uint64_t)MAX_TIME;
}

static uint64_t add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

uint64_t fw_time_launch_ns(const struct soc_npu *npu)
{
	return whole(npu->launch_us * 1000 + 0.5);
}

uint64_t fw_time_cmd_ns(const struct soc_npu *npu, const struct fw_cmd *cmd)
{
	struct npu_cost cost = fw_ops[cmd->u.hdr.op]->time(npu, cmd);

	return whole(npu_time_alone_ns(npu, cost) + 0.5);
}

uint64_t fw_time_job_ns(const struct soc_npu *npu, const struct fw_prog *prog)
{
	uint64_t ns = add(fw_time_launch_ns(npu), prog->sleep_ns);

	for (uint32_t i = 0; i < prog->nr_cmds; i++)
		ns = add(ns, fw_time_cmd_ns(npu, &prog->cmds[i]));
	return ns;
}

uint64_t fw_time_cycles(const struct soc_npu *npu, uint64_t ns)
{
	return whole((double)ns * npu->clock_mhz / 1000);
}

void fw_time_begin(struct fw_time_walk *w, const struct soc_npu *npu, const struct fw_prog *prog,
		   const void *stream)
{
	*w = (struct fw_time_walk){
		.npu = npu,
		.prog = prog,
		.next = (const uint8_t *)stream + sizeof(struct vnpu_stream_hdr),
		.ns = npu ? fw_time_launch_ns(npu) : 0,
	};
}

void fw_time_next(struct fw_time_walk *w, struct fw_time_step *step)
{
	const struct vnpu_cmd *cmd = (const struct vnpu_cmd *)w->next;
	const struct fw_prog *p = w->prog;
	const struct fw_cmd *c =
		w->cmd < p->nr_cmds && p->cmds[w->cmd].index == w->index ? &p->cmds[w->cmd] : NULL;

	while (w->region + 1 < p->nr_regions && w->index >= p->regions[w->region + 1].first_index)
		w->region++;
	*step = (struct fw_time_step){ .index = w->index, .region = w->region, .op = cmd->op };
	if (w->npu) {
		step->start_ns = w->ns;
		if (c)
			step->ns = fw_time_cmd_ns(w->npu, c);
		else if (cmd->op == VNPU_OP_SLEEP)
			step->ns = ((const struct vnpu_cmd_sleep *)cmd)->duration_ns;
		w->ns = add(w->ns, step->ns);
		step->cycles =
			fw_time_cycles(w->npu, w->ns) - fw_time_cycles(w->npu, step->start_ns);
	}
	w->cmd += c != NULL;
	w->index++;
	w->next += cmd->size_bytes;
}
