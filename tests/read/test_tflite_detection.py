"""TFLite_Detection_PostProcess against its definition in TensorFlow Lite, written out in numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from tflite_files import T, tflite_file

from glowembed.errors import UnsupportedModelError
from glowembed.judge import litert
from glowembed.judge.compare import run_float_model
from glowembed.ranges.datasets import input_specs
from glowembed.ranges.datasets import load as load_samples
from glowembed.read.importer import load
from glowembed.reference import run_float

COUNT, CLASSES, MOST = 30, 3, 6
OPTIONS: dict[str, Any] = {
    "max_detections": MOST, "max_classes_per_detection": 1, "detections_per_class": 100, "use_regular_nms": False,
    "nms_score_threshold": 0.3, "nms_iou_threshold": 0.4, "num_classes": CLASSES,
    "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
}  # fmt: skip
OUTPUTS = ("boxes", "classes", "scores", "count")


def ssd(anchors: Any, options: bytes) -> bytes:
    """A file whose boxes, scores and anchors are uint8, as TensorFlow's object detection writes them; the shapes of the
    results are not in it.
    """
    tensors = [
        T("x", (1, COUNT, 4), "uint8", 0.1, 128), T("s", (1, COUNT, CLASSES + 1), "uint8", 1 / 256, 0),
        T("anchors", (COUNT, 4), "uint8", 1 / 256, 0, data=anchors), *(T(name, (), "float32") for name in OUTPUTS),
    ]  # fmt: skip
    return tflite_file(
        tensors, [("TFLite_Detection_PostProcess", "x s anchors", " ".join(OUTPUTS), options)], "x s", " ".join(OUTPUTS)
    )


def packed(**changes: Any) -> bytes:
    return bytes(flexbuffers.Dumps({k: v for k, v in {**OPTIONS, **changes}.items() if v is not None}))


def overlap(a: Any, b: Any) -> float:
    high, wide = (max(min(a[q + 2], b[q + 2]) - max(a[q], b[q]), 0.0) for q in range(2))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return float(high * wide / (sum(areas) - high * wide))


def expected(x: Any, s: Any, anchors: Any, **changes: Any) -> list[Any]:
    options = {**OPTIONS, **changes}
    middle = x[:, :2] / 10.0 * anchors[:, 2:] + anchors[:, :2]
    half = np.exp(x[:, 2:] / 5.0) * anchors[:, 2:] / 2
    boxes, own = np.concatenate([middle - half, middle + half], axis=1), s[:, 1:]

    def kept(score: Any, most: int) -> list[int]:
        found: list[int] = []
        for i in np.argsort(-score, kind="stable"):
            enough = score[i] >= options["nms_score_threshold"] and len(found) < most
            if enough and all(overlap(boxes[i], boxes[j]) <= options["nms_iou_threshold"] for j in found):
                found.append(int(i))
        return found

    most, each = options["max_detections"], options["max_classes_per_detection"]
    if options["use_regular_nms"]:
        pairs = [(i, c) for c in range(CLASSES) for i in kept(own[:, c], options["detections_per_class"])]
        pairs = sorted(pairs, key=lambda pair: -own[pair])[:most]
        count = len(pairs)
    else:
        best = kept(own.max(axis=1), most)
        pairs = [(i, int(c)) for i in best for c in np.argsort(-own[i], kind="stable")[:each]]
        count = len(best)
    found = [
        np.array([boxes[i] for i, _ in pairs]).reshape(-1, 4),
        np.array([c for _, c in pairs]),
        np.array([own[pair] for pair in pairs]),
    ]
    rows = most * each - len(pairs)
    return [*(np.pad(f, [(0, rows), *[(0, 0)] * (f.ndim - 1)])[None] for f in found), np.array([count])]


FORMS: list[dict[str, Any]] = [
    {},
    {"max_classes_per_detection": 2},
    {"use_regular_nms": True},
    {"use_regular_nms": True, "detections_per_class": 2, "max_detections": 40, "nms_score_threshold": -10.0},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_detections_are_those_of_tensorflow_lite(seed: int, form: dict[str, Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    anchors = rng.integers(50, 150, (COUNT, 4))
    path = tmp_path / "ssd.tflite"
    path.write_bytes(ssd(anchors, packed(**form)))
    x = (rng.integers(0, 256, (1, COUNT, 4)) - 128) * 0.1
    s = rng.integers(0, (80, 256)[seed % 2], (1, COUNT, CLASSES + 1)) / 256
    graph = load(path)
    made = run_float(graph, dict(zip(graph.inputs, (x.astype(np.float32), s.astype(np.float32)), strict=True)))
    for name, want in zip(OUTPUTS, expected(x[0], s[0], anchors / 256, **form), strict=True):
        assert made[name].shape == want.shape
        np.testing.assert_allclose(made[name], want, rtol=2e-5, atol=2e-6, err_msg=name)


def test_the_float_reference_reads_the_integers_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime does not know the operator."""
    monkeypatch.setattr(litert, "is_installed", lambda: False)
    rng = np.random.default_rng(1)
    anchors, path = rng.integers(50, 150, (COUNT, 4)), tmp_path / "ssd.tflite"
    path.write_bytes(ssd(anchors, packed()))
    x, s = (rng.integers(0, 256, (1, COUNT, n), np.uint8) for n in (4, CLASSES + 1))
    np.savez(tmp_path / "samples.npz", x=x, s=s)
    found = run_float_model(path, load_samples(tmp_path / "samples.npz", input_specs(load(path)), "test"))
    wanted = expected((x[0].astype(float) - 128) * 0.1, s[0] / 256, anchors / 256)
    np.testing.assert_allclose(found["boxes"].reshape(wanted[0].shape), wanted[0], rtol=2e-5, atol=2e-6)


REFUSED = [
    (packed(max_classes_per_detection=0), "'max_classes_per_detection' is 0"),
    (packed(detections_per_class=0.5), "'detections_per_class' is 0.5"),
    (packed(max_detections=60000, max_classes_per_detection=3), "it gives 180000 detections"),
    (packed(max_detections=0), "'max_detections' is 0"),
    (packed(max_detections=10**9), "'max_detections' is 1e"),
    (packed(y_scale=0.0), "its scales"),
    (packed(num_classes=None), "'num_classes' is missing"),
    (packed(nms_iou_threshold=float("nan")), "'nms_iou_threshold' is missing or damaged"),
    (b"", "is missing or damaged"),
    *((packed()[:-n], "is missing or damaged") for n in (1, 2, 9)),
    (packed()[:-3] + b"\xff\xff\xff", "is missing or damaged"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_options_that_are_not_supported_or_damaged_are_refused(options: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "ssd.tflite"
    path.write_bytes(ssd(np.ones((COUNT, 4)), options))
    with pytest.raises(UnsupportedModelError, match=f"TFLite_Detection_PostProcess.*{message}"):
        load(path)
