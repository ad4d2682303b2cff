"""Exact rewrites of quantized graphs: fewer nodes and fewer channels.

In: the quantized semantic graph, and which values have types that the model gives. Out: a smaller graph, and what was
saved. Removing channels changes no bit of any output; Rescales are removed where one rounding replaces two. Inputs and
outputs of the graph keep their shapes and types.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any

from glowembed.graph.ir import Graph, verify
from glowembed.quantize.simplify.channels import count, drop_channels, figures
from glowembed.quantize.simplify.rescales import fold_rescales, remove_clips
from glowembed.records import dataclass

__all__ = ["Savings", "of_any_data", "simplify"]


@dataclass(frozen=True)
class Savings:
    """The multiply-accumulates, bytes of weights and biases, and channels that were removed. kept: the remaining
    channels of the tensors that became smaller.
    """

    macs_before: int
    macs_after: int
    weights_before: int
    weights_after: int
    channels: int
    kept: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        return {
            "macs_before": self.macs_before,
            "macs_after": self.macs_after,
            "weights_before": self.weights_before,
            "weights_after": self.weights_after,
            "channels": self.channels,
            "kept": {name: list(channels) for name, channels in self.kept.items()},
        }


def of_any_data(graph: Graph, given: Collection[str] = ()) -> Graph:
    """The rewrites that are valid for any ranges. Which channels are dead depends on the samples, so channels are
    kept.
    """
    return verify(remove_clips(verify(fold_rescales(graph, given))))


def simplify(graph: Graph, given: Collection[str] = ()) -> tuple[Graph, Savings]:
    """The smaller graph. given: the values whose types the model defines; these types are kept."""
    before = figures(graph)
    if any(value.elements == 0 for value in graph.values.values()):
        return graph, Savings(before[0], before[0], before[1], before[1], 0, {})
    graph = of_any_data(graph, given)
    smaller, kept = drop_channels(graph)
    after = figures(smaller)
    channels = {name: tuple(int(c) for c in indices) for name, indices in kept.items()}
    return verify(smaller), Savings(before[0], after[0], before[1], after[1], count(kept, graph), channels)
