"""Stream one transcript file of a host: what a reader finds, and the engine that feeds it lines.

A file is read in binary, line by line, in memory that does not grow with it. A scan can stop anywhere and go on later
from its snapshot: the result is the same as in one pass, wherever the file was cut. Order is file position, never
time. No text of a conversation leaves a reader: ids, counts, times, model names and folders do.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

import msgspec

from awr.errors import AwrError, InvalidInput, Io, NotFound
from awr.hosts.rows import lenient_row

__all__ = [
    "MAX_LINE_BYTES",
    "Boundary",
    "Footprint",
    "Host",
    "Progress",
    "Reader",
    "Request",
    "Thread",
    "Transcript",
    "Trigger",
    "open_regular",
    "read_rows",
]

Host = Literal["claude-code", "codex"]
Trigger = Literal["automatic", "manual"]

#: Called with the number of bytes done and the number of all bytes, at most about once a megabyte.
Progress = Callable[[int, int], None]

#: A longer line is skipped and counted; real hosts stay far below.
MAX_LINE_BYTES = 64 * 1024 * 1024

_HEAD_BYTES = 1024
#: Changes whenever a reader comes to understand a row differently, so that older snapshots are read anew.
_SNAPSHOT_VERSION = 1
_PROGRESS_BYTES = 1 << 20


class Request(msgspec.Struct, frozen=True):
    """One provider response: the tokens of its whole request without output, and the row that tells them."""

    tokens: int
    row: int
    model: str | None = None


class Boundary(msgspec.Struct, frozen=True, kw_only=True):
    """One completed compaction of one thread, with what is measured and what the host claims kept apart.

    `row` counts from 1; `row_id` is the host's own id of the row. `before` and `after` are whole requests measured by
    the provider, inside the stretches right before and right behind the boundary. `position` is the number of the
    thread's requests before the boundary. `settled` is true when no later row can still bring `after`.
    """

    row: int
    row_id: str | None
    sequence: int
    trigger: Trigger | None
    observed_at: int | None
    before: Request | None
    after: Request | None
    host_before_tokens: int | None
    host_after_tokens: int | None
    duration_ms: int | None
    host_claims: dict[str, int]
    requests_since_previous: int | None
    model: str | None
    window_tokens: int | None
    failed_attempts: int
    position: int
    settled: bool


class Footprint(msgspec.Struct, frozen=True):
    """The thread's footprint over its requests: the highest of each `stride` requests, at most 256 of them."""

    stride: int
    peaks: tuple[int, ...]


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """One native context in a file: the session's own (`main`) or a subagent's."""

    host: Host
    session_id: str | None
    path: str
    agent: str
    model: str | None
    cwd: str | None
    requests: int
    boundaries: tuple[Boundary, ...]
    footprint: Footprint
    failed_after_last: int


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one pass found in one file. `snapshot` lets a later pass go on where this one stopped."""

    host: Host
    path: str
    threads: tuple[Thread, ...]
    first_at: int | None
    rows: int
    damaged_rows: int
    oversized_rows: int
    copied_boundaries: int
    size: int
    snapshot: bytes


class Reader(Protocol):
    """What the engine needs of a host's reader."""

    host: Host

    def read_row(self, line: bytes, *, row: int) -> bool:
        """Take one line without its line end; return whether it is a JSON object."""

    def dump(self) -> bytes:
        """Return the state as bytes."""

    def load(self, state: bytes) -> None:
        """Go back to a dumped state. Raise msgspec.DecodeError when the bytes are of another build."""

    def finish(self) -> tuple[tuple[Thread, ...], int | None, int]:
        """Return the threads, the time of the first row and the number of copied boundaries, and end."""


class _Cursor(msgspec.Struct):
    """Where the engine stands in the file. `head` is the hash of the file's first bytes, to know it again."""

    host: str
    head: bytes
    head_size: int
    version: int = _SNAPSHOT_VERSION
    state: bytes = b""
    offset: int = 0
    rows: int = 0
    damaged: int = 0
    oversized: int = 0


