"""Translates state that is kept between runs: variables, and layers with a memory. Each becomes an input and an output
of the network.

A bundle keeps nothing between runs, so the caller copies the output into the input; a note lists the pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from glowembed.graph.op import Refused
from glowembed.read.tflite.flat import Operator, Subgraph, Tensor
from glowembed.read.tflite.translate import DOMAIN, Call, State


def _variable(subgraph: Subgraph, index: int) -> str:
    """The name of the variable to which a handle refers."""
    for operator in subgraph.operators:
        if operator.kind == "VAR_HANDLE" and index in operator.outputs:
            names = (operator.options.get(key) or b"" for key in ("Container", "SharedName"))
            return "/".join(name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in names)
    raise Refused("its variable is not made by VAR_HANDLE", "export the model again")


def var_handle(c: Call) -> None:
    """VAR_HANDLE: nothing to translate, because a handle is not a tensor."""


def call_once(c: Call) -> None:
    """Set initial values of variables from the subgraph that is run once."""
    number = c.option("InitSubgraphIndex", -1)
    if not 0 < number < len(c.t.model.subgraphs):
        raise Refused(f"it runs subgraph {number} of {len(c.t.model.subgraphs)}", "check the file")
    subgraph = c.t.model.subgraphs[number]
    for operator in subgraph.operators:
        if operator.kind == "ASSIGN_VARIABLE":
            _initialize(c, subgraph, operator)
        elif operator.kind != "VAR_HANDLE":
            raise Refused(f"it runs {operator.kind} once", "only constants assigned to variables are supported")


def _initialize(c: Call, subgraph: Subgraph, operator: Operator) -> None:
    handle, value = operator.inputs
    tensor = subgraph.tensors[value]
    if tensor.array is None:
        raise Refused("the first value of a variable is computed", "only constants are supported")
    zero = 0 if tensor.scales is None else tensor.scales.zero_point.reshape(-1)[0]
    distinct = np.unique(tensor.array)
    state = c.t.states.setdefault(_variable(subgraph, handle), State())
    if distinct.size == 1:
        state.initial = "zeros" if distinct[0] == zero else f"{distinct[0]} everywhere, as stored,"
    else:
        state.initial = f"the {distinct.size} numbers of {tensor.name!r}"


def read_variable(c: Call) -> None:
    """Read a variable. The first read is an input of the network; later ones repeat it, or the value assigned since."""
    state = c.t.states.setdefault(_variable(c.t.subgraph, c.index(0)), State())
    if state.last is not None and state.index is not None:
        c.done("Identity", [c.t.real(state.index)])
    elif state.first is not None:
        c.done("Identity", [c.t.real(state.first)])
    else:
        state.first = c.operator.outputs[0]


def assign_variable(c: Call) -> None:
    """Assign a variable. The value that is assigned last becomes an output of the network."""
    state = c.t.states.setdefault(_variable(c.t.subgraph, c.index(0)), State())
    state.index, state.last = c.index(1), c.t.stored(c.index(1))


def svdf(c: Call) -> None:
    """SVDF: a memory of the last values of each filter, [filters, memory], and a product along it; `rank` filters make
    one unit.
    """
    filters, _ = c.shape(1)
    memory, rank, units = c.shape(2)[1], max(c.option("Rank", 1), 1), c.output().shape[-1]
    if c.shape(0)[0] != 1 or filters != units * rank or not c.has(4):
        raise Refused(
            f"{filters} filters for {units} units of rank {rank}", "one sample, and filters of units times rank"
        )
    feature = c.add("Gemm", [c.real(0), c.t.weights(c.index(1), "weights", lambda w: w)], "feature", transB=1)
    old = c.reshaped(c.real(4), (1, filters, memory), "old")
    bounds = (c.constant("first", [1]), c.constant("end", [memory]), c.constant("axis", [2]))
    kept = c.add("Slice", [old, *bounds], "kept")
    new = c.add("Concat", [kept, c.reshaped(feature, (1, filters, 1), "newest")], "new", axis=2)
    sums = _along_memory(c, _remember(c, new, filters, memory), filters, 3 if rank == 1 and c.has(3) else None)
    if rank > 1:
        of_units = c.reshaped(sums, (units, rank), "ranks")
        sums = c.add("ReduceSum", [of_units, c.constant("of_rank", [1])], "of_units", keepdims=0)
        sums = c.add("Add", [sums, c.real(3)], "biased") if c.has(3) else sums
    c.done("Reshape", [sums, c.constant("shape", c.output().shape)])


def _along_memory(c: Call, memory: str, filters: int, bias: int | None) -> str:
    """The sums over the memory, [1, filters, 1]: as a convolution, or in float32 where the weights have 16 bits."""
    array, scales = c.numbers(2, "weights"), c.tensor(2).scales
    if array.dtype != np.int16 or scales is None:
        inputs = [memory, c.t.weights(c.index(2), "taps", lambda w: w[:, None, :])]
        return c.add_main("Conv", inputs if bias is None else [*inputs, c.real(bias)], "sums", group=filters)
    taps = c.constant("taps", array * scales.scale.astype(np.float64), "float32")
    product = c.add_main("Mul", [memory, taps], "products")
    sums = c.add("ReduceSum", [product, c.constant("of_memory", [2])], "sums", keepdims=1)
    if bias is None:
        return sums
    return c.add("Add", [sums, c.reshaped(c.real(bias), (1, filters, 1), "bias")], "biased_sums")


def _remember(c: Call, new: str, filters: int, memory: int) -> str:
    """Make the new memory an output of the network, in the type of the old one; return its real numbers."""
    index = c.index(4)
    flat = c.reshaped(new, c.shape(4), "flat")
    name = c.t.fresh(f"{c.t.names[index]}/next")
    c.t.states[c.t.names[index]] = State(index, name, index)
    if not c.t.is_quantized(index):
        c.t.node("Identity", [flat], [name], name)
        return new
    parameters = c.t.parameters(index)
    c.t.node("QuantizeLinear", [flat, *parameters], [name], name)
    real = c.add("DequantizeLinear", [name, *parameters], "remembered")
    return c.reshaped(real, (1, filters, memory), "memory")


GATES = (0, 3, 1, 2)
"""The order of gates in ONNX (input, output, forget, cell), as positions in TensorFlow Lite (input, forget, cell,
output).
"""


def lstm(c: Call) -> None:
    """An LSTM over a whole sequence whose initial state is zero; inputs 1 to 4 are weights, 5 to 8 recurrent weights,
    12 to 15 biases.
    """
    form = _form(c)
    _check_lstm(c, bool(form))
    time_major = bool(c.option("TimeMajor"))
    units, width = c.shape(2)
    x = c.real(0) if time_major else c.transposed(c.real(0), (1, 0, 2), "by_time")
    weights = [_gates(c, first, (1, 4 * units, size)) for first, size in ((1, width), (5, units))]
    biases = _gates(c, 12, (1, 4 * units))
    zeros = c.constant("no_bias", np.zeros((1, 4 * units)), "float32")
    inputs = [x, *weights, c.add("Concat", [biases, zeros], "biases", axis=1)]
    if c.has(9):
        inputs += ["", "", "", _gates(c, 9, (1, 3 * units), (0, 2, 1))]
    own = {"domain": DOMAIN, "tflite": form} if form else {}
    y = c.add_main("LSTM", inputs, "sequence", hidden_size=units, **own)
    steps, batch = (c.shape(0)[axis] for axis in ((0, 1) if time_major else (1, 0)))
    y = c.reshaped(y, (steps, batch, units), "steps")
    c.t.notes.append(
        f"{c.name!r}: the LSTM begins each run with zeros; TensorFlow Lite goes on from the run before unless it is reset"
    )
    if time_major:
        c.done("Identity", [y], activated=False)
    else:
        c.done("Transpose", [y], activated=False, perm=[1, 0, 2])


LARGE_CLIP = 10.0
"""The clip that Keras sets for every LSTM; cells rarely grow beyond it, and only after at least that many steps."""


def _check_lstm(c: Call, has_form: bool) -> None:
    if any(c.has(i) for i in (16, 17)):
        raise Refused("a projection", "export the LSTM without one")
    if any(c.has(i) for i in (20, 21, 22, 23)):
        raise Refused("layer normalization inside", "export the LSTM without it")
    if not c.has(1):
        raise Refused("coupled input and forget gates", "export the LSTM with four gates")
    if c.option("FusedActivationFunction") != 4:
        raise Refused("an activation that is not tanh", "tanh is supported")
    steps, clip = c.shape(0)[0 if c.option("TimeMajor") else 1], c.option("CellClip")
    if 0 < clip < min(steps, LARGE_CLIP):
        raise Refused(f"a clip of the cell at {clip:g}", f"none, or one of {LARGE_CLIP:g} or more, is supported")
    if 0 < clip < steps:  # a step adds less than 1 to the cell
        c.t.notes.append(
            f"{c.name!r}: its cell is not clipped at {clip:g}{' in other laws than tflite' if has_form else ''}, which only a sequence of more steps"
            " can exceed"
        )


def _form(c: Call) -> list[float]:
    """For a layer of int8 with an int16 cell that TensorFlow Lite Micro has: the scales of its weights, the power of two that is the scale of its
    cell, and the clip of the cell in its steps; else nothing.
    """
    if not all(map(c.has, (*range(1, 9), *range(12, 16), 18, 19))):
        return []
    state, cell, y = c.tensor(18), c.tensor(19), c.t.tensor(c.operator.outputs[0])
    weights = [c.tensor(first + gate) for first in (1, 5) for gate in GATES]
    if any(t.dtype != "int8" for t in (c.tensor(0), state, y, *weights)) or cell.dtype != "int16" or c.has(9):
        return []
    scales = [found for t in (*weights, cell, state, y) if (found := _one_scale(t)) is not None]
    if len(scales) < 11 or any(c.tensor(i).dtype != "int32" for i in range(12, 16)) or scales[-1] != scales[-2]:
        return []
    cell_scale, power = scales[8][0], math.log2(scales[8][0])
    if power % 1 or any(zero for _, zero in scales[:9]) or not -15 <= power <= -1:
        return []
    clip = math.trunc(min(float(np.float32(c.option("CellClip"))) / cell_scale, 32767.0))
    return [*(scale for scale, _ in scales[:8]), power, clip]


def _one_scale(tensor: Tensor) -> tuple[float, int] | None:
    """The scale and zero point of a tensor that has one of each; None if it has none, or several."""
    scales = tensor.scales
    if scales is None or scales.scale.size != 1 or not scales.scale.item() > 0:
        return None
    return float(scales.scale.item()), int(scales.zero_point.item())


def _gates(c: Call, first: int, shape: Sequence[int], order: Sequence[int] = GATES) -> str:
    """The constants of the gates, concatenated in the order of ONNX."""
    parts = [_real_constant(c, first + gate) for gate in order]
    return c.constant(f"gates_{first}", np.concatenate(parts).reshape(shape), "float32")


def _real_constant(c: Call, i: int) -> np.ndarray:
    """The real numbers of constant weights. A bias of int32 counts steps of the input's scale times the gate's."""
    array, scales = c.numbers(i, "weights"), c.tensor(i).scales
    if scales is None:
        return np.asarray(array, np.float32)
    if 12 <= i < 16 and array.dtype == np.int32:
        x, w = c.tensor(0).scales, c.tensor(i - 11).scales
        step = scales.scale if x is None or w is None else x.scale * w.scale
        return np.asarray(array * step.astype(np.float64), np.float32)
    if scales.scale.size > 1:
        raise Refused(f"{scales.scale.size} scales for the weights of a gate", "one scale for each gate")
    return np.asarray((array.astype(np.float64) - scales.zero_point) * scales.scale.astype(np.float64), np.float32)


OPERATORS = {
    "ASSIGN_VARIABLE": assign_variable,
    "CALL_ONCE": call_once,
    "READ_VARIABLE": read_variable,
    "SVDF": svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm,
    "VAR_HANDLE": var_handle,
}
