"""Runs every kernel of a kernel-level node that can run here, and compares it with the integer reference bit for bit.

In: a node with its graph. Out: how often each kernel was right, or a failure. This is steps 4 and 5 of checker.check_op: data on
the whole range and on its ends, rows in ranges, slots and rings, and the distances that the store rule allows.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from glowembed.graph.ir import Array, Const, Graph, Node, Value
from glowembed.graph.isa import Level
from glowembed.graph.op import Kernel, KernelOp
from glowembed.graph.registry import kernel_ops
from glowembed.graph.target import Board, Target, load_board, load_target
from glowembed.plan.overlap import overlap_distance
from glowembed.run import kernel as host
from glowembed.run import kernel_qemu as emulated
from glowembed.run.kernel import (
    ALIGN,
    GUARD,
    SLOT_UNIT,
    Arena,
    HostKernel,
    Placement,
    as_columns,
    in_one_piece,
    in_slots,
    packed_constants,
    variants,
)

HOST = load_target("x86-64")


@dataclass(frozen=True)
class Call:
    """A kernel-level node with data: the kernel's inputs, its constants in their stored form, and the expected
    outputs.
    """

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
        """The output in one piece at `at`; the rows of a running sum are all one row."""
        if self.op.accumulates:
            return Placement((at,) * self.rows, self.row_bytes)
        return in_one_piece(at, self.rows, self.row_bytes)

    def in_rows(self, i: int) -> int:
        return self.inputs[i].nbytes // self.op.row_bytes(self.params)[0][i]

    def needed(self, i: int, y: int) -> range:
        return self.op.needs(self.params, y)[i]


KNOWN_SHARE = 16
"""Kernels with params that the compiler knows take a firmware for these params alone, so that op tests do it for one in so many of the
params. test_differential.py does it for every kernel, and with every commit CI does it for other params.
"""

ALL_FILLS = ("random", "random", "low", "high", "extremes", "weights")
"""How inputs are filled; "weights": both are random, and weights take all of int8, -128 too."""


@dataclass(frozen=True)
class Trial:
    """A compiled kernel, its target, and whether it is tested in all variations.

    Those need not be repeated for another core, or with constant params.
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
    known: int = KNOWN_SHARE,
    thorough: bool = True,
    but: Container[str] = (),
) -> Counter[str]:
    """Check all kernels of one kernel-level node, on random data and on the extremes.

    isa: only kernels with this word, "" for those without. known: for one in so many of the params also with params that the
    compiler knows; 0: never. thorough: with the first data also rows in ranges, slots and rings, and the store rule. but: not
    these kernels.
    Returns how often each kernel, by its symbol, was right.
    """
    op, found = kernel_ops()[node.op], Counter[str]()
    assert set(op.constants) == set(node.constants), "constants of the node are not those of the op"
    tried = [(node, [fill for fill in fills if fill != "weights"])]
    if "weights" in fills and (weights := node.constants.get("weights")) and weights.materialize().dtype == np.int8:
        full = Const(_full_range(weights.materialize().shape, rng))
        tried.append((replace(node, constants={**node.constants, "weights": full}), ["weights"]))
    trials = kernels_for([filled for filled, _ in tried], isa, known, but)
    for filled, ways in tried:
        constants = {name: const.materialize().copy() for name, const in filled.constants.items()}
        able = [trial for trial in trials if trial.may_compute(filled)]
        kernels = {trial.kernel.kernel.symbol: trial.kernel.kernel for trial in able}
        packed = {name: packed_constants(op, kernel, constants, node.params) for name, kernel in kernels.items()}
        for number, fill in enumerate(ways if op.kernels else ()):
            special = op.name.startswith("quantize")
            inputs = tuple(_data(graph.values[name], fill, rng, special) for name in node.inputs)
            expected = np.asarray(op.int_ref(node.params, inputs, constants))
            call = Call(op, node.params, inputs, (), expected, node.shares)
            _check_sizes(call, node, graph)
            for trial in able:
                symbol = trial.kernel.kernel.symbol
                all_ways = thorough and trial.thorough and number == 0 and fill in ("random", "weights")
                _check_kernel(trial.kernel, replace(call, packed=packed[symbol]), rng, all_ways)
                found[symbol] += 1
    return found


