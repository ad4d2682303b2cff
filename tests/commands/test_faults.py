"""I/O errors and lack of memory at every point where they can occur: the error is one sentence, and no partial or
temporary file remains.

The calls of a successful run are counted; then each of them fails once. They are counted at the operating system's
interface, wherever glowembed makes them.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from glowembed.__main__ import main
from glowembed.errors import GlowembedError
from glowembed.run.store import Store

ERRORS = {
    "open": (errno.EACCES, errno.EMFILE),
    "os.open": (errno.EMFILE, errno.EACCES),
    "write": (errno.ENOSPC, errno.EIO),
    "fsync": (errno.EIO, errno.ENOSPC),
    "rename": (errno.EACCES, errno.EIO),
    "replace": (errno.EACCES, errno.EIO),
    "mkdir": (errno.ENOSPC, errno.EACCES),
}


class Faults:
    """Counts calls; the one with the number `failing` raises. calls: the kind of each."""

    def __init__(self, failing: int | None = None) -> None:
        self.failing, self.calls = failing, list[str]()

    def call(self, kind: str, path: object = None) -> None:
        self.calls.append(kind)
        if len(self.calls) - 1 == self.failing:
            number = ERRORS[kind][len(self.calls) % 2]
            named = (str(path),) if isinstance(path, str | os.PathLike) else ()
            raise OSError(number, os.strerror(number), *named)


@contextmanager
def injected(faults: Faults) -> Iterator[None]:
    """Every open, write, fsync, rename and mkdir of this process is counted, and may fail."""

    def counted(kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            if "dir_fd" not in named:  # as rmtree() opens folders: to clean up is not what fails here
                faults.call(kind, args[0])
            return real(*args, **named)

        return call

    def opened(file: Any, mode: str = "r", *args: Any, **named: Any) -> Any:
        faults.call("open", file)
        made = io_open(file, mode, *args, **named)
        if set(mode) & set("wxa+"):
            made.write = counted("write", made.write)
        return made

    io_open = io.open
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "open", opened)
        patch.setattr("builtins.open", opened)
        patch.setattr(os, "open", counted("os.open", os.open))
        for name in ("fsync", "rename", "replace", "mkdir"):
            patch.setattr(os, name, counted(name, getattr(os, name)))
        yield


def content(place: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(place)): p.read_bytes() if p.is_file() else None for p in sorted(place.rglob("*"))}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and data; temporary files lie in another one, so that a test sees those that remain."""
    (tmp_path / "temporary").mkdir()
    random = np.random.default_rng(0)
    weights = onnx.numpy_helper.from_array(random.standard_normal((4, 4), np.float32), "w")
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "net", ends[:1], ends[1:], [weights]
    )
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8),
        tmp_path / "net.onnx",
    )
    np.savez(tmp_path / "data.npz", calib_x=random.standard_normal((8, 4), np.float32))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(words: list[str], failing: int | None, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, Faults]:
    faults = Faults(failing)
    with injected(faults):
        code = main(words)
    return code, capsys.readouterr().err, faults


COMPILE = ["compile", "net.onnx", "--data", "data.npz", "-o", "out"]
VALIDATE = ["validate", "out", "--data", "data.npz", "--board", "host", "--build-dir", "build", "--json", "result.json"]


