/* The default law on four sums of int32: what the Helium kernels of convolution and fully connected layers share.
 *
 * ge_mve_law_<law>.h gives the same names for another law; there is no include guard, because these words are those of one
 * kernel. The sums lie outside q0-q3, with their biases; q0 to q3 and the core register `free` are the law's from LOAD to the last
 * SCALE. A stream holds, for four channels, VECTORS times four words in the order in which LOAD takes them.
 */
#define GE_MVE_LAW_VECTORS 1

#define GE_MVE_LAW_LOAD(stream, free) "vldrw.u32 q1, [" stream "], #16\n"

#define GE_MVE_LAW_SCALE(sums, free) "vrmulh.s32 " sums ", " sums ", q1\n"
