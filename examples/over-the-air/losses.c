/* See losses.h. */
#include "losses.h"

#include <setjmp.h>
#include <string.h>

#include "slots.h"

#define PART 256u /* bytes that arrive at a time */

static NET_ARENA(arena);
static union {
    NET_ALIGNED uint64_t align;
    uint8_t bytes[SLOTS_SIZE];
} memory[2];
static uint8_t outputs[2][NET_OUTPUT_LOGITS_SIZE];
static uint32_t until_loss; /* erasures and writes that still succeed */
static jmp_buf loss;

/* An erasure that is interrupted leaves some bytes as they were and some without a meaning. */
static int32_t erase(int32_t slot) {
    if (until_loss-- == 0) {
        memset(memory[slot].bytes, 0xff, SLOTS_SIZE / 3u);
        memory[slot].bytes[SLOTS_SIZE / 3u] = 0x5a;
        longjmp(loss, 1);
    }
    memset(memory[slot].bytes, 0xff, SLOTS_SIZE);
    return 0;
}

/* A write that is interrupted leaves its last byte with some of its bits. Flash can only clear bits. */
static int32_t program(int32_t slot, uint32_t offset, const void *data, uint32_t size) {
    const uint8_t *const bytes = (const uint8_t *)data;
    const uint32_t whole = until_loss == 0 ? size / 2u : size;
    for (uint32_t i = 0; i < whole; i++) {
        memory[slot].bytes[offset + i] &= bytes[i];
    }
    if (until_loss-- == 0) {
        memory[slot].bytes[offset + whole] &= (uint8_t)(bytes[whole] | 0x0fu);
        longjmp(loss, 1);
    }
    return 0;
}

static const slots_flash flash = {{memory[0].bytes, memory[1].bytes}, erase, program};

static int32_t updated(const uint8_t *weights) {
    slots_update update;
    int32_t code = slots_begin(&flash, &update);
    for (uint32_t i = 0; i < NET_WEIGHTS_SIZE && code == NET_OK; i += PART) {
        code = slots_write(&update, weights + i, NET_WEIGHTS_SIZE - i < PART ? NET_WEIGHTS_SIZE - i : PART);
    }
    return code == NET_OK ? slots_end(&update) : code;
}

int32_t losses_run(const void *weights) {
    const net_places places = {weights};
    uint8_t *const input = (uint8_t *)NET_INPUT_IMAGE(&arena);
    for (uint32_t i = 0; i < NET_INPUT_IMAGE_SIZE; i++) {
        input[i] = (uint8_t)(37u * i);
    }
    return net_run(&arena, &places);
}

const void *losses_output(void) {
    return NET_OUTPUT_LOGITS(&arena);
}

/* Does the device run with these weights (0: those of before, 1: those of after) after a start? */
static int runs_with(int which, const uint8_t *delivered) {
    return losses_run(slots_weights(&flash, delivered)) == NET_OK &&
           memcmp(losses_output(), outputs[which], sizeof outputs[which]) == 0;
}

/* Is a file refused in which one bit has changed on its way, or in which the structure is another? */
static int refuses(const uint8_t *weights, const uint8_t *delivered, uint32_t byte) {
    slots_update update;
    int32_t code = slots_begin(&flash, &update);
    const uint8_t wrong = (uint8_t)(weights[byte] ^ 1u);
    code = code == NET_OK ? slots_write(&update, weights, byte) : code;
    code = code == NET_OK ? slots_write(&update, &wrong, 1) : code;
    code = code == NET_OK ? slots_write(&update, weights + byte + 1u, NET_WEIGHTS_SIZE - byte - 1u) : code;
    return code == NET_OK && slots_end(&update) == (byte < 8u ? NET_ERROR_STRUCTURE : NET_ERROR_DAMAGED) &&
           runs_with(0, delivered);
}

int32_t losses_tried(const uint8_t *before, const uint8_t *after) {
    static uint32_t count; /* these are static, as longjmp comes back to them */
    static int32_t losses;
    static int done;
    const uint8_t *const all[2] = {before, after};
    for (int i = 0; i < 2; i++) {
        if (net_check_weights(all[i]) != NET_OK || losses_run(all[i]) != NET_OK) {
            return LOSSES_NO_WEIGHTS;
        }
        memcpy(outputs[i], losses_output(), sizeof outputs[i]);
    }
    done = 0;
    losses = 0;
    for (count = 0; !done; count++) {
        memset(memory, 0xff, sizeof memory);
        until_loss = UINT32_MAX;
        if (count % 2u != 0 && updated(before) != NET_OK) { /* every second time the delivered weights are in use */
            return LOSSES_NO_UPDATE;
        }
        until_loss = count / 2u;
        if (setjmp(loss) == 0) {
            done = updated(after) == NET_OK && count % 2u != 0;
        } else {
            losses++;
        }
        until_loss = UINT32_MAX;
        if (!runs_with(0, before) && !runs_with(1, before)) {
            return LOSSES_NO_WEIGHTS;
        }
        if (updated(after) != NET_OK || !runs_with(1, before)) {
            return LOSSES_NO_UPDATE;
        }
    }
    if (updated(before) != NET_OK || !refuses(after, before, 0) || !refuses(after, before, 12) ||
        !refuses(after, before, NET_WEIGHTS_SIZE - 1u)) {
        return LOSSES_TAKEN;
    }
    return losses;
}
