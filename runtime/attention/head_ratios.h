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
 * Beyond the paper, importance may be a gain, with layers of 1: what the loss falls by if this head
 * alone has all keys and the others have few. A head may be important and yet need few keys, as its
 * attention is sharp; and a head that can be removed may do harm with too few. With a mean of 0.2
 * the perplexity of docs6m grows by 1.8 % with the paper's importance, and by 0.4 % with gains
 * (docs/shadowattn.md).
 *
 * The equation leaves two cases open. A ratio above 1 is cut to 1. And a head whose product is 0
 * would keep nothing, so no ratio is below a floor. What either takes from, or adds to, the sum is
 * made up by the other heads in proportion to their products.
 */
#ifndef HEAD_RATIOS_H
#define HEAD_RATIOS_H

/* The paper's limit of a product. */
#define HEAD_RATIOS_LIMIT 1e-3
/* The least ratio, as a share of the mean: at a mean of 0.2 an 80th of the positions. */
#define HEAD_RATIOS_FLOOR (1.0 / 16)

struct head_importance {
	unsigned int n_layer, n_head; /* heads of each layer */
	const double *heads; /* [n_layer][n_head] loss without the head, less that with all */
	const double *layers; /* [n_layer] the same of a layer */
};

/*
 * Sets the @ratios [n_layer][n_head] of heads, in 0..1, whose mean is @mean (above 0, up to 1) but
 * for rounding. A head with a greater product never gets a smaller ratio, and equal products get
 * equal ones.
 *
 * A product counts as 0 if one of its factors is negative, as the loss is no worse without that
 * head or layer; or is not a number; or if it is below 1e-12 of the greatest. An infinite product
 * is clamped like others. If all are 0, the ratios are uniform. Where so many products are 0 that
 * the other heads cannot fill the mean with ratios of 1, those of 0 share the rest equally.
 *
 * 0, or with the error line -EINVAL for a @mean out of range, a @limit that is not positive and
 * finite, or no heads.
 */
int head_ratios(const struct head_importance *of, double mean, double limit, double *ratios);

#endif /* HEAD_RATIOS_H */
