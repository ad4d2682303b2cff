"""Plans memory: order of execution, rows, and offsets in one static arena.

In: a kernel-level graph with kernels chosen. Out: a Plan, and the graph in the order of the plan. Values that must
share memory (views, the parts of a concat) are one storage. Constants are in flash and not planned here. The plan
states the liveness bound (the fewest bytes that any plan with whole tensors needs), a lower bound for its own steps,
and whether its offsets are proved to be optimal for these steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from math import inf
from typing import Any

import numpy as np

from glowembed.errors import NoRoom
from glowembed.graph.ir import Graph, Node
from glowembed.graph.plan import SCRATCH, SLOT_UNIT, Buffer, Plan, PlanOptions, Ram, Step, Tradeoff
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.plan import placement, schedule
from glowembed.plan.calls import Call
from glowembed.plan.conflicts import Conflicts, Item, conflicts
from glowembed.plan.costs import Costs
from glowembed.plan.curve import SLACK
from glowembed.plan.items import in_place_of, items_of, joined, scratch_apart
from glowembed.plan.lives import Lives, in_one_piece, live_bytes, liveness_bound, lives
from glowembed.plan.order import best_order
from glowembed.plan.placement import Fit, Placement
from glowembed.plan.rows import STORES, Rows, finest, row_count, rows_of, simpler, too_long
from glowembed.plan.schedule import Candidate
from glowembed.plan.split import split
from glowembed.plan.states import aligned, block_size, with_block
from glowembed.plan.sums import by_rows
from glowembed.plan.tiles import Tiled, Tiler, group_of
from glowembed.records import dataclass

DEFAULT = PlanOptions()
NO_COSTS = Costs()

BUDGETS = {"speed": 0.0, "balanced": 0.025, "ram": 1.0}
"""The share of the estimated cycles that additional calls may cost. The documented limit is 5 %, because a call costs
more than estimated.
"""

SMALL, SMALL_SHARE = 12_000.0, 0.04
"""Cycles that do not matter (0.1 ms at 120 MHz): small networks may spend them, up to this share of their cycles."""

EFFORT_UNIT = 0.05
"""The deterministic seconds of the solver for one unit of effort; each takes 2 to 20 seconds of real time."""

SOLVED, PAIRS = 2, 5_000
"""The number of candidates that go to the solver, from the smallest greedy placement on, and the most conflicts that
they may have together for a unit of effort; with more, the solver finds nothing in its time.
"""

PLACED = 12
"""The number of candidates of a schedule that are placed: both their bounds and the quality of their placements differ.
"""

REPAIRED, LEAST = 6, 2
"""The number of candidates whose greedy placement is improved, and that number for networks of many rows."""

MANY = 60
"""For a graph with more nodes than this, only one alternative to the plain plan is tried."""

ORDERS = 12
"""About the number of greedy placements of one candidate."""

WORK, FEWEST = 80_000, 3
"""After this many items have been placed, no further candidate is placed, except for the first few."""

REPAIRS = 50
"""The number of improved placements that are tried for one candidate."""

LEAST_RAM, LOOSE = 8, 24
"""How much longer a placement is improved where the least RAM is asked for, and if scratch may lie elsewhere in each call."""

SEEDS = (2, 3, 4)
"""The seeds of further searches, where the least RAM is asked for."""


@dataclass(frozen=True)
class _Variant:
    """A graph to plan. cycles: those beyond the cycles of the fastest kernels. budgets: the cycles that additional
    calls may take, the largest first, because a cheaper plan is not always larger. strips: whether groups may be
    computed in strips.
    """

    graph: Graph
    cycles: float
    budgets: tuple[float, ...]
    costs: Costs
    streaming: bool
    strips: bool = False


def plan_network(
    graph: Graph, alignment: int, options: PlanOptions = DEFAULT, costs: Costs = NO_COSTS, most: float = inf
) -> tuple[Graph, Plan]:
    """The graph in the best order of execution with the best kernels for it, and its plan.

    `costs` has the kernels to choose from; the graph has the fastest ones. Kernels with less scratch are chosen where
    they save memory within the budget (curve.py), and means over whole images become sums that are updated row by row.
    With `options.ram`, the result is the fastest plan that fits. most: the bytes above which a plan is of no use, so that no time is spent
    on it. Raises NoRoom if no plan fits.
    """
    ordered = best_order(graph)
    most -= block_size(graph, alignment, options.slice, options.prefetch)
    best, plan, refusal = _best(_ways(ordered, options, costs), alignment, options, most)
    plan = with_block(best, plan, options.slice, options.prefetch)
    fastest, base = _fastest(ordered, costs), _whole(ordered, costs)
    text = simpler(best, options.optimize != "speed" or options.ram is not None)
    plan = replace(plan, extra_cycles=plan.extra_cycles + base - fastest, fastest_cycles=fastest, simpler=text)
    if refusal:
        raise NoRoom(refusal, (best, plan))
    return best, plan


def tradeoffs(
    graph: Graph, alignment: int, options: PlanOptions, costs: Costs, run: Callable[..., Iterable[Any]] = map
) -> tuple[Tradeoff, ...]:
    """The trade-off between RAM and cycles: of all plans tried for at most twice the cycles, those that no other plan
    beats in both.

    The smallest comes first. Limits in `options` are ignored, and only the smallest plan of each variant goes to the solver. run: does
    what `map` does; what it is given can be pickled if the constants of the graph can.
    """
    wanted, ordered = replace(options, optimize="ram", ram=None), best_order(graph)
    tried = chain.from_iterable(run(partial(_sizes, alignment, wanted), _ways(ordered, wanted, costs)))
    fastest, base = _fastest(ordered, costs), _whole(ordered, costs)
    kept = block_size(graph, alignment, options.slice, options.prefetch)
    return best(Tradeoff(max(size, alignment) + kept, base + extra, fastest) for size, extra in tried)


def best(plans: Iterable[Tradeoff]) -> tuple[Tradeoff, ...]:
    """Those that no other one beats in both bytes and cycles, the smallest first."""
    found: list[Tradeoff] = []
    for one in sorted(plans, key=lambda plan: (plan.ram, plan.cycles)):
        if not found or one.cycles < found[-1].cycles - SLACK:
            found.append(one)
    return tuple(found)


def _sizes(alignment: int, options: PlanOptions, variant: _Variant) -> list[tuple[int, float]]:
    """The bytes of each plan of a variant that is worth placing, and its cycles beyond the graph's."""
    placed = _placed(_candidates(variant, alignment, options, True), True, _recomputes(options), effort=options.effort)
    _search(placed, options)
    _solve(placed, options)
    return [(one.placement.size, one.extra) for one in placed]


