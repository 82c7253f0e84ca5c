// SPDX-License-Identifier: MIT
/*
 * The full screen, with ncurses: devices with a bar and history at the top, clients below, the keys
 * in the last line. text.c makes the lines; those that do not fit the terminal are left out.
 */
#define _GNU_SOURCE
#include "npu-top.h"

#include <curses.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

struct screen {
	struct top *top;
	enum top_sort sort;
	bool paused;
	size_t selected, first; /* clients */
	int y; /* the next free line */
};

static void put_line(struct screen *s, const char *line, int attr)
{
	if (s->y >= LINES)
		return;
	attrset(attr);
	mvaddstr(s->y++, 0, line);
	attrset(A_NORMAL);
}

static void draw_bar(struct screen *s, const struct top_device *dev, unsigned int columns)
{
	char busy[16] = "-", line[TOP_LINE];

	if (dev->busy >= 0)
		snprintf(busy, sizeof(busy), "%.1f%%", dev->busy * 100);
	top_line_bar(line, columns, "NPU", dev->busy, busy);
	put_line(s, line, A_NORMAL);
}

/* Draws the devices, and leaves at least some lines for clients. */
static void draw_devices(struct screen *s, unsigned int columns)
{
	const struct top *top = s->top;
	int least = LINES > 12 ? 6 : 4;
	char line[TOP_LINE];

	for (size_t i = 0; i < top->nr_devices; i++) {
		if (i && s->y + 3 + least > LINES) {
			snprintf(line, sizeof(line), "and %zu more", top->nr_devices - i);
			top_clip(line, sizeof(line), columns);
			put_line(s, line, A_NORMAL);
			return;
		}
		top_line_device(line, columns, &top->devices[i]);
		put_line(s, line, A_BOLD);
		draw_bar(s, &top->devices[i], columns);
		if (s->y + least < LINES) {
			top_line_history(line, columns, &top->devices[i]);
			put_line(s, line, A_NORMAL);
		}
	}
}

static void draw_clients(struct screen *s, unsigned int columns, int last)
{
	const struct top *top = s->top;
	size_t rows = s->y < last ? (size_t)(last - s->y) : 0;
	char line[TOP_LINE];

	if (s->selected >= top->nr_clients)
		s->selected = top->nr_clients ? top->nr_clients - 1 : 0;
	if (s->selected < s->first)
		s->first = s->selected;
	if (rows && s->selected >= s->first + rows)
		s->first = s->selected - rows + 1;
	for (size_t i = s->first; i < top->nr_clients && i < s->first + rows; i++) {
		top_line_client(line, columns, &top->clients[i]);
		put_line(s, line, i == s->selected ? A_REVERSE : A_NORMAL);
	}
}

static void draw(struct screen *s)
{
	/* Writing to the last column of the last line would scroll. */
	unsigned int columns = COLS > 1 ? (unsigned int)COLS - 1 : 1;
	char line[TOP_LINE], hidden[TOP_LINE];
	int last = LINES - 1;

	if (columns > TOP_LINE / 4)
		columns = TOP_LINE / 4;
	erase();
	s->y = 0;
	draw_devices(s, columns);
	top_line_clients_header(line, columns);
	put_line(s, line, A_REVERSE);
	top_line_hidden(hidden, columns, s->top);
	last -= hidden[0] != '\0';
	draw_clients(s, columns, last);
	if (hidden[0]) {
		s->y = last;
		put_line(s, hidden, A_BOLD);
	}
	snprintf(line, sizeof(line), "q quit  s sort: %s  p %s", top_sort_names[s->sort],
		 s->paused ? "continue" : "pause");
	top_clip(line, sizeof(line), columns);
	s->y = LINES - 1;
	put_line(s, line, A_NORMAL);
	refresh();
}

/* Returns false to quit. */
static bool handle_key(struct screen *s, int key)
{
	size_t page = LINES > 8 ? (size_t)LINES / 2 : 1;

	switch (key) {
	case 'q':
		return false;
	case 's':
		s->sort = (s->sort + 1) % TOP_SORTS;
		top_sort(s->top, s->sort);
		break;
	case 'p':
		s->paused = !s->paused;
		break;
	case KEY_DOWN:
		s->selected++;
		break;
	case KEY_UP:
		s->selected -= s->selected > 0;
		break;
	case KEY_NPAGE:
		s->selected += page;
		break;
	case KEY_PPAGE:
		s->selected -= s->selected < page ? s->selected : page;
		break;
	}
	return true;
}

/* Handles keys until @until_ns. 1 to go on, 0 after q, -errno for errors of the terminal. */
static int wait_keys(struct screen *s, uint64_t until_ns)
{
	for (;;) {
		struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
		uint64_t now = tool_now_ns();
		int key, n;

		if (now >= until_ns)
			return 1;
		n = poll(&in, 1, (int)((until_ns - now + 999999) / 1000000));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0 && !(in.revents & POLLIN))
			return -EIO;
		key = getch(); /* also a resize, which interrupts poll() */
		if (n > 0 && key == ERR)
			return -EIO;
		for (; key != ERR; key = getch())
			if (!handle_key(s, key))
				return 0;
		draw(s);
	}
}

static int run(struct screen *s, double delay_s, uint64_t samples)
{
	uint64_t delay_ns = (uint64_t)(delay_s * 1e9), next_ns = tool_now_ns() + delay_ns;
	int ret;

	for (uint64_t n = 0; !samples || n < samples;) {
		top_sort(s->top, s->sort);
		draw(s);
		ret = wait_keys(s, next_ns);
		if (ret <= 0)
			return ret;
		next_ns = tool_now_ns() + delay_ns;
		if (s->paused)
			continue;
		if (top_sample(s->top))
			return 1;
		n++;
	}
	return 0;
}

int top_screen(struct top *top, enum top_sort sort, double delay_s, uint64_t samples)
{
	struct screen s = { .top = top, .sort = sort };
	const char *term = getenv("TERM");
	SCREEN *screen;
	int ret;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return tool_fail("%s is no terminal: use --batch or --json",
				 isatty(STDIN_FILENO) ? "stdout" : "stdin");
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return tool_fail("unknown terminal '%s': set TERM, or use --batch",
				 term ? term : "");
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	curs_set(0);
	ret = run(&s, delay_s, samples);
	endwin();
	delscreen(screen);
	return ret < 0 ? tool_fail("the terminal: %s", strerror(-ret)) : ret;
}
