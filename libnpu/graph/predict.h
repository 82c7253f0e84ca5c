/* SPDX-License-Identifier: MIT */
/*
 * Predicts a compiled graph's time without a device: with the firmware's own decoder and timing
 * model, and a binding table in which every slot has the largest size.
 */
#ifndef NPU_PREDICT_H
#define NPU_PREDICT_H

#include "fw_time.h"
#include "image.h"

/*
 * Decodes @img's stream into @prog (zero it before the first use; free with fw_prog_free()). Params
 * are unknown before a run, so attention counts for the last rows of its cache, the most expensive
 * ones. The stream need not be relocated. 0; -ENOMEM; or -EINVAL if no device would run it.
 */
int npu_predict(const struct npu_image *img, struct fw_prog *prog);

/*
 * Loads a profile by name. The name must be printable, because images and listings contain it. Sets
 * npu_error() on failure.
 */
int npu_profile_load(const char *name, struct soc **p);

#endif /* NPU_PREDICT_H */