def _ways(ordered: Graph, options: PlanOptions, costs: Costs) -> list[_Variant]:
    """All variants of a graph, in its order, that may be planned."""
    plain = _variant(ordered, replace(options, optimize="speed", ram=None), costs)
    if options.optimize == "speed" and options.ram is None:
        return [plain]
    split, base = by_rows(ordered, costs), _whole(ordered, costs)
    first, *others = _variants(split, options, costs, base)
    summed = [replace(first, strips=_recomputes(options)), *others]
    if len(split.nodes) > MANY:
        return [plain, summed[0]]
    if split is ordered:
        return [plain, *summed]
    few = replace(options, optimize="balanced", ram=None)
    return [plain, *_variants(ordered, few, costs, base), *summed]  # the cycles for the sums may save more elsewhere


def _recomputes(options: PlanOptions) -> bool:
    """Whether rows and columns may be computed twice to save RAM."""
    wanted = options.optimize == "ram" or options.ram is not None
    return wanted and options.slice is None and options.prefetch is None and not options.rams


def _whole(graph: Graph, costs: Costs) -> float:
    """The cycles of one call of each node's own kernel."""
    return sum(costs.whole(node) for node in graph.nodes)


def _fastest(graph: Graph, costs: Costs) -> float:
    """The cycles of the graph with the fastest legal kernels."""
    return sum(min((cycles for _, cycles in _legal(n, costs)), default=costs.whole(n)) for n in graph.nodes)


