// SPDX-License-Identifier: MIT
/*
 * Token trees: their nodes are evaluated as a chunk of their own behind the session's tokens, and
 * one path of them is kept.
 */
#include <errno.h>
#include <string.h>

#include "engine.h"
#include "llm_fail.h"

int engine_check_trees(const struct llm_engine *e)
{
	if (e->loaded.gpu)
		return llm_fail(-ENOTSUP,
				"placement %s: trees of guesses have no attention in OpenCL: "
				"choose gpu host, or draft none",
				llm_choice_name(LLM_CHOICE_PLACEMENT, e->info.choices.placement));
	if (e->info.head_dim > VNPU_MASK_HEAD_DIM)
		return llm_fail(-ENOTSUP,
				"heads of %u values; drafts are verified with at most %d: choose "
				"draft none",
				e->info.head_dim, VNPU_MASK_HEAD_DIM);
	if (e->info.choices.decode == LLM_DECODE_SPARSE)
		return llm_fail(-ENOTSUP, "decode sparse cannot verify drafts: choose decode full, "
					  "or draft none");
	return 0;
}

static int check_tree(const struct llm_session *s, const struct llm_tree *tree)
{
	if (!tree->n || tree->n > LLM_MAX_TREE)
		return llm_fail(-EINVAL, "a tree of %u nodes; give 1 to %d", tree->n, LLM_MAX_TREE);
	for (unsigned int i = 0; i < tree->n; i++)
		if (tree->parents[i] >= i + !i)
			return llm_fail(-EINVAL, "node %u of a tree has the parent %u, %s", i,
					tree->parents[i],
					i ? "not an earlier node" : "but the root's is 0");
	return engine_check_trees(s->engine);
}

static void set_tree(struct lane_tree *to, const struct llm_tree *tree)
{
	to->n = tree->n;
	to->depths[0] = 0;
	to->ancestors[0] = 1;
	for (unsigned int i = 1; i < tree->n; i++) {
		to->depths[i] = to->depths[tree->parents[i]] + 1;
		to->ancestors[i] = to->ancestors[tree->parents[i]] | 1ull << i;
	}
}

int llm_verify_tree(struct llm_session *session, const struct llm_tree *tree)
{
	struct lane_tree nodes;
	struct pass pass = { .ids = tree->tokens, .n = tree->n, .tree = &nodes, .all = true };
	int err = check_tree(session, tree);

	if (!err && !session->engine->dry_run)
		err = lane_memory_want_tree(&session->memory);
	if (err)
		return err;
	set_tree(&nodes, tree);
	err = session_pass(session, &pass);
	if (!err)
		session->tree = nodes;
	return err;
}

const float *llm_tree_logits(const struct llm_session *session, unsigned int node)
{
	if (session->engine->dry_run || node >= session->tree.n)
		return NULL;
	return session->memory.all.data + (size_t)node * session->engine->info.n_vocab;
}

/* A path's nodes are the ancestors of its last one, itself included. */
static int check_path(const struct lane_tree *tree, const uint8_t *path, unsigned int n)
{
	uint64_t seen = 0;

	if (!tree->n)
		return llm_fail(-EINVAL, "there is no tree to keep a path of: evaluate one first");
	for (unsigned int i = 0; i < n; i++) {
		if (path[i] >= tree->n || seen >> path[i] & 1 ||
		    tree->ancestors[path[i]] != (seen | 1ull << path[i]))
			return llm_fail(-EINVAL,
					"node %u of the path is not a child of the one "
					"before it",
					i);
		seen = tree->ancestors[path[i]];
	}
	return n ? 0 : llm_fail(-EINVAL, "a path of no nodes; it begins with the root");
}

int llm_tree_keep(struct llm_session *session, const uint8_t *path, unsigned int n)
{
	uint64_t from_ns = llm_session_now_ns(session);
	int err = check_path(&session->tree, path, n);

	if (err)
		return err;
	pass_keep(&session->runner, session->n_past, path, n);
	if (!session->engine->dry_run) {
		memcpy(session->memory.logits.data, llm_tree_logits(session, path[n - 1]),
		       session->engine->info.n_vocab * sizeof(float));
		session->has_logits = true;
	}
	session->tree.n = 0;
	session->n_past += n;
	session->stats.tree.kept += n;
	session->stats.tree.keep_ns += llm_session_now_ns(session) - from_ns;
	return 0;
}

int llm_session_prepare_tree(struct llm_session *session, unsigned int n)
{
	unsigned int most = n < session->n_ctx ? n : session->n_ctx;
	int err;

	if (!n || n > LLM_MAX_TREE)
		return llm_fail(-EINVAL, "trees of %u nodes; give 1 to %d", n, LLM_MAX_TREE);
	err = engine_check_trees(session->engine);
	if (err || session->engine->dry_run)
		return err;
	err = lane_memory_want_tree(&session->memory);
	for (unsigned int rows = 1; !err && rows <= plan_tree_rows(most);
	     rows = plan_tree_rows(rows + 1))
		err = pass_prepare(&session->runner, rows, true);
	return err;
}
