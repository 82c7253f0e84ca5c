// SPDX-License-Identifier: MIT
/* Devices: choosing a transport, and querying the device. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <npu/vnpu_isa.h>

#include "npu_private.h"
#include "probes.h"
#include "trace.h"

int64_t npu_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

int64_t npu_deadline_ns(int64_t timeout_ns)
{
	int64_t now;

	if (timeout_ns <= 0)
		return 0;
	if (timeout_ns == NPU_FOREVER)
		return INT64_MAX;
	now = npu_now_ns();
	return timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
}

long long npu_timeout_us(int64_t timeout_ns)
{
	return timeout_ns > 0 ? timeout_ns / 1000 : 0;
}

static int npu_device_query(struct npu_device *dev, uint32_t type, void *out, uint32_t size)
{
	struct drm_vnpu_dev_query q = { .type = type, .size = size, .pointer = (uintptr_t)out };
	int ret = transport_ioctl(dev->t, DRM_IOCTL_VNPU_DEV_QUERY, &q);

	if (ret)
		return npu_fail(ret, "device %s: DEV_QUERY %u: %s",
				dev->info.path[0] ? dev->info.path : "sim", type, strerror(-ret));
	return 0;
}

static int npu_device_learn(struct npu_device *dev)
{
	struct drm_vnpu_query_device device = { 0 };
	int ret;

	ret = npu_device_query(dev, DRM_VNPU_QUERY_DEVICE, &device, sizeof(device));
	if (!ret)
		ret = npu_device_query(dev, DRM_VNPU_QUERY_LIMITS, &dev->limits,
				       sizeof(dev->limits));
	if (ret)
		return ret;
	memcpy(dev->info.name, device.name, sizeof(dev->info.name) - 1);
	dev->info.isa_version = device.isa_version;
	dev->info.va_bits = device.va_bits;
	dev->info.mem_limit_bytes = dev->limits.mem_limit_bytes;
	dev->info.max_queue_depth = dev->limits.max_queue_depth;
	dev->info.max_jobs_per_submit = dev->limits.max_jobs_per_submit;
	dev->info.default_timeout_ms = dev->limits.default_timeout_ms;
	dev->info.max_timeout_ms = dev->limits.max_timeout_ms;
	dev->info.max_fence_ms = dev->limits.max_fence_ms;
	dev->info.max_waiting_jobs = dev->limits.max_waiting_jobs;
	if (device.isa_version >> 16 != VNPU_ISA_MAJOR)
		return npu_fail(
			-EPROTO,
			"device %s: ISA %u.%u, this libnpu speaks %u.x; install the same version "
			"of both",
			device.name, device.isa_version >> 16, device.isa_version & 0xffff,
			VNPU_ISA_MAJOR);
	return 0;
}

int npu_device_open_on(struct transport *t, enum npu_transport kind, const char *path,
		       const char *reason, struct npu_device **out)
{
	struct npu_device *dev = calloc(1, sizeof(*dev));
	int ret;

	*out = NULL;
	if (!dev) {
		t->ops->close(t);
		return npu_fail(-ENOMEM, "device: out of memory");
	}
	atomic_init(&dev->refs, 1);
	dev->t = t;
	dev->no_spare_cpu = t->no_spare_cpu;
	dev->info.transport = kind;
	strncpy(dev->info.path, path, sizeof(dev->info.path) - 1);
	strncpy(dev->info.reason, reason, sizeof(dev->info.reason) - 1);
	npu_trace_init();
	dev->trace_nr = npu_trace_device();
	ret = npu_trace_wrap(t, &dev->t);
	if (!ret)
		ret = transport_log_wrap(dev->t, &dev->t);
	if (!ret)
		ret = npu_device_learn(dev);
	if (ret) {
		npu_device_close(dev);
		return ret;
	}
	npu_probe_device_open(dev->info.transport, (const char *)dev->info.path,
			      (const char *)dev->info.reason);
	*out = dev;
	return 0;
}

static int npu_device_open_sim(const struct npu_device_options *opts, const char *reason,
			       struct npu_device **dev)
{
	struct sim_options sim = { .threads = opts->threads,
				   .isa = opts->isa,
				   .profile = opts->profile };
	struct transport *t;
	int ret;

	if (!sim.profile)
		sim.profile = getenv("NPU_PROFILE");
	if (sim.profile && !*sim.profile)
		sim.profile = NULL;
	ret = transport_sim_open(&sim, &t);
	return ret ? ret : npu_device_open_on(t, NPU_TRANSPORT_SIM, "", reason, dev);
}

static int npu_device_transport(const struct npu_device_options *opts, enum npu_transport *kind,
				const char **why)
{
	static const char *const names[] = { "auto", "drm", "sim" };
	const char *env = getenv("NPU_TRANSPORT");

	*kind = opts->transport;
	*why = "the program asked for it";
	if ((unsigned int)*kind > NPU_TRANSPORT_SIM)
		return npu_fail(-EINVAL, "device: transport %d is not known", *kind);
	if (*kind != NPU_TRANSPORT_AUTO || !env || !*env)
		return 0;
	*why = "NPU_TRANSPORT asks for it";
	for (unsigned int i = 0; i < 3; i++) {
		if (!strcmp(env, names[i])) {
			*kind = i;
			return 0;
		}
	}
	return npu_fail(-EINVAL, "NPU_TRANSPORT='%s': use auto, drm or sim", env);
}

static int npu_device_choose(const struct npu_device_options *options, struct npu_device **dev)
{
	struct npu_device_options opts = { 0 };
	enum drm_verdict verdict;
	enum npu_transport kind;
	char node[64] = "", reason[160];
	struct transport *t;
	const char *why;
	int ret;

	*dev = NULL;
	if (options)
		opts = *options;
	if (!opts.path)
		opts.path = getenv("NPU_DEVICE");
	if (opts.path && !*opts.path)
		opts.path = NULL;
	ret = npu_device_transport(&opts, &kind, &why);
	if (ret)
		return ret;
	if (kind == NPU_TRANSPORT_SIM)
		return npu_device_open_sim(&opts, why, dev);
	ret = transport_drm_open(opts.path, &t, node, sizeof(node), &verdict);
	if (!ret)
		ret = npu_device_open_on(t, NPU_TRANSPORT_DRM, node,
					 kind == NPU_TRANSPORT_DRM ? why : "a vnpu that is ready",
					 dev);
	if (!ret)
		return 0;
	/* The caller asked for a particular node. */
	if (kind == NPU_TRANSPORT_DRM || opts.path)
		return ret;
	strncpy(reason, npu_error(), sizeof(reason) - 1);
	reason[sizeof(reason) - 1] = 0;
	return npu_device_open_sim(&opts, reason, dev);
}

