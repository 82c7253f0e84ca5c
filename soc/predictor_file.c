// SPDX-License-Identifier: MIT
/* Reading model files (predictor_tree.h). A file is not trusted: what it describes is a tree, with
 * numbers in their ranges, or it is refused. */
#include <errno.h>
#include <ini.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "predictor_tree.h"

/* Keys of [predictor]; the numbers' order is that of number_places(). */
static const struct {
	const char *key;
	uint32_t min, max;
} numbers[] = {
	{ "version", PREDICTOR_VERSION, PREDICTOR_VERSION },
	{ "samples", 1, UINT32_MAX },
	{ "max_depth", 0, PREDICTOR_MAX_DEPTH },
	{ "min_samples", 1, UINT32_MAX },
	{ "tile_m", 1, PREDICTOR_MAX_TILE },
	{ "tile_k", 1, PREDICTOR_MAX_TILE },
	{ "tile_n", 1, PREDICTOR_MAX_TILE },
	{ "nodes", 1, PREDICTOR_MAX_NODES },
};
#define NR_NUMBERS ((int)(sizeof(numbers) / sizeof(numbers[0])))
#define KEY_NODES (NR_NUMBERS - 1)
#define SEEN_LANE (1u << NR_NUMBERS)
#define SEEN_SOURCE (2u << NR_NUMBERS)
#define SEEN_LEAVES (4u << NR_NUMBERS)
#define SEEN_ALL ((8u << NR_NUMBERS) - 1)

/* Of a node: terms as bits, then the keys of a split. */
#define SEEN_FEATURE (1u << NR_TERMS)
#define SEEN_AT (2u << NR_TERMS)
#define SEEN_BELOW (4u << NR_TERMS)
#define SEEN_ABOVE (8u << NR_TERMS)
#define SEEN_SPLIT (15u << NR_TERMS)
#define SEEN_TERMS ((1u << NR_TERMS) - 1)

struct reader {
	const char *path;
	struct predictor *p;
	uint32_t version;
	uint32_t seen; /* keys of [predictor] */
	uint32_t *node_seen; /* by node */
	bool complete;
	int err;
	char *why;
	size_t why_bytes;
};

