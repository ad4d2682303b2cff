/* The law by which a kernel makes outputs of its sums: here the default, ge_requantize of ge_fixedpoint.h.
 *
 * ge_law_<law>.h defines the same names for another law. A kernel file by itself compiles with this header. A bundle
 * takes the header of its law instead, and the kernel's name then ends in that law: ge_conv2d_s8_glow is ge_conv2d of
 * portable/conv2d.c with ge_law_glow.h. There is no include guard, because each kernel of a bundle defines the names
 * anew. */
#include "ge_fixedpoint.h"
