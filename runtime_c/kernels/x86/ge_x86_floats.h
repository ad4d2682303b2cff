/* Vectors of float32 of a level, as wide as its registers: what ge_x86_portable.h says of one number. Products and sums are
 * rounded one after the other (no level contracts them), so every width gives the same bits. */
#ifndef GE_X86_FLOATS_H
#define GE_X86_FLOATS_H

typedef float ge_x86_floats __attribute__((vector_size(4 * GE_X86_FLOATS), aligned(4), may_alias));
typedef int32_t ge_x86_bits __attribute__((vector_size(4 * GE_X86_FLOATS), aligned(4), may_alias));

/* Where layers of different sizes have a constant in common, gcc knows its size in the kernel, but not which loops that layer
 * enters; it then warns of loads in the others. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Warray-bounds"
static inline GE_X86_INLINE ge_x86_floats ge_x86_floats_at(const float *x) {
    return *(const ge_x86_floats *)(const void *)x;
}
#pragma GCC diagnostic pop

static inline GE_X86_INLINE void ge_x86_store_floats(float *to, ge_x86_floats x) {
    *(ge_x86_floats *)(void *)to = x;
}

/* x < lo ? lo : (x > hi ? hi : x), which leaves NaN. */
static inline GE_X86_INLINE ge_x86_floats ge_x86_clamped_floats(ge_x86_floats x, ge_x86_floats lo, ge_x86_floats hi) {
    const ge_x86_bits below = (ge_x86_bits)(x < lo), above = (ge_x86_bits)(x > hi);
    const ge_x86_bits bits =
        (below & (ge_x86_bits)lo) | (above & (ge_x86_bits)hi) | (~(below | above) & (ge_x86_bits)x);
    return (ge_x86_floats)bits;
}

#endif
