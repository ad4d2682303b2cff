"""A Pad with zeros before a convolution is padding of the convolution.

In and out: Graphs. Pad is on channels-last tensors here: the order of axes has been dealt with.
"""

from __future__ import annotations

from dataclasses import replace

from glowembed.canonicalize.rewrite import origins, replaced
from glowembed.ir import Graph, Node


def pad_into_conv(graph: Graph) -> Graph:
    """For each Conv that reads a Pad with zeros along spatial axes; the Pad stays while others read it."""
    producer = graph.producer()
    for conv in graph.nodes:
        pad = producer.get(conv.inputs[0]) if conv.op == "Conv" else None
        if pad is None or pad.op != "Pad" or not _spatial_zeros(pad):
            continue
        begin, end = ((*pad.attrs[key][1:-1], 0)[:2] for key in ("pads_begin", "pads_end"))
        pads = tuple(a + b for a, b in zip(conv.attrs["pads"], (*begin, *end), strict=True))
        inputs = (pad.inputs[0], *conv.inputs[1:])
        folded = replace(conv, inputs=inputs, attrs={**conv.attrs, "pads": pads}, origins=origins(pad, conv))
        return replaced(graph, {conv.name: [folded]})
    return graph


def _spatial_zeros(pad: Node) -> bool:
    begin, end = pad.attrs["pads_begin"], pad.attrs["pads_end"]
    outside = (begin[0], begin[-1], end[0], end[-1])
    return pad.attrs.get("value", 0.0) == 0.0 and not any(outside) and min(*begin, *end) >= 0
