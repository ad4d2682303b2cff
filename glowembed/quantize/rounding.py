"""Rounds weights of four bits such that the errors of the outputs are small, not those of each weight.

In: a quantized graph whose weights are rounded one by one, and samples. Out: the graph in which these weights are numbers that
their types represent exactly, and the mean errors of the outputs, for the biases. The layers are rounded in their order. A layer
multiplies its weights by inputs that are rounded and that come from rounded weights, but its outputs should be those of the exact
weights and inputs, so it also makes up for errors before it, as in Frantar et al., "GPTQ", 2022. With the errors e of the weights w
of an output channel, the covariances H of the rounded inputs, and C of these with what they lack, the variance of the error of an
output is e' H e - 2 e' C w, apart from what e does not change. Each weight in turn takes the number that is best while the others
stay, until nothing changes: the coordinate descent of Behdin et al., "QuantEase: Optimization-based Quantization for Language
Models", 2023. It is done for several scales, and each channel keeps the best. All sums are sums of integers, so the result does not
depend on the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from glowembed.graph.ir import Array, Graph, Node, QType, Value
from glowembed.graph.registry import ops
from glowembed.quantize.precision import Precision, free_range
from glowembed.ranges.covariances import Moments, Runs
from glowembed.records import dataclass

Floats = NDArray[np.float64]

FACTORS = (1.0, 0.625, 0.75, 0.875, 1.125, 1.25, 1.5, 1.75)
"""The scales that are tried for each channel, relative to that with which single weights have the least error."""

ROUNDS = 16
"""How often every weight is chosen anew, at most."""

DAMPING = 0.01
"""What is added to each variance, as a share of their mean, so that inputs that hardly vary in the samples count."""

ERROR_BITS = 12
"""Errors of weights are integers in units of 2^-ERROR_BITS steps."""

COVARIANCE_BITS = 22
"""The bits of covariances as integers. Sums of 1,024 products with errors of some steps are exact in float64, and sums of these
times errors in int64.
"""


def round_weights(graph: Graph, precision: Precision, runs: Callable[[Graph], Runs]) -> tuple[Graph, dict[str, Floats]]:
    """The graph with better numbers for the weights of four bits in every layer that says what they multiply, and for each of
    these layers the mean error of its outputs. Weights that the model stores as integers are not changed. runs: both runs over
    the samples of a typed graph.
    """
    layers = _layers(graph)
    if not layers:
        return graph, {}
    values, shifts = dict(graph.values), dict[str, Floats]()
    pending, pair = {node.name for node in layers}, runs(graph)
    for node in graph.nodes:
        changed: dict[str, Array] = {}
        if node.name in pending and (moments := pair.moments(node)) is not None:
            name = node.inputs[1]
            if values[name] is graph.values[name]:
                values[name] = _rounded(values[name], moments, _may_scale(name, node, precision))
            shifts[node.name] = _shift(graph.values[name], values[name], moments)
            changed = _changed(graph, node, values[name], shifts[node.name], precision)
        pending.discard(node.name)
        if not pending:
            break
        pair.step(node, changed)
    return replace(graph, values=values), shifts


def _layers(graph: Graph) -> list[Node]:
    """The layers whose weights are to be rounded."""
    return [
        node for node in graph.nodes if ops()[node.op].weights_of_four_bits and _to_round(graph.values[node.inputs[1]])
    ]


def _to_round(weights: Value) -> bool:
    few = weights.qtype is not None and (weights.qtype.dtype == "int4" or bool(weights.qtype.table))
    return few and weights.const is not None and weights.const.grid is None


def _rounded(value: Value, moments: Moments, may_scale: bool) -> Value:
    """The weights with the numbers, and if allowed the scales, with the least errors of outputs."""
    assert value.const is not None and value.qtype is not None, value.name
    given = value.const.materialize()
    blocks = tuple(_whole(*block) for block in moments.blocks)
    qtype, numbers = _Problem.of(given, value.qtype, blocks, FACTORS if may_scale else FACTORS[:1]).best()
    chosen = qtype.dequantize(numbers.reshape(given.shape))
    return replace(value, qtype=qtype, const=value.const.then("rounded", lambda _: chosen))


def _changed(graph: Graph, node: Node, weights: Value, shift: Floats, precision: Precision) -> dict[str, Array]:
    """The constants of a layer in the rounded run: the new weights, and the bias with which they will be used."""
    bias = graph.values[node.inputs[2]]
    assert weights.const is not None and bias.const is not None, node.name
    corrects = node.name in precision.nodes and precision.nodes[node.name].bias_correction
    real = bias.const.materialize()
    return {weights.name: weights.const.materialize(), bias.name: (real - shift * corrects).astype(np.float32)}


def _shift(before: Value, after: Value, moments: Moments) -> Floats:
    """The mean error of each output: the mean of its new weights times rounded inputs, minus that in float."""
    assert before.const is not None and after.const is not None and after.qtype is not None, before.name
    new, old = (const.materialize().astype(np.float64) for const in (after.const, before.const))
    scale = np.broadcast_to(np.asarray(after.qtype.scale), len(new))
    groups = len(moments.exact)

    def steps(weights: Floats) -> Floats:
        whole: Floats = np.rint(np.ldexp(weights.reshape(len(new), -1) / scale[:, None], ERROR_BITS))
        return whole.reshape(groups, -1, whole.shape[1])

    largest = max(float(np.abs(means).max(initial=0.0)) for means in (moments.exact, moments.rounded))
    unit = np.ldexp(1.0, np.frexp(largest)[1] - COVARIANCE_BITS)
    exact, rounded = (np.rint(means / unit)[:, :, None] for means in (moments.exact, moments.rounded))
    whole: Floats = (steps(new) @ rounded - steps(old) @ exact).reshape(-1)
    shift: Floats = np.ldexp(whole * scale * unit, -ERROR_BITS)
    return shift


def _may_scale(name: str, node: Node, precision: Precision) -> bool:
    """Whether nothing but the weights determines their scales."""
    settings = precision.nodes.get(node.name)
    if settings is None or name in precision.values:
        return False
    return settings.per_channel and settings.weights_schema == "symmetric" and free_range(settings)


def _whole(covariance: Floats, lacking: Floats) -> tuple[Floats, Floats]:
    """Both matrices as integers of about COVARIANCE_BITS in one unit, with damping."""
    matrix = covariance.copy()
    diagonal = np.einsum("gkk->gk", matrix)
    diagonal += DAMPING * diagonal.mean(axis=1, keepdims=True)
    shift = COVARIANCE_BITS - np.frexp(np.abs(matrix).max(axis=(1, 2), keepdims=True))[1]
    limit = np.ldexp(1.0, COVARIANCE_BITS)
    return np.rint(np.ldexp(matrix, shift)), np.clip(np.rint(np.ldexp(lacking, shift)), -limit, limit)


@dataclass(frozen=True, eq=False)
class _Problem:
    """The weights [F * O, K] of all output channels in steps of each of F scales [F, O]. blocks: for consecutive weights, the
    covariances and those with what the inputs lack, both [groups, K, K].
    """

    qtype: QType
    weights: Floats
    scales: Floats
    blocks: tuple[tuple[Floats, Floats], ...]

    @classmethod
    def of(
        cls, weights: Array, qtype: QType, blocks: tuple[tuple[Floats, Floats], ...], factors: tuple[float, ...]
    ) -> _Problem:
        flat = weights.reshape(len(weights), -1).astype(np.float64)
        given = np.broadcast_to(np.asarray(qtype.scale), len(flat))
        scales = np.asarray([(given * factor).astype(np.float32) for factor in factors]).astype(np.float64)
        return cls(qtype, (flat / scales[:, :, None]).reshape(-1, flat.shape[1]), scales, blocks)

    def best(self) -> tuple[QType, Array]:
        """The type with the best scale of each channel, and its numbers [O, K]."""
        parts, first, errors = [], 0, np.zeros(len(self.weights))
        for h, lacking in self.blocks:
            numbers, own = self._descended(self.weights[:, first : first + h.shape[1]], h, lacking)
            parts.append(numbers)
            errors += own
            first += h.shape[1]
        tried, channels = self.scales.shape
        chosen = np.argmin(errors.reshape(tried, channels) * np.square(self.scales), axis=0)
        every = np.arange(channels)
        qtype = replace(self.qtype, scale=tuple(self.scales[chosen, every].tolist()), axis=0)
        if len(qtype.zero_point) != channels:
            qtype = replace(qtype, zero_point=(0,) * channels)
        return qtype, np.hstack(parts).reshape(tried, channels, -1)[chosen, every].astype(np.int8)

    def _descended(self, weights: Floats, h: Floats, lacking: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """Numbers for all rows, none of which can be improved alone (or ROUNDS are over), and e' H e - 2 e' C w of each row."""
        (rows, count), unit = weights.shape, 2.0**ERROR_BITS
        nearest = replace(self.qtype, scale=(1.0,), zero_point=(0,), axis=None).quantize
        numbers = nearest(weights).astype(np.float64)
        errors = np.rint((numbers - weights) * unit)
        tried, groups = len(self.scales), len(h)
        shape = (tried, groups, -1, count)
        wanted_more = (np.rint(weights * unit).reshape(shape) @ lacking.transpose(0, 2, 1)).reshape(rows, count)
        slopes = (errors.reshape(shape) @ h).reshape(rows, count) - wanted_more
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
        return numbers, (errors.astype(np.int64) * np.rint((slopes - wanted_more) / unit**2).astype(np.int64)).sum(
            axis=1
        )
