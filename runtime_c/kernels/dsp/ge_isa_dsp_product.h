/* Products of int8 numbers less their zero points, requantized by 2^-32, for the kernels of Mul on Cortex-M4, M7 and
 * M33.
 *
 * SXTAB16 extends two numbers and subtracts their zero point, SMULBB and SMULTT multiply, SMMLAR requantizes and adds
 * the zero point, SSAT saturates. An iteration is eight elements. Cost: 6.2 cycles per element, 5.1 where one factor is
 * the same for all.
 *   r0 a   r1 b, or the factor   r2 out   r3 end of a   r4 -zero points of a   r5 those of b   r6 multiplier
 *   r8 zero point   r9 r10 r11 r12 lr four elements
 */
#ifndef GE_ISA_DSP_PRODUCT_H
#define GE_ISA_DSP_PRODUCT_H

#include "ge.h"
#include "ge_fixedpoint.h"
#include "ge_isa_dsp.h"

typedef struct {
    const int8_t *a;
    const int8_t *b; /* or the factor, as a number */
    int8_t *out;
    const int8_t *end;  /* end of a: a multiple of eight later, at least one */
    uint32_t minus_a;   /* twice the zero point of a, negative, in half-words */
    uint32_t minus_b;   /* the same of b */
    int32_t multiplier; /* of the requantization by 2^-32 */
    int32_t zero_point; /* of the output */
    int32_t lo, hi;     /* smallest and largest output; the loops clamp only to int8 */
} ge_dsp_product;

/* The law of params of Mul, without the addresses of a call. */
#define GE_DSP_PRODUCT_LAW(p, multiplier)                                                                              \
    {NULL,                                                                                                             \
     NULL,                                                                                                             \
     NULL,                                                                                                             \
     NULL,                                                                                                             \
     ge_dsp_minus((p)->zero_point_a),                                                                                  \
     ge_dsp_minus((p)->zero_point_b),                                                                                  \
     multiplier,                                                                                                       \
     (p)->out_zero_point,                                                                                              \
     (p)->lo,                                                                                                          \
     (p)->hi}

/* clang-format off */

/* Computes the next four products, in lr, r12, r11, r9. */
#define GE_DSP_PRODUCT_EACH \
    "    ldr r9, [r0], #4\n" \
    "    ldr r10, [r1], #4\n" \
    "    sxtab16 r11, r4, r9\n" \
    "    sxtab16 r12, r5, r10\n" \
    "    sxtab16 r9, r4, r9, ror #8\n" \
    "    sxtab16 r10, r5, r10, ror #8\n" \
    "    smulbb lr, r11, r12\n" \
    "    smultt r11, r11, r12\n" \
    "    smulbb r12, r9, r10\n" \
    "    smultt r9, r9, r10\n"

/* Does the same with one factor. */
#define GE_DSP_PRODUCT_ALL \
    "    ldr r9, [r0], #4\n" \
    "    sxtab16 r11, r4, r9\n" \
    "    sxtab16 r9, r4, r9, ror #8\n" \
    "    smulbb lr, r11, r1\n" \
    "    smultb r11, r11, r1\n" \
    "    smulbb r12, r9, r1\n" \
    "    smultb r9, r9, r1\n"

/* Requantizes and stores four outputs. */
#define GE_DSP_PRODUCT_STORE \
    "    smmlar lr, lr, r6, r8\n" \
    "    smmlar r12, r12, r6, r8\n" \
    "    smmlar r11, r11, r6, r8\n" \
    "    smmlar r9, r9, r6, r8\n" \
    "    ssat lr, #8, lr\n" \
    "    ssat r12, #8, r12\n" \
    "    ssat r11, #8, r11\n" \
    "    ssat r9, #8, r9\n" \
    "    strb lr, [r2], #4\n" \
    "    strb r12, [r2, #-3]\n" \
    "    strb r11, [r2, #-2]\n" \
    "    strb r9, [r2, #-1]\n"

#define GE_DSP_PRODUCT_LOOP(FOUR) \
    "    ldm r0, {r0, r1, r2, r3, r4, r5, r6, r8}\n" \
    "    .balign 4\n" \
    "1:\n" \
    FOUR GE_DSP_PRODUCT_STORE \
    FOUR GE_DSP_PRODUCT_STORE \
    "    cmp r0, r3\n" \
    "    bne 1b\n"

static inline void ge_dsp_product_each_loop(const ge_dsp_product *job) {
    register const ge_dsp_product *r0 __asm__("r0") = job;
    __asm__ volatile(GE_DSP_PRODUCT_LOOP(GE_DSP_PRODUCT_EACH)
        : "+r"(r0)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory");
}

static inline void ge_dsp_product_all_loop(const ge_dsp_product *job) {
    register const ge_dsp_product *r0 __asm__("r0") = job;
    __asm__ volatile(GE_DSP_PRODUCT_LOOP(GE_DSP_PRODUCT_ALL)
        : "+r"(r0)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r11", "r12", "lr", "cc", "memory");
}

/* clang-format on */

/* Returns -zero_point in both half-words. */
static inline uint32_t ge_dsp_minus(int32_t zero_point) {
    return ((uint32_t)-zero_point & 0xFFFFu) | (uint32_t)-zero_point << 16;
}

static inline int8_t ge_dsp_product_one(const ge_dsp_product *law, int32_t product) {
    return ge_requantize(product, &law->multiplier, 0, 32, law->zero_point, INT8_MIN, INT8_MAX);
}

/* Multiplies a[i] by b[i], less their zero points. The law holds what stays the same: everything except pointers. */
static inline void ge_dsp_product_each(const ge_dsp_product *law, const int8_t *a, const int8_t *b, int8_t *out,
                                       int32_t count) {
    ge_dsp_product job = *law;
    const int32_t eights = count & ~7;
    job.a = a;
    job.b = b;
    job.out = out;
    job.end = a + eights;
    if (eights > 0) {
        ge_dsp_product_each_loop(&job);
    }
    for (int32_t i = eights; i < count; i++) {
        out[i] = ge_dsp_product_one(law, (a[i] + (int16_t)law->minus_a) * (b[i] + (int16_t)law->minus_b));
    }
    if (law->lo > INT8_MIN || law->hi < INT8_MAX) {
        ge_dsp_clamp(out, count, law->lo, law->hi);
    }
}

/* Multiplies a[i], less the zero point in `minus`, by one factor without a zero point. */
static inline void ge_dsp_product_all(const ge_dsp_product *law, const int8_t *a, uint32_t minus, int32_t factor,
                                      int8_t *out, int32_t count) {
    ge_dsp_product job = *law;
    const int32_t eights = count & ~7;
    job.a = a;
    job.b = (const int8_t *)(intptr_t)factor;
    job.out = out;
    job.end = a + eights;
    job.minus_a = minus;
    if (eights > 0) {
        ge_dsp_product_all_loop(&job);
    }
    for (int32_t i = eights; i < count; i++) {
        out[i] = ge_dsp_product_one(law, (a[i] + (int16_t)minus) * factor);
    }
    if (law->lo > INT8_MIN || law->hi < INT8_MAX) {
        ge_dsp_clamp(out, count, law->lo, law->hi);
    }
}

#endif
