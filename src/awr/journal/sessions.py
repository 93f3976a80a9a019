"""Sessions and claims as the journal has them: how events change them, and how to find them."""

from __future__ import annotations

from awr.domain.session import Binding, Claim, Session
from awr.errors import NotFound
from awr.journal.database import Database, Row
from awr.journal.events import Event

__all__ = [
    "PROJECTORS",
    "active_claim",
    "binding_of",
    "claims_of_session",
    "is_visible",
    "lineage",
    "newest_sessions",
    "session_bound_to",
    "session_by_id",
    "sessions_of",
    "successor_of",
]

_SESSION = ", ".join(Session.__struct_fields__)
_CLAIM = ", ".join(Claim.__struct_fields__)
MAX_LINEAGE = 32


def session_by_id(database: Database, session_id: str) -> Session:
    """Return one session. Raise NotFound, also for a session of another project."""
    row = database.row(f"SELECT {_SESSION} FROM sessions WHERE id = ?", (session_id,))
    if row is None:
        raise NotFound(
            "there is no such session in this project",
            expected="the id of a session of this project",
            next_step="run awr session list to see the sessions",
        )
    return _session(row)


def session_bound_to(database: Database, binding: Binding) -> Session | None:
    """Return the newest session of a native conversation, or None."""
    row = database.row(
        f"SELECT {_SESSION} FROM sessions WHERE client = ? AND conversation = ? ORDER BY start_project_revision DESC",
        (binding.client, binding.conversation),
    )
    return None if row is None else _session(row)


def binding_of(database: Database, session_id: str) -> Binding | None:
    """Return the conversation a session is bound to, or None."""
    row = database.row("SELECT client, conversation FROM sessions WHERE id = ?", (session_id,))
    return None if row is None or row["client"] is None else Binding(*tuple(row))


def newest_sessions(
    database: Database, *, active_only: bool, before_revision: int | None, limit: int, client: str | None = None
) -> list[Session]:
    """Return sessions, newest first; `client` leaves those that are bound to a conversation of that client."""
    rows = database.rows(
        f"SELECT {_SESSION} FROM sessions WHERE (NOT ? OR status = 'active') AND start_project_revision < ? "
        "AND (? IS NULL OR client = ?) ORDER BY start_project_revision DESC, id DESC LIMIT ?",
        (active_only, 2**62 if before_revision is None else before_revision, client, client, limit),
    )
    return [_session(row) for row in rows]


def lineage(database: Database, session_id: str) -> list[str]:
    """Return a session and those it continues, nearest first, at most 32."""
    found = [session_id]
    while len(found) < MAX_LINEAGE:
        row = database.row("SELECT resumed_from FROM sessions WHERE id = ?", (found[-1],))
        if row is None or row["resumed_from"] is None:
            break
        found.append(row["resumed_from"])
    return found


def successor_of(database: Database, session_id: str) -> str | None:
    """Return the session that took over from this one, or None."""
    row = database.row("SELECT resumed_to FROM sessions WHERE id = ?", (session_id,))
    return None if row is None else row["resumed_to"]


def sessions_of(database: Database, client: str) -> list[str]:
    """Return the ids of the sessions that are bound to a client's conversations."""
    return [row["id"] for row in database.rows("SELECT id FROM sessions WHERE client = ? ORDER BY id", (client,))]


def is_visible(database: Database, session_id: str | None, *, client: str | None) -> bool:
    """Tell whether a client may see what belongs to a session. What belongs to none is everybody's."""
    if session_id is None or client is None:
        return True
    bound = binding_of(database, session_id)
    return bound is not None and bound.client == client


def claims_of_session(database: Database, session_id: str, *, active_only: bool = False) -> list[Claim]:
    """Return a session's claims, oldest first. `active_only` leaves out the closed ones."""
    rows = database.rows(
        f"SELECT {_CLAIM} FROM claims WHERE session_id = ? AND (NOT ? OR status = 'active') ORDER BY acquired_at, id",
        (session_id, active_only),
    )
    return [_claim(row) for row in rows]


