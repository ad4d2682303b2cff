"""Makes the crops of a stream that take some rows of a value row by row, such as the crop of a residual around convolutions without padding.

In: a kernel-level graph and its stream. Out: the graph in which each copy of rows of a value that moves, at equal distances, is a crop_rows, which says
the row that each of its rows is. All other copies stay.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from glowembed.graph.ir import Graph, Node
from glowembed.graph.registry import kernel_ops
from glowembed.graph.states import Stream
from glowembed.lower.reuse import moved
from glowembed.ops.copy import COPY, MoveParams, places
from glowembed.ops.handover import CropParams, CropRows


def with_crops(graph: Graph, stream: Stream) -> Graph:
    """The graph with a crop_rows for each copy of rows of a value that moves."""
    crops = {node.name: crop for node in graph.nodes if (crop := _crop(graph, node)) is not None}
    cropped = graph.with_nodes(crops.get(node.name, node) for node in graph.nodes)
    found = moved(cropped, stream)
    moving = {name: crop for name, crop in crops.items() if crop.outputs[0] in found}
    return graph.with_nodes(moving.get(node.name, node) for node in graph.nodes) if moving else graph


def _crop(graph: Graph, node: Node) -> Node | None:
    """The node as a crop_rows; None if it copies something else than whole rows at equal distances."""
    p = node.params
    if not isinstance(p, MoveParams) or kernel_ops()[node.op].geometry is not COPY or getattr(p, "shift", 0) != 0:
        return None
    x, y = (graph.values[name] for name in (node.inputs[0], node.outputs[0]))
    if len(x.shape) != len(y.shape) or len(x.shape) < 3 or x.shape[0] != 1 or x.shape[2:] != y.shape[2:]:
        return None
    row = y.elements // y.shape[1]
    source, target = (at.reshape(-1, row) for at in places(p))
    first, step = int(source[0, 0]), int(source[1, 0] - source[0, 0]) if len(source) > 1 else row
    wanted = first + step * np.arange(y.shape[1])[:, None] + np.arange(row)
    if first % row or step < row or step % row or x.qtype != y.qtype:
        return None
    if not (np.array_equal(source, wanted) and np.array_equal(target.reshape(-1), np.arange(y.elements))):
        return None
    params = CropParams(y.bytes // y.shape[1], y.shape[1], first // row, step // row)
    return replace(node, op=CropRows.name, params=params)
