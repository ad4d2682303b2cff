"""Damaged or hostile files of every format end in a sentence and exit code 2; no memory is allocated for sizes that a
file only claims.
"""

from __future__ import annotations

import io
import json
import shutil
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from small_models import model, node, saved, weights

from glowembed.emit import graphfile
from glowembed.errors import UsageError
from glowembed.files import arrays, documents
from glowembed.files.arrays import open_npz, read_npy
from glowembed.graph.target import read_target
from glowembed.judge import farm
from glowembed.pipeline import CompileOptions, compile_model, load_bundle
from glowembed.quantize import precision
from glowembed.ranges.datasets import Dataset
from glowembed.ranges.profile import Profile, to_yaml
from glowembed.ranges.record import observe

DEEP = 50_000

TEXTS: dict[str, tuple[Callable[[str, str], object], str, str]] = {
    "deep yaml": (documents.parse_yaml, "[" * DEEP, "deeper than"),
    "deep yaml blocks": (documents.parse_yaml, "- " * DEEP, "deeper than"),
    "deep yaml mappings": (documents.parse_yaml, "{a: " * DEEP, "deeper than"),
    "yaml indented deeply": (documents.parse_yaml, "\n".join(" " * i + "a:" for i in range(500)), "deeper than"),
    "yaml alias": (documents.parse_yaml, "a: &a [1]\nb: [*a, *a]", "alias"),
    "yaml tag": (documents.parse_yaml, "a: !!bool x", "tag"),
    "yaml key twice": (documents.parse_yaml, "a: 1\na: 2", "twice"),
    "yaml huge number": (documents.parse_yaml, "a: " + "1" * 5000, "limit"),
    "yaml no date": (documents.parse_yaml, "a: 2001-99-99", "month"),
    "deep json": (documents.parse_json, "[" * DEEP, "deeper than"),
    "json key twice": (documents.parse_json, '{"a": 1, "a": 2}', "twice"),
    "json infinity": (documents.parse_json, '{"a": 1e999}', "not finite"),
    "json NaN": (documents.parse_json, '{"a": NaN}', "not finite"),
    "json huge number": (documents.parse_json, "1" * 5000, "limit"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_texts(case: str) -> None:
    read, text, words = TEXTS[case]
    with pytest.raises(UsageError, match=words):
        read(text, "FILE")


def test_depth_is_bounded_on_both_sides_of_the_limit() -> None:
    limit = documents.MAX_DEPTH
    for parse in (documents.parse_json, documents.parse_yaml):
        assert parse("[" * limit + "]" * limit, "FILE")
        with pytest.raises(UsageError, match="deeper"):
            parse("[" * (limit + 1) + "]" * (limit + 1), "FILE")
    assert documents.parse_json(json.dumps({"a[[[" * 100: "]]{{" * 100}), "FILE")


READERS: dict[str, Callable[[Path], object]] = {
    "profile": Profile.load,
    "precision": precision.load,
    "farm": lambda path: farm.read(path, path, path),
    "target": read_target,
}


@pytest.mark.parametrize("content", [b"[" * DEEP, b"\xff\xfe", b"", b"\0", b"[]", b"a: *a", b"= = =", b"1", b"{"])
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_in_words(reader: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    if reader == "precision" and content in (b"", b"{}"):
        return  # nothing but defaults
    with pytest.raises(UsageError, match="file"):
        READERS[reader](path)


def _npy(shape: tuple[int, ...], dtype: str = "<f4", data: bytes = b"") -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue() + data


def _npz(*entries: tuple[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return file.getvalue()


GOOD = _npy((2, 2), data=bytes(16))
ENCRYPTED = bytearray(_npz(("a.npy", GOOD)))
ENCRYPTED[6] |= 1  # the flags, beside the array and in the directory
ENCRYPTED[ENCRYPTED.index(b"PK\x01\x02") + 8] |= 1
ARRAYS: dict[str, tuple[bytes, str]] = {
    "encrypted": (bytes(ENCRYPTED), "it is encrypted: unpack it with its password"),
    "an array that is cut short": (_npz(("a.npy", GOOD[:7])), "it is damaged or cut short"),
    "a claim": (_npz(("a.npy", _npy((2**40,)))), "says it has the shape"),
    "a claim that overflows": (_npz(("a.npy", _npy((2**62, 2**62)))), "says it has the shape"),
    "objects": (_npz(("a.npy", _npy((1,), "|O", b"x"))), "pickled Python objects"),
    "no array": (_npz(("a.txt", b"x")), "which is not an array"),
    "cut short": (_npz(("a.npy", GOOD))[:-40], "not a readable"),
    "empty": (b"", "not a readable"),
    "not a zip": (b"x" * 1000, "not a readable"),
    "a header that is none": (_npz(("a.npy", b"\x93NUMPY\x01\x00\x08\x00{'a': 1}")), "not a readable"),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_archives(case: str, tmp_path: Path) -> None:
    content, words = ARRAYS[case]
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=words), open_npz(path) as archive:
        dict(archive)


def test_an_archive_with_a_name_twice(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        content = _npz(("a.npy", GOOD), ("a.npy", GOOD))
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(UsageError, match="twice"), open_npz(tmp_path / "a.npz"):
        pass


def test_an_archive_that_expands_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.npz").write_bytes(_npz(("a.npy", _npy((1 << 20,), "|i1", bytes(1 << 20)))))
    assert (tmp_path / "a.npz").stat().st_size < 5000
    monkeypatch.setattr(arrays, "MAX_BYTES", 1 << 20)
    with pytest.raises(UsageError, match="expands to"), open_npz(tmp_path / "a.npz"):
        pass


def test_arrays_that_are_sound(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(GOOD)
    (tmp_path / "a.npz").write_bytes(_npz(("a.npy", GOOD)))
    assert read_npy(tmp_path / "a.npy").shape == (2, 2)
    with open_npz(tmp_path / "a.npz") as archive:
        assert archive["a"].shape == (2, 2)


@pytest.mark.parametrize("shape", [(2**40,), (2**62, 2**62), (5,)])
def test_an_npy_that_claims_too_much(shape: tuple[int, ...], tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(_npy(shape, data=bytes(16)))
    with pytest.raises(UsageError, match="says it has the shape"):
        read_npy(tmp_path / "a.npy")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    proto = model([node("Conv", "x w", "h"), node("Relu", "h", "y")], {"x": (1, 3, 5, 5)}, {"w": weights(4, 3, 3, 3)})
    samples = np.random.default_rng(1).random((8, 3, 5, 5)).astype(np.float32)
    data = Dataset({"x": samples}, shapes={"x": (1, 3, 5, 5)})
    return compile_model(saved(proto, folder), folder / "bundle", CompileOptions(), data).path


@pytest.fixture
def bundle(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "bundle"))


@pytest.mark.parametrize("file", ["bundle.json", "reference/graph.json", "reference/constants.npz"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_bundle_that_is_cut_short(file: str, share: float, bundle: Path) -> None:
    path = bundle / file
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(UsageError):
        load_bundle(bundle)


WRONG = (None, True, -1, 10**30, 0.5, "x", [], {}, [[]], [None])


def _places(document: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    inner: list[tuple[object, object]] = []
    if isinstance(document, dict):
        inner = list(document.items())
    elif isinstance(document, list):
        inner = list(enumerate(document[:2]))
    return [(*path, key) for key, _ in inner] + [p for key, value in inner for p in _places(value, (*path, key))]


@pytest.mark.parametrize("file", ["bundle.json", "reference/graph.json"])
def test_every_field_of_a_bundle_missing_or_wrong(file: str, bundle: Path) -> None:
    """The bundle either loads or is refused with a message."""
    path, refused = bundle / file, 0
    text = path.read_text("utf-8")
    for number, place in enumerate(_places(json.loads(text))):
        for value in (..., WRONG[number % len(WRONG)], WRONG[(number + 3) % len(WRONG)]):
            document = json.loads(text)
            holder = document
            for key in place[:-1]:
                holder = holder[key]
            if value is ...:
                del holder[place[-1]]
            else:
                holder[place[-1]] = value
            path.write_text(json.dumps(document), "utf-8")
            try:
                load_bundle(bundle) if file == "bundle.json" else graphfile.read(bundle)
            except UsageError:
                refused += 1
    assert refused > 100


@pytest.mark.parametrize(("field", "value"), [("axis", 10**30), ("axis", 1), ("axis", -1), ("zero_point", [10**400])])
def test_a_quantization_that_numpy_cannot_hold(field: str, value: object, bundle: Path) -> None:
    path = bundle / "reference" / "graph.json"
    document = json.loads(path.read_text("utf-8"))
    quantized = next(entry for entry in document["values"] if entry["qtype"])
    quantized["qtype"][field] = value
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(UsageError, match=r"graph\.json"):
        graphfile.read(bundle)


@pytest.mark.parametrize(
    ("old", "new"), [("samples: 1", f"samples: {10**400}"), ("channel_sum: [1.0]", "channel_sum: [1e300]")]
)
def test_a_profile_with_numbers_that_no_sample_adds_up_to(old: str, new: str, tmp_path: Path) -> None:
    path = tmp_path / "profile.yaml"
    recorded = observe(np.ones((1, 1), np.float32))
    text = to_yaml(Profile("0" * 64, 1, {"x": recorded}))
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
    with pytest.raises(UsageError, match=r"samples|channel_sum"):
        Profile.load(path)


def test_an_array_with_a_header_of_python_2_is_read_in_silence(tmp_path: Path) -> None:
    old = GOOD.replace(b"(2, 2)", b"(2L,2)")
    (tmp_path / "a.npy").write_bytes(old)
    (tmp_path / "a.npz").write_bytes(_npz(("a.npy", old)))
    with warnings.catch_warnings(action="error"):
        assert read_npy(tmp_path / "a.npy").shape == (2, 2)
        with open_npz(tmp_path / "a.npz") as archive:
            assert archive["a"].shape == (2, 2)


def test_constants_that_are_texts(bundle: Path) -> None:
    path = bundle / "reference" / "constants.npz"
    with open_npz(path) as archive:
        whole = dict(archive)
    name = min(whole)
    np.savez(path, **{**whole, name: whole[name].astype("U")})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="does not hold numbers"):
        graphfile.read(bundle)
