/* A device with two slots of simulated flash, whose power fails at every erasure and every write of an update. */
#ifndef LOSSES_H
#define LOSSES_H

#include "net.h"

#define LOSSES_NO_WEIGHTS                                                                                              \
    (-200) /* after a loss of power, the device ran neither with the old nor with the new weights */
#define LOSSES_NO_UPDATE (-201) /* after a loss of power, the update could not be repeated */
#define LOSSES_TAKEN (-202)     /* a damaged file was taken */

/* Both are NET_WEIGHTS_SIZE bytes, aligned to NET_WEIGHTS_ALIGN. Returns how often the power failed, or an error. */
int32_t losses_tried(const uint8_t *before, const uint8_t *after);

/* Runs the network on an input with a pattern; returns NET_OK or an error. */
int32_t losses_run(const void *weights);
const void *losses_output(void);

#endif
