/* The transport of a board's serial line: the server (server.h) on top of ge_uart_put and ge_uart_get. */
#include "ge_board.h"
#include "server.h"

#define LOOP_COUNT 20000u /* as in transport_files.c */
#define LOOP_PERIOD 4096u
#define IDLE_SECONDS 2u

extern const uint8_t ge_weights_start[], ge_weights_end[];

static ge_measured run(const ge_bundle *bundle) {
    return ge_measure_run(bundle->run, bundle->arena);
}

static ge_measured layer(const ge_bundle *bundle, int32_t index) {
    return ge_measure_layer(bundle->run_layers, bundle->arena, index);
}

static void calibrate(ge_ticks ticks[4]) {
    ticks[0] = ge_measure_empty_run();
    ticks[1] = ge_measure_empty_layer();
    ticks[2] = ge_measure_loop(LOOP_COUNT, GE_TICKS_PERIOD_MAX);
    ticks[3] = ge_measure_loop(LOOP_COUNT, LOOP_PERIOD);
}

static void write_bytes(void *context, const uint8_t *bytes, uint32_t count) {
    (void)context;
    for (uint32_t i = 0; i < count; ++i) {
        ge_uart_put(bytes[i]);
    }
}

/* Waits for the next byte; after a part of a frame, for IDLE_SECONDS at most. */
static int32_t next_byte(const ge_server *server) {
    const int32_t waits = ge_server_waits(server);
    int32_t byte = ge_uart_get();
    if (byte >= 0 || !waits) {
        return byte;
    }
    ge_ticks_start(GE_TICKS_PERIOD_MAX);
    do {
        byte = ge_uart_get();
    } while (byte < 0 && ge_ticks_read().ticks < (uint64_t)IDLE_SECONDS * GE_CLOCK_HZ);
    ge_ticks_stop();
    return byte;
}

int32_t ge_transport(const ge_bundle *bundle) {
    static ge_server server;
    static ge_device device = {
        GE_BOARD, GE_TARGET, GE_CLOCK_HZ, GE_RAM_BYTES,     GE_FLASH_BYTES, NULL,
        0,        run,       layer,       ge_measure_stack, calibrate,      ge_board_reset,
    };
    const ge_port port = {write_bytes, NULL};
    device.weights = ge_weights_start;
    device.weights_bytes = (uint32_t)((uintptr_t)ge_weights_end - (uintptr_t)ge_weights_start);
    ge_server_start(&server, bundle, &device, port);
    ge_uart_put(0); /* ends the line of text that main() has sent */
    for (;;) {
        const int32_t byte = next_byte(&server);
        if (byte >= 0) {
            ge_server_byte(&server, (uint8_t)byte);
        } else {
            ge_server_idle(&server);
        }
    }
}

/* main() calls this only if ge_transport returns, which it does not. */
void ge_finish(int32_t code) {
    (void)code;
    ge_board_reset();
}
