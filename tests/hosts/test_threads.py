"""The bookkeeping that must stay small."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from awr.hosts.threads import SeenIds, Series, short_hash


@given(st.lists(st.integers(1, 2**64 - 1), max_size=400), st.lists(st.integers(1, 2**64 - 1), max_size=50))
def test_seen_ids_answer_like_a_set(values: list[int], others: list[int]) -> None:
    seen, model = SeenIds(), set[int]()
    for value in values:
        assert seen.add(value) is (value not in model)
        model.add(value)

    assert set(seen) == model == set(SeenIds(seen))
    assert [value in seen for value in others] == [value in model for value in others]


def test_hash_tells_parts_apart() -> None:
    assert short_hash("ab", "c") != short_hash("a", "bc")


@given(st.lists(st.integers(1, 10**6), max_size=3000))
def test_series_keeps_the_peak_of_each_stride_within_its_bound(values: list[int]) -> None:
    series = Series()
    for value in values:
        series.add(value)

    stride = series.stride
    assert series.peaks == [max(values[start : start + stride]) for start in range(0, len(values), stride)]
    assert len(series.peaks) <= 256
