/* Reports a fault over the serial line: one frame at once, and another at every zero byte that the host sends, in case
 * the first was lost. After REPORTS frames the firmware starts again. */
#include "server.h"

#define REPORTS 64
#define WORDS 8u

static void write_bytes(void *context, const uint8_t *bytes, uint32_t count) {
    (void)context;
    for (uint32_t i = 0; i < count; ++i) {
        ge_uart_put(bytes[i]);
    }
}

void ge_fault_report(const ge_fault *fault) {
    const ge_port port = {write_bytes, 0};
    const uint32_t words[WORDS] = {fault->exception, fault->pc,   fault->lr,    fault->psr,
                                   fault->cfsr,      fault->hfsr, fault->mmfar, fault->bfar};
    uint8_t payload[4u * WORDS];
    for (uint32_t i = 0; i < WORDS; ++i) {
        ge_put_u32(payload + 4u * i, words[i]);
    }
    ge_uart_put(0); /* ends the frame that was being sent */
    for (int32_t i = 0; i < REPORTS; ++i) {
        ge_send(&port, 0, GE_FAULT, 0, payload, sizeof payload);
        while (ge_uart_get() != 0) {
        }
    }
    ge_board_reset();
}
