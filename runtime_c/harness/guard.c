/* Guard bytes around the arena. */
#include <string.h>

#include "harness.h"

#define GUARD 0xC5

void ge_guard_arena(const ge_bundle *bundle) {
    memset(bundle->arena - GE_GUARD_BYTES, GUARD, GE_GUARD_BYTES);
    memset(bundle->arena + bundle->arena_size, GUARD, GE_GUARD_BYTES);
}

int32_t ge_guard_broken(const ge_bundle *bundle) {
    const uint8_t *const end = bundle->arena + bundle->arena_size;
    for (int32_t i = 1; i <= GE_GUARD_BYTES; ++i) {
        if (*(bundle->arena - i) != GUARD) {
            return -i;
        }
        if (end[i - 1] != GUARD) {
            return i;
        }
    }
    return 0;
}
