"""Runs the cases of ONNX's backend suite through compile, build and run, and writes docs/onnx-backend.md.

    python benchmarks/onnx_backend.py                          all cases, `--dtype model`, on this computer
    python benchmarks/onnx_backend.py --match "^test_(gather|scatter)" --no-write
    python benchmarks/onnx_backend.py --share 10 --seed 7 --no-write        a tenth of them, drawn by seed

Each case is compiled as it is given, in its own types, for x86-64. Cases share C compiler calls. A case passes if its outputs
have the types and shapes that the suite expects and its values within the tolerance of the suite, and if the numpy
reference has the same bits (NaN beside NaN). Where data decides the size of an output, the output that says how many elements
were found must say what the suite has, and zeros must follow them. A case that is refused counts with its reason.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from glowembed import pipeline, reference
from glowembed.errors import GlowembedError
from glowembed.graph.target import load_target
from glowembed.nest.dtypes import NIBBLES, numpy_type
from glowembed.options.table import MODEL_TYPES, CompileOptions
from glowembed.pipeline import Bundle

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
SECONDS = 120
"""The most for one case, after which it counts as a hang."""

BATCH = 24
"""The cases that share one call of the C compiler."""

PASS, REFUSED, WRONG, CRASH, HANG, C_FAILS, DIFFERS, KNOWN = (
    "pass", "refused", "wrong", "crash", "hang", "C does not compile", "C and reference differ", "known difference",
)  # fmt: skip

KNOWN_DIFFERENCES = {
    r"test_attention_.*bf16": "the suite rounds the sum of a softmax to bfloat16 after every addition; here it is rounded once",
    r"test_dft_inverse(_opset19)?$": "the suite's zeros are round-off of 1.9e-7, beyond its own tolerance of 1e-7; here they are 3e-15",
}
"""Cases whose values differ for a reason that we keep: a pattern of their names -> the reason."""


@dataclass(frozen=True)
class Result:
    """The outcome of a case, and why, if it is no pass."""

    name: str
    operator: str
    outcome: str
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Ready:
    """A case that was compiled to a bundle: its samples, and what the suite expects of them."""

    name: str
    operator: str
    bundle: Bundle
    samples: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
    rtol: float
    atol: float


@cache
def cases() -> Mapping[str, Any]:
    """Every case of the suite by name."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return {case.name: case for kind in KINDS for case in load_model_tests(kind=kind)}


class _Hang(Exception):
    """Raised when a case takes too long."""


def _alarm(*_: Any) -> None:
    raise _Hang


def _samples(case: Any, model: onnx.ModelProto) -> list[tuple[list[Any], list[Any]]]:
    if not case.model_dir:
        return [([_array(a) for a in inputs], [_array(a) for a in outputs]) for inputs, outputs in case.data_sets]
    folders = sorted(Path(case.model_dir).glob("test_data_set_*"))
    return [
        (_stored(folder, "input", model.graph.input), _stored(folder, "output", model.graph.output))
        for folder in folders
    ]


def _stored(folder: Path, kind: str, infos: Sequence[Any]) -> list[Any]:
    arrays = []
    for number in range(len(list(folder.glob(f"{kind}_*.pb")))):
        if not infos[number].type.HasField("tensor_type"):
            return [None]
        tensor = onnx.TensorProto()
        tensor.ParseFromString((folder / f"{kind}_{number}.pb").read_bytes())
        arrays.append(numpy_helper.to_array(tensor))
    return arrays


def _array(given: Any) -> Any:
    if isinstance(given, onnx.TensorProto):
        return numpy_helper.to_array(given)
    return None if given is None or isinstance(given, list | dict) else np.asarray(given)


def _operator(name: str, model: onnx.ModelProto) -> str:
    kinds = [node.op_type for node in model.graph.node if node.op_type != "Constant"]
    if "_expanded" in name:
        return "expanded functions"
    return kinds[0] if len(set(kinds)) == 1 else "models"


def prepare(name: str, folder: Path) -> Ready | Result:
    """Compile a case to a bundle in a folder."""
    case = cases()[name]
    model = onnx.load(Path(case.model_dir) / "model.onnx") if case.model_dir else case.model
    operator = _operator(name, model)
    samples = _samples(case, model)
    if any(a is None for inputs, outputs in samples for a in (*inputs, *outputs)):
        return Result(name, operator, REFUSED, "an input or output is no tensor")
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    constants = {t.name for t in model.graph.initializer}
    names = [info.name for info in model.graph.input]
    shapes = {
        info.name: array.shape
        for info, array in zip(model.graph.input, samples[0][0], strict=False)
        if info.name not in constants and _is_open(info)
    }
    options = CompileOptions(target="x86-64", dtype=MODEL_TYPES, shapes=shapes, name=name)
    try:
        bundle = pipeline.compile_model(path, folder / name, options)
    except GlowembedError as error:
        return Result(name, operator, REFUSED, _reason(str(error), path))
    outputs = [info.name for info in model.graph.output]
    fed = [
        (
            {n: a for n, a in zip(names, inputs, strict=False) if n not in constants},
            dict(zip(outputs, wanted, strict=False)),
        )
        for inputs, wanted in samples
    ]
    return Ready(name, operator, bundle, fed, case.rtol, case.atol)


