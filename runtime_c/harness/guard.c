/* Guard bytes around the arena and after the window. */
#include <string.h>

#include "harness.h"

#define GUARD 0xC5

void ge_guard_arena(const ge_bundle *bundle) {
    memset(bundle->arena - GE_GUARD_BYTES, GUARD, GE_GUARD_BYTES);
    memset(bundle->arena + bundle->arena_size, GUARD, GE_GUARD_BYTES);
    memset(bundle->arena + bundle->window, GUARD, GE_GUARD_BYTES);
}

/* Returns how far after `end` the first changed byte is, counted from 1, or 0 if none has changed. */
static int32_t changed_behind(const uint8_t *end) {
    for (int32_t i = 0; i < GE_GUARD_BYTES; ++i) {
        if (end[i] != GUARD) {
            return i + 1;
        }
    }
    return 0;
}

int32_t ge_guard_broken(const ge_bundle *bundle) {
    for (int32_t i = 1; i <= GE_GUARD_BYTES; ++i) {
        if (*(bundle->arena - i) != GUARD) {
            return -i;
        }
    }
    const int32_t behind = changed_behind(bundle->arena + bundle->arena_size);
    const int32_t far = changed_behind(bundle->arena + bundle->window);
    const int32_t between = (int32_t)(bundle->window - bundle->arena_size);
    return (behind != 0 || far == 0) ? behind : between + far;
}
