"""The store of results: everything that is stored is found again, in a folder and in an object store, and nothing else
is.
"""

from __future__ import annotations

import multiprocessing
import uuid
from pathlib import Path

import pytest

from glowembed.errors import GlowembedError, UsageError
from glowembed.jobs.store import Record, Store, open_store

RECORD = Record("regress", "3f" + "0" * 62, {"model": "kws"}, {"arena": 8864})


@pytest.fixture(params=["folder", "memory"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder, and an object store of fsspec."""
    return str(tmp_path / "store") if request.param == "folder" else f"memory://{uuid.uuid4()}/store"


def test_what_is_kept_is_found_again(where: str) -> None:
    open_store(where).put(RECORD)
    again = open_store(where, make=False)
    assert again.get("regress", RECORD.key) == RECORD.result
    assert again.get("regress", "4" + RECORD.key[1:]) is None
    assert again.get("tune", RECORD.key) is None
    (found,) = again.records("regress")
    assert (found.kind, found.key, found.about, found.result) == ("regress", RECORD.key, RECORD.about, RECORD.result)
    assert found.made.endswith("+00:00")
    assert list(again.records("tune")) == []


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff", b"[]", b'{"made": "x", "about": {}}', b"\0" * 50])
def test_a_damaged_result_counts_as_absent_and_is_written_again(damage: bytes, where: str) -> None:
    store = open_store(where)
    store.put(RECORD)
    (name,) = store.files.names("regress")
    store.files.write(name, damage)
    assert store.get("regress", RECORD.key) is None
    assert list(store.records("regress")) == []
    store.put(RECORD)
    assert store.get("regress", RECORD.key) == RECORD.result


def write(where: str, first: int) -> None:
    store = open_store(where)
    for number in range(first, first + 40):
        store.put(Record("regress", f"{number:064x}", {}, {"number": number}))


def test_two_runs_may_use_one_store(tmp_path: Path) -> None:
    runs = [multiprocessing.get_context("spawn").Process(target=write, args=(str(tmp_path), n)) for n in (0, 20)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert sorted(r.result["number"] for r in open_store(str(tmp_path)).records("regress")) == list(range(60))
    assert not list(tmp_path.rglob(".glowembed-*")), "nothing half-written is left"


def full(folder: Path) -> str:
    return "/dev/full"


def file(folder: Path) -> str:
    (folder / "file").write_text("")
    return str(folder / "file")


def other(folder: Path) -> str:
    (folder / "store.json").write_text('{"schema": 2}')
    return str(folder)


REFUSED = {
    "a device": (full, "cannot be written"),
    "a file": (file, "cannot be written"),
    "another schema": (other, "not schema 1"),
    "no protocol": (lambda folder: "nothing://bucket", "nothing"),
    "not there": (lambda folder: str(folder / "none"), "there is no store"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_store_that_cannot_be_used_is_refused(case: str, tmp_path: Path) -> None:
    make, said = REFUSED[case]
    with pytest.raises(GlowembedError, match=said):
        open_store(make(tmp_path), make=case != "not there")


def test_a_disk_that_is_full_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(str(tmp_path))

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("glowembed.jobs.store.output._write_synced", fail)
    with pytest.raises(UsageError, match=r"cannot be written: .*No space left on device; name another with --store"):
        store.put(RECORD)
    assert isinstance(store, Store)
    assert list(store.records("regress")) == []


@pytest.mark.parametrize(("method", "said"), [("exists", "cannot be read"), ("pipe_file", "cannot be written")])
def test_an_error_of_a_protocol_is_one_of_the_store(method: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages behind fsspec raise errors of their own, such as for credentials that are missing."""

    class CredentialsError(Exception):
        pass

    def fail(*_: object, **__: object) -> None:
        raise CredentialsError("no credentials")

    where = f"memory://{uuid.uuid4()}/store"
    store = open_store(where)
    monkeypatch.setattr(f"fsspec.implementations.memory.MemoryFileSystem.{method}", fail)
    with pytest.raises(UsageError, match=f"{said}: no credentials"):
        store.put(RECORD) if method == "pipe_file" else store.get("regress", RECORD.key)
    with pytest.raises(UsageError, match=f"{said}: no credentials"):
        open_store(f"memory://{uuid.uuid4()}/other")
    if method == "exists":
        with pytest.raises(UsageError, match=f"{said}: no credentials"):
            list(store.records("regress"))
