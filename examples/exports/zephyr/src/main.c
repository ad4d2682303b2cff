#include <zephyr/sys/printk.h>

#include "classify.h"

int main(void) {
    printk("digits: the bits are %sthose of the reference\n", same_bits() ? "" : "NOT ");
    printk("digits: this is a %d\n", classify());
    return 0;
}
