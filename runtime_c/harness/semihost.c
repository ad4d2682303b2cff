/* Semihosting. The operations are those of Arm, which RISC-V has adopted; core.h has the call of each core. */
#include "semihost.h"

#include <string.h>

#include "core.h"

/* Numbers of the operations ("Semihosting", section 6.1). The modes of SYS_OPEN are numbered like those of fopen: 1 is
 * "rb", 5 is "wb". */
enum {
    SYS_OPEN = 0x01,
    SYS_CLOSE = 0x02,
    SYS_WRITE0 = 0x04,
    SYS_WRITE = 0x05,
    SYS_READ = 0x06,
    SYS_FLEN = 0x0C,
    SYS_GET_CMDLINE = 0x15,
    SYS_EXIT_EXTENDED = 0x20
};
#define MODE_READ 1u
#define MODE_WRITE 5u
#define ADP_STOPPED_APPLICATION_EXIT 0x20026u

static uint32_t address(const void *pointer) {
    return (uint32_t)(uintptr_t)pointer;
}

int32_t ge_semihost_command_line(char *text, uint32_t size) {
    const uint32_t parameters[2] = {address(text), size};
    return ge_core_semihost(SYS_GET_CMDLINE, parameters);
}

static int32_t open(const char *path, uint32_t mode) {
    const uint32_t parameters[3] = {address(path), mode, (uint32_t)strlen(path)};
    return ge_core_semihost(SYS_OPEN, parameters);
}

int32_t ge_semihost_open_to_read(const char *path) {
    return open(path, MODE_READ);
}

int32_t ge_semihost_open_to_write(const char *path) {
    return open(path, MODE_WRITE);
}

int32_t ge_semihost_length(int32_t file) {
    const uint32_t parameters[1] = {(uint32_t)file};
    return ge_core_semihost(SYS_FLEN, parameters);
}

/* Both operations return how many bytes were not moved; a pipe may hold fewer than were asked for. If none was moved,
 * the file has ended. */
static int32_t move(uint32_t operation, int32_t file, const void *memory, uint32_t bytes) {
    while (bytes > 0u) {
        const uint32_t parameters[3] = {(uint32_t)file, address(memory), bytes};
        const uint32_t left = (uint32_t)ge_core_semihost(operation, parameters);
        if (left >= bytes) {
            return -1;
        }
        memory = (const uint8_t *)memory + (bytes - left);
        bytes = left;
    }
    return 0;
}

int32_t ge_semihost_read(int32_t file, void *into, uint32_t bytes) {
    return move(SYS_READ, file, into, bytes);
}

int32_t ge_semihost_write(int32_t file, const void *from, uint32_t bytes) {
    return move(SYS_WRITE, file, from, bytes);
}

int32_t ge_semihost_close(int32_t file) {
    const uint32_t parameters[1] = {(uint32_t)file};
    return ge_core_semihost(SYS_CLOSE, parameters);
}

void ge_semihost_say(const char *text) {
    (void)ge_core_semihost(SYS_WRITE0, text);
}

void ge_semihost_exit(int32_t code) {
    const uint32_t parameters[2] = {ADP_STOPPED_APPLICATION_EXIT, (uint32_t)code};
    for (;;) {
        (void)ge_core_semihost(SYS_EXIT_EXTENDED, parameters);
    }
}
