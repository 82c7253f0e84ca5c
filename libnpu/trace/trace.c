// SPDX-License-Identifier: MIT
/*
 * NPU_TRACE: see trace.h. Each thread builds an event on its stack and appends it to the buffer
 * under the lock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <drm/vnpu_accel.h>

#include "npu_fd.h"
#include "npu_fsize.h"
#include "npu_json.h"
#include "npu_private.h"
#include "trace.h"

#define TRACE_BUFFER_BYTES 65536
#define TRACE_FLUSH_NS 250000000

/* Longer names are truncated, so that a line with a fully escaped name has room for its numbers. */
#define TRACE_NAME_CHARS 64
#define TRACE_TEXT_CHARS 512
#define TRACE_LINE_BYTES (2 * NPU_JSON_TEXT_SIZE(TRACE_TEXT_CHARS) + 1024)

struct trace_line {
	size_t len;
	char text[TRACE_LINE_BYTES];
};

/* A job whose end has not been seen. */
struct trace_job {
	uint64_t seqno, id;
	char name[NPU_JSON_TEXT_SIZE(TRACE_NAME_CHARS)]; /* "queue 1: PROGRAM" */
};

struct npu_trace_queue {
	struct npu_trace_queue *next;
	uint32_t dev, ctx, id;
	const struct drm_vnpu_queue_status *status;
	struct trace_job *jobs; /* ring of @room entries from @first on, by seqno */
	unsigned int room, first, nr;
	uint64_t started; /* highest job that was seen to have started */
};

static struct {
	pthread_mutex_t lock;
	pthread_once_t once;
	char *path;
	int fd;
	struct stat file; /* identity of the file behind fd */
	int pid;
	bool named; /* process_name was written */
	bool exiting; /* exit() has begun: the buffer will not be flushed again */
	int64_t flushed_ns;
	size_t len;
	char buf[TRACE_BUFFER_BYTES];
	struct npu_trace_queue *queues;
	uint64_t nr_jobs;
	int64_t memory_bytes;
	atomic_uint nr_devices;
	unsigned int generation; /* changes in a forked child */
} trace = {
	.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT, .fd = -1, .generation = 1
};

static _Thread_local struct {
	unsigned int generation; /* generation in which the thread's name was written */
	int tid;
} trace_thread;

atomic_bool npu_trace_on;

/* ---- the file ---- */

static void trace_stop(int err, const char *what)
{
	atomic_store(&npu_trace_on, false);
	trace.len = 0;
	fprintf(stderr, "libnpu: NPU_TRACE=%s: %s; %s\n", trace.path, strerror(err), what);
}

/* Called with the lock held, as is everything up to trace_put(). */
static void trace_flush(void)
{
	struct stat st;
	int ret;

	if (!trace.len)
		return;
	/* A program that closes unknown descriptors may reuse this one for another file. */
	if (fstat(trace.fd, &st) || st.st_dev != trace.file.st_dev ||
	    st.st_ino != trace.file.st_ino) {
		trace_stop(EBADF, "the program has closed it, and the trace ends here");
		return;
	}
	ret = npu_fsize_write(trace.fd, trace.buf, trace.len);
	if (ret) {
		trace_stop(-ret, "the trace ends here");
		return;
	}
	trace.len = 0;
	trace.flushed_ns = npu_now_ns();
}

static void trace_append(const char *text, size_t len)
{
	if (trace.len + len > sizeof(trace.buf))
		trace_flush();
	if (!atomic_load_explicit(&npu_trace_on, memory_order_relaxed))
		return;
	memcpy(trace.buf + trace.len, text, len);
	trace.len += len;
}

/* ---- lines ---- */

static void line_addv(struct trace_line *l, const char *fmt, va_list ap)
{
	size_t room = sizeof(l->text) - l->len;
	int n = vsnprintf(l->text + l->len, room, fmt, ap);

	if (n > 0)
		l->len += (size_t)n < room ? (size_t)n : room - 1;
}

static void __attribute__((format(printf, 2, 3)))
line_add(struct trace_line *l, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	line_addv(l, fmt, ap);
	va_end(ap);
}

static void line_add_text(struct trace_line *l, const char *key, const char *text)
{
	char cut[TRACE_TEXT_CHARS + 1];

	snprintf(cut, sizeof(cut), "%s", text);
	line_add(l, "\"%s\":\"", key);
	l->len += npu_json_text(l->text + l->len, sizeof(l->text) - l->len, cut);
	line_add(l, "\"");
}

