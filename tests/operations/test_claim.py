"""One holder of a piece of work at a time, and an orderly way to another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from awr.errors import (
    AwrError,
    ClaimConflict,
    ContextIncomplete,
    DependencyBlocked,
    InvalidInput,
    InvalidTransition,
    NotFound,
    RevisionConflict,
    RuleViolation,
    SourceStale,
)
from awr.journal.events import events_in_order
from awr.operations.checkpoint import CheckpointRequest, checkpoint
from awr.operations.claim import (
    ClaimRequest,
    ClaimResult,
    HandoffRequest,
    HandoffResult,
    ReleaseRequest,
    claim,
    handoff,
    release,
)
from awr.operations.session import EndRequest, ShowRequest, end, show
from awr.project import Project
from tests.support.projects import Clock, begin_session, make_project, revision

HASH = "ab" * 32


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def project(tmp_path: Path, clock: Clock) -> Project:
    return make_project(tmp_path / "p", clock=clock)


def take(project: Project, session: str | None, *, work: str = "parse", **fields: Any) -> ClaimResult:
    return claim(
        project, ClaimRequest(work=work, session=session, **{"expected_revision": revision(project), **fields})
    )


def give_back(project: Project, session: str, **fields: Any) -> ClaimResult:
    return release(
        project, ReleaseRequest(work="parse", session=session, expected_revision=revision(project), **fields)
    )


def hand_over(project: Project, session: str, to: str | None, **fields: Any) -> HandoffResult:
    return handoff(
        project,
        HandoffRequest(work="parse", session=session, to_session=to, expected_revision=revision(project), **fields),
    )


def save(project: Project, session: str) -> str:
    request = CheckpointRequest(
        session=session, context_hash=HASH, digest="d", next_action="n", expected_revision=revision(project)
    )
    return checkpoint(project, request).checkpoint.id


def types(project: Project, *, after: int) -> list[str]:
    with project.journal.read() as reader:
        return [event.event_type for event, _ in events_in_order(reader.database) if event.project_revision > after]


def test_work_is_held_by_one_session_at_a_time(project: Project) -> None:
    first, second = begin_session(project), begin_session(project)
    held = take(project, first)
    assert (held.claim.session_id, held.claim.status, held.claim.expires_at) == (first, "active", None)
    with pytest.raises(ClaimConflict):
        take(project, second)
    with pytest.raises(ClaimConflict):
        take(project, first)


def test_a_claim_lapses_only_when_somebody_looks(project: Project, clock: Clock) -> None:
    first, second = begin_session(project), begin_session(project)
    held = take(project, first, ttl_ms=1000)
    clock.now += 1000
    before = revision(project)
    taken = take(project, second)
    assert taken.expired_claim_ids == (held.claim.id,)
    assert taken.claim.session_id == second
    assert types(project, after=before) == ["claim.expired", "work.claimed"]
    assert revision(project) == before + 1


def test_the_session_is_found_by_its_work_when_there_is_only_one(project: Project) -> None:
    session = begin_session(project)
    assert take(project, None).claim.session_id == session


def test_several_fitting_sessions_have_to_be_told_apart(project: Project) -> None:
    begin_session(project)
    begin_session(project)
    with pytest.raises(InvalidInput, match="several"):
        take(project, None)


def test_no_fitting_session_is_named(project: Project) -> None:
    with pytest.raises(NotFound):
        take(project, None)


@pytest.mark.parametrize(("work", "error"), [("report", DependencyBlocked), ("release", DependencyBlocked)])
def test_work_that_is_not_ready_cannot_be_claimed(project: Project, work: str, error: type[AwrError]) -> None:
    session = begin_session(project, work=work)
    with pytest.raises(error) as caught:
        take(project, session, work=work)
    assert caught.value.details["diagnostics"]


def test_a_session_of_other_work_cannot_claim(project: Project) -> None:
    other = begin_session(project, work="report")
    with pytest.raises(RuleViolation):
        take(project, other)


def test_a_session_that_ended_cannot_claim(project: Project) -> None:
    session = begin_session(project)
    end(project, EndRequest(session=session, expected_revision=revision(project)))
    with pytest.raises(InvalidTransition):
        take(project, session)


def test_a_source_edit_nobody_has_seen_refuses_the_claim(project: Project) -> None:
    session = begin_session(project)
    now = revision(project)
    ledger = project.root / "work-ledger.yaml"
    ledger.write_text(ledger.read_text() + "  - id: more\n    title: More\n    status: planned\n")
    with pytest.raises(RevisionConflict):
        take(project, session, expected_revision=now)
    assert take(project, session).claim.session_id == session


def test_a_broken_source_refuses_the_claim(project: Project) -> None:
    session = begin_session(project)
    (project.root / "work-ledger.yaml").write_text("work_items: {")
    with pytest.raises(SourceStale):
        take(project, session)


def test_a_claim_is_given_back_by_its_holder_only(project: Project) -> None:
    first, second = begin_session(project), begin_session(project)
    held = take(project, first)
    with pytest.raises(ClaimConflict):
        give_back(project, second)
    back = give_back(project, first)
    assert (back.claim.id, back.claim.status) == (held.claim.id, "released")
    with pytest.raises(InvalidTransition):
        give_back(project, first)
    with pytest.raises(InvalidTransition):
        give_back(project, first, claim=held.claim.id)


def test_a_handoff_needs_a_checkpoint(project: Project) -> None:
    session = begin_session(project)
    with pytest.raises(ContextIncomplete):
        hand_over(project, session, None)


def test_a_handoff_moves_the_claim_and_keeps_the_sender_on_record(project: Project, clock: Clock) -> None:
    sender, receiver = begin_session(project), begin_session(project)
    take(project, sender, ttl_ms=5000)
    saved = save(project, sender)
    before = revision(project)
    result = hand_over(project, sender, receiver)
    assert (result.from_session.status, result.checkpoint_id) == ("incomplete", saved)
    assert result.to_session is not None
    assert result.to_session.status == "active"
    assert result.claim is not None
    assert (result.claim.session_id, result.claim.expires_at) == (receiver, clock.now + 5000)
    assert types(project, after=before) == [
        "claim.released",
        "work.handoff",
        "work.claimed",
        "session.handoff_received",
    ]
    assert revision(project) == before + 1
    shown = show(project, ShowRequest(session=sender))
    assert [one.status for one in shown.claims] == ["released"]


def test_a_handoff_to_nobody_releases_the_claim(project: Project) -> None:
    sender = begin_session(project)
    held = take(project, sender)
    save(project, sender)
    result = hand_over(project, sender, None)
    assert (result.to_session, result.claim, result.closed_claim_ids) == (None, None, (held.claim.id,))


def test_a_lapsed_claim_does_not_move(project: Project, clock: Clock) -> None:
    sender, receiver = begin_session(project), begin_session(project)
    take(project, sender, ttl_ms=1000)
    save(project, sender)
    clock.now += 1000
    assert hand_over(project, sender, receiver).claim is None


@pytest.mark.parametrize("which", ["itself", "other work", "ended"])
def test_only_another_active_session_of_the_same_work_receives(project: Project, which: str) -> None:
    sender = begin_session(project)
    save(project, sender)
    if which == "itself":
        receiver = sender
    else:
        receiver = begin_session(project, work="report" if which == "other work" else "parse")
    if which == "ended":
        end(project, EndRequest(session=receiver, expected_revision=revision(project)))
    before = revision(project)
    with pytest.raises((RuleViolation, NotFound)):
        hand_over(project, sender, receiver)
    assert revision(project) == before
