"""Read Claude Code's transcripts: rows on disk (camelCase) and rows of its output stream (snake_case).

Rules, observed on 2.1.197 and in public records:

- A boundary is a `system` row of subtype `compact_boundary`; `microcompact_boundary` is none, and a denied or failed
  compaction writes none.
- A full request is input + cache read + cache creation of an `assistant` row. Rows of one response share their
  message id and count once. `<synthetic>` rows, API error rows and rows of zero tokens are no requests.
- The host writes rows again: at a fork (marked `forkedFrom`), and at a branch or a second compaction (same `uuid`).
  A copied boundary belongs to where it was made; a forked request counts nowhere, though the context stood there.
- A boundary told in both spellings is one boundary, also when only one of the rows has an id.
- Subagents have their own file or rows marked as a sidechain. `acompact` agents are the host's own summarizers.
- A failed attempt leaves a `status` row with `compact_result` failed (stream), a `local_command` row that says why
  (manual), or the error row of the thrash stop. A denied automatic compaction leaves no trace.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal

import msgspec

from awr.hosts.rows import UNDECODABLE, clean_text, count, parse_time, salvaged_row
from awr.hosts.threads import MAIN, Book, SeenIds, ThreadState, short_hash
from awr.hosts.transcript import (
    Host,
    Progress,
    Request,
    Thread,
    Transcript,
    Trigger,
    read_rows,
)

__all__ = ["ClaudeCodeReader", "read_transcript"]

_SYNTHETIC = "<synthetic>"
_SUMMARIZER = "acompact"
_SIDECHAIN = "sidechain"
_COMMAND_ECHO = b"<command-name>"
_REFUSALS = (b"Compaction blocked by PreCompact hook", b"Error during compaction")
_THRASH_STOP = b"Autocompact is thrashing"
_TRIGGERS: dict[str | None, Trigger] = {"auto": "automatic", "manual": "manual"}
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
#: The host's claims, in the spelling on disk, and the field that holds them in a stream.
_CLAIMS = {
    "preTokens": "pre_tokens",
    "postTokens": "post_tokens",
    "durationMs": "duration_ms",
    "cumulativeDroppedTokens": "cumulative_dropped_tokens",
}

Spelling = Literal["disk", "stream", "both"]


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Message(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    usage: _Usage | None = None


class _Metadata(msgspec.Struct):
    trigger: str | None = None
    preTokens: int | None = None  # noqa: N815
    postTokens: int | None = None  # noqa: N815
    durationMs: int | None = None  # noqa: N815
    cumulativeDroppedTokens: int | None = None  # noqa: N815
    pre_tokens: int | None = None
    post_tokens: int | None = None
    duration_ms: int | None = None
    cumulative_dropped_tokens: int | None = None


class _Row(msgspec.Struct):
    type: str | None = None
    subtype: str | None = None
    uuid: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    session_id: str | None = None
    disk_session_id: str | None = msgspec.field(default=None, name="sessionId")
    sidechain: bool | None = msgspec.field(default=None, name="isSidechain")
    agent_id: str | None = msgspec.field(default=None, name="agentId")
    parent_tool_use_id: str | None = None
    request_id: str | None = msgspec.field(default=None, name="requestId")
    api_error: bool | None = msgspec.field(default=None, name="isApiErrorMessage")
    forked_from: Any = msgspec.field(default=None, name="forkedFrom")
    message: _Message | None = None
    disk_metadata: _Metadata | None = msgspec.field(default=None, name="compactMetadata")
    stream_metadata: _Metadata | None = msgspec.field(default=None, name="compact_metadata")
    compact_result: str | None = None


class _State(msgspec.Struct):
    book: Book
    seen: list[int]
    spellings: dict[str, list[Spelling]]


def read_transcript(
    path: str | os.PathLike[str], *, snapshot: bytes | None = None, progress: Progress | None = None
) -> Transcript:
    """Read one file of Claude Code. Errors and the meaning of `snapshot` are those of `read_rows`."""
    return read_rows(path, make_reader=lambda: ClaudeCodeReader(path=path), snapshot=snapshot, progress=progress)


class ClaudeCodeReader:
    """Turn rows into threads. The file's name tells the session, or the subagent whose own file it is."""

    host: Host = "claude-code"

    def __init__(self, *, path: str | os.PathLike[str]) -> None:
        name = Path(path)
        self._path = os.fspath(path)
        self._decode = msgspec.json.Decoder(_Row).decode
        self._seen = SeenIds()
        self._spellings: dict[str, list[Spelling]] = {}
        self._book = Book(session_id=_session_of(name))
        self._file_agent = clean_text(name.stem.removeprefix("agent-")) if name.stem.startswith("agent-") else None

    def dump(self) -> bytes:
        return msgspec.msgpack.encode(_State(self._book, list(self._seen), self._spellings))

    def load(self, state: bytes) -> None:
        found = msgspec.msgpack.decode(state, type=_State)
        self._book, self._seen, self._spellings = found.book, SeenIds(found.seen), found.spellings

    def finish(self) -> tuple[tuple[Thread, ...], int | None, int]:
        return self._book.finish(host=self.host, path=self._path)

    def read_row(self, line: bytes, *, row: int) -> bool:
        try:
            found = self._decode(line)
        except UNDECODABLE:
            damaged = salvaged_row(_Row, line)
            if damaged is None:
                return False
            found = damaged
        book = self._book
        if book.first_at is None:
            book.first_at = parse_time(found.timestamp)
        if book.session_id is None:
            book.session_id = clean_text(found.disk_session_id or found.session_id)
        kind = found.type
        if kind == "assistant":
            self._read_answer(found, line=line, row=row)
        elif kind == "system":
            self._read_system(found, line=line, row=row)
        elif kind == "user":
            self._thread(found)
        return True

    def _thread(self, found: _Row) -> ThreadState | None:
        """Return the thread of a row, or None for the host's own summarizer."""
        agent = self._file_agent or self._row_agent(found)
        if agent.startswith(_SUMMARIZER):
            return None
        thread = self._book.thread(agent)
        if thread.cwd is None:
            thread.cwd = clean_text(found.cwd)
        return thread

    def _row_agent(self, found: _Row) -> str:
        if found.sidechain or (found.sidechain is None and found.agent_id is not None):
            return clean_text(found.agent_id) or _SIDECHAIN
        return clean_text(found.parent_tool_use_id) or MAIN

    def _read_answer(self, found: _Row, *, line: bytes, row: int) -> None:
        thread = self._thread(found)
        message = found.message
        if thread is None or message is None:
            return
        if found.api_error or message.model == _SYNTHETIC:
            if _THRASH_STOP in line:
                self._fail(thread, found, line=line)
            return
        tokens = _full_request(message.usage)
        if not tokens:
            return
        identity = message.id or found.request_id or found.uuid
        is_new = self._seen.add(short_hash("usage", thread.agent, line if identity is None else identity))
        if not is_new:
            return
        request = Request(tokens=tokens, row=row, model=clean_text(message.model))
        if found.forked_from is not None:
            thread.inherit(request)
        else:
            thread.request(request)

    def _read_system(self, found: _Row, *, line: bytes, row: int) -> None:
        thread = self._thread(found)
        if thread is None:
            return
        if found.subtype == "compact_boundary":
            self._read_boundary(thread, found, line=line, row=row)
        elif found.compact_result == "failed" or (found.subtype == "local_command" and _says_refused(line)):
            self._fail(thread, found, line=line)

    def _fail(self, thread: ThreadState, found: _Row, *, line: bytes) -> None:
        is_new = self._seen.add(short_hash("failure", found.uuid or line))
        if is_new and found.forked_from is None:
            thread.failed += 1

    def _read_boundary(self, thread: ThreadState, found: _Row, *, line: bytes, row: int) -> None:
        metadata = found.disk_metadata or found.stream_metadata or _Metadata()
        spelling: Spelling = "stream" if found.disk_metadata is None and found.stream_metadata else "disk"
        claims = _claims(metadata)
        trigger = _TRIGGERS.get(metadata.trigger)
        row_id, observed_at = clean_text(found.uuid), parse_time(found.timestamp)
        spellings = self._spellings.setdefault(thread.agent, [])
        twin = self._twin(thread, claims=claims, trigger=trigger, spelling=spelling)
        is_new = self._seen.add(short_hash("boundary", found.uuid or line))
        if twin is not None:
            spellings[twin] = "both"
            known = thread.boundaries[twin]
            thread.boundaries[twin] = msgspec.structs.replace(
                known, row_id=known.row_id or row_id, observed_at=known.observed_at or observed_at
            )
            return
        if not is_new or found.forked_from is not None:
            self._book.copied += 1
            if is_new:
                thread.forget_last()
            return
        spellings.append(spelling)
        thread.boundary(
            row=row,
            row_id=row_id,
            trigger=trigger,
            observed_at=observed_at,
            host_before_tokens=claims.get("preTokens"),
            host_after_tokens=claims.get("postTokens"),
            duration_ms=claims.get("durationMs"),
            host_claims=claims,
        )

    def _twin(
        self, thread: ThreadState, *, claims: dict[str, int], trigger: Trigger | None, spelling: Spelling
    ) -> int | None:
        """Return the index of the boundary that this row tells a second time in the other spelling."""
        if not claims:
            return None
        other: Spelling = "disk" if spelling == "stream" else "stream"
        spellings = self._spellings[thread.agent]
        for index in reversed(range(len(spellings))):
            known = thread.boundaries[index]
            if spellings[index] == other and known.host_claims == claims and known.trigger == trigger:
                return index
        return None


def _session_of(path: Path) -> str | None:
    """Return the session that the file's place names: `<session>.jsonl` or `<session>/subagents/agent-<id>.jsonl`."""
    name = path.parent.parent.name if path.parent.name == "subagents" else path.stem
    return name if _UUID.fullmatch(name) else None


def _says_refused(line: bytes) -> bool:
    """Tell whether a command's output says that a compaction was refused or failed; its echo may quote anything."""
    return _COMMAND_ECHO not in line and any(words in line for words in _REFUSALS)


def _full_request(usage: _Usage | None) -> int | None:
    """Return input + cache read + cache creation; a provider without a cache leaves those two out."""
    if usage is None or (fresh := count(usage.input_tokens)) is None:
        return None
    return fresh + (count(usage.cache_read_input_tokens) or 0) + (count(usage.cache_creation_input_tokens) or 0)


def _claims(metadata: _Metadata) -> dict[str, int]:
    claims: dict[str, int] = {}
    for name, stream_name in _CLAIMS.items():
        value = count(getattr(metadata, name))
        if value is None:
            value = count(getattr(metadata, stream_name))
        if value is not None:
            claims[name] = value
    return claims
