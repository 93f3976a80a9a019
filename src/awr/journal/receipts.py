"""Identified operations: which request came from whom, and what it came to. The journal has the answers."""

from __future__ import annotations

from typing import Any

import msgspec

from awr.journal.database import Database
from awr.journal.events import COLUMNS, Event, event_by_id, event_of
from awr.journal.journal import OPERATION_TAG

__all__ = ["MAX_DOMAIN_EVENTS", "PROJECTORS", "Receipt", "events_of_operation", "receipt_of", "recorded_answer"]

#: What one operation may leave behind, as far as anybody looks.
MAX_DOMAIN_EVENTS = 1000


class Receipt(msgspec.Struct, frozen=True):
    """One identified operation. `status` is started, finished or recovered; started means that nobody knows yet."""

    id: str
    client: str
    request_id: str
    tool: str
    fingerprint: str
    status: str
    started_revision: int
    started_at: int
    finished_revision: int | None
    answer_event_id: str | None


_RECEIPT = ", ".join(Receipt.__struct_fields__)


def receipt_of(database: Database, *, client: str, request_id: str) -> Receipt | None:
    """Return the receipt of a client's request, or None. Another client's is not found."""
    row = database.row(f"SELECT {_RECEIPT} FROM operations WHERE client = ? AND request_id = ?", (client, request_id))
    return None if row is None else Receipt(*tuple(row))


def recorded_answer(database: Database, receipt: Receipt) -> dict[str, Any] | None:
    """Return the answer on record: `result` and `is_error`; None while it is unknown."""
    if receipt.answer_event_id is None:
        return None
    event = event_by_id(database, receipt.answer_event_id)
    assert event is not None, "a projection names an event of the journal"
    return dict(event.content())


def events_of_operation(database: Database, receipt: Receipt) -> list[Event]:
    """Return what the operation itself appended, oldest first, at most a thousand events."""
    rows = database.rows(
        f"SELECT {COLUMNS} FROM events WHERE project_revision > ? AND json_extract(payload, ?) = ? "
        "ORDER BY position LIMIT ?",
        (receipt.started_revision, f"$.{OPERATION_TAG}", receipt.id, MAX_DOMAIN_EVENTS),
    )
    return [event_of(row) for row in rows]


def _started(database: Database, event: Event, payload: dict[str, object]) -> None:
    database.execute(
        f"INSERT INTO operations ({_RECEIPT}) VALUES (?, ?, ?, ?, ?, 'started', ?, ?, NULL, NULL)",
        (
            payload["operation_id"],
            payload["client"],
            payload["request_id"],
            payload["tool"],
            payload["fingerprint"],
            event.project_revision,
            event.created_at,
        ),
    )


def _answered(database: Database, event: Event, payload: dict[str, object]) -> None:
    database.execute(
        "UPDATE operations SET status = ?, finished_revision = ?, answer_event_id = ? WHERE id = ?",
        (event.event_type.rpartition("_")[2], event.project_revision, event.id, payload["operation_id"]),
    )


PROJECTORS = {
    "mcp.operation_started": _started,
    "mcp.operation_finished": _answered,
    "mcp.operation_recovered": _answered,
}
