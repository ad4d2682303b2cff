"""Exports: refusals, the self-test, and every form of a bundle."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from compiled_models import compiled
from small_models import model, node, weights

from glowembed.errors import UsageError
from glowembed.export.package import export
from glowembed.export.selftest import numbers
from glowembed.graph.plan import Places, PlanOptions, Ram, Weights
from glowembed.pipeline import Bundle


def convolution() -> object:
    nodes = [node("Conv", "x w", "t", pads=[1] * 4), node("Relu", "t", "y")]
    return model(nodes, {"x": [1, 3, 6, 6]}, {"w": weights(4, 3, 3, 3)})


def two_inputs() -> object:
    nodes = [node("Conv", "a w", "c", pads=[1] * 4), node("Concat", "c b", "y", axis=1)]
    return model(nodes, {"a": [1, 3, 5, 5], "b": [1, 2, 5, 5]}, {"w": weights(4, 3, 3, 3)}, ("y", "c"))


def memory() -> object:
    """A network with a state."""
    nodes = [
        node("Concat", "x state_in", "both", axis=1),
        node("Gemm", "both w", "z"),
        node("Tanh", "z", "state_out"),
    ]
    return model(nodes, {"x": [1, 6], "state_in": [1, 5]}, {"w": weights(11, 5)}, ("state_out",))


FORMS: Mapping[str, tuple[Callable[[], object], Mapping[str, object]]] = {
    "two inputs": (two_inputs, {}),
    "caller": (two_inputs, {"places": Places("caller")}),
    "rows": (convolution, {"places": Places("arena", "rows")}),
    "state": (memory, {}),
    "float in and out": (convolution, {"float_io": True}),
    "float32": (convolution, {"dtype": "float32"}),
    "int16": (convolution, {"dtype": "int16"}),
    "weights file": (convolution, {"weights": Weights("file", "net.bin")}),
    "another RAM": (convolution, {"plan": PlanOptions("greedy", rams=(Ram("DTCM", 256),))}),
}


def check(folder: Path, code: int = 0) -> str:
    flags = "CFLAGS=-O1 -Wall -Wextra -Wpedantic -Wconversion -Werror"
    done = subprocess.run(["make", "check", flags], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.cc
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_bundle_proves_itself(form: str, tmp_path: Path) -> None:
    proto, options = FORMS[form]
    export(compiled(proto(), tmp_path, "generic", **options), "make", tmp_path / "out")
    assert "net: the bits are those of the reference" in check(tmp_path / "out")


@pytest.mark.cc
def test_the_selftest_finds_a_changed_weight(tmp_path: Path) -> None:
    export(compiled(convolution(), tmp_path, "generic"), "make", tmp_path / "out")
    path = tmp_path / "out/src/net_weights.c"
    text = path.read_text()
    number = re.search(r"(?<=\n    )-?\d+(?=,)", text)
    assert number is not None
    path.write_text(text[: number.start()] + str(int(number[0]) ^ 4) + text[number.end() :])
    assert "net: the bits are NOT those of the reference" in check(tmp_path / "out", code=1)


def test_the_generator_is_xorshift32() -> None:
    """The first numbers of the generator of Marsaglia's paper with the seed that it names."""
    made = numbers(2463534242)
    assert [next(made) for _ in range(3)] == [723471715, 2497366906, 2064144800]


def test_the_same_bundle_gives_the_same_bytes(tmp_path: Path) -> None:
    bundle = compiled(convolution(), tmp_path, "generic")
    for name in ("one", "two", "one"):  # an export may be replaced
        export(bundle, "cmake", tmp_path / name)
    files = {path.relative_to(tmp_path / "one"): path.read_bytes() for path in (tmp_path / "one").rglob("*.*")}
    assert files == {path.relative_to(tmp_path / "two"): path.read_bytes() for path in (tmp_path / "two").rglob("*.*")}


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Bundle]:
    def made(target: str = "generic", **options: object) -> Bundle:
        return compiled(convolution(), tmp_path_factory.mktemp("bundle"), target, **options)

    return made


REFUSED: Mapping[str, tuple[Mapping[str, object], str, str, str]] = {
    "kind": ({}, "cmke", "1.0.0", "unknown kind of export 'cmke'"),
    "version": ({}, "cmake", "1.0", "three numbers"),
    "leading zero": ({}, "cmake", "1.02.0", "three numbers"),
    "target": ({"target": "cortex-m4"}, "wheel", "1.0.0", "--target x86-64"),
    "weights file": ({"weights": Weights("file", "net.bin")}, "cpp", "1.0.0", "without --weights"),
    "a name that is too long": ({"name": "n" * 33}, "cmsis-pack", "1.0.0", "at most 32 characters"),
    "a word of Python": ({"name": "lambda"}, "wheel", "1.0.0", "cannot have the name lambda, which is taken"),
    "a module of Python": ({"name": "json"}, "micropython", "1.0.0", "another --name"),
    "outside the arena": ({"places": Places("caller")}, "cpp", "1.0.0", "without --io"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_export_refuses_leaves_nothing(case: str, bundles: Callable[..., Bundle], tmp_path: Path) -> None:
    options, kind, version, words = REFUSED[case]
    with pytest.raises(UsageError, match=re.escape(words)):
        export(bundles(**options), kind, tmp_path / "out", version)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_stays(bundles: Callable[..., Bundle], tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("chapter 1")
    with pytest.raises(UsageError, match="holds no export"):
        export(bundles(), "cmake", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    bundle = bundles()
    with pytest.raises(UsageError, match="holds no export"):  # a bundle is not replaced by its own export
        export(bundle, "cmake", bundle.path)
    assert (bundle.path / "bundle.json").is_file()
