"""Networks whose tables need wider types than those of ordinary ones: far rows, many rows; and what no type holds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from compiled_models import level_here
from small_models import model, node, saved, weights

from glowembed.emit import bundle as emit
from glowembed.emit.constants import of_type
from glowembed.emit.schedule import count_types, with_tapes
from glowembed.errors import UnsupportedModelError
from glowembed.graph.cstruct import counting_type
from glowembed.graph.plan import PlanOptions
from glowembed.graph.target import default_board
from glowembed.judge.validation import validate
from glowembed.pipeline import Bundle, CompileOptions, compile_model

ON = [
    pytest.param("x86-64", marks=pytest.mark.cc),
    pytest.param("cortex-m4", marks=[pytest.mark.arm_gcc, pytest.mark.qemu]),
]


def compiled(
    nodes: Sequence[onnx.NodeProto],
    shape: tuple[int, ...],
    constants: Mapping[str, Any],
    folder: Path,
    options: CompileOptions,
) -> Bundle:
    random = np.random.default_rng(1)
    arrays = {f"{part}_x": random.normal(size=(2, *shape[1:])).astype(np.float32) for part in ("calib", "test")}
    np.savez(folder / "data.npz", **arrays)
    path = saved(model(nodes, {"x": shape}, constants), folder)
    return compile_model(path, folder / "bundle", options, folder / "data.npz")


def exact(bundle: Bundle, folder: Path) -> bool:
    board = default_board(bundle.manifest["target"]).name
    return bool(validate(bundle, folder / "data.npz", board, samples=1).bit_exact)


def network_c(bundle: Bundle) -> str:
    return (bundle.path / f"{bundle.manifest['name']}.c").read_text()


@pytest.mark.parametrize("target", ON)
@pytest.mark.parametrize(("size", "slot"), [(120, "uint16_t"), (270, "int32_t")])
def test_rows_are_found_wherever_they_lie(size: int, slot: str, target: str, tmp_path: Path) -> None:
    """The input fills the front of the arena: rows of the layers between lie after it, below and above 256 KB."""
    nodes = [node("Conv", "x w0", "t", pads=[1] * 4), node("Conv", "t w1", "y", pads=[1] * 4)]
    constants = {"w0": weights(16, 4, 3, 3), "w1": weights(3, 16, 3, 3)}
    plan, levels = PlanOptions("greedy", effort=0, optimize="ram"), level_here() if target == "x86-64" else ()
    options = CompileOptions(target=target, plan=plan, levels=levels)
    bundle = compiled(nodes, (1, 4, size, size), constants, tmp_path, options)
    assert bundle.manifest["schedule"]["groups"] or bundle.manifest["schedule"]["strips"]
    header = (bundle.path / f"{bundle.manifest['name']}_kernels.h").read_text()
    assert f"typedef {slot} ge_slot;" in header
    slots = [int(n) for table in re.findall(r"row_slots\[\d+\] = \{(.*?)\}", network_c(bundle), re.DOTALL) for n in re.findall(r"\d+", table)]  # fmt: skip
    assert (max(slots) > 65535) == (slot == "int32_t")
    assert exact(bundle, tmp_path)


def residual(name: str, x: str, inputs: int, outputs: int, stride: int) -> tuple[list[onnx.NodeProto], dict[str, Any]]:
    """One block of resnet18."""
    nodes = [
        node("Conv", f"{x} {name}_w0", f"{name}_a", pads=[1] * 4, strides=[stride] * 2),
        node("Relu", f"{name}_a", f"{name}_b"),
        node("Conv", f"{name}_b {name}_w1", f"{name}_c", pads=[1] * 4),
    ]
    constants = {f"{name}_w0": weights(outputs, inputs, 3, 3), f"{name}_w1": weights(outputs, outputs, 3, 3, seed=2)}
    if stride > 1:
        nodes.append(node("Conv", f"{x} {name}_w2", f"{name}_d", strides=[stride] * 2))
        constants[f"{name}_w2"] = weights(outputs, inputs, 1, 1, seed=3)
        x = f"{name}_d"
    return [*nodes, node("Add", f"{name}_c {x}", f"{name}_e"), node("Relu", f"{name}_e", name)], constants


@pytest.mark.parametrize("target", ON)
def test_resnet18_with_fewer_channels(target: str, tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w", "a", pads=[3] * 4, strides=[2, 2]),
        node("Relu", "a", "b"),
        node("MaxPool", "b", "s", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
    ]
    constants = {"w": weights(8, 3, 7, 7), "fc": weights(32, 10)}
    x, inputs = "s", 8
    for number, outputs in enumerate((8, 12, 16, 32)):
        more, own = residual(f"r{number}", x, inputs, outputs, 1 if number == 0 else 2)
        nodes, constants, x, inputs = nodes + more, constants | own, f"r{number}", outputs
    nodes += [node("GlobalAveragePool", x, "p"), node("Flatten", "p", "f"), node("MatMul", "f fc", "y")]
    levels = level_here() if target == "x86-64" else ()
    options = CompileOptions(target=target, plan=PlanOptions("greedy", effort=0), levels=levels)
    bundle = compiled(nodes, (1, 3, 224, 224), constants, tmp_path, options)
    assert exact(bundle, tmp_path)


@pytest.mark.parametrize(
    ("most", "narrowest", "ctype"),
    [
        (255, "uint8_t", "uint8_t"), (256, "uint8_t", "uint16_t"), (0, "uint16_t", "uint16_t"),
        (65535, "uint8_t", "uint16_t"), (65536, "uint16_t", "int32_t"), (2**31 - 1, "uint8_t", "int32_t"),
    ],
)  # fmt: skip
def test_counting_type(most: int, narrowest: str, ctype: str) -> None:
    assert counting_type(most, narrowest) == ctype


def test_no_counting_type_above_int32() -> None:
    with pytest.raises(ValueError, match="2147483648 does not fit"):
        counting_type(2**31)


def test_types_of_groups() -> None:
    """A tape numbers layers from 0; `done` counts to the number of rows."""
    tape: dict[str, Any] = {"tape": [0, 1], "count": 256}
    assert with_tapes([tape], [{**tape, "count": 2}]).ctype == "uint8_t"
    assert with_tapes([], [{**tape, "count": 257}]).ctype == "uint16_t"
    assert count_types([255, 3]) == {"done_type": "uint8_t", "rows_type": "uint16_t"}
    assert count_types([256]) == {"done_type": "uint16_t", "rows_type": "uint16_t"}
    assert count_types([65536])["rows_type"] == "int32_t"


def test_what_no_offset_reaches_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node("Conv", "x w", "y")]
    monkeypatch.setattr(emit, "OFFSET_MAX", 99)
    with pytest.raises(UnsupportedModelError, match="cannot hold more than 99"):
        compiled(nodes, (1, 1, 10, 10), {"w": weights(1, 1, 1, 1)}, tmp_path, CompileOptions())
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize(
    ("ctype", "number"), [("int8_t", 128), ("int16_t", -32769), ("int8_t", -129), ("int32_t", 2**31)]
)
def test_constants_are_not_cut(ctype: str, number: int) -> None:
    with pytest.raises(ValueError, match=f"does not fit {ctype}"):
        of_type(ctype, np.asarray([0, number], np.int64))
