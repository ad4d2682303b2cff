"""NonMaxSuppression. The number of output rows is bounded by the shape that the model declares, or by the inputs;
unused rows are 0. A box whose score is NaN is no candidate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from glowembed.nest.dtypes import INDEX
from glowembed.nest.expr import Expr, constant, index, maximum, minimum, where
from glowembed.ops.shared.definition import Definition, operator, require


@operator("NonMaxSuppression")
def _non_max_suppression(n: Definition) -> None:
    boxes, scores, k = n.input(0), n.input(1), n.k
    require(scores.rank == 3, f"its scores have {scores.rank} axes")
    batch, classes, count = scores.shape
    require(boxes.shape == (batch, count, 4), f"its boxes {list(boxes.shape)} do not fit scores {list(scores.shape)}")
    wanted = n.integers(2) if n.has(2) else [0]
    each = count if wanted is None else min(max(wanted[0], 0), count)
    y = n.output(0, n.shape_within((batch * classes * each, 3), {0: 0}), "int64")
    require(y.rank == 2 and y.shape[1] == 3, f"its output is declared as {list(y.shape)}")
    with k.each(y.shape) as at:
        k.store(y, at, 0)
    most = k.let(n.position(2)) if n.has(2) else index(0)
    overlap = n.input(3).scalar() if n.has(3) else constant(0, boxes.kind)
    threshold = n.input(4).scalar() if n.has(4) else constant(-math.inf, scores.kind)
    gone, found = k.temporary((count,), "uint8"), k.variable(0, INDEX)

    def corners(b: Expr, p: Expr) -> list[Expr]:
        """The top, left, bottom and right edge of a box."""
        e = [boxes[b, p, q] for q in range(4)]
        if n.attr("center_point_box", 0):
            return [k.let(v) for v in (e[1] - e[3] * 0.5, e[0] - e[2] * 0.5, e[1] + e[3] * 0.5, e[0] + e[2] * 0.5)]
        ends = (minimum(e[0], e[2]), minimum(e[1], e[3]), maximum(e[0], e[2]), maximum(e[1], e[3]))
        return [k.let(v) for v in ends]

    with k.loops((batch, classes)) as (b, c):
        with k.each((count,)) as (p,):
            k.store(gone, (p,), where(scores[b, c, p] > threshold, constant(0, "uint8"), 1))
        best = k.variable(0, INDEX)
        with k.loop(min(each, y.shape[0])) as step, k.when((best >= 0) & (step < most) & (found < y.shape[0])):
            k.set(best, index(-1))
            with k.loop(count) as p, k.when(gone[p].equals(0)):
                better = (best < 0) | (scores[b, c, p] > scores[b, c, maximum(best, 0)])
                k.set(best, where(better, p, best))
            with k.when(best >= 0):
                for q, v in enumerate((b, c, best)):
                    k.store(y, (found, index(q)), v.to("int64"))
                k.set(found, found + 1)
                mine = corners(b, best)
                with k.each((count,)) as (p,):
                    covered = _overlap(n, mine, corners(b, p)) > overlap
                    with k.when(covered | p.equals(best)):
                        k.store(gone, (p,), 1)
    n.tell_found(found)


def _overlap(n: Definition, a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
    """The intersection of two boxes over their union; 0 if the union is empty."""
    high = maximum(minimum(a[2], b[2]) - maximum(a[0], b[0]), 0.0)
    wide = maximum(minimum(a[3], b[3]) - maximum(a[1], b[1]), 0.0)
    both = n.k.let(high * wide)
    areas = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    union = n.k.let(areas - both)
    return where(union > 0.0, both / union, constant(0, both.kind))
