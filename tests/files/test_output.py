"""Outputs: devices, FIFOs and descriptors are written through, links are followed, the rest is replaced whole."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fake_bundle
import pytest
from checkout import ROOT

from glowembed.__main__ import main
from glowembed.errors import UsageError
from glowembed.files import output
from glowembed.files.output import check_out_dir, write_file, write_folder

DIGITS = ROOT / "examples" / "digits"


@pytest.fixture(params=(0o022, 0o077, 0o002), ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_modes_are_those_of_the_umask(tmp_path: Path, umask: int) -> None:
    write_file(tmp_path / "file", "text")
    write_folder(tmp_path / "deep" / "folder", {"sub/a.c": b"a"})
    assert mode(tmp_path / "file") == 0o666 & ~umask
    folder = tmp_path / "deep" / "folder"
    assert [mode(p) for p in (folder, folder / "sub", folder / "sub" / "a.c")] == [
        0o777 & ~umask, 0o777 & ~umask, 0o666 & ~umask,
    ]  # fmt: skip


def test_a_file_that_is_there_keeps_its_mode_and_its_links(tmp_path: Path) -> None:
    real = tmp_path / "far" / "real.json"
    real.parent.mkdir()
    real.write_text("old")
    real.chmod(0o640)
    (tmp_path / "link").symlink_to("second")
    (tmp_path / "second").symlink_to("far/real.json")
    write_file(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "second").is_symlink()
    assert (real.read_text(), mode(real)) == ("new", 0o640)


def test_a_link_to_nothing_makes_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("made")
    write_file(tmp_path / "link", b"\0\xff")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "made").read_bytes() == b"\0\xff"


@pytest.mark.parametrize("linked", [False, True])
def test_a_fifo_is_written_through(tmp_path: Path, linked: bool) -> None:
    fifo, path = tmp_path / "fifo", tmp_path / ("link" if linked else "fifo")
    os.mkfifo(fifo)
    if linked:
        path.symlink_to("fifo")
    with ThreadPoolExecutor(1) as reader:
        got = reader.submit(fifo.read_bytes)
        write_file(path, b"x" * 200_000)
        assert got.result() == b"x" * 200_000
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert len(list(tmp_path.iterdir())) == 1 + linked


@pytest.mark.parametrize("place", ["/dev/fd", "/proc/self/fd"])
@pytest.mark.parametrize("linked", [False, True])
def test_a_pipe_by_its_descriptor(tmp_path: Path, place: str, linked: bool) -> None:
    read, write = os.pipe()
    path = Path(place) / str(write)
    if linked:
        (tmp_path / "link").symlink_to(path)
        path = tmp_path / "link"
    write_file(path, "text")
    os.close(write)
    with os.fdopen(read) as file:
        assert file.read() == "text"


def test_a_regular_file_by_its_descriptor_is_gone_on_with(tmp_path: Path) -> None:
    """`command --json /dev/stdout > file` appends to what the file holds, and does not replace the file."""
    with (tmp_path / "file").open("wb") as file:
        file.write(b"before ")
        file.flush()
        write_file(Path(f"/dev/fd/{file.fileno()}"), "within ")
        file.seek(0, os.SEEK_END)
        file.write(b"after")
    assert (tmp_path / "file").read_text() == "before within after"


@pytest.fixture
def null(tmp_path: Path) -> Path:
    """A null device of our own; that of the machine is not put at risk."""
    path = tmp_path / "null"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        path.write_bytes(b"")
    except OSError:
        pytest.skip("only root may make devices, on a file system that allows them")
    return path


def test_commands_leave_a_device_what_it_is(null: Path, tmp_path: Path) -> None:
    model, data = str(DIGITS / "model.onnx"), str(DIGITS / "data.npz")
    (tmp_path / "plot.svg").symlink_to("null")
    words = [
        "profile",
        model,
        "--data",
        data,
        "--calib-samples",
        "2",
        "-o",
        str(null),
        "--plot",
        str(tmp_path / "plot.svg"),
    ]
    assert main(words) == 0
    assert stat.S_ISCHR(null.stat().st_mode)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["null", "plot.svg"]
    assert main(["tune", model, "--data", data, "-o", str(null)]) == 2  # its state could lie nowhere


@pytest.mark.parametrize("name", ["folder", "none/file", "loop", "x" * 300, "file/below"])
def test_every_error_names_the_path(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("old")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError, match="cannot be written") as caught:
        write_file(tmp_path / name, "new")
    assert str(caught.value).startswith(str(tmp_path / name))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder", "loop"]


def test_a_disk_that_fails_leaves_what_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    write_file(tmp_path / "file", "old")
    write_folder(tmp_path / "bundle", {"a": b"old"})
    monkeypatch.setattr(output.os, "fsync", full)
    with pytest.raises(UsageError, match=r"file: cannot be written: No space"):
        write_file(tmp_path / "file", "new")
    with pytest.raises(UsageError, match=r"bundle: cannot be written: No space"):
        write_folder(tmp_path / "bundle", {"a": b"new"})
    with pytest.raises(UsageError, match=r"bundle: cannot be written: No space"):
        write_folder(tmp_path / "try" / "model" / "bundle", {"a": b"new"})
    assert [(tmp_path / "file").read_text(), (tmp_path / "bundle" / "a").read_text()] == ["old", "old"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bundle", "file"]


@pytest.mark.parametrize("name", [".", "..", "/", "../here", "here", "/proc"])
def test_folders_that_are_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Refused before the model is read; `here` is a link to the current folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here" / "here").symlink_to(".")
    with pytest.raises(UsageError, match="name a folder of its own with -o"):
        check_out_dir(Path(name))
    assert main(["compile", str(DIGITS / "data.npz"), "-o", name]) == 2
    assert "name a folder of its own with -o" in capsys.readouterr().err


def test_a_link_to_a_folder_is_followed(tmp_path: Path) -> None:
    fake_bundle.write(tmp_path / "real", "cortex-m4")
    (tmp_path / "link").symlink_to("real")
    check_out_dir(tmp_path / "link")
    write_folder(tmp_path / "link", {"new": b"new"})
    assert (tmp_path / "link").is_symlink()
    assert [p.name for p in (tmp_path / "real").iterdir()] == ["new"]


def test_many_writers_end_with_one_whole(tmp_path: Path) -> None:
    """The result is one whole folder or file; nothing is left beside it."""
    start = threading.Barrier(4)

    def write(number: int) -> None:
        start.wait()
        for _ in range(10):
            write_folder(tmp_path / "bundle", dict.fromkeys("abc", b"%d" % number * 1000))
            write_file(tmp_path / "file", b"%d" % number * 1000)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    contents = {(tmp_path / "bundle" / name).read_bytes() for name in "abc"}
    assert len(contents) == 1
    assert len(set((tmp_path / "file").read_bytes())) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bundle", "file"]
