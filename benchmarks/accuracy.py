#!/usr/bin/env python3
"""Accuracy of every quantization setting on every model, and whether all cores give the same bits.

In: a folder with models (NAME/model.onnx, NAME/data.npz). Out: a line per model and configuration, a Markdown table at
the end and, with --json, a file; what stands in that file is not made again. The figures are those of the integer
reference over all test samples, against onnxruntime on the float model; with --boards, every configuration also runs there,
and its bits are compared: layer by layer, in kernels that are built once and get the constants of each configuration, or with
--whole each as the program that a user would build.

    ./glow run python benchmarks/accuracy.py ../shared/models
    ./glow run python benchmarks/accuracy.py ../shared/models --bits-only --boards host mps2-an386 nrf51-large mps3-an547
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing.util
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from typing import Any, get_args

from glowembed.law import blas  # noqa: F401

# isort: split
from glowembed.errors import GlowembedError
from glowembed.graph.ir import Array, Graph, Node
from glowembed.graph.plan import Optimize, PlanOptions
from glowembed.graph.registry import kernel as kernel_named
from glowembed.graph.registry import kernel_ops
from glowembed.graph.target import Board, load_board, load_target
from glowembed.jobs import crew
from glowembed.jobs.scripts import Call, call
from glowembed.judge import compare
from glowembed.judge.regress import tools_of
from glowembed.judge.tune import Outputs, integer_outputs, stored
from glowembed.judge.validation import validate
from glowembed.lower.choose import choose
from glowembed.options.table import METHODS, Config
from glowembed.pipeline import CompileOptions, compile_model, import_model, profile_model
from glowembed.ranges import datasets
from glowembed.ranges.datasets import Dataset
from glowembed.ranges.given import dataset_of
from glowembed.ranges.profile import Profile
from glowembed.reference import run_node
from glowembed.run import kernel as host
from glowembed.run import kernel_qemu as emulated
from glowembed.run.kernel import ALIGN, Arena, Placement, in_one_piece

MODELS = ("digits_cnn", "kws", "resnet8", "mobilenetv2", "ad01", "tcn")
POWER2 = "symmetric_with_power2_scale"
SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "asymmetric": {"schema": "asymmetric"},
    "symmetric": {"schema": "symmetric"},
    "power of two": {"schema": POWER2, "weights_schema": POWER2},
}
WEIGHTS: Mapping[str, Mapping[str, Any]] = {"per channel": {}, "per tensor": {"per_channel": False}}
SINGLE: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "bias correction off": {"bias_correction": False},
    "symmetric_with_uint8": {"schema": "symmetric_with_uint8"},
    "weights asymmetric": {"weights_schema": "asymmetric"},
    "weights int4": {"weights": "int4"},
    "weights compressed": {"weights": "compressed"},
    "int16": {"dtype": "int16"},
    "int16, weights int16": {"dtype": "int16", "weights": "int16"},
    "int16, weights int16 exact": {"dtype": "int16", "weights": "int16 exact"},
    "float32": {"dtype": "float32"},
    "requantization glow": {"requantization": "glow"},
    "requantization tflite": {"requantization": "tflite"},
}
CROSSED: Mapping[str, Mapping[str, Any]] = {
    f"{schema}, {calibration}, {weights}": {**SCHEMAS[schema], "calibration": calibration, **WEIGHTS[weights]}
    for schema, calibration, weights in product(SCHEMAS, METHODS, WEIGHTS)
}
CONFIGURATIONS: Mapping[str, Mapping[str, Any]] = {**SINGLE, **CROSSED}


@dataclass(frozen=True, eq=False)
class Case:
    """A model with what all its configurations share. floats: what onnxruntime gives for the test samples."""

    name: str
    model: Path
    data: Path
    profile: Profile
    dataset: Dataset
    floats: Outputs

    @classmethod
    def load(cls, name: str, model: Path, data: Path, samples: int | None) -> Case:
        dataset = datasets.load(data, datasets.input_specs(import_model(model, CompileOptions())), "test")
        chosen = dataset.every(samples)
        graph = import_model(model, CompileOptions())
        profile = replace(profile_model(model, data, CompileOptions()), dataset=dataset_of(data, graph))
        return cls(name, model, data, profile, chosen, compare.run_onnxruntime(model, chosen))


class _Stop(Exception):
    """Ends a compilation where the integers are known: nothing is to be written."""


def integer_graph(case: Case, settings: Mapping[str, Any]) -> Graph:
    """The network in integers, before kernels are chosen."""
    made: list[Graph] = []

    def on_stage(name: str, result: Any) -> None:
        if name == "lower":
            made.append(result)
            raise _Stop

    options = CompileOptions(precision=Config(dict(settings)))
    with contextlib.suppress(_Stop):
        compile_model(case.model, Path("not written"), options, None, case.profile, on_stage=on_stage)
    return made[0]


def measured(case: Case, graph: Graph) -> dict[str, Any]:
    """Accuracy (None without labels), RMS error and SQNR of the outputs, of the integer reference."""
    outputs = integer_outputs(graph, case.dataset)
    found = {name: outputs[name].reshape(array.shape) for name, array in case.floats.items()}
    accuracy = compare.accuracy(case.dataset.labels, case.floats, found)
    worst = min(compare.metrics(case.floats, found), key=lambda m: m.sqnr_db)
    return {
        "samples": len(case.dataset),
        "accuracy": accuracy.json() if accuracy else None,
        "rmse": worst.rmse,
        "sqnr_db": worst.sqnr_db,
    }


def layers_exact(case: Case, graph: Graph, board: str, samples: int) -> dict[str, Any]:
    """The layers of one configuration, in the kernels of a board, each on what those before it gave there.

    first: the first layer that gave other bits than the reference, in the kernel that `choose` takes for speed.
    """
    place = load_board(board)
    chosen, _ = choose(graph, load_target(place.target), optimize="speed")
    dataset = case.dataset.every(samples)
    wrong: Iterator[str] = (
        f"{node.name} ({node.kernel}), sample {index}"
        for index in range(len(dataset))
        for node in _differing(
            chosen, place, {n: stored(chosen.values[n], dataset.sample(index)[n]) for n in chosen.inputs}
        )
    )
    first = next(wrong, None)
    return {"board": board, "samples": len(dataset), "bit_exact": first is None, "first": first}


def _differing(graph: Graph, board: Board, inputs: Mapping[str, Array]) -> Iterator[Node]:
    """Nodes whose kernel gives other bits than the reference on the same inputs. Views are no code."""
    known = {**inputs, **{n: v.const.materialize() for n, v in graph.values.items() if v.const is not None}}
    for node in graph.nodes:
        given = [known[name] for name in node.inputs]
        right = run_node(graph, node.name, *given)
        known[node.outputs[0]] = on_board(node, board, given, right) if node.kernel else right
        if known[node.outputs[0]].tobytes() != right.tobytes():
            yield node


def on_board(node: Node, board: Board, given: Sequence[Array], like: Array) -> Array:
    """The output of a kernel for stored inputs on a board; an array like `like`. On the host it is that of the best
    level.
    """
    op, kernel = kernel_ops()[node.op], kernel_named(node.kernel or "")
    if board.name == "host":
        loaded = host.load(op, kernel, node.params, host.variants(kernel)[-1])
    else:
        (loaded,) = emulated.load(op, [kernel], node.params, board)
    in_bytes, out_bytes = op.row_bytes(node.params)
    places, end = [], 0
    for array, row_bytes in zip(given, in_bytes, strict=True):
        places.append(in_one_piece(end, array.nbytes // row_bytes, row_bytes))
        end = -(-places[-1].end // ALIGN) * ALIGN + ALIGN
    rows = op.rows(node.params)
    output = Placement((end,) * rows, out_bytes) if op.accumulates else in_one_piece(end, rows, out_bytes)
    output = output if node.shares is None else places[node.shares]
    arena = Arena(max(end, output.end))
    for place, array in zip(places, given, strict=True):
        arena.write(place, array)
    constants = {name: const.materialize().copy() for name, const in node.constants.items()}
    packed = host.packed_constants(op, kernel, constants, node.params)
    loaded.run(arena, node.params, places, packed, output, range(rows))
    whole = Placement(output.offsets[:1], out_bytes) if op.accumulates else output
    return arena.read(whole, like.dtype).reshape(like.shape)


def network_exact(
    case: Case, settings: Mapping[str, Any], board: str, samples: int, optimize: Optimize, place: Path
) -> dict[str, Any]:
    """The result of validate for the whole network on one board. In the same place only what changed is built again."""
    plan, precision = PlanOptions(optimize=optimize), Config(dict(settings))
    options = CompileOptions(target=load_board(board).target, precision=precision, plan=plan)
    bundle = compile_model(case.model, place / "bundle", options, profile=case.profile)
    result = validate(bundle, case.data, board, samples, build_dir=place / "build").json
    return {"board": board, "samples": samples, "bit_exact": result["bit_exact"], "first": result["first_difference"]}


def cell(result: Mapping[str, Any]) -> str:
    """Accuracy in percent, or the RMS error where there are no classes; then the SQNR of the output."""
    accuracy = result["accuracy"]
    quality = f"{100 * accuracy['quantized']:.2f} %" if accuracy else f"RMS {result['rmse']:.4f}"
    return f"{quality}, {result['sqnr_db']:.1f} dB"


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """A Markdown table: a row per configuration, a column per model."""
    models = list(dict.fromkeys(r["model"] for r in results))
    cells = {(r["configuration"], r["model"]): cell(r) for r in results if "sqnr_db" in r}
    floats = {r["model"]: r["accuracy"]["float"] for r in results if r.get("accuracy")}
    head = ["configuration", *models]
    rows = [["float", *(f"{100 * floats[m]:.2f} %" if m in floats else "" for m in models)]]
    names = dict.fromkeys(name for name, _ in cells)
    rows += [[name, *(cells.get((name, m), "") for m in models)] for name in names]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def run(options: argparse.Namespace, done: list[dict[str, Any]], crew: Executor) -> Iterator[dict[str, Any]]:
    """Every result in its order, also into `done`; what is there already is not made again. An error is a result that says so."""
    keys: list[dict[str, Any]] = []
    for model, name in product(options.only, options.configurations):
        key = {"model": model, "configuration": name}
        made = {r.get("board") for r in done if key.items() <= r.items()}
        wanted = [board for board in ([] if options.bits_only else [None]) + options.boards if board not in made]
        keys += [{**key, **({"board": board} if board else {})} for board in wanted]
    for key, found in zip(keys, crew.map(call, [_job(options, key) for key in keys]), strict=True):
        done.append({**key, **found})
        yield done[-1]


def _job(options: argparse.Namespace, key: Mapping[str, str]) -> Call:
    board = key.get("board")
    words = (key["model"], key["configuration"], board, options.samples, options.core_samples)
    words += ((options.optimize if options.whole else None),)
    files = tuple(options.models / key["model"] / name for name in ("model.onnx", "data.npz"))
    needs = () if board is None else tools_of(load_board(board).target, board != "host")
    return Call(Path(__file__).parent, "accuracy.work", words, files, needs)


def work(
    name: str,
    configuration: str,
    board: str | None,
    samples: int | None,
    core_samples: int,
    optimize: Optimize | None,
    model: Path,
    data: Path,
) -> dict[str, Any]:
    """One result: figures, or with a board its bits. optimize: of the whole network; None runs layers."""
    try:
        case = _case(name, model, data, samples)
        if board is None:
            return measured(case, _graph(case, configuration))
        if optimize is None:
            return layers_exact(case, _graph(case, configuration), board, core_samples)
        place = _folder() / name / board
        return network_exact(case, CONFIGURATIONS[configuration], board, core_samples, optimize, place)
    except GlowembedError as error:
        return {"error": str(error)}


@lru_cache(1)
def _case(name: str, model: Path, data: Path, samples: int | None) -> Case:
    return Case.load(name, model, data, samples)


@lru_cache(1)
def _graph(case: Case, configuration: str) -> Graph:
    """One for all boards: the integers are those of every target."""
    return integer_graph(case, CONFIGURATIONS[configuration])


@cache
def _folder() -> Path:
    """What this process builds; it is removed when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="glowembed-accuracy-")
    multiprocessing.util.Finalize(None, folder.cleanup, exitpriority=0)
    return Path(folder.name)


