"""Finds offsets for items that are alive at different times: by several greedy orders, for few items by branch and bound, then by a search
and a solver if a gap remains.

In: items, and the intervals that each pair forbids for the difference of its offsets (conflicts.py). Out: offsets, the
size that they need, and whether it is proved to be the smallest.
"""

from __future__ import annotations

import hashlib
import heapq
import importlib.util
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import chain, product
from typing import Any, TypeVar

import numpy as np

from glowembed.plan import exact
from glowembed.plan.conflicts import Conflicts, Ints, Item, Near
from glowembed.plan.curve import NEVER
from glowembed.records import dataclass

T = TypeVar("T")

REPAIRED, REPAIRS, PATIENCE = 3, 24, 12
"""How many greedy placements are improved by their order, how often each, and after how many attempts without a gain to stop."""

MANY = 1500
"""The total number of items in all placements that are improved by their order; at least one placement is always improved."""

EVICTIONS, EVICTION, TURNS = 500_000, 1_000, 16
"""The most work of a search for a smaller placement, in pairs of a place and an item; the work that each item adds; and how often as many
items as there are may be placed.
"""

KNOWN_MAX = 1024
"""The most results that are kept."""


@dataclass(frozen=True)
class Placement:
    """The offset of each item, and the end of the highest item."""

    offsets: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Fit:
    """A greedy placement with this order of items. top: 0 if inputs of the network are at the bottom, else they end
    there.
    """

    placement: Placement
    order: tuple[int, ...]
    top: int


def greedy(items: Sequence[Item], forbidden: Conflicts, bound: int) -> list[Fit]:
    """Greedy placements in several orders, the smallest first, as many as can be improved.

    Inputs are at the bottom or end at the bound; scratch, which is alive intermittently, is at the bottom or anywhere.
    The search ends as soon as a placement meets the bound.
    """
    return list(_once(("greedy", _digest(items, forbidden.near), bound), lambda: _in_orders(items, forbidden, bound)))


def _in_orders(items: Sequence[Item], forbidden: Conflicts, bound: int) -> list[Fit]:
    found: list[Fit] = []
    for order, top in product(_orders(items), (0, bound)):
        most = found[-1].placement.size if len(found) == _improved(items) else NEVER
        placed = _first_fit(items, forbidden.near, order, top, most)
        if placed is not None and placed.size <= bound:
            return [Fit(placed, tuple(order), top)]
        if placed is not None:
            found.append(Fit(placed, tuple(order), top))
            found = sorted(found, key=lambda fit: fit.placement.size)[: _improved(items)]
    return found


