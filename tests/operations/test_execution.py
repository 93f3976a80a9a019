"""What runs outside AWR: announced once, reported by its host, and never retried while its outcome is unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from awr.domain.execution import Phase, Report
from awr.errors import InvalidInput, InvalidTransition, NotFound, RevisionConflict, RuleViolation, SourceConflict
from awr.operations.execution import (
    ExecutionResult,
    ListRequest,
    RegisterRequest,
    ReportRequest,
    ReportResult,
    ShowRequest,
    listing,
    register,
    report,
    show,
)
from awr.operations.session import EndRequest, end
from awr.project import Project
from tests.support.projects import Clock, begin_session, make_project, revision


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "p", clock=Clock())


@pytest.fixture
def session(project: Project) -> str:
    return begin_session(project)


def announce(project: Project, session: str, **fields: Any) -> ExecutionResult:
    given = {"operation_key": "deploy-7", "purpose": "Deploy", "expected_revision": revision(project), **fields}
    return register(project, RegisterRequest(session=session, **given))


def say(project: Project, execution: str, phase: Phase, *, key: str = "r1", **fields: Any) -> ReportResult:
    now = {"expected_revision": fields.pop("expected_revision", revision(project))}
    given = {
        "request_key": key,
        "execution_id": execution,
        "host_id": "ci",
        "host_work_key": "job-1",
        "native_session": "n",
        "agent_id": "a",
        "origin": "host_observed",
        "phase": phase,
        "observed_at": 1_789_500_000_000,
        "summary": "as the host says",
        **fields,
    }
    return report(project, ReportRequest(report=Report(**given), **now))


def test_an_execution_is_registered_and_not_uncertain_before_a_report(project: Project, session: str) -> None:
    result = announce(project, session, command=("make", "deploy"))
    assert (result.execution.state, result.execution.latest_phase, result.uncertain) == ("registered", None, False)
    assert result.execution.intent.command == ("make", "deploy")


def test_the_same_key_and_intent_return_the_record_whatever_the_revision(project: Project, session: str) -> None:
    first = announce(project, session)
    again = announce(project, session, expected_revision=0)
    assert (again.execution.id, again.already_registered) == (first.execution.id, True)
    assert revision(project) == first.project_revision


def test_the_same_key_with_another_intent_conflicts(project: Project, session: str) -> None:
    announce(project, session)
    with pytest.raises(SourceConflict):
        announce(project, session, purpose="Something else")
    with pytest.raises(SourceConflict):
        announce(project, begin_session(project, work="report"))


@pytest.mark.parametrize(
    ("phase", "uncertain"),
    [
        ("started", True),
        ("progress", True),
        ("waiting_user", True),
        ("interrupted", True),
        ("unknown", True),
        ("succeeded", False),
        ("failed", False),
    ],
)
def test_an_outcome_is_known_only_after_success_or_failure(
    project: Project, session: str, phase: Phase, uncertain: bool
) -> None:
    execution = announce(project, session).execution.id
    assert say(project, execution, phase).uncertain is uncertain
    (listed,) = listing(project, ListRequest(work="parse")).executions
    assert (listed.execution.latest_phase, listed.uncertain) == (phase, uncertain)


def test_an_exact_report_is_recorded_once_and_a_changed_one_conflicts(project: Project, session: str) -> None:
    execution = announce(project, session).execution.id
    first = say(project, execution, "started")
    again = say(project, execution, "started", expected_revision=0)
    assert (again.already_recorded, again.event_id) == (True, first.event_id)
    assert revision(project) == first.project_revision
    with pytest.raises(SourceConflict):
        say(project, execution, "succeeded")


def test_reports_are_shown_in_the_order_they_came(project: Project, session: str) -> None:
    execution = announce(project, session).execution.id
    say(project, execution, "started", key="r1")
    say(project, execution, "succeeded", key="r2")
    shown = show(project, ShowRequest(execution=execution))
    assert [one.phase for one in shown.reports] == ["started", "succeeded"]
    assert shown.uncertain is False


@pytest.mark.parametrize(
    "fields",
    [
        {"operation_key": ""},
        {"operation_key": "k" * 513},
        {"purpose": " "},
        {"purpose": "p" * 8193},
        {"command": ("x",) * 257},
        {"command": ("x" * 8193,)},
    ],
)
def test_an_intent_outside_its_bounds_is_refused(project: Project, session: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        announce(project, session, **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"host_id": ""},
        {"request_key": "k" * 513},
        {"summary": ""},
        {"summary": "s" * 8193},
        {"observed_at": 0},
        {"observed_at": 2**60},
        {"detail_references": ("r",) * 33},
        {"detail_references": ("r" * 4097,)},
    ],
)
def test_a_report_outside_its_bounds_is_refused(project: Project, session: str, fields: dict[str, Any]) -> None:
    execution = announce(project, session).execution.id
    with pytest.raises(InvalidInput):
        say(project, execution, "started", **{"key": fields.pop("request_key", "r1"), **fields})


def test_what_is_unknown_stale_or_over_is_refused(project: Project, session: str) -> None:
    with pytest.raises(NotFound):
        say(project, "0" * 26, "started")
    with pytest.raises(NotFound):
        show(project, ShowRequest(execution="0" * 26))
    with pytest.raises(RevisionConflict):
        announce(project, session, expected_revision=1)
    with pytest.raises(InvalidInput):
        announce(project, begin_session(project, work=None))
    end(project, EndRequest(session=session, expected_revision=revision(project)))
    with pytest.raises(InvalidTransition):
        announce(project, session)


def test_a_secret_in_a_command_is_refused(project: Project, session: str) -> None:
    with pytest.raises(RuleViolation):
        announce(project, session, command=("curl", "-H", "Authorization: Bearer " + "abcDEF123456" * 3))
