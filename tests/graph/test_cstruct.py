"""A params dataclass as C struct, C initialiser and ctypes struct: three views of the same bytes."""

import ctypes
from dataclasses import dataclass, fields

import pytest

from glowembed.graph.cstruct import (
    c_initialiser,
    c_struct,
    ctypes_struct,
    f32,
    i32,
    narrowed,
    params_header,
    struct_name,
)
from glowembed.graph.registry import kernel_ops
from glowembed.run.kernel import shared_library


@dataclass(frozen=True)
class TwoWordsParams:
    """A struct with every kind of field."""

    rows: int = i32("rows, at least 1")
    dims: tuple[int, ...] = i32("innermost last", 3)
    scale: float = f32("what one step is worth")


@dataclass(frozen=True)
class OtherParams:
    """A second struct."""

    n: int = i32("elements")


P = TwoWordsParams(-(2**31), (1, -2, 2**31 - 1), 0.1)


def test_names():
    assert struct_name(TwoWordsParams) == "ge_two_words_params"
    assert struct_name(kernel_ops()["conv2d_s8"].params) == "ge_conv2d_params"


def test_struct():
    assert c_struct(TwoWordsParams) == (
        "typedef struct {\n"
        "    int32_t rows; /* rows, at least 1 */\n"
        "    int32_t dims[3]; /* innermost last */\n"
        "    float scale; /* what one step is worth */\n"
        "} ge_two_words_params;"
    )


def test_initialiser():
    assert c_initialiser(TwoWordsParams(7, (1, -2, 3), 0.5)) == (
        "{.rows = 7, .dims = {1, -2, 3}, .scale = 0x1.0000000000000p-1f}"
    )


def test_the_smallest_integer_is_no_overflow():
    assert "(-2147483647 - 1)" in c_initialiser(P)


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_values_that_do_not_fit_are_refused(value):
    with pytest.raises(ValueError, match="does not fit int32_t"):
        c_initialiser(OtherParams(value))


def test_arrays_of_another_length_are_refused():
    with pytest.raises(ValueError, match="dims: 2 elements, the struct has 3"):
        c_initialiser(TwoWordsParams(1, (1, 2), 1.0))


def test_header_is_sorted_and_has_each_struct_once():
    text = params_header([TwoWordsParams, OtherParams, TwoWordsParams])
    assert text == params_header([OtherParams, TwoWordsParams])
    assert text.count("ge_two_words_params;") == 1
    assert text.index("ge_other_params;") < text.index("ge_two_words_params;")
    assert text.startswith("#ifndef GE_PARAMS_H\n#define GE_PARAMS_H\n")
    assert text.endswith("#endif\n")


def test_two_dataclasses_of_one_name_are_refused():
    clash = dataclass(frozen=True)(type("OtherParams", (), {"__annotations__": {"m": int}, "m": i32("not n")}))
    with pytest.raises(ValueError, match="ge_other_params"):
        params_header([OtherParams, clash])


def test_every_kernel_op_has_documented_params():
    for op in kernel_ops().values():
        for f in fields(op.params) if op.kernels else ():
            if f.metadata["ctype"] is None:
                continue
            assert f.metadata["doc"], f"{op.name}.{f.name}"
            assert "*/" not in f.metadata["doc"], f"{op.name}.{f.name}"


@pytest.mark.cc
def test_compiler_and_ctypes_see_the_same_bytes():
    source = (
        '#include "ge_params.h"\n#include <string.h>\n'
        "int32_t copy(void *out);\n"
        f"int32_t copy(void *out) {{\n    const ge_two_words_params p = {c_initialiser(P)};\n"
        "    memcpy(out, &p, sizeof p);\n    return (int32_t)sizeof p;\n}\n"
    )
    struct = ctypes_struct(P)
    buffer = ctypes.create_string_buffer(ctypes.sizeof(struct))
    assert shared_library(source, params_header([TwoWordsParams])).copy(buffer) == ctypes.sizeof(struct)
    assert buffer.raw == bytes(struct)


def test_fields_have_the_narrowest_type_that_holds_all_values():
    several = [OtherParams(n) for n in (0, 255)]
    assert narrowed(several) == {"n": "uint8_t"}
    assert narrowed([*several, OtherParams(256)]) == {"n": "uint16_t"}
    assert narrowed([OtherParams(n) for n in (-128, 127)]) == {"n": "int8_t"}
    assert narrowed([OtherParams(n) for n in (-1, 128)]) == {"n": "int16_t"}
    assert narrowed([OtherParams(n) for n in (-1, 2**16)]) == {"n": "int32_t"}
    assert narrowed([P]) == {"rows": "int32_t"}  # neither arrays nor floats
    assert "    uint8_t n; /* elements */" in c_struct(OtherParams, narrowed(several))
