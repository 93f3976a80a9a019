"""The compaction contract, rule by rule, on a real database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awr.domain.compaction import Observation, Policy, Usage
from awr.domain.execution import Report
from awr.errors import InvalidInput, InvalidTransition, NotFound, RevisionConflict, RuleViolation, SourceConflict
from awr.journal.events import events_in_order
from awr.operations.checkpoint import ReplyRequest, WaitRequest, reply, wait
from awr.operations.compaction import (
    CompactionResult,
    DeferRequest,
    InspectRequest,
    ObserveRequest,
    defer,
    inspect,
    observe,
)
from awr.operations.event import AppendRequest, append
from awr.operations.execution import RegisterRequest, ReportRequest, register
from awr.operations.execution import report as report_execution
from awr.operations.requests import decode_request
from awr.operations.session import EndRequest, end
from awr.project import Project
from tests.domain.test_compaction import observation
from tests.support.projects import Clock, begin_session, make_project, revision


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def project(tmp_path: Path, clock: Clock) -> Project:
    return make_project(tmp_path / "project", clock=clock)


@pytest.fixture
def session(project: Project) -> str:
    return begin_session(project)


def report(
    project: Project,
    session: str,
    *,
    expected_revision: int | None = None,
    policy: Policy | None = None,
    **changes: Any,
) -> CompactionResult:
    request = ObserveRequest(
        session=session,
        expected_revision=revision(project) if expected_revision is None else expected_revision,
        observation=observation(**changes),
        policy=policy,
    )
    return observe(project, request)


def look(project: Project, session: str, *, include_observation: bool = False) -> CompactionResult:
    return inspect(project, InspectRequest(session=session, include_observation=include_observation))


def put_off(project: Project, session: str, event: str, *, expected_revision: int | None = None) -> CompactionResult:
    return defer(
        project,
        DeferRequest(
            session=session,
            observation_event_id=event,
            expected_revision=revision(project) if expected_revision is None else expected_revision,
        ),
    )


def close(project: Project, session: str) -> None:
    end(project, EndRequest(session=session, expected_revision=revision(project)))


def test_a_high_automatic_compaction_is_recorded_and_becomes_a_handoff_candidate(
    project: Project, session: str
) -> None:
    before = revision(project)
    result = report(project, session)
    assert result.state == "handoff_candidate"
    assert result.post_compaction_percent == 54.6875
    assert result.project_revision == before + 1
    assert result.already_recorded is False
    assert result.recorded_event_id == result.observation_event_id
    assert result.read_only is False
    assert "ask before opening" in result.guidance.next_action
    assert result.native_compaction == "unchanged"
    assert result.session_switch_performed is False


def test_the_stored_payload_has_exactly_observation_and_policy_with_nulls_written(
    project: Project, session: str
) -> None:
    report(project, session)
    with project.journal.read() as reader:
        *_, (event, _) = events_in_order(reader.database)
    assert event.event_type == "client.compaction_observed"
    assert event.importance == "low"
    assert event.session_id == session
    assert event.work_item_id is not None
    assert json.loads(event.payload) == {
        "observation": {
            "compaction_id": "native-compaction-7",
            "sequence": 7,
            "observed_at": 1789500000000,
            "trigger": "automatic",
            "model": "host-model-id",
            "source": "host.telemetry.completed-compaction-7",
            "measurement_scope": "full_request",
            "measurement_basis": "host_reported",
            "before_tokens": 230000,
            "after_tokens": 140000,
            "context_window_tokens": 256000,
            "duration_ms": None,
            "usage": None,
        },
        "policy": {"post_compaction_threshold_percent": 50},
    }


@pytest.mark.parametrize(
    ("policy_text", "state", "percent"),
    [
        ('"policy": {"post_compaction_threshold_percent": 55}, ', "continue", 55),
        ('"policy": {"post_compaction_threshold_percent": 50}, ', "handoff_candidate", 50),
        ('"policy": null, ', "handoff_candidate", 50),
        ("", "handoff_candidate", 50),
    ],
)
def test_both_documented_request_shapes_are_understood(
    project: Project, session: str, policy_text: str, state: str, percent: int
) -> None:
    text = f"""{{
      "session": "{session}", {policy_text}
      "expected_revision": {revision(project)},
      "observation": {{
        "compaction_id": "native-compaction-7", "sequence": 7, "observed_at": 1789500000000,
        "trigger": "automatic", "model": "host-model-id", "source": "host.telemetry.completed-compaction-7",
        "measurement_scope": "full_request", "measurement_basis": "host_reported",
        "before_tokens": 230000, "after_tokens": 140000, "context_window_tokens": 256000
      }}
    }}"""
    result = observe(project, decode_request(text.encode(), ObserveRequest, what="the input"))
    assert result.state == state
    assert result.policy.post_compaction_threshold_percent == percent


@pytest.mark.parametrize(
    "change",
    [
        {"unknown": 1},
        {"trigger": "auto"},
        {"trigger": None},
        {"sequence": "7"},
        {"sequence": 7.5},
        {"sequence": True},
        {"observed_at": None},
        {"model": 5},
        {"measurement_scope": "whole"},
        {"measurement_basis": "guessed"},
        {"usage": {"tokens": 1}},
        {"usage": {"cost_usd": "1"}},
        {"before_tokens": 1.5},
    ],
)
def test_an_unknown_or_ill_typed_field_of_the_observation_is_invalid_input(change: dict[str, Any]) -> None:
    value = {**msgspec.to_builtins(observation()), **change}
    body = {"session": "s", "expected_revision": 1, "observation": value}
    with pytest.raises(InvalidInput) as caught:
        decode_request(json.dumps(body).encode(), ObserveRequest, what="the input")
    assert "$.observation" in str(caught.value.details["location"])


@pytest.mark.parametrize("missing", ["compaction_id", "sequence", "observed_at", "trigger", "model", "source"])
def test_a_required_field_that_is_missing_is_named(missing: str) -> None:
    value = msgspec.to_builtins(observation())
    del value[missing]
    body = {"session": "s", "expected_revision": 1, "observation": value}
    with pytest.raises(InvalidInput) as caught:
        decode_request(json.dumps(body).encode(), ObserveRequest, what="the input")
    assert caught.value.details["expected"] == f"the field {missing}"


@pytest.mark.parametrize("policy", [{}, {"post_compaction_threshold_percent": None}, {"threshold": 50}])
def test_a_policy_object_needs_its_one_field(policy: dict[str, Any]) -> None:
    body = {
        "session": "s",
        "expected_revision": 1,
        "observation": msgspec.to_builtins(observation()),
        "policy": policy,
    }
    with pytest.raises(InvalidInput):
        decode_request(json.dumps(body).encode(), ObserveRequest, what="the input")


@pytest.mark.parametrize("more", [{"more": 1}, {"conversation": "x"}, {"expected_revision": -1}])
def test_an_unknown_field_or_a_negative_revision_of_the_request_is_refused(more: dict[str, Any]) -> None:
    body = {"session": "s", "expected_revision": 1, "observation": msgspec.to_builtins(observation()), **more}
    with pytest.raises(InvalidInput):
        decode_request(json.dumps(body).encode(), ObserveRequest, what="the input")


def test_the_largest_sequence_is_recorded_exactly(project: Project, session: str) -> None:
    report(project, session, sequence=2**63 - 1)
    found = look(project, session, include_observation=True).observation
    assert isinstance(found, Observation)
    assert found.sequence == 2**63 - 1


def test_a_secret_is_refused_before_every_other_rule(project: Project) -> None:
    secret = "ghp_" + "a1B2" * 9
    with pytest.raises(RuleViolation) as caught:
        report(project, "no-such-session", source=f"token {secret}", sequence=0)
    assert secret not in str(caught.value.report())


def test_bounds_come_before_the_session(project: Project) -> None:
    with pytest.raises(InvalidInput):
        report(project, "no-such-session", sequence=0)


def test_an_observation_from_the_future_is_refused(project: Project, session: str, clock: Clock) -> None:
    with pytest.raises(InvalidInput, match="sequence or time"):
        report(project, session, observed_at=clock.now + 1)


def test_a_policy_out_of_range_is_refused(project: Project, session: str) -> None:
    with pytest.raises(InvalidInput, match="threshold"):
        report(project, session, policy=Policy(101))


def test_an_unknown_session_is_not_found(project: Project) -> None:
    with pytest.raises(NotFound):
        report(project, "0" * 26)
    with pytest.raises(NotFound):
        look(project, "0" * 26)
    with pytest.raises(NotFound):
        put_off(project, "0" * 26, "x")


def test_a_session_of_another_project_is_not_found(project: Project, tmp_path: Path, clock: Clock) -> None:
    other = make_project(tmp_path / "other", clock=clock)
    foreign = begin_session(other)
    with pytest.raises(NotFound):
        report(project, foreign)


def test_a_session_without_work_takes_no_observation(project: Project) -> None:
    unbound = begin_session(project, work=None)
    with pytest.raises(InvalidInput, match="bound to work"):
        report(project, unbound)


def test_a_stale_revision_refuses_a_new_observation_and_writes_nothing(project: Project, session: str) -> None:
    now = revision(project)
    with pytest.raises(RevisionConflict) as caught:
        report(project, session, expected_revision=now - 1)
    assert (caught.value.details["expected"], caught.value.details["actual"]) == (now - 1, now)
    assert revision(project) == now


def test_an_exact_retry_writes_nothing_even_with_a_stale_revision(project: Project, session: str) -> None:
    stale = revision(project)
    first = report(project, session)
    again = report(project, session, expected_revision=stale)
    assert again.already_recorded is True
    assert again.recorded_event_id == first.recorded_event_id
    assert revision(project) == first.project_revision


def test_a_retry_with_nulls_written_out_is_the_same_observation(project: Project, session: str) -> None:
    value = msgspec.to_builtins(observation())
    body = {"session": session, "expected_revision": revision(project), "observation": value}
    observe(project, decode_request(json.dumps(body).encode(), ObserveRequest, what="x"))
    absent = {name: part for name, part in value.items() if part is not None}
    again = observe(
        project, decode_request(json.dumps({**body, "observation": absent}).encode(), ObserveRequest, what="x")
    )
    assert again.already_recorded is True


def test_a_retry_with_another_value_conflicts(project: Project, session: str) -> None:
    report(project, session)
    for changes in ({"after_tokens": 1}, {"usage": Usage()}, {"model": "other"}, {"duration_ms": 0}):
        with pytest.raises(SourceConflict, match="other values"):
            report(project, session, **changes)


def test_a_retry_with_another_policy_conflicts(project: Project, session: str) -> None:
    report(project, session)
    with pytest.raises(SourceConflict, match="other values"):
        report(project, session, policy=Policy(60))


def test_an_old_retry_with_a_lower_sequence_is_no_ordering_error(project: Project, session: str) -> None:
    first = report(project, session)
    report(project, session, compaction_id="c8", sequence=8)
    again = report(project, session)
    assert again.already_recorded is True
    assert again.recorded_event_id == first.recorded_event_id
    assert again.observation_event_id != first.observation_event_id


def test_the_same_compaction_id_in_another_session_is_another_observation(project: Project, session: str) -> None:
    other = begin_session(project)
    first = report(project, session)
    second = report(project, other)
    assert second.already_recorded is False
    assert first.recorded_event_id != second.recorded_event_id


@pytest.mark.parametrize("sequence", [7, 6, 1])
def test_a_sequence_that_does_not_increase_is_refused(project: Project, session: str, sequence: int) -> None:
    report(project, session)
    before = revision(project)
    with pytest.raises(SourceConflict, match="comes before"):
        report(project, session, compaction_id="another", sequence=sequence)
    assert revision(project) == before


def test_a_gap_in_the_sequence_and_an_equal_time_are_fine(project: Project, session: str) -> None:
    report(project, session)
    assert report(project, session, compaction_id="c99", sequence=99).already_recorded is False


def test_a_time_that_goes_back_is_refused(project: Project, session: str) -> None:
    report(project, session)
    with pytest.raises(SourceConflict, match="comes before"):
        report(project, session, compaction_id="c8", sequence=8, observed_at=1_789_499_999_999)


def test_a_session_that_ended_takes_no_new_observation(project: Project, session: str) -> None:
    close(project, session)
    before = revision(project)
    with pytest.raises(InvalidTransition):
        report(project, session)
    assert revision(project) == before


def test_a_retry_still_works_on_a_session_that_ended(project: Project, session: str) -> None:
    first = report(project, session)
    close(project, session)
    again = report(project, session, expected_revision=0)
    assert again.already_recorded is True
    assert again.recorded_event_id == first.recorded_event_id


def test_the_revision_is_named_before_inactivity_and_inactivity_before_order(project: Project, session: str) -> None:
    report(project, session)
    close(project, session)
    with pytest.raises(RevisionConflict):
        report(project, session, expected_revision=0, compaction_id="older", sequence=1)
    with pytest.raises(InvalidTransition):
        report(project, session, compaction_id="older", sequence=1)


def test_inspecting_an_ended_session_keeps_the_state_and_guards_the_card(project: Project, session: str) -> None:
    report(project, session)
    close(project, session)
    result = look(project, session)
    assert result.state == "handoff_candidate"
    assert "ended" in result.guidance.when
    assert "resume" in result.guidance.next_action


def test_inspecting_writes_nothing(project: Project, session: str) -> None:
    report(project, session)
    before = project.journal.path.read_bytes()
    result = look(project, session)
    assert project.journal.path.read_bytes() == before
    assert result.read_only is True
    assert result.recorded_event_id is msgspec.UNSET


def test_a_session_without_observations_has_a_missing_measurement(project: Project, session: str) -> None:
    result = look(project, session, include_observation=True)
    assert result.state == "measurement_missing"
    assert result.observation_event_id is None
    assert result.observation is None
    assert result.previous_observation is None
    assert result.policy.post_compaction_threshold_percent == 50


@pytest.mark.parametrize(
    "changes",
    [
        {"measurement_basis": "estimated"},
        {"measurement_scope": "history_only"},
        {"measurement_scope": "unknown"},
        {"after_tokens": None},
        {"context_window_tokens": None},
    ],
)
def test_without_a_usable_measurement_the_state_says_so(
    project: Project, session: str, changes: dict[str, Any]
) -> None:
    result = report(project, session, **changes)
    assert result.state == "measurement_missing"
    assert result.post_compaction_percent is None


def test_a_manual_compaction_is_kept_apart(project: Project, session: str) -> None:
    assert report(project, session, trigger="manual").state == "manual_observation"


def test_the_difference_needs_two_comparable_observations(project: Project, session: str) -> None:
    report(project, session)
    result = report(project, session, compaction_id="c8", sequence=8, after_tokens=128_000)
    assert result.previous_delta_percentage_points == -4.6875
    assert "same model and window" in result.guidance.when
    changed = report(project, session, compaction_id="c9", sequence=9, context_window_tokens=200_000)
    assert changed.previous_delta_percentage_points is None
    assert changed.state == "handoff_candidate"
    assert "same model" not in changed.guidance.when


def test_including_observations_returns_the_latest_two(project: Project, session: str) -> None:
    for number in (7, 8, 9):
        report(project, session, compaction_id=f"c{number}", sequence=number)
    result = look(project, session, include_observation=True)
    assert isinstance(result.observation, Observation)
    assert isinstance(result.previous_observation, Observation)
    assert (result.observation.sequence, result.previous_observation.sequence) == (9, 8)
    assert result.deferral_event_id is None
    assert isinstance(result.measurement_basis, str)
    assert "not verified" in result.measurement_basis


def test_the_json_of_a_plain_inspection_has_exactly_the_documented_fields(project: Project, session: str) -> None:
    report(project, session)
    plain = json.loads(msgspec.json.encode(look(project, session)))
    assert set(plain) == {
        "ok",
        "version",
        "read_only",
        "project_revision",
        "project_id",
        "freshness_basis",
        "session",
        "state",
        "observation_event_id",
        "post_compaction_percent",
        "previous_delta_percentage_points",
        "policy",
        "guidance",
        "native_compaction",
        "session_switch_performed",
    }
    assert (plain["ok"], plain["version"], plain["freshness_basis"]) == (True, 1, "runtime_records_only")
    full = json.loads(msgspec.json.encode(look(project, session, include_observation=True)))
    added = {"observation", "previous_observation", "deferral_event_id", "measurement_basis"}
    assert set(full) - set(plain) == added


def test_deferring_the_latest_observation_silences_it(project: Project, session: str) -> None:
    observed = report(project, session)
    result = put_off(project, session, str(observed.observation_event_id))
    assert result.state == "deferred"
    assert result.observation_event_id == observed.observation_event_id
    assert result.recorded_event_id != observed.observation_event_id
    assert result.already_recorded is False
    assert result.project_revision == observed.project_revision + 1
    assert look(project, session, include_observation=True).deferral_event_id == result.recorded_event_id


def test_a_deferral_retry_writes_nothing_whatever_the_revision(project: Project, session: str) -> None:
    event = str(report(project, session).observation_event_id)
    first = put_off(project, session, event)
    again = put_off(project, session, event, expected_revision=0)
    assert again.already_recorded is True
    assert again.recorded_event_id == first.recorded_event_id
    assert revision(project) == first.project_revision


def test_a_deferral_lapses_with_the_next_observation(project: Project, session: str) -> None:
    event = str(report(project, session).observation_event_id)
    put_off(project, session, event)
    assert report(project, session, compaction_id="c8", sequence=8).state == "handoff_candidate"


def test_an_old_deferral_retry_cannot_silence_a_newer_observation(project: Project, session: str) -> None:
    event = str(report(project, session).observation_event_id)
    put_off(project, session, event)
    newer = report(project, session, compaction_id="c8", sequence=8)
    again = put_off(project, session, event, expected_revision=0)
    assert again.already_recorded is True
    assert again.state == "handoff_candidate"
    assert again.observation_event_id == newer.observation_event_id


def test_only_the_latest_observation_can_be_deferred(project: Project, session: str) -> None:
    event = str(report(project, session).observation_event_id)
    report(project, session, compaction_id="c8", sequence=8)
    for wrong in (event, "0" * 26):
        with pytest.raises(SourceConflict, match="latest"):
            put_off(project, session, wrong)


def test_a_deferral_with_a_stale_revision_is_refused(project: Project, session: str) -> None:
    event = str(report(project, session).observation_event_id)
    with pytest.raises(RevisionConflict):
        put_off(project, session, event, expected_revision=1)


def test_a_session_that_ended_takes_no_new_deferral(project: Project, session: str) -> None:
    event = str(report(project, session).observation_event_id)
    close(project, session)
    with pytest.raises(InvalidTransition):
        put_off(project, session, event)


def test_another_sessions_observation_cannot_be_deferred_here(project: Project, session: str) -> None:
    event = str(report(project, session).observation_event_id)
    other = begin_session(project)
    report(project, other)
    with pytest.raises(SourceConflict, match="latest"):
        put_off(project, other, event)


def test_a_generic_append_cannot_forge_an_observation(project: Project, session: str) -> None:
    before = revision(project)
    for event_type in ("client.compaction_observed", "client.compaction_deferred"):
        request = AppendRequest(event_type=event_type, summary="forged", session=session, expected_revision=before)
        with pytest.raises(InvalidInput, match="reserved"):
            append(project, request)
    assert revision(project) == before


def test_observing_changes_no_session_and_no_work(project: Project, session: str) -> None:
    with project.journal.read() as reader:
        before = (
            reader.database.rows("SELECT * FROM sessions"),
            reader.database.rows("SELECT * FROM contents"),
        )
    report(project, session)
    with project.journal.read() as reader:
        after = (
            reader.database.rows("SELECT * FROM sessions"),
            reader.database.rows("SELECT * FROM contents"),
        )
    assert [[tuple(row) for row in rows] for rows in before] == [[tuple(row) for row in rows] for rows in after]


def test_an_observation_needs_neither_fresh_sources_nor_a_claim(project: Project, session: str) -> None:
    (project.root / "work-ledger.yaml").unlink()
    assert report(project, session).already_recorded is False


def test_an_unknown_outcome_and_an_open_wait_come_before_the_compactions_own_card(
    project: Project, session: str
) -> None:
    report(project, session)
    asked = wait(
        project,
        WaitRequest(
            session=session,
            question="Go on?",
            context_hash="ab" * 32,
            digest="d",
            next_action="n",
            expected_revision=revision(project),
        ),
    ).wait
    waiting = look(project, session)
    assert waiting.state == "handoff_candidate"
    assert "Do not repeat the request" in waiting.guidance.next_action
    announced = register(
        project,
        RegisterRequest(session=session, operation_key="k", purpose="p", expected_revision=revision(project)),
    )
    started = Report(
        request_key="r",
        execution_id=announced.execution.id,
        host_id="h",
        host_work_key="w",
        native_session="n",
        agent_id="a",
        origin="host_observed",
        phase="started",
        observed_at=1,
        summary="s",
    )
    report_execution(project, ReportRequest(report=started, expected_revision=revision(project)))
    assert "Query execution status" in look(project, session).guidance.next_action
    done = msgspec.structs.replace(started, request_key="r2", phase="succeeded")
    report_execution(project, ReportRequest(report=done, expected_revision=revision(project)))
    reply(project, ReplyRequest(wait=asked.id, reply="Yes", expected_revision=revision(project)))
    assert "ask before opening" in look(project, session).guidance.next_action
