/* Fully connected: int8 rows with int8 weights, eight outputs at a time, for Cortex-M0, M0+ and M1.
 *
 * Flash holds each weight once, in a byte. Eight channels are interleaved as w + 128, [in_c, 8], because LDRB has an
 * immediate offset and LDRSB has none; the last out_c % 8 channels are plain, [out_c, in_c]. The excess, 128 times the
 * sum of the inputs, is the same for all channels. Sums are taken modulo 2^32.
 */
#include "fc.h"
#include "ge.h"
#include "ge_armv6m.h"
#include "ge_law.h"
#include "ge_params.h"

typedef struct {
    const int8_t *x;       /* 0 */
    const int8_t *weights; /* 4: of the eight channels, for the first input */
    int32_t inputs;        /* 8 */
    int32_t sums[8];       /* 12: modulo 2^32 */
    uint32_t saved[9];     /* 44: r4-r11, lr, kept here so that the compiler's figure for the stack is right */
} fc_eights_s8_armv6m_block;

/* clang-format off */

/* Multiplies the input in r2 with the weight at offset `at`, for one channel. */
#define FC_EIGHTS_S8_ARMV6M_LOW(at, sum) \
    "ldrb r3, [r1, #" #at "]\n" \
    "muls r3, r2, r3\n" \
    "adds " sum ", " sum ", r3\n"
#define FC_EIGHTS_S8_ARMV6M_HIGH(at, sum) \
    "ldrb r3, [r1, #" #at "]\n" \
    "muls r3, r2, r3\n" \
    "add " sum ", r3\n"

/* Multiplies one input of eight with its weights of eight channels. */
#define FC_EIGHTS_S8_ARMV6M_INPUT(at, w0, w1, w2, w3, w4, w5, w6, w7) \
    "ldrb r2, [r0, #" #at "]\n" \
    "sxtb r2, r2\n" \
    FC_EIGHTS_S8_ARMV6M_LOW(w0, "r4") \
    FC_EIGHTS_S8_ARMV6M_LOW(w1, "r5") \
    FC_EIGHTS_S8_ARMV6M_LOW(w2, "r6") \
    FC_EIGHTS_S8_ARMV6M_LOW(w3, "r7") \
    FC_EIGHTS_S8_ARMV6M_HIGH(w4, "r8") \
    FC_EIGHTS_S8_ARMV6M_HIGH(w5, "r9") \
    FC_EIGHTS_S8_ARMV6M_HIGH(w6, "r10") \
    FC_EIGHTS_S8_ARMV6M_HIGH(w7, "r11")

/* r0 inputs, r1 weights, r2 an input, r3 a weight, r4-r11 sums, r12 the block, lr the end of the inputs. */
__attribute__((naked, noinline)) static void
fc_eights_s8_armv6m_sums(fc_eights_s8_armv6m_block *block __attribute__((unused))) {
    __asm__ volatile(
        ".syntax unified\n"
        "mov r12, r0\n"
        "adds r0, r0, #44\n"
        GE_ARMV6M_SAVE("r0")
        "mov r3, r12\n"
        "ldmia r3!, {r0, r1, r2}\n"
        "adds r4, r0, r2\n"
        "mov lr, r4\n"
        "movs r4, #0\n"
        "movs r5, #0\n"
        "movs r6, #0\n"
        "movs r7, #0\n"
        "mov r8, r4\n"
        "mov r9, r4\n"
        "mov r10, r4\n"
        "mov r11, r4\n"
        "movs r3, #7\n"
        "ands r3, r3, r2\n"
        "beq 8f\n"
        "movs r2, #8\n" /* the first turn begins so that the last one ends with the last input */
        "subs r2, r2, r3\n"
        "subs r0, r0, r2\n"
        "lsls r2, r2, #30\n" /* modulo 4 inputs, because r1 advances in the middle of a turn */
        "lsrs r2, r2, #27\n"
        "subs r1, r1, r2\n"
        "cmp r3, #6\n"
        "bhi 7f\n"
        "beq 6f\n"
        "cmp r3, #4\n"
        "bhi 5f\n"
        "bne 9f\n"
        "b 4f\n"
        "9:\n"
        "cmp r3, #2\n"
        "bhi 9f\n"
        "blo 0f\n"
        "b 2f\n"
        "0:\n"
        "b 1f\n"
        "9:\n"
        "b 3f\n"
        "8:\n"
        FC_EIGHTS_S8_ARMV6M_INPUT(0, 0, 1, 2, 3, 4, 5, 6, 7)
        "7:\n"
        FC_EIGHTS_S8_ARMV6M_INPUT(1, 8, 9, 10, 11, 12, 13, 14, 15)
        "6:\n"
        FC_EIGHTS_S8_ARMV6M_INPUT(2, 16, 17, 18, 19, 20, 21, 22, 23)
        "5:\n"
        FC_EIGHTS_S8_ARMV6M_INPUT(3, 24, 25, 26, 27, 28, 29, 30, 31)
        "adds r1, r1, #32\n"
        "4:\n"
        FC_EIGHTS_S8_ARMV6M_INPUT(4, 0, 1, 2, 3, 4, 5, 6, 7)
        "3:\n"
        FC_EIGHTS_S8_ARMV6M_INPUT(5, 8, 9, 10, 11, 12, 13, 14, 15)
        "2:\n"
        FC_EIGHTS_S8_ARMV6M_INPUT(6, 16, 17, 18, 19, 20, 21, 22, 23)
        "1:\n"
        FC_EIGHTS_S8_ARMV6M_INPUT(7, 24, 25, 26, 27, 28, 29, 30, 31)
        "adds r0, r0, #8\n"
        "adds r1, r1, #32\n"
        "cmp r0, lr\n"
        "beq 9f\n"
        "b 8b\n"
        "9:\n"
        "mov r0, r12\n"
        "adds r0, r0, #12\n"
        GE_ARMV6M_SAVE_EIGHT("r0")
        "adds r0, r0, #16\n"
        "ldmia r0!, {r4-r7}\n"
        "mov r8, r4\n"
        "mov r9, r5\n"
        "mov r10, r6\n"
        "mov r11, r7\n"
        "ldr r3, [r0]\n"
        "subs r0, r0, #32\n"
        "ldmia r0!, {r4-r7}\n"
        "bx r3\n");
}

