"""The tables of the ACS chains: sessions, entries, what each has seen, and the lineage that outlives an archive.

One request is one transaction. It commits before it is answered, and whatever a request is refused for, that it was
seen is kept. Several processes may share the file: nothing of a session is remembered outside of it.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import msgspec

from awr.chain import digest, link
from awr.domain.lineage import Datum, Endorsement
from awr.errors import NotFound, io_error
from awr.guardian.entries import step_named, step_text
from awr.journal.database import Database, Row
from awr.journal.journal import ProjectIdentity, identity_of
from awr.journal.migrations import SCHEMA_VERSION, migrate

__all__ = ["ARCHIVE_BYTES", "Appended", "Carrying", "Fold", "Question", "Session", "Store"]

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
    provenance: tuple[Datum, ...]
    depths: Mapping[str, int | None]
    summary: Mapping[str, Any]
    intent: Mapping[str, Any] | None
    decision: str
    reason_codes: tuple[str, ...]
    findings: tuple[str, ...]
    seals: bool
    subagent: tuple[str, str] | None
    fold: Fold | None = None
    #: What the policy said, in the words of the wire, where it is kept.
    verdict: Mapping[str, Any] | None = None
    about: str | None = None


#: Reasons of the Guardian's own, which no policy gave.
OWN_REASONS = frozenset({"chain_mismatch", "evaluation_failed"})


class Carrying(msgspec.Struct, frozen=True, kw_only=True):
    """One entry with the data that it carries. `depth` is None where a part of its lineage is not known.

    It was not judged where a wrong `chain_hash` alone had it denied.
    """

    position: int
    step_id: str
    step_type: str
    denied: bool
    #: Whether the denial was a policy's: one for another reason uses up nobody's patience.
    denied_by_policy: bool
    data: tuple[Datum, ...]
    depth: int | None


class Fold(msgspec.Struct, frozen=True, kw_only=True):
    """What a steps/postCompact binds: the question it was decided by, its summary, and the steps it stands for."""

    decided_at: int | None
    summary_id: str
    steps: tuple[bytes, ...]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The latest steps/preCompact of a boundary, and what was answered."""

    position: int
    denied: bool
    #: The digest of the steps that were asked about.
    about: str | None


