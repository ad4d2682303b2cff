"""The benchmark: models and kernels on emulated cores beside the peers' recorded figures, and x86 beside live peers.

    python benchmarks/run.py -o result.json
    python benchmarks/run.py --only kernels --cores cortex-m4 --match 'pw_*'
    python benchmarks/run.py --only models --cores cortex-m4 --match kws --optimize balanced size
    python benchmarks/run.py --only x86 --litert FOLDER   (pip install --target FOLDER ai-edge-litert)

Prints tables and stores all of it as JSON; `compare.py A.json B.json` shows what moved between two results. Instructions
and cycles are exact and repeatable (docs/measuring.md); microseconds are those of this computer, now.
"""

# ruff: noqa: E402

from __future__ import annotations

import argparse
import fnmatch
import json
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, get_args

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from glowembed.law import blas  # noqa: F401

# isort: split
import cores
import shapes
import x86

from glowembed.graph.plan import Optimize

SCHEMA = 1
PARTS = ("models", "kernels", "x86")
CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")
MODELS = ("kws", "resnet8", "ad01", "mobilenetv2", "digits_cnn", "tcn")
Row = dict[str, Any]


def main() -> int:
    """Run what was asked for."""
    args = _arguments()
    peers = json.loads((HERE / "peers.json").read_text("utf-8"))
    result: dict[str, Any] = {
        "schema": SCHEMA,
        "commit": _commit(),
        "cpu": cpu_name(),
        "peers": peers["provenance"],
        **{part: [] for part in PARTS},
        "absent": [],
    }
    if "models" in args.only:
        result["models"] = _models(args, peers)
    if "kernels" in args.only:
        result["kernels"] = _kernels(args, peers)
    if "x86" in args.only:
        result["x86"], result["absent"] = _x86(args, peers)
    if args.output is not None:
        args.output.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="store the result as JSON")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts to run; by default all")
    parser.add_argument("--cores", nargs="+", choices=CORES, default=CORES, metavar="CORE")
    parser.add_argument("--match", default="*", metavar="GLOB", help="only models and kernels of such names")
    parser.add_argument("--models", type=Path, default=HERE.parent.parent / "shared" / "models", metavar="DIR",
                        help="folder with NAME/model.onnx and NAME/data.npz")  # fmt: skip
    parser.add_argument("--optimize", nargs="+", choices=get_args(Optimize), default=["balanced"], metavar="WORD",
                        help="models on cores: what they are compiled for, as compile --optimize")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=100, help="x86: rounds of all contenders")
    parser.add_argument("--litert", type=Path, metavar="DIR", help="x86: where ai-edge-litert was installed to")
    return parser.parse_args()


def _names(names: Iterable[str], pattern: str) -> list[str]:
    return [name for name in names if fnmatch.fnmatch(name, pattern)]


def _commit() -> str:
    done = subprocess.run(["git", "-C", str(HERE), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def cpu_name() -> str:
    """The name of the processor at hand."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _models(args: argparse.Namespace, peers: Mapping[str, Any]) -> list[Row]:
    rows = []
    print("models: instructions and estimated cycles per inference; peer: TFLite Micro with CMSIS-NN, its best build")
    _line("model", "core", "instructions", "cycles", "cyc/MAC", "peer insn", "ratio", "arena", "code", "peer code")
    for name in _names(MODELS, args.match):
        folder = args.models / name
        if not (folder / "model.onnx").exists():
            print(f"{name}: no {folder}/model.onnx")
            continue
        for core, optimize in product(args.cores, args.optimize):
            row = cores.model_row(name, folder / "model.onnx", folder / "data.npz", core, peers, optimize)
            rows.append(row)
            sizes = (f"{row[key]:,}" if row[key] else "-" for key in ("arena", "code", "peer_code"))
            _line(name, core if optimize == "balanced" else f"{core} {optimize}", *_costs(row, row["macs"]), *sizes)
    return rows


def _kernels(args: argparse.Namespace, peers: Mapping[str, Any]) -> list[Row]:
    rows = []
    print("\nkernels: one layer by itself; peer: CMSIS-NN, its best build; per MAC, or per element where there is none")
    _line("kernel", "core", "instructions", "cycles", "cyc/MAC", "peer insn", "ratio", "", "", "")
    for name in _names((*peers["kernels"], *shapes.OWN), args.match):
        for core in args.cores:
            row = cores.kernel_row(name, core, peers)
            rows.append(row)
            _line(name, core, *_costs(row, row["work"]), "", "", "")
    return rows


def _x86(args: argparse.Namespace, peers: Mapping[str, Any]) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    absent: list[str] = []
    print("\nx86-64, one thread: microseconds of one inference, the smallest of all calls; interleaved, pinned")
    _line("model", "engine", "min us", "median us", "x ours", "recorded", "", "", "", "")
    for name in _names(MODELS, args.match):
        if not (args.models / name / "model.onnx").exists():
            continue
        found, missing = x86.model_rows(name, args.models / name, args.rounds, args.litert, peers)
        rows += found
        absent += [f"{name}: {what}" for what in missing]
        for row in found:
            times = f"{row['min_us']:.2f}", f"{row['median_us']:.2f}", f"{row['times_ours']:.2f}"
            _line(name, row["engine"], *times, str(row["recorded_us"] or "-"), "", "", "", "")
    for what in absent:
        print(f"not run: {what}")
    return rows, absent


def _costs(row: Mapping[str, Any], work: int) -> tuple[str, str, str, str, str]:
    best, cycles = cores.peer_best(row), row["cycles_estimate"]
    return (
        f"{row['instructions']:,}",
        f"{cycles:,}" if cycles else "-",
        f"{cycles / work:.2f}" if cycles and work else "-",
        f"{best:,}" if best else "-",
        f"{best / row['instructions']:.2f}x" if best else "-",
    )


WIDTHS: Sequence[int] = (24, 26, 13, 13, 9, 12, 8, 9, 8, 10)


def _line(*cells: str) -> None:
    words = [c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, WIDTHS, strict=True))]
    print(" ".join(words).rstrip(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
