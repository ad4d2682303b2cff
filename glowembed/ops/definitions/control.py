"""If, Loop and Scan, whose inner graphs become blocks and loops of the node's nest.

Values that are carried from one iteration to the next are temporaries, which are copied after each iteration. A Loop
needs a bound that is known when the model is compiled: its trip count, or the shape that the model declares for a scan
output. Iterations that are not executed leave zeros in the scan outputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glowembed.graph.op import Refused
from glowembed.nest.dtypes import BOOL
from glowembed.nest.expr import constant, to_index
from glowembed.nest.program import Recorder, Tensor
from glowembed.ops.shared.definition import Definition, operator

MOST_STEPS = 10**6


def copy(k: Recorder, target: Tensor, source: Tensor) -> None:
    """Copy a tensor to another one of the same size."""
    if target.size != source.size or target.dtype != source.dtype:
        raise Refused(
            f"{source.dtype}{list(source.shape)} where {target.dtype}{list(target.shape)} is expected",
            "branches and steps must give the same shapes",
        )
    with k.each((target.size,)) as (i,):
        k.store(target, i, source.flat(i))


@operator("If")
def _if(n: Definition) -> None:
    known, k = n.constant(0), n.k
    if known is not None:
        branch = "then_branch" if np.ravel(known)[0] else "else_branch"
        for j, t in enumerate(n.subgraph(branch, [])):
            copy(k, n.output(j, t.shape, t.dtype), t)
        return
    condition = k.let(n.input(0).scalar().to(BOOL))
    outputs: list[Tensor] = []
    for branch, holds in (("then_branch", condition), ("else_branch", ~condition)):
        with k.when(holds):
            found = n.subgraph(branch, [])
            outputs = outputs or [n.output(j, t.shape, t.dtype) for j, t in enumerate(found)]
            for y, t in zip(outputs, found, strict=True):
                copy(k, y, t)


def _carried(k: Recorder, given: Sequence[Tensor]) -> list[Tensor]:
    """Temporaries that are initialized with these values."""
    state = [k.temporary(t.shape, t.dtype) for t in given]
    for target, source in zip(state, given, strict=True):
        copy(k, target, source)
    return state


def _step(k: Recorder, state: Sequence[Tensor], new: Sequence[Tensor]) -> None:
    """Assign the new content to the carried values; it may depend on all of the old content."""
    held = [k.temporary(t.shape, t.dtype) for t in new]
    for target, source in zip(held, new, strict=True):
        copy(k, target, source)
    for target, source in zip(state, held, strict=True):
        copy(k, target, source)


@operator("Loop")
def _loop(n: Definition) -> None:
    k, count = n.k, n.constant(0)
    if any(t is None for t in n.x[2:]):
        raise Refused("a carried value without a start", "give it one")
    state = _carried(k, [n.input(i) for i in range(2, len(n.x))])
    most = int(np.ravel(count)[0]) if count is not None else MOST_STEPS + 1
    if most > MOST_STEPS:
        declared = [n.declared[j] for j in range(len(state), len(n.declared))]
        most = next((shape[0] for shape in declared if shape), -1)
    if most < 0 and count is not None:
        raise Refused(f"its trip count is {np.ravel(count)[0]}", f"loops have at most {MOST_STEPS:,} steps")
    if most < 0:
        raise Refused("a loop without a bound that is known at compile time", "give it a constant trip count")
    limit = k.let(to_index(n.input(0).scalar())) if n.runs_on(0) else None
    goes_on = k.let(n.input(1).scalar().to(BOOL) if n.has(1) else constant(True, BOOL))
    number, condition = k.temporary((), "int64"), k.temporary((), BOOL)
    with k.loop(most) as step:
        taken = k.let(goes_on if limit is None else goes_on & (step < limit))
        with k.when(taken):
            k.store(number, (), step.to("int64"))
            k.store(condition, (), goes_on)
            found = n.subgraph("body", [number, condition, *state])
            scans = found[1 + len(state) :]
            outputs = [n.output(len(state) + j, (most, *t.shape), t.dtype) for j, t in enumerate(scans)]
            for y, t in zip(outputs, scans, strict=True):
                with k.each((t.size,)) as (i,):
                    k.store(y, step * t.size + i, t.flat(i))
            _step(k, state, found[1 : 1 + len(state)])
            k.set(goes_on, found[0].scalar().to(BOOL))
        with k.when(~taken):
            for y, t in zip(outputs, scans, strict=True):
                with k.each((t.size,)) as (i,):
                    k.store(y, step * t.size + i, 0)
    for j, t in enumerate(state):
        if n.wants(j):
            copy(k, n.output(j, t.shape, t.dtype), t)


@operator("Scan")
def _scan(n: Definition) -> None:
    """Define Scan. In opset 8 it has a batch, of which one sample is supported, and its first input is the lengths of
    the sequences.
    """
    k, scanned = n.k, int(n.attr("num_scan_inputs"))
    batched = n.opset < 9
    given = [t for t in n.x if t is not None] if not batched else [n.input(i) for i in range(1, len(n.x))]
    if batched:
        if given[0].shape[0] != 1:
            raise Refused(f"a Scan of opset 8 over {given[0].shape[0]} samples", "export with opset 9 or newer")
        given = [t.view(t.shape[1:]) for t in given]
    outer = (1,) if batched else ()
    count = len(given) - scanned
    state, sequences = _carried(k, given[:count]), given[count:]
    axes = [int(a) for a in n.attr("scan_input_axes") or [0] * scanned]
    reversed_in = [int(d) for d in n.attr("scan_input_directions") or n.attr("directions") or [0] * scanned]
    length = sequences[0].shape[axes[0]]
    with k.loop(length) as step:
        parts = []
        for t, axis, turned in zip(sequences, axes, reversed_in, strict=True):
            a = axis % t.rank
            part = k.temporary((*t.shape[:a], *t.shape[a + 1 :]), t.dtype)
            at = (length - 1) - step if turned else step
            with k.each(part.shape) as i:
                k.store(part, i, t[(*i[:a], at, *i[a:])])
            parts.append(part)
        found = n.subgraph("body", [*state, *parts])
        results = found[count:]
        out_axes = [int(a) for a in n.attr("scan_output_axes") or [0] * len(results)]
        reversed_out = [int(d) for d in n.attr("scan_output_directions") or [0] * len(results)]
        for j, (t, axis, turned) in enumerate(zip(results, out_axes, reversed_out, strict=True)):
            a = axis % (t.rank + 1)
            shape = (*t.shape[:a], length, *t.shape[a:])
            y = n.output(count + j, (*outer, *shape), t.dtype).view(shape)
            at = (length - 1) - step if turned else step
            with k.each(t.shape) as i:
                k.store(y, (*i[:a], at, *i[a:]), t[i])
        _step(k, state, found[:count])
    for j, t in enumerate(state):
        if n.wants(j):
            copy(k, n.output(j, (*outer, *t.shape), t.dtype), t)
