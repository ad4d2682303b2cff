"""Samples in .csv files, and folders of .npy and .wav files: the samples that result, and the messages."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from glowembed.errors import UsageError
from glowembed.graph.ir import QType
from glowembed.ranges import datasets
from glowembed.ranges.datasets import InputSpec, Integers, Source

X = InputSpec("x", (1, 2, 2))
TWO = (InputSpec("a", (1, 2)), InputSpec("b", (1, 1)))
NUMBERS = np.arange(8, dtype=np.float32).reshape(2, 2, 2)

TABLES = {
    "no header": ("0,1,2,3\n4,5,6,7\n", (X,), {"x": NUMBERS}, None),
    "header with indices": ("x[0],x[1],x[2],x[3]\n0,1,2,3\n4,5,6,7", (X,), {"x": NUMBERS}, None),
    "pairs of indices": ("x_0_0,x_0_1,x_1_0,x_1_1\n0,1,2,3\n4,5,6,7", (X,), {"x": NUMBERS}, None),
    "names of its own": ("h;w;m;age\n0;1;2;3\n4;5;6;7", (X,), {"x": NUMBERS}, None),
    "decimal commas": ("a;b;c;d\n0,0;1;2,0;3\n4,00;5,;6;7", (X,), {"x": NUMBERS}, None),
    "decimal commas and tabs": ("0,0\t1\t2,0\t3\n4\t5\t6\t7", (X,), {"x": NUMBERS}, None),
    "labels": ("label,h,w,m,age\n1,0,1,2,3\n0,4,5,6,7\n\n", (X,), {"x": NUMBERS}, [1, 0]),
    "quotes and a mark": ('\ufeff"x.0","x.1","x.2","x.3"\r\n0,1,"2",3\r\n4,5,6,7', (X,), {"x": NUMBERS}, None),
    "empty cells": (
        "0,,2,3\n4,5, ,7",
        (InputSpec("x", (1, 4), missing=True),),
        {"x": [[0, np.nan, 2, 3], [4, 5, np.nan, 7]]},
        None,
    ),
    "two inputs": ("b,a0,a1\n9,0,1\n8,2,3", TWO, {"a": [[0, 1], [2, 3]], "b": [[9], [8]]}, None),
}


@pytest.mark.parametrize("case", TABLES)
def test_tables(case: str, tmp_path: Path) -> None:
    text, specs, expected, labels = TABLES[case]
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    found = datasets.load(tmp_path / "t.csv", specs, "test")
    for name, array in expected.items():
        np.testing.assert_array_equal(found.inputs[name], np.asarray(array, np.float32))
    assert (None if found.labels is None else found.labels.tolist()) == labels


@pytest.mark.parametrize(
    ("text", "specs", "message"),
    [
        ("", (X,), "holds no samples"),
        ("x0,x1,x2,x3\n", (X,), "holds no samples"),
        ("0,1,2\n", (X,), "line 1 has 3 numbers for the input 'x' of shape .*, which takes 4"),
        ("0,1,2,3\n4,5,6\n", (X,), "line 2 has 3 columns, and the first row has 4"),
        ("0,1,2,3\n4,5,b,6\n", (X,), "line 2, column 3: 'b' is not a number"),
        ("0;1;2;1.000,5\n", (X,), "holds no samples"),
        ("0;1;2;3\n4;5;6;1.000,5\n", (X,), "line 2, column 4: '1.000,5' is not a number"),
        ("x0,x1,x2,x3\n4,5,,6\n", (X,), r"line 2, column 3 \('x2'\): '' is not a number"),
        ("0,1,2,nan\n", (X,), "not finite"),
        ("0,1,2\n", TWO, "holds one array, but the model has 2 inputs"),
        ("a0,a1\n1,2\n", TWO, "unknown column in .* for the input 'b'"),
        ("a0,a1,b,c\n1,2,3,4\n", TWO, "the columns 'c' belong to no input"),
        (b"\xff\xfe1,2", (X,), "not text in UTF-8"),
    ],
    ids=str,
)
def test_tables_that_do_not_fit(text: str | bytes, specs: tuple[InputSpec, ...], message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError, match=message):
        datasets.load(tmp_path / "t.csv", specs, "test")


def sound(path: Path, numbers: np.ndarray, width: int, channels: int = 1) -> None:
    path.parent.mkdir(exist_ok=True)
    low = {1: np.uint8, 2: "<i2", 4: "<i4"}.get(width)
    data = (
        numbers.astype(low).tobytes() if low else b"".join(int(n).to_bytes(3, "little", signed=True) for n in numbers)
    )
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(16000)
        file.writeframes(data)


@pytest.mark.parametrize(("width", "one"), [(1, 64), (2, 1 << 14), (3, 1 << 22), (4, 1 << 30)])
def test_sounds_are_numbers_from_minus_one_to_one(width: int, one: int, tmp_path: Path) -> None:
    wanted = np.array([0.5, -0.5, 0.0, -1.0])
    sound(tmp_path / "s" / "0.wav", wanted * 2 * one + (128 if width == 1 else 0), width)
    found = datasets.load(tmp_path / "s", [X], "test")
    np.testing.assert_array_equal(found.inputs["x"].reshape(-1), wanted.astype(np.float32))
    assert [str(note) for note in found.notes] == ["1 .wav files, one sample each as mono, -1..1"]


def test_channels_of_a_sound_are_averaged_and_its_length_must_fit(tmp_path: Path) -> None:
    sound(tmp_path / "s" / "0.wav", np.array([0, 1 << 14] * 4), 2, channels=2)
    assert datasets.load(tmp_path / "s", [X], "test").inputs["x"].reshape(-1).tolist() == [0.25] * 4
    with pytest.raises(UsageError, match=r"has 4 numbers at 16000 Hz, but the input 'x' of shape .* takes 6"):
        datasets.load(tmp_path / "s", [InputSpec("x", (1, 6))], "test")
    (tmp_path / "s" / "0.wav").write_bytes(b"RIFF")
    with pytest.raises(UsageError, match=r"cannot be read as a .wav file"):
        datasets.load(tmp_path / "s", [X], "test")


def test_a_folder_of_arrays_is_a_sample_each_or_named_as_the_inputs(tmp_path: Path) -> None:
    for index, kind in enumerate(("cat", "dog", "dog")):
        (tmp_path / "s" / kind).mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / "s" / kind / f"{index}.npy", np.full((2, 2), index, np.float32))
    found = datasets.load(tmp_path / "s", [X], "test")
    assert found.inputs["x"][:, 0, 0].tolist() == [0, 1, 2]
    assert found.labels is not None
    assert found.labels.tolist() == [0, 1, 1]
    np.save(tmp_path / "s" / "dog" / "4.npy", np.zeros((2, 3), np.float32))
    with pytest.raises(UsageError, match=r"4.npy: holds float32 of shape \(2, 3\), but 0.npy"):
        datasets.load(tmp_path / "s", [X], "test")
    (tmp_path / "n").mkdir()
    np.save(tmp_path / "n" / "a.npy", np.ones((3, 2)))
    np.save(tmp_path / "n" / "calib_b.npy", np.ones((3, 1)))
    assert {name: a.shape for name, a in datasets.load(tmp_path / "n", TWO, "calib").inputs.items()} == {
        "a": (3, 2), "b": (3, 1),
    }  # fmt: skip
    with pytest.raises(UsageError, match="has no array 'test_b' or 'b'"):
        datasets.load(tmp_path / "n", TWO, "test")


def test_random_samples_are_the_same_every_time_and_others_for_the_test() -> None:
    specs = (
        InputSpec("f", (1, 50)),
        InputSpec("i", (1, 50), "int64"),
        InputSpec("n", (1, 50), "int4"),
        InputSpec("q", (1, 50), integers=Integers("int8", QType("int8", (0.5,), (0,)))),
    )
    first, again = (datasets.load(Source(random=4), specs, "calib") for _ in range(2))
    other = datasets.load(Source(random=4), specs, "test")
    for name in ("f", "i", "n", "q"):
        assert first.inputs[name].shape == (4, 50)
        np.testing.assert_array_equal(first.inputs[name], again.inputs[name])
        assert not np.array_equal(first.inputs[name], other.inputs[name])
    assert set(np.unique(first.inputs["i"])) == {0, 1}
    assert 60 < first.inputs["q"].max() <= 64
    assert [note.code for note in first.notes] == ["random-data"]
