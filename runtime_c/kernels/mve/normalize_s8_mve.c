/* Normalizes int8 vectors: subtracts their mean, divides by their standard deviation, scales and shifts: Helium.
 *
 * With up to 256 elements the sums, the variance and the products with the reciprocal root fit 32 bits. VADDVA and
 * VMLADAVA sum 16 elements and their squares at a time. Then 8 elements take 18 instructions: VMLAS gives the
 * normalized number, VRMULH its product with the scale. VQRSHRNB rounds, so the shifts lack the half that those
 * of the law contain; the assembler of binutils 2.40 encodes VQSHRNB as VQRSHRNB.
 *   q7 factor of an element
 */
#include "ge.h"
#include "ge_dsp_root.h"
#include "ge_mve.h"
#include "ge_params.h"

#define NORMALIZE_S8_MVE_BITS 8
#define NORMALIZE_S8_MVE_VARIANCE 30

/* Writes the sum of n elements and returns the sum of their squares. */
static inline uint32_t normalize_s8_mve_sums(const int8_t *x, int32_t n, int32_t *sum) {
    register int32_t r0 __asm__("r0") = 0, r2 __asm__("r2") = 0; /* VADDVA and VMLADAVA take even registers */
    __asm__ volatile("wlstp.8 lr, %[n], 2f\n"
                     "1:\n"
                     "vldrb.8 q0, [%[x]], #16\n"
                     "vaddva.s8 r0, q0\n"
                     "vmladava.s8 r2, q0, q0\n"
                     "letp lr, 1b\n"
                     "2:\n"
                     : [x] "+&r"(x), "+&r"(r0), "+&r"(r2)
                     : [n] "r"(n)
                     : "lr", "q0", "memory");
    *sum = r0;
    return (uint32_t)r2;
}

#define NORMALIZE_S8_MVE_EIGHT                                                                                         \
    "vldrb.s32 q0, [%[x]], #4\n"                                                                                       \
    "vmlas.u32 q0, q7, %[start]\n"                                                                                     \
    "vldrb.s32 q1, [%[x]], #4\n"                                                                                       \
    "vmlas.u32 q1, q7, %[start]\n"                                                                                     \
    "vldrw.u32 q2, [%[scale]], #16\n"                                                                                  \
    "vrmulh.s32 q0, q0, q2\n"                                                                                          \
    "vldrw.u32 q3, [%[scale]], #16\n"                                                                                  \
    "vrmulh.s32 q1, q1, q3\n"                                                                                          \
    "vldrw.u32 q2, [%[shift]], #16\n"                                                                                  \
    "vadd.i32 q0, q0, q2\n"                                                                                            \
    "vldrw.u32 q3, [%[shift]], #16\n"                                                                                  \
    "vqrshrnb.s32 q0, q0, %[bits]\n"                                                                                   \
    "vadd.i32 q1, q1, q3\n"                                                                                            \
    "vqmovnb.s16 q0, q0\n"                                                                                             \
    "vqrshrnb.s32 q1, q1, %[bits]\n"                                                                                   \
    "vstrb.32 q0, [%[out]], #4\n"                                                                                      \
    "vqmovnb.s16 q1, q1\n"                                                                                             \
    "vstrb.32 q1, [%[out]], #4\n"

/* At most four elements, the rest predicated. */
#define NORMALIZE_S8_MVE_FOUR                                                                                          \
    "vldrb.s32 q0, [%[x]], #4\n"                                                                                       \
    "vldrw.u32 q2, [%[scale]], #16\n"                                                                                  \
    "vmlas.u32 q0, q7, %[start]\n"                                                                                     \
    "vldrw.u32 q3, [%[shift]], #16\n"                                                                                  \
    "vrmulh.s32 q0, q0, q2\n"                                                                                          \
    "vadd.i32 q0, q0, q3\n"                                                                                            \
    "vqrshrnb.s32 q0, q0, %[bits]\n"                                                                                   \
    "vqmovnb.s16 q0, q0\n"                                                                                             \
    "vstrb.32 q0, [%[out]], #4\n"

static void normalize_s8_mve_vector(const ge_normalize_params *p, const int8_t *x, const int32_t *scale,
                                    const int32_t *shift, const uint16_t *roots, int8_t *out) {
    const int32_t n = p->channels;
    int32_t sum;
    const uint32_t squares = normalize_s8_mve_sums(x, n, &sum);
    const ge_dsp_root_line line = ge_dsp_root_of(p, sum, squares, NORMALIZE_S8_MVE_VARIANCE, roots);
    __asm__ volatile("vdup.32 q7, %[slope]\n"
                     "wls lr, %[eights], 2f\n"
                     "1:\n" NORMALIZE_S8_MVE_EIGHT "le lr, 1b\n"
                     "2:\n"
                     "wlstp.32 lr, %[rest], 4f\n"
                     "3:\n" NORMALIZE_S8_MVE_FOUR "letp lr, 3b\n"
                     "4:\n"
                     : [x] "+&l"(x), [out] "+&l"(out), [scale] "+&r"(scale), [shift] "+&r"(shift)
                     : [slope] "r"(line.slope), [start] "r"(line.start), [eights] "r"(n >> 3), [rest] "r"(n & 7),
                       [bits] "i"(NORMALIZE_S8_MVE_BITS)
                     : "lr", "q0", "q1", "q2", "q3", "q7", "memory");
}

static void ge_normalize_s8_mve(const ge_normalize_params *p, const ge_rows *x, const int32_t *scale,
                                const int32_t *shift, const uint16_t *roots, const ge_rows *out, int32_t first_row,
                                int32_t last_row, void *scratch) {
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *v = (const int8_t *)ge_row(x, y);
        int8_t *o = (int8_t *)ge_row(out, y);
        for (int32_t k = 0; k < p->parts; k++) {
            normalize_s8_mve_vector(p, v, scale, shift, roots, o);
            v += p->channels;
            o += p->channels;
        }
    }
}
