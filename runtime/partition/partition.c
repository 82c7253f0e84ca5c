// SPDX-License-Identifier: MIT
/* Partitions: what a cut takes, which cuts there are, and the search (partition.h). */
#include "partition.h"

#include <math.h>
#include <string.h>

#include "partition_private.h"
#include "ops.h"

const char *cut_kind_name(enum cut_kind kind)
{
	static const char *const names[PARTITION_NR_CUTS] = {
		"gpu", "npu", "row", "sequence", "multi-sequence", "hybrid",
	};

	return names[kind];
}

/* ---- the profiler: what a slice takes ---- */

struct soc_op partition_work(const struct partition_options *o, uint64_t rows, uint64_t k,
			     uint64_t n)
{
	const struct llm_width width = o->width ? *o->width : llm_weights_width(o->weights);

	return (struct soc_op){
		.kind = SOC_MATMUL,
		.m = o->planes ? rows * o->planes : rows,
		.k = k,
		.n = n,
		.weight_bits = width.bits,
		.group = width.group,
		.act_bits = llm_act_bits(o->weights),
		.order = llm_operands_order(o->operands),
		.density = 1,
	};
}

/* Whether a matmul is so compute-intensive that the GPU's rate is fixed (4.3). */
static bool has_fixed_rate(const struct soc *soc, uint64_t rows)
{
	return (double)rows >= PARTITION_FIXED_RATE * soc->gpu.half_rows;
}

struct soc_cost partition_cost(const struct partition_options *o, enum soc_lane lane, uint64_t rows,
			       uint64_t k, uint64_t n)
{
	struct soc_op work = partition_work(o, rows, k, n);
	struct soc_cost cost = soc_op_cost(o->soc, lane, &work);

	if (o->predictor && lane == SOC_NPU)
		cost.ns = predictor_ns(o->predictor, &work);
	if (o->gpu_predictor && lane == SOC_GPU)
		cost.ns = predictor_ns(o->gpu_predictor, &work);
	else if (o->predictor && lane == SOC_GPU && has_fixed_rate(o->soc, work.m))
		cost.ns = 2 * (double)work.m * (double)k * (double)n / o->soc->gpu.tflops / 1e3;
	if (lane == SOC_GPU) {
		cost.ns /= 1 - o->gpu_busy;
		cost.dram_bytes /= 1 - o->gpu_busy;
	}
	return cost;
}

/* ---- both lanes at work ---- */

/* Work on one lane, one piece after the other. */
struct lane_slices {
	enum soc_lane lane;
	struct {
		double start_ns; /* before it; without traffic */
		struct soc_cost cost;
	} v[PARTITION_NR_GRAPHS + 2];
	unsigned int n;
	double end_ns; /* of all */
};

/* Where a lane is in its pieces. */
struct progress {
	unsigned int i;
	double start_ns; /* left */
	double left; /* fraction of the work */
	double rate; /* fractions a ns */
};

static void add_slice(struct lane_slices *p, double start_ns, struct soc_cost cost, double times)
{
	p->v[p->n].start_ns = start_ns * times;
	p->v[p->n].cost = (struct soc_cost){ cost.ns * times, cost.dram_bytes * times };
	p->n++;
}

static void next_slice(const struct lane_slices *p, struct progress *at, unsigned int i)
{
	*at = (struct progress){ .i = i, .left = 1 };
	if (i < p->n)
		at->start_ns = p->v[i].start_ns;
}

/* That of a piece which has started. */
static void set_rates(const struct soc *prof, struct lane_slices *const lanes[2],
		      struct progress at[2])
{
	const struct soc_cost *work[SOC_NR_LANES] = { NULL };
	double rate[SOC_NR_LANES];

	for (int l = 0; l < 2; l++)
		if (at[l].i < lanes[l]->n && at[l].start_ns <= 0)
			work[lanes[l]->lane] = &lanes[l]->v[at[l].i].cost;
	soc_rates(prof, work, rate);
	for (int l = 0; l < 2; l++)
		at[l].rate = rate[lanes[l]->lane];
}