/* @name is escaped already if necessary. */
static void line_begin(struct trace_line *l, char ph, const char *name, int64_t ns)
{
	l->len = 0;
	line_add(l, "{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d,\"ts\":%lld.%03d,\"name\":\"%s\"", ph,
		 trace.pid, trace_thread.tid, (long long)(ns / 1000), (int)(ns % 1000), name);
}

static void trace_put_meta(const char *what, int tid, const char *name)
{
	struct trace_line l;

	line_begin(&l, 'M', what, 0);
	line_add(&l, ",\"args\":{");
	line_add_text(&l, "name", name);
	line_add(&l, "}},\n");
	trace_append(l.text, l.len);
}

static void trace_put_names(void)
{
	char name[17] = "";

	if (!trace.named) {
		trace.named = true;
		trace_put_meta("process_name", trace.pid, program_invocation_short_name);
	}
	prctl(PR_GET_NAME, name);
	trace_put_meta("thread_name", trace_thread.tid, name);
}

static void trace_lock(void)
{
	pthread_mutex_lock(&trace.lock);
	if (trace_thread.generation != trace.generation) {
		trace_thread.tid = gettid();
		trace_put_names();
		trace_thread.generation = trace.generation;
	}
}

static void trace_unlock(void)
{
	if (trace.len && (trace.exiting || npu_now_ns() - trace.flushed_ns >= TRACE_FLUSH_NS))
		trace_flush();
	pthread_mutex_unlock(&trace.lock);
}

static void line_put(struct trace_line *l)
{
	line_add(l, "},\n");
	trace_append(l->text, l->len);
}

/* ---- beginning and end ---- */

static void trace_exit(void)
{
	pthread_mutex_lock(&trace.lock);
	trace.exiting = true;
	trace_flush();
	pthread_mutex_unlock(&trace.lock);
}

static void trace_fork_prepare(void)
{
	pthread_mutex_lock(&trace.lock);
}

static void trace_fork_parent(void)
{
	pthread_mutex_unlock(&trace.lock);
}

/* The parent writes what is in the buffer and what is in flight. */
static void trace_fork_child(void)
{
	trace.len = 0;
	trace.named = false;
	trace.pid = getpid();
	trace.generation++;
	for (struct npu_trace_queue *tq = trace.queues; tq; tq = tq->next)
		tq->nr = 0;
	pthread_mutex_unlock(&trace.lock);
}

/* The first process to open the file begins the array. */
static const char *trace_begin_file(void)
{
	int ret;

	if (fstat(trace.fd, &trace.file))
		return strerror(errno);
	/* The program would stop where nobody reads a pipe, or be killed where its reader ends. */
	if (!S_ISREG(trace.file.st_mode))
		return "not a regular file";
	flock(trace.fd, LOCK_EX);
	ret = fstat(trace.fd, &trace.file) ? -errno : 0;
	if (!ret && !trace.file.st_size)
		ret = npu_fsize_write(trace.fd, "[\n", 2);
	flock(trace.fd, LOCK_UN);
	return ret ? strerror(-ret) : NULL;
}

/* NULL, or why there is no trace. */
static const char *trace_open(const char *path)
{
	const char *why;

	trace.path = strdup(path);
	if (!trace.path)
		return strerror(ENOMEM);
	trace.fd = npu_fd_keep(open(
		path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
	if (trace.fd < 0)
		return strerror(errno);
	why = trace_begin_file();
	if (why) {
		close(trace.fd);
		trace.fd = -1;
	}
	return why;
}

static void trace_init_once(void)
{
	const char *path = getenv("NPU_TRACE"), *why;

	if (!path || !*path)
		return;
	why = trace_open(path);
	if (why) {
		fprintf(stderr, "libnpu: NPU_TRACE=%s: %s; there will be no trace\n", path, why);
		return;
	}
	trace.pid = getpid();
	trace.flushed_ns = npu_now_ns();
	atexit(trace_exit);
	pthread_atfork(trace_fork_prepare, trace_fork_parent, trace_fork_child);
	atomic_store(&npu_trace_on, true);
}

void npu_trace_init(void)
{
	pthread_once(&trace.once, trace_init_once);
}

uint32_t npu_trace_device(void)
{
	return atomic_fetch_add(&trace.nr_devices, 1) + 1;
}

/* ---- slices ---- */

static void line_begin_slice(struct trace_line *l, const char *cat, const char *name,
			     int64_t start_ns, int64_t end_ns)
{
	int64_t ns = end_ns - start_ns;

	line_begin(l, 'X', name, start_ns);
	line_add(l, ",\"dur\":%lld.%03d,\"cat\":\"%s\"", (long long)(ns / 1000), (int)(ns % 1000),
		 cat);
}

void npu_trace_call(int64_t start_ns, const char *name, int ret, const char *fmt, ...)
{
	int64_t now = npu_now_ns();
	struct trace_line l;
	va_list ap;

	trace_lock();
	line_begin_slice(&l, "npu", name, start_ns, now);
	line_add(&l, ",\"args\":{");
	va_start(ap, fmt);
	line_addv(&l, fmt, ap);
	va_end(ap);
	line_add(&l, "%s\"ret\":%d", *fmt ? "," : "", ret);
	if (ret < 0) {
		line_add(&l, ",");
		line_add_text(&l, "error", npu_error());
	}
	line_add(&l, "}");
	line_put(&l);
	trace_unlock();
}

void npu_trace_wait_part(int64_t start_ns, const char *name)
{
	int64_t now = npu_now_ns();
	struct trace_line l;

	trace_lock();
	line_begin_slice(&l, "wait", name, start_ns, now);
	line_put(&l);
	trace_unlock();
}

void npu_trace_device_call(int64_t start_ns, int64_t end_ns, const char *text, int ret)
{
	size_t len = strcspn(text, " ");
	struct trace_line l;
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)len, text);
	trace_lock();
	line_begin_slice(&l, "call", name, start_ns, end_ns);
	line_add(&l, ",\"args\":{\"ret\":%d,", ret);
	line_add_text(&l, "fields", text + len + (text[len] == ' '));
	line_add(&l, "}");
	line_put(&l);
	trace_unlock();
}

