/* Answers the host's requests about one bundle (docs/protocol.md). It knows no hardware: link it into your own firmware
 * with a function that writes bytes, and pass it every byte that arrives. */
#ifndef GE_SERVER_H
#define GE_SERVER_H

#include "harness.h"
#include "protocol.h"

enum { /* requests; the answer has GE_ANSWER on top */
       GE_HELLO = 1,
       GE_WRITE = 2,
       GE_INFER = 3,
       GE_RUN = 4,
       GE_LAYERS = 5,
       GE_READ = 6,
       GE_CHECKSUM = 7,
       GE_STACK = 8,
       GE_CALIBRATE = 9,
       GE_ECHO = 10,
       GE_RESET = 11,
       GE_INFO = 12,
       GE_AGAIN = 13 /* asks for the answer to the request with this sequence, if it was the last one done */
};
#define GE_ANSWER 0x80u
#define GE_FAULT 0xFDu   /* the firmware has crashed; payload: ge_fault */
#define GE_BROKEN 0xFEu  /* a frame was damaged; payload: the run id of the session */
#define GE_REFUSED 0xFFu /* the request cannot be done; payload: one of the reasons below, i32 detail */

enum {
    GE_REFUSED_COMMAND = 1,  /* no such command */
    GE_REFUSED_PAYLOAD = 2,  /* too short, too long, or outside the memory that may be touched */
    GE_REFUSED_STATUS = 3,   /* the bundle returned an error; detail: its status */
    GE_REFUSED_OVERRUN = 4,  /* the bundle wrote outside its arena; detail: distance of the nearest changed byte */
    GE_REFUSED_STACK = 5,    /* the stack overflowed */
    GE_REFUSED_SEQUENCE = 6, /* neither the next request nor the last one again; detail: the sequence of the last one
                              * done */
    GE_REFUSED_ABSENT = 7    /* this firmware cannot do it */
};

#define GE_NEW_SAMPLE 0x80000000u /* flag in the offset of WRITE and INFER: fill the arena with junk first */

/* Describes the device to the server. Every function may be NULL, and every number 0. */
typedef struct {
    const char *board;  /* name of its folder in boards/; "" for your own firmware */
    const char *target; /* the core that the bundle was compiled for */
    uint32_t clock_hz;  /* frequency of the ticks */
    uint32_t ram_bytes, flash_bytes;
    const uint8_t *weights; /* the bundle's weights in flash, for their checksum */
    uint32_t weights_bytes;
    ge_measured (*run)(const ge_bundle *bundle);                  /* times one inference */
    ge_measured (*layer)(const ge_bundle *bundle, int32_t layer); /* times one layer */
    int32_t (*stack)(const ge_bundle *bundle, uint32_t *bytes);   /* like ge_measure_stack */
    void (*calibrate)(ge_ticks ticks[4]);                         /* measures what measuring costs; see
                                                                   * transport_files.c */
    void (*reset)(void);                                          /* restarts the firmware */
} ge_device;

#define GE_SMALL_BYTES 48u /* the most bytes of an answer that is not a tensor: four ge_ticks */

/* The state of the server, about 600 bytes with the default chunk. Only the server uses its fields. */
typedef struct {
    const ge_bundle *bundle;
    const ge_device *device;
    ge_port port;
    uint32_t run_id; /* of the session; 0 before the first HELLO */
    uint32_t sessions;
    uint32_t last_crc; /* CRC of the last request done; the same request again is answered, but not done again */
    uint16_t last_sequence;
    uint8_t answer; /* the last answer */
    uint8_t junk;   /* the byte that fills the arena before the next sample */
    uint32_t length;
    const uint8_t *payload;
    ge_receiver receiver;
    uint8_t small[GE_SMALL_BYTES];
    uint8_t buffer[GE_FRAME_BYTES];
} ge_server;

void ge_server_start(ge_server *server, const ge_bundle *bundle, const ge_device *device, ge_port port);

/* Takes one byte of the line; when it completes a request, does and answers the request. Do not call it from an
 * interrupt, because a request may be a whole inference. */
void ge_server_byte(ge_server *server, uint8_t byte);

/* Call it when no byte has arrived for a second or two. It drops a frame that was received in part. */
void ge_server_idle(ge_server *server);

/* Returns 1 while a frame has been received in part. */
int32_t ge_server_waits(const ge_server *server);

#endif
