"""Measures what a bundle costs on a core, without hardware. In: an Image, its manifest, samples. Out: a Measurement.

QEMU runs the firmware with the counting plugin (runtime_c/plugin) and also counts instructions itself; if the two
counts differ, the measurement is refused. A pipeline model then turns the counts into cycles. Without the plugin, the
result has QEMU's own counts and no cycles, and says why.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from glowembed.errors import ToolError, UsageError
from glowembed.graph.clock import milliseconds
from glowembed.graph.target import Memory, Target, target_of
from glowembed.image import glue
from glowembed.image.build import Image
from glowembed.measure import counts, listing, mca, pipelines
from glowembed.measure.counts import Phase
from glowembed.measure.listing import Listing
from glowembed.measure.pipelines import Cycles, Price
from glowembed.measure.plugin import plugin
from glowembed.records import dataclass
from glowembed.run import Bytes, qemu

SCHEMA = 1

Ruler = Literal["table", "llvm-mca"]
"""The model that turns instructions into cycles: the tables of pipelines.py, or LLVM's description of the core
(mca.py).
"""

INTERRUPT = "ge_tick_handler"
SEED = 4


@dataclass(frozen=True)
class Figures:
    """The figures of a layer, a function or a whole inference. cycles is None if only instructions are known."""

    name: str
    instructions: int
    cycles: Cycles | None = None

    def json(self) -> dict[str, Any]:
        c = self.cycles
        return {
            "name": self.name,
            "instructions": self.instructions,
            "cycles_estimate": None if c is None else round(c.point),
            "cycles_range": None if c is None else [round(c.low), round(c.high)],
        }


@dataclass(frozen=True)
class HotLine:
    """One instruction: how often it ran, and the mean cost of one execution."""

    address: int
    text: str
    times: int
    cycles: float


@dataclass(frozen=True)
class HotSpot:
    """Consecutive instructions that are executed equally often; `share`: of all cycles."""

    function: str
    share: float
    lines: tuple[HotLine, ...]


@dataclass(frozen=True)
class SlowLoads:
    """What an inference read from the slow memory that holds the weights. cycles: that the core waited, by the bandwidth and the wait
    states of the board, without its cache; they are part of all cycles. functions: the bytes that each of them read, most first.
    """

    memory: str
    loads: int
    bytes: int
    cycles: float
    functions: tuple[tuple[str, int], ...]

    def json(self) -> dict[str, Any]:
        """The machine-readable form."""
        functions = [{"name": name, "bytes": size} for name, size in self.functions]
        found = {"memory": self.memory, "loads": self.loads, "bytes": self.bytes}
        return {**found, "wait_cycles_estimate": round(self.cycles), "functions": functions}


@dataclass(frozen=True)
class _Slow:
    """The slow memory of the weights and the clock of the core."""

    memory: Memory
    clock_hz: int

    def waits(self, block: counts.Block) -> float:
        """The cycles that all executions of a block wait."""
        external = self.memory.external
        assert external is not None
        return block.slow_loads * external.wait_states + block.slow_bytes * self.clock_hz / external.bandwidth

    def loads(self, phase: Phase, code: Listing) -> SlowLoads:
        """What a phase read."""
        by_function: dict[str, int] = {}
        for block in phase:
            name = code.function_at(block.instructions[0].address)
            by_function[name] = by_function.get(name, 0) + block.slow_bytes
        functions = sorted(((name, size) for name, size in by_function.items() if size), key=lambda f: (-f[1], f[0]))
        loads, size = sum(b.slow_loads for b in phase), sum(b.slow_bytes for b in phase)
        return SlowLoads(self.memory.name, loads, size, sum(map(self.waits, phase)), tuple(functions))


@dataclass(frozen=True)
class Measurement:
    """The result. note: why there are no cycles. build_id: the hash of the firmware that was counted. ruler: the model
    that the cycles come from.
    """

    bundle: str
    target: str
    board: str
    build_id: str
    samples: int
    total: Figures
    layers: tuple[Figures, ...]
    functions: tuple[Figures, ...]
    hot: tuple[HotSpot, ...]
    manifest: Mapping[str, Any]
    note: str | None = None
    ruler: Ruler = "table"
    clock_hz: int | None = None
    """the clock from which milliseconds are computed"""
    slices: tuple[Figures, ...] = ()
    microjoules: float | None = None
    """the estimated energy of an inference"""
    slow: SlowLoads | None = None

    @property
    def milliseconds(self) -> float | None:
        """The estimated time of an inference at the clock."""
        return milliseconds(self.total.cycles.point if self.total.cycles else None, self.clock_hz)

    def json(self) -> dict[str, Any]:
        """The machine-readable result."""
        keys = ("op", "kernel", "macs")
        total = self.total.json()
        rows = zip(self.manifest["layers"], self.layers, strict=True)
        return {
            "schema": SCHEMA,
            "bundle": self.bundle,
            "bundle_hash": self.manifest["hash"],
            "target": self.target,
            "board": self.board,
            "build_id": self.build_id,
            "samples": self.samples,
            "method": "icount" if self.note else "plugin",
            "ruler": self.ruler,
            "note": self.note,
            "macs": self.manifest.get("macs"),
            **{key: value for key, value in total.items() if key != "name"},
            "clock_hz": self.clock_hz,
            "milliseconds": self.milliseconds,
            "microjoules": self.microjoules,
            "layers": [{**found.json(), **{k: layer.get(k) for k in keys}} for layer, found in rows],
            "functions": [function.json() for function in self.functions],
            **({"slices": [one.json() for one in self.slices]} if self.slices else {}),
            **({"slow_memory": self.slow.json()} if self.slow is not None else {}),
        }


def noise(manifest: Mapping[str, Any], count: int = 1) -> Bytes:
    """Random inputs, the same every time: bytes for integers, a normal distribution for floats."""
    random = np.random.default_rng(SEED)
    parts = [_noise(random, tensor, count) for tensor in manifest["inputs"]]
    return np.concatenate(parts, axis=1)


def _noise(random: np.random.Generator, tensor: Mapping[str, Any], count: int) -> Bytes:
    size = int(tensor["bytes"])
    if tensor["dtype"] == "float32":
        return random.standard_normal((count, size // 4), np.float32).view(np.uint8)
    return random.integers(0, 256, (count, size), np.uint8)


def measure(
    image: Image,
    manifest: Mapping[str, Any],
    samples: Bytes,
    hot: int = 0,
    ruler: Ruler = "table",
    clock_hz: int | None = None,
) -> Measurement:
    """Measure every layer and function on the samples, and report the costliest sample. hot: the number of hot spots.
    ruler: the model that turns instructions into cycles. clock_hz: if it is not that of the board; it matters for boards
    whose weights lie in slow memory. Raises ToolError if the ruler is not installed or does not know the core.
    """
    target = target_of(manifest, image.board)
    check_ruler(ruler, target)
    try:
        if not target.pipeline:
            raise ToolError(f"targets/{target.name}.toml names no pipeline")
        library = plugin(qemu.emulator(target).command[0])
        code = listing.read(image.elf, target)
    except ToolError as error:
        return _only_instructions(image, manifest, samples, str(error))
    with tempfile.TemporaryDirectory(prefix="glowembed-") as folder:
        memory = image.board.slow_weights
        slow = None if memory is None else _Slow(memory, clock_hz or image.board.clock_hz)
        profiler = _Profiler(image, manifest, samples, library, code, Path(folder), slow)
        whole, layers = profiler.phases(layers=False), profiler.phases(layers=True)
    return _measurement(image, manifest, target, code, whole, layers, hot, ruler, slow)


def check_ruler(ruler: Ruler, target: Target) -> None:
    """Raise UsageError if the ruler does not know the core, and ToolError if it is not installed."""
    if ruler == "table":
        return
    known = sorted(name for name, core in pipelines.PIPELINES.items() if core.llvm is not None)
    if target.pipeline not in known:
        raise UsageError(
            f"--ruler llvm-mca does not know {target.name}; it knows {', '.join(known)}. Measure with --ruler table."
        )
    mca.command()


def _only_instructions(image: Image, manifest: Mapping[str, Any], samples: Bytes, why: str) -> Measurement:
    whole, parts = qemu.run(image, manifest, samples), qemu.run(image, manifest, samples, layers=True)
    assert whole.instructions is not None, "QEMU counts"
    assert parts.layer_instructions is not None, "QEMU counts layers"
    layers = zip(manifest["layers"], parts.layer_instructions, strict=True)
    return Measurement(
        manifest["name"],
        manifest["target"],
        image.board.name,
        listing.build_id(image.elf),
        len(samples),
        Figures("", whole.instructions),
        tuple(Figures(layer["name"], count) for layer, count in layers),
        (),
        (),
        manifest,
        f"instructions by QEMU alone, no cycles: {why}",
    )


@dataclass(frozen=True)
class _Profiler:
    """Runs a firmware under the plugin."""

    image: Image
    manifest: Mapping[str, Any]
    samples: Bytes
    plugin: Path
    code: Listing
    folder: Path
    slow: _Slow | None

    def phases(self, layers: bool) -> list[list[Phase]]:
        """The phases as [sample][layer], or [sample][0] for whole runs, checked against the instructions that QEMU
        counts.
        """
        out = self.folder / ("layers" if layers else "whole")
        result = qemu.run(self.image, self.manifest, self.samples, layers=layers, plugin=self._option(out, layers))
        if listing.build_id(self.image.elf) != self.code.build_id:
            raise ToolError(f"{self.image.elf} has changed while it was measured; measure again")
        found = counts.read(out, self.code, without=INTERRUPT)
        each = len(self.manifest["layers"]) if layers else 1
        rows = [list(found[start : start + each]) for start in range(0, len(found), each)]
        expected = result.layer_instructions if layers else (result.instructions,)
        _check_equal(rows, expected or (), len(self.samples))
        return rows

    def _option(self, out: Path, layers: bool) -> str:
        harness = "ge_measure_layer" if layers else "ge_measure_run"
        entry = glue.entries(self.manifest)[layers]
        words = {
            "out": str(out).replace(",", ",,"),
            "arm": f"{self.code.function(harness).start:x}",
            "begin": f"{self.code.function(entry).start:x}",
            "end": f"{_return_address(self.code, harness):x}",
        }
        if self.slow is not None:
            start = self.slow.memory.start
            words |= {"slow": f"{start:x}", "slow_end": f"{start + self.slow.memory.size:x}"}
        return ",".join([str(self.plugin).replace(",", ",,"), *(f"{key}={value}" for key, value in words.items())])


def _return_address(code: Listing, function: str) -> int:
    """The address to which the one call through a pointer in the function returns."""
    calls = [i for i in code.body(function) if i.mnemonic == "blx" and not i.operands.split()[-1].endswith(">")]
    assert len(calls) == 1, f"{function} calls one pointer, found {len(calls)}"
    return calls[0].next


def _check_equal(rows: Sequence[Sequence[Phase]], expected: Sequence[int | None], samples: int) -> None:
    if len(rows) != samples or any(len(row) != len(expected) for row in rows):
        raise ToolError(f"instruction count mismatch: {len(rows)} runs were profiled, {samples} were made")
    for index, count in enumerate(expected):
        found = max(counts.instructions(row[index]) for row in rows)
        if found != count:
            raise ToolError(
                f"instruction count mismatch in phase {index}: the plugin says {found}, QEMU {count}. "
                "The profile cannot be trusted; please report it with the version of QEMU."
            )


def _measurement(
    image: Image,
    manifest: Mapping[str, Any],
    target: Target,
    code: Listing,
    whole: Sequence[Sequence[Phase]],
    layers: Sequence[Sequence[Phase]],
    hot: int,
    ruler: Ruler,
    slow: _Slow | None,
) -> Measurement:
    price = _price(ruler, target, [block for row in (*whole, *layers) for phase in row for block in phase])
    price = price if slow is None else _with_waits(price, slow)
    costliest = max((row[0] for row in whole), key=counts.instructions)
    names = [layer["name"] for layer in manifest["layers"]]
    columns = zip(names, zip(*layers, strict=True), strict=True)
    return Measurement(
        manifest["name"],
        target.name,
        image.board.name,
        code.build_id,
        len(whole),
        _figures("", costliest, price),
        tuple(_worst([_figures(name, phase, price) for phase in column]) for name, column in columns),
        _functions(costliest, code, price),
        _hot_spots(costliest, code, price)[:hot],
        manifest,
        ruler=ruler,
        slow=None if slow is None else slow.loads(costliest, code),
    )


def _with_waits(price: Price, slow: _Slow) -> Price:
    """The prices with what each block waits for slow memory, which its last instruction stands for."""

    def waiting(block: counts.Block) -> list[Cycles]:
        *others, last = price(block)
        return [*others, last + Cycles(*[slow.waits(block)] * 3)]

    return waiting


def _price(ruler: Ruler, target: Target, blocks: Sequence[counts.Block]) -> Price:
    core = pipelines.pipeline(target.pipeline)
    if ruler == "table":
        return lambda block: pipelines.cycles(block, core)
    assert core.llvm is not None, "measure has checked it"
    return mca.price(blocks, core.llvm)


def _figures(name: str, phase: Iterable[counts.Block], price: Price) -> Figures:
    blocks = tuple(phase)
    total = sum((c for block in blocks for c in price(block)), Cycles())
    return Figures(name, counts.instructions(blocks), total)


def _worst(figures: Sequence[Figures]) -> Figures:
    return max(figures, key=lambda f: f.instructions)


def _functions(phase: Phase, code: Listing, price: Price) -> tuple[Figures, ...]:
    """The functions, sorted by cycles, the costliest first."""
    groups: dict[str, list[counts.Block]] = {}
    for block in phase:
        groups.setdefault(code.function_at(block.instructions[0].address), []).append(block)
    found = [_figures(name, blocks, price) for name, blocks in groups.items()]
    return tuple(sorted(found, key=lambda f: (-(f.cycles or Cycles()).point, f.name)))


def _hot_spots(phase: Phase, code: Listing, price: Price) -> tuple[HotSpot, ...]:
    """All sequences of code, sorted by cycles, the costliest first."""
    lines = _lines(phase, price)
    total = sum(line.cycles * line.times for line in lines) or 1.0
    stretches: list[list[HotLine]] = []
    for line in lines:
        last = stretches[-1][-1] if stretches else None
        follows = last is not None and code.instructions[last.address].next == line.address
        if follows and last is not None and last.times == line.times:
            stretches[-1].append(line)
        else:
            stretches.append([line])
    spots = [
        HotSpot(code.function_at(s[0].address), sum(x.cycles * x.times for x in s) / total, tuple(s)) for s in stretches
    ]
    return tuple(sorted(spots, key=lambda spot: (-spot.share, spot.lines[0].address)))


def _lines(phase: Phase, price: Price) -> list[HotLine]:
    """Every instruction that was executed, in the order of addresses. Blocks may overlap."""
    times: dict[int, int] = {}
    cost: dict[int, float] = {}
    text: dict[int, str] = {}
    for block in phase:
        for instruction, c in zip(block.instructions, price(block), strict=True):
            at = instruction.address
            times[at] = times.get(at, 0) + block.times
            cost[at] = cost.get(at, 0.0) + c.point
            text[at] = instruction.text
    return [HotLine(at, text[at], times[at], cost[at] / times[at]) for at in sorted(times)]
