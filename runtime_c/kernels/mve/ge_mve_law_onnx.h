/* ge_requantize_onnx on four sums, for scales below 1/2 (ge_mve_law.h): 2 m + 1; 31 - shift, -31..-1.
 *
 * The law rounds a m / 2^shift with an uncertainty of a / 2, for a = |sum|: both ends of that interval, rounded half
 * up, are the rounded high words of a (2 m + 1) and a (2 m - 1). Where they differ, a half lies between them and the
 * even one is the result. (At the lower end a half rounds down; as 2 m - 1 is odd, no half has a high word of its own.)
 * 12 instructions.
 */
#include "ge_mve_law_outputs.h"

#define GE_MVE_LAW_VECTORS 2

#define GE_MVE_LAW_LOAD(stream, free)                                                                                  \
    "vldrw.u32 q1, [" stream "], #16\n"                                                                                \
    "vldrw.u32 q2, [" stream "], #16\n"                                                                                \
    "movs " free ", #2\n"

#define GE_MVE_LAW_SCALE(sums, free)                                                                                   \
    "vabs.s32 q0, " sums "\n"                                                                                          \
    "vmulh.u32 q3, q0, q1\n"                                                                                           \
    "vsub.i32 q1, q1, " free "\n"                                                                                      \
    "vmulh.u32 q0, q0, q1\n"                                                                                           \
    "vadd.i32 q1, q1, " free "\n"                                                                                      \
    "vrshl.u32 q3, q3, q2\n"                                                                                           \
    "vrshl.u32 q0, q0, q2\n"                                                                                           \
    "vcmp.s32 lt, " sums ", zr\n"                                                                                      \
    "vsub.i32 q0, q3, q0\n"                                                                                            \
    "vbic " sums ", q3, q0\n"                                                                                          \
    "vpst\n"                                                                                                           \
    "vnegt.s32 " sums ", " sums "\n"
