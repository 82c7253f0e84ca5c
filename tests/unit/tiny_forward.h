/* SPDX-License-Identifier: MIT */
/* The forward pass of tiny models in double precision: a part of tiny_model.h. */
#ifndef TINY_FORWARD_H
#define TINY_FORWARD_H

struct tiny_pass {
	struct tiny_model *t;
	unsigned int layer;
	enum llm_weights weights; /* of linear layers: F32, W8A8, W4A8 or W4A16 */
	enum llm_activations activations;
	/* Least distance, in steps, of an activation from a rounding tie. */
	double tie;
	bool down; /* the matrix is a down projection */
	/* Least difference of logits between a token's last expert and the next one. */
	double gap;
};

static inline const float *tiny_weights(struct tiny_pass *p, const char *what)
{
	char name[96];
	struct tiny_tensor *tensor;

	snprintf(name, sizeof(name), "blk.%u.%s", p->layer, what);
	tensor = tiny_find(p->t, name);
	return tensor ? tensor->data : NULL;
}

static inline double tiny_max(const double *x, unsigned int n)
{
	double max = 0;

	for (unsigned int i = 0; i < n; i++)
		max = fmax(max, fabs(x[i]));
	return max;
}

/* An INT8 weight as vnpu_isa.h defines it, in float32, which determines its rounding. */
static inline double tiny_w8(float w, float scale)
{
	return scale > 0 ? (double)nearbyintf(w / scale) * (double)scale : 0;
}

/* One row of weights as the linear layer uses them. */
static inline void tiny_row(const struct tiny_pass *p, double *row, const float *w,
			    unsigned int cols, bool w4)
{
	float max = 0;

	for (unsigned int c = 0; c < cols; c++)
		max = fmaxf(max, fabsf(w[c]));
	for (unsigned int c = 0; c < cols && !w4; c++)
		row[c] = p->weights == LLM_WEIGHTS_F32 ? (double)w[c] : tiny_w8(w[c], max / 127.0f);
	for (unsigned int c = 0; c < cols && w4; c += QUANT_W4_GROUP) {
		uint8_t q[QUANT_W4_GROUP];
		uint16_t half;
		float scale;

		if (!quant_w4(w + c, QUANT_W4_GROUP, q, &half))
			abort();
		gguf_dequantize(GGUF_F16, &half, &scale, 1);
		for (unsigned int i = 0; i < QUANT_W4_GROUP; i++)
			row[c + i] = (double)((int)q[i] - 8) * (double)scale;
	}
}

/* Rounds x to steps of max |x| / 127; returns the scale. */
static inline double tiny_round(double *x, unsigned int n)
{
	double scale = tiny_max(x, n) / 127;

	for (unsigned int i = 0; scale > 0 && i < n; i++)
		x[i] = nearbyint(x[i] / scale) * scale;
	return scale;
}

/* The same twice, the second time the difference to the first; ties of the first do not matter. */
static inline void tiny_round_twice(double *x, unsigned int n)
{
	double rest[n], first[n];

	memcpy(first, x, n * sizeof(*x));
	tiny_round(first, n);
	for (unsigned int i = 0; i < n; i++)
		rest[i] = x[i] - first[i];
	tiny_round(rest, n);
	for (unsigned int i = 0; i < n; i++)
		x[i] = first[i] + rest[i];
}

static inline int tiny_descending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x < y) - (x > y);
}

/* The greatest |x| that is no outlier (vnpu_isa.h: QUANT_OUTLIERS). */
static inline double tiny_bound(const double *x, unsigned int n)
{
	double lanes[64] = { 0 };

	for (unsigned int i = 0; i < n; i++)
		lanes[i % 64] = fmax(lanes[i % 64], fabs(x[i]));
	qsort(lanes, 64, sizeof(*lanes), tiny_descending);
	for (unsigned int rank = 8; rank; rank--) {
		unsigned int beyond = 0;

		for (unsigned int i = 0; i < n; i++)
			beyond += fabs(x[i]) > lanes[rank];
		if (beyond <= VNPU_OUTLIERS)
			return lanes[rank];
	}
	return lanes[0];
}

