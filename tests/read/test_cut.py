"""Forms of models: cut at named values, open batches, outputs that are inputs or constants, random samples; from file to bundle."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from glowembed import Source, compile_model, profile_model
from glowembed.errors import UsageError
from glowembed.image.bundles import cut_of
from glowembed.judge.compare import run_onnxruntime
from glowembed.judge.debugging import losses
from glowembed.judge.inspection import inspect_model
from glowembed.judge.tune import integer_outputs
from glowembed.options.cut import Cut, named_constants
from glowembed.options.table import CompileOptions
from glowembed.pipeline import load_bundle
from glowembed.ranges import datasets
from glowembed.read import importer
from tests.helpers.small_models import model, node, saved, weights

CHAIN = [
    node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
    node("Relu", "c", "r"),
    node("Conv", "r v", "d"),
    node("Reshape", "d s", "f"),
    node("MatMul", "f m", "y"),
]
CONSTANTS = {
    "w": weights(4, 3, 3, 3), "v": weights(2, 4, 3, 3), "s": np.array([-1, 72]), "m": weights(72, 5),
}  # fmt: skip


def chain(folder: Path, batch: int | str = "n") -> Path:
    return saved(model(CHAIN, {"x": (batch, 3, 8, 8)}, CONSTANTS), folder)


def assert_close(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> None:
    """Some of the random numbers lie outside of the range of the calibration, but not most of them."""
    assert ours.keys() == theirs.keys()
    for name, right in theirs.items():
        found = ours[name].reshape(right.shape)
        assert np.median(np.abs(found - right)) <= 0.05 * np.sqrt(np.mean(right**2.0)), name


@pytest.mark.parametrize("batch", ["n", 0, -1])
def test_an_open_batch_is_one_and_that_is_said(batch: int | str, tmp_path: Path) -> None:
    file = chain(tmp_path, batch)
    bundle = compile_model(file, tmp_path / "b", CompileOptions(random=8))
    assert bundle.graph.values["x"].shape == (1, 3, 8, 8)
    assert [note.code for note in bundle.notes][:2] == ["batch", "random-data"]
    assert bundle.manifest["options"]["random"] == 8
    assert bundle.manifest["calibration"]["notes"][0]["code"] == "random-data"
    dataset = datasets.load(Source(random=3), datasets.input_specs(bundle.graph), "test")
    assert_close(integer_outputs(bundle.graph, dataset), run_onnxruntime(file, dataset))


@pytest.mark.parametrize(
    ("cut", "inputs", "outputs"),
    [
        (Cut(("r",), ("d",)), {"r": (1, 4, 8, 8)}, ("d",)),
        (Cut((), ("c", "d")), {"x": (1, 3, 8, 8)}, ("c", "d")),
        (Cut(("f",)), {"f": (1, 72)}, ("y",)),
        (Cut(("d", "x"), ("y", "c")), {"d": (1, 2, 6, 6), "x": (1, 3, 8, 8)}, ("y", "c")),
    ],
    ids=str,
)
def test_a_part_of_a_model_is_compiled_and_compared_with_that_part(
    cut: Cut, inputs: dict[str, tuple[int, ...]], outputs: tuple[str, ...], tmp_path: Path
) -> None:
    file = chain(tmp_path)
    made = compile_model(file, tmp_path / "b", CompileOptions(cut=cut, random=8))
    assert {name: made.manifest["options"].get(name) for name in ("inputs", "outputs")} == {
        "inputs": list(cut.inputs) or None, "outputs": list(cut.outputs) or None,
    }  # fmt: skip
    bundle = load_bundle(made.path)
    assert bundle.graph.outputs == outputs
    dataset = datasets.load(Source(random=4), datasets.input_specs(bundle.graph), "test")
    assert {name: dataset.shapes[name] for name in bundle.graph.inputs} == inputs
    assert_close(integer_outputs(bundle.graph, dataset), run_onnxruntime(file, dataset, at=cut))
    assert losses(bundle, dataset)  # `debug` finds the cut in the bundle
    assert [t.name for t in inspect_model(file, at=cut).inputs] == list(inputs)


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (Cut(("z",)), "unknown value of the model for --inputs: 'z'.*Known: c, d, f, r, x, y"),
        (Cut((), ("z",)), "--outputs: 'z'"),
        (Cut(("w",)), "--inputs 'w': it is a constant of the model"),
        (Cut(("f",), ("r",)), "--inputs f: the outputs do not depend on it"),
        (Cut(("f",), ("y", "c")), "--inputs f: the outputs also need the input 'x'"),
    ],
    ids=str,
)
def test_a_cut_that_does_not_fit_is_refused(cut: Cut, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        importer.load(chain(tmp_path), at=cut)


def test_a_profile_keeps_shapes_and_cut(tmp_path: Path) -> None:
    nodes = CHAIN[:3]
    file = saved(model(nodes, {"x": ("n", 3, "h", "w")}, {k: CONSTANTS[k] for k in "wv"}, outputs=["d"]), tmp_path)
    options = CompileOptions(shapes={"x": (1, 3, 6, 10)}, cut=Cut((), ("r",)), random=9)
    seen = profile_model(file, None, options)
    assert [note.code for note in seen.assumed] == []  # the batch was given
    seen.save(tmp_path / "p.yaml")
    bundle = compile_model(file, tmp_path / "b", profile=tmp_path / "p.yaml")
    assert bundle.graph.values["r"].shape == (1, 4, 6, 10)
    assert bundle.manifest["options"]["shapes"] == {"x": [1, 3, 6, 10]}
    assert bundle.manifest["options"]["outputs"] == ["r"]
    merged = profile_model(file, None, CompileOptions(), merged=[tmp_path / "p.yaml", tmp_path / "p.yaml"])
    assert (merged.samples, merged.form) == (18, seen.form)
    replace(seen, form=replace(seen.form, cut=Cut())).save(tmp_path / "q.yaml")
    with pytest.raises(UsageError, match="different forms cannot be merged"):
        profile_model(file, None, options, merged=[tmp_path / "p.yaml", tmp_path / "q.yaml"])


OUTPUTS = {
    "an input": [node("Relu", "x", "y")],
    "a copy of an input": [node("Relu", "x", "y"), node("Identity", "x", "z")],
    "a constant": [node("Relu", "x", "y"), node("Shape", "x", "z")],
    "an initializer": [node("Relu", "x", "y")],
    "a convolution beside its input": [node("Conv", "x w", "y")],
}


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32"])
@pytest.mark.parametrize("case", OUTPUTS)
def test_outputs_that_nothing_computes(case: str, dtype: str, tmp_path: Path) -> None:
    further = {"an input": "x", "a convolution beside its input": "x", "an initializer": "w"}.get(case, "z")
    proto = model(OUTPUTS[case], {"x": ("n", 2, 3, 3)}, {"w": weights(2, 2, 1, 1)}, outputs=["y", further])
    if case == "a constant":
        proto.graph.output[1].type.tensor_type.elem_type = 7  # int64
    file = saved(proto, tmp_path)
    bundle = compile_model(file, tmp_path / "b", CompileOptions(dtype=dtype, random=8))
    dataset = datasets.load(Source(random=2), datasets.input_specs(bundle.graph), "test")
    assert bundle.graph.outputs == ("y", further)
    assert_close(integer_outputs(bundle.graph, dataset), run_onnxruntime(file, dataset))


@pytest.mark.parametrize("options", [{"io": "caller"}, {"input": "rows"}])
def test_an_output_that_is_an_input_stays_in_the_arena(options: dict[str, str], tmp_path: Path) -> None:
    file = saved(model([node("Relu", "x", "y")], {"x": (1, 4)}, outputs=["y", "x"]), tmp_path)
    with pytest.raises(UsageError, match="the output 'x' is an input of the model"):
        compile_model(file, tmp_path / "b", CompileOptions.from_words({**options, "random": 8}))


def rates(folder: Path) -> Path:
    """A network for two sample rates, as exporters write a condition on an input: two branches of a convolution and a ReLU,
    and in one of them a further condition, on a shape.
    """

    def branch(name: str, weights: str, inner: bool) -> onnx.GraphProto:
        nodes = [node("Conv", f"x {weights}", f"{name}c", pads=[1, 1, 1, 1]), node("Relu", f"{name}c", f"{name}r")]
        if inner:
            same = onnx.helper.make_graph([node("Identity", f"{name}r", "same")], "same", [], [open_output("same")])
            other = onnx.helper.make_graph(
                [node("Neg", f"{name}r", "negative")], "other", [], [open_output("negative")]
            )
            nodes += [
                node("Shape", f"{name}r", "size"), node("Gather", "size one", "channels"), node("Equal", "channels one", "is_one"),
                node("If", "is_one", f"{name}i", then_branch=other, else_branch=same),
            ]  # fmt: skip
        return onnx.helper.make_graph(nodes, name, [], [open_output(f"{name}i" if inner else f"{name}r")])

    nodes = [
        node("Equal", "rate high", "is_high"),
        node("If", "is_high", "y", then_branch=branch("high", "w", True), else_branch=branch("low", "v", False)),
    ]
    constants = {
        "w": weights(4, 3, 3, 3),
        "v": weights(4, 3, 3, 3, seed=2),
        "high": np.array(16000),
        "one": np.array([1]),
    }
    made = model(nodes, {"x": ("batch", 3, 8, 8), "rate": ()}, constants)
    made.graph.input[1].type.tensor_type.elem_type = onnx.TensorProto.INT64
    return saved(made, folder)


def test_a_condition_with_many_ways_to_its_input_is_said(tmp_path: Path) -> None:
    """2^60 ways lead from the condition to the input."""
    made = onnx.load(rates(tmp_path))
    choice = made.graph.node[1]
    made.graph.node.remove(choice)
    made.graph.node.extend(
        node("And", f"{a} {a}", b) for a, b in itertools.pairwise(["is_high", *(f"k{i}" for i in range(60))])
    )
    choice.input[0] = "k59"
    made.graph.node.append(choice)
    assert "branch" in [note.code for note in importer.load(saved(made, tmp_path)).assumed]


def open_output(name: str) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)


@pytest.mark.parametrize("rate", [16000, 8000])
def test_a_constant_input_decides_a_branch_that_is_then_quantized(rate: int, tmp_path: Path) -> None:
    file = rates(tmp_path)
    options = CompileOptions(cut=Cut(constants=(("rate", (rate,)),)), random=8)
    bundle = load_bundle(compile_model(file, tmp_path / "b", options).path)
    assert bundle.graph.inputs == ("x",)
    assert [n.op for n in bundle.graph.nodes] == ["channels_last_s8", "conv2d_s8", "channels_last_s8"]
    assert bundle.manifest["options"]["constants"] == {"rate": [rate]}
    assert cut_of(bundle) == options.cut
    dataset = datasets.load(Source(random=4), datasets.input_specs(bundle.graph), "test")
    theirs = run_onnxruntime(file, dataset, at=options.cut)
    assert_close(integer_outputs(bundle.graph, dataset), theirs)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    whole = [session.run(["y"], {"x": x[np.newaxis], "rate": np.array(rate)})[0][0] for x in dataset.inputs["x"]]
    assert np.array_equal(theirs["y"].reshape(np.shape(whole)), whole)


def test_a_profile_keeps_constant_inputs(tmp_path: Path) -> None:
    file = rates(tmp_path)
    options = CompileOptions(cut=Cut(constants=(("rate", (8000,)),)), random=8)
    profile_model(file, None, options).save(tmp_path / "p.yaml")
    bundle = compile_model(file, tmp_path / "b", CompileOptions(), profile=tmp_path / "p.yaml")
    assert bundle.graph.inputs == ("x",)
    assert bundle.manifest["options"]["constants"] == {"rate": [8000]}


def test_a_branch_that_an_input_chooses_is_said_with_what_to_do(tmp_path: Path) -> None:
    notes = importer.load(rates(tmp_path)).assumed
    assert [note.code for note in notes] == ["batch", "branch"]
    assert "--constant rate=VALUE" in notes[1].text


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ((("rat", (1,)),), "unknown input of the model for --constant: 'rat'"),
        ((("rate", (1, 2)),), "--constant rate: it has the shape []; give one number"),
        ((("rate", (0.5,)),), "--constant rate: its type int64 cannot hold 0.5"),
        ((("rate", (2**63,)),), "its type int64 cannot hold"),
        ((("x", (1, 2)),), r"it has the shape \[1, 3, 8, 8\]; give one number, or 192 with commas"),
        ((("w", (1,)),), "unknown input of the model for --constant: 'w'"),
    ],
)
def test_a_constant_that_does_not_fit_is_refused(
    constants: tuple[tuple[str, tuple[float, ...]], ...], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message.replace("[]", r"\[\]")):
        importer.load(rates(tmp_path), at=Cut(constants=constants))


@pytest.mark.parametrize("words", [["rate"], ["=5"], ["rate="], ["rate=a"], ["rate=1", "rate=2"]])
def test_words_of_constants_that_say_nothing_are_refused(words: list[str]) -> None:
    with pytest.raises(UsageError, match="--constant"):
        named_constants(words)


def test_an_axis_named_as_the_batch_is_one_wherever_it_stands(tmp_path: Path) -> None:
    """A name that the user's shapes give a size has that size in the other inputs."""
    nodes = [node("Mul", "a b", "y"), node("Mul", "c c", "z")]
    made = model(nodes, {"a": (2, "batch", 4), "b": ("batch", 4), "c": (1, "rows")}, {}, outputs=["y", "z"])
    graph = importer.load(saved(made, tmp_path), {"c": (1, 5)})
    assert [graph.values[name].shape for name in "abc"] == [(2, 1, 4), (1, 4), (1, 5)]
    graph = importer.load(saved(made, tmp_path), {"b": (3, 4), "c": (1, 5)})
    assert graph.values["a"].shape == (2, 3, 4)
    with pytest.raises(UsageError, match="input 'c' has the shape"):
        importer.load(saved(made, tmp_path))


@pytest.mark.parametrize("axis", ["batch_x_heads", "n", "subbatch"])
def test_an_axis_with_another_name_is_asked_for(axis: str, tmp_path: Path) -> None:
    made = model([node("Relu", "x", "y")], {"x": (1, 3, axis)}, {})
    with pytest.raises(UsageError, match="input 'x' has the shape"):
        importer.load(saved(made, tmp_path))
