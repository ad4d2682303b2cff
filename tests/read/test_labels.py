"""Classifiers as skl2onnx writes them by default: labels that are strings become indices, and maps the tensor of scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from glowembed.graph.cnames import text
from glowembed.judge import compare
from glowembed.judge.tune import integer_outputs
from glowembed.judge.validation import samples_for
from glowembed.pipeline import CompileOptions, compile_model

NAMES = ["cow", 'a "dog"', "Kätzchen"]
WEIGHTS = np.random.default_rng(2).normal(size=12).astype(np.float32)
STRINGS = {"classlabels_strings": NAMES}
INTEGERS = {"classlabels_ints": [7, 2, 5]}


def classifier(labels: dict[str, list[str] | list[int]], end: onnx.NodeProto, kind: int) -> onnx.ModelProto:
    """A LinearClassifier whose label goes through `end`, and whose scores through a ZipMap."""
    scores = helper.make_node(
        "LinearClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", coefficients=WEIGHTS.tolist(),
        intercepts=[0.1, 0.0, -0.1], post_transform="SOFTMAX", multi_class=1, **labels,
    )  # fmt: skip
    columns = {name.replace("ints", "int64s"): value for name, value in labels.items()}
    zipped = helper.make_node("ZipMap", ["scores"], ["probabilities"], domain="ai.onnx.ml", **columns)
    key = TensorProto.STRING if labels is STRINGS else TensorProto.INT64
    maps = helper.make_sequence_type_proto(
        helper.make_map_type_proto(key, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    )
    graph = helper.make_graph(
        [scores, zipped, end],
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", kind, ["n"]), helper.make_value_info("probabilities", maps)],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8
    )


CASES = {
    "strings": classifier(STRINGS, helper.make_node("Identity", ["label"], ["y"]), TensorProto.STRING),
    "integers": classifier(INTEGERS, helper.make_node("Identity", ["label"], ["y"]), TensorProto.INT64),
    "integers through a cast": classifier(
        INTEGERS, helper.make_node("Cast", ["label"], ["y"], to=TensorProto.INT64), TensorProto.INT64
    ),
    "integers as floats": classifier(
        INTEGERS, helper.make_node("Cast", ["label"], ["y"], to=TensorProto.FLOAT), TensorProto.FLOAT
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_labels_are_those_of_the_model(case: str, tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    onnx.save(CASES[case], file)
    rng = np.random.default_rng(3)
    data = {key: rng.normal(size=(8, 4)).astype(np.float32) for key in ("calib_x", "test_x")}
    np.savez(tmp_path / "d.npz", **data)  # type: ignore[arg-type]
    bundle = compile_model(file, tmp_path / "bundle", CompileOptions(), tmp_path / "d.npz")
    dataset = samples_for(bundle, tmp_path / "d.npz")
    theirs, ours = compare.run_onnxruntime(file, dataset), integer_outputs(bundle.graph, dataset)
    assert np.array_equal(theirs["y"].ravel(), np.asarray(ours["y"]).ravel())
    assert compare.output_metrics("p", theirs["probabilities"], ours["probabilities"]).sqnr_db > 60
    labels = bundle.manifest["outputs"][0].get("labels")
    assert labels == (NAMES if case == "strings" else None)
    header = (tmp_path / "bundle" / "model.h").read_text()
    assert (r'{ "cow", "a \042dog\042", "K\303\244tzchen" }' in header) == (case == "strings")


def test_text_for_c() -> None:
    assert text("a?b\\\n") == r'"a\077b\134\012"'
