"""Every operation of loop nests, on every type: the bits of the C are those of the numpy reference.

One C file holds a program for each case, so that the compiler runs once; inputs are all pairs of special numbers.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from glowembed import resources
from glowembed.nest import ctext, functions, interpret
from glowembed.nest.dtypes import COMPUTED, NIBBLES, SMALL_FLOATS, is_float, is_unsigned, limits, numpy_type
from glowembed.nest.expr import (
    COMPARISONS,
    Expr,
    binary,
    bits_of,
    call,
    clamp,
    maximum,
    minimum,
    to_index,
    unary,
    where,
    within,
)
from glowembed.nest.program import Program, Recorder, Tensor

FLOATS = ("float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
NUMBERS = (*FLOATS, *SIGNED, *UNSIGNED)

SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, 3.0, -7.25, 127.5, 128.0, -129.0, 255.9, 32768.0, 65536.0, 8388607.5,
    1e-45, -1e-40, 1.1754944e-38, 2.0**31, -(2.0**31), 2.0**32, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 3.4028235e38,
    np.inf, -np.inf, np.nan, 0.1, 3.14159274, 88.7, -104.5, 1e10,
]  # fmt: skip


def numbers(kind: str) -> Any:
    """The special numbers of a type, and the ends of its range."""
    if is_float(kind):
        with np.errstate(over="ignore"):
            return np.array(SPECIAL, kind)
    if kind == "bool":
        return np.array([False, True])
    low, high = limits(kind)
    wanted = [
        low,
        low + 1,
        high,
        high - 1,
        0,
        1,
        2,
        3,
        7,
        8,
        31,
        63,
        64,
        100,
        *(() if low == 0 else (-1, -2, -3, -8, -100)),
    ]
    return np.array([v for v in wanted if low <= v <= high], kind)


@dataclass(frozen=True)
class Case:
    """One operation on operands of given types; it is computed for all pairs of special numbers."""

    name: str
    kinds: tuple[str, ...]
    dtype: str
    make: Callable[..., Expr]

    @property
    def inputs(self) -> list[Any]:
        grids = np.meshgrid(*(numbers(k) for k in self.kinds), indexing="ij")
        return [np.ascontiguousarray(g.reshape(-1)) for g in grids]

    @property
    def program(self) -> Program:
        arrays = self.inputs
        tensors = [Tensor(f"x{i}", a.shape, k) for i, (a, k) in enumerate(zip(arrays, self.kinds, strict=True))]
        y, k = Tensor("y0", arrays[0].shape, self.dtype), Recorder()
        with k.each(y.shape) as at:
            k.store(y, at, self.make(*(t[at] for t in tensors)))
        return Program(tuple(tensors), y, (), tuple(k.body))


def _of_numbers() -> list[Case]:
    found = []
    for kind in NUMBERS:
        for op in ("+", "-", "*", "/"):
            found.append(Case(f"{op} {kind}", (kind, kind), kind, lambda a, b, op=op: binary(op, a, b)))
        for op in ("%", "fmod", *(("//",) if not is_float(kind) else ())):
            found.append(Case(f"{op} {kind}", (kind, kind), kind, lambda a, b, op=op: binary(op, a, b)))
        for op in COMPARISONS:
            found.append(Case(f"{op} {kind}", (kind, kind), "bool", lambda a, b, op=op: binary(op, a, b)))
        found.append(Case(f"min {kind}", (kind, kind), kind, minimum))
        found.append(Case(f"max {kind}", (kind, kind), kind, maximum))
        found.append(Case(f"? {kind}", ("bool", kind, kind), kind, where))
        found.append(Case(f"abs {kind}", (kind,), kind, lambda a: unary("abs", a)))
        found.append(Case(f"neg {kind}", (kind,), kind, lambda a: -a))
        found.append(Case(f"index {kind}", (kind,), "int32", lambda a: to_index(a).to("int32")))
        found.append(Case(f"within {kind}", (kind,), "int32", lambda a: within(a, 5).to("int32")))
    return found


def _of_integers() -> list[Case]:
    found = []
    for kind in (*SIGNED, *UNSIGNED):
        for op in ("&", "|", "^", "<<", ">>"):
            found.append(Case(f"{op} {kind}", (kind, kind), kind, lambda a, b, op=op: binary(op, a, b)))
        found.append(Case(f"not {kind}", (kind,), kind, lambda a: ~a))
    for op in ("+", "*", "&", "|", "^", "==", "!="):
        found.append(Case(f"{op} bool", ("bool", "bool"), "bool", lambda a, b, op=op: binary(op, a, b)))
    return found


def _of_floats() -> list[Case]:
    found = []
    for kind in FLOATS:
        for op in ("sqrt", "floor", "ceil", "trunc", "rint"):
            found.append(Case(f"{op} {kind}", (kind,), kind, lambda a, op=op: unary(op, a)))
        for op in ("isnan", "isinf"):
            found.append(Case(f"{op} {kind}", (kind,), "bool", lambda a, op=op: unary(op, a)))
        found.append(Case(f"bits {kind}", (kind,), f"int{kind[5:]}", bits_of))
        found.append(Case(f"clamp {kind}", (kind,), kind, lambda a: clamp(a, -1.5, 2.5)))
        for name in sorted(functions.NAMES):
            kinds = (kind,) * functions.ARITY.get(name, 1)
            found.append(Case(f"{name} {kind}", kinds, kind, lambda *a, name=name: call(name, *a)))
    return found


def _conversions() -> list[Case]:
    found, kinds = [], (*NUMBERS, "bool")
    for source in kinds:
        for target in kinds:
            found.append(Case(f"cast {source} {target}", (source,), target, lambda a, t=target: a.to(t)))
    for dtype in SMALL_FLOATS:
        found.append(Case(f"store {dtype}", ("float32",), dtype, lambda a: a))
    for dtype, (kind, _) in NIBBLES.items():
        found.append(Case(f"store {dtype}", (kind,), dtype, lambda a: a))
    return found


CASES = {case.name: case for case in (*_of_numbers(), *_of_integers(), *_of_floats(), *_conversions())}


class Rows(ctypes.Structure):
    """The struct ge_rows."""

    _fields_ = (("data", ctypes.c_void_p), ("slots", ctypes.c_void_p), ("stride", ctypes.c_int32))


FLAGS = ("-std=c99", "-O1", "-ffp-contract=off", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """All cases as one shared library, with a function `case<number>` for each."""
    texts = [
        ctext.text(case.program, f"case{i}").replace(f"static void case{i}", f"void case{i}")
        for i, case in enumerate(CASES.values())
    ]
    folder = tmp_path_factory.mktemp("operations")
    head = "typedef struct { int rows; } ge_nest_params;\n"
    (folder / "cases.c").write_text(head + "\n".join(texts), encoding="ascii")
    command = ["cc", *FLAGS, f"-I{resources.runtime_c()}", "cases.c", "-o", "cases.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(done.stderr[:3000])
    return ctypes.CDLL(str(folder / "cases.so"))


def in_c(library: Any, case: Case) -> Any:
    """The output of the C of a case."""
    arrays = case.inputs
    kind = np.dtype(NIBBLES[case.dtype][0]) if case.dtype in NIBBLES else numpy_type(case.dtype)
    out = np.zeros(arrays[0].shape, kind)
    rows = [Rows(a.ctypes.data, None, 0) for a in (*arrays, out)]
    function = getattr(library, f"case{list(CASES).index(case.name)}")
    function.restype = None
    function(None, *(ctypes.byref(r) for r in rows), ctypes.c_int32(0), ctypes.c_int32(1), None)
    return out


def same(a: Any, b: Any) -> Any:
    """Where the bits are the same, or both are NaN."""
    if a.dtype.kind in "iub":
        return a == b
    kind = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[a.dtype.itemsize]
    return (a.view(kind) == b.view(kind)) | (np.isnan(a) & np.isnan(b))


@pytest.mark.cc
@pytest.mark.parametrize("name", CASES)
def test_c_has_the_bits_of_the_reference(name: str, library: Any) -> None:
    case = CASES[name]
    expected, found = interpret.run(case.program, case.inputs), in_c(library, case)
    if case.dtype in NIBBLES:
        expected = expected.astype(found.dtype)
    wrong = np.flatnonzero(~same(expected, found))
    shown = [([a[i] for a in case.inputs], expected[i], found[i]) for i in wrong[:5]]
    assert not len(wrong), shown


def test_every_type_is_computed_somewhere() -> None:
    """The table above leaves no stored type out."""
    assert {case.dtype for case in CASES.values()} == set(COMPUTED)


@pytest.mark.parametrize("kind", [k for k in NUMBERS if not is_float(k)])
def test_integers_are_those_of_numpy_or_of_what_the_module_says(kind: str) -> None:
    """Division truncates, also below zero; a divisor of 0 gives 0; % has the sign of the divisor."""
    a, b = np.array([7, 100, 3, 0], kind), np.array([2, 0, 5, 3], kind)
    assert interpret.operation("/", kind, kind, [a, b]).tolist() == [3, 0, 0, 0]
    assert interpret.operation("%", kind, kind, [a, b]).tolist() == [1, 0, 3, 0]
    if not is_unsigned(kind):
        a, b = np.array([-7, 7, -7], kind), np.array([2, -2, -2], kind)
        assert interpret.operation("/", kind, kind, [a, b]).tolist() == [-3, -3, 3]
        assert interpret.operation("%", kind, kind, [a, b]).tolist() == [1, -1, -1]
        assert interpret.operation("//", kind, kind, [a, b]).tolist() == [-4, -4, 3]
