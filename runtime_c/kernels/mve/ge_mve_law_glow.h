/* ge_requantize_glow on four sums, for products that fit int32 (ge_mve_law.h): multipliers; -pre; -post. 3
 * instructions. */
#include "ge_mve_law_outputs.h"

#define GE_MVE_LAW_VECTORS 3

#define GE_MVE_LAW_LOAD(stream, free)                                                                                  \
    "vldrw.u32 q1, [" stream "], #16\n"                                                                                \
    "vldrw.u32 q2, [" stream "], #16\n"                                                                                \
    "vldrw.u32 q3, [" stream "], #16\n"

#define GE_MVE_LAW_SCALE(sums, free)                                                                                   \
    "vshl.s32 " sums ", " sums ", q2\n"                                                                                \
    "vmul.i32 " sums ", " sums ", q1\n"                                                                                \
    "vrshl.s32 " sums ", " sums ", q3\n"
