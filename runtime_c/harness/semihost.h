/* Semihosting: the debugger or emulator does file operations for the firmware (Arm, "Semihosting for AArch32 and
 * AArch64", chapter 6). */
#ifndef GE_SEMIHOST_H
#define GE_SEMIHOST_H

#include <stdint.h>

/* Reads the command line, words separated by spaces, and truncates it if it is longer than `size`. Returns 0, or -1 if
 * there is none. */
int32_t ge_semihost_command_line(char *text, uint32_t size);

/* Open a file for reading or writing, in binary mode. Return its handle, or -1. */
int32_t ge_semihost_open_to_read(const char *path);
int32_t ge_semihost_open_to_write(const char *path);

/* Returns the length in bytes, or -1. */
int32_t ge_semihost_length(int32_t file);

/* Move exactly `bytes` bytes. Return 0, or -1 if the file ends before or cannot take them. */
int32_t ge_semihost_read(int32_t file, void *into, uint32_t bytes);
int32_t ge_semihost_write(int32_t file, const void *from, uint32_t bytes);

int32_t ge_semihost_close(int32_t file);

/* Writes text for a person to the standard error of the host. */
void ge_semihost_say(const char *text);

/* Ends the firmware; `code` becomes the exit status of the emulator. */
void ge_semihost_exit(int32_t code) __attribute__((noreturn));

#endif
