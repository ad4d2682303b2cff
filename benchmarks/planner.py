"""The planner alone: how long it takes, what it finds, what is proved about it; for real networks and for random ones.

    python benchmarks/planner.py --models ../shared/models [--only kws] [--nodes 50,100,300] [--json FILE]
    python benchmarks/planner.py --networks all|chain_300,maxpool_220000 [--goals balanced,ram] [--limit SECONDS]

With --networks, networks of benchmarks/networks.py are compiled, each in a process of its own: the processor seconds of each stage
(`plan` includes replay), the highest memory of the process, and what `compile` says about the plan.

seconds: of processor time, for kernels and plan. bound: what whole tensors need. rows: the rows that are alive at once in the steps of
the plan, or more where the solver proved more: no offsets need less. gap: how much above that the arena is; 0: proved.
hash: of order, steps, kernels and offsets; the same on every machine, however loaded it is.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from networks import network as sized
from onnx import TensorProto, helper, numpy_helper
from run import cpu_name

from glowembed import pipeline
from glowembed.graph.ir import Graph
from glowembed.graph.plan import Optimize, Plan, PlanOptions
from glowembed.pipeline import CompileOptions, compile_model
from glowembed.plan import replay
from glowembed.ranges.datasets import Dataset

MODELS = ("kws", "resnet8", "ad01", "mobilenetv2", "tcn", "digits_cnn")
GOALS: tuple[Optimize, ...] = ("balanced", "ram")
SIZED = (
    *(f"{family}_{count}" for family in ("chain", "branches", "dense") for count in (100, 300, 1000, 3000)),
    "faces_slim", "faces_rfb", "backbone_240x320", "backbone_512x512", "unet_512x512", "three_256x256", "audio_16000",
    "maxpool_220000", "points_100000", "conv1d_100000",
)  # fmt: skip
"""The networks of benchmarks/networks.py that `--networks all` compiles."""

STAGES = {
    "read": "import canonicalize",
    "ranges": "profile quantize simplify",
    "lower": "lower",
    "choose": "choose",
    "plan": "plan",
}
"""The columns of seconds, and the stages of the pipeline that each adds up."""

SIZE, CHANNELS, NEAR = 24, (4, 8, 12, 16), 4
"""The numbers of values and channels of random networks; branches begin and end among the last NEAR values."""


@dataclass(frozen=True)
class Row:
    """A plan; see the head of this file."""

    network: str
    goal: str
    nodes: int
    values: int
    calls: int
    seconds: float
    arena: int
    bound: int
    rows: int
    gap: float
    hash: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--nodes", default="50,100,300", help="sizes of the random networks")
    parser.add_argument("--target", default="cortex-m4")
    parser.add_argument("--networks", help="names of benchmarks/networks.py, or `all`")
    parser.add_argument("--goals", default=",".join(GOALS))
    parser.add_argument(
        "--limit", type=int, default=300, help="the processor seconds after which a compilation is ended"
    )
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    words = parser.parse_args()
    if words.one is not None:
        print(json.dumps(compiled(*words.one, words.target, words.limit)))
        return
    if words.networks is not None:
        _sizes(words)
        return
    print("| network | plan | nodes | values | calls | seconds | arena | bound | rows | gap | hash |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    rows = []
    for row in _rows(words):
        rows.append(asdict(row))
        print(
            f"| {row.network} | {row.goal} | {row.nodes} | {row.values} | {row.calls} | {row.seconds:.1f} | {row.arena:,} | "
            f"{row.bound:,} | {row.rows:,} | {row.gap:.1f} % | {row.hash} |",
            flush=True,
        )
    if words.json is not None:
        words.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _rows(words: argparse.Namespace) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        sources = [(name, words.models / name) for name in words.only.split(",") if name] if words.models else []
        for count in (int(n) for n in words.nodes.split(",") if n):
            sources.append((f"random {count}", write(random.Random(count), count, Path(folder) / f"random{count}")))
        for name, source in sources:
            graph = lowered(source, words.target, Path(folder))
            for goal in GOALS:
                yield planned(name, graph, goal, words.target)


class _Lowered(Exception):
    """There is a graph at kernel level."""


def lowered(source: Path, target: str, folder: Path) -> Graph:
    """The graph of a model.onnx beside its data.npz, before kernels are chosen."""
    found: list[Graph] = []

    def on_stage(stage: str, result: Any) -> None:
        if stage == "lower":
            found.append(result)
            raise _Lowered

    with suppress(_Lowered):
        compile_model(
            source / "model.onnx", folder / "none", CompileOptions(target), source / "data.npz", on_stage=on_stage
        )
    return found[0]


def planned(name: str, graph: Graph, goal: Optimize, target: str) -> Row:
    """The plan of a graph at kernel level."""
    start = time.process_time()
    ordered, plan = pipeline.planned(graph, CompileOptions(target, plan=PlanOptions(optimize=goal)))
    seconds = time.process_time() - start
    replay.check(ordered, plan)
    values = sum(1 for value in ordered.values.values() if value.const is None)
    gap = 100 * (plan.size - plan.row_bound) / plan.row_bound
    return Row(
        name, goal, len(ordered.nodes), values, len(plan.steps), seconds, plan.size, plan.bound, plan.row_bound, gap,
        digest(ordered, plan),
    )  # fmt: skip


def digest(graph: Graph, plan: Plan) -> str:
    """A hash of all that a plan decides."""
    parts = [
        [(node.name, node.kernel) for node in graph.nodes], sorted(plan.offsets.items()), sorted(plan.slots.items()),
        sorted(plan.scratch.items()), sorted(plan.scratch_slots.items()), [(s.node, s.first, s.last) for s in plan.steps], plan.size, plan.row_bound,
    ]  # fmt: skip
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def _sizes(words: argparse.Namespace) -> None:
    """Prints the table of networks of given sizes."""
    print(f"{cpu_name()}, processor seconds\n")
    print(f"| network | plan | nodes | {' | '.join(STAGES)} | in all | MB | arena | calls | hash | remarks |")
    print("|---" * (len(STAGES) + 9) + "|")
    for name in SIZED if words.networks == "all" else words.networks.split(","):
        for goal in words.goals.split(","):
            command = [
                sys.executable,
                __file__,
                "--one",
                name,
                goal,
                "--target",
                words.target,
                "--limit",
                str(words.limit),
            ]
            child = subprocess.run(command, capture_output=True, text=True, check=False)
            if child.returncode:
                why = (child.stderr.strip().splitlines() or [f"ended by signal {-child.returncode}"])[-1]
                print(f"| {name} | {goal} | {why}", flush=True)
                continue
            row = json.loads(child.stdout)
            seconds = " | ".join(f"{row['seconds'][stage]:.1f}" for stage in STAGES)
            print(
                f"| {name} | {goal} | {row['nodes']} | {seconds} | {sum(row['seconds'].values()):.1f} | {row['megabytes']:,} | "
                f"{row['arena']:,} | {row['calls']:,} | {row['hash']} | {row['remarks']} |",
                flush=True,
            )


class _Planned(Exception):
    """The stage `plan` is complete."""


def compiled(name: str, goal: Optimize, target: str, limit: int) -> dict[str, Any]:
    """The figures of one network, compiled as far as its plan. This process is ended after `limit` processor seconds."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    proto, at, plans = sized(name), dict[str, float](), list[Plan]()
    graphs: list[Graph] = []

    def on_stage(stage: str, result: Any) -> None:
        at[stage] = time.process_time()
        if isinstance(result, Graph):
            graphs.append(result)
        if stage == "plan":
            plans.append(result)
            raise _Planned

    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.onnx"
        model.write_bytes(proto.SerializeToString())
        shape = tuple(d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim)
        noise = np.random.default_rng(1).normal(size=(2, *shape[1:])).astype(np.float32)
        options = CompileOptions(target, plan=PlanOptions(optimize=goal))
        before = time.process_time()
        with suppress(_Planned):
            compile_model(
                model, Path(folder) / "none", options, Dataset({"x": noise}, shapes={"x": shape}), on_stage=on_stage
            )
    ends = dict(zip(at, (before, *at.values()), strict=False))
    seconds = {column: sum(at[s] - ends[s] for s in stages.split()) for column, stages in STAGES.items()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {
        "nodes": len(graphs[-1].nodes), "seconds": seconds, "megabytes": peak, "arena": plans[0].size, "calls": len(plans[0].steps),
        "hash": digest(graphs[-1], plans[0]), "remarks": plans[0].simpler,
    }  # fmt: skip


def write(rng: random.Random, count: int, folder: Path) -> Path:
    """A network of `count` nodes, a mean for each open end among them, with branches, sums, concats, strides, dilations: model.onnx and data.npz in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(network(rng, count).SerializeToString())
    noise = np.random.default_rng(count).normal(size=(4, 1, SIZE, SIZE)).astype(np.float32)
    np.savez(folder / "data.npz", calib_x=noise, test_x=noise)
    return folder


def network(rng: random.Random, count: int) -> onnx.ModelProto:
    """NCHW, float32; with weights that keep the variance."""
    weights = np.random.default_rng(rng.randrange(2**31))
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []
    shape = {"x": (1, SIZE)}
    unread, last = ["x"], "x"

    def add(op: str, inputs: list[str], channels: int, size: int, **attrs: Any) -> str:
        name = f"v{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [name], name=name, **attrs))
        shape[name] = channels, size
        unread[:] = [n for n in unread if n not in inputs] + [name]
        return name

    def conv(source: str, out: int, taps: int, stride: int, dilation: int, depthwise: bool) -> str:
        channels, size = shape[source]
        read = 1 if depthwise else channels
        array = weights.normal(size=(out, read, taps, taps)) / taps / np.sqrt(read)
        constants.append(numpy_helper.from_array(array.astype(np.float32), f"w{len(nodes)}"))
        pads, group = [dilation * (taps - 1) // 2] * 4, channels if depthwise else 1
        return add(
            "Conv", [source, f"w{len(nodes)}"], out, (size - 1) // stride + 1, pads=pads, group=group,
            strides=[stride, stride], dilations=[dilation, dilation],
        )  # fmt: skip

    while len(nodes) + len(unread) + 1 < count:
        channels, size = shape[last]
        same = [n for n in list(shape)[-NEAR:] if n != last and shape[n] == (channels, size)]
        side = [n for n in list(shape)[-NEAR:] if n != last and shape[n][1] == size and shape[n][0] + channels <= 32]
        kind = rng.choice(
            ["conv", "conv", "depthwise", "depthwise", "point", "point", "lut", "add", "branch", "concat"]
        )
        if kind == "add" and same:
            last = add("Add", [rng.choice([n for n in same if n in unread] or same), last], channels, size)
        elif kind == "concat" and side:
            other = rng.choice(side)
            last = add("Concat", [other, last], shape[other][0] + channels, size, axis=1)
        elif kind == "lut":
            last = add("Tanh", [last], channels, size)
        elif kind == "depthwise":
            last = conv(last, channels, 3, 1, rng.choice([1, 1, 2]) if size > 6 else 1, True)
        elif kind == "branch":
            last = conv(rng.choice(list(shape)[-NEAR:]), rng.choice(CHANNELS), 1, 1, 1, False)
        else:
            stride = 2 if size > 6 and rng.random() < 4 / count else 1
            last = conv(last, rng.choice(CHANNELS), 1 if kind == "point" else 3, stride, 1, False)
    means = [add("GlobalAveragePool", [name], shape[name][0], 1) for name in list(unread)]
    last = add("Concat", means, sum(shape[name][0] for name in means), 1, axis=1)
    outputs = [helper.make_tensor_value_info(last, TensorProto.FLOAT, [1, *shape[last], 1])]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, SIZE, SIZE])]
    graph = helper.make_graph(nodes, "random", inputs, outputs, constants)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="glowembed"
    )


if __name__ == "__main__":
    main()
