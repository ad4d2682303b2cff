"""One profile serves every way in which exporters write the same network: nothing is missing, nothing stays float."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import Array, model, node, saved, weights

from glowembed import pipeline
from glowembed.errors import UsageError
from glowembed.options.table import SCHEMAS
from glowembed.pipeline import CompileOptions
from glowembed.quantize.calibrate import METHODS
from glowembed.quantize.precision import parse
from glowembed.ranges.datasets import Dataset
from glowembed.ranges.profile import Profile, merge, to_yaml

CONV, BIAS = weights(4, 3, 3, 3), weights(4, seed=2)
MATRIX, OFFSET = weights(4, 5, seed=3), weights(5, seed=4)

HEAD = [
    node("Conv", "x w b", "c", pads=[1, 1, 1, 1], strides=[2, 2]),
    node("Relu", "c", "r"),
    node("GlobalAveragePool", "r", "g"),
    node("Flatten", "g", "f"),
]
GEMM = node("Gemm", "f m o", "z")
TAIL = [node("Softmax", "z", "y", axis=1)]


def constant(array: Array, name: str):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))


def chained(nodes: list, **constants: Array):
    return model([*nodes, *HEAD, GEMM, *TAIL], {"x": [1, 3, 6, 6]}, constants)


def separate_add(first: str, second: str):
    """MatMul and Add in place of Gemm."""
    nodes = [*HEAD, node("MatMul", "f m", "mm"), node("Add", f"{first} {second}", "z"), *TAIL]
    return model(nodes, {"x": [1, 3, 6, 6]}, {"w": CONV, "b": BIAS, "m": MATRIX, "o": OFFSET})


def unfolded_batchnorm():
    """A BatchNormalization that changes nothing is removed."""
    ones, zeros = np.ones(4, np.float32), np.zeros(4, np.float32)
    head = [node("Conv", "x w b", "before", pads=[1, 1, 1, 1], strides=[2, 2])]
    head += [node("BatchNormalization", "before one zero zero one", "c", epsilon=1e-12), *HEAD[1:]]
    constants = {"w": CONV, "b": BIAS, "m": MATRIX, "o": OFFSET, "one": ones, "zero": zeros}
    return model([*head, GEMM, *TAIL], {"x": [1, 3, 6, 6]}, constants)


VARIANTS = {
    "plain": chained([], w=CONV, b=BIAS, m=MATRIX, o=OFFSET),
    "constant nodes": chained([constant(CONV, "w"), constant(MATRIX, "m")], b=BIAS, o=OFFSET),
    "weights behind Transpose": chained(
        [node("Transpose", "wt", "w", perm=[3, 2, 0, 1]), node("Transpose", "mt", "m")],
        wt=CONV.transpose(2, 3, 1, 0), b=BIAS, mt=MATRIX.T, o=OFFSET,
    ),
    "weights behind Reshape": chained(
        [node("Reshape", "flat shape", "w")], flat=CONV.reshape(-1), shape=np.asarray(CONV.shape), b=BIAS, m=MATRIX, o=OFFSET
    ),
    "weights behind Cast": chained(
        [node("Cast", "w64", "w", to=TensorProto.FLOAT)], w64=CONV.astype(np.float64), b=BIAS, m=MATRIX, o=OFFSET
    ),
    "a chain of them": chained(
        [constant(CONV.astype(np.float64).reshape(4, -1), "w0"), node("Cast", "w0", "w1", to=TensorProto.FLOAT),
         node("Reshape", "w1 shape", "w2"), node("Identity", "w2", "w")],
        shape=np.asarray(CONV.shape), b=BIAS, m=MATRIX, o=OFFSET,
    ),
    "MatMul and Add": separate_add("mm", "o"),
    "Add the other way round": separate_add("o", "mm"),
    "BatchNormalization": unfolded_batchnorm(),
}  # fmt: skip


@pytest.fixture(scope="module")
def samples() -> Dataset:
    x = np.random.default_rng(5).uniform(-1, 2, (16, 3, 6, 6)).astype(np.float32)
    return Dataset({"x": x}, shapes={"x": (1, 3, 6, 6)})


@pytest.fixture(scope="module")
def recorded(samples: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Profile:
    path = saved(VARIANTS["plain"], tmp_path_factory.mktemp("profile"))
    return pipeline.profile_model(path, samples, CompileOptions())


@pytest.mark.parametrize("name", VARIANTS)
def test_a_profile_serves_every_variant_and_nothing_stays_float(name: str, recorded: Profile, tmp_path: Path) -> None:
    path, made = saved(VARIANTS[name], tmp_path), {}
    for target in ("cortex-m0", "cortex-m4", "x86-64"):
        options = CompileOptions(target, name="net", require_all_quantized=True)
        bundle = pipeline.compile_model(path, tmp_path / target, options, profile=recorded)
        made[target] = {n: (v.shape, v.qtype) for n, v in bundle.graph.values.items() if v.const is None}
    plain = pipeline.compile_model(saved(VARIANTS["plain"], tmp_path), tmp_path / "plain", profile=recorded)
    expected = {n: (v.shape, v.qtype) for n, v in plain.graph.values.items() if v.const is None}
    assert made["cortex-m4"] == expected, "the same profile gives the same types"


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("calibration", METHODS)
def test_a_profile_serves_every_schema_and_calibration(
    schema: str, calibration: str, recorded: Profile, tmp_path: Path
) -> None:
    path = saved(VARIANTS["weights behind Transpose"], tmp_path)
    options = CompileOptions(
        "cortex-m4", calibration=calibration, schema=schema, weights_schema=schema, weights_calibration=calibration
    )
    bundle = pipeline.compile_model(path, tmp_path / "bundle", options, profile=recorded)
    types = {v.qtype for v in bundle.graph.values.values() if v.qtype is not None and v.const is None}
    if schema == "symmetric":
        assert {q.zero_point for q in types} == {(0,), (-128,)}, "only the output of Softmax has a type of its own"
    assert bundle.manifest["options"]["schema"] == schema


@pytest.mark.parametrize("dtype", ["int16", "float32"])
@pytest.mark.parametrize("requantization", [None, "glow", "tflite"])
def test_a_profile_serves_every_precision(
    dtype: str, requantization: str | None, recorded: Profile, tmp_path: Path
) -> None:
    """The first layer in another dtype, the others by another law."""
    path = saved(VARIANTS["weights behind Transpose"], tmp_path)
    rules = [{"position": "first", "dtype": dtype}]
    options = CompileOptions("cortex-m0", requantization=requantization, precision=parse({"rules": rules}))
    bundle = pipeline.compile_model(path, tmp_path / "bundle", options, profile=recorded)
    assert {entry["dtype"] for entry in bundle.manifest["precision"]} == {"int8", dtype}


def test_a_retrained_network_is_refused(recorded: Profile, tmp_path: Path) -> None:
    retrained = chained([], w=CONV * 3, b=BIAS, m=MATRIX, o=OFFSET)
    with pytest.raises(UsageError, match="Other weights: 'w'"):
        pipeline.compile_model(saved(retrained, tmp_path), tmp_path / "bundle", profile=recorded)


def test_profiles_of_parts_merge_to_the_profile_of_all(recorded: Profile, samples: Dataset, tmp_path: Path) -> None:
    path, parts = saved(VARIANTS["plain"], tmp_path), []
    x = samples.inputs["x"]
    for i, part in enumerate((x[:3], x[3:9], x[9:])):
        run = pipeline.profile_model(path, Dataset({"x": part}, shapes={"x": (1, 3, 6, 6)}), CompileOptions())
        run.save(tmp_path / f"{i}.yaml")
        parts.append(tmp_path / f"{i}.yaml")
    merged = pipeline.profile_model(path, None, CompileOptions(), merged=parts)
    assert to_yaml(merged) == to_yaml(recorded)
    assert to_yaml(merge(Profile.load(parts[2]), merge(Profile.load(parts[0]), Profile.load(parts[1])))) == to_yaml(
        recorded
    )
