"""Bundles of the fuzzer, many in one program, under AddressSanitizer and UndefinedBehaviorSanitizer.

In: bundles for x86-64 with one sample each, saved in folders. Out: the differences from the integer reference.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from glowembed.graph.ir import Array
from glowembed.pipeline import Bundle
from glowembed.reference import run_int

BATCH = 24
FLAGS = (
    "-std=c99", "-O0", "-g0", "-w", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-ffp-contract=off",
)  # fmt: skip
ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0", "UBSAN_OPTIONS": "print_stacktrace=0"}
SECONDS = 600

DRIVER = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

%(declared)s
static const struct { int32_t (*run)(void *); size_t size; } bundles[] = {
%(table)s
};

/* bundle INDEX: the arena from the standard input, and what it is after a run to the standard output. */
int main(int argc, char **argv) {
    size_t i = (size_t)atoi(argv[argc - 1]), size = bundles[i].size;
    void *arena = NULL;
    if (posix_memalign(&arena, 64, size ? size : 1) != 0 || fread(arena, 1, size, stdin) != size) {
        return 2;
    }
    if (bundles[i].run(arena) != 0) {
        return 3;
    }
    return fwrite(arena, 1, size, stdout) == size ? 0 : 4;
}
"""


@dataclass
class Pending:
    """How many bundles were compiled and run."""

    bundles: int = 0


def keep_for_compiling(bundle: Bundle, inputs: Mapping[str, Array], folder: Path) -> None:
    """Put the C of a bundle aside, with an arena that holds a sample and what must be in it after the run."""
    with np.errstate(all="ignore"):
        expected = run_int(bundle.graph, inputs)
    arena = bytearray(int(bundle.manifest["arena"]["size"]))
    for tensor in bundle.manifest["inputs"]:
        raw = np.ascontiguousarray(inputs[tensor["name"]]).tobytes()
        arena[tensor["offset"] : tensor["offset"] + len(raw)] = raw
    outputs = [
        (tensor["offset"], np.ascontiguousarray(expected[tensor["name"]]).tobytes().hex(), tensor["dtype"])
        for tensor in bundle.manifest["outputs"]
    ]
    shutil.copytree(bundle.path, folder)
    (folder / "arena.bin").write_bytes(arena)
    (folder / "expected.json").write_text(json.dumps({"size": len(arena), "outputs": outputs}), encoding="utf-8")


def check_compiled(pending: Path, counts: Pending) -> Iterator[tuple[int, str, str]]:
    """(case, signature, details) of every defect; the folders are removed."""
    folders = sorted(pending.iterdir(), key=lambda p: int(p.name[1:]))
    for start in range(0, len(folders), BATCH):
        batch = folders[start : start + BATCH]
        yield from _batch(batch, pending.parent / "batch", counts)
        for folder in batch:
            shutil.rmtree(folder)


def _batch(folders: list[Path], program: Path, counts: Pending) -> Iterator[tuple[int, str, str]]:
    wrong = _build(folders, program)
    if wrong and len(folders) > 1:
        for folder in folders:
            yield from _batch([folder], program, counts)
        return
    if wrong:
        counts.bundles += 1
        yield _number(folders[0]), "the C does not compile", wrong[-3000:]
        return
    for index, folder in enumerate(folders):
        counts.bundles += 1
        problem = _run(program, index, folder)
        if problem:
            yield _number(folder), problem.splitlines()[0], problem[-3000:]


def _number(folder: Path) -> int:
    return int(folder.name[1:])


def _build(folders: list[Path], program: Path) -> str:
    """The compiler's message if it fails, else an empty text."""
    sizes = [json.loads((f / "expected.json").read_text("utf-8"))["size"] for f in folders]
    declared = "".join(f"int32_t {f.name}_run(void *);\n" for f in folders)
    table = "".join(f"    {{{f.name}_run, {size}u}},\n" for f, size in zip(folders, sizes, strict=True))
    driver = program.with_name("driver.c")
    driver.write_text(DRIVER % {"declared": declared, "table": table}, encoding="ascii")
    sources = [str(path) for f in folders for path in sorted(f.glob("*.c"))]
    done = subprocess.run(
        ["cc", *FLAGS, str(driver), *sources, "-lm", "-o", str(program)], capture_output=True, text=True, check=False,
        errors="replace", timeout=SECONDS,
    )  # fmt: skip
    return done.stderr or "failed" if done.returncode else ""


def _run(program: Path, index: int, folder: Path) -> str:
    known = json.loads((folder / "expected.json").read_text("utf-8"))
    done = subprocess.run(
        [str(program), str(index)], input=(folder / "arena.bin").read_bytes(), capture_output=True, check=False,
        env={**os.environ, **ENVIRONMENT}, timeout=SECONDS,
    )  # fmt: skip
    if done.returncode != 0:
        return f"the program ended with {done.returncode}\n{done.stderr.decode('utf-8', 'replace')}"
    for offset, expected, dtype in known["outputs"]:
        right = np.frombuffer(bytes.fromhex(expected), dtype)
        found = np.frombuffer(done.stdout, dtype, right.size, offset)
        same = found.view(f"u{found.itemsize}") == right.view(f"u{right.itemsize}")
        if right.dtype.kind == "f":
            same |= np.isnan(found) & np.isnan(right)
        if not same.all():
            return f"bits differ\n{(~same).sum()} of {same.size}: {found[~same][:5]}, the reference says {right[~same][:5]}"
    return ""
