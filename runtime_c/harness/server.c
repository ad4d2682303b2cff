/* Answers the host's requests; see server.h and docs/protocol.md. */
#include "server.h"

#include <string.h>

#define TICKS_BYTES 12u

static void answer(ge_server *server, uint8_t code, const uint8_t *payload, uint32_t length) {
    server->answer = code;
    server->payload = payload;
    server->length = length;
}

static void refuse(ge_server *server, uint8_t reason, int32_t detail) {
    server->small[0] = reason;
    ge_put_u32(server->small + 1, (uint32_t)detail);
    answer(server, GE_REFUSED, server->small, 5);
}

static void put_ticks(uint8_t *bytes, ge_ticks ticks) {
    ge_put_u32(bytes, (uint32_t)ticks.ticks);
    ge_put_u32(bytes + 4, (uint32_t)(ticks.ticks >> 32));
    ge_put_u32(bytes + 8, ticks.interrupts);
}

static ge_measured run_once(const ge_server *server) {
    if (server->device->run != NULL) {
        return server->device->run(server->bundle);
    }
    const ge_measured result = {server->bundle->run(server->bundle->arena), {0, 0}};
    return result;
}

static ge_measured run_layer(const ge_server *server, int32_t layer) {
    if (server->device->layer != NULL) {
        return server->device->layer(server->bundle, layer);
    }
    const ge_measured result = {server->bundle->run_layers(server->bundle->arena, layer, 1), {0, 0}};
    return result;
}

/* Checks everything that may have gone wrong in a call of the bundle. Returns 1 if all is well, else refuses the
 * request and returns 0. */
static int32_t went_well(ge_server *server, int32_t status) {
    if (status != 0) {
        refuse(server, GE_REFUSED_STATUS, status);
        return 0;
    }
    const int32_t distance = ge_guard_broken(server->bundle);
    if (distance != 0) {
        ge_guard_arena(server->bundle);
        refuse(server, GE_REFUSED_OVERRUN, distance);
        return 0;
    }
    return 1;
}

typedef struct {
    const uint8_t *bytes;
    uint32_t length;
} request;

/* HELLO nonce: begins a session, whose run id depends on the nonce and on the bundle. The answer is short, so that it
 * survives a bad line, and up to the nonce it is the same in every version of the protocol. */
static void hello(ge_server *server, request asked) {
    const char *const hash = server->bundle->hash;
    const uint32_t of_hash = ge_crc32(0, (const uint8_t *)hash, (uint32_t)strlen(hash));
    const uint32_t crc = ge_crc32(of_hash, asked.bytes, 4);
    const uint32_t run_id = (crc == 0u) ? 1u : crc;
    server->sessions += (run_id != server->run_id) ? 1u : 0u;
    server->run_id = run_id;
    server->last_sequence = 0;
    server->last_crc = 0;
    server->small[0] = GE_PROTOCOL_VERSION;
    memcpy(server->small + 1, asked.bytes, 4);
    ge_put_u16(server->small + 5, GE_CHUNK);
    ge_put_u32(server->small + 7, server->sessions);
    ge_put_u32(server->small + 11, of_hash);
    answer(server, GE_HELLO | GE_ANSWER, server->small, 15);
}

/* INFO u8 what: 0 the numbers; 1 hash, 2 target, 3 board, 4 name of the bundle, as text. */
static void info(ge_server *server, request asked) {
    const ge_bundle *const bundle = server->bundle;
    const ge_device *const device = server->device;
    const uint32_t numbers[6] = {device->clock_hz,    bundle->arena_size,    device->ram_bytes,
                                 device->flash_bytes, device->weights_bytes, bundle->layer_count};
    const char *const texts[4] = {bundle->hash, device->target, device->board, bundle->name};
    const uint32_t what = (asked.length == 1u) ? asked.bytes[0] : 5u;
    if (what > 4u) {
        refuse(server, GE_REFUSED_PAYLOAD, (int32_t)asked.length);
        return;
    }
    if (what == 0u) {
        for (uint32_t i = 0; i < 6u; ++i) {
            ge_put_u32(server->small + 4u * i, numbers[i]);
        }
        answer(server, GE_INFO | GE_ANSWER, server->small, 24);
        return;
    }
    const char *const text = texts[what - 1u];
    answer(server, GE_INFO | GE_ANSWER, (const uint8_t *)text, (uint32_t)strlen(text));
}

