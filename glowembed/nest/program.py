"""Programs of loop nests: tensors, statements, and the recorder with which definitions write them.

A program has inputs, one output and temporary tensors; its statements are

    each(variable, count)       a loop with independent iterations, which the reference computes at once
    loop(variable, count)       an ordered loop; count may be an expression; down: from the last to the first
    if(condition)               a block that is executed if the condition holds
    declare, set                a local variable and its new value
    store(tensor, position, value)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field
from math import prod
from typing import Any

from glowembed.nest.dtypes import BOOL, COMPUTED, INDEX
from glowembed.nest.expr import Expr, constant, index, variable, where
from glowembed.records import dataclass

Indices = Sequence[Expr | int]


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor in row-major order, stored as `dtype`. Two views of one tensor have the same name.

    bounds: the smallest and the largest element of an integer constant; None if they are not known.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    bounds: tuple[int, int] | None = None

    @classmethod
    def constant(cls, name: str, array: Any, dtype: str) -> Tensor:
        """The tensor of a constant with this content."""
        whole = array.dtype.kind in "iu" and array.size > 0
        return cls(name, array.shape, dtype, (int(array.min()), int(array.max())) if whole else None)

    @property
    def kind(self) -> str:
        """The type in which its elements are computed."""
        return COMPUTED[self.dtype]

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    def view(self, shape: Sequence[int]) -> Tensor:
        """A view of the same elements in another shape."""
        return Tensor(self.name, tuple(shape), self.dtype, self.bounds)

    def position(self, at: Indices) -> Expr:
        """The flat position of an element."""
        if len(at) != self.rank:
            raise ValueError(f"{len(at)} indices for the shape {list(self.shape)}")
        flat = index(0)
        for one, size in zip(at, self.shape, strict=True):
            flat = flat * size + index(one)
        return flat

    def __getitem__(self, at: Any) -> Expr:
        """The element with these indices."""
        at = tuple(at) if isinstance(at, tuple | list) else (at,)
        return Expr("load", [self.position(at), *(index(one) for one in at)], self.kind, self)

    def flat(self, position: Expr | int) -> Expr:
        """The element at a flat position."""
        return Expr("load", [index(position)], self.kind, self)

    def scalar(self) -> Expr:
        """The first element."""
        return self.flat(0)

    def broadcast(self, at: Indices) -> Expr:
        """The element for indices of a shape to which the tensor is broadcast."""
        own = tuple(at)[len(at) - self.rank :] if self.rank else ()
        return self[tuple(index(0) if size == 1 else one for one, size in zip(own, self.shape, strict=True))]


@dataclass(frozen=True, eq=False)
class Statement:
    """kind: each, loop, if, declare, set or store; args: as the module describes; body: the statements inside."""

    kind: str
    args: tuple[Any, ...]
    body: tuple[Statement, ...] | list[Statement] = ()


@dataclass(frozen=True, eq=False)
class Program:
    """The computation of one node: statements over inputs and temporaries that leave the result in `output`."""

    inputs: tuple[Tensor, ...]
    output: Tensor
    temporaries: tuple[Tensor, ...]
    body: tuple[Statement, ...]


@dataclass(eq=False)
class Recorder:
    """Records the statements of a definition, in order."""

    body: list[Statement] = field(default_factory=list)
    temporaries: list[Tensor] = field(default_factory=list)
    _names: int = 0

    def __post_init__(self) -> None:
        self._current = self.body

    def _fresh(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    @contextmanager
    def _inside(self, kind: str, *args: Any) -> Iterator[None]:
        body: list[Statement] = []
        self._current.append(Statement(kind, args, body))
        outer, self._current = self._current, body
        try:
            yield
        finally:
            self._current = outer

    @contextmanager
    def each(self, shape: Sequence[int]) -> Iterator[tuple[Expr, ...]]:
        """Independent loops over all indices of a shape. The index of an axis of size 1 is the constant 0."""
        with ExitStack() as loops:
            yield tuple(self._opened(loops, "each", size) for size in shape)

    @contextmanager
    def loops(self, shape: Sequence[int]) -> Iterator[tuple[Expr, ...]]:
        """Ordered loops over all indices of a shape, the last axis innermost."""
        with ExitStack() as loops:
            yield tuple(self._opened(loops, "loop", size) for size in shape)

    def _opened(self, loops: ExitStack, kind: str, size: int) -> Expr:
        if size == 1:
            return index(0)
        name = self._fresh("i" if kind == "each" else "r")
        loops.enter_context(self._inside(kind, name, index(size), False))
        return variable(name, INDEX)

    @contextmanager
    def loop(self, count: int | Expr, down: bool = False) -> Iterator[Expr]:
        """An ordered loop, which exists even for one iteration."""
        name = self._fresh("r")
        with self._inside("loop", name, index(count), down):
            yield variable(name, INDEX)

    @contextmanager
    def when(self, condition: Expr) -> Iterator[None]:
        """A block of statements that is executed if the condition holds."""
        with self._inside("if", condition):
            yield

    def let(self, value: Expr) -> Expr:
        """A local variable with this value; `set` may change it."""
        local = variable(self._fresh("v"), value.kind)
        self._current.append(Statement("declare", (local.value, value)))
        return local

    def variable(self, value: Any, kind: str) -> Expr:
        """A local variable of this type."""
        return self.let(constant(value, kind))

    def set(self, local: Expr, value: Any) -> None:
        """Give a local variable a new value."""
        self._current.append(Statement("set", (local.value, constant(value, local.kind))))

    def store(self, tensor: Tensor, at: Indices | Expr, value: Any) -> None:
        """Write an element, at indices or at a flat position."""
        position = at if isinstance(at, Expr) else tensor.position(at)
        self._current.append(Statement("store", (tensor, position, constant(value, tensor.kind))))

    def temporary(self, shape: Sequence[int], dtype: str) -> Tensor:
        """A tensor that exists only while the program runs."""
        tensor = Tensor(self._fresh("t"), tuple(shape), dtype)
        self.temporaries.append(tensor)
        return tensor

    def fold(
        self, shape: Sequence[int], first: Expr, term: Callable[..., Expr], combine: Callable[[Expr, Expr], Expr]
    ) -> Expr:
        """`first`, combined strictly in order with the term of every index of the shape."""
        total = self.let(first)
        with self.loops(shape) as at:
            self.set(total, combine(total, term(*at)))
        return total

    def sum(self, shape: Sequence[int], term: Callable[..., Expr], kind: str) -> Expr:
        """The sum of the terms of every index of the shape, strictly in order."""
        return self.fold(shape, constant(0, kind), term, lambda total, one: total + one)

    def count(self, shape: Sequence[int], holds: Callable[..., Expr]) -> Expr:
        """The number of indices of the shape for which a condition holds."""
        return self.sum(shape, lambda *at: where(holds(*at), index(1), index(0)), INDEX)


def copy_program(shape: Sequence[int], dtype: str) -> Program:
    """Copies a tensor."""
    x, y, k = Tensor("x0", tuple(shape), dtype), Tensor("y0", tuple(shape), dtype), Recorder()
    with k.each((x.size,)) as (i,):
        k.store(y, i, x.flat(i))
    return Program((x,), y, (), tuple(k.body))


def expressions(statement: Statement) -> Iterator[Expr]:
    """The expressions of a statement, without those of its body."""
    return (arg for arg in statement.args if isinstance(arg, Expr))


def statements(body: Sequence[Statement]) -> Iterator[Statement]:
    """All statements, including those inside other statements."""
    for statement in body:
        yield statement
        yield from statements(statement.body)


def parts(root: Expr) -> Iterator[Expr]:
    """Every operation of an expression once, operands before their users. Of a load, only the flat position is
    visited.
    """
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        one, complete = stack.pop()
        if complete:
            yield one
        elif id(one) not in seen:
            seen.add(id(one))
            stack.append((one, True))
            stack.extend((arg, False) for arg in (one.args[:1] if one.op == "load" else one.args))


def loaded(body: Sequence[Statement]) -> dict[str, Tensor]:
    """The tensors that are read, by name."""
    roots = (root for statement in statements(body) for root in expressions(statement))
    return {one.value.name: one.value for root in roots for one in parts(root) if one.op == "load"}


def stored(body: Sequence[Statement]) -> dict[str, Tensor]:
    """The tensors that are written, by name."""
    return {s.args[0].name: s.args[0] for s in statements(body) if s.kind == "store"}


def only_for(body: Sequence[Statement], outputs: frozenset[str], wanted: str) -> tuple[Statement, ...]:
    """The statements without stores to other outputs, and without statements that only those stores needed.

    outputs: the names of all outputs; wanted: the one to keep. An output that is read to compute it is kept, too.
    """
    needed = {wanted}
    while more := outputs & set(loaded(without_stores(body, outputs - needed))) - needed:
        needed |= more
    kept = without_stores(body, outputs - needed)
    while True:
        reads = loaded(kept)
        smaller = without_stores(kept, frozenset(stored(kept)) - {wanted} - frozenset(reads))
        smaller = _without_locals(smaller)
        if sum(1 for _ in statements(smaller)) == sum(1 for _ in statements(kept)):
            return smaller
        kept = smaller


def without_stores(body: Sequence[Statement], dropped: frozenset[str]) -> tuple[Statement, ...]:
    """The statements without those that write these tensors, and without loops that are then empty."""
    kept = []
    for statement in body:
        if statement.kind == "store" and statement.args[0].name in dropped:
            continue
        inner = without_stores(statement.body, dropped)
        if statement.kind in ("each", "loop", "if") and not inner:
            continue
        kept.append(Statement(statement.kind, statement.args, inner))
    return tuple(kept)


def _without_locals(body: Sequence[Statement]) -> tuple[Statement, ...]:
    """The statements without variables that no store depends on."""
    live: set[str] = set()
    read: set[int] = set()

    def needed(s: Statement) -> bool:
        inside = [needed(inner) for inner in reversed(s.body)]
        needs = any(inside) or s.kind == "store" or (s.kind in ("declare", "set") and s.args[0] in live)
        if needs and id(s) not in read:
            read.add(id(s))
            live.update(one.value for root in expressions(s) for one in parts(root) if one.op == "variable")
        return needs

    count = -1
    while count < len(live):
        count = len(live)
        for statement in reversed(body):  # most variables are read after their declaration
            needed(statement)

    def kept(inner: Sequence[Statement]) -> Iterator[Statement]:
        for s in inner:
            own = tuple(kept(s.body))
            if own or s.kind == "store" or (s.kind in ("declare", "set") and s.args[0] in live):
                yield Statement(s.kind, s.args, own)

    return tuple(kept(body))


def to_data(program: Program) -> dict[str, Any]:
    """The program as JSON; an expression is a list of operations, each of which refers to its operands by number."""
    numbers: dict[int, int] = {}
    table: list[list[Any]] = []
    tensors = {t.name: t for t in (*program.inputs, program.output, *program.temporaries)}

    def number(root: Expr) -> int:
        for one in parts(root):
            if id(one) not in numbers:
                value = [one.value.name, list(one.value.shape)] if one.op == "load" else one.value
                if isinstance(value, float):
                    value = value.hex()
                args = one.args[:1] if one.op == "load" else one.args
                numbers[id(one)] = len(table)
                table.append([one.op, one.kind, [numbers[id(a)] for a in args], value])
        return numbers[id(root)]

    def written(body: Sequence[Statement]) -> list[Any]:
        rows = []
        for s in body:
            args = [number(a) if isinstance(a, Expr) else a.name if isinstance(a, Tensor) else a for a in s.args]
            rows.append([s.kind, args, written(s.body)] if s.body else [s.kind, args])
        return rows

    body = written(program.body)
    return {
        "tensors": [
            [t.name, t.dtype, list(t.shape), *map(list, [t.bounds] if t.bounds else [])] for t in tensors.values()
        ],
        "inputs": [t.name for t in program.inputs],
        "output": program.output.name,
        "expressions": table,
        "body": body,
    }


def from_data(data: Any) -> Program:
    """The program that `to_data` wrote. Raises ValueError, KeyError, TypeError or IndexError if it is not a program."""
    tensors = {
        name: Tensor(name, tuple(shape), dtype, (int(bounds[0][0]), int(bounds[0][1])) if bounds else None)
        for name, dtype, shape, *bounds in data["tensors"]
    }
    if any(t.dtype not in COMPUTED for t in tensors.values()):
        raise ValueError("a tensor of an unknown type")
    table: list[Expr] = []
    for op, kind, args, value in data["expressions"]:
        own = value
        if op == "load":
            own = tensors[value[0]].view(value[1])
        elif op == "constant" and isinstance(value, str):
            own = float.fromhex(value)
        table.append(Expr(op, [table[a] for a in args], kind, own))

    def read(rows: Any) -> tuple[Statement, ...]:
        return tuple(Statement(row[0], _args(row[0], row[1]), read(row[2]) if len(row) > 2 else ()) for row in rows)

    def _args(kind: str, args: Any) -> tuple[Any, ...]:
        if kind in ("each", "loop"):
            return args[0], table[args[1]], bool(args[2])
        if kind in ("declare", "set"):
            return args[0], table[args[1]]
        if kind == "if":
            return (table[args[0]],)
        if kind == "store":
            return tensors[args[0]], table[args[1]], table[args[2]]
        raise ValueError(f"an unknown statement {kind!r:.40}")

    inputs = tuple(tensors[name] for name in data["inputs"])
    ends = {*data["inputs"], data["output"]}
    temporaries = tuple(t for name, t in tensors.items() if name not in ends)
    return Program(inputs, tensors[data["output"]], temporaries, read(data["body"]))


__all__ = [
    "BOOL",
    "Indices",
    "Program",
    "Recorder",
    "Statement",
    "Tensor",
    "copy_program",
    "expressions",
    "from_data",
    "loaded",
    "only_for",
    "parts",
    "statements",
    "stored",
    "to_data",
    "without_stores",
]
