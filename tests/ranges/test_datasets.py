"""Data in every form, and data that does not fit: the samples that result, and the messages."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from PIL import Image

from glowembed.errors import UsageError
from glowembed.graph.ir import Graph, QType, Value
from glowembed.ranges import datasets
from glowembed.ranges.datasets import ImageOptions, InputSpec, Source

NCHW = InputSpec("x", (1, 3, 4, 5))
NHWC = InputSpec("x", (1, 4, 5, 3))
VECTOR = InputSpec("x", (1, 6))
RANDOM = np.random.default_rng(0)


def samples(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def npz(folder: Path, **arrays: object) -> Path:
    path = folder / "data.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


READINGS = {
    "as it is": (samples(7, 3, 4, 5), NCHW, lambda a: a, ""),
    "with the batch axis": (samples(7, 1, 3, 4, 5), NCHW, lambda a: a[:, 0], ""),
    "NHWC for NCHW": (samples(7, 4, 5, 3), NCHW, lambda a: a.transpose(0, 3, 1, 2), "NHWC to NCHW"),
    "NCHW for NHWC": (samples(7, 3, 4, 5), NHWC, lambda a: a.transpose(0, 2, 3, 1), "NCHW to NHWC"),
    "two axes": (samples(7, 5, 3), InputSpec("x", (1, 3, 5)), lambda a: a.transpose(0, 2, 1), "swapped"),
    "no channel axis": (samples(7, 4, 5), InputSpec("x", (1, 1, 4, 5)), lambda a: a[:, None], "channel axis"),
    "no channel axis, last": (samples(7, 4, 5), InputSpec("x", (1, 4, 5, 1)), lambda a: a[..., None], "channel axis"),
    "no batch axis in the model": (samples(7, 4, 5), InputSpec("x", (4, 5)), lambda a: a, ""),
    "integers": (np.arange(42, dtype=np.uint8).reshape(7, 6), VECTOR, lambda a: a.astype(np.float32), ""),
    "float64": (samples(7, 6).astype(np.float64), VECTOR, lambda a: a.astype(np.float32), ""),
}


@pytest.mark.parametrize("case", READINGS)
def test_shapes_are_read_the_one_way_they_allow(case: str, tmp_path: Path) -> None:
    array, spec, expected, note = READINGS[case]
    data = datasets.load(npz(tmp_path, calib_x=array, test_x=array[::-1]), [spec], "calib")
    assert len(data) == 7
    assert data.inputs["x"].dtype == np.float32
    np.testing.assert_array_equal(data.inputs["x"], expected(array))
    assert data.sample(3)["x"].shape == spec.shape
    assert (note in " ".join(map(str, data.notes))) and bool(data.notes) == bool(note)


def test_roles_scale_and_labels(tmp_path: Path) -> None:
    stored = np.arange(12, dtype=np.int8).reshape(2, 6)
    path = npz(tmp_path, calib_x=stored, test_x=stored + 1, test_y=[0, 1], x_scale=0.5, x_zero=2)
    calib, test = datasets.load(path, [VECTOR], "calib"), datasets.load(path, [VECTOR], "test")
    np.testing.assert_array_equal(calib.inputs["x"], (stored - 2) * np.float32(0.5))
    np.testing.assert_array_equal(test.inputs["x"], (stored - 1) * np.float32(0.5))
    assert calib.labels is None
    assert test.labels is not None
    assert test.labels.tolist() == [0, 1]


def test_several_inputs_have_their_own_names_and_scales(tmp_path: Path) -> None:
    specs = [InputSpec("a", (1, 2)), InputSpec("b/c", (1, 3))]
    arrays = {"calib_a": np.ones((4, 2), np.int8), "calib_b/c": np.ones((4, 3)), "a_scale": 3.0}
    data = datasets.load(npz(tmp_path, **arrays), specs, "calib")
    assert data.inputs["a"][0, 0] == 3
    assert data.inputs["b/c"][0, 0] == 1


def test_arrays_named_as_the_inputs_serve_both_roles_with_their_scales(tmp_path: Path) -> None:
    specs = [InputSpec("a", (1, 2)), InputSpec("b/c", (1, 3))]
    path = npz(tmp_path, a=np.ones((4, 2), np.int8), a_scale=3.0, **{"b/c": np.ones((4, 3))}, test_y=[0, 1, 0, 1])
    calib, test = datasets.load(path, specs, "calib"), datasets.load(path, specs, "test")
    assert calib.inputs["a"][0, 0] == test.inputs["a"][0, 0] == 3
    assert test.labels is not None
    one = npz(tmp_path, x=samples(3, 6), test_y=[0, 1, 2])
    assert len(datasets.load(one, [VECTOR], "calib")) == 3


OTHER, SAME = samples(9, 6), samples(9, 6)
BYTES = np.arange(-128, 128, 2).astype(np.int8).repeat(3).reshape(-1, 6)
NOTES = {
    # case -> arrays, role, codes
    "other samples": ({"calib_x": OTHER, "test_x": SAME}, "calib", []),
    "the same samples": ({"calib_x": SAME, "test_x": SAME}, "calib", ["calibration-is-test"]),
    "the same samples, as test": ({"calib_x": SAME, "test_x": SAME}, "test", []),
    "nothing but a test": ({"test_x": SAME}, "calib", ["calibration-is-test"]),
    "bytes": ({"calib_x": BYTES}, "calib", ["integers-as-numbers"]),
    "bytes and scale 1": ({"calib_x": BYTES, "x_scale": 1, "x_zero": 0}, "calib", ["integers-as-numbers"]),
    "bytes and a scale": ({"calib_x": BYTES, "x_scale": 0.5}, "calib", []),
    "pixels": ({"calib_x": (BYTES.view(np.uint8)), "x_scale": 1.0}, "calib", []),
    "pixels without a scale": ({"calib_x": BYTES.view(np.uint8)}, "calib", ["integers-as-numbers"]),
    "class numbers": ({"calib_x": np.clip(BYTES, 0, 9)}, "calib", []),
}


@pytest.mark.parametrize("case", NOTES)
def test_notes_on_an_archive(case: str, tmp_path: Path) -> None:
    arrays, role, codes = NOTES[case]
    assert [note.code for note in datasets.load(npz(tmp_path, **arrays), [VECTOR], role).notes] == codes  # type: ignore[arg-type]


@pytest.mark.parametrize("role", ["calib", "test"])
def test_a_single_array_serves_both_roles(role: datasets.Role, tmp_path: Path) -> None:
    array = samples(3, 6)
    np.save(tmp_path / "data.npy", array)
    for path in (tmp_path / "data.npy", npz(tmp_path, anything=array)):
        np.testing.assert_array_equal(datasets.load(path, [VECTOR], role).inputs["x"], array)


def test_evenly_spaced_samples(tmp_path: Path) -> None:
    array = np.arange(10, dtype=np.float32).repeat(6).reshape(10, 6)
    data = datasets.load(npz(tmp_path, test_x=array, test_y=np.arange(10)), [VECTOR], "test").every(4)
    assert data.labels is not None
    assert data.labels.tolist() == [0, 2, 5, 7]
    assert data.inputs["x"][:, 0].tolist() == [0, 2, 5, 7]
    assert data.every(99) is data


def test_tensor_files(tmp_path: Path) -> None:
    arrays = [samples(1, 6) for _ in range(11)]
    for i, array in enumerate(arrays):
        folder = tmp_path / f"test_data_set_{i}"
        folder.mkdir()
        (folder / "input_0.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
    data = datasets.load(tmp_path, [VECTOR], "test")
    np.testing.assert_array_equal(data.inputs["x"], np.concatenate(arrays))
    one = datasets.load(tmp_path / "test_data_set_3" / "input_0.pb", [VECTOR], "test")
    np.testing.assert_array_equal(one.inputs["x"], arrays[3])


def images(folder: Path) -> Path:
    for label, color in (("cat", (255, 0, 0)), ("dog", (0, 0, 255))):
        (folder / label).mkdir(parents=True)
        Image.new("RGB", (10, 8), color).save(folder / label / "one.png")
    return folder


def test_images(tmp_path: Path) -> None:
    options = ImageOptions("-1..1", mean=(0.5, 0.0, 0.0), std=(1.0, 2.0, 1.0))
    data = datasets.load(Source(images(tmp_path), images=options), [NCHW], "test")
    assert data.labels is not None
    assert data.labels.tolist() == [0, 1]
    np.testing.assert_allclose(data.inputs["x"][0, :, 0, 0], [0.5, -0.5, -1.0], atol=1e-6)
    last = datasets.load(Source(tmp_path, images=options), [NHWC], "test")
    np.testing.assert_array_equal(last.inputs["x"], data.inputs["x"].transpose(0, 2, 3, 1))
    grey = datasets.load(Source(tmp_path, images=ImageOptions("0..255")), [InputSpec("x", (1, 1, 4, 5))], "test")
    assert grey.inputs["x"][0, 0, 0, 0] == 76


def test_images_for_calibration_are_not_those_of_the_test_without_a_word(tmp_path: Path) -> None:
    images(tmp_path / "test")
    only = datasets.load(tmp_path, [NCHW], "calib")
    assert [note.code for note in only.notes] == ["data", "calibration-is-test"]
    assert only.labels is not None
    assert only.labels.tolist() == [0, 1], "classes, not the folder of the test"
    images(tmp_path / "calib")
    assert [note.code for note in datasets.load(tmp_path, [NCHW], "calib").notes] == ["data"]


def test_specs_are_in_the_layout_of_the_model() -> None:
    value = Value("x", (1, 4, 5, 3), layout=(0, 2, 3, 1))
    array = samples(1, 3, 4, 5)
    assert datasets._spec(value).shape == (1, 3, 4, 5)
    assert datasets.stored(value, array).shape == value.shape
    np.testing.assert_array_equal(value.logical(datasets.stored(value, array)), array)


def _nan() -> np.ndarray:
    array = samples(3, 6)
    array[1, 4] = np.nan
    return array


# case -> (arrays of an npz, words of the message)
BAD_NPZ = {
    "wrong shape": (
        {"calib_x": samples(3, 7), "y": 1},
        ["wrong shape", "3 samples of (7,)", "expected samples of (6,)"],
    ),
    "wrong shape, image": ({"calib_x": samples(3, 7, 7, 2), "y": 1}, ["NHWC", "NCHW"]),
    "flat": ({"calib_x": samples(3, 2, 3), "y": 1}, ["reshape"]),
    "complex": ({"calib_x": samples(3, 6).astype(np.complex64), "y": 1}, ["complex64", "real numbers"]),
    "strings": ({"calib_x": np.full((3, 6), "a"), "y": 1}, ["<U1"]),
    "dates": ({"calib_x": np.zeros((3, 6), "datetime64[s]"), "y": 1}, ["datetime64"]),
    "pickle": ({"calib_x": np.full((3, 6), None), "y": 1}, ["pickle", "never loaded"]),
    "name": ({"calib_X": samples(3, 6), "y": 1}, ["'calib_x'", "Nearest: 'calib_X'"]),
    "NaN": ({"calib_x": _nan(), "y": 1}, ["not finite", "sample 1 at (4,)"]),
    "infinite after conversion": ({"calib_x": np.full((3, 6), 1e300), "y": 1}, ["not finite", "inf"]),
    "no samples": ({"calib_x": samples(0, 6), "y": 1}, ["no samples"]),
    "a number": ({"calib_x": np.float32(3), "y": 1}, ["no samples"]),
    "scale of zero": ({"calib_x": samples(3, 6), "x_scale": 0.0}, ["x_scale", "above 0"]),
    "many scales": ({"calib_x": samples(3, 6), "x_scale": [1.0, 2.0]}, ["x_scale", "one finite number"]),
}


@pytest.mark.parametrize("case", BAD_NPZ)
def test_bad_archives(case: str, tmp_path: Path) -> None:
    arrays, words = BAD_NPZ[case]
    refused(npz(tmp_path, **arrays), words)


def refused(path: Path, words: list[str], role: datasets.Role = "calib", labels: str | None = None) -> None:
    with pytest.raises(UsageError) as caught:
        datasets.load(path, [VECTOR], role, labels)
    for word in [*words, path.name]:
        assert word in str(caught.value)


BAD_LABELS = {
    "length": ([1, 2], None, ["2 labels for 3 samples"]),
    "dtype": (["a", "b", "c"], None, ["labels have the dtype"]),
    "NaN": ([0.0, np.nan, 1.0], None, ["label", "not finite"]),
    "name": ([0, 1, 2], "test_z", ["'test_z'", "Did you mean"]),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_bad_labels(case: str, tmp_path: Path) -> None:
    labels, key, words = BAD_LABELS[case]
    refused(npz(tmp_path, test_x=samples(3, 6), test_y=labels), words, "test", key)


# case -> (file name, content, words of the message)
BAD_FILES = {
    "text as npz": ("data.npz", b"hello", [".npz"]),
    "truncated npz": ("data.npz", b"PK\x03\x04" + b"\0" * 40, ["not a readable .npz"]),
    "empty npy": ("data.npy", b"", ["not a readable .npy", "it is empty"]),
    "page as npz": ("data.npz", b"<!DOCTYPE html>", ["not a readable .npz", "a web page"]),
    "text as npy": ("data.npy", b"hello world", ["not a readable .npy"]),
    "absurd npy": (
        "data.npy",
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999999, 6), }".ljust(127)
        + b"\n",
        ["says it has the shape [999999999999999, 6]"],
    ),
    "unknown kind": ("data.xls", b"1,2", [".npz", ".npy", ".csv", ".pb"]),
    "text as tensor": ("input_0.pb", b"hello", ["TensorProto"]),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files(case: str, tmp_path: Path) -> None:
    name, content, words = BAD_FILES[case]
    (tmp_path / name).write_bytes(content)
    refused(tmp_path / name, words)


def test_missing_and_empty(tmp_path: Path) -> None:
    refused(tmp_path / "none.npz", ["no such file"])
    with pytest.raises(UsageError, match="no images"):
        datasets.load(tmp_path, [NCHW], "calib")


def test_external_tensor_data_is_refused(tmp_path: Path) -> None:
    tensor = onnx.TensorProto(data_type=1, dims=[1, 6], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="/etc/passwd")
    path = tmp_path / "input_0.pb"
    path.write_bytes(tensor.SerializeToString())
    refused(path, ["another file"])


def test_different_counts_and_single_arrays_for_several_inputs(tmp_path: Path) -> None:
    specs = [InputSpec("a", (1, 2)), InputSpec("b", (1, 3))]
    with pytest.raises(UsageError, match="different numbers of samples: a: 4, b: 5"):
        datasets.load(npz(tmp_path, calib_a=samples(4, 2), calib_b=samples(5, 3)), specs, "calib")
    with pytest.raises(UsageError, match="has 2 inputs"):
        datasets.load(npz(tmp_path, only=samples(4, 2)), specs, "calib")


BAD_IMAGES = {
    "scale": (ImageOptions("0..2"), NCHW, "image scale"),
    "mean": (ImageOptions(mean=(1.0, 2.0)), NCHW, "mean has 2 numbers"),
    "std": (ImageOptions(std=(0.0,)), NCHW, "above 0"),
    "model": (ImageOptions(), VECTOR, "not an image"),
}


@pytest.mark.parametrize("case", BAD_IMAGES)
def test_bad_images(case: str, tmp_path: Path) -> None:
    options, spec, words = BAD_IMAGES[case]
    with pytest.raises(UsageError, match=words):
        datasets.load(Source(images(tmp_path), images=options), [spec], "test")


def test_an_image_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("hello")
    with pytest.raises(UsageError, match=r"a\.png.*not a readable image"):
        datasets.load(tmp_path, [NCHW], "test")


REAL = np.array([[0.0, 0.5, -1.0]], np.float32)
INTEGERS = {
    # case -> (dtype in the model, arrays of the archive, expected input of the model); scale 0.1, zero point 3 or 131
    "real numbers": ("int8", {"x": REAL}, [[3, 8, -7]]),
    "real numbers, uint8": ("uint8", {"x": REAL}, [[131, 136, 121]]),
    "stored": ("int8", {"x": np.array([[3, 8, -7]], np.int8)}, [[3, 8, -7]]),
    "stored, uint8": ("uint8", {"x": np.array([[131, 136, 121]], np.uint8)}, [[131, 136, 121]]),
    "stored, scale 1": ("int8", {"test_x": np.array([[3, 8, -7]], np.int8), "x_scale": 1.0, "x_zero": 0}, [[3, 8, -7]]),
    "stored, only zero 0": ("uint8", {"test_x": np.array([[131, 8, 7]], np.uint8), "x_zero": 0}, [[131, 8, 7]]),
    "another scale": ("int8", {"test_x": np.array([[2, 3, 0]], np.int8), "x_scale": 0.5, "x_zero": 2}, [[3, 8, -7]]),
    "another zero": ("int8", {"test_x": np.array([[2, 3, 1]], np.int8), "x_zero": 2}, [[3, 13, -7]]),
    "another type": ("int8", {"x": np.array([[1, 2, 0]], np.uint8)}, [[13, 23, 3]]),
    "real numbers, scale 1": ("int8", {"test_x": REAL, "x_scale": 1.0}, [[3, 8, -7]]),
}


@pytest.mark.parametrize("case", INTEGERS)
def test_an_integer_input(case: str, tmp_path: Path) -> None:
    """Real numbers are quantized with the model's type; arrays of the model's own type are its integers."""
    dtype, arrays, expected = INTEGERS[case]
    value = Value("x", (1, 3), qtype=QType("int8", (0.1,), (3,)), model_dtype=dtype)
    graph = Graph("g", (), {"x": value}, ("x",), ())
    dataset = datasets.load(npz(tmp_path, **arrays), datasets.input_specs(graph), "test")
    fed = dataset.model_sample(0)["x"]
    assert fed.dtype.name == dtype
    assert fed.tolist() == expected
    assert np.allclose(
        dataset.sample(0)["x"], (np.asarray(expected, float) - (128 if dtype == "uint8" else 0) - 3) * 0.1
    )
