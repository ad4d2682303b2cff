/* The harness is firmware that runs one bundle for a host. main.c starts the one transport that is linked in
 * (runtime_c/SConscript lists the files of each); all transports share the other files. */
#ifndef GE_HARNESS_H
#define GE_HARNESS_H

#include <stddef.h>
#include <stdint.h>

#include "board.h"

#define GE_PROTOCOL 1 /* version of the transports and of the text that they report; raise it when either changes */

/* Exit codes of the firmware; the host turns them into messages. 0 is success. */
#define GE_EXIT_USAGE 64   /* the command line or a file is wrong */
#define GE_EXIT_OVERRUN 65 /* the bundle has written outside its arena */
#define GE_EXIT_RUN 66     /* the bundle has returned an error */
#define GE_EXIT_STACK 67   /* the stack overflowed; if the memory below it faults, GE_EXIT_FAULT comes first */
#define GE_EXIT_FAULT 70   /* the core has raised an exception */

/* A tensor in the window: its offset from the start of the arena, and its size. */
typedef struct {
    uint32_t offset;
    uint32_t bytes;
} ge_span;

/* Facts about the bundle, which the build takes from bundle.json (ge_bundle.c). */
typedef struct {
    const char *name;
    const char *hash; /* of the bundle, in hexadecimal */
    int32_t (*run)(void *arena);
    int32_t (*run_layers)(void *arena, int32_t first, int32_t count);
    uint8_t *arena; /* GE_GUARD_BYTES of guard lie directly before and after it */
    uint32_t arena_size;
    /* The host may access this many bytes from the start of the arena on; tensors outside the arena follow its guard. */
    uint32_t window;
    uint32_t input_count, output_count, layer_count;
    const ge_span *inputs;
    const ge_span *outputs;
    const ge_span *layer_outputs;       /* the outputs of all layers, one after the other */
    const uint32_t *layer_output_first; /* each layer's first index in layer_outputs, and the end */
} ge_bundle;
extern const ge_bundle ge_the_bundle;

/* transport: serves the host until it is done. Returns the exit code. */
int32_t ge_transport(const ge_bundle *bundle);
/* Ends the firmware in the way that the transport provides. */
void ge_finish(int32_t code) __attribute__((noreturn));

/* guard: bytes around the arena that must not change. */
#define GE_GUARD_BYTES 64
void ge_guard_arena(const ge_bundle *bundle);
/* Returns 0 if no guard byte has changed, else how far from the arena the nearest changed byte is: negative before it,
 * positive after it. */
int32_t ge_guard_broken(const ge_bundle *bundle);

/* measure: the result of one call of the bundle, and its ticks. `status` is what the bundle returned. */
typedef struct {
    int32_t status;
    ge_ticks ticks;
} ge_measured;
ge_measured ge_measure_run(int32_t (*run)(void *arena), void *arena);
ge_measured ge_measure_layer(int32_t (*run_layers)(void *arena, int32_t first, int32_t count), void *arena,
                             int32_t layer);
/* Times a loop of known length (2 * count + 1 instructions) with an interrupt every `period` ticks. From two periods
 * the host computes the cost of an interrupt. */
ge_ticks ge_measure_loop(uint32_t count, uint32_t period);
/* Time calls of functions that return at once, which is what measuring itself costs. */
ge_ticks ge_measure_empty_run(void);
ge_ticks ge_measure_empty_layer(void);
/* Sets *bytes to the stack that one run takes below its caller, with interrupts off. Returns 0, or -1 if the stack
 * overflowed. */
int32_t ge_measure_stack(const ge_bundle *bundle, uint32_t *bytes);

#endif
