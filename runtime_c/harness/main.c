/* The firmware's main function: sends READY on the UART, then serves the host through the transport that is linked
 * in. */
#include "harness.h"

#define TEXT_OF(macro) TEXT(macro)
#define TEXT(macro) #macro

static void say(const char *text) {
    for (; *text != '\0'; ++text) {
        ge_uart_put((uint8_t)*text);
    }
}

int main(void) {
    ge_uart_init();
    say("READY glowembed " TEXT_OF(GE_PROTOCOL) " ");
    say(ge_the_bundle.hash);
    say("\r\n");
    ge_finish(ge_transport(&ge_the_bundle));
}
