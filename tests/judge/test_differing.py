"""Which bits count as a difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glowembed.judge.compare import differing, first_difference


def floats(dtype: str, *bits: int) -> Any:
    size = np.dtype(dtype).itemsize
    return np.array(bits, f"u{size}").view(dtype)


@pytest.mark.parametrize(
    ("dtype", "positive", "negative"), [("float32", 0x7FC00000, 0xFFC00001), ("float64", 0x7FF8 << 48, 0xFFF8 << 48)]
)
def test_nan_is_nan_whatever_its_bits(dtype: str, positive: int, negative: int) -> None:
    sign = 1 << (8 * np.dtype(dtype).itemsize - 1)
    ours, theirs = floats(dtype, positive, 0, 7), floats(dtype, negative, 0, 7)
    assert not differing(ours, theirs).any()
    assert differing(ours, floats(dtype, negative, sign, 7)).tolist() == [False, True, False], "0 and -0 differ"
    assert differing(ours, floats(dtype, 0, 0, 7)).tolist() == [True, False, False]
    assert first_difference({"y": ours[None]}, {"y": theirs[None]}) is None
