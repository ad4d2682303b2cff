"""Targets and boards. In: targets/NAME.toml, boards/NAME/board.toml. Out: frozen Target and Board.

A Target is a core and the flags that compile for it; its file may inherit another file and contain only what differs. A
Board is a target with memories, a UART and a way to run programs. No other part of the project knows a compiler flag or
an address. A file with a missing key, an unknown key or a value of the wrong type is refused; the error names the path
and the key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from glowembed import resources
from glowembed.errors import UsageError, unknown_name
from glowembed.files import documents
from glowembed.graph.external import External, external_of
from glowembed.records import dataclass

ARCHITECTURES = ("arm", "riscv", "x86")
PORTABLE = "portable"
"""The value of `compile --isa` for C99 only, without assembly and compiler extensions."""

INHERITED = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]{0,63}/){0,8}[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
"""Matches the name of a target that another inherits, which must lie beside it or in a folder below."""

PORTABLE_ALIGN = 8
"""Alignment of the arena that C99 can guarantee, by a union with uint64_t."""

UART_KINDS = ("cmsdk", "nrf51", "ns16550", "pl011", "stm32_dr", "stm32_tdr")
TRANSPORTS = ("semihosting", "serial")
FIRMWARES = (*TRANSPORTS, "mlperf")
"""The protocols that a firmware can be built for: glowembed's own over one of two transports, or that of the official
tool of MLPerf Tiny.
"""

INCLUDED = (".h", ".inc", ".ld", ".toml")
"""Suffixes of files that sources, linker scripts and targets include."""

COMMON = "{common}/"
"""The placeholder of boards/common in the sources of a board.toml."""

REGION = re.compile(r'REGION_ALIAS\("(\w+)",\s*(\w+)\)')
"""Matches a line of link.ld that says what a memory is for."""

EXTERNAL_KEYS = ("bandwidth", "burst", "cache")
"""The keys of a memory that describe its speed, besides wait_states and dma."""

FLASH_FORMATS = ("elf", "bin", "hex", "uf2")


@dataclass(frozen=True)
class Tool:
    """A program that a target needs besides its compiler: its command, and the Debian package that contains it."""

    command: tuple[str, ...]
    package: str


@dataclass(frozen=True)
class Target:
    """A core. `isa`: the ISA words of the kernels that it can run, best first. `cflags` and `ldflags` are complete."""

    name: str
    description: str
    cpu: str
    isa: tuple[str, ...]
    word_size: int
    """bytes of a pointer"""
    arena_align: int
    """the alignment, in bytes, that kernels may assume for the start of the arena, and to which offsets are rounded
    where it pays
    """
    has_fpu: bool
    architecture: str
    """the architecture whose instructions the harness uses (runtime_c/harness/<architecture>); one of ARCHITECTURES"""
    compiler: str
    package: str
    """Debian packages with the compiler and its C library"""
    cflags: tuple[str, ...]
    ldflags: tuple[str, ...]
    costs: Mapping[str, float]
    """figures for cost models; absent if there are no reliable ones"""
    weights: str = ""
    """a function of weights.py, or package.module:function, that chooses the types of weights; "": quantize's choice is
    kept
    """
    pipeline: str = ""
    """the timing model of measure/pipelines.py that turns executed instructions into cycles; "" if there is none"""
    emulator: Tool | None = None
    """QEMU for the boards of this target"""
    disassembler: Tool | None = None
    """objdump for the programs of this target"""
    levels: tuple[str, ...] = ()
    """the levels for which kernels are compiled, besides portable C; empty: all levels"""
    runs_on: str = ""
    """another target whose boards also execute this one's code; it is tested on them if it has no board of its own"""


@dataclass(frozen=True)
class Memory:
    """A contiguous memory. `kind`: flash (code and constants), ram, or tcm (RAM at the core). `wait_states`: cycles
    that an access waits at the board's clock; None if unknown. `external`: the speed of a slow memory outside the chip.
    """

    name: str
    start: int
    size: int
    kind: str
    wait_states: int | None = None
    external: External | None = None