/*
 * Lets both lanes work until all is done: the virtual clock's rules (scheduler_virtual.c)
 * for two lines of pieces.
 */
static void run_slices(const struct soc *prof, struct lane_slices *gpu, struct lane_slices *npu)
{
	struct lane_slices *const lanes[2] = { gpu, npu };
	struct progress at[2];
	double now = 0;

	for (int l = 0; l < 2; l++) {
		next_slice(lanes[l], &at[l], 0);
		lanes[l]->end_ns = 0;
	}
	while (at[0].i < gpu->n || at[1].i < npu->n) {
		double ns = INFINITY, need[2] = { INFINITY, INFINITY };

		set_rates(prof, lanes, at);
		for (int l = 0; l < 2; l++) {
			if (at[l].i < lanes[l]->n)
				need[l] = at[l].start_ns > 0 ? at[l].start_ns
							     : at[l].left / at[l].rate;
			ns = need[l] < ns ? need[l] : ns;
		}
		now += ns;
		for (int l = 0; l < 2; l++) {
			if (at[l].i == lanes[l]->n)
				continue;
			if (at[l].start_ns > 0) {
				at[l].start_ns = need[l] <= ns ? 0 : at[l].start_ns - ns;
			} else if (need[l] <= ns) {
				lanes[l]->end_ns = now;
				next_slice(lanes[l], &at[l], at[l].i + 1);
			} else {
				at[l].left -= ns * at[l].rate;
			}
		}
	}
}

/* ---- a cut ---- */

uint32_t partition_nr_graphs(const struct cut *cut)
{
	uint32_t n = cut->exact ? 1 : 0;

	for (int i = 0; i < PARTITION_NR_GRAPHS; i++)
		n += cut->graphs[i];
	return n;
}

/* Tokens of graph @index, and in *@before those of the ones before it. */
static uint32_t find_graph(const struct cut *cut, uint32_t index, uint32_t *before)
{
	*before = 0;
	if (cut->exact)
		return cut->exact;
	for (int i = PARTITION_NR_GRAPHS - 1; i >= 0; i--) {
		uint32_t tokens = partition_graph_tokens(i), n = cut->graphs[i];

		*before += (index < n ? index : n) * tokens;
		if (index < n)
			return tokens;
		index -= n;
	}
	return 0;
}

uint32_t partition_graph_rows(const struct cut *cut, uint32_t i)
{
	uint32_t before;

	return find_graph(cut, i, &before);
}

uint32_t partition_nr_slices(const struct cut *cut)
{
	return partition_nr_graphs(cut) + (cut->gpu_cols > 0) + (cut->gpu_tokens > 0);
}

void partition_slice(const struct cut *cut, uint32_t i, struct partition_slice *slice)
{
	uint32_t graphs = partition_nr_graphs(cut), tokens = cut->m - cut->gpu_tokens;

	if (i >= graphs) {
		bool columns = cut->gpu_cols && i == graphs;

		*slice = (struct partition_slice){
			.lane = SOC_GPU,
			.row = columns ? 0 : tokens,
			.rows = columns ? tokens : cut->gpu_tokens,
			.col = columns ? cut->n - cut->gpu_cols : 0,
			.cols = columns ? cut->gpu_cols : cut->n,
		};
		slice->graph_rows = slice->rows;
		return;
	}
	*slice = (struct partition_slice){ .lane = SOC_NPU, .cols = cut->n - cut->gpu_cols };
	slice->graph_rows = find_graph(cut, i, &slice->row);
	slice->rows =
		tokens - slice->row < slice->graph_rows ? tokens - slice->row : slice->graph_rows;
}

static uint64_t graph_tokens(const struct cut *cut)
{
	uint64_t tokens = cut->exact;

	for (int i = 0; i < PARTITION_NR_GRAPHS; i++)
		tokens += (uint64_t)cut->graphs[i] * partition_graph_tokens(i);
	return tokens;
}

