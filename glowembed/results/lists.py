"""The results of `targets` and `boards`."""

from __future__ import annotations

from typing import Annotated, TypedDict


class Target(TypedDict):
    """A core with its compiler and flags."""

    name: str
    description: str
    isa: Annotated[list[str], "The instruction sets for which it takes kernels, in order of preference."]
    board: Annotated[str, "The board on which its bundles are validated by default; empty if there is none."]


class Board(TypedDict):
    """A target with memories and a way to run programs."""

    name: str
    target: str
    description: str
