#include <stdio.h>

#include "classify.h"

void app_main(void) {
    printf("digits: the bits are %sthose of the reference\n", same_bits() ? "" : "NOT ");
    printf("digits: this is a %d\n", classify());
}
