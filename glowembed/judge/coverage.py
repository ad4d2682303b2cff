"""How each ONNX operator of a model is computed on a target. In: the operators, and a network with kernels. Out: a row for each.

The cycles are the estimates by which kernels are chosen; `glowembed measure` counts them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field

from glowembed.graph.ir import Graph, Node
from glowembed.graph.op import Kernel
from glowembed.graph.registry import importers, kernel
from glowembed.graph.target import PORTABLE, Target
from glowembed.records import dataclass

FAST, GENERATED, NONE = "fast", "generated", "none"
"""How nodes of an operator are computed, besides by portable C: by a kernel that was written for the core, by C that is made from a
loop nest, or by nothing, because they are constant, or a part of other nodes.
"""

CONVERSIONS = "(conversions)"
"""The name under which coverage lists nodes that change the dtype of a value between operators of the model."""


@dataclass(frozen=True)
class Row:
    """nodes: of this operator in the model. dtypes: in which its results are stored. kernels: FAST, PORTABLE or GENERATED, as
    far as each occurs, or NONE. share: of the estimated cycles. refused: why some of its nodes are not supported. reasons: why
    some of its nodes are GENERATED, as far as the import knows.
    """

    operator: str
    nodes: int
    dtypes: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    cycles: int = 0
    share: float = 0.0
    refused: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass
class _Sum:
    dtypes: dict[str, None] = field(default_factory=dict)
    kernels: dict[str, None] = field(default_factory=dict)
    cycles: float = 0.0


def coverage(
    operators: Mapping[str, str], graph: Graph, target: Target, generated: Mapping[str, str]
) -> tuple[Row, ...]:
    """A row for each operator of the model, the most expensive first. operators: by the names of nodes of the model. generated:
    by these names, or those of nodes inside, why they are generated.
    """
    sums: dict[str, _Sum] = {name: _Sum() for name in operators.values()}
    for node in graph.nodes:
        if node.kernel is None:
            continue
        own, own_kernel = sums.setdefault(_operator(node, operators), _Sum()), kernel(node.kernel)
        value = graph.values[node.outputs[0]]
        own.dtypes[value.qtype.dtype if value.qtype else value.dtype] = None
        own.kernels[_kind(own_kernel)] = None
        own.cycles += own_kernel.cost(node, target).cycles
    why = _by_operator(generated, operators)
    total, counts = sum(own.cycles for own in sums.values()), Counter(operators.values())
    rows = (
        Row(
            name, counts[name], tuple(own.dtypes), tuple(own.kernels) or (NONE,), round(own.cycles),
            own.cycles / total if total else 0.0, reasons=why.get(name, ()) if GENERATED in own.kernels else (),
        )
        for name, own in sums.items()
    )  # fmt: skip
    return tuple(sorted(rows, key=lambda row: (-row.cycles, row.operator)))


def refused(operators: Mapping[str, str], reasons: Sequence[tuple[str, str]]) -> tuple[Row, ...]:
    """The rows of a model that is not supported: operators with reasons first. reasons: (operator, reason) of each problem."""
    counts = Counter(operators.values())
    why: dict[str, dict[str, None]] = {name: {} for name in counts}
    for name, reason in reasons:
        why.setdefault(name, {})[reason] = None
    rows = (Row(name, counts[name], refused=tuple(own)) for name, own in why.items())
    return tuple(sorted(rows, key=lambda row: (not row.refused, row.operator)))


def _by_operator(reasons: Mapping[str, str], operators: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """The reasons for nodes, each once, by the operator that the nodes belong to."""
    found: dict[str, dict[str, None]] = {}
    for node, reason in reasons.items():
        for name in _known((node,), operators):
            found.setdefault(operators[name], {})[reason] = None
    return {operator: tuple(own) for operator, own in found.items()}


def _kind(own: Kernel) -> str:
    made = own.generated is not None and own.inner is None
    return GENERATED if made else FAST if own.isa else PORTABLE


def _operator(node: Node, operators: Mapping[str, str]) -> str:
    """The operator of the model that a node computes: of those that it joins, the one with weights."""
    if "quantize" in node.op or node.op.startswith("rescale"):
        return CONVERSIONS
    found = [operators[name] for name in _known(node.origins, operators)]
    return next(filter(_has_weights, found), found[0] if found else node.op)


def _has_weights(operator: str) -> bool:
    op = importers().get(operator)
    return op is not None and op.has_weights


def _known(origins: Collection[str], operators: Mapping[str, str]) -> Iterator[str]:
    """The names of nodes of the model; a node inside of an operator's function body has the operator's name in front."""
    for origin in origins:
        while origin and origin not in operators:
            origin = origin.rpartition("/")[0]
        if origin:
            yield origin
