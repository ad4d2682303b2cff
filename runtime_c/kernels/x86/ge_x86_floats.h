/* Vectors of float32 as wide as the registers of a level; ge_x86_portable.h has the same functions for one number.
 * Products and sums are rounded separately (no level contracts them), so every width gives the same bits. */
#ifndef GE_X86_FLOATS_H
#define GE_X86_FLOATS_H

typedef float ge_x86_floats __attribute__((vector_size(4 * GE_X86_FLOATS), aligned(4), may_alias));

/* Where layers of different sizes share a constant, gcc knows its size in the kernel, but not which loops each layer
 * enters, and warns about loads in loops that are never entered. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Warray-bounds"
static inline GE_X86_INLINE ge_x86_floats ge_x86_floats_at(const float *x) {
    return *(const ge_x86_floats *)(const void *)x;
}
#pragma GCC diagnostic pop

static inline GE_X86_INLINE void ge_x86_store_floats(float *to, ge_x86_floats x) {
    *(ge_x86_floats *)(void *)to = x;
}

#endif
