/* A line of text, composed without printf. Text that does not fit is dropped. */
#ifndef GE_LINE_H
#define GE_LINE_H

#include <stdint.h>

#define GE_LINE_BYTES 160
typedef struct {
    char text[GE_LINE_BYTES]; /* always ends in a zero */
    uint32_t length;
} ge_line;

void ge_line_clear(ge_line *line);
void ge_line_text(ge_line *line, const char *text);
void ge_line_number(ge_line *line, uint64_t number);
void ge_line_signed(ge_line *line, int32_t number);
void ge_line_hex(ge_line *line, uint32_t number); /* 0x and eight digits */

#endif
