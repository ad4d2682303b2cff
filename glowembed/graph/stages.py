"""Checks a graph after each stage against one table of rules. In: a Graph, and the stage that made it. Out: the same
graph.

If a rule does not hold, the stage has a bug, and GraphError names the stage, the rule and the place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, get_args

from glowembed.graph.ir import Graph, GraphError, Node, QType, verify
from glowembed.graph.registry import kernel_ops, ops
from glowembed.records import dataclass

Stage = Literal["import", "canonicalize", "quantize", "simplify", "lower", "choose", "plan"]
STAGES: tuple[Stage, ...] = get_args(Stage)
"""The stages whose result is a graph, in the order of the pipeline."""


@dataclass(frozen=True)
class Rule:
    """text: what holds from stage `first` to stage `last`. broken: describes each place where it does not hold."""

    text: str
    first: Stage
    last: Stage
    broken: Callable[[Graph], Iterator[str]]

    def holds_after(self, stage: Stage) -> bool:
        """Whether the rule must hold after this stage."""
        return STAGES.index(self.first) <= STAGES.index(stage) <= STAGES.index(self.last)


def check(graph: Graph, stage: Stage) -> Graph:
    """Return the graph if all rules of this stage hold. Raises GraphError if one does not."""
    verify(graph)
    for rule in RULES:
        if rule.holds_after(stage) and (broken := next(rule.broken(graph), None)):
            raise GraphError(f"after {stage}: {rule.text}, but {broken}")
    return graph


def _nodes(wrong: Callable[[Node], object]) -> Callable[[Graph], Iterator[str]]:
    """Descriptions of the nodes for which `wrong` is true."""
    return lambda graph: (f"{node.op} {node.name!r} does not" for node in graph.nodes if wrong(node))


def _types(graph: Graph) -> Iterator[str]:
    for value in graph.values.values():
        if value.qtype is not None and not _fits(value.qtype, value.shape):
            yield f"{value.name!r} of shape {list(value.shape)} has {value.qtype}"


def _fits(q: QType, shape: tuple[int, ...]) -> bool:
    return q.axis is None or (q.axis < len(shape) and len(q.scale) == shape[q.axis])


def _is_lowered(node: Node) -> bool:
    return bool(node.params is not None or node.constants or node.kernel is not None or node.shares is not None)


def _kernels(node: Node) -> list[str | None]:
    """The symbols of the kernels of the node's op; there are none for an op that computes nothing, such as a view."""
    return [kernel.symbol for kernel in kernel_ops()[node.op].kernels]


def _has_its_params(node: Node) -> bool:
    op = kernel_ops()[node.op]
    return type(node.params) is op.params and (op.variadic or len(node.inputs) == len(op.inputs))


RULES = (
    Rule("every node is of a semantic op", "import", "simplify", _nodes(lambda n: n.op not in ops())),
    Rule("no node has parameters, constants or a kernel yet", "import", "simplify", _nodes(_is_lowered)),
    Rule("every type has one scale and zero point for all channels, or one for each", "quantize", "plan", _types),
    Rule("every node is of a kernel-level op", "lower", "plan", _nodes(lambda n: n.op not in kernel_ops())),
    Rule(
        "every node that computes has the parameters and as many inputs as its op says", "lower", "plan",
        _nodes(lambda n: _kernels(n) and not _has_its_params(n)),
    ),
    Rule(
        "every node has the constants of its op", "lower", "plan",
        _nodes(lambda n: set(n.constants) != set(kernel_ops()[n.op].constants)),
    ),
    Rule("no node has a kernel yet", "lower", "lower", _nodes(lambda n: n.kernel is not None)),
    Rule(
        "every node that computes has a kernel of its op, and no other has one", "choose", "plan",
        _nodes(lambda n: n.kernel not in (_kernels(n) or [None])),
    ),
)  # fmt: skip