def read_rows(
    path: str | os.PathLike[str],
    *,
    make_reader: Callable[[], Reader],
    snapshot: bytes | None = None,
    progress: Progress | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Transcript:
    """Read a transcript from its start, or from where `snapshot` stopped, to its present end.

    A last line without a line end counts for this result when it is a whole JSON object; the new snapshot stays
    before it. A snapshot of another file, of a file that was cut or of another build is ignored. Raise NotFound,
    InvalidInput (not a regular file) or Io.
    """
    with open_regular(path) as file, _reading():
        reader = make_reader()
        cursor = _resume(file, reader=reader, snapshot=snapshot)
        size = max(os.fstat(file.fileno()).st_size, cursor.offset)
        tail = _read_lines(file, reader=reader, cursor=cursor, size=size, progress=progress, limit=max_line_bytes)
        cursor.state = reader.dump()
        taken = msgspec.msgpack.encode(cursor)
        rows = cursor.rows
        if tail and lenient_row(tail) is not None:
            rows += 1
            reader.read_row(tail.strip(), row=rows)
    threads, first_at, copied = reader.finish()
    return Transcript(
        host=reader.host,
        path=os.fspath(path),
        threads=threads,
        first_at=first_at,
        rows=rows,
        damaged_rows=cursor.damaged,
        oversized_rows=cursor.oversized,
        copied_boundaries=copied,
        size=size,
        snapshot=taken,
    )


def _resume(file: BinaryIO, *, reader: Reader, snapshot: bytes | None) -> _Cursor:
    if snapshot is not None:
        with contextlib.suppress(msgspec.DecodeError):
            cursor = msgspec.msgpack.decode(snapshot, type=_Cursor)
            same_reader = (cursor.host, cursor.version) == (reader.host, _SNAPSHOT_VERSION)
            same_file = os.fstat(file.fileno()).st_size >= cursor.offset
            if same_reader and same_file and _head_hash(file, size=cursor.head_size) == cursor.head:
                reader.load(cursor.state)
                file.seek(cursor.offset)
                return cursor
    size = min(_HEAD_BYTES, os.fstat(file.fileno()).st_size)
    head = _head_hash(file, size=size)
    file.seek(0)
    return _Cursor(host=reader.host, head=head, head_size=size)


def _head_hash(file: BinaryIO, *, size: int) -> bytes:
    file.seek(0)
    return blake2b(file.read(size), digest_size=8).digest()


def _read_lines(
    file: BinaryIO, *, reader: Reader, cursor: _Cursor, size: int, progress: Progress | None, limit: int
) -> bytes:
    """Feed every whole line and return the unfinished last one."""
    read_row, readline = reader.read_row, file.readline
    offset, rows, reported = cursor.offset, cursor.rows, cursor.offset
    line = readline(limit)
    while line:
        if not line.endswith(b"\n"):
            skipped = _skip_line(file, limit=limit) if len(line) >= limit else None
            if skipped is None:
                break
            cursor.oversized += 1
            rows += 1
            offset += len(line) + skipped
        else:
            offset += len(line)
            rows += 1
            text = line.strip()
            if text and not read_row(text, row=rows):
                cursor.damaged += 1
        if progress is not None and offset - reported >= _PROGRESS_BYTES:
            reported = offset
            progress(offset, max(size, offset))
        line = readline(limit)
    cursor.offset, cursor.rows = offset, rows
    if progress is not None:
        progress(max(size, offset), max(size, offset))
    return line if len(line) < limit else b""


def _skip_line(file: BinaryIO, *, limit: int) -> int | None:
    """Return how many bytes follow up to and with the line end; None when the file ends first."""
    skipped = 0
    while rest := file.readline(min(limit, _PROGRESS_BYTES)):
        skipped += len(rest)
        if rest.endswith(b"\n"):
            return skipped
    return None


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _refused(error) from error


@contextlib.contextmanager
def open_regular(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a regular file for reading in binary, and nothing else: never wait on a pipe or a device.

    Raise NotFound, InvalidInput or Io.
    """
    try:
        _demand_regular(Path(path).stat().st_mode)
        # Between the two looks the name may come to mean a pipe; O_NONBLOCK keeps even that from waiting.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
        file = os.fdopen(os.open(path, flags), "rb", buffering=1 << 20)
    except ValueError as error:
        raise InvalidInput(
            "the path is not a path", got="a zero byte in it", expected="a file", next_step="correct the path"
        ) from error
    except OSError as error:
        raise _refused(error) from error
    with file:
        _demand_regular(os.fstat(file.fileno()).st_mode)
        yield file


def _demand_regular(mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    raise InvalidInput(
        "a transcript must be a regular file",
        got=kinds.get(stat.S_IFMT(mode), "something else"),
        expected="a regular file with one JSON object a line",
        next_step="give the path of the transcript file itself",
    )


def _refused(error: OSError) -> AwrError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NotFound(
            "there is no such transcript",
            got="nothing at that path",
            expected="an existing transcript file",
            next_step="check the path, or give none to look where the hosts keep theirs",
        )
    return Io(
        "the transcript cannot be read",
        got=error.strerror or type(error).__name__,
        expected="a readable file",
        next_step="check the file's permissions and its disk, then repeat",
    )
