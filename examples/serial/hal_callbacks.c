/* The serial server in a firmware of your own, over the callbacks of a vendor's HAL (here STM32Cube): an interrupt brings
 * the bytes, the main loop does the work. main.h, huart3 and the clock are what CubeMX makes; call serve() at the end of
 * main(). docs/protocol.md says what to link. */
#include "main.h"
#include "server.h"

#define RING 1024u /* bytes, a power of two and more than a frame */
#define SILENCE_MS 2000u

extern UART_HandleTypeDef huart3;

static volatile uint8_t ring[RING];
static volatile uint32_t came; /* bytes so far; only the interrupt writes it */
static uint8_t incoming;

void HAL_UART_RxCpltCallback(UART_HandleTypeDef *uart) {
    ring[came % RING] = incoming;
    came = came + 1u;
    (void)HAL_UART_Receive_IT(uart, &incoming, 1);
}

/* Noise, or a byte that was not taken in time: the host asks again. */
void HAL_UART_ErrorCallback(UART_HandleTypeDef *uart) {
    (void)HAL_UART_Receive_IT(uart, &incoming, 1);
}

static void write_bytes(void *uart, const uint8_t *bytes, uint32_t count) {
    (void)HAL_UART_Transmit((UART_HandleTypeDef *)uart, (uint8_t *)(uintptr_t)bytes, (uint16_t)count, 1000);
}

void serve(void);
void serve(void) {
    static const ge_device device = {.board = "", .target = "cortex-m4"};
    static ge_server server;
    const ge_port port = {write_bytes, &huart3};
    uint32_t taken = 0;
    uint32_t heard = HAL_GetTick();

    ge_server_start(&server, &ge_the_bundle, &device, port);
    (void)HAL_UART_Receive_IT(&huart3, &incoming, 1);
    for (;;) {
        if (taken != came) {
            ge_server_byte(&server, ring[taken % RING]);
            taken += 1u;
            heard = HAL_GetTick();
        } else if (HAL_GetTick() - heard > SILENCE_MS) {
            ge_server_idle(&server);
            heard = HAL_GetTick();
        }
    }
}
