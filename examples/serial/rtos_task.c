/* The serial server as a task of an RTOS (here FreeRTOS): the receive interrupt puts bytes into a queue, the task takes
 * them, and everything else goes on. Call start_server() before the scheduler starts. docs/protocol.md says what to link. */
#include "FreeRTOS.h"
#include "queue.h"
#include "server.h"
#include "task.h"

#define QUEUE_BYTES 1024
#define STACK_WORDS 1024 /* `glowembed validate` tells what an inference takes; add some 400 bytes */
#define PRIORITY 1
#define SILENCE_MS 2000

/* Yours: sends, and returns when the bytes are on their way. */
void uart_send(const uint8_t *bytes, uint32_t count);

static QueueHandle_t incoming;

/* Call it from your receive interrupt. */
void uart_received(uint8_t byte);
void uart_received(uint8_t byte) {
    BaseType_t woken = pdFALSE;
    (void)xQueueSendFromISR(incoming, &byte, &woken);
    portYIELD_FROM_ISR(woken);
}

static void write_bytes(void *context, const uint8_t *bytes, uint32_t count) {
    (void)context;
    uart_send(bytes, count);
}

static void server_task(void *parameter) {
    static const ge_device device = {.board = "", .target = "cortex-m4"};
    static ge_server server;
    const ge_port port = {write_bytes, NULL};
    uint8_t byte;

    (void)parameter;
    ge_server_start(&server, &ge_the_bundle, &device, port);
    for (;;) {
        if (xQueueReceive(incoming, &byte, pdMS_TO_TICKS(SILENCE_MS)) == pdTRUE) {
            ge_server_byte(&server, byte);
        } else {
            ge_server_idle(&server);
        }
    }
}

void start_server(void);
void start_server(void) {
    incoming = xQueueCreate(QUEUE_BYTES, 1);
    (void)xTaskCreate(server_task, "glowembed", STACK_WORDS, NULL, PRIORITY, NULL);
}
