// SPDX-License-Identifier: MIT
/*
 * Samples as lines of text, for any width of the terminal: columns that do not fit are left out,
 * the least important first.
 */
#define _GNU_SOURCE
#include "npu-top.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>
#include <wctype.h>

/* ---- characters ---- */

/* Length of the UTF-8 character at @s; 0: invalid. */
static unsigned int utf8_bytes(const unsigned char *s)
{
	uint32_t c, least;
	unsigned int n;

	if (s[0] < 0x80)
		return 1;
	n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	c = s[0] & (0x7f >> n);
	for (unsigned int i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	least = n == 4 ? 0x10000 : n == 3 ? 0x800 : 0x80;
	return c < least || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

void top_clean(char *s)
{
	unsigned char *in = (unsigned char *)s, *out = in;

	while (*in) {
		unsigned int n = utf8_bytes(in);
		/* C0, DEL, and C1 (0xc2 0x80 to 0xc2 0x9f) */
		bool control =
			*in < 0x20 || *in == 0x7f || (n == 2 && in[0] == 0xc2 && in[1] < 0xa0);

		if (!n || control) {
			*out++ = '?';
			in += n ? n : 1;
			continue;
		}
		memmove(out, in, n);
		out += n;
		in += n;
	}
	*out = '\0';
}

unsigned int top_clip(char *s, size_t size, unsigned int columns)
{
	char out[TOP_LINE];
	unsigned int used = 0;
	size_t len = 0;
	mbstate_t state = { 0 };

	for (const char *in = s; *in;) {
		const char *text = in;
		wchar_t wc;
		size_t n = mbrtowc(&wc, in, MB_LEN_MAX, &state);
		int width = n == (size_t)-1 || n == (size_t)-2 ? -1 : wcwidth(wc);

		if (width < 0) {
			memset(&state, 0, sizeof(state));
			n = utf8_bytes((const unsigned char *)in);
			n = n ? n : 1;
		}
		in += n;
		/* Zero-width marks could reorder the line. */
		if (width < 1) {
			text = "?";
			n = width = 1;
		}
		if (used + (unsigned int)width > columns || len + n >= sizeof(out))
			break;
		memcpy(out + len, text, n);
		len += n;
		used += (unsigned int)width;
	}
	out[len] = '\0';
	snprintf(s, size, "%s", out);
	return used;
}

/* ---- numbers ---- */

void top_format_bytes(char *buf, size_t size, uint64_t bytes)
{
	static const char units[] = "BKMGTPE";
	double v = (double)bytes;
	unsigned int u = 0;

	if (bytes == TOP_UNKNOWN) {
		snprintf(buf, size, "-");
		return;
	}
	/* 999.5 would be rounded to 1000. */
	for (; v >= 999.5 && units[u + 1]; u++)
		v /= 1024;
	snprintf(buf, size, u && v < 99.95 ? "%.1f%c" : "%.0f%c", v, units[u]);
}

void top_format_time(char *buf, size_t size, uint64_t ns)
{
	uint64_t s = ns / 1000000000, minutes = s / 60;

	if (ns == TOP_UNKNOWN)
		snprintf(buf, size, "-");
	else if (minutes < 1000)
		snprintf(buf, size, "%u:%02u.%02u", (unsigned int)minutes, (unsigned int)(s % 60),
			 (unsigned int)(ns % 1000000000 / 10000000));
	else
		snprintf(buf, size, "%lluh", (unsigned long long)(minutes / 60));
}

static void format_percent(char *buf, size_t size, double fraction)
{
	if (fraction < 0)
		snprintf(buf, size, "-");
	else
		snprintf(buf, size, "%.1f", fraction * 100);
}

/* ---- tables ---- */

enum { COL_PID, COL_USER, COL_DEV, COL_NPU, COL_TIME, COL_MEM, COL_RES, COL_COMMAND, COLS };

static const struct {
	const char *title;
	unsigned int width;
	bool right;
} cols[COLS] = {
	{ "PID", 7, true },  { "USER", 8, false }, { "DEV", 7, false }, { "NPU%", 5, true },
	{ "TIME", 9, true }, { "MEM", 6, true },   { "RES", 6, true },	{ "COMMAND", 6, false },
};

/* A bit for each column that fits a line of @columns. */
static unsigned int cols_that_fit(unsigned int columns)
{
	static const unsigned char dispensable[] = { COL_RES, COL_USER, COL_TIME,
						     COL_DEV, COL_MEM,	COL_PID };
	unsigned int set = (1u << COLS) - 1, width = COLS - 1;

	for (unsigned int i = 0; i < COLS; i++)
		width += cols[i].width;
	for (unsigned int i = 0; columns && width > columns && i < sizeof(dispensable); i++) {
		set &= ~(1u << dispensable[i]);
		width -= cols[dispensable[i]].width + 1;
	}
	return set;
}

static void end_line(char *line, unsigned int columns)
{
	size_t n;

	if (columns)
		top_clip(line, TOP_LINE, columns);
	for (n = strlen(line); n && line[n - 1] == ' ';)
		line[--n] = '\0';
}

static void row(char *line, unsigned int columns, char cells[COLS][TOP_COMM])
{
	unsigned int set = cols_that_fit(columns);
	size_t n = 0;

	for (unsigned int i = 0; i < COLS; i++) {
		unsigned int used, pad;

		if (!(set & 1u << i))
			continue;
		used = top_clip(cells[i], TOP_COMM, i == COL_COMMAND ? TOP_COMM : cols[i].width);
		pad = used < cols[i].width ? cols[i].width - used : 0;
		n += (size_t)snprintf(line + n, TOP_LINE - n, "%s%*s%s%*s", n ? " " : "",
				      cols[i].right ? (int)pad : 0, "", cells[i],
				      cols[i].right ? 0 : (int)pad, "");
	}
	end_line(line, columns);
}

void top_line_clients_header(char *line, unsigned int columns)
{
	char cells[COLS][TOP_COMM];

	for (unsigned int i = 0; i < COLS; i++)
		snprintf(cells[i], TOP_COMM, "%s", cols[i].title);
	row(line, columns, cells);
}

void top_line_client(char *line, unsigned int columns, const struct top_client *client)
{
	char cells[COLS][TOP_COMM];

	snprintf(cells[COL_PID], TOP_COMM, "%d", (int)client->pid);
	snprintf(cells[COL_USER], TOP_COMM, "%s", client->user);
	snprintf(cells[COL_DEV], TOP_COMM, "%s", client->node);
	format_percent(cells[COL_NPU], TOP_COMM, client->busy);
	top_format_time(cells[COL_TIME], TOP_COMM, top_client_ns(client));
	top_format_bytes(cells[COL_MEM], TOP_COMM, client->info.total_bytes);
	top_format_bytes(cells[COL_RES], TOP_COMM, client->info.resident_bytes);
	if (client->nr_processes > 1)
		snprintf(cells[COL_COMMAND], TOP_COMM, "%.40s (+%u)", client->comm,
			 client->nr_processes - 1);
	else
		snprintf(cells[COL_COMMAND], TOP_COMM, "%s", client->comm);
	row(line, columns, cells);
}

void top_line_device(char *line, unsigned int columns, const struct top_device *dev)
{
	size_t n = (size_t)snprintf(line, TOP_LINE, "%s", dev->node);
	char memory[16];

	top_format_bytes(memory, sizeof(memory), dev->memory_bytes);
	if (dev->name[0])
		n += (size_t)snprintf(line + n, TOP_LINE - n, " %s", dev->name);
	if (dev->gone)
		n += (size_t)snprintf(line + n, TOP_LINE - n, ", gone");
	if (dev->memory_bytes != TOP_UNKNOWN)
		n += (size_t)snprintf(line + n, TOP_LINE - n, ", %s of memory", memory);
	snprintf(line + n, TOP_LINE - n, ", %u client%s", dev->nr_clients,
		 dev->nr_clients == 1 ? "" : "s");
	end_line(line, columns);
}

void top_line_bar(char *line, unsigned int columns, const char *label, double fraction,
		  const char *text)
{
	unsigned int used = (unsigned int)(strlen(label) + strlen(text)) + 4, room, full;
	char bar[TOP_LINE / 4];

	room = columns > used ? columns - used : 0;
	if (room > 200)
		room = 200;
	full = fraction > 0 ? (unsigned int)(fraction * room + 0.5) : 0;
	for (unsigned int i = 0; i < room; i++)
		bar[i] = i < full ? '|' : ' ';
	bar[room] = '\0';
	snprintf(line, TOP_LINE, "%s [%s%s]", label, bar, text);
	end_line(line, columns);
}

void top_line_history(char *line, unsigned int columns, const struct top_device *dev)
{
	static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const ascii[] = { "_", ".", ":", "-", "=", "+", "*", "#" };
	bool utf8 = wcwidth(L'█') == 1 && MB_CUR_MAX > 1;
	unsigned int n = dev->nr_history < columns ? dev->nr_history : columns;
	size_t len = 0;

	if (n > TOP_LINE / 4)
		n = TOP_LINE / 4;
	line[0] = '\0';
	for (unsigned int i = dev->nr_history - n; i < dev->nr_history; i++) {
		float v = dev->history[i];
		unsigned int level = v > 0 ? (unsigned int)(v * 7 + 0.5f) : 0;

		len += (size_t)snprintf(line + len, TOP_LINE - len, "%s",
					v < 0  ? " "
					: utf8 ? blocks[level > 7 ? 7 : level]
					       : ascii[level > 7 ? 7 : level]);
	}
}

void top_line_hidden(char *line, unsigned int columns, const struct top *top)
{
	line[0] = '\0';
	if (top->hidden)
		snprintf(line, TOP_LINE,
			 "%u process%s of other users cannot be read (permission denied): their "
			 "clients are hidden; run npu-top as root to see them",
			 top->hidden, top->hidden == 1 ? "" : "es");
	end_line(line, columns);
}

/* ---- batch ---- */

static void print_device(FILE *out, const struct top_device *dev)
{
	char busy[32], memory[32];

	format_percent(busy, sizeof(busy), dev->busy);
	top_format_bytes(memory, sizeof(memory), dev->memory_bytes);
	fprintf(out, "%-7s %5s %6s %7u %s%s\n", dev->node, busy, memory, dev->nr_clients,
		dev->name[0] ? dev->name : "-", dev->gone ? ", gone" : "");
}

void top_print_text(FILE *out, const struct top *top)
{
	char line[TOP_LINE], when[32] = "";
	time_t now = time(NULL);
	struct tm tm;

	if (localtime_r(&now, &tm))
		strftime(when, sizeof(when), "%H:%M:%S", &tm);
	fprintf(out, "npu-top %s, over %.2f s\n", when, (double)top->interval_ns * 1e-9);
	fprintf(out, "%-7s %5s %6s %7s %s\n", "DEVICE", "NPU%", "MEM", "CLIENTS", "NAME");
	for (size_t i = 0; i < top->nr_devices; i++)
		print_device(out, &top->devices[i]);
	top_line_clients_header(line, 0);
	fprintf(out, "%s\n", line);
	for (size_t i = 0; i < top->nr_clients; i++) {
		top_line_client(line, 0, &top->clients[i]);
		fprintf(out, "%s\n", line);
	}
	top_line_hidden(line, 0, top);
	if (line[0])
		fprintf(out, "%s\n", line);
	putc('\n', out);
	fflush(out);
}
