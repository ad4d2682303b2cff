"""Recurrent ops in float32, by the loop nest of their definition for one direction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from glowembed.graph.ir import Const, Node, Value
from glowembed.graph.op import LowerContext, OnnxNode, free_name
from glowembed.graph.registry import definitions
from glowembed.nest.program import Program, Tensor
from glowembed.ops.nest import add as add_nest
from glowembed.ops.nest import params_of
from glowembed.ops.shared.definition import Definition

PLACES = {"h": 5, "c": 6, "P": 7}
OUTPUTS = {"all": 0, "last": 1, "cell": 2}


def _lower(node: Node, c: LowerContext) -> None:
    """Add the node that runs the definition on these operands; their leading axis has size 1, for the direction."""
    program, operands = _program(node, c)
    inputs = tuple(operands[t.name] for t in program.inputs)
    add_nest(replace(node, inputs=inputs), c, params_of(program))


def _program(node: Node, c: LowerContext) -> tuple[Program, dict[str, str]]:
    attrs = node.attrs
    x, w, r, wb, rb, *given = node.inputs
    bias = Const(np.concatenate([c.const(name).materialize() for name in (wb, rb)])[None])
    known = {1: _led(c, w), 2: _led(c, r), 3: bias}
    if attrs["lengths"]:
        known[4] = Const(np.asarray(attrs["lengths"], np.int32))
    batch_first, names = attrs["batch_first"], {"x0": x}
    tensors: list[Tensor | None] = [Tensor("x0", c.shape(x), "float32"), *[None] * 7]
    for key, name in zip(attrs["given"], given, strict=True):
        const, shape = c.value(name).const, c.shape(name)
        i = PLACES[key]
        if const is not None:
            axis = 1 if batch_first and key != "P" else 0
            known[i] = const.then("direction", lambda a, axis=axis: np.expand_dims(a, axis))
            continue
        names[f"x{i}"] = name
        tensors[i] = Tensor(f"x{i}", (shape[0], 1, shape[1]) if batch_first else (1, *shape), "float32")
    for i, const in known.items():
        array = const.materialize()
        tensors[i] = Tensor.constant(f"x{i}", array, array.dtype.name)
        names[f"x{i}"] = _constant(c, f"{node.outputs[0]}/x{i}", const)
    n = Definition(_onnx(node), tensors, [None] * 8, [None] * 3, exact=False)
    definitions()[attrs["kind"]](n)
    program = n.programs()[OUTPUTS[attrs["result"]]]
    return program, names


def _onnx(node: Node) -> OnnxNode:
    """The node with one direction and one output, in the form that the definition reads."""
    attrs = node.attrs
    own: dict[str, Any] = {
        "direction": "reverse" if attrs["reverse"] else "forward", "layout": int(attrs["batch_first"]),
        "activations": [name for name, _ in attrs["functions"]], "clip": attrs["clip"] or None,
        "activation_alpha": [numbers[0] for _, numbers in attrs["functions"] if numbers],
        "activation_beta": [numbers[1] for _, numbers in attrs["functions"] if len(numbers) > 1],
        "input_forget": attrs["input_forget"], "linear_before_reset": attrs["linear_before_reset"],
    }  # fmt: skip
    outputs = tuple("y" if i == OUTPUTS[attrs["result"]] else "" for i in range(3))
    return OnnxNode(attrs["kind"], node.name, (), outputs, own, 14)


def _led(c: LowerContext, name: str) -> Const:
    return c.const(name).then("direction", lambda a: a[None])


def _constant(c: LowerContext, name: str, const: Const) -> str:
    name = free_name(name, c.graph.values, c.values)
    array = const.materialize()
    c.values[name] = Value(name, array.shape, dtype=array.dtype.name, const=const)
    return name


OPS = ()
LOWERINGS = {(op, "float32"): _lower for op in ("LSTM", "GRU", "RNN", "LSTMMemory")}
