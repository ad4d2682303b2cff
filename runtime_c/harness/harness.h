/* The harness: firmware that runs one bundle for a host. main.c boots and hands over to the one transport that is
 * linked in (runtime_c/SConscript says which files make one); the rest is shared by all transports. */
#ifndef GE_HARNESS_H
#define GE_HARNESS_H

#include <stddef.h>
#include <stdint.h>

#include "board.h"

#define GE_PROTOCOL 1 /* of the transports and of the text that they report in; raised when either changes */

/* Exit codes of the firmware; the host turns them into messages. 0 is success. */
#define GE_EXIT_USAGE 64   /* the command line or a file is not what it should be */
#define GE_EXIT_OVERRUN 65 /* the bundle has written outside its arena */
#define GE_EXIT_RUN 66     /* the bundle has returned an error */
#define GE_EXIT_STACK 67   /* the stack ran out; where memory below it faults, a fault comes first */
#define GE_EXIT_FAULT 70   /* the core has raised an exception */

/* A tensor in the window: bytes from the start of the arena. */
typedef struct {
    uint32_t offset;
    uint32_t bytes;
} ge_span;

/* What the build says about the bundle (ge_bundle.c, made from bundle.json). */
typedef struct {
    const char *name;
    const char *hash; /* of the bundle, hexadecimal */
    int32_t (*run)(void *arena);
    int32_t (*run_layers)(void *arena, int32_t first, int32_t count);
    uint8_t *arena; /* GE_GUARD_BYTES of guard lie directly before and after it */
    uint32_t arena_size;
    uint32_t
        window; /* bytes from the start of the arena that the host may use: after the guard, what lies outside it */
    uint32_t input_count, output_count, layer_count;
    const ge_span *inputs;
    const ge_span *outputs;
    const ge_span *layer_outputs;       /* of all layers, one after the other */
    const uint32_t *layer_output_first; /* index of each layer's first in layer_outputs; one more at the end */
} ge_bundle;
extern const ge_bundle ge_the_bundle;

/* transport: serves the host until it is done; returns the exit code. */
int32_t ge_transport(const ge_bundle *bundle);
/* Ends the firmware, in the way of the transport. */
void ge_finish(int32_t code) __attribute__((noreturn));

/* guard: bytes around the arena that must not change. */
#define GE_GUARD_BYTES 64
void ge_guard_arena(const ge_bundle *bundle);
/* 0 where the guard is whole, else how far from the arena the nearest changed byte is: negative before, positive
 * after it. */
int32_t ge_guard_broken(const ge_bundle *bundle);

/* measure: one call of the bundle, with its ticks. `status` is what the bundle returned. */
typedef struct {
    int32_t status;
    ge_ticks ticks;
} ge_measured;
ge_measured ge_measure_run(int32_t (*run)(void *arena), void *arena);
ge_measured ge_measure_layer(int32_t (*run_layers)(void *arena, int32_t first, int32_t count), void *arena,
                             int32_t layer);
/* A loop of known length (2 * count + 1 instructions) with an interrupt every `period` ticks: from two periods the
 * host knows what an interrupt costs. */
ge_ticks ge_measure_loop(uint32_t count, uint32_t period);
/* What measuring costs: calls of functions that are a single return. */
ge_ticks ge_measure_empty_run(void);
ge_ticks ge_measure_empty_layer(void);
/* Bytes of stack that one run takes below its caller; no interrupts meanwhile. Returns 0, or -1 where it ran out. */
int32_t ge_measure_stack(const ge_bundle *bundle, uint32_t *bytes);

#endif
