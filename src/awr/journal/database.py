"""The SQLite file: opening it safely, and saying plainly why it cannot be used.

WAL keeps readers out of a writer's way, synchronous=FULL makes a commit survive a power cut, and the write-ahead log
is kept to about two megabytes. The application id tells this program's file from any other's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from awr.errors import AwrError, InvalidInput, Io, Storage, not_unicode

__all__ = ["APPLICATION_ID", "Database", "Row"]

Row = sqlite3.Row

#: "AWRP". A database of the other public AWR carries "AWR1"; neither program opens the other's file.
APPLICATION_ID = 0x41575250
FOREIGN_AWR_ID = 0x41575231

WAL_PAGES = 400
WAL_BYTES = 2 * 1024 * 1024
BUSY_MS = 5000
#: A larger private copy is refused: reads on an agent's transport live in memory.
COPY_BYTES = 256 * 1024 * 1024
#: Up to this size a file is copied page by page; of a larger one, only what a read may look at.
PLAIN_COPY_BYTES = 8 * 1024 * 1024


class Database:
    """One connection.

    `mode` is "read" (never writes, the file must exist), "write", "create", "copy": a private copy in memory, which
    nothing is written to and which has no entries of ACS chains once there are many, or "memory": a new database
    that lives as long as its connection.
    """

    def __init__(
        self,
        path: Path,
        *,
        mode: Literal["read", "write", "create", "copy", "memory"],
        busy_ms: int = BUSY_MS,
        schema_version: int,
    ) -> None:
        self.path = path
        self.mode = mode
        self._schema_version = schema_version
        with _translated(path):
            self._connection = self._connect(busy_ms)
            try:
                self._configure()
                self._refuse_what_is_not_ours()
                if mode == "copy":
                    self._become_copy()
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        """Close the connection. The last one to close folds the write-ahead log back into the file."""
        with _translated(self.path):
            self._connection.close()

    def execute(self, sql: str, parameters: Sequence[object] | dict[str, object] = ()) -> sqlite3.Cursor:
        """Run one statement."""
        try:
            return self._connection.execute(sql, parameters)
        except (sqlite3.Error, UnicodeEncodeError, OverflowError) as error:
            raise _refusal(error, self.path) from error

    def rows(self, sql: str, parameters: Sequence[object] | dict[str, object] = ()) -> list[Row]:
        """Run one query and return every row."""
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except (sqlite3.Error, UnicodeEncodeError, OverflowError) as error:
            raise _refusal(error, self.path) from error

    def row(self, sql: str, parameters: Sequence[object] | dict[str, object] = ()) -> Row | None:
        """Run one query and return its first row, or None."""
        try:
            found: Row | None = self._connection.execute(sql, parameters).fetchone()
        except (sqlite3.Error, UnicodeEncodeError, OverflowError) as error:
            raise _refusal(error, self.path) from error
        return found

    def schema_version(self) -> int:
        """Return the schema version the file is at; 0 for a new file."""
        return self._pragma("user_version")

    def transaction(self, kind: Literal["DEFERRED", "IMMEDIATE"]) -> _Transaction:
        """Hold one transaction: committed when the block ends, rolled back when it raises."""
        return _Transaction(self, kind)

    def wait_at_most(self, milliseconds: int) -> None:
        """Change how long another writer is waited for."""
        self.execute(f"PRAGMA busy_timeout = {int(milliseconds)}")

    def roll_back(self) -> None:
        """Undo what the open transaction did, if one is open."""
        if self._connection.in_transaction:
            self._connection.rollback()

    def _connect(self, busy_ms: int) -> sqlite3.Connection:
        options: dict[str, object] = {"timeout": busy_ms / 1000, "isolation_level": None, "uri": True}
        if self.mode == "memory":
            return self._opened("file::memory:", options)
        address = "file:" + quote(str(self.path.absolute()))
        if self.mode in {"write", "create"}:
            flag = "rwc" if self.mode == "create" else "rw"
            return self._opened(f"{address}?mode={flag}", options)
        try:
            connection = self._opened(f"{address}?mode=ro", options)
            connection.execute("PRAGMA schema_version").fetchone()
            return connection
        except sqlite3.OperationalError:
            # In a folder that cannot be written, WAL needs files it cannot make. Without a log there is nothing
            # in it that the main file lacks, and nobody can be writing.
            if self.path.with_name(self.path.name + "-wal").exists():
                raise
            return self._opened(f"{address}?mode=ro&immutable=1", options)

    def _opened(self, address: str, options: dict[str, object]) -> sqlite3.Connection:
        connection = sqlite3.connect(address, **options)  # type: ignore[call-overload]
        assert isinstance(connection, sqlite3.Connection)
        connection.row_factory = Row
        return connection

    def _configure(self) -> None:
        run = self._connection.execute
        run("PRAGMA foreign_keys = ON")
        run("PRAGMA recursive_triggers = ON")
        if self.mode in {"read", "copy"}:
            run("PRAGMA query_only = ON")
            return
        if self._pragma("application_id") == APPLICATION_ID:
            self._configure_writing()

    def _configure_writing(self) -> None:
        run = self._connection.execute
        if self._connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            run("PRAGMA journal_mode = WAL").fetchone()
        run("PRAGMA synchronous = FULL")
        run(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
        run(f"PRAGMA journal_size_limit = {WAL_BYTES}")

    def claim_new_file(self) -> None:
        """Mark an empty file as this program's own. Only for a file that `mode="create"` has just made."""
        with _translated(self.path):
            self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._configure_writing()

    def copy_to(self, path: Path) -> None:
        """Copy the whole database as one coherent state into a new file, by SQLite's own backup interface."""
        with _translated(path):
            target = sqlite3.connect(path)
            try:
                self._connection.backup(target)
                # One file, so that nothing that belongs to the copy lies beside it.
                target.execute("PRAGMA journal_mode = DELETE").fetchone()
            finally:
                target.close()

    def _become_copy(self) -> None:
        memory = sqlite3.connect(":memory:", isolation_level=None)
        try:
            memory.row_factory = Row
            if _size(self._connection) <= PLAIN_COPY_BYTES:
                self._connection.backup(memory)
            else:
                self._copy_tables(memory)
            memory.execute("PRAGMA query_only = ON")
        except BaseException:
            memory.close()
            raise
        self._connection.close()
        self._connection = memory

    def _copy_tables(self, memory: sqlite3.Connection) -> None:
        """Copy one coherent state, and of the ACS chains only their tables: no agent's read looks into them."""
        run = memory.execute
        run(f"PRAGMA application_id = {APPLICATION_ID}")
        run(f"PRAGMA user_version = {self.schema_version()}")
        self._connection.execute("BEGIN")
        schema = self.rows("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        run("BEGIN")
        for kind, name, sql in schema:
            if kind != "table":
                continue
            run(sql)
            if not name.startswith("acs_"):
                rows = self._connection.execute(f"SELECT * FROM {name}")
                memory.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows.description))})", rows)
            if _size(memory) > COPY_BYTES:
                raise Storage(
                    "the project's record is too large to be copied for a read",
                    got=f"more than {COPY_BYTES} bytes",
                    expected=f"at most {COPY_BYTES} bytes",
                    next_step="read with the awr command, which needs no copy",
                )
        for kind, _, sql in schema:
            if kind != "table":
                run(sql)
        run("COMMIT")
        self._connection.execute("COMMIT")

    def is_empty(self) -> bool:
        """Tell whether the file has no content at all yet."""
        found = self.row("SELECT count(*) AS number FROM sqlite_master")
        return found is not None and found["number"] == 0

    def _pragma(self, name: str) -> int:
        with _translated(self.path):
            return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _refuse_what_is_not_ours(self) -> None:
        owner = self._pragma("application_id")
        if owner == 0 and self.mode in {"create", "memory"} and self.is_empty():
            return
        if owner != APPLICATION_ID:
            whose = "another AWR's database" if owner == FOREIGN_AWR_ID else "not a database of this program"
            raise Storage(
                f"the file is {whose}; it is left as it is",
                got=f"application id 0x{owner:08X}",
                expected=f"application id 0x{APPLICATION_ID:08X}",
                next_step="use another project folder, or move that .awr folder away and run awr init",
            )
        version = self.schema_version()
        if version > self._schema_version:
            raise Storage(
                "the database was written by a newer AWR; it is left as it is",
                got=f"schema {version}",
                expected=f"schema {self._schema_version} or older",
                next_step="install the newer AWR that wrote it",
            )
        if version < self._schema_version and self.mode in {"read", "copy"}:
            raise Storage(
                "the database has an older schema, and a reading command changes nothing",
                got=f"schema {version}",
                expected=f"schema {self._schema_version}",
                next_step="run awr source reindex once; it brings the database up to date",
            )


