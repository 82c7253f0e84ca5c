// SPDX-License-Identifier: MIT
/*
 * vnpu-fw: the device as a process. Adds a device to vnpu.ko, or takes over one whose process died;
 * serves it in the foreground; and removes it on SIGTERM or SIGINT. If the process ends for any
 * other reason, the device stays and can be taken over again.
 *
 * The process runs code for clients, so it first drops what serving does not need (confine.h), in
 * this order: read and open files; change the user; add the device; filter system calls; and only
 * then start threads and call START.
 */
#define _GNU_SOURCE /* close_range */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <npu/vnpu_isa.h>

#include "confine.h"
#include "cpus.h"
#include "fw.h"
#include "port_kmd.h"
#include "soc.h"

#define CONTROL "/dev/" VNPU_FW_CONTROL_NODE
/* 64 GiB per context: more than hosts have, and small enough for a thousand contexts in 47 bits. */
#define VA_BITS 36

#define ATTACH_NONE -1 /* add a device */
#define ATTACH_LOST -2 /* take over the first device without a firmware */
#define ATTACH_OR_ADD -3 /* take over the device of that name without a firmware, or add one */

/* Longest time that the kernel takes to release a device that it has just reset. */
#define LET_GO_MS 5000

struct options {
	const char *name;
	uint32_t queues, depth, contexts;
	uint64_t mem_limit;
	uint32_t user_contexts, user_queues; /* 0: the kernel's default */
	uint64_t user_mem;
	uint32_t job_timeout, max_job_timeout; /* ms */
	long remove; /* device to remove, or -1 */
	long attach; /* device to take over, or one of ATTACH_* */
	bool keep;
	const char *user; /* user to become; NULL: do not change */
	const char *profile; /* NULL: the default */
	struct fw_config cfg;
};

/* For the signal handler; NULL: nothing to stop. */
static struct fw_core *volatile running;
static volatile sig_atomic_t told_to_end;

static const char usage[] =
	"usage: vnpu-fw [options]\n"
	"Serves a vnpu device in the foreground until SIGTERM or SIGINT, which remove the device.\n"
	"\n"
	"  --name NAME       name that clients see (vnpu-sim)\n"
	"  --threads N       workers (one per CPU that the process may use: affinity, quota)\n"
	"  --isa ISA         auto, " FW_ISA_NAMES " (auto: the best)\n"
	"  --spin-us N       time to poll for work before sleeping (50; 0: none)\n"
	"  --profile NAME    SoC whose NPU is modelled for device times: a name in share/profiles, "
	"or a file (sd8gen3)\n"
	"  --queues N        queues of the device (64)\n"
	"  --depth N         jobs that a queue holds at once, a power of two (64)\n"
	"  --contexts N      contexts of the device (64)\n"
	"  --mem-limit SIZE  buffers that clients may hold together, with K, M or G (0: half of "
	"memory)\n"
	"  --user-contexts N, --user-queues N, --user-mem SIZE\n"
	"                    limits of each user (half; half; 0: half of memory)\n"
	"  --job-timeout MS  timeout of a job that sets none (0: the module's)\n"
	"  --max-job-timeout MS\n"
	"                    longest timeout that a job may set, and longest run (0: the "
	"module's)\n"
	"  --attach ID|lost  take over a device whose firmware is gone; its shape stays\n"
	"  --attach-or-add NAME\n"
	"                    take over the device NAME if its firmware is gone, or else add one of "
	"that name\n"
	"  --user USER       as root: open the control node, then become USER for good\n"
	"  --keep            leave the device behind at the end, for another --attach\n"
	"  --remove ID       remove a device, whatever its state, and do nothing else\n"
	"  --verbose         log refused and faulting jobs to stderr\n"
	"  --help, --version\n"
	"\n"
	"Exit status: 0 ended as told, 1 failed, 2 bad usage.\n";

