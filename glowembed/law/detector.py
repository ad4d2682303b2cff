"""Decides where detections begin in a stream of scores; runtime_c/ge_detector.h gives the same results. In: stored
scores, in order. Out: the numbers of the scores with which detections begin.

    sum    = the last `average` scores; `rest` stands for those before the first
    begins = sum >= on, no detection is going on, and `pause` scores have followed the last beginning
    ends   = sum < off
"""

from __future__ import annotations

from collections.abc import Iterable

from glowembed.records import dataclass

AVERAGE_MAX = 64
"""GE_DETECTOR_AVERAGE_MAX in the header."""


@dataclass(frozen=True)
class DetectorSettings:
    """The fields of ge_detector_settings, in their order."""

    average: int
    on: int
    off: int
    pause: int
    rest: int


def beginnings(settings: DetectorSettings, scores: Iterable[int]) -> list[int]:
    """The indices of the scores with which detections begin, counted from a reset."""
    ring, total = [settings.rest] * settings.average, settings.rest * settings.average
    active, waiting, found = False, 0, list[int]()
    for i, score in enumerate(scores):
        place = i % settings.average
        total += score - ring[place]
        ring[place] = score
        if active:
            active = total >= settings.off
        elif total >= settings.on and waiting == 0:
            active, waiting = True, settings.pause + 1
            found.append(i)
        waiting = max(0, waiting - 1)
    return found
