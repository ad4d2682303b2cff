#include "classify.h"

#include "digits.h"
#include "digits_selftest.h"
#include "image.h"

static DIGITS_ARENA(arena); /* all the RAM that the network needs */

int classify(void) {
    int8_t *const input = DIGITS_INPUT_IMAGE(&arena);
    for (int i = 0; i < DIGITS_INPUT_IMAGE_COUNT; ++i) {
        input[i] = digits_quantize_image((float)image[i] / IMAGE_WHITE);
    }
    if (digits_run(&arena) != DIGITS_OK) {
        return -1;
    }
    const int8_t *const scores = DIGITS_OUTPUT_LOGITS(&arena);
    int best = 0;
    for (int i = 1; i < DIGITS_OUTPUT_LOGITS_COUNT; ++i) {
        if (scores[i] > scores[best]) {
            best = i;
        }
    }
    return best;
}

int same_bits(void) {
    return digits_selftest(&arena) == DIGITS_OK;
}