__attribute__((format(printf, 1, 2))) static int fail(const char *fmt, ...)
{
	va_list ap;

	fputs("vnpu-fw: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return 1;
}

static int finish_output(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	return fail("stdout: %s: the output is not complete", strerror(errno));
}

static void on_signal(int sig)
{
	told_to_end = 1;
	if (!running)
		return;
	/* A signal just before ENTER would not end it: repeat the alarm until the core stops. */
	fw_core_stop(running);
	alarm(1);
}

static void on_log(void *ud, const char *line)
{
	fprintf(stderr, "vnpu-fw: %s\n", line);
}

/* ---- options --------------------------------------------------------------------------------- */

/* Reports the argument that getopt_long() refused with @c. There are no letters. */
static int bad_option(int c, const char *arg)
{
	if (c == ':')
		fail("%s needs a value: --help explains it", arg);
	else if (optopt && strchr(arg, '='))
		fail("'%s': this option takes no value", arg);
	else if (optopt)
		fail("unknown option '-%c': --help lists the options", optopt);
	else
		fail("unknown option '%s': --help lists the options", arg);
	return 2;
}

static int parse_number(const char *option, const char *s, uint64_t min, uint64_t max,
			uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(s, &end, 0);
	if (errno || end == s || *end || strchr(s, '-') || *value < min || *value > max) {
		fail("--%s %s: needs a number from %llu to %llu", option, s,
		     (unsigned long long)min, (unsigned long long)max);
		return 2;
	}
	return 0;
}

static int parse_size(const char *option, const char *s, uint64_t *value)
{
	unsigned int shift;
	char *end;

	errno = 0;
	*value = strtoull(s, &end, 0);
	shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
	if (errno || end == s || strchr(s, '-') || (*end && (!shift || end[1])) ||
	    *value << shift >> shift != *value) {
		fail("--%s %s: needs a size such as 512M or 8G", option, s);
		return 2;
	}
	*value <<= shift;
	return 0;
}

static int parse_isa(const char *s, enum fw_isa *isa)
{
	*isa = fw_isa_find(s);
	if (*isa != FW_ISA_AUTO || !strcmp(s, "auto"))
		return 0;
	fail("--isa %s: not known: auto, " FW_ISA_NAMES, s);
	return 2;
}

static int parse_name(const char *option, const char *s)
{
	size_t i, n = strlen(s);

	for (i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] > '~')
			break;
	if (!n || n >= sizeof(((struct vnpu_ctl_add_dev *)0)->name) || i < n) {
		fail("--%s %s: needs 1 to 31 printable ASCII characters", option, s);
		return 2;
	}
	return 0;
}

static int parse_depth(const char *s, uint32_t *depth)
{
	uint64_t n;
	int err = parse_number("depth", s, 1, VNPU_FW_MAX_DEPTH, &n);

	if (!err && n & (n - 1)) {
		fail("--depth %s: needs a power of two", s);
		err = 2;
	}
	*depth = n;
	return err;
}

