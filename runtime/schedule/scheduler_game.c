// SPDX-License-Identifier: MIT
/* A game's frames: when they are due, drawn and dropped (scheduler.h), under either clock. */
#include <math.h>

#include "scheduler_private.h"

/* Two clocks are added up, the run's and the game's: what is no further apart happens at the same time. */
#define SAME_NS 0.1

static double release_ns(const struct sched_game *game, uint64_t frame)
{
	return (double)frame * game->period_ns;
}

void sched_game_expire(struct sched_game *game, double now)
{
	for (; release_ns(game, game->next + 1) <= now + SAME_NS; game->next++)
		game->dropped++;
}

bool sched_game_waits(struct sched_game *game, double now)
{
	if (!game || game->end_ns > 0)
		return false;
	if (game->left)
		return true;
	sched_game_expire(game, now);
	return release_ns(game, game->next) <= now + SAME_NS;
}

bool sched_game_runs(const struct sched_game *game)
{
	return game && game->end_ns > 0;
}

bool sched_game_done(const struct sched_game *game, double now)
{
	return sched_game_runs(game) && game->end_ns <= now + SAME_NS;
}

void sched_game_frame_begin(struct sched_game *game)
{
	game->next++;
	game->deadline_ns = release_ns(game, game->next);
}

void sched_game_frame_end(struct sched_game *game, double now)
{
	if (now <= game->deadline_ns + SAME_NS)
		game->shown++;
	else
		game->dropped++;
}

void sched_game_begin(struct sched_game *game, double now)
{
	if (!game->left) {
		sched_game_frame_begin(game);
		game->left = game->kernels;
	}
	game->end_ns = now + game->work_ns / game->kernels;
	game->was_last = true;
}

void sched_game_end(struct sched_game *game)
{
	double end_ns = game->end_ns;

	game->end_ns = 0;
	if (!--game->left)
		sched_game_frame_end(game, end_ns);
}

double sched_game_next(const struct sched_game *game, double now)
{
	if (!game)
		return INFINITY;
	if (game->end_ns > 0)
		return game->end_ns;
	return !game->left && release_ns(game, game->next) > now + SAME_NS ? release_ns(game, game->next) : INFINITY;
}
