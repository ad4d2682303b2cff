"""Gives both ends of a state one type. In: a float graph with states, and the function that types it. Out: the typed
graph.

The input of a state takes the type of its output, which covers the range over whole sequences, and the graph is typed
again with it. An output whose type still differs, because the model or a rule fixes both types, is converted to that of
the input in each run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from glowembed.graph.ir import Graph, Node
from glowembed.graph.op import free_name
from glowembed.graph.states import State

ROUNDS = 3
"""How often the graph is typed again before a state is converted."""


def tied(graph: Graph, typed: Callable[[Graph, Collection[str]], Graph]) -> Graph:
    """The typed graph in which both ends of every state have one type. typed: types a graph whose inputs of these names stay in float32."""
    fixed = {state.input for state in graph.states if graph.values[state.input].qtype is not None}
    floating: set[str] = set()
    made = typed(graph, floating)
    for _ in range(ROUNDS):
        apart = [s for s in graph.states if _differs(made, s) and s.input not in fixed]
        if not apart:
            break
        types = {s.input: replace(graph.values[s.input], qtype=made.values[s.output].qtype) for s in apart}
        floating |= {name for name, value in types.items() if value.qtype is None}
        fixed |= floating
        made = typed(replace(graph, values={**graph.values, **types}), floating)
    for state in graph.states:
        made = _converted(made, state) if _differs(made, state) else made
    return made


def _differs(graph: Graph, state: State) -> bool:
    return graph.values[state.input].qtype != graph.values[state.output].qtype


def _converted(graph: Graph, state: State) -> Graph:
    """The graph with a node that converts the output to the type of the input."""
    old, wanted = graph.values[state.output], graph.values[state.input].qtype
    inner = replace(old, name=free_name(f"{old.name}/unconverted", graph.values))
    kind = "Quantize" if old.qtype is None else "Dequantize" if wanted is None else "Rescale"
    name = free_name(f"{old.name}/converted", {node.name for node in graph.nodes})
    maker = graph.producer()[old.name]
    nodes = [n.renamed({old.name: inner.name}) for n in graph.nodes]
    last = Node(name, kind, (inner.name,), (old.name,), {}, maker.origins)
    return graph.with_nodes([*nodes, last], {**graph.values, inner.name: inner, old.name: replace(old, qtype=wanted)})
