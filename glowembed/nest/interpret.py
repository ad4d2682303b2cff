"""The reference: runs a program of loop nests in numpy. In: a Program and its input tensors. Out: the output, bit for
bit as in C.

All iterations of independent loops run at once: each of their variables is an array along its own axis. Ordered loops
are Python loops, so sums are taken in the same order as in C. A condition is a mask that selects stores. Because
masked-out lanes are evaluated too, a load outside its tensor reads the nearest element. Several runs of a program, as
of the samples of a dataset, are one more axis, the first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from glowembed.law import floatmath
from glowembed.nest import dtypes, functions
from glowembed.nest.dtypes import BOOL, INDEX
from glowembed.nest.expr import COMPARISONS, Expr
from glowembed.nest.program import Program, Statement, Tensor, parts

Array = Any

_FLOAT32 = {name: getattr(floatmath, name) for name in functions.IN_FLOAT32}


def run(program: Program, inputs: Sequence[Array]) -> Array:
    """The stored output for these inputs. Raises ValueError if their number is wrong."""
    return run_all(program, [inputs])[0]


def run_all(program: Program, runs: Sequence[Sequence[Array]]) -> Sequence[Array]:
    """The stored output of each run, for its inputs. An input that is the same object in all runs is stored once.

    Raises ValueError if the number of inputs is wrong.
    """
    memory, once = {}, set[str]()
    for t, arrays in zip(program.inputs, zip(*runs, strict=True), strict=True):
        if all(array is arrays[0] for array in arrays):
            arrays = arrays[:1]
            once.add(t.name)
        memory[t.name] = np.array(arrays, dtypes.numpy_type(t.dtype), order="C").reshape(-1)
    for t in (program.output, *program.temporaries):
        memory[t.name] = np.zeros(len(runs) * t.size, dtypes.numpy_type(t.dtype))
    machine = _Machine(memory, _depth(program.body), len(runs), once)
    with np.errstate(all="ignore"):
        machine.block(program.body, machine.first_axis, None)
    return list(memory[program.output.name].reshape(len(runs), *program.output.shape))


def _depth(body: Sequence[Statement]) -> int:
    return max((_depth(s.body) + (s.kind == "each") for s in body), default=0)


class _Machine:
    """The memory, the variables, and the number of axes along which independent variables are arranged.

    memory: the elements of each tensor, of all runs one after the other; of the tensors of `once` those of one run.
    """

    def __init__(self, memory: dict[str, Array], depth: int, runs: int, once: Collection[str]) -> None:
        self.memory, self.once = memory, once
        self.first_axis = int(runs > 1)
        self.rank = self.first_axis + depth
        self.run = np.arange(runs).reshape(runs, *[1] * depth) if runs > 1 else None
        self.variables: dict[str, Array] = {}
        self.orders: dict[int, tuple[list[_Step], dict[int, Array]]] = {}
        """For each expression by its id: its operations in order, and its constants. Loops evaluate it many times."""

    def block(self, body: Sequence[Statement], depth: int, mask: Array | None) -> None:
        for statement in body:
            getattr(self, f"_{statement.kind}")(statement, depth, mask)

    def _each(self, s: Statement, depth: int, mask: Array | None) -> None:
        name, count, _ = s.args
        shape = [1] * self.rank
        shape[depth] = count.value
        if count.value:
            self.variables[name] = np.arange(count.value, dtype=np.int64).reshape(shape)
            self.block(s.body, depth + 1, mask)

    def _loop(self, s: Statement, depth: int, mask: Array | None) -> None:
        name, count, down = s.args
        if count.op == "constant":
            for i in reversed(range(count.value)) if down else range(count.value):
                self.variables[name] = np.int64(i)
                self.block(s.body, depth, mask)
            return
        counts = self.value(count)
        for i in range(int(np.max(counts, initial=0))):
            self.variables[name] = np.int64(i)
            runs = np.asarray(i < counts)
            self.block(s.body, depth, runs if mask is None else mask & runs)

    def _if(self, s: Statement, depth: int, mask: Array | None) -> None:
        holds = self.value(s.args[0])
        both = holds if mask is None else mask & holds
        if np.any(both):
            self.block(s.body, depth, both)

    def _declare(self, s: Statement, depth: int, mask: Array | None) -> None:
        self.variables[s.args[0]] = self.value(s.args[1])

    def _set(self, s: Statement, depth: int, mask: Array | None) -> None:
        name, value = s.args[0], self.value(s.args[1])
        self.variables[name] = value if mask is None else np.where(mask, value, self.variables[name])

    def _store(self, s: Statement, depth: int, mask: Array | None) -> None:
        tensor, position, value = s.args
        at, arrays = self.value(position), [self.value(value), *([] if mask is None else [mask])]
        inside = (at >= 0) & (at < tensor.size)
        if not inside.all():
            arrays = [arrays[0], inside if mask is None else mask & inside]
        at = self._among_runs(tensor, at)
        at, new, *chosen = (
            (at, *arrays) if all(np.ndim(a) == 0 for a in (at, *arrays)) else np.broadcast_arrays(at, *arrays)
        )
        if chosen:
            at, new = at[chosen[0]], new[chosen[0]]
        self.memory[tensor.name][at] = stored(new, tensor.dtype)

    def _load(self, tensor: Tensor, kind: Any, at: Array) -> Array:
        """The elements at these positions, or the nearest ones."""
        if tensor.size == 0:
            return kind(0)
        inside = np.minimum(np.maximum(at, 0), tensor.size - 1)
        return self.memory[tensor.name][self._among_runs(tensor, inside)].astype(kind, copy=False)

    def _among_runs(self, tensor: Tensor, at: Array) -> Array:
        """The positions in the memory of all runs."""
        return at if self.run is None or tensor.name in self.once else at + self.run * tensor.size

    def value(self, root: Expr) -> Array:
        """The value of an expression; each operation is computed once."""
        if id(root) not in self.orders:
            every = list(parts(root))
            constants = {id(one): dtypes.scalar_type(one.kind)(one.value) for one in every if one.op == "constant"}
            self.orders[id(root)] = ([self._step(one) for one in every if one.op != "constant"], constants)
        order, constants = self.orders[id(root)]
        known = dict(constants)
        for one, compute, args in order:
            known[one] = compute(*[known[arg] for arg in args])
        return known[id(root)]

    def _step(self, one: Expr) -> _Step:
        if one.op == "variable":
            return id(one), partial(self.variables.__getitem__, one.value), ()
        if one.op == "load":
            return id(one), partial(self._load, one.value, dtypes.scalar_type(one.kind)), (id(one.args[0]),)
        args = tuple(map(id, one.args))
        if one.op == "call":
            return id(one), partial(_called, one.value, one.kind), args
        return id(one), meaning(one.op, one.args[0].kind, one.kind), args


_Step = tuple[int, Callable[..., Array], Sequence[int]]
"""The id of an operation, a function that computes it, and the ids of its operands."""


def stored(array: Array, dtype: str) -> Array:
    """Elements as they are stored in a tensor of this dtype."""
    return np.asarray(array).astype(dtypes.numpy_type(dtype))


def called(name: str, kind: str, operands: Sequence[Array]) -> Array:
    """A function of functions.py."""
    return _called(name, kind, *operands)


def _called(name: str, kind: str, *operands: Array) -> Array:
    if kind == "float32" and name in _FLOAT32:
        return _FLOAT32[name](np.asarray(operands[0]))
    args, root = functions.definition(name)
    known = {id(arg): np.asarray(x).astype(np.float64) for arg, x in zip(args, operands, strict=True)}
    for one in parts(root):
        if one.op == "constant":
            known[id(one)] = dtypes.scalar_type(one.kind)(one.value)
        elif one.op != "variable":
            known[id(one)] = operation(one.op, one.args[0].kind, one.kind, [known[id(arg)] for arg in one.args])
    return known[id(root)].astype(dtypes.scalar_type(kind))


_COMPARED = dict(
    zip(
        COMPARISONS,
        (np.less, np.greater, np.less_equal, np.greater_equal, np.equal, np.not_equal),
        strict=True,
    )
)
_PLAIN: dict[str, Callable[..., Array]] = {
    **_COMPARED,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "?": np.where,
    "min": lambda a, b: np.where(a < b, a, b),
    "max": lambda a, b: np.where(a > b, a, b),
}


def operation(op: str, source: str, kind: str, operands: Sequence[Array]) -> Array:
    """One operation. source: the type of the first operand; kind: the type of the result."""
    return meaning(op, source, kind)(*operands)


@cache
def meaning(op: str, source: str, kind: str) -> Callable[..., Array]:
    """The function that computes an operation. source: the type of the first operand; kind: the type of the result."""
    if op == "length":
        return _length
    if op == "sqrt" and not dtypes.is_float(kind):
        return _root
    if op in _PLAIN:
        return _PLAIN[op]
    if op == "cast":
        return partial(_cast, source, kind)
    if op == "bits":
        number = dtypes.scalar_type(kind)
        return lambda a: np.ascontiguousarray(a).view(number).reshape(np.shape(a))
    if op == "not":
        return np.logical_not if kind == BOOL else np.bitwise_not
    if op in ("<<", ">>"):
        return partial(_shifted, op, kind)
    return _arithmetic(op, kind)


def _length(a: Array) -> Array:
    """The bit lengths of integers >= 0."""
    a = np.asarray(a)
    bits = np.zeros_like(a)
    for step in (32, 16, 8, 4, 2, 1):
        above = (a >> step) > 0 if step < dtypes.bits(a.dtype.name) else np.zeros(a.shape, bool)
        a, bits = np.where(above, a >> step, a), bits + np.where(above, step, 0).astype(a.dtype)
    return bits + (a > 0)


def _root(a: Array) -> Array:
    """The floors of the square roots of integers >= 0."""
    a = np.asarray(a)
    root = np.floor(np.sqrt(a.astype(np.float64))).astype(np.int64)
    root -= root * root > a
    root += (root + 1) * (root + 1) <= a
    return root.astype(a.dtype)


def _arithmetic(op: str, kind: str) -> Callable[..., Array]:
    if op == "neg":
        return np.negative if dtypes.is_float(kind) else lambda a: np.subtract(np.zeros_like(a), a)
    if kind == BOOL:
        return np.bitwise_or if op == "+" else np.bitwise_and
    if op in "+-*":
        return {"+": np.add, "-": np.subtract, "*": np.multiply}[op]
    if dtypes.is_float(kind):
        return {"/": np.divide, "%": np.mod, "fmod": np.fmod}[op]
    return partial(_divided, op, kind)


def _divided(op: str, kind: str, a: Array, b: Array) -> Array:
    """Division of integers. A divisor of 0 gives 0; -1 is treated as a negation, so that nothing overflows."""
    a, b = np.asarray(a), np.asarray(b)
    one = dtypes.scalar_type(kind)(1)
    unsigned = dtypes.is_unsigned(kind)
    safe = np.where((b == 0) | ((b == -one) if not unsigned else False), one, b)
    rest = np.fmod(a, safe)
    truncated = (a - rest) // safe
    rounded_down = np.floor_divide(a, safe)
    modulo = np.mod(a, safe)
    results = {"/": truncated, "//": rounded_down, "%": modulo, "fmod": rest}
    result = results[op]
    if not unsigned:
        negated = np.subtract(np.zeros_like(a), a) if op in ("/", "//") else np.zeros_like(a)
        result = np.where(b == -one, negated, result)
    return np.where(b == 0, np.zeros_like(result), result).astype(dtypes.scalar_type(kind))


def _shifted(op: str, kind: str, a: Array, b: Array) -> Array:
    number = dtypes.scalar_type(kind)
    inside = (b >= number(0)) & (b < number(dtypes.bits(kind)))
    safe = np.where(inside, b, number(0))
    shifted = np.left_shift(a, safe) if op == "<<" else np.right_shift(a, safe)
    fill = np.zeros_like(shifted)
    if op == ">>" and not dtypes.is_unsigned(kind):
        fill = np.where(np.asarray(a) < 0, number(-1), number(0))
    return np.where(inside, shifted, fill).astype(number)


def _cast(source: str, kind: str, a: Array) -> Array:
    a = np.asarray(a)
    if kind == BOOL:
        return a != 0
    if dtypes.is_float(source) and not dtypes.is_float(kind):
        return _to_integer(a, kind)
    if kind == INDEX:
        return a.astype(np.int32).astype(np.int64)
    return a.astype(dtypes.scalar_type(kind))


def _to_integer(a: Array, kind: str) -> Array:
    """A float as an integer, truncated and clamped; NaN becomes 0."""
    low, high = dtypes.limits(kind)
    whole = np.trunc(a.astype(np.float64))
    above, below = whole >= float(high + 1), whole <= float(low)
    inside = np.where(np.isnan(whole) | above | below, 0.0, whole)
    number = dtypes.scalar_type(kind)
    halved = inside >= 2.0**63
    signed = np.where(halved, inside - 2.0**63, inside).astype(np.int64)
    exact = signed.astype(np.uint64) + (halved.astype(np.uint64) << np.uint64(63))
    result = exact.astype(number)
    return np.where(above, number(high), np.where(below, number(low), result)).astype(number)
