/* The macros that depend on a level, as defined for a file that is compiled outside a bundle: portable C.
 *
 * A bundle defines these macros for each level in turn (glowembed/graph/isa.py), so that GE_X86_LEVEL(ge, _dot) is
 * ge_avx2_dot there.
 */
#ifndef GE_X86_LEVEL_H
#define GE_X86_LEVEL_H

#define GE_X86_LEVEL(before, behind) before##_x86##behind
#define GE_X86_FN     /* attributes of a function */
#define GE_X86_INLINE /* attributes of an inlined function */
#define GE_X86_UNROLL /* placed before a loop whose variables should be in registers */

#endif
