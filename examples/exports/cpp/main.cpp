// Proves the bits of the network, and classifies the image, with the C++17 header of the export.
#include <algorithm>
#include <cstddef>
#include <cstdio>

#include "digits.hpp"
#include "image.h"

static digits::network network; // has its arena

int main() {
    const bool same = network.selftest() == DIGITS_OK;
    const auto input = network.input_image();
    for (std::size_t i = 0; i < input.size(); ++i) {
        input[i] = network.input_image_quantization.quantize(static_cast<double>(image[i]) / IMAGE_WHITE);
    }
    if (network.run() != DIGITS_OK) {
        return 1;
    }
    const auto scores = network.output_logits();
    const auto digit = std::max_element(scores.begin(), scores.end()) - scores.begin();
    std::printf("digits: the bits are %sthose of the reference\ndigits: this is a %d\n", same ? "" : "NOT ", static_cast<int>(digit));
    return same ? 0 : 1;
}
