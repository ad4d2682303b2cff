"""Says what is missing on this computer. In: nothing, or targets. Out: Findings, and one line that installs the rest.

What is looked for comes from targets/*.toml and boards/*/board.toml: compilers with their C library, emulators,
disassemblers, programs that flash boards. Nothing is installed and nothing is changed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal

from serial.tools import list_ports

from glowembed.errors import ToolError
from glowembed.graph.target import Target, board_names, boards_of, load_board, load_target
from glowembed.measure import plugin
from glowembed.plan import placement
from glowembed.records import dataclass
from glowembed.run import flash

SCHEMA = 1
State = Literal["here", "missing", "optional"]
SEVERITY: tuple[State, ...] = ("here", "optional", "missing")
PATIENCE = 20.0
"""Seconds for a compiler to answer."""


@dataclass(frozen=True)
class Finding:
    """One item that is needed. state: `optional` is missing too, but only `wanted_for` needs it. packages: of Debian, that
    hold it. hint: what to do where no package helps.
    """

    name: str
    wanted_for: str
    state: State
    packages: tuple[str, ...] = ()
    hint: str = ""


@dataclass(frozen=True)
class Checkup:
    """All findings."""

    findings: tuple[Finding, ...]

    @property
    def complete(self) -> bool:
        """Whether nothing is missing but optional parts."""
        return all(finding.state != "missing" for finding in self.findings)

    @property
    def gravest_first(self) -> list[Finding]:
        """What is missing before what is here."""
        return sorted(self.findings, key=lambda finding: SEVERITY.index(finding.state), reverse=True)

    def install(self, optional: bool = False) -> str:
        """The one line that installs what is missing, or with `optional` those parts too; empty if there is nothing."""
        wanted = ("missing", "optional") if optional else ("missing",)
        packages = sorted({p for finding in self.findings if finding.state in wanted for p in finding.packages})
        return f"sudo apt-get install {' '.join(packages)}" if packages else ""

    def json(self) -> dict[str, Any]:
        """The machine-readable result."""
        findings = [{**asdict(finding), "packages": list(finding.packages)} for finding in self.findings]
        return {
            "schema": SCHEMA,
            "complete": self.complete,
            "install": self.install(),
            "install_all": self.install(optional=True),
            "findings": findings,
        }


def checkup(targets: Sequence[Target]) -> Checkup:
    """Look for everything that these targets need, each item once."""
    found: dict[str, Finding] = {}
    for finding in (
        *_python(),
        *(f for target in targets for f in _of_target(target)),
        *_of_boards(targets),
        *_ports(),
    ):
        known = found.get(finding.name, finding)
        users = dict.fromkeys([*known.wanted_for.split(", "), *finding.wanted_for.split(", ")])
        worse = finding if SEVERITY.index(finding.state) > SEVERITY.index(known.state) else known
        found[finding.name] = replace(worse, wanted_for=", ".join(users))
    return Checkup(tuple(found.values()))


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding(f"Python {version}", "glowembed", "here")
    here = importlib.util.find_spec("SCons") is not None
    yield Finding("SCons", "building firmware", "here" if here else "missing", hint="pip install scons")
    hint = "pip install 'glowembed[planner]'"
    yield Finding("OR-tools", "plans of the least RAM", "here" if placement.have_solver() else "optional", hint=hint)
    litert = importlib.util.find_spec("ai_edge_litert") is not None
    hint = "pip install 'glowembed[tflite]'"
    yield Finding("LiteRT", "reference of .tflite files", "here" if litert else "optional", hint=hint)


def _of_target(target: Target) -> Iterator[Finding]:
    packages = tuple(target.package.split())
    compiler = shutil.which(target.compiler)
    yield Finding(target.compiler, target.name, _state(compiler is not None), packages)
    library = compiler is not None and _has_library(compiler, target)
    yield Finding(f"C library of {target.compiler}", target.name, _state(library), packages)
    if target.emulator is not None:
        program = target.emulator.command[0]
        yield Finding(program, target.name, _state(shutil.which(program) is not None), (target.emulator.package,))
        yield _counting_plugin(program)
    if target.disassembler is not None:
        program, use = target.disassembler.command[0], "measure"
        here = shutil.which(program) is not None
        yield Finding(program, use, "here" if here else "optional", (target.disassembler.package,))


def _state(here: bool) -> State:
    return "here" if here else "missing"


def _has_library(compiler: str, target: Target) -> bool:
    """Whether the compiler finds the C library, with the flags of the target: it preprocesses a header of it."""
    flags = [flag for flag in target.cflags if flag.startswith(("-m", "--specs", "-specs", "-isystem", "--sysroot"))]
    try:
        done = subprocess.run(
            [compiler, *flags, "-E", "-x", "c", "-", "-o", os.devnull], input="#include <string.h>\n", text=True,
            capture_output=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _counting_plugin(emulator: str) -> Finding:
    """Cycles need a plugin, which is compiled on this computer, in an emulator that takes plugins."""
    name, use = f"counting plugin of {emulator}", "cycles"
    if shutil.which(emulator) is None:
        return Finding(name, use, "optional", hint=f"install {emulator} first")
    try:
        plugin.plugin(emulator)
    except ToolError as error:
        return Finding(name, use, "optional", (error.package,) if error.package else (), str(error))
    return Finding(name, use, "here")


def _of_boards(targets: Iterable[Target]) -> Iterator[Finding]:
    """The programs that flash real boards of these targets; no emulator needs them."""
    names = {board.name for target in targets for board in boards_of(target)}
    for board in (load_board(name) for name in board_names() if name in names):
        if board.flash is not None and board.flash.command[0] != flash.COPY:
            here = shutil.which(board.flash.command[0]) is not None
            use = f"flashing {board.name}"
            yield Finding(board.flash.command[0], use, "here" if here else "optional", hint=board.flash.install)


def _ports() -> Iterator[Finding]:
    """The serial ports that exist, and whether this user may open them."""
    for port in sorted(list_ports.comports(), key=lambda port: str(port.device)):
        may = os.access(port.device, os.R_OK | os.W_OK)
        hint = "" if may else "sudo usermod -aG dialout $USER, then log in again"
        yield Finding(port.device, "real boards", "here" if may else "optional", hint=hint)


def targets_named(names: Sequence[str]) -> list[Target]:
    """The targets of these names; of all targets with a board, if there are none."""
    known = {load_board(name).target for name in board_names()}
    return [load_target(name) for name in (names or sorted(known))]
