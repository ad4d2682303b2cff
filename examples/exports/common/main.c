/* For every place that has main and printf. */
#include <stdio.h>

#include "classify.h"

int main(void) {
    const int same = same_bits(), digit = classify();
    printf("digits: the bits are %sthose of the reference\ndigits: this is a %d\n", same ? "" : "NOT ", digit);
    return same && digit >= 0 ? 0 : 1;
}
