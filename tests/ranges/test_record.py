"""The record of a value: histogram, ranges and means, whatever the order of the samples and however many are observed at once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from records import FLOATS, PARTS, same, seen

from glowembed.ranges import record
from glowembed.ranges.record import BINS, Recorder, observe

ARRAYS = hnp.arrays(np.float32, hnp.array_shapes(min_dims=1, max_dims=3, max_side=7), elements=FLOATS)


@given(ARRAYS)
def test_a_histogram_counts_what_is_there(array: np.ndarray) -> None:
    h = observe(array).histogram
    assert h is not None
    positions = np.floor(array.astype(np.float64) / 2.0**h.exponent)
    expected = [np.count_nonzero(positions == h.first + i) for i in range(len(h.counts))]
    assert h.counts.tolist() == expected
    assert 1 <= len(h.counts) <= BINS
    assert h.counts.sum() == array.size


@given(PARTS, st.randoms())
def test_order_does_not_matter(parts: list[np.ndarray], random: object) -> None:
    shuffled = list(parts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    same(seen(parts), seen(shuffled))
    together = seen([np.concatenate(parts)])
    same(replace(seen(parts), channel_sum=()), replace(together, channel_sum=()))


@given(st.lists(hnp.arrays(np.float32, (3, 2, 4), elements=st.floats(width=32)), min_size=1, max_size=6))
def test_samples_observed_at_once_have_the_same_record(samples: list[np.ndarray]) -> None:
    same(observe(*samples), seen(samples))


@given(st.integers(1, 90), st.sampled_from([(), (1,), (5,), (3, 5)]), st.sampled_from([1, 20, 1 << 16]))
def test_a_recorder_observes_in_any_portions(count: int, shape: tuple[int, ...], together: int) -> None:
    samples = list(np.random.default_rng(count).normal(size=(count, *shape)).astype(np.float32))
    levels = tuple(np.unique(np.stack(samples)).tolist())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "TOGETHER", together)
        recorder = Recorder(with_levels=["x"])
        for sample in samples:
            recorder.add("x", sample)
            recorder.add("y", -sample)
        found = recorder.records()
    same(found["x"], seen(samples))
    same(found["y"], seen([-sample for sample in samples]))
    assert found["x"].levels == (levels if len(levels) <= record.MAX_LEVELS else ())
    assert found["y"].levels == ()


def test_what_is_not_finite_counts_as_the_largest_number() -> None:
    value = observe(np.array([np.nan, -np.inf, 1], np.float32))
    assert (-value.low, value.high) == (record.LARGEST, record.LARGEST)
