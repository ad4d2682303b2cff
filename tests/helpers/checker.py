"""The one op checker. In: a case, which is one ONNX node with its input shapes and constants. Out: nothing, or a failure.

Each case goes through every arrow of the proof, in this order:

1. import_onnx of the one node; inferred shapes against those of onnx
2. float reference against onnxruntime
3. integer reference against the float reference, within `steps` steps of the output
4. every kernel that this host can run against the integer reference, bit for bit, on full-range data and once with
   full-range weights: whole, in random row ranges, with rows in random slots, and in a ring that keeps only what `needs`
   asks for; all memory aligned to a word and no more; kernels for other cores the same way under QEMU, on every core that
   has the instructions, and once more with params that the compiler knows, as in a bundle: only then do two operands of
   inline assembly with one value end up in one register
5. the store rule of the kernel, at the smallest distance that it allows
6. 2 and 3 once more for what the whole importer and canonicalize make of it

Ops that take a fused activation pass 2 to 5 a second time with one; of these two, one goes through all of 4 and 5, the other
whole, as neither changes how rows lie. Of the laws of other engines, one goes through all of 4 and 5, the others through 4 with
portable kernels, whole. The name of the case chooses.
"""

from __future__ import annotations

import tempfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_builder import build
from small_models import unoptimized

from glowembed.canonicalize import canonicalize
from glowembed.graph.ir import Array, Const, Graph, Node, Value, verify
from glowembed.graph.op import Kernel, KernelOp
from glowembed.graph.registry import kernel_ops, ops
from glowembed.graph.target import Board, Target, load_board, load_target
from glowembed.lower.nodes import lower
from glowembed.plan.overlap import overlap_distance
from glowembed.quantize.precision import Config, resolve
from glowembed.quantize.types import quantize
from glowembed.read import importer
from glowembed.reference import run_float, run_int
from glowembed.run import kernel as host
from glowembed.run import kernel_qemu as emulated
from glowembed.run.kernel import (
    ALIGN,
    GUARD,
    SLOT_UNIT,
    Arena,
    HostKernel,
    Placement,
    in_one_piece,
    in_slots,
    packed_constants,
    variants,
)

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33)
"""Around the boundaries of the tiles that kernels like."""