def _improved(items: Sequence[Item]) -> int:
    """The number of placements of these items that are improved by their order."""
    return min(REPAIRED, max(1, MANY // max(1, len(items))))


def _reordered(items: Sequence[Item], near: Sequence[Near], fit: Fit, bound: int) -> Placement:
    order, placed, best, waited = list(fit.order), fit.placement, fit.placement, 0
    tried: set[tuple[int, ...]] = set()
    for _ in range(REPAIRS):
        high = {i for i, o in enumerate(placed.offsets) if o + items[i].size > best.size - items[i].size // 2}
        order = [i for i in order if i in high] + [i for i in order if i not in high]
        if (best.size, *order) in tried:  # whatever follows was tried, too
            break
        tried.add((best.size, *order))
        again = _first_fit(items, near, order, fit.top)
        assert again is not None
        placed = again
        best, waited = (placed, 0) if placed.size < best.size else (best, waited + 1)
        if best.size <= bound or waited == PATIENCE:
            break
    return best


def repaired(
    items: Sequence[Item], forbidden: Conflicts, fits: Sequence[Fit], bound: int, effort: int = 1
) -> Placement:
    """Improve placements. First by their order: the item that reaches highest is placed earlier the next time. Then the
    best of them by a search.
    """
    best = fits[0].placement
    for fit in fits[: _improved(items)] if best.size > bound else ():
        question = "order", _digest(items, forbidden.near), fit, bound
        again = _once(question, partial(_reordered, items, forbidden.near, fit, bound))
        best = min(best, again, key=lambda p: p.size)
    return searched(items, forbidden, (best,), bound, effort)


def searched(
    items: Sequence[Item],
    forbidden: Conflicts,
    starts: Sequence[Placement],
    bound: int,
    effort: int,
    seeds: Iterable[int] = (1,),
) -> Placement:
    """The best placement that is found from any start with any seed: one of half the gap to the bound is searched for, and so on, until the gap is
    closed or cannot be. Of few items, the best placement of all.
    """
    best, proved = _settled(items, forbidden, min(starts, key=lambda p: p.size), bound)
    if proved:
        return best
    unit = min((item.alignment for item in items), default=1)
    search = cache(partial(_Search, items, forbidden.near))

    def within(*words: Any) -> Placement | None:
        return search().within(*words)

    problem, most = _digest(items, forbidden.near), effort * min(EVICTIONS, TURNS * EVICTION * len(items))
    for seed, start in product(seeds, starts):
        now, low = start, bound
        while low < best.size:
            target = max(low, min(best.size - unit, (low + best.size) // 2 // unit * unit))
            question = "search", problem, now.offsets, target, effort, seed
            found = _once(question, partial(within, now, target, most, seed))
            if found is None:
                low = target + unit
            else:
                now = best = found
    return best


def _settled(items: Sequence[Item], forbidden: Conflicts, hint: Placement, bound: int) -> tuple[Placement, bool]:
    """A placement no larger than `hint`, and whether it is proved that none is smaller."""
    question = "exact", _digest(items, forbidden.near), hint.size, bound
    found, proved = _once(question, partial(exact.smaller, items, forbidden, hint.size, bound))
    return (hint if found is None else _placement(found, items)), proved


def _placement(offsets: tuple[int, ...], items: Sequence[Item]) -> Placement:
    return Placement(offsets, max(o + item.size for o, item in zip(offsets, items, strict=True)))


_KNOWN: dict[tuple[Any, ...], Any] = {}
"""What this process has found: the plans of a network's forms and budgets, and of several targets, often have the same items."""


def _once(question: tuple[Any, ...], find: Callable[[], T]) -> T:
    """What was found before, or is found now. question: all that it depends on."""
    if question not in _KNOWN:
        if len(_KNOWN) >= KNOWN_MAX:
            _KNOWN.clear()
        _KNOWN[question] = find()
    found: T = _KNOWN[question]
    return found


def _digest(items: Sequence[Item], near: Sequence[Near]) -> bytes:
    """A hash of all that places depend on."""
    numbers = [(i.size, i.alignment, i.birth, i.death, _is_scattered(i)) for i in items]
    made = hashlib.blake2b(np.asarray(numbers, np.int64).tobytes())
    for part in chain.from_iterable(near):
        made.update(len(part).to_bytes(8, "little") + part.tobytes())
    return made.digest()


class _Search:
    """Searches for smaller placements of the same items. Only numbers that do not change from search to search are kept."""

    def __init__(self, items: Sequence[Item], near: Sequence[Near]) -> None:
        self.items, self.count = items, len(items)
        self.birth, self.unit = [item.birth for item in items], [item.alignment for item in items]
        self.others = [others for others, _, _ in near]
        self.known = [set(others.tolist()) for others in self.others]
        self.ends = [np.concatenate((others, others)) for others in self.others]
        self.shift = [np.concatenate((hi, lo)) for _, lo, hi in near]
        self.signed = [np.concatenate((others + self.count, others)) for others in self.others]
        self.even = len(set(self.unit)) <= 1  # the intervals are then rounded (conflicts.py), as are the offsets

    def within(self, start: Placement, target: int, most: int, seed: int) -> Placement | None:
        """A placement of at most `target` bytes, made from one that needs more; None if none is found.

        Items that reach too high are taken out and placed again, the earliest first, each where it meets the fewest bytes
        of others; those that it meets are taken out in their turn. An item that has met others weighs more the next time, so that the
        search does not go round in circles.
        """
        rng, items = random.Random(seed), self.items
        offsets, sizes = np.asarray(start.offsets, np.int64), np.asarray([float(item.size) for item in items])
        weights = np.concatenate((sizes, -sizes))
        tops = [(target - item.size) // item.alignment * item.alignment for item in items]
        out = [(self.birth[i], i) for i, item in enumerate(items) if offsets[i] + item.size > target]
        missing = {i for _, i in out}
        offsets[list(missing)] = NOWHERE
        heapq.heapify(out)
        work = 0
        while out and work < most:
            _, i = heapq.heappop(out)
            if tops[i] < 0:
                return None
            others, absent = self.others[i], len(missing & self.known[i])
            ends, count = self._ends(i, offsets), len(others)
            places = _places(ends, tops[i])
            # Intervals (low, high) as the places at which they begin and end. The weights are whole, so that sums are exact.
            end, begin = places.searchsorted(ends[:count]), places.searchsorted(ends[count:], "right")
            at = np.concatenate((end, begin))
            bytes_met = np.bincount(at, weights[self.signed[i]], len(places) + 1)[:-1].cumsum()
            best = int(bytes_met.argmin())
            least = bytes_met[best]
            missing.discard(i)
            if least:
                same = (bytes_met == least).nonzero()[0]
                best = int(same[rng.randrange(len(same))])
                weights[i] += items[i].size
                weights[i + self.count] -= items[i].size
                for j in others[(begin <= best) & (best < end)].tolist():
                    heapq.heappush(out, (self.birth[j], j))
                    missing.add(j)
                    offsets[j] = NOWHERE
            offsets[i] = places[best]
            work += EVICTION + len(places) * (count - absent)
        return None if out else _placement(tuple(offsets.tolist()), items)

    def _ends(self, i: int, offsets: Ints) -> Ints:
        """The places at which the intervals that others forbid to an item end, and then those at which they begin."""
        ends: Ints = offsets[self.ends[i]] + self.shift[i]
        if not self.even:
            ends[: len(ends) // 2] += -ends[: len(ends) // 2] % self.unit[i]
            ends[len(ends) // 2 :] -= ends[len(ends) // 2 :] % self.unit[i]
        return ends


def _places(ends: Ints, top: int) -> Ints:
    """The different places from 0 to top at which something may lie close to others, in order. 0 and top are two of them."""
    places = np.empty(len(ends) + 2, np.int64)
    places[0], places[1] = 0, top
    np.maximum(ends, 0, out=places[2:])
    np.minimum(places, top, out=places)
    places.sort()
    new = np.empty(len(places), bool)
    new[0] = True
    np.not_equal(places[1:], places[:-1], out=new[1:])
    return places[new]


def _is_scattered(item: Item) -> bool:
    """Whether all cells of an item lie at its offset, as those of scratch do."""
    return len(item.cells) > 1 and item.cells[:, 0].max() == 0


def _orders(items: Sequence[Item]) -> list[list[int]]:
    """Orders of items: large ones first, or those whose life ends last, which leaves the space below for earlier
    ones.
    """
    birth = np.asarray([i.birth for i in items])
    death = np.asarray([i.death for i in items])
    size = np.asarray([i.size for i in items])
    index = np.arange(len(items))
    scattered = np.asarray([_is_scattered(i) for i in items])
    anywhere = [(-size, birth), (-size, -death), (-death, -size), (birth - death, -size)]
    first = [(~scattered, *key) for key in anywhere] if scattered.any() else []
    keys = [*anywhere, *first, (-birth, -size)]
    return [np.lexsort((index, *reversed(key))).tolist() for key in keys]


def _first_fit(
    items: Sequence[Item], near: Sequence[Near], order: Sequence[int], top: int, most: int = NEVER
) -> Placement | None:
    """Place each item at the lowest allowed offset. With `top`, inputs of the network end there. None if `most` bytes or more are needed."""
    offsets = np.full(len(items), NOWHERE, np.int64)
    if top:
        order = sorted(order, key=lambda i: items[i].birth >= 0)
    size, even = 0, len({item.alignment for item in items}) <= 1
    for i in order:
        start = max(0, top - items[i].size) if top and items[i].birth < 0 else 0
        at = offsets[i] = lowest(items[i], near[i], offsets, start, even)
        size = max(size, at + items[i].size)
        if size >= most:
            return None
    return Placement(tuple(offsets.tolist()), size)


NOWHERE = -(1 << 40)
"""The offset of an item that is not yet placed, so low that it forbids nothing."""


def lowest(item: Item, near: Near, offsets: Ints, start: int = 0, even: bool = False) -> int:
    """The lowest offset that no earlier item forbids. even: whether all items have the same alignment, so that intervals end at multiples of it."""
    others, lo, hi = near
    there, at = offsets[others], -(-start // item.alignment) * item.alignment
    low = there + lo
    order = low.argsort()
    low = low[order]
    if low.size == 0 or low[0] >= at:
        return at
    ends = np.maximum.accumulate((there + hi)[order])
    np.maximum(ends, at, out=ends)
    if not even:
        ends += -ends % item.alignment
    free = (low[1:] >= ends[:-1]).nonzero()[0]
    return int(ends[free[0]] if free.size else ends[-1])


def have_solver() -> bool:
    """Whether OR-tools is installed. It is optional; without it, plans are greedy.

    It is not imported here, because that takes 0.3 s and many plans need no solver.
    """
    return importlib.util.find_spec("ortools") is not None


def solve(
    items: Sequence[Item], forbidden: Conflicts, bound: int, hint: Placement, effort: float
) -> tuple[Placement, int]:
    """A placement no larger than `hint`, and a proved lower bound; both are the same on every machine.

    The solver has one worker, a fixed seed and a deterministic limit, because a limit on time would give different
    plans on different machines.
    """
    hint, proved = _settled(items, forbidden, hint, bound)
    if proved:
        return hint, hint.size
    from ortools.sat.python import cp_model_helper as solver  # cp_model is another 0.3 s of imports, with pandas

    unit = min((item.alignment for item in items), default=1)
    model, parameters = solver.CpModelProto(), solver.SatParameters()
    wrapper: Any = solver.SolveWrapper()
    assert model.parse_text_format(_problem(items, forbidden, bound, hint, unit)), "the text of a model"
    parameters.num_workers = 1
    parameters.random_seed = 1
    parameters.max_deterministic_time = effort
    wrapper.set_parameters(parameters)
    answer = wrapper.solve(model)
    if answer.status not in (solver.CpSolverStatus.OPTIMAL, solver.CpSolverStatus.FEASIBLE):
        return hint, bound
    multiples = list(answer.solution)[1 : 1 + len(items)]
    offsets = tuple(int(multiple) * item.alignment for multiple, item in zip(multiples, items, strict=True))
    found = _placement(offsets, items)
    lower = max(bound, int(np.ceil(answer.best_objective_bound - 1e-6)) * unit)
    return (found if found.size < hint.size else hint), lower


def _problem(items: Sequence[Item], forbidden: Conflicts, bound: int, hint: Placement, unit: int) -> str:
    """The model of the solver, as the text of a CpModelProto: variable 0 is the peak, in units, variable 1 + i the offset of item i, as a
    multiple of its alignment; then for each pair whether the later item lies above the earlier one.
    """
    variables = [_variable(-(-bound // unit), hint.size // unit)]
    variables += [_variable(0, (hint.size - item.size) // item.alignment) for item in items]
    steps = [item.alignment // unit for item in items]
    hints = [hint.offsets[i] // item.alignment for i, item in enumerate(items)]
    rules = [_linear({0: 1, 1 + i: -steps[i]}, -(-item.size // unit), MOST) for i, item in enumerate(items)]
    for i, j, lo, hi in _pairs(forbidden):
        above, apart = len(variables), {1 + i: -steps[i], 1 + j: steps[j]}
        variables.append(_variable(0, 1))
        hints.append(int(hint.offsets[j] - hint.offsets[i] >= hi))
        rules += [_linear(apart, -(-hi // unit), MOST, above), _linear(apart, -MOST - 1, lo // unit, -above - 1)]
    values = " ".join(f"vars: {1 + k} values: {value}" for k, value in enumerate(hints))
    return "\n".join(
        [*variables, *rules, f"objective {{ vars: 0 coeffs: 1 scaling_factor: 1 }} solution_hint {{ {values} }}"]
    )


MOST = 2**63 - 1
"""The end of the range of the solver's integers."""


def _variable(low: int, high: int) -> str:
    return f"variables {{ domain: {low} domain: {high} }}"


def _linear(terms: Mapping[int, int], low: int, high: int, literal: int | None = None) -> str:
    """A sum of variables with factors that lies in low..high, where `literal` is true. -1 - k: variable k is false."""
    where = "" if literal is None else f"enforcement_literal: {literal} "
    sums = " ".join(f"vars: {variable} coeffs: {factor}" for variable, factor in terms.items())
    return f"constraints {{ {where}linear {{ {sums} domain: {low} domain: {high} }} }}"


def _pairs(forbidden: Conflicts) -> list[tuple[int, int, int, int]]:
    """Each pair once, in order: i < j, lo, hi."""
    return sorted(
        (i, j, lo, hi)
        for j, near in enumerate(forbidden.near)
        for i, lo, hi in zip(*(array.tolist() for array in near), strict=True)
        if i < j
    )
