/* The default law on four sums whose weights have zero points, in conv2d_s8_mve.c: multipliers; the zero points, negative. The sum of
 * a pixel's inputs, times these, is what the products with plain weights lack. Its block has those sums at byte 76.
 */
#include "ge_mve_law_outputs.h"

#define GE_MVE_LAW_VECTORS 2

#define GE_MVE_LAW_LOAD(stream, free)                                                                                  \
    "vldrw.u32 q1, [" stream "], #16\n"                                                                                \
    "vldrw.u32 q3, [" stream "], #16\n"

#define GE_MVE_LAW_SCALE(sums, free)                                                                                   \
    "vmov.32 " free ", q4[0]\n"                                                                                        \
    ".ifc " sums ",q7\n"                                                                                               \
    "ldr " free ", [" free ", #76]\n"                                                                                  \
    ".endif\n"                                                                                                         \
    ".ifc " sums ",q5\n"                                                                                               \
    "ldr " free ", [" free ", #80]\n"                                                                                  \
    ".endif\n"                                                                                                         \
    ".ifc " sums ",q6\n"                                                                                               \
    "ldr " free ", [" free ", #84]\n"                                                                                  \
    ".endif\n"                                                                                                         \
    "vmla.s32 " sums ", q3, " free "\n"                                                                                \
    "vrmulh.s32 " sums ", " sums ", q1\n"
