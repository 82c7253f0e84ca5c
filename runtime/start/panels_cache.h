/* SPDX-License-Identifier: MIT */
/*
 * A cache of panels beside a model: MODEL.WEIGHTS.panels. A cold start that finds it uses the
 * panels where they lie, without packing anything. One that does not makes it for the next, in a
 * thread of its own once the weights are complete, from the NPU's buffers: nothing is read or
 * packed again. The thread works while nothing is evaluated, and in a hurry once somebody waits.
 *
 * A cache that is not of the model as it is now, or is damaged, is removed; a file of its name that
 * does not begin as GGUF does, or is a GGUF file of something else, stays, and there is none.
 * Damage that shows when the file is opened costs nothing but the cache; that of a tensor is an
 * error of the start, which removes the cache, too (start.h).
 */
#ifndef PANELS_CACHE_H
#define PANELS_CACHE_H

#include "llm.h"
#include "packed.h"

struct panels_cache;

/*
 * Looks for the cache of the model that @file at @path has, for @weights, which are settled. If it
 * is found, @model's matrices are its panels from then on. @limit_bytes: of all caches in the
 * folder. 0, or -errno with the error line; that a cache cannot be read is no error.
 */
int panels_cache_open(struct llm_model *model, const struct gguf_file *file, const char *path,
		      enum llm_weights weights, uint64_t limit_bytes, struct panels_cache **cache);
/* Its file; NULL: it was not found. */
const struct gguf_file *panels_cache_file(const struct panels_cache *c);
const char *panels_cache_path(const struct panels_cache *c);
/* Whether it is still to be made, so that the host must keep the weights mapped. */
bool panels_cache_is_due(struct panels_cache *c);
/*
 * Begins to make it of complete weights, if it is due; if it was found, only to keep the limit.
 * Later calls do nothing. Any thread. The weights must stay until panels_cache_close(). The host's
 * mapping of them goes when it is made, unless @keep_mapped.
 */
void panels_cache_make(struct panels_cache *c, struct llm_packed *packed, bool keep_mapped);
/* Around each evaluation: the thread gives way to it. */
void panels_cache_busy(struct panels_cache *c);
void panels_cache_idle(struct panels_cache *c);
/* What has become of it. @wait: not while it is being made. */
struct llm_panels_cache panels_cache_info(struct panels_cache *c, bool wait);
/* Waits until it is made. The panels of its file must no longer be used. */
void panels_cache_close(struct panels_cache *c);

#endif /* PANELS_CACHE_H */