/* ---- jobs ---- */

static void line_begin_job(struct trace_line *l, char ph, const struct trace_job *job, int64_t ns)
{
	line_begin(l, ph, job->name, ns);
	line_add(l, ",\"cat\":\"job\",\"id\":\"0x%llx\"", (unsigned long long)job->id);
}

static void trace_put_in_flight(const struct npu_trace_queue *tq, int64_t ns)
{
	struct trace_line l;
	char name[96], dev[32] = "";

	if (tq->dev > 1)
		snprintf(dev, sizeof(dev), "device %u, ", tq->dev);
	snprintf(name, sizeof(name), "jobs in flight, %scontext %u, queue %u", dev, tq->ctx,
		 tq->id);
	line_begin(&l, 'C', name, ns);
	line_add(&l, ",\"args\":{\"jobs\":%u}", tq->nr);
	line_put(&l);
}

/* The oldest job has ended. @status: as JSON text. */
static void trace_end_job(struct npu_trace_queue *tq, const char *status, bool waited, int64_t now)
{
	struct trace_line l;

	line_begin_job(&l, 'e', &tq->jobs[tq->first], now);
	line_add(&l, ",\"args\":{\"status\":%s,\"waited\":%s}", status, waited ? "true" : "false");
	line_put(&l);
	tq->first = (tq->first + 1) % tq->room;
	tq->nr--;
}

/*
 * Read the status page only for jobs of this process: the other process of a fork() may have freed
 * a queue that existed before it, together with the page.
 */

/* The jobs up to @seqno have ended with unknown status. */
static void trace_end_jobs(struct npu_trace_queue *tq, uint64_t seqno, int64_t now)
{
	bool failed = tq->nr && __atomic_load_n(&tq->status->error, __ATOMIC_RELAXED);

	while (tq->nr && tq->jobs[tq->first].seqno <= seqno)
		trace_end_job(tq, failed ? "null" : "0", false, now);
}

static void trace_see_ended(struct npu_trace_queue *tq)
{
	unsigned int before = tq->nr;
	int64_t now;

	if (!tq->nr)
		return;
	now = npu_now_ns();
	trace_end_jobs(tq, __atomic_load_n(&tq->status->completed_seqno, __ATOMIC_ACQUIRE), now);
	if (tq->nr != before)
		trace_put_in_flight(tq, now);
}

static void trace_see_started(struct npu_trace_queue *tq)
{
	const struct trace_job *job;
	struct trace_line l;
	uint64_t started;

	if (!tq->nr)
		return;
	started = __atomic_load_n(&tq->status->started_seqno, __ATOMIC_RELAXED);
	if (tq->started == started)
		return;
	for (unsigned int i = 0; i < tq->nr; i++) {
		job = &tq->jobs[(tq->first + i) % tq->room];
		if (job->seqno == started) {
			tq->started = started;
			line_begin_job(&l, 'n', job, npu_now_ns());
			line_put(&l);
		}
	}
}

