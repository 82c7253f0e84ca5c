// SPDX-License-Identifier: MIT
/*
 * Parses /proc/PID/fdinfo/FD of a DRM file, as in the kernel's drm-usage-stats.rst: a "key: value
 * [unit]" per line. Numbers beyond 64 bits saturate.
 */
#include "npu-top.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The rest of @key after @prefix; NULL: it does not begin with it. */
static const char *key_rest(const char *key, const char *prefix)
{
	size_t n = strlen(prefix);

	return !strncmp(key, prefix, n) && key[n] ? key + n : NULL;
}

/* Parses "NUMBER [unit]". */
static bool parse_number(const char *s, const char *unit, uint64_t *value)
{
	char *end;
	unsigned long long v;

	if (!isdigit((unsigned char)*s))
		return false;
	v = strtoull(s, &end, 10); /* saturates */
	while (isblank((unsigned char)*end))
		end++;
	if (*end && strcmp(end, unit))
		return false;
	*value = v;
	return true;
}

static bool parse_bytes(const char *s, uint64_t *bytes)
{
	unsigned int shift = 0;

	if (parse_number(s, "KiB", bytes))
		shift = strchr(s, 'K') ? 10 : 0;
	else if (parse_number(s, "MiB", bytes))
		shift = 20;
	else
		return false;
	*bytes = *bytes > TOP_UNKNOWN >> shift ? TOP_UNKNOWN - 1 : *bytes << shift;
	return true;
}

static void add_bytes(uint64_t *sum, uint64_t bytes)
{
	if (*sum == TOP_UNKNOWN)
		*sum = 0;
	/* Saturates below TOP_UNKNOWN. */
	*sum = bytes > TOP_UNKNOWN - 1 - *sum ? TOP_UNKNOWN - 1 : *sum + bytes;
}

static struct top_engine *find_engine(struct top_fdinfo *info, const char *name)
{
	struct top_engine *e;

	for (unsigned int i = 0; i < info->nr_engines; i++)
		if (!strcmp(info->engines[i].name, name))
			return &info->engines[i];
	if (info->nr_engines == TOP_ENGINES || strlen(name) >= sizeof(e->name))
		return NULL;
	e = &info->engines[info->nr_engines++];
	*e = (struct top_engine){ .busy_ns = TOP_UNKNOWN, .capacity = 1, .busy = -1 };
	strcpy(e->name, name);
	return e;
}

static void parse_engine(struct top_fdinfo *info, const char *key, const char *value)
{
	const char *name = key_rest(key, "drm-engine-capacity-");
	struct top_engine *e;
	uint64_t v;

	if (name) {
		e = parse_number(value, "", &v) && v ? find_engine(info, name) : NULL;
		if (e)
			e->capacity = v;
		return;
	}
	name = key_rest(key, "drm-engine-");
	e = name && parse_number(value, "ns", &v) ? find_engine(info, name) : NULL;
	if (e)
		e->busy_ns = v < TOP_UNKNOWN ? v : TOP_UNKNOWN - 1;
}

/* Removes engines with a capacity but no time. */
static void drop_idle_names(struct top_fdinfo *info)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < info->nr_engines; i++)
		if (info->engines[i].busy_ns != TOP_UNKNOWN)
			info->engines[n++] = info->engines[i];
	info->nr_engines = n;
}

static void copy_value(char *to, size_t size, const char *value)
{
	snprintf(to, size, "%s", value);
	top_clean(to);
}

bool top_fdinfo_parse(const char *text, struct top_fdinfo *info)
{
	uint64_t old_resident = TOP_UNKNOWN, v;
	bool has_id = false;

	*info = (struct top_fdinfo){ .total_bytes = TOP_UNKNOWN, .resident_bytes = TOP_UNKNOWN };
	while (*text) {
		size_t n = strcspn(text, "\n");
		char line[256], *value;

		snprintf(line, sizeof(line), "%.*s", n < sizeof(line) ? (int)n : 0, text);
		text += n + !!text[n];
		value = strchr(line, ':');
		if (!value)
			continue;
		*value++ = '\0';
		value += strspn(value, " \t");
		for (char *end = value + strlen(value);
		     end > value && isspace((unsigned char)end[-1]);)
			*--end = '\0';
		if (!strcmp(line, "drm-driver"))
			copy_value(info->driver, sizeof(info->driver), value);
		else if (!strcmp(line, "drm-pdev"))
			copy_value(info->pdev, sizeof(info->pdev), value);
		else if (!strcmp(line, "drm-client-id"))
			has_id = parse_number(value, "", &info->client_id);
		else if (key_rest(line, "drm-engine-"))
			parse_engine(info, line, value);
		else if (key_rest(line, "drm-total-") && !key_rest(line, "drm-total-cycles-") &&
			 parse_bytes(value, &v))
			add_bytes(&info->total_bytes, v);
		else if (key_rest(line, "drm-resident-") && parse_bytes(value, &v))
			add_bytes(&info->resident_bytes, v);
		else if (key_rest(line, "drm-memory-") && parse_bytes(value, &v))
			add_bytes(&old_resident, v);
	}
	/* drm-memory- is the old name of drm-resident-; a driver may write both. */
	if (info->resident_bytes == TOP_UNKNOWN)
		info->resident_bytes = old_resident;
	drop_idle_names(info);
	return info->driver[0] && has_id;
}
