// SPDX-License-Identifier: MIT
/*
 * A game that runs at the same time as an engine: each frame counts once, however long it takes, on
 * a fake clock and device; the size of its kernels on devices of many speeds; and the game on an
 * OpenCL device, with any number of shown frames.
 */
#include <math.h>
#include <unistd.h>

#include "gpu_fixture.h"
#include "gpu_game.h"

/* ---- frames ---- */

/* A fake world in which only sleeping and drawing take time. */
struct world {
	double now, end; /* ns; nothing begins after the end */
	double draw_min, draw_max; /* time of a frame */
	bool lazy; /* some sleeps end too early */
	unsigned int drawn, fails_at; /* 0: never */
	double begun[4096];
};

static double world_now(void *ud)
{
	return ((struct world *)ud)->now;
}

static void world_sleep(void *ud, double until)
{
	struct world *w = ud;

	assert_true(until > w->now);
	assert_true(isfinite(until));
	if (w->lazy && random_in(0, 2))
		until = w->now + (until - w->now) / 2;
	/* The clock has whole nanoseconds. */
	w->now = fmin(ceil(until), fmax(w->end, w->now));
}

static bool world_goes_on(void *ud)
{
	const struct world *w = ud;

	return w->now < w->end;
}

static int world_draw(void *ud)
{
	struct world *w = ud;

	assert_true(w->drawn < sizeof(w->begun) / sizeof(w->begun[0]));
	w->begun[w->drawn++] = w->now;
	w->now += floor(w->draw_min + (w->draw_max - w->draw_min) * (random_float() + 1) / 2);
	return w->drawn == w->fails_at ? -EIO : 0;
}

static int play(struct world *w, struct game *game)
{
	const struct gpu_game_world world = { world_now, world_sleep, world_goes_on, world_draw,
					      w };

	return gpu_game_play(game, &world);
}

/* Each frame whose time is over was counted, and perhaps one that was finished early. */
static void check_counts(const struct game *game)
{
	uint64_t due = (uint64_t)(game->now_ns / game->period_ns),
		 counted = game->shown + game->dropped;

	if (counted != due && counted != due + 1)
		fail_msg("%llu shown, %llu dropped, %llu due", (unsigned long long)game->shown,
			 (unsigned long long)game->dropped, (unsigned long long)due);
}

static void test_each_frame_is_shown_or_dropped(void **state)
{
	random_begin(__func__);
	for (int i = 0; i < 500; i++) {
		struct game game = { .period_ns = random_in(100, 5000) / 0.3,
				     .work_ns = 1,
				     .kernels = random_in(1, 20) };
		struct world w = { .end = random_in(0, 1000000), .lazy = random_in(0, 1) };
		uint64_t last = UINT64_MAX;

		w.draw_min = game.period_ns * random_in(0, 30) / 10 + 1;
		w.draw_max = w.draw_min * random_in(1, 3);
		assert_int_equal(play(&w, &game), 0);
		assert_true(game.now_ns == w.now);
		check_counts(&game);
		assert_true(game.shown <= w.drawn);
		for (unsigned int f = 0; f < w.drawn; f++) {
			/* Up to 0.1 ns early counts as in time (game.c). */
			uint64_t frame = (uint64_t)((w.begun[f] + 0.1) / game.period_ns);

			assert_true(last == UINT64_MAX || frame > last);
			last = frame;
		}
	}
}

static void test_frames_that_fit_their_time_are_all_shown(void **state)
{
	struct game game = { .period_ns = 1000, .work_ns = 1, .kernels = 3 };
	struct world w = { .end = 99500, .draw_min = 1000, .draw_max = 1000 };

	assert_int_equal(play(&w, &game), 0);
	assert_int_equal(game.shown, 100);
	assert_int_equal(game.dropped, 0);
}

static void test_a_late_frame_drops_those_whose_time_it_takes(void **state)
{
	static const double begun[] = { 0, 2500, 5000, 7500 };
	struct game game = { .period_ns = 1000, .work_ns = 1, .kernels = 1 };
	struct world w = { .end = 10000, .draw_min = 2500, .draw_max = 2500 };

	assert_int_equal(play(&w, &game), 0);
	/* Frame 0 is late and takes the time of 1; 2 begins late, but in its own time. */
	assert_int_equal(w.drawn, 4);
	assert_memory_equal(w.begun, begun, sizeof(begun));
	assert_int_equal(game.shown, 0);
	assert_int_equal(game.dropped, 10);
}

static void test_a_frame_that_fails_ends_the_game(void **state)
{
	struct game game = { .period_ns = 1000, .work_ns = 1, .kernels = 1 };
	struct world w = { .end = 1e6, .draw_min = 10, .draw_max = 10, .fails_at = 7 };

	assert_int_equal(play(&w, &game), -EIO);
	assert_int_equal(w.drawn, 7);
	assert_true(game.now_ns == 6010);
}

/* ---- sizes ---- */

/* A device on which a frame takes start_ns + size * step_ns. */
struct device {
	double start_ns, step_ns;
	unsigned int max, calls, fails_at;
};

