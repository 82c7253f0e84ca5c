/* SPDX-License-Identifier: MIT */
/* Choices that are left to auto, and those that exclude one another: see llm_choices.h. */
#include <errno.h>

#include "choices_private.h"
#include "llm.h"
#include "llm_fail.h"

/* The set of all placements. */
static unsigned int anywhere(void)
{
	return llm_choice_info(LLM_CHOICE_PLACEMENT)->plans;
}

static const char *name_of(const struct llm_choices *c, enum llm_choice choice)
{
	return llm_choice_name(choice, llm_choices_get(c, choice));
}

/* The set of placements that allow the value of @choice. */
static unsigned int placements_of(const struct llm_choices *c, enum llm_choice choice, bool planned)
{
	const struct llm_choice_value *v =
		&llm_choice_info(choice)->values[llm_choices_get(c, choice)];

	return planned ? v->plans : v->runs;
}

/* The first placement of the set @on, in the clock's order, that all choices allow; AUTO: none
 * does. */
static enum llm_placement choose_placement(const struct llm_choices *c, unsigned int on,
					   bool planned, bool virtual_clock)
{
	const enum llm_placement order[] = { virtual_clock ? LLM_PLACE_FINE : LLM_PLACE_NPU,
					     LLM_PLACE_NPU,
					     LLM_PLACE_FINE,
					     LLM_PLACE_LAYER,
					     LLM_PLACE_LINEAR,
					     LLM_PLACE_GPU,
					     LLM_PLACE_CPU };
	for (enum llm_choice i = 0; i < LLM_NR_CHOICES; i++)
		on &= placements_of(c, i, planned);
	for (unsigned int i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (on & LLM_PLACED_ON(order[i]))
			return order[i];
	return LLM_PLACE_AUTO;
}

/* The placement that was asked for excludes the value of @choice. */
static int refuse_value(const struct llm_choices *c, enum llm_choice choice, bool planned)
{
	const struct llm_choice_info *info = llm_choice_info(choice);
	unsigned int on = placements_of(c, choice, planned);
	struct list others = { 0 }, values = { 0 };

	for (unsigned int p = 0; p < llm_choice_info(LLM_CHOICE_PLACEMENT)->n_values; p++)
		if (on & LLM_PLACED_ON(p))
			list_add(&others, llm_choice_name(LLM_CHOICE_PLACEMENT, p), " or ");
	for (unsigned int v = 0; v < info->n_values; v++)
		if ((planned ? info->values[v].plans : info->values[v].runs) &
		    LLM_PLACED_ON(c->placement))
			list_add(&values, info->values[v].name, " or ");
	return llm_fail(-EINVAL, "placement %s has no %s %s: choose placement %s, or %s %s",
			name_of(c, LLM_CHOICE_PLACEMENT), info->name, name_of(c, choice),
			others.text, info->name, values.text);
}

/* No placement, or none of those that have the file's layers, allows all values. */
static int refuse_all(const struct llm_choices *c, const struct llm_choices_file *file)
{
	struct list those = { 0 }, on = { 0 };
	bool planned = !file;
	char value[64];

	for (enum llm_choice i = 0; i < LLM_NR_CHOICES; i++) {
		if (placements_of(c, i, planned) == anywhere())
			continue;
		if (file && file->placements && !(file->placements & ~placements_of(c, i, false)))
			continue;
		snprintf(value, sizeof(value), "%s %s", llm_choice_info(i)->name, name_of(c, i));
		list_add(&those, value, " and ");
	}
	for (unsigned int p = 0; file && p < llm_choice_info(LLM_CHOICE_PLACEMENT)->n_values; p++)
		if (file->placements & LLM_PLACED_ON(p))
			list_add(&on, llm_choice_name(LLM_CHOICE_PLACEMENT, p), " and ");
	if (file && file->placements)
		return llm_fail(-EINVAL,
				"%s: has experts, which only placements %s have; none of these has "
				"%s",
				file->path, on.text, those.text);
	return llm_fail(-EINVAL, "no placement has %s: leave one of them out", those.text);
}

static int check_values(const struct llm_choices *c, bool planned)
{
	for (enum llm_choice i = 0; i < LLM_NR_CHOICES; i++) {
		const struct llm_choice_info *info = llm_choice_info(i);
		unsigned int value = llm_choices_get(c, i);

		if (value >= info->n_values)
			return llm_fail(-EINVAL, "%s %u: there are 0 to %u", info->name, value,
					info->n_values - 1);
		if (!planned && !info->values[value].runs)
			return llm_fail(-ENOTSUP, "%s %s can only be planned: llm-bench --dry-run",
					info->name, llm_choice_name(i, value));
	}
	return 0;
}

/* The weights of a file that was packed; AUTO: of others. A phone's NPU has no adaptive weights:
 * the CPU unpacks them (EdgeFlow 4.2). */
static enum llm_weights packed_weights(const struct llm_choices_file *file, bool virtual_clock)
{
	return virtual_clock && file->packed == LLM_WEIGHTS_ADAPTIVE ? LLM_WEIGHTS_W8A8
								     : file->packed;
}

static int settle_placement(struct llm_choices *c, const struct llm_choices_file *file,
			    bool virtual_clock)
{
	struct llm_choices with_file = *c;
	unsigned int on = file && file->placements ? file->placements : anywhere();
	enum llm_placement p;

	for (enum llm_choice i = 0; i < LLM_NR_CHOICES && c->placement != LLM_PLACE_AUTO; i++)
		if (!(placements_of(c, i, !file) & LLM_PLACED_ON(c->placement)))
			return refuse_value(c, i, !file);
	if (c->placement != LLM_PLACE_AUTO)
		return 0;
	if (file && c->weights == LLM_WEIGHTS_AUTO)
		with_file.weights = packed_weights(file, virtual_clock);
	/* Even a dry run prefers a placement that could execute the choices. */
	p = choose_placement(&with_file, on, false, virtual_clock);
	if (p == LLM_PLACE_AUTO && !file)
		p = choose_placement(&with_file, on, true, virtual_clock);
	if (p == LLM_PLACE_AUTO)
		return refuse_all(&with_file, file);
	c->placement = p;
	return 0;
}

static enum llm_weights choose_weights(enum llm_placement p, const struct llm_choices_file *file,
				       bool virtual_clock)
{
	if (!file && p == LLM_PLACE_LAYER)
		return LLM_WEIGHTS_W4A16;
	if (!file)
		return p == LLM_PLACE_CPU || p == LLM_PLACE_GPU ? LLM_WEIGHTS_F16
								: LLM_WEIGHTS_W8A8;
	if (p == LLM_PLACE_CPU)
		return LLM_WEIGHTS_F32;
	if (file->packed != LLM_WEIGHTS_AUTO)
		return packed_weights(file, virtual_clock);
	if (file->blocks)
		return LLM_WEIGHTS_NATIVE;
	return file->q4 ? LLM_WEIGHTS_W4A8 : LLM_WEIGHTS_W8A8;
}

/* w4a16 and w4a8 use the same panels; adaptive weights are unpacked for w8a8. */
static bool panels_serve(enum llm_weights made, enum llm_weights wanted)
{
	return made == wanted || (llm_weights_4bit(made) && llm_weights_4bit(wanted)) ||
	       (made == LLM_WEIGHTS_ADAPTIVE && wanted == LLM_WEIGHTS_W8A8);
}

/* Blocks have graphs of several layers, with full attention, and chunks follow one another. */
static int check_switching(const struct llm_choices *c)
{
	const char *name = name_of(c, LLM_CHOICE_SWITCHING);

	if (c->switching == LLM_SWITCHING_NONE)
		return 0;
	if (c->start == LLM_START_COLD)
		return llm_fail(-EINVAL,
				"switching %s has graphs of several layers, which a cold start "
				"computes one by one: choose start warm",
				name);
	if (c->order != LLM_ORDER_AUTO && c->order != LLM_ORDER_FIFO)
		return llm_fail(-EINVAL,
				"switching %s needs chunks that follow one another: choose order "
				"fifo",
				name);
	if (c->attention != LLM_ATTENTION_FULL)
		return llm_fail(-EINVAL,
				"switching %s has attention in its graphs: choose attention full",
				name);
	return 0;
}

/* A pass that verifies drafts has full attention. */
static int check_draft(const struct llm_choices *c)
{
	if (c->draft <= LLM_DRAFT_NONE || c->decode != LLM_DECODE_SPARSE)
		return 0;
	return llm_fail(-EINVAL,
			"draft %s: decode sparse cannot verify drafts: choose decode full, or "
			"draft none",
			name_of(c, LLM_CHOICE_DRAFT));
}

int llm_choices_settle(const struct llm_choices *asked, const struct llm_choices_file *file,
		       bool virtual_clock, struct llm_choices *settled)
{
	struct llm_choices c = *asked;
	int err = check_values(&c, !file);

	if (!err)
		err = settle_placement(&c, file, virtual_clock);
	if (err)
		return err;
	if (c.weights == LLM_WEIGHTS_AUTO)
		c.weights = choose_weights(c.placement, file, virtual_clock);
	if (!(placements_of(&c, LLM_CHOICE_WEIGHTS, !file) & LLM_PLACED_ON(c.placement)))
		return refuse_value(&c, LLM_CHOICE_WEIGHTS, !file);
	err = check_switching(&c);
	err = err ? err : check_draft(&c);
	if (err)
		return err;
	if (c.switching != LLM_SWITCHING_NONE)
		c.graphs = LLM_GRAPHS_FIXED;
	if (c.draft == LLM_DRAFT_AUTO)
		c.draft = LLM_DRAFT_NONE;
	if (c.operands == LLM_OPERANDS_AUTO)
		c.operands = c.placement == LLM_PLACE_LAYER ? LLM_OPERANDS_PERMUTED
							    : LLM_OPERANDS_NATURAL;
	if (c.floats == LLM_FLOATS_AUTO)
		c.floats = virtual_clock || c.placement != LLM_PLACE_LINEAR ? LLM_FLOATS_CPU
									    : LLM_FLOATS_ALL;
	if (file && c.weights == LLM_WEIGHTS_ADAPTIVE && file->packed == LLM_WEIGHTS_AUTO)
		return llm_fail(-EINVAL,
				"%s: weights adaptive are of a file that llm-quantize makes: "
				"llm-quantize %s OUT.gguf adaptive",
				file->path, file->path);
	if (file && file->packed != LLM_WEIGHTS_AUTO && !panels_serve(file->packed, c.weights))
		return llm_fail(
			-EINVAL,
			"%s: packed for the NPU with weights %s; for %s take the original file",
			file->path, llm_choice_name(LLM_CHOICE_WEIGHTS, file->packed),
			llm_choice_name(LLM_CHOICE_WEIGHTS, c.weights));
	*settled = c;
	return 0;
}
