"""The tables of the ACS chains: sessions, entries, what each has seen, and the lineage that outlives an archive.

One request is one transaction. It commits before it is answered, and whatever a request is refused for, that it was
seen is kept. Several processes may share the file: nothing of a session is remembered outside of it.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from awr.chain import digest, link
from awr.errors import io_error
from awr.guardian.facts import Known
from awr.journal.database import Database, Row
from awr.journal.migrations import SCHEMA_VERSION, migrate

__all__ = ["ARCHIVE_BYTES", "Appended", "Session", "Store"]

#: How long a request waits for another process that writes, in milliseconds: well inside a client's own patience.
BUSY_MS = 2_000
#: Entries beyond this many bytes are packed together; the size is the one that the standard suggests.
ARCHIVE_BYTES = 65_536

_COLUMNS = (
    "id, session_id, agent_id, key_id, provenance_producer, server_hello, opened_at, entries, head, summary, intent, "
    "sealed_at, deferrals, kept_bytes"
)


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One session as it stands. `head` is the raw hash of its last entry; None before the first."""

    id: int
    session_id: str
    agent_id: str
    key_id: str
    provenance_producer: str
    server_hello: dict[str, Any]
    opened_at: int
    entries: int
    head: bytes | None
    summary: dict[str, Any]
    intent: dict[str, Any] | None
    sealed_at: int | None
    deferrals: int
    kept_bytes: int

    @property
    def methods(self) -> list[str]:
        """The methods that were agreed."""
        found: list[str] = self.server_hello["methods_evaluated"]
        return found


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """What one request adds to its session. `entry` is the canonical form that the chain commits to."""

    step_id: bytes
    step_type: str
    entry: bytes
    facts: Mapping[str, Any]
    provenance: tuple[Known, ...]
    depths: Mapping[str, int | None]
    summary: Mapping[str, Any]
    intent: Mapping[str, Any] | None
    decision: str
    reason_codes: tuple[str, ...]
    findings: tuple[str, ...]
    seals: bool
    subagent: tuple[str, str] | None


