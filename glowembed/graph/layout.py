"""Orders of axes, and names for values in another order, such as `<source>/channels_last`.

In: permutations as in ONNX Transpose (output axis i is input axis perm[i]). Out: permutations and names. It never
touches data.
"""

from __future__ import annotations

from collections.abc import Sequence

from glowembed.graph.ir import Shape, Value
from glowembed.graph.spatial import channels_first, channels_last

Perm = tuple[int, ...]


def inverse(perm: Sequence[int]) -> Perm:
    """The permutation that undoes `perm`."""
    return tuple(sorted(range(len(perm)), key=lambda axis: perm[axis]))


def compose(first: Sequence[int], second: Sequence[int]) -> Perm:
    """The Transpose that does `first` and then `second`."""
    return tuple(first[axis] for axis in second)


def is_identity(perm: Sequence[int]) -> bool:
    return tuple(perm) == tuple(range(len(perm)))


def permuted(shape: Shape, perm: Sequence[int]) -> Shape:
    return tuple(shape[axis] for axis in perm)


def moves_only_ones(shape: Shape, perm: Sequence[int]) -> bool:
    """Whether the elements keep their order in memory, because only axes of size 1 move."""
    order = [axis for axis in perm if shape[axis] != 1]
    return order == sorted(order)


def layout_name(perm: Sequence[int]) -> str:
    """The name of an order of axes: channels_last, channels_first, as_in_model (the identity), or the permutation in
    words.
    """
    rank, perm = len(perm), tuple(perm)
    if is_identity(perm):
        return "as_in_model"
    if rank >= 3 and perm == channels_last(rank):
        return "channels_last"
    if rank >= 3 and perm == channels_first(rank):
        return "channels_first"
    return "axes_" + "_".join(map(str, perm))


def source_name(value: Value) -> str | None:
    """The name `v` if the value is `v` in another order of axes, else None.

    The layout decides, because a name alone may come from the model. Primes at the end, which distinguish equal names,
    are ignored.
    """
    if value.layout is None:
        return None
    name, suffix = value.name.rstrip("'"), f"/{layout_name(value.layout)}"
    return name.removesuffix(suffix) if name.endswith(suffix) else None


def name_permuted(value: Value, perm: Sequence[int]) -> tuple[str, Perm | None]:
    """The name and layout of `value` with its axes permuted; if that restores the order of the source, the source's own
    name.
    """
    total = tuple(perm) if value.layout is None else compose(value.layout, perm)
    source = source_name(value)
    if source is not None and is_identity(total):
        return source, None
    return f"{value.name if source is None else source}/{layout_name(total)}", total
