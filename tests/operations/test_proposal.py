"""A begun write is shown as it stands, finished once, or given up."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

from awr.errors import (
    ClaimConflict,
    InvalidTransition,
    Io,
    MutationConflict,
    MutationIncomplete,
    NotFound,
    RevisionConflict,
    WorkActionIncomplete,
)
from awr.operations import mutation
from awr.operations.claim import ClaimRequest, claim
from awr.operations.proposal import RecoverRequest, ShowRequest, recover, show
from awr.operations.session import EndRequest, end
from awr.operations.transition import ProgressRequest, progress
from awr.project import Project
from tests.support.projects import LEDGER, begin_session, make_project, revision


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "p")


def failing(*_: Any, **__: Any) -> NoReturn:
    raise Io("the disk failed")


def left_behind(project: Project, monkeypatch: pytest.MonkeyPatch, *, step: str = "install") -> str:
    """Let a write fail at one step and return its proposal."""
    session = begin_session(project, claim=True)
    request = ProgressRequest(
        work="parse", session=session, reason="r", next_action="Go", expected_revision=revision(project)
    )
    monkeypatch.setattr(mutation, step, failing)
    with pytest.raises((MutationIncomplete, WorkActionIncomplete)) as caught:
        progress(project, request)
    monkeypatch.undo()
    return str(caught.value.details["proposal_id"])


def ledger(project: Project) -> Path:
    return project.root / "work-ledger.yaml"


def test_a_write_that_failed_is_shown_as_pending_and_recovered_once(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposal = left_behind(project, monkeypatch)
    shown = show(project, ShowRequest(proposal=proposal))
    assert (shown.write_outcome, shown.source_check) == ("pending_recovery", "equal_to_before")
    assert shown.source_write_performed is None
    assert ledger(project).read_text() == LEDGER
    report = recover(project, RecoverRequest(proposal=proposal, expected_revision=revision(project)))
    assert (report.write_outcome, report.proposal.status, report.read_only) == ("recovered", "applied", False)
    assert report.event is not None
    assert report.event.event_type == "work.progressed"
    assert "next_action: Go" in ledger(project).read_text()
    with pytest.raises(InvalidTransition):
        recover(project, RecoverRequest(proposal=proposal))
    again = show(project, ShowRequest(proposal=proposal))
    assert (again.write_outcome, again.source_check, again.source_write_performed) == ("applied", None, True)


def test_a_source_that_is_written_already_is_only_indexed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    proposal = left_behind(project, monkeypatch, step="refresh")
    written = ledger(project).stat()
    assert show(project, ShowRequest(proposal=proposal)).source_check == "equal_to_after"
    report = recover(project, RecoverRequest(proposal=proposal))
    assert report.proposal.status == "applied"
    assert ledger(project).stat().st_ino == written.st_ino


def test_an_action_whose_last_event_is_missing_says_so_and_is_recovered(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposal = left_behind(project, monkeypatch, step="_recorded")
    assert show(project, ShowRequest(proposal=proposal)).write_outcome == "pending_recovery"
    assert recover(project, RecoverRequest(proposal=proposal)).proposal.status == "applied"


def test_a_source_that_is_neither_ends_the_proposal_as_a_conflict(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposal = left_behind(project, monkeypatch)
    ledger(project).write_text(LEDGER + "# edited\n")
    assert show(project, ShowRequest(proposal=proposal)).source_check == "changed"
    with pytest.raises(MutationConflict):
        recover(project, RecoverRequest(proposal=proposal))
    assert ledger(project).read_text() == LEDGER + "# edited\n"
    shown = show(project, ShowRequest(proposal=proposal))
    assert (shown.proposal.status, shown.write_outcome) == ("conflict", "stopped")
    with pytest.raises(InvalidTransition):
        recover(project, RecoverRequest(proposal=proposal))


def test_a_source_that_is_gone_keeps_the_attempt_open_until_it_is_back(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposal = left_behind(project, monkeypatch)
    ledger(project).rename(project.root / "away")
    assert show(project, ShowRequest(proposal=proposal)).source_check == "unavailable"
    with pytest.raises(MutationIncomplete):
        recover(project, RecoverRequest(proposal=proposal))
    (project.root / "away").rename(ledger(project))
    assert recover(project, RecoverRequest(proposal=proposal)).proposal.status == "applied"


def test_a_snapshot_that_changed_is_never_installed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    proposal = left_behind(project, monkeypatch)
    (project.folder / "mutations" / proposal / "after.yaml").write_text("work_items: []\n")
    with pytest.raises(MutationConflict):
        recover(project, RecoverRequest(proposal=proposal))
    assert ledger(project).read_text() == LEDGER


def test_a_write_is_not_installed_under_another_sessions_claim(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposal = left_behind(project, monkeypatch)
    session = show(project, ShowRequest(proposal=proposal)).proposal.created_by_session
    assert session is not None
    end(project, EndRequest(session=session, expected_revision=revision(project)))
    other = begin_session(project)
    claim(project, ClaimRequest(work="parse", session=other, expected_revision=revision(project)))
    with pytest.raises(ClaimConflict):
        recover(project, RecoverRequest(proposal=proposal))
    assert ledger(project).read_text() == LEDGER
    end(project, EndRequest(session=other, expected_revision=revision(project)))
    assert recover(project, RecoverRequest(proposal=proposal)).proposal.status == "applied"


def test_a_stale_revision_stops_a_recovery(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    proposal = left_behind(project, monkeypatch)
    with pytest.raises(RevisionConflict):
        recover(project, RecoverRequest(proposal=proposal, expected_revision=2))


def test_a_proposal_that_does_not_exist_is_not_found(project: Project) -> None:
    with pytest.raises(NotFound):
        show(project, ShowRequest(proposal="NONE"))
    with pytest.raises(NotFound):
        recover(project, RecoverRequest(proposal="NONE"))
