/* The frame of the loops of Cortex-M4, M7 and M33 for values that do not fit registers: 16 words of stack, [sp, #4 *
 * n].
 *
 * It uses no FPU registers: so no FPU context has to be saved, and any -mfloat-abi works. The words of the job come
 * first, in its order. r7 may be the compiler's frame pointer and cannot be declared as changed: it is kept in the last
 * word. Nothing lies below sp, where an interrupt would write.
 * The C compiler does not know of this stack use; the symbol ge_frame.FUNCTION of the object file states it in
 * bytes. */
#ifndef GE_ISA_DSP_FRAME_H
#define GE_ISA_DSP_FRAME_H

#include "ge_isa_dsp_law.h"

#define GE_DSP_TEXT(name) #name

/* Enters a function. r0: the job, of as many words as there are `registers`, which are overwritten. function: the name
 * of the enclosing function. */
#define GE_DSP_ENTER(function, law, registers)                                                                         \
    "    .set ge_frame." GE_DSP_TEXT(function) ", 64+" GE_DSP_LAW_STACK(law) "\n"                                      \
                                                                             "    sub.w sp, sp, #64\n"                 \
                                                                             "    str.w r7, [sp, #60]\n"               \
                                                                             "    ldm.w r0, {" registers "}\n"         \
                                                                             "    stm.w sp, {" registers "}\n"

#define GE_DSP_LEAVE                                                                                                   \
    "    ldr.w r7, [sp, #60]\n"                                                                                        \
    "    add.w sp, sp, #64\n"

#endif
