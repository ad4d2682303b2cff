/* The default law on four sums of int32, for the Helium kernels of convolution and fully connected layers.
 *
 * ge_mve_law_<law>.h defines the same names for another law; there is no include guard, because each kernel defines the
 * names for its own law. The sums, biases included, lie outside q0-q3; the law uses q0 to q3 and the core register
 * `free` from LOAD to the last SCALE. A stream holds, for four channels, VECTORS times four words in the order in which
 * LOAD takes them.
 */
#define GE_MVE_LAW_VECTORS 1

#define GE_MVE_LAW_LOAD(stream, free) "vldrw.u32 q1, [" stream "], #16\n"

#define GE_MVE_LAW_SCALE(sums, free) "vrmulh.s32 " sums ", " sums ", q1\n"

/* Requantizes twelve sums to outputs, in an order in which the pipes alternate. q7 is complete, q5 lacks the biases,
 * which are in `bias`, q0 or q2; `third` puts sums without biases into q6, and `zero` the zero point into `free`.
 * Afterwards q7 holds its outputs in words, and q5 its own and those of q6 in the halves of words. */
#define GE_MVE_LAW_OUTPUTS(bias, stream, free, third, zero)                                                            \
    GE_MVE_LAW_LOAD(stream, free)                                                                                      \
    "vadd.i32 q5, q5, " bias "\n" GE_MVE_LAW_SCALE("q7", free)                                                         \
        third GE_MVE_LAW_SCALE("q5", free) "vqmovnb.s32 q7, q7\n"                                                      \
                                           "vadd.i32 q6, q6, " bias                                                    \
                                           "\n" GE_MVE_LAW_SCALE("q6", free) "vqmovnb.s32 q5, q5\n" zero               \
                                                                             "vqadd.s16 q7, q7, " free "\n"            \
                                                                             "vqmovnt.s32 q5, q6\n"                    \
                                                                             "vqmovnb.s16 q7, q7\n"                    \
                                                                             "vqadd.s16 q5, q5, " free "\n"            \
                                                                             "vqmovnb.s16 q5, q5\n"