uint32_t partition_padding(const struct cut *cut)
{
	uint64_t tokens = graph_tokens(cut);

	return tokens ? (uint32_t)(tokens - (cut->m - cut->gpu_tokens)) : 0;
}

static void npu_slices(const struct partition_options *o, const struct cut *cut,
		       struct lane_slices *npu)
{
	double launch = soc_npu_start_ns(o->soc, o->sync, true);
	uint64_t cols = cut->n - cut->gpu_cols;

	if (cut->exact)
		add_slice(npu, launch, partition_cost(o, SOC_NPU, cut->exact, cut->k, cols), 1);
	for (int i = PARTITION_NR_GRAPHS - 1; i >= 0; i--)
		if (cut->graphs[i])
			add_slice(
				npu, launch,
				partition_cost(o, SOC_NPU, partition_graph_tokens(i), cut->k, cols),
				cut->graphs[i]);
}

static void gpu_slices(const struct partition_options *o, const struct cut *cut,
		       struct lane_slices *gpu)
{
	/* They are submitted while the operator before them runs. */
	if (cut->gpu_cols)
		add_slice(
			gpu, 0,
			partition_cost(o, SOC_GPU, cut->m - cut->gpu_tokens, cut->k, cut->gpu_cols),
			1);
	if (cut->gpu_tokens)
		add_slice(gpu, 0, partition_cost(o, SOC_GPU, cut->gpu_tokens, cut->k, cut->n), 1);
}

void partition_predict(const struct partition_options *o, struct cut *cut)
{
	const struct soc *p = o->soc;
	struct lane_slices gpu = { .lane = SOC_GPU }, npu = { .lane = SOC_NPU };
	double to_npu = soc_handover_ns(p, SOC_GPU, SOC_NPU, o->sync);
	double to_gpu = soc_handover_ns(p, SOC_NPU, SOC_GPU, o->sync);
	double copies = o->sync == SOC_SYNC_DRIVER ? 2 * p->gpu.copy_us * 1e3 : 0, known, longest,
	       rest;

	npu_slices(o, cut, &npu);
	gpu_slices(o, cut, &gpu);
	if (npu.n)
		npu.v[0].start_ns += to_npu;
	run_slices(p, &gpu, &npu);
	cut->gpu_ns = gpu.end_ns;
	cut->npu_ns = npu.n ? npu.end_ns - to_npu : 0;
	known = npu.n ? npu.end_ns + to_gpu : 0;
	if (known > gpu.end_ns)
		cut->total_ns = known + soc_gpu_submit_ns(p, true);
	else
		cut->total_ns = fmax(gpu.end_ns, npu.n ? known + soc_gpu_submit_ns(p, false) : 0);
	longest = cut->gpu_ns > cut->npu_ns ? cut->gpu_ns : cut->npu_ns;
	rest = cut->total_ns - longest;
	cut->copy_ns = copies < rest ? copies : rest;
	cut->sync_ns = rest - cut->copy_ns;
}

bool partition_is_exact(const struct partition_options *o, uint32_t m)
{
	return m <= PARTITION_EXACT_ROWS ||
	       (o->graphs != LLM_GRAPHS_PADDED && o->graphs != LLM_GRAPHS_PIPE);
}

uint32_t partition_first(uint32_t m)
{
	return m < PARTITION_REGION ? 0 : m / PARTITION_MAX_GRAPH - 1;
}

void partition_take_graphs(enum llm_graphs graphs, uint32_t tokens,
			   uint32_t count[PARTITION_NR_GRAPHS])
{
	uint32_t units = partition_units(tokens), most = 1u << (PARTITION_NR_GRAPHS - 1);

	memset(count, 0, PARTITION_NR_GRAPHS * sizeof(count[0]));
	count[PARTITION_NR_GRAPHS - 1] = units / most;
	units %= most;
	for (int i = 0; graphs == LLM_GRAPHS_PIPE && i < PARTITION_NR_GRAPHS - 1; i++)
		count[i] = units >> i & 1;
	if (graphs == LLM_GRAPHS_PADDED && units)
		for (int i = 0; i < PARTITION_NR_GRAPHS; i++)
			if (units <= 1u << i) {
				count[i]++;
				break;
			}
}

