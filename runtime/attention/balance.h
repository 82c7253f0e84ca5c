/* SPDX-License-Identifier: MIT */
/*
 * Balancing what the estimate rounds (beyond shadowAttn 3.3).
 *
 * The estimate rounds a head's queries and keys to INT8 with one scale each (scale_buckets.h). A
 * channel with large values takes the bits of the others, and a constant part of the keys takes
 * bits without telling one key from another. Only the order of a query's scores matters, and this
 * keeps it:
 *
 *	k'_c = (k_c - offset_c) / (balance_c s_k)
 *	q'_c = q_c balance_c / s_q
 *	q' . k' = (q . k - q . offset) / (s_q s_k)
 *
 * as q . offset is the same for all keys of a query. All are constants that a calibration text
 * tells, of queries and keys after RoPE:
 *
 *	offset	the mean of a KV head's keys, by channel. SageAttention (Zhang et al. 2024, 4.2)
 *		subtracts the mean of the prompt's own keys, which is known only at its end
 *	balance	sqrt(max |k_c - offset_c| / max |q_c|), of the queries of all heads that share
 *		the KV head. It is the factor of SmoothQuant (Xiao et al. 2022, 4) with an exponent
 *		of 0.5, for Q K^T in place of activations and weights
 *	s_q, s_k  of a head and of a KV head: the mean over chunks of the greatest magnitude after
 *		that, divided by 127. So the mean scale of each head is 1, that of the middle scale
 *		bucket, and the others are left for what differs between chunks
 */
#ifndef BALANCE_H
#define BALANCE_H

#include <stdbool.h>

struct balance {
	unsigned int layers, heads, kv_heads, head_dim;
	float *offsets; /* [layers][kv_heads][head_dim]: subtracted from keys, */
	float *keys; /* and what multiplies them then: 1 / (balance s_k) */
	float *queries; /* [layers][heads][head_dim]: balance / s_q */
};

/* One that changes nothing yet; NULL: no memory. */
struct balance *balance_create(unsigned int layers, unsigned int heads, unsigned int kv_heads,
			       unsigned int head_dim);
void balance_free(struct balance *b); /* NULL: nothing */

/*
 * @offsets and @balances [layers][kv_heads][head_dim], s_q [layers][heads], s_k [layers][kv_heads].
 * False if what is to multiply queries and keys is then not positive, or no normal float.
 */
bool balance_set(struct balance *b, const float *offsets, const float *balances, const float *s_q,
		 const float *s_k);

/* A query of @head, or a key of @kv_head: @to[head_dim], which may be the same memory. */
void balance_query(const struct balance *b, unsigned int layer, unsigned int head, float *to,
		   const float *q);
void balance_key(const struct balance *b, unsigned int layer, unsigned int kv_head, float *to,
		 const float *k);

#endif /* BALANCE_H */