@dataclass(frozen=True)
class Qemu:
    """How QEMU emulates this board. An instruction takes 2**icount_shift ns; a tick must not be longer."""

    machine: str
    args: tuple[str, ...]
    icount_shift: int


@dataclass(frozen=True)
class Uart:
    """The port that the harness talks through. `kind`: the driver, boards/common/uart_<kind>.h."""

    kind: str
    base: int
    clock_hz: int
    baud: int


@dataclass(frozen=True)
class Flash:
    """How firmware is written to a board. In `command`, {elf}, {bin}, {hex} or {uf2} stand for the file, {port} and
    {place} for how the board is reached, and the word {probe} for the words of `probe`, in which {probe} is the serial
    number of a debug probe.
    """

    command: tuple[str, ...]
    install: str
    """what the user can do if the tool is missing"""
    formats: tuple[str, ...]
    """the kinds of file that the command needs: elf, bin, hex, uf2"""
    probe: tuple[str, ...] = ()


@dataclass(frozen=True)
class Board:
    """A target with memories around it. `clock_hz` drives SysTick. `host` has no memories and no QEMU."""

    name: str
    description: str
    target: str
    default: bool
    """whether the target is tested on this board by default"""
    clock_hz: int
    stack_size: int
    memories: tuple[Memory, ...]
    qemu: Qemu | None
    uart: Uart | None
    flash: Flash | None
    sources: tuple[Path, ...]
    linker_script: Path | None
    folder: Path
    microjoules_per_megacycle: float = 0.0
    """the energy of a million cycles, for estimates; 0 if unknown"""

    @property
    def reference(self) -> str:
        """The argument of load_board for this board: its name, or the path of a folder outside boards/."""
        return str(self.name_or_folder)

    @property
    def elsewhere(self) -> list[Path]:
        """The files outside of the board's folder and of this package that board.toml names, and what such files may include."""
        target = [Path(self.target)] if self.target.endswith(".toml") else []
        named = [*self.sources, *target, *([self.linker_script] if self.linker_script else [])]
        own = (self.folder.resolve(), resources.boards().resolve())
        outside = {path for path in named if not any(path.is_relative_to(folder) for folder in own)}
        included = (path for folder in {path.parent for path in outside} for path in folder.iterdir())
        return sorted(outside | {path for path in included if path.suffix in INCLUDED and path.is_file()})

    @property
    def name_or_folder(self) -> str | Path:
        """The same with a path as such, so that a job takes the files of the board with it."""
        return self.name if self.folder.parent == resources.boards() else self.folder

    @property
    def transports(self) -> tuple[str, ...]:
        """The transports to this board, the default first."""
        return TRANSPORTS if self.qemu is not None else ("serial",)

    @property
    def firmwares(self) -> tuple[str, ...]:
        """The protocols for which a program for this board can be built, the default first."""
        return TRANSPORTS if self.name == "host" else (*self.transports, "mlperf")

    @property
    def regions(self) -> dict[str, str]:
        """The names of the memories that link.ld calls CODE, WEIGHTS, DATA and ARENA."""
        text = self.linker_script.read_text(encoding="utf-8") if self.linker_script is not None else ""
        return {role: name for role, name in REGION.findall(text) if name in {memory.name for memory in self.memories}}

    @property
    def slow_weights(self) -> Memory | None:
        """The memory that holds the weights, if it is a slow one."""
        name = self.regions.get("WEIGHTS")
        found = None if name is None else self.memory(name)
        return found if found is not None and found.external is not None else None

    def memory(self, name: str) -> Memory:
        """The memory of this name; raises KeyError if there is none."""
        return {memory.name: memory for memory in self.memories}[name]


def target_names() -> tuple[str, ...]:
    """The names of all targets, sorted."""
    return tuple(sorted(path.stem for path in resources.targets().glob("*.toml")))


def board_names() -> tuple[str, ...]:
    """The names of all boards, sorted."""
    return tuple(sorted(path.parent.name for path in resources.boards().glob("*/board.toml")))


