/* ./device BEFORE.bin AFTER.bin: the device of losses.c on this computer. */
#include <stdio.h>

#include "losses.h"

static union {
    NET_ALIGNED uint64_t align;
    uint8_t bytes[NET_WEIGHTS_SIZE];
} files[2];

int main(int count, char **words) {
    int32_t losses;
    for (int i = 0; i < 2; i++) {
        FILE *const file = count == 3 ? fopen(words[i + 1], "rb") : NULL;
        const size_t size = file != NULL ? fread(files[i].bytes, 1, NET_WEIGHTS_SIZE, file) : 0;
        if (file == NULL || size != NET_WEIGHTS_SIZE || fclose(file) != 0) {
            fprintf(stderr, "usage: device BEFORE.bin AFTER.bin, both of %d bytes\n", NET_WEIGHTS_SIZE);
            return 2;
        }
    }
    losses = losses_tried(files[0].bytes, files[1].bytes);
    printf("the power failed %d times: %s\n", (int)losses,
           losses > 0 ? "one set of weights was always whole" : "ERROR");
    for (int i = 0; i < 2; i++) {
        const int8_t *const logits = (const int8_t *)losses_output();
        const int32_t code = losses_run(files[i].bytes);
        printf("%s %08x:", code == NET_OK ? words[i + 1] : "ERROR", (unsigned)net_weights_crc(files[i].bytes));
        for (int k = 0; k < NET_OUTPUT_LOGITS_COUNT; k++) {
            printf(" %d", logits[k]);
        }
        printf("\n");
    }
    return losses > 0 ? 0 : 1;
}
