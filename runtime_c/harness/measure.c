/* Measures ticks and stack of one call. The overhead of measuring is found in the same way, on empty functions. noipa
 * keeps the compiler from optimizing them away. */
#include "core.h"
#include "harness.h"

#define NOIPA __attribute__((noipa))
#define PAINT 0xC0DEC0DEu

NOIPA ge_measured ge_measure_run(int32_t (*run)(void *arena), void *arena) {
    ge_measured result;
    ge_ticks_start(GE_TICKS_PERIOD_MAX);
    result.status = run(arena);
    result.ticks = ge_ticks_read();
    ge_ticks_stop();
    return result;
}

NOIPA ge_measured ge_measure_layer(int32_t (*run_layers)(void *arena, int32_t first, int32_t count), void *arena,
                                   int32_t layer) {
    ge_measured result;
    ge_ticks_start(GE_TICKS_PERIOD_MAX);
    result.status = run_layers(arena, layer, 1);
    result.ticks = ge_ticks_read();
    ge_ticks_stop();
    return result;
}

NOIPA ge_ticks ge_measure_loop(uint32_t count, uint32_t period) {
    ge_ticks_start(period);
    ge_core_loop(count);
    const ge_ticks now = ge_ticks_read();
    ge_ticks_stop();
    return now;
}

__attribute__((naked)) static int32_t empty_run(void *arena) {
    __asm__ volatile(GE_CORE_RETURN);
    (void)arena;
}

__attribute__((naked)) static int32_t empty_layer(void *arena, int32_t first, int32_t count) {
    __asm__ volatile(GE_CORE_RETURN);
    (void)arena;
    (void)first;
    (void)count;
}

ge_ticks ge_measure_empty_run(void) {
    return ge_measure_run(empty_run, NULL).ticks;
}

ge_ticks ge_measure_empty_layer(void) {
    return ge_measure_layer(empty_layer, NULL, 0).ticks;
}

/* Paints the stack from its limit up to the own stack pointer. The run has used what it has overwritten. */
NOIPA int32_t ge_measure_stack(const ge_bundle *bundle, uint32_t *bytes) {
    volatile uint32_t *const limit = ge_stack_limit;
    uint32_t *const here = ge_core_stack_pointer();
    for (volatile uint32_t *word = limit; word < here; ++word) {
        *word = PAINT;
    }

    (void)bundle->run(bundle->arena);

    volatile uint32_t *lowest = limit;
    while (lowest < here && *lowest == PAINT) {
        ++lowest;
    }
    *bytes = (uint32_t)((uintptr_t)here - (uintptr_t)lowest);
    return (lowest == limit) ? -1 : 0;
}
