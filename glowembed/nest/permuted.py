"""Rewrites programs that compute each element from the elements in the same place, for tensors with another order of
axes.

In: a program, and an order of axes. Out: the program on tensors with that order, or None if elements depend on other
places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from glowembed.nest.dtypes import INDEX
from glowembed.nest.expr import Expr, index, variable
from glowembed.nest.program import Program, Statement, Tensor, parts

Shape = tuple[int, ...]


def permuted(program: Program, perm: Sequence[int]) -> Program | None:
    """The program for tensors whose axis i is axis perm[i] of its own tensors; those with fewer axes first get leading
    axes of size 1. Tensors with one element are not changed. All others must be float32, the only type that a Transpose
    can have.
    """
    if any(t.dtype != "float32" and t.size > 1 for t in (*program.inputs, program.output)):
        return None
    shape, (loops, body) = program.output.shape, _loops(program.body)
    if len(perm) != len(shape) or not body or any(s.kind not in ("declare", "store") for s in body):
        return None
    full = {t.name: (1,) * (len(shape) - len(t.shape)) + t.shape for t in (*program.inputs, program.output)}
    fits = all(len(own) == len(shape) and _broadcasts(own, shape) for own in full.values())
    if program.temporaries or not fits:
        return None
    flat = list(loops.values()) == [program.output.size] and len(loops) == 1
    if flat and any(t.shape != shape for t in program.inputs if t.size > 1):
        return None
    axes = {} if flat else _axes(loops, shape)
    if axes is None:
        return None
    turned = {name: own if _size(own) == 1 else tuple(own[a] for a in perm) for name, own in full.items()}
    tensors = {
        t.name: Tensor(t.name, t.shape if t.size == 1 else turned[t.name], t.dtype, t.bounds)
        for t in (*program.inputs, program.output)
    }
    places: dict[int, Expr] = {}
    for position, name in _positions(body):
        if flat and position.op == "variable":
            places[id(position)] = position
        elif flat or _strides(position) != _expected(full[name], axes):
            if _size(full[name]) > 1 or _strides(position) != {}:
                return None
            places[id(position)] = index(0)
        else:
            own = [index(0) if full[name][a] == 1 else variable(axes[a], INDEX) for a in perm]
            places[id(position)] = Tensor(name, tuple(full[name][a] for a in perm), "int8").position(own)
    inner: tuple[Statement, ...] = tuple(_rewritten(body, places, tensors))
    order = list(loops) if flat else [axes[a] for a in perm if a in axes]
    for name in reversed(order):
        inner = (Statement("each", (name, index(loops[name]), False), inner),)
    inputs = tuple(tensors[t.name] for t in program.inputs)
    return Program(inputs, tensors[program.output.name], (), inner)


def _broadcasts(own: Shape, shape: Shape) -> bool:
    """Whether a tensor has no more elements along any axis than the output has."""
    return all(a in (1, b) for a, b in zip(own, shape, strict=True))


def _size(shape: Shape) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def _loops(body: Sequence[Statement]) -> tuple[dict[str, int], Sequence[Statement]]:
    """The independent loops around the statements, and the statements; none if other statements surround them."""
    loops: dict[str, int] = {}
    while len(body) == 1 and body[0].kind == "each":
        loops[body[0].args[0]] = body[0].args[1].value
        body = body[0].body
    return loops, body if sum(s.kind == "store" for s in body) == 1 else ()


def _axes(loops: Mapping[str, int], shape: Shape) -> dict[int, str] | None:
    """The loop over each axis with more than one element; None unless each such axis has one, in order."""
    long = [a for a, size in enumerate(shape) if size != 1]
    if [shape[a] for a in long] != list(loops.values()):
        return None
    return dict(zip(long, loops, strict=True))


def _expected(shape: Shape, axes: Mapping[int, str]) -> dict[str, int]:
    """The stride of each loop in a tensor of this shape."""
    found, stride = {}, 1
    for a in reversed(range(len(shape))):
        if shape[a] > 1:
            found[axes[a]] = stride
        stride *= shape[a]
    return found


def _strides(position: Expr) -> dict[str, int] | None:
    """How far each loop moves the position, if the position is the sum of these moves; else None."""
    found: dict[int, dict[str, int] | None] = {}
    for one in parts(position):
        if one.op == "variable":
            found[id(one)] = {str(one.value): 1}
        elif one.op == "constant":
            found[id(one)] = {} if one.value == 0 else None
        elif one.op == "+":
            a, b = (found[id(arg)] for arg in one.args)
            found[id(one)] = None if a is None or b is None or a.keys() & b.keys() else {**a, **b}
        elif one.op == "*" and one.args[1].op == "constant":
            a = found[id(one.args[0])]
            found[id(one)] = None if a is None else {name: by * one.args[1].value for name, by in a.items()}
        else:
            found[id(one)] = None
    return found[id(position)]


def _positions(body: Sequence[Statement]) -> list[tuple[Expr, str]]:
    """Each position at which a tensor is read or written, and the name of the tensor."""
    found = [(s.args[1], s.args[0].name) for s in body if s.kind == "store"]
    roots = (arg for s in body for arg in s.args if isinstance(arg, Expr))
    return found + [(one.args[0], one.value.name) for root in roots for one in parts(root) if one.op == "load"]


def _rewritten(body: Sequence[Statement], places: Mapping[int, Expr], tensors: Mapping[str, Tensor]) -> list[Statement]:
    """The statements with other positions."""
    done: dict[int, Expr] = {}

    def of(arg: object) -> object:
        if isinstance(arg, Tensor):
            return tensors[arg.name]
        if not isinstance(arg, Expr):
            return arg
        if id(arg) in places:
            return places[id(arg)]
        for one in parts(arg):
            if one.op == "load":
                done[id(one)] = Expr("load", [places[id(one.args[0])]], one.kind, tensors[one.value.name])
            elif one.op == "variable" and one.kind == INDEX:
                done[id(one)] = one
            else:
                done[id(one)] = Expr(one.op, [done[id(a)] for a in one.args], one.kind, one.value)
        return done[id(arg)]

    return [Statement(s.kind, tuple(map(of, s.args))) for s in body]
