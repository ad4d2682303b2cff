"""Mutated models from import to C, and a sample of what compiles run under sanitizers.

    python tests/fuzz/fuzz_import.py --seconds 3600 --cases 100000 --seed 7 --compile-every 10

Every model that is not refused is imported, canonicalized, profiled on random data, quantized, lowered, planned and
emitted; its float reference is compared with onnxruntime, and every so many bundles are compiled for this computer with
AddressSanitizer and UndefinedBehaviorSanitizer and compared with the integer reference. Findings are printed; the
models lie in --keep. The exit code is 1 when there is any. `--show CASE` runs one case and prints what happens.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))

import numpy as np
import onnx
import onnxruntime
from compiled import Pending, check_compiled, keep_for_compiling
from corpus import corpus
from mutate import mutated
from runner import Finding, Result, Wrong, run

from glowembed.graph.ir import Array, Graph
from glowembed.graph.target import Target, load_target
from glowembed.judge.validation import stored_inputs
from glowembed.law import blas  # noqa: F401
from glowembed.options import table
from glowembed.pipeline import Bundle, CompileOptions, compile_model
from glowembed.ranges import datasets
from glowembed.ranges.datasets import Dataset
from glowembed.reference import run_float

SAMPLES = 2
STEP = 1000
"""cases between two builds of what was put aside"""

MAX_ELEMENTS = 2**18
"""Larger activations are not computed: it would only take time."""

TOLERANCE = 2e-3
"""of the largest output: float32 sums in another order"""


@dataclass(frozen=True)
class TooLarge(Exception):
    """The model is sound, but takes long."""


@dataclass(eq=False)
class Case:
    """One mutated model and how it is compiled, all from seed and number."""

    seed: int
    number: int
    models: list[onnx.ModelProto]
    folder: Path
    arrays: dict[str, Array] = field(default_factory=dict)
    shapes: dict[str, Any] = field(default_factory=dict)
    integers: dict[str, Any] = field(default_factory=dict)
    canonical: Graph | None = None

    def __post_init__(self) -> None:
        self.chance = random.Random(f"{self.seed} {self.number}")
        self.data = mutated(self.chance, self.models)

    def options(self) -> CompileOptions:
        choose = self.chance.choice
        more: dict[str, Any] = {}
        if self.chance.random() < 0.5:
            more = choose((
                {"dtype": "int16"}, {"dtype": "int16", "weights_dtype": "int16"}, {"dtype": "float32"}, {"float_io": True},
                {"per_channel": False}, {"schema": "symmetric"}, {"weights_schema": "asymmetric"},
                {"requantization": "tflite"}, {"requantization": "onnx"}, {"requantization": "glow"},
                {"input_layout": "nhwc"}, {"schema": "symmetric_with_power2_scale"}, {"calibration": "minmax"},
            ))  # fmt: skip
        target = "x86-64" if self.chance.random() < 0.7 else choose(("cortex-m4", "cortex-m0", "cortex-m55"))
        return CompileOptions(target=target, name=f"m{self.number}", **more)

    def dataset(self) -> Dataset:
        """Filled when the graph is known."""
        return Dataset(self.arrays, None, (), self.shapes, self.integers)

    def on_stage(self, name: str, result: Any) -> None:
        if name != "canonicalize":
            return
        self.canonical = result
        if sum(v.elements for v in result.values.values()) > MAX_ELEMENTS:
            raise TooLarge
        rng = np.random.default_rng(self.number)
        for spec in datasets.input_specs(result):
            array = rng.normal(size=(SAMPLES, *spec.shape)).astype(np.float32)
            self.arrays[spec.name], self.shapes[spec.name] = array, spec.shape
            if spec.integers is not None:
                self.integers[spec.name] = spec.integers

    def compiled(self) -> Bundle:
        path = self.folder / "model.onnx"
        path.write_bytes(self.data)
        out = self.folder / "bundle"
        shutil.rmtree(out, ignore_errors=True)
        options, portable = self.options(), self.chance.random() < 0.85
        with patch.object(table, "load_target", _portable if portable else load_target):
            return compile_model(path, out, options, self.dataset(), on_stage=self.on_stage)


def _portable(name: str) -> Target:
    """The target with portable kernels alone: a tenth of the C, so that many bundles can be compiled."""
    return replace(load_target(name), isa=()) if name == "x86-64" else load_target(name)


def check(case: Case, compile_every: int, pending: Path) -> str:
    """A word for the count; Wrong where there is something to mend."""
    try:
        bundle = case.compiled()
    except TooLarge:
        return "too large"
    compared = _compare_float(case)
    if compile_every and case.number % compile_every == 0 and bundle.manifest["target"] == "x86-64":
        _keep(case, bundle, pending)
    return compared


def _keep(case: Case, bundle: Bundle, pending: Path) -> None:
    stored = {name: array[0] for name, array in stored_inputs(bundle.graph, case.dataset()).items()}
    keep_for_compiling(bundle, stored, pending / f"m{case.number}")


def _compare_float(case: Case) -> str:
    """The float reference against onnxruntime with its optimizations off, where it takes the model."""
    graph, dataset = case.canonical, case.dataset()
    assert graph is not None
    if any(v.qtype is not None for v in graph.values.values()) or any(n.op == "Rescale" for n in graph.nodes):
        return "success (quantized)"
    theirs = _onnxruntime(case, dataset.model_sample(0))
    if theirs is None:
        return "success (not for onnxruntime)"
    stored = {n: datasets.stored(graph.values[n], a) for n, a in dataset.sample(0).items()}
    with np.errstate(all="ignore"):
        ours = run_float(graph, {n: np.ascontiguousarray(a) for n, a in stored.items()})
        changed = run_float(graph, {n: _changed(a) for n, a in stored.items()})
    for name in graph.outputs:
        value = graph.values[name]
        _same(name, value.logical(ours[name]), theirs[name], value.logical(changed[name]))
    return "success (floats compared)"


def _changed(array: Array) -> Array:
    """Real numbers with another last bit or three."""
    if array.dtype != np.float32:
        return np.ascontiguousarray(array)
    noise = np.random.default_rng(0).uniform(-1e-6, 1e-6, array.shape)
    return np.ascontiguousarray((array * (1 + noise)).astype(np.float32))


def _same(name: str, ours: Array, theirs: Array, changed: Array) -> None:
    """changed: ours for inputs that differ in their last bits. Where that makes a difference, as in 1 / x near 0, rounding does too."""
    if ours.size != theirs.size:
        raise Wrong(f"shape of an output differs from onnxruntime: {name!r}: {ours.shape}, {theirs.shape}")
    theirs = theirs.reshape(ours.shape).astype(np.float64)
    if not theirs.size or not np.isfinite(theirs).all():
        return
    scale = max(float(np.abs(theirs).max()), 1e-4)
    with np.errstate(all="ignore"):
        rounding = 30 * np.nan_to_num(np.abs(changed.astype(np.float64) - ours), nan=np.inf)
    different = np.abs(ours - theirs) > TOLERANCE * scale + rounding
    if different.any():
        raise Wrong(
            f"floats differ from onnxruntime: {name!r}: {different.sum()} of {different.size}, "
            f"{ours[different][:4]} and {theirs[different][:4]}"
        )


def _onnxruntime(case: Case, feeds: Mapping[str, Array]) -> dict[str, Array] | None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if case.canonical is not None and case.options().input_layout == "nhwc":
        return None
    if any(feed.size == 0 for feed in feeds.values()):
        return None  # onnxruntime aborts the process for a recurrent node without a batch
    try:
        session = onnxruntime.InferenceSession(case.data, options, providers=["CPUExecutionProvider"])
        kinds = {"tensor(float16)": np.float16, "tensor(double)": np.float64}
        typed = {i.name: feeds[i.name].astype(kinds.get(i.type, feeds[i.name].dtype)) for i in session.get_inputs()}
        found = session.run(None, typed)
    except Exception:
        return None
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, found, strict=True)) if all(isinstance(a, np.ndarray) for a in found) else None


def fuzz(args: argparse.Namespace, keep: Path) -> tuple[Result, Pending]:
    """All cases, then everything that was put aside is compiled and run."""
    models = list(corpus(args.seed))
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        folder, pending = Path(name), Path(name) / "pending"
        pending.mkdir()

        def one(number: int) -> str:
            return check(Case(args.seed, number, models, folder), args.compile_every, pending)

        result, compiled, end = Result(), Pending(), time.monotonic() + args.seconds
        while result.cases < args.cases and time.monotonic() < end:
            left = min(STEP, args.cases - result.cases)
            part = run(one, args.first + result.cases, left, end - time.monotonic(), folder)
            part.findings += [Finding(n, s, d) for n, s, d in check_compiled(pending, compiled)]
            for finding in part.findings:
                _save(keep, Case(args.seed, finding.case, models, folder), finding)
            result.add(part)
            print(f"{result.cases} cases, {compiled.bundles} run, {len(result.distinct())} findings", flush=True)
        return result, compiled


def _save(keep: Path, case: Case, finding: Finding) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    (keep / f"{case.seed}-{case.number}.onnx").write_bytes(case.data)
    (keep / f"{case.seed}-{case.number}.txt").write_text(f"{finding.signature}\n{finding.details}\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--cases", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--compile-every", type=int, default=10)
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--show", type=int, help="one case, with its traceback")
    args = parser.parse_args()
    if args.show is not None:
        with tempfile.TemporaryDirectory() as name:
            case = Case(args.seed, args.show, list(corpus(args.seed)), Path(name))
            print(onnx.ModelProto.FromString(case.data))
            print(check(case, 0, Path(name)))
        return 0
    result, compiled = fuzz(args, args.keep)
    for signature, findings in sorted(result.distinct().items(), key=lambda item: -len(item[1])):
        print(f"\n{len(findings)} x {signature}; case {findings[0].case}\n{findings[0].details}")
    print(f"seed {args.seed}: {result.cases} cases, {dict(result.outcomes.most_common())}")
    print(f"{compiled.bundles} bundles compiled and run; {len(result.distinct())} distinct findings")
    return 1 if result.findings else 0


if __name__ == "__main__":
    sys.exit(main())
