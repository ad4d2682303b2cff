// Proves the bits of the network, and classifies the image.
#include <digits.h>
#include <digits_selftest.h>

#include "image.h"

static DIGITS_ARENA(arena); // all the RAM that the network needs

static int classify() {
    int8_t *const input = DIGITS_INPUT_IMAGE(&arena);
    for (int i = 0; i < DIGITS_INPUT_IMAGE_COUNT; ++i) {
        input[i] = digits_quantize_image(static_cast<float>(image[i]) / IMAGE_WHITE);
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

void setup() {
    Serial.begin(115200);
    while (!Serial) {
    }
    Serial.println(digits_selftest(&arena) == DIGITS_OK ? "digits: the bits are those of the reference" : "digits: the bits are NOT those of the reference");
    Serial.print("digits: this is a ");
    Serial.println(static_cast<long>(classify()));
}

void loop() {
}
