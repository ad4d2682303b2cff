"""Recognizes programs that compute one function of one number for every element.

In: a program and the constants among its inputs. Out: that function for any number of elements, or None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed.nest.expr import Expr, constant
from glowembed.nest.program import Program, Recorder, Statement, Tensor, parts

Array = NDArray[Any]

FLOAT = "float32"


def function_of(program: Program, constants: Mapping[str, Array]) -> Program | None:
    """The function as a program over one element; None if the program is not a function of one float32.

    constants: the content of inputs with one element, by the name of the tensor; they become numbers in the program.
    """
    computed = [t for t in program.inputs if t.name not in constants]
    stores = _innermost(program.body)
    if len(computed) != 1 or stores is None or program.temporaries:
        return None
    (x,), (y, position, value) = computed, stores.args
    if x.dtype != FLOAT or y.dtype != FLOAT or x.size != y.size or not _is_function(value, x, position, constants):
        return None
    return resized(Program(program.inputs, program.output, (), (stores,)), 1, constants)


def resized(program: Program, size: int, constants: Mapping[str, Array] | None = None) -> Program:
    """The function that `function_of` found, for `size` elements."""
    store = _innermost(program.body)
    assert store is not None
    known, done, k = constants or {}, dict[int, Expr](), Recorder()
    x, y = Tensor("x0", (size,), FLOAT), Tensor("y0", (size,), FLOAT)
    with k.each((size,)) as (i,):
        for one in parts(store.args[2]):
            done[id(one)] = _rebuilt(one, x.flat(i), known, done)
        k.store(y, i, done[id(store.args[2])])
    return Program((x,), y, (), tuple(k.body))


def _rebuilt(one: Expr, element: Expr, constants: Mapping[str, Array], done: Mapping[int, Expr]) -> Expr:
    if one.op == "load":
        name = one.value.name
        return constant(_number(constants[name]), one.kind) if name in constants else element
    return Expr(one.op, [done.get(id(arg), arg) for arg in one.args], one.kind, one.value)


def _number(array: Array) -> Any:
    return np.reshape(array, -1)[0].item()


def _innermost(body: Sequence[Statement]) -> Statement | None:
    """The statement inside the independent loops, if it is the only one and a store; else None."""
    while len(body) == 1 and body[0].kind == "each":
        body = body[0].body
    return body[0] if len(body) == 1 and body[0].kind == "store" else None


def _is_function(value: Expr, x: Tensor, position: Expr, constants: Mapping[str, Array]) -> bool:
    """Whether a value depends only on the element of x at the position that is stored."""
    place, seen, stack = _key(position), set[int](), [value]
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if one.op == "variable":
            return False
        if one.op != "load":
            stack.extend(one.args)
        elif one.value.name == x.name and _key(one.args[0]) != place:
            return False
    return any(one.op == "load" and one.value.name == x.name for one in parts(value))


def _key(position: Expr) -> Any:
    """A key that is equal for equal positions."""
    return position.op, position.value, tuple(map(_key, position.args))
