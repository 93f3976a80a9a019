"""Sessions, claims and conversation bindings on a real database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from awr.domain.session import Outcome
from awr.errors import (
    ClaimConflict,
    DependencyBlocked,
    InvalidInput,
    InvalidTransition,
    NotFound,
    RevisionConflict,
    RuleViolation,
    SourceConflict,
    SourceStale,
    Unsupported,
)
from awr.journal.events import Event, events_in_order
from awr.operations.session import (
    EndRequest,
    EndResult,
    ListRequest,
    ShowRequest,
    ShowResult,
    StartRequest,
    StartResult,
    end,
    listing,
    show,
    start,
)
from awr.project import Project
from tests.support.projects import LEDGER, Clock, make_project, revision

SECRET = "sk-ant-0123456789abcdefghij"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def project(tmp_path: Path, clock: Clock) -> Project:
    return make_project(tmp_path / "project", clock=clock)


def begin(project: Project, **fields: Any) -> StartResult:
    labels = {"agent": "agent-1", "provider": "provider-1", "model": "model-1"}
    return start(project, StartRequest(**{**labels, "expected_revision": revision(project), **fields}))


def finish(project: Project, session: str, *, outcome: Outcome = "ended", at: int | None = None) -> EndResult:
    expected = revision(project) if at is None else at
    return end(project, EndRequest(session=session, outcome=outcome, expected_revision=expected))


def look(project: Project, session: str) -> ShowResult:
    return show(project, ShowRequest(session=session))


def events(project: Project, *, after: int = 2) -> list[Event]:
    with project.journal.read() as reader:
        return [event for event, _ in events_in_order(reader.database) if event.project_revision > after]


def edit(project: Project, old: str, new: str) -> None:
    path = project.root / "work-ledger.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def refused(project: Project, error: type[Exception], **fields: Any) -> Any:
    """Try to start; nothing may be written by it."""
    before = revision(project)
    with pytest.raises(error) as caught:
        begin(project, **fields)
    assert revision(project) == before
    return caught.value


def test_a_started_session_has_its_labels_and_its_work_and_costs_one_revision(project: Project, clock: Clock) -> None:
    result = begin(project, work="parse")
    session = result.session
    assert (session.agent_id, session.provider, session.model) == ("agent-1", "provider-1", "model-1")
    assert (session.status, session.started_at, session.ended_at) == ("active", clock.now, None)
    assert (session.start_project_revision, session.end_project_revision, session.revision) == (3, None, 3)
    assert session.branch_id is None
    assert session.last_checkpoint_id is None
    assert (result.project_revision, result.claim, result.binding, result.binding_reused) == (3, None, None, False)
    assert result.next_action == "report_completed_compactions"
    assert [event.event_type for event in events(project)] == ["session.started"]


def test_the_start_event_carries_labels_and_binding(project: Project) -> None:
    result = begin(project, work="parse", conversation="thread-9")
    (event,) = events(project)
    assert event.id == result.event_id
    assert event.session_id == result.session.id
    assert event.work_item_id == result.session.work_item_id
    assert event.content() == {
        "agent_id": "agent-1",
        "provider": "provider-1",
        "model": "model-1",
        "mcp_binding": {"client": "stdio", "conversation": "thread-9"},
    }


def test_a_session_without_work_is_allowed_and_says_what_it_cannot_do(project: Project) -> None:
    result = begin(project)
    assert result.session.work_item_id is None
    assert result.next_action == "bind_work_before_reporting_compactions"


def test_several_sessions_on_one_work_item_are_allowed(project: Project) -> None:
    assert begin(project, work="parse").session.id != begin(project, work="parse").session.id


@pytest.mark.parametrize("label", ["agent", "provider", "model"])
@pytest.mark.parametrize("text", ["", "  ", "a\nb", "a\x1b[31m", "x" * 641, "é" * 321, "\udcff"])
def test_a_label_out_of_bounds_is_refused_and_not_echoed(project: Project, label: str, text: str) -> None:
    error = refused(project, InvalidInput, **{label: text})
    assert label in str(error)
    assert not text.strip() or text not in str(error.report())


@pytest.mark.parametrize("label", ["agent", "provider", "model"])
def test_a_label_of_640_bytes_is_accepted(project: Project, label: str) -> None:
    assert begin(project, **{label: "é" * 320}).read_only is False


@pytest.mark.parametrize("label", ["agent", "provider", "model", "conversation", "client"])
def test_a_secret_in_a_label_is_refused_without_an_echo(project: Project, label: str) -> None:
    fields = {"conversation": "thread", label: SECRET}
    error = refused(project, RuleViolation, **fields)
    assert SECRET not in str(error.report())
    assert error.details["category"] == "credential"


@pytest.mark.parametrize(("field", "limit"), [("client", 128), ("conversation", 512)])
def test_a_binding_is_bounded(project: Project, field: str, limit: int) -> None:
    fields = {"conversation": "thread", "client": "mine"}
    assert begin(project, **{**fields, field: "x" * limit}).binding is not None
    for text in ("x" * (limit + 1), " ", "a\x00b"):
        refused(project, InvalidInput, **{**fields, field: text})


def test_main_is_a_branch_and_any_other_is_unsupported(project: Project) -> None:
    assert begin(project, branch="main").session.branch_id is None
    assert "feature" not in str(refused(project, Unsupported, branch="feature").report())


def test_unknown_work_is_not_found(project: Project) -> None:
    refused(project, NotFound, work="nothing")


def test_a_work_key_that_is_no_text_is_refused_as_bad_input(project: Project) -> None:
    before = revision(project)
    with pytest.raises((InvalidInput, NotFound)):
        begin(project, work="\udcff")
    assert revision(project) == before


@pytest.mark.parametrize(
    "fields",
    [
        {"work": "parse", "ttl_ms": 1000},
        {"ttl_ms": 1000},
        {"claim": True},
        {"claim": True, "ttl_ms": 1000},
        {"work": "parse", "claim": True, "ttl_ms": 0},
    ],
)
def test_a_claim_without_work_or_a_time_limit_without_a_claim_is_refused(
    project: Project, fields: dict[str, Any]
) -> None:
    refused(project, InvalidInput, **fields)


def test_a_stale_revision_is_refused(project: Project) -> None:
    begin(project)
    error = refused(project, RevisionConflict, expected_revision=2)
    assert (error.details["expected"], error.details["actual"]) == (2, 3)


def test_a_source_edit_that_the_refresh_finds_is_a_conflict_and_starts_nothing(project: Project) -> None:
    read_at = revision(project)
    edit(project, "Write the grammar", "Write the tests first")
    with pytest.raises(RevisionConflict) as caught:
        begin(project, work="parse", expected_revision=read_at)
    assert (caught.value.details["expected"], caught.value.details["actual"]) == (read_at, read_at + 1)
    assert listing(project, ListRequest()).sessions == ()
    assert [event.event_type for event in events(project)] == ["source.projected"]
    assert begin(project, work="parse", expected_revision=read_at + 1).project_revision == read_at + 2


def test_a_broken_source_stops_a_start_and_keeps_what_was_known(project: Project) -> None:
    (project.root / "work-ledger.yaml").write_text("work_items: [")
    read_at = revision(project)
    with pytest.raises(SourceStale):
        begin(project, work="parse", expected_revision=read_at)
    assert listing(project, ListRequest()).sessions == ()


def test_a_session_ends_with_broken_sources_as_well(project: Project) -> None:
    session = begin(project, work="parse").session.id
    (project.root / "work-ledger.yaml").write_text("work_items: [")
    assert finish(project, session).session.status == "ended"


# Claims


def test_a_claim_is_made_in_the_same_commit_and_never_expires_by_itself(project: Project, clock: Clock) -> None:
    result = begin(project, work="parse", claim=True)
    claim = result.claim
    assert claim is not None
    assert (claim.status, claim.session_id, claim.agent_id) == ("active", result.session.id, "agent-1")
    assert (claim.acquired_at, claim.expires_at, claim.released_at) == (clock.now, None, None)
    assert result.project_revision == 3
    found = events(project)
    assert [event.event_type for event in found] == ["session.started", "work.claimed"]
    assert found[1].content() == {
        "claim_id": claim.id,
        "agent_id": "agent-1",
        "expires_at": None,
        "expired_claim_ids": [],
    }


def test_a_claim_is_exclusive(project: Project) -> None:
    begin(project, work="parse", claim=True)
    refused(project, ClaimConflict, work="parse", claim=True)
    assert begin(project, work="parse").claim is None


def test_a_claim_lives_until_its_last_millisecond_and_a_new_one_records_that_it_lapsed(
    project: Project, clock: Clock
) -> None:
    first = begin(project, work="parse", claim=True, ttl_ms=1000)
    assert first.claim is not None
    assert first.claim.expires_at == clock.now + 1000
    clock.now += 999
    refused(project, ClaimConflict, work="parse", claim=True)
    clock.now += 1
    before = revision(project)
    second = begin(project, work="parse", claim=True)
    assert second.claim is not None
    found = events(project, after=before)
    assert [event.event_type for event in found] == ["session.started", "claim.expired", "work.claimed"]
    assert found[1].session_id == first.session.id
    assert found[2].content()["expired_claim_ids"] == [first.claim.id]
    (old,) = look(project, first.session.id).claims
    assert (old.status, old.released_at) == ("expired", None)
    assert second.project_revision == before + 1


def test_a_refused_claim_does_not_record_that_an_old_one_lapsed(project: Project, clock: Clock) -> None:
    first = begin(project, work="parse", claim=True, ttl_ms=1)
    clock.now += 1
    edit(project, "status: planned\n    goal", "status: completed\n    goal")
    refresh_revision = revision(project) + 1
    with pytest.raises(RevisionConflict):
        begin(project, work="parse", claim=True)
    refused(project, DependencyBlocked, work="parse", claim=True, expected_revision=refresh_revision)
    assert look(project, first.session.id).claims[0].status == "active"


def test_a_lapsed_claim_is_recorded_as_expired_when_its_session_ends(project: Project, clock: Clock) -> None:
    result = begin(project, work="parse", claim=True, ttl_ms=10)
    assert result.claim is not None
    clock.now += 10
    ended = finish(project, result.session.id)
    assert ended.closed_claim_ids == (result.claim.id,)
    assert look(project, result.session.id).claims[0].status == "expired"
    assert [event.event_type for event in events(project, after=3)] == ["claim.expired", "session.ended"]


def test_a_live_claim_is_released_when_its_session_ends(project: Project, clock: Clock) -> None:
    result = begin(project, work="parse", claim=True)
    assert result.claim is not None
    clock.now += 5
    ended = finish(project, result.session.id)
    (claim,) = look(project, result.session.id).claims
    assert (claim.status, claim.released_at) == ("released", clock.now)
    found = events(project, after=3)
    assert [event.event_type for event in found] == ["claim.released", "session.ended"]
    assert found[1].content() == {
        "status": "ended",
        "closed_claim_ids": [result.claim.id],
        "last_checkpoint_id": None,
    }
    assert ended.project_revision == 4
    assert begin(project, work="parse", claim=True).claim is not None


def test_a_claim_that_expired_for_another_is_not_closed_again(project: Project, clock: Clock) -> None:
    first = begin(project, work="parse", claim=True, ttl_ms=1)
    clock.now += 1
    begin(project, work="parse", claim=True)
    assert finish(project, first.session.id).closed_claim_ids == ()


@pytest.mark.parametrize(
    ("key", "code"),
    [("report", "dependency_not_completed"), ("release", "status_not_selectable")],
)
def test_work_that_is_not_ready_cannot_be_claimed_and_says_why(project: Project, key: str, code: str) -> None:
    error = refused(project, DependencyBlocked, work=key, claim=True)
    assert [diagnostic["code"] for diagnostic in error.details["diagnostics"]] == [code]
    assert begin(project, work=key).claim is None


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("status: someday", "unknown_status"),
        ("status: draft", "status_not_selectable"),
        ("status: planned\n    blocker: no grammar", "active_blocker"),
        ("status: planned\n    depends_on: [nowhere]", "missing_dependency"),
        ("status: planned\n    depends_on: [report]", "dependency_cycle"),
    ],
)
def test_each_hindrance_is_diagnosed(tmp_path: Path, line: str, code: str) -> None:
    project = make_project(tmp_path / "p", ledger=LEDGER.replace("status: planned", line, 1))
    error = refused(project, DependencyBlocked, work="parse", claim=True)
    assert code in {diagnostic["code"] for diagnostic in error.details["diagnostics"]}


@pytest.mark.parametrize("status", ["claimed", "in_progress"])
def test_work_under_way_may_be_claimed(tmp_path: Path, status: str) -> None:
    ledger = LEDGER.replace("status: planned", f"status: {status}", 1)
    assert begin(make_project(tmp_path / "p", ledger=ledger), work="parse", claim=True).claim is not None


# Conversations


def test_the_same_conversation_gets_its_session_back_and_nothing_is_written(project: Project) -> None:
    first = begin(project, work="parse", conversation="thread", claim=True)
    before = revision(project)
    again = begin(project, work="parse", conversation="thread", expected_revision=0)
    assert again.session == first.session
    assert (again.binding_reused, again.read_only, again.event_id) == (True, True, None)
    assert again.claim == first.claim
    assert again.binding == first.binding
    assert again.next_action == "continue_the_bound_session"
    assert revision(project) == again.project_revision == before


def test_a_reused_binding_does_not_claim_a_source_refresh_that_never_was(project: Project) -> None:
    begin(project, work="parse", conversation="thread")
    edit(project, "Write the grammar", "Something else")
    before = revision(project)
    again = begin(project, work="parse", conversation="thread")
    assert revision(project) == before
    assert again.source_refresh_performed is not True


@pytest.mark.parametrize(
    "change",
    [{"agent": "other"}, {"provider": "other"}, {"model": "other"}, {"work": "report"}, {"work": None}],
)
def test_the_same_conversation_with_other_labels_or_work_is_a_conflict(
    project: Project, change: dict[str, Any]
) -> None:
    first = begin(project, work="parse", conversation="thread")
    fields = {"work": "parse", "conversation": "thread", **change}
    error = refused(project, SourceConflict, **fields)
    assert error.details["session"] == first.session.id


def test_another_client_may_use_the_same_conversation_id(project: Project) -> None:
    first = begin(project, conversation="thread")
    second = begin(project, conversation="thread", client="codex")
    assert second.session.id != first.session.id
    assert second.binding is not None
    assert second.binding.client == "codex"


@pytest.mark.parametrize("outcome", ["ended", "interrupted", "incomplete"])
def test_a_bound_session_that_is_over_is_shown_and_not_reopened(project: Project, outcome: Outcome) -> None:
    first = begin(project, work="parse", conversation="thread", claim=True)
    finish(project, first.session.id, outcome=outcome)
    before = revision(project)
    again = begin(project, work="parse", conversation="thread")
    assert (again.session.id, again.session.status) == (first.session.id, outcome)
    assert again.next_action == "resume_in_a_new_session"
    assert again.claim is None
    assert revision(project) == before


# Ending


@pytest.mark.parametrize("outcome", ["ended", "interrupted", "incomplete"])
def test_a_session_ends_with_each_outcome_and_only_once(project: Project, clock: Clock, outcome: Outcome) -> None:
    session = begin(project).session.id
    clock.now += 7
    result = finish(project, session, outcome=outcome)
    assert (result.session.status, result.session.ended_at) == (outcome, clock.now)
    assert (result.session.end_project_revision, result.session.revision) == (4, 4)
    with pytest.raises(InvalidTransition) as caught:
        finish(project, session)
    assert caught.value.details["got"] == f"a session that is {outcome}"
    assert revision(project) == 4


def test_ending_with_a_stale_revision_is_refused(project: Project) -> None:
    session = begin(project).session.id
    with pytest.raises(RevisionConflict):
        finish(project, session, at=2)
    assert look(project, session).session.status == "active"


@pytest.mark.parametrize("session", ["", "nothing", "01ARZ3NDEKTSV4RRFFQ69G5FAV"])
def test_an_unknown_session_is_not_found(project: Project, session: str) -> None:
    with pytest.raises(NotFound):
        finish(project, session)
    with pytest.raises(NotFound):
        look(project, session)


def test_a_session_of_another_project_is_not_found(project: Project, tmp_path: Path) -> None:
    foreign = begin(make_project(tmp_path / "other")).session.id
    with pytest.raises(NotFound):
        look(project, foreign)


# Showing and listing


def test_a_session_is_shown_by_its_conversation_too(project: Project) -> None:
    result = begin(project, work="parse", conversation="thread", client="codex", claim=True)
    found = show(project, ShowRequest(conversation="thread", client="codex"))
    assert found == look(project, result.session.id)
    assert found.session == result.session
    assert found.binding == result.binding
    assert found.claims == (result.claim,)
    assert found.context_requires_refresh is True


def test_a_conversation_of_another_client_is_not_found(project: Project) -> None:
    begin(project, conversation="thread")
    with pytest.raises(NotFound):
        show(project, ShowRequest(conversation="thread", client="codex"))


def test_a_session_has_to_be_named(project: Project) -> None:
    with pytest.raises(InvalidInput):
        show(project, ShowRequest())


def test_a_session_and_a_conversation_that_agree_are_one_and_those_that_do_not_are_refused(project: Project) -> None:
    bound = begin(project, conversation="thread").session.id
    other = begin(project).session.id
    assert show(project, ShowRequest(session=bound, conversation="thread")).session.id == bound
    with pytest.raises(RuleViolation):
        show(project, ShowRequest(session=other, conversation="thread"))


def test_sessions_are_listed_newest_first_and_page_without_gaps_or_repeats(project: Project) -> None:
    made = [begin(project).session.id for _ in range(7)]
    seen: list[str] = []
    before: int | None = None
    for _ in range(5):
        page = listing(project, ListRequest(limit=3, before_revision=before))
        seen += [session.id for session in page.sessions]
        before = page.next_before_revision
        if before is None:
            break
    assert seen == made[::-1]


def test_only_active_sessions_are_listed_on_request(project: Project) -> None:
    first, second = begin(project).session.id, begin(project).session.id
    finish(project, first)
    assert [session.id for session in listing(project, ListRequest(active=True)).sessions] == [second]
    assert len(listing(project, ListRequest()).sessions) == 2


def test_no_session_started_before_revision_zero(project: Project) -> None:
    begin(project)
    assert listing(project, ListRequest(before_revision=0)).sessions == ()


def test_reading_sessions_leaves_the_journal_alone(project: Project) -> None:
    session = begin(project).session.id
    before = events(project)
    listing(project, ListRequest())
    look(project, session)
    assert events(project) == before