def plan(graph: Graph, alignment: int, options: PlanOptions = DEFAULT, costs: Costs = NO_COSTS) -> Plan:
    """The smallest plan for this order of nodes and these kernels."""
    made, best, _ = _best([_variant(graph, options, costs)], alignment, options)
    return with_block(made, best, options.slice, options.prefetch)


def _shares(options: PlanOptions) -> tuple[float, ...]:
    """The shares of the cycles that may be spent, the largest first."""
    if options.ram is not None or options.optimize == "ram":
        return BUDGETS["ram"], BUDGETS["balanced"]
    return (BUDGETS[options.optimize],)


def budget(share: float, cycles: float) -> float:
    """The cycles that a network that takes `cycles` may spend."""
    return max(share * cycles, min(SMALL, SMALL_SHARE * cycles)) if share else 0.0


def _variant(graph: Graph, options: PlanOptions, costs: Costs, base: float | None = None) -> _Variant:
    total = _whole(graph, costs)
    extra = 0.0 if base is None else total - base
    return _Variant(
        graph,
        extra,
        tuple(budget(share, max(base or total, 1.0)) - extra for share in _shares(options)),
        costs,
        options.optimize != "speed" or options.ram is not None,
    )


def _variants(graph: Graph, options: PlanOptions, costs: Costs, base: float) -> list[_Variant]:
    """The graph with the fastest kernels, and with those whose output may overlap an input the most.

    The cycles beyond `base` count against the budget.
    """
    nodes = tuple(_most_overlapping(n, costs) for n in graph.nodes)
    graphs = [graph] if nodes == graph.nodes else [graph, replace(graph, nodes=nodes)]
    found = [_variant(one, options, costs, base) for one in graphs]
    return [variant for variant in found if variant is found[0] or variant.budgets[0] >= 0]


def _most_overlapping(node: Node, costs: Costs) -> Node:
    """The fastest kernel among those with the most permissive store rule."""
    kernels = _legal(node, costs)
    if node.kernel is None or node.shares is not None or not kernels:
        return node
    rank = {symbol: _overlap(symbol, node) for symbol, _ in kernels}
    most = max(rank.values())
    if rank.get(node.kernel) == most:
        return node
    return replace(node, kernel=min((cycles, symbol) for symbol, cycles in kernels if rank[symbol] == most)[1])


def _overlap(symbol: str, node: Node) -> tuple[int, bool]:
    """How far the output may overlap its input with this kernel: first the rank of its store rule, then whether it may
    lie exactly over it.
    """
    one = kernel(symbol)
    return STORES.index(one.store_of(node.params)), one.same_place(node.params)


def _legal(node: Node, costs: Costs) -> list[tuple[str, float]]:
    """The kernels that may compute a node, with their cycles; none for a node that the planner has made."""
    op = kernel_ops().get(node.op)
    own = {kernel.symbol for kernel in op.kernels} if op is not None else set()
    return [(symbol, cycles) for symbol, cycles in costs.legal.get(node.name, ()) if symbol in own]


