"""Events as they are stored: one row, one link to the row before it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from awr.chain import digest, journal_bytes, link
from awr.domain.events import Importance
from awr.errors import InvalidInput, not_unicode
from awr.journal.database import Database, Row

__all__ = [
    "COLUMNS",
    "MAX_PAYLOAD_BYTES",
    "Event",
    "Head",
    "encode_payload",
    "event_by_id",
    "event_of",
    "events_in_order",
    "head_of",
    "insert_event",
    "link_of",
    "payload_sha256",
]

MAX_PAYLOAD_BYTES = 16 * 1024 * 1024
#: Part of every link, so that a later format can never be mistaken for this one.
FORMAT = "awr.journal.v1"


class Event(msgspec.Struct, frozen=True):
    """One journal record. `payload` is the stored JSON text, byte for byte."""

    position: int
    id: str
    project_id: str
    work_item_id: str | None
    session_id: str | None
    branch_id: str | None
    event_type: str
    importance: Importance
    summary: str
    payload: str
    payload_sha256: str
    project_revision: int
    created_at: int

    def content(self) -> dict[str, object]:
        """Return the payload as plain values."""
        value = msgspec.json.decode(self.payload)
        assert isinstance(value, dict)
        return value


class Head(msgspec.Struct, frozen=True):
    """The newest event's place. An empty journal has position 0, revision 0 and no link."""

    position: int
    project_revision: int
    link: bytes | None


def encode_payload(payload: object) -> str:
    """Encode a payload as it will be stored. Raise InvalidInput above 16 MiB."""
    try:
        data = journal_bytes(payload)
    except UnicodeEncodeError:
        raise not_unicode() from None
    if len(data) > MAX_PAYLOAD_BYTES:
        raise InvalidInput(
            "the event's payload is too large",
            got=f"{len(data)} bytes",
            expected=f"at most {MAX_PAYLOAD_BYTES} bytes",
            next_step="store the bulk in a file and name it in the event",
        )
    return data.decode()


class _Header(msgspec.Struct, frozen=True):
    """What a link covers: everything about an event but its payload, which stands there by its hash."""

    branch_id: str | None
    created_at: int
    event_type: str
    format: str
    id: str
    importance: str
    payload_sha256: str
    position: int
    project_id: str
    project_revision: int
    session_id: str | None
    summary: str
    work_item_id: str | None


def link_of(event: Event, *, previous: bytes | None) -> bytes:
    """Return the link of an event to the one before it."""
    header = _Header(
        event.branch_id,
        event.created_at,
        event.event_type,
        FORMAT,
        event.id,
        event.importance,
        event.payload_sha256,
        event.position,
        event.project_id,
        event.project_revision,
        event.session_id,
        event.summary,
        event.work_item_id,
    )
    return link(journal_bytes(header), previous=previous)


def insert_event(database: Database, event: Event, *, previous: bytes | None) -> bytes:
    """Store an event behind the head and return its link."""
    own = link_of(event, previous=previous)
    database.execute(_INSERT, (*msgspec.structs.astuple(event), own))
    return own


def head_of(database: Database) -> Head:
    """Return where the journal ends."""
    row = database.row("SELECT position, project_revision, link FROM events ORDER BY position DESC LIMIT 1")
    return Head(position=0, project_revision=0, link=None) if row is None else Head(*row)


def event_by_id(database: Database, event_id: str) -> Event | None:
    """Return one event, or None."""
    row = database.row(f"SELECT {COLUMNS} FROM events WHERE id = ?", (event_id,))
    return None if row is None else event_of(row)


def events_in_order(database: Database, *, after: int = 0) -> Iterator[tuple[Event, bytes]]:
    """Yield every event behind a position with its stored link, oldest first."""
    for row in database.execute(f"SELECT {COLUMNS}, link FROM events WHERE position > ? ORDER BY position", (after,)):
        yield event_of(row), row["link"]


def event_of(row: Row) -> Event:
    """Build an event from a row that starts with its columns."""
    return Event(*tuple(row)[: len(Event.__struct_fields__)])


COLUMNS = ", ".join(Event.__struct_fields__)
_INSERT = f"INSERT INTO events ({COLUMNS}, link) VALUES ({', '.join('?' * (len(Event.__struct_fields__) + 1))})"


def payload_sha256(payload: str) -> str:
    """Return the hash that an event carries of its payload."""
    return digest(payload.encode())
