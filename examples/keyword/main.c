/* Sound comes in over the UART, hop by hop; for each hop two bytes go back: the stored score of the rising whistle, and FULL if the
 * first window is full, HEARD if a detection begins. */
#include "board.h"
#include "keyword.h"
#include "keyword_detector.h"

#define RISING 1 /* the element of the output that detector.yaml names */
#define FULL 1u
#define HEARD 2u

static KEYWORD_ARENA(arena);
static ge_detector detector;
static int16_t pcm[KEYWORD_INPUT_PCM_COUNT];

static uint8_t next_byte(void) {
    int32_t byte;
    do {
        byte = ge_uart_get();
    } while (byte < 0);
    return (uint8_t)byte;
}

static void read_hop(void) {
    for (int32_t i = 0; i < KEYWORD_INPUT_PCM_COUNT; i++) {
        const uint32_t low = next_byte();
        pcm[i] = (int16_t)(uint16_t)(low | (uint32_t)next_byte() << 8);
    }
}

int main(void);
int main(void) {
    ge_uart_init();
    (void)keyword_reset(&arena);
    ge_detector_reset(&keyword_detector, &detector);
    for (;;) {
        uint8_t flags = 0;
        int8_t score = INT8_MIN;
        read_hop();
        if (keyword_push(&arena, pcm) == KEYWORD_OK) {
            score = KEYWORD_OUTPUT_SCORE(&arena)[RISING];
            flags = FULL;
            if (ge_detector_feed(&keyword_detector, &detector, score)) {
                flags |= HEARD;
            }
        }
        ge_uart_put((uint8_t)score);
        ge_uart_put(flags);
    }
}

/* The board's start-up code reports faults with this. */
void ge_fault_report(const ge_fault *fault) {
    (void)fault;
    for (;;) {
    }
}
