"""Runs cases in forked workers with limits of memory and time. In: a function of a case's number. Out: findings and
counts.

A finding is something that no user should see: an exception that is not a GlowembedError, a warning of numpy, a hang, too much
memory, a crash of the process, and whatever the function itself reports by raising Wrong.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import signal
import struct
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from glowembed.errors import GlowembedError

MEMORY = 3 << 30
"""bytes of address space that a worker may take beyond its own"""
SECONDS = 10.0
"""of the processor, for one case"""
SILENCE = 300.0
"""until a library that does not come back is killed: by the clock, as other programs may want the processor"""
CASES_OF_A_WORKER = 1000


class Wrong(Exception):
    """The case has shown a defect: the message says which."""


class Hang(BaseException):
    """Raised when a run takes too long. It is no Exception, so that only the runner catches it."""


@dataclass(frozen=True)
class Finding:
    case: int
    signature: str
    details: str


@dataclass
class Result:
    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Result) -> None:
        self.cases += other.cases
        self.outcomes += other.outcomes
        self.findings += other.findings

    def distinct(self) -> dict[str, list[Finding]]:
        found: dict[str, list[Finding]] = {}
        for finding in self.findings:
            found.setdefault(finding.signature, []).append(finding)
        return found


def run(check: Callable[[int], str], first: int, cases: int, seconds: float, folder: Path) -> Result:
    """Cases from `first` on until there were enough, or the time is over. `check` gives a word for the count."""
    result, end, number = Result(), time.monotonic() + seconds, first
    with mmap.mmap(-1, 16) as shared:
        while number < first + cases and time.monotonic() < end:
            last = min(first + cases, number + CASES_OF_A_WORKER)
            log = folder / "worker.jsonl"
            log.unlink(missing_ok=True)
            status = _worker(check, number, last, end, log, shared)
            done = struct.unpack("<q", shared[:8])[0]
            for line in log.read_text("utf-8").splitlines() if log.exists() else ():
                entry = json.loads(line)
                result.outcomes.update(entry.get("outcomes", {}))
                if "case" in entry:
                    result.findings.append(Finding(**entry))
            if status != 0:
                result.outcomes["crash"] += 1
                result.findings.append(Finding(done, f"the process ended with status {status}", ""))
                done += 1
            result.cases += done - number
            number = done
    return result


def _worker(check: Callable[[int], str], first: int, last: int, end: float, log: Path, shared: mmap.mmap) -> int:
    """Run in a child, which is killed when it is silent for too long; its status, 0 when all is well."""
    shared[:16] = struct.pack("<qd", first, time.monotonic())
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _cases(check, first, last, end, log, shared)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        if time.monotonic() - struct.unpack("<qd", shared[:16])[1] > SILENCE:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def _cases(check: Callable[[int], str], first: int, last: int, end: float, log: Path, shared: mmap.mmap) -> None:
    used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, _alarm)
    outcomes = Counter[str]()
    with log.open("w", encoding="utf-8") as out:
        for number in range(first, last):
            shared[:16] = struct.pack("<qd", number, time.monotonic())
            if time.monotonic() > end:
                break
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            outcome, finding = _one(check, number)
            signal.setitimer(signal.ITIMER_PROF, 0)
            outcomes[outcome] += 1
            if finding is not None:
                out.write(json.dumps(vars(finding)) + "\n")
                out.flush()
        else:
            shared[:8] = struct.pack("<q", last)
        out.write(json.dumps({"outcomes": outcomes}) + "\n")


def _alarm(*_: object) -> None:
    raise Hang


def _one(check: Callable[[int], str], number: int) -> tuple[str, Finding | None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return check(number), None
    except GlowembedError as error:
        return type(error).__name__, None
    except Hang as error:
        return "hang", Finding(number, f"hang in {_where(error)}", "")
    except MemoryError as error:
        return "memory", Finding(number, f"memory in {_where(error)}", "")
    except Wrong as error:
        return "wrong", Finding(number, str(error).split(":")[0], str(error))
    except Exception as error:
        text = "".join(traceback.format_exception(error))[-3000:]
        with suppress(Exception):
            return "exception", Finding(number, f"{type(error).__name__} in {_where(error)}", text)
        raise


def _where(error: BaseException) -> str:
    """The innermost line of ours in a traceback."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/glowembed/" in f.filename]
    if not frames:
        return "no line of ours"
    return f"{frames[-1].filename.rpartition('/glowembed/')[2]}:{frames[-1].lineno} {frames[-1].name}"
