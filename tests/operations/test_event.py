"""Callers' own events, and looking back over the journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from awr.domain.events import EVENT_TYPES
from awr.errors import (
    AwrError,
    InvalidInput,
    InvalidTransition,
    NotFound,
    RevisionConflict,
    RuleViolation,
    SourceStale,
    Unsupported,
)
from awr.journal.history import Cursor, HistoryRow
from awr.operations.event import (
    AppendRequest,
    AppendResult,
    HistoryResult,
    ProjectHistoryRequest,
    ShowRequest,
    WorkHistoryRequest,
    append,
    project_history,
    show,
    work_history,
)
from awr.operations.session import EndRequest, end
from awr.operations.source import ListRequest, listing
from awr.project import Project
from tests.support.projects import Clock, begin_session, make_project, revision

SECRET = "ghp_0123456789abcdefghijABCDEF"
MARKER = "zq-marker-zq"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def project(tmp_path: Path, clock: Clock) -> Project:
    return make_project(tmp_path / "project", clock=clock)


def add(project: Project, **fields: Any) -> AppendResult:
    given = {"event_type": "note.added", "summary": "A note", "expected_revision": revision(project), **fields}
    return append(project, AppendRequest(**given))


def refused(project: Project, error: type[AwrError] | tuple[type[AwrError], ...], **fields: Any) -> AwrError:
    """Try to append; nothing may be written by it."""
    before = revision(project)
    with pytest.raises(error) as caught:
        add(project, **fields)
    assert revision(project) == before
    found: AwrError = caught.value
    return found


def past(project: Project, **fields: Any) -> HistoryResult:
    return project_history(project, ProjectHistoryRequest(**fields))


def every_page(project: Project, **fields: Any) -> list[HistoryRow]:
    found: list[HistoryRow] = []
    cursor: Cursor | None = None
    while True:
        page = past(project, cursor=cursor, **fields)
        assert page.events or page.next_cursor is None
        found += page.events
        cursor = page.next_cursor
        if cursor is None:
            return found


def source_id(project: Project) -> str:
    return listing(project, ListRequest()).sources[0].id


# Appending


def test_a_note_is_one_revision_and_comes_back_as_it_was_given(project: Project, clock: Clock) -> None:
    result = add(project, summary="Chose SQLite", importance="high", payload={"detail": "fast", "count": 2})
    assert result.project_revision == 3
    record = show(project, ShowRequest(event=result.event_id, full=True)).event
    assert (record.event_type, record.summary, record.importance) == ("note.added", "Chose SQLite", "high")
    assert (record.created_at, record.project_revision, record.branch_id) == (clock.now, 3, None)
    assert record.payload == {"detail": "fast", "count": 2}
    assert result.event.payload is msgspec.UNSET


def test_a_note_without_a_payload_has_an_empty_one_and_normal_importance(project: Project) -> None:
    record = show(project, ShowRequest(event=add(project).event_id, full=True)).event
    assert (record.payload, record.importance) == ({}, "normal")


@pytest.mark.parametrize(
    "event_type", [*EVENT_TYPES, "source.x", "mcp.anything", "client.", "management.a", "work.completed"]
)
def test_a_type_of_awrs_own_cannot_be_forged(project: Project, event_type: str) -> None:
    refused(project, InvalidInput, event_type=event_type)


@pytest.mark.parametrize("event_type", ["", " ", "a b", "é", "x" * 129, "a\n", "a/b"])
def test_a_type_out_of_bounds_is_refused(project: Project, event_type: str) -> None:
    refused(project, InvalidInput, event_type=event_type)


@pytest.mark.parametrize("event_type", ["x" * 128, "A-z_0:9.", "sourcery.done", "work.noted"])
def test_a_type_within_bounds_is_accepted(project: Project, event_type: str) -> None:
    assert add(project, event_type=event_type).event.event_type == event_type


def test_a_summary_of_8192_bytes_is_accepted_and_one_more_refused(project: Project) -> None:
    add(project, summary="é" * 4096)
    refused(project, InvalidInput, summary="é" * 4096 + "x")
    refused(project, InvalidInput, summary=" \n")
    assert add(project, summary="two\nlines").event.summary == "two\nlines"


@pytest.mark.parametrize(
    "payload",
    [
        {MARKER: 1},
        {"detail": None},
        {"count": "3"},
        {"count": True},
        {"count": -1},
        {"count": 2**64},
        {"exit_code": 2**63},
        {"tags": ["x"] * 33},
        {"tags": "x"},
        {"changed_entities": ["x" * 513]},
        {"metrics": {"a": "1"}},
        {"metrics": {"": 1}},
        {"metrics": {"a": float("inf")}},
        {"error_code": MARKER * 20},
        {"detail": {"detail": MARKER}},
    ],
)
def test_a_payload_field_out_of_bounds_is_refused_without_an_echo(project: Project, payload: dict[str, Any]) -> None:
    assert MARKER not in str(refused(project, InvalidInput, payload=payload).report())


@pytest.mark.parametrize(
    "fields",
    [
        {"summary": "\udcff"},
        {"payload": {"detail": "\ud800"}},
        {"payload": {"tags": ["\ud800"]}},
        {"payload": {"metrics": {"\ud800": 1}}},
        {"payload": {"metrics": {"a": 10**400}}},
        {"work": "\ud800"},
        {"session": "\ud800"},
    ],
    ids=["summary", "text", "tag", "metric name", "metric", "work", "session"],
)
def test_what_cannot_be_stored_is_refused_as_bad_input_and_is_no_fault(
    project: Project, fields: dict[str, Any]
) -> None:
    refused(project, (InvalidInput, NotFound), **fields)


def test_a_payload_just_over_a_mebibyte_is_refused(project: Project) -> None:
    filler = "x" * (1024 * 1024 - len('{"detail":""}'))
    assert add(project, payload={"detail": filler}).project_revision == 3
    refused(project, InvalidInput, payload={"detail": filler + "x"})


@pytest.mark.parametrize("fields", [{"summary": f"used {SECRET}"}, {"payload": {"stdout": SECRET}}])
def test_a_secret_is_refused_without_an_echo(project: Project, fields: dict[str, Any]) -> None:
    assert SECRET not in str(refused(project, RuleViolation, **fields).report())


def test_a_stale_revision_is_refused(project: Project) -> None:
    add(project)
    refused(project, RevisionConflict, expected_revision=2)


def test_a_source_edit_that_the_refresh_finds_makes_the_note_conflict(project: Project) -> None:
    read_at = revision(project)
    path = project.root / "work-ledger.yaml"
    path.write_text(path.read_text().replace("Write the grammar", "Write tests"))
    with pytest.raises(RevisionConflict):
        add(project, expected_revision=read_at)
    assert past(project, event_type="note.added").events == ()


def test_a_broken_source_stops_a_note(project: Project) -> None:
    (project.root / "work-ledger.yaml").unlink()
    with pytest.raises(SourceStale):
        add(project)
    assert past(project, event_type="note.added").events == ()


def test_another_branch_is_unsupported(project: Project) -> None:
    refused(project, Unsupported, branch="feature")
    assert add(project, branch="main").event.branch_id is None


def test_a_note_of_a_session_inherits_its_work(project: Project) -> None:
    session = begin_session(project, work="parse")
    free, bound = add(project, session=session).event, add(project, session=session, work="parse").event
    assert free.session_id == bound.session_id == session
    assert free.work_item_id == bound.work_item_id
    assert free.work_item_id is not None
    assert add(project, work="parse").event.session_id is None


def test_a_note_of_a_session_about_other_work_is_refused(project: Project) -> None:
    refused(project, InvalidInput, session=begin_session(project, work="parse"), work="report")
    refused(project, InvalidInput, session=begin_session(project, work=None), work="report")


def test_a_note_of_a_session_that_is_over_is_refused(project: Project) -> None:
    session = begin_session(project)
    end(project, EndRequest(session=session, expected_revision=revision(project), outcome="interrupted"))
    error = refused(project, InvalidTransition, session=session)
    assert error.details["got"] == "a session that is interrupted"


@pytest.mark.parametrize("fields", [{"session": "nothing"}, {"work": "nothing"}])
def test_a_note_about_something_unknown_is_not_found(project: Project, fields: dict[str, Any]) -> None:
    refused(project, NotFound, **fields)


@pytest.mark.parametrize("name", ["source_id", "artifact_id", "checkpoint_id", "evidence_id"])
def test_a_reference_to_nothing_is_not_found(project: Project, name: str) -> None:
    refused(project, NotFound, payload={name: "01ARZ3NDEKTSV4RRFFQ69G5FAV"})


def test_a_reference_to_a_source_is_kept_and_can_be_searched_for(project: Project) -> None:
    known = source_id(project)
    result = add(project, payload={"source_id": known})
    found = past(project, source=known, event_type="note.added").events
    assert [(row.id, row.source_id) for row in found] == [(result.event_id, known)]


# Showing


def test_a_payload_is_shown_only_on_request_and_up_to_a_size(project: Project) -> None:
    event = add(project, payload={"detail": "x" * 100}).event_id
    size = len('{"detail":""}') + 100
    assert show(project, ShowRequest(event=event)).event.payload is msgspec.UNSET
    assert show(project, ShowRequest(event=event, max_bytes=1)).event.payload is msgspec.UNSET
    assert show(project, ShowRequest(event=event, full=True, max_bytes=size)).event.payload == {"detail": "x" * 100}
    with pytest.raises(InvalidInput) as caught:
        show(project, ShowRequest(event=event, full=True, max_bytes=size - 1))
    assert caught.value.details["got"] == f"{size} bytes"


@pytest.mark.parametrize("event", ["", "nothing", "01ARZ3NDEKTSV4RRFFQ69G5FAV"])
def test_an_unknown_event_is_not_found(project: Project, event: str) -> None:
    with pytest.raises(NotFound):
        show(project, ShowRequest(event=event))


def test_an_event_id_that_is_no_text_is_refused_as_bad_input(project: Project) -> None:
    with pytest.raises((InvalidInput, NotFound)):
        show(project, ShowRequest(event="\udcff"))


# History


def test_history_is_oldest_first_without_payloads_and_cuts_summaries(project: Project) -> None:
    add(project, summary="é" * 300, payload={"detail": MARKER})
    rows = past(project).events
    assert [row.project_revision for row in rows] == sorted(row.project_revision for row in rows)
    assert rows[0].type == "project.initialized"
    assert rows[-1].summary == "é" * 240
    assert MARKER not in str(rows)
    assert past(project).project_revision == 3


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 1000])
def test_pages_are_complete_and_have_no_event_twice(project: Project, limit: int) -> None:
    for number in range(5):
        begin_session(project, claim=number == 0)
        add(project, summary=f"note {number}")
    whole = past(project, limit=1000).events
    assert every_page(project, limit=limit) == list(whole)
    assert len({row.id for row in whole}) == len(whole) == 1 + 2 + 5 + 1 + 5


def test_a_page_that_ends_inside_a_revision_goes_on_inside_it(project: Project) -> None:
    begin_session(project, claim=True)
    first = past(project, after_revision=2, limit=1)
    assert first.next_cursor is not None
    (rest,) = past(project, cursor=first.next_cursor).events
    assert rest.project_revision == first.events[0].project_revision == 3
    assert rest.type == "work.claimed"


def test_a_page_taken_before_a_write_goes_on_behind_it(project: Project) -> None:
    cursor = past(project, limit=1).next_cursor
    late = add(project).event_id
    assert past(project, cursor=cursor).events[-1].id == late


def test_a_page_that_takes_the_last_event_has_no_cursor(project: Project) -> None:
    assert past(project, limit=3).next_cursor is None
    assert past(project, limit=2).next_cursor is not None


def test_a_cursor_and_a_revision_cannot_both_say_where_to_start(project: Project) -> None:
    cursor = past(project, limit=1).next_cursor
    with pytest.raises(InvalidInput):
        past(project, cursor=cursor, after_revision=0)


@pytest.mark.parametrize(
    "change",
    [
        {"project_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"},
        {"project_revision": 2},
        {"created_at": 1},
        {"event_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"},
        {"project_revision": 2**70},
        {"created_at": -(2**70)},
        {"event_id": "\ud800"},
    ],
    ids=lambda change: "-".join(change),
)
def test_a_cursor_that_was_changed_is_refused(project: Project, change: dict[str, Any]) -> None:
    cursor = past(project, limit=1).next_cursor
    assert cursor is not None
    with pytest.raises(InvalidInput):
        past(project, cursor=msgspec.structs.replace(cursor, **change))


def test_a_cursor_of_another_project_is_refused(project: Project, tmp_path: Path) -> None:
    foreign = past(make_project(tmp_path / "other"), limit=1).next_cursor
    with pytest.raises(InvalidInput):
        past(project, cursor=foreign)


def test_each_filter_keeps_what_it_names(project: Project) -> None:
    session = begin_session(project, work="parse")
    kept = add(project, session=session, importance="critical", event_type="tool.done").event_id
    other = add(project, work="report").event_id
    assert [row.id for row in past(project, session=session, event_type="tool.done").events] == [kept]
    assert [row.id for row in past(project, importance="critical").events] == [kept]
    assert [row.id for row in past(project, work="report").events] == [other]
    assert [row.id for row in past(project, after_revision=4).events] == [other]
    assert [row.id for row in past(project, after_revision=3, through_revision=4).events] == [kept]
    assert past(project, through_revision=0).events == ()
    assert past(project, after_revision=2**63 - 1).events == ()
    assert past(project, work="parse", importance="critical", session="nothing").events == ()


def test_filters_hold_on_every_page(project: Project) -> None:
    wanted = []
    for number in range(6):
        add(project, work="report", summary=f"other {number}")
        wanted.append(add(project, work="parse", summary=f"wanted {number}").event_id)
    assert [row.id for row in every_page(project, work="parse", limit=2)] == wanted


def test_the_history_of_unknown_work_is_not_found(project: Project) -> None:
    with pytest.raises(NotFound):
        past(project, work="nothing")
    with pytest.raises(NotFound):
        work_history(project, WorkHistoryRequest(work="nothing"))


def test_work_history_has_the_events_of_that_work_only(project: Project) -> None:
    session = begin_session(project, work="parse", claim=True)
    add(project, work="report")
    rows = work_history(project, WorkHistoryRequest(work="parse")).events
    assert [row.type for row in rows] == ["session.started", "work.claimed"]
    assert {row.session_id for row in rows} == {session}
    narrowed = WorkHistoryRequest(work="parse", session=session, event_type="work.claimed")
    assert [row.type for row in work_history(project, narrowed).events] == ["work.claimed"]


def test_work_history_pages_with_its_cursor(project: Project) -> None:
    begin_session(project, work="parse", claim=True)
    first = work_history(project, WorkHistoryRequest(work="parse", limit=1))
    second = work_history(project, WorkHistoryRequest(work="parse", limit=1, cursor=first.next_cursor))
    assert [first.events[0].type, second.events[0].type] == ["session.started", "work.claimed"]
    assert second.next_cursor is None


def test_the_text_of_a_cursor_leads_back_to_the_same_page(project: Project) -> None:
    cursor = past(project, limit=1).next_cursor
    written = msgspec.json.encode(cursor)
    assert set(msgspec.json.decode(written)) == {"project_id", "project_revision", "created_at", "event_id"}
    again = msgspec.json.decode(written, type=Cursor)
    assert past(project, cursor=again) == past(project, cursor=cursor)