def active_claim(database: Database, work_item_id: str) -> Claim | None:
    """Return the claim recorded as active for a work item. Whether it has expired is for the caller to see."""
    row = database.row(f"SELECT {_CLAIM} FROM claims WHERE work_item_id = ? AND status = 'active'", (work_item_id,))
    return None if row is None else _claim(row)


def _session(row: Row) -> Session:
    return Session(*tuple(row))


def _claim(row: Row) -> Claim:
    return Claim(*tuple(row))


def _started(database: Database, event: Event, payload: dict[str, object]) -> None:
    binding = payload["mcp_binding"]
    client, conversation = (binding["client"], binding["conversation"]) if isinstance(binding, dict) else (None, None)
    database.execute(
        f"INSERT INTO sessions ({_SESSION}, client, conversation) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, 'active', ?, NULL, ?, NULL, NULL, ?, ?, ?)",
        (
            event.session_id,
            event.project_id,
            event.work_item_id,
            event.branch_id,
            payload["agent_id"],
            payload["provider"],
            payload["model"],
            event.created_at,
            event.project_revision,
            event.project_revision,
            client,
            conversation,
        ),
    )


def _resumed(database: Database, event: Event, payload: dict[str, object]) -> None:
    _started(database, event, payload)
    database.execute(
        "UPDATE sessions SET resumed_from = ? WHERE id = ?", (payload["from_session_id"], event.session_id)
    )


def _resumed_from(database: Database, event: Event, payload: dict[str, object]) -> None:
    database.execute(
        "UPDATE sessions SET resumed_to = ?, revision = ? WHERE id = ?",
        (payload["to_session_id"], event.project_revision, event.session_id),
    )
    if payload["status"] is not None:
        _ended(database, event, payload)


def _handed_over(database: Database, event: Event, payload: dict[str, object]) -> None:
    _ended(database, event, {"status": "incomplete"})
    receiver = payload["to_session_id"]
    if receiver is not None:
        database.execute("UPDATE sessions SET resumed_to = ? WHERE id = ?", (receiver, event.session_id))
        database.execute("UPDATE sessions SET resumed_from = ? WHERE id = ?", (event.session_id, receiver))


def _ended(database: Database, event: Event, payload: dict[str, object]) -> None:
    database.execute(
        "UPDATE sessions SET status = ?, ended_at = ?, end_project_revision = ?, revision = ? WHERE id = ?",
        (
            payload["status"],
            event.created_at,
            event.project_revision,
            event.project_revision,
            event.session_id,
        ),
    )


def _claimed(database: Database, event: Event, payload: dict[str, object]) -> None:
    database.execute(
        f"INSERT INTO claims ({_CLAIM}) VALUES (?, ?, ?, ?, ?, ?, 'active', ?, ?, NULL, ?)",
        (
            payload["claim_id"],
            event.project_id,
            event.work_item_id,
            event.session_id,
            payload["agent_id"],
            event.branch_id,
            event.created_at,
            payload["expires_at"],
            event.project_revision,
        ),
    )


def _released(database: Database, event: Event, payload: dict[str, object]) -> None:
    database.execute(
        "UPDATE claims SET status = 'released', released_at = ?, revision = ? WHERE id = ?",
        (event.created_at, event.project_revision, payload["claim_id"]),
    )


def _expired(database: Database, event: Event, payload: dict[str, object]) -> None:
    database.execute(
        "UPDATE claims SET status = 'expired', revision = ? WHERE id = ?",
        (event.project_revision, payload["claim_id"]),
    )


PROJECTORS = {
    "session.started": _started,
    "session.resumed": _resumed,
    "session.resumed_from": _resumed_from,
    "session.ended": _ended,
    "session.interrupted": _ended,
    "work.handoff": _handed_over,
    "work.claimed": _claimed,
    "claim.released": _released,
    "claim.expired": _expired,
}
