/* Frames of the serial line; see protocol.h. */
#include "protocol.h"

#define BLOCK 0xFFu /* code of a full COBS block: 254 bytes that no zero follows */

/* CRC32 with the reversed polynomial 0xEDB88320, four bits at a time: a table of 64 bytes, about 12 cycles per byte on
 * a Cortex-M4. */
uint32_t ge_crc32(uint32_t crc, const uint8_t *bytes, uint32_t count) {
    static const uint32_t table[16] = {
        0x00000000u, 0x1DB71064u, 0x3B6E20C8u, 0x26D930ACu, 0x76DC4190u, 0x6B6B51F4u, 0x4DB26158u, 0x5005713Cu,
        0xEDB88320u, 0xF00F9344u, 0xD6D6A3E8u, 0xCB61B38Cu, 0x9B64C2B0u, 0x86D3D2D4u, 0xA00AE278u, 0xBDBDF21Cu,
    };
    crc = ~crc;
    for (uint32_t i = 0; i < count; ++i) {
        crc ^= bytes[i];
        crc = table[crc & 15u] ^ (crc >> 4);
        crc = table[crc & 15u] ^ (crc >> 4);
    }
    return ~crc;
}

void ge_receiver_clear(ge_receiver *receiver) {
    receiver->count = 0;
    receiver->code = BLOCK;
    receiver->left = 0;
    receiver->broken = 0;
}

static void append(ge_receiver *receiver, uint8_t byte) {
    if (receiver->count == receiver->size) {
        receiver->broken = 1;
        return;
    }
    receiver->bytes[receiver->count] = byte;
    receiver->count += 1u;
}

/* Begins a block with its code byte. The block before it ends in a zero, unless it was full or there was none. */
static void begin_block(ge_receiver *receiver, uint8_t code) {
    if (receiver->code != BLOCK) {
        append(receiver, 0);
    }
    receiver->code = code;
    receiver->left = (uint8_t)(code - 1u);
}

static int32_t end_frame(ge_receiver *receiver) {
    const int32_t begun = (receiver->code != BLOCK || receiver->count > 0u || receiver->left > 0u);
    const int32_t whole = (receiver->left == 0u && receiver->broken == 0u);
    const int32_t count = (int32_t)receiver->count;
    const int32_t broken = receiver->broken;
    ge_receiver_clear(receiver);
    if (!begun && !broken) {
        return GE_RECEIVE_MORE; /* two zeros in a row */
    }
    return whole ? count : GE_RECEIVE_BROKEN;
}

int32_t ge_receive(ge_receiver *receiver, uint8_t byte) {
    if (byte == 0u) {
        return end_frame(receiver);
    }
    if (receiver->broken != 0u) {
        return GE_RECEIVE_MORE;
    }
    if (receiver->left == 0u) {
        begin_block(receiver, byte);
    } else {
        append(receiver, byte);
        receiver->left = (uint8_t)(receiver->left - 1u);
    }
    return GE_RECEIVE_MORE;
}

/* A frame to be sent. Its head, payload and tail lie in different places; bytes are counted over all of them. */
typedef struct {
    const uint8_t *payload;
    uint32_t length;
    uint8_t head[GE_FRAME_HEAD];
    uint8_t tail[GE_FRAME_TAIL];
} frame;

static uint8_t byte_at(const frame *sent, uint32_t at) {
    if (at < GE_FRAME_HEAD) {
        return sent->head[at];
    }
    at -= GE_FRAME_HEAD;
    return (at < sent->length) ? sent->payload[at] : sent->tail[at - sent->length];
}

/* Returns how many bytes from `at` on are not zero, at most 254. */
static uint32_t block_length(const frame *sent, uint32_t at, uint32_t total) {
    uint32_t count = 0;
    while (count < BLOCK - 1u && at + count < total && byte_at(sent, at + count) != 0u) {
        ++count;
    }
    return count;
}

/* A buffer for outgoing bytes, so that the line is given several at a time. */
typedef struct {
    const ge_port *port;
    uint32_t count;
    uint8_t bytes[32];
} outbox;

static void flush(outbox *out) {
    out->port->write(out->port->context, out->bytes, out->count);
    out->count = 0;
}

static void put(outbox *out, uint8_t byte) {
    out->bytes[out->count] = byte;
    out->count += 1u;
    if (out->count == sizeof out->bytes) {
        flush(out);
    }
}

/* A full block or a zero is followed by another block, even if that is empty; the last block ends with the frame. */
static void put_blocks(outbox *out, const frame *sent) {
    const uint32_t total = GE_FRAME_HEAD + sent->length + GE_FRAME_TAIL;
    uint32_t at = 0;
    int32_t more = 1;
    while (more) {
        const uint32_t count = block_length(sent, at, total);
        put(out, (uint8_t)(count + 1u));
        for (uint32_t i = 0; i < count; ++i) {
            put(out, byte_at(sent, at + i));
        }
        at += count;
        more = (at < total);
        if (more && count < BLOCK - 1u) {
            ++at; /* the zero that the code represents */
        }
    }
}

void ge_send(const ge_port *port, uint32_t run_id, uint8_t command, uint16_t sequence, const uint8_t *payload,
             uint32_t length) {
    frame sent = {payload, length, {command, 0, 0}, {0, 0, 0, 0}};
    outbox out = {port, 0, {0}};
    ge_put_u16(sent.head + 1, sequence);
    ge_put_u32(sent.tail, ge_crc32(ge_crc32(run_id, sent.head, GE_FRAME_HEAD), payload, length));
    put_blocks(&out, &sent);
    put(&out, 0);
    if (out.count > 0u) {
        flush(&out);
    }
}

uint32_t ge_get_u32(const uint8_t *bytes) {
    return (uint32_t)ge_get_u16(bytes) | ((uint32_t)ge_get_u16(bytes + 2) << 16);
}

uint16_t ge_get_u16(const uint8_t *bytes) {
    return (uint16_t)(bytes[0] | (uint16_t)(bytes[1] << 8));
}

void ge_put_u32(uint8_t *bytes, uint32_t value) {
    ge_put_u16(bytes, (uint16_t)value);
    ge_put_u16(bytes + 2, (uint16_t)(value >> 16));
}

void ge_put_u16(uint8_t *bytes, uint16_t value) {
    bytes[0] = (uint8_t)value;
    bytes[1] = (uint8_t)(value >> 8);
}
