/* Firmware that calls kernels as often as the host asks. Requests arrive through the file `request` and answers leave
 * through the file `answer`; both are pipes. A request is an image of memory: its size in bytes, the number of the
 * kernel, first and last row, the offsets of params and scratch, the place of each tensor and constant, and then the
 * bytes themselves. The answer is the ticks of the call and the whole image, so that the host sees every byte that the
 * kernel has changed. */
#include "board.h"
#include "kernel_call.h"
#include "semihost.h"

#define EXIT_PIPE 64
#define EXIT_FAULT 70
#define NO_SLOTS 0xFFFFFFFFu
#define TENSORS_MAX 8
#define CONSTANTS_MAX 10

typedef struct {
    uint32_t bytes, number, first_row, last_row, params, scratch;
    struct {
        uint32_t data, slots, stride;
    } tensors[TENSORS_MAX];
    uint32_t constants[CONSTANTS_MAX];
} request;

static uint32_t image[GE_IMAGE_BYTES / 4] __attribute__((aligned(64), section(".bss.ge_arena")));

static void *at(uint32_t offset) {
    return (uint8_t *)image + offset;
}

__attribute__((noinline)) static void run(const request *r) {
    ge_rows tensors[TENSORS_MAX];
    const void *constants[CONSTANTS_MAX];
    for (int32_t i = 0; i < TENSORS_MAX; i++) {
        const uint32_t slots = r->tensors[i].slots;
        tensors[i].data = at(r->tensors[i].data);
        tensors[i].slots = slots == NO_SLOTS ? NULL : (const uint16_t *)at(slots);
        tensors[i].stride = (int32_t)r->tensors[i].stride;
    }
    for (int32_t i = 0; i < CONSTANTS_MAX; i++) {
        constants[i] = at(r->constants[i]);
    }
    call((int32_t)r->number, at(r->params), tensors, constants, (int32_t)r->first_row, (int32_t)r->last_row,
         at(r->scratch));
}

static int32_t serve(int32_t in, int32_t out) {
    for (;;) {
        if (ge_semihost_read(in, image, 4) != 0 || image[0] > GE_IMAGE_BYTES) {
            return EXIT_PIPE;
        }
        if (image[0] == 0u) {
            return 0;
        }
        if (ge_semihost_read(in, &image[1], image[0] - 4u) != 0) {
            return EXIT_PIPE;
        }
        const request r = *(const request *)(const void *)image;
        ge_ticks_start(GE_TICKS_PERIOD_MAX);
        run(&r);
        const ge_ticks now = ge_ticks_read();
        ge_ticks_stop();
        const uint32_t ticks = (uint32_t)now.ticks;
        if (ge_semihost_write(out, &ticks, 4) != 0 || ge_semihost_write(out, image, r.bytes) != 0) {
            return EXIT_PIPE;
        }
    }
}

void ge_fault_report(const ge_fault *fault) {
    (void)fault;
    ge_semihost_say("FAULT\n");
    ge_semihost_exit(EXIT_FAULT);
}

int main(void);
int main(void) {
    const int32_t in = ge_semihost_open_to_read("request");
    const int32_t out = ge_semihost_open_to_write("answer");
    ge_semihost_exit(in < 0 || out < 0 ? EXIT_PIPE : serve(in, out));
}
