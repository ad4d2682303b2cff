/* What a level gives to the files in names such as ge_x86_dot, in a file that is compiled as it stands: nothing, portable C.
 *
 * A bundle defines these macros for each level in turn (glowembed/graph/isa.py), so that GE_X86_LEVEL(ge, _dot) is
 * ge_avx2_dot there. */
#ifndef GE_X86_LEVEL_H
#define GE_X86_LEVEL_H

#define GE_X86_LEVEL(before, behind) before##_x86##behind
#define GE_X86_FN     /* attributes of a function */
#define GE_X86_INLINE /* the same of one that is inlined */
#define GE_X86_UNROLL /* before a loop whose variables should be in registers */

#endif
