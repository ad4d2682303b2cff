"""Rewrites programs that compute real numbers as programs on the stored integers.

In: a program over float32, the type of every computed input and of the output, and the content of the constants. Out: a
program over integers, and the constants that it reads. The program may add, subtract, multiply, divide, compare and
select, and take roots, powers, logarithms, and exponentials of differences from the largest number. quantity.py defines
the arithmetic: a value is a sum of integers, each with its own step, which stays exact until it is stored and rounded
once.

A variable that gets new values in a loop needs one step and one range for all of them. Therefore the statements after
its declaration are first rewritten as if it were unknown, which shows the steps and ranges of the values that are added
to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from glowembed.nest import quantity
from glowembed.nest.dtypes import BOOL, INDEX, limits
from glowembed.nest.expr import COMPARISONS, Expr, constant, variable, where
from glowembed.nest.program import Program, Statement, Tensor, parts, statements
from glowembed.nest.quantity import Array, Quantity, Stored, Unscalable
from glowembed.records import dataclass

FLOAT = "float32"
MOST_OF_CONSTANT = 32767
"""The largest stored constant; constants are int16 with one symmetric scale."""


@dataclass(frozen=True)
class Real:
    """The sum of terms and a constant. grows: the variable being explored to which this is added, or of which it is an
    alternative (`added` is False). largest: whether it is the maximum of the numbers in its loop.
    """

    terms: tuple[Quantity, ...] = ()
    offset: float = 0.0
    grows: str = ""
    added: bool = False
    largest: bool = False
    not_positive: bool = False

    @property
    def plain(self) -> bool:
        """Whether the value does not depend on a variable being explored."""
        return not self.grows

    @property
    def fixed(self) -> bool:
        """Whether it is a constant."""
        return not self.terms and not self.grows


Value = Real | None
"""None stands for a number that is not known while the statements of a variable are explored."""


@dataclass(frozen=True)
class Scaled:
    """A program on integers, and the constants that it reads, by tensor name."""

    program: Program
    constants: Mapping[str, Array]


def on_integers(program: Program, types: Mapping[str, Stored], constants: Mapping[str, Array]) -> Scaled:
    """The program on stored integers. types: those of each computed input and of the output, by tensor name.

    Raises Unscalable.
    """
    return _Rewriter(program, types, constants).scaled()


def reads_reals(program: Program, constants: Mapping[str, Array]) -> bool:
    """Whether the program has a form on integers for any types of its inputs."""
    computed = [t for t in program.inputs if t.name not in constants]
    if not computed or any(t.dtype != FLOAT for t in (*computed, program.output)):
        return False
    try:
        for dtype in ("int8", "int16"):
            nominal = Stored(dtype, 1 / 64)
            on_integers(program, {t.name: nominal for t in (*computed, program.output)}, constants)
    except Unscalable:
        return False
    return True


@dataclass
class _Rewriter:
    """The state of a rewrite. known: what each variable of the original program has become; explored: how often
    statements run, for each variable whose steps are being determined.
    """

    program: Program
    types: Mapping[str, Stored]
    arrays: Mapping[str, Array]
    known: dict[str, Value] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)
    explores: bool = False
    made: dict[int, tuple[Expr, Value]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.changed = {s.args[0] for s in statements(self.program.body) if s.kind == "set"}

    def scaled(self) -> Scaled:
        if any(t.dtype in (FLOAT, "float64") for t in self.program.temporaries):
            raise Unscalable("it keeps tensors of real numbers")
        for t in (*self.program.inputs, self.program.output):
            self._store_tensor(t)
        body = tuple(self.block(self.program.body))
        inputs = [self.tensors[t.name] for t in self.program.inputs]
        inputs += [t for name, t in self.tensors.items() if name in ("exp2", "log2")]
        used = Program(tuple(inputs), self.tensors[self.program.output.name], self.program.temporaries, body)
        return Scaled(used, self.constants)

    def _store_tensor(self, t: Tensor) -> None:
        """The tensor in the type in which its elements are stored."""
        if t.dtype != FLOAT:
            self.tensors[t.name] = t
            return
        if t.name not in self.arrays:
            self.tensors[t.name] = Tensor(t.name, t.shape, self.types[t.name].dtype)
            return
        array = np.asarray(self.arrays[t.name], np.float64)
        most = float(np.abs(array).max(initial=0.0))
        if not math.isfinite(most):
            raise Unscalable("its constants are not finite")
        self.scales[t.name] = most / MOST_OF_CONSTANT if most else 1.0
        stored = np.rint(array / self.scales[t.name]).astype(np.int16)
        self.constants[t.name] = stored
        self.tensors[t.name] = Tensor(t.name, t.shape, "int16")

    def block(self, body: Sequence[Statement]) -> Iterator[Statement]:
        for i, s in enumerate(body):
            if s.kind in ("each", "loop", "if"):
                args = tuple(self.whole(a) if isinstance(a, Expr) else a for a in s.args)
                yield Statement(s.kind, args, tuple(self.block(s.body)))
            elif s.kind == "store":
                yield self._stored(s)
            elif s.args[1].kind != FLOAT:
                yield Statement(s.kind, (s.args[0], self.whole(s.args[1])))
            elif s.kind == "set":
                yield self._set(s)
            elif s.args[0] in self.changed:
                yield self._variable(s, body[i + 1 :])
            else:
                yield from self._local(s)

    def _stored(self, s: Statement) -> Statement:
        tensor, position, value = s.args
        if tensor.dtype != FLOAT:
            return Statement("store", (tensor, self.whole(position), self.whole(value)))
        stored = self._rounded(value, self.types[tensor.name])
        return Statement("store", (self.tensors[tensor.name], self.whole(position), stored))

    def _rounded(self, value: Expr, stored: Stored) -> Expr:
        """The value as stored. Each branch of a choice is rounded separately."""
        if value.op == "?":
            condition = self.whole(value.args[0])
            if condition.op == "constant":
                return self._rounded(value.args[1 if condition.value else 2], stored)
            return where(condition, self._rounded(value.args[1], stored), self._rounded(value.args[2], stored))
        real = self._known(value)
        if not math.isfinite(real.offset):
            raise Unscalable("it stores infinity")
        return quantity.as_stored(real.terms, real.offset, stored)

    def _local(self, s: Statement) -> Iterator[Statement]:
        """Rewrite a variable that keeps its value; it becomes one variable for each term that is not just a
        variable.
        """
        name, real = s.args[0], self._known(s.args[1])
        terms = []
        for i, t in enumerate(real.terms):
            if t.expr.op not in ("variable", "constant"):
                local = f"{name}_{i}"
                yield Statement("declare", (local, t.expr))
                t = replace(t, expr=variable(local, t.expr.kind))
            terms.append(t)
        self.known[name] = replace(real, terms=tuple(terms))

    def _variable(self, s: Statement, following: Sequence[Statement]) -> Statement:
        """Rewrite a variable that gets new values; its step and range cover all of them."""
        name = s.args[0]
        found = list(self._explored(name, following))
        if not found:
            raise Unscalable("a variable gets values that are no sums")
        first = self._known(s.args[1])
        sums = [Real(r.terms, r.offset) for r, _ in found] + ([first] if math.isfinite(first.offset) else [])
        step = _step_of(sums)
        low, high = _reached(found, step)
        if math.isinf(first.offset):
            start = constant(low if first.offset < 0 else high, "int64")
        else:
            q = self._one(first, step)
            low, high, start = min(low + min(q.low, 0), q.low), max(high + max(q.high, 0), q.high), q.expr
        kind = "int32" if low >= -(2**31) and high < 2**31 else "int64"
        if max(-low, high).bit_length() > quantity.MOST_BITS:
            raise Unscalable("its sums need more than 62 bits")
        own = Quantity(variable(name, kind), step, low, high)
        self.known[name] = Real((own,), largest=all(r.largest for r, _ in found))
        return Statement("declare", (name, start.to(kind)))

    def _explored(self, name: str, body: Sequence[Statement], times: int = 1) -> Iterator[tuple[Real, int]]:
        """The values that are added to a variable, or chosen in its place, and how often."""
        other = _Rewriter(
            self.program, self.types, self.arrays, {**self.known, name: Real(grows=name)}, self.constants, self.tensors,
            self.scales, explores=True,
        )  # fmt: skip
        yield from other._sets(name, body, times)

    def _sets(self, name: str, body: Sequence[Statement], times: int) -> Iterator[tuple[Real, int]]:
        for i, s in enumerate(body):
            if s.kind in ("each", "loop"):
                count = s.args[1].value if s.args[1].op == "constant" else 0
                if not count and any(inner.kind == "set" and inner.args[0] == name for inner in statements(s.body)):
                    raise Unscalable("a sum over a number of elements that is only known at run time")
                yield from self._sets(name, s.body, times * max(count, 1))
            elif s.kind == "if":
                yield from self._sets(name, s.body, times)
            elif s.kind == "declare" and s.args[1].kind == FLOAT:
                if s.args[0] in self.changed:
                    try:
                        self._variable(s, body[i + 1 :])
                    except Unscalable:
                        self.known[s.args[0]] = None
                else:
                    self.known[s.args[0]] = self.real(s.args[1])
            elif s.kind == "set" and s.args[0] == name:
                real = self.real(s.args[1])
                if real is None:
                    raise Unscalable("a variable is set to what is no sum")
                yield replace(real, largest=_is_largest(name, s.args[1])), times

    def _set(self, s: Statement) -> Statement:
        name = s.args[0]
        own = self.known[name]
        assert own is not None
        (target,) = own.terms
        return Statement("set", (name, self._one(self._known(s.args[1]), target.scale).expr.to(target.expr.kind)))

    def _one(self, real: Real, step: float) -> Quantity:
        """The sum as one integer in this step."""
        if not real.terms:
            steps = round(real.offset / step)
            return Quantity(constant(steps, "int32" if abs(steps) < 2**31 else "int64"), step, steps, steps)
        if len(real.terms) == 1 and not real.offset and real.terms[0].scale == step:
            return real.terms[0]
        return quantity.in_steps(real.terms, real.offset, step)

    def whole(self, root: Expr) -> Expr:
        """An expression that is not a real number, with the comparisons of real numbers in it rewritten."""
        done: dict[int, Expr] = {}
        for one in parts(root):
            args = one.args[:1] if one.op == "load" else one.args
            if one.kind == FLOAT:
                continue
            if any(a.kind == FLOAT for a in args):
                done[id(one)] = self._compared(one)
            else:
                done[id(one)] = _folded(Expr(one.op, [done[id(a)] for a in args], one.kind, one.value))
        return done[id(root)]

    def _compared(self, one: Expr) -> Expr:
        if one.op in ("isnan", "isinf"):
            return constant(False, BOOL)
        if one.op not in COMPARISONS:
            raise Unscalable(f"{one.op} of a real number")
        difference = _sum(self.real(one.args[0]), _scaled(self.real(one.args[1]), -1.0))
        if self.explores and (difference is None or difference.grows):
            return Expr(one.op, [variable("unknown", INDEX), constant(0, INDEX)], BOOL)
        if difference is None:
            raise Unscalable("it compares what is no sum")
        if not math.isfinite(difference.offset) or not difference.terms:
            holds = {"<": difference.offset < 0, ">": difference.offset > 0, "==": difference.offset == 0}
            holds |= {"<=": not holds[">"], ">=": not holds["<"], "!=": not holds["=="]}
            return constant(holds[one.op], BOOL)
        q = self._single(difference)
        return Expr(one.op, [q.expr, constant(0, q.expr.kind)], BOOL)

    def _known(self, root: Expr) -> Real:
        found = self.real(root)
        if found is None or found.grows:
            raise Unscalable("its numbers are no sums")
        return found

    def real(self, root: Expr) -> Value:
        """The value of an expression of real numbers."""
        for one in parts(root):
            if one.kind == FLOAT and id(one) not in self.made:
                self.made[id(one)] = (one, self._operation(one))
        found: Value = self.made[id(root)][1]
        return found

    def _operation(self, one: Expr) -> Value:
        if one.op == "constant":
            return Real(offset=one.value)
        if one.op == "variable":
            return self.known.get(one.value)
        if one.op == "load":
            return self._loaded(one)
        if one.op == "cast":
            return self._cast(one)
        if one.op == "?":
            return self._chosen(one)
        if any(a.kind != FLOAT for a in one.args):
            raise Unscalable(f"the operation {one.op}")
        given = [self.made[id(a)][1] for a in one.args]
        if one.op in ("+", "-"):
            return _sum(given[0], given[1] if one.op == "+" else _scaled(given[1], -1.0), one.op == "-")
        if one.op == "neg":
            return _scaled(given[0], -1.0)
        known = [g for g in given if g is not None and not g.grows]
        return self._computed(one, known) if len(known) == len(given) else None

    def _computed(self, one: Expr, given: Sequence[Real]) -> Real:
        a, b = given[0], given[-1]
        if one.op == "*":
            if a.fixed or b.fixed:
                factor = b.offset if b.fixed else a.offset
                return _required(_scaled(a if b.fixed else b, factor))
            same = one.args[0] is one.args[1]
            first = self._single(a)
            return Real((quantity.product(first, first if same else self._single(b)),))
        if one.op == "/":
            if b.fixed:
                if not b.offset:
                    raise Unscalable("a division by zero")
                return _required(_scaled(a, 1.0 / b.offset))
            return Real((quantity.quotient(self._single(a), self._single(b)),))
        if one.op == "abs":
            return Real((quantity.size(self._single(a)),))
        if one.op == "sqrt":
            return Real((quantity.square_root(self._single(a)),))
        if one.op == "call":
            return self._called(one.value, a, b)
        raise Unscalable(f"the operation {one.op}")

    def _called(self, name: str, a: Real, b: Real) -> Real:
        if name == "exp":
            return self._exponential(a)
        if name == "log":
            return self._logarithm(a)
        if name == "power" and b.fixed:
            return self._exponential(_required(_scaled(self._logarithm(a), b.offset)))
        raise Unscalable(f"the function {name}")

    def _exponential(self, a: Real) -> Real:
        if a.fixed:
            return Real(offset=math.exp(a.offset))
        if a.not_positive:
            q, offset = replace(self._single(a), not_positive=True), 0.0
        else:
            q, offset = self._single(replace(a, offset=0.0)), a.offset
        return Real((quantity.exponential(q, offset, self._table("exp2", quantity.powers_of_two())),))

    def _logarithm(self, a: Real) -> Real:
        made, offset = quantity.logarithm(self._single(a), self._table("log2", quantity.logarithms()))
        return Real((made,), offset)

    def _table(self, name: str, array: Array) -> Tensor:
        self.constants[name] = array
        self.tensors[name] = Tensor.constant(name, array, "int32")
        return self.tensors[name]

    def _single(self, real: Real) -> Quantity:
        """The sum as one integer."""
        if not math.isfinite(real.offset):
            raise Unscalable("it computes with infinity")
        if not real.terms:
            return quantity.number(real.offset)
        return self._one(real, _step_of([real]))

    def _loaded(self, one: Expr) -> Real:
        tensor = one.value
        position = self.whole(one.args[0])
        stored = self.tensors[tensor.name]
        loaded = Expr("load", [position], stored.dtype, Tensor(stored.name, tensor.shape, stored.dtype))
        if tensor.name in self.scales:
            array = self.constants[tensor.name]
            low, high = int(array.min(initial=0)), int(array.max(initial=0))
            return Real((Quantity(loaded.to("int32"), self.scales[tensor.name], low, high),))
        if tensor.name not in self.types:
            raise Unscalable("it reads its own results")
        own, (low, high) = self.types[tensor.name], limits(stored.dtype)
        return Real((Quantity(loaded.to("int32"), own.scale, low, high),), -own.zero_point * own.scale)

    def _cast(self, one: Expr) -> Real:
        """An integer of at most 31 bits that the program counts, as a real number."""
        source = one.args[0]
        if source.kind == BOOL:
            raise Unscalable("a truth value as a number")
        expr = self.whole(source)
        if expr.op == "constant":
            return Real(offset=float(expr.value))
        if source.kind != INDEX:
            raise Unscalable("whole numbers of the model")
        return Real((Quantity(expr.to("int32"), 1.0, 0, 2**31 - 1),))

    def _chosen(self, one: Expr) -> Value:
        """One of two sums, in a step that serves both."""
        condition = self.whole(one.args[0])
        if condition.op == "constant":
            found: Value = self.made[id(one.args[1 if condition.value else 2])][1]
            return found
        a, b = (self.made[id(arg)][1] for arg in one.args[1:])
        if a is None or b is None or (a.grows and b.grows and a.grows != b.grows):
            return None
        grows, added = a.grows or b.grows, a.added or b.added
        sums = [r for r in (a, b) if r.terms or (r.offset and math.isfinite(r.offset))]
        if not sums or not all(math.isfinite(r.offset) for r in (a, b)):
            return Real(grows=grows, added=added) if grows else None
        step = _step_of(sums)
        first, second = (self._one(Real(r.terms, r.offset), step) for r in (a, b))
        kind = "int64" if "int64" in (first.expr.kind, second.expr.kind) else "int32"
        expr = where(condition, first.expr.to(kind), second.expr.to(kind))
        hull = Quantity(expr, step, min(first.low, second.low), max(first.high, second.high))
        return Real((hull,), grows=grows, added=added)


def _required(found: Value) -> Real:
    assert found is not None
    return found


def _sum(a: Value, b: Value, difference: bool = False) -> Value:
    if a is None or b is None or (a.grows and b.grows):
        return None
    grows = a.grows or b.grows
    below = difference and b.largest and not a.grows and len(a.terms) == len(b.terms) == 1
    return Real(_joined(*a.terms, *b.terms), a.offset + b.offset, grows, bool(grows), not_positive=below)


def _joined(*terms: Quantity) -> tuple[Quantity, ...]:
    """The terms, with those of the same step added up."""
    joined: dict[float, Quantity] = {}
    for t in terms:
        joined[t.scale] = quantity.total(joined[t.scale], t) if t.scale in joined else t
    return tuple(joined.values())


def _scaled(a: Value, factor: float) -> Value:
    """The value times a constant. A value that depends on a variable being explored cannot be scaled."""
    if a is None or a.grows:
        return None
    if factor == 0 or not math.isfinite(factor):
        return Real() if factor == 0 else None
    terms = (quantity.negative(t) if factor < 0 else t for t in a.terms)
    made = tuple(replace(t, scale=t.scale * abs(factor)) for t in terms)
    return Real(made, a.offset * factor, largest=a.largest)


def _step_of(sums: Sequence[Real]) -> float:
    """A step that serves all of these sums."""
    terms = [t for real in sums for t in real.terms]
    offsets = [real.offset for real in sums if real.offset]
    if not terms:
        return max(map(abs, offsets), default=1.0) * 2.0**-20
    steps = [quantity.common_step(terms, offset) for offset in offsets or [0.0]]
    return min(steps)


def _reached(found: Sequence[tuple[Real, int]], step: float) -> tuple[int, int]:
    """The range, in steps, of a variable that begins at 0, from the values that are added to it, how often, and the
    values that it becomes.
    """
    low = high = 0
    for real, times in found:
        ends = [sorted((t.low * round(t.scale / step), t.high * round(t.scale / step))) for t in real.terms]
        fixed = round(real.offset / step)
        least, most = fixed + sum(e[0] for e in ends), fixed + sum(e[1] for e in ends)
        if real.grows and real.added:
            low, high = low + times * min(least, 0), high + times * max(most, 0)
        else:
            low, high = min(low, least), max(high, most)
    return low, high


def _is_largest(name: str, value: Expr) -> bool:
    """Whether a variable becomes the maximum of itself and another number: where((v > x) | .., v, x)."""
    if value.op != "?":
        return False
    kept, conditions = value.args[1], list(parts(value.args[0]))
    wins = any(c.op == ">" and c.args[0].op == "variable" and c.args[0].value == name for c in conditions)
    return kept.op == "variable" and kept.value == name and wins


def _folded(one: Expr) -> Expr:
    """A truth value, simplified where constants decide it."""
    if one.kind != BOOL or one.op not in ("&", "|", "not", "?"):
        return one
    a, b = one.args[0], one.args[-1]
    if one.op == "not":
        return constant(not a.value, BOOL) if a.op == "constant" else one
    if one.op == "?":
        return one.args[1 if a.value else 2] if a.op == "constant" else one
    for first, second in ((a, b), (b, a)):
        if first.op == "constant":
            return second if first.value == (one.op == "&") else first
    return one
