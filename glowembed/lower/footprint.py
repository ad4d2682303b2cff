"""Computes bytes of flash. In: a kernel-level graph, kernels. Out: exact bytes of constants, estimates for code and
tables.

The size of a kernel's code comes from the kernels' cost functions (op.Cost). The size of a network's calls is estimated
from bundles that were built at -O2 for Cortex-M0, M4 and M55.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import is_dataclass
from hashlib import sha256
from weakref import WeakKeyDictionary

from glowembed.graph.cstruct import struct_bytes
from glowembed.graph.ir import Array, Const, Graph, Node
from glowembed.graph.op import Kernel
from glowembed.graph.plan import SLOT_UNIT, Plan
from glowembed.graph.registry import kernel, kernel_ops
from glowembed.graph.target import Target
from glowembed.graph.tiles import with_tiles

NETWORK = 260
"""Bytes of a network without its layers: its functions, and code that all kernels share."""

LAYER, TENSOR = 50, 24
"""Bytes of a call with its number of rows, and of each tensor of a call."""

BUILT = {"-O2": 0.8, "-Os": 0.55}
"""The share of a kernel's code that remains in a network, because the compiler knows the params that never change."""

GROUP = 230
"""Bytes of the loop over the tape, in a bundle that computes layers row by row."""


def constants(node: Node, chosen: Kernel) -> int:
    """The bytes of a node's constants in the form that this kernel reads."""
    return sum(size for _, size in arrays(node, chosen))


Sizes = tuple[tuple[str, int], ...]

_PACKED: WeakKeyDictionary[Const, dict[Hashable, tuple[object, Sizes]]] = WeakKeyDictionary()
"""What `arrays` has found, because several targets and ways to plan consider the same kernels. The first constant of a node has an entry for
each kernel, params and other constants, by their ids; the entry keeps these alive.
"""


def arrays(node: Node, chosen: Kernel) -> Sizes:
    """A node's constants in the form that this kernel reads: a name, which equal arrays share, and the bytes."""
    constants = tuple(node.constants.values())
    known = _PACKED.setdefault(constants[0], {}) if constants else {}
    parts = chosen, node.params, *constants[1:]
    key = (*map(id, parts), *node.constants)
    if key not in known:
        packed = _packed(node, chosen)
        sizes = tuple((f"{array.dtype} {sha256(array.tobytes()).hexdigest()}", array.nbytes) for array in packed)
        known[key] = parts, sizes
    return known[key][1]


def _packed(node: Node, chosen: Kernel) -> Iterable[Array]:
    return chosen.packed({name: const.materialize() for name, const in node.constants.items()}, node.params).values()


def stored_once(graph: Graph) -> int:
    """The bytes of all constants of a graph with kernels; equal constants are stored once."""
    return sum(dict(array for n in graph.nodes if n.kernel for array in arrays(n, kernel(n.kernel))).values())


def network(graph: Graph) -> int:
    """The bytes of the calls, of the layers' params, and of constants that are values of the graph."""
    layers = [node for node in graph.nodes if kernel_ops()[node.op].kernels]
    stored = sum(value.bytes for value in graph.values.values() if value.const is not None)
    return NETWORK + stored + sum(_layer(node) for node in layers)


def _layer(node: Node) -> int:
    params = struct_bytes(node.params) if is_dataclass(node.params) else 0
    return LAYER + params + TENSOR * (len(node.inputs) + len(node.outputs)) + 6 * len(node.constants)


def schedule(plan: Plan) -> int:
    """The bytes of the tapes and row tables of layers that are computed row by row."""
    if not plan.groups:
        return 0
    tables = {id(slots): len(slots) for slots in plan.slots.values()}
    entry = 2 if max((max(slots) for slots in plan.slots.values()), default=0) < SLOT_UNIT << 16 else 4
    return GROUP + len(plan.steps) + entry * sum(tables.values())


def code(graph: Graph, target: Target, flag: str = "-O2") -> int:
    """The bytes of the kernels of a graph: each function once, and code that functions of one kernel share once."""
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
    """The bytes of the whole bundle. Constants are exact, and do not count if they lie `elsewhere`; the rest is exact
    within about 20 %. flag: the compiler's optimization flag.
    """
    graph = with_tiles(graph, plan.tiled)
    weights = 0 if elsewhere else stored_once(graph)
    return weights + code(graph, target, flag) + network(graph) + schedule(plan)
