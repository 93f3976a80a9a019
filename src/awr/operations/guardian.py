"""The Guardian's record, for the person in control: sessions, their chains, the proof of them, and hooks' schemas.

None of these is an agent's tool: the record is about every agent.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from awr.errors import InvalidInput, NotFound, Storage, io_error
from awr.guardian.entries import step_text
from awr.guardian.hooks import HOOKS, payload_schema
from awr.guardian.store import Session, Store
from awr.guardian.verification import ChainBreak, exported, missing_guards, verify
from awr.operations.fields import Limit, described
from awr.project import DATABASE, FOLDER

__all__ = [
    "ExportRequest",
    "ExportResult",
    "SchemaRequest",
    "SchemaResult",
    "SessionsRequest",
    "SessionsResult",
    "ShowRequest",
    "ShowResult",
    "VerifyRequest",
    "VerifyResult",
    "database_path",
    "export",
    "reading",
    "schema",
    "session_in",
    "sessions",
    "show",
    "verify_chains",
]

DatabaseFile = Annotated[
    str | None,
    described("The database of a Guardian; left out, the project's. Its path counts from the project folder."),
]
AcsSession = Annotated[str, described("The session's id, as its client chose it.", argument=True)]


class SessionsRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    database: DatabaseFile = None
    after: Annotated[int, msgspec.Meta(ge=0, description="Go on behind this number, the last one shown.")] | None = (
        None
    )
    limit: Limit = 100


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One session. `number` is its place in the order in which sessions began; times are Unix milliseconds."""

    number: int
    session_id: str
    agent_id: str
    key_id: str
    parent_session_id: str | None
    provenance_producer: str
    opened_at: int
    sealed_at: int | None
    entries: int
    chain_hash: str | None


class SessionsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions in the order in which they began. `next_after` goes on behind the last; None when that was all."""

    ok: Literal[True] = True
    read_only: Literal[True] = True
    sessions: tuple[SessionRow, ...]
    next_after: int | None


class ShowRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    session: AcsSession
    database: DatabaseFile = None
    after: Annotated[int, msgspec.Meta(ge=0, description="Go on behind this position, the last shown.")] | None = None
    limit: Limit = 100


class EntryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One entry: what was asked, what was answered, and what is kept of it."""

    position: int
    step_id: str
    step_type: str
    decision: str
    reason_codes: tuple[str, ...]
    findings: tuple[str, ...]
    facts: dict[str, Any] | None
    received_at: int
    entry_hash: str


class ShowResult(msgspec.Struct, frozen=True, kw_only=True):
    """A session, what was agreed for it, and a page of its entries."""

    ok: Literal[True] = True
    read_only: Literal[True] = True
    session: SessionRow
    subagents: tuple[str, ...]
    server_hello: dict[str, Any]
    provenance_summary: dict[str, Any]
    intent: dict[str, Any] | None
    entries: tuple[EntryRow, ...]
    next_after: int | None


class VerifyRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    session: Annotated[str | None, described("One session; left out, all of them.")] = None
    expect_head: Annotated[
        tuple[str, ...],
        described(
            "A head that the Guardian published for the session, noted down by somebody else; may be repeated."
        ),
    ] = ()
    database: DatabaseFile = None


class VerifyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. `ok` is false when a chain is broken or a rule against changes is missing."""

    ok: bool
    read_only: Literal[True] = True
    sessions: int
    entries: int
    broken: tuple[ChainBreak, ...]
    missing_guards: tuple[str, ...]

    def problem(self) -> Storage | None:
        """Return the error that a broken chain means, or None."""
        if self.broken:
            first = self.broken[0]
            return Storage(
                f"{len(self.broken)} of {self.sessions} chains are not as they were written: {first.problem}",
                next_step="restore the database from a copy whose chains verify",
                position=first.position,
                session_id=first.session_id,
            )
        if self.missing_guards:
            return Storage(
                "the chains verify, and rules that keep them append-only were removed from the database",
                got=", ".join(self.missing_guards) + " missing",
                next_step="find out who changed the file, and restore it from a copy",
            )
        return None


class ExportRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    session: AcsSession
    output: Annotated[
        str, described("The file to write, which must not exist yet. Its path counts from the project folder.")
    ]
    database: DatabaseFile = None


class ExportResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was written: one line for the session and one for each entry."""

    ok: Literal[True] = True
    read_only: Literal[True] = True
    session_id: str
    entries: int
    chain_hash: str | None
    bytes: int
    sha256: str


class SchemaRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    method: Annotated[str, described("A hook, such as steps/preCompact.", argument=True)]


