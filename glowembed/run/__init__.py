"""Runs bundles on this host, under QEMU or on a board. RunResult is what each of them returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from glowembed.records import dataclass

if TYPE_CHECKING:  # SCons, which each build starts, needs modules of this package but not numpy
    import numpy as np
    from numpy.typing import NDArray

Bytes: TypeAlias = "NDArray[np.uint8]"


@dataclass(frozen=True)
class RunResult:
    """The results of a run of many samples, as raw bytes from the arena."""

    outputs: tuple[Bytes, ...]
    """per output of the bundle: (samples, bytes)"""
    instructions: int | None
    """of one inference, from the call to its return; the largest of all samples"""
    layer_instructions: tuple[int, ...] | None = None
    """the same per layer, where layers were requested"""
    layer_outputs: tuple[tuple[Bytes, ...], ...] | None = None
    """per layer and output of it: (samples, bytes), as they lay there when the layer had just run"""
    stack: int | None = None
    """bytes below the caller that one inference was seen to use"""
    instructions_least: int | None = None
    """the smallest of all samples; equal to `instructions` where the data does not matter"""
    cycles: int | None = None
    """of one inference by the device's own clock; real time, so None under an emulator"""
    layer_cycles: tuple[int, ...] | None = None
    """the same per layer"""
    seconds: float | None = None
    """of one inference, by the device's own clock"""
    traffic: Mapping[str, int | float | None] | None = None
    """of a serial line: what went over it"""