static int device_measure(void *ud, unsigned int size, double *ns)
{
	struct device *d = ud;

	assert_in_range(size, 1, d->max);
	*ns = d->start_ns + d->step_ns * size;
	return ++d->calls == d->fails_at ? -EIO : 0;
}

static void test_kernels_take_the_requested_time(void **state)
{
	random_begin(__func__);
	for (int i = 0; i < 2000; i++) {
		struct device d = { random_in(0, 1000), random_in(1, 1000), random_in(1, 10000), 0,
				    0 };
		double target = exp(random_float() * 10 + 5), ns, fits;
		unsigned int size;

		assert_int_equal(gpu_game_size(target, d.max, device_measure, &d, &size, &ns), 0);
		assert_in_range(size, 1, d.max);
		assert_true(ns == d.start_ns + d.step_ns * size);
		fits = fmin(fmax((target - d.start_ns) / d.step_ns, 1), d.max);
		if (fabs(size - fits) > fits / 16 + 1)
			fail_msg("size %u for %g ns, which fits %g", size, target, fits);
		assert_true(d.calls <= 2 * log2(d.max) + 2);
	}
}

static void test_a_size_that_cannot_be_measured_is_an_error(void **state)
{
	unsigned int size = 0;
	double ns;

	for (unsigned int i = 1; i < 8; i++) {
		struct device d = { .step_ns = 1, .max = 1000, .fails_at = i };

		assert_int_equal(gpu_game_size(100, d.max, device_measure, &d, &size, &ns), -EIO);
		assert_int_equal(d.calls, i);
		assert_int_equal(size, 0);
	}
}

/* ---- on a device ---- */

static const struct game quick = { .period_ns = 1e6, .work_ns = 1e5, .kernels = 3 };

static void test_a_game_on_a_device_counts_each_frame(void **state)
{
	struct gpu_game *g;
	struct game played;

	if (no_platform)
		skip();
	OK(gpu_game_open(NULL, &quick, &g));
	assert_true(gpu_game_frame_ns(g) > 0 && isfinite(gpu_game_frame_ns(g)));
	/* The second time counts from 0 again. */
	for (int i = 0; i < 2; i++) {
		OK(gpu_game_start(g));
		usleep(20000);
		OK(gpu_game_stop(g, &played));
		assert_true(played.now_ns >= 20e6);
		assert_true(played.period_ns == quick.period_ns && played.kernels == quick.kernels);
		check_counts(&played);
	}
	OK(gpu_game_start(g));
	OK(gpu_game_stop(g, &played));
	check_counts(&played);
	gpu_game_close(g);
}

static void test_two_games_on_one_device(void **state)
{
	struct gpu_game *g[2];
	struct game played;

	if (no_platform)
		skip();
	for (int i = 0; i < 2; i++)
		OK(gpu_game_open(NULL, &quick, &g[i]));
	for (int i = 0; i < 2; i++)
		OK(gpu_game_start(g[i]));
	usleep(10000);
	OK(gpu_game_stop(g[0], &played));
	check_counts(&played);
	/* The other one is stopped while it plays. */
	for (int i = 0; i < 2; i++)
		gpu_game_close(g[i]);
}

static void test_bad_games_are_refused(void **state)
{
	static const struct game bad[] = {
		{ .period_ns = 0, .work_ns = 1e6, .kernels = 1 },
		{ .period_ns = -1e6, .work_ns = 1e6, .kernels = 1 },
		{ .period_ns = 1e6, .work_ns = 0, .kernels = 1 },
		{ .period_ns = 1e6, .work_ns = NAN, .kernels = 1 },
		{ .period_ns = 1e6, .work_ns = 1e6, .kernels = 0 },
	};
	struct gpu_game *g = (void *)state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		REFUSED(gpu_game_open(NULL, &bad[i], &g), "above 0");
		assert_null(g);
	}
	assert_int_equal(gpu_game_open("no such device", &quick, &g),
			 no_platform ? -ENODEV : -ENOENT);
	assert_null(g);
}

static void test_start_and_stop_must_alternate(void **state)
{
	struct gpu_game *g;
	struct game played;

	gpu_game_close(NULL);
	if (no_platform)
		skip();
	OK(gpu_game_open(NULL, &quick, &g));
	REFUSED(gpu_game_stop(g, &played), "not being played");
	OK(gpu_game_start(g));
	assert_int_equal(gpu_game_start(g), -EBUSY);
	OK(gpu_game_stop(g, &played));
	REFUSED(gpu_game_stop(g, &played), "not being played");
	gpu_game_close(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_frame_is_shown_or_dropped),
		cmocka_unit_test(test_frames_that_fit_their_time_are_all_shown),
		cmocka_unit_test(test_a_late_frame_drops_those_whose_time_it_takes),
		cmocka_unit_test(test_a_frame_that_fails_ends_the_game),
		cmocka_unit_test(test_kernels_take_the_requested_time),
		cmocka_unit_test(test_a_size_that_cannot_be_measured_is_an_error),
		cmocka_unit_test(test_a_game_on_a_device_counts_each_frame),
		cmocka_unit_test(test_two_games_on_one_device),
		cmocka_unit_test(test_bad_games_are_refused),
		cmocka_unit_test(test_start_and_stop_must_alternate),
	};

	return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