int npu_device_open(const struct npu_device_options *options, struct npu_device **dev)
{
	int64_t start_ns;
	int ret;

	npu_trace_init();
	start_ns = npu_trace_begin();
	ret = npu_device_choose(options, dev);
	if (start_ns)
		npu_trace_call(start_ns, "npu_device_open", ret,
			       "\"device\":%u,\"transport\":\"%s\"", ret ? 0 : (*dev)->trace_nr,
			       ret					     ? "none"
			       : (*dev)->info.transport == NPU_TRANSPORT_DRM ? "drm"
									     : "sim");
	return ret;
}

struct npu_device *npu_device_get(struct npu_device *dev)
{
	atomic_fetch_add(&dev->refs, 1);
	return dev;
}

void npu_device_close(struct npu_device *dev)
{
	if (!dev || atomic_fetch_sub(&dev->refs, 1) != 1)
		return;
	dev->t->ops->close(dev->t);
	free(dev);
}

const struct npu_device_info *npu_device_info(const struct npu_device *dev)
{
	return &dev->info;
}

int npu_device_state(struct npu_device *dev, struct npu_device_state *state)
{
	struct drm_vnpu_query_state q = { 0 };
	int ret = npu_device_query(dev, DRM_VNPU_QUERY_STATE, &q, sizeof(q));

	if (ret)
		return ret;
	*state = (struct npu_device_state){
		.lost = q.state != DRM_VNPU_STATE_READY,
		.wedged = q.state == DRM_VNPU_STATE_WEDGED,
		.epoch = q.epoch,
		.nr_resets = q.nr_resets,
		.nr_jobs = q.nr_jobs,
		.busy_ns = q.busy_ns,
		.mem_bytes = q.mem_bytes,
	};
	return 0;
}

void npu_device_counts(const struct npu_device *dev, struct npu_device_counts *counts)
{
	*counts = (struct npu_device_counts){
		.submits = atomic_load(&dev->submits),
		.jobs = atomic_load(&dev->jobs),
		.waits = atomic_load(&dev->waits),
		.polls = atomic_load(&dev->polls),
	};
}
