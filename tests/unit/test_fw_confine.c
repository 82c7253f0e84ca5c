// SPDX-License-Identifier: MIT
/* What vnpu-fw can do after it has confined itself, and what kills it. Each in a child. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <grp.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "confine.c"

#define LIVES -1

/* The signal that kills a confined child that runs @fn, or LIVES. */
static int confined(void (*fn)(void))
{
	struct rlimit none = { 0, 0 };
	char why[256];
	int status;
	pid_t pid;

#if defined(__SANITIZE_ADDRESS__)
	skip();
#endif
	pid = fork();
	if (!pid) {
		setrlimit(RLIMIT_CORE, &none);
		if (confine_privileges(NULL, why, sizeof(why)) || confine_calls(why, sizeof(why)))
			_exit(1);
		fn();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		return WTERMSIG(status);
	assert_int_equal(WEXITSTATUS(status), 0);
	return LIVES;
}

/* ---- allowed: what serving needs ------------------------------------------------------------- */

static void *allocate(void *arg)
{
	size_t bytes;
	char *p = NULL;

	/* From the heap, from a mapping of its own, and moved to a larger one. */
	for (bytes = 16; bytes < 64 << 20; bytes *= 8) {
		p = realloc(p, bytes);
		if (!p)
			_exit(2);
		p[bytes - 1] = 1;
	}
	free(p);
	return NULL;
}

static void start_threads(void)
{
	pthread_t threads[24];
	int i, round;

	for (round = 0; round < 3; round++) {
		for (i = 0; i < 24; i++)
			if (pthread_create(&threads[i], NULL, allocate, NULL))
				_exit(3);
		for (i = 0; i < 24; i++)
			pthread_join(threads[i], NULL);
	}
}

static void on_alarm(int sig)
{
}

static void be_woken(void)
{
	struct timespec until = { .tv_nsec = 1000000 };
	struct sigaction sa = { .sa_handler = on_alarm };
	uint32_t word = 0;
	cpu_set_t cpus;

	sigaction(SIGALRM, &sa, NULL);
	alarm(1);
	if (!nanosleep(&(struct timespec){ .tv_sec = 30 }, NULL) || errno != EINTR)
		_exit(4);
	syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &until, NULL, 0);
	if (sched_getaffinity(0, sizeof(cpus), &cpus) || sched_setaffinity(0, sizeof(cpus), &cpus))
		_exit(5);
	sched_yield();
	fprintf(stderr, " ");
}

/* They reach the file, which is not vnpu's. */
static void call_vnpu(void)
{
	struct vnpu_ctl_attach attach = { 0 };
	struct vnpu_fw_enter enter = { 0 };

	if (!ioctl(STDOUT_FILENO, VNPU_FW_ENTER, &enter) || errno == ENOSYS)
		_exit(6);
	if (!ioctl(STDOUT_FILENO, VNPU_CTL_ATTACH, &attach) || errno == ENOSYS)
		_exit(7);
}

static void calls_that_serving_needs_are_allowed(void **state)
{
	assert_int_equal(confined(start_threads), LIVES);
	assert_int_equal(confined(be_woken), LIVES);
	assert_int_equal(confined(call_vnpu), LIVES);
}

/* ---- forbidden ------------------------------------------------------------------------------- */

static void open_a_file(void)
{
	open("/dev/null", O_RDONLY);
}

static void read_input(void)
{
	char c;

	if (read(STDIN_FILENO, &c, 1) < 0)
		_exit(0);
}

static void write_elsewhere(void)
{
	if (write(17, "x", 1) < 0)
		_exit(0);
}

static void connect_out(void)
{
	socket(AF_UNIX, SOCK_STREAM, 0);
}

static void fork_off(void)
{
	fork();
}

static void run_a_program(void)
{
	execl("/bin/true", "true", NULL);
}

static void signal_others(void)
{
	kill(1, 0);
}

