"""Nest: an operator that is computed by a loop nest (glowembed/nest), in the types that ONNX gives it.

The definitions of operators lie in ops/definitions. Kernel-level: nest, whose C text is made from the program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from typing import Any

import numpy as np

from glowembed.errors import UnsupportedModelError
from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import Elements, whole
from glowembed.graph.ir import Array, Const, Node, Shape, Value
from glowembed.graph.layout import inverse
from glowembed.graph.op import Cost, Kernel, KernelOp, LowerContext, Op, free_name
from glowembed.nest import ctext, interpret, retype, scaled
from glowembed.nest.dtypes import numpy_type
from glowembed.nest.permuted import permuted
from glowembed.nest.program import Program, Statement, from_data, to_data
from glowembed.nest.quantity import Stored, Unscalable
from glowembed.ops.moves import stored_constant
from glowembed.records import dataclass


@dataclass(frozen=True)
class NestParams:
    """The program as JSON, which becomes C text in a bundle, and the fields that every kernel needs."""

    rows: int = i32("of the output: it is computed as one")
    program: str = field(default="", metadata={"ctype": None})


@cache
def program_of(params: NestParams) -> Program:
    """The program of a node."""
    return from_data(json.loads(params.program))


def params_of(program: Program) -> NestParams:
    """The params of a node that computes this program."""
    return NestParams(1, json.dumps(to_data(program), sort_keys=True, separators=(",", ":")))


class Nest(Op):
    """attrs: `params`, and `onnx`, the operator that the model names."""

    name = "Nest"
    plain = True

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        return (program_of(attrs["params"]).output.shape,)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        return self.float_refs(attrs, [inputs])[0]

    def float_refs(self, attrs: Mapping[str, Any], runs: Sequence[Sequence[Array]]) -> Sequence[tuple[Array, ...]]:
        return [(output,) for output in interpret.run_all(program_of(attrs["params"]), runs)]

    def permute(self, attrs: Mapping[str, Any], perm: tuple[int, ...]) -> Mapping[str, Any] | None:
        other = permuted(program_of(attrs["params"]), inverse(perm))
        return None if other is None else {**attrs, "params": params_of(other)}

    def lower(self, node: Node, c: LowerContext) -> None:
        add(node, c, node.attrs["params"])


class Choice(Nest):
    """A Nest whose program only moves, compares and selects real numbers. It runs unchanged on stored integers."""

    name = "Choice"
    plain = False
    output_type = "shared"

    def limits(self, attrs: Mapping[str, Any]) -> Sequence[float]:
        return retype.limits(program_of(attrs["params"]))

    def lower(self, node: Node, c: LowerContext) -> None:
        types = (c.value(name).qtype for name in (*node.inputs, *node.outputs))
        qtype = next(filter(None, types), None)
        if qtype is None:
            add(node, c, node.attrs["params"])
            return
        program = program_of(node.attrs["params"])
        stored = retype.stored_as(program, qtype.dtype, lambda x: int(qtype.quantize(np.asarray(x, np.float32))))
        add(node, c, params_of(stored))


class Arithmetic(Nest):
    """A Nest that adds, multiplies and divides real numbers, which nest/scaled.py can compute on stored integers."""

    name = "Arithmetic"
    plain = False
    plain_constants = True
    rounds_once = True

    def lower(self, node: Node, c: LowerContext) -> None:
        program, y = program_of(node.attrs["params"]), node.outputs[0]
        named = dict(zip((t.name for t in program.inputs), node.inputs, strict=True))
        arrays = {t: c.const(name).materialize() for t, name in named.items() if c.value(name).const is not None}
        types = {t: c.qtype(name) for t, name in {**named, program.output.name: y}.items() if t not in arrays}
        stored = {t: Stored(q.dtype, q.scale[0], q.zero_point[0]) for t, q in types.items()}
        try:
            found = scaled.on_integers(program, stored, arrays)
        except Unscalable as problem:
            raise UnsupportedModelError(
                f"{node.name}: {problem}; give the node {{dtype: float32}} in a precision.yaml"
            ) from None
        for t, array in found.constants.items():
            named[t] = free_name(f"{y}/{t}", c.graph.values, c.values)
            c.values[named[t]] = Value(named[t], array.shape, array.dtype.name, const=Const(array))
        add(replace(node, inputs=tuple(named[t.name] for t in found.program.inputs)), c, params_of(found.program))


def lower_float(node: Node, c: LowerContext) -> None:
    add(node, c, node.attrs["params"])


def add(node: Node, c: LowerContext, params: NestParams) -> None:
    """Add the kernel-level node that runs this program for a semantic node."""
    program = program_of(params)
    inputs = [_operand(c, name, t.dtype) for name, t in zip(node.inputs, program.inputs, strict=True)]
    c.add(node, "nest", inputs, node.outputs[0], params, macs=int(_iterations(program.body)))


def _operand(c: LowerContext, name: str, dtype: str) -> str:
    """The input as the program reads it: a constant is stored in the type of the program's tensor."""
    value = c.value(name)
    if value.const is None or value.name in c.values:
        return name
    if value.qtype is not None:
        return stored_constant(c, name)
    made = f"{name}/{dtype}"
    c.values[made] = _plain_constant(value, made, dtype)
    return made