class Store:
    """The chains in one database file, through one connection."""

    def __init__(self, database: Database, *, busy_ms: int = BUSY_MS) -> None:
        self.database = database
        self.busy_ms = busy_ms
        #: Whether several requests share one transaction now.
        self.grouped = False
        #: The project whose database this is, or None for a file of the Guardian's own.
        self.project = _project_of(database)

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

    def depths(self, session: Session, known: Sequence[Datum]) -> dict[str, int | None]:
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
        if added.verdict is not None:
            self.database.execute(
                "INSERT INTO acs_decisions VALUES (?, ?, ?, ?)",
                (session.id, position, _json(added.verdict), added.about),
            )
        if added.fold is not None:
            self._add_fold(session, added.fold, position=position)
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

    def carrying(self, session: Session, *, after: int) -> Iterator[Carrying]:
        """Yield entries beyond a position with the data that they carry, in order."""
        rows = self.database.execute(
            "SELECT position, step_id, step_type, decision, reason_codes, provenance_id, origin, source_id, "
            "derived_from, depth "
            # Left to itself, SQLite reads all of the session's provenance for every one of its entries.
            "FROM acs_entries LEFT JOIN acs_provenance INDEXED BY acs_provenance_by_entry USING (session, position) "
            "WHERE session = ? AND position > ? ORDER BY position, provenance_id",
            (session.id, after),
        )
        for _, group in groupby(rows, key=lambda row: row["position"]):
            found = list(group)
            first = found[0]
            carried = [row for row in found if row["provenance_id"] is not None]
            depths = [row["depth"] for row in carried]
            yield Carrying(
                position=first["position"],
                step_id=step_text(first["step_id"]),
                step_type=first["step_type"],
                denied=first["decision"] == "deny",
                denied_by_policy=first["decision"] == "deny"
                and not OWN_REASONS & set(msgspec.json.decode(first["reason_codes"])),
                data=tuple(
                    Datum(
                        provenance_id=row["provenance_id"],
                        origin=row["origin"],
                        source_id=row["source_id"],
                        derived_from=tuple(msgspec.json.decode(row["derived_from"])),
                    )
                    for row in carried
                ),
                depth=None if None in depths else max(depths, default=0),
            )

    def link_at(self, session: Session, position: int) -> bytes | None:
        """Return the link of the entry at a position, or None where there is none."""
        row = self.database.row(
            "SELECT link FROM acs_entries WHERE session = ? AND position = ?", (session.id, position)
        )
        return None if row is None else bytes(row["link"])

    def data_of(self, session: Session, steps: Iterable[bytes]) -> dict[bytes, tuple[str, ...]]:
        """Return the provenance ids of those of these steps that the session has an entry of."""
        found = {}
        for step_id in steps:
            row = self.database.row(
                "SELECT position FROM acs_entries WHERE session = ? AND step_id = ?", (session.id, step_id)
            )
            if row is not None:
                names = self.database.rows(
                    "SELECT provenance_id FROM acs_provenance WHERE session = ? AND position = ?",
                    (session.id, row["position"]),
                )
                found[step_id] = tuple(one["provenance_id"] for one in names)
        return found

    def decisions(self, *, session: Session | None, after: int, limit: int) -> list[dict[str, Any]]:
        """Return decisions about folds and whatever was not allowed, in the order of their sessions and entries.

        `after` is how many of them were returned before.
        """
        rows = self.database.rows(
            "SELECT acs_sessions.session_id, position, step_id, step_type, decision, reason_codes, findings, "
            "received_at, verdict FROM acs_decisions JOIN acs_entries USING (session, position) "
            "JOIN acs_sessions ON acs_sessions.id = session WHERE (:session IS NULL OR session = :session) "
            "ORDER BY session, position LIMIT :limit OFFSET :after",
            {"session": None if session is None else session.id, "limit": limit, "after": after},
        )
        return [_decided(row) for row in rows]

    def decision(self, step_id: str) -> dict[str, Any] | None:
        """Return the decision on one step, or None."""
        mark = step_named(step_id)
        if mark is None:
            return None
        row = self.database.row(
            "SELECT acs_sessions.session_id, position, step_id, step_type, decision, reason_codes, findings, "
            "received_at, verdict FROM acs_decisions JOIN acs_entries USING (session, position) "
            "JOIN acs_sessions ON acs_sessions.id = session WHERE step_id = ?",
            (mark,),
        )
        return None if row is None else _decided(row)

    def add_endorsement(self, session: Session, endorsement: Endorsement, *, confirmed_by: str, now: int) -> int:
        """Record an operator's word behind the session's last entry. Return its number in the session."""
        row = self.database.row("SELECT count(*) AS number FROM acs_endorsements WHERE session = ?", (session.id,))
        number = 1 + (row["number"] if row is not None else 0)
        self.database.execute(
            "INSERT INTO acs_endorsements VALUES (?, ?, ?, ?, ?, ?)",
            (session.id, number, session.entries, _json(endorsement), confirmed_by, now),
        )
        return int(number)

    def endorsements(self, session: Session, *, after: int) -> list[tuple[int, Endorsement]]:
        """Return endorsements beyond a number, each with the position of the entry that it stands behind."""
        rows = self.database.rows(
            "SELECT after_position, endorsement FROM acs_endorsements "
            "WHERE session = ? AND number > ? ORDER BY number",
            (session.id, after),
        )
        return [(row["after_position"], msgspec.json.decode(row["endorsement"], type=Endorsement)) for row in rows]

    def provenance_ids(self, session: Session) -> tuple[str, ...]:
        """Return the ids of all data that the session has recorded."""
        rows = self.database.rows(
            "SELECT DISTINCT provenance_id FROM acs_provenance WHERE session = ? ORDER BY provenance_id",
            (session.id,),
        )
        return tuple(row["provenance_id"] for row in rows)

    def folds_since(self, session: Session, *, after: int) -> dict[int, tuple[str, ...]]:
        """Return the steps that folds beyond a position stand for, by the fold's position."""
        rows = self.database.rows(
            "SELECT fold, step_id FROM acs_folded WHERE session = ? AND fold > ? ORDER BY fold, step_id",
            (session.id, after),
        )
        return {
            fold: tuple(step_text(row["step_id"]) for row in group)
            for fold, group in groupby(rows, key=lambda row: int(row["fold"]))
        }

    def is_known(self, step_id: str) -> bool:
        """Tell whether any session has an entry of this step."""
        mark = step_named(step_id)
        if mark is None:
            return False
        return self.database.row("SELECT 1 FROM acs_entries WHERE step_id = ? LIMIT 1", (mark,)) is not None

    def question(self, session: Session) -> Question | None:
        """Return the latest question about the present boundary, or None: a fold begins another one."""
        row = self.database.row(
            "SELECT position, step_type, decision, about "
            "FROM acs_decisions JOIN acs_entries USING (session, position) "
            "WHERE session = ? AND step_type IN ('steps/preCompact', 'steps/postCompact') "
            "ORDER BY position DESC LIMIT 1",
            (session.id,),
        )
        if row is None or row["step_type"] == "steps/postCompact":
            return None
        return Question(position=row["position"], denied=row["decision"] == "deny", about=row["about"])

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

    def provenance_counts(self, session: Session) -> dict[int, dict[str, int]]:
        """Return how many provenance objects of each origin each entry has, by its position."""
        rows = self.database.rows(
            "SELECT position, origin, count(*) AS number FROM acs_provenance WHERE session = ? "
            "GROUP BY position, origin",
            (session.id,),
        )
        found: dict[int, dict[str, int]] = {}
        for row in rows:
            found.setdefault(row["position"], {})[row["origin"]] = row["number"]
        return found

    def _depth(self, session: Session, provenance_id: str) -> int | None:
        row = self.database.row(
            "SELECT depth FROM acs_provenance WHERE session = ? AND provenance_id = ? ORDER BY position LIMIT 1",
            (session.id, provenance_id),
        )
        return None if row is None or row["depth"] is None else int(row["depth"])

    def _add_fold(self, session: Session, fold: Fold, *, position: int) -> None:
        self.database.execute(
            "INSERT INTO acs_folds VALUES (?, ?, ?, ?, ?)",
            (session.id, position, fold.decided_at, fold.summary_id, len(fold.steps)),
        )
        for step_id in fold.steps:
            self.database.execute("INSERT INTO acs_folded VALUES (?, ?, ?)", (session.id, position, step_id))

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


def _project_of(database: Database) -> ProjectIdentity | None:
    try:
        return identity_of(database)
    except NotFound:
        return None


def _make_private(path: Path) -> None:
    """Make an empty file that only its owner reads; SQLite gives its own files beside it the same permissions."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise io_error(error) from None


def _decided(row: Row) -> dict[str, Any]:
    found = dict(row)
    found["step_id"] = step_text(found["step_id"])
    for name in ("reason_codes", "findings", "verdict"):
        found[name] = msgspec.json.decode(found[name])
    return found


def _session(row: Row) -> Session:
    found = dict(row)
    for name in ("server_hello", "summary"):
        found[name] = msgspec.json.decode(found[name])
    if found["intent"] is not None:
        found["intent"] = msgspec.json.decode(found["intent"])
    return Session(**found)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