@dataclass(frozen=True)
class Case:
    """One ONNX node. Inputs are shapes (activations), arrays (constants) or None (absent); `low`, `high` bound the data."""

    name: str
    op_type: str
    inputs: tuple[tuple[int, ...] | Array | None, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 17
    outputs: int = 1
    low: float = -2.0
    high: float = 3.0

    def __str__(self) -> str:
        return self.name

    @property
    def seed(self) -> int:
        return zlib.crc32(self.name.encode())


def case(name: str, op_type: str, *inputs: tuple[int, ...] | Array | None, **attrs: Any) -> Case:
    """`case("name", "Conv", (1, 3, 8, 8), weights, strides=[2, 2], opset=11, low=-1.0)`: the rest are attributes."""
    own = {key: attrs.pop(key) for key in ("opset", "outputs", "low", "high") if key in attrs}
    return Case(name, op_type, inputs, attrs, **own)


def weights(*shape: int, seed: int = 1, scale: float = 0.5) -> Array:
    """Normally distributed float32."""
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def check_op(
    case: Case, steps: float = 1.01, tolerance: float = 1e-5, settings: Mapping[str, Any] | None = None
) -> None:
    """Prove one case. `steps`: how far int_ref may be from the float reference, in output steps.

    `settings`: defaults of a precision.yaml, such as {"dtype": "int16"}.
    """
    model = one_node_model(case)
    graph = imported(model)
    rng = np.random.default_rng(case.seed)
    samples = [_sample(graph, case, rng) for _ in range(4)]
    session = unoptimized(model)
    expected = [session.run(None, sample) for sample in samples]
    clips = (None, (-0.25, 0.7)) if any(ops()[n.op].fuses_activation for n in graph.nodes) else (None,)
    for i, clip in enumerate(clips):
        clipped = graph if clip is None else _with_activation(graph, clip)
        limited = expected if clip is None else [[np.clip(y, *clip) for y in ys] for ys in expected]
        lowered = _check_references(clipped, samples, limited, steps, tolerance, settings)
        full = case.seed % len(clips) == i  # one of them: other numbers, but the same operands and places
        for node in _own_nodes(lowered, clipped):
            check_kernels(node, lowered, np.random.default_rng(case.seed), known=full, thorough=full)
    for i, mode in enumerate(OTHER_LAWS if settings is None else ()):
        full = case.seed % len(OTHER_LAWS) == i
        _check_law(graph, mode, samples[:1], expected[:1], steps, tolerance, case.seed, full)
    if all(graph.values[name].shape[:1] == (1,) for name in graph.inputs):
        _check_references(canonicalize(load(model)), samples, expected, steps, tolerance, settings)


HOST = load_target("x86-64")
OTHER_LAWS = {"onnx": 0.0, "glow": 2.0, "tflite": 0.5}
"""Requantization -> how much further from the float reference its outputs may be, in steps."""


def _check_law(
    graph: Graph,
    mode: str,
    samples: Sequence[Mapping[str, Array]],
    expected: Sequence[Sequence[Array]],
    steps: float,
    tolerance: float,
    seed: int,
    full: bool,
) -> None:
    """Steps 3 and 4 for another requantization, where an op has it; not `full`: the portable kernels, whole."""
    other = graph.with_nodes(replace(n, attrs={**n.attrs, "requantization": mode}) for n in graph.nodes)
    ours = [(n.op, n.params) for n in _check_references(graph, samples, expected, steps, tolerance).nodes]
    lowered = _check_references(other, samples, expected, steps + OTHER_LAWS[mode], tolerance)
    for node in _own_nodes(lowered, graph):
        if (node.op, node.params) not in ours:
            rng, fills = np.random.default_rng(seed), ("random", "extremes")
            check_kernels(node, lowered, rng, fills, None if full else "", known=full and seed % 2 == 0, thorough=full)


def _own_nodes(lowered: Graph, graph: Graph) -> list[Node]:
    """The kernel-level nodes of a case without the Transposes that import_onnx puts around: they have cases of their own."""
    around = {n.name for n in graph.nodes if n.op == "Transpose"}
    own = [n for n in lowered.nodes if n.name not in around]
    return own or list(lowered.nodes)


# -------------------------------------------------------------------------------------------------- import


def one_node_model(case: Case) -> onnx.ModelProto:
    """The ONNX model of a case; inputs x0, x1 ..., constants c0, c1 ..., outputs y0, y1 ..."""
    names, inputs, constants = [], [], []
    for i, entry in enumerate(case.inputs):
        if entry is None:
            names.append("")
        elif isinstance(entry, tuple):
            names.append(f"x{i}")
            inputs.append(helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, entry))
        else:
            names.append(f"c{i}")
            constants.append(numpy_helper.from_array(np.asarray(entry), f"c{i}"))
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(case.op_type, names, outputs, name="node", **case.attrs)
    infos = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], case.name, inputs, infos, constants)
    opsets = [helper.make_opsetid("", case.opset), *([helper.make_opsetid(node.domain, 3)] if node.domain else [])]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    onnx.checker.check_model(model)
    return model


def imported(model: onnx.ModelProto) -> Graph:
    """The graph of the model, its shapes compared with those that onnx infers; of another domain by the whole importer."""
    graph = verify(load(model) if model.graph.node[0].domain else build(model))
    for info in model.graph.output:
        known = tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
        if all(known):
            assert graph.values[info.name].shape == known, (
                f"{info.name}: shape {graph.values[info.name].shape}, onnx says {known}"
            )
    return graph


