"""Visits the nodes inside a node: the function body of an operator, or the branch of an If whose condition is a constant.

In: the walk, the node, and the function that visits one node. Out: whether the node has such nodes, which are then part of
the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, helper, numpy_helper

from glowembed.graph.op import OnnxNode, Refused
from glowembed.read import functions, nests
from glowembed.read.folding import add_constant
from glowembed.read.onnxfile import name_of
from glowembed.read.walk import Walk

Visit = Callable[[Walk, NodeProto], None]


def expand(walk: Walk, proto: NodeProto, node: OnnxNode, visit: Visit) -> bool:
    """Visit the nodes of the operator's function body and return whether there is one. Raises Refused if one of these
    nodes is not supported.
    """
    operands = [nests.operand(walk, name) if name else None for name in node.inputs]

    def named(inner: str) -> str:
        return walk.builder.reserve(f"{node.name or node.outputs[0]}/{inner}")

    resolved = NodeProto()
    resolved.CopyFrom(proto)
    resolved.input[:], resolved.output[:] = node.inputs, node.outputs
    made = functions.expand(resolved, operands, walk.file.opset, named, walk.exact)
    if made is None:
        return False
    outer = walk.file
    walk.file = replace(outer, opset=made.opset)
    walk.inferred.update(made.shapes)
    walk.declared.update(made.shapes)
    functions.backwards(made.nodes, walk.declared)
    try:
        with _complete(walk):
            for inner in made.nodes:
                visit(walk, inner)
    finally:
        walk.file = outer
    return True


def decide(walk: Walk, proto: NodeProto, node: OnnxNode, visit: Visit) -> bool:
    """Visit the nodes of the branch that an If takes, and return whether that is known. Raises Refused if one of these
    nodes is not supported.
    """
    condition = walk.arrays.get(node.inputs[0]) if proto.op_type == "If" and node.inputs else None
    if condition is None or condition.size != 1:
        return False
    branch = "then_branch" if np.ravel(condition)[0] else "else_branch"
    graph = next((attribute.g for attribute in proto.attribute if attribute.name == branch), None)
    if graph is None or len(graph.output) < len(node.outputs):
        return False
    names = _names(graph, node.outputs, walk.builder.reserve)
    with _complete(walk):
        for tensor in graph.initializer:
            add_constant(walk, names[tensor.name], numpy_helper.to_array(tensor), tensor.name, "initializer")
        for inner in _renamed(graph, node.outputs, names):
            visit(walk, inner)
    return True


def undecided(nodes: Sequence[NodeProto], walk: Walk) -> dict[str, str]:
    """What to do about each If, by its name, whose condition follows from one number that the caller gives: it may well be
    the same in each run.
    """
    maker = {name: node for node in nodes for name in node.output if name}
    found = {}
    for node in nodes:
        if node.op_type != "If" or not node.input or walk.resolve(node.input[0]) in walk.arrays:
            continue
        seen, waiting = set[str](), [node.input[0]]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += maker[name].input if name in maker else ()
        sources = seen & walk.shapes.keys()
        if len(sources) == 1 and prod(walk.shapes[min(sources)]) == 1:
            name = min(sources)
            found[name_of(node)] = f"if the input {name!r} always has the same value, give it: --constant {name}=VALUE"
    return found


def _names(graph: GraphProto, outputs: Sequence[str], reserve: Callable[[str], str]) -> dict[str, str]:
    """The names that the values of a branch get: those of the outputs of the If, where a node makes them, or their own."""
    made = [name for node in graph.node for name in node.output if name]
    names = {info.name: name for info, name in zip(graph.output, outputs, strict=False) if name and info.name in made}
    inner = [*(tensor.name for tensor in graph.initializer), *made]
    return names | {name: reserve(name) for name in inner if name not in names}


def _renamed(graph: GraphProto, outputs: Sequence[str], names: Mapping[str, str]) -> Iterator[NodeProto]:
    """The nodes of a branch, and copies for the outputs of the If that no node of the branch makes for them alone."""
    for node in graph.node:
        made = functions.copy_of(node)
        made.input[:] = [names.get(name, name) for name in node.input]
        made.output[:] = [names.get(name, name) for name in node.output]
        for attribute in made.attribute:
            if attribute.type == AttributeProto.GRAPH:
                functions.rename_captured(attribute.g, names)
        yield made
    for info, output in zip(graph.output, outputs, strict=False):
        source = names.get(info.name, info.name)
        if output and source != output:
            yield helper.make_node("Identity", [source], [output], name=output)


@contextmanager
def _complete(walk: Walk) -> Iterator[None]:
    """A context at whose end Refused is raised if something inside is not supported."""
    before = len(walk.found)
    yield
    if problems := walk.found[before:]:
        del walk.found[before:]
        raise Refused(f"inside of it, {problems[0]}")