def _is_open(info: Any) -> bool:
    kind = info.type.tensor_type
    return not kind.HasField("shape") or any(not d.HasField("dim_value") for d in kind.shape.dim)


def _reason(text: str, path: Path) -> str:
    lines = [line.strip() for line in text.replace(str(path), "model").splitlines()]
    return next((line for line in lines[1:] if line and not line.startswith("supported")), lines[0])[:160]


# ---------------------------------------------------------------------------------------------- C


def build(ready: Sequence[Ready], folder: Path) -> Path:
    """One shared library of several bundles. Raises CalledProcessError if the compiler fails."""
    sources = [str(r.bundle.path / s) for r in ready for s in r.bundle.manifest["sources"]]
    folders = [f"-I{r.bundle.path}" for r in ready]
    flags = [f for f in load_target("x86-64").cflags if not f.startswith("-O")]
    library = folder / "cases.so"
    command = ["cc", *flags, "-O1", "-shared", "-fvisibility=default", *folders, *sources, "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return library


def run_c(library: Any, r: Ready, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of the C of a case."""
    manifest = r.bundle.manifest
    size, align = manifest["arena"]["size"], manifest["arena"]["align"]
    memory = np.full(size + align, 0xA5, np.uint8)
    start = -memory.ctypes.data % align
    arena = memory[start : start + size]
    for t in manifest["inputs"]:
        array = np.ascontiguousarray(inputs[t["name"]]).astype(_in_memory(t["dtype"]))
        arena[t["offset"] : t["offset"] + t["bytes"]] = array.reshape(-1).view(np.uint8)
    run = getattr(library, f"{manifest['name']}_run")
    run.argtypes, run.restype = [ctypes.c_void_p], ctypes.c_int32
    code = run(arena.ctypes.data)
    if code:
        raise RuntimeError(f"{manifest['name']}_run returned {code}")
    return {
        t["name"]: np.frombuffer(arena[t["offset"] : t["offset"] + t["bytes"]].tobytes(), _in_memory(t["dtype"])).reshape(t["shape"])
        for t in manifest["outputs"]
    }  # fmt: skip


def _in_memory(dtype: str) -> Any:
    return np.dtype(NIBBLES[dtype][0]) if dtype in NIBBLES else numpy_type(dtype)


def check(r: Ready, library: Any) -> Result:
    """Run a case and compare it with the reference and with the suite."""
    for inputs, wanted in r.samples:
        given = {name: np.asarray(inputs[name]) for name in r.bundle.graph.inputs}
        known = reference.run_int(r.bundle.graph, given)
        found = run_c(library, r, given)
        for name, expected in wanted.items():
            value = r.bundle.graph.values[name]
            of_reference, of_c = np.asarray(known[name]), found[name]
            if not _same_bits(of_reference, of_c):
                return Result(r.name, r.operator, DIFFERS, name)
            have = value.logical(of_reference)
            if value.found is not None:
                have = _found_of(have, value.found[1], int(known[value.found[0]][0]))
                if have is None:
                    return Result(r.name, r.operator, WRONG, f"{name}: what follows the elements found is not 0")
            if have.shape != expected.shape or have.dtype != expected.dtype:
                text = f"{name}: {have.dtype}{list(have.shape)}, the suite has {expected.dtype}{list(expected.shape)}"
                return Result(r.name, r.operator, WRONG, text)
            if not _near(have, expected, r.rtol, r.atol):
                reason = next((text for pattern, text in KNOWN_DIFFERENCES.items() if re.match(pattern, r.name)), "")
                return Result(r.name, r.operator, KNOWN if reason else WRONG, reason or f"{name}: values differ")
    return Result(r.name, r.operator, PASS)


def _found_of(array: Any, axis: int, number: int) -> Any:
    """The elements found along an axis; None if something follows them."""
    found, rest = np.split(array, [number], axis)
    return None if rest.any() else found


def _same_bits(a: Any, b: Any) -> bool:
    a = a.astype(b.dtype) if a.dtype != b.dtype else a
    if a.dtype.kind in "iub":
        return bool(np.array_equal(a, b))
    nan = np.isnan(a) & np.isnan(b)
    kind = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[a.dtype.itemsize]
    return bool(np.all((a.view(kind) == b.view(kind)) | nan)) if a.ndim else bool(nan) or a.tobytes() == b.tobytes()


def _near(have: Any, expected: Any, rtol: float, atol: float) -> bool:
    if have.dtype.kind in "iub":
        return bool(np.array_equal(have, expected))
    return bool(np.allclose(have.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True))


def run_batch(names: Sequence[str]) -> list[Result]:
    """The results of several cases, whose C is compiled in one call, or one by one if that fails."""
    with tempfile.TemporaryDirectory(prefix="glowembed-") as text:
        folder = Path(text)
        made = [_guarded(name, lambda n=name: prepare(n, folder)) for name in names]
        ready = [r for r in made if isinstance(r, Ready)]
        try:
            library: Any = ctypes.CDLL(str(build(ready, folder))) if ready else None
        except subprocess.CalledProcessError as error:
            if len(names) > 1:
                return [result for name in names for result in run_batch([name])]
            return [Result(ready[0].name, ready[0].operator, C_FAILS, error.stderr.strip()[:300])]
        return [r if isinstance(r, Result) else _guarded(r.name, lambda r=r: check(r, library)) for r in made]


def _guarded(name: str, step: Any) -> Any:
    """What the step returns; a Result if it crashes or hangs."""
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(SECONDS)
    try:
        with np.errstate(all="ignore"):
            return step()
    except _Hang:
        return Result(name, "models", HANG)
    except Exception:
        return Result(name, "models", CRASH, traceback.format_exc().strip().splitlines()[-1][:200])
    finally:
        signal.alarm(0)


def run(names: Sequence[str], workers: int) -> list[Result]:
    """The results of these cases, in their order."""
    batches = [names[i : i + BATCH] for i in range(0, len(names), BATCH)]
    cases()
    with multiprocessing.Pool(workers) as pool:
        return [result for batch in pool.imap(run_batch, batches) for result in batch]


# ---------------------------------------------------------------------------------------------- document


def document(results: Iterable[Result]) -> str:
    """docs/onnx-backend.md."""
    results = list(results)
    counts = Counter(r.outcome for r in results)
    by_operator: dict[str, list[Result]] = defaultdict(list)
    for r in results:
        by_operator[r.operator].append(r)
    rows = [
        f"| {op} | {sum(r.outcome == PASS for r in found)} / {len(found)} |"
        for op, found in sorted(by_operator.items())
    ]
    failed = [f"| {r.name} | {r.outcome} | {_cell(r.reason)} |" for r in results if r.outcome != PASS]
    others = ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items()) if kind != PASS) or "none"
    return "\n".join(
        [
            "# ONNX's backend suite",
            "",
            f"Written by benchmarks/onnx_backend.py with onnx {onnx.__version__}. Each case is compiled as it is given, in its own types",
            "(`--dtype model`), for x86-64, built with gcc -O1 and run; outputs must be within the suite's tolerances, and the bits those of the",
            "numpy reference.",
            "",
            f"**{counts[PASS]} of {len(results)} cases pass**; the others: {others}.",
            "",
            "| operator | passed / all |",
            "|---|---|",
            *rows,
            "",
            "## Cases that do not pass",
            "",
            "| case | outcome | reason |",
            "|---|---|---|",
            *failed,
            "",
        ]
    )


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ").replace("<", "&lt;")


def main() -> int:
    """Run what the command line asks for; exit code 1 if a case is wrong, crashes or hangs, or if C does not compile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--match", default="", help="a regular expression that names of cases must match")
    parser.add_argument("--share", type=int, default=1, metavar="N", help="only one case of N")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--no-write", action="store_true", help="do not write docs/onnx-backend.md")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all results")
    args = parser.parse_args()
    names = [name for name in cases() if re.search(args.match, name)]
    if args.share > 1:
        order = np.random.default_rng(args.seed).permutation(len(names))
        names = [names[i] for i in sorted(order[: -(-len(names) // args.share)])]
    start = time.perf_counter()
    results = run(names, args.workers)
    counts = Counter(r.outcome for r in results)
    for r in results:
        if r.outcome not in (PASS, REFUSED, KNOWN):
            print(f"{r.name}: {r.outcome}: {r.reason}")
    print(f"{counts[PASS]} of {len(results)} pass in {time.perf_counter() - start:.0f} s: {dict(counts)}")
    if args.json:
        args.json.write_text(json.dumps([vars(r) for r in results], indent=1))
    if not args.no_write:
        (ROOT / "docs" / "onnx-backend.md").write_text(document(results), encoding="utf-8")
    return 1 if set(counts) - {PASS, REFUSED, KNOWN} else 0


if __name__ == "__main__":
    sys.exit(main())