def _full_range(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    weights = rng.integers(-128, 128, shape).astype(np.int8)
    weights.reshape(-1)[rng.integers(weights.size)] = -128
    return weights


def kernels_for(nodes: Sequence[Node], isa: str | None, known: int, but: Container[str] = ()) -> list[Trial]:
    """The kernels that may compute any of some nodes, which differ in constants only, for all levels and cores here.

    Kernels with instances, whose other firmware would be for these params alone too, are checked with known params or without, not in
    both forms.
    """
    op, params = kernel_ops()[nodes[0].op], nodes[0].params
    able = [kernel for kernel in op.kernels if (isa is None or kernel.isa == isa) and kernel.symbol not in but]

    def legal(word: str | None, target: Target) -> list[Kernel]:
        mine = (kernel for kernel in able if word is None or kernel.isa == word)
        return [kernel for kernel in mine if any(kernel.when(node, target) is None for node in nodes)]

    found = [
        Trial(loaded, HOST, True)
        for kernel in legal(None, HOST)
        if (here := levels_for(kernel))
        for loaded in host.load_levels(op, kernel, params, here)
    ]
    for word in sorted({kernel.isa for kernel in able}):
        for i, board in enumerate(boards_for(word, nodes[0])):
            target = load_target(board.target)
            kernels = legal(word, target)
            told = known > 0 and i == 0 and zlib.crc32(f"{word} {params!r}".encode()) % known == 0
            plain = [kernel for kernel in kernels if not (told and kernel.instance)]
            found += [Trial(kernel, target, i == 0) for kernel in emulated.load(op, plain, params, board)]
            if told:
                loaded = emulated.load_known(op, kernels, params, board)
                found += [Trial(kernel, target, kernel.kernel not in plain) for kernel in loaded]
    return found


def levels_for(kernel: Kernel) -> Sequence[Level | None]:
    """All levels of this host; one of them for a kernel made from the text of another, as for a law, which test_levels.py tests."""
    found = variants(kernel)
    own = kernel.inner or kernel
    if own.template == "" or len(found) < 2:
        return found
    return (found[zlib.crc32(kernel.symbol.encode()) % len(found)],)


def boards_for(isa: str, node: Node) -> list[Board]:
    """Emulated boards whose core has these instructions; none where the tools are not there.

    The first always; one of the others, which run the same code, for one in eight of the params.
    """
    names = [name for name in emulated.boards().get(isa, ()) if emulated.available(name)]
    drawn, others = zlib.crc32(repr(node.params).encode()), names[1:]
    if others and drawn % 8 == 0:
        return [load_board(name) for name in (names[0], others[drawn // 8 % len(others)])]
    return [load_board(name) for name in names[:1]]


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
    """Numbers of all sizes; `special`: with infinities, NaN and the largest. Half of the tensors have none so small that a product of
    two may be subnormal, because kernels with vectors compute those differently.
    """
    data = (rng.normal(size=value.shape) * 10.0 ** rng.integers(-3, 4, value.shape)).astype(np.float32)
    data[np.abs(data) < 2.0**-50] = 0
    odd = [0.0, -0.0, 2.0**-50, 0.5, -0.5, 1.5, 2.5, -8388609.0, 30.0, -90.0, -104.5]
    if rng.random() < 0.5:
        odd += [1e-45, 1e-38, 2.0**-51]
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
    _check_layout(kernel, call, rng, "one piece", splits=1)
    if not all_ways:
        return
    _check_layout(kernel, call, rng, "one piece", splits=3)
    _check_layout(kernel, call, rng, "slots", splits=3)
    if kernel.kernel.columns and _takes_columns(call):
        _check_layout(kernel, call, rng, "columns", splits=2)
    if call.shares is None and not call.op.accumulates:
        _check_ring(kernel, call, rng)
        for i in range(len(call.inputs)):
            _check_store(kernel, call, i)
        if kernel.kernel.same_place(call.params):
            _check_same_place(kernel, call)


def _takes_columns(call: Call) -> bool:
    """Whether plans may give the kernel some columns of whole rows."""
    geometry = call.op.geometry
    return (
        call.shares is None
        and not call.op.accumulates
        and geometry.across(call.params, range(geometry.columns(call.params))) is not None
    )


def _check_layout(kernel: HostKernel, call: Call, rng: np.random.Generator, layout: str, splits: int) -> None:
    """Rows in one piece, in a random order of slots, or as columns of longer rows; computed in a random order of row ranges."""
    places, at = [], 0
    counts = [*(call.in_rows(i) for i in range(len(call.inputs))), call.rows]
    for count, row_bytes in zip(counts, [*call.op.row_bytes(call.params)[0], call.row_bytes], strict=True):
        place = {"one piece": in_one_piece, "columns": as_columns, "slots": in_slots}[layout]
        places.append(place(at, rng.permutation(count).tolist() if layout == "slots" else count, row_bytes))
        at = _aligned(places[-1].end + GUARD)
    *inputs, output = places
    if call.shares is not None:
        output = inputs[call.shares]
    elif call.op.accumulates or layout == "one piece":
        output = call.output(min(output.offsets))
    arena = Arena(at)
    for place, tensor in zip(inputs, call.inputs, strict=True):
        arena.write(place, tensor)
    cuts = [0, *sorted(rng.integers(0, call.rows + 1, splits - 1).tolist()), call.rows]
    parts = [range(a, b) for a, b in pairwise(cuts) if a < b]
    for i in range(len(parts)) if call.op.accumulates else rng.permutation(len(parts)):
        kernel.run(arena, call.params, inputs, call.packed, output, parts[i])
    _equal(kernel, call, _read(arena, output, call), f"{layout}, {parts}")


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
    """Input `i` begins `distance` bytes after the output; the other inputs lie after both."""
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
