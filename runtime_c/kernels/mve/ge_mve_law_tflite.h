/* ge_requantize_tflite on four sums, where no scale is 1/2 or more (ge_mve_law.h): multipliers; shifts, -31..-1.
 *
 * VQRDMULH is the first rounding and cannot saturate, as multipliers are not negative. Halves go away from zero, and
 * VRSHL takes them up: a negative number is made less by one, and is more than -2^31 before. 4 instructions.
 */
#define GE_MVE_LAW_VECTORS 2

#define GE_MVE_LAW_LOAD(stream, free)                                                                                  \
    "vldrw.u32 q1, [" stream "], #16\n"                                                                                \
    "vldrw.u32 q2, [" stream "], #16\n"

#define GE_MVE_LAW_SCALE(sums, free)                                                                                   \
    "vqrdmulh.s32 " sums ", " sums ", q1\n"                                                                            \
    "vshr.s32 q0, " sums ", #31\n"                                                                                     \
    "vadd.i32 " sums ", " sums ", q0\n"                                                                                \
    "vrshl.s32 " sums ", " sums ", q2\n"

#define GE_MVE_LAW_OUTPUTS(bias, stream, free, third, zero)                                                            \
    "vadd.i32 q5, q5, " bias "\n" third "vadd.i32 q6, q6, " bias "\n" GE_MVE_LAW_LOAD(stream, free)                    \
        GE_MVE_LAW_SCALE("q7", free) GE_MVE_LAW_SCALE("q5", free) "vqmovnb.s32 q7, q7\n" GE_MVE_LAW_SCALE(             \
            "q6", free) "vqmovnb.s32 q5, q5\n" zero "vqadd.s16 q7, q7, " free "\n"                                     \
                        "vqmovnt.s32 q5, q6\n"                                                                         \
                        "vqmovnb.s16 q7, q7\n"                                                                         \
                        "vqadd.s16 q5, q5, " free "\n"                                                                 \
                        "vqmovnb.s16 q5, q5\n"
