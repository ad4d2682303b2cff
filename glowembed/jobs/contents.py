"""Prepares jobs for other computers: each path in them is replaced by the content of its file or folder.

In: a job, a frozen dataclass that may hold paths and further dataclasses. Out: the same job with a Content for each
path, and the files by the hash of the content; on the other computer, the job with paths again. There a content is
written once, even if several jobs need it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar, cast

from glowembed.files.source import read_bytes
from glowembed.records import dataclass

T = TypeVar("T")
Files = tuple[tuple[str, bytes], ...]
"""File names relative to a folder, with slashes, and the contents of the files."""


@dataclass(frozen=True)
class Content:
    """Stands for a path. key: the hash of its files and their names; name: that of the file or folder, after the folders between the
    root of the files and it.
    """

    key: str
    name: str


def packed(job: T, content_of: Callable[[Path], Content | Path]) -> T:
    """The job with contents in place of paths. content_of: returns the path itself if there is no file to send."""
    return cast(T, _mapped(job, lambda value: content_of(value) if isinstance(value, Path) else value))


def unpacked(job: T, files: Mapping[str, Files], folder: Path) -> T:
    """The job with paths below `folder`, to which contents are written unless they are already there."""
    return cast(T, _mapped(job, lambda value: _written(value, files, folder) if isinstance(value, Content) else value))


def contents(job: Any) -> list[Content]:
    """All contents of a packed job."""
    found: list[Content] = []
    _mapped(job, lambda value: found.append(value) if isinstance(value, Content) else value)
    return found


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with `change` applied to everything in it that is not a dataclass or a tuple, also inside nested ones."""
    if type(value) is tuple:
        parts = tuple(_mapped(part, change) for part in value)
        return value if all(new is old for new, old in zip(parts, value, strict=True)) else parts
    if not is_dataclass(value) or isinstance(value, Content | type):
        return change(value)
    changed = {f.name: _mapped(getattr(value, f.name), change) for f in fields(value) if f.init}
    kept = all(changed[name] is getattr(value, name) for name in changed)
    return value if kept else replace(value, **changed)


def content(path: Path, others: Iterable[Path] = ()) -> tuple[Content, Files]:
    """The content of a file or folder. others: further files that belong to it, which keep their places relative to it."""
    home, others = path.parent.resolve(), list(others)
    root = Path(os.path.commonpath([home, *(file.parent for file in others)]))
    at = (home / path.name).relative_to(root).as_posix()
    inside = [path]
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    named = [(str(PurePosixPath(at) / file.relative_to(path).as_posix()), file) for file in inside]
    named += [(file.relative_to(root).as_posix(), file) for file in others]
    files = tuple((name, read_bytes(file)) for name, file in named)
    digest = hashlib.sha256()
    for name, data in files:
        digest.update(f"{name}\0{len(data)}\0".encode(errors="surrogateescape") + data)
    return Content(digest.hexdigest(), at), files


def _written(content: Content, files: Mapping[str, Files], folder: Path) -> Path:
    place = folder / content.key
    if not place.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=folder))
        (fresh / content.name).parent.mkdir(parents=True, exist_ok=True)
        for name, data in files[content.key]:
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise ValueError(f"{name!r} lies outside of its folder")
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            (fresh / name).write_bytes(data)
        try:
            fresh.rename(place)
        except OSError:  # another job on this computer was faster
            if not place.is_dir():
                raise
    return place / content.name
