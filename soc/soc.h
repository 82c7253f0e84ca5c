/* SPDX-License-Identifier: MIT */
/*
 * Profiles: what is known about a phone's SoC, as a text file (share/profiles/NAME.conf).
 *
 *	[npu]
 *	array_rows = 32 @ published: HeteroLLM 3.2, the systolic array of its example
 *	launch_us  = 600 @ fitted: the rows of llm.npu's matmul table
 *	idle_w     = 0.05 @ assumed: ...
 *
 * Every number says where it comes from:
 *
 *	published	stated by the source that follows
 *	fitted		chosen so that the model meets published measurements, which the text names
 *	assumed		nobody has said it; the text says why this value
 *	derived		another profile's number times a factor, and the reason:
 *			"derived: sd8gen3 x 1.45: rule"
 *
 * A file gives every key exactly once; a key that is not known, a missing one, a number outside
 * its range, a fraction where things are counted, or a number without a source is an error that
 * names file and key. Comments begin with '#' or
 * ';' at the start of a line.
 *
 * The model that the numbers feed: soc/npu_time.h for the NPU, soc/soc_cost.h for the other lanes
 * and for what they share.
 */
#ifndef SOC_H
#define SOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * The NPU: a weight-stationary matrix engine of several systolic arrays, a vector
 * engine, and memory on the chip.
 */
struct soc_npu {
	/* Processing elements of one array: depth K and columns N of a tile. */
	double array_rows, array_cols;
	double arrays;
	double clock_mhz;
	/* Rows of activations that are streamed at a time: a shorter batch costs as much. */
	double row_granule;
	/* A line of them that begins within those, fetched on its own, for each tile of weights. */
	double line_ns;
	double f16_rate; /* F16 multiply-accumulates of an element and cycle; INT8 does 1 */
	double load_gbps; /* a stationary operand that does not stay on the chip, into the arrays */
	/* Streamed rows whose sums the arrays keep, and KiB of a stationary column that a bank of
	 * the chip's memory takes: see npu_time.h. */
	double hold_rows, hold_column_kib;
	/* Activations and partial sums between the chip's memory and the arrays. */
	double feed_bytes_per_cycle;
	/* Up to so many rows the vector engine streams the weights instead; 0: never. */
	double gemv_rows;
	double gemv_gmacs; /* at this rate, 1e9 multiply-adds a second */
	double vector_gelems; /* float element operations of the vector engine, 1e9 a second */
	/* Weights narrower than the arrays' values, widened, 1e9 a second. */
	double widen_gelems;
	/* Sums of groups of k, scaled and added as floats, 1e9 a second. */
	double group_gsums;
	/* A matmul in F16 that the compiler could not map to the arrays: per weight. */
	double f16_emulated_ns;
	double onchip_mib;
	double space_gib; /* of weights that it can address */
	double dram_gbps; /* alone */
	/*
	 * A graph's execution without its commands: start and completion, as
	 * the driver path gives it.
	 */
	double launch_us;
	double launch_awake_us; /* the same where neither side sleeps */
	double dynamic_setup_us; /* a matmul whose "weights" are activations: once */
	double dynamic_ns; /* and per element that is laid out for the arrays */
	double build_ms; /* a graph: its intermediate form, whatever its size */
	double build_op_us; /* and per operator */
	double optimize_ns; /* a graph's compilation, per element of its tensors */
	double graph_gbps; /* a compiled graph, loaded from storage by the vendor's runtime */
	double idle_w, active_w;
};

/* Kernels of one queue. */
struct soc_gpu {
	double tflops; /* F16, sustained */
	double half_rows; /* rows of a matmul at which half of it is reached */
	double gemv_tflops; /* row by row, for batches too short for that */
	double vector_gelems;
	double dram_gbps;
	/* The CPU's part of a kernel; behind another one it is hidden while that runs. */
	double submit_us;
	double submit_drained_us; /* a kernel into an empty queue */
	double copy_us; /* a transfer between host and GPU memory, whatever its size */
	double idle_w, active_w;
};