static void make_code(void)
{
	mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void make_memory_code(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(p, 4096, PROT_READ | PROT_EXEC);
}

static void call_another_driver(void)
{
	int n;

	ioctl(STDOUT_FILENO, FIONREAD, &n);
}

static void add_a_device(void)
{
	struct vnpu_ctl_add_dev add = { 0 };

	ioctl(STDOUT_FILENO, VNPU_CTL_ADD_DEV, &add);
}

static void become_root(void)
{
	if (setuid(0))
		_exit(0);
}

static void trace_others(void)
{
	syscall(SYS_ptrace, 16, 1, 0, 0);
}

static void move_others(void)
{
	cpu_set_t cpus;

	sched_getaffinity(0, sizeof(cpus), &cpus);
	sched_setaffinity(1, sizeof(cpus), &cpus);
}

static void every_other_system_call_kills(void **state)
{
	void (*const attempts[])(void) = {
		open_a_file,	  read_input,	       write_elsewhere, connect_out,
		fork_off,	  run_a_program,       signal_others,	make_code,
		make_memory_code, call_another_driver, add_a_device,	become_root,
		trace_others,	  move_others,
	};
	size_t i;

	for (i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
		int sig = confined(attempts[i]);

		if (sig != SIGSYS)
			fail_msg("attempt %zu ended with signal %d", i, sig);
	}
}

/* ---- privileges ------------------------------------------------------------------------------ */

/* Becomes @user in a child and checks the condition. */
#define CONFINED_AS(user, condition)                                    \
	do {                                                            \
		char why[256] = "";                                     \
		int status;                                             \
		pid_t pid = fork();                                     \
		if (!pid) {                                             \
			if (confine_privileges(user, why, sizeof(why))) \
				_exit(1);                               \
			_exit(condition ? 0 : 2);                       \
		}                                                       \
		waitpid(pid, &status, 0);                               \
		assert_true(WIFEXITED(status));                         \
		assert_int_equal(WEXITSTATUS(status), 0);               \
	} while (0)

static bool has_capabilities(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2], none[2] = { 0 };

	return syscall(SYS_capget, &head, sets) || memcmp(sets, none, sizeof(sets));
}

static bool all_ids_are(uid_t uid, gid_t gid)
{
	uid_t r, e, s;
	gid_t gr, ge, gs;

	return !getresuid(&r, &e, &s) && r == uid && e == uid && s == uid &&
	       !getresgid(&gr, &ge, &gs) && gr == gid && ge == gid && gs == gid;
}

static bool groups_are_those_of(const struct passwd *pw)
{
	gid_t want[64], got[64];
	int nr_want = 64, nr_got = getgroups(64, got), i, j;

	if (getgrouplist(pw->pw_name, pw->pw_gid, want, &nr_want) < 0 || nr_got != nr_want)
		return false;
	for (i = 0; i < nr_want; i++) {
		for (j = 0; j < nr_got && got[j] != want[i]; j++)
			;
		if (j == nr_got)
			return false;
	}
	return true;
}

static void no_privileges_are_left(void **state)
{
	CONFINED_AS(NULL, !has_capabilities());
	CONFINED_AS(NULL, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	CONFINED_AS(NULL, prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
}

static void root_becomes_the_user(void **state)
{
	struct passwd *pw = getpwnam("nobody");

	if (geteuid() || !pw)
		skip();
	CONFINED_AS("nobody", all_ids_are(pw->pw_uid, pw->pw_gid) && groups_are_those_of(pw));
	CONFINED_AS("nobody", setuid(0) && setgid(0));
	CONFINED_AS("nobody", !has_capabilities());
	CONFINED_AS("nobody", prctl(PR_CAPBSET_READ, 0, 0, 0, 0) == 0);
	CONFINED_AS("nobody", prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
}

static void a_user_that_does_not_exist_is_an_error(void **state)
{
	char why[256];

	assert_int_equal(become("no-such-user", why, sizeof(why)), -1);
	assert_string_equal(why, "--user no-such-user: there is no such user");
	if (geteuid() || !getpwnam("nobody"))
		return;
	CONFINED_AS("nobody", become("root", why, sizeof(why)) &&
				      strstr(why, "only root can become another user"));
	CONFINED_AS("nobody", !become("nobody", why, sizeof(why)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_that_serving_needs_are_allowed),
		cmocka_unit_test(every_other_system_call_kills),
		cmocka_unit_test(no_privileges_are_left),
		cmocka_unit_test(root_becomes_the_user),
		cmocka_unit_test(a_user_that_does_not_exist_is_an_error),
	};

	return cmocka_run_group_tests_name("fw_confine", tests, NULL, NULL);
}
