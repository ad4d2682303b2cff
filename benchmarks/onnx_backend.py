"""Runs the cases of ONNX's backend suite through compile, build and run, and writes docs/onnx-backend.md.

    python benchmarks/onnx_backend.py                          all cases, `--dtype model`, on this computer
    python benchmarks/onnx_backend.py --match "^test_(gather|scatter)" --no-write
    python benchmarks/onnx_backend.py --share 10 --seed 7 --no-write        a tenth of them, drawn by seed
    python benchmarks/onnx_backend.py --board mps2-an386                    on an emulated board: a row of the document
    python benchmarks/onnx_backend.py --dtype int8                          the cases with float inputs, quantized: a row

Each case is compiled unchanged, in its own types. Cases share calls of the C compiler, and on a board they share a
firmware. A case passes if its outputs have the types and shapes that the suite expects and its values within the tolerance
of the suite, and if the numpy reference has the same bits (NaN beside NaN). Where data decides the size of an output, the
output that says how many elements were found must say what the suite has, and zeros must follow them. A case that is refused
counts with its reason. With another `--dtype` the inputs of the case are its calibration samples, and the bits of the
reference decide; how far quantized values are from those of the suite is not judged. NaN and infinities in them are 0 then.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import backend_programs as programs
import numpy as np
import onnx
from onnx import numpy_helper

from glowembed import pipeline, reference
from glowembed.errors import GlowembedError
from glowembed.graph.ir import Value
from glowembed.graph.target import board_names
from glowembed.image.build import OVERFLOW
from glowembed.jobs import crew
from glowembed.jobs.scripts import Call, call
from glowembed.judge.regress import tools_of
from glowembed.nest.dtypes import NIBBLES, numpy_type
from glowembed.options.table import DTYPES, MODEL_TYPES, CompileOptions
from glowembed.pipeline import Bundle

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
SECONDS = 120
"""The most processor time for one case, after which it counts as a hang."""

BATCH = 24
"""The cases that share one call of the C compiler."""

PASS, REFUSED, WRONG, CRASH, HANG, C_FAILS, DIFFERS, KNOWN, TOO_LARGE = (
    "pass", "refused", "wrong", "crash", "hang", "C does not compile", "C and reference differ", "known difference",
    "does not fit",
)  # fmt: skip
ALLOWED = (PASS, REFUSED, KNOWN, TOO_LARGE)
"""The outcomes that are no defect."""

DOCUMENT = ROOT / "docs" / "onnx-backend.md"
OTHERS = "## Boards and types"
"""The heading of the table with a row for each board and type."""

KNOWN_DIFFERENCES = {
    r"test_attention_.*bf16": "the suite rounds the sum of a softmax to bfloat16 after every addition; here it is rounded once",
    r"test_dft_inverse(_opset19)?$": "the suite's zeros are round-off of 1.9e-7, beyond its own tolerance of 1e-7; here they are 3e-15",
}
"""Cases whose values differ for a reason that we keep: a pattern of their names -> the reason."""


@dataclass(frozen=True)
class Setup:
    """How the cases are compiled, and where they run."""

    board: str = programs.HOST
    dtype: str = MODEL_TYPES


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
    exact: bool
    """Whether the values must be those of the suite, too."""


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


def has_float_inputs(name: str) -> bool:
    """Whether a case has an input that can be quantized."""
    graph = cases()[name].model.graph if cases()[name].model else onnx.load(_file(cases()[name])).graph
    constants = {t.name for t in graph.initializer}
    kinds = {info.type.tensor_type.elem_type for info in graph.input if info.name not in constants}
    return bool(kinds.intersection(FLOATS))


def _file(case: Any) -> Path:
    return Path(case.model_dir) / "model.onnx"


def prepare(name: str, folder: Path, setup: Setup) -> Ready | Result:
    """Compile a case to a bundle in a folder."""
    case = cases()[name]
    model = onnx.load(_file(case)) if case.model_dir else case.model
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
    options = CompileOptions(target=programs.target_of(setup.board), dtype=setup.dtype, shapes=shapes, name=name)
    fed = [{n: a for n, a in zip(names, inputs, strict=False) if n not in constants} for inputs, _ in samples]
    exact = setup.dtype == MODEL_TYPES
    fed = fed if exact else [{n: _finite(a) for n, a in given.items()} for given in fed]
    try:
        bundle = pipeline.compile_model(
            path, folder / name, options, None if exact else _calibration(fed, folder / f"{name}.npz")
        )
    except GlowembedError as error:
        return Result(name, operator, REFUSED, _reason(str(error), path))
    outputs = [info.name for info in model.graph.output]
    pairs = [(given, dict(zip(outputs, wanted, strict=False))) for given, (_, wanted) in zip(fed, samples, strict=True)]
    return Ready(name, operator, bundle, pairs, case.rtol, case.atol, exact)


def _finite(array: Any) -> Any:
    """The array with 0 for what is not finite in float32, in which it is computed."""
    if array.dtype.kind in "iub":
        return array
    with np.errstate(over="ignore"):
        return np.where(np.isfinite(array.astype(np.float32)), array, np.zeros_like(array))


def _calibration(fed: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """A file with the inputs of a case as calibration samples."""
    stacked = {f"calib_{name}": np.stack([given[name] for given in fed]) for name in fed[0]}
    small = ("bfloat16", "float8", "float4", "int4", "uint4", "int2", "uint2")
    numbers = {n: a.astype(np.float32) if a.dtype.name.startswith(small) else a for n, a in stacked.items()}
    np.savez(path, **numbers)
    return path


def _is_open(info: Any) -> bool:
    kind = info.type.tensor_type
    return not kind.HasField("shape") or any(not d.HasField("dim_value") for d in kind.shape.dim)


def _reason(text: str, path: Path) -> str:
    lines = [line.strip() for line in text.replace(str(path), "model").splitlines()]
    return next((line for line in lines[1:] if line and not line.startswith("supported")), lines[0])[:160]


def stored_inputs(r: Ready, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a case as the bundle stores them."""
    return {name: _stored_as(r.bundle.graph.values[name], np.asarray(inputs[name])) for name in r.bundle.graph.inputs}


