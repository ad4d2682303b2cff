"""Finds where and when the values of a plan can be read on a device. In: the manifest of a bundle. Out: Pieces.

A tensor in one piece can be read when its layer has run. For a tensor that is kept row by row, only the rows that were
not overwritten remain when its group of layers has run: those of the last calls, because each call overwrites rows that
are no longer needed. They are enough to say which layer of the group went wrong first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from glowembed.records import dataclass


@dataclass(frozen=True)
class Piece:
    """Bytes `start` .. `start + size` of a value that `layer` makes, at `offset` in the arena once `after` has run."""

    layer: int
    after: int
    value: str
    start: int
    offset: int
    size: int


def pieces(manifest: Mapping[str, Any], made: Sequence[Sequence[str]] | None = None) -> list[Piece]:
    """The pieces in the order in which they can be read, and at the same moment in the order of their layers.

    made: the values of each layer; without it, only values in one piece are included.
    """
    found: list[Piece] = []
    for layer, entry in enumerate(manifest["layers"]):
        whole = {t["name"]: t for t in entry["outputs"]}
        found += [Piece(layer, layer, name, 0, t["offset"], t["bytes"]) for name, t in whole.items()]
        for name in made[layer] if made is not None else ():
            if name not in whole:
                found += _left(manifest, made or (), layer, name)
    return sorted(found, key=lambda piece: (piece.after, piece.layer, piece.value, piece.start))


def _left(manifest: Mapping[str, Any], made: Sequence[Sequence[str]], layer: int, name: str) -> Iterator[Piece]:
    """The remaining rows of a value when its group has run."""
    groups = manifest["schedule"]["groups"]
    after = next((group["last"] for group in groups if group["first"] <= layer <= group["last"]), layer)
    calls: list[int] = manifest["schedule"]["calls_by_layer"]
    end = max(step for step, called in enumerate(calls) if called == after)
    buffer = next((b for b in manifest["buffers"] if name in b["values"]), None)
    later = {value for values in made[layer + 1 : after + 1] for value in values}
    if buffer is None or later & set(buffer["values"]):  # another layer works on it in place
        return
    writes = [write for b in manifest["buffers"] for write in _writes(b)]
    for number, (birth, offset, size) in enumerate(_writes(buffer)):
        if not any(birth < time <= end and at < offset + size and offset < at + length for time, at, length in writes):
            yield Piece(layer, after, name, number * size, offset, size)


def _writes(buffer: Mapping[str, Any]) -> list[tuple[int, int, int]]:
    """(step, offset, bytes) of every write into a buffer."""
    size = buffer["bytes"]
    if "rows" in buffer:
        return [(birth, offset, size) for offset, birth, _ in buffer["rows"]]
    return [(birth, buffer["offset"], size) for birth, _ in buffer.get("lives", [(buffer["birth"], 0)])]
