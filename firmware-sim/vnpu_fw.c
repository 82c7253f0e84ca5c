// SPDX-License-Identifier: MIT
/*
 * vnpu-fw: the device as a process. Adds a device to vnpu.ko (or takes one over whose process died), serves it in the
 * foreground, and removes it when it is told to end.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fw.h"
#include "port_kmd.h"
#include "profile.h"
#include "vnpu_isa.h"

#define CONTROL "/dev/" VNPU_FW_CONTROL_NODE
/* 64 GiB per context: more than hosts have, little enough for a thousand contexts in 47 bits. */
#define VA_BITS 36

#define ATTACH_NONE -1 /* add a device */
#define ATTACH_LOST -2 /* the first device without a firmware */

struct options {
	const char *name;
	uint32_t queues, depth, contexts;
	uint64_t mem_limit;
	uint32_t user_contexts, user_queues; /* 0: the kernel's default */
	uint64_t user_mem;
	uint32_t job_timeout, max_job_timeout; /* ms */
	long remove; /* device to remove, or -1 */
	long attach; /* device to take over, or one of the two below */
	bool keep;
	const char *profile; /* NULL: the default */
	struct fw_config cfg;
};

static struct fw_core *volatile running; /* for the signal handler; NULL: there is nothing to stop */
static volatile sig_atomic_t told_to_end;

static const char usage[] =
	"usage: vnpu-fw [options]\n"
	"Serves a vnpu device in the foreground until SIGTERM or SIGINT, which remove the device.\n"
	"\n"
	"  --name NAME       name that clients see (vnpu-sim)\n"
	"  --threads N       workers (one per CPU that the process may use)\n"
	"  --isa ISA         auto, generic, avx2, avx512-vnni, avx512-amx, neon-dotprod or neon-i8mm (auto: the best)\n"
	"  --spin-us N       poll so long for work before sleeping (50; 0: never)\n"
	"  --profile NAME    SoC whose NPU jobs' device times are of: a name of share/profiles, or a file (sd8gen3)\n"
	"  --queues N        queues of the device (64)\n"
	"  --depth N         jobs that a queue holds at once, a power of two (64)\n"
	"  --contexts N      contexts of the device (64)\n"
	"  --mem-limit SIZE  buffers that clients may hold together, with K, M or G (0: no limit)\n"
	"  --user-contexts N, --user-queues N, --user-mem SIZE\n"
	"                    what one user may have of them (half; half; 0: no limit)\n"
	"  --job-timeout MS  timeout of a job that names none (0: the module's)\n"
	"  --max-job-timeout MS\n"
	"                    longest timeout that a job may name, and longest run (0: the module's)\n"
	"  --attach ID|lost  take over a device whose firmware is gone; its shape stays\n"
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

static void on_signal(int sig)
{
	told_to_end = 1;
	if (!running)
		return;
	/* A signal that arrives just before ENTER would not end it: the alarm comes again until the core has stopped. */
	fw_core_stop(running);
	alarm(1);
}

static void on_log(void *ud, const char *line)
{
	fprintf(stderr, "vnpu-fw: %s\n", line);
}

/* ---- options ------------------------------------------------------------------------------------------------------- */

static int parse_number(const char *option, const char *s, uint64_t min, uint64_t max, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(s, &end, 0);
	if (errno || end == s || *end || strchr(s, '-') || *value < min || *value > max) {
		fail("--%s %s: a number from %llu to %llu is wanted", option, s, (unsigned long long)min,
		     (unsigned long long)max);
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
	if (errno || end == s || strchr(s, '-') || (*end && (!shift || end[1])) || *value << shift >> shift != *value) {
		fail("--%s %s: a size such as 512M or 8G is wanted", option, s);
		return 2;
	}
	*value <<= shift;
	return 0;
}

static int parse_isa(const char *s, enum fw_isa *isa)
{
	/* As enum fw_isa has them. */
	static const char *const names[] = { "auto",	   "generic",	   "avx2",     "avx512-vnni",
					     "avx512-amx", "neon-dotprod", "neon-i8mm" };
	unsigned int i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(s, names[i])) {
			*isa = i;
			return 0;
		}
	}
	fail("--isa %s: auto, generic, avx2, avx512-vnni, avx512-amx, neon-dotprod and neon-i8mm are known", s);
	return 2;
}

