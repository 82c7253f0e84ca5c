// SPDX-License-Identifier: MIT
/*
 * A game on an OpenCL device: its frames' size, its thread and its frames (gpu_game.h).
 *
 * A kernel is y[r][c] = sum over i of x[r][i] w[c][i], for COLS columns of DEPTH elements: the
 * weights stay in any device's caches, rows come from memory and go there, as pixels do. Rows are
 * the size of a kernel, in steps of which each is the same work.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu.h"
#include "gpu_game.h"
#include "llm.h"
#include "llm_fail.h"

#define DEPTH 256
#define COLS 128
/* More than the rows that a matmul computes in one pass over the weights: all sizes are the same
 * kernel. */
#define STEP_ROWS 8
#define MAX_STEPS 8192
/* Of a size: the least of so many frames, or of as many as fit that time. */
#define MEASURED_FRAMES 5
#define MEASURED_NS 250e6

struct gpu_game {
	struct game game;
	struct llm_gpu *gpu;
	struct llm_gpu_queue *queue;
	float *host; /* w [COLS][DEPTH], x [steps * STEP_ROWS][DEPTH] */
	struct llm_gpu_buffer *in, *out; /* of host; y [steps * STEP_ROWS][COLS] */
	unsigned int steps; /* that there is room for */
	unsigned int size; /* steps of a kernel */
	double frame_ns;
	pthread_t thread;
	bool playing;
	uint64_t begin_ns;
	pthread_mutex_t lock;
	pthread_cond_t ends; /* on CLOCK_MONOTONIC */
	bool ending; /* with lock */
	int err; /* the thread's, with its line */
	char line[512];
};

static uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- frames ---- */

int gpu_game_play(struct game *game, const struct gpu_game_world *world)
{
	int err = 0;

	while (!err && world->goes_on(world->ud)) {
		double now = world->now(world->ud);

		if (!game_frame_waits(game, now)) {
			world->sleep(world->ud, game_frame_due(game, now));
			continue;
		}
		game_frame_begin(game);
		err = world->draw(world->ud);
		game_frame_end(game, world->now(world->ud));
	}
	game_until(game, world->now(world->ud));
	return err;
}

int gpu_game_size(double target_ns, unsigned int max,
		  int (*measure)(void *ud, unsigned int size, double *ns), void *ud,
		  unsigned int *size, double *ns)
{
	unsigned int low = 1, high;
	double low_ns, high_ns;
	int err = measure(ud, low, &low_ns);

	for (high = low, high_ns = low_ns; !err && high_ns < target_ns && high < max;) {
		low = high;
		low_ns = high_ns;
		high = high > max / 2 ? max : 2 * high;
		err = measure(ud, high, &high_ns);
	}
	while (!err && high_ns > target_ns && high - low > 1 && high - low > low / 16) {
		unsigned int middle = low + (high - low) / 2;
		double middle_ns;

		err = measure(ud, middle, &middle_ns);
		if (!err && middle_ns < target_ns) {
			low = middle;
			low_ns = middle_ns;
		} else if (!err) {
			high = middle;
			high_ns = middle_ns;
		}
	}
	if (err)
		return err;
	*size = fabs(low_ns - target_ns) < fabs(high_ns - target_ns) ? low : high;
	*ns = *size == low ? low_ns : high_ns;
	return 0;
}

/* A frame of kernels of @size steps, until it is finished. */
static int draw(struct gpu_game *g, unsigned int size)
{
	struct llm_gpu_matmul op = {
		.format = LLM_GPU_F32,
		.m = size * STEP_ROWS,
		.k = DEPTH,
		.n = COLS,
		.x = { g->in, sizeof(float) * COLS * DEPTH },
		.w = { g->in, 0 },
		.y = { g->out, 0 },
		.ldx = DEPTH,
		.ldw = DEPTH,
		.ldy = COLS,
	};
	int err = 0;

	for (uint32_t i = 0; i < g->game.kernels && !err; i++)
		err = llm_gpu_matmul(g->queue, &op);
	return llm_gpu_finish(g->queue) ?: err;
}

/* ---- sizes ---- */

static void give_memory(struct gpu_game *g)
{
	llm_gpu_unmap(g->in);
	llm_gpu_unmap(g->out);
	free(g->host);
	g->in = g->out = NULL;
	g->host = NULL;
	g->steps = 0;
}

/* Room for kernels of @steps; more is made anew. */
static int take_memory(struct gpu_game *g, unsigned int steps)
{
	size_t floats = (size_t)DEPTH * (COLS + (size_t)steps * STEP_ROWS),
	       bytes = floats * sizeof(float);
	int err;

	if (steps <= g->steps)
		return 0;
	give_memory(g);
	/* DEPTH floats times 8 rows are whole pages. */
	g->host = aligned_alloc(LLM_GPU_PAGE, bytes);
	if (!g->host)
		return llm_fail(-ENOMEM, "no memory for a game's frames");
	/* Small numbers of either sign; no denormals, which some devices take longer over. */
	for (size_t i = 0; i < floats; i++)
		g->host[i] = (float)(i * 37 % 255) / 127 - 1;
	err = llm_gpu_map(g->gpu, g->host, bytes, LLM_GPU_SHARED, &g->in);
	err = err ?: llm_gpu_alloc(g->gpu, sizeof(float) * COLS * STEP_ROWS * steps, &g->out);
	err = err ?: llm_gpu_to_device(g->queue, g->in, 0, bytes);
	err = err ?: llm_gpu_finish(g->queue);
	if (!err)
		g->steps = steps;
	return err;
}

