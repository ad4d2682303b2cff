/* Times one function of a shared library: LIBRARY FUNCTION ARENA_BYTES ALIGN. For each line "N" on the standard input
 * it makes N calls and says the smallest and the median time of one, in nanoseconds. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_CALLS 100000

static int by_size(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(int argc, char **argv) {
    static int64_t times[MAX_CALLS];
    if (argc != 5) {
        return 64;
    }
    void *library = dlopen(argv[1], RTLD_NOW);
    int32_t (*run)(void *arena) = NULL;
    if (library != NULL) {
        void *symbol = dlsym(library, argv[2]);
        memcpy(&run, &symbol, sizeof run);
    }
    const size_t align = strtoul(argv[4], NULL, 10), size = (strtoul(argv[3], NULL, 10) / align + 1) * align;
    uint8_t *arena = aligned_alloc(align, size);
    if (run == NULL || arena == NULL) {
        fprintf(stderr, "%s\n", library == NULL ? dlerror() : "no such function");
        return 1;
    }
    for (size_t i = 0; i < size; ++i) {
        arena[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    int calls;
    while (scanf("%d", &calls) == 1 && calls > 0 && calls <= MAX_CALLS) {
        for (int i = 0; i < calls; ++i) {
            const int64_t start = now();
            run(arena);
            times[i] = now() - start;
        }
        qsort(times, (size_t)calls, sizeof times[0], by_size);
        printf("%lld %lld\n", (long long)times[0], (long long)times[calls / 2]);
        fflush(stdout);
    }
    return 0;
}
