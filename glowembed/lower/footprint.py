"""Bytes of flash. In: a kernel-level graph, kernels. Out: constants exactly, code and tables as estimates.

What a kernel's code takes, its op file says (op.Cost); what the calls of a network take is estimated here, from bundles
that were built at -O2 for Cortex-M0, M4 and M55.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass

from glowembed.graph.ir import Array, Graph, Node
from glowembed.graph.op import Kernel, kernel, kernel_ops
from glowembed.graph.plan import SLOT_UNIT, Plan
from glowembed.graph.target import Target

NETWORK = 260
"""Of a network without layers: its functions, and what all kernels share."""

LAYER, TENSOR = 50, 24
"""A call and its row count; each of its tensors."""

BUILT = {"-O2": 0.8, "-Os": 0.55}
"""Of the code of a kernel by itself, what is left in a network: the compiler knows the params that are always the same."""

GROUP = 230
"""Of a bundle that computes layers row by row: the loop over the tape."""


def constants(node: Node, chosen: Kernel) -> int:
    """Of a node's constants, as this kernel reads them."""
    return sum(array.nbytes for array in _packed(node, chosen))


def _packed(node: Node, chosen: Kernel) -> Iterable[Array]:
    return chosen.packed({name: const.materialize() for name, const in node.constants.items()}, node.params).values()


def stored_once(graph: Graph) -> int:
    """Of all constants of a graph with kernels: equal ones are one array."""
    arrays = (array for node in graph.nodes if node.kernel for array in _packed(node, kernel(node.kernel)))
    return sum({(str(array.dtype), array.tobytes()): array.nbytes for array in arrays}.values())


def network(graph: Graph) -> int:
    """The calls, the params of the layers, and constants that are values of the graph."""
    layers = [node for node in graph.nodes if kernel_ops()[node.op].kernels]
    stored = sum(value.bytes for value in graph.values.values() if value.const is not None)
    return NETWORK + stored + sum(_layer(node) for node in layers)


def _layer(node: Node) -> int:
    params = 4 * len(fields(node.params)) if is_dataclass(node.params) else 0
    return LAYER + params + TENSOR * (len(node.inputs) + len(node.outputs)) + 6 * len(node.constants)


def schedule(plan: Plan) -> int:
    """The tapes and row tables of what is computed row by row."""
    if not plan.groups:
        return 0
    tables = {id(slots): len(slots) for slots in plan.slots.values()}
    entry = 2 if max((max(slots) for slots in plan.slots.values()), default=0) < SLOT_UNIT << 16 else 4
    return GROUP + len(plan.steps) + entry * sum(tables.values())


def code(graph: Graph, target: Target, flag: str = "-O2") -> int:
    """The kernels of a graph: each function once, and once what functions of one kernel share."""
    functions: dict[str, int] = {}
    shared: dict[str, int] = {}
    for node in graph.nodes:
        if node.kernel is None:
            continue
        own = kernel(node.kernel)
        cost = own.cost(node, target)
        functions[own.symbol_for(node.params)] = cost.code
        shared[own.symbol] = cost.shared
    return round(BUILT[flag] * (sum(functions.values()) + sum(shared.values())))


def flash(graph: Graph, plan: Plan, target: Target, flag: str = "-O2", elsewhere: bool = False) -> int:
    """All of a bundle: constants exactly, unless they are elsewhere, the rest within some 20 %. flag: how it is compiled."""
    weights = 0 if elsewhere else stored_once(graph)
    return weights + code(graph, target, flag) + network(graph) + schedule(plan)