def load(model: onnx.ModelProto) -> Graph:
    """The graph that the compiler would begin with; it takes no batch but 1."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return importer.load(path)


def _sample(graph: Graph, case: Case, rng: np.random.Generator) -> dict[str, Array]:
    return {n: rng.uniform(case.low, case.high, graph.values[n].shape).astype(np.float32) for n in graph.inputs}


def _with_activation(graph: Graph, clip: tuple[float, float]) -> Graph:
    """The clip goes to the last node that can fuse one."""
    last = [n.name for n in graph.nodes if ops()[n.op].fuses_activation][-1]
    attrs = {"act_min": clip[0], "act_max": clip[1]}
    return graph.with_nodes(replace(n, attrs={**n.attrs, **attrs}) if n.name == last else n for n in graph.nodes)


# ------------------------------------------------------------------------------------------------- arrows


def _check_references(
    graph: Graph,
    samples: Sequence[Mapping[str, Array]],
    expected: Sequence[Sequence[Array]],
    steps: float,
    tolerance: float,
    settings: Mapping[str, Any] | None = None,
) -> Graph:
    """Steps 2 and 3 for samples and what onnxruntime makes of them; the kernel-level graph."""
    floats = [run_float(graph, sample) for sample in samples]
    for found, outputs in zip(floats, expected, strict=True):
        for name, array in zip(graph.outputs, outputs, strict=True):
            assert found[name].dtype == np.float32, f"{name} is {found[name].dtype}"
            assert found[name].shape == array.shape == graph.values[name].shape
            _near(found[name], array, tolerance, _rounding(graph), f"{name}: float_ref")
    ranges = {n: (float(min(f[n].min() for f in floats)), float(max(f[n].max() for f in floats))) for n in graph.values}
    typed = quantize(graph, lambda name, _: ranges[name], resolve(graph, Config(settings or {})))
    lowered = verify(lower(typed))
    graph = _with_stored_constants(graph, typed)
    for sample in samples:
        stored = {n: _as_stored(lowered.values[n], sample[n]) for n in lowered.inputs}
        exact = run_float(graph, {n: _as_real(lowered.values[n], q) for n, q in stored.items()})
        found = run_int(lowered, stored)
        for name in lowered.outputs:
            if lowered.values[name].qtype is None:
                assert found[name].dtype == np.float32
                _near(found[name], exact[name], 1e-5, _rounding(graph), name)
            else:
                _within(found[name], exact[name], lowered.values[name], steps)
    return lowered


def _near(found: Array, expected: Array, tolerance: float, rounding: float, name: str) -> None:
    margin = tolerance + rounding * float(np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=margin, err_msg=name)


def _rounding(graph: Graph) -> float:
    """How far two float32 sums in different orders may be from each other, as a part of the largest output.

    Each of n additions rounds by up to 2^-24 of the sum so far. Roundings have either sign, so that they add up like
    sqrt(n), and terms that cancel leave them behind in outputs near zero: the measure is the largest. Four times that; the
    largest found, in sums of 9 to 2700 terms, was 1.4 times.
    """
    linear = [n for n in graph.nodes if ops()[n.op].has_weights]
    sizes = [np.prod(graph.values[n.inputs[1]].shape) / graph.values[n.outputs[0]].shape[-1] for n in linear]
    return 4.0 * max(sizes, default=0.0) ** 0.5 * 2.0**-24


def _with_stored_constants(graph: Graph, typed: Graph) -> Graph:
    """Constants as the integers hold them, so that only the arithmetic is judged."""

    def rounded(value: Value) -> Value:
        qtype = typed.values[value.name].qtype
        if value.const is None or qtype is None:
            return value
        return replace(value, const=Const(qtype.dequantize(qtype.quantize(value.const.materialize()))))

    return replace(graph, values={name: rounded(value) for name, value in graph.values.items()})


def _as_stored(value: Value, real: Array) -> Array:
    return value.qtype.quantize(real) if value.qtype else real


def _as_real(value: Value, stored: Array) -> Array:
    return value.qtype.dequantize(stored) if value.qtype else stored


def _within(stored: Array, real: Array, value: Value, steps: float) -> None:
    assert value.qtype is not None
    assert stored.dtype == np.dtype(value.qtype.dtype), f"{value.name} is {stored.dtype}"
    low, high = value.qtype.range()
    error = np.abs(value.qtype.dequantize(stored) - np.clip(real, low, high)) / value.qtype.scale[0]
    assert error.max() <= steps, f"{value.name}: int_ref is {error.max():.3f} output steps from the float reference"


# ------------------------------------------------------------------------------------------------ kernels


@dataclass(frozen=True)
class Call:
    """A kernel-level node with data: what the kernel gets, with constants as it reads them, and what it must give."""

    op: KernelOp
    params: Any
    inputs: tuple[Array, ...]
    packed: Sequence[Array]
    expected: Array
    shares: int | None

    @property
    def rows(self) -> int:
        return self.op.rows(self.params)

    @property
    def row_bytes(self) -> int:
        return self.op.row_bytes(self.params)[1]

    def output(self, at: int) -> Placement:
        """The output in one piece at `at`; the rows of a sum that goes on are all one row."""
        if self.op.accumulates:
            return Placement((at,) * self.rows, self.row_bytes)
        return in_one_piece(at, self.rows, self.row_bytes)

    def in_rows(self, i: int) -> int:
        return self.inputs[i].nbytes // self.op.row_bytes(self.params)[0][i]

    def needed(self, i: int, y: int) -> range:
        return self.op.needs(self.params, y)[i]


ALL_FILLS = ("random", "random", "low", "high", "extremes", "weights")
"""How inputs are filled; "weights": both are random, and weights take all of int8, -128 too."""


@dataclass(frozen=True)
class Trial:
    """A compiled kernel, the target that it is for, and whether it is tried in all ways.

    Nothing is gained by repeating for another core, or with known params, what the first has shown.
    """

    kernel: HostKernel
    target: Target
    thorough: bool

    def may_compute(self, node: Node) -> bool:
        return self.kernel.kernel.when(node, self.target) is None


def check_kernels(
    node: Node,
    graph: Graph,
    rng: np.random.Generator,
    fills: Sequence[str] = ALL_FILLS,
    isa: str | None = None,
    known: bool = True,
    thorough: bool = True,
) -> Counter[str]:
    """Steps 4 and 5 of the module's docstring for one kernel-level node, on random data and on the extremes.

    isa: only kernels with this word, "" for those without. known: also with params that the compiler knows. thorough:
    also rows in ranges, slots and rings, and the store rule.
    Returns how often each kernel, by its symbol, was right.
    """
    op, found = kernel_ops()[node.op], Counter[str]()
    assert set(op.constants) == set(node.constants), "constants of the node are not those of the op"
    tried = [(node, [fill for fill in fills if fill != "weights"])]
    if "weights" in fills and (weights := node.constants.get("weights")) and weights.materialize().dtype == np.int8:
        full = Const(_full_range(weights.materialize().shape, rng))
        tried.append((replace(node, constants={**node.constants, "weights": full}), ["weights"]))
    trials = kernels_for([filled for filled, _ in tried], isa, known)
    for filled, ways in tried:
        constants = {name: const.materialize() for name, const in filled.constants.items()}
        able = [
            (trial, packed_constants(op, trial.kernel.kernel, constants, node.params))
            for trial in trials
            if trial.may_compute(filled)
        ]
        for fill in ways if op.kernels else ():
            special = op.name.startswith("quantize")
            inputs = tuple(_data(graph.values[name], fill, rng, special) for name in node.inputs)
            expected = np.asarray(op.int_ref(node.params, inputs, constants))
            call = Call(op, node.params, inputs, (), expected, node.shares)
            _check_sizes(call, node, graph)
            for trial, packed in able:
                all_ways = thorough and trial.thorough and fill in ("random", "weights")
                _check_kernel(trial.kernel, replace(call, packed=packed), rng, all_ways)
                found[trial.kernel.kernel.symbol] += 1
    return found


def _full_range(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    weights = rng.integers(-128, 128, shape).astype(np.int8)
    weights.reshape(-1)[rng.integers(weights.size)] = -128
    return weights


def kernels_for(nodes: Sequence[Node], isa: str | None, known: bool) -> list[Trial]:
    """The kernels that may compute any of some nodes, which differ in constants only, for all levels and cores here."""
    op, params = kernel_ops()[nodes[0].op], nodes[0].params
    able = [kernel for kernel in op.kernels if isa is None or kernel.isa == isa]

    def legal(word: str | None, target: Target) -> list[Kernel]:
        mine = (kernel for kernel in able if word is None or kernel.isa == word)
        return [kernel for kernel in mine if any(kernel.when(node, target) is None for node in nodes)]

    loaded = [host.load(op, kernel, params, level) for kernel in legal(None, HOST) for level in variants(kernel)]
    found = [Trial(kernel, HOST, True) for kernel in loaded]
    for word in sorted({kernel.isa for kernel in able}):
        for i, board in enumerate(boards_for(word, nodes[0])):
            target = load_target(board.target)
            kernels = legal(word, target)
            found += [Trial(kernel, target, i == 0) for kernel in emulated.load(op, kernels, params, board)]
            if known and i == 0:
                found += [Trial(kernel, target, False) for kernel in emulated.load_known(op, kernels, params, board)]
    return found


def boards_for(isa: str, node: Node) -> list[Board]:
    """Emulated boards whose core has these instructions; none where the tools are not there.

    The first always; the others, which run the same code, for one in eight of the params.
    """
    names = [name for name in emulated.boards().get(isa, ()) if emulated.available(name)]
    others = zlib.crc32(repr(node.params).encode()) % 8 == 0
    return [load_board(name) for name in names[: len(names) if others else 1]]


SUM_LIMITS = (-(2**23), 2**23 - 1)
"""The limits of the int32 sums that kernels hand on: those of 65536 elements of int8."""


def _data(value: Value, fill: str, rng: np.random.Generator, special: bool = True) -> Array:
    if value.const is not None:
        return value.const.materialize()
    if value.qtype is None:
        return _floats(value, rng, special)
    low, high = SUM_LIMITS if value.qtype.dtype == "int32" else value.qtype.limits
    if fill in ("random", "weights"):
        data = rng.integers(low, high + 1, value.shape)
    elif fill == "extremes":
        data = rng.choice([low, high], value.shape)
    else:
        data = np.full(value.shape, low if fill == "low" else high)
    return data.astype(value.qtype.dtype)


def _floats(value: Value, rng: np.random.Generator, special: bool) -> Array:
    """Numbers of all sizes; `special`: with infinities, NaN and the largest."""
    data = (rng.normal(size=value.shape) * 10.0 ** rng.integers(-3, 4, value.shape)).astype(np.float32)
    odd = [0.0, -0.0, 1e-45, 1e-38, 0.5, -0.5, 1.5, 2.5, -8388609.0, 30.0, -90.0, -104.5]
    if special:
        odd += [np.inf, -np.inf, np.nan, 3.4e38, -3.4e38]
    where = rng.random(value.shape) < 0.2
    data[where] = rng.choice(np.asarray(odd, np.float32), int(where.sum()))
    return data


def _check_sizes(call: Call, node: Node, graph: Graph) -> None:
    """rows and row_bytes give the whole output and all inputs; needs names rows that exist."""
    assert call.rows >= 1
    rows = 1 if call.op.accumulates else call.rows
    assert rows * call.row_bytes == graph.values[node.outputs[0]].bytes == call.expected.nbytes, (
        "rows * row_bytes of the output"
    )
    assert len(node.inputs) == len(call.op.row_bytes(call.params)[0]), "number of inputs"
    assert call.op.variadic or len(call.op.inputs) == len(node.inputs), "number of named inputs"
    for i, tensor in enumerate(call.inputs):
        assert tensor.nbytes % call.op.row_bytes(call.params)[0][i] == 0, f"row_bytes of input {i}"
        for y in range(call.rows):
            needed = call.needed(i, y)
            assert not needed or (needed.start >= 0 and needed.stop <= call.in_rows(i)), f"needs of row {y}: {needed}"


def _check_kernel(kernel: HostKernel, call: Call, rng: np.random.Generator, all_ways: bool) -> None:
    _check_layout(kernel, call, rng, slots=False, splits=1)
    if not all_ways:
        return
    _check_layout(kernel, call, rng, slots=False, splits=3)
    _check_layout(kernel, call, rng, slots=True, splits=3)
    if call.shares is None and not call.op.accumulates:
        _check_ring(kernel, call, rng)
        for i in range(len(call.inputs)):
            _check_store(kernel, call, i)
        if kernel.kernel.same_place(call.params):
            _check_same_place(kernel, call)


def _check_layout(kernel: HostKernel, call: Call, rng: np.random.Generator, slots: bool, splits: int) -> None:
    """Rows in one piece or in a random order of slots; computed in a random order of row ranges."""
    places, at = [], 0
    counts = [*(call.in_rows(i) for i in range(len(call.inputs))), call.rows]
    for count, row_bytes in zip(counts, [*call.op.row_bytes(call.params)[0], call.row_bytes], strict=True):
        places.append(
            in_slots(at, rng.permutation(count).tolist(), row_bytes) if slots else in_one_piece(at, count, row_bytes)
        )
        at = _aligned(places[-1].end + GUARD)
    *inputs, output = places
    if call.shares is not None:
        output = inputs[call.shares]
    elif call.op.accumulates or not slots:
        output = call.output(min(output.offsets))
    arena = Arena(at)
    for place, tensor in zip(inputs, call.inputs, strict=True):
        arena.write(place, tensor)
    cuts = [0, *sorted(rng.integers(0, call.rows + 1, splits - 1).tolist()), call.rows]
    parts = [range(a, b) for a, b in pairwise(cuts) if a < b]
    for i in range(len(parts)) if call.op.accumulates else rng.permutation(len(parts)):
        kernel.run(arena, call.params, inputs, call.packed, output, parts[i])
    _equal(kernel, call, _read(arena, output, call), f"{'slots' if slots else 'one piece'}, {parts}")


def _read(arena: Arena, output: Placement, call: Call) -> Array:
    return arena.read(
        Placement(output.offsets[:1], output.row_bytes) if call.op.accumulates else output, call.expected.dtype
    )


def _check_ring(kernel: HostKernel, call: Call, rng: np.random.Generator) -> None:
    """Row after row, with only the rows of `needs` in memory: each input in a ring as small as needs allows."""
    rings = [max(len(call.needed(i, y)) for y in range(call.rows)) or 1 for i in range(len(call.inputs))]
    places, at = [], 0
    for i, row_bytes in enumerate(call.op.row_bytes(call.params)[0]):
        places.append(in_slots(at, [y % rings[i] for y in range(call.in_rows(i))], row_bytes))
        at = _aligned(places[-1].end + GUARD)
    output = in_slots(at, [0] * call.rows, call.row_bytes)
    arena = Arena(_aligned(output.end))
    rows = []
    for y in range(call.rows):
        for i, place in enumerate(places):
            for r in range(min(rings[i], call.in_rows(i))):
                arena.row(place, r)[:] = rng.integers(0, 256, place.row_bytes)
            arena.write(place, call.inputs[i], call.needed(i, y))
        kernel.run(arena, call.params, places, call.packed, output, range(y, y + 1))
        rows.append(arena.row(output, y).copy())
    _equal(
        kernel,
        call,
        np.concatenate(rows).view(call.expected.dtype),
        "rows in a ring: needs() asks for too little",
    )


def _check_store(kernel: HostKernel, call: Call, i: int) -> None:
    """The output over input `i`, as close as the plan may put it, in one call and row by row, and a little further away."""
    node = Node("node", call.op.name, (), (), params=call.params, kernel=kernel.kernel.symbol)
    closest = overlap_distance(node, i)
    if closest is None:
        return
    nearest = -(-closest // SLOT_UNIT) * SLOT_UNIT
    at_once, by_rows = [range(call.rows)], [range(y, y + 1) for y in range(call.rows)]
    for distance, ways in ((nearest, (at_once, by_rows)), (nearest + ALIGN, (at_once,))):
        inputs, output, size = _overlapped(call, i, distance)
        for parts in ways:
            arena = Arena(size)
            for place, tensor in zip(inputs, call.inputs, strict=True):
                arena.write(place, tensor)
            for rows in parts:
                kernel.run(arena, call.params, inputs, call.packed, output, rows)
            rule = f"store rule {kernel.kernel.store_of(call.params)!r}, input {i} begins {distance} bytes after the output"
            _equal(kernel, call, arena.read(output, call.expected.dtype), rule)


def _check_same_place(kernel: HostKernel, call: Call) -> None:
    """The output exactly over the input, in one call."""
    inputs, output, size = _overlapped(call, 0, 0)
    arena = Arena(size)
    arena.write(inputs[0], call.inputs[0])
    kernel.run(arena, call.params, inputs, call.packed, output, range(call.rows))
    _equal(kernel, call, arena.read(output, call.expected.dtype), "exactly over its input")


def _overlapped(call: Call, i: int, distance: int) -> tuple[list[Placement], Placement, int]:
    """Input `i` begins `distance` bytes after the output; the other inputs lie behind both."""
    begin = max(0, -distance)
    output = call.output(begin)
    at = _aligned(max(output.end, begin + distance + call.inputs[i].nbytes) + GUARD)
    inputs = []
    for j, (tensor, row_bytes) in enumerate(zip(call.inputs, call.op.row_bytes(call.params)[0], strict=True)):
        inputs.append(in_one_piece(begin + distance if j == i else at, call.in_rows(j), row_bytes))
        at += 0 if j == i else _aligned(tensor.nbytes + GUARD)
    return inputs, output, at


def _aligned(n: int) -> int:
    return -(-n // ALIGN) * ALIGN


def _equal(kernel: HostKernel, call: Call, found: Array, how: str) -> None:
    expected = np.ascontiguousarray(call.expected).reshape(-1)
    same = found.view(f"u{found.itemsize}") == expected.view(f"u{found.itemsize}")
    if found.dtype.kind == "f":
        same |= np.isnan(found) & np.isnan(expected)  # which NaN it is, no standard says
    different = np.flatnonzero(~same)
    if different.size:
        at = int(different[0])
        raise AssertionError(
            f"{kernel.kernel.symbol}{' ' * bool(kernel.where)}{kernel.where} ({how}): {np.unique(different).size} of {found.size} elements differ, "
            f"first at {at}: {found[at]}, int_ref says {expected[at]}\n{call.params}"
        )
