"""LSTM, GRU and RNN in the types of the model, step by step, with one state for each direction. The state and the gates
of a step are temporaries.

A sum begins with the products of the inputs, then come those of the state, then the biases. Source: the equations of
the operators in ONNX. As in onnxruntime, the clip limits the gates of an LSTM, but not the cell before the output
activation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from glowembed.graph.op import Refused
from glowembed.nest.expr import Expr, absolute, call, clamp, constant, index, maximum, minimum, to_index, where
from glowembed.nest.program import Tensor
from glowembed.ops.definitions.pointwise import sigmoid
from glowembed.ops.shared.definition import Definition, operator, require
from glowembed.records import dataclass

Function = Callable[[Expr], Expr]

FUNCTIONS: dict[str, tuple[tuple[float, ...], Callable[..., Expr]]] = {
    "sigmoid": ((), sigmoid),
    "tanh": ((), lambda x: call("tanh", x)),
    "relu": ((), lambda x: where(x < 0.0, constant(0, x.kind), x)),
    "affine": ((1.0, 0.0), lambda x, a, b: x * a + b),
    "leakyrelu": ((0.01,), lambda x, a: where(x < 0.0, x * a, x)),
    "thresholdedrelu": ((1.0,), lambda x, a: where(x > a, x, constant(0, x.kind))),
    "scaledtanh": ((1.0, 1.0), lambda x, a, b: call("tanh", x * b) * a),
    "hardsigmoid": ((0.2, 0.5), lambda x, a, b: maximum(minimum(x * a + b, 1.0), 0.0)),
    "elu": ((1.0,), lambda x, a: where(x < 0.0, call("expm1", x) * a, x)),
    "softsign": ((), lambda x: x / (absolute(x) + 1.0)),
    "softplus": ((), lambda x: call("softplus", x)),
}
"""For each activation, in lower case: the defaults of its alpha and beta, and the function."""

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
ACTIVATIONS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}


@dataclass(frozen=True, eq=False)
class Cell:
    """One direction of a node: the tensors of its state, and its activations with their clip."""

    n: Definition
    direction: int
    state: Tensor
    memory: Tensor
    gates: Tensor
    functions: Sequence[Function]
    steps: int
    batch_first: bool
    backwards: bool

    @property
    def hidden(self) -> int:
        return self.state.shape[1]

    def length(self, b: Expr) -> Expr:
        """The number of steps of a sample."""
        return to_index(self.n.input(4).flat(b)) if self.n.has(4) else index(self.steps)

    def time(self, b: Expr, step: Expr) -> Expr:
        """The position in the sequence that a step reads and writes."""
        if not self.backwards:
            return step
        last = self.length(b)
        return where(step < last, clamp(last - 1 - step, 0, self.steps - 1), step)

    def of_input(self, gate: int, b: Expr, unit: Expr, step: Expr) -> Expr:
        """The product of the input of a step with the weights of a gate."""
        x, w = self.n.input(0), self.n.input(1)
        time = self.n.k.let(self.time(b, step))

        def term(j: Expr) -> Expr:
            return (
                x[(b, time, j) if self.batch_first else (time, b, j)] * w[self.direction, unit + gate * self.hidden, j]
            )

        return self.n.k.sum([x.shape[2]], term, x.kind)

    def of_state(self, gate: int, unit: Expr, state: Callable[[Expr], Expr]) -> Expr:
        """The product of a state with the recurrent weights of a gate."""
        r = self.n.input(2)

        def term(j: Expr) -> Expr:
            return state(j) * r[self.direction, unit + gate * self.hidden, j]

        return self.n.k.sum([self.hidden], term, r.kind)

    def bias(self, row: int, unit: Expr) -> Expr:
        """A bias. The biases of the input come first, then those of the state."""
        if not self.n.has(3):
            return constant(0, self.n.input(0).kind)
        return self.n.input(3)[self.direction, unit + row * self.hidden]

    def clipped(self, x: Expr) -> Expr:
        """The argument of an activation, clipped to the limit of the node."""
        limit = self.n.attr("clip")
        return x if not limit else where(x < -limit, -limit, where(x > limit, limit, x))

    def activate(self, which: int, x: Expr) -> Expr:
        return self.functions[which](self.clipped(x))


def _functions(n: Definition, directions: int) -> list[Function]:
    """The activations of all directions. alphas and betas are given only to those activations that have them."""
    names = [str(name).lower() for name in n.attr("activations") or ACTIVATIONS[n.kind] * directions]
    wanted = len(ACTIVATIONS[n.kind]) * directions
    require(len(names) == wanted, f"it has {len(names)} activations, and {wanted} are needed")
    alphas, betas = list(n.attr("activation_alpha") or []), list(n.attr("activation_beta") or [])
    made: list[Function] = []
    for name in names:
        if name not in FUNCTIONS:
            raise Refused(f"its activation {name!r}", f"supported: {', '.join(FUNCTIONS)}")
        defaults, function = FUNCTIONS[name]
        numbers = [
            given.pop(0) if given else default for given, default in zip((alphas, betas), defaults, strict=False)
        ]
        made.append(partial(_applied, function, numbers))
    return made


def _applied(function: Callable[..., Expr], numbers: Sequence[float], x: Expr) -> Expr:
    return function(x, *numbers)


DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")


def _check_shapes(n: Definition, directions: int, hidden: int, batch: int, state: tuple[int, ...]) -> None:
    """Raise Refused for inputs whose shapes do not fit those of X and R."""
    given, gates = n.attr("direction", "forward"), GATES[n.kind]
    require(DIRECTIONS.get(given) == directions, f"its direction {given!r} does not fit weights of {directions}")
    require(
        n.attr("hidden_size", hidden) == hidden, f"its hidden_size is {n.attr('hidden_size')}, and that of R {hidden}"
    )
    wanted = {
        1: (directions, gates * hidden, n.input(0).shape[2]),
        2: (directions, gates * hidden, hidden),
        3: (directions, 2 * gates * hidden),
        4: (batch,),
        5: state,
        6: state,
        7: (directions, 3 * hidden),
    }
    for i, shape in wanted.items():
        fits = not n.has(i) or n.input(i).shape == shape
        require(
            fits, f"its input {INPUTS[i]} has the shape {list(n.input(i).shape if n.has(i) else ())}, not {list(shape)}"
        )


@operator("LSTM", "GRU", "RNN")
def _recurrent(n: Definition) -> None:
    x, r, k = n.input(0), n.input(2), n.k
    require(x.rank == r.rank == 3, "its inputs X and R do not have three axes")
    directions, hidden = r.shape[0], r.shape[2]
    batch_first = bool(n.attr("layout", 0))
    steps, batch = (x.shape[1], x.shape[0]) if batch_first else x.shape[:2]
    functions = _functions(n, directions)
    share = len(functions) // directions
    shape = (batch, steps, directions, hidden) if batch_first else (steps, directions, batch, hidden)
    last = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
    _check_shapes(n, directions, hidden, batch, last)
    y, y_h = n.output(0, shape, x.dtype), n.output(1, last, x.dtype)
    y_c = n.output(2, last, x.dtype) if n.kind == "LSTM" else None
    wide = x.kind
    state, memory = k.temporary((batch, hidden), wide), k.temporary((batch, hidden), wide)
    gates = k.temporary((GATES[n.kind], batch, hidden), wide)

    def place(d: int, b: Expr, unit: Expr) -> tuple[Expr, ...]:
        return (b, index(d), unit) if batch_first else (index(d), b, unit)

    for d in range(directions):
        backwards = n.attr("direction", "forward") == "reverse" or d == 1
        own = functions[d * share : (d + 1) * share]
        cell = Cell(n, d, state, memory, gates, own, steps, batch_first, backwards)
        with k.each((batch, hidden)) as (b, unit):
            for i, t in ((5, state), (6, memory)):
                begins = n.has(i) and (i == 5 or n.kind == "LSTM")
                k.store(t, (b, unit), n.input(i)[place(d, b, unit)] if begins else 0)
        with k.loop(steps) as step:
            _gates(cell, step)
            with k.each((batch, hidden)) as (b, unit):
                runs, old = k.let(step < cell.length(b)), k.let(state[b, unit])
                new = _new_state(cell, b, unit, old, runs)
                k.store(state, (b, unit), where(runs, new, old))
                time = k.let(cell.time(b, step))
                at = (b, time, index(d), unit) if batch_first else (time, index(d), b, unit)
                k.store(y, at, where(runs, new, constant(0, x.kind)))
        with k.each((batch, hidden)) as (b, unit):
            k.store(y_h, place(d, b, unit), state[b, unit])
            if y_c is not None:
                k.store(y_c, place(d, b, unit), memory[b, unit])


def _gates(cell: Cell, step: Expr) -> None:
    """Compute the sums of all gates for one step; those of a GRU go through their activation."""
    n, k, (batch, hidden) = cell.n, cell.n.k, cell.state.shape
    count = GATES[n.kind]
    with k.each((batch, hidden)) as (b, unit):
        for gate in range(2 if n.kind == "GRU" else count):
            total = cell.of_input(gate, b, unit, step) + cell.of_state(gate, unit, lambda j: cell.state[b, j])
            total = total + (cell.bias(gate, unit) + cell.bias(count + gate, unit))
            k.store(cell.gates, (index(gate), b, unit), cell.activate(0, total) if n.kind == "GRU" else total)
    if n.kind != "GRU":
        return
    with k.each((batch, hidden)) as (b, unit):
        from_input = cell.of_input(2, b, unit, step)
        if n.attr("linear_before_reset", 0):
            recurrent = cell.of_state(2, unit, lambda j: cell.state[b, j]) + cell.bias(5, unit)
            total = from_input + cell.gates[1, b, unit] * recurrent + cell.bias(2, unit)
        else:
            recurrent = cell.of_state(2, unit, lambda j: cell.gates[1, b, j] * cell.state[b, j])
            total = from_input + recurrent + (cell.bias(5, unit) + cell.bias(2, unit))
        k.store(cell.gates, (index(2), b, unit), cell.activate(1, total))


def _new_state(cell: Cell, b: Expr, unit: Expr, old: Expr, runs: Expr) -> Expr:
    """The state of a unit after a step. The new memory of an LSTM is stored."""
    n, k = cell.n, cell.n.k
    gate = [cell.gates[g, b, unit] for g in range(GATES[n.kind])]
    if n.kind == "RNN":
        return k.let(cell.activate(0, gate[0]))
    if n.kind == "GRU":
        return k.let((1.0 - gate[0]) * gate[2] + gate[0] * old)

    def seen(which: int, total: Expr, memory: Expr) -> Expr:
        """The sum of a gate, plus the product of its peephole with the memory."""
        if not n.has(7):
            return total
        return total + n.input(7)[cell.direction, unit + which * cell.hidden] * memory

    memory = k.let(cell.memory[b, unit])
    entry = k.let(cell.activate(0, seen(0, gate[0], memory)))
    kept = 1.0 - entry if n.attr("input_forget", 0) else cell.activate(0, seen(2, gate[2], memory))
    new = k.let(k.let(kept) * memory + entry * cell.activate(1, gate[3]))
    result = k.let(k.let(cell.activate(0, seen(1, gate[1], new))) * cell.functions[2](new))
    k.store(cell.memory, (b, unit), where(runs, new, memory))
    return result
