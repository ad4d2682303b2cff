/* The law of TensorFlow Lite Micro on Cortex-M4, M7 and M33 (ge_isa_dsp_law.h): 31-bit multipliers, rounded twice.
 *
 * SMMLAR of twice the accumulator is the first rounding and adds the half of the second, one less for a negative
 * number. The sign of the accumulator is used, also where the first rounding gives 0: both half and half - 1 become 0,
 * as the shift is at least 1. Words: multiplier, (zero point << shift) + half, shift 1..23. */
#ifndef GE_ISA_DSP_LAW_TFLITE_H
#define GE_ISA_DSP_LAW_TFLITE_H

#define GE_DSP_LAW_LOAD_3(w, m, c, t)                                                                                  \
    "    ldr.w " c ", [" w ", #4]\n"                                                                                   \
    "    ldr.w " m ", [" w "], #8\n"

#define GE_DSP_LAW_FIRST_3(w, x, m, c, t)                                                                              \
    "    sub.w " t ", " c ", " x ", lsr #31\n"                                                                         \
    "    smmlar " x ", " x ", " m ", " t "\n"

#define GE_DSP_LAW_SHIFT_3(w, m, t) "    ldr.w " m ", [" w "], #4\n"
#define GE_DSP_LAW_LAST_3(x, m) "    asr.w " x ", " x ", " m "\n"

#define GE_DSP_LAW_KEPT_ONE_3(x, m, t, sm, sc, ss)                                                                     \
    "    ldr.w " t ", [sp, #4*" sc "]\n"                                                                               \
    "    sub.w " t ", " t ", " x ", lsr #31\n"                                                                         \
    "    ldr.w " m ", [sp, #4*" sm "]\n"                                                                               \
    "    smmlar " x ", " x ", " m ", " t "\n"                                                                          \
    "    ldr.w " m ", [sp, #4*" ss "]\n"                                                                               \
    "    asr.w " x ", " x ", " m "\n"

#define GE_DSP_LAW_KEPT_TWO_3(x, y, m, t, sm, sc, ss)                                                                  \
    "    ldr.w " t ", [sp, #4*" sc "]\n"                                                                               \
    "    sub.w " t ", " t ", " x ", lsr #31\n"                                                                         \
    "    ldr.w " m ", [sp, #4*" sm "]\n"                                                                               \
    "    smmlar " x ", " x ", " m ", " t "\n"                                                                          \
    "    ldr.w " t ", [sp, #4*" sc "]\n"                                                                               \
    "    sub.w " t ", " t ", " y ", lsr #31\n"                                                                         \
    "    smmlar " y ", " y ", " m ", " t "\n"                                                                          \
    "    ldr.w " m ", [sp, #4*" ss "]\n"                                                                               \
    "    asr.w " x ", " x ", " m "\n"                                                                                  \
    "    asr.w " y ", " y ", " m "\n"

#define GE_DSP_LAW_SELDOM_3(w, c, t) ""
#define GE_DSP_LAW_CHANGES_3
#define GE_DSP_LAW_STACK_3 "0"

#endif