/* Rounds x except its outliers; returns the scale. */
static inline double tiny_round_most(double *x, unsigned int n)
{
	double bound = tiny_bound(x, n), scale = bound / 127;

	for (unsigned int i = 0; scale > 0 && i < n; i++)
		if (fabs(x[i]) <= bound)
			x[i] = nearbyint(x[i] / scale) * scale;
	return scale;
}

/* y = W x + b. With 4 bits, the output layer and rows that are no multiple of a group have 8. */
static inline void tiny_linear(struct tiny_pass *p, double *y, const double *x, const float *w,
			       const float *bias, unsigned int rows, unsigned int cols)
{
	bool w4 = llm_weights_4bit(p->weights) && cols % QUANT_W4_GROUP == 0 &&
		  p->layer < p->t->c.n_layer;
	bool int8 = p->weights != LLM_WEIGHTS_F32 && !(w4 && p->weights == LLM_WEIGHTS_W4A16);
	bool head = p->layer == p->t->c.n_layer;
	enum llm_input input =
		int8 ? llm_integer_input(p->activations, head, p->down && !head) : LLM_INPUT_FLOATS;
	double in[cols], row[cols], scale;

	memcpy(in, x, cols * sizeof(*in));
	if (input == LLM_INPUT_INT16) {
		tiny_round_twice(in, cols);
	} else if (input != LLM_INPUT_FLOATS) {
		scale = input == LLM_INPUT_INT8 ? tiny_round(in, cols) : tiny_round_most(in, cols);
		for (unsigned int c = 0; scale > 0 && c < cols; c++)
			p->tie = fmin(p->tie, fabs(fabs(x[c] / scale - trunc(x[c] / scale)) - 0.5));
	}
	for (unsigned int r = 0; r < rows; r++) {
		tiny_row(p, row, w + (size_t)r * cols, cols, w4);
		y[r] = bias ? (double)bias[r] : 0;
		for (unsigned int c = 0; c < cols; c++)
			y[r] += in[c] * row[c];
	}
}

/* The vector or matrix @what of the layer, or of none behind the last; NULL: there is none. */
static inline const float *tiny_find_data(struct tiny_pass *p, const char *what)
{
	struct tiny_tensor *tensor = tiny_find(p->t, what);

	if (p->layer < p->t->c.n_layer)
		return tiny_weights(p, what);
	return tensor ? tensor->data : NULL;
}

/* An RMS norm with weights @w. */
static inline void tiny_rms(struct tiny_pass *p, double *y, const double *x, const float *w,
			    unsigned int n)
{
	double sum = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += x[i] * x[i];
	for (unsigned int i = 0; i < n; i++)
		y[i] = x[i] / sqrt(sum / n + p->t->c.eps) * (double)w[i];
}

/* The norm @what of a row, if the model has it. */
static inline void tiny_norm(struct tiny_pass *p, double *y, const double *x, const char *what)
{
	unsigned int n = p->t->c.n_embd;
	double mean = 0, square = 0;
	const float *w, *b;
	char name[64];

	snprintf(name, sizeof(name), "%s.weight", what);
	w = tiny_find_data(p, name);
	if (!w)
		return;
	if (!tiny_arch_of(p->t->c.arch)->layer_norm)
		return tiny_rms(p, y, x, w, n);
	snprintf(name, sizeof(name), "%s.bias", what);
	b = tiny_find_data(p, name);
	for (unsigned int i = 0; i < n; i++)
		mean += x[i] / n;
	for (unsigned int i = 0; i < n; i++)
		square += (x[i] - mean) * (x[i] - mean) / n;
	for (unsigned int i = 0; i < n; i++)
		y[i] = (x[i] - mean) / sqrt(square + p->t->c.eps) * (double)w[i] + (double)b[i];
}

/* Whether the layer attends to a window only. */
static inline bool tiny_is_local(const struct tiny_pass *p)
{
	unsigned int step = tiny_arch_of(p->t->c.arch)->window_step;

	return p->t->c.window && !(step && (p->layer + 1) % step == 0);
}

