"""Turns semantic nodes into kernel-level nodes: "Conv with these attributes" becomes "conv2d_s8 with these params".

In: a quantized canonical graph. Out: a graph whose nodes name kernel-level ops and carry params and delayed constants.
It chooses no kernel and no address.
"""

from __future__ import annotations

from dataclasses import replace

from glowembed.graph.ir import Graph, Node, Value
from glowembed.graph.op import LowerContext
from glowembed.graph.registry import lower_node


def lower(graph: Graph, float_io: bool = False) -> Graph:
    """The kernel-level graph. float_io: inputs and outputs are float32 and converted at the edges, except states."""
    if float_io:
        graph = _float_edges(graph)
    context = LowerContext(graph)
    for node in graph.nodes:
        lower_node(node, context)
    return graph.with_nodes(context.nodes, context.values)


def _float_edges(graph: Graph) -> Graph:
    """Add Quantize nodes after the inputs and Dequantize nodes before the outputs; the float tensors keep their
    names.
    """
    values, renamed = dict(graph.values), {}
    first, last = [], []
    kept = {name for state in graph.states for name in (state.input, state.output)}
    for name in dict.fromkeys((*graph.inputs, *graph.outputs)):
        qtype = values[name].qtype
        if qtype is None or name in kept:
            continue
        inner = replace(values[name], name=f"{name}/{qtype.dtype}")
        while inner.name in values:
            inner = replace(inner, name=inner.name + "'")
        values[inner.name], renamed[name] = inner, inner.name
        values[name] = replace(values[name], qtype=None, dtype="float32")
    for name in filter(renamed.__contains__, graph.inputs):
        first.append(Node(f"{name}/quantize", "Quantize", (name,), (renamed[name],)))
    for name in (n for n in graph.outputs if n in renamed and n not in graph.inputs):
        last.append(Node(f"{name}/dequantize", "Dequantize", (renamed[name],), (name,)))
    body = [node.renamed(renamed) for node in graph.nodes]
    return graph.with_nodes([*first, *body, *last], values)


def input_values(graph: Graph) -> tuple[Value, ...]:
    """The values of the graph's inputs, in order."""
    return tuple(graph.values[name] for name in graph.inputs)