static int measure(void *ud, unsigned int size, double *ns)
{
	struct gpu_game *g = ud;
	uint64_t first_ns;
	/* Once before: some platforms compile for a kernel's size. */
	int err = take_memory(g, size) ?: draw(g, size);

	first_ns = clock_ns();
	*ns = INFINITY;
	for (int i = 0; i < MEASURED_FRAMES && !err; i++) {
		uint64_t begin_ns = clock_ns();

		err = draw(g, size);
		*ns = fmin(*ns, (double)(clock_ns() - begin_ns));
		if ((double)(clock_ns() - first_ns) > MEASURED_NS)
			break;
	}
	return err;
}

int gpu_game_open(const char *select, const struct game *game, struct gpu_game **out)
{
	struct gpu_game *g = calloc(1, sizeof(*g));
	pthread_condattr_t attr;
	int err;

	*out = NULL;
	if (!g)
		return llm_fail(-ENOMEM, "no memory for a game");
	g->game = game_anew(game);
	pthread_mutex_init(&g->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&g->ends, &attr);
	pthread_condattr_destroy(&attr);
	if (!(game->period_ns > 0) || !(game->work_ns > 0) || !game->kernels)
		err = llm_fail(-EINVAL,
			       "a game of frames every %g ns, of %u kernels of %g ns together: all "
			       "are to be above 0",
			       game->period_ns, game->kernels, game->work_ns);
	else
		err = llm_gpu_open(select, NULL, &g->gpu);
	err = err ?: llm_gpu_queue_create(g->gpu, &g->queue);
	err = err ?: gpu_game_size(game->work_ns, MAX_STEPS, measure, g, &g->size, &g->frame_ns);
	if (err)
		gpu_game_close(g);
	else
		*out = g;
	return err;
}

void gpu_game_close(struct gpu_game *g)
{
	struct game played;

	if (!g)
		return;
	if (g->playing)
		gpu_game_stop(g, &played);
	llm_gpu_queue_free(g->queue);
	give_memory(g);
	llm_gpu_close(g->gpu);
	pthread_cond_destroy(&g->ends);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

double gpu_game_frame_ns(const struct gpu_game *g)
{
	return g->frame_ns;
}

/* ---- the thread ---- */

static double game_now(void *ud)
{
	const struct gpu_game *g = ud;

	return (double)(clock_ns() - g->begin_ns);
}

static void game_sleep(void *ud, double until)
{
	struct gpu_game *g = ud;
	uint64_t ns = g->begin_ns + (uint64_t)ceil(until);
	struct timespec ts = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	pthread_mutex_lock(&g->lock);
	if (!g->ending)
		pthread_cond_timedwait(&g->ends, &g->lock, &ts);
	pthread_mutex_unlock(&g->lock);
}

static bool game_goes_on(void *ud)
{
	struct gpu_game *g = ud;
	bool ending;

	pthread_mutex_lock(&g->lock);
	ending = g->ending;
	pthread_mutex_unlock(&g->lock);
	return !ending;
}

static int game_draw(void *ud)
{
	struct gpu_game *g = ud;

	return draw(g, g->size);
}

static void *play(void *ud)
{
	struct gpu_game *g = ud;
	const struct gpu_game_world world = { game_now, game_sleep, game_goes_on, game_draw, g };

	g->err = gpu_game_play(&g->game, &world);
	if (g->err)
		snprintf(g->line, sizeof(g->line), "%s", llm_error());
	return NULL;
}

int gpu_game_start(struct gpu_game *g)
{
	struct game *game = &g->game;
	int err;

	if (g->playing)
		return llm_fail(-EBUSY, "the game is being played already");
	*game = game_anew(game);
	g->ending = false;
	g->begin_ns = clock_ns();
	err = pthread_create(&g->thread, NULL, play, g);
	if (err)
		return llm_fail(-err, "no thread for a game: %s", strerror(err));
	g->playing = true;
	return 0;
}

int gpu_game_stop(struct gpu_game *g, struct game *played)
{
	if (!g->playing)
		return llm_fail(-EINVAL, "the game is not being played");
	pthread_mutex_lock(&g->lock);
	g->ending = true;
	pthread_cond_signal(&g->ends);
	pthread_mutex_unlock(&g->lock);
	pthread_join(g->thread, NULL);
	g->playing = false;
	*played = g->game;
	return g->err ? llm_fail(g->err, "a game's frame: %s", g->line) : 0;
}
