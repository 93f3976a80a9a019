"""What is derived from the journal, event by event, and how to derive it again.

Writing an event and rebuilding from the journal run the same functions, so the two cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable

from awr.journal import (
    bindings,
    checkpoints,
    compactions,
    evidence,
    executions,
    management,
    proposals,
    receipts,
    sessions,
    sources,
)
from awr.journal.database import Database
from awr.journal.events import Event, events_in_order

__all__ = ["PROJECTED_TABLES", "project_event", "rebuild", "snapshot"]

Projector = Callable[[Database, Event, dict[str, object]], None]

#: Every table that the journal alone determines, with the columns that order its rows.
PROJECTED_TABLES = {
    "sessions": "id",
    "claims": "id",
    "compactions": "session_id, compaction_id",
    "checkpoints": "id",
    "checkpoint_attempts": "id",
    "waits": "id",
    "executions": "id",
    "execution_reports": "request_key",
    "management_records": "request_key",
    "sources": "id",
    "entities": "kind, external_key",
    "evidence": "id",
    "proposals": "id",
    "operations": "id",
    "client_bindings": "client, external_session",
}


def project_event(database: Database, event: Event) -> None:
    """Bring every projection up to date with one new event."""
    projector = _PROJECTORS.get(event.event_type)
    if projector is not None:
        projector(database, event, event.content())


def rebuild(database: Database) -> dict[str, int]:
    """Derive every projection again from the journal. Return, per table, how many rows were not as they should be.

    Run it inside a write transaction. What source files describe is not touched: it comes from the files.
    """
    before = snapshot(database)
    for table in PROJECTED_TABLES:
        database.execute(f"DELETE FROM {table}")
    for event, _ in events_in_order(database):
        project_event(database, event)
    after = snapshot(database)
    return {table: len(before[table] ^ after[table]) for table in PROJECTED_TABLES}


def snapshot(database: Database) -> dict[str, frozenset[tuple[object, ...]]]:
    """Return the rows of every projection, for comparing two states."""
    return {
        table: frozenset(tuple(row) for row in database.rows(f"SELECT * FROM {table} ORDER BY {order}"))
        for table, order in PROJECTED_TABLES.items()
    }


_PROJECTORS: dict[str, Projector] = {
    **sessions.PROJECTORS,
    **compactions.PROJECTORS,
    **checkpoints.PROJECTORS,
    **executions.PROJECTORS,
    **management.PROJECTORS,
    **sources.PROJECTORS,
    **evidence.PROJECTORS,
    **proposals.PROJECTORS,
    **receipts.PROJECTORS,
    **bindings.PROJECTORS,
}
