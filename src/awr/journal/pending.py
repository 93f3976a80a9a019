"""What is held and what is unfinished now."""

from __future__ import annotations

from collections.abc import Set
from typing import Literal

import msgspec

from awr.domain.execution import is_uncertain
from awr.journal.checkpoints import unfinished_attempts
from awr.journal.executions import executions
from awr.journal.journal import Reader
from awr.journal.proposals import pending_proposals

__all__ = ["HeldWork", "PendingOperation", "held_work", "pending_operations"]

MAX_EXECUTIONS = 1000


class HeldWork(msgspec.Struct, frozen=True):
    """A claim that holds now."""

    work_item_key: str
    agent_id: str
    session_id: str
    expires_at: int | None


class PendingOperation(msgspec.Struct, frozen=True):
    """Something that began and whose end is not recorded. `work_item_key` is null where none is bound to it."""

    kind: Literal["checkpoint", "execution", "proposal", "wait"]
    id: str
    state: str
    session_id: str | None
    work_item_key: str | None


def held_work(reader: Reader, *, only: Set[str] | None = None) -> list[HeldWork]:
    """Return the claims that hold now, oldest first; `only` keeps those of some work items."""
    rows = reader.database.rows(
        "SELECT e.external_key, c.agent_id, c.session_id, c.expires_at FROM claims c "
        "JOIN entities e ON e.id = c.work_item_id "
        "WHERE c.status = 'active' AND (c.expires_at IS NULL OR c.expires_at > ?) ORDER BY c.acquired_at, c.id",
        (reader.now,),
    )
    return [HeldWork(*row) for row in rows if only is None or row["external_key"] in only]


def pending_operations(reader: Reader, *, only: Set[str] | None = None) -> list[PendingOperation]:
    """Return what began and whose end is not recorded; `only` keeps what belongs to some work items."""
    database = reader.database
    of_session = "SELECT e.external_key FROM sessions s JOIN entities e ON e.id = s.work_item_id WHERE s.id = ?"

    def key(sql: str, identifier: str | None) -> str | None:
        row = database.row(sql, (identifier,)) if identifier is not None else None
        return row["external_key"] if row is not None else None

    by_id = "SELECT external_key FROM entities WHERE id = ?"
    found = [
        PendingOperation("checkpoint", row["id"], row["state"], row["session_id"], key(of_session, row["session_id"]))
        for row in unfinished_attempts(database)
    ]
    found += [
        PendingOperation("execution", one.id, one.state, one.session_id, key(by_id, one.work_item_id))
        for one in reversed(executions(database, limit=MAX_EXECUTIONS))
        if is_uncertain(one)
    ]
    found += [
        PendingOperation("proposal", one.id, one.status, one.created_by_session, key(by_id, one.work_item_id))
        for one in pending_proposals(reader)
    ]
    waits = database.rows("SELECT id, status, session_id FROM waits WHERE status = 'waiting_user' ORDER BY id")
    found += [
        PendingOperation("wait", row["id"], row["status"], row["session_id"], key(of_session, row["session_id"]))
        for row in waits
    ]
    return [one for one in found if only is None or one.work_item_key in only]
