/* ge_requantize_glow on four sums, where products fit int32 (ge_mve_law.h): multipliers; -pre; -post. 3 instructions. */
#define GE_MVE_LAW_VECTORS 3

#define GE_MVE_LAW_LOAD(stream, free)                                                                                  \
    "vldrw.u32 q1, [" stream "], #16\n"                                                                                \
    "vldrw.u32 q2, [" stream "], #16\n"                                                                                \
    "vldrw.u32 q3, [" stream "], #16\n"

#define GE_MVE_LAW_SCALE(sums, free)                                                                                   \
    "vshl.s32 " sums ", " sums ", q2\n"                                                                                \
    "vmul.i32 " sums ", " sums ", q1\n"                                                                                \
    "vrshl.s32 " sums ", " sums ", q3\n"

#define GE_MVE_LAW_OUTPUTS(bias, stream, free, third, zero)                                                            \
    "vadd.i32 q5, q5, " bias "\n" third "vadd.i32 q6, q6, " bias "\n" GE_MVE_LAW_LOAD(stream, free)                    \
        GE_MVE_LAW_SCALE("q7", free) GE_MVE_LAW_SCALE("q5", free) "vqmovnb.s32 q7, q7\n" GE_MVE_LAW_SCALE(             \
            "q6", free) "vqmovnb.s32 q5, q5\n" zero "vqadd.s16 q7, q7, " free "\n"                                     \
                        "vqmovnt.s32 q5, q6\n"                                                                         \
                        "vqmovnb.s16 q7, q7\n"                                                                         \
                        "vqadd.s16 q5, q5, " free "\n"                                                                 \
                        "vqmovnb.s16 q5, q5\n"
