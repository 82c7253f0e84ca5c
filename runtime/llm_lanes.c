// SPDX-License-Identifier: MIT
/* The public numbers and names of lanes. */
#include <assert.h>

#include "llm.h"
#include "soc_cost.h"

static_assert(SOC_NR_LANES <= LLM_MAX_LANES, "the public structures have room for every lane");

unsigned int llm_nr_lanes(void)
{
	return SOC_NR_LANES;
}

const char *llm_lane_name(unsigned int lane)
{
	return lane < SOC_NR_LANES ? soc_lane_name((enum soc_lane)lane) : NULL;
}
