"""SCons in a fork of this process, which has imported it already, for tests whose subject is not SCons.

In: the command of `build.build`. Out: what the command would have returned. Starting Python, SCons and our modules takes more than
half of the time of a small build.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from io import FileIO, TextIOWrapper
from typing import NoReturn

from glowembed.image import build

THREADS = threading.active_count()
"""The threads of a process of pytest that runs no test yet."""

IN_A_PROCESS_OF_ITS_OWN = build._run


def run(command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Like build._run. A process with further threads is not forked, because they might hold a lock."""
    if command[1:3] != ["-m", "SCons"] or threading.active_count() > THREADS:
        return IN_A_PROCESS_OF_ITS_OWN(command, env)

    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as said, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of the threads of numpy
        if (child := os.fork()) == 0:
            _scons(command[3:], env, printed.fileno(), said.fileno())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = []
        for file in (printed, said):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return subprocess.CompletedProcess(command, code, *texts)


def _scons(words: list[str], env: dict[str, str], printed: int, said: int) -> NoReturn:
    from SCons.Script import Main

    code: object = 1
    try:
        os.setsid()
        for here, there in ((os.open(os.devnull, os.O_RDONLY), 0), (printed, 1), (said, 2)):
            os.dup2(here, there)
        sys.stdout, sys.stderr = (TextIOWrapper(FileIO(fd, "w", closefd=False), errors="replace") for fd in (1, 2))
        os.environ.clear()
        os.environ.update(env)
        sys.argv = ["scons", *words]
        Main.main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(bool(code)))