def _best(
    variants: Sequence[_Variant], alignment: int, options: PlanOptions, most: float = inf
) -> tuple[Graph, Plan, str]:
    """The best plan: the best of all promising candidates, by the solver. If none fits: the smallest, and what to say."""
    prepared = [one for variant in variants for one in _candidates(variant, alignment, options)]
    useful = [one for one in prepared if one.bound <= most]
    prepared, options = (
        (useful, options) if useful else ([min(prepared, key=lambda p: p.bound)], replace(options, effort=0))
    )
    placed = _placed(
        prepared, options.ram is not None, _recomputes(options), bool(options.rams), options.limit, options.effort
    )
    limit = options.limit
    if limit is None or placed[0].placement.size > limit:
        _search(placed, options)
    least = min(p.placement.size for p in placed)
    _solve([p for p in placed if p.bound < least or (limit and p.bound <= limit < p.placement.size)], options)
    if limit is None:
        return *_finished(min(placed, key=lambda p: (p.placement.size, p.extra)), alignment, options), ""
    placed.sort(key=lambda p: (p.placement.size > limit, p.extra if p.placement.size <= limit else p.placement.size))
    closest: tuple[Graph, Plan] | None = None
    for candidate in placed:
        if closest is not None and candidate.placement.size > limit:
            break
        found = _finished(candidate, alignment, options)
        if options.arena_limit is None or found[1].arena_size <= options.arena_limit:
            return *found, ""
        if closest is None or found[1].arena_size < closest[1].arena_size:
            closest = found  # fits the RAMs together, but not the part that must stay in the arena
    assert closest is not None, "there is always a candidate"
    return *closest, _too_large(*closest, options)


def _finished(best: _Placed, alignment: int, options: PlanOptions) -> tuple[Graph, Plan]:
    """A candidate with its kernels, distributed over the RAMs."""
    graph = _with_kernels(best)
    return graph, _plan(best, alignment, graph, _split(best, options.rams, alignment))


class _Cycles:
    """The function schedule.Cycles for a graph; it computes every number once."""

    def __init__(self, graph: Graph, rows: Rows, costs: Costs) -> None:
        self.graph, self.rows, self.costs = graph, rows, costs
        self.known: dict[tuple[int, int, int], float] = {}

    def __call__(self, position: int, number: int, count: int) -> float:
        key = position, number, count
        if key not in self.known:
            work = self.rows.works[position]
            node = self.graph.nodes[work.index]
            if work.kernels:
                node = replace(node, kernel=work.kernels[number].symbol)
            self.known[key] = self.costs.rows(node, count if work.rows > 1 else row_count(node))
        return self.known[key]


def _candidates(variant: _Variant, alignment: int, options: PlanOptions, every: bool = False) -> list[_Placed]:
    """The schedules of a variant that are worth placing."""
    legal = {n.name: [symbol for symbol, _ in _legal(n, variant.costs)] for n in variant.graph.nodes}
    rows = rows_of(variant.graph, legal, finest(variant.graph))
    cycles, unit = _Cycles(variant.graph, rows, variant.costs), min(alignment, SLOT_UNIT)
    if not variant.streaming or too_long(variant.graph):
        found = schedule.unstreamed(rows, unit, cycles, variant.budgets)
        return [_prepared(variant, candidate, alignment) for candidate in found]
    tiler = Tiler(variant.graph, rows, variant.costs) if variant.strips else None
    found = schedule.candidates(rows, unit, cycles, variant.budgets, options.limit, tiler)
    tried = [c for c in found if c.groups][: None if options.ram or every else PLACED * len(variant.budgets)]
    tried += [c for c in found if not c.groups]
    return [_prepared(variant, candidate, alignment) for candidate in tried]


def _placed(
    prepared: Sequence[_Placed],
    every: bool,
    loose: bool,
    apart: bool = False,
    limit: int | None = None,
    effort: int = 1,
) -> list[_Placed]:
    """Candidates placed greedily, the smallest first: those that may be the smallest or, with `every`, all that are not
    larger than a faster one.

    loose: whether scratch may lie elsewhere in each call. apart: whether there are several RAMs, with which a larger candidate may leave
    less in the arena. limit: candidates that fit already, or cannot fit, are not improved, but for the smallest. If none can fit, only the
    smallest matters. effort: that of the options; with 0, placements are only improved by their order.
    """
    placed: list[_Placed] = []
    work = 0
    hopeless = limit is not None and all(one.bound > limit for one in prepared)
    for one in _in_turn(prepared):
        rivals = [p for p in placed if not every or hopeless or (not apart and p.extra <= one.extra)]
        if any((p.placement.size, p.extra) <= (one.bound, one.extra) for p in rivals):
            continue
        if work > WORK and len(placed) >= FEWEST and not every:
            break
        one.forbidden = conflicts(one.items, in_place_of(one.rows, one.candidate, one.life, one.items))
        one.fits = placement.greedy(one.items, one.forbidden, one.bound)
        one.placement = one.fits[0].placement
        work += len(one.items) * ORDERS
        placed.append(one)
    number = 0
    for one in sorted(placed, key=lambda p: (p.bound, p.placement.size)):
        few = number < (REPAIRED if work <= 2 * WORK else LEAST)
        fits = limit is not None and (one.bound > limit or one.placement.size <= limit)
        if not few and (not every or fits):
            continue
        least = not every or (limit is not None and one.bound > limit)
        rivals = [p for p in placed if least or (not apart and p.extra <= one.extra)]
        if any((p.placement.size, p.extra) <= (one.bound, one.extra) for p in rivals):
            continue
        number += 1
        work += len(one.items) * REPAIRS
        _repair(one, loose and (few or limit is not None), effort)
    return sorted(placed, key=lambda p: p.placement.size)


