"""Makes a network fit an existing program that reads its weights from a file.

In: a kernel-level graph, the graph of the program. Out: the graph with the shifts of the program where possible, or the
reason why its weights file does not fit the program.

The code of kernels contains the shift of a requantization, which depends on scales. A multiplier with fewer bits and a
smaller shift is the same to within half of its last bit, so a layer can use any shift that is not larger than its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from glowembed.graph.ir import Const, Graph, Node
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.law.fixedpoint import round_half_up

VALUES = frozenset(("in_zero_point", "out_zero_point", "lo", "hi", "chunk"))
"""Fields of params that no kernel has in its code."""


def with_shifts_of(program: Graph, graph: Graph) -> Graph:
    """The graph with the shifts of the program, in layers of the same name."""
    known = {node.name: node for node in program.nodes}
    return replace(graph, nodes=tuple(_shifted(node, known.get(node.name)) for node in graph.nodes))


def _shifted(node: Node, old: Node | None) -> Node:
    own, wanted = (getattr(n.params, "shift", None) if n is not None else None for n in (node, old))
    if old is None or node.op != old.op or own is None or wanted is None or not 0 < wanted < own:
        return node
    if kernel_ops()[node.op].requantization != "default" or not {"bias", "multiplier"} <= set(node.constants):
        return node
    multiplier = node.constants["multiplier"].materialize()
    fewer = round_half_up(multiplier.astype(np.float64) * 2.0 ** (wanted - own)).astype(multiplier.dtype)
    return replace(
        node, params=replace(node.params, shift=wanted), constants={**node.constants, "multiplier": Const(fewer)}
    )


def difference(program: Graph, graph: Graph, there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """The first difference between a program and a network, for a message. there, here: their manifests."""
    if there["target"] != here["target"]:
        return f"its target is {there['target']}, here it is {here['target']}"
    if len(there["layers"]) != len(here["layers"]):
        return f"it has {len(there['layers'])} layers, here there are {len(here['layers'])}"
    layers = ([n for n in g.nodes if n.kernel] for g in (program, graph))
    found = [*_tensors(there, here), *(text for a, b in zip(*layers, strict=True) for text in _layer(a, b))]
    if there["arena"] != here["arena"]:
        found.append(f"its arena has {there['arena']['size']} bytes, here it has {here['arena']['size']}")
    return found[0] if found else "the order of calls, the places of tensors or the size of a constant are others"


def _tensors(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    """The differences between inputs and outputs."""
    for key in ("inputs", "outputs"):
        for a, b in zip(there[key], here[key], strict=False):
            for field in ("id", "dtype", "shape", "layout", "handed"):
                if a[field] != b[field]:
                    yield f"the {field} of its {key[:-1]} {a['name']!r} is {a[field]}, here it is {b[field]}"


def _layer(a: Node, b: Node) -> Iterator[str]:
    """The differences between two layers."""
    where = f"in its layer {a.name!r}"
    if a.op != b.op:
        yield f"{where} the operation is {a.op}, here it is {b.op}"
        return
    for field in fields(a.params):
        old, new = getattr(a.params, field.name), getattr(b.params, field.name)
        if old != new and field.name == "shift":
            yield f"{where} the shift of the requantization is {old}, here it is {new}, as the scale has changed"
        elif old != new and field.name not in VALUES and not field.name.startswith("multiplier"):
            yield f"{where} {field.name} is {old}, here it is {new}"
    symbols = [kernel(n.kernel or "").symbol_for(n.params) for n in (a, b)]
    if symbols[0] != symbols[1]:
        yield f"its layer {a.name!r} calls {symbols[0]}, here it is {symbols[1]}"
