// SPDX-License-Identifier: MIT
/* The revision of the source tree, in a file of its own so that a new commit rebuilds only this. */
#include "tool.h"

/* Written by the Makefile: VNPU_COMMIT, or "unknown" outside a git checkout. */
#include "build_commit.h"

const char tool_build_commit[] = VNPU_COMMIT;
