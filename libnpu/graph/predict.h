/* SPDX-License-Identifier: MIT */
/*
 * What a compiled graph will take on a device, without one: the firmware's own decoder and timing
 * model, on a binding table in which every slot is as large as can be.
 */
#ifndef NPU_PREDICT_H
#define NPU_PREDICT_H

#include "fw_time.h"
#include "image.h"

/*
 * Decodes @img's stream into @prog (zeroed before the first use, freed with
 * fw_prog_free()). Params are not known before a run: attention counts for the last rows of
 * its cache, where it costs most. The stream need not be relocated. 0, -ENOMEM, or -EINVAL
 * with npu_error(): no device would run it.
 */
int npu_predict(const struct npu_image *img, struct fw_prog *prog);

/*
 * A profile by its name, which goes into images and listings and has to be
 * printable. npu_error() on failure.
 */
int npu_profile_load(const char *name, struct soc **p);

#endif /* NPU_PREDICT_H */
