/* libFuzzer: the frame parser and the server, with a bundle of three lines. Build and run: benchmarks/fuzz.sh.
 *
 * The first byte chooses: even, the rest are bytes of the line; odd, they are requests (length, command, payload) that are
 * framed in the right session and order, so that the commands behind the checksum are reached as often. */
#include <stdlib.h>
#include <string.h>

#include "server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARENA 64
static uint8_t memory[GE_GUARD_BYTES + ARENA + GE_GUARD_BYTES];
static const ge_span input = {0, 16};
static const ge_span outputs[2] = {{16, 16}, {32, 32}};
static const uint32_t firsts[3] = {0, 1, 2};
static ge_bundle bundle;
static ge_server server;

static int32_t run_layers(void *arena, int32_t first, int32_t count) {
    uint8_t *const bytes = arena;
    if (first < 0 || count < 0 || first + count > 2) {
        abort();
    }
    memcpy(bytes + 16, bytes, 16);
    return (bytes[0] == 0xEEu) ? -2 : 0;
}

static int32_t run(void *arena) {
    return run_layers(arena, 0, 2);
}

/* Everything that is sent must be frames that the receiver takes. */
static uint8_t sent_buffer[GE_FRAME_BYTES];
static ge_receiver sent = {sent_buffer, sizeof sent_buffer, 0, 0, 0, 0};
static uint8_t line[2 * GE_FRAME_BYTES];
static uint32_t line_length;

static void check_sent(void *context, const uint8_t *bytes, uint32_t count) {
    (void)context;
    for (uint32_t i = 0; i < count; ++i) {
        if (ge_receive(&sent, bytes[i]) == GE_RECEIVE_BROKEN) {
            abort();
        }
    }
}

static void to_line(void *context, const uint8_t *bytes, uint32_t count) {
    (void)context;
    memcpy(line + line_length, bytes, count);
    line_length += count;
}

static void feed(const uint8_t *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        ge_server_byte(&server, bytes[i]);
    }
}

static void feed_request(uint32_t run_id, uint8_t command, uint16_t sequence, const uint8_t *payload, uint32_t length) {
    const ge_port port = {to_line, NULL};
    line_length = 0;
    ge_send(&port, run_id, command, sequence, payload, length);
    feed(line, line_length);
}

static void feed_requests(const uint8_t *data, uint32_t size) {
    const uint8_t nonce[4] = {1, 2, 3, 4};
    feed_request(0, GE_HELLO, 0, nonce, 4);
    if (server.run_id == 0u) {
        abort();
    }
    while (size >= 2u) {
        uint8_t command = data[1];
        uint32_t length = (data[0] < size - 2u) ? data[0] : size - 2u;
        if (command == GE_RUN && length == 4u) {
            length = 3; /* not four thousand million runs */
        }
        feed_request(server.run_id, command, (uint16_t)(server.last_sequence + 1u), data + 2, length);
        data += 2u + length;
        size -= 2u + length;
    }
}

static void check_answer(void) {
    if (server.length > 0u && server.payload == NULL) {
        abort();
    }
    if (ge_guard_broken(&bundle) != 0) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const ge_device device = {"board", "target", 1,    2,    3,    (const uint8_t *)"weights",
                                     7,       NULL,     NULL, NULL, NULL, NULL};
    const ge_port port = {check_sent, NULL};
    const ge_bundle made = {"fuzz",
                            "0123456789abcdef",
                            run,
                            run_layers,
                            memory + GE_GUARD_BYTES,
                            ARENA,
                            ARENA,
                            1,
                            2,
                            2,
                            &input,
                            outputs,
                            outputs,
                            firsts};
    bundle = made;
    ge_receiver_clear(&sent);
    ge_server_start(&server, &bundle, &device, port);
    if (size > 0u && (data[0] & 1u) != 0u) {
        feed_requests(data + 1, (uint32_t)size - 1u);
    } else if (size > 0u) {
        feed(data + 1, (uint32_t)size - 1u);
    }
    check_answer();
    return 0;
}