def _stored_as(value: Value, array: Any) -> Any:
    ordered = array if value.layout is None else np.transpose(array, value.layout)
    if value.qtype is not None and ordered.dtype.kind not in "iub":
        return value.qtype.quantize(ordered.astype(np.float32))
    return ordered.astype(numpy_type(value.dtype))


def arena_of(r: Ready, stored: Mapping[str, Any]) -> Any:
    """The content of the arena before a run."""
    arena = np.full(r.bundle.manifest["arena"]["size"], 0xA5, np.uint8)
    for t in r.bundle.manifest["inputs"]:
        array = np.ascontiguousarray(stored[t["name"]]).astype(_in_memory(t["dtype"]))
        arena[t["offset"] : t["offset"] + t["bytes"]] = array.reshape(-1).view(np.uint8)
    return arena


def outputs_of(r: Ready, arena: Any) -> dict[str, Any]:
    """The outputs, read from the arena after a run."""
    return {
        t["name"]: np.frombuffer(arena[t["offset"] : t["offset"] + t["bytes"]].tobytes(), _in_memory(t["dtype"])).reshape(t["shape"])
        for t in r.bundle.manifest["outputs"]
    }  # fmt: skip


def _in_memory(dtype: str) -> Any:
    return np.dtype(NIBBLES[dtype][0]) if dtype in NIBBLES else numpy_type(dtype)


def check(r: Ready, answers: Sequence[programs.Answer | None]) -> Result:
    """Compare the answers of a case, one for each of its samples, with the reference and with the suite."""
    for (inputs, wanted), answer in zip(r.samples, answers, strict=True):
        if answer is None:
            return Result(r.name, r.operator, CRASH, "the firmware faults or hangs")
        if answer[0]:
            return Result(r.name, r.operator, CRASH, f"{r.name}_run returned {answer[0]}")
        known = reference.run_int(r.bundle.graph, stored_inputs(r, inputs))
        found = outputs_of(r, answer[1])
        for name, expected in wanted.items():
            if name in r.bundle.graph.values and not _same_bits(np.asarray(known[name]), found[name]):
                return Result(r.name, r.operator, DIFFERS, name)
            if problem := _against_suite(r, name, known, expected):
                return problem
    return Result(r.name, r.operator, PASS)


