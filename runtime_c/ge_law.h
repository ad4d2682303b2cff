/* The law by which a kernel turns sums into outputs: here the default one, ge_requantize of ge_fixedpoint.h.
 *
 * ge_law_<law>.h gives the same names another meaning. A kernel file is compiled with this header as it stands; a bundle takes
 * the one of its law instead, and the kernel's names then end in it: ge_conv2d_s8_glow is ge_conv2d of
 * portable/conv2d.c with ge_law_glow.h. No include guard: the names are those of one kernel. */
#include "ge_fixedpoint.h"
