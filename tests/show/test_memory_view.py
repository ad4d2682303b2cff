"""The views of a plan: the numbers of the manifest, drawings that are XML, the layer at the peak."""

from __future__ import annotations

import json
import xml.dom.minidom
from pathlib import Path
from typing import Any

import pytest

from glowembed.__main__ import main
from glowembed.graph.plan import PlanOptions
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.show import memory_view


@pytest.fixture(scope="module", params=["ram", "speed"])
def bundle(request: pytest.FixtureRequest, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = CompileOptions(target="cortex-m0", plan=PlanOptions("greedy", optimize=request.param))
    folder = tmp_path_factory.mktemp("view") / request.param
    return compile_model(digits / "model.onnx", folder, options, digits / "data.npz").path


@pytest.fixture
def manifest(bundle: Path) -> Any:
    return json.loads((bundle / "bundle.json").read_text())


def test_every_block_lies_in_the_arena_and_in_time(manifest: Any) -> None:
    shown = memory_view.view(manifest)
    assert shown.size == manifest["arena"]["size"]
    for block in shown.blocks:
        assert 0 <= block.offset <= block.offset + block.bytes <= shown.size
        assert -1 <= block.birth <= block.death <= shown.steps
    names = {b.name for b in shown.blocks}
    assert {t["name"] for t in (*manifest["inputs"], *manifest["outputs"])} <= names | {
        v for entry in manifest["buffers"] for v in entry["values"]
    }


def test_the_peak_is_within_the_arena_and_has_a_layer(manifest: Any) -> None:
    shown = memory_view.view(manifest)
    assert shown.row_bound <= shown.size
    assert shown.peak.live <= shown.size
    assert shown.peak_layer in {layer["name"] for layer in manifest["layers"]}
    assert f"Most is alive in {shown.peak_layer!r}" in memory_view.text(shown)


def test_drawings(bundle: Path, tmp_path: Path) -> None:
    for name in ("map.svg", "map.html"):
        assert main(["inspect", str(bundle), "--memory-map", str(tmp_path / name)]) == 0
    shown = memory_view.view(json.loads((bundle / "bundle.json").read_text()))
    document = xml.dom.minidom.parse(str(tmp_path / "map.svg"))
    titles = document.getElementsByTagName("title")
    assert len(titles) == len(shown.blocks)
    assert (tmp_path / "map.svg").read_text() in (tmp_path / "map.html").read_text()
    assert main(["inspect", str(bundle), "--memory-map", str(tmp_path / "map.png")]) == 2


def test_the_table(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(bundle), "--memory"]) == 0
    said = capsys.readouterr().out
    assert "<- peak" in said
    buffers = json.loads((bundle / "bundle.json").read_text())["buffers"]
    assert ("rows" in said.split()) == any("rows" in entry for entry in buffers)


@pytest.mark.parametrize(("words", "code"), [(("--ram", "100"), 2), (("--ram", "x"), 2), (("--flash", "1K"), 2)])
def test_limits_that_cannot_be_kept(words: tuple[str, ...], code: int, digits: Path, tmp_path: Path) -> None:
    model, data = digits / "model.onnx", digits / "data.npz"
    assert main(["compile", str(model), "--data", str(data), *words, "-o", str(tmp_path / "out")]) == code
    assert not (tmp_path / "out").exists()


def test_a_curve_of_ram_against_cycles(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every line of the table is a dot of the drawing, and the plan that was taken is a ring; a limit of the smallest RAM can be kept."""
    words = ["compile", str(digits / "model.onnx"), "--data", str(digits / "data.npz"), "--plan", "greedy"]
    assert main([*words, "-o", str(tmp_path / "out"), "--curve", str(tmp_path / "curve.html")]) == 0
    table = [
        line.split() for line in capsys.readouterr().out.splitlines() if line.endswith("%") and "price" not in line
    ]
    points = [(int(ram.replace(",", "")), int(cycles.replace(",", ""))) for ram, cycles, _ in table]
    assert len(points) >= 3
    assert points == sorted(points)
    assert [c for _, c in points] == sorted((c for _, c in points), reverse=True)
    page = (tmp_path / "curve.html").read_text()
    drawing = xml.dom.minidom.parseString(page[page.index("<svg") : page.index("</svg>") + 6])
    assert len(drawing.getElementsByTagName("circle")) == len(points) + 1
    assert main([*words, "-o", str(tmp_path / "least"), "--ram", str(points[0][0])]) == 0
    assert json.loads((tmp_path / "least" / "bundle.json").read_text())["arena"]["size"] <= points[0][0]
    assert main([*words, "-o", str(tmp_path / "none"), "--curve", str(tmp_path / "curve.png")]) == 2
    assert not (tmp_path / "none").exists()
