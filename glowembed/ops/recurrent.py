"""Recurrent operators: ONNX LSTM, GRU and RNN, one op for each direction of a node.

Input [T, B, I], or [B, T, I] with `batch_first`; weights [gates * H, I] and [gates * H, H], and their biases; then the
inputs that `given` names: initial states [B, H] and peepholes [3 * H]. Gates have ONNX's order: i, o, f, g; z, r, n.
The output holds the state after each step, or after the last one. ops/recurrent_kernels.py defines the integer law.

ops/definitions/recurrent.py computes in float32 what that law does not cover: activations without a bound (Relu,
Affine, LeakyRelu, ThresholdedRelu, Elu, Softplus), and weights and sequence lengths that are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from glowembed.graph.ir import Array, Const, Node, QType, Shape
from glowembed.graph.op import Builder, LowerContext, Malformed, OnnxNode, Op, OutputType, Product, Refused
from glowembed.law import gates
from glowembed.ops import recurrent_kernels as kernels
from glowembed.ops import recurrent_tflite
from glowembed.ops.slice import add_slice
from glowembed.records import dataclass

HIDDEN = QType("int8", (1 / 128,), (0,))
"""The type of a hidden state, which lies within -1..1; 1 is stored as 127/128."""

DEFAULT = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}
DIRECTIONS = {"forward": ("forward",), "reverse": ("reverse",), "bidirectional": ("forward", "reverse")}
SIGMOID_RANGE, TANH_RANGE = 16.0, 8.0
"""The range of arguments that int16 holds with exponent 0, for the sigmoid that is made from tanh and for other
functions.
"""

W, R, W_BIAS, R_BIAS = 1, 2, 3, 4


class Recurrent(Op):
    """The hidden states of one direction. attrs: kind, functions, reverse, batch_first, result, lengths, clip, ..."""

    output_type: ClassVar[OutputType | QType] = HIDDEN
    products = (Product(0, W, W_BIAS), Product(None, R, R_BIAS, HIDDEN))
    inner = ("arguments",)

    def import_onnx(self, node: OnnxNode, b: Builder) -> None:
        _Import(node, b).add()

    def infer(self, attrs: Mapping[str, Any], shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        x, hidden = shapes[0], shapes[R][1]
        if attrs["result"] == "all":
            return ((*x[:2], hidden),)
        return ((x[0], 1, hidden) if attrs["batch_first"] else (1, x[1], hidden),)

    def float_ref(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        return (_run(attrs, inputs),)

    def float_inner(self, attrs: Mapping[str, Any], inputs: Sequence[Array]) -> tuple[Array, ...]:
        """The products of the input with the weights, plus bias, as fractions of the range that int16 holds with
        exponent 0.
        """
        hidden = inputs[R].shape[1]
        reach = np.repeat(
            [TANH_RANGE if n != "sigmoid" else SIGMOID_RANGE for n in kernels.gate_functions(attrs)], hidden
        )
        return ((inputs[0] @ inputs[W].T + inputs[W_BIAS]) / reach.astype(np.float32),)

    def lower(self, node: Node, c: LowerContext) -> None:
        kernels.lower(node, c)


class LSTM(Recurrent):
    """Long short-term memory."""

    name = "LSTM"
    onnx = ("LSTM", "tflite:LSTM")

    def lower(self, node: Node, c: LowerContext) -> None:
        (recurrent_tflite.lower if recurrent_tflite.has_bits(node) else kernels.lower)(node, c)


class GRU(Recurrent):
    """Gated recurrent unit."""

    name = "GRU"
    onnx = ("GRU",)


class RNN(Recurrent):
    """A recurrent layer with one function."""

    name = "RNN"
    onnx = ("RNN",)


class Memory(Recurrent):
    """The cell of an LSTM after its last step, in a type with its own range: the output Y_c."""

    name = "LSTMMemory"
    output_type = "profile"


FLOAT: dict[str, Callable[..., Array]] = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "scaledtanh": lambda x, alpha, beta: np.float32(alpha) * np.tanh(x * np.float32(beta)),
    "hardsigmoid": lambda x, alpha, beta: np.clip(x * np.float32(alpha) + np.float32(beta), 0, 1),
    "softsign": lambda x: x / (1 + np.abs(x)),
}


def _run(attrs: Mapping[str, Any], inputs: Sequence[Array]) -> Array:
    """Compute all steps. Samples whose sequence has ended keep their state, and their outputs are 0."""
    x, w, r, wb, rb = inputs[:5]
    operands = dict(zip(attrs["given"], inputs[5:], strict=True))
    x = np.swapaxes(x, 0, 1) if attrs["batch_first"] else x
    (steps, batch), hidden = x.shape[:2], r.shape[1]
    lengths = np.asarray(attrs["lengths"] or [steps] * batch)
    state, cell = (operands.get(name, np.zeros((batch, hidden), np.float32)) for name in ("h", "c"))
    made, outputs = x @ w.T + wb, np.zeros((steps, batch, hidden), np.float32)
    for step in range(steps):
        runs, samples = (step < lengths)[:, None], np.arange(batch)
        time = np.where(step < lengths, lengths - 1 - step, step) if attrs["reverse"] else np.full(batch, step)
        new, memory = STEP[attrs["kind"]](attrs, made[time, samples], state, cell, (r, rb), operands.get("P"))
        state, cell = np.where(runs, new, state), np.where(runs, memory, cell)
        outputs[time, samples] = np.where(runs, new, np.float32(0))
    result = {"all": outputs, "last": state[None], "cell": cell[None]}[attrs["result"]].astype(np.float32)
    return np.ascontiguousarray(np.swapaxes(result, 0, 1)) if attrs["batch_first"] else result


def _function(attrs: Mapping[str, Any], which: int, x: Array, clips: bool = True) -> Array:
    name, numbers = attrs["functions"][which]
    limit = attrs["clip"] if clips and attrs["clip"] else np.inf
    return np.asarray(FLOAT[name](np.clip(x, -limit, limit), *numbers))


def _lstm(
    attrs: Mapping[str, Any], made: Array, state: Array, cell: Array, recurrent: tuple[Array, Array], peep: Array | None
) -> tuple[Array, Array]:
    i, o, f, g = np.split(made + state @ recurrent[0].T + recurrent[1], 4, axis=1)
    pi, po, pf = (0, 0, 0) if peep is None else np.split(peep, 3)
    entry = _function(attrs, 0, i + pi * cell)
    kept = 1 - entry if attrs["input_forget"] else _function(attrs, 0, f + pf * cell)
    new = kept * cell + entry * _function(attrs, 1, g)
    return _function(attrs, 0, o + po * new) * _function(attrs, 2, new, clips=False), new


def _gru(
    attrs: Mapping[str, Any], made: Array, state: Array, cell: Array, recurrent: tuple[Array, Array], peep: Array | None
) -> tuple[Array, Array]:
    r, bias = recurrent
    hidden = state.shape[1]
    first = made[:, : 2 * hidden] + state @ r[: 2 * hidden].T + bias[: 2 * hidden]
    update, reset = np.split(_function(attrs, 0, first), 2, axis=1)
    own, own_bias, given = r[2 * hidden :], bias[2 * hidden :], made[:, 2 * hidden :]
    if attrs["linear_before_reset"]:
        n = _function(attrs, 1, given + reset * (state @ own.T + own_bias))
    else:
        n = _function(attrs, 1, given + (reset * state) @ own.T + own_bias)
    return (1 - update) * n + update * state, cell


def _rnn(
    attrs: Mapping[str, Any], made: Array, state: Array, cell: Array, recurrent: tuple[Array, Array], peep: Array | None
) -> tuple[Array, Array]:
    return _function(attrs, 0, made + state @ recurrent[0].T + recurrent[1]), cell


STEP = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}


INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")


@dataclass(frozen=True)
class _Import:
    """Imports an ONNX node as one op for each direction and joins their outputs."""

    node: OnnxNode
    b: Builder
    states: dict[tuple[int, int], str] = field(default_factory=dict)
    """The initial states that were added, by input and direction."""

    @property
    def kind(self) -> str:
        return self.node.op_type

    @property
    def directions(self) -> tuple[str, ...]:
        given = self.node.attrs.get("direction", "forward")
        if given not in DIRECTIONS:
            raise Malformed(f"its direction is {given!r}", f"ONNX has {', '.join(DIRECTIONS)}")
        return DIRECTIONS[given]

    @property
    def batch_first(self) -> bool:
        return bool(self.node.attrs.get("layout", 0))

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The numbers of steps, samples and units."""
        x, r = self.b.shape(self.node.inputs[0]), self.b.shape(self.node.inputs[2])
        if len(x) != 3 or len(r) != 3:
            raise Malformed("its inputs X and R do not have three axes", "check the shapes of its inputs")
        return (x[1], x[0], r[2]) if self.batch_first else (x[0], x[1], r[2])

    def add(self) -> None:
        """Add the ops of all directions and the outputs that the node names."""
        self.check_shapes()
        outputs = (*self.node.outputs, "", "")[:3]
        y, last, memory = outputs
        found = [self.direction(d, y or f"{last or memory}/states", "all" if y else "last") for d in self.directions]
        if y:
            self.add_states(found, y)
        if last:
            ends = [self.end(d, name, last, bool(y)) for d, name in zip(self.directions, found, strict=True)]
            self.add_ends(ends, last)
        if memory and self.kind == "LSTM":
            self.add_ends([self.direction(d, memory, "cell") for d in self.directions], memory)

    def check_shapes(self) -> None:
        """Raise Malformed for inputs whose shapes do not fit, and Refused for inputs that must be constant but are
        not.
        """
        count, rows = len(self.directions), kernels.GATES[self.kind]
        _, batch, hidden = self.sizes
        features = self.b.shape(self.node.inputs[0])[2]
        state = (batch, count, hidden) if self.batch_first else (count, batch, hidden)
        if self.node.attrs.get("hidden_size", hidden) != hidden:
            raise Malformed(f"its hidden_size is {self.node.attrs['hidden_size']}, and that of R is {hidden}")
        wanted = {
            1: (count, rows * hidden, features), 2: (count, rows * hidden, hidden), 3: (count, 2 * rows * hidden),
            4: (batch,), 5: state, 6: state, 7: (count, 3 * hidden),
        }  # fmt: skip
        for i, shape in wanted.items():
            name = self.node.input(i)
            if name is not None and self.b.shape(name) != shape:
                raise Malformed(
                    f"its input {INPUTS[i]} has the shape {list(self.b.shape(name))}, not {list(shape)}",
                    "check the shapes of its inputs",
                )
            if name is not None and i in (1, 2, 3, 4, 7) and self.b.const(name) is None:
                raise Refused(f"its input {INPUTS[i]} is computed at run time", f"make {INPUTS[i]} constant")

    def functions(self, direction: int) -> tuple[tuple[str, tuple[float, ...]], ...]:
        """The activations of a direction. alphas and betas are given, in order, to those activations that have them."""
        default = DEFAULT[self.kind]
        names = [_lower_case(n) for n in self.node.attrs.get("activations") or default * len(self.directions)]
        if len(names) != len(default) * len(self.directions):
            raise Malformed(
                f"it has {len(names)} activations, and {len(default) * len(self.directions)} are needed",
                "check how the model was exported",
            )
        given = [list(self.node.attrs.get(f"activation_{which}") or ()) for which in ("alpha", "beta")]
        made: list[tuple[str, tuple[float, ...]]] = []
        for name in names:
            if name not in gates.FUNCTIONS:
                raise Refused(f"its activation {name!r} has no integer law", f"there is one for {', '.join(FLOAT)}")
            defaults = gates.FUNCTIONS[name][0]
            numbers = [ours.pop(0) if ours else d for ours, d in zip(given, defaults, strict=False)]
            made.append((name, tuple(float(x) for x in numbers)))
            if name == "scaledtanh" and abs(made[-1][1][0]) > 1:
                raise Refused("its ScaledTanh exceeds 1", "alpha must lie within -1..1 for integers")
        return tuple(made[direction * len(default) : (direction + 1) * len(default)])

    def lengths(self) -> tuple[int, ...]:
        """The constant lengths of the sequences, or () if every sequence has all steps."""
        steps, batch, _ = self.sizes
        name = self.node.input(4)
        array = None if name is None else self.b.const(name)
        if array is None:
            return ()
        found = tuple(int(n) for n in array)
        if not all(0 <= n <= steps for n in found):
            raise Malformed(
                f"its sequence_lens are {list(found)}, and the input has {steps} steps", f"allowed are 0 to {steps}"
            )
        return () if found == (steps,) * batch else found

    def direction(self, direction: str, name: str, result: str) -> str:
        """Add the op of a direction; returns its output, in the shape of the op."""
        d = self.directions.index(direction)
        hidden, rows = self.sizes[2], kernels.GATES[self.kind]
        inputs = [self.node.inputs[0], self.part(1, d, direction), self.part(2, d, direction)]
        inputs += [self.bias(d, direction, part, rows * hidden) for part in range(2)]
        given = {"h": self.state(5, d, direction), "c": self.state(6, d, direction) if self.kind == "LSTM" else None}
        if self.kind == "LSTM" and self.node.input(7) is not None:
            given["P"] = self.part(7, d, direction)
        present = {key: value for key, value in given.items() if value is not None}
        attrs = {
            "kind": self.kind, "onnx": self.kind, "functions": self.functions(d), "reverse": direction == "reverse",
            "batch_first": self.batch_first, "result": result, "lengths": self.lengths(), "given": tuple(present),
            "clip": float(self.node.attrs.get("clip") or 0.0), "input_forget": int(self.node.attrs.get("input_forget", 0)),
            "linear_before_reset": int(self.node.attrs.get("linear_before_reset", 0)),
        }  # fmt: skip
        if recurrent_tflite.FORM in self.node.attrs:
            attrs[recurrent_tflite.FORM] = tuple(self.node.attrs[recurrent_tflite.FORM])
        op = "LSTMMemory" if result == "cell" else self.kind
        return self.b.add(op, [*inputs, *present.values()], attrs, f"{name}/{direction}")

    def part(self, i: int, d: int, direction: str) -> str:
        """A direction's part of a constant."""
        name = self.node.inputs[i]
        return self.b.constant(f"{name}/{direction}", self.b.delayed(name).then(f"direction({d})", lambda a: a[d]))

    def bias(self, d: int, direction: str, part: int, rows: int) -> str:
        """The bias of the input's product (part 0) or of the state's."""
        name, role = self.node.input(3), ("input", "state")[part]
        if name is None:
            zeros = Const(np.zeros(rows, np.float32))
            return self.b.constant(f"{self.node.inputs[1]}/{direction}/bias_of_{role}", zeros)
        begin = part * rows
        const = self.b.delayed(name).then(f"bias_of_{role}({d})", lambda a: a[d, begin : begin + rows])
        return self.b.constant(f"{name}/{direction}/bias_of_{role}", const)

    def state(self, i: int, d: int, direction: str) -> str | None:
        """An initial state of a direction as [samples, units]; None for zeros."""
        name = self.node.input(i)
        if name is None:
            return None
        axis = 1 if self.batch_first else 0
        known = self.b.const(name)
        if known is not None:
            own = np.take(known, d, axis)
            const = self.b.delayed(name).then(f"direction({d})", lambda a: np.take(a, d, axis))
            return self.b.constant(f"{name}/{direction}", const) if own.any() else None
        if (i, d) not in self.states:
            if len(self.directions) > 1:
                name = add_slice(self.b, name, {axis: range(d, d + 1)}, f"{name}/{direction}")
            _, batch, hidden = self.sizes
            self.states[i, d] = self.b.add("Reshape", [name], {"shape": (batch, hidden)}, f"{name}/state")
        return self.states[i, d]

    def add_states(self, found: Sequence[str], y: str) -> None:
        """Add the output Y, from the states of all directions."""
        steps, batch, hidden = self.sizes
        count = len(found)
        shape = (batch, steps, count, hidden) if self.batch_first else (steps, batch, count, hidden)
        whole = found[0] if count == 1 else self.b.add("Concat", found, {"axis": 2}, f"{y}/units")
        if self.batch_first or 1 in (count, batch):
            own = shape if self.batch_first else (steps, count, batch, hidden)
            self.b.add("Reshape", [whole], {"shape": own}, y)
            return
        split = self.b.add("Reshape", [whole], {"shape": shape}, f"{y}/directions")
        self.b.transpose(split, (0, 2, 1, 3), y)

    def end(self, direction: str, states: str, name: str, all_steps: bool) -> str:
        """The state of a direction after its last step, which is taken from the states of all steps."""
        if not all_steps:
            return states
        if self.lengths():
            return self.direction(direction, name, "last")
        at = 0 if direction == "reverse" else self.sizes[0] - 1
        return add_slice(self.b, states, {int(self.batch_first): range(at, at + 1)}, f"{name}/{direction}")

    def add_ends(self, ends: Sequence[str], output: str) -> None:
        """Add the output Y_h or Y_c, from the last states or cells of all directions."""
        _, batch, hidden = self.sizes
        axis = 1 if self.batch_first else 0
        whole = ends[0] if len(ends) == 1 else self.b.add("Concat", ends, {"axis": axis}, f"{output}/directions")
        shape = (batch, len(ends), hidden) if self.batch_first else (len(ends), batch, hidden)
        self.b.add("Reshape", [whole], {"shape": shape}, output)


def _lower_case(name: str | bytes) -> str:
    return (name.decode() if isinstance(name, bytes) else name).lower()


OPS = (LSTM(), GRU(), RNN(), Memory())
LOWERINGS = {(op.name, "int16"): op.lower for op in OPS}
