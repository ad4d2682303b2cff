"""An operator means what it means in the opset of the model: on constants, which are folded, and on computed values.

Every form is written for a range of opsets and compared with onnxruntime in each opset where one of its operators changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from small_models import all_values, as_array, canonical, compare, model, node, saved

from glowembed.canonicalize import canonicalize
from glowembed.graph.ir import Array
from glowembed.graph.registry import importers
from glowembed.read.importer import load, problems
from glowembed.read.onnxfile import OPSETS
from glowembed.reference import run_float

LAST = OPSETS[-1]
ORT_LAST = 26
"""The newest opset that onnxruntime takes."""


def numbers(*shape: int, seed: int = 1) -> Array:
    """Distinct float32 numbers between -3 and 3, so that their order is unique."""
    count = int(np.prod(shape))
    return np.random.default_rng(seed).permutation(np.linspace(-3, 3, count)).astype(np.float32).reshape(shape)


X = numbers(1, 3, 4, 5)
POSITIVE = np.abs(X) + np.float32(0.25)
SMALL = X / np.float32(4)
TRUTH = X > 0
PLANES = numbers(3, 1, 6, seed=2)[:, :, :5]


@dataclass(frozen=True)
class Form:
    """An operator in the form of opsets `first` to `last`; `only` "constant" or "computed": where it is supported."""

    op: str
    inputs: Sequence[Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    first: int = OPSETS[0]
    last: int = LAST
    outputs: int = 1
    only: str = ""

    def __str__(self) -> str:
        attrs = "_".join(f"{k}={v}" for k, v in self.attrs.items() if not isinstance(v, onnx.TensorProto))
        return f"{self.op}-{self.first}-{len(self.inputs)}-{attrs.replace(' ', '')}"

    def opsets(self) -> list[int]:
        """The first one and those in which the operator changed."""
        changes = {
            schema.since_version
            for schema in onnx.defs.get_all_schemas_with_history()
            if schema.name == self.op and not schema.domain
        }
        last = min(self.last, ORT_LAST)
        return sorted({self.first, *(c for c in changes if self.first <= c <= last)})


def form(op: str, *inputs: Any, **attrs: Any) -> Form:
    own = {key: attrs.pop(key) for key in ("first", "last", "outputs", "only") if key in attrs}
    return Form(op, inputs, attrs, **own)


UNARY = (
    "Abs", "Ceil", "Cos", "Elu", "Exp", "Floor", "HardSigmoid", "Identity", "LeakyRelu", "Neg", "Relu", "Selu", "Sigmoid",
    "Sin", "Softplus", "Softsign", "Tan", "Tanh",
)  # fmt: skip
VARIADIC = ("Max", "Min", "Mean", "Sum")
FLAT_SOFTMAX = ("Softmax", "LogSoftmax", "Hardmax")
REDUCTIONS = ("Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp")

FORMS = (
    *(form(op, X) for op in UNARY),
    *(form(op, SMALL) for op in ("Acos", "Asin", "Atan")),
    *(form(op, POSITIVE) for op in ("Log", "Reciprocal", "Sqrt")),
    form("Erf", X, first=9), form("Sign", X, first=9), form("Sinh", X, first=9), form("Cosh", X, first=9),
    form("Acosh", POSITIVE + 1, first=9), form("Asinh", X, first=9), form("Atanh", SMALL, first=9),
    form("Round", X, first=11), form("Celu", X, first=12, alpha=0.7), form("ThresholdedRelu", X, first=10),
    form("HardSwish", X, first=14), form("Mish", X, first=18), form("Gelu", X, first=20),
    form("Gelu", X, first=20, approximate="tanh"),
    *(form(op, X, PLANES) for op in ("Add", "Sub", "Mul", "Div")),
    *(form(op, X, PLANES, first=8) for op in VARIADIC), *(form(op, X, numbers(1, 3, 4, 5, seed=2)) for op in VARIADIC),
    form("Pow", POSITIVE, np.float32(1.5)), form("PRelu", X, numbers(3, 1, 1), only="constant"), form("PRelu", X, np.float32(0.3)),
    form("And", TRUTH, TRUTH[:, :1]), form("Or", TRUTH, TRUTH[:, :1]), form("Xor", TRUTH, TRUTH[:, :1]), form("Not", TRUTH),
    *(form(op, X, PLANES, first=9) for op in ("Greater", "Less")),
    *(form(op, X, PLANES, first=12) for op in ("GreaterOrEqual", "LessOrEqual")),
    form("Equal", np.arange(6), np.int64(3)), form("Where", TRUTH, X, SMALL, first=9), form("Mod", X, POSITIVE, first=10, fmod=1),
    form("IsNaN", X, first=9), form("IsInf", X, first=10),
    *(form(op, X) for op in FLAT_SOFTMAX),
    *(form(op, X, axis=axis) for op in FLAT_SOFTMAX for axis in (0, 1, 2, 3)),
    *(form(op, X, first=11, axis=-2) for op in FLAT_SOFTMAX),
    form("Flatten", X), form("Flatten", X, axis=3), form("Flatten", X, axis=0), form("Flatten", X, first=11, axis=-2),
    form("Clip", X, last=10, min=-1.0, max=0.5), form("Clip", X, last=10, max=0.5), form("Clip", X, last=10),
    form("Clip", X, -1.0, 0.5, first=11), form("Clip", X, None, 0.5, first=11), form("Clip", X, first=11),
    form("Dropout", X), form("Dropout", X, last=11, ratio=0.3), form("Dropout", X, 0.3, first=12),
    form("Dropout", X, 0.3, np.bool_(False), first=12),
    form("Pad", X, last=10, pads=[0, 0, 1, 2, 0, 0, 0, 1], value=0.5), form("Pad", X, [0, 0, 1, 2, 0, 0, 0, 1], 0.5, first=11),
    form("Pad", X, [0, 0, -1, 2, 0, 0, 0, 1], first=11, only="computed"), form("Pad", X, [1, 2, 0, 1], None, [2, -1], first=18),
    form("Pad", X, [0, 0, 1, 2, 0, 0, 0, 1], first=11, mode="edge", only="constant"), form("Pad", X, last=10, pads=[0] * 6 + [1, 2], mode="reflect", only="constant"),
    form("Slice", X, last=9, starts=[1, -3], ends=[3, 100], axes=[1, 3]), form("Slice", X, last=9, starts=[0, 1], ends=[1, 3]),
    form("Slice", X, [1, -3], [3, 100], [1, 3], first=10), form("Slice", X, [3], [-9], [3], [-2], first=10),
    form("Split", X, last=12, axis=3, split=[2, 3], outputs=2), form("Split", X, last=12, axis=2, outputs=2),
    form("Split", X, [2, 3], first=13, axis=3, outputs=2), form("Split", X, first=13, last=17, axis=2, outputs=2),
    form("Split", X, first=18, axis=3, num_outputs=2, outputs=2),
    form("Squeeze", X, last=12, axes=[0]), form("Squeeze", X), form("Squeeze", X, [0], first=13),
    form("Unsqueeze", X, last=12, axes=[0, 3]), form("Unsqueeze", X, [0, 3], first=13), form("Unsqueeze", X, [-1], first=13),
    form("TopK", X, last=9, k=2, outputs=2), form("TopK", X, [2], first=10, outputs=2),
    form("TopK", X, [2], first=11, axis=1, largest=0, outputs=2),
    form("ReduceSum", X, last=12, axes=[1, 3], keepdims=0), form("ReduceSum", X), form("ReduceSum", X, [1, 3], first=13),
    form("ReduceSum", X, first=13, noop_with_empty_axes=1),
    *(form(f"Reduce{kind}", POSITIVE, last=17, axes=[1, 2]) for kind in REDUCTIONS),
    *(form(f"Reduce{kind}", POSITIVE, keepdims=0) for kind in REDUCTIONS),
    *(form(f"Reduce{kind}", POSITIVE, [1, 2], first=18, keepdims=0) for kind in REDUCTIONS),
    form("ReduceMean", X, first=18, noop_with_empty_axes=1),
    form("ArgMax", X, axis=2), form("ArgMin", X, axis=3, keepdims=0), form("ArgMax", X, first=12, axis=1, select_last_index=1),
    form("BatchNormalization", X, POSITIVE[0, :, 0, 0], [0.5, 1.0, 2.0], [0.1, 0.2, 0.3], [1.0, 2.0, 3.0]),
    form("BatchNormalization", X, [1.5, 2.0, 3.0], [0.5, 1.0, 2.0], [0.1, 0.2, 0.3], [1.0, 2.0, 3.0], epsilon=0.1),
    form("Gemm", X[0, 0], numbers(5, 3), [1.0, 2.0, 3.0]), form("Gemm", X[0, 0], numbers(3, 5), first=11, transB=1, alpha=0.5),
    form("Gemm", X[0, 0], numbers(5, 3), numbers(4, 1), beta=2.0),
    form("MatMul", X, numbers(5, 2)), form("Transpose", X, perm=[2, 0, 3, 1]),
    form("Reshape", X, [0, -1, 5]), form("Reshape", X, [0, 3, -1], first=14, allowzero=0),
    form("Concat", X, SMALL, axis=1), form("Expand", X[:, :, :1], [1, 3, 4, 5], first=8), form("Tile", X, [1, 2, 1, 3]),
    form("Gather", X, [2, 0], axis=1), form("Gather", X, 3, axis=3), form("Gather", X, [-1], first=11, axis=2),
    form("GatherElements", X[0, 0], [[0, 1]] * 4, first=11, axis=1), form("GatherND", X[0], [[0, 1], [2, 3]], first=11),
    form("ScatterElements", X[0, 0], [[1, 0, 2, 3, 0]], numbers(1, 5), first=11),
    form("ScatterND", X[0, 0], [[1], [3]], numbers(2, 5), first=11),
    form("CumSum", X, 1, first=11), form("DepthToSpace", numbers(1, 8, 2, 3), blocksize=2),
    form("DepthToSpace", numbers(1, 8, 2, 3), first=11, blocksize=2, mode="CRD"), form("SpaceToDepth", X[:, :, :, :4], blocksize=2),
    form("OneHot", [0, 2], 3, [0.5, 2.0], first=9), form("Compress", X, [True, False, True], first=9, axis=1),
    form("NonZero", X[0, 0], first=9), form("Range", 0, 6, 2, first=11), form("EyeLike", X[0, 0], first=9),
    form("ConstantOfShape", [2, 3], first=9, value=numpy_helper.from_array(np.array([3.0], np.float32))),
    form("Shape", X), form("Shape", X, first=15, start=1, end=-1), form("Size", X), form("Einsum", X[0, 0], numbers(5, 2), first=12, equation="ij,jk->ki"),
    form("Cast", X, to=TensorProto.FLOAT), form("Cast", X, to=TensorProto.INT32), form("Cast", X, to=TensorProto.DOUBLE),
    form("Conv", X, numbers(2, 3, 3, 3), pads=[1, 1, 1, 1]), form("ConvTranspose", X, numbers(3, 2, 2, 2), strides=[2, 2]),
    form("MaxPool", X, kernel_shape=[2, 3]), form("MaxPool", X, first=10, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    form("AveragePool", X, kernel_shape=[2, 3]), form("AveragePool", X, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    form("AveragePool", X, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    form("AveragePool", X, first=10, kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1, pads=[1, 0, 1, 0]),
    form("AveragePool", X, first=10, kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1, pads=[1, 0, 1, 0], count_include_pad=1),
    form("AveragePool", X, first=19, kernel_shape=[2, 2], dilations=[2, 2]),
    form("GlobalAveragePool", X), form("GlobalMaxPool", X), form("InstanceNormalization", X, [1.0, 2.0, 3.0], [0.0, 1.0, 2.0]),
    form("LpNormalization", X, axis=1, p=2),
    form("Upsample", X, last=8, scales=[1.0, 1.0, 2.0, 2.0]), form("Upsample", X, [1.0, 1.0, 2.0, 3.0], first=9, last=9),
    form("Upsample", X, last=8, scales=[1.0, 1.0, 2.0, 2.0], mode="nearest"),
    form("Resize", X, [1.0, 1.0, 2.0, 2.0], first=10, last=10), form("Resize", X, [1.0, 1.0, 2.0, 2.0], first=10, last=10, mode="linear"),
    form("Resize", X, None, [1.0, 1.0, 2.0, 2.0], first=13), form("Resize", X, None, [1.0, 1.0, 2.0, 2.0], first=13, mode="linear"),
    form("Resize", X, np.zeros(0, np.float32), [1.0, 1.0, 2.0, 2.0], first=11),
    form("Resize", X, None, None, [1, 3, 8, 10], first=13, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    form("QuantizeLinear", X, 0.05, np.uint8(100), first=10),
    form("QuantizeLinear", np.asarray([[3e38, -3e38, 25.3, -1e30]], np.float32), 0.1, np.uint8(7), first=10), form("DequantizeLinear", np.arange(6, dtype=np.uint8), 0.05, np.uint8(3), first=10),
)  # fmt: skip


def written(form: Form, opset: int, computed: bool) -> onnx.ModelProto:
    """The form alone on an input (`computed`), or on constants: then its results are added to an input."""
    names = ["_" if value is None else f"c{i}" for i, value in enumerate(form.inputs)]
    arrays = {f"c{i}": as_array(value) for i, value in enumerate(form.inputs) if value is not None}
    outputs = [f"y{i}" for i in range(form.outputs)]
    own = node(form.op, " ".join(names), " ".join(outputs), **form.attrs)
    if computed:
        return model([own], {"c0": arrays.pop("c0").shape}, arrays, outputs, opset)
    behind = []
    for y in outputs:
        behind += [node("Cast", y, f"{y}f", to=TensorProto.FLOAT), node("Reshape", f"{y}f row", f"{y}r")]
    behind += [node("Concat", " ".join(f"{y}r" for y in outputs), "w", axis=1), node("Add", "x w", "y")]
    return model([own, *behind], {"x": (1, 1)}, {**arrays, "row": [1, -1]}, ["y"], opset)


@pytest.mark.parametrize("form", [form for form in FORMS if form.only != "computed"], ids=str)
def test_constants_are_folded_in_the_opset_of_the_model(form: Form, tmp_path: Path) -> None:
    for opset in form.opsets():
        proto = written(form, opset, computed=False)
        expected = all_values(proto, {"x": np.zeros((1, 1), np.float32)})["y"]
        graph = load(saved(proto, tmp_path))
        found = run_float(graph, {"x": np.zeros((1, 1), np.float32)})["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=f"opset {opset}")


COMPUTED = [
    form
    for form in FORMS
    if form.op in importers() and as_array(form.inputs[0]).dtype == np.float32 and form.only != "constant"
]


@pytest.mark.parametrize("form", COMPUTED, ids=str)
def test_computed_values_follow_the_opset_of_the_model(form: Form, tmp_path: Path) -> None:
    for opset in form.opsets():
        proto = written(form, opset, computed=True)
        expected = all_values(proto, {"c0": form.inputs[0]})
        graph = load(saved(proto, tmp_path))
        for candidate in (graph, canonicalize(graph)):
            compare(candidate, {"c0": form.inputs[0]}, expected)


def test_an_upsample_of_opset_1_has_a_scale_for_rows_and_one_for_columns(tmp_path: Path) -> None:
    """onnxruntime does not take models of opset 1."""
    form = Form("Upsample", (X,), {"mode": "nearest", "height_scale": 2.0, "width_scale": 3.0})
    proto = written(form, 1, computed=True)
    found = run_float(load(saved(proto, tmp_path)), {"c0": X})["y0"]
    np.testing.assert_array_equal(found, X.repeat(2, axis=2).repeat(3, axis=3))


def test_the_view_of_an_old_torch_export(tmp_path: Path) -> None:
    """x.view(x.size(0), -1) as it was before opset 13: the axes of Unsqueeze are an attribute."""
    nodes = [
        node("MaxPool", "x", "p", kernel_shape=[2, 2]),
        node("Shape", "p", "s"),
        node("Gather", "s i", "n", axis=0),
        node("Unsqueeze", "n", "u", axes=[0]),
        node("Concat", "u m", "t", axis=0),
        node("Reshape", "p t", "f"),
        node("MatMul", "f w", "y"),
    ]
    constants = {"i": 0, "m": [-1], "w": numbers(3 * 3 * 4, 5)}
    for opset in (9, 10, 11, 12):
        graph = canonical(model(nodes, {"x": X.shape}, constants, opset=opset), tmp_path)
        assert graph.values["y"].shape == (1, 5)


def test_constants_that_would_be_random_are_refused(tmp_path: Path) -> None:
    nodes = [node("Dropout", "c r t", "d"), node("Add", "x d", "y")]
    proto = model(nodes, {"x": (1, 8)}, {"c": numbers(8), "r": 0.5, "t": np.bool_(True)}, opset=13)
    (found,) = problems(saved(proto, tmp_path))
    assert "training mode" in found.reason