def _against_suite(r: Ready, name: str, known: Mapping[str, Any], expected: Any) -> Result | None:
    """A failed Result if an output differs from the suite's, else None."""
    value = r.bundle.graph.values[name]
    have = value.logical(np.asarray(known[name]))
    have = have if value.qtype is None else value.qtype.dequantize(have)
    if value.found is not None:
        have = _found_of(have, value.found[1], int(known[value.found[0]][0]))
        if have is None:
            return Result(r.name, r.operator, WRONG, f"{name}: what follows the elements found is not 0")
    if not r.exact:
        return None
    if have.shape != expected.shape or have.dtype != expected.dtype:
        text = f"{name}: {have.dtype}{list(have.shape)}, the suite has {expected.dtype}{list(expected.shape)}"
        return Result(r.name, r.operator, WRONG, text)
    if _near(have, expected, r.rtol, r.atol):
        return None
    reason = next((text for pattern, text in KNOWN_DIFFERENCES.items() if re.match(pattern, r.name)), "")
    return Result(r.name, r.operator, KNOWN if reason else WRONG, reason or f"{name}: values differ")


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


def run_batch(setup: Setup, names: Sequence[str]) -> list[Result]:
    """The results of several cases that share a program, or have one each if that program cannot be built or crashes."""
    cases()  # no case is to blame for how long it takes to load them all
    with tempfile.TemporaryDirectory(prefix="glowembed-") as text:
        folder = Path(text)
        made = [_guarded(name, lambda n=name: prepare(n, folder, setup)) for name in names]
        ready = [r for r in made if isinstance(r, Ready)]
        try:
            answers = _answers(setup, ready, folder)
        except subprocess.CalledProcessError as error:
            if len(names) > 1:
                return [result for name in names for result in run_batch(setup, [name])]
            large = bool(OVERFLOW.search(error.stderr))
            return [
                Result(ready[0].name, ready[0].operator, TOO_LARGE if large else C_FAILS, error.stderr.strip()[:300])
            ]
        if len(names) > 1 and any(None in known for known in answers.values()):
            return [result for name in names for result in run_batch(setup, [name])]
        return [r if isinstance(r, Result) else _guarded(r.name, lambda r=r: check(r, answers[r.name])) for r in made]


def _answers(setup: Setup, ready: Sequence[Ready], folder: Path) -> dict[str, list[programs.Answer | None]]:
    """The answers to the samples of each case."""
    calls = [(i, arena_of(r, stored_inputs(r, inputs))) for i, r in enumerate(ready) for inputs, _ in r.samples]
    found = programs.execute(setup.board, [r.bundle for r in ready], calls, folder) if ready else []
    return {r.name: [a for (j, _), a in zip(calls, found, strict=True) if j == i] for i, r in enumerate(ready)}


def _guarded(name: str, step: Any) -> Any:
    """The result of the step; a Result that says so if it crashes or hangs."""
    signal.signal(signal.SIGPROF, _alarm)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with np.errstate(all="ignore"):
            return step()
    except _Hang:
        return Result(name, "models", HANG)
    except Exception:
        return Result(name, "models", CRASH, traceback.format_exc().strip().splitlines()[-1][:200])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


IN_A_PROCESS = "import json, sys; sys.path.insert(0, sys.argv[1]); import onnx_backend; onnx_backend.answer()"