/* What the frequency of a pair is multiplied by (YaRN, sections 3.2 and 3.3). */
static inline double tiny_yarn(const struct tiny_config *c, unsigned int pair)
{
	/* Pairs that turn 32 times in the original context, and once. */
	double low = c->rot_dim * log(c->n_ctx_orig / (32 * 2 * M_PI)) / (2 * log(c->freq_base)),
	       high = c->rot_dim * log(c->n_ctx_orig / (2 * M_PI)) / (2 * log(c->freq_base)), ramp;

	low = fmax(floor(low), 0);
	high = fmin(ceil(high), c->rot_dim - 1);
	ramp = fmin(fmax((pair - low) / fmax(high - low, 0.001), 0), 1);
	return ramp / c->yarn + (1 - ramp);
}

/* The factors that divide the frequencies; NULL: none do. */
static inline const struct tiny_tensor *tiny_factors(const struct tiny_pass *p)
{
	const struct tiny_config *c = &p->t->c;

	if (!(c->longrope > 0))
		return tiny_find(p->t, "rope_freqs.weight");
	return tiny_find(p->t, c->n_session > c->n_ctx_orig ? "rope_factors_long.weight"
							    : "rope_factors_short.weight");
}

/* What extensions scale rotated values by (YaRN, section 3.4). */
static inline double tiny_magnitude(const struct tiny_config *c)
{
	return c->yarn > 0 ? 0.1 * log(c->yarn) + 1 : c->longrope > 0 ? c->longrope : 1;
}

static inline void tiny_rope(struct tiny_pass *p, double *head, unsigned int pos)
{
	const struct tiny_config *c = &p->t->c;
	const struct tiny_arch *arch = tiny_arch_of(c->arch);
	const struct tiny_tensor *factors = tiny_factors(p);
	bool halves = !arch->adjacent, local = tiny_is_local(p) && arch->local_base > 0;
	double base = local ? arch->local_base : c->freq_base, scale = local ? 1 : c->rope_scale;

	if (arch->no_rope_step && (p->layer + 1) % arch->no_rope_step == 0)
		return;
	for (unsigned int i = 0; i < c->rot_dim / 2; i++) {
		double angle = pos * pow(base, -2.0 * i / c->rot_dim) / scale;
		unsigned int ia = halves ? i : 2 * i, ib = halves ? i + c->rot_dim / 2 : 2 * i + 1;
		double a = head[ia] * tiny_magnitude(c), b = head[ib] * tiny_magnitude(c);

		if (c->yarn > 0)
			angle *= tiny_yarn(c, i);
		if (factors)
			angle /= (double)factors->data[i];
		head[ia] = a * cos(angle) - b * sin(angle);
		head[ib] = a * sin(angle) + b * cos(angle);
	}
}

static inline void tiny_heads(struct tiny_pass *p, double *x, unsigned int heads, const char *norm,
			      unsigned int pos)
{
	const float *w = tiny_weights(p, norm);
	unsigned int d = p->t->c.head_dim;

	if (w && tiny_arch_of(p->t->c.arch)->row_norms)
		tiny_rms(p, x, x, w, heads * d);
	for (unsigned int h = 0; h < heads; h++, x += d) {
		if (w && !tiny_arch_of(p->t->c.arch)->row_norms)
			tiny_rms(p, x, x, w, d);
		tiny_rope(p, x, pos);
	}
}

/* Attention of position @pos over k and v [pos + 1][kv_dim] to out [q_dim]. */
static inline void tiny_attention(struct tiny_pass *p, double *out, const double *q,
				  const double *k, const double *v, unsigned int pos)
{
	const struct tiny_config *c = &p->t->c;
	const struct tiny_arch *arch = tiny_arch_of(c->arch);
	unsigned int d = c->head_dim, kv_dim = c->n_head_kv * d, first = 0;
	double scale = arch->scales ? TINY_ATTENTION_SCALE : 1 / sqrt(d), cap = arch->attn_cap;
	double *e = malloc((pos + 1) * sizeof(*e));

	if (tiny_is_local(p) && pos >= c->window)
		first = pos - c->window + 1;
	for (unsigned int h = 0; h < c->n_head; h++) {
		unsigned int kv = h / (c->n_head / c->n_head_kv) * d;
		double sum = 0, max = -INFINITY;

		for (unsigned int t = first; t <= pos; t++) {
			e[t] = 0;
			for (unsigned int i = 0; i < d; i++)
				e[t] += q[h * d + i] * k[(size_t)t * kv_dim + kv + i] * scale;
			e[t] = cap > 0 ? cap * tanh(e[t] / cap) : e[t];
			max = fmax(max, e[t]);
		}
		for (unsigned int t = first; t <= pos; t++)
			sum += e[t] = exp(e[t] - max);
		for (unsigned int i = 0; i < d; i++) {
			out[h * d + i] = 0;
			for (unsigned int t = first; t <= pos; t++)
				out[h * d + i] += e[t] / sum * v[(size_t)t * kv_dim + kv + i];
		}
	}
	free(e);
}

