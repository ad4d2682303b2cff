"""Reads a model in the form that the options ask for, and refuses models that the target or glowembed cannot compile.

In: the path of a model, the options. Out: a Graph, or an error.
"""

from __future__ import annotations

from math import prod
from pathlib import Path

from glowembed.errors import UnsupportedModelError
from glowembed.graph import limits
from glowembed.graph.ir import Graph
from glowembed.graph.target import Target
from glowembed.options.table import CompileOptions
from glowembed.read import importer
from glowembed.read.frontend import with_frontend


def imported(model: Path, options: CompileOptions) -> Graph:
    """The graph of a model, for the given shapes, cut, states and front end."""
    graph = importer.load(
        model,
        options.shapes,
        _layout(options),
        options.exact,
        options.cut,
        options.float64_as_float32,
        options.states,
    )
    return with_frontend(graph, options.frontend)


def _layout(options: CompileOptions) -> str:
    """The layout of inputs. Rows come first after the batch, so an input that is streamed along an axis behind the channels becomes
    channels-last.
    """
    return "nhwc" if options.stream is not None and options.stream.axis > 1 else options.input_layout


def refuse_unfit(graph: Graph, model: Path, target: Target) -> None:
    """Raise UnsupportedModelError for float64 values on a small core, and for models above the limits in
    docs/memory.md.
    """
    refuse_doubles(graph, target)
    _refuse_large(graph, model)


def refuse_doubles(graph: Graph, target: Target) -> None:
    """Raise UnsupportedModelError for float64 values on a target that computes them in software."""
    doubles = [v.name for v in graph.values.values() if v.dtype == "float64" and v.const is None]
    if doubles and target.word_size < 8:
        raise UnsupportedModelError(
            f"{doubles[0]!r} is float64, and {len(doubles)} values are, which {target.name} computes in software:"
            " compile with --float64-as-float32, or with --dtype float32, which takes floats of any width as float32"
        )


def _refuse_large(graph: Graph, model: Path) -> None:
    """Refuse a model above the limits in docs/memory.md."""
    if len(graph.nodes) > limits.NODES:
        raise UnsupportedModelError(f"{model} has {len(graph.nodes)} nodes, more than {limits.NODES}")
    sizes = {v.name: prod(v.shape) for v in graph.values.values() if v.const is not None}
    if sum(sizes.values()) > limits.PARAMETERS:
        largest = max(sizes, key=sizes.__getitem__)
        raise UnsupportedModelError(
            f"{model} has {sum(sizes.values())} numbers in constants, more than {limits.PARAMETERS}; "
            f"the largest is {largest!r} with {sizes[largest]}"
        )