/* Rates are those of the four fastest cores together; soc_use_cores() limits them. */
struct soc_cpu {
	double big_cores, middle_cores, little_cores;
	double big_rate, little_rate; /* of one core, a middle one's being 1 */
	double int8_tops; /* weights whose depth fits the cache (panel_k) */
	double f16_gflops;
	double panel_k; /* depth from which the INT8 rate falls in proportion */
	double pack_ns; /* an element of the activations, quantised and packed */
	double gather; /* cost of a sparse attention's matmul relative to the same work, dense */
	double vector_gelems;
	double unpack_gelems; /* weights of k-quants to INT8, by one core, 1e9 a second */
	double unpack_planes_gelems; /* the same of weights in planes (EdgeFlow 4.2) */
	double dram_gbps;
	double core_gbps; /* of one core alone */
	double dispatch_us;
	double sleep_us; /* least time that a sleep takes */
	double poll_us; /* seeing a flag that is polled */
	double idle_w;
	double big_w, middle_w, little_w; /* of a core at work */
};

struct soc_storage {
	double read_gbps; /* a file, by two threads */
};

/* Cores that the CPU lane has. */
enum soc_cores {
	/* The fastest ones: what engines take that use the CPU for all it is worth. */
	SOC_CORES_FOUR,
	SOC_CORES_BIG, /* one */
	SOC_CORES_MIDDLE, /* one (shadowAttn 4) */
	SOC_CORES_LITTLE, /* one */
};

struct soc_memory {
	double dram_peak_gbps;
	double dram_shared_gbps; /* that two lanes or more get together */
	double base_w; /* memory, and all that is neither lane */
};

enum soc_source {
	SOC_PUBLISHED,
	SOC_FITTED,
	SOC_ASSUMED,
	SOC_DERIVED,
	SOC_NR_SOURCES,
};

struct soc {
	char name[32]; /* the file's, without folder and .conf */
	char title[96]; /* [soc] title */
	struct soc_memory memory;
	struct soc_npu npu;
	struct soc_gpu gpu;
	struct soc_cpu cpu;
	struct soc_storage storage;
	enum soc_cores cores; /* soc_use_cores(); FOUR as read */
	struct soc_note *notes; /* one per number, in the order of soc_key() */
};

struct soc_note {
	enum soc_source source;
	char *text;
};

/*
 * Reads a profile: @name is a file if it contains a '/' or ends in ".conf", else NAME.conf of the
 * folder that the environment's VNPU_PROFILES names, else of share/profiles, where the program is
 * installed or built. NULL with one line in @why.
 */
struct soc *soc_load(const char *name, char *why, size_t why_bytes);
/*
 * The profile of a device: @name as above, which is an error if it is missing; or for NULL the
 * default, and *p is NULL if that is not installed. 0, or -errno (-ENOENT, -EINVAL for a file that
 * is no profile) with one line in @why.
 */
#define SOC_DEFAULT "sd8gen3"
int soc_load_device(const char *name, struct soc **p, char *why, size_t why_bytes);
void soc_free(struct soc *p);

/* Gives the CPU lane these cores. -ENOENT: the SoC has none of them. */
int soc_use_cores(struct soc *p, enum soc_cores cores);
/* What the lane's cores do of what the four fastest do, in rate. */
double soc_cpu_share(const struct soc *p);
unsigned int soc_cpu_cores(const struct soc *p); /* how many they are */
double soc_cpu_active_w(const struct soc *p);

/* The same search for files of share/@kind: opens @name for reading and gives its path, or NULL
 * with errno. @env: the variable that names a folder to look in instead. */
FILE *soc_open_file(const char *kind, const char *env, const char *name, char *path,
		    size_t path_bytes);

/* The numbers, one after another: 0, or -1 when @i is beyond the last. */
struct soc_key {
	const char *section, *key, *unit, *what;
	bool whole; /* it counts things */
};
int soc_key(size_t i, struct soc_key *key);
double soc_value(const struct soc *p, size_t i);
const char *soc_source_name(enum soc_source s); /* "published", "fitted", ... */

#endif /* SOC_H */
