"""The journal: read a coherent state, or write one revision.

A writer states the revision it read. The comparison happens inside the write transaction, so two writers can never
both believe that they were first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, cast

import msgspec

from awr.domain.events import Importance
from awr.errors import NotFound, RevisionConflict, SourceStale, Storage
from awr.ids import Clock, NewId, following_id, new_id, system_clock
from awr.journal.database import BUSY_MS, Database
from awr.journal.events import Event, Head, encode_payload, events_in_order, head_of, insert_event, payload_sha256
from awr.journal.migrations import SCHEMA_VERSION, migrate

__all__ = ["OPERATION_TAG", "Journal", "ProjectIdentity", "Reader", "Snapshot", "Writer", "identity_of"]


#: The payload key that names the operation an event belongs to. No caller can state it.
OPERATION_TAG = "mcp_operation_id"


class ProjectIdentity(msgspec.Struct, frozen=True):
    """Which project a database belongs to: what its first event says."""

    id: str
    name: str
    external_key: str | None


class Reader:
    """One coherent view of the project. Rooms beside this one hold the queries over it."""

    def __init__(self, database: Database, *, project: ProjectIdentity, now: int) -> None:
        self.database = database
        self.project = project
        self.now = now
        self.head = head_of(database)

    @property
    def project_id(self) -> str:
        """The project's id."""
        return self.project.id

    @property
    def project_revision(self) -> int:
        """The revision this view was taken at; for a writer that has appended, the one it is about to make."""
        return self.head.project_revision


class Writer(Reader):
    """The only way to add events. All that one block appends becomes one revision, or none of it does."""

    def __init__(
        self,
        database: Database,
        *,
        project: ProjectIdentity,
        now: int,
        make_id: NewId,
        operation_id: str | None = None,
    ) -> None:
        super().__init__(database, project=project, now=now)
        self._make_id = make_id
        self._operation_id = operation_id
        self._base_revision = self.head.project_revision
        self._last_id = ""

    def new_id(self) -> str:
        """Return a fresh id. Those of one write sort in the order they were asked for."""
        made = self._make_id(self.now)
        self._last_id = made if made > self._last_id else following_id(self._last_id)
        return self._last_id

    @property
    def own_revision(self) -> int:
        """The revision that this write makes, whether or not it has appended anything yet."""
        return self._base_revision + 1

    def require_revision(self, expected: int | None) -> None:
        """Raise RevisionConflict unless the project is still at `expected`; None states nothing."""
        if expected is not None and expected != self._base_revision:
            raise RevisionConflict(expected=expected, actual=self._base_revision)

    def append(
        self,
        event_type: str,
        payload: Mapping[str, object],
        *,
        summary: str,
        importance: Importance = "normal",
        work_item_id: str | None = None,
        session_id: str | None = None,
        branch_id: str | None = None,
    ) -> Event:
        """Add one event and bring the projections up to date with it.

        What an identified operation appends carries its id, so that a lost answer can be traced to what was done.
        """
        from awr.journal.projections import project_event  # readers need none of the rooms behind it

        tag: dict[str, object] = {OPERATION_TAG: self._operation_id} if self._operation_id is not None else {}
        stored = encode_payload({**payload, **tag})
        event = Event(
            position=self.head.position + 1,
            id=self.new_id(),
            project_id=self.project.id,
            work_item_id=work_item_id,
            session_id=session_id,
            branch_id=branch_id,
            event_type=event_type,
            importance=importance,
            summary=summary,
            payload=stored,
            payload_sha256=payload_sha256(stored),
            project_revision=self._base_revision + 1,
            created_at=self.now,
        )
        own = insert_event(self.database, event, previous=self.head.link)
        self.head = Head(position=event.position, project_revision=event.project_revision, link=own)
        project_event(self.database, event)
        return event


