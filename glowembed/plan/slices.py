"""Cuts the calls of a plan into slices of at most a given number of estimated cycles, for programs that must do other
work in between.

In: a graph with kernels, its plan, costs, a number of cycles. Out: the calls in order, and where each slice begins. A
call computes some rows of a layer, with the same kernel and the same params. If one row takes longer than a slice, or
if rows cannot be computed one by one because the output lies over the input, a call computes some columns of a row,
some outputs of a pixel, or some channels of all pixels, with separate params. Memory, weights and bits are those of the
plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import partial

import numpy as np

from glowembed.errors import UsageError
from glowembed.graph.ir import Array, Graph, Node
from glowembed.graph.plan import Plan, Step
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.plan.costs import CALL_CYCLES, Costs, smaller
from glowembed.records import dataclass

STEP_CYCLES = 150.0
"""An estimate of the cycles of a slice in addition to its calls."""


@dataclass(frozen=True)
class Part:
    """What one call computes of its rows. read, written: the bytes of a row of the input, and of the output, that lie before it; first:
    the first element of each constant that it uses; count: how many elements of each, for parts whose constants are copied.
    """

    node: Node
    cycles: float
    read: int = 0
    written: int = 0
    first: Mapping[str, int] = field(default_factory=dict)
    count: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Division:
    """How a node is called: `rows` rows at a time, each time whole or in these parts. cycles: those of the longest
    call; total: those of all calls.
    """

    rows: int
    cycles: float
    total: float
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Calls:
    """The calls of a run in order. divisions: by the number of the node. calls: number of a node, and which of its calls it is."""

    divisions: Mapping[int, Division]
    calls: tuple[tuple[int, int], ...]

    def steps(self, graph: Graph, plan: Plan) -> tuple[Step, ...]:
        """The calls as steps of a plan, in which the parts of a row are one step, together with the steps that call
        nothing.
        """
        found, calls = [], self._steps(graph)
        own = {step.node for step in plan.steps if graph.nodes[step.node].kernel}
        for step in plan.steps:
            if step.node not in own:
                found.append(step)
                continue
            row = step.first
            while row < step.last:
                found.append(next(calls))
                assert (found[-1].node, found[-1].first) == (step.node, row), step
                row = found[-1].last
        return tuple(found)

    def _steps(self, graph: Graph) -> Iterator[Step]:
        for node, number in self.calls:
            one, op = self.divisions[node], kernel_ops()[graph.nodes[node].op]
            parts = max(len(one.parts), 1)
            if number % parts:
                continue
            row = number // parts * one.rows
            yield Step(node, row, min(row + one.rows, op.rows(graph.nodes[node].params)))


@dataclass(frozen=True)
class Slices(Calls):
    """Calls in slices. starts: of each slice, the number of its first call. longest: the cycles of the longest slice; extra: the share of
    cycles that a run in one piece does not take.
    """

    limit: int
    starts: tuple[int, ...]
    longest: float
    extra: float

    def text(self) -> str:
        """A sentence about them."""
        parts = sum(bool(one.parts) for one in self.divisions.values())
        divided = f"; {parts} layers are also cut within their rows" if parts else ""
        return (
            f"a run is {len(self.starts)} slices of {len(self.calls)} calls, the longest of about {self.longest:.0f} cycles, and takes"
            f" {100 * self.extra:.1f} % more{divided}"
        )


def cut(graph: Graph, plan: Plan, costs: Costs, limit: int) -> Slices:
    """The slices of a run. Raises UsageError, with the least number of cycles, if a layer has a call that is longer than the limit."""
    steps = [step for step in plan.steps if graph.nodes[step.node].kernel]
    if not steps:
        raise UsageError(
            f"--slice {limit}: the network computes nothing that could be cut into slices; leave the option out"
        )
    blocks = rows_of_calls(steps)
    budget = limit - STEP_CYCLES
    of_node = {number: _costs(plan, graph.nodes[number], costs) for number in blocks}
    found = {number: _division(graph, plan, number, block, of_node[number], budget) for number, block in blocks.items()}
    worst = max(found, key=lambda number: found[number].cycles)
    if found[worst].cycles > budget:
        least = int(-(-(found[worst].cycles + STEP_CYCLES) // 100) * 100)
        raise UsageError(
            f"--slice {limit}: the shortest call of {graph.nodes[worst].name!r} takes about {found[worst].cycles:.0f} cycles;"
            f" the least slice for this network is {least}"
        )
    calls = tuple(call for step in steps for call in calls_of(step, found[step.node]))
    taken = [_cycles(graph.nodes[number], found[number], call, of_node[number]) for number, call in calls]
    starts, lengths = _packed(taken, budget)
    whole = sum(of_node[step.node].rows(graph.nodes[step.node], step.last - step.first) for step in steps)
    longest = max(lengths) + STEP_CYCLES
    extra = (sum(lengths) + len(lengths) * STEP_CYCLES) / whole - 1 if whole else 0.0
    return Slices(found, calls, limit, starts, longest, extra)


def _packed(taken: list[float], budget: float) -> tuple[tuple[int, ...], list[float]]:
    """The number of the first call of each slice, and the slice's cycles. Each slice gets as many calls as fit."""
    starts: list[int] = []
    lengths: list[float] = []
    for number, cycles in enumerate(taken):
        if not lengths or lengths[-1] + cycles > budget:
            starts.append(number)
            lengths.append(0.0)
        lengths[-1] += cycles
    return tuple(starts), lengths