struct npu_trace_queue *npu_trace_queue_create(const struct npu_device *dev, uint32_t ctx,
					       uint32_t queue,
					       const struct drm_vnpu_queue_status *status)
{
	struct npu_trace_queue *tq;

	if (!atomic_load(&npu_trace_on))
		return NULL;
	tq = calloc(1, sizeof(*tq));
	if (!tq)
		return NULL;
	tq->dev = dev->trace_nr;
	tq->ctx = ctx;
	tq->id = queue;
	tq->status = status;
	trace_lock();
	tq->next = trace.queues;
	trace.queues = tq;
	trace_unlock();
	return tq;
}

void npu_trace_queue_free(struct npu_trace_queue *tq)
{
	struct npu_trace_queue **at = &trace.queues;
	int64_t now;

	if (!tq)
		return;
	trace_lock();
	trace_see_ended(tq);
	now = npu_now_ns();
	if (tq->nr) {
		while (tq->nr)
			trace_end_job(tq, "null", false, now);
		trace_put_in_flight(tq, now);
	}
	while (*at != tq)
		at = &(*at)->next;
	*at = tq->next;
	trace_unlock();
	free(tq->jobs);
	free(tq);
}

/* Adds an entry at the end of the ring. */
static struct trace_job *trace_add_job(struct npu_trace_queue *tq)
{
	unsigned int room = tq->room ? 2 * tq->room : 16;
	struct trace_job *jobs;

	if (tq->nr == tq->room) {
		jobs = calloc(room, sizeof(*jobs));
		if (!jobs)
			return NULL;
		for (unsigned int i = 0; i < tq->nr; i++)
			jobs[i] = tq->jobs[(tq->first + i) % tq->room];
		free(tq->jobs);
		tq->jobs = jobs;
		tq->room = room;
		tq->first = 0;
	}
	return &tq->jobs[(tq->first + tq->nr++) % tq->room];
}

void npu_trace_job(struct npu_trace_queue *tq, uint64_t seqno, const char *program,
		   int64_t start_ns)
{
	char cut[TRACE_NAME_CHARS + 1], escaped[NPU_JSON_TEXT_SIZE(TRACE_NAME_CHARS)];
	struct trace_job *job;
	struct trace_line l;

	snprintf(cut, sizeof(cut), "queue %u: %s", tq->id, program);
	npu_json_text(escaped, sizeof(escaped), cut);
	trace_lock();
	trace_see_ended(tq);
	job = trace_add_job(tq);
	if (job) {
		job->seqno = seqno;
		job->id = (uint64_t)trace.pid << 32 | (uint32_t)++trace.nr_jobs;
		memcpy(job->name, escaped, sizeof(job->name));
		line_begin_job(&l, 'b', job, start_ns);
		line_add(&l, ",\"args\":{\"device\":%u,\"ctx\":%u,\"queue\":%u,\"seqno\":%llu,",
			 tq->dev, tq->ctx, tq->id, (unsigned long long)seqno);
		line_add_text(&l, "program", program);
		line_add(&l, "}");
		line_put(&l);
		trace_put_in_flight(tq, start_ns);
		trace_see_started(tq);
	}
	trace_unlock();
}

void npu_trace_job_done(struct npu_trace_queue *tq, uint64_t seqno, int status)
{
	int64_t now = npu_now_ns();
	unsigned int before;
	char text[16];

	trace_lock();
	before = tq->nr;
	trace_end_jobs(tq, seqno - 1, now);
	if (tq->nr && tq->jobs[tq->first].seqno == seqno) {
		snprintf(text, sizeof(text), "%d", status);
		trace_end_job(tq, text, true, now);
	}
	if (tq->nr != before)
		trace_put_in_flight(tq, now);
	trace_unlock();
}

void npu_trace_look_started(struct npu_trace_queue *tq)
{
	trace_lock();
	trace_see_started(tq);
	trace_unlock();
}

void npu_trace_look_ended(struct npu_trace_queue *tq)
{
	trace_lock();
	trace_see_ended(tq);
	trace_unlock();
}

void npu_trace_look_all(void)
{
	trace_lock();
	for (struct npu_trace_queue *tq = trace.queues; tq; tq = tq->next)
		trace_see_ended(tq);
	trace_unlock();
}

/* ---- memory ---- */

void npu_trace_memory(int64_t bytes)
{
	int64_t now = npu_now_ns();
	struct trace_line l;

	trace_lock();
	trace.memory_bytes += bytes;
	line_begin(&l, 'C', "buffer memory", now);
	line_add(&l, ",\"args\":{\"bytes\":%lld}", (long long)trace.memory_bytes);
	line_put(&l);
	trace_unlock();
}
