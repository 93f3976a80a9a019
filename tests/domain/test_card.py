"""The card's words, and its size under the longest legal inputs."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awr.domain.card import (
    MAX_CARD_BYTES,
    Card,
    card_bytes,
    compaction_card,
    inactive_session_card,
    management_card,
    not_ready_card,
    ordinary_card,
    required_gaps_card,
    uncertain_execution_card,
    waiting_card,
)
from awr.domain.compaction import Assessment, Policy, State, assess
from awr.errors import InvalidInput
from tests.domain.test_compaction import observation

STATES: tuple[State, ...] = ("deferred", "manual_observation", "handoff_candidate", "continue", "measurement_missing")


def assessment(state: State, *, percent: float | None = 54.6875, delta: float | None = None) -> Assessment:
    return Assessment(
        state=state, post_compaction_percent=percent, previous_delta_percentage_points=delta, policy=Policy(50)
    )


@pytest.mark.parametrize("state", STATES)
def test_a_card_has_exactly_its_four_texts(state: State) -> None:
    fields = json.loads(card_bytes(compaction_card(assessment(state))))
    assert list(fields) == ["when", "basis", "next_action", "recheck"]
    assert all(isinstance(text, str) and text for text in fields.values())


percents = st.floats(0, 1e11, allow_nan=False)
deltas = st.none() | st.floats(-1e11, 1e11, allow_nan=False)


@given(state=st.sampled_from(STATES), percent=percents, delta=deltas, threshold=st.integers(1, 100))
def test_no_legal_input_makes_a_card_outgrow_its_limit(
    state: State, percent: float, delta: float | None, threshold: int
) -> None:
    card = compaction_card(Assessment(state, percent, delta, Policy(threshold)))
    assert len(card_bytes(card)) <= MAX_CARD_BYTES
    # Writers that escape everything beyond ASCII must fit as well.
    assert len(json.dumps(msgspec.to_builtins(card)).encode()) <= MAX_CARD_BYTES


@given(
    after=st.integers(0, 10**9),
    window=st.integers(1, 10**9),
    prior=st.integers(0, 10**9),
    model=st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=32),
)
def test_the_longest_legal_observations_make_a_card_that_fits(
    after: int, window: int, prior: int, model: str
) -> None:
    latest = observation(after_tokens=after, context_window_tokens=window, model=model, source="s" * 512)
    previous = observation(after_tokens=prior, context_window_tokens=window, model=model, compaction_id="c" * 256)
    found = assess(latest, previous=previous, policy=Policy(100), deferred=False)
    assert len(card_bytes(compaction_card(found))) <= MAX_CARD_BYTES


@pytest.mark.parametrize("status", ["ended", "interrupted", "incomplete"])
def test_the_card_of_a_session_that_is_over_points_to_its_successor(status: str) -> None:
    card = inactive_session_card(status)
    assert status in card.when
    assert "resume" in card.next_action
    assert len(card_bytes(card)) <= MAX_CARD_BYTES


def test_a_candidate_asks_before_opening_a_session_and_queries_executions_first() -> None:
    card = compaction_card(assessment("handoff_candidate"))
    assert "ask before opening" in card.next_action
    assert card.next_action.startswith("Query executions")
    assert "54.7%" in card.basis
    assert "50%" in card.basis
    assert "heuristic" in card.basis


@pytest.mark.parametrize("state", ["handoff_candidate", "continue"])
def test_same_model_and_window_is_said_only_with_a_comparable_earlier_observation(state: State) -> None:
    assert "same model and window" not in compaction_card(assessment(state)).when
    assert "same model and window" in compaction_card(assessment(state, delta=-3.25)).when
    assert "-3.2 points" in compaction_card(assessment(state, delta=-3.25)).basis


def test_a_missing_measurement_tells_the_host_to_report_and_nobody_to_guess() -> None:
    card = compaction_card(assessment("measurement_missing", percent=None))
    assert "do not guess" in card.next_action


def test_a_card_above_the_limit_is_refused_and_never_cut() -> None:
    with pytest.raises(InvalidInput, match="too large"):
        card_bytes(Card(when="x" * MAX_CARD_BYTES, basis="", next_action="", recheck=""))


def test_a_card_with_another_field_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"when": "a", "basis": "b", "next_action": "c", "recheck": "d", "more": "e"}, Card)


@pytest.mark.parametrize(
    ("card", "words"),
    [
        (uncertain_execution_card(1), "Query execution status"),
        (waiting_card(), "Do not repeat the request"),
        (required_gaps_card(3), "required gaps"),
        (not_ready_card(2), "blockers or the conflicting claim"),
        (management_card(), "record known observations"),
        (ordinary_card(), "Consume the rendered context"),
    ],
)
def test_each_card_of_prepared_work_says_its_one_action_and_fits(card: Card, words: str) -> None:
    assert words in card.next_action
    assert len(card_bytes(card)) <= MAX_CARD_BYTES


@given(number=st.integers(0, 10**18))
def test_no_count_makes_a_card_outgrow_its_limit(number: int) -> None:
    for card in (uncertain_execution_card(number), required_gaps_card(number), not_ready_card(number)):
        assert len(card_bytes(card)) <= MAX_CARD_BYTES