class _Transaction:
    """A class and no generator: every commit of the journal passes here."""

    def __init__(self, database: Database, kind: str) -> None:
        self._database = database
        self._begin = f"BEGIN {kind}"

    def __enter__(self) -> None:
        self._database.execute(self._begin)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._database.roll_back()
            return
        try:
            self._database.execute("COMMIT")
        except BaseException:
            self._database.roll_back()
            raise


def _size(connection: sqlite3.Connection) -> int:
    pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages) * int(size)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _refusal(error, path) from error


def _refusal(error: sqlite3.Error | UnicodeEncodeError | OverflowError, path: Path) -> AwrError:
    if isinstance(error, UnicodeEncodeError):
        return not_unicode()
    if isinstance(error, OverflowError):
        return InvalidInput(
            "a number is out of range",
            got="an integer of more than 64 bits",
            expected=f"at most {2**63 - 1}",
            next_step="send a number in range",
        )
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    name = path.name
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return Storage(
            f"{name} is in use by another writer",
            got="no turn within the waiting time",
            expected="a free moment",
            next_step="try again; if it stays so, look for a process that holds the database open",
            cause="locked",
        )
    if code == sqlite3.SQLITE_FULL:
        return Io(
            f"the disk is full; nothing of this write is in {name}",
            expected="free space on the disk of the project",
            next_step="free some space, then repeat the command",
            cause="full",
        )
    if code == sqlite3.SQLITE_IOERR:
        return Io(
            f"the disk under {name} failed or is full; nothing of this write is in it",
            got=getattr(error, "sqlite_errorname", "SQLITE_IOERR"),
            expected="a disk with free space that can be read and written",
            next_step="check the free space and the disk, then repeat the command",
        )
    if code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}:
        return Io(
            f"{name} or its folder cannot be written",
            expected="write permission for the .awr folder and the files in it",
            next_step="correct the permissions, then repeat the command",
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return Io(
            f"{name} cannot be opened",
            expected="a readable file in a folder that may be entered",
            next_step="check that the file is there and its permissions",
        )
    # Python quotes the text that it could not decode; such a message must not go on.
    undecodable = str(error).startswith("Could not decode")
    if undecodable or code in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}:
        return Storage(
            f"{name} is not a readable SQLite database",
            got=type(error).__name__,
            expected="an intact database of this program",
            next_step="restore it from a copy; run awr journal verify afterwards",
        )
    return Storage(
        f"the database refused: {_safe_reason(error)}",
        got=getattr(error, "sqlite_errorname", type(error).__name__),
        next_step="run awr journal verify; report this if it says that all is well",
    )


def _safe_reason(error: sqlite3.Error) -> str:
    # Messages of our own triggers and constraints name tables, never values.
    return str(error).splitlines()[0][:200]
