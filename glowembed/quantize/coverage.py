"""How each node of a quantized graph is computed, and which outputs int8 represents too coarsely.

In: the graph with types, and the Precision. Out: a row for each node, and Notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from glowembed.errors import UnsupportedModelError
from glowembed.graph.ir import Graph, Node, Value
from glowembed.graph.notes import Note
from glowembed.graph.op import is_a
from glowembed.graph.registry import ops
from glowembed.ops.edge import Dequantize
from glowembed.ops.softmax import Softmax
from glowembed.options.table import Settings
from glowembed.quantize.biases import weights_error
from glowembed.quantize.precision import Precision
from glowembed.quantize.types import dtype_of, source_of
from glowembed.records import dataclass


@dataclass(frozen=True)
class Coverage:
    """How one node is computed. dtype: in which it computes; weights: their dtype and number of scales; reason: why it
    is float.
    """

    node: str
    op: str
    dtype: str
    output: str
    weights: str
    settings: Mapping[str, Any]
    reason: str = ""

    def json(self) -> dict[str, Any]:
        return asdict(self)


def coverage(graph: Graph, precision: Precision, unrounded: Mapping[str, Value] | None = None) -> tuple[Coverage, ...]:
    """The coverage of each node of a quantized graph, conversions included. unrounded: its values before weights were rounded
    together.
    """
    unrounded = unrounded or graph.values
    return tuple(_covered(graph, node, precision.nodes.get(node.name), unrounded) for node in graph.nodes)


def _covered(graph: Graph, node: Node, settings: Settings | None, unrounded: Mapping[str, Value]) -> Coverage:
    y = graph.values[node.outputs[0]]
    chosen = y.plain and ops()[node.op].output_type == "shared"
    dtype = dtype_of(graph.values[source_of(graph, node)] if chosen else y)
    weights, products = "", ops()[node.op].products
    if ops()[node.op].has_weights or products:
        w = graph.values[node.inputs[products[0].weights if products else 1]]
        weights = (
            f"{dtype_of(w)} x {len(set(w.qtype.scale))}{_bits_kept(w)}{_numbers(w, unrounded[w.name])}"
            if w.qtype
            else "float32"
        )
    if settings is None:
        return Coverage(node.name, node.operator, dtype, describe(y), weights, {}, "")
    reason = settings.rules.get("dtype", "between float32 nodes") if dtype == "float32" else ""
    return Coverage(
        node.name, node.operator, dtype, describe(y), weights, replace(settings, dtype=dtype).json(), reason
    )


def _bits_kept(weights: Value) -> str:
    """The bits that the channels of int16 weights use, as text such as ` (12.3..15.8 bits)`; "" for other weights."""
    if weights.const is None or weights.qtype is None or weights.qtype.dtype != "int16":
        return ""
    stored = np.abs(weights.qtype.quantize(weights.const.materialize()).astype(np.int64))
    peaks = stored.reshape(stored.shape[0], -1).max(axis=1)
    bits = np.log2(2.0 * peaks[peaks > 0] + 1.0)
    return f" ({bits.min():.1f}..{bits.max():.1f} bits)" if bits.size else ""


def _numbers(weights: Value, unrounded: Value) -> str:
    """The size of the table of compressed weights, and the ratio of the weights to their errors, as text such as
    ` (16 numbers, 24.1 dB)`; "" for other weights.
    """
    if weights.const is None or unrounded.const is None or weights.qtype is None or not weights.qtype.table:
        return ""
    real = unrounded.const.materialize().astype(np.float64)
    power, noise = np.square(real).sum(), np.square(weights_error(real, weights.qtype, weights.const)).sum()
    ratio = f", {10 * np.log10(power / noise):.1f} dB" if power > 0 and noise > 0 else ""
    return f" ({len(weights.qtype.table)} numbers{ratio})"


def describe(value: Value) -> str:
    """A type in words: `int8 0.0235 -128`, or `float32`."""
    if value.qtype is None:
        return value.dtype
    return f"{value.qtype.dtype} {value.qtype.scale[0]:.6g} {value.qtype.zero_point[0]}"


def require_all_quantized(table: tuple[Coverage, ...]) -> None:
    """Raise UnsupportedModelError with every node that computes in float32, and why."""
    kept = [c for c in table if c.dtype == "float32" and c.op != Dequantize.name]
    if kept:
        lines = "\n".join(f"  {c.op} {c.node!r}: {c.reason}" for c in kept)
        raise UnsupportedModelError(f"{len(kept)} of {len(table)} nodes are not quantized:\n{lines}")


FINE_CLASSES = 256
"""The number of steps of a probability in int8. With more classes, a uniform distribution gives each class less than
one step.
"""


def _same_numbers(graph: Graph, node: Node) -> bool:
    """Whether the output holds the numbers of the only input, possibly in another order or type."""
    op, sizes = ops()[node.op], [graph.values[name].elements for name in (*node.inputs, *node.outputs)]
    return op.converts or (op.dependence == "move" and sizes == [sizes[0]] * 2)


def coarse_softmaxes(graph: Graph) -> Iterator[Note]:
    """Notes about outputs of a quantized graph that are an int8 Softmax over more classes than it has steps."""
    made = graph.producer()
    for output in graph.outputs:
        name = output
        while name in made and _same_numbers(graph, made[name]):
            name = made[name].inputs[0]
        value = graph.values[name]
        if name in made and is_a(made[name], Softmax) and dtype_of(value) == "int8" and value.shape[-1] > FINE_CLASSES:
            node = made[name].name
            yield Note(
                "coarse-softmax",
                f"{output}: a softmax over {value.shape[-1]} classes in int8 has steps of {value.qtype.scale[0] if value.qtype else 0:.3g}:"
                f" smaller probabilities are lost; a rule {{name: {node}, dtype: int16}} in a precision.yaml keeps them",
            )
