/* Reports a fault in one line on the host's standard error and ends the firmware. */
#include "harness.h"
#include "line.h"
#include "semihost.h"

static void field(ge_line *line, const char *name, uint32_t value) {
    ge_line_text(line, name);
    ge_line_hex(line, value);
}

void ge_fault_report(const ge_fault *fault) {
    static ge_line line;
    ge_line_clear(&line);
    ge_line_text(&line, "FAULT exception=");
    ge_line_number(&line, fault->exception);
    field(&line, " pc=", fault->pc);
    field(&line, " lr=", fault->lr);
    field(&line, " psr=", fault->psr);
    field(&line, " cfsr=", fault->cfsr);
    field(&line, " hfsr=", fault->hfsr);
    field(&line, " mmfar=", fault->mmfar);
    field(&line, " bfar=", fault->bfar);
    ge_line_text(&line, "\n");
    ge_semihost_say(line.text);
    ge_semihost_exit(GE_EXIT_FAULT);
}
