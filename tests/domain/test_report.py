"""Every flag has one rule, with its edge on both sides and never on a missing number."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from awr.domain.report import FLAG_RULES, Facts, Flag, flags_of, occupancy_percent

#: A compaction without any flag: automatic, 170,000 to 40,000 in a window of 200,000, 30 requests after the last one.
CALM = Facts(
    trigger="automatic",
    before_tokens=170_000,
    after_tokens=40_000,
    window_tokens=200_000,
    requests_since_previous=30,
    host_after_tokens=700,
    failed_attempts=0,
)


def flags(**fields: Any) -> tuple[str, ...]:
    return flags_of(msgspec.structs.replace(CALM, **fields))


def test_calm_compaction_has_no_flag() -> None:
    assert flags() == ()


@pytest.mark.parametrize("trigger", ["automatic", "unknown"])
@pytest.mark.parametrize(("requests", "raised"), [(0, True), (3, True), (4, False), (None, False)])
def test_thrash_is_at_most_three_requests_after_the_last_one(
    trigger: str, requests: int | None, raised: bool
) -> None:
    assert ("thrash" in flags(trigger=trigger, requests_since_previous=requests)) is raised


def test_compaction_the_user_started_is_no_thrash() -> None:
    assert flags(trigger="manual", requests_since_previous=0) == ()


@pytest.mark.parametrize(
    ("before", "after", "raised"),
    [(100_000, 80_000, False), (100_000, 80_001, True), (None, 80_001, False), (100_000, None, False)],
)
def test_low_yield_is_more_than_80_percent_left(before: int | None, after: int | None, raised: bool) -> None:
    assert ("low_yield" in flags(before_tokens=before, after_tokens=after)) is raised


@pytest.mark.parametrize(
    ("after", "window", "raised"),
    [(100_000, 200_000, True), (99_999, 200_000, False), (None, 200_000, False), (100_000, None, False)],
)
def test_high_floor_is_half_of_the_window(after: int | None, window: int | None, raised: bool) -> None:
    assert ("high_floor" in flags(after_tokens=after, window_tokens=window)) is raised


@pytest.mark.parametrize(
    ("trigger", "before", "window", "raised"),
    [
        ("automatic", 99_999, 200_000, True),
        ("automatic", 100_000, 200_000, False),
        ("manual", 99_999, 200_000, False),
        ("unknown", 99_999, 200_000, False),
        ("automatic", None, 200_000, False),
        ("automatic", 99_999, None, False),
    ],
)
def test_premature_is_automatic_below_half_of_the_window(
    trigger: str, before: int | None, window: int | None, raised: bool
) -> None:
    assert ("premature" in flags(trigger=trigger, before_tokens=before, window_tokens=window)) is raised


@pytest.mark.parametrize(("after", "estimate", "raised"), [(None, 700, True), (None, None, False), (5, 700, False)])
def test_estimate_only_is_a_hosts_number_without_a_measurement(
    after: int | None, estimate: int | None, raised: bool
) -> None:
    assert ("estimate_only" in flags(after_tokens=after, host_after_tokens=estimate)) is raised


@pytest.mark.parametrize(
    ("before", "after", "window", "raised"),
    [
        (None, None, 9_999, True),
        (None, None, 10_000, False),
        (20_000, None, 10_000, False),
        (20_001, None, 10_000, True),
        (None, 20_001, 10_000, True),
        (10**9, 10**9, None, False),
    ],
)
def test_implausible_window_is_tiny_or_half_of_a_request(
    before: int | None, after: int | None, window: int | None, raised: bool
) -> None:
    found = flags(before_tokens=before, after_tokens=after, window_tokens=window)

    assert ("implausible_window" in found) is raised


@pytest.mark.parametrize(("attempts", "raised"), [(0, False), (1, True)])
def test_failed_attempt_is_at_least_one(attempts: int, raised: bool) -> None:
    assert ("failed_attempt" in flags(failed_attempts=attempts)) is raised


def test_facts_that_are_all_unknown_raise_no_flag() -> None:
    unknown = Facts(
        trigger="unknown",
        before_tokens=None,
        after_tokens=None,
        window_tokens=None,
        requests_since_previous=None,
        host_after_tokens=None,
        failed_attempts=0,
    )

    assert flags_of(unknown) == ()


def test_every_flag_has_a_documented_rule() -> None:
    assert tuple(FLAG_RULES) == get_args(Flag)
    assert all(FLAG_RULES.values())


@pytest.mark.parametrize(
    ("after", "window", "percent"), [(21_000, 95_000, 2_100_000 / 95_000), (None, 1, None), (1, None, None)]
)
def test_occupancy_is_exact_or_unknown(after: int | None, window: int | None, percent: float | None) -> None:
    assert occupancy_percent(after, window_tokens=window) == percent