static int32_t inside(uint32_t offset, uint32_t length, uint32_t size) {
    return offset <= size && length <= size - offset;
}

/* Fills the arena with another byte before each new sample, so that a bundle that reads memory it has not written gives
 * different bits. Returns 1, or 0 after a refusal. */
static int32_t write_bytes(ge_server *server, request asked) {
    const uint32_t word = (asked.length < 4u) ? 0u : ge_get_u32(asked.bytes);
    const uint32_t offset = word & ~GE_NEW_SAMPLE;
    const ge_bundle *const bundle = server->bundle;
    if (asked.length < 4u || !inside(offset, asked.length - 4u, bundle->window)) {
        refuse(server, GE_REFUSED_PAYLOAD, (int32_t)asked.length);
        return 0;
    }
    if ((word & GE_NEW_SAMPLE) != 0u) {
        server->junk = (uint8_t)(server->junk + 37u);
        memset(bundle->arena, server->junk, bundle->arena_size);
    }
    memcpy(bundle->arena + offset, asked.bytes + 4, asked.length - 4u);
    return 1;
}

/* WRITE u32 offset, bytes: writes to the window. */
static void write_request(ge_server *server, request asked) {
    if (write_bytes(server, asked)) {
        answer(server, GE_WRITE | GE_ANSWER, server->small, 0);
    }
}

/* INFER u32 offset, bytes: does WRITE and one inference; answers with the first chunk of the first output. */
static void infer(ge_server *server, request asked) {
    if (write_bytes(server, asked) && went_well(server, run_once(server).status)) {
        const ge_span first = server->bundle->outputs[0];
        const uint32_t length = (first.bytes < GE_CHUNK) ? first.bytes : GE_CHUNK;
        answer(server, GE_INFER | GE_ANSWER, server->bundle->arena + first.offset, length);
    }
}

/* RUN u32 times: answers with the ticks of the first, the shortest and the longest run. */
static void run(ge_server *server, request asked) {
    const uint32_t times = (asked.length == 4u) ? ge_get_u32(asked.bytes) : 0u;
    if (times == 0u) {
        refuse(server, GE_REFUSED_PAYLOAD, (int32_t)asked.length);
        return;
    }
    ge_ticks seen[3] = {{0, 0}, {0, 0}, {0, 0}};
    for (uint32_t i = 0; i < times; ++i) {
        const ge_measured measured = run_once(server);
        if (!went_well(server, measured.status)) {
            return;
        }
        seen[0] = (i == 0u) ? measured.ticks : seen[0];
        seen[1] = (i == 0u || measured.ticks.ticks < seen[1].ticks) ? measured.ticks : seen[1];
        seen[2] = (measured.ticks.ticks >= seen[2].ticks) ? measured.ticks : seen[2];
    }
    for (uint32_t i = 0; i < 3u; ++i) {
        put_ticks(server->small + TICKS_BYTES * i, seen[i]);
    }
    answer(server, GE_RUN | GE_ANSWER, server->small, 3u * TICKS_BYTES);
}

/* LAYERS u16 first, u16 count: runs these layers and stops; answers with the ticks of the last one. */
static void layers(ge_server *server, request asked) {
    const uint32_t first = (asked.length == 4u) ? ge_get_u16(asked.bytes) : 0u;
    const uint32_t count = (asked.length == 4u) ? ge_get_u16(asked.bytes + 2) : 0u;
    if (count == 0u || !inside(first, count, server->bundle->layer_count)) {
        refuse(server, GE_REFUSED_PAYLOAD, (int32_t)asked.length);
        return;
    }
    for (uint32_t i = first; i < first + count; ++i) {
        const ge_measured measured = run_layer(server, (int32_t)i);
        if (!went_well(server, measured.status)) {
            return;
        }
        put_ticks(server->small, measured.ticks);
    }
    answer(server, GE_LAYERS | GE_ANSWER, server->small, TICKS_BYTES);
}