def _repair(one: _Placed, loose: bool, effort: int) -> None:
    """Improve the placement of a candidate. loose: the scratch of a kernel may lie elsewhere in each of its calls if that saves bytes.
    effort: 0 for no search, as in `_placed`.
    """
    search = min(effort, 1) * (LEAST_RAM if loose else 1)
    one.placement = placement.repaired(one.items, one.forbidden, one.fits, one.bound, search)
    if search and loose:
        _loosen(one, again=False)


def _search(placed: Sequence[_Placed], options: PlanOptions) -> None:
    """Search for other placements of the smallest candidate of each variant, if they may become the smallest of all."""
    first = {id(one.variant): one for one in reversed(placed)}
    for one in first.values() if _recomputes(options) and options.effort else ():
        if one.bound < min(p.placement.size for p in placed):
            _loosen(one, again=True)


def _loosen(one: _Placed, again: bool) -> None:
    """Improve a placement. The scratch of a kernel may lie elsewhere in each of its calls if that saves bytes."""
    if one.placement.size <= one.bound:
        return
    items, offsets = scratch_apart(one.items, one.placement.offsets, one.candidate, one.life)
    forbidden = conflicts(items, in_place_of(one.rows, one.candidate, one.life, items))
    fits, own = placement.greedy(items, forbidden, one.bound), Placement(offsets, one.placement.size)
    if again:
        found = placement.searched(items, forbidden, (fits[0].placement, own), one.bound, LOOSE, SEEDS)
    else:
        by_offset = tuple(sorted(range(len(items)), key=offsets.__getitem__))
        tries = (placement.repaired(items, forbidden, f, one.bound, LOOSE) for f in (fits, [Fit(own, by_offset, 0)]))
        found = min(tries, key=lambda p: p.size)
    if found.size < one.placement.size:
        one.items, one.placement = joined(one.items, items, forbidden, found)
        one.forbidden = conflicts(one.items, in_place_of(one.rows, one.candidate, one.life, one.items))


def _in_turn(prepared: Sequence[_Placed]) -> list[_Placed]:
    """The candidates with the lowest bounds first, alternating between budgets, because a cheaper candidate may come
    closer to its bound.
    """
    ranked = []
    for budgets in sorted({one.affordable for one in prepared}):
        same = sorted((one for one in prepared if one.affordable == budgets), key=lambda p: p.bound)
        ranked += [(rank, one.bound, one) for rank, one in enumerate(same)]
    return [one for _, _, one in sorted(ranked, key=lambda r: r[:2])]


def _too_large(graph: Graph, plan: Plan, options: PlanOptions) -> str:
    peak, needed = peak_step(plan), plan.arena_size + options.reserved + options.state
    weights = f" ({options.reserved} of them for weights: leave these in flash)" if options.reserved else ""
    name = graph.nodes[plan.steps[peak].node].name if plan.steps else "the inputs"
    return (
        f"{graph.name} needs at least {needed} bytes of RAM{weights}, {needed - (options.ram or 0)} more than "
        f"--ram {options.ram}; most is alive in {name!r}. Allow more RAM, or --optimize ram if that was not asked for; a smaller input or "
        "fewer channels there would help"
    )