@cache
def load_target(name: str) -> Target:
    """The target of this name, or that of a toml file if the name is a path that ends in .toml."""
    if name.endswith(".toml"):
        return read_target(Path(name).absolute())
    if name not in target_names():
        raise unknown_name("target", name, target_names())
    return read_target(resources.targets() / f"{name}.toml")


def with_isa(target: Target, isa: str | None) -> Target:
    """The target limited to these ISA words: `portable`, or several words separated by commas. None means all."""
    if isa is None:
        return target
    words = () if isa == PORTABLE else tuple(isa.split(","))
    for word in words:
        if word not in target.isa:
            raise unknown_name(f"instruction set of {target.name}", word, (PORTABLE, *target.isa))
    align = target.arena_align if words else min(target.arena_align, PORTABLE_ALIGN)
    return replace(target, isa=tuple(word for word in target.isa if word in words), arena_align=align)


@cache
def load_board(name: str | Path) -> Board:
    """The board of this name, or that of a folder with a board.toml if the name contains a slash."""
    name = str(name)
    if "/" in name:
        return read_board(Path(name).absolute() / "board.toml")
    if name not in board_names():
        raise unknown_name("board", name, board_names())
    return read_board(resources.boards() / name / "board.toml")


def default_board(target: str) -> Board:
    """The board on which a target is tested by default."""
    matching = boards_of(load_target(target))
    if not matching:
        raise UsageError(f"no board for target {target!r}; add a folder to boards/")
    return next((board for board in matching if board.default), matching[0])


def target_of(manifest: Mapping[str, Any], board: Board | None = None) -> Target:
    """The target that a bundle was compiled for.

    A bundle records no compiler and no flags, so that the author of a bundle cannot choose what runs here. A bundle for
    a target of the user's own is built with the target that the board names, or with the target in targets/ that runs
    the same code.
    """
    name = manifest["target"]
    if board is not None and (own := load_target(board.target)).name == name:
        return own
    return load_target(name if name in target_names() else manifest.get("runs_on") or name)


def runs(board: Board, target: Target) -> bool:
    """Whether the board executes the code of this target."""
    return load_target(board.target).name in (target.name, target.runs_on)


def boards_of(target: Target) -> list[Board]:
    """The boards that execute the code of this target, those with exactly this core first."""
    boards = [board for name in board_names() if runs(board := load_board(name), target)]
    return sorted(boards, key=lambda board: board.target != target.name)


def read_target(path: Path) -> Target:
    """Read a Target from a toml file."""
    table = _Table(path, "", _inherited(path))
    machine = table.strings("machine")
    target = Target(
        name=_file_name(table, path.stem),
        description=table.text("description"),
        cpu=table.text("cpu"),
        isa=table.words("isa", resources.kernel_cores()),
        word_size=table.integer("word_size", allowed=(4, 8)),
        arena_align=table.integer("arena_align", allowed=(4, 8, 16, 32, 64)),
        has_fpu=table.boolean("has_fpu"),
        architecture=table.text("architecture", allowed=ARCHITECTURES),
        compiler=table.text("compiler"),
        package=table.text("package"),
        cflags=machine + table.strings("cflags") + table.strings("warnings"),
        ldflags=machine + table.strings("ldflags"),
        costs=dict(table.numbers("costs")),
        weights=table.text("weights", default=""),
        pipeline=table.text("pipeline", default=""),
        runs_on=table.text("runs_on", default=""),
        emulator=_tool(table, "emulator"),
        disassembler=_tool(table, "disassembler"),
    )
    table.finish()
    return target


def _tool(table: _Table, key: str) -> Tool | None:
    inner = table.table(key)
    if inner is None:
        return None
    tool = Tool(inner.strings("command"), inner.text("package"))
    if not tool.command:
        raise inner.error("command", "is empty; expected the name of a program and its first words")
    inner.finish()
    return tool


