"""Notes that callers add to the journal, and looking back over it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from awr.domain.events import REFERENCE_FIELDS, Importance, validate_generic_event
from awr.domain.secrets import refuse_secrets
from awr.errors import InvalidInput, InvalidTransition, NotFound
from awr.journal.checkpoints import checkpoint_by_id
from awr.journal.events import Event, encode_payload
from awr.journal.evidence import evidence_by_id
from awr.journal.history import Cursor, HistoryFilter, HistoryRow, history, visible_event
from awr.journal.journal import Writer
from awr.journal.sessions import session_by_id
from awr.journal.sources import source_by_id
from awr.operations.fields import (
    Branch,
    ExpectedRevision,
    Limit,
    VisibleTo,
    WorkKey,
    described,
    require_main,
    work_entity,
)
from awr.project import Project
from awr.sources.index import refreshed_write

__all__ = [
    "AppendRequest",
    "AppendResult",
    "EventRecord",
    "HistoryResult",
    "ProjectHistoryRequest",
    "ShowRequest",
    "ShowResult",
    "WorkHistoryRequest",
    "append",
    "event_record",
    "project_history",
    "show",
    "work_history",
]

MAX_GENERIC_BYTES = 1024 * 1024


class EventRecord(msgspec.Struct, frozen=True):
    """One event as callers see it. `payload` is there only when it was asked for."""

    id: str
    project_id: str
    work_item_id: str | None
    session_id: str | None
    branch_id: str | None
    event_type: str
    importance: Importance
    summary: str
    project_revision: int
    created_at: int
    payload: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class AppendRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    event_type: Annotated[str, described("What kind of event; reserved names are refused.")]
    summary: Annotated[str, described("What happened, in a sentence or a few.")]
    expected_revision: ExpectedRevision
    work: Annotated[str | None, described("The work item it is about.")] = None
    session: Annotated[str | None, described("The active session it belongs to.")] = None
    branch: Branch = None
    importance: Annotated[Importance, described("How much it matters later.")] = "normal"
    payload: Annotated[dict[str, Any] | None, described("Documented fields, as a JSON object.")] = None


class AppendResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["source_refresh"] = "source_refresh"
    source_refresh_performed: Literal[True] = True
    read_only: Literal[False] = False
    event: EventRecord
    event_id: str


class ShowRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    event: Annotated[str, described("The event's id.", argument=True)]
    full: Annotated[bool, described("Also return the payload.")] = False
    max_bytes: Annotated[
        int, msgspec.Meta(ge=1, le=16 * 1024 * 1024, description="Refuse a payload larger than this.")
    ] = 65536
    visible_to: VisibleTo = None


class ShowResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["runtime_database"] = "runtime_database"
    read_only: Literal[True] = True
    event: EventRecord


class _HistoryFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    session: Annotated[str | None, described("Only events of this session.")] = None
    event_type: Annotated[str | None, described("Only events of this type.")] = None
    importance: Annotated[Importance | None, described("Only events of this importance.")] = None
    source: Annotated[str | None, described("Only events about this source, by its id.")] = None
    after_revision: (
        Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1, description="Only events after this project revision.")]
        | None
    ) = None
    through_revision: (
        Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1, description="Only events up to this project revision.")]
        | None
    ) = None
    cursor: Annotated[Cursor | None, described("The next_cursor of the page before, as JSON.")] = None
    limit: Limit = 20
    visible_to: VisibleTo = None


class ProjectHistoryRequest(_HistoryFields, frozen=True, kw_only=True):
    work: Annotated[str | None, described("Only events of this work item.")] = None


class WorkHistoryRequest(_HistoryFields, frozen=True, kw_only=True):
    work: WorkKey


class HistoryResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["runtime_database"] = "runtime_database"
    read_only: Literal[True] = True
    events: tuple[HistoryRow, ...]
    next_cursor: Cursor | None


def append(project: Project, request: AppendRequest) -> AppendResult:
    """Add a caller's own event. Raise InvalidInput, RuleViolation, NotFound, InvalidTransition, RevisionConflict."""
    require_main(request.branch)
    payload = request.payload or {}
    refuse_secrets({"summary": request.summary, "payload": payload}, what="the event")
    validate_generic_event(event_type=request.event_type, summary=request.summary, payload=payload)
    if len(encode_payload(payload).encode()) > MAX_GENERIC_BYTES:
        raise InvalidInput(
            "the event's payload is too large",
            expected=f"at most {MAX_GENERIC_BYTES} bytes",
            next_step="store the bulk in a file and name it in the event",
        )
    with refreshed_write(project, expected_revision=request.expected_revision) as writer:
        _require_references(writer, payload)
        work_item_id = work_entity(writer.database, request.work).id if request.work else None
        event = writer.append(
            request.event_type,
            payload,
            summary=request.summary,
            importance=request.importance,
            work_item_id=_work_of(writer, request, work_item_id) if request.session else work_item_id,
            session_id=request.session,
        )
        return AppendResult(project_revision=writer.project_revision, event=event_record(event), event_id=event.id)


