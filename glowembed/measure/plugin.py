"""Builds the counting plugin for QEMU on the user's machine. Out: the shared object, or the reason why there is none.
It is compiled once with `cc` and cached under the hash of its source, the compiler's version and QEMU's plugin
interface.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from glowembed import resources
from glowembed.errors import ToolError

FLAGS = ("-std=c99", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
VERSION = re.compile(r"version (\d+)\.(\d+)")
SECOND_INTERFACE = 9
"""From this version of QEMU on, a plugin must declare that it uses the second interface."""


def source() -> Path:
    """The plugin's C file."""
    return resources.runtime_c() / "plugin" / "profile.c"


def plugin(emulator: str, folder: Path | None = None) -> Path:
    """The plugin for the QEMU on this machine. Raises ToolError, which says what is missing."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise ToolError("no C compiler 'cc', which builds the counting plugin of QEMU: apt-get install gcc", "gcc")
    command = [compiler, *FLAGS, f"-DGE_PLUGIN_API={_interface(emulator)}"]
    path = (folder or _folder()) / f"profile-{_key(command)}.so"
    if not path.is_file():
        _build(command, path)
    return path


@cache
def _folder() -> Path:
    """The folder for built plugins: the user's cache or, if there is none, a folder of this process."""
    return resources.user_cache("plugins") or Path(tempfile.mkdtemp(prefix="glowembed-plugin-"))


def _interface(emulator: str) -> int:
    said = _output([emulator, "--version"])
    version = VERSION.search(said)
    if version is None:
        raise ToolError(f"{emulator} does not report its version: {said[:200]!r}")
    if "-plugin" not in _output([emulator, "-help"]):
        raise ToolError(f"this {emulator} was built without plugins; that of Debian and Ubuntu has them")
    return 2 if int(version[1]) >= SECOND_INTERFACE else 1


def _key(command: list[str]) -> str:
    compiler = _output([command[0], "--version"])
    return hashlib.sha256("\0".join([*command, compiler, source().read_text("ascii")]).encode()).hexdigest()[:16]


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError as error:
        raise ToolError(f"{command[0]} is not there; install it: apt-get install {command[0]}", command[0]) from error


def _build(command: list[str], path: Path) -> None:
    """Build the plugin under a temporary name and rename it, so that several runs can build it at the same time."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix="building-", suffix=".so", delete=False) as file:
        partial = Path(file.name)
    done = subprocess.run([*command, "-o", str(partial), str(source())], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        partial.unlink()
        raise ToolError(f"the counting plugin of QEMU does not compile:\n{done.stderr.strip()[-2000:]}")
    partial.replace(path)
