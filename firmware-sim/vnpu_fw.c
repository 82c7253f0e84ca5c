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
	long attach; /* device to take over, or one of the two below */
	bool keep;
	struct fw_config cfg;
};

static struct fw_core *volatile running; /* for the signal handler; NULL: there is nothing to stop */

static const char usage[] = "usage: vnpu-fw [options]\n"
			    "Serves a vnpu device in the foreground until SIGTERM or SIGINT, which remove the device.\n"
			    "\n"
			    "  --name NAME       name that clients see (vnpu-sim)\n"
			    "  --threads N       workers (one per CPU that the process may use)\n"
			    "  --isa ISA         auto, generic, avx2 or avx512-vnni (auto: the best of this host)\n"
			    "  --spin-us N       poll so long for work before sleeping (50; 0: never)\n"
			    "  --queues N        queues of the device (64)\n"
			    "  --depth N         jobs that a queue holds at once, a power of two (64)\n"
			    "  --contexts N      contexts of the device (64)\n"
			    "  --mem-limit SIZE  buffers that clients may hold together, with K, M or G (0: no limit)\n"
			    "  --attach ID|lost  take over a device whose firmware is gone; its shape stays\n"
			    "  --keep            leave the device behind at the end, for another --attach\n"
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
	/* A signal that arrives just before ENTER would not end it: the alarm comes again until the core has stopped. */
	if (!running)
		return;
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
	static const char *const names[] = { "auto", "generic", "avx2", "avx512-vnni" };
	unsigned int i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(s, names[i])) {
			*isa = i;
			return 0;
		}
	}
	fail("--isa %s: auto, generic, avx2 or avx512-vnni are known", s);
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
	{ "name", required_argument, NULL, 'n' },     { "threads", required_argument, NULL, 't' },
	{ "isa", required_argument, NULL, 'i' },      { "spin-us", required_argument, NULL, 's' },
	{ "queues", required_argument, NULL, 'q' },   { "depth", required_argument, NULL, 'd' },
	{ "contexts", required_argument, NULL, 'c' }, { "mem-limit", required_argument, NULL, 'm' },
	{ "attach", required_argument, NULL, 'a' },   { "keep", no_argument, NULL, 'k' },
	{ "verbose", no_argument, NULL, 'v' },	      { "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },	      { NULL, 0, NULL, 0 },
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

/* Puts the device that ATTACH_LOST means into @o. */
static int find_lost(struct options *o, int control)
{
	struct vnpu_ctl_info info = { 0 };

	for (; !ioctl(control, VNPU_CTL_INFO, &info); info = (struct vnpu_ctl_info){ .dev_id = info.dev_id + 1 }) {
		if (info.state == VNPU_CTL_DEV_LOST) {
			o->attach = info.dev_id;
			return 0;
		}
	}
	if (errno != ENOENT)
		return fail("cannot look at the devices: %s", strerror(errno));
	return fail("no device has lost its firmware: start without --attach to add one");
}

/* A new device or an orphan. The firmware fd, or -1. */
static int get_device(const struct options *o, int control, uint32_t *dev_id)
{
	struct vnpu_ctl_attach attach = { .version = VNPU_FW_ABI, .dev_id = o->attach };
	struct vnpu_ctl_add_dev add = {
		.version = VNPU_FW_ABI,
		.isa_version = VNPU_ISA_VERSION,
		.nr_queues = o->queues,
		.queue_depth = o->depth,
		.nr_ctx = o->contexts,
		.va_bits = VA_BITS,
		.mem_limit = o->mem_limit,
	};

	if (o->attach < 0) {
		snprintf(add.name, sizeof(add.name), "%s", o->name);
		if (ioctl(control, VNPU_CTL_ADD_DEV, &add)) {
			fail("cannot add a device: %s", strerror(errno));
			return -1;
		}
		*dev_id = add.dev_id;
		return add.fw_fd;
	}
	if (ioctl(control, VNPU_CTL_ATTACH, &attach)) {
		if (errno == EBUSY)
			fail("device %ld has a firmware already: end that one first", o->attach);
		else if (errno == ENOENT || errno == ENODEV)
			fail("there is no device %ld: start without --attach to add one", o->attach);
		else
			fail("cannot attach to device %ld: %s", o->attach, strerror(errno));
		return -1;
	}
	*dev_id = o->attach;
	return attach.fw_fd;
}

static void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	/* Without SA_RESTART: ENTER must end. */
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGALRM, &sa, NULL);
}

/* From START to the end of the core. An exit status. */
static int serve(const struct options *o, int fw_fd, uint32_t dev_id, const struct port_kmd *p)
{
	struct vnpu_fw_start start = { 0 };
	const struct vnpu_fw_info *info = p->port.info;
	int err;

	catch_signals();
	if (ioctl(fw_fd, VNPU_FW_START, &start))
		return fail("device %u: cannot be started: %s", dev_id, strerror(errno));
	printf("vnpu-fw: device %u is /dev/accel/accel%d, %s, %u queues, %u contexts\n", dev_id, start.accel_minor,
	       fw_isa_name(o->cfg.isa), info->nr_queues, info->nr_ctx);
	fflush(stdout);
	err = fw_core_run(running);
	alarm(0);
	if (err == -ENODEV)
		return fail("device %u was deleted by someone else", dev_id);
	if (err)
		return fail("device %u: %s", dev_id,
			    err == -EPROTO
				    ? "kernel and firmware disagree about the rings: run --verbose, and report it"
				    : strerror(-err));
	return 0;
}

static int run_device(const struct options *o, int control)
{
	struct vnpu_ctl_del_dev del = { 0 };
	struct fw_core *core;
	struct port_kmd port;
	const char *what;
	int fw_fd, err, status;

	fw_fd = get_device(o, control, &del.dev_id);
	if (fw_fd < 0)
		return 1;
	err = port_kmd_open(&port, fw_fd, &what);
	if (err) {
		status = fail("device %u: its %s: %s", del.dev_id, what, strerror(-err));
	} else {
		running = core = fw_core_create(&o->cfg, &port.port);
		if (!core)
			status = fail("device %u: %s", del.dev_id, strerror(errno));
		else
			status = serve(o, fw_fd, del.dev_id, &port);
		running = NULL;
		fw_core_destroy(core);
		port_kmd_close(&port);
	}
	/* A device that was taken over is left for the next one if this one could not serve it. */
	if (!o->keep && (o->attach < 0 || !status) && ioctl(control, VNPU_CTL_DEL_DEV, &del) && errno != ENOENT &&
	    errno != ENODEV)
		status = fail("device %u: cannot be removed: %s", del.dev_id, strerror(errno));
	close(fw_fd);
	return status;
}

int main(int argc, char **argv)
{
	struct options o = {
		.name = "vnpu-sim",
		.queues = 64,
		.depth = 64,
		.contexts = 64,
		.attach = ATTACH_NONE,
		.cfg = { .spin_us = 50 },
	};
	int control, status = parse_options(&o, argc, argv);

	if (status)
		return status < 0 ? 0 : status;
	if (!fw_isa_name(o.cfg.isa))
		return fail("--isa: this host does not have it; --isa auto takes the best there is");
	control = open_control();
	if (control < 0)
		return 1;
	status = o.attach == ATTACH_LOST ? find_lost(&o, control) : 0;
	status = status ? status : run_device(&o, control);
	close(control);
	return status;
}