def show(project: Project, request: ShowRequest) -> ShowResult:
    """Return one event. Raise NotFound, or InvalidInput for a payload above `max_bytes`."""
    with project.journal.read() as reader:
        event = visible_event(reader.database, request.event, client=request.visible_to)
        if event is None:
            raise NotFound(
                "there is no such event in this project",
                expected="the id of an event",
                next_step="run awr event history to see the events",
            )
        if request.full and len(event.payload.encode()) > request.max_bytes:
            raise InvalidInput(
                "the payload is larger than you asked for",
                got=f"{len(event.payload.encode())} bytes",
                expected=f"at most {request.max_bytes} bytes",
                next_step="raise --max-bytes, or leave out --full",
            )
        return ShowResult(project_revision=reader.project_revision, event=event_record(event, full=request.full))


def project_history(project: Project, request: ProjectHistoryRequest) -> HistoryResult:
    """Return a page of the project's events, oldest first. Raise InvalidInput or NotFound."""
    return _page(project, request, work=request.work)


def work_history(project: Project, request: WorkHistoryRequest) -> HistoryResult:
    """Return a page of one work item's events, oldest first. Raise InvalidInput or NotFound."""
    return _page(project, request, work=request.work)


def _page(project: Project, request: _HistoryFields, *, work: str | None) -> HistoryResult:
    if request.cursor is not None and request.after_revision is not None:
        raise InvalidInput(
            "a cursor and after_revision both say where to start",
            expected="one of them",
            next_step="leave one out",
        )
    with project.journal.read() as reader:
        page = history(
            reader.database,
            HistoryFilter(
                work_item_id=work_entity(reader.database, work).id if work else None,
                session_id=request.session,
                event_type=request.event_type,
                importance=request.importance,
                source_id=request.source,
                after_revision=request.after_revision or 0,
                through_revision=request.through_revision,
                visible_to=request.visible_to,
            ),
            project_id=reader.project_id,
            cursor=request.cursor,
            limit=request.limit,
        )
        return HistoryResult(
            project_revision=reader.project_revision, events=page.events, next_cursor=page.next_cursor
        )


def _work_of(writer: Writer, request: AppendRequest, work_item_id: str | None) -> str | None:
    session = session_by_id(writer.database, request.session or "")
    if session.status != "active":
        raise InvalidTransition(
            "an event of a session needs that session active",
            got=f"a session that is {session.status}",
            expected="an active session",
            next_step="leave the session out, or name the session that took over",
        )
    if work_item_id is not None and work_item_id != session.work_item_id:
        raise InvalidInput(
            "the session is bound to another work item",
            expected="the session's own work item, or none",
            next_step="leave the work out; the event takes it from the session",
        )
    return session.work_item_id


def _require_references(writer: Writer, payload: dict[str, Any]) -> None:
    for name in REFERENCE_FIELDS:
        if name in payload and not _exists(writer, name, str(payload[name])):
            raise NotFound(
                f"the payload's {name} names nothing in this project",
                expected="the id of an existing record",
                next_step=f"leave {name} out, or give an id that exists",
            )


def _exists(writer: Writer, name: str, identity: str) -> bool:
    if name == "source_id":
        return source_by_id(writer.database, identity) is not None
    if name == "checkpoint_id":
        return checkpoint_by_id(writer.database, identity) is not None
    # Artifacts cannot be recorded, so none exists.
    return name == "evidence_id" and evidence_by_id(writer.database, identity) is not None


def event_record(event: Event, *, full: bool = False) -> EventRecord:
    """Show an event to a caller; with `full`, its payload too."""
    return EventRecord(
        id=event.id,
        project_id=event.project_id,
        work_item_id=event.work_item_id,
        session_id=event.session_id,
        branch_id=event.branch_id,
        event_type=event.event_type,
        importance=event.importance,
        summary=event.summary,
        project_revision=event.project_revision,
        created_at=event.created_at,
        payload=event.content() if full else msgspec.UNSET,
    )