def rows_of_calls(steps: Iterable[Step]) -> dict[int, int]:
    """The rows of a call of each node; its last call may have fewer."""
    blocks: dict[int, int] = {}
    for step in steps:
        blocks[step.node] = max(blocks.get(step.node, 0), step.last - step.first)
    return blocks


def calls_of(step: Step, one: Division) -> Iterator[tuple[int, int]]:
    """The calls that a step becomes, as numbers of the node and of the call."""
    assert step.first % one.rows == 0, step
    parts = max(len(one.parts), 1)
    for row in range(step.first, step.last, one.rows):
        for part in range(parts):
            yield step.node, row // one.rows * parts + part


def _cycles(node: Node, one: Division, number: int, costs: Costs) -> float:
    """The cycles of one call."""
    if one.parts:
        return one.parts[number % len(one.parts)].cycles
    rows = kernel_ops()[node.op].rows(node.params)
    return costs.rows(node, min(one.rows, rows - number * one.rows))


@dataclass(frozen=True)
class _Contiguous(Costs):
    """Costs for tensors whose rows are contiguous: some rows cost as much as a tensor that has only these rows."""

    def rows(self, node: Node, count: int) -> float:
        return self.whole(smaller(node, count)) + CALL_CYCLES


def _costs(plan: Plan, node: Node, costs: Costs) -> Costs:
    """The costs of a node, whose rows may not be contiguous."""
    if any(name in plan.slots for name in (*node.inputs, *node.outputs)):
        return costs
    return _Contiguous(costs.target, costs.legal)


def _division(graph: Graph, plan: Plan, number: int, block: int, costs: Costs, budget: float) -> Division:
    """The division of a node with the fewest cycles within the budget or, if there is none, that with the shortest
    calls.
    """
    node = graph.nodes[number]
    whole = costs.rows(node, block)
    found = [Division(block, whole, whole)]
    if whole > budget and not _in_place(graph, plan, node):
        in_group = number in plan.streamed
        found += [_by_rows(node, block, each, costs) for each in even_sizes(block) if not in_group or block % each == 0]
    if whole > budget:
        found += [
            one for each in even_sizes(_blocks(node)) if (one := _by_channels(node, block, each, whole)) is not None
        ]
    fitting = [one for one in found if one.cycles <= budget]
    if fitting:
        return min(fitting, key=lambda one: (one.total, one.rows))
    parts = None if _in_place(graph, plan, node) else _by_parts(node, costs, budget)
    return parts or min(found, key=lambda one: one.cycles)


def _in_place(graph: Graph, plan: Plan, node: Node) -> bool:
    """Whether the node writes its output over its input in one call that does not follow the order of rows."""
    if not node.inputs or not kernel(node.kernel or "").same_place(node.params):
        return False
    first, output = node.inputs[0], node.outputs[0]
    if first not in plan.offsets or output not in plan.offsets:
        return False
    (a, b), sizes = (plan.offsets[first], plan.offsets[output]), [graph.values[name].bytes for name in (first, output)]
    return a < b + sizes[1] and b < a + sizes[0]


