/* The firmware: says READY on the UART, then serves the host through the transport that is linked in. */
#include "harness.h"
#include "line.h"
#include "semihost.h"

static void say_ready(const ge_bundle *bundle) {
    static ge_line line;
    ge_line_clear(&line);
    ge_line_text(&line, "READY glowembed ");
    ge_line_number(&line, GE_PROTOCOL);
    ge_line_text(&line, " ");
    ge_line_text(&line, bundle->hash);
    ge_line_text(&line, "\r\n");
    for (uint32_t i = 0; i < line.length; ++i) {
        ge_uart_put((uint8_t)line.text[i]);
    }
}

int main(void) {
    ge_uart_init();
    say_ready(&ge_the_bundle);
    ge_semihost_exit(ge_transport(&ge_the_bundle));
}
