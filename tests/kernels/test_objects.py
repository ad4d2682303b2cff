"""Compiled kernels are kept by what they are made from: built once, never half, the least used go first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from glowembed.errors import ToolError
from glowembed.run import objects


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(objects, "_folder", lambda: tmp_path / "kept")
    return tmp_path / "kept"


def test_what_is_made_from_the_same_is_made_once(folder: Path) -> None:
    made: list[str] = []

    def build(text: str) -> Path:
        def make(place: Path) -> Path:
            made.append(text)
            (place / "object").write_text(text)
            return place / "object"

        return objects.built(["compiler 1", "flags", text], ".so", make)

    assert [build(text).read_text() for text in ("a", "b", "a", "b")] == ["a", "b", "a", "b"]
    assert made == ["a", "b"]
    assert len(list(folder.glob("??/*.so"))) == 2


def test_a_build_that_fails_leaves_nothing(folder: Path) -> None:
    def fails(place: Path) -> Path:
        (place / "half").write_text("half")
        raise ToolError("no")

    with pytest.raises(ToolError, match="no"):
        objects.built(["x"], ".so", fails)
    assert not [path for path in folder.rglob("*") if path.is_file()]


def test_a_tree_is_its_names_and_bytes(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    for place in (a, b):
        place.mkdir()
        (place / "x.h").write_text("same")
    assert objects.tree(a) == objects.tree(b)
    objects.tree.cache_clear()
    (b / "x.h").rename(b / "y.h")
    assert objects.tree(a) != objects.tree(b)


def test_the_half_that_was_used_last_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "MOST", 3)
    (folder / "ab").mkdir(parents=True)
    for age in range(6):
        (folder / "ab" / f"{age}.so").write_text("")
        os.utime(folder / "ab" / f"{age}.so", (1000 - age, 1000 - age))
    objects._prune(folder)
    assert sorted(path.name for path in folder.glob("ab/*")) == ["0.so", "1.so", "2.so"]


def test_files_that_others_rename_meanwhile_do_not_matter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "MOST", 1)
    (folder / "ab").mkdir(parents=True)
    (folder / "ab" / "building-x").symlink_to("gone")  # it is listed, but what it names is not there
    for time in (1000, 2000):
        (folder / "ab" / f"{time}.so").write_text("")
        os.utime(folder / "ab" / f"{time}.so", (time, time))
    objects._prune(folder)
    assert [path.name for path in folder.glob("ab/*.so")] == ["2000.so"]