def even_sizes(count: int) -> list[int]:
    """The sizes of the largest part, if `count` things are divided evenly into parts, the largest first."""
    return sorted({-(-count // parts) for parts in range(1, count + 1)}, reverse=True)


def _by_rows(node: Node, rows: int, each: int, costs: Costs) -> Division:
    full, rest = divmod(rows, each)
    cycles = costs.rows(node, each)
    return Division(each, cycles, full * cycles + (costs.rows(node, rest) if rest else 0.0))


def _blocks(node: Node) -> int:
    """The number of blocks of channels that the kernel can compute one by one; 0 if it always computes all."""
    channels = kernel(node.kernel or "").blocks(node.params)
    return int(node.params.groups) // channels if channels else 0


def _by_channels(node: Node, rows: int, each: int, cycles: float) -> Division | None:
    """The division of all rows into parts of `each` blocks of channels. cycles: those of all channels."""
    own, p = kernel(node.kernel or ""), node.params
    size, channels, (read, written) = own.blocks(p), int(p.groups), kernel_ops()[node.op].element_bytes
    arrays = own.packed(materialized(node), p)
    parts = []
    for start in range(0, channels, each * size):
        count = min(each * size, channels - start)
        part = replace(node, params=replace(p, groups=count), macs=node.macs * count // channels)
        taken = (cycles - CALL_CYCLES) * count / channels + CALL_CYCLES
        first = {name: array.size * start // channels for name, array in arrays.items()}
        if any(first[name] * array.itemsize % ALIGNMENT for name, array in arrays.items()):
            return None
        parts.append(Part(part, taken, start * read, start * written, first))
    return Division(rows, max(part.cycles for part in parts), sum(part.cycles for part in parts), tuple(parts))


def _by_parts(node: Node, costs: Costs, budget: float) -> Division | None:
    """The division of each row into columns or, if one pixel takes too long, into some of its outputs."""
    op = kernel_ops()[node.op]
    if len(node.inputs) != 1 or kernel(node.kernel or "").store_of(node.params) == "elements":
        return None
    width = int(getattr(node.params, "out_w", 1))
    found = [one for each in even_sizes(width) if (one := _divided(_columns(node, width, each, costs))) is not None]
    fitting = [one for one in found if one.cycles <= budget]
    if fitting:
        return min(fitting, key=lambda one: one.total)
    pixels = _columns(node, width, 1, costs) if width > 1 else (Part(node, costs.rows(node, 1)),)
    channels = op.row_bytes(node.params)[1] // op.element_bytes[1] // width
    if pixels and (some := _by_outputs(pixels, channels, op.element_bytes[1], costs, budget)) is not None:
        found.append(some)
    return min(found, key=lambda one: one.cycles, default=None)


def _by_outputs(pixels: tuple[Part, ...], count: int, size: int, costs: Costs, budget: float) -> Division | None:
    """Each pixel in as few parts as fit into the budget or, if none do, in as many as the kernel can compute."""
    sizes = even_sizes(count)
    whole = max(pixel.cycles for pixel in pixels)
    likely = [each for each in sizes if (whole - CALL_CYCLES) * each / count <= budget]
    made = (_divided(parts_by_outputs(pixels, count, each, size, costs)) for each in likely)
    fitting = next((one for one in made if one is not None and one.cycles <= budget), None)
    if fitting is not None:
        return fitting
    finest = (_divided(parts_by_outputs(pixels, count, each, size, costs)) for each in reversed(sizes))
    return next((one for one in finest if one is not None), None)


def _divided(parts: tuple[Part, ...] | None) -> Division | None:
    """The division of each row into these parts."""
    if not parts:
        return None
    cycles = [part.cycles for part in parts]
    return Division(1, max(cycles), sum(cycles), parts)


def _columns(node: Node, width: int, each: int, costs: Costs) -> tuple[Part, ...] | None:
    """Each row in parts of `each` columns; None if the kernel cannot compute them with the constants and the scratch of
    whole rows.
    """
    op, parts = kernel_ops()[node.op], []
    read, written = op.element_bytes
    for start in range(0, width, each):
        columns = range(start, min(start + each, width))
        made = op.geometry.across(node.params, columns) if each < width else None
        if made is None:
            return None
        params, before, behind = made
        part = replace(node, params=params, macs=node.macs * len(columns) // width)
        if not _fits(node, part, costs):
            return None
        parts.append(Part(part, costs.rows(part, 1), before * read, behind * written))
    return tuple(parts)


def _fits(node: Node, part: Node, costs: Costs) -> bool:
    """Whether a node's kernel can compute the part with no more scratch, the same C function and the same constants."""
    own = kernel(node.kernel or "")
    if not _same_code(node, part, costs):
        return False
    given = materialized(node)
    arrays, others = own.packed(given, node.params), own.packed(given, part.params)
    return all(np.array_equal(arrays[name], others[name]) for name in arrays)


def _same_code(node: Node, part: Node, costs: Costs) -> bool:
    """Whether one row of the part is computed by the C function of the node, within its scratch.

    A variant of a file may refuse a part only because another variant needs as little scratch, so it suffices that one
    of them accepts it.
    """
    own, target = kernel(node.kernel or ""), costs.target
    scratch = (own.row_scratch or own.scratch)(part.params)
    if scratch > own.scratch(node.params) or own.symbol_for(part.params) != own.symbol_for(node.params):
        return False
    variants = [k for k in kernel_ops()[node.op].kernels if (k.file, k.law, k.isa) == (own.file, own.law, own.isa)]
    return target is not None and any(k.when(part, target) is None for k in variants)


def materialized(node: Node) -> dict[str, Array]:
    """The constants of the op of a node."""
    return {name: const.materialize() for name, const in node.constants.items()}


def parts_by_outputs(
    pixels: tuple[Part, ...], count: int, each: int, size: int, costs: Costs
) -> tuple[Part, ...] | None:
    """Each pixel in parts of so many outputs; None if the constants of one are not a piece of those of the pixel."""
    parts = []
    for pixel in pixels:
        for start in range(0, count, each):
            outputs = range(start, min(start + each, count))
            part = _some_outputs(pixel.node, outputs)
            found = _elements(pixel.node, part, start / count, costs) if part is not None else None
            if part is None or found is None:
                return None
            first, counts = found
            parts.append(Part(part, costs.rows(part, 1), pixel.read, pixel.written + start * size, first, counts))
    return tuple(parts)


def _some_outputs(pixel: Node, outputs: range) -> Node | None:
    """The node that computes these outputs of a pixel, with their constants."""
    params = kernel_ops()[pixel.op].geometry.outputs(pixel.params, outputs)
    if params is None:
        return None
    total = kernel_ops()[pixel.op].row_bytes(pixel.params)[1] // kernel_ops()[pixel.op].element_bytes[1]
    name, some = f"outputs({outputs.start},{outputs.stop})", partial(_sliced, outputs, total)
    constants = {key: const.then(name, some) for key, const in pixel.constants.items()}
    return replace(pixel, params=params, constants=constants, macs=pixel.macs * len(outputs) // total)


def _sliced(outputs: range, total: int, array: Array) -> Array:
    """The part of a constant for some outputs; some laws have several numbers in a row for each."""
    each = len(array) // total
    return array[outputs.start * each : outputs.stop * each]


def _elements(pixel: Node, part: Node, share: float, costs: Costs) -> tuple[dict[str, int], dict[str, int]] | None:
    """Where the packed constants of some outputs begin in those of all, and how many elements they have; None if they are not a piece of
    them.
    """
    own = kernel(pixel.kernel or "")
    if not _same_code(pixel, part, costs):
        return None
    arrays, pieces = own.packed(materialized(pixel), pixel.params), own.packed(materialized(part), part.params)
    first, counts = {}, {}
    for name, array in arrays.items():
        whole, piece = np.ravel(array), np.ravel(pieces[name])
        start = round(len(whole) * share)
        if not np.array_equal(whole[start : start + len(piece)], piece) or start * whole.itemsize % ALIGNMENT:
            return None
        first[name], counts[name] = start, len(piece)
    return first, counts


ALIGNMENT = 16
"""The alignment in bytes of a part's constants, because kernels may load them in words of up to that size."""