/* A matmul of rows @from.. of the matrix @what, and of its bias. */
static inline void tiny_rows(struct tiny_pass *p, double *y, const double *x, const char *what,
			     unsigned int from, unsigned int rows, unsigned int cols)
{
	char weight[64], bias[64];
	const float *b;

	snprintf(weight, sizeof(weight), "%s.weight", what);
	snprintf(bias, sizeof(bias), "%s.bias", what);
	b = tiny_weights(p, bias);
	p->down = !strncmp(what, "ffn_down", 8);
	tiny_linear(p, y, x, tiny_weights(p, weight) + (size_t)from * cols, b ? b + from : NULL,
		    rows, cols);
}

static inline double tiny_act(const struct tiny_arch *arch, double x)
{
	if (arch->relu)
		return fmax(x, 0);
	if (arch->gelu)
		return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
	return x / (1 + exp(-x));
}

/* y [n_embd] = the FFN of h [n_embd] of an expert in the stacks, or in the matrices of the shared
 * one, of @n_ff */
static inline void tiny_expert(struct tiny_pass *p, double *y, const double *h, const char *kind,
			       unsigned int expert, unsigned int n_ff)
{
	unsigned int E = p->t->c.n_embd;
	double *g = malloc(n_ff * sizeof(*g)), *u = malloc(n_ff * sizeof(*u));
	char name[32];

	snprintf(name, sizeof(name), "ffn_gate_%s", kind);
	tiny_rows(p, g, h, name, expert * n_ff, n_ff, E);
	snprintf(name, sizeof(name), "ffn_up_%s", kind);
	tiny_rows(p, u, h, name, expert * n_ff, n_ff, E);
	for (unsigned int i = 0; i < n_ff; i++)
		g[i] = g[i] / (1 + exp(-g[i])) * u[i];
	snprintf(name, sizeof(name), "ffn_down_%s", kind);
	tiny_rows(p, y, g, name, expert * E, E, n_ff);
	free(g);
	free(u);
}

static inline double tiny_dot(const float *w, const double *x, unsigned int n)
{
	double sum = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += (double)w[i] * x[i];
	return sum;
}

/* Adds to y what one of the experts that are left gives, and drops it; @sum: of their exp(). */
static inline void tiny_add_best(struct tiny_pass *p, double *y, const double *h, double *logits,
				 double sum)
{
	unsigned int E = p->t->c.n_embd, best = 0;
	double *result = malloc(E * sizeof(*result)), weight;

	for (unsigned int e = 1; e < p->t->c.n_expert; e++)
		best = logits[e] > logits[best] ? e : best;
	weight = exp(logits[best]) / sum;
	logits[best] = -INFINITY;
	tiny_expert(p, result, h, "exps", best, p->t->c.n_ff);
	for (unsigned int i = 0; i < E; i++)
		y[i] += weight * result[i];
	free(result);
}

static inline double tiny_best(const double *logits, unsigned int n)
{
	double best = -INFINITY;

	for (unsigned int e = 0; e < n; e++)
		best = fmax(best, logits[e]);
	return best;
}

/* What exp() of the logits is divided by: the sum of all, or of the @used greatest. */
static inline double tiny_router_sum(const double *logits, unsigned int n, unsigned int used)
{
	double sorted[n], sum = 0;

	memcpy(sorted, logits, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), tiny_descending);
	for (unsigned int e = 0; e < used; e++)
		sum += exp(sorted[e]);
	return sum;
}

