// SPDX-License-Identifier: MIT
/* A game's frames: when they are due, drawn and dropped (game.h). */
#include <math.h>

#include "game.h"

/* A game that wants all of the GPU's time gets no more than its turns. */
#define GPU_LEFT_MIN 0.1

static double release_ns(const struct game *game, uint64_t frame)
{
	return (double)frame * game->period_ns;
}

struct game game_anew(const struct game *game)
{
	return (struct game){ .period_ns = game->period_ns,
			      .work_ns = game->work_ns,
			      .kernels = game->kernels };
}

static void expire(struct game *game, double now_ns)
{
	for (; release_ns(game, game->next + 1) <= now_ns + SCHED_SAME_NS; game->next++)
		game->dropped++;
}

void game_until(struct game *game, double now_ns)
{
	game->now_ns = now_ns;
	expire(game, now_ns);
}

double game_fps(const struct game *game)
{
	return (double)game->shown / (game->now_ns / 1e9);
}

/* ---- frames ---- */

bool game_frame_waits(struct game *game, double now_ns)
{
	expire(game, now_ns);
	return release_ns(game, game->next) <= now_ns + SCHED_SAME_NS;
}

void game_frame_begin(struct game *game)
{
	game->next++;
	game->deadline_ns = release_ns(game, game->next);
}

void game_frame_end(struct game *game, double now_ns)
{
	if (now_ns <= game->deadline_ns + SCHED_SAME_NS)
		game->shown++;
	else
		game->dropped++;
}

double game_frame_due(const struct game *game, double now_ns)
{
	double due_ns = release_ns(game, game->next);

	return due_ns > now_ns + SCHED_SAME_NS ? due_ns : INFINITY;
}

/* ---- kernels, on the virtual clock ---- */

static bool kernel_waits(void *ud, double now_ns)
{
	struct game *game = ud;

	return game->left || game_frame_waits(game, now_ns);
}

static double kernel_begin(void *ud, double now_ns)
{
	struct game *game = ud;

	if (!game->left) {
		game_frame_begin(game);
		game->left = game->kernels;
	}
	return now_ns + game->work_ns / game->kernels;
}

static void kernel_end(void *ud, double now_ns)
{
	struct game *game = ud;

	if (!--game->left)
		game_frame_end(game, now_ns);
}

static double kernel_next(void *ud, double now_ns)
{
	const struct game *game = ud;

	return game->left ? INFINITY : game_frame_due(game, now_ns);
}

const struct sched_client_ops game_client_ops = { kernel_waits, kernel_begin, kernel_end,
						  kernel_next };

/* ---- what it leaves ---- */

struct soc game_leaves(const struct game *game, const struct soc *p)
{
	double left = 1 - game->work_ns / game->period_ns;
	struct soc slower = *p;

	left = left > GPU_LEFT_MIN ? left : GPU_LEFT_MIN;
	slower.gpu.tflops *= left;
	slower.gpu.gemv_tflops *= left;
	slower.gpu.vector_gelems *= left;
	slower.gpu.dram_gbps *= left;
	return slower;
}
