"""The constants of a bundle as C arrays, which are packed for their kernels, stored once if they are equal, and written
as literals.

In: a graph with kernels. Out: arrays with C names, and the lines of their initialisers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from glowembed.emit import graphfile
from glowembed.graph.cnames import distinct
from glowembed.graph.cstruct import numpy_type
from glowembed.graph.ir import Array, Graph, Node, Value
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.nest.dtypes import NIBBLES, stored_ctype
from glowembed.records import dataclass


@dataclass(frozen=True, eq=False)
class Stored:
    """A constant array of the bundle under its C name."""

    id: str
    ctype: str
    array: Array


def constants_of(graph: Graph, bundle: str, alike: bool = True) -> dict[tuple[str, str], Stored]:
    """The array for each (node name, constant name) or ("", value name).

    Equal contents of the same type become one array, with the name of the first, unless `alike` is False; then the
    number of arrays does not depend on their contents.
    """
    found: dict[tuple[str, str], tuple[str, Array]] = {}
    for node in (n for n in graph.nodes if n.kernel):
        found |= {(node.name, c): packed for c, packed in _packed(node).items()}
    for name, value in graph.values.items():
        if value.const is not None:
            found["", name] = (stored_ctype(dtype_of(value)), graphfile.stored_constant(value))
    ids = distinct([f"{node}_{name}" if node else name for node, name in found])
    known: dict[tuple[str, bytes | str], Stored] = {}
    return {
        key: known.setdefault((ctype, array.tobytes() if alike else ident), Stored(f"{bundle}_{ident}", ctype, array))
        for ident, (key, (ctype, array)) in zip(ids, found.items(), strict=True)
    }


def _packed(node: Node) -> dict[str, tuple[str, Array]]:
    """For each constant of a node, by name, the C type and the content in the form that its kernel reads."""
    chosen = kernel(node.kernel or "")
    arrays = chosen.packed({name: const.materialize() for name, const in node.constants.items()}, node.params)
    types = chosen.ctypes(kernel_ops()[node.op])
    return {name: (ctype, of_type(ctype, arrays[name])) for name, ctype in types.items()}


def of_type(ctype: str, packed: Array) -> Array:
    """The content in its C type. Raises ValueError if that type cannot hold one of the numbers."""
    stored = np.ascontiguousarray(packed).astype(numpy_type(ctype), casting="same_kind")
    if stored.dtype.kind in "iu" and not np.array_equal(stored, packed):
        raise ValueError(f"{packed.min()} to {packed.max()} does not fit {ctype}")
    return stored


def arrays_of(constants: Iterable[Stored]) -> list[dict[str, Any]]:
    """Every array once, for the templates."""
    return [
        {
            "id": one.id,
            "ctype": one.ctype,
            "count": max(one.array.size, 1),
            "bytes": one.array.nbytes,
            "lines": _lines(one.array) or ["0,"],
            "data": one.array,
            "checked": one.array.nbytes > 0 and not _has_nan(one.array),
        }
        for one in {one.id: one for one in constants}.values()
    ]


def _has_nan(array: Array) -> bool:
    """Whether the array has a NaN, for which a C compiler may choose among several bit patterns."""
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def weights_bytes(graph: Graph) -> int:
    """The bytes of all constants of a graph with kernels."""
    return sum({one.id: one.array.nbytes for one in constants_of(graph, "").values()}.values())


def _lines(array: Array) -> list[str]:
    flat = array.reshape(-1)
    if flat.dtype == np.float64:
        texts = [float(v).hex() if np.isfinite(v) else _not_finite(v) for v in flat.tolist()]
    elif flat.dtype == np.float32:
        texts = [float_literal(v) if np.isfinite(v) else _not_finite(v) for v in flat.tolist()]
    else:
        texts = [_literal(int(v)) for v in _as_integers(flat).tolist()]
    width = 20 if array.dtype.itemsize == 1 else 8
    return [", ".join(texts[i : i + width]) + "," for i in range(0, len(texts), width)]


def _as_integers(array: Array) -> Array:
    """The elements as C stores them: floats of less than 32 bits as their bits, bools and small integers as numbers."""
    if array.dtype.kind in "iu":
        return array
    if array.dtype.name in NIBBLES:
        return array.astype(np.int8)
    return array.view(np.uint8 if array.dtype.itemsize == 1 else np.uint16)


def _not_finite(value: float) -> str:
    """Infinity or NaN as a constant expression of C99 that needs no header."""
    return "(0.0f / 0.0f)" if value != value else f"({'-' if value < 0 else ''}1.0f / 0.0f)"


def _literal(value: int) -> str:
    if value == -(2**63):
        return "(-9223372036854775807LL - 1)"
    if value > 2**63 - 1:
        return f"{value}ULL"
    if value == -(2**31):
        return "(-2147483647 - 1)"
    if not -(2**31) <= value < 2**32:
        return f"{value}LL"
    return f"{value}u" if value > 2**31 - 1 else str(value)


def float_literal(x: float) -> str:
    text = repr(float(np.float32(x)))
    shortest = np.format_float_scientific(np.float32(x), unique=True, trim="0")
    return f"{shortest if float(np.float32(shortest)) == float(text) else text}f"


def dtype_of(value: Value) -> str:
    return value.qtype.dtype if value.qtype else value.dtype