static const struct option long_options[] = {
	{ "name", required_argument, NULL, 'n' },
	{ "threads", required_argument, NULL, 't' },
	{ "isa", required_argument, NULL, 'i' },
	{ "spin-us", required_argument, NULL, 's' },
	{ "profile", required_argument, NULL, 'p' },
	{ "queues", required_argument, NULL, 'q' },
	{ "depth", required_argument, NULL, 'd' },
	{ "contexts", required_argument, NULL, 'c' },
	{ "mem-limit", required_argument, NULL, 'm' },
	{ "user-contexts", required_argument, NULL, 'C' },
	{ "user-queues", required_argument, NULL, 'Q' },
	{ "user-mem", required_argument, NULL, 'M' },
	{ "job-timeout", required_argument, NULL, 'j' },
	{ "max-job-timeout", required_argument, NULL, 'J' },
	{ "remove", required_argument, NULL, 'r' },
	{ "attach", required_argument, NULL, 'a' },
	{ "attach-or-add", required_argument, NULL, 'A' },
	{ "user", required_argument, NULL, 'u' },
	{ "keep", no_argument, NULL, 'k' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

/* 0, 2 for bad usage, or -1 if the program should end successfully. */
static int parse_option(struct options *o, int c, const char *arg)
{
	uint64_t n = 0;
	int err = 0;

	switch (c) {
	case 'n':
		o->name = arg;
		return parse_name("name", arg);
	case 't':
		err = parse_number("threads", arg, 1, 256, &n);
		o->cfg.threads = n;
		return err;
	case 'i':
		return parse_isa(arg, &o->cfg.isa);
	case 's':
		err = parse_number("spin-us", arg, 0, 1000000, &n);
		o->cfg.spin_us = n;
		return err;
	case 'p':
		o->profile = arg;
		return 0;
	case 'q':
		err = parse_number("queues", arg, 1, VNPU_FW_MAX_QUEUES, &n);
		o->queues = n;
		return err;
	case 'd':
		return parse_depth(arg, &o->depth);
	case 'c':
		err = parse_number("contexts", arg, 1, VNPU_FW_MAX_CTX, &n);
		o->contexts = n;
		return err;
	case 'm':
		return parse_size("mem-limit", arg, &o->mem_limit);
	case 'C':
		err = parse_number("user-contexts", arg, 1, VNPU_FW_MAX_CTX, &n);
		o->user_contexts = n;
		return err;
	case 'Q':
		err = parse_number("user-queues", arg, 1, VNPU_FW_MAX_QUEUES, &n);
		o->user_queues = n;
		return err;
	case 'M':
		return parse_size("user-mem", arg, &o->user_mem);
	case 'j':
		err = parse_number("job-timeout", arg, 0, VNPU_FW_MAX_TIMEOUT_MS, &n);
		o->job_timeout = n;
		return err;
	case 'J':
		err = parse_number("max-job-timeout", arg, 0, VNPU_FW_MAX_TIMEOUT_MS, &n);
		o->max_job_timeout = n;
		return err;
	case 'r':
		err = parse_number("remove", arg, 0, INT32_MAX, &n);
		o->remove = n;
		return err;
	case 'a':
		if (!strcmp(arg, "lost")) {
			o->attach = ATTACH_LOST;
			return 0;
		}
		err = parse_number("attach", arg, 0, INT32_MAX, &n);
		o->attach = n;
		return err;
	case 'A':
		o->attach = ATTACH_OR_ADD;
		o->name = arg;
		return parse_name("attach-or-add", arg);
	case 'u':
		o->user = arg;
		return 0;
	case 'k':
		o->keep = true;
		return 0;
	case 'v':
		o->cfg.log = on_log;
		return 0;
	case 'h':
		fputs(usage, stdout);
		return -1;
	case 'V':
		printf("vnpu-fw %s (ISA %d.%d, firmware ABI %d)\n", VNPU_VERSION, VNPU_ISA_MAJOR,
		       VNPU_ISA_MINOR, VNPU_FW_ABI);
		return -1;
	default:
		return bad_option(c, arg);
	}
}

static int parse_options(struct options *o, int argc, char **argv)
{
	int c, err;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
		err = parse_option(o, c, c == '?' || c == ':' ? argv[optind - 1] : optarg);
		if (err)
			return err;
	}
	if (optind < argc) {
		fail("%s: takes no arguments; see --help", argv[optind]);
		return 2;
	}
	if (o->max_job_timeout && o->job_timeout > o->max_job_timeout) {
		fail("--job-timeout %u is more than --max-job-timeout %u", o->job_timeout,
		     o->max_job_timeout);
		return 2;
	}
	if (o->user_contexts > o->contexts || o->user_queues > o->queues) {
		fail("--user-contexts, --user-queues: the device has only %u contexts and %u "
		     "queues",
		     o->contexts, o->queues);
		return 2;
	}
	return 0;
}

/* ---- the device ------------------------------------------------------------------------------ */

static int open_control(void)
{
	struct vnpu_ctl_version version = { 0 };
	int fd = open(CONTROL, O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		if (errno == ENOENT || errno == ENODEV || errno == ENXIO)
			fail(CONTROL
			     ": the kernel has no vnpu: load the module (modprobe vnpu, or make "
			     "insmod)");
		else if (errno == EACCES || errno == EPERM)
			fail(CONTROL ": permission denied: run as root or as the node's group "
				     "(vnpu-fw, where the udev rule "
				     "is installed)");
		else
			fail(CONTROL ": %s", strerror(errno));
		return -1;
	}
	if (ioctl(fd, VNPU_CTL_VERSION, &version)) {
		fail(CONTROL ": %s: is it vnpu.ko's?", strerror(errno));
	} else if (VNPU_FW_ABI < version.min || VNPU_FW_ABI > version.max) {
		fail(CONTROL
		     ": the module speaks firmware ABI %u to %u, this program %u: install both "
		     "from one release",
		     version.min, version.max, VNPU_FW_ABI);
	} else {
		return fd;
	}
	close(fd);
	return -1;
}

static int fail_wedged(uint32_t dev_id)
{
	return fail("device %u is wedged, it was reset too often (see dmesg): vnpu-fw --remove %u, "
		    "then start a new one",
		    dev_id, dev_id);
}

/* Devices found by their state; -1: none. */
struct devices {
	long lost, wedged;
	long taken; /* has a firmware, or one that is about to start */
	int pid; /* pid of that firmware */
};

/* Finds the devices of that name (NULL: any). Returns an exit status. */
static int look_at_devices(int control, const char *name, struct devices *found)
{
	struct vnpu_ctl_info info = { 0 };

	*found = (struct devices){ .lost = -1, .wedged = -1, .taken = -1 };
	for (; !ioctl(control, VNPU_CTL_INFO, &info);
	     info = (struct vnpu_ctl_info){ .dev_id = info.dev_id + 1 }) {
		if (name && strncmp(name, info.name, sizeof(info.name)))
			continue;
		if (info.state == VNPU_CTL_DEV_LOST && found->lost < 0)
			found->lost = info.dev_id;
		else if (info.state == VNPU_CTL_DEV_WEDGED)
			found->wedged = info.dev_id;
		else if (info.state == VNPU_CTL_DEV_READY || info.state == VNPU_CTL_DEV_NEW) {
			found->taken = info.dev_id;
			found->pid = info.fw_pid;
		}
	}
	return errno == ENOENT ? 0 : fail("cannot look at the devices: %s", strerror(errno));
}

static int fail_taken(uint32_t dev_id)
{
	return fail("device %u has a firmware already: end that one first", dev_id);
}

/* Attaches to a device without a firmware. Returns the firmware fd or -errno. */
static int attach(int control, uint32_t dev_id)
{
	struct vnpu_ctl_attach attach = {
		.size = sizeof(attach),
		.version = VNPU_FW_ABI,
		.abi_features = PORT_KMD_FEATURES,
		.dev_id = dev_id,
	};

	return ioctl(control, VNPU_CTL_ATTACH, &attach) ? -errno : attach.fw_fd;
}

/* As attach(), but prints the error and returns -1. */
static int attach_device(int control, uint32_t dev_id)
{
	int fd = attach(control, dev_id);

	if (fd >= 0)
		return fd;
	if (fd == -EBUSY)
		fail_taken(dev_id);
	else if (fd == -EIO)
		fail_wedged(dev_id);
	else if (fd == -ENOENT || fd == -ENODEV)
		fail("there is no device %u: start without --attach to add one", dev_id);
	else
		fail("cannot attach to device %u: %s", dev_id, strerror(-fd));
	return -1;
}

/*
 * Attaches again after a reset of our own device, which may still be in progress. Returns the new
 * firmware fd or -1.
 */
static int attach_again(int control, uint32_t dev_id)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	unsigned int ms;
	int fd;

	for (ms = 0; ms < LET_GO_MS && !told_to_end; ms += 10) {
		fd = attach(control, dev_id);
		if (fd >= 0)
			return fd;
		if (fd != -EBUSY)
			break;
		nanosleep(&pause, NULL);
	}
	return told_to_end ? -1 : attach_device(control, dev_id);
}

