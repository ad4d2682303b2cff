"""The stage `quantize`, which gives every value of a float graph a type, by its range and the options. In:

a canonical graph, a Profile, the options and the target. Out: the graph with types, weights and biases, and how each
node is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NoReturn

from glowembed.errors import UsageError
from glowembed.graph.ir import Array, Graph
from glowembed.graph.stages import check
from glowembed.graph.target import Target
from glowembed.ops.features import SOUND
from glowembed.options.table import CompileOptions, Settings
from glowembed.quantize import floating
from glowembed.quantize.biases import Floats, finish_biases
from glowembed.quantize.calibrate import calibrate_samples, calibrate_weights
from glowembed.quantize.coverage import Coverage, coverage, require_all_quantized
from glowembed.quantize.precision import Precision, config_of, free_range, left_in_float, resolve
from glowembed.quantize.rounding import round_weights
from glowembed.quantize.schema import Range, least_squares
from glowembed.quantize.states import tied
from glowembed.quantize.types import quantize, refuse_unused, typed_names
from glowembed.quantize.weights import requantize_weights
from glowembed.ranges.covariances import Runs
from glowembed.ranges.given import NoProfile
from glowembed.ranges.profile import Profile, with_inner_ranges


def typed(graph: Graph, options: CompileOptions, target: Target, ranges: Profile) -> tuple[Graph, tuple[Coverage, ...]]:
    """The graph with a type for every value, and how each node is computed."""
    canonical, precision = graph, floating.by_numbers(graph, resolve(graph, config_of(options)), ranges)
    graph, precision = _quantized(graph, precision, ranges)
    refuse_unused(graph, precision)
    graph = requantize_weights(graph, target.weights)
    unrounded, dataset = graph.values, ranges.dataset
    shifts: dict[str, Floats] = {}
    if dataset is not None:
        graph, shifts = round_weights(graph, precision, lambda typed: Runs(canonical, typed, dataset))
    graph = with_inner_ranges(finish_biases(graph, precision, ranges.mean, shifts), ranges)
    table = coverage(check(graph, "quantize"), precision, unrounded)
    if options.require_all_quantized:
        require_all_quantized(table)
    return graph, table


def in_first_types(graph: Graph, options: CompileOptions, ranges: Profile) -> Graph:
    """The graph with the types that the options give to every value, before adjustments for the target or for other
    values.
    """
    return quantize(graph, _range_of(ranges), resolve(graph, config_of(options)), _weights_range)


def _quantized(graph: Graph, precision: Precision, ranges: Profile) -> tuple[Graph, Precision]:
    """The graph with types. Without samples, nodes that a quantized model leaves in float stay in float32."""
    made = tied(graph, lambda g, floating: quantize(g, _range_of(ranges), precision, _weights_range, floating))
    missing = dict(ranges.missing) if isinstance(ranges, NoProfile) else {}
    if not missing:
        return made, precision
    typed = [
        name for name in typed_names(graph) if graph.values[name].qtype != SOUND
    ]  # values of the network, not of a front end
    floating = left_in_float(graph, precision, missing) if typed else precision
    if floating == precision:
        _refuse_without(missing)
    return _quantized(graph, floating, NoProfile(graph.model_sha256, 0, {}))


def _refuse_without(missing: Collection[str]) -> NoReturn:
    listed = "".join(f"\n  {name}" for name in list(missing)[:20])
    more = f"\n  and {len(missing) - 20} more" if len(missing) > 20 else ""
    raise UsageError(
        f"the model does not say how to store {len(missing)} of its values: give calibration data (--data) or a"
        " profile (--profile), or keep the nodes around them in float32 (--precision); --random N takes random samples, to try things out."
        f" Without a range:{listed}{more}"
    )


def _range_of(ranges: Profile) -> Callable[[str, Settings], Range]:
    """A function that returns the range of an activation, by the calibration of its node, for the type that it will
    have.
    """

    def range_of(name: str, settings: Settings) -> Range:
        law: Any = settings.activation_schema
        return calibrate_samples(
            ranges.entry(name), settings.activation_calibration, law, settings.dtype, settings.percentile
        )

    return range_of


def _weights_range(weights: Array, settings: Settings) -> Range:
    """The range of weights, by their node's calibration for weights."""
    law: Any = settings.weights_schema
    if settings.stored_weights == "int4" and free_range(settings):
        return least_squares(weights)
    return calibrate_weights(weights, settings.weights_calibration, law, settings.stored_weights, settings.percentile)