def peak_step(plan: Plan) -> int:
    """The step in which the most bytes are alive."""
    return plan.live.index(max(plan.live)) if plan.live else 0


class _Placed:
    """A candidate with its items, their offsets, and what is proved about them."""

    def __init__(self, variant: _Variant, candidate: Candidate, life: Lives, items: list[Item], bound: int) -> None:
        self.variant, self.rows = variant, candidate.rows
        self.extra = variant.cycles + candidate.extra
        self.affordable = sum(candidate.extra <= budget + SLACK for budget in variant.budgets)
        self.candidate, self.life, self.items, self.bound = candidate, life, items, bound
        self.placement, self.fits = Placement((), 0), list[Fit]()
        self.live: tuple[int, ...] = ()
        self.forbidden = Conflicts(())
        self.proved = bound


def _solve(candidates: Sequence[_Placed], options: PlanOptions) -> None:
    """Let the solver place the first few candidates, if the options ask for it and there is a solver."""
    left = PAIRS * options.effort if options.mode == "exact" and placement.have_solver() else 0
    for one in candidates[:SOLVED]:
        left -= one.forbidden.pairs
        if left >= 0:
            one.placement, one.proved = placement.solve(
                one.items, one.forbidden, one.bound, one.placement, EFFORT_UNIT * options.effort
            )


def _prepared(variant: _Variant, candidate: Candidate, alignment: int) -> _Placed:
    rows = candidate.rows
    life = lives(rows, candidate.calls, candidate.loops)
    pieces = in_one_piece(rows, candidate.groups)
    items = items_of(pieces, candidate, life, alignment)
    live = live_bytes(pieces, candidate.calls, life, min(alignment, SLOT_UNIT))
    live = schedule.with_scratch(rows, candidate, life, live)
    bound = int(max(live.max(initial=0), max((item.size for item in items), default=0)))
    placed = _Placed(variant, candidate, life, items, bound)
    placed.live = tuple(int(live[begin + 1 : end + 2].max()) for begin, end in life.spans)
    return placed


def _with_kernels(best: _Placed) -> Graph:
    """The graph with the kernels that the candidate chose."""
    nodes = list(best.variant.graph.nodes)
    for work, number in zip(best.rows.works, best.candidate.kernels, strict=True):
        if work.kernels:
            nodes[work.index] = replace(nodes[work.index], kernel=work.kernels[number].symbol)
    return replace(best.variant.graph, nodes=tuple(nodes))


def _split(best: _Placed, rams: Sequence[Ram], alignment: int) -> tuple[tuple[Ram, int], ...]:
    """Move the most used data to other RAMs, whose offsets continue after the arena. Returns where each RAM begins."""
    if not rams:
        return ()
    rows, items = best.rows, best.items

    def stays(item: Item) -> bool:
        return any(
            rows.storages[s].is_input or rows.storages[s].is_output for s in (item.storage, *item.also) if s >= 0
        )

    *parts, arena = split(items, best.forbidden, rams, stays, _traffic(best))
    offsets, end, found = [0] * len(items), max(arena.placement.size, alignment), []
    for part in (arena, *parts):
        start = 0 if part is arena else aligned(end, alignment)
        for i, offset in zip(part.items, part.placement.offsets, strict=True):
            offsets[i] = start + offset
        end = max(end, start + part.placement.size)
        found += [(replace(part.ram, size=part.placement.size), start)] if part.ram is not None else []
    best.placement = Placement(tuple(offsets), end)
    return tuple(found)


