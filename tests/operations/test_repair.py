"""Each repair closes one record, says why, and refuses what needs none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from awr.domain.session import Claim
from awr.errors import InvalidInput, InvalidTransition, NotFound, RevisionConflict, RuleViolation
from awr.journal.checkpoints import unfinished_attempts
from awr.journal.events import event_by_id
from awr.journal.sessions import claims_of_session, session_by_id
from awr.journal.verification import verify
from awr.operations.journal import RebuildRequest, rebuild
from awr.operations.repair import RepairRequest, RepairResult, repair
from awr.operations.session import StartRequest, start
from awr.project import Project
from tests.support.cli import call
from tests.support.projects import Clock, begin_session, make_project, revision


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def project(tmp_path: Path, clock: Clock) -> Project:
    return make_project(tmp_path / "project", clock=clock)


def claimed(project: Project, *, ttl_ms: int | None = 10) -> Claim:
    request = StartRequest(
        agent="a", provider="p", model="m", work="parse", claim=True, ttl_ms=ttl_ms, expected_revision=2
    )
    made = start(project, request).claim
    assert made is not None
    return made


def unfinished(project: Project, session: str) -> str:
    with project.journal.write() as writer:
        return writer.append(
            "checkpoint.started",
            {"save_schema": 1, "base_project_revision": writer.project_revision, "draft": {}},
            summary="Checkpoint started",
            session_id=session,
        ).id


def mend(
    project: Project, kind: Any, identifier: str, *, at: int | None = None, reason: str = "Gone"
) -> RepairResult:
    stated = revision(project) if at is None else at
    return repair(project, RepairRequest(repair=kind, id=identifier, expected_revision=stated, reason=reason))


def recorded(project: Project, event_id: str) -> tuple[str, dict[str, object]]:
    with project.journal.read() as reader:
        event = event_by_id(reader.database, event_id)
        assert verify(reader.database).broken is None
    assert event is not None
    return event.event_type, event.content()


def test_a_lapsed_claim_is_recorded_as_expired(project: Project, clock: Clock) -> None:
    claim = claimed(project)
    clock.now += 10
    result = mend(project, "expire-claim", claim.id)
    assert (result.project_revision, result.closed_claim_ids) == (4, (claim.id,))
    assert recorded(project, result.event_id) == ("claim.expired", {"claim_id": claim.id, "reason": "Gone"})
    with project.journal.read() as reader:
        assert [one.status for one in claims_of_session(reader.database, claim.session_id)] == ["expired"]


@pytest.mark.parametrize("ttl_ms", [10, None])
def test_a_claim_that_holds_is_left_alone(project: Project, ttl_ms: int | None) -> None:
    with pytest.raises(InvalidTransition):
        mend(project, "expire-claim", claimed(project, ttl_ms=ttl_ms).id)
    assert revision(project) == 3


def test_a_session_is_interrupted_and_its_claims_closed(project: Project) -> None:
    claim = claimed(project)
    result = mend(project, "interrupt-session", claim.session_id)
    assert result.closed_claim_ids == (claim.id,)
    kind, content = recorded(project, result.event_id)
    assert (kind, content["status"], content["reason"]) == ("session.interrupted", "interrupted", "Gone")
    with project.journal.read() as reader:
        session = session_by_id(reader.database, claim.session_id)
        assert (session.status, session.end_project_revision) == ("interrupted", result.project_revision)
        assert claims_of_session(reader.database, claim.session_id, active_only=True) == []


def test_an_unfinished_checkpoint_is_abandoned(project: Project) -> None:
    attempt = unfinished(project, begin_session(project))
    result = mend(project, "abandon-checkpoint", attempt)
    assert recorded(project, result.event_id) == (
        "checkpoint.abandoned",
        {"attempt_id": attempt, "reason": "Gone"},
    )
    with project.journal.read() as reader:
        assert unfinished_attempts(reader.database) == []


@pytest.mark.parametrize("kind", ["interrupt-session", "abandon-checkpoint"])
def test_a_second_repair_of_the_same_record_is_refused(project: Project, kind: str) -> None:
    session = begin_session(project)
    identifier = session if kind == "interrupt-session" else unfinished(project, session)
    mend(project, kind, identifier)
    with pytest.raises(InvalidTransition):
        mend(project, kind, identifier)


@pytest.mark.parametrize("kind", ["expire-claim", "interrupt-session", "abandon-checkpoint"])
def test_an_unknown_record_a_stale_revision_and_a_blank_reason_are_refused(project: Project, kind: str) -> None:
    with pytest.raises(NotFound) as raised:
        mend(project, kind, "zebra")
    assert "zebra" not in str(raised.value.report())
    with pytest.raises(RevisionConflict):
        mend(project, kind, "zebra", at=1)
    for reason in ("  ", "x" * 4097):
        with pytest.raises(InvalidInput):
            mend(project, kind, "zebra", reason=reason)
    with pytest.raises(RuleViolation) as secret:
        mend(project, kind, "zebra", reason="key sk-ant-0123456789abcdefghij")
    assert "0123" not in str(secret.value.report())
    assert revision(project) == 2


def test_repairs_are_rebuilt_from_the_journal(project: Project, clock: Clock) -> None:
    claim = claimed(project)
    clock.now += 10
    mend(project, "expire-claim", claim.id)
    mend(project, "abandon-checkpoint", unfinished(project, claim.session_id))
    mend(project, "interrupt-session", claim.session_id)
    assert not any(rebuild(project, RebuildRequest()).rows_corrected.values())


def test_stale_sources_do_not_matter(project: Project) -> None:
    session = begin_session(project)
    (project.root / "work-ledger.yaml").unlink()
    assert mend(project, "interrupt-session", session).ok


def test_a_repair_is_typed_as_the_doctor_prints_it(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    attempt = unfinished(project, begin_session(project))
    shown = call(capsys, "--project", project.root, "doctor").out
    line = next(line for line in shown.splitlines() if "repair: awr " in line)
    words = line.partition("repair: awr ")[2].replace("TEXT", "gone").split()
    done = call(capsys, "--project", project.root, "--json", *words).value()
    assert (done["repair"], done["id"]) == ("abandon-checkpoint", attempt)
    assert "Nothing is wrong" in call(capsys, "--project", project.root, "doctor").out
    refused = call(capsys, "--project", project.root, "--json", "doctor", "repair", "zebra", *words[3:])
    assert "zebra" not in refused.err
    refused.error("InvalidInput")