def _inherited(path: Path, heirs: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The keys of the file and of those that it inherits. The nearest file wins, in tables key by key. Names are not
    inherited.
    """
    table = _Table.read(path)
    parent = table.text("inherits", default="")
    if not parent:
        return table.values
    if not INHERITED.fullmatch(parent):
        raise table.error(
            "inherits", f"is {parent!r}, which is not the name of a file beside this one or in a folder below it"
        )
    found = [
        f for folder in (path.parent, resources.targets()) if (f := (folder / f"{parent}.toml").resolve()).is_file()
    ]
    if not found or found[0] in (*heirs, path.resolve()):
        problem = "inherits from itself" if found else "names no file, neither beside this one nor in targets/"
        raise table.error("inherits", f"is {parent!r}, which {problem}")
    base = _inherited(found[0], (*heirs, path.resolve()))
    both = {
        k: {**base[k], **v} for k, v in table.values.items() if isinstance(v, dict) and isinstance(base.get(k), dict)
    }
    return {k: v for k, v in base.items() if k not in ("name", "description")} | table.values | both


def read_board(path: Path) -> Board:
    """Read a Board from a toml file; the paths in it are relative to its folder."""
    table = _Table.read(path)
    folder = path.parent
    script = table.text("linker_script", default="")
    board = Board(
        name=_file_name(table, folder.name),
        description=table.text("description"),
        target=_target_reference(table, folder),
        default=table.boolean("default", default=False),
        clock_hz=table.integer("clock_hz", default=0),
        stack_size=table.integer("stack_size", default=0),
        memories=tuple(_memory(entry) for entry in table.tables("memories")),
        qemu=_qemu(table),
        uart=_uart(table),
        flash=_flash(table),
        sources=tuple(_source(table, folder, name) for name in table.strings("sources")),
        linker_script=table.file(folder, script) if script else None,
        folder=folder,
        microjoules_per_megacycle=table.amount("microjoules_per_megacycle"),
    )
    table.finish()
    return board


def _target_reference(table: _Table, folder: Path) -> str:
    """The name of a target, or the path of a toml file, which is relative to the folder of the board."""
    name = table.text("target")
    return str(table.file(folder, name)) if name.endswith(".toml") else name


def _source(table: _Table, folder: Path, name: str) -> Path:
    """The path of a C file of the board or, after {common}/, of one that all boards share."""
    shared = name.removeprefix(COMMON)
    return table.file(folder, name) if shared == name else table.file(resources.boards() / "common", shared)


def _file_name(table: _Table, expected: str) -> str:
    name = table.text("name")
    if name != expected:
        raise table.error("name", f"is {name!r}, but the file is that of {expected!r}")
    return name


def _memory(table: _Table) -> Memory:
    memory = Memory(
        name=table.text("name"),
        start=table.integer("start"),
        size=table.integer("size"),
        kind=table.text("kind", allowed=("flash", "ram", "tcm")),
        wait_states=(wait_states := table.given("wait_states")),
        external=_external(table, wait_states),
    )
    table.finish()
    return memory


def _external(table: _Table, wait_states: int | None) -> External | None:
    """The speed of a memory that has a bandwidth; raises UsageError that names a key that is wrong."""
    keys = {"wait_states": wait_states, **{key: table.given(key) for key in EXTERNAL_KEYS}}
    dma = table.boolean("dma") if "dma" in table.values else None
    return external_of({**keys, "dma": dma}, table.error)


def _qemu(table: _Table) -> Qemu | None:
    inner = table.table("qemu")
    if inner is None:
        return None
    qemu = Qemu(
        machine=inner.text("machine"),
        args=inner.strings("args"),
        icount_shift=inner.integer("icount_shift", allowed=tuple(range(1, 11))),
    )
    inner.finish()
    return qemu


def _uart(table: _Table) -> Uart | None:
    inner = table.table("uart")
    if inner is None:
        return None
    uart = Uart(
        kind=inner.text("kind", allowed=UART_KINDS),
        base=inner.integer("base"),
        clock_hz=inner.integer("clock_hz"),
        baud=inner.integer("baud", default=115200),
    )
    inner.finish()
    return uart


def _flash(table: _Table) -> Flash | None:
    inner = table.table("flash")
    if inner is None:
        return None
    command = inner.strings("command")
    probe = inner.strings("probe") if "probe" in inner.values else ()
    kinds = tuple(kind for kind in FLASH_FORMATS if any("{" + kind + "}" in word for word in command))
    flash = Flash(command, inner.text("install"), kinds, probe)
    if not kinds:
        raise inner.error("command", f"names no file: one of {', '.join('{' + kind + '}' for kind in FLASH_FORMATS)}")
    if probe and "{probe}" not in command:
        raise inner.error("command", "has no word {probe}, which stands for the words of `probe`")
    inner.finish()
    return flash


class _Table:
    """Reads a toml table: every key is read once, with its type, and keys that nobody read are refused."""

    def __init__(self, path: Path, prefix: str, values: dict[str, Any]) -> None:
        self.path, self.prefix, self.values = path, prefix, dict(values)

    @classmethod
    def read(cls, path: Path) -> _Table:
        return cls(path, "", documents.read_toml(path))

    def error(self, key: str, problem: str) -> UsageError:
        return UsageError(f"{self.path}: {self.prefix}{key} {problem}")

    def take(self, key: str, kind: type, default: Any) -> Any:
        if key not in self.values and default is not None:
            return default
        value = self.values.pop(key, None)
        if type(value) is not kind:
            found = "is missing" if value is None else f"is {value!r}"
            raise self.error(key, f"{found}; expected a value of type {kind.__name__}")
        return value

    def text(self, key: str, allowed: tuple[str, ...] = (), default: str | None = None) -> str:
        value: str = self.take(key, str, default)
        if allowed and value not in allowed:
            raise self.error(key, f"is {value!r}; allowed: {', '.join(allowed)}")
        return value

    def integer(self, key: str, allowed: tuple[int, ...] = (), default: int | None = None) -> int:
        value: int = self.take(key, int, default)
        if value < 0 or (allowed and value not in allowed):
            choices = ", ".join(map(str, allowed)) or "0 and more"
            raise self.error(key, f"is {value}; allowed: {choices}")
        return value

    def given(self, key: str) -> int | None:
        """An integer that need not be there."""
        return self.integer(key) if key in self.values else None

    def amount(self, key: str) -> float:
        """A number that is not negative; 0 if the key is absent."""
        value: float = self.take(key, int if type(self.values.get(key)) is int else float, 0.0)
        if not 0 <= value < inf:
            raise self.error(key, f"is {value}; allowed: 0 and more")
        return float(value)

    def boolean(self, key: str, default: bool | None = None) -> bool:
        value: bool = self.take(key, bool, default)
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        value = self.take(key, list, None)
        if not all(isinstance(item, str) for item in value):
            raise self.error(key, f"is {value!r}; expected a list of strings")
        return tuple(value)

    def words(self, key: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
        words = self.strings(key)
        for word in words:
            if word not in allowed:
                raise self.error(key, f"holds {word!r}; allowed: {', '.join(allowed)}")
        return words

    def numbers(self, key: str) -> dict[str, float]:
        value: dict[str, Any] = self.take(key, dict, {})
        if not all(isinstance(item, int | float) for item in value.values()):
            raise self.error(key, "holds something that is not a number")
        return {name: float(item) for name, item in value.items()}

    def table(self, key: str) -> _Table | None:
        value: dict[str, Any] = self.take(key, dict, {})
        return _Table(self.path, f"{self.prefix}{key}.", value) if value else None

    def tables(self, key: str) -> list[_Table]:
        entries = self.take(key, list, None) if key in self.values else []
        if not all(isinstance(entry, dict) for entry in entries):
            raise self.error(key, "is not a list of tables")
        return [_Table(self.path, f"{self.prefix}{key}[{i}].", entry) for i, entry in enumerate(entries)]

    def file(self, folder: Path, name: str) -> Path:
        path = (folder / name).resolve()
        if not path.is_file():
            raise UsageError(f"{self.path}: names the file {name}, which does not exist")
        return path

    def finish(self) -> None:
        for key in sorted(self.values):
            raise self.error(key, "is not a key that we know")
