/* The server on a computer, with standard input and output as the line; for tests, and to try a host program without a
 * board. */
#include <string.h>
#include <unistd.h>

#include "server.h"

#define INPUT 0
#define OUTPUT 1

static void write_bytes(void *context, const uint8_t *bytes, uint32_t count) {
    (void)context;
    while (count > 0u) {
        const ssize_t written = write(OUTPUT, bytes, count);
        if (written <= 0) {
            return;
        }
        bytes += written;
        count -= (uint32_t)written;
    }
}

static void say(const char *text) {
    write_bytes(NULL, (const uint8_t *)text, (uint32_t)strlen(text));
}

int main(void) {
    static ge_server server;
    static const ge_device device = {"host", "x86-64", 0, 0, 0, NULL, 0, NULL, NULL, NULL, NULL, NULL};
    const ge_port port = {write_bytes, NULL};
    static uint8_t bytes[4096];
    say("READY glowembed 1 ");
    say(ge_the_bundle.hash);
    write_bytes(NULL, (const uint8_t *)"\r\n", 3); /* including the zero that ends the text */
    ge_server_start(&server, &ge_the_bundle, &device, port);
    for (;;) {
        const ssize_t count = read(INPUT, bytes, sizeof bytes);
        if (count <= 0) {
            return 0;
        }
        for (ssize_t i = 0; i < count; ++i) {
            ge_server_byte(&server, bytes[i]);
        }
    }
}
