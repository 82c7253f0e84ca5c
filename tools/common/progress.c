// SPDX-License-Identifier: MIT
/* The progress bar: redrawn at most ten times a second, and only for work that lasts FIRST_NS. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "progress.h"
#include "tool.h"

#define REDRAW_NS 100000000u
/* For shorter work the bar would only flicker. */
#define FIRST_NS 200000000u
#define BAR_CELLS 30

static struct {
	uint64_t begin_ns, drawn_ns;
	bool shown;
} bar;

static volatile sig_atomic_t stopped;

void progress_show(double fraction, const char *what)
{
	static int terminal = -1;
	char cells[BAR_CELLS + 1];
	uint64_t now;
	int full;

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
	full = (int)(fraction * BAR_CELLS);
	memset(cells, '.', BAR_CELLS);
	memset(cells, '#', (size_t)full);
	cells[BAR_CELLS] = '\0';
	/* \033[K clears the rest of a longer line. */
	fprintf(stderr, "\r[%s] %3.0f%% %.40s\033[K", cells, 100 * fraction, what);
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
