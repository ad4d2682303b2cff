"""The types of loop nests. A tensor is stored in an ONNX type; computations use a type that both C and numpy have.

float16, bfloat16 and the smaller floats are stored as their bits and computed in float32; int4, uint4 and int2 are stored
one in a byte. `index` is the type of loop variables and positions: int32_t in C.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # SCons reads only the names, so numpy is loaded when one of its types is requested
    import numpy as np

INDEX, BOOL = "index", "bool"

_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOAT8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
SMALL_FLOATS = ("float16", "bfloat16", *FLOAT8, "float4_e2m1fn")
"""Floats that are stored as their bits and computed in float32."""

NIBBLES = {"int4": ("int8", 4), "uint4": ("uint8", 4), "int2": ("int8", 2), "uint2": ("uint8", 2)}
"""For each integer type narrower than a byte, the type in which it is computed and its bits."""

COMPUTED: dict[str, str] = {
    **{name: name for name in ("float32", "float64", BOOL, *_SIGNED, *_UNSIGNED)},
    **dict.fromkeys(SMALL_FLOATS, "float32"),
    **{name: computed for name, (computed, _) in NIBBLES.items()},
}
"""For each type of stored tensors, the type in which elements are computed."""

_C_TYPES = {
    "float32": "float",
    "float64": "double",
    BOOL: "uint8_t",
    INDEX: "int32_t",
    **{name: f"{name}_t" for name in (*_SIGNED, *_UNSIGNED)},
}


def is_float(kind: str) -> bool:
    """Whether a type in which elements are computed is a float."""
    return kind in ("float32", "float64")


def is_unsigned(kind: str) -> bool:
    """Whether a type in which elements are computed is an unsigned integer."""
    return kind in _UNSIGNED


def is_integer(kind: str) -> bool:
    """Whether a type in which elements are computed is an integer; bool is not one."""
    return kind in (*_SIGNED, *_UNSIGNED, INDEX)


def bits(kind: str) -> int:
    """The bits of a type in which elements are computed."""
    return {INDEX: 32, BOOL: 8}.get(kind) or int("".join(filter(str.isdigit, kind)))


def limits(kind: str) -> tuple[int, int]:
    """The least and the largest integer of a type in which elements are computed."""
    if kind == BOOL:
        return 0, 1
    if not is_integer(kind):
        raise ValueError(f"{kind} is not a type of integers")
    if is_unsigned(kind):
        return 0, (1 << bits(kind)) - 1
    half = 1 << bits(kind) - 1
    return -half, half - 1


def computed_ctype(kind: str) -> str:
    """The C type of a scalar that is computed in this type."""
    return "int" if kind == BOOL else _C_TYPES[kind]


def stored_ctype(dtype: str) -> str:
    """The C type of a stored element."""
    if dtype in SMALL_FLOATS:
        return "uint16_t" if dtype in ("float16", "bfloat16") else "uint8_t"
    return _C_TYPES[COMPUTED[dtype]]


@cache
def numpy_type(dtype: str) -> np.dtype[Any]:
    """The numpy type of a stored tensor."""
    import ml_dtypes
    import numpy as np

    return np.dtype(getattr(ml_dtypes, dtype, dtype))


@cache
def scalar_type(kind: str) -> Any:
    """The numpy type in which the reference computes a scalar."""
    import numpy as np

    return np.int64 if kind == INDEX else np.dtype(kind).type
