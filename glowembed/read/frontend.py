"""Puts a front end before a network, so that its input is sound. In: a Graph, a Frontend. Out: a Graph. The samples of
a dataset are then sound, too; ranges/sound.py computes the model's own input from them.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod
from typing import Any

from glowembed.errors import UsageError, unknown_name
from glowembed.graph import limits
from glowembed.graph.ir import Graph, Node, Shape, Value, verify
from glowembed.graph.op import free_name
from glowembed.ops.features import SOUND
from glowembed.ops.shared.bands import bands
from glowembed.options.frontend import Frontend

PCM = "pcm"
"""The name of the input that takes sound."""


def with_frontend(graph: Graph, frontend: Frontend | None) -> Graph:
    """The graph with a front end before one of its inputs. Raises UsageError if the features do not fit the input."""
    if frontend is None:
        return graph
    name = input_of(graph, frontend)
    value = graph.values[name]
    if value.plain or value.qtype is not None:
        raise UsageError(
            f"--frontend: {name!r} is {value.qtype.dtype if value.qtype else value.dtype}, and features are float32"
        )
    if frontend.kind == "raw":
        typed = replace(value, qtype=SOUND, model_dtype="int16")
        return replace(graph, values={**graph.values, name: typed})
    return verify(_prepended(graph, frontend, name))


def input_of(graph: Graph, frontend: Frontend) -> str:
    """The input that takes the features."""
    if frontend.input and frontend.input not in graph.free_inputs:
        raise unknown_name("input of the model for --frontend:", frontend.input, graph.free_inputs)
    if not frontend.input and len(graph.free_inputs) != 1:
        raise UsageError(
            f"--frontend: the network has {len(graph.free_inputs)} inputs, {', '.join(graph.free_inputs)}: write `input: NAME` for the one that"
            " takes the features"
        )
    return frontend.input or graph.free_inputs[0]


def _frames(frontend: Frontend, name: str, shape: Shape) -> tuple[int, bool]:
    """The number of frames that an input of this shape takes, and whether the features of a frame are its first
    axis.
    """
    dims, width = [d for d in shape if d != 1], frontend.features
    wanted = [d for d in dims if d != width] if dims.count(width) < 2 else [width]
    frames = wanted[0] if wanted else 1
    if sorted(dims) != sorted(d for d in (frames, width) if d != 1) or frames * width != prod(shape):
        raise UsageError(
            f"--frontend: {name!r} has the shape {list(shape)}, in which the {width} features of a frame are no axis beside that of the"
            f" frames: give the {_key(frontend)} of the front end that the network was trained with"
        )
    return frames, len(dims) == 2 and dims[0] == width != frames


def _key(frontend: Frontend) -> str:
    return {"mfcc": "coefficients", "logmel": "bands"}.get(frontend.kind, "fft")


def _require_bins(frontend: Frontend) -> None:
    """Refuse a front end with a band that contains no bin."""
    if frontend.kind != "spectrogram":
        try:
            bands(frontend.attrs())
        except ValueError as error:
            raise UsageError(f"--frontend: {error}") from error


def _prepended(graph: Graph, frontend: Frontend, name: str) -> Graph:
    """The network after a Features node, whose output is brought into the order and shape of the input."""
    value = graph.values[name]
    _require_bins(frontend)
    frames, turned = _frames(frontend, name, value.shape)
    rows, width = frontend.rows(frames), frontend.features
    if rows * frontend.step > limits.ELEMENTS:
        raise UsageError(f"--frontend: {frames} frames are {rows * frontend.step} samples, more than {limits.ELEMENTS}")
    sound = Value(free_name(PCM, graph.values), (1, rows, frontend.step), qtype=SOUND, model_dtype="int16")
    chain: list[tuple[str, dict[str, Any], Shape]] = [("Features", frontend.attrs(), (1, frames, width))]
    if turned:
        chain.append(("Transpose", {"perm": (0, 2, 1)}, (1, width, frames)))
    if chain[-1][2] != value.shape:
        chain.append(("Reshape", {"shape": value.shape}, value.shape))
    if frontend.low is not None or frontend.high is not None:
        between = {
            "min": -inf if frontend.low is None else frontend.low,
            "max": inf if frontend.high is None else frontend.high,
        }
        chain.append(("Clip", between, value.shape))
    values, taken = {**graph.values, sound.name: sound}, {node.name for node in graph.nodes}
    nodes, last = [], sound.name
    for i, (op, attrs, shape) in enumerate(chain):
        output = name if i == len(chain) - 1 else free_name(f"{name}/{op.lower()}", values)
        values[output] = value if output == name else Value(output, shape)
        nodes.append(Node(free_name(f"{name}/{op.lower()}", taken), op, (last,), (output,), attrs, (name,)))
        last = output
    inputs = tuple(sound.name if one == name else one for one in graph.inputs)
    return replace(graph, inputs=inputs).with_nodes((*nodes, *graph.nodes), values)
