"""Turns a params dataclass into a C struct, a C initialiser and a ctypes struct.

In: a frozen dataclass whose fields are made by `i32`, `i16`, `u8` ... below. Out: text or a ctypes class. The dataclass
is the only place where a kernel's parameters are written down.
"""

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import Field, field
from dataclasses import fields as all_fields
from functools import cache
from math import isfinite
from typing import Any

import numpy as np

CTYPES: dict[str, Any] = {
    "int8_t": ctypes.c_int8,
    "uint8_t": ctypes.c_uint8,
    "int16_t": ctypes.c_int16,
    "uint16_t": ctypes.c_uint16,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "float": ctypes.c_float,
}
"""The types of the elements of constants, and of the fields of params."""


def numpy_type(ctype: str) -> "np.dtype[Any]":
    """The dtype of numpy for a C type."""
    found: np.dtype[Any] = np.dtype(CTYPES[ctype])
    return found


def fields(params: Any) -> "tuple[Field[Any], ...]":
    """The fields that are members of the C struct; a field whose `ctype` is None is for Python only."""
    return _members(params if isinstance(params, type) else params.__class__)


@cache
def _members(params_type: type) -> "tuple[Field[Any], ...]":
    return tuple(f for f in all_fields(params_type) if f.metadata["ctype"] is not None)


def _field(ctype: str, doc: str, count: int = 0) -> Any:
    return field(metadata={"ctype": ctype, "doc": doc, "count": count})


def i32(doc: str, count: int = 0) -> Any:
    """An int32_t field, or an array of `count` of them; `doc` gives its meaning, unit and range."""
    return _field("int32_t", doc, count)


def f32(doc: str) -> Any:
    """A float field, only for kernels at the float inputs and outputs."""
    return _field("float", doc)


def counting_type(most: int, narrowest: str = "uint8_t") -> str:
    """The narrowest C type, not narrower than `narrowest`, that holds counts and offsets of 0 to `most`. Raises
    ValueError above int32_t.

    Every value of that type is also an int32_t, so C needs no casts.
    """
    types = ("uint8_t", "uint16_t", "int32_t")
    for ctype in types[types.index(narrowest) :]:
        if most <= _limits(ctype)[1]:
            return ctype
    raise ValueError(f"{most} does not fit int32_t")


def _limits(ctype: str) -> tuple[int, int]:
    bits = 8 * ctypes.sizeof(CTYPES[ctype])
    return (0, 2**bits - 1) if ctype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def struct_name(params_type: type) -> str:
    """`ge_<snake case>_params` for a dataclass named `<CamelCase>Params`."""
    stem = params_type.__name__.removesuffix("Params")
    words = "".join("_" + c.lower() if c.isupper() else c for c in stem).lstrip("_")
    return f"ge_{words}_params"


NARROW = ("uint8_t", "int8_t", "uint16_t", "int16_t")
"""The types that a field of int32_t may have instead; C computes with each of them as with int32_t."""


def narrowed(params: Iterable[Any]) -> dict[str, str]:
    """For each int32_t field of params of one type, the narrowest type that holds its values, if that is narrower."""
    every = list(params)
    found = {}
    for f in fields(every[0]):
        if f.metadata["ctype"] == "int32_t" and not f.metadata["count"]:
            values = [getattr(one, f.name) for one in every]
            types = (t for t in NARROW if _limits(t)[0] <= min(values) and max(values) <= _limits(t)[1])
            found[f.name] = next(types, "int32_t")
    return found


def struct_bytes(params: Any) -> int:
    """The bytes of the struct that holds these params alone, without padding."""
    types = narrowed([params])
    each = ((types.get(f.name, f.metadata["ctype"]), f.metadata["count"]) for f in fields(params))
    return sum(ctypes.sizeof(CTYPES[ctype]) * (count or 1) for ctype, count in each)


def c_struct(params_type: type, types: Mapping[str, str] | None = None) -> str:
    """The typedef, with a comment for each field. types: of fields that have another type than the dataclass says."""
    lines = ["typedef struct {"]
    for f in fields(params_type):
        size = f"[{f.metadata['count']}]" if f.metadata["count"] else ""
        ctype = (types or {}).get(f.name, f.metadata["ctype"])
        lines.append(f"    {ctype} {f.name}{size}; /* {f.metadata['doc']} */")
    return "\n".join([*lines, f"}} {struct_name(params_type)};"])


def _literal(ctype: str, value: Any) -> str:
    if ctype == "float":
        if not isfinite(value):
            raise ValueError(f"{value} is not a number that C can spell")
        return f"{float(value).hex()}f"
    low, high = _limits(ctype)
    if not low <= value <= high:
        raise ValueError(f"{value} does not fit {ctype}")
    if value == -(2**31):
        return "(-2147483647 - 1)"
    return f"{value}u" if ctype == "uint32_t" else str(value)


def c_initialiser(params: Any) -> str:
    """`{.field = value, ...}` in the order of the struct. Raises ValueError when a value does not fit its type."""
    parts = []
    for f in fields(params):
        value, ctype = getattr(params, f.name), f.metadata["ctype"]
        if f.metadata["count"]:
            if len(value) != f.metadata["count"]:
                raise ValueError(f"{f.name}: {len(value)} elements, the struct has {f.metadata['count']}")
            parts.append(f".{f.name} = {{{', '.join(_literal(ctype, v) for v in value)}}}")
        else:
            parts.append(f".{f.name} = {_literal(ctype, value)}")
    return "{" + ", ".join(parts) + "}"


def ctypes_struct(params: Any) -> ctypes.Structure:
    """The params as a ctypes struct, for calling a kernel from Python."""
    members = ((getattr(params, f.name), f.metadata["count"]) for f in fields(params))
    return _ctypes_type(params.__class__)(*(tuple(value) if count else value for value, count in members))


@cache
def _ctypes_type(params_type: type) -> type[ctypes.Structure]:
    layout = []
    for f in fields(params_type):
        base, count = CTYPES[f.metadata["ctype"]], f.metadata["count"]
        layout.append((f.name, base * count if count else base))
    return type(struct_name(params_type), (ctypes.Structure,), {"_fields_": layout})


def params_header(types: Iterable[type]) -> str:
    """The text of ge_params.h, with every struct once, sorted by name. Raises ValueError if two different structs have
    the same name.
    """
    structs: dict[str, str] = {}
    for params_type in types:
        name, text = struct_name(params_type), c_struct(params_type)
        if structs.setdefault(name, text) != text:
            raise ValueError(f"two different structs are called {name}")
    body = "".join(f"{text}\n\n" for _, text in sorted(structs.items()))
    return f"#ifndef GE_PARAMS_H\n#define GE_PARAMS_H\n\n#include <stdint.h>\n\n{body}#endif\n"
