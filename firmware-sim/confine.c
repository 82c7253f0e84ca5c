// SPDX-License-Identifier: MIT
/*
 * The list of system calls is what `strace -f` shows of a whole life: workers that start and end,
 * jobs, an address space mapped and unmapped, a reset with its SIGBUS, the new session, SIGTERM.
 * Arguments are checked if they are numbers and matter: ioctl is only vnpu's calls, memory is never
 * executable, clone only makes threads, output goes only to standard output and error. Calls that
 * the C library might make beyond that are avoided rather than allowed: the process keeps to one
 * malloc arena, because with more malloc reads the number of processors from /sys.
 */
#define _GNU_SOURCE /* setresuid, clone flags */
#include "confine.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <malloc.h>
#include <pwd.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/vnpu_fw.h>

/* ---- privileges ------------------------------------------------------------------------------ */

static int cannot(char *why, size_t why_bytes, const char *what, int err)
{
	snprintf(why, why_bytes, "cannot %s: %s", what, strerror(err));
	return -1;
}

static int become(const char *name, char *why, size_t why_bytes)
{
	struct passwd *pw;

	errno = 0;
	pw = getpwnam(name);
	if (!pw) {
		snprintf(why, why_bytes, "--user %s: %s", name,
			 errno ? strerror(errno) : "there is no such user");
		return -1;
	}
	if (geteuid()) {
		if (getuid() == pw->pw_uid && geteuid() == pw->pw_uid)
			return 0;
		snprintf(why, why_bytes, "--user %s: only root can become another user", name);
		return -1;
	}
	if (initgroups(name, pw->pw_gid) || setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) ||
	    setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid)) {
		snprintf(why, why_bytes, "--user %s: %s", name, strerror(errno));
		return -1;
	}
	if (pw->pw_uid && !setuid(0)) {
		snprintf(why, why_bytes, "--user %s: root could be regained", name);
		return -1;
	}
	return 0;
}

/*
 * Drops all capabilities of this thread. A process without any makes no calls, because a filter
 * around it might refuse them.
 */
static int drop_capabilities(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2] = { 0 }, none[2] = { 0 };

	if (syscall(SYS_capget, &head, sets))
		return -errno;
	if (!memcmp(sets, none, sizeof(sets)))
		return 0;
	return syscall(SYS_capset, &head, none) ? -errno : 0;
}

int confine_privileges(const char *user, char *why, size_t why_bytes)
{
	int cap, err;

	/* The bounding set, as far as possible; with no_new_privs it has no effect anyway. */
	for (cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0))
			break;
	if (user && become(user, why, why_bytes))
		return -1;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
		return cannot(why, why_bytes, "drop ambient capabilities", errno);
	err = drop_capabilities();
	if (err)
		return cannot(why, why_bytes, "drop capabilities", -err);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return cannot(why, why_bytes, "give up new privileges", errno);
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return cannot(why, why_bytes, "forbid dumps", errno);
	return 0;
}

/* ---- system calls ---------------------------------------------------------------------------- */

/* Flags of a thread of pthread_create(); without any one of them it would be a process. */
#define THREAD_FLAGS                                                                        \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_SIGHAND | CLONE_THREAD | \
	 CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

/* The kernel uses the lower half of the register. */
#define ARG_IS(n, value) SCMP_CMP(n, SCMP_CMP_MASKED_EQ, UINT32_MAX, (uint32_t)(value))
#define NOT_EXECUTABLE(n) SCMP_CMP(n, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

#define XSTATE_REQUEST 0x1023 /* ARCH_REQ_XCOMP_PERM of x86: AMX's registers */
#define XSTATE_TILES 18

/* Allowed with any arguments: memory, threads, time, signals of this process. */
static const int free_calls[] = {
	SCMP_SYS(brk),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(close),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(futex),
	SCMP_SYS(getcpu),
	SCMP_SYS(madvise),
	SCMP_SYS(mremap),
	SCMP_SYS(munmap),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(rseq),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(sched_yield),
	SCMP_SYS(set_robust_list),
#if defined(__NR_alarm)
	SCMP_SYS(alarm),
#else
	SCMP_SYS(setitimer),
#endif
};

/* Allowed with some arguments. ADD_DEV and INFO are no longer needed. */
static const struct rule {
	int call;
	struct scmp_arg_cmp args[2];
	unsigned int nr_args;
} rules[] = {
	{ SCMP_SYS(ioctl), { ARG_IS(1, VNPU_FW_ENTER) }, 1 },
	{ SCMP_SYS(ioctl), { ARG_IS(1, VNPU_FW_START) }, 1 },
	{ SCMP_SYS(ioctl), { ARG_IS(1, VNPU_CTL_ATTACH) }, 1 },
	{ SCMP_SYS(ioctl), { ARG_IS(1, VNPU_CTL_DEL_DEV) }, 1 },
	{ SCMP_SYS(mmap), { NOT_EXECUTABLE(2) }, 1 },
	{ SCMP_SYS(mprotect), { NOT_EXECUTABLE(2) }, 1 },
	{ SCMP_SYS(clone), { ARG_IS(0, THREAD_FLAGS) }, 1 },
	{ SCMP_SYS(sched_setaffinity), { ARG_IS(0, 0) }, 1 },
	{ SCMP_SYS(write), { ARG_IS(0, STDOUT_FILENO) }, 1 },
	{ SCMP_SYS(write), { ARG_IS(0, STDERR_FILENO) }, 1 },
#if defined(__x86_64__)
	{ SCMP_SYS(arch_prctl), { ARG_IS(0, XSTATE_REQUEST), ARG_IS(1, XSTATE_TILES) }, 2 },
#endif
};

static int add_rules(scmp_filter_ctx filter)
{
	int err = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	size_t i;

	for (i = 0; !err && i < sizeof(free_calls) / sizeof(free_calls[0]); i++)
		err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, free_calls[i], 0);
	for (i = 0; !err && i < sizeof(rules) / sizeof(rules[0]); i++)
		err = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, rules[i].call,
					     rules[i].nr_args, rules[i].args);
	/* A filter cannot see its flags in memory. On this error, the C library uses clone. */
	if (!err)
		err = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	/* An idle device makes this call in every round, so it is checked first. */
	if (!err)
		err = seccomp_syscall_priority(filter, SCMP_SYS(ioctl), 255);
	return err;
}

int confine_calls(char *why, size_t why_bytes)
{
	scmp_filter_ctx filter;
	int err;

	if (SANITIZED)
		return 0;
	mallopt(M_ARENA_MAX, 1);
	filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	if (!filter)
		return cannot(why, why_bytes, "filter system calls", ENOMEM);
	err = add_rules(filter);
	if (!err)
		err = seccomp_load(filter);
	seccomp_release(filter);
	return err ? cannot(why, why_bytes, "filter system calls", -err) : 0;
}
