/* SPDX-License-Identifier: MIT */
/* Whether a JSON text fits the grammar of a schema; and random numbers. */
#ifndef JSON_FITS_H
#define JSON_FITS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "grammar.h"
#include "json_schema.h"
#include "llm.h"
#include "states.h"

static uint64_t seed;

static uint64_t next(void)
{
	uint64_t z = seed += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static struct grammar *make(const char *schema)
{
	struct grammar *g;
	char *text;

	if (json_schema_to_grammar(schema, &text))
		fail_msg("%s, in %s", llm_error(), schema);
	if (grammar_parse(text, &g))
		fail_msg("%s, in %s, from %s", llm_error(), text, schema);
	free(text);
	return g;
}

static bool fits(const struct grammar *g, const char *json)
{
	struct states s;
	int32_t state;
	bool whole;

	assert_int_equal(states_init(&s, g), 0);
	state = (int32_t)s.start;
	for (; *json && state > 0; json++)
		state = states_next(&s, (uint32_t)state, (uint8_t)*json);
	assert_true(state >= 0);
	whole = states_can_end(&s, (uint32_t)state);
	states_fini(&s);
	return whole;
}

#endif /* JSON_FITS_H */