/* 0, as inih's handlers return it for an error. */
static int fail_with(struct reader *r, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int fail_with(struct reader *r, int err, const char *fmt, ...)
{
	char what[384];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	snprintf(r->why, r->why_bytes, "predictor %s: %s", r->path, what);
	r->err = err;
	return 0;
}

#define fail(r, ...) fail_with(r, -EINVAL, __VA_ARGS__)

static bool parse_u32(const char *value, uint32_t min, uint32_t max, uint32_t *v)
{
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(value, &end, 10);
	if (*value < '0' || *value > '9' || *end || errno || n < min || n > max)
		return false;
	*v = (uint32_t)n;
	return true;
}

static bool parse_double(const char *value, double *v)
{
	char *end;

	*v = strtod(value, &end);
	return end != value && !*end && isfinite(*v);
}

static uint32_t *number_place(struct reader *r, int i)
{
	struct predictor_options *o = &r->p->info.options;
	uint32_t *const places[] = { &r->version,     &r->p->info.samples, &o->max_depth,
				     &o->min_samples, &o->tile_m,	   &o->tile_k,
				     &o->tile_n,      &r->p->nr_nodes };

	return places[i];
}

static int parse_number(struct reader *r, int i, const char *value)
{
	if (parse_u32(value, numbers[i].min, numbers[i].max, number_place(r, i)))
		return 1;
	if (numbers[i].min == numbers[i].max)
		return fail(r, "%s = %s: this program reads %u", numbers[i].key, value,
			    numbers[i].min);
	return fail(r, "%s = %s: a number from %u to %u is wanted", numbers[i].key, value,
		    numbers[i].min, numbers[i].max);
}

static int parse_lane(struct reader *r, const char *value)
{
	for (int lane = 0; lane <= SOC_CPU; lane++)
		if (!strcmp(value, soc_lane_name(lane))) {
			r->p->info.lane = lane;
			return 1;
		}
	return fail(r, "lane = %s: npu, gpu or cpu is wanted", value);
}

static int parse_leaves(struct reader *r, const char *value)
{
	for (int leaves = PREDICTOR_CONSTANT; leaves <= PREDICTOR_LINEAR; leaves++)
		if (!strcmp(value, predictor_leaves_name(leaves))) {
			r->p->info.options.leaves = leaves;
			return 1;
		}
	return fail(r, "leaves = %s: constant or linear is wanted", value);
}

static int parse_source(struct reader *r, const char *value)
{
	if (!*value || strlen(value) >= sizeof(r->p->info.source))
		return fail(r, "source: a name of less than %zu characters is wanted",
			    sizeof(r->p->info.source));
	strcpy(r->p->info.source, value);
	return 1;
}

/* The nodes, when their number is known. */
static int make_nodes(struct reader *r)
{
	r->p->nodes = calloc(r->p->nr_nodes, sizeof(*r->p->nodes));
	r->node_seen = calloc(r->p->nr_nodes, sizeof(*r->node_seen));
	if (r->p->nodes && r->node_seen)
		return 1;
	return fail_with(r, -ENOMEM, "no memory for %u nodes", r->p->nr_nodes);
}

static int parse_head(struct reader *r, const char *name, const char *value)
{
	uint32_t bit = 0;
	int i = 0, ok;

	while (i < NR_NUMBERS && strcmp(name, numbers[i].key))
		i++;
	bit = i < NR_NUMBERS		? 1u << i
	      : !strcmp(name, "lane")	? SEEN_LANE
	      : !strcmp(name, "source") ? SEEN_SOURCE
	      : !strcmp(name, "leaves") ? SEEN_LEAVES
					: 0;
	if (!bit)
		return fail(r, "[predictor] %s: no such key", name);
	if (r->seen & bit)
		return fail(r, "[predictor] %s is given twice", name);
	r->seen |= bit;
	if (i < NR_NUMBERS)
		ok = parse_number(r, i, value);
	else
		ok = bit == SEEN_LANE	  ? parse_lane(r, value)
		     : bit == SEEN_SOURCE ? parse_source(r, value)
					  : parse_leaves(r, value);
	return ok && i == KEY_NODES ? make_nodes(r) : ok;
}

/* A node that a split leads to: a later one, so that no way leads back. */
static bool parse_child(struct reader *r, uint32_t i, const char *value, uint32_t *child)
{
	return i + 1 < r->p->nr_nodes && parse_u32(value, i + 1, r->p->nr_nodes - 1, child);
}

static int parse_feature(struct reader *r, uint32_t i, const char *value)
{
	for (int f = 0; f < NR_FEATURES; f++)
		if (!strcmp(value, predictor_feature_names[f])) {
			r->p->nodes[i].feature = (uint8_t)f;
			return 1;
		}
	return fail(r, "node %u: feature = %s: no such feature", i, value);
}

static int parse_term(struct reader *r, uint32_t i, int term, const char *value)
{
	if (parse_double(value, &r->p->nodes[i].coefficients[term]) &&
	    r->p->nodes[i].coefficients[term] > 0)
		return 1;
	return fail(r, "node %u: %s = %s: a number above 0 is wanted", i,
		    predictor_term_names[term], value);
}

static int parse_node(struct reader *r, uint32_t i, const char *name, const char *value)
{
	static const char *const split_keys[] = { "feature", "at_most", "then", "else" };
	struct predictor_node *node = &r->p->nodes[i];
	uint32_t bit;
	int key = 0;

	while (key < NR_TERMS && strcmp(name, predictor_term_names[key]))
		key++;
	for (int s = 0; key == NR_TERMS + s && s < 4; s++)
		key += strcmp(name, split_keys[s]) != 0;
	if (key == NR_TERMS + 4)
		return fail(r, "node %u: %s: no such key", i, name);
	bit = 1u << key;
	if (r->node_seen[i] & bit)
		return fail(r, "node %u: %s is given twice", i, name);
	r->node_seen[i] |= bit;
	if (key < NR_TERMS)
		return parse_term(r, i, key, value);
	if (bit == SEEN_FEATURE)
		return parse_feature(r, i, value);
	if (bit == SEEN_AT)
		return parse_double(value, &node->at)
			       ? 1
			       : fail(r, "node %u: at_most = %s: not a number", i, value);
	if (parse_child(r, i, value, bit == SEEN_BELOW ? &node->below : &node->above))
		return 1;
	return fail(r, "node %u: %s = %s: the number of a later node of the %u is wanted", i, name,
		    value, r->p->nr_nodes);
}

static int handle(void *user, const char *section, const char *name, const char *value)
{
	struct reader *r = user;
	uint32_t i;

	if (r->err)
		return 0;
	if (!strcmp(section, "predictor"))
		return parse_head(r, name, value);
	if (r->seen != SEEN_ALL)
		return fail(r, "no predictor: [%s] comes before [predictor] is complete", section);
	if (!strcmp(section, "end") && !strcmp(name, "complete") && !strcmp(value, "yes"))
		return r->complete = true;
	if (strncmp(section, "node.", 5))
		return fail(r,
			    "section [%s] with %s: only [predictor], [node.N] and [end] are known",
			    section, name);
	if (!parse_u32(section + 5, 0, r->p->nr_nodes - 1, &i))
		return fail(r, "section [%s]: there are %u nodes", section, r->p->nr_nodes);
	return parse_node(r, i, name, value);
}

/*
 * Every node is a leaf or a split, and is reached from one other; children
 * coming later, that is a tree.
 */
static int check_tree(struct reader *r)
{
	struct predictor *p = r->p;
	uint8_t *parents = calloc(p->nr_nodes, 1);

	if (!parents)
		return fail_with(r, -ENOMEM, "no memory for %u nodes", p->nr_nodes);
	for (uint32_t i = 0; i < p->nr_nodes && !r->err; i++) {
		struct predictor_node *node = &p->nodes[i];

		node->leaf = !(r->node_seen[i] & SEEN_SPLIT);
		if (!r->node_seen[i])
			fail(r, "node %u is missing", i);
		else if (!node->leaf && r->node_seen[i] != SEEN_SPLIT)
			fail(r,
			     "node %u is neither a leaf nor a split with feature, at_most, then "
			     "and else",
			     i);
		else if (i && parents[i] != 1)
			fail(r, "node %u is reached from %u nodes, not from one", i, parents[i]);
		else if (!node->leaf) {
			parents[node->below] += parents[node->below] < 2;
			parents[node->above] += parents[node->above] < 2;
		}
	}
	free(parents);
	return !r->err;
}

static void check(struct reader *r)
{
	if (r->seen != SEEN_ALL)
		fail(r, "no predictor: [predictor] is not complete");
	else if (!r->complete)
		fail(r, "cut off: [end] is missing");
	else if (check_tree(r)) {
		predictor_count(r->p);
		if (r->p->info.depth > r->p->info.options.max_depth)
			fail(r, "a depth of %u is more than max_depth = %u", r->p->info.depth,
			     r->p->info.options.max_depth);
	}
}

static void read_file(struct reader *r)
{
	FILE *f = fopen(r->path, "re");
	int line;

	if (!f) {
		fail_with(r, -errno, "%s", strerror(errno));
		return;
	}
	line = ini_parse_file(f, handle, r);
	if (!r->err && ferror(f))
		fail(r, "it cannot be read");
	fclose(f);
	if (!r->err && line)
		fail(r, "line %d: neither a section, nor a key, nor a comment", line);
	if (!r->err)
		check(r);
}

int predictor_load(const char *path, struct predictor **p, char *why, size_t why_bytes)
{
	struct reader r = {
		.path = path, .p = calloc(1, sizeof(**p)), .why = why, .why_bytes = why_bytes
	};

	*p = NULL;
	if (r.p)
		read_file(&r);
	else
		fail_with(&r, -ENOMEM, "no memory");
	free(r.node_seen);
	if (r.err) {
		predictor_free(r.p);
		return r.err;
	}
	*p = r.p;
	return 0;
}