void partition_search_single(const struct partition_options *o, uint32_t m, uint64_t k, uint64_t n,
			     struct cut *cut)
{
	struct cut npu = { .kind = PARTITION_NPU, .m = m, .k = k, .n = n };

	*cut = (struct cut){ .kind = PARTITION_GPU, .m = m, .k = k, .n = n, .gpu_cols = n };
	if (partition_is_exact(o, m))
		npu.exact = m;
	else
		partition_take_graphs(o->graphs, m, npu.graphs);
	partition_predict(o, cut);
	partition_predict(o, &npu);
	if (npu.total_ns < cut->total_ns)
		*cut = npu;
}

bool partition_classify(const struct partition_options *o, struct cut *cut)
{
	uint32_t graphs = partition_nr_graphs(cut);
	/* What any graph of 32 has to spare is no choice. */
	bool padded = partition_padding(cut) >= PARTITION_MIN_GRAPH;
	enum llm_partition allowed = o->partition;

	if (!graphs)
		cut->kind = PARTITION_GPU;
	else if (cut->gpu_cols)
		cut->kind = cut->gpu_tokens || padded ? PARTITION_HYBRID : PARTITION_ROW;
	else if (cut->gpu_tokens)
		cut->kind = graphs == 1 ? PARTITION_SEQUENCE : PARTITION_MULTI_SEQUENCE;
	else
		cut->kind = PARTITION_NPU;
	if (allowed == LLM_PARTITION_AUTO)
		return true;
	switch (cut->kind) {
	case PARTITION_ROW:
		return allowed == LLM_PARTITION_ROW || allowed == LLM_PARTITION_HYBRID;
	case PARTITION_SEQUENCE:
		return allowed == LLM_PARTITION_SEQUENCE || allowed == LLM_PARTITION_MULTI_SEQUENCE;
	case PARTITION_MULTI_SEQUENCE:
		return allowed == LLM_PARTITION_MULTI_SEQUENCE;
	case PARTITION_HYBRID:
		return allowed == LLM_PARTITION_HYBRID;
	default:
		return false;
	}
}

/* ---- the search ---- */

struct search {
	const struct partition_options *o;
	struct cut *best;
	uint64_t cols; /* of the GPU */
	/* Launch and work, alone, with the columns that are left. */
	double graph_ns[PARTITION_NR_GRAPHS];
	/*
	 * By units of 32 tokens: the fastest graphs for exactly so many, [1] for at
	 * least, and the index of one.
	 */
	struct fastest {
		double ns;
		uint8_t graph;
	} fastest[2][PARTITION_UNITS + 1];
};

static double graph_alone_ns(const struct search *s, uint32_t rows)
{
	const struct partition_options *o = s->o;
	uint64_t cols = s->best->n - s->cols;

	return soc_npu_start_ns(o->soc, o->sync, true) +
	       soc_alone_ns(o->soc, SOC_NPU, partition_cost(o, SOC_NPU, rows, s->best->k, cols));
}

static void find_graphs(struct search *s, uint32_t units)
{
	for (int i = 0; i < PARTITION_NR_GRAPHS; i++)
		s->graph_ns[i] = graph_alone_ns(s, partition_graph_tokens(i));
	for (int padded = 0; padded < 2; padded++) {
		struct fastest *f = s->fastest[padded];

		f[0].ns = 0;
		for (uint32_t u = 1; u <= units; u++) {
			f[u].ns = INFINITY;
			for (uint8_t i = 0; i < PARTITION_NR_GRAPHS; i++) {
				uint32_t has = 1u << i;
				double ns = s->graph_ns[i] + (has < u ? f[u - has].ns : 0);

				if (has > u && !padded)
					break;
				if (ns < f[u].ns)
					f[u] = (struct fastest){ ns, i };
				if (has >= u)
					break;
			}
		}
	}
}

/*
 * The graphs that go with @cut; what they take if nothing else is at work, or
 * INFINITY if there are none.
 */