static int parse_name(const char *s)
{
	size_t i, n = strlen(s);

	for (i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] > '~')
			break;
	if (!n || n >= sizeof(((struct vnpu_ctl_add_dev *)0)->name) || i < n) {
		fail("--name %s: 1 to 31 printable ASCII characters are wanted", s);
		return 2;
	}
	return 0;
}

static int parse_depth(const char *s, uint32_t *depth)
{
	uint64_t n;
	int err = parse_number("depth", s, 1, VNPU_FW_MAX_DEPTH, &n);

	if (!err && n & (n - 1)) {
		fail("--depth %s: a power of two is wanted", s);
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
	{ "keep", no_argument, NULL, 'k' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

/* 0, 2 for bad usage, or -1 if there is nothing more to do. */
static int parse_option(struct options *o, int c, const char *arg)
{
	uint64_t n = 0;
	int err = 0;

	switch (c) {
	case 'n':
		o->name = arg;
		return parse_name(arg);
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
		printf("vnpu-fw %s (ISA %d.%d, firmware ABI %d)\n", VNPU_VERSION, VNPU_ISA_MAJOR, VNPU_ISA_MINOR,
		       VNPU_FW_ABI);
		return -1;
	default:
		/* getopt has said what is wrong. */
		return 2;
	}
}

static int parse_options(struct options *o, int argc, char **argv)
{
	int c, err;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		err = parse_option(o, c, optarg);
		if (err)
			return err;
	}
	if (optind < argc) {
		fail("%s: no arguments are wanted; see --help", argv[optind]);
		return 2;
	}
	if (o->max_job_timeout && o->job_timeout > o->max_job_timeout) {
		fail("--job-timeout %u is more than --max-job-timeout %u", o->job_timeout, o->max_job_timeout);
		return 2;
	}
	if (o->user_contexts > o->contexts || o->user_queues > o->queues) {
		fail("--user-contexts, --user-queues: the device has only %u contexts and %u queues", o->contexts,
		     o->queues);
		return 2;
	}
	return 0;
}

/* ---- the device ---------------------------------------------------------------------------------------------------- */

static int open_control(void)
{
	struct vnpu_ctl_version version = { 0 };
	int fd = open(CONTROL, O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		if (errno == ENOENT || errno == ENODEV || errno == ENXIO)
			fail(CONTROL ": the kernel has no vnpu: load the module (modprobe vnpu, or make insmod)");
		else if (errno == EACCES || errno == EPERM)
			fail(CONTROL ": permission denied: run as root or as a member of the node's group");
		else
			fail(CONTROL ": %s", strerror(errno));
		return -1;
	}
	if (ioctl(fd, VNPU_CTL_VERSION, &version)) {
		fail(CONTROL ": %s: is it vnpu.ko's?", strerror(errno));
	} else if (VNPU_FW_ABI < version.min || VNPU_FW_ABI > version.max) {
		fail(CONTROL
		     ": the module speaks firmware ABI %u to %u, this program %u: install both from one release",
		     version.min, version.max, VNPU_FW_ABI);
	} else {
		return fd;
	}
	close(fd);
	return -1;
}

static int fail_wedged(uint32_t dev_id)
{
	return fail(
		"device %u is wedged, it was reset too often (see dmesg): vnpu-fw --remove %u, then start a new one",
		dev_id, dev_id);
}

/* Puts the device that ATTACH_LOST means into @o. */
static int find_lost(struct options *o, int control)
{
	struct vnpu_ctl_info info = { 0 };
	long wedged = -1;

	for (; !ioctl(control, VNPU_CTL_INFO, &info); info = (struct vnpu_ctl_info){ .dev_id = info.dev_id + 1 }) {
		if (info.state == VNPU_CTL_DEV_LOST) {
			o->attach = info.dev_id;
			return 0;
		}
		if (info.state == VNPU_CTL_DEV_WEDGED)
			wedged = info.dev_id;
	}
	if (errno != ENOENT)
		return fail("cannot look at the devices: %s", strerror(errno));
	return wedged < 0 ? fail("no device has lost its firmware: start without --attach to add one")
			  : fail_wedged(wedged);
}

/* The firmware fd of a device without a firmware, or -1. */
static int attach_device(int control, uint32_t dev_id)
{
	struct vnpu_ctl_attach attach = { .version = VNPU_FW_ABI, .dev_id = dev_id };

	if (!ioctl(control, VNPU_CTL_ATTACH, &attach))
		return attach.fw_fd;
	if (errno == EBUSY)
		fail("device %u has a firmware already: end that one first", dev_id);
	else if (errno == EIO)
		fail_wedged(dev_id);
	else if (errno == ENOENT || errno == ENODEV)
		fail("there is no device %u: start without --attach to add one", dev_id);
	else
		fail("cannot attach to device %u: %s", dev_id, strerror(errno));
	return -1;
}

/* A new device or an orphan. The firmware fd, or -1. */
static int get_device(const struct options *o, int control, uint32_t *dev_id)
{
	struct vnpu_ctl_add_dev add = {
		.version = VNPU_FW_ABI,
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

	if (o->attach >= 0) {
		*dev_id = o->attach;
		return attach_device(control, o->attach);
	}
	snprintf(add.name, sizeof(add.name), "%s", o->name);
	if (ioctl(control, VNPU_CTL_ADD_DEV, &add)) {
		fail("cannot add a device: %s", strerror(errno));
		return -1;
	}
	*dev_id = add.dev_id;
	return add.fw_fd;
}

static void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	/* Without SA_RESTART: ENTER must end. */
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGALRM, &sa, NULL);
}

/* From START to the end of the core; -errno. */
static int serve(const struct options *o, int fw_fd, uint32_t dev_id, struct fw_core *core, const struct port_kmd *p)
{
	struct vnpu_fw_start start = { 0 };
	const struct vnpu_fw_info *info = p->port.info;
	int err;

	if (ioctl(fw_fd, VNPU_FW_START, &start)) {
		err = -errno;
		fail("device %u: cannot be started: %s", dev_id, strerror(errno));
		return err;
	}
	printf("vnpu-fw: device %u is /dev/accel/accel%d, %s, %u queues, %u contexts\n", dev_id, start.accel_minor,
	       fw_isa_name(o->cfg.isa), info->nr_queues, info->nr_ctx);
	fflush(stdout);
	running = core;
	if (told_to_end)
		fw_core_stop(core);
	err = fw_core_run(core);
	running = NULL;
	alarm(0);
	if (err == -EIO)
		fail("device %u was reset by the kernel, and its jobs have failed (see dmesg)", dev_id);
	else if (err == -ENODEV)
		fail("device %u was deleted by someone else", dev_id);
	else if (err)
		fail("device %u: %s", dev_id,
		     err == -EPROTO ? "kernel and firmware disagree about the rings: run --verbose, and report it"
				    : strerror(-err));
	return err;
}

/* One session: maps the firmware fd, serves it, closes it. -errno; -EIO for a device that was reset. */
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

/* Serves a device, again and again if it is reset. An exit status. */
static int run_device(const struct options *o, int control)
{
	uint32_t dev_id;
	int fw_fd = get_device(o, control, &dev_id), err = 0;

	if (fw_fd < 0)
		return 1;
	catch_signals();
	for (;;) {
		err = run_session(o, fw_fd, dev_id);
		if (err != -EIO || told_to_end)
			break;
		close(fw_fd);
		fw_fd = attach_device(control, dev_id);
		if (fw_fd < 0)
			return 1;
	}
	/* A device that was taken over is left for the next one if this one could not serve it. */
	if (!o->keep && err != -ENODEV && (o->attach < 0 || !err) && remove_device(control, dev_id))
		err = -EIO;
	close(fw_fd);
	return err ? 1 : 0;
}

/* The profile of @o; the caller's to free. An exit status. */
static int load_profile(struct options *o, struct profile **profile)
{
	char why[512];

	if (profile_load_device(o->profile, profile, why, sizeof(why)))
		return fail("%s", why);
	if (*profile)
		o->cfg.npu = &(*profile)->npu;
	else
		fprintf(stderr, "vnpu-fw: no profile " PROFILE_DEFAULT " is installed: device times are 0\n");
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
	struct profile *profile = NULL;
	int control, status = parse_options(&o, argc, argv);

	if (status)
		return status < 0 ? 0 : status;
	if (!fw_isa_name(o.cfg.isa))
		return fail("--isa: this host does not have it; --isa auto takes the best there is");
	if (o.remove < 0 && load_profile(&o, &profile))
		return 1;
	control = open_control();
	if (control < 0) {
		profile_free(profile);
		return 1;
	}
	if (o.remove >= 0)
		status = remove_device(control, o.remove);
	else
		status = o.attach == ATTACH_LOST ? find_lost(&o, control) : 0;
	if (!status && o.remove < 0)
		status = run_device(&o, control);
	close(control);
	profile_free(profile);
	return status;
}
