"""Runs one kernel on the host: compiles its C file, places tensors in an arena, calls it, and checks every byte that it
changed.

In: a KernelOp, one of its Kernels, params and arrays. Out: the output, or KernelFault if the kernel changed a byte that
it must not change. Any range of rows can be computed, rows may be scattered or in a ring, and the output may overlap an
input, as a memory plan may demand on a device. Nothing here knows models or bundles.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glowembed import resources
from glowembed.emit.csource import kernel_source, level_names, level_source, of_level
from glowembed.errors import ToolError
from glowembed.graph.cstruct import c_initialiser, ctypes_struct, numpy_type, params_header, struct_name
from glowembed.graph.ir import Array
from glowembed.graph.isa import Level
from glowembed.graph.op import Kernel, KernelOp
from glowembed.graph.registry import levels
from glowembed.records import dataclass
from glowembed.run import objects

ALIGN = 16
SLOT_UNIT = 4
"""GE_SLOT_UNIT of ge.h, and np.uint16 below is its ge_slot."""

HOST_WORD = 8
GUARD = 64
"""Bytes before and after every tensor that must not change."""

FLAGS = (
    "-std=c99",
    "-Og",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wconversion",
    "-Werror",
)
# Undefined behaviour stops the process at the instruction: no kernel may depend on it.
TRAP = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")


class KernelFault(AssertionError):
    """A kernel wrote where it must not. This is always a bug of the kernel or of its op file."""


@dataclass(frozen=True)
class Placement:
    """The byte offsets of the rows of a tensor in an arena, and whether the kernel finds them by a slot table."""

    offsets: tuple[int, ...]
    row_bytes: int
    slots: bool = False

    @property
    def end(self) -> int:
        return max(self.offsets) + self.row_bytes

    @property
    def stride(self) -> int:
        """The bytes from row to row, where there is no slot table."""
        return self.offsets[1] - self.offsets[0] if len(self.offsets) > 1 else self.row_bytes


def in_one_piece(offset: int, rows: int, row_bytes: int) -> Placement:
    """Rows one after another from `offset` on."""
    return Placement(tuple(offset + y * row_bytes for y in range(rows)), row_bytes)


def as_columns(offset: int, rows: int, row_bytes: int) -> Placement:
    """Rows that are the left half of longer rows, as a kernel sees the columns of a tile in a whole tensor."""
    return Placement(tuple(offset + y * 2 * row_bytes for y in range(rows)), row_bytes)


def in_slots(offset: int, order: Sequence[int], row_bytes: int) -> Placement:
    """Row y in slot order[y] of slots that begin at `offset`, with guard bytes between the slots."""
    pitch = _up(row_bytes + SLOT_UNIT, SLOT_UNIT)
    return Placement(tuple(offset + slot * pitch for slot in order), row_bytes, slots=True)


def _up(n: int, unit: int) -> int:
    return -(-n // unit) * unit


class Arena:
    """Host memory filled with noise, so that any change shows; it is aligned to a word of the host and no more."""

    def __init__(self, size: int, seed: int = 0) -> None:
        noise = _noise(size + 3 * GUARD, seed).copy()
        start = (HOST_WORD - noise.ctypes.data) % GUARD
        self.memory: NDArray[np.uint8] = noise[start : start + size + 2 * GUARD]

    def write(self, place: Placement, tensor: Array, rows: Sequence[int] | None = None) -> None:
        """Copy the rows (all of them by default) of a stored tensor to their places."""
        data = np.ascontiguousarray(tensor).view(np.uint8).reshape(len(place.offsets), place.row_bytes)
        for y in range(len(place.offsets)) if rows is None else rows:
            self.row(place, y)[:] = data[y]

    def read(self, place: Placement, dtype: Any) -> Array:
        """All rows of a tensor, flat."""
        return np.concatenate([self.row(place, y) for y in range(len(place.offsets))]).view(dtype)

    def row(self, place: Placement, y: int) -> NDArray[np.uint8]:
        start = GUARD + place.offsets[y]
        return self.memory[start : start + place.row_bytes]

    def address(self, offset: int) -> int:
        return int(self.memory.ctypes.data) + GUARD + offset


@lru_cache(256)
def _noise(size: int, seed: int) -> NDArray[np.uint8]:
    """Random bytes; arenas of one size begin with the same ones."""
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


class _Rows(ctypes.Structure):
    """The ge_rows of ge.h."""

    _fields_ = [("data", ctypes.c_void_p), ("slots", ctypes.c_void_p), ("stride", ctypes.c_int32)]


@dataclass(frozen=True)
class Invocation:
    """One call: memory that the kernel sees, by reference. `tables` are the slots of the placements that have some."""

    params: ctypes.Structure
    arena: Arena
    scratch: Arena
    places: tuple[Placement, ...]
    tables: tuple[NDArray[np.uint16] | None, ...]
    constants: tuple[Array, ...]
    rows: range

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(p.stride if t is None else 0 for p, t in zip(self.places, self.tables, strict=True))


@dataclass(frozen=True)
class HostKernel:
    """A compiled kernel. `execute` calls it, here or on an emulated core; `where` names the variant, for messages."""

    op: KernelOp[Any]
    kernel: Kernel
    execute: Callable[[Invocation], None]
    where: str = ""

    def run(
        self,
        arena: Arena,
        params: Any,
        inputs: Sequence[Placement],
        packed: Sequence[Array],
        output: Placement,
        rows: range,
    ) -> None:
        """Compute output rows `rows` in the arena. Raises KernelFault if any other byte changed.

        packed: `packed_constants`.
        """
        places = (*inputs, output)
        scratch = Arena(self.kernel.scratch(params))
        before = [arena.memory.copy(), scratch.memory.copy(), *(c.copy() for c in packed)]
        tables = tuple(_slot_table(p) for p in places)

        self.execute(Invocation(ctypes_struct(params), arena, scratch, places, tables, tuple(packed), rows))

        starts = (GUARD + output.offsets[y] for y in rows)
        self._unchanged(
            "the arena", before[0], arena.memory, (slice(start, start + output.row_bytes) for start in starts)
        )
        self._unchanged("the scratch memory", before[1], scratch.memory, (slice(GUARD, -GUARD),))
        for name, old, new in zip(self.kernel.ctypes(self.op), before[2:], packed, strict=True):
            self._unchanged(f"the constant {name}", old, new)

    def _unchanged(self, what: str, old: Array, new: Array, free: Iterable[slice] = ()) -> None:
        changed = old != new
        for part in free:
            changed[part] = False
        if changed.any():
            wrong = np.flatnonzero(changed)
            raise KernelFault(
                f"{self.kernel.symbol} changed {wrong.size} bytes of {what} outside its rows, first at {wrong[0]}"
            )


def packed_constants(op: KernelOp[Any], kernel: Kernel, constants: Mapping[str, Array], params: Any) -> list[Array]:
    """The constants in the form that the kernel reads, in the order of its signature. Raises KernelFault for a wrong
    type.
    """
    packed, types = kernel.packed(constants, params), kernel.ctypes(op)
    for name, ctype in types.items():
        if packed[name].dtype != numpy_type(ctype):
            raise KernelFault(f"{kernel.symbol}: the constant {name} is {packed[name].dtype}, declared as {ctype}")
    return [np.ascontiguousarray(packed[name]) for name in types]


def _slot_table(place: Placement) -> NDArray[np.uint16] | None:
    if not place.slots:
        return None
    base = min(place.offsets)
    return np.asarray([(offset - base) // SLOT_UNIT for offset in place.offsets], dtype=np.uint16)


def call(
    op: KernelOp[Any], kernel: Kernel, params: Any, inputs: Sequence[Array], constants: Mapping[str, Array], dtype: Any
) -> Array:
    """Compute the whole output, flat, from tensors in one piece each."""
    in_bytes, out_bytes = op.row_bytes(params)
    places, at = [], 0
    for tensor, row_bytes in zip(inputs, in_bytes, strict=True):
        places.append(in_one_piece(at, tensor.nbytes // row_bytes, row_bytes))
        at = _up(places[-1].end + GUARD, ALIGN)
    output = in_one_piece(at, op.rows(params), out_bytes)
    arena = Arena(output.end)
    for place, tensor in zip(places, inputs, strict=True):
        arena.write(place, tensor)
    packed = packed_constants(op, kernel, constants, params)
    load(op, kernel, params).run(arena, params, places, packed, output, range(op.rows(params)))
    return arena.read(output, dtype)


def variants(kernel: Kernel) -> tuple[Level | None, ...]:
    """The variants of a kernel that this host can execute: its levels, or None for a kernel without levels; empty if
    there are none.
    """
    if kernel.isa in levels():
        return tuple(level for level in levels()[kernel.isa] if level.cpu <= _cpu_flags())
    return () if kernel.isa else (None,)


@cache
def _cpu_flags() -> frozenset[str]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())


def _call(function: Any, number: int, i: Invocation) -> None:
    tensors = (_Rows * len(i.places))(
        *(
            _Rows(i.arena.address(min(place.offsets)), None if table is None else table.ctypes.data, stride)
            for place, table, stride in zip(i.places, i.tables, i.strides, strict=True)
        )
    )
    pointers = (ctypes.c_void_p * max(1, len(i.constants)))(*(c.ctypes.data for c in i.constants))
    function(number, ctypes.byref(i.params), tensors, pointers, i.rows.start, i.rows.stop, i.scratch.address(0))


def load(op: KernelOp[Any], kernel: Kernel, params: Any, level: Level | None = None) -> HostKernel:
    """Compile a kernel at one level. Raises ToolError if there is no compiler, or if it reports an error."""
    return load_levels(op, kernel, params, (level,))[0]


def load_levels(
    op: KernelOp[Any], kernel: Kernel, params: Any, levels: Sequence[Level | None]
) -> tuple[HostKernel, ...]:
    """Compile a kernel at these levels into one library (once per process). Raises ToolError as `load` does."""
    library = shared_library(wrapper(op, [kernel], params, levels), structs(op, [kernel], params))
    function = library.call
    function.argtypes = [ctypes.c_int32] + [ctypes.c_void_p] * 3 + [ctypes.c_int32] * 2 + [ctypes.c_void_p]
    function.restype = None
    return tuple(
        HostKernel(op, kernel, partial(_call, function, i), f"at level {level.word}" if level else "")
        for i, level in enumerate(levels)
    )


INCLUDES = '#include "ge.h"\n#include "ge_fixedpoint.h"\n#include "ge_params.h"\n'
"""The headers that the text of a kernel without a file needs."""


def wrapper(
    op: KernelOp[Any], kernels: Sequence[Kernel], params: Any, at: Sequence[Level | None] = (None,), known: bool = False
) -> str:
    """A C file with the kernels, as instances for these params if they have instances, and one `call` that selects a
    kernel by number.

    at: the levels of kernels that have some; their cases of `call` follow each other, each with all kernels. known: the
    kernels get these params as a constant, as in a bundle, so that the compiler knows the numbers.
    """
    texts = list(dict.fromkeys(text for kernel in kernels for text in _texts(kernel, params)))
    if some := [level for level in at if level is not None]:
        word = kernels[0].isa
        texts = [
            *level_names(word, levels()[word], texts),
            *(part for level in some for part in _at_level(word, level, texts)),
        ]
    struct = struct_name(op.params)
    signature = (
        f"void call(int32_t number, const {struct} *p, const ge_rows *tensors, const void *const *constants,\n"
        "          int32_t first_row, int32_t last_row, void *scratch)"
    )
    constant = f"static const {struct} known = {c_initialiser(params)};\n" if known else ""
    p = "&known" if known else "p"
    calls = (_call_text(op, kernel, params, level, p) for level in at for kernel in kernels)
    cases = "".join(f"    case {i}:\n        {text};\n        break;\n" for i, text in enumerate(calls))
    return (
        "\n".join(texts) + f"\n{constant}{signature};\n\n{signature} {{\n    (void)p;\n    (void)constants;\n"
        f"    switch (number) {{\n{cases}    default:\n        break;\n    }}\n}}\n"
    )


def _at_level(word: str, level: Level, texts: Sequence[str]) -> list[str]:
    """The kernels as those of one level. Their headers are included once more for the next one."""
    parts = level_source(word, level, texts)
    guards = {name for part in parts for name in _guards(part)}
    return [*parts, *(f"#undef {name}" for name in sorted(guards))]


@lru_cache(512)
def _guards(text: str) -> frozenset[str]:
    """The include guards of a text."""
    found = (line for line in text.splitlines() if line.startswith("#ifndef ") and line.endswith("_H"))
    return frozenset(line.removeprefix("#ifndef ") for line in found)


def structs(op: KernelOp[Any], kernels: Sequence[Kernel], params: Any) -> str:
    """A ge_params.h with the struct of the op, and those with which the kernels call others."""
    return params_header({op.params, *(kind for kernel in kernels for kind in _called_with(kernel, params))})


def _called_with(kernel: Kernel, params: Any) -> Iterator[type]:
    """The types of the params with which a kernel calls another one, which may call one too."""
    if kernel.inner is not None:
        for one in kernel.inner_params(params):
            yield from (type(one), *_called_with(kernel.inner, one))


def _texts(kernel: Kernel, params: Any) -> list[str]:
    """Its text and that of the kernel which it calls."""
    own = (INCLUDES if kernel.generated else "") + kernel_source(kernel, params)
    if kernel.inner is None:
        return [own]
    inner = {kernel.inner.symbol_for(one): one for one in kernel.inner_params(params)}
    return [*(text for one in inner.values() for text in _texts(kernel.inner, one)), own]


def _call_text(op: KernelOp[Any], kernel: Kernel, params: Any, level: Level | None, p: str) -> str:
    symbol = kernel.symbol_for(params)
    constants = [f"(const {ctype} *)constants[{i}]" for i, ctype in enumerate(kernel.ctypes(op).values())]
    *inputs, output = (f"&tensors[{i}]" for i in range(len(op.row_bytes(params)[0]) + 1))
    arguments = [p, *inputs, *constants, output, "first_row", "last_row", "scratch"]
    return f"{of_level(symbol, kernel.isa, level) if level else symbol}({', '.join(arguments)})"


@cache
def shared_library(source: str, params: str = "") -> ctypes.CDLL:
    """Compile a C file, with `params` as its ge_params.h, and load it into this process."""
    compiler, flags = _compiler(), (*FLAGS, *TRAP)

    def make(folder: Path) -> Path:
        (folder / "kernel.c").write_text(source, encoding="utf-8")
        (folder / "ge_params.h").write_text(params, encoding="utf-8")
        command = [
            compiler,
            *flags,
            *(_precompiled(compiler) if "ge_x86" in source else ()),
            *(f"-I{folder}" for folder in resources.kernel_folders()),
            "-I.",
            "-o",
            "kernel.so",
            "kernel.c",
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ToolError(f"the host compiler refused a kernel:\n{done.stderr}")
        return folder / "kernel.so"

    made_from = (objects.version(compiler), *flags, objects.tree(resources.runtime_c()), source, params)
    return ctypes.CDLL(str(objects.built(made_from, ".so", make)))


@cache
def _precompiled(compiler: str) -> tuple[str, ...]:
    """Flags that give gcc the header of all intrinsics of x86 precompiled: reading it takes longer than most kernels."""
    if Path(compiler).name != "gcc":
        return ()
    text = "#ifdef __x86_64__\n#include <immintrin.h>\n#endif\n"  # other computers have the kernels in portable C

    def make(folder: Path) -> Path:
        (folder / "x86.h").write_text(text, encoding="utf-8")
        subprocess.run([compiler, *FLAGS, *TRAP, "-x", "c-header", "x86.h", "-o", "x86.h.gch"], cwd=folder, check=True)
        return folder / "x86.h.gch"

    made = objects.built((objects.version(compiler), *FLAGS, *TRAP, text), ".h.gch", make)
    header = made.with_suffix("")
    if not header.exists():  # gcc reads it where it cannot use the precompiled one
        header.write_text(text, encoding="utf-8")
    return "-include", str(header)


def _compiler() -> str:
    for name in ("gcc", "clang"):
        if (found := shutil.which(name)) is not None:
            return found
    raise ToolError("no C compiler found", package="gcc")
