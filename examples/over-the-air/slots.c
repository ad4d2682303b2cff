/* See slots.h. */
#include "slots.h"

#include <string.h>

/* The number of a slot with whole weights; 0 for any other. A record that was half written has two numbers that do not match. */
static uint32_t number_of(const slots_flash *flash, int32_t slot) {
    uint32_t record[2];
    memcpy(record, flash->address[slot] + SLOTS_RECORD, sizeof record);
    if (record[0] != ~record[1] || net_check_weights(flash->address[slot]) != NET_OK) {
        return 0;
    }
    return record[0];
}

const void *slots_weights(const slots_flash *flash, const void *delivered) {
    const uint32_t a = number_of(flash, 0);
    const uint32_t b = number_of(flash, 1);
    if (a == 0 && b == 0) {
        return delivered;
    }
    return flash->address[b > a ? 1 : 0];
}

int32_t slots_begin(const slots_flash *flash, slots_update *update) {
    const uint32_t a = number_of(flash, 0);
    const uint32_t b = number_of(flash, 1);
    update->flash = flash;
    update->slot = b > a ? 0 : 1;
    update->number = (b > a ? b : a) + 1u;
    update->written = 0;
    return flash->erase(update->slot) == 0 ? NET_OK : SLOTS_ERROR_FLASH;
}

int32_t slots_write(slots_update *update, const void *part, uint32_t size) {
    if (size > NET_WEIGHTS_SIZE - update->written) {
        return SLOTS_ERROR_SIZE;
    }
    if (update->flash->program(update->slot, update->written, part, size) != 0) {
        return SLOTS_ERROR_FLASH;
    }
    update->written += size;
    return NET_OK;
}

int32_t slots_end(const slots_update *update) {
    const uint32_t record[4] = {update->number, ~update->number, 0, 0};
    int32_t code;
    if (update->written != NET_WEIGHTS_SIZE) {
        return SLOTS_ERROR_SIZE;
    }
    code = net_check_weights(update->flash->address[update->slot]);
    if (code != NET_OK) {
        return code;
    }
    return update->flash->program(update->slot, SLOTS_RECORD, record, sizeof record) == 0 ? NET_OK : SLOTS_ERROR_FLASH;
}
