"""The parts of the headers of other projects that exports use, with the signatures of those projects: enough to compile against."""

ARDUINO = """#ifndef ARDUINO_H
#define ARDUINO_H
#include <stddef.h>
#include <stdint.h>
struct SerialPort {
    void begin(unsigned long);
    explicit operator bool() const;
    size_t println(const char *);
    size_t println(long);
    size_t print(const char *);
    size_t write(const uint8_t *, size_t);
    int read();
};
extern SerialPort Serial;
void setup();
void loop();
#endif
"""

MICROPYTHON = """#ifndef PY_OBJ_H
#define PY_OBJ_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef unsigned char byte;
typedef void *mp_obj_t;
typedef const void *mp_const_obj_t;
typedef const char *mp_rom_error_text_t;
typedef struct { const void *type; } mp_obj_base_t;
typedef struct { const char *key; const void *value; } mp_rom_map_elem_t;
typedef struct { mp_obj_base_t base; const mp_rom_map_elem_t *table; } mp_obj_dict_t;
typedef struct { mp_obj_base_t base; mp_obj_dict_t *globals; } mp_obj_module_t;
typedef struct { void *buf; size_t len; int typecode; } mp_buffer_info_t;
typedef struct { int unused; } mp_obj_type_t;
extern const mp_obj_type_t mp_type_module, mp_type_RuntimeError;
extern const mp_obj_t mp_const_none;
#define MP_BUFFER_READ 1
#define MP_ERROR_TEXT(text) (text)
#define MP_ROM_QSTR(name) (name)
#define MP_ROM_PTR(pointer) (pointer)
#define MP_QSTR___name__ "__name__"
#define MP_QSTR_run "run"
#define MP_QSTR_reset "reset"
#define MP_QSTR_selftest "selftest"
#define MP_QSTR_net "net"
#define MP_DEFINE_CONST_FUN_OBJ_0(name, function) mp_obj_t (*const name)(void) = function
#define MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(name, least, most, function) mp_obj_t (*const name)(size_t, const mp_obj_t *) = function
#define MP_DEFINE_CONST_DICT(name, rows) const mp_obj_dict_t name = {.table = rows}
#define MP_REGISTER_MODULE(name, module) extern const mp_obj_module_t module
bool mp_get_buffer_raise(mp_obj_t, mp_buffer_info_t *, unsigned);
void mp_raise_ValueError(mp_rom_error_text_t);
void mp_raise_msg(const mp_obj_type_t *, mp_rom_error_text_t);
mp_obj_t mp_obj_new_bytes(const byte *, size_t);
mp_obj_t mp_obj_new_bool(long);
mp_obj_t mp_obj_new_tuple(size_t, const mp_obj_t *);
#endif
"""

ARDUINO_ON_A_PC = """#include <cstdio>
SerialPort Serial;
void SerialPort::begin(unsigned long) {}
SerialPort::operator bool() const { return true; }
size_t SerialPort::println(const char *text) { return static_cast<size_t>(std::printf("%s\\n", text)); }
size_t SerialPort::println(long number) { return static_cast<size_t>(std::printf("%ld\\n", number)); }
size_t SerialPort::print(const char *text) { return static_cast<size_t>(std::printf("%s", text)); }
int main() { setup(); }
"""

MODULE_OF_DIGITS = """import ctypes, re

library, arena = ctypes.CDLL("./app/libdigits.so"), ctypes.create_string_buffer(1 << 16)
start = -ctypes.addressof(arena) % 64 + ctypes.addressof(arena)
offsets = dict(re.findall(r"define DIGITS_(\\w+)_OFFSET (\\d+)", open("digits/src/digits.h").read()))

def run(image):
    ctypes.memmove(start + int(offsets["INPUT_IMAGE"]), image, 64)
    assert library.digits_run(ctypes.c_void_p(start)) == 0
    return (ctypes.string_at(start + int(offsets["OUTPUT_LOGITS"]), 10),)

def selftest():
    return library.digits_selftest(ctypes.c_void_p(start)) == 0
"""
"""The module of MicroPython as far as the example uses it: the same C, called from another Python in the folder of the example."""