/* Adds a device. Returns the firmware fd or -1. */
static int add_device(const struct options *o, int control, uint32_t *dev_id)
{
	struct vnpu_ctl_add_dev add = {
		.size = sizeof(add),
		.version = VNPU_FW_ABI,
		.abi_features = PORT_KMD_FEATURES,
		.isa_version = VNPU_ISA_VERSION,
		.nr_queues = o->queues,
		.queue_depth = o->depth,
		.nr_ctx = o->contexts,
		.va_bits = VA_BITS,
		.mem_limit = o->mem_limit,
		.user_ctx = o->user_contexts,
		.user_queues = o->user_queues,
		.user_mem = o->user_mem,
		.timeout_ms = o->job_timeout,
		.max_timeout_ms = o->max_job_timeout,
	};

	snprintf(add.name, sizeof(add.name), "%s", o->name);
	if (ioctl(control, VNPU_CTL_ADD_DEV, &add)) {
		if (errno == E2BIG)
			fail("cannot add a device: the module is older than this program: install "
			     "both from one "
			     "release");
		else
			fail("cannot add a device: %s", strerror(errno));
		return -1;
	}
	*dev_id = add.dev_id;
	return add.fw_fd;
}

/*
 * Takes over or adds the device of that name. Processes that start at once each lock the node while
 * they look and act, so that one gets the device and the others see it taken. (--attach does not
 * take the lock.)
 */
