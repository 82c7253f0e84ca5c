// SPDX-License-Identifier: MIT
/* Prompts for measurements: see prompts.h. */
#include <stdlib.h>
#include <string.h>

#include "prompts.h"
#include "tool.h"

/* splitmix64 */
static uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static int read_text(struct prompts *p)
{
	size_t bytes;
	char *text = tool_read_file(p->path, &bytes);
	int err;

	if (!text)
		return 1;
	err = tokens_from_text(p->engine, text, bytes, LLM_TOKENIZE_BOS, &p->text);
	free(text);
	return err;
}

int prompts_init(struct prompts *p, const struct llm_engine *engine, const char *path,
		 uint64_t seed)
{
	unsigned int n_vocab = llm_engine_info(engine)->n_vocab;
	char byte;

	*p = (struct prompts){ .engine = engine, .path = path, .seed = seed };
	if (path)
		return read_text(p);
	p->allowed = malloc(n_vocab * sizeof(*p->allowed));
	if (!p->allowed)
		return tool_fail("no memory for %u tokens", n_vocab);
	/* Leaves out control tokens, which have no text. */
	for (unsigned int id = 0; id < n_vocab; id++)
		if (llm_token_text(engine, (int32_t)id, &byte, 1) > 0 &&
		    !llm_token_is_end(engine, (int32_t)id))
			p->allowed[p->n_allowed++] = (int32_t)id;
	return p->n_allowed ? 0
			    : tool_fail("the model has no token with a text: give --prompt-file");
}

int32_t *prompts_make(const struct prompts *p, size_t n)
{
	const struct llm_engine_info *info = llm_engine_info(p->engine);
	int32_t *ids = malloc((n + 1) * sizeof(*ids));
	uint64_t state = p->seed;

	if (!ids) {
		tool_fail("no memory for %zu tokens", n);
		return NULL;
	}
	if (p->path) {
		if (n > p->text.n) {
			tool_fail("%s has %zu tokens, but %zu are needed: give a longer text or a "
				  "shorter prompt",
				  p->path, p->text.n, n);
			free(ids);
			return NULL;
		}
		memcpy(ids, p->text.ids, n * sizeof(*ids));
		return ids;
	}
	for (size_t i = 0; i < n; i++)
		ids[i] = p->allowed[random_next(&state) % p->n_allowed];
	if (n && info->add_bos && info->bos >= 0)
		ids[0] = info->bos;
	return ids;
}

void prompts_free(struct prompts *p)
{
	free(p->allowed);
	free(p->text.ids);
}
