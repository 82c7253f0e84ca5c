// SPDX-License-Identifier: MIT
#include "op_samples.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define HEADER "source,lane,op,m,k,n,act_bits,weight_bits,order,ns,mad_ns,runs"
#define NR_COLUMNS 12
#define MAX_NS 1e15

static const char *const order_names[] = { "stationary", "streamed" };

int op_samples_add(struct op_samples *s, const struct op_sample *sample)
{
	/* The room doubles at powers of two. */
	if (!(s->n & (s->n - 1))) {
		struct op_sample *v = realloc(s->v, (s->n ? 2 * s->n : 1) * sizeof(*v));

		if (!v)
			return tool_fail("no memory for %zu samples", s->n + 1);
		s->v = v;
	}
	s->v[s->n++] = *sample;
	return 0;
}

void op_samples_free(struct op_samples *s)
{
	free(s->v);
	*s = (struct op_samples){ 0 };
}

void op_samples_write(const struct op_samples *s, FILE *out)
{
	fputs(HEADER "\n", out);
	for (size_t i = 0; i < s->n; i++) {
		const struct op_sample *v = &s->v[i];

		fprintf(out,
			"%s,%s,matmul,%" PRIu64 ",%" PRIu64 ",%" PRIu64
			",%u,%g,%s,%.17g,%.17g,%u\n",
			s->source, soc_lane_name(v->lane), v->op.m, v->op.k, v->op.n,
			v->op.act_bits, v->op.weight_bits, order_names[v->op.order], v->ns,
			v->mad_ns, v->runs);
	}
}

struct reader {
	const char *path;
	struct op_samples *s;
	unsigned int line;
};

static int bad(const struct reader *r, const char *column, const char *value, const char *wanted)
{
	return tool_fail("samples %s: line %u: %s = '%s': %s is wanted", r->path, r->line, column,
			 value, wanted);
}

static int parse_word(const struct reader *r, const char *column, const char *value,
		      const char *const *names, int n, const char *wanted, int *index)
{
	for (*index = 0; *index < n; (*index)++)
		if (!strcmp(names[*index], value))
			return 0;
	return bad(r, column, value, wanted);
}

static int parse_int(const struct reader *r, const char *column, const char *value, uint64_t max,
		     uint64_t *v)
{
	char *end;

	errno = 0;
	*v = strtoull(value, &end, 10);
	if (*value < '0' || *value > '9' || *end || errno || *v < 1 || *v > max) {
		char wanted[64];

		snprintf(wanted, sizeof(wanted), "a number from 1 to %" PRIu64, max);
		return bad(r, column, value, wanted);
	}
	return 0;
}

static int parse_real(const struct reader *r, const char *column, const char *value, double min,
		      double max, double *v)
{
	char *end, wanted[64];

	*v = strtod(value, &end);
	/* A NaN fails the comparison. */
	if (end != value && !*end && *v >= min && *v <= max)
		return 0;
	snprintf(wanted, sizeof(wanted), "a number from %g to %g", min, max);
	return bad(r, column, value, wanted);
}

static int parse_source(const struct reader *r, const char *value)
{
	struct op_samples *s = r->s;

	if (!*value || strlen(value) >= sizeof(s->source))
		return bad(r, "source", value, "a name of less than 64 characters");
	if (s->n && strcmp(s->source, value))
		return tool_fail(
			"samples %s: line %u is from %s, earlier ones from %s: one file must have "
			"one source",
			r->path, r->line, value, s->source);
	snprintf(s->source, sizeof(s->source), "%s", value);
	return 0;
}

static int parse_values(const struct reader *r, char *const *cell, struct op_sample *v)
{
	static const char *const lanes[] = { "npu", "gpu", "cpu" };
	static const char *const ops[] = { "matmul" };
	uint64_t act_bits, runs;
	int lane, op, order, err;

	err = parse_source(r, cell[0]);
	err = err ?: parse_word(r, "lane", cell[1], lanes, 3, "npu, gpu or cpu", &lane);
	err = err ?: parse_word(r, "op", cell[2], ops, 1, "matmul", &op);
	err = err ?: parse_int(r, "m", cell[3], OP_MAX_DIM, &v->op.m);
	err = err ?: parse_int(r, "k", cell[4], OP_MAX_DIM, &v->op.k);
	err = err ?: parse_int(r, "n", cell[5], OP_MAX_DIM, &v->op.n);
	err = err ?: parse_int(r, "act_bits", cell[6], 32, &act_bits);
	err = err ?: parse_real(r, "weight_bits", cell[7], 0.5, 32, &v->op.weight_bits);
	err = err
		      ?: parse_word(r, "order", cell[8], order_names, 2, "stationary or streamed",
				    &order);
	err = err ?: parse_real(r, "ns", cell[9], 1e-3, MAX_NS, &v->ns);
	err = err ?: parse_real(r, "mad_ns", cell[10], 0, MAX_NS, &v->mad_ns);
	err = err ?: parse_int(r, "runs", cell[11], UINT32_MAX, &runs);
	if (err)
		return err;
	v->lane = lane;
	v->op.kind = SOC_MATMUL;
	v->op.act_bits = (unsigned int)act_bits;
	v->op.order = order;
	v->op.density = 1;
	v->runs = (uint32_t)runs;
	return 0;
}

static int parse_line(const struct reader *r, char *line)
{
	struct op_sample sample = { 0 };
	char *cell[NR_COLUMNS], *next = line, *word;
	size_t n = 0;
	int err;

	if (r->line == 1)
		return strcmp(line, HEADER)
			       ? tool_fail("samples %s: the first line is not %s", r->path, HEADER)
			       : 0;
	while ((word = strsep(&next, ","))) {
		if (n < NR_COLUMNS)
			cell[n] = word;
		n++;
	}
	if (n != NR_COLUMNS)
		return tool_fail("samples %s: line %u has %zu columns instead of %d", r->path,
				 r->line, n, NR_COLUMNS);
	err = parse_values(r, cell, &sample);
	return err ? err : op_samples_add(r->s, &sample);
}

int op_samples_read(const char *path, struct op_samples *s)
{
	struct reader r = { .path = path, .s = s };
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	ssize_t n;
	int err = 0;

	if (!f)
		return tool_fail("samples %s: %s", path, strerror(errno));
	while (!err && (n = getline(&line, &room, f)) > 0) {
		r.line++;
		if (strlen(line) != (size_t)n)
			err = tool_fail("samples %s: line %u: not a text file", path, r.line);
		line[strcspn(line, "\r\n")] = '\0';
		err = err ? err : parse_line(&r, line);
	}
	if (!err && ferror(f))
		err = tool_fail("samples %s: %s", path, strerror(errno));
	if (!err && !s->n)
		err = tool_fail("samples %s: no samples in it", path);
	free(line);
	fclose(f);
	if (err)
		op_samples_free(s);
	return err;
}
