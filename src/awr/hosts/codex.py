"""Read Codex CLI's rollouts.

Rules, observed on 0.171.0 and in public records back to 0.104:

- A boundary is a `compacted` row. `context_compacted` and a completed `ContextCompaction` item tell of the same
  one, and alone they are none.
- A full request is `input_tokens` (cached ones are inside) of a `token_usage_record`, or of a `token_count` when
  there is no record for it. A `token_count` behind its record, or with totals seen before, is a repetition.
- A `token_count` with 0 input tokens is the host's own estimate, never a measurement.
- The summarizer's own call stands before the boundary, which names it in `compaction_response_id`. Versions without
  that field leave no way to tell it from a request.
- There is no trigger on disk. The window is `model_context_window`, by which the host compacts.
- A whole file is a subagent's when its `session_meta` names a parent thread or a subagent source.
- A failed, refused or interrupted compaction leaves no trace, so that `failed_attempts` is always 0 here.

A boundary's id is its `compaction_response_id`. Older rows have none: then it is `<session id>@<row timestamp>`,
which locates the row; with neither it is None.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec

from awr.hosts.rows import UNDECODABLE, clean_text, count, parse_time, salvaged_row
from awr.hosts.threads import MAIN, Book, SeenIds, ThreadState, short_hash
from awr.hosts.transcript import (
    Host,
    Progress,
    Request,
    Thread,
    Transcript,
    read_rows,
)

__all__ = ["CodexReader", "read_transcript"]

_ROLLOUT = re.compile(r"rollout-.*?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)


class _Tokens(msgspec.Struct):
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None


class _Info(msgspec.Struct):
    total_token_usage: _Tokens | None = None
    last_token_usage: _Tokens | None = None
    model_context_window: int | None = None


class _Record(msgspec.Struct):
    response_id: str | None = None
    usage: _Tokens | None = None


class _Item(msgspec.Struct):
    type: str | None = None


class _Payload(msgspec.Struct):
    type: str | None = None
    id: str | None = None
    session_id: str | None = None
    cwd: str | None = None
    model: str | None = None
    parent_thread_id: str | None = None
    thread_source: str | None = None
    source: Any = None
    info: _Info | None = None
    model_context_window: int | None = None
    response_id: str | None = None
    usage: _Tokens | None = None
    thread_token_usage: _Tokens | None = None
    compaction_response_id: str | None = None
    latest_token_usage_record: _Record | None = None
    window_number: int | None = None
    item: _Item | None = None
    started_at_ms: int | None = None
    completed_at_ms: int | None = None


class _Row(msgspec.Struct):
    type: str | None = None
    timestamp: str | None = None
    payload: _Payload | None = None


class _State(msgspec.Struct):
    """`recorded` is the usage of the newest record until a `token_count` repeats it."""

    book: Book
    agent: str = MAIN
    cwd: str | None = None
    model: str | None = None
    window: int | None = None
    has_meta: bool = False
    recorded: tuple[int | None, int | None, int | None] | None = None
    summarizer: int | None = None
    seen: list[int] = msgspec.field(default_factory=list)


def read_transcript(
    path: str | os.PathLike[str], *, snapshot: bytes | None = None, progress: Progress | None = None
) -> Transcript:
    """Read one rollout of Codex. Errors and the meaning of `snapshot` are those of `read_rows`."""
    return read_rows(path, make_reader=lambda: CodexReader(path=path), snapshot=snapshot, progress=progress)


class CodexReader:
    """Turn rows into the file's one thread."""

    host: Host = "codex"

    def __init__(self, *, path: str | os.PathLike[str]) -> None:
        named = _ROLLOUT.fullmatch(Path(path).stem)
        self._path = os.fspath(path)
        self._decode = msgspec.json.Decoder(_Row).decode
        self._seen = SeenIds()
        self._state = _State(book=Book(session_id=None if named is None else named[1]))

    def dump(self) -> bytes:
        return msgspec.msgpack.encode(msgspec.structs.replace(self._state, seen=list(self._seen)))

    def load(self, state: bytes) -> None:
        self._state = msgspec.msgpack.decode(state, type=_State)
        self._seen, self._state.seen = SeenIds(self._state.seen), []

    def finish(self) -> tuple[tuple[Thread, ...], int | None, int]:
        return self._state.book.finish(host=self.host, path=self._path)

    def read_row(self, line: bytes, *, row: int) -> bool:
        try:
            found = self._decode(line)
        except UNDECODABLE:
            damaged = salvaged_row(_Row, line)
            if damaged is None:
                return False
            found = damaged
        payload = found.payload
        if payload is None:
            return True
        if self._state.book.first_at is None:
            self._state.book.first_at = parse_time(found.timestamp)
        kind = found.type
        if kind == "event_msg":
            self._read_event(payload, row=row)
        elif kind == "token_usage_record":
            self._read_record(payload, row=row)
        elif kind == "compacted":
            self._read_boundary(payload, timestamp=found.timestamp, line=line, row=row)
        elif kind == "turn_context":
            self._state.model = clean_text(payload.model) or self._state.model
        elif kind == "session_meta":
            self._read_meta(payload)
        return True

    def _thread(self) -> ThreadState:
        thread = self._state.book.thread(self._state.agent)
        thread.cwd = self._state.cwd
        return thread

    def _read_meta(self, payload: _Payload) -> None:
        # A forked file repeats the meta row of the session it was forked from: the first one is its own.
        if self._state.has_meta:
            return
        state, book = self._state, self._state.book
        state.has_meta = True
        state.cwd = clean_text(payload.cwd)
        own_id = clean_text(payload.id)
        book.session_id = clean_text(payload.session_id) or own_id or book.session_id
        from_subagent = isinstance(payload.source, dict) and "subagent" in payload.source
        if payload.parent_thread_id or payload.thread_source == "subagent" or from_subagent:
            parent = clean_text(payload.parent_thread_id)
            if parent is not None and book.session_id == own_id:
                book.session_id = parent
            state.agent = own_id or "subagent"
        self._thread()

    def _read_event(self, payload: _Payload, *, row: int) -> None:
        kind = payload.type
        if kind == "token_count":
            if payload.info is not None:
                self._take_window(payload.info.model_context_window)
                self._read_count(payload.info, row=row)
        elif kind == "task_started":
            self._take_window(payload.model_context_window)
        elif kind == "item_completed" and payload.item is not None and payload.item.type == "ContextCompaction":
            self._read_duration(payload)

    def _take_window(self, value: int | None) -> None:
        window = count(value)
        if not window:
            return
        self._state.window = window
        thread = self._thread()
        if thread.awaiting and thread.boundaries[-1].window_tokens is None:
            thread.amend(window_tokens=window)

    def _read_duration(self, payload: _Payload) -> None:
        thread = self._thread()
        started, completed = payload.started_at_ms, payload.completed_at_ms
        if not thread.awaiting or thread.boundaries[-1].duration_ms is not None:
            return
        if started is not None and completed is not None and completed >= started:
            thread.amend(duration_ms=completed - started)

    def _read_record(self, payload: _Payload, *, row: int) -> None:
        usage = payload.usage
        if usage is None:
            return
        identity = clean_text(payload.response_id)
        response = None if identity is None else short_hash("response", identity)
        running = payload.thread_token_usage
        repeats_response = response is not None and not self._seen.add(response)
        repeats_totals = running is not None and not self._seen.add(_totals_hash(running))
        # Some providers give every response the same id, so that an id alone proves no repetition.
        if repeats_response and (repeats_totals or running is None):
            return
        self._state.recorded = _usage_key(usage)
        thread = self._thread()
        if repeats_totals:
            if thread.pending is not None and thread.pending_response is None:
                thread.pending_response = response
            return
        tokens = count(usage.input_tokens)
        if tokens and (response is None or response != self._state.summarizer):
            thread.request(Request(tokens=tokens, row=row, model=self._state.model), response=response)

    def _read_count(self, info: _Info, *, row: int) -> None:
        last, totals = info.last_token_usage, info.total_token_usage
        if last is None:
            return
        tokens = count(last.input_tokens)
        thread = self._thread()
        if tokens == 0:
            estimate = count(last.total_tokens)
            if estimate and thread.awaiting and thread.boundaries[-1].host_after_tokens is None:
                claims = {"estimate_total_tokens": estimate, **thread.boundaries[-1].host_claims}
                thread.amend(host_after_tokens=estimate, host_claims=claims)
            return
        recorded, self._state.recorded = self._state.recorded, None
        is_new = totals is None or self._seen.add(_totals_hash(totals))
        if not is_new or recorded == _usage_key(last) or not tokens:
            return
        thread.request(Request(tokens=tokens, row=row, model=self._state.model))

    def _read_boundary(self, payload: _Payload, *, timestamp: str | None, line: bytes, row: int) -> None:
        session_id = self._state.book.session_id
        response_id = clean_text(payload.compaction_response_id)
        row_id = response_id
        observed_at = parse_time(timestamp)
        if row_id is None and session_id is not None and observed_at is not None:
            row_id = clean_text(f"{session_id}@{timestamp}")
        if not self._seen.add(short_hash("boundary", row_id or line, timestamp, payload.window_number)):
            self._state.book.copied += 1
            return
        thread = self._thread()
        claims: dict[str, int] = {}
        if payload.window_number is not None and count(payload.window_number) is not None:
            claims["window_number"] = payload.window_number
        spent = self._summarizer_tokens(thread, payload, response_id=response_id)
        if spent is not None:
            claims["summarizer_input_tokens"] = spent
        thread.boundary(
            row=row,
            row_id=row_id,
            trigger=None,
            observed_at=observed_at,
            host_before_tokens=None,
            host_after_tokens=None,
            duration_ms=None,
            host_claims=claims,
            window_tokens=self._state.window,
        )

    def _summarizer_tokens(self, thread: ThreadState, payload: _Payload, *, response_id: str | None) -> int | None:
        """Take the summarizer's own call out of the thread and return its input tokens."""
        if response_id is None:
            return None
        self._state.summarizer = short_hash("response", response_id)
        request = thread.discard(self._state.summarizer)
        if request is not None:
            return request.tokens
        record = payload.latest_token_usage_record
        if record is None or record.response_id != response_id or record.usage is None:
            return None
        return count(record.usage.input_tokens)


def _totals_hash(totals: _Tokens) -> int:
    return short_hash(
        "totals", totals.input_tokens, totals.cached_input_tokens, totals.output_tokens, totals.total_tokens
    )


def _usage_key(usage: _Tokens) -> tuple[int | None, int | None, int | None]:
    return (usage.input_tokens, usage.output_tokens, usage.total_tokens)
