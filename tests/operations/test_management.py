"""Recording how closely work has to be managed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from awr.errors import InvalidTransition, RevisionConflict, RuleViolation, SourceConflict
from awr.operations.management import Assessment, AssessRequest, ManageRequest, ManageResult, assess, manage
from awr.operations.session import EndRequest, end
from awr.project import Project
from awr.sources.index import refresh
from tests.domain.test_management import SIMPLE
from tests.support.projects import begin_session, make_project, revision


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "p")


@pytest.fixture
def session(project: Project) -> str:
    return begin_session(project)


def look(project: Project) -> Assessment:
    return assess(project, AssessRequest(work="parse")).assessment


def record(project: Project, session: str, *, key: str = "m1", **fields: Any) -> ManageResult:
    given = {
        "expected_revision": revision(project),
        "contract_fingerprint": look(project).contract_fingerprint,
        "observation": SIMPLE,
        **fields,
    }
    return manage(project, ManageRequest(work="parse", session=session, request_key=key, **given))


def test_without_a_record_one_is_required(project: Project) -> None:
    found = look(project)
    assert (found.decision.mode, found.record_required, found.observation) == ("undetermined", True, None)
    assert found.source_ref == "work-ledger.yaml:6"


def test_a_recorded_observation_is_what_the_next_assessment_rests_on(project: Project, session: str) -> None:
    result = record(project, session)
    assert result.assessment.decision.mode == "lightweight"
    found = look(project)
    assert (found.record_required, found.observation) == (False, SIMPLE)
    assert found.observation_event == result.event_id
    assert found.observer == {"session_id": session, "agent_id": "tester"}


def test_an_exact_retry_answers_with_the_original_and_a_changed_one_conflicts(project: Project, session: str) -> None:
    first = record(project, session)
    again = record(project, session, expected_revision=0)
    assert (again.already_recorded, again.event_id) == (True, first.event_id)
    assert again.assessment == first.assessment
    with pytest.raises(SourceConflict):
        record(project, session, observation=msgspec.structs.replace(SIMPLE, note="another"))


def test_continuous_management_is_never_taken_back(project: Project, session: str) -> None:
    record(project, session, observation=msgspec.structs.replace(SIMPLE, bounded_scope=False))
    result = record(project, session, key="m2")
    assert result.assessment.decision.mode == "continuous"
    assert [one.code for one in result.assessment.decision.reasons] == ["continuous_management_retained"]


def test_a_contract_that_changed_needs_a_new_assessment(project: Project, session: str) -> None:
    old = look(project).contract_fingerprint
    record(project, session)
    ledger = project.root / "work-ledger.yaml"
    ledger.write_text(ledger.read_text().replace("Every sample parses", "Every file parses"))
    refresh(project)
    assert look(project).record_required is True
    with pytest.raises(SourceConflict):
        record(project, session, key="m2", contract_fingerprint=old)
    reasons = record(project, session, key="m3").assessment.decision.reasons
    assert [one.code for one in reasons] == ["work_contract_changed"]


def test_a_session_of_other_work_an_ended_one_and_a_stale_revision_are_refused(
    project: Project, session: str
) -> None:
    with pytest.raises(RuleViolation):
        record(project, begin_session(project, work="report"))
    with pytest.raises(RevisionConflict):
        record(project, session, expected_revision=1)
    end(project, EndRequest(session=session, expected_revision=revision(project)))
    with pytest.raises(InvalidTransition):
        record(project, session)


def test_a_secret_in_the_note_is_refused(project: Project, session: str) -> None:
    note = "works with password: hunter2-Swordfish9"
    with pytest.raises(RuleViolation):
        record(project, session, observation=msgspec.structs.replace(SIMPLE, note=note))
