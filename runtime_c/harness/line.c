/* A line of text, composed without printf. */
#include "line.h"

static void put(ge_line *line, char character) {
    if (line->length + 1u < GE_LINE_BYTES) {
        line->text[line->length] = character;
        line->length += 1u;
        line->text[line->length] = '\0';
    }
}

void ge_line_clear(ge_line *line) {
    line->length = 0;
    line->text[0] = '\0';
}

void ge_line_text(ge_line *line, const char *text) {
    for (; *text != '\0'; ++text) {
        put(line, *text);
    }
}

void ge_line_number(ge_line *line, uint64_t number) {
    char digits[20];
    int32_t count = 0;
    do {
        digits[count] = (char)('0' + (int32_t)(number % 10u));
        number /= 10u;
        ++count;
    } while (number != 0u);
    while (count > 0) {
        --count;
        put(line, digits[count]);
    }
}

void ge_line_signed(ge_line *line, int32_t number) {
    if (number < 0) {
        put(line, '-');
    }
    ge_line_number(line, (number < 0) ? (uint64_t)(-(int64_t)number) : (uint64_t)number);
}

void ge_line_hex(ge_line *line, uint32_t number) {
    ge_line_text(line, "0x");
    for (int32_t shift = 28; shift >= 0; shift -= 4) {
        put(line, "0123456789abcdef"[(number >> shift) & 15u]);
    }
}
