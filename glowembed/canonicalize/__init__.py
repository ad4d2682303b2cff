"""Brings graphs that mean the same into one form: fuses ops, cancels Transposes.

In: the float graph of the importer. Out: a float graph in which NCHW and NHWC exports of a network have the same ops,
with no Transpose between them. Profiling and compiling use the same passes. They never change the content of a value
with a given name (except for the order of its axes, which Value.layout records), and never round a constant to
integers. In a model that is already quantized, the last pass gives its stored values their types.

Each pass is a function from Graph to Graph that returns the same object if it found nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable

from glowembed.canonicalize.affine import (
    affine_before_concat,
    affine_into_weights,
    binary_to_affine,
    identity_affine,
    merge_affine,
)
from glowembed.canonicalize.attention import attention
from glowembed.canonicalize.clips import fuse_clip, merge_clips
from glowembed.canonicalize.compositions import compose, extend
from glowembed.canonicalize.names import restore_names
from glowembed.canonicalize.pads import crop_window, pad_into_conv
from glowembed.canonicalize.reshapes import (
    merge_reshapes,
    no_op_reshape,
    sink_reshape,
    transpose_into_columns,
    transpose_to_reshape,
)
from glowembed.canonicalize.rewrite import remove_dead
from glowembed.canonicalize.stored import stored_types
from glowembed.canonicalize.transposes import (
    cancel_transposes,
    hoist_transpose,
    merge_transposes_around_reshape,
    sink_transpose,
    sink_transpose_through_reshape,
)
from glowembed.canonicalize.unrolled import rolled, stacked
from glowembed.graph.ir import Graph, verify

Pass = Callable[[Graph], Graph]

CLEAN: tuple[Pass, ...] = (remove_dead, cancel_transposes, merge_reshapes, no_op_reshape)
"""Passes that are part of every stage."""

STAGES: tuple[tuple[Pass, ...], ...] = (
    (*CLEAN, attention),
    (*CLEAN, rolled, stacked),
    (*CLEAN, compose, extend),
    (*CLEAN, sink_transpose, sink_transpose_through_reshape, sink_reshape),
    (*CLEAN, merge_transposes_around_reshape, hoist_transpose),
    (
        *CLEAN,
        transpose_to_reshape,
        sink_reshape,
        transpose_into_columns,
        binary_to_affine,
        identity_affine,
        merge_affine,
        affine_into_weights,
        pad_into_conv,
        crop_window,
        merge_clips,
        fuse_clip,
    ),
    (*CLEAN, affine_before_concat, affine_into_weights),
)
"""Each stage is repeated until none of its passes changes anything. Attention comes first, because it moves the
Transposes of its heads; then recurrent layers and functions that are written out as several operators; then the order of axes, because
Transposes separate ops that could fuse.
"""


TYPED: tuple[Pass, ...] = (remove_dead, pad_into_conv, crop_window)
"""The passes that merge ops which the Rescales of a quantized model had separated. Rescales that change no type are
already removed.
"""


def canonicalize(graph: Graph) -> Graph:
    """The graph in canonical form."""
    for stage in STAGES:
        graph = _to_fixed_point(graph, stage)
    graph = stored_types(restore_names(graph))
    return verify(_to_fixed_point(graph, TYPED))


def _to_fixed_point(graph: Graph, stage: tuple[Pass, ...]) -> Graph:
    changed = True
    while changed:
        before = graph
        for rewrite in stage:
            graph = rewrite(graph)
        changed = graph is not before
    return graph
