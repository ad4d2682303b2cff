/* A depthwise kernel that includes this computes some channels of its rows. */
#include "ge_isa_dsp_depthwise_part.h"

#define ge_dsp_depthwise_rows ge_dsp_depthwise_part
