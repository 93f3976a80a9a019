"""Proof that the journal is as it was written: every link, every payload, every revision."""

from __future__ import annotations

import msgspec

from awr.journal.database import Database
from awr.journal.events import Event, events_in_order, link_of, payload_sha256
from awr.journal.migrations import GUARDS

__all__ = ["Break", "Verification", "verify"]


class Break(msgspec.Struct, frozen=True):
    """The first place where the journal is not as it was written."""

    position: int
    event_id: str | None
    problem: str


class Verification(msgspec.Struct, frozen=True):
    """What a full reading of the journal found. `head` is the newest link; keep it elsewhere to detect a cut tail."""

    events: int
    project_revision: int
    head: str | None
    missing_guards: tuple[str, ...]
    broken: Break | None


def verify(database: Database, *, expected_head: str | None = None) -> Verification:
    """Read the whole journal and stop at the first break. `expected_head` is a link noted down earlier."""
    previous: bytes | None = None
    position = revision = 0
    broken: Break | None = None
    head_seen = expected_head is None
    for event, stored in events_in_order(database):
        problem = _problem(event, stored, after=position, revision=revision, previous=previous)
        if problem is not None:
            broken = Break(position=event.position, event_id=event.id, problem=problem)
            break
        previous, position, revision = stored, event.position, event.project_revision
        head_seen = head_seen or stored.hex() == expected_head
    if broken is None and not head_seen:
        broken = Break(position=position + 1, event_id=None, problem="the expected head is nowhere in the journal")
    return Verification(
        events=position,
        project_revision=revision,
        head=None if previous is None else previous.hex(),
        missing_guards=_missing_guards(database),
        broken=broken,
    )


def _problem(event: Event, stored: bytes, *, after: int, revision: int, previous: bytes | None) -> str | None:
    if event.position != after + 1:
        return f"events {after + 1} to {event.position - 1} are missing"
    if event.payload_sha256 != payload_sha256(event.payload):
        return "its payload is not the one that was written"
    if link_of(event, previous=previous) != stored:
        return "it does not link to the event before it"
    if not revision <= event.project_revision <= revision + 1:
        return f"revision {event.project_revision} cannot follow revision {revision}"
    return None


def _missing_guards(database: Database) -> tuple[str, ...]:
    rows = database.rows("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'events'")
    present = {row["name"]: row["sql"] for row in rows}
    return tuple(name for name, statement in GUARDS.items() if present.get(name) != statement)
