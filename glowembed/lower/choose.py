"""Chooses the C kernel that computes each node on a target.

In: a kernel-level graph, a target, and the goal, few cycles or little flash. Out: the graph with `Node.kernel` set, and
every kernel that was considered, with its estimated cycles, flash and scratch, and the reason why it was not taken.

The search starts with the fastest kernel of each node. From there flash is saved step by step, each time where it costs
the fewest cycles: it drops a kernel that few nodes need, or packed constants that are larger than the weights. `speed`
saves nothing; `ram` saves for at most FLASH_SHARE of the cycles, and `balanced` also for DEAR_SHARE where flash is dear
(FLASH_RATE), and then until constants are dense (DENSE), if that is worth its scratch (RAM_RATE). `size` takes one
small kernel with plain weights for each op, which together take at most SIZE_LIMIT times the cycles of the fastest such
kernels. A limit on flash is met with as few cycles as this search finds. Flash below the limit is not saved further,
and `speed` spends it on kernels that otherwise need an option.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace

from glowembed.graph.ir import Graph, Node
from glowembed.graph.op import Kernel, in_mode
from glowembed.graph.plan import Optimize
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.graph.target import Target
from glowembed.lower import footprint
from glowembed.records import dataclass

FLASH_SHARE, DEAR_SHARE = 0.01, 0.1
"""The shares of the cycles that `balanced` may spend to save flash: any flash, and dear flash (FLASH_RATE). The planner
may spend more to save RAM (memory.BUDGETS).
"""

FEWER_SHARE = 0.002
"""The share of the cycles of a finished plan that may be spent to save dear flash (`fewer`)."""

FLASH_RATE = 5.0
"""Flash is dear if a step saves a share of the flash that is at least this many times the share of the cycles that it
costs.
"""

DENSE, DENSE_OTHERS = 1.3, 3.0
"""The bytes that `balanced` spends on constants at most, as multiples of the bytes of a network's weights, and of its
biases and multipliers, unless a limit on flash leaves more room. It does not apply to PCs, which load programs into
RAM, or if constants are less than half of the flash.
"""

DENSE_RATE = 0.25
"""A step makes constants dense only if the share of the flash that it saves is at least this part of the share of the
cycles that it costs.
"""

RAM_RATE = 6
"""How many bytes of flash `balanced` must save for each additional byte of scratch, because microcontrollers have 4 to
16 times as much flash as RAM.
"""

SIZE_LIMIT = 1.5
"""The most cycles that `size` may take, as a multiple of the cycles of the fastest kernels with plain weights."""

PLAIN = 1.25
"""Constants count as plain if they take at most this many times the bytes of the node's smallest constants."""


@dataclass(frozen=True)
class Unpacking:
    """What a kernel that unpacks weights of four bits saves and costs beside the same kernel with int8 weights: bytes of
    flash, cycles of one call, and bytes of scratch.
    """

    saved: int
    cycles: float
    scratch: int


