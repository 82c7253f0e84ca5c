/* SPDX-License-Identifier: MIT */
/*
 * Which share of the positions each attention head computes: its ratio (shadowAttn 3.2).
 *
 * The importance of a head, or of a layer, is what the loss on a text grows by without it
 * (equations 1 and 2). Important heads keep more positions. Head i of layer j, of N heads in all,
 * gets by equation 3
 *
 *	r N clamp(head[i] layer[j]) / sum of clamp(head layer) over all heads
 *
 * so that the mean is r. clamp() takes the product, as in equation 3: at most a limit. Figure 6
 * clamps the losses that it draws at the same 1e-3. That number belongs to the losses of the
 * paper's models: where most products are beyond the limit, the ratios are nearly uniform, so a
 * calibration may choose another one.
 *
 * Beyond the paper, heads may have gains in place of that: what the loss falls by if this head
 * alone has all keys and the others have few. A head may be important and yet need few keys, as its
 * attention is sharp; and a head that can be removed may do harm with too few. A head's loss is
 * taken to fall with its ratio as gain / ratio, of which the sum is least if ratios are as the
 * square roots of the gains. A gain below HEAD_RATIOS_NOISE counts as that: it was measured with a
 * short text. With a mean of 0.2 the perplexity of docs6m grows by 12.7 % with the paper's
 * importance, and by 0.7 % with gains (docs/shadowattn.md).
 *
 * The equation leaves three cases open. A ratio above 1 is cut to 1. A head whose product is 0
 * would keep nothing, so no ratio is below a floor. And where choosing keys costs more than it
 * saves from some ratio on, a head that reaches it computes all keys: it counts as 1, since r is
 * the mean share of what is computed. What these take from, or add to, the sum is made up by the
 * other heads in proportion to their products.
 */
#ifndef HEAD_RATIOS_H
#define HEAD_RATIOS_H

/* The paper's limit of a product. */
#define HEAD_RATIOS_LIMIT 1e-3
/* The least gain, in nats a token. */
#define HEAD_RATIOS_NOISE 1e-3
/* The least ratio, as a share of the mean: at a mean of 0.2 an 80th of the positions. */
#define HEAD_RATIOS_FLOOR (1.0 / 16)

struct head_importance {
	unsigned int n_layer, n_head; /* heads of each layer */
	/* [n_layer][n_head] loss without the head, less that with all; or gains */
	const double *heads;
	const double *layers; /* [n_layer] the same of a layer; NULL: @heads are gains */
};

struct head_share {
	double mean; /* r: above 0, up to 1 */
	double limit; /* of a product, or a gain: positive, finite */
	double whole; /* a head whose ratio would be so much has 1; above the floors, 1: no other */
};

/*
 * Sets the @ratios [n_layer][n_head] of heads, below share.whole or 1, whose mean is share.mean but
 * for rounding. A head with a greater product never gets a smaller ratio, and equal products get
 * equal ones, except where the mean allows only some of them all keys: the first ones have them,
 * and the others less than share.whole. With a mean so high that all heads but one have 1, that
 * one may miss it, as it has its floor at least and share.whole or more is 1.
 *
 * A product counts as 0 if one of its factors is negative, as the loss is no worse without that
 * head or layer; or is not a number; or if it is below 1e-12 of the greatest. An infinite product
 * is clamped like others. If all are 0, the ratios are uniform. Where so many products are 0 that
 * the other heads cannot fill the mean, those of 0 share the rest equally.
 *
 * Of gains, the square roots take the place of products. None of them is 0, and with a limit of
 * HEAD_RATIOS_NOISE or less all are equal.
 *
 * 0, or with the error line -EINVAL for a mean out of range, a limit that is not positive and
 * finite, or no heads.
 */
int head_ratios(const struct head_importance *of, const struct head_share *share, double *ratios);

#endif /* HEAD_RATIOS_H */
