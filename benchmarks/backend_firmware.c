/* Runs many bundles in one firmware, for benchmarks/onnx_backend.py. The file `calls` holds for each call the number of a
 * bundle and the content of its arena; the file `results` gets for each the value of NAME_run and the arena afterwards. The
 * call with the number GE_BUNDLES ends the firmware. bundles.h, which backend_programs.py writes, has the table of bundles. */
#include "board.h"
#include "bundles.h"
#include "semihost.h"

#define EXIT_FILES 64
#define EXIT_FAULT 70

static uint8_t arena[GE_ARENA_BYTES] __attribute__((aligned(64), section(".bss.ge_arena")));

static int32_t serve(int32_t calls, int32_t results) {
    for (;;) {
        uint32_t number;
        if (ge_semihost_read(calls, &number, 4) != 0 || number > GE_BUNDLES) {
            return EXIT_FILES;
        }
        if (number == GE_BUNDLES) {
            return 0;
        }
        const bundle *b = &bundles[number];
        if (ge_semihost_read(calls, arena, b->arena_bytes) != 0) {
            return EXIT_FILES;
        }
        const int32_t code = b->run(arena);
        if (ge_semihost_write(results, &code, 4) != 0 || ge_semihost_write(results, arena, b->arena_bytes) != 0) {
            return EXIT_FILES;
        }
    }
}

void ge_fault_report(const ge_fault *fault) {
    (void)fault;
    ge_semihost_exit(EXIT_FAULT);
}

int main(void);
int main(void) {
    const int32_t calls = ge_semihost_open_to_read("calls");
    const int32_t results = ge_semihost_open_to_write("results");
    ge_semihost_exit(calls < 0 || results < 0 ? EXIT_FILES : serve(calls, results));
}
