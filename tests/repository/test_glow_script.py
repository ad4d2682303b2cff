"""./glow and scripts/setup.sh: commands, exit codes, and the messages where nothing can be installed."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from pathlib import Path

import pytest

TEXT_TOOLS = ("sh", "cat", "dirname", "env", "id", "readlink", "sed", "sha256sum", "python3")


def run(command: list[str | Path], **keywords: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, **keywords)


@pytest.fixture
def bare_machine(tmp_path: Path) -> Path:
    """A PATH with the text tools of every Debian, but no compiler, no QEMU, no sudo; and an id that is not root's."""
    for tool in TEXT_TOOLS:
        (tmp_path / tool).symlink_to(shutil.which(tool) or f"/bin/{tool}")
    script(tmp_path / "id", "echo 1000")
    return tmp_path


def script(path: Path, body: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize(("word", "code"), [("help", 0), ("--help", 0), ("", 0), ("dmeo", 2)])
def test_words(root: Path, word: str, code: int) -> None:
    done = run([root / "glow", *word.split()])
    assert done.returncode == code
    assert "./glow demo" in done.stdout + done.stderr


def test_setup_refuses_an_unknown_profile(root: Path) -> None:
    assert run([root / "scripts" / "setup.sh", "all"]).returncode == 2


def test_neither_root_nor_sudo_says_what_to_install(root: Path, bare_machine: Path) -> None:
    script(bare_machine / "apt-get", "exit 1")
    done = run([root / "scripts" / "setup.sh", "run"], env={"PATH": str(bare_machine)})
    assert done.returncode == 4
    command = done.stderr.split("run as root: ")[1]
    assert command.startswith("apt-get update && apt-get install")
    assert {"gcc", "gcc-arm-none-eabi", "qemu-system-arm"} <= set(command.split())


def test_not_debian_says_what_to_install(root: Path, bare_machine: Path) -> None:
    done = run([root / "scripts" / "setup.sh", "run"], env={"PATH": str(bare_machine)})
    assert done.returncode == 4
    assert "not Debian or Ubuntu" in done.stderr
    assert "gcc-arm-none-eabi" in done.stderr


def test_second_setup_is_fast(root: Path) -> None:
    if not (root / ".venv" / "run.stamp").exists():
        pytest.skip("not set up by ./glow")
    start = time.monotonic()
    done = run([root / "scripts" / "setup.sh", "run"], env=os.environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - start < 1
