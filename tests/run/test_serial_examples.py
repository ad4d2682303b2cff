"""The examples of the serial server in a firmware of one's own: compiled as they stand, linked with small stand-ins of
the HAL and the RTOS, and asked for inferences.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import fake_bundle
import numpy as np
import pytest

from glowembed import resources
from glowembed.graph.target import load_board
from glowembed.image.build import build
from glowembed.image.glue import read_manifest
from glowembed.run import serial
from glowembed.run.line import program_line
from glowembed.run.store import Store

INPUT = """#include <poll.h>
#include <stdlib.h>
#include <unistd.h>
/* 1: a byte of the standard input, 0: none within the time; ends with the input. */
static int next_byte(uint8_t *byte, int milliseconds) {
    struct pollfd input = {0, POLLIN, 0};
    if (poll(&input, 1, milliseconds) <= 0) {
        return 0;
    }
    if (read(0, byte, 1) != 1) {
        exit(0);
    }
    return 1;
}
"""
HAL_H = """#include <stdint.h>
typedef struct { uint8_t *into; } UART_HandleTypeDef;
typedef enum { HAL_OK = 0 } HAL_StatusTypeDef;
HAL_StatusTypeDef HAL_UART_Transmit(UART_HandleTypeDef *uart, uint8_t *bytes, uint16_t count, uint32_t timeout);
HAL_StatusTypeDef HAL_UART_Receive_IT(UART_HandleTypeDef *uart, uint8_t *into, uint16_t count);
uint32_t HAL_GetTick(void);
void HAL_UART_RxCpltCallback(UART_HandleTypeDef *uart);
void HAL_UART_ErrorCallback(UART_HandleTypeDef *uart);
"""
# The clock is where interrupts come in: both callbacks, as after an error nothing is lost here.
HAL_C = f"""#include "main.h"
{INPUT}
UART_HandleTypeDef huart3;
void serve(void);
HAL_StatusTypeDef HAL_UART_Transmit(UART_HandleTypeDef *uart, uint8_t *bytes, uint16_t count, uint32_t timeout) {{
    (void)uart;
    (void)timeout;
    return write(1, bytes, count) == count ? HAL_OK : (HAL_StatusTypeDef)1;
}}
HAL_StatusTypeDef HAL_UART_Receive_IT(UART_HandleTypeDef *uart, uint8_t *into, uint16_t count) {{
    (void)count;
    uart->into = into;
    return HAL_OK;
}}
uint32_t HAL_GetTick(void) {{
    static uint32_t now;
    HAL_UART_ErrorCallback(&huart3);
    if (next_byte(huart3.into, 1)) {{
        HAL_UART_RxCpltCallback(&huart3);
    }}
    return ++now;
}}
int main(void) {{ serve(); }}
"""
RTOS_H = """#include <stdint.h>
typedef void *QueueHandle_t;
typedef int BaseType_t;
#define pdFALSE 0
#define pdTRUE 1
#define pdMS_TO_TICKS(ms) (ms)
#define portYIELD_FROM_ISR(woken) ((void)(woken))
BaseType_t xQueueSendFromISR(QueueHandle_t queue, const void *item, BaseType_t *woken);
BaseType_t xQueueReceive(QueueHandle_t queue, void *item, uint32_t ticks);
QueueHandle_t xQueueCreate(uint32_t length, uint32_t size);
BaseType_t xTaskCreate(void (*task)(void *), const char *name, uint16_t stack, void *parameter, uint32_t priority,
                       void *handle);
"""
# One task, which is run where it is made; the interrupt comes as it waits.
RTOS_C = f"""#include "FreeRTOS.h"
{INPUT}
static uint8_t queued;
static int full;
void uart_received(uint8_t byte);
void uart_send(const uint8_t *bytes, uint32_t count);
void start_server(void);
BaseType_t xQueueSendFromISR(QueueHandle_t queue, const void *item, BaseType_t *woken) {{
    (void)queue;
    queued = *(const uint8_t *)item;
    full = 1;
    *woken = pdTRUE;
    return pdTRUE;
}}
BaseType_t xQueueReceive(QueueHandle_t queue, void *item, uint32_t ticks) {{
    uint8_t byte;
    (void)queue;
    if (next_byte(&byte, (int)ticks)) {{
        uart_received(byte);
    }}
    const int was_full = full;
    full = 0;
    *(uint8_t *)item = queued;
    return was_full ? pdTRUE : pdFALSE;
}}
QueueHandle_t xQueueCreate(uint32_t length, uint32_t size) {{
    return length >= size ? &queued : (void *)0;
}}
BaseType_t xTaskCreate(void (*task)(void *), const char *name, uint16_t stack, void *parameter, uint32_t priority,
                       void *handle) {{
    (void)name;
    (void)stack;
    (void)priority;
    (void)handle;
    task(parameter);
    return pdTRUE;
}}
void uart_send(const uint8_t *bytes, uint32_t count) {{
    if (write(1, bytes, count) != (ssize_t)count) {{
        exit(1);
    }}
}}
int main(void) {{ start_server(); }}
"""
EXAMPLES = {
    "hal_callbacks.c": {"main.h": HAL_H, "stand_in.c": HAL_C},
    "rtos_task.c": {"FreeRTOS.h": RTOS_H, "queue.h": "", "task.h": "", "stand_in.c": RTOS_C},
}
FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wmissing-prototypes", "-Werror"]


@pytest.mark.cc
@pytest.mark.parametrize("name", EXAMPLES)
def test_it_answers(root: Path, tmp_path: Path, name: str) -> None:
    bundle = fake_bundle.write(tmp_path / "bundle", "x86-64")
    image = build(bundle, load_board("host"), tmp_path / "build", "serial")
    for file, text in EXAMPLES[name].items():
        (tmp_path / file).write_text(text)
    harness = resources.runtime_c() / "harness"
    sources = [
        *(root / "examples/serial" / name, tmp_path / "stand_in.c"),
        *(harness / file for file in ("server.c", "protocol.c", "guard.c")),
        *(image.elf.parent / "glue/ge_bundle.c", *bundle.glob("*.c")),
    ]
    folders = [
        tmp_path,
        harness,
        resources.runtime_c(),
        resources.boards() / "common",
        bundle,
        image.elf.parent / "glue",
    ]
    program = tmp_path / "program"
    words = ["gcc", *FLAGS, *(f"-I{folder}" for folder in folders), "-o", program, *sources]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.stderr == ""
    samples = fake_bundle.samples(5)
    with program_line([str(program)], name) as line:
        session = serial.open_session(line, None, read_manifest(bundle))
        result = serial.run(session, samples, Store())
    assert np.array_equal(result.outputs[0], fake_bundle.reference(samples)[1])
