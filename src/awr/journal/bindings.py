"""The bindings of hosts' conversations as the journal has them."""

from __future__ import annotations

from typing import cast

import msgspec

from awr.chain import journal_bytes
from awr.domain.binding import ClientBinding
from awr.journal.database import Database
from awr.journal.events import Event

__all__ = ["PROJECTORS", "client_binding", "unbound_sessions"]

_BINDING = ", ".join(ClientBinding.__struct_fields__)


def client_binding(database: Database, *, client: str, external_session: str) -> ClientBinding | None:
    """Return the binding of one conversation of a host, or None."""
    row = database.row(
        f"SELECT {_BINDING} FROM client_bindings WHERE client = ? AND external_session = ?",
        (client, external_session),
    )
    if row is None:
        return None
    values = dict(zip(ClientBinding.__struct_fields__, tuple(row), strict=True))
    values["open_loops"] = msgspec.json.decode(values["open_loops"], type=tuple[str, ...])
    return ClientBinding(**values)


def unbound_sessions(database: Database, *, agent_id: str, work_item_id: str) -> list[str]:
    """Return the ids of an agent's active sessions on a work item that no binding names, oldest first."""
    rows = database.rows(
        "SELECT id FROM sessions WHERE status = 'active' AND agent_id = ? AND work_item_id = ? "
        "AND id NOT IN (SELECT session_id FROM client_bindings) ORDER BY start_project_revision, id",
        (agent_id, work_item_id),
    )
    return [row["id"] for row in rows]


def _bound(database: Database, event: Event, payload: dict[str, object]) -> None:
    database.execute(
        "INSERT INTO client_bindings (client, external_session, session_id, context_hash, context_revision, "
        "revision, open_loops, observed_at) VALUES (?, ?, ?, ?, ?, ?, '[]', ?)",
        (
            payload["client"],
            payload["external_session"],
            event.session_id,
            payload["context_hash"],
            payload["context_revision"],
            event.project_revision,
            event.created_at,
        ),
    )


def _updated(database: Database, event: Event, payload: dict[str, object]) -> None:
    progress = cast("dict[str, object]", payload["progress"])
    loops = progress.get("open_loops")
    database.execute(
        "UPDATE client_bindings SET next_action = ?, digest = coalesce(?, digest), "
        "open_loops = coalesce(?, open_loops), progress_revision = ?, revision = ?, observed_at = ? "
        "WHERE client = ? AND external_session = ?",
        (
            progress["next_action"],
            progress.get("digest"),
            None if loops is None else journal_bytes(loops).decode(),
            event.project_revision,
            event.project_revision,
            event.created_at,
            payload["client"],
            payload["external_session"],
        ),
    )


PROJECTORS = {
    "client.bound": _bound,
    "client.updated": _updated,
}
