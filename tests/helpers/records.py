"""Records of values from several samples, and their comparison."""

from functools import reduce

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from glowembed.ranges.record import ValueProfile, merged, observe

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
PARTS = st.lists(
    hnp.arrays(np.float32, st.tuples(st.integers(1, 9), st.just(3)), elements=FLOATS), min_size=2, max_size=5
)


def seen(parts: list[np.ndarray]) -> ValueProfile:
    return reduce(merged, map(observe, parts))


def same(a: ValueProfile, b: ValueProfile) -> None:
    assert (a.low, a.high, a.channel_low, a.channel_high) == (b.low, b.high, b.channel_low, b.channel_high)
    assert a.channel_sum == b.channel_sum
    if a.histogram is None or b.histogram is None:
        assert a.histogram is b.histogram
        return
    assert (a.histogram.exponent, a.histogram.first) == (b.histogram.exponent, b.histogram.first)
    np.testing.assert_array_equal(a.histogram.counts, b.histogram.counts)
