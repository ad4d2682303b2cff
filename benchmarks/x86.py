"""Ours and the peers on this computer, in one run. In: models. Out: rows of microseconds.

Every contender is a process pinned to the same CPU; rounds go A, B, C, A, B, C, so that whatever disturbs the machine
disturbs all; of each the smallest time of all calls counts, and the medians are there to see how calm it was.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glowembed import pipeline
from glowembed.judge import validation
from glowembed.pipeline import CompileOptions
from glowembed.ranges import datasets

HERE = Path(__file__).resolve().parent
ROUND_NANOSECONDS = 20_000_000
CALIBRATION = 50
Row = dict[str, Any]


@dataclass
class Contender:
    """A running process that times calls on request."""

    name: str
    process: subprocess.Popen[str]
    calls: int = 10
    least: int = 0
    medians: list[int] = field(default_factory=list)

    def round(self) -> None:
        """One batch; the size of the next is set by how long a call takes."""
        least, median = self._ask(self.calls)
        self.least = min(self.least or least, least)
        self.medians.append(median)
        self.calls = max(5, min(5000, ROUND_NANOSECONDS // max(1, median)))

    def _ask(self, calls: int) -> tuple[int, int]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{calls}\n")
        self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        if len(words) != 2:
            raise RuntimeError(f"{self.name} ended: {words}")
        return int(words[0]), int(words[1])


def model_rows(
    name: str, folder: Path, rounds: int, litert: Path | None, peers: Mapping[str, Any]
) -> tuple[list[Row], list[str]]:
    """One row per contender, ours first; and what could not be run."""
    cpu = max(os.sched_getaffinity(0))
    absent: list[str] = []
    with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="glowembed-bench-") as place:
        contenders = [_ours(folder, Path(place), cpu, stack)]
        for label, words in _peers(folder, Path(place)):
            found = _peer(label, words, cpu, litert, stack)
            if isinstance(found, str):
                absent.append(f"{label}: {found}")
            else:
                contenders.append(found)
        for _ in range(rounds):
            for contender in contenders:
                contender.round()
    recorded = {**peers["x86_microseconds"].get(name, {})}
    best = recorded.get("onnxruntime int8 QDQ, best of s8 and u8 activations")
    recorded.update(dict.fromkeys(("onnxruntime int8 QDQ, s8", "onnxruntime int8 QDQ, u8"), best))
    return [_row(name, c, contenders[0], recorded) for c in contenders], absent


def _row(name: str, c: Contender, ours: Contender, recorded: Mapping[str, float]) -> Row:
    return {
        "model": name,
        "engine": c.name,
        "min_us": c.least / 1000,
        "median_us": statistics.median(c.medians) / 1000,
        "times_ours": c.least / ours.least,
        "recorded_us": recorded.get(c.name),
    }


def _start(words: Sequence[str], cpu: int, stack: ExitStack, env: Mapping[str, str]) -> subprocess.Popen[str]:
    command = ["taskset", "-c", str(cpu), *words]
    process = stack.enter_context(
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(env))
    )
    stack.callback(process.kill)
    return process


def _ours(folder: Path, place: Path, cpu: int, stack: ExitStack) -> Contender:
    options = CompileOptions("x86-64", name="bench")
    bundle = pipeline.compile_model(folder / "model.onnx", place / "bundle", options, folder / "data.npz")
    library = validation.build_bundle(bundle, "host", place / "build").elf
    runner = place / "runner"
    subprocess.run(["cc", "-O2", "-o", str(runner), str(HERE / "x86_runner.c"), "-ldl"], check=True)
    arena = bundle.manifest["arena"]
    words = [str(runner), str(library), "bench_run", str(arena["size"]), str(max(64, arena["align"]))]
    return Contender("glowembed", _start(words, cpu, stack, os.environ))


def _peers(folder: Path, place: Path) -> list[tuple[str, tuple[str, str]]]:
    files = [
        ("LiteRT int8, XNNPACK", "litert", folder / "ref_int8.tflite"),
        ("onnxruntime int8 QDQ, s8", "onnxruntime", folder / "model_qdq.onnx"),
        ("onnxruntime int8 QDQ, u8", "onnxruntime", _with_unsigned(folder, place)),
        ("onnxruntime fp32", "onnxruntime", folder / "model.onnx"),
    ]
    return [(label, (kind, str(file))) for label, kind, file in files if file.exists()]


class _Samples:
    """Calibration samples, as onnxruntime's quantizer reads them."""

    def __init__(self, model: Path, data: Path) -> None:
        graph = pipeline.import_model(model, CompileOptions())
        dataset = datasets.load(data, datasets.input_specs(graph), "calib").every(CALIBRATION)
        self._left = [dataset.sample(index) for index in range(len(dataset))]

    def get_next(self) -> dict[str, Any] | None:
        return self._left.pop() if self._left else None


def _with_unsigned(folder: Path, place: Path) -> Path:
    """Quantized by onnxruntime with uint8 activations: on some CPUs its faster form, which a fair comparison needs."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    CalibrationDataReader.register(_Samples)
    prepared, quantized = place / "prepared.onnx", place / "u8.onnx"
    quant_pre_process(str(folder / "model.onnx"), str(prepared), skip_symbolic_shape=True)
    reader = _Samples(folder / "model.onnx", folder / "data.npz")
    quantize_static(
        str(prepared), str(quantized), reader, QuantFormat.QDQ,
        per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
    )  # fmt: skip
    return quantized


def _peer(label: str, words: Sequence[str], cpu: int, litert: Path | None, stack: ExitStack) -> Contender | str:
    """The contender, or why it is absent."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    if litert is not None and words[0] == "litert":
        env["PYTHONPATH"] = str(litert)
    process = _start([sys.executable, str(HERE / "x86_peer.py"), *words], cpu, stack, env)
    assert process.stdout is not None
    said = process.stdout.readline().strip()
    while said and said != "ready" and not said.startswith("absent"):
        said = process.stdout.readline().strip()
    return Contender(label, process) if said == "ready" else (said or "it ended without a word")
