/* The default law on four sums of int32: what the Helium kernels of convolution and fully connected layers share.
 *
 * A kernel with another requantization has GE_MVE_LAW_<MODE>_... of ge_mve_law_<mode>.h in the place of these names. The
 * sums lie outside q0-q3, with their biases; q0 to q3 and the core register `free` are the law's from LOAD to the last
 * SCALE. A stream holds, for four channels, VECTORS times four words in the order in which LOAD takes them.
 */
#ifndef GE_MVE_LAW_H
#define GE_MVE_LAW_H

#define GE_MVE_LAW_VECTORS 1

#define GE_MVE_LAW_LOAD(stream, free) "vldrw.u32 q1, [" stream "], #16\n"

#define GE_MVE_LAW_SCALE(sums, free) "vrmulh.s32 " sums ", " sums ", q1\n"

#endif
