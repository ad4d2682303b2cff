"""Measures a bundle, or takes what an earlier run has measured from a store. In: a Bundle, a board, what is asked. Out: a Measurement.

A measurement is kept under the hash of all that it depends on: the bundle, the board, the tools, glowembed. One without cycles, because
something is not installed, is not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import Any

from glowembed.graph.clock import clock_of, microjoules
from glowembed.graph.target import Board, target_of
from glowembed.image.bundles import Bundle
from glowembed.jobs import identity
from glowembed.jobs.store import Record, Store
from glowembed.judge.farm import words_of
from glowembed.judge.regress import names_of
from glowembed.judge.slicing import measured_slices
from glowembed.judge.validation import build_bundle, measure_bundle
from glowembed.measure import Figures, HotSpot, Measurement, Ruler, mca, noise
from glowembed.measure.measurement import HotLine, SlowLoads, check_ruler
from glowembed.measure.pipelines import Cycles
from glowembed.progress import SILENT, Progress
from glowembed.records import dataclass
from glowembed.version import VERSION

KIND = "measure"
"""The kind of the records in a store."""


@dataclass(frozen=True)
class Asked:
    """What is asked: the number of random inputs, that of hot spots, what gives the cycles, and the clock."""

    samples: int = 1
    hot: int = 0
    ruler: Ruler = "table"
    clock_hz: int | None = None


def measured(
    bundle: Bundle,
    board: Board,
    asked: Asked,
    store: Store,
    build_dir: Path | None = None,
    progress: Progress = SILENT,
) -> Measurement:
    """The measurement of a bundle on an emulated board. Raises what building and measuring raise."""
    record = _record(bundle, board, asked)
    kept = store.get(KIND, record.key)
    if kept is not None:
        with suppress(TypeError, KeyError):  # of a version with other figures
            return _restored(kept, bundle.manifest)
    with progress.stage("build"):
        image = build_bundle(bundle, board.reference, build_dir)
    with progress.stage("measure"):
        inputs = noise(bundle.manifest, asked.samples)
        found = measure_bundle(bundle, image, inputs, asked.hot, asked.ruler, asked.clock_hz)
        slices = measured_slices(bundle, image, noise(bundle.manifest), asked.ruler)
    energy = microjoules(found.total.cycles.point if found.total.cycles else None, board)
    found = replace(found, clock_hz=asked.clock_hz, slices=slices, microjoules=energy)
    if found.note is None:
        store.put(replace(record, result=asdict(replace(found, manifest={}))))
    return found


def _record(bundle: Bundle, board: Board, asked: Asked) -> Record:
    """The hash of all that the measurement depends on, and the same for people. Raises what `check_ruler` raises."""
    target = target_of(bundle.manifest, board)
    check_ruler(asked.ruler, target)
    tools = [tool.command[0] for tool in (target.emulator, target.disassembler) if tool is not None]
    tools = [target.compiler, *tools, *([mca.command()] if asked.ruler == "llvm-mca" else [])]
    words = [*identity.software().values(), *map(identity.version_of, tools)]
    words += [identity.of_path(bundle.path), *words_of(board), repr(target), *map(str, astuple(asked))]
    model = bundle.model_path or bundle.path / bundle.manifest["model"]["file"]
    about: dict[str, Any] = {"model": names_of([model])[0], "target": target.name, "board": board.name}
    usual = Asked(clock_hz=clock_of(board, None))
    changed = [f"{name} {value}" for name, value in asdict(asked).items() if value != getattr(usual, name)]
    about |= {"setting": ", ".join(changed), "bundle_hash": bundle.manifest["hash"], **asdict(asked)}
    about |= {"version": VERSION, "commit": identity.commit()}
    return Record(KIND, identity.of_words(words), about, {})


def _restored(kept: Mapping[str, Any], manifest: Mapping[str, Any]) -> Measurement:
    """The measurement of which the store has the fields. Raises TypeError or KeyError if they are others."""
    slow = kept["slow"]
    return Measurement(
        **{
            **kept,
            "manifest": manifest,
            "total": _figures(kept["total"]),
            **{name: tuple(map(_figures, kept[name])) for name in ("layers", "functions", "slices")},
            "hot": tuple(_hot_spot(**spot) for spot in kept["hot"]),
            "slow": None if slow is None else SlowLoads(**{**slow, "functions": tuple(map(tuple, slow["functions"]))}),
        }
    )


def _figures(kept: Mapping[str, Any]) -> Figures:
    return Figures(**{**kept, "cycles": None if kept["cycles"] is None else Cycles(**kept["cycles"])})


def _hot_spot(function: str, share: float, lines: Iterable[Mapping[str, Any]]) -> HotSpot:
    return HotSpot(function, share, tuple(HotLine(**line) for line in lines))
