"""Rounds weights of four bits such that the errors of the outputs are small, not those of each weight.

In: a quantized graph whose weights are rounded one by one, and the covariances of the inputs of its layers. Out: the graph
in which these weights are numbers that their types represent exactly. With the errors e of the weights of an output
channel and the covariances H of the inputs that they multiply, the variance of the error of an output is e' H e; its mean
is corrected by the bias (biases.py). Each weight in turn takes the number that is best while the others stay, until
nothing changes: the coordinate descent of Behdin et al., "QuantEase: Optimization-based Quantization for Language Models",
2023. It is done for several scales, and each channel keeps the best. All sums are sums of integers, so the result does not
depend on the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.ir import Array, Graph, Node, QType
from glowembed.graph.registry import ops
from glowembed.quantize.precision import Precision, free_range

Floats = NDArray[np.float64]

CovarianceOf = Callable[[str], Floats | None]
"""A function from the name of a layer's output to the covariances of its inputs [groups, K, K], or None if unknown."""

FACTORS = (1.0, 0.625, 0.75, 0.875, 1.125, 1.25, 1.5, 1.75)
"""The scales that are tried for each channel, relative to that with which single weights have the least error."""

ROUNDS = 8
"""How often every weight is chosen anew, at most."""

DAMPING = 0.01
"""What is added to each variance, as a share of their mean, so that inputs that hardly vary in the samples count."""

ERROR_BITS = 12
"""Errors of weights are integers in units of 2^-ERROR_BITS steps."""

COVARIANCE_BITS = 16
"""The bits of covariances as integers. Sums of 1,024 products with errors of some steps are exact in float64, and sums of these
times errors in int64.
"""


def round_weights(graph: Graph, precision: Precision, covariance_of: CovarianceOf) -> Graph:
    """The graph with better numbers for the weights of four bits in every layer whose covariances are known. Weights that the
    model stores as integers are not changed.
    """
    values = dict(graph.values)
    for name, readers in _readers(graph).items():
        value, known = graph.values[name], [covariance_of(node.outputs[0]) for node in readers]
        assert value.const is not None and value.qtype is not None, name
        matrices = [matrix for matrix in known if matrix is not None]
        if not matrices or len(matrices) < len(known) or any(m.shape != matrices[0].shape for m in matrices):
            continue
        given = value.const.materialize()
        factors = FACTORS if _may_scale(name, readers[0], precision) else FACTORS[:1]
        problem = _Problem.of(given, value.qtype, _whole(np.sum(matrices, axis=0)), factors)
        qtype, numbers = problem.best()
        chosen = qtype.dequantize(numbers.reshape(given.shape))
        const = value.const.then("rounded", lambda _, chosen=chosen: chosen)
        values[name] = replace(value, qtype=qtype, const=const)
    return replace(graph, values=values)


def _readers(graph: Graph) -> dict[str, list[Node]]:
    """The layers that read each of the weights of four bits that are to be rounded."""
    found: dict[str, list[Node]] = {}
    for node in graph.nodes:
        if not ops()[node.op].weights_of_four_bits:
            continue
        value = graph.values[node.inputs[1]]
        few = value.qtype is not None and (value.qtype.dtype == "int4" or value.qtype.table)
        if few and value.const is not None and value.const.grid is None:
            found.setdefault(value.name, []).append(node)
    return found


def _may_scale(name: str, node: Node, precision: Precision) -> bool:
    """Whether nothing but the weights determines their scales."""
    settings = precision.nodes.get(node.name)
    if settings is None or name in precision.values:
        return False
    return settings.per_channel and settings.weights_schema == "symmetric" and free_range(settings)


def _whole(matrix: Floats) -> Floats:
    """Covariances as integers of COVARIANCE_BITS, with damping, all in one unit."""
    diagonal = np.einsum("gkk->gk", matrix)
    diagonal += DAMPING * diagonal.mean(axis=1, keepdims=True)
    largest = np.abs(matrix).max(axis=(1, 2), keepdims=True)
    return np.asarray(np.rint(np.ldexp(matrix, COVARIANCE_BITS - np.frexp(largest)[1])))


@dataclass(frozen=True, eq=False)
class _Problem:
    """The weights [F * O, K] of all output channels in steps of each of F scales [F, O]. covariance: [groups, K, K]."""

    qtype: QType
    weights: Floats
    scales: Floats
    covariance: Floats

    @classmethod
    def of(cls, weights: Array, qtype: QType, covariance: Floats, factors: tuple[float, ...]) -> _Problem:
        flat = weights.reshape(len(weights), -1).astype(np.float64)
        given = np.broadcast_to(np.asarray(qtype.scale), len(flat))
        scales = np.asarray([(given * factor).astype(np.float32) for factor in factors]).astype(np.float64)
        return cls(qtype, (flat / scales[:, :, None]).reshape(-1, flat.shape[1]), scales, covariance)

    def best(self) -> tuple[QType, Array]:
        """The type with the best scale of each channel, and its numbers [O, K]."""
        numbers, errors = self._descended()
        tried, channels = self.scales.shape
        chosen = np.argmin(errors.reshape(tried, channels) * np.square(self.scales), axis=0)
        every = np.arange(channels)
        qtype = replace(self.qtype, scale=tuple(self.scales[chosen, every].tolist()), axis=0)
        if len(qtype.zero_point) != channels:
            qtype = replace(qtype, zero_point=(0,) * channels)
        return qtype, numbers.reshape(tried, channels, -1)[chosen, every].astype(np.int8)

    def _descended(self) -> tuple[Floats, NDArray[np.int64]]:
        """Numbers for all rows, none of which can be improved alone (or ROUNDS are over), and e' H e of each row."""
        h, (rows, count), unit = self.covariance, self.weights.shape, 2.0**ERROR_BITS
        nearest = replace(self.qtype, scale=(1.0,), zero_point=(0,), axis=None).quantize
        numbers = nearest(self.weights).astype(np.float64)
        errors = np.rint((numbers - self.weights) * unit)
        tried, groups = len(self.scales), len(h)
        slopes = (errors.reshape(tried, groups, -1, count) @ h).reshape(rows, count)
        group = np.tile(np.repeat(np.arange(groups), rows // tried // groups), tried)
        for _ in range(ROUNDS):
            before = numbers.copy()
            for k in range(count):
                power = h[group, k, k]
                wanted = numbers[:, k] - slopes[:, k] / (np.maximum(power, 1.0) * unit)
                new = np.where(power > 0, nearest(wanted), numbers[:, k])
                (moved,) = np.nonzero(new != numbers[:, k])
                steps = (new - numbers[:, k])[moved] * unit
                slopes[moved] += steps[:, None] * h[group[moved], k]
                errors[moved, k] += steps
                numbers[moved, k] = new[moved]
            if (numbers == before).all():
                break
        return numbers, (errors.astype(np.int64) * slopes.astype(np.int64)).sum(axis=1)