static double choose_graphs(const struct search *s, struct cut *cut)
{
	enum llm_partition allowed = s->o->partition;
	uint32_t first = partition_first(cut->m), rows = cut->m - cut->gpu_tokens;
	uint32_t units = partition_units(rows - first * PARTITION_MAX_GRAPH);
	/* Tokens that the GPU takes are not padded for the NPU too. */
	bool padded = !cut->gpu_tokens &&
		      (allowed == LLM_PARTITION_AUTO || allowed == LLM_PARTITION_HYBRID);
	const struct fastest *f = s->fastest[padded];
	double ns = first * s->graph_ns[PARTITION_NR_GRAPHS - 1];

	if (s->o->graphs == LLM_GRAPHS_PADDED || allowed == LLM_PARTITION_SEQUENCE) {
		partition_take_graphs(LLM_GRAPHS_PADDED, rows, cut->graphs);
		for (int i = 0; i < PARTITION_NR_GRAPHS; i++)
			ns += (cut->graphs[i] - (i == PARTITION_NR_GRAPHS - 1 ? first : 0)) *
			      s->graph_ns[i];
		return cut->gpu_tokens && partition_padding(cut) ? INFINITY : ns;
	}
	ns += f[units].ns;
	cut->graphs[PARTITION_NR_GRAPHS - 1] = first;
	while (units) {
		uint32_t has = 1u << f[units].graph;

		cut->graphs[f[units].graph]++;
		units -= has < units ? has : units;
	}
	return ns;
}

static double gpu_alone_ns(const struct search *s, uint32_t rows, uint64_t cols)
{
	const struct partition_options *o = s->o;

	if (!rows || !cols)
		return 0;
	return soc_alone_ns(o->soc, SOC_GPU, partition_cost(o, SOC_GPU, rows, s->best->k, cols));
}

static void keep_if_faster(struct search *s, struct cut *cut)
{
	if (!partition_classify(s->o, cut))
		return;
	partition_predict(s->o, cut);
	if (cut->total_ns < s->best->total_ns)
		*s->best = *cut;
}

/* @tokens for the GPU beside its columns. False if that alone takes too long, and so do more. */
static bool try_tokens(struct search *s, uint32_t tokens)
{
	struct cut cut = { .m = s->best->m,
			   .k = s->best->k,
			   .n = s->best->n,
			   .gpu_tokens = tokens,
			   .gpu_cols = s->cols };

	if (gpu_alone_ns(s, cut.m - tokens, s->cols) + gpu_alone_ns(s, tokens, cut.n) >=
	    s->best->total_ns)
		return false;
	if (choose_graphs(s, &cut) < s->best->total_ns)
		keep_if_faster(s, &cut);
	return true;
}

static void try_columns(struct search *s)
{
	uint32_t m = s->best->m, first = partition_first(m),
		 region = m - first * PARTITION_MAX_GRAPH;
	uint32_t tokens = region % PARTITION_MIN_GRAPH ?: PARTITION_MIN_GRAPH;

	if (partition_is_exact(s->o, m)) {
		struct cut cut = {
			.m = m, .k = s->best->k, .n = s->best->n, .exact = m, .gpu_cols = s->cols
		};

		if (graph_alone_ns(s, m) < s->best->total_ns)
			keep_if_faster(s, &cut);
		return;
	}
	find_graphs(s, partition_units(region));
	try_tokens(s, 0);
	while (tokens < region && try_tokens(s, tokens))
		tokens += PARTITION_MIN_GRAPH;
}

void partition_search(const struct partition_options *o, uint32_t m, uint64_t k, uint64_t n,
		      struct cut *cut)
{
	struct search s = { .o = o, .best = cut };

	partition_search_single(o, m, k, n, cut);
	if (o->partition == LLM_PARTITION_NONE)
		return;
	/* Tokens beside them make the GPU's slice larger still. */
	for (s.cols = 0; s.cols < n && gpu_alone_ns(&s, m, s.cols) < cut->total_ns;
	     s.cols += PARTITION_COLS)
		try_columns(&s);
}
