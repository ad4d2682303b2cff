"""`inspect` honours or refuses every option; `compile --name` is by default what its help says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import model, node, saved, weights

from glowembed.__main__ import main
from glowembed.graph.plan import PlanOptions
from glowembed.pipeline import CompileOptions, compile_model


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """MODEL and BUNDLE, of a model whose graph is named "small"."""
    folder = tmp_path_factory.mktemp("inspect")
    proto = model([node("MatMul", "x m", "y")], {"x": (1, 6)}, {"m": weights(6, 3)})
    file = saved(proto, folder, "my net-2.onnx")
    options = CompileOptions(dtype="float32", plan=PlanOptions("greedy"))
    np.savez(folder / "d.npz", calib_x=np.full((9, 6), 3.0), test_x=np.ones((9, 6)))
    compile_model(file, folder / "bundle", options, folder / "d.npz")
    return {"MODEL": str(file), "BUNDLE": str(folder / "bundle"), "FOLDER": str(folder)}


REFUSED = {
    "MODEL --quantization": ("--quantization: is for a bundle",),
    "MODEL --graph g.dot --memory": ("--graph and --memory: are for a bundle",),
    "MODEL --memory-map m.svg": ("--memory-map: is for a bundle",),
    "BUNDLE --target cortex-m0": ("--target: is for a model", "is a bundle"),
    "BUNDLE --board microbit": ("--board: is for a model",),
    "MODEL --board microbit --target cortex-m4": ("--board microbit does not run code for cortex-m4",),
    "BUNDLE --data d.npz": ("--data: is for a model",),
    "BUNDLE --memory --shape x=1,6": ("--shape: is for a model",),
    "BUNDLE --quantization --input-layout nhwc": ("--input-layout: is for a model",),
    "BUNDLE --memory --quantization --json -": ("--json prints one result",),
    "FOLDER --memory": ("is not a bundle",),
    "FOLDER/none --memory": ("is not a bundle",),
}


def inspect(text: str, places: dict[str, str]) -> int:
    words = text.split()
    for name, place in places.items():
        words = [word.replace(name, place) for word in words]
    return main(["inspect", *words])


@pytest.mark.parametrize("text", REFUSED)
def test_an_option_without_effect_is_refused(text: str, places: dict[str, str], capsys: Any) -> None:
    assert inspect(text, places) == 2
    said = capsys.readouterr().err
    for word in REFUSED[text]:
        assert word in said


HONOURED = {
    "BUNDLE": ("fc",),
    "BUNDLE --memory --quantization": ("fc", "step"),
    "BUNDLE --graph FOLDER/g.dot --html FOLDER/p.html --json -": ('"origins"',),
    "BUNDLE --memory --memory-map FOLDER/m.svg --graph FOLDER/g.dot": ("step",),
    "MODEL --data FOLDER/d.npz": ("RAM",),
    "MODEL --shape x=1,6 --input-layout model --target cortex-m0": ("microbit", "yes", "cortex-m0"),
    "MODEL --board microbit": ("microbit", "yes", "cortex-m0"),
}


@pytest.mark.parametrize("text", HONOURED)
def test_options_go_together(text: str, places: dict[str, str], capsys: Any) -> None:
    assert inspect(text, places) == 0
    said = capsys.readouterr().out
    for word in HONOURED[text]:
        assert word in said
    for word in text.split():
        if word.startswith("FOLDER/"):
            assert Path(word.replace("FOLDER", places["FOLDER"])).stat().st_size > 100


def test_a_network_bound_by_its_weights_says_so_before_it_is_compiled(tmp_path: Path, capsys: Any) -> None:
    """Each weight of a fully connected layer is used once, for about one cycle; the board takes six to deliver it."""
    dense = model([node("MatMul", "x m", "y")], {"x": (1, 256)}, {"m": weights(256, 128)})
    board = Path(__file__).parents[2] / "examples" / "qspi"
    assert (
        main(["inspect", str(saved(dense, tmp_path)), "--board", str(board), "--clock", "120MHz", "--json", "-"]) == 0
    )
    notes = {note["code"]: note["text"] for note in json.loads(capsys.readouterr().out)["notes"]}
    assert "bound by its weights" in notes["weights-bound"]


def test_json_of_a_bundle(places: dict[str, str], capsys: Any) -> None:
    for words, kind in (("BUNDLE --json -", list), ("BUNDLE --memory --json -", dict)):
        assert inspect(words, places) == 0
        assert isinstance(json.loads(capsys.readouterr().out), kind)


def test_a_bundle_is_named_after_the_file(places: dict[str, str], capsys: Any) -> None:
    assert main(["compile", "--help"]) == 0
    assert "by default the name of the model's file" in " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert json.loads((Path(places["BUNDLE"]) / "bundle.json").read_text())["name"] == "my_net_2"
