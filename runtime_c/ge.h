/* glowembed runtime: the types that every kernel shares.
 *
 * No allocation, no globals, no libc beyond stdint, stddef and string.
 */
#ifndef GE_H
#define GE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Kernels are not inlined, so that a network needs the stack of its deepest kernel and not of all kernels together. */
#if defined(__GNUC__)
#define GE_NOINLINE __attribute__((noinline))
#else
#define GE_NOINLINE
#endif

/* A word of memory that may also be read and written as other types. */
#if defined(__GNUC__)
typedef uint32_t __attribute__((may_alias)) ge_word;
#else
typedef uint32_t ge_word;
#endif

/* Return codes of a bundle; negative means that nothing was computed. */
#define GE_OK 0
#define GE_ERROR_ARENA (-1)  /* the arena is NULL or not aligned to NAME_ARENA_ALIGN */
#define GE_ERROR_LAYER (-2)  /* a layer outside 0..NAME_LAYER_COUNT was asked for */
#define GE_ERROR_PLACES (-3) /* something that lies outside the arena is NULL or not aligned */

/* Delivers rows of an input: row(context, y, data) writes row y to data. The header of a bundle declares the same
 * type. */
#ifndef GE_SOURCE
#define GE_SOURCE
typedef struct {
    void (*row)(void *context, int32_t row, void *data);
    void *context;
} ge_source;
#endif

/* Slots of a row table are counted in units of this many bytes. */
#define GE_SLOT_UNIT 4

/* An offset in these units. A bundle whose offsets do not fit in 16 bits has int32_t here. */
typedef uint16_t ge_slot;

/* A tensor in the arena as rows. A row is the unit in which kernels are called: [W, C] of an [H, W, C] tensor. Without
 * slots, the tensor is in one piece and row y lies at data + y * stride. With slots, row y lies at data + slots[y] *
 * GE_SLOT_UNIT; a row is kept only while it is needed, wherever there is room. The memory belongs to the arena. */
typedef struct {
    void *data;           /* row 0, or the base of the slots */
    const ge_slot *slots; /* one entry per row of the tensor; NULL: the rows follow each other */
    int32_t stride;       /* bytes from row to row, used when slots is NULL */
} ge_rows;

static inline void *ge_row(const ge_rows *t, int32_t y) {
    const int32_t offset = t->slots != NULL ? t->slots[y] * GE_SLOT_UNIT : y * t->stride;
    return (uint8_t *)t->data + offset;
}

#endif