def _traffic(best: _Placed) -> dict[int, float]:
    """The bytes of every item that are read and written; scratch counts as written and read once in each call for each
    row.
    """
    rows, bytes_of = best.rows, [0.0] * len(best.rows.storages)
    calls: dict[str, int] = {}
    for position, first, last in best.candidate.calls:
        work = rows.works[position]
        for storage, spans in (*zip(work.inputs, work.reads, strict=True), (work.output, work.writes)):
            bytes_of[storage] += rows.storages[storage].row_bytes * sum(b - a for a, b in spans[first:last])
        calls[SCRATCH + work.name] = calls.get(SCRATCH + work.name, 0) + last - first
    counts = {s: sum(1 for item in best.items if item.storage == s) for s in {item.storage for item in best.items}}
    return {
        number: 2.0 * item.size * calls[item.name] if item.storage < 0
        else sum(bytes_of[s] for s in (item.storage, *item.also)) / counts[item.storage]
        for number, item in enumerate(best.items)
    }  # fmt: skip


def _plan(best: _Placed, alignment: int, graph: Graph, rams: tuple[tuple[Ram, int], ...] = ()) -> Plan:
    rows = best.rows
    offsets, slots, scratch = {}, {}, {}
    table: dict[int, list[int]] = {}
    apart: dict[str, dict[int, int]] = {}
    for item, offset in zip(best.items, best.placement.offsets, strict=True):
        name = item.name.removeprefix(SCRATCH)
        if item.row is None and item.storage < 0:
            scratch[name] = offset
        elif item.row is None:
            for storage in (item.storage, *item.also):
                offsets.update(dict.fromkeys(rows.storages[storage].values, offset))
        elif item.storage < 0:
            apart.setdefault(name, {})[item.row] = offset
        else:
            table.setdefault(item.storage, [0] * rows.storages[item.storage].rows)[item.row] = offset
    for storage, row_offsets in table.items():
        slots.update(dict.fromkeys(rows.storages[storage].values, tuple(row_offsets)))
    size = max(best.placement.size, alignment)
    calls, tiled = best.candidate.calls, best.candidate.tiled
    optimal = best.placement.size <= best.proved
    return Plan(
        offsets, scratch, size, liveness_bound(rows_of(graph), alignment), alignment, _buffers(rows, best), slots,
        tuple(_step(graph, rows, call, tiled) for call in calls),
        tuple((rows.works[a].index, rows.works[b - 1].index + 1) for a, b in best.candidate.groups),
        best.proved if not optimal else best.placement.size, "optimal" if optimal else "feasible",
        best.extra, best.live, rams, tiled=tuple(group_of(one, rows, calls, best.candidate.loops) for one in tiled),
        scratch_slots={name: tuple(at.get(row, min(at.values())) for row in range(max(at) + 1)) for name, at in apart.items()},
    )  # fmt: skip


def _step(graph: Graph, rows: Rows, call: Call, tiled: Sequence[Tiled]) -> Step:
    """A call as a step in rows of the kernel; the single row of a work may stand for all of them."""
    position, first, last = call
    work = rows.works[position]
    shift = next((one.shift(position, first) for one in tiled if one.first <= position < one.last), 0)
    return Step(work.index, first - shift, last - shift if work.rows > 1 else row_count(graph.nodes[work.index]), shift)


def _buffers(rows: Rows, best: _Placed) -> tuple[tuple[Buffer, int], ...]:
    """The buffers that are shown to people, with births and deaths in steps."""
    first = np.asarray([begin for begin, _ in best.life.spans], np.int64)

    def step(tick: int) -> int:
        if tick >= best.life.ticks:
            return len(first)
        return int(np.searchsorted(first, tick, side="right")) - 1

    found = []
    for item, offset in zip(best.items, best.placement.offsets, strict=True):
        mine = (item.storage, *item.also) if item.storage >= 0 else ()
        values = tuple(v for storage in mine for v in rows.storages[storage].values) or (item.name,)
        lives = tuple((step(b), step(d)) for _, _, b, d in item.cells.tolist()) if item.storage < 0 else ()
        found.append((Buffer(values, item.size, step(item.birth), step(item.death), item.row, lives), offset))
    return tuple(sorted(found, key=lambda p: (p[0].birth, p[1], p[0].values, p[0].row or 0)))
