"""Jobs that are sent away: paths become contents, and contents paths again."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import external_data_helper
from small_models import model, node, saved, weights

from glowembed import resources
from glowembed.graph.target import load_target, read_board
from glowembed.jobs import contents
from glowembed.judge import farm
from glowembed.read import importer


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
        content, found = contents.content(path, farm.parts_of(path))
        files[content.key] = found
        return content

    packed = contents.packed(job, content_of)
    assert "Path(" not in repr(packed)
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


def test_a_board_brings_what_lies_outside_of_its_folder(tmp_path: Path) -> None:
    """A source with the header beside it, a linker script, and a target with the one that it inherits."""
    folder = shutil.copytree(resources.boards() / "mps2-an386", tmp_path / "here" / "boards" / "mine")
    text = (folder / "board.toml").read_text().replace('"../common/systick.c"', '"{common}/systick.c"')
    for old, new in (
        ("mps2-an386", "mine"),
        ("uart.c", "../../bsp/uart.c"),
        ("link.ld", "../link.ld"),
        ("cortex-m4", "../../mine.toml"),
    ):
        text = text.replace(f'"{old}"', f'"{new}"')
    (folder / "board.toml").write_text(text)
    (tmp_path / "here" / "bsp").mkdir()
    (folder / "uart.c").rename(tmp_path / "here" / "bsp" / "uart.c")
    (folder / "link.ld").rename(folder.parent / "link.ld")
    for name, content in (
        ("bsp/uart.h", "int x;"),
        ("bsp/notes.txt", "secret"),
        ("mine.toml", 'name = "mine"\ndescription = "mine"\ninherits = "base"\n'),
        ("base.toml", 'name = "base"\ndescription = "base"\ninherits = "cortex-m4"\n'),
    ):
        (tmp_path / "here" / name).write_text(content)
    found = sent(Job(folder, Inner(None)), tmp_path / "there")
    board = read_board(found.model / "board.toml")
    assert (found.model.name, load_target(board.target).cpu) == ("mine", "cortex-m4")
    there = {file.name for file in (tmp_path / "there").rglob("*") if file.is_file()}
    assert there == {"board.toml", "startup.c", "uart.c", "uart.h", "link.ld", "mine.toml", "base.toml"}
    assert farm.words_of(board)[1] == farm.words_of(read_board(folder / "board.toml"))[1]
