/* A handwritten 9: the fourth test image of examples/digits/data.npz, 0 to 16. The network wants 0 to 1. */
#ifndef IMAGE_H
#define IMAGE_H

#include <stdint.h>

#define IMAGE_WHITE 16

/* clang-format off */
static const uint8_t image[64] = {
    0, 0, 8, 16, 10, 2, 0, 0,
    0, 0, 12, 13, 14, 11, 0, 0,
    0, 0, 10, 13, 8, 16, 2, 0,
    0, 0, 4, 15, 15, 16, 8, 0,
    0, 0, 0, 3, 8, 11, 13, 0,
    0, 0, 0, 0, 0, 5, 16, 4,
    0, 0, 1, 2, 2, 7, 16, 5,
    0, 0, 3, 14, 16, 16, 11, 1,
};
/* clang-format on */

#endif
