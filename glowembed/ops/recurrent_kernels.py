"""LSTM, GRU and RNN in integers: lowers a node to params and constants. Kernel-level: recurrent_s8, recurrent_s16,
recurrent_s16w.

x has (s_x, z_x), the hidden state (s_h, z_h), by default 1/128 and 0; weights have a scale for each row of each gate.
The argument of a gate is in steps of g = 2^exponent * 2^-11 if its function is the sigmoid made from tanh, else
2^exponent * 2^-12.

    start        start_x = round(b / (s_w s_x)) - z_x sum(W)    start_h = -z_h sum(R)     b = W_b + R_b
                 a GRU whose product with R comes before the reset has R_b of its gate n in start_h instead
    multipliers  M_x = round(s_w s_x / g 2^24)    M_h = round(s_r s_h / g 2^24)           int16: shifts of law/wide.py, not 24
    px = sat16((W x + start_x) * M_x)    ph = (R h + start_h) * M_h                       each rounded once, halves up
    p  = sat16(px + ph), then within the clip of the node
    LSTM    i, f, g by their functions, f = 32767 - i with input_forget; peepholes add ((P (c >> 12) + half) >> s), in sat16
            c = sat32(((i g) >> 6) + 2 ((c f) >> 16))           int32, Q7.24; o is made after it
            t = T(sat16(c >> 12));    h = sat(((o t M_H + 2^31) >> 32) + z_h),    M_H = round(4 / s_h)
    GRU     z, r by their function;  n = T(sat16(px + ((r sat16(ph) + 2^14) >> 15)))
            else, where the reset comes first: rh = the state ((r H) >> 15), stored as h is; n = T(sat16(px + R rh))
            H = n + ((z (H - n) + 2^14) >> 15)                  int16, Q0.15
            h = sat(((H M_H + 2^23) >> 24) + z_h),              M_H = round(2^9 / s_h)
    RNN     H = T(p);    h as in the GRU

law/gates.py defines functions and cells. The result may contain the states and, after them, the last cell. The exponent
is 0 if no argument px in the profile exceeds 1.5 times the range of int16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from glowembed.errors import UnsupportedModelError
from glowembed.graph.cstruct import i32
from glowembed.graph.geometry import Elements, whole
from glowembed.graph.ir import Array, Const, Node, QType, Value
from glowembed.graph.op import Cost, Kernel, KernelOp, LowerContext, free_name, of_element
from glowembed.graph.registry import lower_node
from glowembed.law import fixedpoint, gates, wide
from glowembed.law.fixedpoint import round_half_up
from glowembed.records import dataclass

HIDDEN_SCALES = {"int8": 1 / 128, "int16": 1 / 32768}
"""The scale of a hidden state, by dtype, if nothing else determines its type."""

SHIFT = 24
KINDS = ("LSTM", "GRU", "RNN")
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
RESULTS = ("all", "last", "cell", "all and cell", "last and cell")
MOST_BEYOND = 1.5
"""How many times the range of int16 an argument px may reach. The product of the state rarely brings back arguments
beyond that.
"""

MAX_EXPONENT = 8


@dataclass(frozen=True)
class RecurrentParams:
    """The params of one direction of a recurrent layer. Offsets count elements; arguments are in steps of g."""

    kind: int = i32("0: LSTM, 1: GRU, 2: RNN")
    result: int = i32(
        "0: the state after each step, 1: after the last one, 2: the cell after the last one, 3: 0 and 2, 4: 1 and 2"
    )
    steps: int = i32("of the input")
    batch: int = i32("sequences")
    in_c: int = i32("input features")
    units: int = i32("of the state")
    x_step: int = i32("from step to step of the input")
    x_batch: int = i32("from sequence to sequence of the input")
    y_step: int = i32("from step to step of the output")
    y_batch: int = i32("from sequence to sequence of the output")
    reverse: int = i32("1: the last step comes first")
    before_reset: int = i32("1: the product with the state of a GRU comes before the reset")
    input_forget: int = i32("1: the forget gate is what the input gate leaves")
    has_initial: int = i32("1: the state begins with h0, 2: the cell with c0, 3: both")
    has_peephole: int = i32("1: there are peepholes")
    has_lengths: int = i32("1: each sequence has a length of its own")
    x_shift: int = i32("of the products of the input, 1..62")
    h_shift: int = i32("of the products of the state, 1..62")
    exponent: int = i32("arguments count in 2^exponent steps of g, 0..8")
    functions: tuple[int, ...] = i32("2 * the number of a table, and 1 more for the sigmoid made from tanh", 3)
    limits: tuple[int, ...] = i32("of the argument of each gate, in steps; 32768: none", 4)
    zero_point: int = i32("of the hidden state")
    multiplier_h: int = i32("of the hidden state: 4 / scale for an LSTM, else 2^9 / scale")
    multiplier_0: int = i32("of an initial state of a GRU: scale * 2^31")
    c0_zero: int = i32("zero point of an initial cell")
    c0_multiplier: int = i32("from its steps to those of the cell")
    c0_shift: int = i32("of the same, 1..62")
    cell_zero: int = i32("zero point of the cell as the result")
    cell_multiplier: int = i32("from its steps to those of the result")
    cell_shift: int = i32("of the same, 1..62")
    peephole_shifts: tuple[int, ...] = i32("of the peepholes of i, o, f, 1..30; 0: there are none", 3)


def gate_functions(attrs: Mapping[str, Any]) -> list[str]:
    """The activation of each gate, in order."""
    f, *others = (name for name, _ in attrs["functions"])
    return {"LSTM": [f, f, f, *others[:1]], "GRU": [f, f, *others], "RNN": [f]}[attrs["kind"]]


@dataclass(frozen=True)
class _Product:
    """A product with constant weights: stored weights, scale of each row, start values, and type of the operand."""

    weights: Const
    stored: Array
    scale: Array
    start: Array
    operand: QType

    def bound(self) -> int:
        reach = 2 ** (8 * np.dtype(self.operand.dtype).itemsize - 1)
        return int((reach * np.abs(self.stored.astype(np.int64)).sum(axis=1) + np.abs(self.start)).max())

    def multipliers(self, units: Array, name: str) -> tuple[tuple[int, ...], int]:
        """A multiplier for each row, and the shift that they share."""
        scales = self.scale * self.operand.scale[0] / units
        if self.operand.dtype == "int16":
            q = wide.requant(scales, self.bound())
            return q.multiplier, q.shift
        found = round_half_up(scales * 2.0**SHIFT)
        if not (np.isfinite(found).all() and found.max() < 2**31) or self.bound() >= 2**31:
            raise UnsupportedModelError(
                f"{name}: sums of a gate of up to {self.bound()} times {scales.max():g} do not fit its integers: give the input a"
                " narrower range, or compute the node in int16 or float32 (precision.yaml)"
            )
        return tuple(int(m) for m in found), SHIFT


def _product(c: LowerContext, w: str, bias: Array, operand: QType, name: str) -> _Product:
    wq = c.qtype(w)
    weights = c.const(w).then("quantize", wq.quantize)
    stored = weights.materialize()
    scale = np.broadcast_to(np.asarray(wq.scale, np.float64), (len(stored),))
    limit = 2.0**31 if operand.dtype == "int8" else 2.0**37
    steps = fixedpoint.bias_steps(bias, scale * operand.scale[0], limit, name)
    start = steps - operand.zero_point[0] * stored.astype(np.int64).sum(axis=1)
    return _Product(weights, stored, scale, start, operand)


def hidden_type(c: LowerContext, node: Node) -> QType:
    """The type of the hidden state, which is that of the output unless the output is the cell."""
    y = c.qtype(node.outputs[0])
    return y if node.attrs["result"] != "cell" else QType(y.dtype, (HIDDEN_SCALES[y.dtype],), (0,))


def _products(node: Node, c: LowerContext) -> tuple[_Product, _Product]:
    x, w, r, wb, rb = node.inputs[:5]
    given, own = (c.const(name).materialize().astype(np.float64) for name in (wb, rb))
    apart = np.zeros(len(own), bool)
    if node.attrs["kind"] == "GRU" and node.attrs["linear_before_reset"]:
        apart[2 * len(own) // 3 :] = True
    return (
        _product(c, w, given + np.where(apart, 0, own), c.qtype(x), node.name),
        _product(c, r, np.where(apart, own, 0), hidden_type(c, node), node.name),
    )


def _exponent(node: Node, c: LowerContext, reach: Array) -> int:
    """The smallest exponent for which the arguments in the profile stay within MOST_BEYOND times the range of int16.

    Without a profile, the arguments are estimated: 2.5 times the largest input times the length of a row of weights.
    """
    if "arguments" in node.attrs:
        largest = max(abs(x) for x in node.attrs["arguments"])
    else:
        weights = c.const(node.inputs[1]).materialize().astype(np.float64)
        bias = np.abs(sum(c.const(name).materialize().astype(np.float64) for name in node.inputs[3:5]))
        inputs = max(abs(x) for x in c.qtype(node.inputs[0]).range())
        bound = np.minimum(2.5 * np.sqrt((weights**2).sum(axis=1)), np.abs(weights).sum(axis=1)) * inputs
        largest = float(((bound + bias) / reach).max())
    exponent = 0
    while exponent < MAX_EXPONENT and largest > MOST_BEYOND * 2.0**exponent:
        exponent += 1
    return exponent


def lower(node: Node, c: LowerContext) -> None:
    """Add the kernel-level node for a node in int8 or int16. If another node asks for the cell of the same run, one
    kernel-level node computes both.
    """
    pair, result, y = _same_run(node, c), node.attrs["result"], node.outputs[0]
    if node not in pair:
        _add(node, c, result, y, c.qtype(y) if result == "cell" else None)
        return
    if any(y in made.outputs for made in c.nodes):
        return  # lowered together with the other one
    states, cell = pair
    (y,), (memory,) = states.outputs, cell.outputs
    count, ends = prod(c.shape(y)), prod(c.shape(memory))
    both = c.derive(y, "and_cell", (count + ends,), c.qtype(y))
    _add(states, c, f"{states.attrs['result']} and cell", both, c.qtype(memory))
    retyped = c.derive(memory, "and_states", (count + ends,), c.qtype(memory))
    c.add(cell, "view", [both], retyped, shares=0, role="type")
    _take(states, c, both, 0, count)
    _take(cell, c, retyped, count, ends)


def _same_run(node: Node, c: LowerContext) -> tuple[Node, ...]:
    """The nodes that compute states and cell of the run to which `node` belongs; () if it is the only one.

    Their biases may differ after bias correction, because the mean of a cell says nothing about its states; those of
    the states are used.
    """

    def run(n: Node) -> tuple[object, ...]:
        own = {key: value for key, value in n.attrs.items() if key != "result"}
        return n.origins, n.inputs[:3], n.inputs[5:], hidden_type(c, n), own

    runs = [n for n in c.graph.nodes if n.attrs.get("kind") == node.attrs["kind"] and run(n) == run(node)]
    parts = [[n for n in runs if (n.attrs["result"] == "cell") == is_cell] for is_cell in (False, True)]
    return tuple(part[0] for part in parts) if all(parts) else ()


def _take(node: Node, c: LowerContext, x: str, begin: int, size: int) -> None:
    """Make the output of a node from `size` elements of x."""
    y = node.outputs[0]
    part = c.derive(y, "part", (size,), c.qtype(y))
    attrs = {"starts": (begin,), "steps": (1,), "sizes": (size,)}
    lower_node(Node(part, "Slice", (x,), (part,), attrs, node.origins), c)
    c.add(node, "view", [part], y, shares=0, role="shape")


def _add(node: Node, c: LowerContext, result: str, output: str, cell: QType | None) -> None:
    """Add the kernel-level node. cell: the type of the cell in the result."""
    attrs, x, y = node.attrs, node.inputs[0], node.outputs[0]
    functions = gate_functions(attrs)
    hidden = c.shape(node.inputs[2])[1]
    steps_of_one = np.asarray([2048.0 if name == "sigmoid" else 4096.0 for name in functions])
    exponent = _exponent(node, c, np.repeat(32768 / steps_of_one, hidden))
    units = 2.0**exponent / steps_of_one
    given, own = _products(node, c)
    rows = np.repeat(units, hidden)
    (m_x, x_shift), (m_h, h_shift) = (p.multipliers(rows, node.name) for p in (given, own))
    numbers, tables = gates.words_of(attrs["functions"])
    operands = dict(zip(attrs["given"], node.inputs[5:], strict=True))
    first = _first_cell_type(c, operands.get("c"), c.qtype(y).dtype)
    peephole, peephole_shifts = _peephole(operands.get("P"), c, units, hidden)
    wide_sums = given.operand.dtype == "int16"
    constants = {
        "weights": given.weights, "recurrent": own.weights,
        "start": Const(np.concatenate([given.start, own.start]).astype(np.int64 if wide_sums else np.int32)),
        "multiplier": Const(np.asarray(m_x + m_h, np.int32)), "tables": Const(tables.astype(np.int32)),
        "peephole": Const(peephole), "lengths": Const(np.asarray(attrs["lengths"] or [0], np.int32)),
    }  # fmt: skip
    params = RecurrentParams(
        kind=KINDS.index(attrs["kind"]), result=RESULTS.index(result), **sizes(c.shape(x), hidden, attrs),
        reverse=int(attrs["reverse"]), before_reset=attrs["linear_before_reset"], input_forget=attrs["input_forget"],
        has_initial=int("h" in operands) + 2 * int("c" in operands), has_peephole=int("P" in operands),
        has_lengths=int(bool(attrs["lengths"])), x_shift=x_shift, h_shift=h_shift, exponent=exponent,
        functions=(*numbers, 0, 0)[:3], limits=_limits(attrs["clip"], units),
        zero_point=own.operand.zero_point[0], multiplier_h=_state_multiplier(node, own.operand),
        multiplier_0=min(int(round_half_up(own.operand.scale[0] * 2.0**31)), 2**31 - 1),
        **_cell(first if "c" in operands else None, cell), peephole_shifts=peephole_shifts,
    )  # fmt: skip
    states = [_initial(node, c, operands.get("h"), "h", own.operand), _initial(node, c, operands.get("c"), "c", first)]
    weights = c.qtype(node.inputs[1]).dtype
    op = "recurrent_s8" if not wide_sums else "recurrent_s16" if weights == "int8" else "recurrent_s16w"
    macs = params.steps * params.batch * len(rows) * (params.in_c + hidden)
    c.add(node, op, [x, *states], output, params, constants, macs=macs)


def sizes(shape: Sequence[int], hidden: int, attrs: Mapping[str, Any]) -> dict[str, int]:
    """The fields of the params that say where steps and sequences lie."""
    batch, steps = shape[:2] if attrs["batch_first"] else (shape[1], shape[0])
    features = shape[2]
    x = (features, steps * features) if attrs["batch_first"] else (batch * features, features)
    y = (hidden, steps * hidden) if attrs["batch_first"] else (batch * hidden, hidden)
    if attrs["result"] != "all":
        y = (0, hidden)
    return {
        "steps": steps, "batch": batch, "in_c": features, "units": hidden,
        "x_step": x[0], "x_batch": x[1], "y_step": y[0], "y_batch": y[1],
    }  # fmt: skip


def _limits(clip: float, units: Array) -> tuple[int, ...]:
    """The clip of each gate in its steps; 32768 stands for none."""
    found = [min(32768, int(round_half_up(clip / unit))) if clip else 32768 for unit in units]
    return tuple([*found, 32768, 32768, 32768][:4])


def _state_multiplier(node: Node, hidden: QType) -> int:
    multiplier = int(round_half_up((4 if node.attrs["kind"] == "LSTM" else 512) / hidden.scale[0]))
    if not 0 < multiplier < 2**31:
        raise UnsupportedModelError(
            f"{node.name}: its hidden state has the scale {hidden.scale[0]:g}, and states are within -1..1"
        )
    return multiplier


def _cell(initial: QType | None, last: QType | None) -> dict[str, int]:
    """The fields that say how the cell is made from c0, and the result from the cell."""
    first, result = (0, 0, 1), (0, 0, 1)
    if initial is not None:
        q = wide.requant([initial.scale[0] * 2.0**24], 2**17)
        first = (initial.zero_point[0], q.multiplier[0], q.shift)
    if last is not None:
        q = wide.requant([2.0**-24 / last.scale[0]], 2**31)
        result = (last.zero_point[0], q.multiplier[0], q.shift)
    names = [f"{what}_{field}" for what in ("c0", "cell") for field in ("zero", "multiplier", "shift")]
    return dict(zip(names, (*first, *result), strict=True))


def _initial(node: Node, c: LowerContext, name: str | None, role: str, qtype: QType) -> str:
    """An initial state in this type, or a single 0 if the node has none."""
    y = node.outputs[0]
    if name is None:
        return _constant(c, f"{y}/no_{role}", Const(np.zeros(1, qtype.dtype)), qtype)
    const = c.value(name).const
    if const is not None:
        return _constant(c, f"{y}/first_{role}", const.then("quantize", qtype.quantize), qtype)
    if c.value(name).qtype == qtype:
        return name
    made = c.derive(y, f"first_{role}", c.shape(name), qtype)
    lower_node(Node(made, "Rescale", (name,), (made,), {}, node.origins), c)
    return made


def _constant(c: LowerContext, name: str, const: Const, qtype: QType) -> str:
    name = free_name(name, c.graph.values, c.values)
    c.values[name] = Value(name, const.materialize().shape, qtype=qtype, const=const)
    return name


def _first_cell_type(c: LowerContext, name: str | None, dtype: str) -> QType:
    """The type of an initial cell: that of the value, or a type that can hold the constant."""
    if name is None:
        return QType(dtype, (1.0,), (0,))
    const = c.value(name).const
    if const is None:
        return c.qtype(name)
    largest = float(np.abs(const.materialize()).max())
    return QType(dtype, (largest / np.iinfo(dtype).max,), (0,))


def _peephole(name: str | None, c: LowerContext, units: Array, hidden: int) -> tuple[Array, tuple[int, ...]]:
    """Peepholes of i, o, f as int16 for a cell in steps of 2^-12, and the shift of each gate."""
    if name is None:
        return np.zeros(1, np.int16), (0, 0, 0)
    weights = c.const(name).materialize().astype(np.float64).reshape(3, hidden) / 4096 / units[:3, None]
    shifts = []
    for row in weights:
        shift = 30
        while shift > 1 and round_half_up(np.abs(row).max() * 2.0**shift) > gates.HIGHEST:
            shift -= 1
        shifts.append(shift)
    stored = round_half_up(weights * 2.0 ** np.asarray(shifts)[:, None])
    return np.clip(stored, gates.LOWEST, gates.HIGHEST).astype(np.int16).reshape(-1), tuple(shifts)


@dataclass
class _State:
    """What the reference keeps between steps, for all sequences: the stored hidden state, and the cell or the int16
    state.
    """

    hidden: Array
    kept: Array


def scratch(p: RecurrentParams) -> int:
    """The bytes of scratch of the portable kernels: the cell or state, both products of all gates, and in int16 the
    input, the hidden state, and the hidden state after a reset.
    """
    gates_of = GATES[KINDS[p.kind]] * p.units
    return 4 * (p.units + 2 * gates_of) + 2 * (p.in_c + 2 * p.units)


def portable_cost(node: Node, per_mac: float) -> Cost:
    p = node.params
    return Cost(per_mac * node.macs + 120.0 * p.steps * p.batch * p.units * GATES[KINDS[p.kind]], 2400)


def _results(p: RecurrentParams) -> int:
    """The number of states and cells of each unit in the result."""
    return (p.steps if p.result % 3 == 0 else 1) + (p.result > 2)


def _elements(p: RecurrentParams) -> Elements:
    state = p.batch * p.units
    given = (state if p.has_initial & bit else 1 for bit in (1, 2))
    return (p.steps * p.batch * p.in_c, *given), state * _results(p)


class RecurrentS8(KernelOp[RecurrentParams]):
    """Computes all steps of all sequences in one call. h0 and c0 are a single zero if nothing gives these states."""

    name = "recurrent_s8"
    params = RecurrentParams
    geometry = whole(_elements)
    inputs = ("x", "h0", "c0")
    constants: ClassVar[Mapping[str, str]] = {
        "weights": "int8_t", "recurrent": "int8_t", "start": "int32_t", "multiplier": "int32_t", "tables": "int32_t",
        "peephole": "int16_t", "lengths": "int32_t",
    }  # fmt: skip
    dtype: ClassVar[str] = "int8"
    kernels: tuple[Kernel, ...] = (Kernel("ge_recurrent_s8", cost=lambda n, t: portable_cost(n, 6.0), scratch=scratch),)

    def int_ref(self, p: RecurrentParams, inputs: Sequence[Array], constants: Mapping[str, Array]) -> Array:
        return _Reference(p, constants, self.dtype).run(*inputs)


def _of_int16(symbol: str, weight: str, per_product: float) -> Kernel:
    """The portable int16 kernel for weights of this C type."""
    return of_element(
        "ge_recurrent_s8",
        "s16",
        symbol,
        words={"WEIGHT": weight, "SUM": "int64_t", "PRODUCT": "int_fast32_t"},
        cost=lambda n, t: portable_cost(n, per_product),
        scratch=scratch,
    )


class RecurrentS16(RecurrentS8):
    """The op with int16 activations and hidden state, and int8 weights. Sums have 64 bits, and shifts are those of
    law/wide.py.
    """

    name = "recurrent_s16"
    constants: ClassVar[Mapping[str, str]] = {**RecurrentS8.constants, "start": "int64_t"}
    dtype = "int16"
    element_bytes = (2, 2)
    kernels = (_of_int16("ge_recurrent_s16", "int8_t", 8.0),)


class RecurrentS16W(RecurrentS16):
    """The op with int16 weights."""

    name = "recurrent_s16w"
    constants: ClassVar[Mapping[str, str]] = {
        **RecurrentS16.constants, "weights": "int16_t", "recurrent": "int16_t",
    }  # fmt: skip
    kernels = (_of_int16("ge_recurrent_s16w", "int16_t", 9.0),)


@dataclass(frozen=True)
class _Reference:
    """Computes the law in numpy, for all sequences at once, step by step."""

    p: RecurrentParams
    constants: Mapping[str, Array]
    dtype: str

    def run(self, x: Array, h0: Array, c0: Array) -> Array:
        p = self.p
        low, high = np.iinfo(self.dtype).min, np.iinfo(self.dtype).max
        flat, at = x.reshape(-1), np.arange(p.batch)
        rows = GATES[KINDS[p.kind]] * p.units
        lengths = self.constants["lengths"].astype(np.int64) if p.has_lengths else np.full(p.batch, p.steps)
        state = self.first(h0, c0)
        out = np.full((p.batch * p.units * _results(p),), p.zero_point, np.int64)
        for step in range(p.steps):
            runs = step < lengths
            time = np.where(runs, lengths - 1 - step, step) if p.reverse else np.full(p.batch, step)
            begins = time * p.x_step + at * p.x_batch
            px = gates.sat16(self.product(flat[begins[:, None] + np.arange(p.in_c)], "weights", 0, slice(rows)))
            new = (self.lstm if p.kind == 0 else self.gru if p.kind == 1 else self.rnn)(px, state)
            hidden = np.clip(new.hidden, low, high)
            state = _State(np.where(runs[:, None], hidden, state.hidden), np.where(runs[:, None], new.kept, state.kept))
            if p.result % 3 == 0:
                places = (time * p.y_step + at * p.y_batch)[:, None] + np.arange(p.units)
                out[places] = np.where(runs[:, None], hidden, p.zero_point)
        ends = p.batch * p.units
        if p.result % 3 == 1:
            out[:ends] = state.hidden.reshape(-1)
        if p.result >= 2:
            cells = np.clip(gates.scaled(state.kept, p.cell_multiplier, p.cell_shift) + p.cell_zero, low, high)
            out[-ends:] = cells.reshape(-1)
        return out.astype(self.dtype)

    def first(self, h0: Array, c0: Array) -> _State:
        """The states before the first step."""
        p = self.p
        hidden, kept = np.full((p.batch, p.units), p.zero_point, np.int64), np.zeros((p.batch, p.units), np.int64)
        if p.has_initial & 1:
            hidden = h0.reshape(p.batch, p.units).astype(np.int64)
            if p.kind == 1:
                kept = gates.sat16(gates.scaled(hidden - p.zero_point, p.multiplier_0, 16))
        if p.has_initial & 2:
            cell = c0.reshape(p.batch, p.units).astype(np.int64) - p.c0_zero
            kept = gates.sat32(gates.scaled(cell, p.c0_multiplier, p.c0_shift))
        return _State(hidden, kept)

    def product(self, x: Array, name: str, which: int, rows: slice) -> Array:
        """px or ph of these rows, not yet saturated. The sums are below 2^53, so float64 is exact."""
        half = len(self.constants["start"]) // 2
        w = self.constants[name].reshape(half, -1)[rows].astype(np.float64)
        total = (x.astype(np.float64) @ w.T).astype(np.int64)
        start, multiplier = (
            self.constants[key][which * half : (which + 1) * half][rows].astype(np.int64)
            for key in ("start", "multiplier")
        )
        return gates.scaled(total + start, multiplier, (self.p.x_shift, self.p.h_shift)[which])

    def function(self, which: int, gate: int, p: Array) -> Array:
        """The activation of a gate's arguments, which are clipped first."""
        limit, words = self.p.limits[gate], self.constants["tables"].astype(np.int64)
        return gates.activated(words, self.p.functions[which], self.p.exponent, np.clip(p, -limit, limit))

    def stored(self, state: Array) -> Array:
        """An int16 state as a stored hidden state, before it is clamped."""
        return gates.scaled(state, self.p.multiplier_h, SHIFT) + self.p.zero_point

    def lstm(self, px: Array, state: _State) -> _State:
        p, n = self.p, self.p.units
        sums = gates.sat16(px + self.product(state.hidden, "recurrent", 1, slice(4 * n)))
        i, o, f, g = (sums[:, k * n : (k + 1) * n] for k in range(4))
        i = self.function(0, 0, self.seen(0, i, state.kept))
        f = 32767 - i if p.input_forget else self.function(0, 2, self.seen(2, f, state.kept))
        cell = gates.lstm_cell(state.kept, i, self.function(1, 3, g), f)
        o = self.function(0, 1, self.seen(1, o, cell))
        argument = gates.sat16(cell >> (13 if p.functions[2] & 1 else 12))
        t = gates.activated(self.constants["tables"].astype(np.int64), p.functions[2], 0, argument)
        return _State(gates.scaled(o * t, p.multiplier_h, 32) + p.zero_point, cell)

    def seen(self, which: int, argument: Array, cell: Array) -> Array:
        """The argument of a gate, plus the product of its peephole with the cell."""
        p = self.p
        if not p.has_peephole:
            return argument
        weights = self.constants["peephole"].reshape(3, p.units)[which].astype(np.int64)
        return gates.sat16(argument + gates.scaled(cell >> 12, weights, p.peephole_shifts[which]))

    def gru(self, px: Array, state: _State) -> _State:
        p, n = self.p, self.p.units
        rows = 3 * n if p.before_reset else 2 * n
        ph = self.product(state.hidden, "recurrent", 1, slice(rows))
        z, r = (
            self.function(0, k, gates.sat16(px[:, k * n : (k + 1) * n] + ph[:, k * n : (k + 1) * n])) for k in range(2)
        )
        if p.before_reset:
            own = (r * gates.sat16(ph[:, 2 * n :]) + 2**14) >> 15
        else:
            low, high = np.iinfo(self.dtype).min, np.iinfo(self.dtype).max
            reset = np.clip(self.stored((r * state.kept) >> 15), low, high)
            own = self.product(reset, "recurrent", 1, slice(2 * n, 3 * n))
        kept = gates.gru_state(state.kept, z, self.function(1, 2, gates.sat16(px[:, 2 * n :] + own)))
        return _State(self.stored(kept), kept)

    def rnn(self, px: Array, state: _State) -> _State:
        sums = gates.sat16(px + self.product(state.hidden, "recurrent", 1, slice(self.p.units)))
        kept = self.function(0, 0, sums)
        return _State(self.stored(kept), kept)


KERNEL_OPS = (RecurrentS8(), RecurrentS16(), RecurrentS16W())
