"""Turns a Pad with zeros before a convolution into padding of the convolution, and removes taps that only ever meet
padding. In and out: Graphs. The tensors of a Pad are channels-last here, because the order of axes has been decided
before.
"""

from __future__ import annotations

from dataclasses import replace

from glowembed.canonicalize.rewrite import constant, maker, origins, replaced
from glowembed.graph.ir import Graph, Node
from glowembed.graph.op import is_a
from glowembed.graph.spatial import Window, as_hwc
from glowembed.ops.conv import Conv
from glowembed.ops.pad import Pad


def pad_into_conv(graph: Graph) -> Graph:
    """Merge a Pad with zeros along spatial axes into each Conv that reads it; the Pad stays if other nodes read it."""
    for conv in graph.nodes:
        pad = maker(graph, conv.inputs[0], Pad) if is_a(conv, Conv) else None
        if pad is None or not _spatial_zeros(pad) or not _keeps_type(graph, pad):
            continue
        begin, end = ((*pad.attrs[key][1:-1], 0)[:2] for key in ("pads_begin", "pads_end"))
        pads = tuple(a + b for a, b in zip(conv.attrs["pads"], (*begin, *end), strict=True))
        inputs = (pad.inputs[0], *conv.inputs[1:])
        folded = replace(conv, inputs=inputs, attrs={**conv.attrs, "pads": pads}, origins=origins(pad, conv))
        return replaced(graph, {conv.name: [folded]})
    return graph


def _keeps_type(graph: Graph, pad: Node) -> bool:
    """Whether the padded tensor has the type of the tensor itself, because a convolution pads with the zero point of
    its input.
    """
    return graph.values[pad.inputs[0]].qtype == graph.values[pad.outputs[0]].qtype


def _spatial_zeros(pad: Node) -> bool:
    begin, end = pad.attrs["pads_begin"], pad.attrs["pads_end"]
    outside = (begin[0], begin[-1], end[0], end[-1])
    return pad.attrs.get("value", 0.0) == 0.0 and not any(outside) and min(*begin, *end) >= 0


def crop_window(graph: Graph) -> Graph:
    """Remove the outer taps of each Conv that only meet padding; for example, a 3x3 window on one pixel becomes 1x1."""
    for conv in graph.nodes:
        if not is_a(conv, Conv):
            continue
        window, weights = Window.of(conv.attrs), graph.values[conv.inputs[1]]
        taps = [window.inside(axis, as_hwc(graph.values[conv.inputs[0]].shape)[axis]) for axis in (0, 1)]
        if weights.const is None or tuple(len(t) for t in taps) == window.kernel:
            continue
        spatial = tuple(slice(t.start, t.stop) for t in taps)[: len(weights.shape) - 2]
        cropped = constant(
            graph, f"{weights.name}/cropped", weights.const.then("crop", lambda w, s=spatial: w[(..., *s)])
        )
        attrs = {**conv.attrs, **window.cropped(*taps).attrs()}
        folded = replace(conv, inputs=(conv.inputs[0], cropped.name, conv.inputs[2]), attrs=attrs)
        return replaced(graph, {conv.name: [folded]}, [cropped])
    return graph