static int attach_or_add(const struct options *o, int control, uint32_t *dev_id)
{
	struct devices found;
	int fd = -1;

	if (flock(control, LOCK_EX)) {
		fail(CONTROL ": cannot be locked: %s", strerror(errno));
		return -1;
	}
	if (!look_at_devices(control, o->name, &found)) {
		if (found.lost >= 0) {
			*dev_id = found.lost;
			fd = attach_device(control, *dev_id);
		} else if (found.taken >= 0) {
			fail("device %ld is called %s and has a firmware already, process %d: end "
			     "that one first, or "
			     "choose "
			     "another name",
			     found.taken, o->name, found.pid);
		} else if (found.wedged >= 0) {
			fail_wedged(found.wedged);
		} else {
			fd = add_device(o, control, dev_id);
		}
	}
	flock(control, LOCK_UN);
	return fd;
}

/* Takes over the first device that has lost its firmware. */
static int attach_lost(int control, uint32_t *dev_id)
{
	struct devices found;

	if (look_at_devices(control, NULL, &found))
		return -1;
	if (found.lost < 0) {
		if (found.wedged >= 0)
			fail_wedged(found.wedged);
		else
			fail("no device has lost its firmware: start without --attach to add one");
		return -1;
	}
	*dev_id = found.lost;
	return attach_device(control, *dev_id);
}

/* Gets the device that the options ask for. Returns the firmware fd or -1. */
static int get_device(const struct options *o, int control, uint32_t *dev_id)
{
	switch (o->attach) {
	case ATTACH_NONE:
		return add_device(o, control, dev_id);
	case ATTACH_LOST:
		return attach_lost(control, dev_id);
	case ATTACH_OR_ADD:
		return attach_or_add(o, control, dev_id);
	default:
		*dev_id = o->attach;
		return attach_device(control, *dev_id);
	}
}

static void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	/* Without SA_RESTART, because ENTER must end. */
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGALRM, &sa, NULL);
}

/* From START to the end of the core. Returns -errno. */
static int serve(const struct options *o, int fw_fd, uint32_t dev_id, struct fw_core *core,
		 const struct port_kmd *p)
{
	struct vnpu_fw_start start = { 0 };
	const struct vnpu_fw_info *info = p->port.info;
	int err;

	if (ioctl(fw_fd, VNPU_FW_START, &start)) {
		err = -errno;
		fail("device %u: cannot be started: %s", dev_id, strerror(errno));
		return err;
	}
	printf("vnpu-fw: device %u is /dev/accel/accel%d, %s, %u queues, %u contexts\n", dev_id,
	       start.accel_minor, fw_isa_name(o->cfg.isa), info->nr_queues, info->nr_ctx);
	fflush(stdout);
	running = core;
	if (told_to_end)
		fw_core_stop(core);
	err = fw_core_run(core);
	running = NULL;
	alarm(0);
	if (err == -EIO)
		fail("device %u was reset by the kernel, and its jobs have failed (see dmesg)",
		     dev_id);
	else if (err == -ENODEV)
		fail("device %u was deleted by someone else", dev_id);
	else if (err == -EPROTO && fw_core_broken(core))
		fail("device %u: the kernel broke the protocol, please report this: %s", dev_id,
		     fw_core_broken(core));
	else if (err == -EPROTO)
		fail("device %u was reset by the kernel: this process wrote invalid ring indices",
		     dev_id);
	else if (err)
		fail("device %u: %s", dev_id, strerror(-err));
	return err;
}