/* READ u32 offset, u16 length: answers with bytes of the arena. */
static void read(ge_server *server, request asked) {
    const uint32_t offset = (asked.length == 6u) ? ge_get_u32(asked.bytes) : 0u;
    const uint32_t length = (asked.length == 6u) ? ge_get_u16(asked.bytes + 4) : 0u;
    if (length == 0u || length > GE_CHUNK || !inside(offset, length, server->bundle->window)) {
        refuse(server, GE_REFUSED_PAYLOAD, (int32_t)asked.length);
        return;
    }
    answer(server, GE_READ | GE_ANSWER, server->bundle->arena + offset, length);
}

/* CHECKSUM u8 memory (0 arena, 1 weights), u32 offset, u32 length: answers with the CRC32 of these bytes. */
static void checksum(ge_server *server, request asked) {
    const int32_t of_weights = (asked.length == 9u && asked.bytes[0] == 1u);
    const uint8_t *const memory = of_weights ? server->device->weights : server->bundle->arena;
    const uint32_t size = of_weights ? server->device->weights_bytes : server->bundle->window;
    if (asked.length != 9u || asked.bytes[0] > 1u || memory == NULL ||
        !inside(ge_get_u32(asked.bytes + 1), ge_get_u32(asked.bytes + 5), size)) {
        refuse(server, GE_REFUSED_PAYLOAD, (int32_t)asked.length);
        return;
    }
    const uint8_t *const start = memory + ge_get_u32(asked.bytes + 1);
    ge_put_u32(server->small, ge_crc32(0, start, ge_get_u32(asked.bytes + 5)));
    answer(server, GE_CHECKSUM | GE_ANSWER, server->small, 4);
}

/* STACK: runs one inference on an arena of zeros; answers with the bytes of stack that it took. */
static void stack(ge_server *server, request asked) {
    uint32_t bytes = 0;
    (void)asked;
    if (server->device->stack == NULL) {
        refuse(server, GE_REFUSED_ABSENT, 0);
        return;
    }
    memset(server->bundle->arena, 0, server->bundle->arena_size);
    if (server->device->stack(server->bundle, &bytes) != 0) {
        refuse(server, GE_REFUSED_STACK, (int32_t)bytes);
    } else if (went_well(server, 0)) {
        ge_put_u32(server->small, bytes);
        answer(server, GE_STACK | GE_ANSWER, server->small, 4);
    }
}

/* CALIBRATE: answers with what measuring costs. */
static void calibrate(ge_server *server, request asked) {
    ge_ticks ticks[4];
    (void)asked;
    if (server->device->calibrate == NULL) {
        refuse(server, GE_REFUSED_ABSENT, 0);
        return;
    }
    server->device->calibrate(ticks);
    for (uint32_t i = 0; i < 4u; ++i) {
        put_ticks(server->small + TICKS_BYTES * i, ticks[i]);
    }
    answer(server, GE_CALIBRATE | GE_ANSWER, server->small, 4u * TICKS_BYTES);
}

/* ECHO bytes: answers with the same bytes. */
static void echo(ge_server *server, request asked) {
    answer(server, GE_ECHO | GE_ANSWER, asked.bytes, asked.length);
}

/* RESET: is answered first and done after that (see do_request). */
static void reset(ge_server *server, request asked) {
    (void)asked;
    if (server->device->reset == NULL) {
        refuse(server, GE_REFUSED_ABSENT, 0);
    } else {
        answer(server, GE_RESET | GE_ANSWER, server->small, 0);
    }
}

static void unknown(ge_server *server, request asked) {
    (void)asked;
    refuse(server, GE_REFUSED_COMMAND, 0);
}

