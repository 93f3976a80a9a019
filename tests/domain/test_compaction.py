"""Bounds of an observation, and the state that follows from it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awr.domain.compaction import (
    DEFAULT_POLICY,
    Observation,
    Policy,
    Usage,
    assess,
    usable_percent,
    validate_observation,
    validate_policy,
)
from awr.errors import InvalidInput

NOW = 1_789_600_000_000


def observation(**changes: Any) -> Observation:
    base = Observation(
        compaction_id="native-compaction-7",
        sequence=7,
        observed_at=1_789_500_000_000,
        trigger="automatic",
        model="host-model-id",
        source="host.telemetry.completed-compaction-7",
        measurement_scope="full_request",
        measurement_basis="host_reported",
        before_tokens=230_000,
        after_tokens=140_000,
        context_window_tokens=256_000,
    )
    return msgspec.structs.replace(base, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"compaction_id": "x" * 256},
        {"compaction_id": "é" * 128},
        {"model": "m" * 128},
        {"source": "s" * 512},
        {"sequence": 1},
        {"sequence": 2**63 - 1},
        {"observed_at": 1},
        {"observed_at": NOW},
        {"before_tokens": 0},
        {"after_tokens": 0},
        {"before_tokens": 1_000_000_000},
        {"after_tokens": 1_000_000_000},
        {"context_window_tokens": 1},
        {"context_window_tokens": 1_000_000_000},
        {"before_tokens": None, "after_tokens": None, "context_window_tokens": None},
        {"after_tokens": 300_000},
        {"before_tokens": 1, "after_tokens": 2},
        {"duration_ms": 2**64 - 1},
        {"usage": Usage()},
        {"usage": Usage(input_tokens=5, cached_input_tokens=5, cost_usd=0.0)},
        {"usage": Usage(cached_input_tokens=5)},
        {"usage": Usage(input_tokens=2**63, output_tokens=2**63)},
    ],
)
def test_an_observation_at_its_bounds_is_accepted(changes: dict[str, Any]) -> None:
    validate_observation(observation(**changes), now=NOW)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"compaction_id": ""}, "compaction_id must be nonempty bounded text"),
        ({"compaction_id": " \u2003 "}, "compaction_id must be nonempty bounded text"),
        ({"compaction_id": "x" * 257}, "compaction_id must be nonempty bounded text"),
        ({"compaction_id": "é" * 129}, "compaction_id must be nonempty bounded text"),
        ({"compaction_id": "a\nb"}, "compaction_id must be nonempty bounded text"),
        ({"compaction_id": "a\x7fb"}, "compaction_id must be nonempty bounded text"),
        ({"compaction_id": "a\x85b"}, "compaction_id must be nonempty bounded text"),
        ({"model": ""}, "model must be nonempty bounded text"),
        ({"model": "m" * 129}, "model must be nonempty bounded text"),
        ({"model": "a\tb"}, "model must be nonempty bounded text"),
        ({"source": " "}, "source must be nonempty bounded text"),
        ({"source": "s" * 513}, "source must be nonempty bounded text"),
        ({"source": "a\x00b"}, "source must be nonempty bounded text"),
        ({"sequence": 0}, "sequence or time"),
        ({"sequence": -1}, "sequence or time"),
        ({"sequence": 2**63}, "sequence or time"),
        ({"observed_at": 0}, "sequence or time"),
        ({"observed_at": -5}, "sequence or time"),
        ({"observed_at": NOW + 1}, "sequence or time"),
        ({"context_window_tokens": 0}, "token count"),
        ({"context_window_tokens": 1_000_000_001}, "token count"),
        ({"before_tokens": 1_000_000_001}, "token count"),
        ({"after_tokens": 1_000_000_001}, "token count"),
        ({"before_tokens": -1}, "token count"),
        ({"after_tokens": -1}, "token count"),
        ({"duration_ms": -1}, "token count"),
        ({"duration_ms": 2**64}, "token count"),
        ({"usage": Usage(cost_usd=-0.01)}, "usage contradicts itself"),
        ({"usage": Usage(cost_usd=float("inf"))}, "usage contradicts itself"),
        ({"usage": Usage(cost_usd=float("nan"))}, "usage contradicts itself"),
        ({"usage": Usage(input_tokens=4, cached_input_tokens=5)}, "usage contradicts itself"),
        ({"usage": Usage(input_tokens=-4)}, "usage contradicts itself"),
    ],
)
def test_an_observation_outside_its_bounds_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        validate_observation(observation(**changes), now=NOW)


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"compaction_id": "", "model": "", "sequence": 0}, "compaction_id"),
        ({"model": "", "source": "", "sequence": 0}, "model"),
        ({"source": "", "sequence": 0, "context_window_tokens": 0}, "source"),
        ({"sequence": 0, "context_window_tokens": 0}, "sequence or time"),
        ({"context_window_tokens": 0, "usage": Usage(cost_usd=-1)}, "token count"),
    ],
)
def test_the_first_broken_rule_in_the_contracts_order_is_the_one_named(changes: dict[str, Any], first: str) -> None:
    with pytest.raises(InvalidInput, match=first):
        validate_observation(observation(**changes), now=NOW)


def test_an_error_never_repeats_the_text_it_refuses() -> None:
    with pytest.raises(InvalidInput) as caught:
        validate_observation(observation(model="hunter2-secret\n"), now=NOW)
    assert "hunter2" not in str(caught.value.report())


@pytest.mark.parametrize("percent", [1, 50, 100])
def test_a_threshold_from_1_to_100_is_accepted(percent: int) -> None:
    validate_policy(Policy(post_compaction_threshold_percent=percent))


@pytest.mark.parametrize("percent", [0, -1, 101, 255])
def test_a_threshold_outside_1_to_100_is_refused(percent: int) -> None:
    with pytest.raises(InvalidInput, match="threshold"):
        validate_policy(Policy(post_compaction_threshold_percent=percent))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 54.6875),
        ({"after_tokens": 300_000}, 117.1875),
        ({"after_tokens": 0}, 0.0),
        ({"after_tokens": None}, None),
        ({"context_window_tokens": None}, None),
        ({"measurement_scope": "history_only"}, None),
        ({"measurement_scope": "unknown"}, None),
        ({"measurement_basis": "estimated"}, None),
        ({"measurement_basis": "unknown"}, None),
    ],
)
def test_occupancy_needs_a_host_reported_full_request_and_both_numbers(
    changes: dict[str, Any], expected: float | None
) -> None:
    assert usable_percent(observation(**changes)) == expected


@pytest.mark.parametrize(
    ("after", "state"), [(127_999, "continue"), (128_000, "handoff_candidate"), (128_001, "handoff_candidate")]
)
def test_the_threshold_itself_makes_a_candidate(after: int, state: str) -> None:
    found = assess(observation(after_tokens=after), previous=None, policy=DEFAULT_POLICY, deferred=False)
    assert found.state == state


def test_exactly_half_the_window_is_exactly_fifty_percent() -> None:
    found = assess(observation(after_tokens=128_000), previous=None, policy=DEFAULT_POLICY, deferred=False)
    assert found.post_compaction_percent == 50.0


def test_no_observation_at_all_is_a_missing_measurement() -> None:
    found = assess(None, previous=None, policy=DEFAULT_POLICY, deferred=False)
    assert (found.state, found.post_compaction_percent) == ("measurement_missing", None)


def test_a_manual_compaction_is_not_held_against_the_threshold() -> None:
    found = assess(observation(trigger="manual"), previous=None, policy=DEFAULT_POLICY, deferred=False)
    assert found.state == "manual_observation"
    assert found.post_compaction_percent == 54.6875


@pytest.mark.parametrize("changes", [{}, {"trigger": "manual"}, {"after_tokens": None}, {"after_tokens": 1}])
def test_a_deferral_comes_before_every_other_state(changes: dict[str, Any]) -> None:
    found = assess(observation(**changes), previous=None, policy=DEFAULT_POLICY, deferred=True)
    assert found.state == "deferred"


def test_comparable_observations_give_the_difference_in_points() -> None:
    before = observation(sequence=6, after_tokens=128_000)
    found = assess(observation(), previous=before, policy=DEFAULT_POLICY, deferred=False)
    assert found.previous_delta_percentage_points == 4.6875


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "another"},
        {"context_window_tokens": 200_000},
        {"trigger": "manual"},
        {"after_tokens": None},
        {"measurement_basis": "estimated"},
        {"context_window_tokens": None},
    ],
)
def test_an_observation_that_is_not_comparable_gives_no_difference(changes: dict[str, Any]) -> None:
    before = observation(sequence=6, **changes)
    found = assess(observation(), previous=before, policy=DEFAULT_POLICY, deferred=False)
    assert found.previous_delta_percentage_points is None


@given(after=st.integers(0, 10**9), window=st.integers(1, 10**9), threshold=st.integers(1, 100))
def test_the_state_follows_the_exact_quotient(after: int, window: int, threshold: int) -> None:
    measured = observation(after_tokens=after, context_window_tokens=window)
    found = assess(measured, previous=None, policy=Policy(threshold), deferred=False)
    assert (found.state == "handoff_candidate") == (after * 100 / window >= threshold)
