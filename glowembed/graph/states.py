"""States: outputs that are inputs of the next run. In: pairs of names, values of a run. Out: the inputs of the next
run.

In a graph, states are ordinary inputs and outputs, with a list of the pairs (`Graph.states`). Code that runs the graph
several times, in float or in integers, passes the values on with in_sequence. The first run after a reset begins with
the number 0 in every state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from glowembed.records import dataclass

Array = NDArray[Any]


@dataclass(frozen=True)
class State:
    """An output of a network, and the input that has its value in the next run."""

    output: str
    input: str


@dataclass(frozen=True)
class Stream:
    """A window of `rows` rows of an input, of which `hop` are new in each run. axis: that of the rows in the model.
    padding: what convolutions read above the window: the padding of the model (`window`), or the rows that came before
    (`causal`; `zero-start` if the padding below is above, too, see lower/stream.py).
    """

    input: str
    axis: int
    rows: int
    hop: int
    padding: Literal["window", "causal", "zero-start"] = "window"

    @property
    def causal(self) -> bool:
        """Whether convolutions read the rows that came before the window."""
        return self.padding != "window"

    @property
    def hops(self) -> int:
        """The number of hops until the first window is full."""
        return -(-self.rows // self.hop)


def in_sequence(
    states: Sequence[State],
    first: Mapping[str, Array],
    samples: Iterable[Mapping[str, Array]],
    run: Callable[[Mapping[str, Array]], Mapping[str, Array]],
) -> Iterator[tuple[Mapping[str, Array], Mapping[str, Array]]]:
    """Run each sample; yields the inputs and the results of each run. samples: the inputs that are not states. first:
    the values of the states in the first run.
    """
    now = {state.input: first[state.input] for state in states}
    for sample in samples:
        inputs = {**sample, **now}
        results = run(inputs)
        now = {s.input: np.asarray(results[s.output]).reshape(now[s.input].shape) for s in states}
        yield inputs, results