@dataclass(frozen=True)
class Part:
    """Bytes that exist once: a function, the code that several functions of a kernel share, or an array of constants."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Choice:
    """A kernel that was considered for a node; `reason` says why it was not taken, and is None for the one that was.

    legal: whether it could have been taken. function: its C name for these params. constants, code, shared: bytes of
    flash, if it is legal (see op.Cost); code exists once for each function, shared once for each kernel. scratch: bytes
    of RAM. dense: the most bytes that dense constants of the node may take. unpacking: for weights of four bits. arrays:
    the constants; equal ones of several nodes exist once.
    """

    node: str
    kernel: str
    cycles: float
    reason: str | None
    legal: bool = False
    function: str = ""
    constants: int = 0
    code: int = 0
    shared: int = 0
    scratch: int = 0
    dense: float = 0.0
    unpacking: Unpacking | None = None
    arrays: tuple[Part, ...] = ()


def choose(
    graph: Graph,
    target: Target,
    allowed: Collection[str] = (),
    optimize: Optimize = "speed",
    flash: int | None = None,
) -> tuple[Graph, tuple[Choice, ...]]:
    """The graph with kernels, and every choice that was considered, in order. allowed: the options of kernels that may
    be taken; `speed` with a limit on flash also takes those that fit.

    flash: the most bytes that constants, kernels and network should need; if nothing is small enough, the result is the
    smallest.
    """
    known = {op: [k for k in kernels if not k.isa or k.isa in target.isa] for op, kernels in _kernels(graph).items()}
    if optimize == "speed" and flash is not None:
        allowed = {k.option for kernels in known.values() for k in kernels}
    considered = {n.name: [_consider(n, k, target, allowed) for k in known[n.op]] for n in graph.nodes}
    share = footprint.BUILT["-Os" if optimize == "size" else "-O2"]
    legal = {name: [c for c in cs if c.legal] for name, cs in considered.items() if cs}
    search = _Search({n: _plain(cs) for n, cs in legal.items()} if optimize == "size" else legal, share)
    if optimize == "size":
        search.smallest({n.name: n.op for n in graph.nodes}, SIZE_LIMIT)
    elif optimize == "speed" or flash is not None:
        search.save(0.0)
    elif optimize == "ram":
        search.save(FLASH_SHARE)
    else:
        search.balance(dense(graph) if target.word_size < 8 else None)
    rest = footprint.network(graph)
    if flash is not None and search.flash() + rest > flash:
        search.save(float("inf"), limit=flash - rest)
        if search.flash() + rest > flash:
            search.smallest({n.name: n.op for n in graph.nodes}, float("inf"))
    taken = search.taken
    nodes = tuple(replace(n, kernel=taken[n.name].kernel) if n.name in taken else n for n in graph.nodes)
    told = [_told(c, taken[name]) for name, choices in considered.items() for c in choices]
    return replace(graph, nodes=nodes), tuple(told)


def dense(graph: Graph) -> float:
    """The most bytes of the constants of a graph if they must be dense. Nodes with the same constants count once."""
    return sum({tuple(map(id, node.constants.values())): _dense(node) for node in graph.nodes}.values())


def _dense(node: Node) -> float:
    """DENSE times the bytes of a node's weights, plus DENSE_OTHERS times those of its channels' constants, plus the
    bytes of other constants.
    """
    arrays = [const.materialize() for const in node.constants.values()]
    weights = sum(array.nbytes for array in arrays if array.ndim > 1)
    others = sum(array.nbytes for array in arrays if array.ndim <= 1)
    return DENSE * weights + (DENSE_OTHERS if weights else 1) * others


def _kernels(graph: Graph) -> Mapping[str, Sequence[Kernel]]:
    return {node.op: kernel_ops()[node.op].kernels for node in graph.nodes}


def _consider(node: Node, chosen: Kernel, target: Target, allowed: Collection[str]) -> Choice:
    cost = chosen.cost(node, target)
    if (reason := chosen.when(node, target)) is not None:
        return Choice(node.name, chosen.symbol, cost.cycles, reason)
    if chosen.option and chosen.option not in allowed:
        return Choice(node.name, chosen.symbol, cost.cycles, f"needs --{chosen.option}: {cost.cycles:,.0f} cycles")
    arrays = tuple(Part(name, size) for name, size in footprint.arrays(node, chosen))
    return Choice(
        node.name,
        chosen.symbol,
        cost.cycles,
        None,
        legal=True,
        function=chosen.symbol_for(node.params),
        constants=sum(part.bytes for part in arrays),
        code=cost.code,
        shared=cost.shared,
        scratch=chosen.scratch(node.params),
        dense=_dense(node),
        unpacking=None if chosen.inner is None or chosen.inner_op else _unpacking(node, chosen, chosen.inner, target),
        arrays=arrays,
    )


def _unpacking(node: Node, own: Kernel, inner: Kernel, target: Target) -> Unpacking:
    op = kernel_ops()[node.op]
    plain = replace(node, op=in_mode(op.unpacks, op.requantization))
    return Unpacking(
        footprint.constants(plain, inner) - footprint.constants(node, own),
        own.cost(node, target).cycles - inner.cost(plain, target).cycles,
        own.scratch(node.params) - inner.scratch(node.params),
    )


def _plain(choices: list[Choice]) -> list[Choice]:
    """The choices whose constants are hardly larger than the smallest, because they hold weights once and not in a
    faster but larger form.
    """
    least = min(c.constants for c in choices)
    return [c for c in choices if c.constants <= PLAIN * least + 64]


def _told(choice: Choice, taken: Choice) -> Choice:
    """The choice, with the reason why the other kernel was taken."""
    if not choice.legal or choice.kernel == taken.kernel:
        return choice
    return replace(choice, reason="slower" if choice.cycles >= taken.cycles else "more flash")


def within(
    choices: Iterable[Choice], optimize: Optimize, flash: int | None
) -> Mapping[str, Sequence[tuple[str, float]]]:
    """For each node, the kernels that the planner may change to, with their cycles: for `balanced`, those whose
    constants are dense or add nothing; with a limit on flash, those that add neither constants nor code; else all.
    """
    listed = [c for c in choices if c.legal]
    taken = {c.node: c for c in listed if c.reason is None}
    users = Counter(part for c in taken.values() for part in {*c.arrays})

    def more(c: Choice) -> int:
        """The bytes of constants that a network needs more with this choice."""
        old, new = {*taken[c.node].arrays}, {*c.arrays}
        added = sum(part.bytes for part in new - old if not users[part])
        return added - sum(part.bytes for part in old - new if users[part] == 1)

    if optimize == "size" or flash is not None:
        there = {c.function for c in taken.values()}
        listed = [c for c in listed if c.function in there and more(c) <= 0]
    elif optimize == "balanced":
        listed = [c for c in listed if more(c) <= max(c.dense - taken[c.node].constants, 0)]
    legal: dict[str, list[tuple[str, float]]] = {}
    for choice in listed:
        legal.setdefault(choice.node, []).append((choice.kernel, choice.cycles))
    return legal


def fewer(
    graph: Graph, target: Target, choices: Iterable[Choice], possible: Mapping[str, Mapping[str, float]]
) -> Mapping[str, str]:
    """The kernels with which a planned graph saves dear flash (FLASH_RATE) for at most FEWER_SHARE more cycles, by node.

    The planner changes to kernels with less scratch, some of which only a few nodes need. possible: for each node, the kernels that its plan has
    room for, with their cycles in it.
    """
    known = {(c.node, c.kernel): c for c in choices if c.legal}
    legal, taken = {}, {}
    for node in graph.nodes:
        if node.kernel is None:
            continue
        mine = {}
        for symbol, cycles in possible[node.name].items():
            choice = known.get((node.name, symbol)) or _consider(node, kernel(symbol), target, (kernel(symbol).option,))
            mine[symbol] = replace(choice, cycles=cycles)
        taken[node.name], legal[node.name] = mine[node.kernel], list(mine.values())
    search = _Search(legal, footprint.BUILT["-O2"])
    search.taken = dict(taken)
    search.save(0.0, dear=FEWER_SHARE, fastest=search.cycles())
    return {name: c.kernel for name, c in search.taken.items() if c.kernel != taken[name].kernel}


@dataclass(frozen=True)
class _Step:
    """A change of the choices of some nodes, with the bytes that it saves and the cycles that it costs."""

    change: Mapping[str, Choice]
    bytes: int
    cycles: float

    @property
    def worth(self) -> float:
        return self.bytes / max(self.cycles, 1e-9)


class _Search:
    """The state of the search: one legal choice for each node, at first the fastest. built: see footprint.BUILT."""

    def __init__(self, legal: Mapping[str, list[Choice]], built: float) -> None:
        self.built = built
        self.legal = {name: sorted(choices, key=lambda c: (c.cycles, c.kernel)) for name, choices in legal.items()}
        self.taken = {name: choices[0] for name, choices in self.legal.items()}
        self.fastest = self.cycles()

    def cycles(self) -> float:
        return _cycles(self.taken.values())

    def flash(self) -> int:
        """The bytes of constants and kernels."""
        return self._flash(self.taken.values())

    def _flash(self, choices: Iterable[Choice]) -> int:
        return sum(part.bytes for part in {part for c in choices for part in self._parts(c)})

    def _parts(self, choice: Choice) -> set[Part]:
        """What the choice needs of flash."""
        code, shared = (round(self.built * size) for size in (choice.code, choice.shared))
        return {Part(choice.function, code), Part(f"shared by {choice.kernel}", shared), *choice.arrays}

    def scratch(self) -> int:
        """The most bytes of RAM that a node needs while it runs."""
        return max((c.scratch for c in self.taken.values()), default=0)

    def save(self, share: float, dear: float = 0.0, limit: int | None = None, fastest: float | None = None) -> None:
        """Save flash for at most `share` more cycles than the fastest choices take, or `dear` if flash is dear, until
        the limit is met. fastest: the cycles to compare with, if they are others.
        """
        flash, cycles = self.flash(), self.cycles()
        base = self.fastest if fastest is None else fastest

        def allowed(step: _Step) -> bool:
            is_dear = step.bytes * cycles >= FLASH_RATE * step.cycles * flash
            return cycles + step.cycles <= base * (1 + (max(share, dear) if is_dear else share))

        while limit is None or flash > limit:
            steps = [step for step in self._steps() if allowed(step)]
            if not steps:
                return
            best = max(steps, key=lambda step: step.worth)
            self.taken = {**self.taken, **best.change}
            flash, cycles = flash - best.bytes, cycles + best.cycles

    def balance(self, most: float | None) -> None:
        """Save flash at a low cost, then dear flash, then make constants dense, at most `most` bytes, if that is worth
        its scratch.
        """
        start = dict(self.taken)
        self.save(FLASH_SHARE)
        cheap, flash, scratch = self.taken, self.flash(), self.scratch()
        self.taken = start
        self.save(FLASH_SHARE, dear=DEAR_SHARE)
        if most is not None:
            self.make_dense(most)
            self.save(FLASH_SHARE, fastest=self.cycles())
        if flash - self.flash() < RAM_RATE * (self.scratch() - scratch):
            self.taken = cheap

    def make_dense(self, most: float) -> None:
        """Give nodes smaller constants, each time where a saved byte costs the fewest cycles, until all constants take
        at most `most` bytes. Nothing is done if constants are less than half of the flash.
        """
        size, flash, cycles = _constants(self.taken.values()), self.flash(), self.cycles()
        if 2 * size < flash:
            return
        while size > most:
            worth = [s for s in self._steps() if s.bytes * cycles >= DENSE_RATE * s.cycles * flash]
            steps = [(step, fewer) for step in worth if (fewer := self._fewer(step.change)) > 0]
            if not steps:
                return
            best, fewer = max(steps, key=lambda step: step[1] / max(step[0].cycles, 1e-9))
            self.taken = {**self.taken, **best.change}
            size, flash, cycles = size - fewer, flash - best.bytes, cycles + best.cycles

    def _steps(self) -> list[_Step]:
        """The changes that save flash."""
        users = Counter(part for c in self.taken.values() for part in self._parts(c))
        steps = []
        for change in self._changes(users):
            more = sum(c.cycles - self.taken[name].cycles for name, c in change.items())
            steps.append(_Step(change, self._saved(change, users), more))
        return [step for step in steps if step.bytes > 0]

    def _fewer(self, change: Mapping[str, Choice]) -> int:
        """The bytes of constants that a change saves."""
        return _constants(self.taken.values()) - _constants({**self.taken, **change}.values())

    def _saved(self, change: Mapping[str, Choice], users: Mapping[Part, int]) -> int:
        """The bytes saved: those that are no longer used minus new ones."""
        moved: Counter[Part] = Counter(part for c in change.values() for part in self._parts(c))
        moved.subtract(part for name in change for part in self._parts(self.taken[name]))
        saved = 0
        for part, count in moved.items():
            before, after = users.get(part, 0) > 0, users.get(part, 0) + count > 0
            saved += part.bytes * (before - after)
        return saved

    def _changes(self, parts: Mapping[Part, int]) -> Iterable[dict[str, Choice]]:
        """All changes to try: to drop a kernel, to drop a function, or to give a node a kernel with smaller constants,
        or with those of another node. parts: how many nodes use each.
        """
        users: dict[str, set[str]] = {}
        for name, choice in self.taken.items():
            users.setdefault(choice.kernel, set()).add(name)
            users.setdefault(choice.function, set()).add(name)
        for dropped, names in users.items():
            others = {c.function for c in self.taken.values() if dropped not in (c.kernel, c.function)}
            for instead in (self._fastest, self._least_code, self._smaller):
                change = {name: instead(name, dropped, others) for name in sorted(names)}
                if all(change.values()):
                    yield {name: choice for name, choice in change.items() if choice is not None}
        for name, taken in self.taken.items():
            smaller = [c for c in self.legal[name] if c.constants < taken.constants]
            if smaller:
                yield {name: smaller[0]}
            shared = self._of_others(taken, parts)
            if shared is not None:
                yield {name: shared}

    def _of_others(self, taken: Choice, parts: Mapping[Part, int]) -> Choice | None:
        """The fastest choice for the same node that needs only constants which other nodes have, unless `taken` does."""
        own = {*taken.arrays}

        def is_shared(c: Choice) -> bool:
            return all(parts.get(part, 0) > (part in own) for part in c.arrays)

        return None if is_shared(taken) else next(filter(is_shared, self.legal[taken.node]), None)

    def _without(self, name: str, dropped: str) -> list[Choice]:
        return [c for c in self.legal[name] if dropped not in (c.kernel, c.function)]

    def _fastest(self, name: str, dropped: str, others: Set[str]) -> Choice | None:
        """The fastest choice without `dropped`."""
        return next(iter(self._without(name, dropped)), None)

    def _least_code(self, name: str, dropped: str, others: Set[str]) -> Choice | None:
        """The fastest choice without `dropped` whose function is among the others, which are used anyway; else the
        choice with the least code.
        """
        rest = self._without(name, dropped)
        return next((c for c in rest if c.function in others), min(rest, key=lambda c: c.code + c.shared, default=None))

    def _smaller(self, name: str, dropped: str, others: Set[str]) -> Choice | None:
        """The fastest choice without `dropped` that has smaller constants."""
        most = self.taken[name].constants
        return next((c for c in self._without(name, dropped) if c.constants < most), None)

    def smallest(self, ops: Mapping[str, str], limit: float) -> None:
        """Take the kernel with the least flash for each kernel-level op, and the smallest legal kernel for nodes that
        cannot use it.

        Then take larger kernels until the network takes at most `limit` times the cycles of the fastest choices.
        """
        ways: dict[str, list[dict[str, Choice]]] = {}
        for op in sorted({ops[name] for name in self.taken}):
            names = [name for name in self.taken if ops[name] == op]
            ways[op] = [self._one(names, k.symbol) for k in kernel_ops()[op].kernels]
            best = min(ways[op], key=lambda way: (self._flash(way.values()), _cycles(way.values())))
            self.taken |= best
        most = self.fastest * limit
        while self.cycles() > most:
            faster = [(way, *self._against(way)) for listed in ways.values() for way in listed]
            gains = [(flash / -cycles, i) for i, (_, cycles, flash) in enumerate(faster) if cycles < 0]
            if not gains:
                return
            self.taken.update(faster[min(gains)[1]][0])
        while change := self._less(ways, most):
            self.taken |= change

    def _one(self, names: Sequence[str], symbol: str) -> dict[str, Choice]:
        """`symbol` for the nodes for which it is legal, and the smallest kernel for the others."""
        found = {}
        for name in names:
            own = [c for c in self.legal[name] if c.kernel == symbol]
            found[name] = own[0] if own else min(self.legal[name], key=lambda c: c.code + c.shared + c.constants)
        return found

    def _less(self, ways: Mapping[str, Sequence[dict[str, Choice]]], most: float) -> dict[str, Choice]:
        """The change of one op that saves the most flash within this many cycles; {} if there is none."""
        changes = [(way, *self._against(way)) for listed in ways.values() for way in listed]
        fitting = [
            (flash, i) for i, (_, more, flash) in enumerate(changes) if flash < 0 and self.cycles() + more <= most
        ]
        return changes[min(fitting)[1]][0] if fitting else {}

    def _against(self, way: Mapping[str, Choice]) -> tuple[float, int]:
        """The cycles and bytes of these choices minus those of the current ones for the same nodes."""
        now = [self.taken[name] for name in way]
        return _cycles(way.values()) - _cycles(now), self._flash(way.values()) - self._flash(now)


def _constants(choices: Iterable[Choice]) -> int:
    """The bytes of constants; equal arrays count once."""
    return sum(part.bytes for part in {part for c in choices for part in c.arrays})


def _cycles(choices: Iterable[Choice]) -> float:
    return sum(c.cycles for c in choices)
