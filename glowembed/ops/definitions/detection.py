"""NonMaxSuppression, and what TensorFlow Lite has at the end of SSD networks. The number of output rows is bounded by the
shape that the model declares, or by the inputs; unused rows are 0. A box whose score is NaN is no candidate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from glowembed.nest.dtypes import INDEX
from glowembed.nest.expr import Expr, call, constant, index, maximum, minimum, to_index, where
from glowembed.nest.program import Tensor
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


@operator("tflite:DetectionPostprocess")
def _detection_postprocess(n: Definition) -> None:
    """Define TFLite_Detection_PostProcess. Encoded boxes and anchors are (y, x, height, width); the results are the edges of boxes,
    their classes and scores, and the number of detections. Rows after these are 0.
    """
    encoded, scores, anchors, k = n.input(0), n.input(1), n.input(2), n.k
    require(
        encoded.rank == 3 and encoded.shape[0] == 1 and encoded.shape[2] >= 4, f"its boxes are {list(encoded.shape)}"
    )
    count, classes = encoded.shape[1], n.attr("num_classes")
    require(
        scores.rank == 3 and scores.shape[:2] == (1, count) and scores.shape[2] >= classes,
        f"its scores {list(scores.shape)} do not fit {count} boxes and {classes} classes",
    )
    require(anchors.shape == (count, 4), f"its anchors {list(anchors.shape)} do not fit {count} boxes")
    rows = n.attr("max_detections") * n.attr("classes_per_detection")
    for j, shape in enumerate([(1, rows, 4), (1, rows), (1, rows), (1,)]):
        with k.each(n.output(j, shape, "float32").shape) as at:
            k.store(n.outputs[j], at, 0.0)
    boxes = k.temporary((count, 4), "float32")
    with k.loop(count) as p:
        _decode(n, encoded, anchors, p, boxes)
    (_by_class if n.attr("by_class") else _by_box)(n, boxes)


def _by_box(n: Definition, boxes: Tensor) -> None:
    """Each box is a detection of its best classes; of boxes that overlap, only the one whose best class has the highest score is kept."""
    scores, k, classes, each = n.input(1), n.k, n.attr("num_classes"), n.attr("classes_per_detection")
    score, background = k.temporary((boxes.shape[0],), "float32"), scores.shape[2] - classes
    found, best, last = (k.variable(0, INDEX) for _ in range(3))
    with k.loop(boxes.shape[0]) as p:
        k.set(best, 0)
        with k.loop(classes) as c:
            k.set(best, where(scores[0, p, c + background] > scores[0, p, best + background], c, best))
        _take(n, score, p, scores[0, p, best + background])
    with _kept(n, boxes, score, n.attr("max_detections")) as kept:

        def of(c: Expr) -> Expr:
            return scores[0, kept, maximum(c, 0) + background]

        k.set(last, index(-1))
        with k.loop(min(each, classes)) as q:
            k.set(best, index(-1))
            with k.loop(classes) as c:
                is_after = (last < 0) | (of(c) < of(last)) | (of(c).equals(of(last)) & (c > last))
                k.set(best, where(is_after & ((best < 0) | (of(c) > of(best))), c, best))
            k.set(last, maximum(best, 0))
            _give(n, found * each + q, [boxes[kept, e] for e in range(4)], last.to("float32"), of(last))
        k.set(found, found + 1)
    k.store(n.outputs[3], (0,), found.to("float32"))


def _by_class(n: Definition, boxes: Tensor) -> None:
    """Boxes are kept or not for each class by itself, and the detections with the highest scores are the results."""
    scores, k, classes, most = n.input(1), n.k, n.attr("num_classes"), n.attr("max_detections")
    count, background = boxes.shape[0], scores.shape[2] - classes
    score, found = k.temporary((count,), "float32"), k.variable(0, INDEX)
    top, of_class, of_box = (k.temporary((most,), kind) for kind in ("float32", "int32", "int32"))
    with k.loop(classes) as c:
        with k.loop(count) as p:
            _take(n, score, p, scores[0, p, c + background])
        with _kept(n, boxes, score, min(count, n.attr("detections_per_class"))) as kept:
            own, place = k.let(score[kept]), k.variable(0, INDEX)
            k.set(place, 0)
            with k.loop(most) as q, k.when((q < found) & (top[q] >= own)):
                k.set(place, q + 1)
            with k.loop(most, down=True) as q, k.when((q > place) & (q <= found)):
                for rows in (top, of_class, of_box):
                    k.store(rows, (q,), rows[q - 1])
            with k.when(place < most):
                for rows, value in ((top, own), (of_class, c.to("int32")), (of_box, kept.to("int32"))):
                    k.store(rows, (place,), value)
                k.set(found, minimum(found + 1, most))
    with k.loop(most) as q, k.when(q < found):
        at = k.let(to_index(of_box[q]))
        _give(n, q, [boxes[at, e] for e in range(4)], of_class[q].to("float32"), top[q])
    k.store(n.outputs[3], (0,), found.to("float32"))


def _take(n: Definition, score: Tensor, p: Expr, own: Expr) -> None:
    """Make box p a candidate if its score is high enough."""
    n.k.store(score, (p,), where(own >= n.attr("score_threshold"), own, -math.inf))


def _give(n: Definition, row: Expr, edges: Sequence[Expr], kind: Expr, score: Expr) -> None:
    """Store a detection."""
    for e, edge in enumerate(edges):
        n.k.store(n.outputs[0], (0, row, index(e)), edge)
    n.k.store(n.outputs[1], (0, row), kind)
    n.k.store(n.outputs[2], (0, row), score)


@contextmanager
def _kept(n: Definition, boxes: Tensor, score: Tensor, most: int) -> Iterator[Expr]:
    """Loop over the candidates, the best first, without those that a better one overlaps. After the statements for one of them its
    score is -infinity, as are those of all that are no candidates.
    """
    k = n.k
    best = k.variable(0, INDEX)
    k.set(best, 0)
    with k.loop(most), k.when(best >= 0):
        k.set(best, index(-1))
        with k.loop(boxes.shape[0]) as p, k.when(score[p] > -math.inf):
            k.set(best, where((best < 0) | (score[p] > score[maximum(best, 0)]), p, best))
        with k.when(best >= 0):
            yield best
            mine = [k.let(boxes[best, e]) for e in range(4)]
            with k.each((boxes.shape[0],)) as (p,):
                covered = _overlap(n, mine, [boxes[p, e] for e in range(4)]) > n.attr("overlap_threshold")
                with k.when(covered | p.equals(best)):
                    k.store(score, (p,), -math.inf)


def _decode(n: Definition, encoded: Tensor, anchors: Tensor, p: Expr, boxes: Tensor) -> None:
    """Store the edges of box p."""
    scales, half = n.attr("scales"), []
    middle = [n.k.let(encoded[0, p, q] / scales[q] * anchors[p, q + 2] + anchors[p, q]) for q in range(2)]
    for q in range(2, 4):
        half.append(n.k.let(call("exp", encoded[0, p, q] / scales[q]) * anchors[p, q] * 0.5))
    for q in range(2):
        n.k.store(boxes, (p, index(q)), middle[q] - half[q])
        n.k.store(boxes, (p, index(q + 2)), middle[q] + half[q])


def _overlap(n: Definition, a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
    """The intersection of two boxes over their union; 0 if the union is empty."""
    high = maximum(minimum(a[2], b[2]) - maximum(a[0], b[0]), 0.0)
    wide = maximum(minimum(a[3], b[3]) - maximum(a[1], b[1]), 0.0)
    both = n.k.let(high * wide)
    areas = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    union = n.k.let(areas - both)
    return where(union > 0.0, both / union, constant(0, both.kind))