def outcomes(board: str, dtype: str, names: Sequence[str]) -> list[Any]:
    """The results of some cases as lists. Where this is not the main thread, as in a worker of a cluster, a process of its own finds
    them, because only a main thread can be woken out of a case that hangs.
    """
    if threading.current_thread() is threading.main_thread():
        return [list(astuple(result)) for result in run_batch(Setup(board, dtype), names)]
    command = [sys.executable, "-c", IN_A_PROCESS, str(Path(__file__).parent)]
    done = subprocess.run(command, input=json.dumps([board, dtype, names]), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [[name, "models", CRASH, done.stderr.strip()[-200:]] for name in names]
    return list(json.loads(done.stdout.splitlines()[-1]))


def answer() -> None:
    """Find the outcomes for which the standard input asks."""
    print(json.dumps(outcomes(*json.load(sys.stdin))))


def run(names: Sequence[str], setup: Setup, crew: Executor) -> list[Result]:
    """The results of these cases, in their order, whoever finds them."""
    needs = tools_of(programs.target_of(setup.board), emulated=setup.board != programs.HOST)
    folder, parts = Path(__file__).parent, range(0, len(names), BATCH)
    calls = [
        Call(folder, "onnx_backend.outcomes", (setup.board, setup.dtype, tuple(names[i : i + BATCH])), needs=needs)
        for i in parts
    ]
    return [Result(*result) for found in crew.map(call, calls) for result in found]


def document(results: Iterable[Result], others: str) -> str:
    """docs/onnx-backend.md; others: its table of boards and types."""
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
    return "\n".join(
        [
            "# ONNX's backend suite",
            "",
            f"Written by benchmarks/onnx_backend.py with onnx {onnx.__version__}. Each case is compiled unchanged, in its own types",
            "(`--dtype model`), for x86-64, built with gcc -O1 and run. Outputs must be within the suite's tolerances, with the same bits as the",
            "numpy reference.",
            "",
            f"**{counts[PASS]} of {len(results)} cases pass**; the others: {_counted(counts)}.",
            "",
            others,
            "",
            "## Operators",
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


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items()) if kind != PASS) or "none"


def with_row(table: str, setup: Setup, results: Sequence[Result], note: str) -> str:
    """The table of boards and types with the row of this setup."""
    rows = dict(re.findall(r"^(\| `\S+` \| \S+ \|)(.*)$", table, re.MULTILINE))
    counts = Counter(r.outcome for r in results)
    rows[f"| `{setup.board}` | {setup.dtype} |"] = f" {counts[PASS]} / {len(results)} | {_counted(counts)}{note} |"
    return "\n".join(
        [
            OTHERS,
            "",
            "The same cases on emulated boards and in other types. On boards, outputs must have the bits of the reference. In int8 and int16, cases with",
            "a float input, which is also the calibration sample, are compared with the bits of the reference only. There is one row for each call with",
            "`--board` or `--dtype`.",
            "",
            "| board | dtype | passed / cases | others |",
            "|---|---|---|---|",
            *(head + rest for head, rest in sorted(rows.items())),
        ]
    )


def write(setup: Setup, results: Sequence[Result], note: str) -> None:
    """Write the document, or the row of a setup in it."""
    text = DOCUMENT.read_text("utf-8")
    found = re.search(rf"^{OTHERS}$.*?(?=\n\n## )", text, re.MULTILINE | re.DOTALL)
    table = found[0] if found else ""
    if setup == Setup():
        text = document(results, with_row(table, setup, results, note))
    elif found:
        text = text.replace(table, with_row(table, setup, results, note))
    DOCUMENT.write_text(text, encoding="utf-8")


def main() -> int:
    """Run what the command line asks for; exit code 1 if a case is wrong, crashes or hangs, or if C does not compile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--match", default="", help="a regular expression that names of cases must match")
    parser.add_argument("--share", type=int, default=1, metavar="N", help="only one case of N")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--board", default=programs.HOST, choices=board_names(), help="run them on this emulated board")
    parser.add_argument(
        "--dtype", default=MODEL_TYPES, choices=[MODEL_TYPES, *DTYPES], help="compile them in this type"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes of this computer; by default 2")
    parser.add_argument("--scheduler", metavar="URL", help="let the workers of a Dask cluster do it")
    parser.add_argument("--no-write", action="store_true", help="do not write docs/onnx-backend.md")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all results")
    args = parser.parse_args()
    setup = Setup(args.board, args.dtype)
    names = [name for name in cases() if re.search(args.match, name)]
    if setup.dtype != MODEL_TYPES:
        names = [name for name in names if has_float_inputs(name)]
    if args.share > 1:
        order = np.random.default_rng(args.seed).permutation(len(names))
        names = [names[i] for i in sorted(order[: -(-len(names) // args.share)])]
    start = time.perf_counter()
    workers = args.workers or (2 if args.scheduler is None else None)
    with crew.crew(workers, args.scheduler, lambda path: ()) as able:
        results = run(names, setup, able)
    counts = Counter(r.outcome for r in results)
    for r in results:
        if r.outcome not in (PASS, REFUSED, KNOWN):
            print(f"{r.name}: {r.outcome}: {r.reason}")
    print(f"{counts[PASS]} of {len(results)} pass in {time.perf_counter() - start:.0f} s: {dict(counts)}")
    if args.json:
        args.json.write_text(json.dumps([vars(r) for r in results], indent=1))
    if not args.no_write:
        write(setup, results, f"; one case of {args.share}, seed {args.seed}" if args.share > 1 else "")
    return 1 if set(counts).difference(ALLOWED) else 0


if __name__ == "__main__":
    sys.exit(main())
