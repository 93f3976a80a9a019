"""Work changes its state in the ledger and in the journal, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from awr.errors import (
    AwrError,
    ClaimConflict,
    DependencyBlocked,
    InvalidInput,
    InvalidTransition,
    MutationConflict,
    MutationUnsupported,
    NotFound,
    RevisionConflict,
    RuleViolation,
    SourceStale,
)
from awr.journal.sessions import claims_of_session
from awr.journal.verification import verify
from awr.operations import mutation
from awr.operations.checkpoint import ReplyRequest, WaitRequest, reply, wait
from awr.operations.claim import ClaimRequest, claim
from awr.operations.journal import RebuildRequest, rebuild
from awr.operations.mutation import ProposalReport
from awr.operations.session import EndRequest, StartRequest, end, start
from awr.operations.transition import (
    BlockRequest,
    CancelRequest,
    ProgressRequest,
    ReopenRequest,
    UnblockRequest,
    block,
    cancel,
    progress,
    reopen,
    unblock,
)
from awr.operations.work import ShowRequest, show
from awr.project import Project
from awr.sources.writeback import install, location_of, source_lock
from tests.support.projects import LEDGER, Clock, begin_session, make_project, revision

HASH = "a" * 64


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "p")


def go_on(project: Project, session: str | None, **changes: Any) -> ProposalReport:
    stated = {"work": "parse", "reason": "begun", "next_action": "Write it", "expected_revision": revision(project)}
    return progress(project, ProgressRequest(session=session, **{**stated, **changes}))


def status_of(project: Project, work: str = "parse") -> str:
    return show(project, ShowRequest(work=work)).work.status


def ledger(project: Project) -> str:
    return (project.root / "work-ledger.yaml").read_text()


def types_after(project: Project, position: int) -> list[tuple[str, int]]:
    with project.journal.read() as reader:
        rows = reader.database.rows(
            "SELECT event_type, project_revision FROM events WHERE project_revision > ? ORDER BY position",
            (position,),
        )
    return [tuple(row) for row in rows]


def require_untouched(
    project: Project, act: Callable[[], object], error: type[AwrError], *, page: str = LEDGER
) -> Any:
    """Run an action that must be refused, and prove that neither the ledger nor the journal moved."""
    before = revision(project)
    with pytest.raises(error) as caught:
        act()
    assert ledger(project) == page
    assert revision(project) == before
    return caught.value


def test_work_goes_through_its_whole_life_in_ledger_and_journal(project: Project) -> None:
    session = begin_session(project, claim=True)
    report = go_on(project, session, summary="Parse what comes")
    assert (report.ok, report.code, report.write_outcome) == (True, "proposal_recorded", "applied")
    assert (report.proposal.status, report.proposal.mutation_type) == ("applied", "work.progress")
    assert (report.source_refresh_performed, report.source_write_performed) == (True, True)
    assert report.project_revision == revision(project)
    assert types_after(project, 3) == [
        ("proposal.created", 4),
        ("proposal.ready", 4),
        ("proposal.approved", 4),
        ("proposal.apply_started", 4),
        ("source.projected", 5),
        ("proposal.applied", 6),
        ("work.progressed", 6),
    ]
    common = {"work": "parse", "session": session, "reason": "so"}
    block(project, BlockRequest(**common, blocker="No host", expected_revision=revision(project)))
    assert (status_of(project), "blocker: No host\n" in ledger(project)) == ("blocked", True)
    unblock(project, UnblockRequest(**common, next_action="Deploy", expected_revision=revision(project)))
    assert (status_of(project), "blocker: null\n" in ledger(project)) == ("in_progress", True)
    cancelled = cancel(project, CancelRequest(**common, expected_revision=revision(project)))
    assert status_of(project) == "cancelled"
    assert types_after(project, cancelled.project_revision - 1) == [
        ("proposal.applied", cancelled.project_revision),
        ("work.cancelled", cancelled.project_revision),
        ("claim.released", cancelled.project_revision),
    ]
    reopen(project, ReopenRequest(**common, next_action="Again", expected_revision=revision(project)))
    assert status_of(project) == "planned"
    with project.journal.read() as reader:
        assert verify(reader.database).broken is None
        assert [one.status for one in claims_of_session(reader.database, session)] == ["released"]
    assert set(rebuild(project, RebuildRequest()).rows_corrected.values()) == {0}


def test_only_the_entry_itself_changes(project: Project) -> None:
    session = begin_session(project, claim=True)
    go_on(project, session)
    assert ledger(project) == LEDGER.replace("status: planned\n    goal", "status: in_progress\n    goal").replace(
        "Write the grammar", "Write it"
    )


def test_the_reason_stands_in_the_event_and_not_in_the_ledger(project: Project) -> None:
    session = begin_session(project, claim=True)
    report = go_on(project, session, reason="because of the samples")
    assert report.event is not None
    with project.journal.read() as reader:
        row = reader.database.row("SELECT payload FROM events WHERE id = ?", (report.event.id,))
    assert row is not None
    assert "because of the samples" in row["payload"]
    assert "because" not in ledger(project)


def test_the_only_active_session_of_the_work_is_found_without_its_name(project: Project) -> None:
    session = begin_session(project, claim=True)
    assert go_on(project, None).proposal.created_by_session == session


def test_a_stale_revision_is_refused_and_nothing_is_written(project: Project) -> None:
    session = begin_session(project, claim=True)
    require_untouched(project, lambda: go_on(project, session, expected_revision=2), RevisionConflict)


def test_a_ledger_edited_since_the_revision_was_read_is_refused(project: Project) -> None:
    session = begin_session(project, claim=True)
    page = LEDGER + "# edited\n"
    (project.root / "work-ledger.yaml").write_text(page)
    with pytest.raises(RevisionConflict):
        go_on(project, session, expected_revision=3)
    assert ledger(project) == page
    assert go_on(project, session).ok
    assert ledger(project).endswith("# edited\n")


def test_a_ledger_edited_between_the_look_and_the_write_is_left_as_its_editor_wrote_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = begin_session(project, claim=True)
    page = LEDGER + "# edited\n"

    def edited_now(*arguments: Any) -> Any:
        (project.root / "work-ledger.yaml").write_text(page)
        return location_of(*arguments)

    monkeypatch.setattr(mutation, "location_of", edited_now)
    require_untouched(project, lambda: go_on(project, session), MutationConflict, page=page)


def test_a_ledger_edited_right_before_it_is_replaced_ends_the_proposal_as_a_conflict(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = begin_session(project, claim=True)
    page = LEDGER + "# edited\n"

    def edited_now(*arguments: Any, **named: Any) -> None:
        (project.root / "work-ledger.yaml").write_text(page)
        install(*arguments, **named)

    monkeypatch.setattr(mutation, "install", edited_now)
    with pytest.raises(MutationConflict):
        go_on(project, session)
    monkeypatch.undo()
    assert ledger(project) == page
    assert types_after(project, 4) == [("proposal.conflicted", 5)]
    assert status_of(project) == "planned"
    assert go_on(project, session).proposal.status == "applied"


def test_a_source_that_another_process_writes_to_is_a_conflict(project: Project) -> None:
    session = begin_session(project, claim=True)
    with project.journal.read() as reader:
        row = reader.database.row("SELECT id FROM sources")
    assert row is not None
    with source_lock(project, row["id"]):
        require_untouched(project, lambda: go_on(project, session), MutationConflict)


def test_a_broken_ledger_is_stale_and_left_as_it_is(project: Project) -> None:
    session = begin_session(project, claim=True)
    (project.root / "work-ledger.yaml").write_text("work_items: [\n")
    with pytest.raises(SourceStale):
        go_on(project, session)
    assert ledger(project) == "work_items: [\n"


def test_work_that_does_not_exist_is_not_found(project: Project) -> None:
    session = begin_session(project, claim=True)
    require_untouched(project, lambda: go_on(project, session, work="none"), NotFound)


@pytest.mark.parametrize(
    "wrong", [{"reason": " "}, {"next_action": ""}, {"summary": "x" * 16385}, {"reason": "\x00"}]
)
def test_a_text_that_breaks_its_bound_is_refused(project: Project, wrong: dict[str, str]) -> None:
    session = begin_session(project, claim=True)
    require_untouched(project, lambda: go_on(project, session, **wrong), InvalidInput)


@pytest.mark.parametrize("name", ["reason", "next_action", "summary"])
def test_a_secret_in_any_text_is_refused_and_not_repeated(project: Project, name: str) -> None:
    session = begin_session(project, claim=True)
    secret = "ghp_" + "a1B2" * 9
    error = require_untouched(project, lambda: go_on(project, session, **{name: secret}), RuleViolation)
    assert secret not in str(error.report())


def test_a_session_of_other_work_is_refused(project: Project) -> None:
    begin_session(project, claim=True)
    other = begin_session(project, work="report")
    require_untouched(project, lambda: go_on(project, other), RuleViolation)


def test_a_session_that_is_over_is_refused(project: Project) -> None:
    session = begin_session(project, claim=True)
    end(project, EndRequest(session=session, expected_revision=revision(project)))
    require_untouched(project, lambda: go_on(project, session), InvalidTransition)


def test_a_session_without_a_claim_may_not_progress_but_may_cancel(project: Project) -> None:
    session = begin_session(project)
    require_untouched(project, lambda: go_on(project, session), InvalidTransition)
    request = CancelRequest(work="parse", session=session, reason="no", expected_revision=revision(project))
    assert cancel(project, request).proposal.status == "applied"


def test_a_claim_of_another_session_stops_every_action(project: Project) -> None:
    begin_session(project, claim=True)
    other = begin_session(project)
    require_untouched(project, lambda: go_on(project, other), ClaimConflict)
    request = CancelRequest(work="parse", session=other, reason="no", expected_revision=revision(project))
    require_untouched(project, lambda: cancel(project, request), ClaimConflict)


def test_a_claim_that_has_lapsed_is_no_claim_for_anybody(tmp_path: Path) -> None:
    clock = Clock()
    project = make_project(tmp_path / "p", clock=clock)
    request = StartRequest(
        agent="a", provider="p", model="m", work="parse", claim=True, ttl_ms=1000, expected_revision=2
    )
    session = start(project, request).session.id
    clock.now += 1000
    require_untouched(project, lambda: go_on(project, session), InvalidTransition)
    other = begin_session(project)
    claim(project, ClaimRequest(work="parse", session=other, expected_revision=revision(project)))
    assert go_on(project, other).ok


def test_a_claim_that_lapses_during_the_write_does_not_stop_it_and_is_closed_as_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    page = LEDGER.replace("status: planned", "status: in_progress", 1)
    project = make_project(tmp_path / "p", clock=clock, ledger=page)
    request = StartRequest(
        agent="a", provider="p", model="m", work="parse", claim=True, ttl_ms=1000, expected_revision=2
    )
    session = start(project, request).session.id

    def slow(*arguments: Any, **named: Any) -> None:
        clock.now += 5000
        install(*arguments, **named)

    monkeypatch.setattr(mutation, "install", slow)
    report = cancel(
        project, CancelRequest(work="parse", session=session, reason="no", expected_revision=revision(project))
    )
    assert report.proposal.status == "applied"
    assert types_after(project, report.project_revision - 1)[-1][0] == "claim.expired"


def test_unfinished_dependencies_stop_progress_and_are_named(project: Project) -> None:
    page = LEDGER.replace(
        "title: Report errors\n    status: planned", "title: Report errors\n    status: in_progress"
    )
    (project.root / "work-ledger.yaml").write_text(page.replace("depends_on: [parse]", "depends_on: []"))
    show(project, ShowRequest(work="report"))
    session = begin_session(project, work="report", claim=True)
    (project.root / "work-ledger.yaml").write_text(page)
    show(project, ShowRequest(work="report"))
    error = require_untouched(project, lambda: go_on(project, session, work="report"), DependencyBlocked, page=page)
    assert [one["code"] for one in error.details["diagnostics"]] == ["dependency_not_completed"]
    request = BlockRequest(
        work="report", session=session, reason="r", blocker="parse first", expected_revision=revision(project)
    )
    assert block(project, request).proposal.status == "applied"


def test_the_items_own_blocker_stops_progress_and_not_unblock(project: Project) -> None:
    session = begin_session(project, claim=True)
    page = LEDGER.replace("    goal: goal-1\n", "    goal: goal-1\n    blocker: no host\n")
    (project.root / "work-ledger.yaml").write_text(page)
    show(project, ShowRequest(work="parse"))
    error = require_untouched(project, lambda: go_on(project, session), DependencyBlocked, page=page)
    assert error.details["got"] == "active_blocker"
    blocked = page.replace("status: planned\n    goal", "status: blocked\n    goal")
    (project.root / "work-ledger.yaml").write_text(blocked)
    show(project, ShowRequest(work="parse"))
    request = UnblockRequest(
        work="parse", session=session, reason="r", next_action="Go", expected_revision=revision(project)
    )
    assert unblock(project, request).proposal.status == "applied"


def test_a_draft_has_to_be_activated_first(tmp_path: Path) -> None:
    page = LEDGER.replace("status: planned", "status: draft", 1)
    project = make_project(tmp_path / "p", ledger=page)
    session = begin_session(project)
    request = CancelRequest(work="parse", session=session, reason="no", expected_revision=revision(project))
    error = require_untouched(project, lambda: cancel(project, request), InvalidTransition, page=page)
    assert "activate" in error.details["next_step"]


def test_an_open_question_to_the_user_stops_every_action_until_it_is_answered(project: Project) -> None:
    session = begin_session(project, claim=True)
    asked = wait(
        project,
        WaitRequest(
            session=session,
            question="Ship it?",
            context_hash=HASH,
            digest="Built",
            next_action="Ship",
            expected_revision=revision(project),
        ),
    )
    require_untouched(project, lambda: go_on(project, session), InvalidTransition)
    reply(project, ReplyRequest(wait=asked.wait.id, reply="Yes", expected_revision=revision(project)))
    assert go_on(project, session).ok


def test_an_entry_that_cannot_be_edited_alone_is_unsupported_and_nothing_is_written(tmp_path: Path) -> None:
    page = "work_items:\n- &x\n  id: parse\n  status: planned\n"
    project = make_project(tmp_path / "p", ledger=page)
    session = begin_session(project, claim=True)
    require_untouched(project, lambda: go_on(project, session), MutationUnsupported, page=page)
    assert not [path for path in (project.folder / "mutations").iterdir() if path.is_dir()]


def test_saying_the_same_again_is_recorded_and_leaves_the_ledger_alone(project: Project) -> None:
    session = begin_session(project, claim=True)
    go_on(project, session)
    page = ledger(project)
    report = go_on(project, session, reason="still at it")
    assert report.proposal.status == "applied"
    assert ledger(project) == page
