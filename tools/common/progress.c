// SPDX-License-Identifier: MIT
/* The progress bar: redrawn at most ten times a second, and only for work that lasts FIRST_NS. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "progress.h"
#include "tool.h"

#define REDRAW_NS 100000000u
/* For shorter work the bar would only flicker. */
#define FIRST_NS 200000000u
#define BAR_CELLS 30
/* Columns for what is not the bar: brackets, a share, and a few words */
#define OTHER_COLUMNS 10
#define LEAST_CELLS 4

static struct {
	uint64_t begin_ns, drawn_ns;
	bool shown;
} bar;

static volatile sig_atomic_t stopped;

/* Columns of the terminal that may be written: one less than it has, since some wrap after the
 * last one. */
static int columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
		return 79;
	return size.ws_col - 1;
}

/* The bytes of @text's first @n characters. */
static int cut(const char *text, int n)
{
	int bytes = 0;

	for (; text[bytes] && n >= 0; bytes++)
		if ((text[bytes] & 0xc0) != 0x80 && n-- == 0)
			break;
	return bytes;
}

void progress_show(double fraction, const char *what)
{
	static int terminal = -1;
	char cells[BAR_CELLS + 1];
	uint64_t now;
	int full, room, n;

	if (terminal < 0)
		terminal = isatty(STDERR_FILENO);
	if (!terminal)
		return;
	now = tool_now_ns();
	if (!bar.begin_ns)
		bar.begin_ns = now;
	if (now - bar.begin_ns < FIRST_NS || now - bar.drawn_ns < REDRAW_NS)
		return;
	fraction = fraction < 0 ? 0 : fraction > 1 ? 1 : fraction;
	/* The bar gets what the text leaves, and the text what the least bar leaves. */
	room = columns() - OTHER_COLUMNS;
	n = room - cut(what, 40);
	n = n > BAR_CELLS ? BAR_CELLS : n < LEAST_CELLS ? LEAST_CELLS : n;
	full = (int)(fraction * n);
	memset(cells, '.', (size_t)n);
	memset(cells, '#', (size_t)full);
	cells[n] = '\0';
	/* \033[K clears the rest of a longer line. */
	fprintf(stderr, "\r[%s] %3.0f%% %.*s\033[K", cells, 100 * fraction,
		cut(what, room > n ? room - n : 0), what);
	fflush(stderr);
	bar.drawn_ns = now;
	bar.shown = true;
}

void progress_clear(void)
{
	if (bar.shown) {
		fputs("\r\033[K", stderr);
		fflush(stderr);
	}
	bar.begin_ns = bar.drawn_ns = 0;
	bar.shown = false;
}

int progress_load(void *ud, double fraction, const char *what)
{
	progress_show(fraction, what);
	return stopped;
}

void progress_stop(void)
{
	stopped = 1;
}
