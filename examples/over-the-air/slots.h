/* Two slots of flash for the weights of `net`, of which one is whole at any time, whenever the power fails.
 *
 * A slot holds a weights file and, behind it, a record with a number that counts updates. An update erases the slot that is not in use,
 * writes the file, checks it where it lies, and only then writes the record. The slot in use is the one with the highest number whose
 * file is whole. Nothing else is kept, so there is no moment at which a loss of power leaves the device without weights.
 *
 *   slots_update update;
 *   code = slots_begin(&flash, &update);
 *   ... for each part that arrives: code = slots_write(&update, part, size);
 *   code = slots_end(&update);                     from now on slots_weights gives the new weights
 */
#ifndef SLOTS_H
#define SLOTS_H

#include "net.h"

#define SLOTS_RECORD ((NET_WEIGHTS_SIZE + 15u) / 16u * 16u) /* its offset in a slot */
#define SLOTS_SIZE (SLOTS_RECORD + 16u)                     /* bytes of a slot, which you round up to whole sectors */
#define SLOTS_ERROR_FLASH (-100)                            /* a function of slots_flash has failed */
#define SLOTS_ERROR_SIZE (-101)                             /* more or fewer than NET_WEIGHTS_SIZE bytes were written */

/* The flash of your device. Functions return 0 if they are done. */
typedef struct {
    const uint8_t *address[2]; /* where slots are read, aligned to NET_WEIGHTS_ALIGN */
    int32_t (*erase)(int32_t slot);
    int32_t (*program)(int32_t slot, uint32_t offset, const void *data, uint32_t size);
} slots_flash;

typedef struct {
    const slots_flash *flash;
    int32_t slot;
    uint32_t number;
    uint32_t written;
} slots_update;

/* The newest whole weights, or those that the device was delivered with if there are none. Checks every byte: call it at start-up and
 * after an update. */
const void *slots_weights(const slots_flash *flash, const void *delivered);

/* An update in three steps. Each returns NET_OK, SLOTS_ERROR_FLASH or SLOTS_ERROR_SIZE; slots_end also returns what net_check_weights
 * says about a file that is damaged or that was made for another program. The weights in use remain after every error. */
int32_t slots_begin(const slots_flash *flash, slots_update *update);
int32_t slots_write(slots_update *update, const void *part, uint32_t size);
int32_t slots_end(const slots_update *update);

#endif
