/* The law of TensorFlow Lite on registers of sums. Its two roundings are a step function of the sum whose steps lie
 * slightly nearer to zero than those of one rounding, so in floats the sum is moved away from zero first. Rows of
 * floats: the number of exceptions, the multiplier, the distance that the sum is moved, the exceptions. */
#ifndef GE_X86_LAW_TFLITE_H
#define GE_X86_LAW_TFLITE_H

#include "ge_requantize_tflite.h"
#include "ge_x86_by_law.h"

#define GE_X86_WORDS_tflite 2
#define GE_X86_ROWS_tflite 11

GE_X86_EACH(tflite)

static inline GE_X86_INLINE ge_x86_register ge_x86_tflite(ge_x86_register acc, const int32_t *words, const float *rows,
                                                          int32_t pitch, int32_t apart, int32_t form,
                                                          const ge_x86_law *law) {
    return form < 0 ? ge_x86_tflite_each(acc, words, pitch, apart, law)
                    : ge_x86_nearest(acc, rows + pitch, pitch, apart, form, 1, 0, law);
}

GE_X86_OUTPUTS(tflite)

#endif
