"""Shows a bundle's integers: types as Glow prints them, multipliers, shifts, biases, and the graph as a picture.

In: a Bundle. Out: rows, JSON, an SVG, GraphViz text. The JSON has everything that is needed to recompute any layer by
hand; see `glowembed.reference` for replaying one in Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from glowembed.errors import UsageError
from glowembed.files.output import write_file
from glowembed.graph.ir import Array, Graph, Node, Value
from glowembed.graph.registry import kernel_ops
from glowembed.law.fixedpoint import EACH_NAMES, WORD_NAMES
from glowembed.law.modes import Mode
from glowembed.pipeline import Bundle
from glowembed.records import dataclass
from glowembed.show import graph_view

SHORT = {"int8": "i8", "int16": "i16", "int32": "i32", "uint8": "ui8", "float32": "float"}
SHOWN = 4
"""The number of elements of a per-channel array that a table shows; the JSON has all."""


@dataclass(frozen=True)
class NodeView:
    """A node with the types of its inputs and outputs, its params, and its constants in full.

    origins: the ONNX nodes. words: for a constant that interleaves several numbers, as in the requantization of other
    engines, their names in order; a number with an empty name is not used.
    """

    name: str
    origins: tuple[str, ...]
    op: str
    kernel: str | None
    inputs: tuple[str, ...]
    output: str
    params: Mapping[str, Any]
    constants: Mapping[str, Array]
    words: Mapping[str, tuple[str, ...]]

    def named(self) -> dict[str, Array]:
        """The constants; those that interleave several numbers are separated: `multiplier` and `pre_shift`, each by
        channel.
        """
        apart: dict[str, Array] = {}
        for name, array in self.constants.items():
            words = self.words.get(name, (name,))
            apart |= {
                word: array.reshape(-1)[i :: len(words)] if len(words) > 1 else array for i, word in enumerate(words)
            }
        return {name: array for name, array in apart.items() if name}


def type_text(value: Value) -> str:
    """A type as Glow prints it, `i8[S:0.025510000 O:-128][-0.000,6.505]<1 x 56 x 56 x 64>`; only dtype and shape for
    float.
    """
    shape = " x ".join(map(str, value.shape))
    q = value.qtype
    if q is None:
        return f"{SHORT[value.dtype]}<{shape}>"
    if q.axis is not None:
        return f"{SHORT[q.dtype]}[S:{min(q.scale):.9f}..{max(q.scale):.9f} axis {q.axis}]<{shape}>"
    low, high = q.range()
    return f"{SHORT[q.dtype]}[S:{q.scale[0]:.9f} O:{q.zero_point[0]}][{low:.3f},{high:.3f}]<{shape}>"


def views(bundle: Bundle) -> tuple[NodeView, ...]:
    """Every kernel-level node of the bundle, in order of execution."""
    return tuple(_view(bundle.graph, node) for node in bundle.graph.nodes)


def _view(graph: Graph, node: Node) -> NodeView:
    return NodeView(
        node.name,
        node.origins,
        node.op,
        node.kernel,
        tuple(f"{name}: {type_text(graph.values[name])}" for name in node.inputs),
        f"{node.outputs[0]}: {type_text(graph.values[node.outputs[0]])}",
        asdict(node.params) if node.params is not None else {},
        {name: const.materialize() for name, const in node.constants.items()},
        _words(kernel_ops()[node.op].requantization, node),
    )


def _words(mode: Mode, node: Node) -> dict[str, tuple[str, ...]]:
    """The names of the numbers that this node's constants interleave."""
    found = {"multiplier": WORD_NAMES[mode], "words": EACH_NAMES.get(mode, ())}
    return {name: names for name, names in found.items() if name in node.constants and len(names) > 1}


def as_json(bundle: Bundle) -> list[dict[str, Any]]:
    """The views with every number, for machines."""
    return [{**vars(view), "constants": {n: a.tolist() for n, a in view.constants.items()}} for view in views(bundle)]


def array_text(array: Array) -> str:
    """The first few elements and how many there are."""
    flat = np.asarray(array).reshape(-1)
    dots = ", ..." if flat.size > SHOWN else ""
    return f"[{', '.join(str(v) for v in flat[:SHOWN].tolist())}{dots}] ({flat.size}){_bits_kept(array)}"


def _bits_kept(array: Array) -> str:
    """For weights of int16, whose scales leave sums in 32 bits, the bits that the channels use; empty for other arrays."""
    array = np.asarray(array)
    if array.dtype != np.int16 or array.ndim < 2:
        return ""
    peaks = np.abs(array.astype(np.int64)).max(axis=(0, 1) if array.ndim == 3 else tuple(range(1, array.ndim)))
    bits = np.log2(2.0 * peaks[peaks > 0] + 1.0)
    return f", {bits.min():.1f}..{bits.max():.1f} bits a channel" if bits.size else ""


def dot(bundle: Bundle) -> str:
    """The graph in the language of GraphViz: a box per node, an arrow per tensor with its type."""
    graph = bundle.graph
    producer = {name: node.name for node in graph.nodes for name in node.outputs}
    lines = [f"digraph {_quoted(graph.name)} {{", '  node [shape=box fontname="monospace"]', "  edge [fontsize=10]"]
    lines += [f"  {_quoted('in:' + name)} [shape=oval label={_quoted(name)}]" for name in graph.inputs]
    for node in graph.nodes:
        lines.append(f"  {_quoted(node.name)} [label={_quoted(f'{node.name}{chr(10)}{node.kernel or node.op}')}]")
        lines += [_edge(graph, producer, name, node.name) for name in node.inputs if graph.values[name].const is None]
    for name in graph.outputs:
        lines.append(f"  {_quoted('out:' + name)} [shape=oval label={_quoted(name)}]")
        lines.append(_edge(graph, producer, name, f"out:{name}"))
    return "\n".join([*lines, "}\n"])


def _edge(graph: Graph, producer: Mapping[str, str], name: str, reader: str) -> str:
    source = producer.get(name, f"in:{name}")
    return f"  {_quoted(source)} -> {_quoted(reader)} [label={_quoted(type_text(graph.values[name]))}]"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{"".join(c for c in escaped if c.isprintable())}"'


def svg(bundle: Bundle) -> str:
    """The graph as an SVG, made without GraphViz."""
    graph = bundle.graph
    rows = [graph_view.Row(name, "input", (), name, round=True) for name in graph.inputs]
    for node in graph.nodes:
        reads = tuple(name for name in node.inputs if graph.values[name].const is None)
        rows.append(graph_view.Row(node.name, node.kernel or node.op, reads, node.outputs[0]))
    rows += [graph_view.Row(name, "output", (name,), None, round=True) for name in graph.outputs]
    made = [row.makes for row in rows if row.makes is not None]
    return graph_view.svg(graph.name, rows, {name: type_text(graph.values[name]) for name in made})


def draw(bundle: Bundle, path: Path) -> None:
    """Write the graph to `path`: a picture (.svg), or the text of GraphViz (.dot). Raises UsageError for another ending."""
    write = {".dot": dot, ".svg": svg}.get(path.suffix)
    if write is None:
        raise UsageError(f"{path}: a graph is written as .dot or .svg")
    write_file(path, write(bundle))
