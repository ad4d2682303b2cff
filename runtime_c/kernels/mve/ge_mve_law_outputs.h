/* Requantizes four sums to outputs by the laws of other engines; ge_mve_law_<law>.h includes this file and defines LOAD
 * and SCALE. */
#define GE_MVE_LAW_OUTPUTS(bias, stream, free, third, zero)                                                            \
    "vadd.i32 q5, q5, " bias "\n" third "vadd.i32 q6, q6, " bias "\n" GE_MVE_LAW_LOAD(stream, free)                    \
        GE_MVE_LAW_SCALE("q7", free) GE_MVE_LAW_SCALE("q5", free) "vqmovnb.s32 q7, q7\n" GE_MVE_LAW_SCALE(             \
            "q6", free) "vqmovnb.s32 q5, q5\n" zero "vqadd.s16 q7, q7, " free "\n"                                     \
                        "vqmovnt.s32 q5, q6\n"                                                                         \
                        "vqmovnb.s16 q7, q7\n"                                                                         \
                        "vqadd.s16 q5, q5, " free "\n"                                                                 \
                        "vqmovnb.s16 q5, q5\n"