/* The same as tiny_ffn() of a layer with experts. */
static inline void tiny_mixture(struct tiny_pass *p, double *y, const double *h)
{
	const struct tiny_config *c = &p->t->c;
	bool shared = tiny_arch_of(c->arch)->shared_expert;
	unsigned int n = c->n_expert, E = c->n_embd;
	double *logits = malloc(n * sizeof(*logits)), *result = malloc(E * sizeof(*result)), sum,
	       last = 0;

	for (unsigned int e = 0; e < n; e++)
		logits[e] = tiny_dot(tiny_weights(p, "ffn_gate_inp.weight") + (size_t)e * E, h, E);
	sum = tiny_router_sum(logits, n, shared != c->other_norm ? n : c->n_expert_used);
	sum /= c->expert_scale > 0 ? c->expert_scale : 1;
	memset(y, 0, E * sizeof(*y));
	for (unsigned int i = 0; i < c->n_expert_used; i++) {
		last = tiny_best(logits, n);
		tiny_add_best(p, y, h, logits, sum);
	}
	p->gap = fmin(p->gap, last - tiny_best(logits, n));
	if (shared) {
		tiny_expert(p, result, h, "shexp", 0, c->n_ff_shared);
		sum = tiny_dot(tiny_weights(p, "ffn_gate_inp_shexp.weight"), h, E);
		for (unsigned int i = 0; i < E; i++)
			y[i] += result[i] / (1 + exp(-sum));
	}
	free(logits);
	free(result);
}

/* y [n_embd] = the FFN of h [n_embd] */
static inline void tiny_ffn(struct tiny_pass *p, double *y, const double *h)
{
	const struct tiny_config *c = &p->t->c;
	const struct tiny_arch *arch = tiny_arch_of(c->arch);
	double *g = malloc(c->n_ff * sizeof(*g)), *u = malloc(c->n_ff * sizeof(*u));

	if (!arch->no_gate)
		tiny_rows(p, g, h, arch->fused_gate_up ? "ffn_up" : "ffn_gate", 0, c->n_ff,
			  c->n_embd);
	tiny_rows(p, u, h, "ffn_up", arch->fused_gate_up ? c->n_ff : 0, c->n_ff, c->n_embd);
	for (unsigned int i = 0; i < c->n_ff; i++)
		g[i] = arch->no_gate ? tiny_act(arch, u[i]) : tiny_act(arch, g[i]) * u[i];
	tiny_rows(p, y, g, "ffn_down", 0, c->n_embd, c->n_ff);
	free(g);
	free(u);
}

/* q of a position, and its row of k and v, from h [n_embd] */
static inline void tiny_qkv(struct tiny_pass *p, double *q, double *k, double *v, const double *h)
{
	const struct tiny_config *c = &p->t->c;
	bool fused = tiny_arch_of(c->arch)->fused_qkv;
	unsigned int q_dim = c->n_head * c->head_dim, kv_dim = c->n_head_kv * c->head_dim,
		     E = c->n_embd;

	tiny_rows(p, q, h, fused ? "attn_qkv" : "attn_q", 0, q_dim, E);
	tiny_rows(p, k, h, fused ? "attn_qkv" : "attn_k", fused ? q_dim : 0, kv_dim, E);
	tiny_rows(p, v, h, fused ? "attn_qkv" : "attn_v", fused ? q_dim + kv_dim : 0, kv_dim, E);
}

/* x += y, or its norm @what */
static inline void tiny_residual(struct tiny_pass *p, double *x, double *y, const char *what)
{
	double scale = tiny_arch_of(p->t->c.arch)->scales ? TINY_RESIDUAL_SCALE : 1;

	tiny_norm(p, y, y, what);
	for (unsigned int i = 0; i < p->t->c.n_embd; i++)
		x[i] += scale * y[i];
}

