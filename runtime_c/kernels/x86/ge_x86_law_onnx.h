/* The law of ONNX on registers of sums. Halves round to even before the zero point is added. Rows of floats: the number
 * of exceptions, the multiplier, exceptions. */
#ifndef GE_X86_LAW_ONNX_H
#define GE_X86_LAW_ONNX_H

#include "ge_requantize_onnx.h"
#include "ge_x86_by_law.h"

#define GE_X86_WORDS_onnx 2
#define GE_X86_ROWS_onnx 10

GE_X86_EACH(onnx)

static inline GE_X86_INLINE ge_x86_register ge_x86_onnx(ge_x86_register acc, const int32_t *words, const float *rows,
                                                        int32_t pitch, int32_t apart, int32_t form,
                                                        const ge_x86_law *law) {
    return form < 0 ? ge_x86_onnx_each(acc, words, pitch, apart, law)
                    : ge_x86_nearest(acc, rows + pitch, pitch, apart, form, 0, 1, law);
}

GE_X86_OUTPUTS(onnx)

#endif