@pytest.mark.parametrize("again", [False, True], ids=["a new bundle", "over an earlier one"])
def test_compile(again: bool, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The bundle is the new one if the command succeeds, else the old one; no other file remains."""
    if again:
        assert main([*COMPILE, "--name", "earlier"]) == 0
    before = content(place)
    code, _, good = run(COMPILE, None, capsys)
    after = content(place)
    assert (code, after != before) == (0, True)
    assert {"open", "os.open", "write", "fsync", "rename", "mkdir"} <= set(good.calls)
    for failing, kind in enumerate(good.calls):
        restore(place, before)
        code, said, _ = run(COMPILE, failing, capsys)
        assert_told(code, said, f"{kind}, call {failing}")
        assert content(place) == (after if code == 0 else before), f"{kind}, call {failing}"


@pytest.mark.cc
def test_validate(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the host, with its firmware built: a result is there whole or not at all, and the next run is right."""
    assert main([*COMPILE, "--target", "x86-64", "--isa", "portable"]) == 0
    assert run(VALIDATE, None, capsys)[0] == 0
    _, _, good = run(VALIDATE, None, capsys)
    bundle, whole = content(place / "out"), json.loads((place / "result.json").read_text())
    for failing, kind in enumerate(good.calls):
        (place / "result.json").unlink(missing_ok=True)
        code, said, _ = run(VALIDATE, failing, capsys)
        assert_told(code, said, f"{kind}, call {failing}")
        assert (place / "result.json").exists() == (code == 0), f"{kind}, call {failing}"
        assert content(place / "out") == bundle
        assert not content(place / "temporary")
        assert {p.name for p in place.iterdir()} <= {"out", "build", "temporary", "net.onnx", "data.npz", "result.json"}
    assert run(VALIDATE, None, capsys)[0] == 0
    assert json.loads((place / "result.json").read_text()).keys() == whole.keys()


def test_store(place: Path) -> None:
    """Results that were added before the fault are there for --resume; the error names the file."""
    path, right = place / "results" / "net", {index: bytes([index] * 5) for index in range(3)}

    def work(faults: Faults) -> list[int]:
        added: list[int] = []
        with injected(faults):
            store = Store(path, "key")
            try:
                for index, output in right.items():
                    store.add(index, output)
                    added.append(index)
            finally:
                store.close(finished=False)
        return added

    good = Faults()
    assert work(good) == list(right)
    assert {"open", "write", "fsync"} <= set(good.calls)
    for failing, kind in enumerate(good.calls):
        shutil.rmtree(path.parent)
        added: list[int] = []
        with pytest.raises(GlowembedError, match=re.escape(str(path))) as error:
            added = work(Faults(failing))
        assert error.value.exit_code == 2, f"{kind}, call {failing}"
        again = Store(path, "key", resume=True)
        again.close(finished=False)
        assert all(again.done[index] == right[index] for index in again.done)
        assert set(added) <= set(again.done)


ALLOCATIONS = ("zeros", "empty", "concatenate", "stack", "frombuffer", "full")


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_no_memory(name: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy has no memory, at the first, a middle and the last call of a function that allocates."""
    before, real, calls = content(place), getattr(np, name), [0, -1]

    def allocate(*args: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == calls[1]:
            raise MemoryError
        return real(*args, **named)

    monkeypatch.setattr(np, name, allocate)
    assert main(COMPILE) == 0
    count = calls[0]
    assert count
    for failing in sorted({1, (count + 1) // 2, count}):
        shutil.rmtree(place / "out", ignore_errors=True)
        calls[:] = [0, failing]
        capsys.readouterr()
        code = main(COMPILE)
        said = capsys.readouterr().err
        assert code == 4, f"call {failing} of {count}: {said}"
        assert re.search(r"compile net\.onnx .*: there is not enough memory", said)
        assert "Traceback" not in said
        assert content(place) == before


def restore(place: Path, files: dict[str, bytes | None]) -> None:
    shutil.rmtree(place / "out", ignore_errors=True)
    for name, data in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        if data is None:
            (place / name).mkdir(exist_ok=True)
        else:
            (place / name).write_bytes(data)


def assert_told(code: int, said: str, where: str) -> None:
    """An error is one sentence with the name of a file; calls that change nothing may succeed."""
    assert code in (0, 2, 3, 4), f"{where}: {code}: {said}"
    assert "Traceback" not in said, f"{where}: {said}"
    if code:
        sentence = said[said.index("error: ") :]
        assert re.search(r"out|net\.onnx|data\.npz|build|result\.json|/", sentence), f"{where}: {sentence}"