class Journal:
    """The journal of one project, in one database file."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock = system_clock,
        make_id: NewId = new_id,
        busy_ms: int = BUSY_MS,
        operation_id: str | None = None,
    ) -> None:
        self.path = path
        self.clock = clock
        self._make_id = make_id
        self._busy_ms = busy_ms
        self._operation_id = operation_id
        self._writing: Database | None = None
        self._project: ProjectIdentity | None = None

    def create(self, *, name: str, external_key: str | None) -> Event:
        """Make the database and record the project's beginning at revision 1. The file must not exist yet."""
        database = self._open("create")
        try:
            if not database.is_empty():
                raise Storage(
                    "there is a database already; it is left as it is",
                    expected="no database yet",
                    next_step="run awr status to see the project it belongs to",
                )
            database.claim_new_file()
            migrate(database, now=self.clock())
            with database.transaction("IMMEDIATE"):
                now = self.clock()
                project = ProjectIdentity(id=self._make_id(now), name=name, external_key=external_key)
                writer = Writer(database, project=project, now=now, make_id=self._make_id)
                payload = {"name": name, "external_key": external_key}
                return writer.append("project.initialized", payload, summary="Project initialized", importance="high")
        finally:
            database.close()

    @contextmanager
    def read(self) -> Iterator[Reader]:
        """Open a coherent view that writes nothing at all."""
        database = self._open("read")
        try:
            with database.transaction("DEFERRED"):
                yield Reader(database, project=identity_of(database), now=self.clock())
        finally:
            database.close()

    @contextmanager
    def write(self, *, expected_revision: int | None = None) -> Iterator[Writer]:
        """Open one write. `expected_revision` is compared inside the transaction; None leaves it to the block."""
        database = self._writing or self._migrated()
        try:
            with database.transaction("IMMEDIATE"):
                # A connection that is held open has seen its project, which never changes its identity.
                project = self._project or identity_of(database)
                writer = Writer(
                    database,
                    project=project,
                    now=self.clock(),
                    make_id=self._make_id,
                    operation_id=self._operation_id,
                )
                writer.require_revision(expected_revision)
                yield writer
        finally:
            if database is not self._writing:
                database.close()

    def tagged(self, operation_id: str) -> Journal:
        """Return this journal for one identified operation: what it appends carries the operation's id."""
        return Journal(
            self.path,
            clock=self.clock,
            make_id=self._make_id,
            busy_ms=self._busy_ms,
            operation_id=operation_id,
        )

    def snapshot(self) -> Snapshot:
        """Copy the journal as it is now into private memory. Close it when the read is done."""
        return Snapshot(self.path, clock=self.clock, make_id=self._make_id, busy_ms=self._busy_ms)

    @contextmanager
    def held_open(self) -> Iterator[Journal]:
        """Keep one connection for many writes, for programs that live longer than a command."""
        self._writing = self._migrated()
        try:
            self._project = identity_of(self._writing)
            yield self
        finally:
            self._writing.close()
            self._writing = self._project = None

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Keep the database open during something that opens it more than once.

        The last connection to close folds the write-ahead log back into the file, which costs as much as a commit:
        once is enough.
        """
        database = self._migrated()
        try:
            yield
        finally:
            database.close()

    def _migrated(self) -> Database:
        database = self._open("write")
        try:
            migrate(database, now=self.clock())
        except BaseException:
            database.close()
            raise
        return database

    def _open(self, mode: Literal["read", "write", "create", "copy"]) -> Database:
        return Database(self.path, mode=mode, busy_ms=self._busy_ms, schema_version=SCHEMA_VERSION)


class Snapshot(Journal):
    """A private copy of a journal. Reading it is coherent however long it takes; writing it is refused."""

    def __init__(self, path: Path, *, clock: Clock, make_id: NewId, busy_ms: int) -> None:
        super().__init__(path, clock=clock, make_id=make_id, busy_ms=busy_ms)
        self._copy = self._open("copy")

    def close(self) -> None:
        """Forget the copy."""
        self._copy.close()

    @contextmanager
    def read(self) -> Iterator[Reader]:
        """Return the one view there is."""
        yield Reader(self._copy, project=identity_of(self._copy), now=self.clock())

    @contextmanager
    def write(self, *, expected_revision: int | None = None) -> Iterator[Writer]:
        """Refuse: whoever reads a copy and finds that something would have to be recorded reads what is stale."""
        raise SourceStale(
            "a source of this project is not as it was indexed",
            expected="sources that are indexed as they are now",
            next_step="run awr source reindex, then read again",
        )
        yield  # pragma: no cover - makes this a generator


def identity_of(database: Database) -> ProjectIdentity:
    """Return the project that a database belongs to. Raise NotFound for a database without one."""
    first = next(events_in_order(database), None)
    if first is None:
        raise NotFound(
            "the database has no project in it",
            expected="a journal that begins with a project",
            next_step="move the .awr folder away and run awr init",
        )
    content = first[0].content()
    return ProjectIdentity(first[0].project_id, str(content["name"]), cast("str | None", content["external_key"]))