/* clang-format on */

/* A block for eight channels, or for the last ones, four or one at a time. */
typedef union {
    fc_eights_s8_armv6m_block eights;
    ge_fc_block fours;
} fc_eights_s8_armv6m_blocks;

/* Computes the sums of the next eight, four or one of `left` channels, whose weights begin at w, and returns them. The
 * caller has set the inputs of blocks->eights. */
static inline const int32_t *fc_eights_s8_armv6m_next(const ge_fc_params *p, const int8_t *row, const int8_t *w,
                                                      int32_t left, fc_eights_s8_armv6m_blocks *blocks) {
    if (left >= 8) {
        blocks->eights.weights = w;
        fc_eights_s8_armv6m_sums(&blocks->eights);
        return blocks->eights.sums;
    }
    blocks->fours.weights = w + p->in_c;
    blocks->fours.pitch = left < 4 ? 0 : p->in_c;
    blocks->fours.x = row + p->in_c;
    blocks->fours.left = -p->in_c;
    ge_fc_four(&blocks->fours);
    return blocks->fours.sums;
}

/* Returns the sum of the inputs; it adds four in each turn. */
static inline int32_t fc_eights_s8_armv6m_sum(const int8_t *row, int32_t count) {
    const int8_t *const end = row + count;
    int32_t sum = 0;
    for (; end - row >= 4; row += 4) {
        sum += row[0] + row[1] + row[2] + row[3];
    }
    while (row < end) {
        sum += *row++;
    }
    return sum;
}

static void ge_fc_eights_s8_armv6m(const ge_fc_params *p, const ge_rows *x, const int8_t *weights, const int32_t *bias,
                                   const int32_t *multiplier, const ge_rows *out, int32_t first_row, int32_t last_row,
                                   void *scratch) {
    fc_eights_s8_armv6m_blocks blocks;
    (void)scratch;
    for (int32_t y = first_row; y < last_row; y++) {
        const int8_t *const row = (const int8_t *)ge_row(x, y);
        int8_t *const o = (int8_t *)ge_row(out, y);
        const int32_t sum = fc_eights_s8_armv6m_sum(row, p->in_c);
        blocks.eights.x = row;
        blocks.eights.inputs = p->in_c;
        for (int32_t oc = 0; oc < p->out_c;) {
            const int32_t left = p->out_c - oc;
            const int32_t *sums = fc_eights_s8_armv6m_next(p, row, weights + oc * p->in_c, left, &blocks);
            const uint32_t excess = left < 8 ? 0 : 128u * (uint32_t)sum;
            const int32_t end = oc + (left < 4 ? 1 : (left < 8 ? 4 : 8));
            for (; oc < end; oc++) {
                const int32_t acc = (int32_t)((uint32_t)bias[oc] + (uint32_t)*sums++ - excess);
                o[oc] = ge_requantize(acc, multiplier, oc, p->shift, p->out_zero_point, p->lo, p->hi);
            }
        }
    }
}
