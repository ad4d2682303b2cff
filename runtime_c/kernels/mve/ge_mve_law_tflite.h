/* ge_requantize_tflite on four sums, for scales below 1/2 (ge_mve_law.h): multipliers; shifts, -31..-1.
 *
 * VQRDMULH is the first rounding and cannot saturate, as multipliers are not negative. The law rounds halves away from
 * zero, but VRSHL rounds them up: a negative number, which is more than -2^31, is decremented first. 4 instructions.
 */
#include "ge_mve_law_outputs.h"

#define GE_MVE_LAW_VECTORS 2

#define GE_MVE_LAW_LOAD(stream, free)                                                                                  \
    "vldrw.u32 q1, [" stream "], #16\n"                                                                                \
    "vldrw.u32 q2, [" stream "], #16\n"

#define GE_MVE_LAW_SCALE(sums, free)                                                                                   \
    "vqrdmulh.s32 " sums ", " sums ", q1\n"                                                                            \
    "vshr.s32 q0, " sums ", #31\n"                                                                                     \
    "vadd.i32 " sums ", " sums ", q0\n"                                                                                \
    "vrshl.s32 " sums ", " sums ", q2\n"
