"""How closely work has to be managed, from what is known."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awr.domain.management import (
    Facts,
    ManagementObservation,
    admission_gaps,
    contract_fingerprint,
    decide,
    validate_management_observation,
)
from awr.domain.work import Dependency, WorkItem
from awr.errors import InvalidInput

NOTHING = Facts(
    unresolved_dependencies=False,
    contract_changed=False,
    persistent_wait=False,
    handed_over=False,
    resumed_across_sessions=False,
    uncertain_execution=False,
    previously_continuous=False,
)
SIMPLE = ManagementObservation(
    observed_at=1,
    note="one small change",
    single_outcome=True,
    bounded_scope=True,
    single_executor=True,
    no_deferred_wait=True,
    independently_schedulable_units=1,
    plan_valid=True,
    outcome_known=True,
)
ITEM = WorkItem(external_key="w", title="Work", status="planned", line=1, acceptance=("done",), goals=("g",))


def test_work_of_which_everything_is_known_and_simple_is_lightweight() -> None:
    decision = decide(SIMPLE, facts=NOTHING)
    assert (decision.mode, decision.reasons, decision.unknown_observations) == ("lightweight", (), ())


def test_work_of_which_nothing_is_known_is_undetermined() -> None:
    decision = decide(None, facts=NOTHING)
    assert decision.mode == "undetermined"
    assert len(decision.unknown_observations) == 7
    assert decision.required_actions[-1] == "assess_unknown_management_facts"


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("single_outcome", "multiple_outcomes"),
        ("bounded_scope", "scope_requires_planning"),
        ("single_executor", "handoff_or_collaboration"),
        ("no_deferred_wait", "deferred_wait"),
        ("plan_valid", "plan_invalidated"),
        ("outcome_known", "query_outcome_before_retry"),
    ],
)
def test_each_false_observation_makes_it_continuous_with_its_reason(field: str, reason: str) -> None:
    decision = decide(msgspec.structs.replace(SIMPLE, **{field: False}), facts=NOTHING)
    assert decision.mode == "continuous"
    assert [(one.code, one.basis) for one in decision.reasons] == [(reason, "host_assertion")]
    assert "query_unknown_results_before_any_retry" in decision.required_actions


def test_two_independent_units_make_it_continuous() -> None:
    decision = decide(msgspec.structs.replace(SIMPLE, independently_schedulable_units=2), facts=NOTHING)
    assert [one.code for one in decision.reasons] == ["independent_work_units"]


@pytest.mark.parametrize(
    ("fact", "reason", "basis"),
    [
        ("unresolved_dependencies", "unresolved_dependencies", "source_projection"),
        ("contract_changed", "work_contract_changed", "source_projection"),
        ("persistent_wait", "persistent_wait", "runtime_history"),
        ("handed_over", "work_handoff", "runtime_history"),
        ("resumed_across_sessions", "cross_session_resume", "runtime_history"),
        ("uncertain_execution", "execution_result_requires_query", "runtime_recorded_state"),
        ("previously_continuous", "continuous_management_retained", "runtime_history"),
    ],
)
def test_each_fact_on_record_makes_it_continuous(fact: str, reason: str, basis: str) -> None:
    decision = decide(SIMPLE, facts=msgspec.structs.replace(NOTHING, **{fact: True}))
    assert decision.mode == "continuous"
    assert [(one.code, one.basis) for one in decision.reasons] == [(reason, basis)]


@pytest.mark.parametrize(
    ("fields", "signals"),
    [
        ({"active_elapsed_ms": 1_799_999, "completed_rework_cycles": 2}, ()),
        ({"active_elapsed_ms": 1_800_000}, ("active_elapsed_at_least_30_minutes",)),
        ({"completed_rework_cycles": 3}, ("at_least_3_completed_rework_cycles",)),
    ],
)
def test_signals_are_said_and_promote_nothing(fields: dict[str, Any], signals: tuple[str, ...]) -> None:
    decision = decide(msgspec.structs.replace(SIMPLE, **fields), facts=NOTHING)
    assert decision.reevaluation_signals == signals
    assert decision.mode == "lightweight"


@given(known=st.dictionaries(st.sampled_from(["single_outcome", "bounded_scope", "plan_valid"]), st.booleans()))
def test_what_was_continuous_stays_so_whatever_is_observed(known: dict[str, bool]) -> None:
    facts = msgspec.structs.replace(NOTHING, previously_continuous=True)
    assert decide(msgspec.structs.replace(SIMPLE, **known), facts=facts).mode == "continuous"


@pytest.mark.parametrize(
    "fields",
    [
        {"note": ""},
        {"note": "n" * 4097},
        {"observed_at": -1},
        {"observed_at": 11},
        {"independently_schedulable_units": 0},
        {"active_elapsed_ms": -1},
        {"completed_rework_cycles": -1},
    ],
)
def test_an_observation_outside_its_bounds_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        validate_management_observation(msgspec.structs.replace(SIMPLE, **fields), now=10)


@pytest.mark.parametrize(
    "changes", [{"status": "in_progress"}, {"next_action": "x"}, {"line": 9}, {"owner": "o"}, {"blocker": "b"}]
)
def test_progress_does_not_change_the_contract(changes: dict[str, Any]) -> None:
    changed = msgspec.structs.replace(ITEM, **changes)
    assert contract_fingerprint(changed, work_id="1") == contract_fingerprint(ITEM, work_id="1")


@pytest.mark.parametrize(
    "changes",
    [
        {"title": "Other"},
        {"summary": "s"},
        {"kind": "k"},
        {"acceptance": ("other",)},
        {"paths": ("p",)},
        {"tags": ("t",)},
        {"goals": ()},
        {"depends_on": (Dependency("d"),)},
        {"ordinary_completion": True},
    ],
)
def test_what_the_work_is_changes_the_contract(changes: dict[str, Any]) -> None:
    changed = msgspec.structs.replace(ITEM, **changes)
    assert contract_fingerprint(changed, work_id="1") != contract_fingerprint(ITEM, work_id="1")


def test_what_an_admission_would_need_is_named() -> None:
    assert admission_gaps(ITEM) == ()
    bare = msgspec.structs.replace(ITEM, acceptance=(), goals=())
    assert admission_gaps(bare) == ("source_acceptance_missing_or_ambiguous", "goal_context_missing")
