/* Frames of the serial line (docs/protocol.md): COBS between zeros, with a CRC32 at the end. This code knows neither
 * hardware nor bundles.
 *
 *     00 | COBS( command, sequence lo, sequence hi, payload ..., crc32 lo .. hi ) | 00
 *
 * The CRC is zlib's, started with the run id of the session (0 if there is none yet). A frame of another session or for
 * another bundle is therefore rejected like one with a wrong bit. */
#ifndef GE_PROTOCOL_H
#define GE_PROTOCOL_H

#include <stdint.h>

#define GE_PROTOCOL_VERSION 1

/* The most bytes of a tensor in one frame, at least 128. The receive buffer is a little larger. A larger number makes
 * long transfers faster on a clean line; a host asks for smaller chunks on a bad one. */
#ifndef GE_CHUNK
#define GE_CHUNK 512
#endif

#define GE_FRAME_HEAD 3u /* command, sequence */
#define GE_FRAME_TAIL 4u /* crc */
/* The size of the largest request: head, offset, chunk, tail. */
#define GE_FRAME_BYTES (GE_FRAME_HEAD + 4u + GE_CHUNK + GE_FRAME_TAIL)

/* The line, which the firmware must provide. write sends `count` bytes: it waits for room, and gives up if the line is
 * dead (the host then asks again). */
typedef struct {
    void (*write)(void *context, const uint8_t *bytes, uint32_t count);
    void *context; /* passed to write */
} ge_port;

/* CRC32 as in zlib: crc32(crc, bytes). Start with 0 or with a run id. */
uint32_t ge_crc32(uint32_t crc, const uint8_t *bytes, uint32_t count);

/* A COBS decoder. `bytes` holds the `count` bytes decoded so far. */
typedef struct {
    uint8_t *bytes;
    uint32_t size, count;
    uint8_t code, left; /* of the current block: its code byte, and how many of its bytes are still missing */
    uint8_t broken;     /* 1: the frame is too long or not valid COBS; the receiver waits for the next zero */
} ge_receiver;

#define GE_RECEIVE_MORE (-1)   /* the frame continues */
#define GE_RECEIVE_BROKEN (-2) /* a frame has ended that is not valid */

/* Forgets what has been received. */
void ge_receiver_clear(ge_receiver *receiver);

/* Takes one byte of the line. Returns the length of the frame if one has just ended, else one of the numbers above. */
int32_t ge_receive(ge_receiver *receiver, uint8_t byte);

/* Sends one frame with `length` bytes of payload. */
void ge_send(const ge_port *port, uint32_t run_id, uint8_t command, uint16_t sequence, const uint8_t *payload,
             uint32_t length);

/* Little-endian numbers in payloads. */
uint32_t ge_get_u32(const uint8_t *bytes);
uint16_t ge_get_u16(const uint8_t *bytes);
void ge_put_u32(uint8_t *bytes, uint32_t value);
void ge_put_u16(uint8_t *bytes, uint16_t value);

#endif