/* One layer over x [n][n_embd], in place. */
static inline void tiny_block(struct tiny_pass *p, double *x, unsigned int n)
{
	const struct tiny_config *c = &p->t->c;
	unsigned int q_dim = c->n_head * c->head_dim, kv_dim = c->n_head_kv * c->head_dim,
		     E = c->n_embd;
	double *k = malloc((size_t)n * kv_dim * sizeof(*k)),
	       *v = malloc((size_t)n * kv_dim * sizeof(*v));
	double *h = malloc(E * sizeof(*h)), *y = malloc(E * sizeof(*y)),
	       *q = malloc(q_dim * sizeof(*q)), *a = malloc(q_dim * sizeof(*a));

	for (unsigned int t = 0; t < n; t++, x += E) {
		double *kt = k + (size_t)t * kv_dim;

		memcpy(h, x, E * sizeof(*h));
		tiny_norm(p, h, x, "attn_norm");
		tiny_qkv(p, q, kt, v + (size_t)t * kv_dim, h);
		tiny_heads(p, q, c->n_head, "attn_q_norm.weight", t);
		tiny_heads(p, kt, c->n_head_kv, "attn_k_norm.weight", t);
		tiny_attention(p, a, q, k, v, t);
		tiny_rows(p, y, a, "attn_output", 0, E, q_dim);
		tiny_residual(p, x, y, "post_attention_norm");
		if (!tiny_arch_of(c->arch)->parallel)
			memcpy(h, x, E * sizeof(*h));
		tiny_norm(p, h, x, "ffn_norm");
		if (c->n_expert)
			tiny_mixture(p, y, h);
		else
			tiny_ffn(p, y, h);
		tiny_residual(p, x, y, "post_ffw_norm");
	}
	free(k);
	free(v);
	free(h);
	free(y);
	free(q);
	free(a);
}

/* The logits of x [n_embd] behind the last layer. */
static inline void tiny_head(struct tiny_pass *p, double *logits, double *x)
{
	const struct tiny_config *c = &p->t->c;
	const struct tiny_arch *arch = tiny_arch_of(c->arch);
	const float *output = tiny_find_data(p, "output.weight");

	tiny_norm(p, x, x, "output_norm");
	tiny_linear(p, logits, x, output ? output : tiny_find_data(p, "token_embd.weight"),
		    tiny_find_data(p, "output.bias"), c->n_vocab, c->n_embd);
	for (unsigned int i = 0; i < c->n_vocab; i++) {
		if (arch->scales)
			logits[i] /= TINY_LOGIT_SCALE;
		if (arch->logit_cap > 0)
			logits[i] = arch->logit_cap * tanh(logits[i] / arch->logit_cap);
	}
}

/* Logits [n][n_vocab] of all positions. Returns how clear the case is: the least of the distances
 * from ties, of activations and of experts. */
static inline double tiny_forward(struct tiny_model *t, const int32_t *ids, unsigned int n,
				  enum llm_weights weights, enum llm_activations activations,
				  double *logits)
{
	struct tiny_pass p = {
		.t = t, .weights = weights, .activations = activations, .tie = 1, .gap = 1
	};
	const struct tiny_arch *arch = tiny_arch_of(t->c.arch);
	unsigned int E = t->c.n_embd;
	double scale = arch->scales ? TINY_EMBEDDING_SCALE : arch->embd_root ? sqrt(E) : 1;
	const float *embd = tiny_find(t, "token_embd.weight")->data;
	double *x = malloc((size_t)n * E * sizeof(*x));

	for (unsigned int i = 0; i < n; i++) {
		for (unsigned int c = 0; c < E; c++)
			x[(size_t)i * E + c] = scale * (double)embd[(size_t)ids[i] * E + c];
	}
	for (p.layer = 0; p.layer < t->c.n_layer; p.layer++)
		tiny_block(&p, x, n);
	for (unsigned int i = 0; i < n; i++)
		tiny_head(&p, logits + (size_t)i * t->c.n_vocab, x + (size_t)i * E);
	free(x);
	return fmin(p.tie, p.gap);
}

/* max |a - b| / max |b| */
static inline double tiny_error(const float *a, const double *b, size_t n)
{
	double diff = 0, max = 0;

	for (size_t i = 0; i < n; i++) {
		diff = fmax(diff, isfinite(a[i]) ? fabs((double)a[i] - b[i]) : INFINITY);
		max = fmax(max, fabs(b[i]));
	}
	return diff / max;
}

#endif /* TINY_FORWARD_H */
