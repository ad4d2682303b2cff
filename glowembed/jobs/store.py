"""The store of results: an append-only folder, or one of an object store, with a file for each result.

In: a Record with the hash of everything that its result was made from. Out: the result, as long as nothing of that
changes. A file is written completely or not at all, and its name is the hash, so several runs may use one store at the
same time: if two of them compute the same result, they write the same file. A file that cannot be read counts as absent
and is written again.

    STORE/store.json                     {"schema": 1}
    STORE/regress/3f/3f09...c1.json      {"made": time, "about": {...}, "result": {...}}
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from glowembed.errors import ToolError, UsageError
from glowembed.files import documents, output, source
from glowembed.records import dataclass

SCHEMA = 1
HEAD = "store.json"
DEFAULT = "build/store"


@dataclass(frozen=True)
class Record:
    """A result. kind: the command that made it. key: the hash of everything that it depends on. about: what it was made
    from, for people. made: the time, in UTC.
    """

    kind: str
    key: str
    about: Mapping[str, Any]
    result: Mapping[str, Any]
    made: str = ""


class Files(Protocol):
    """Where the files of a store lie. Names contain slashes. Methods raise OSError if they fail."""

    def read(self, name: str) -> bytes | None:
        """The content of a file, or None if it does not exist."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file completely."""

    def names(self, folder: str) -> list[str]:
        """All files below a folder, sorted."""


@dataclass(frozen=True)
class Folder:
    """Files in a folder of this computer."""

    root: Path

    def read(self, name: str) -> bytes | None:
        path = self.root / name
        return source.read_bytes(path) if path.exists() else None

    def write(self, name: str, content: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        output.write_file(path, content)

    def names(self, folder: str) -> list[str]:
        return sorted(path.relative_to(self.root).as_posix() for path in (self.root / folder).rglob("*.json"))


@dataclass(frozen=True)
class Remote:
    """Files below a URL that fsspec knows, such as s3://bucket/store."""

    system: Any
    root: str

    def read(self, name: str) -> bytes | None:
        path = f"{self.root}/{name}"
        with _errors_of_protocols():
            return bytes(self.system.cat_file(path)) if self.system.exists(path) else None

    def write(self, name: str, content: bytes) -> None:
        path = f"{self.root}/{name}"
        with _errors_of_protocols():
            self.system.makedirs(path.rpartition("/")[0], exist_ok=True)
            self.system.pipe_file(path, content)

    def names(self, folder: str) -> list[str]:
        place = f"{self.root}/{folder}"
        with _errors_of_protocols():
            found = self.system.find(place) if self.system.exists(place) else []
        return sorted(folder + path.partition(place)[2] for path in found if path.endswith(".json"))


@contextmanager
def _errors_of_protocols() -> Iterator[None]:
    """Turn what is raised into OSErrors: each protocol of fsspec has errors of its own, for example without credentials."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(str(error)) from error


@dataclass(frozen=True)
class Store:
    """A store of results. where: its path or URL as the user gave it."""

    where: str
    files: Files

    def get(self, kind: str, key: str) -> Mapping[str, Any] | None:
        """The result with this hash, or None if the store does not have it."""
        record = self._read(_name(kind, key))
        return None if record is None else record.result

    def put(self, record: Record) -> None:
        """Store a result. Raises UsageError if the store cannot be written, for example because the disk is full."""
        made = record.made or datetime.now(UTC).isoformat(timespec="seconds")
        text = json.dumps({"made": made, "about": record.about, "result": record.result}, sort_keys=True)
        self._write(_name(record.kind, record.key), text + "\n")

    def records(self, kind: str) -> Iterator[Record]:
        """All results of a kind."""
        try:
            names = self.files.names(kind)
        except OSError as error:
            raise UsageError(f"the store {self.where} cannot be read: {error.strerror or error}") from error
        for name in names:
            record = self._read(name)
            if record is not None:
                yield record

    def _read(self, name: str) -> Record | None:
        try:
            content = self.files.read(name)
        except OSError as error:
            raise UsageError(f"the store {self.where} cannot be read: {error.strerror or error}") from error
        with suppress(UsageError, UnicodeDecodeError, KeyError, TypeError):
            found = documents.parse_json((content or b"").decode(), name)
            kind, key = name.split("/")[0], name.rpartition("/")[2].removesuffix(".json")
            return Record(kind, key, dict(found["about"]), dict(found["result"]), str(found["made"]))
        return None

    def _write(self, name: str, text: str) -> None:
        try:
            self.files.write(name, text.encode())
        except (OSError, UsageError) as error:
            said = str(error) if isinstance(error, UsageError) else error.strerror or error
            raise UsageError(f"the store {self.where} cannot be written: {said}; name another with --store") from error


class Afresh(Store):
    """A store that accepts results but returns none, so that all results are computed again."""

    def get(self, kind: str, key: str) -> Mapping[str, Any] | None:
        return None


def _name(kind: str, key: str) -> str:
    return f"{kind}/{key[:2]}/{key}.json"


def open_store(where: str, make: bool = True, afresh: bool = False) -> Store:
    """The store at a path or URL. make: whether to create it if it does not exist. afresh: whether it should return no
    results. Raises UsageError if it does not exist, cannot be written or has another schema.
    """
    store = (Afresh if afresh else Store)(where, _files(where))
    try:
        head = store.files.read(HEAD)
    except OSError as error:
        raise UsageError(f"the store {where} cannot be read: {error.strerror or error}") from error
    if head is None and not make:
        raise UsageError(f"there is no store of results at {where}; name another with --store")
    if head is None:
        store._write(HEAD, json.dumps({"schema": SCHEMA}) + "\n")
    elif (found := documents.parse_json(head.decode(errors="replace"), f"{where}/{HEAD}")) != {"schema": SCHEMA}:
        raise UsageError(f"{where} is no store that this version reads: {HEAD} has {found!r:.80}, not schema {SCHEMA}")
    return store


def _files(where: str) -> Files:
    if "://" not in where:
        return Folder(Path(where))
    try:
        fsspec = importlib.import_module("fsspec")
        system, root = fsspec.core.url_to_fs(where)
    except ImportError as error:
        raise ToolError(
            f"{where}: {error}; install it: pip install 'glowembed[cluster]', for s3:// also s3fs"
        ) from error
    except (ValueError, OSError) as error:
        raise UsageError(f"{where} is no URL of a store: {error}") from error
    return Remote(system, root.rstrip("/"))
