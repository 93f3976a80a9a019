"""Looking back over the journal, a page at a time, without payloads."""

from __future__ import annotations

import msgspec

from awr.domain.events import Importance
from awr.errors import InvalidInput
from awr.journal.database import Database, Row
from awr.journal.events import COLUMNS, Event, event_of

__all__ = ["Cursor", "HistoryFilter", "HistoryPage", "HistoryRow", "history", "visible_event"]

SUMMARY_CHARACTERS = 240
#: What a client of the shared service may see: its own sessions' events, and those of no session. An identified
#: write's record holds the answer that one client got.
_VISIBLE = (
    "(session_id IN (SELECT id FROM sessions WHERE client = :client) "
    "OR (session_id IS NULL AND event_type NOT LIKE 'mcp.operation_%'))"
)


class Cursor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a page ended: an event of this project."""

    project_id: str
    project_revision: int
    created_at: int
    event_id: str


class HistoryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events to return. Revisions are inclusive at `through_revision` and exclusive at `after_revision`."""

    work_item_id: str | None = None
    session_id: str | None = None
    event_type: str | None = None
    importance: Importance | None = None
    source_id: str | None = None
    after_revision: int = 0
    through_revision: int | None = None
    visible_to: str | None = None


class HistoryRow(msgspec.Struct, frozen=True):
    """One event without its payload; the summary is cut to 240 characters."""

    id: str
    type: str
    summary: str
    importance: Importance
    session_id: str | None
    branch_id: str | None
    project_revision: int
    created_at: int
    work_item_id: str | None
    source_id: str | None
    checkpoint_id: str | None
    artifact_id: str | None


class HistoryPage(msgspec.Struct, frozen=True):
    """One page of events, oldest first."""

    events: tuple[HistoryRow, ...]
    next_cursor: Cursor | None


def history(
    database: Database, wanted: HistoryFilter, *, project_id: str, cursor: Cursor | None, limit: int
) -> HistoryPage:
    """Return a page in the order (project_revision, created_at, id). Raise InvalidInput for a foreign cursor."""
    after = 0 if cursor is None else _position_of(database, cursor, project_id=project_id)
    rows = database.rows(
        f"""
        SELECT {COLUMNS},
            json_extract(payload, '$.source_id') AS named_source,
            json_extract(payload, '$.checkpoint_id') AS named_checkpoint,
            json_extract(payload, '$.artifact_id') AS named_artifact
        FROM events
        WHERE position > :after AND project_revision > :after_revision
            AND (:through IS NULL OR project_revision <= :through)
            AND (:work IS NULL OR work_item_id = :work)
            AND (:session IS NULL OR session_id = :session)
            AND (:type IS NULL OR event_type = :type)
            AND (:importance IS NULL OR importance = :importance)
            AND (:source IS NULL OR named_source = :source)
            AND (:client IS NULL OR {_VISIBLE})
        ORDER BY position LIMIT :limit
        """,
        {
            "after": after,
            "after_revision": wanted.after_revision,
            "through": wanted.through_revision,
            "work": wanted.work_item_id,
            "session": wanted.session_id,
            "type": wanted.event_type,
            "importance": wanted.importance,
            "source": wanted.source_id,
            "client": wanted.visible_to,
            "limit": limit + 1,
        },
    )
    page = rows[:limit]
    return HistoryPage(
        events=tuple(_history_row(row) for row in page),
        next_cursor=_cursor_at(event_of(page[-1])) if len(rows) > limit else None,
    )


def visible_event(database: Database, event_id: str, *, client: str | None) -> Event | None:
    """Return one event, or None where there is none or this client may not see it; None as client sees all."""
    row = database.row(
        f"SELECT {COLUMNS} FROM events WHERE id = :id AND (:client IS NULL OR {_VISIBLE})",
        {"id": event_id, "client": client},
    )
    return None if row is None else event_of(row)


def _history_row(row: Row) -> HistoryRow:
    event = event_of(row)
    return HistoryRow(
        id=event.id,
        type=event.event_type,
        summary=event.summary[:SUMMARY_CHARACTERS],
        importance=event.importance,
        session_id=event.session_id,
        branch_id=event.branch_id,
        project_revision=event.project_revision,
        created_at=event.created_at,
        work_item_id=event.work_item_id,
        source_id=row["named_source"],
        checkpoint_id=row["named_checkpoint"],
        artifact_id=row["named_artifact"],
    )


def _cursor_at(event: Event) -> Cursor:
    return Cursor(
        project_id=event.project_id,
        project_revision=event.project_revision,
        created_at=event.created_at,
        event_id=event.id,
    )


def _position_of(database: Database, cursor: Cursor, *, project_id: str) -> int:
    row = database.row(
        "SELECT position FROM events WHERE id = ? AND project_revision = ? AND created_at = ?",
        (cursor.event_id, cursor.project_revision, cursor.created_at),
    )
    if row is None or cursor.project_id != project_id:
        raise InvalidInput(
            "the cursor does not belong to this project's history",
            expected="the next_cursor of a page of this project, unchanged",
            next_step="start again without a cursor",
        )
    return int(row["position"])