static void carry_out(ge_server *server, uint8_t command, request asked) {
    static void (*const commands[])(ge_server *, request) = {
        unknown, unknown, write_request, infer, run, layers, read, checksum, stack, calibrate, echo, reset, info,
    };
    if (command < sizeof commands / sizeof commands[0]) {
        commands[command](server, asked);
    } else {
        unknown(server, asked);
    }
}

static void send_answer(ge_server *server, uint32_t run_id, uint16_t sequence) {
    ge_send(&server->port, run_id, server->answer, sequence, server->payload, server->length);
    if (server->answer == (GE_RESET | GE_ANSWER)) {
        server->device->reset();
    }
}

static void refuse_sequence(const ge_server *server, uint16_t sequence) {
    uint8_t refusal[5] = {GE_REFUSED_SEQUENCE, 0, 0, 0, 0};
    ge_put_u32(refusal + 1, server->last_sequence);
    ge_send(&server->port, server->run_id, GE_REFUSED, sequence, refusal, sizeof refusal);
}

/* Does the next request. The last request again, or AGAIN with its sequence, gets its answer again. Anything else is
 * refused: it is an old request that was delayed, and doing it would spoil the sample. */
static void do_request(ge_server *server, uint8_t command, uint16_t sequence, request asked, uint32_t crc) {
    const int32_t asks_again = (command == GE_AGAIN);
    const int32_t again = (sequence == server->last_sequence && (asks_again || crc == server->last_crc));
    if (!again && (asks_again || sequence != (uint16_t)(server->last_sequence + 1u))) {
        refuse_sequence(server, sequence);
        return;
    }
    if (!again) {
        server->last_sequence = sequence;
        server->last_crc = crc;
        carry_out(server, command, asked);
    }
    send_answer(server, server->run_id, sequence);
}

static void say_broken(const ge_server *server) {
    uint8_t run_id[4];
    ge_put_u32(run_id, server->run_id);
    ge_send(&server->port, 0, GE_BROKEN, 0, run_id, sizeof run_id);
}

static void take_frame(ge_server *server, uint32_t count) {
    const uint8_t *const bytes = server->buffer;
    if (count < GE_FRAME_HEAD + GE_FRAME_TAIL) {
        return; /* noise: too short for a frame that the host waits for */
    }
    const uint32_t body = count - GE_FRAME_TAIL;
    const uint32_t crc = ge_get_u32(bytes + body);
    const request asked = {bytes + GE_FRAME_HEAD, body - GE_FRAME_HEAD};
    const uint16_t sequence = ge_get_u16(bytes + 1);
    if (bytes[0] == GE_HELLO && asked.length == 4u && crc == ge_crc32(0, bytes, body)) {
        hello(server, asked);
        send_answer(server, 0, sequence);
    } else if (server->run_id != 0u && crc == ge_crc32(server->run_id, bytes, body)) {
        do_request(server, bytes[0], sequence, asked, crc);
    } else {
        say_broken(server);
    }
}

void ge_server_start(ge_server *server, const ge_bundle *bundle, const ge_device *device, ge_port port) {
    memset(server, 0, sizeof *server);
    server->bundle = bundle;
    server->device = device;
    server->port = port;
    server->receiver.bytes = server->buffer;
    server->receiver.size = GE_FRAME_BYTES;
    ge_receiver_clear(&server->receiver);
    ge_guard_arena(bundle);
}

void ge_server_byte(ge_server *server, uint8_t byte) {
    const int32_t count = ge_receive(&server->receiver, byte);
    if (count >= 0) {
        take_frame(server, (uint32_t)count);
    } else if (count == GE_RECEIVE_BROKEN) {
        say_broken(server);
    }
}

void ge_server_idle(ge_server *server) {
    ge_receiver_clear(&server->receiver);
}

int32_t ge_server_waits(const ge_server *server) {
    const ge_receiver *const receiver = &server->receiver;
    return receiver->count > 0u || receiver->left > 0u || receiver->broken != 0u;
}