def line(result: Mapping[str, Any]) -> str:
    """One result for the terminal."""
    head = f"{result['model']:12} {result['configuration']:36}"
    if "error" in result:
        return f"{head} {result.get('board', '')}: {result['error']}"
    if "board" in result:
        said = "equal" if result["bit_exact"] else f"DIFFERS: {result['first']}"
        return f"{head} {result['board']:12} {said}"
    return f"{head} {cell(result)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path, help="folder of NAME/model.onnx and NAME/data.npz")
    parser.add_argument("--only", nargs="+", default=MODELS, metavar="NAME", help="these models")
    parser.add_argument("--configurations", nargs="+", default=list(CONFIGURATIONS), metavar="NAME")
    parser.add_argument("--boards", nargs="+", default=[], help="run there too, and compare the bits")
    parser.add_argument(
        "--whole", action="store_true", help="on the boards whole networks, each built: a minute or so each"
    )
    parser.add_argument("--bits-only", action="store_true", help="only the boards, no figures")
    parser.add_argument("--samples", type=int, help="for the figures; all by default")
    parser.add_argument("--core-samples", type=int, default=3, help="on each board")
    parser.add_argument("--optimize", choices=get_args(Optimize), default="balanced", help="of whole networks")
    parser.add_argument("--json", type=Path, help="write the results there; what stands there is not made again")
    parser.add_argument("--workers", type=int, metavar="N", help="processes of this computer; by default this one")
    parser.add_argument("--scheduler", metavar="URL", help="let the workers of a Dask cluster do it")
    options = parser.parse_args()
    results = json.loads(options.json.read_text("utf-8")) if options.json and options.json.exists() else []
    with crew.crew(options.workers, options.scheduler, lambda path: ()) as able:
        for result in run(options, results, able):
            print(line(result), flush=True)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if not options.bits_only:
        print(f"\n{table(results)}")
    return int(any("error" in r or r.get("bit_exact") is False for r in results))


if __name__ == "__main__":
    sys.exit(main())
