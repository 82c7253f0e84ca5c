/* SPDX-License-Identifier: MIT */
/*
 * A game on the wall clock: a second client of the OpenCL device beside an engine.
 *
 *	struct game played, game = { .period_ns = 1e9 / 60, .work_ns = 4e6, .kernels = 16 };
 *	struct gpu_game *g;
 *	if (gpu_game_open(NULL, &game, &g) || gpu_game_start(g))
 *		errx(1, "%s", llm_error());
 *	... what is to be measured beside it ...
 *	if (gpu_game_stop(g, &played))
 *		errx(1, "%s", llm_error());
 *	gpu_game_close(g);
 *
 * It is the game of the virtual clock (game.h): a frame's kernels are enqueued together once it is
 * due. How they and the engine's come by turns is up to the driver: the game has a context and a
 * queue of its own, and knows nothing of the engine.
 *
 * A kernel is a matmul of F32 rows with a small fixed matrix (llm_gpu_matmul()). Of how many rows,
 * gpu_game_open() finds by measuring, so that a frame takes about work_ns of the device, which has
 * to be idle then. It has 8 to 65536, so that a frame cannot be arbitrarily short or long:
 * gpu_game_frame_ns() is what it was measured to take, from the first kernel's enqueuing to the
 * last one's end. A CPU that plays the device (PoCL) computes the frames where the engine's threads
 * run too.
 *
 * Errors: 0 or a negative errno and llm_error(), those of gpu.h.
 *
 * Threads: open, start, stop and close by one at a time. start makes a thread, which stop ends.
 */
#ifndef GPU_GAME_H
#define GPU_GAME_H

#include "game.h"

struct gpu_game;

/* Opens the device that @select names, as llm_gpu_open() does, and sizes the kernels of a frame
 * of @game, of which period_ns, work_ns and kernels count. The game is not being played yet. */
int gpu_game_open(const char *select, const struct game *game, struct gpu_game **out);
/* Stops it first if it is being played. NULL: nothing. */
void gpu_game_close(struct gpu_game *g);
double gpu_game_frame_ns(const struct gpu_game *g); /* of the idle device */

/* From the first frame on, until stop. -EBUSY: it is being played already. */
int gpu_game_start(struct gpu_game *g);
/*
 * Ends the game with the frame that is being drawn, if one is. *@played: what was given to open,
 * shown and dropped frames since start, and in now_ns how long that was. Each frame whose time is
 * over counts as one of the two, and the last one if it was finished before its time was over. An
 * error is a frame's, with which the game had ended by itself; what was played before is then in
 * *@played. -EINVAL: it was not being played.
 */
int gpu_game_stop(struct gpu_game *g, struct game *played);

/* ---- parts, which work with any clock and device ---- */

/* What the game's thread needs of the world. Times are ns since the game's beginning. */
struct gpu_game_world {
	double (*now)(void *ud);
	void (*sleep)(void *ud, double until); /* or less long */
	bool (*goes_on)(void *ud); /* false: no other frame is begun */
	int (*draw)(void *ud); /* a frame, until it is finished; 0 or -errno, which ends the game */
	void *ud;
};

/* Plays @game, all of whose counts are 0, until goes_on says no; 0 or draw's error. now_ns,
 * shown and dropped are then as stop has them. */
int gpu_game_play(struct game *game, const struct gpu_game_world *world);

/*
 * In *@size the size, of 1 to @max, with which a frame takes nearest to @target_ns by @measure, to
 * a sixteenth of the size; *@ns is what it takes. The smallest one if that takes longer, the
 * largest one if that is shorter. @measure: 0 or -errno, which is returned; it is called at most 2
 * log2(@max) + 2 times.
 */
int gpu_game_size(double target_ns, unsigned int max,
		  int (*measure)(void *ud, unsigned int size, double *ns), void *ud,
		  unsigned int *size, double *ns);

#endif /* GPU_GAME_H */
