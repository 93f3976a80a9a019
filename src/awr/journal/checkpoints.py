"""Checkpoints, the attempts to save them, and waits, as the journal has them."""

from __future__ import annotations

import msgspec

from awr.chain import journal_bytes
from awr.domain.session import Checkpoint, Wait
from awr.errors import NotFound
from awr.journal.database import Database, Row
from awr.journal.events import Event
from awr.journal.sessions import lineage

__all__ = [
    "PROJECTORS",
    "checkpoint_by_id",
    "inherited_checkpoint",
    "latest_checkpoint",
    "newest_checkpoint_of_work",
    "open_waits",
    "recent_attempts",
    "unfinished_attempts",
    "wait_by_id",
    "waits_of",
]

_CHECKPOINT = ", ".join(Checkpoint.__struct_fields__)
_WAIT = ", ".join(Wait.__struct_fields__)
MAX_WAITS = 100


def latest_checkpoint(database: Database, session_id: str) -> Checkpoint | None:
    """Return the newest finished checkpoint of a session, or None."""
    row = database.row(
        f"SELECT {_CHECKPOINT} FROM checkpoints WHERE session_id = ? ORDER BY revision DESC LIMIT 1", (session_id,)
    )
    return None if row is None else _checkpoint(row)


def newest_checkpoint_of_work(database: Database, work_item_id: str, *, client: str | None) -> Checkpoint | None:
    """Return the newest checkpoint that any session, or one of a client's, saved for a work item; or None."""
    row = database.row(
        f"SELECT {_CHECKPOINT} FROM checkpoints WHERE session_id IN "
        "(SELECT id FROM sessions WHERE work_item_id = ? AND (? IS NULL OR client = ?)) "
        "ORDER BY revision DESC LIMIT 1",
        (work_item_id, client, client),
    )
    return None if row is None else _checkpoint(row)


def checkpoint_by_id(database: Database, checkpoint_id: str) -> Checkpoint | None:
    """Return one checkpoint, or None."""
    row = database.row(f"SELECT {_CHECKPOINT} FROM checkpoints WHERE id = ?", (checkpoint_id,))
    return None if row is None else _checkpoint(row)


def inherited_checkpoint(database: Database, session_id: str) -> Checkpoint | None:
    """Return the newest checkpoint of the sessions this one continues, nearest first, or None."""
    for ancestor in lineage(database, session_id)[1:]:
        found = latest_checkpoint(database, ancestor)
        if found is not None:
            return found
    return None


def unfinished_attempts(database: Database, session_id: str | None = None) -> list[Row]:
    """Return attempts to save a checkpoint that neither finished nor were closed, oldest first."""
    return database.rows(
        "SELECT * FROM checkpoint_attempts WHERE state = 'started' AND (? IS NULL OR session_id = ?) ORDER BY id",
        (session_id, session_id),
    )


def recent_attempts(database: Database, session_id: str, *, limit: int) -> list[Row]:
    """Return a session's newest attempts to save a checkpoint, newest first, however they ended."""
    return database.rows(
        "SELECT * FROM checkpoint_attempts WHERE session_id = ? ORDER BY id DESC LIMIT ?", (session_id, limit)
    )


def wait_by_id(database: Database, wait_id: str) -> Wait:
    """Return one wait. Raise NotFound."""
    row = database.row(f"SELECT {_WAIT} FROM waits WHERE id = ?", (wait_id,))
    if row is None:
        raise NotFound(
            "there is no such wait in this project",
            expected="the id of a wait",
            next_step="run awr session waits to see them",
        )
    return Wait(*row)


def waits_of(database: Database, session_id: str) -> list[Wait]:
    """Return the waits of a session and of those it continues, newest first."""
    sessions = lineage(database, session_id)
    marks = ", ".join("?" * len(sessions))
    order = f"ORDER BY created_at DESC, rowid DESC LIMIT {MAX_WAITS}"
    rows = database.rows(f"SELECT {_WAIT} FROM waits WHERE session_id IN ({marks}) {order}", sessions)
    return [Wait(*row) for row in rows]


def open_waits(database: Database, session_id: str) -> list[Wait]:
    """Return the waits of a session's lineage that the user has not resolved."""
    return [wait for wait in waits_of(database, session_id) if wait.status == "waiting_user"]


def _checkpoint(row: Row) -> Checkpoint:
    values = dict(zip(Checkpoint.__struct_fields__, tuple(row), strict=True))
    values["open_loops"] = msgspec.json.decode(values["open_loops"], type=tuple[str, ...])
    values["changed_entities"] = msgspec.json.decode(values["changed_entities"], type=tuple[str, ...])
    return Checkpoint(**values)


def _started(database: Database, event: Event, payload: dict[str, object]) -> None:
    database.execute(
        "INSERT INTO checkpoint_attempts (id, session_id, base_project_revision, state, started_at) "
        "VALUES (?, ?, ?, 'started', ?)",
        (event.id, event.session_id, payload["base_project_revision"], event.created_at),
    )


def _created(database: Database, event: Event, payload: dict[str, object]) -> None:
    database.execute(
        f"INSERT INTO checkpoints ({_CHECKPOINT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            payload["checkpoint_id"],
            event.session_id,
            payload["checkpoint_project_revision"],
            payload["context_hash"],
            payload["digest"],
            payload["next_action"],
            journal_bytes(payload["open_loops"]).decode(),
            journal_bytes(payload["changed_entities"]).decode(),
            event.project_revision,
            event.created_at,
        ),
    )
    database.execute("UPDATE checkpoint_attempts SET state = 'created' WHERE id = ?", (payload["attempt_id"],))
    database.execute(
        "UPDATE sessions SET last_checkpoint_id = ? WHERE id = ?", (payload["checkpoint_id"], event.session_id)
    )


def _abandoned(database: Database, event: Event, payload: dict[str, object]) -> None:
    database.execute("UPDATE checkpoint_attempts SET state = 'abandoned' WHERE id = ?", (payload["attempt_id"],))


def _wait_created(database: Database, event: Event, payload: dict[str, object]) -> None:
    database.execute(
        f"INSERT INTO waits ({_WAIT}) VALUES (?, ?, ?, ?, ?, 'waiting_user', NULL, ?, ?)",
        (
            payload["wait_id"],
            payload["client"],
            event.session_id,
            payload["checkpoint_id"],
            payload["question"],
            event.created_at,
            event.project_revision,
        ),
    )


def _wait_replied(database: Database, event: Event, payload: dict[str, object]) -> None:
    database.execute(
        "UPDATE waits SET status = ?, reply = ?, revision = ? WHERE id = ?",
        (payload["status"], payload["reply"], event.project_revision, payload["wait_id"]),
    )


PROJECTORS = {
    "checkpoint.started": _started,
    "checkpoint.created": _created,
    "checkpoint.abandoned": _abandoned,
    "mcp.wait_created": _wait_created,
    "mcp.wait_replied": _wait_replied,
}
