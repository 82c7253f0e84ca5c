// SPDX-License-Identifier: MIT
/* Log probabilities of another model, and how far this one is from them: llm-perplexity.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "llm-perplexity.h"
#include "tool.h"

/* Less likely by more: not kept apart. */
#define RANGE 16.0f
#define STEPS 65535.0f

static const char magic[8] = "_logits_";

static int base_init(struct base *base, const char *path)
{
	base->path = path;
	base->row_bytes = 2 * sizeof(float) + 2 * (size_t)(base->n_vocab + base->n_vocab % 2);
	base->row = calloc(1, base->row_bytes);
	return base->row ? 0 : tool_fail("%s: no memory for %u tokens", path, base->n_vocab);
}

int base_create(struct base *base, const char *path, unsigned int n_ctx, unsigned int n_vocab,
		const struct token_list *text, unsigned int n_windows)
{
	const uint32_t sizes[] = { n_ctx, n_vocab, n_windows };

	*base = (struct base){
		.writing = true, .n_ctx = n_ctx, .n_vocab = n_vocab, .n_windows = n_windows
	};
	if (base_init(base, path))
		return 1;
	base->f = fopen(path, "wbe");
	if (!base->f)
		return tool_fail("%s: %s", path, strerror(errno));
	fwrite(magic, sizeof(magic), 1, base->f);
	fwrite(sizes, sizeof(sizes), 1, base->f);
	fwrite(text->ids, sizeof(*text->ids), (size_t)n_ctx * n_windows, base->f);
	return 0;
}

int base_open(struct base *base, const char *path)
{
	char read[sizeof(magic)];
	uint32_t sizes[3];
	size_t n;

	*base = (struct base){ .path = path };
	base->f = fopen(path, "rbe");
	if (!base->f)
		return tool_fail("%s: %s", path, strerror(errno));
	if (fread(read, sizeof(read), 1, base->f) != 1 || memcmp(read, magic, sizeof(magic)) != 0 ||
	    fread(sizes, sizeof(sizes), 1, base->f) != 1 || sizes[0] < 4 || sizes[0] > 1u << 24 ||
	    !sizes[1] || sizes[1] > 1u << 24 || !sizes[2] || sizes[2] > 1u << 24)
		return tool_fail("%s: not a file that --kl-divergence-base writes", path);
	base->n_ctx = sizes[0];
	base->n_vocab = sizes[1];
	base->n_windows = sizes[2];
	n = (size_t)base->n_ctx * base->n_windows;
	base->ids = malloc(n * sizeof(*base->ids));
	if (!base->ids)
		return tool_fail("%s: no memory for %zu tokens", path, n);
	if (fread(base->ids, sizeof(*base->ids), n, base->f) != n)
		return tool_fail("%s: ends within its tokens", path);
	for (size_t i = 0; i < n; i++)
		if (base->ids[i] < 0 || (uint32_t)base->ids[i] >= base->n_vocab)
			return tool_fail("%s: its vocabulary has no token %d", path, base->ids[i]);
	return base_init(base, path);
}

static void encode(const struct base *base, const float *logits, double log_sum)
{
	float max = logits[0], min = logits[0], ends[2], scale;
	uint16_t *numbers = (uint16_t *)(base->row + sizeof(ends));

	for (unsigned int v = 1; v < base->n_vocab; v++) {
		max = logits[v] > max ? logits[v] : max;
		min = logits[v] < min ? logits[v] : min;
	}
	min = min > max - RANGE ? min : max - RANGE;
	scale = (max - min) / STEPS;
	ends[0] = scale;
	ends[1] = (float)((double)min - log_sum);
	memcpy(base->row, ends, sizeof(ends));
	for (unsigned int v = 0; v < base->n_vocab; v++)
		numbers[v] = logits[v] > min ? (uint16_t)lrintf((logits[v] - min) / scale) : 0;
}

static void add_value(struct base *base, double kl)
{
	if (base->n == base->room) {
		size_t room = base->room ? 2 * base->room : 4096;
		float *values = realloc(base->values, room * sizeof(*values));

		if (!values) {
			base->failed = -ENOMEM;
			return;
		}
		base->values = values;
		base->room = room;
	}
	base->values[base->n++] = (float)kl;
}

static void compare(struct base *base, const float *logits, double log_sum, int32_t next)
{
	const uint16_t *numbers = (const uint16_t *)(base->row + 2 * sizeof(float));
	unsigned int top = 0, base_top = 0;
	double kl = 0, nll, base_nll, dp;
	float ends[2];

	memcpy(ends, base->row, sizeof(ends));
	for (unsigned int v = 0; v < base->n_vocab; v++) {
		double log_p = (double)ends[0] * numbers[v] + (double)ends[1];

		top = logits[v] > logits[top] ? v : top;
		base_top = numbers[v] > numbers[base_top] ? v : base_top;
		if (log_p > -(double)RANGE)
			kl += exp(log_p) * (log_p - (double)logits[v] + log_sum);
	}
	nll = log_sum - (double)logits[next];
	base_nll = -((double)ends[0] * numbers[next] + (double)ends[1]);
	dp = exp(-nll) - exp(-base_nll);
	base->nll += base_nll;
	base->nll2 += base_nll * base_nll;
	base->both += nll * base_nll;
	base->kl += kl;
	base->kl2 += kl * kl;
	base->dp2 += dp * dp;
	base->same += top == base_top;
	add_value(base, kl);
}

void base_position(struct base *base, const float *logits, double log_sum, int32_t next)
{
	if (base->failed)
		return;
	if (base->writing) {
		encode(base, logits, log_sum);
		if (fwrite(base->row, base->row_bytes, 1, base->f) != 1)
			base->failed = -errno;
	} else if (fread(base->row, base->row_bytes, 1, base->f) == 1) {
		compare(base, logits, log_sum, next);
	} else {
		base->failed = ferror(base->f) ? -errno : -ENODATA;
	}
}

int base_check(const struct base *base)
{
	if (!base->failed)
		return 0;
	if (base->failed == -ENODATA)
		return tool_fail("%s: ends within its windows: it is incomplete", base->path);
	if (base->failed == -ENOMEM)
		return tool_fail("%s: no memory for the divergences of %zu tokens", base->path,
				 base->n);
	return tool_fail("%s: %s", base->path, strerror(-base->failed));
}

int base_close(struct base *base, bool complete, int status)
{
	struct stat st;

	if (base->f && fclose(base->f) && base->writing && !status)
		status = tool_fail("%s: %s", base->path, strerror(errno));
	/* Not what is no file, such as /dev/full. */
	if (base->f && base->writing && (!complete || status) && !stat(base->path, &st) &&
	    S_ISREG(st.st_mode))
		unlink(base->path);
	free(base->ids);
	free(base->row);
	free(base->values);
	return status;
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

double base_quantile(struct base *base, double share)
{
	double at = share * (double)(base->n - 1);
	size_t i = (size_t)at;

	qsort(base->values, base->n, sizeof(*base->values), by_value);
	if (i + 1 >= base->n)
		return (double)base->values[base->n - 1];
	at -= (double)i;
	return (1 - at) * (double)base->values[i] + at * (double)base->values[i + 1];
}