class Store:
    """The chains in one database file, through one connection."""

    def __init__(self, database: Database, *, busy_ms: int = BUSY_MS) -> None:
        self.database = database
        self.busy_ms = busy_ms
        #: Whether several requests share one transaction now.
        self.grouped = False

    @classmethod
    def open(cls, path: Path, *, now: int, create: bool, busy_ms: int = BUSY_MS) -> Store:
        """Open a database for writing, bring it up to date, and make it first where `create` says so.

        A new file is only its owner's. `busy_ms` is how long a turn waits for another process from then on. Raise
        Storage or Io as every opening does.
        """
        mode: Literal["create", "write"] = "create" if create else "write"
        if create:
            _make_private(path)
        database = Database(path, mode=mode, busy_ms=BUSY_MS, schema_version=SCHEMA_VERSION)
        try:
            if database.is_empty():
                database.claim_new_file()
            migrate(database, now=now)
            database.wait_at_most(busy_ms)
        except BaseException:
            database.close()
            raise
        return cls(database, busy_ms=busy_ms)

    @classmethod
    def read(cls, path: Path) -> Store:
        """Open a database that nothing is written to."""
        return cls(Database(path, mode="read", schema_version=SCHEMA_VERSION))

    def close(self) -> None:
        """Close the connection."""
        self.database.close()

    def turn(self) -> AbstractContextManager[None]:
        """Hold one transaction for writing, or a part of the group's. Raise Storage when no turn is got in time."""
        return _Part(self.database) if self.grouped else self.database.transaction("IMMEDIATE")

    @contextmanager
    def group(self) -> Iterator[None]:
        """Let the turns inside share one transaction and its commit. If it fails, nothing of any of them is kept."""
        with self.database.transaction("IMMEDIATE"):
            self.grouped = True
            try:
                yield
            finally:
                self.grouped = False

    @contextmanager
    def impatient(self) -> Iterator[None]:
        """Wait for nobody: who asks has waited already."""
        self.database.wait_at_most(0)
        try:
            yield
        finally:
            self.database.wait_at_most(self.busy_ms)

    def session(self, session_id: str) -> Session | None:
        """Return a session by the id that its client chose, or None."""
        row = self.database.row(f"SELECT {_COLUMNS} FROM acs_sessions WHERE session_id = ?", (session_id,))
        return None if row is None else _session(row)

    def sessions(self, *, after: int, limit: int) -> list[Session]:
        """Return sessions in the order in which they began."""
        rows = self.database.rows(
            f"SELECT {_COLUMNS} FROM acs_sessions WHERE id > ? ORDER BY id LIMIT ?", (after, limit)
        )
        return [_session(row) for row in rows]

    def first_sight(self, session_id: str, *, request_id: bytes, nonce: str | None) -> bool:
        """Remember a request's id and nonce. Return False when the session has seen one of them."""
        marks = [b"r" + request_id]
        if nonce is not None:
            marks.append(b"n" + bytes.fromhex(digest(nonce.encode()))[:16])
        added = [
            self.database.execute("INSERT OR IGNORE INTO acs_seen VALUES (?, ?)", (session_id, mark)).rowcount
            for mark in marks
        ]
        return all(added)

    def add_session(
        self,
        session_id: str,
        *,
        agent_id: str,
        key_id: str,
        provenance_producer: str,
        server_hello: Mapping[str, Any],
        now: int,
    ) -> None:
        """Begin a session."""
        self.database.execute(
            "INSERT INTO acs_sessions (session_id, agent_id, key_id, provenance_producer, server_hello, opened_at) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (session_id, agent_id, key_id, provenance_producer, _json(server_hello), now),
        )

    def depths(self, session: Session, known: Sequence[Known]) -> dict[str, int | None]:
        """Return how many derivations lie under each of these, or None where a part of the lineage is not known."""
        found: dict[str, int | None] = {}
        for item in known:
            under = [found[name] if name in found else self._depth(session, name) for name in item.derived_from]
            reached = [depth for depth in under if depth is not None]
            found[item.provenance_id] = None if len(reached) < len(under) else max(reached, default=-1) + 1
        return found

    def step_type(self, session: Session, step_id: bytes) -> str | None:
        """Return the method of a step that the session has an entry of, or None."""
        row = self.database.row(
            "SELECT step_type FROM acs_entries WHERE session = ? AND step_id = ?", (session.id, step_id)
        )
        return None if row is None else str(row["step_type"])

    def append(self, session: Session, added: Appended, *, now: int) -> bytes:
        """Add one entry behind the session's head. Return the new head."""
        position = session.entries + 1
        head = link(added.entry, previous=session.head)
        facts = _json(added.facts)
        self.database.execute(
            "INSERT INTO acs_entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                session.id,
                position,
                added.step_id,
                added.step_type,
                head,
                added.decision,
                _json(added.reason_codes),
                _json(added.findings),
                now,
            ),
        )
        self.database.execute(
            "INSERT INTO acs_contents VALUES (?, ?, ?, ?)", (session.id, position, added.entry, facts)
        )
        for item in added.provenance:
            self.database.execute(
                "INSERT INTO acs_provenance VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    session.id,
                    item.provenance_id,
                    position,
                    item.origin,
                    item.source_id,
                    _json(item.derived_from),
                    added.depths[item.provenance_id],
                ),
            )
        if added.subagent is not None:
            self.database.execute(
                "INSERT INTO acs_subagents VALUES (?, ?, ?, ?)", (session.id, position, *added.subagent)
            )
        kept = session.kept_bytes + len(added.entry) + len(facts)
        if added.seals or kept > ARCHIVE_BYTES:
            self._archive(session, last=position)
            kept = 0
        intent = session.intent if session.intent is not None else added.intent
        self.database.execute(
            "UPDATE acs_sessions SET entries = ?, head = ?, summary = ?, intent = ?, sealed_at = ?, deferrals = ?, "
            "kept_bytes = ? WHERE id = ?",
            (
                position,
                head,
                _json(aggregated(session.summary, added.summary)),
                None if intent is None else _json(intent),
                now if added.seals else None,
                session.deferrals + (added.decision == "defer"),
                kept,
                session.id,
            ),
        )
        return head

    def entries(self, session: Session, *, after: int = 0, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield entries in order, archived ones as well: position, link, entry, facts, decision and the rest."""
        packed = _Packed(self.database, session)
        cursor = self.database.execute(
            "SELECT position, step_id, step_type, link, entry, facts, decision, reason_codes, findings, received_at "
            "FROM acs_entries LEFT JOIN acs_contents USING (session, position) "
            "WHERE session = ? AND position > ? ORDER BY position LIMIT ?",
            (session.id, after, -1 if limit is None else limit),
        )
        for row in cursor:
            found = dict(row)
            if found["entry"] is None:
                found["entry"], found["facts"] = packed.at(found["position"])
            for name in ("facts", "reason_codes", "findings"):
                found[name] = None if found[name] is None else msgspec.json.decode(found[name])
            yield found

    def parent_of(self, session_id: str) -> str | None:
        """Return the session that started this one as its subagent, or None."""
        row = self.database.row(
            "SELECT acs_sessions.session_id AS parent FROM acs_subagents "
            "JOIN acs_sessions ON acs_sessions.id = session "
            "WHERE child_session_id = ? ORDER BY session, position LIMIT 1",
            (session_id,),
        )
        return None if row is None else str(row["parent"])

    def children_of(self, session: Session) -> list[str]:
        """Return the sessions that this one started as its subagents, in order."""
        rows = self.database.rows(
            "SELECT child_session_id FROM acs_subagents WHERE session = ? ORDER BY position", (session.id,)
        )
        return [str(row["child_session_id"]) for row in rows]

    def provenance_counts(self, session: Session) -> dict[int, int]:
        """Return how many provenance objects each entry has, by its position."""
        rows = self.database.rows(
            "SELECT position, count(*) AS number FROM acs_provenance WHERE session = ? GROUP BY position",
            (session.id,),
        )
        return {row["position"]: row["number"] for row in rows}

    def _depth(self, session: Session, provenance_id: str) -> int | None:
        row = self.database.row(
            "SELECT depth FROM acs_provenance WHERE session = ? AND provenance_id = ? ORDER BY position LIMIT 1",
            (session.id, provenance_id),
        )
        return None if row is None or row["depth"] is None else int(row["depth"])

    def _archive(self, session: Session, *, last: int) -> None:
        """Pack what the entries since the last archive commit to. Their links, steps and lineage stay as they are."""
        row = self.database.row(
            "SELECT max(last_position) AS last FROM acs_archives WHERE session = ?", (session.id,)
        )
        first = 1 + (row["last"] or 0 if row is not None else 0)
        rows = self.database.rows(
            "SELECT entry, facts FROM acs_contents WHERE session = ? AND position BETWEEN ? AND ? ORDER BY position",
            (session.id, first, last),
        )
        content = zlib.compress(msgspec.json.encode([(row["entry"].decode(), row["facts"]) for row in rows]))
        self.database.execute("INSERT INTO acs_archives VALUES (?, ?, ?, ?)", (session.id, first, last, content))
        self.database.execute(
            "DELETE FROM acs_contents WHERE session = ? AND position BETWEEN ? AND ?",
            (session.id, first, last),
        )


class _Part:
    """A request's part of a shared transaction, which can be undone alone."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("SAVEPOINT request")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._database.execute("ROLLBACK TO request")
        self._database.execute("RELEASE request")


class _Packed:
    """What stands in archives, one of them unpacked at a time."""

    def __init__(self, database: Database, session: Session) -> None:
        self._database = database
        self._session = session
        self._first = 0
        self._content: list[tuple[str, str]] = []

    def at(self, position: int) -> tuple[bytes | None, str | None]:
        """Return an entry and its facts, or nothing where an archive is missing or broken."""
        if not self._first <= position < self._first + len(self._content):
            self._open(position)
        if not self._first <= position < self._first + len(self._content):
            return None, None
        entry, facts = self._content[position - self._first]
        return entry.encode(), facts

    def _open(self, position: int) -> None:
        row = self._database.row(
            "SELECT first_position, content FROM acs_archives WHERE session = ? AND ? BETWEEN first_position "
            "AND last_position",
            (self._session.id, position),
        )
        if row is None:
            return
        try:
            content = msgspec.json.decode(zlib.decompress(row["content"]), type=list[tuple[str, str]])
        except (zlib.error, msgspec.DecodeError):
            return
        self._first, self._content = int(row["first_position"]), content


def aggregated(session: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a session's ProvenanceSummary with one more entry in it; counts are of entries. It only ever grows."""
    origins = list(dict.fromkeys([*session.get("origins_seen", ()), *entry.get("origins_seen", ())]))
    counts = dict(session.get("entry_count_by_origin", {}))
    for origin in entry.get("origins_seen", ()):
        counts[origin] = counts.get(origin, 0) + 1
    found: dict[str, Any] = {
        "origins_seen": origins,
        "entry_count": session.get("entry_count", 0) + 1,
        "entry_count_by_origin": counts,
        "earliest_step_id_by_origin": {
            **entry.get("earliest_step_id_by_origin", {}),
            **session.get("earliest_step_id_by_origin", {}),
        },
    }
    depths = [part["max_lineage_depth"] for part in (session, entry) if "max_lineage_depth" in part]
    if depths:
        found["max_lineage_depth"] = max(depths)
    return found


def _make_private(path: Path) -> None:
    """Make an empty file that only its owner reads; SQLite gives its own files beside it the same permissions."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise io_error(error) from None


def _session(row: Row) -> Session:
    found = dict(row)
    for name in ("server_hello", "summary"):
        found[name] = msgspec.json.decode(found[name])
    if found["intent"] is not None:
        found["intent"] = msgspec.json.decode(found["intent"])
    return Session(**found)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
