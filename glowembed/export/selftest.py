"""The self-test of an export: a program computes its own inputs, runs the network, and hashes the outputs.

In: a bundle. Out: the hash that every correct build gives, computed by the integer reference, and what the C text of the
self-test needs in order to make the same inputs.

The law, which `common/selftest.c.j2` follows in C:

- The numbers of an input come from xorshift32 (Marsaglia, 2003) with the shifts 13, 17 and 5. The generator of input i begins with
  SEED ^ (i * SEED_STEP mod 2^32), and goes on from run to run.
- An element is made from one number n, as FILLS says: all bits of a quantized element of 8 or 16 bits are random, floats are
  ((n >> 24) + 1) / 256, so that they are above 0 and at most 1, and every other element is 0 or 1, which is also a valid index.
- The states of the network begin with 0. It runs RUNS times.
- The hash is FNV-1a with 64 bits over the bytes of all outputs, in the order of the header, run after run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from glowembed.emit.weights import FNV_OFFSET, fnv1a
from glowembed.errors import UsageError
from glowembed.graph.ir import Array, Value
from glowembed.nest.dtypes import numpy_type
from glowembed.pipeline import Bundle
from glowembed.records import dataclass
from glowembed.reference import graph_runs, run_int_all

RUNS = 3
SEED, SEED_STEP = 2463534242, 0x9E3779B9
MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class Fill:
    """How an element is made from a number n of the generator: as a C expression of this C type, and by numpy."""

    name: str
    ctype: str
    expression: str
    made: Callable[[Array], Array]


def _whole(bits: int, shift: int) -> Fill:
    """An unsigned integer of `bits` bits: the number without its last `shift` bits."""
    name = "bits" if shift < 31 else "flags"
    dtype = f"uint{bits}"
    return Fill(f"{name}{bits}", f"{dtype}_t", f"({dtype}_t)(number >> {shift})", lambda n: (n >> shift).astype(dtype))


def _real(name: str, ctype: str) -> Fill:
    expression = f"({ctype})((number >> 24) + 1u) / ({ctype})256"
    return Fill(name, ctype, expression, lambda n: ((n >> 24) + 1).astype(name) / np.dtype(name).type(256))


FILLS = {
    "int8": _whole(8, 24),
    "uint8": _whole(8, 24),
    "int16": _whole(16, 16),
    "uint16": _whole(16, 16),
    "float32": _real("float32", "float"),
    "float64": _real("float64", "double"),
}
"""The fills of quantized elements and of floats by their type."""

FLAGS = {bits // 8: _whole(bits, 31) for bits in (8, 16, 32, 64)}
"""The fills of all other elements by their bytes."""


def fill_of(dtype: str, quantized: bool) -> Fill:
    """The fill of an input whose elements are stored in this type."""
    if dtype in FILLS and (quantized or dtype.startswith("float")):
        return FILLS[dtype]
    return FLAGS[numpy_type(dtype).itemsize]


def seed_of(index: int) -> int:
    """The first state of the generator of an input."""
    return SEED ^ (index * SEED_STEP & MASK)


def numbers(state: int) -> Iterator[int]:
    """xorshift32 from a state on."""
    while True:
        state ^= state << 13 & MASK
        state ^= state >> 17
        state ^= state << 5 & MASK
        yield state


def expected(bundle: Bundle) -> int:
    """The hash of the outputs of the integer reference. Raises UsageError for outputs whose bits differ between processors."""
    graph, digest = bundle.graph, FNV_OFFSET
    inputs = [graph.values[name] for name in graph.free_inputs]
    for _, results in graph_runs(graph, _samples(inputs), run_int_all):
        for name in graph.outputs:
            digest = fnv1a(_bytes(name, results[name], graph.values[name]), digest)
    return digest


def _samples(inputs: list[Value]) -> Iterator[dict[str, Array]]:
    generators = [numbers(seed_of(index)) for index in range(len(inputs))]
    for _ in range(RUNS):
        yield {value.name: _sample(value, made) for value, made in zip(inputs, generators, strict=True)}


def _sample(value: Value, generator: Iterator[int]) -> Array:
    dtype = value.qtype.dtype if value.qtype else value.dtype
    count = int(np.prod(value.shape))
    drawn = np.fromiter(generator, np.uint32, count) if count else np.zeros(0, np.uint32)
    stored = fill_of(dtype, value.qtype is not None).made(drawn)
    kind: np.dtype[Any] = numpy_type(dtype)
    return (stored.view(kind) if stored.dtype.itemsize == kind.itemsize else stored.astype(kind)).reshape(value.shape)


def _bytes(name: str, result: Any, value: Value) -> bytes:
    """The bytes of an output as a program finds them."""
    array = np.ascontiguousarray(result)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise UsageError(
            f"the self-test's inputs, which are random, give NaN in the output {name!r}, and processors give NaN different bits: "
            "this bundle cannot be exported with a self-test"
        )
    return array.astype(array.dtype.newbyteorder("<")).tobytes()