/* One session: maps the firmware fd, serves it, closes it. -errno; -EIO: it was reset. */
static int run_session(const struct options *o, int fw_fd, uint32_t dev_id)
{
	struct fw_core *core;
	struct port_kmd port;
	const char *what;
	int err = port_kmd_open(&port, fw_fd, &what);

	if (err) {
		fail("device %u: its %s: %s", dev_id, what, strerror(-err));
	} else {
		core = fw_core_create(&o->cfg, &port.port);
		err = core ? 0 : -errno;
		if (core)
			err = serve(o, fw_fd, dev_id, core, &port);
		else
			fail("device %u: %s", dev_id, strerror(errno));
		fw_core_destroy(core);
		port_kmd_close(&port);
	}
	return err;
}

static int remove_device(int control, uint32_t dev_id)
{
	struct vnpu_ctl_del_dev del = { .dev_id = dev_id };

	if (!ioctl(control, VNPU_CTL_DEL_DEV, &del))
		return 0;
	return fail("device %u: cannot be removed: %s", dev_id, strerror(errno));
}

/*
 * Serves a device, again after each reset. Removes it only if the process was told to end;
 * otherwise the device waits for the next firmware. Returns an exit status.
 */
static int serve_device(const struct options *o, int control, int fw_fd, uint32_t dev_id)
{
	int err = run_session(o, fw_fd, dev_id), status;

	while (err == -EIO && !told_to_end) {
		close(fw_fd);
		fw_fd = attach_again(control, dev_id);
		if (fw_fd < 0)
			break;
		err = run_session(o, fw_fd, dev_id);
	}
	if (!told_to_end)
		status = 1;
	else
		status = o->keep || err == -ENODEV ? 0 : remove_device(control, dev_id);
	if (fw_fd >= 0)
		close(fw_fd);
	return status;
}

/* Drops what serving does not need, each as soon as possible. Returns an exit status. */
static int run_device(const struct options *o, int control)
{
	static char out[BUFSIZ];
	char why[256];
	uint32_t dev_id;
	int fw_fd, status;

	if (confine_privileges(o->user, why, sizeof(why)))
		return fail("%s", why);
	fw_fd = get_device(o, control, &dev_id);
	if (fw_fd < 0)
		return 1;
	/* With a buffer of its own, stdio need not find out what kind of file it writes to. */
	setvbuf(stdout, out, _IOLBF, sizeof(out));
	catch_signals();
	if (confine_calls(why, sizeof(why)))
		status = fail("%s", why);
	else
		status = serve_device(o, control, fw_fd, dev_id);
	return status;
}

/* Loads the profile of @o; the caller frees it. Returns an exit status. */
static int load_profile(struct options *o, struct soc **profile)
{
	char why[512];

	if (soc_load_device(o->profile, profile, why, sizeof(why)))
		return fail("%s", why);
	if (*profile)
		o->cfg.npu = &(*profile)->npu;
	else
		fprintf(stderr,
			"vnpu-fw: no profile " SOC_DEFAULT " is installed: device times are 0\n");
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = {
		.name = "vnpu-sim",
		.queues = 64,
		.depth = 64,
		.contexts = 64,
		.remove = -1,
		.attach = ATTACH_NONE,
		.cfg = { .spin_us = 50 },
	};
	struct soc *profile = NULL;
	int control, status = parse_options(&o, argc, argv);

	/* Close files that the parent has left open. */
	close_range(STDERR_FILENO + 1, ~0u, 0);
	if (status)
		return status < 0 ? finish_output() : status;
	if (!fw_isa_name(o.cfg.isa))
		return fail(
			"--isa: this host does not support it; --isa auto takes the best one that "
			"it does");
	if (!o.cfg.threads)
		o.cfg.threads = host_threads();
	if (o.remove < 0 && load_profile(&o, &profile))
		return 1;
	control = open_control();
	if (control < 0) {
		soc_free(profile);
		return 1;
	}
	status = o.remove >= 0 ? remove_device(control, o.remove) : run_device(&o, control);
	close(control);
	soc_free(profile);
	return status;
}
