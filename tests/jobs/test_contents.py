"""Jobs that are sent away: paths become contents, and contents paths again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import external_data_helper
from small_models import model, node, saved, weights

from glowembed.jobs import contents
from glowembed.read import importer, onnxfile


@dataclass(frozen=True)
class Inner:
    path: Path | None
    text: str = "kept"


@dataclass(frozen=True)
class Job:
    model: Path
    inner: Inner
    number: int = 7


def sent(job: Job, there: Path) -> Job:
    files: dict[str, contents.Files] = {}

    def content_of(path: Path) -> contents.Content:
        content, found = contents.content(path, onnxfile.beside(path))
        files[content.key] = found
        return content

    packed = contents.packed(job, content_of)
    assert "/" not in repr(packed).replace("://", "")
    assert {content.key for content in contents.contents(packed)} == set(files)
    return contents.unpacked(packed, files, there)


@pytest.mark.parametrize("kind", ["file", "folder", "none"])
def test_a_job_has_the_same_contents_elsewhere(kind: str, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "data" / "deep").mkdir(parents=True)
    (here / "data" / "deep" / "a.npy").write_bytes(b"\0\1")
    (here / "model.bin").write_bytes(b"model")
    data = {"file": here / "model.bin", "folder": here / "data", "none": None}[kind]
    for _ in range(2):  # the second time all is there
        found = sent(Job(here / "model.bin", Inner(data)), there)
        assert found.model.read_bytes() == b"model"
        assert found.model.is_relative_to(there)
        assert (found.inner.text, found.number) == ("kept", 7)
        if kind == "folder":
            assert found.inner.path is not None
            assert (found.inner.path / "deep" / "a.npy").read_bytes() == b"\0\1"
    assert len(list(there.iterdir())) == (2 if kind == "folder" else 1)


def test_the_hash_is_that_of_the_contents(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_bytes(b"1")
    key = contents.content(tmp_path / "a" / "x")[0].key
    assert contents.content(tmp_path / "b" / "x")[0].key == key
    (tmp_path / "b" / "x").write_bytes(b"2")
    assert contents.content(tmp_path / "b" / "x")[0].key != key


def test_a_model_brings_its_external_data(tmp_path: Path) -> None:
    path = saved(model([node("Gemm", "x w", "y", transB=1)], {"x": [1, 64]}, {"w": weights(32, 64)}), tmp_path)
    loaded = onnx.load(path)
    for tensor in loaded.graph.initializer:
        external_data_helper.set_external_data(tensor, "weights.bin")
    folder = tmp_path / "here"
    folder.mkdir()
    onnx.save(loaded, folder / "m.onnx")
    assert np.fromfile(folder / "weights.bin", np.float32).size == 32 * 64
    found = sent(Job(folder / "m.onnx", Inner(None)), tmp_path / "there")
    assert importer.describe(found.model).sha256 == importer.describe(folder / "m.onnx").sha256
