/* SPDX-License-Identifier: MIT */
/*
 * A game beside an engine (HeteroLLM, section 5: an engine concurrently with GPU-intensive
 * workloads): its frames, under either clock.
 *
 * It makes a frame every period_ns, of so many kernels that take the GPU work_ns together. A frame
 * that is not finished when the next one is due is dropped, and not begun at all if it has not been
 * by then. On the virtual clock a game is another client of the GPU's lane:
 *
 *	struct game game = { .period_ns = 1e9 / 60, .work_ns = 4e6, .kernels = 16 };
 *	struct sched_client client = { .ops = &game_client_ops, .ud = &game, .lane = SOC_GPU };
 *	opts.client = &client;
 *	... sched_run(plan, &opts, &run) ...
 *	game_until(&game, client.now_ns);
 *
 * gpu_game.h plays it on the wall clock. Times are ns since the game's beginning.
 */
#ifndef GAME_H
#define GAME_H

#include "soc.h"
#include "scheduler.h"

struct game {
	double period_ns, work_ns;
	uint32_t kernels;
	/* The rest is 0 before the first frame. */
	uint64_t shown, dropped; /* frames */
	double now_ns; /* how long it has been played: game_until() */
	uint64_t next; /* frame that has not begun */
	uint32_t left; /* kernels of the one that has */
	double deadline_ns; /* of that one */
};

/* The same game before its first frame. */
struct game game_anew(const struct game *game);
/* It has been played until then: now_ns, and in dropped what has not begun by its deadline. */
void game_until(struct game *game, double now_ns);
double game_fps(const struct game *game); /* frames shown a second */

/* The game's kernels, one after the other; @ud: the game. */
extern const struct sched_client_ops game_client_ops;

/* Whole frames, for those who draw them (gpu_game.h). */
/* Whether one is due; those whose time is over are dropped. */
bool game_frame_waits(struct game *game, double now_ns);
void game_frame_begin(struct game *game); /* the next one */
void game_frame_end(struct game *game, double now_ns); /* it is shown or dropped */
/* When the next one is due; INFINITY: it is now. */
double game_frame_due(const struct game *game, double now_ns);

/* The SoC that a plan made with the game in mind has: its GPU is slower by the share of time
 * that frames take. */
struct soc game_leaves(const struct game *game, const struct soc *p);

#endif /* GAME_H */