class SchemaResult(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON Schema of a hook's payload, and what may be answered to it."""

    ok: Literal[True] = True
    method: str
    dispositions: tuple[str, ...]
    payload: dict[str, Any]

    def public(self) -> dict[str, Any]:
        """Return the schema alone: it is what a validator takes."""
        return self.payload


def sessions(root: Path, request: SessionsRequest) -> SessionsResult:
    """List the sessions that the Guardian has answered. Raise NotFound where there is no database."""
    with reading(root, request.database) as store:
        found = store.sessions(after=request.after or 0, limit=request.limit + 1)
        page = found[: request.limit]
        return SessionsResult(
            sessions=tuple(_row(store, session) for session in page),
            next_after=page[-1].id if len(found) > len(page) else None,
        )


def show(root: Path, request: ShowRequest) -> ShowResult:
    """Show one session and a page of its entries. Raise NotFound for a session that is not there."""
    with reading(root, request.database) as store:
        session = session_in(store, request.session)
        rows = list(store.entries(session, after=request.after or 0, limit=request.limit + 1))
        page = rows[: request.limit]
        return ShowResult(
            session=_row(store, session),
            subagents=tuple(store.children_of(session)),
            server_hello=session.server_hello,
            provenance_summary=session.summary,
            intent=session.intent,
            entries=tuple(_entry(row) for row in page),
            next_after=page[-1]["position"] if len(rows) > len(page) else None,
        )


def verify_chains(root: Path, request: VerifyRequest) -> VerifyResult:
    """Check every link of one chain or of all. A broken one is a result with `ok` false, not an exception."""
    if request.expect_head and request.session is None:
        raise InvalidInput(
            "a head is expected of no session",
            expected="the session that the head was published for",
            next_step="give --session ID as well",
        )
    checked = entries = 0
    broken = []
    with reading(root, request.database) as store:
        chosen = [session_in(store, request.session)] if request.session is not None else _all(store)
        for session in chosen:
            found = verify(store, session, witnessed=request.expect_head)
            checked, entries = checked + 1, entries + found.entries
            if found.broken is not None:
                broken.append(found.broken)
        guards = missing_guards(store)
    return VerifyResult(
        ok=not broken and not guards,
        sessions=checked,
        entries=entries,
        broken=tuple(broken),
        missing_guards=guards,
    )


def export(root: Path, request: ExportRequest) -> ExportResult:
    """Write one chain as lines of JSON, so that anybody can check it. Raise InvalidInput for a file that exists."""
    target = root / request.output
    digest, size = hashlib.sha256(), 0
    with reading(root, request.database) as store:
        session = session_in(store, request.session)
        found = verify(store, session)
        if found.broken is not None:
            raise Storage(
                f"nothing is exported, for the chain is not as it was written: {found.broken.problem}",
                next_step="run awr guardian verify",
                position=found.broken.position,
            )
        with _new_file(target) as file:
            for line in exported(store, session):
                data = msgspec.json.encode(line) + b"\n"
                digest.update(data)
                size += len(data)
                file.write(data)
    return ExportResult(
        session_id=session.session_id,
        entries=session.entries,
        chain_hash=None if session.head is None else session.head.hex(),
        bytes=size,
        sha256=digest.hexdigest(),
    )


def schema(request: SchemaRequest) -> SchemaResult:
    """Return the schema of a hook's payload. Raise NotFound for a method that is no native hook."""
    hook = HOOKS.get(request.method)
    if hook is None:
        raise NotFound(
            "there is no such hook",
            expected="one of " + ", ".join(HOOKS),
            next_step="run awr guardian schema steps/preCompact",
        )
    return SchemaResult(
        method=request.method,
        dispositions=tuple(name for name in ("allow", "deny", "modify", "ask", "defer") if name in hook.permits),
        payload=payload_schema(request.method),
    )


def database_path(root: Path, database: str | None) -> Path:
    """Return where a Guardian's record lies: the file that is named, or the project's own."""
    return root / database if database is not None else root / FOLDER / DATABASE


@contextmanager
def reading(root: Path, database: str | None) -> Iterator[Store]:
    """Open a Guardian's record for one read. Raise NotFound where there is none."""
    path = database_path(root, database)
    if not path.is_file():
        raise NotFound(
            "there is no Guardian's database here",
            expected=f"{FOLDER}/{DATABASE} in the project folder, or the file that --database names",
            next_step="give --database FILE, the file that awr guardian serve was started with",
        )
    store = Store.read(path)
    try:
        with store.database.transaction("DEFERRED"):
            yield store
    finally:
        store.close()


@contextmanager
def _new_file(path: Path) -> Iterator[Any]:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise InvalidInput(
            "the file exists already; it is left as it is",
            expected="a file that does not exist yet",
            next_step="choose another name with --output",
        ) from None
    except OSError as error:
        raise io_error(error) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        with suppress(OSError):
            path.unlink()
        if isinstance(error, OSError):
            raise io_error(error) from None
        raise


def _all(store: Store) -> Iterator[Session]:
    after = 0
    while page := store.sessions(after=after, limit=100):
        yield from page
        after = page[-1].id


def session_in(store: Store, session_id: str) -> Session:
    """Return a session of a record. Raise NotFound for one that is not there."""
    found = store.session(session_id)
    if found is None:
        raise NotFound(
            "the Guardian has no such session",
            expected="the id of a session, exactly as its client writes it",
            next_step="run awr guardian sessions to see them",
        )
    return found


def _row(store: Store, session: Session) -> SessionRow:
    return SessionRow(
        number=session.id,
        session_id=session.session_id,
        agent_id=session.agent_id,
        key_id=session.key_id,
        parent_session_id=store.parent_of(session.session_id),
        provenance_producer=session.provenance_producer,
        opened_at=session.opened_at,
        sealed_at=session.sealed_at,
        entries=session.entries,
        chain_hash=None if session.head is None else session.head.hex(),
    )


def _entry(row: dict[str, Any]) -> EntryRow:
    return EntryRow(
        position=row["position"],
        step_id=step_text(row["step_id"]),
        step_type=row["step_type"],
        decision=row["decision"],
        reason_codes=tuple(row["reason_codes"]),
        findings=tuple(row["findings"]),
        facts=row["facts"],
        received_at=row["received_at"],
        entry_hash=row["link"].hex(),
    )
