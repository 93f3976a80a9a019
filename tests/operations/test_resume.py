"""Going on from a session that stopped: all of it, or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from awr.errors import (
    ClaimConflict,
    ContextIncomplete,
    InvalidInput,
    InvalidTransition,
    NotFound,
    RevisionConflict,
    RuleViolation,
    SourceConflict,
)
from awr.journal.events import events_in_order
from awr.journal.sessions import lineage
from awr.operations.checkpoint import (
    CheckpointRequest,
    ReplyRequest,
    WaitRequest,
    WaitsRequest,
    checkpoint,
    reply,
    wait,
    waits,
)
from awr.operations.journal import RebuildRequest, rebuild
from awr.operations.resume import ResumeRequest, ResumeResult, resume
from awr.operations.session import EndRequest, ShowRequest, StartRequest, end, show, start
from awr.project import Project
from awr.sources.index import refresh
from tests.support.projects import LEDGER, Clock, make_project, revision

HASH = "ab" * 32


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def project(tmp_path: Path, clock: Clock) -> Project:
    made = make_project(tmp_path / "p", clock=clock)
    manifest = made.manifest_path
    manifest.write_text(manifest.read_text().replace('name = "demo"', 'name = "demo"\ncontext_profile = "minimal"'))
    return made


def begin(project: Project, **fields: Any) -> str:
    given = {"agent": "first", "provider": "p", "model": "m", "work": "parse", **fields}
    return start(project, StartRequest(expected_revision=revision(project), **given)).session.id


def save(project: Project, session: str) -> str:
    request = CheckpointRequest(
        session=session, context_hash=HASH, digest="d", next_action="Escapes", expected_revision=revision(project)
    )
    return checkpoint(project, request).checkpoint.id


def go_on(project: Project, **fields: Any) -> ResumeResult:
    given = {"agent": "second", "provider": "p", "model": "m", "expected_revision": revision(project), **fields}
    return resume(project, ResumeRequest(**given))


def test_a_successor_takes_over_checkpoint_and_claim_in_one_revision(project: Project, clock: Clock) -> None:
    first = begin(project, claim=True, ttl_ms=60_000)
    saved = save(project, first)
    before = revision(project)
    result = go_on(project, session=first)
    assert result.ok
    assert (result.selection_basis, result.recovery_basis, result.recovery_gaps) == (
        "explicit_session",
        "checkpoint",
        (),
    )
    assert result.resumed is not None
    assert result.resumed.from_session.status == "interrupted"
    assert result.resumed.session.agent_id == "second"
    assert result.resumed.checkpoint is not None
    assert result.resumed.checkpoint.id == saved
    assert result.resumed.claim is not None
    assert (result.resumed.claim.session_id, result.resumed.claim.expires_at) == (
        result.resumed.session.id,
        clock.now + 60_000,
    )
    assert result.committed_project_revision == before + 1 == revision(project)
    assert result.context_phase == "resumed_session"
    assert result.context.work_context is not None
    assert result.context.session_id == result.resumed.session.id
    with project.journal.read() as reader:
        types = [e.event_type for e, _ in events_in_order(reader.database) if e.project_revision > before]
        assert lineage(reader.database, result.resumed.session.id) == [result.resumed.session.id, first]
    assert types == [
        "claim.released",
        "session.resumed",
        "session.resumed_from",
        "work.claimed",
        "session.handoff_received",
    ]
    assert set(rebuild(project, RebuildRequest()).rows_corrected.values()) == {0}


def test_incomplete_required_context_writes_nothing(project: Project) -> None:
    first = begin(project)
    ledger = project.root / "work-ledger.yaml"
    ledger.write_text(LEDGER.replace("    next_action: Write the grammar\n", ""))
    refresh(project)
    before = revision(project)
    result = go_on(project, session=first)
    assert (result.ok, result.resumed, result.context_phase) == (False, None, "preflight")
    assert isinstance(result.problem(), ContextIncomplete)
    assert revision(project) == before
    assert show(project, ShowRequest(session=first)).session.status == "active"


def test_without_a_checkpoint_the_gap_is_named(project: Project) -> None:
    result = go_on(project, session=begin(project))
    assert (result.recovery_basis, result.recovery_gaps) == ("source_and_session_start", ("no_checkpoint",))
    assert result.resumed is not None
    assert result.resumed.checkpoint is None


def test_a_lapsed_claim_is_not_inherited(project: Project, clock: Clock) -> None:
    first = begin(project, claim=True, ttl_ms=1000)
    clock.now += 1000
    result = go_on(project, session=first)
    assert result.resumed is not None
    assert result.resumed.claim is None
    assert [one.status for one in show(project, ShowRequest(session=first)).claims] == ["expired"]


def test_a_claim_can_be_acquired_anew_or_left(project: Project, clock: Clock) -> None:
    first = begin(project, claim=True)
    acquired = go_on(project, session=first, claim="acquire", ttl_ms=5000).resumed
    assert acquired is not None
    assert acquired.claim is not None
    assert acquired.claim.expires_at == clock.now + 5000
    left = go_on(project, session=acquired.session.id, claim="none").resumed
    assert left is not None
    assert left.claim is None


def test_a_time_limit_needs_an_acquired_claim(project: Project) -> None:
    with pytest.raises(InvalidInput):
        go_on(project, session=begin(project), ttl_ms=5)


def test_a_claim_of_a_third_session_refuses_an_acquiring_resume_and_writes_nothing(project: Project) -> None:
    first = begin(project)
    begin(project, claim=True)
    before = revision(project)
    with pytest.raises(ClaimConflict):
        go_on(project, session=first, claim="acquire")
    assert revision(project) == before


def test_a_session_is_taken_over_once(project: Project) -> None:
    first = begin(project)
    successor = go_on(project, session=first).resumed
    assert successor is not None
    with pytest.raises(InvalidTransition) as caught:
        go_on(project, session=first)
    assert caught.value.details["successor"] == successor.session.id


def test_the_newest_fitting_session_is_meant_when_none_is_named(project: Project) -> None:
    first = begin(project)
    end(project, EndRequest(session=first, outcome="incomplete", expected_revision=revision(project)))
    second = begin(project)
    result = go_on(project)
    assert (result.selection_basis, result.from_session_id) == ("active_session", second)


def test_an_ended_session_is_meant_only_with_its_work(project: Project) -> None:
    first = begin(project)
    end(project, EndRequest(session=first, expected_revision=revision(project)))
    with pytest.raises(NotFound):
        go_on(project)
    result = go_on(project, work="parse")
    assert (result.selection_basis, result.from_session_id) == ("latest_closed_session", first)
    assert result.resumed is not None
    assert result.resumed.from_session.status == "ended"


def test_two_active_sessions_have_to_be_told_apart(project: Project) -> None:
    begin(project)
    begin(project)
    with pytest.raises(InvalidInput, match="two active"):
        go_on(project)


def test_an_open_wait_refuses_a_resume_and_a_successor_still_sees_the_answered_one(project: Project) -> None:
    first = begin(project)
    asked = wait(
        project,
        WaitRequest(
            session=first,
            question="Ship?",
            context_hash=HASH,
            digest="d",
            next_action="n",
            expected_revision=revision(project),
        ),
    ).wait
    with pytest.raises(InvalidTransition):
        go_on(project, session=first)
    reply(project, ReplyRequest(wait=asked.id, reply="Yes", expected_revision=revision(project)))
    resumed = go_on(project, session=first).resumed
    assert resumed is not None
    seen = waits(project, WaitsRequest(session=resumed.session.id))
    assert [one.reply for one in seen.waits] == ["Yes"]


@pytest.mark.parametrize("status", ["completed", "cancelled", "nonsense"])
def test_work_that_is_over_or_unknown_is_not_gone_on_with(project: Project, status: str) -> None:
    first = begin(project)
    ledger = project.root / "work-ledger.yaml"
    ledger.write_text(LEDGER.replace("status: planned\n    goal", f"status: {status}\n    goal"))
    refresh(project)
    with pytest.raises(InvalidTransition):
        go_on(project, session=first)


def test_a_source_edit_nobody_has_seen_refuses_the_resume(project: Project) -> None:
    first = begin(project)
    now = revision(project)
    ledger = project.root / "work-ledger.yaml"
    ledger.write_text(ledger.read_text().replace("Parse input", "Parse all input"))
    with pytest.raises(RevisionConflict):
        go_on(project, session=first, expected_revision=now)
    assert show(project, ShowRequest(session=first)).session.status == "active"


def test_conversations_keep_one_session_each(project: Project) -> None:
    first = begin(project, conversation="one")
    begin(project, conversation="two", work="report")
    with pytest.raises(SourceConflict):
        go_on(project, session=first, conversation="two")
    resumed = go_on(project, session=first, conversation="one").resumed
    assert resumed is not None
    assert show(project, ShowRequest(conversation="one")).session.id == resumed.session.id


def test_what_does_not_fit_together_is_refused(project: Project) -> None:
    first = begin(project)
    with pytest.raises(RuleViolation):
        go_on(project, session=first, work="report")
    with pytest.raises(NotFound):
        go_on(project, session="0" * 26)
    with pytest.raises(InvalidInput):
        go_on(project, session=begin(project, work=None))


def test_the_answer_is_json_with_the_documented_fields(project: Project) -> None:
    result = msgspec.to_builtins(go_on(project, session=begin(project)))
    assert {
        "selection_basis",
        "from_session_id",
        "checkpoint_id",
        "recovery_basis",
        "recovery_gaps",
        "checkpoint_save",
        "resumed",
        "event_id",
        "committed_project_revision",
        "context_phase",
        "context",
        "context_error",
        "context_ready",
        "executions",
    } <= set(result)