def _plain_constant(value: Any, name: str, dtype: str) -> Any:
    const = value.const.then(dtype, lambda array: array.astype(numpy_type(dtype)))
    return replace(value, name=name, dtype=dtype, qtype=None, const=const)


def _iterations(body: Sequence[Statement]) -> float:
    """An estimate of how often the innermost statements are executed; a loop of unknown length counts as one
    iteration.
    """
    total = 0.0
    for s in body:
        if s.kind in ("each", "loop"):
            count = s.args[1].value if s.args[1].op == "constant" else 1
            total += count * _iterations(s.body)
        else:
            total += 1 + _iterations(s.body)
    return total


def _cost(node: Node, target: Any) -> Cost:
    return Cost(12.0 * _iterations(program_of(node.params).body), 60 * _statements(program_of(node.params).body))


def _statements(body: Sequence[Statement]) -> int:
    return sum(1 + _statements(s.body) for s in body)


@cache
def _symbol(params: NestParams) -> str:
    return ctext.symbol(program_of(params))


def _text(params: NestParams) -> str:
    return ctext.text(program_of(params), _symbol(params))


def _bytes(p: NestParams) -> Elements:
    """Tensors have different types, so their elements are counted as bytes."""
    program = program_of(p)
    sizes = [t.size * numpy_type(t.dtype).itemsize for t in (*program.inputs, program.output)]
    return tuple(sizes[:-1]), sizes[-1]


class NestOp(KernelOp[NestParams]):
    """Runs the program of its params; every tensor is one row."""

    name = "nest"
    params = NestParams
    geometry = whole(_bytes)
    variadic = True
    kernels = (
        Kernel(
            "ge_nest",
            cost=_cost,
            scratch=lambda p: ctext.scratch(program_of(p)),
            generated=_text,
            named=_symbol,
        ),
    )

    def int_ref(self, p: NestParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return self.int_refs(p, [inputs], constants)[0]

    def int_refs(
        self, p: NestParams, runs: Sequence[Sequence[Array]], constants: Mapping[str, Array]
    ) -> Sequence[Array]:
        return interpret.run_all(program_of(p), runs)


OPS = (Nest(), Choice(), Arithmetic())
LOWERINGS = {
    **{("Choice", dtype): Choice().lower for dtype in ("int16", "float32")},
    ("Arithmetic", "int16"): Arithmetic().lower,
    ("Arithmetic", "float32"): lower_float,
}
KERNEL_OPS = (NestOp(),)
