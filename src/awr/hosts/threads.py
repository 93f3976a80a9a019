"""Bookkeeping of one transcript's threads while its rows stream by.

Everything here is mutable on purpose and small: per thread a few numbers, the boundaries found, and a footprint
series of bounded length. Only `SeenIds` grows with the file, by 8-byte hashes. All of it can be encoded and restored.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from hashlib import blake2b

import msgspec

from awr.hosts.transcript import Boundary, Footprint, Host, Request, Thread, Trigger

__all__ = ["MAIN", "Book", "SeenIds", "Series", "ThreadState", "short_hash"]

#: The name of a session's own thread; every other thread is a subagent's.
MAIN = "main"

_SERIES_LIMIT = 256


def short_hash(*parts: str | bytes | int | None) -> int:
    """Return a nonzero 8-byte hash of the parts, in their order."""
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return int.from_bytes(digest.digest(), "little") or 1


class SeenIds:
    """Remember hashes in a flat table: 8 bytes an entry and at most two thirds full."""

    def __init__(self, hashes: Iterable[int] = ()) -> None:
        self._size = 0
        self._slots = array("Q", bytes(8 * 64))
        for value in hashes:
            self.add(value)

    def __iter__(self) -> Iterator[int]:
        return (value for value in self._slots if value)

    def __contains__(self, value: int) -> bool:
        return self._slots[self._find(value)] == value

    def add(self, value: int) -> bool:
        """Remember `value` (from `short_hash`) and return whether it is new."""
        slot = self._find(value)
        if self._slots[slot]:
            return False
        self._slots[slot] = value
        self._size += 1
        if self._size * 3 > len(self._slots) * 2:
            self._grow()
        return True

    def _find(self, value: int) -> int:
        slots, mask = self._slots, len(self._slots) - 1
        slot = value & mask
        while slots[slot] not in (0, value):
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        old = self._slots
        self._slots = array("Q", bytes(len(old) * 16))
        for value in old:
            if value:
                self._slots[self._find(value)] = value


class Series(msgspec.Struct):
    """Keep the highest footprint of each `stride` requests; the stride doubles when the series is full."""

    stride: int = 1
    peaks: list[int] = msgspec.field(default_factory=list)
    filled: int = 0

    def add(self, tokens: int) -> None:
        """Take one request's footprint in tokens."""
        if self.peaks and self.filled < self.stride:
            self.peaks[-1] = max(self.peaks[-1], tokens)
            self.filled += 1
            return
        if len(self.peaks) == _SERIES_LIMIT:
            self.peaks = [max(pair) for pair in zip(self.peaks[::2], self.peaks[1::2], strict=True)]
            self.stride *= 2
        self.peaks.append(tokens)
        self.filled = 1


class ThreadState(msgspec.Struct):
    """What is known of one thread so far.

    The newest request waits in `pending` until the next one or a boundary comes, because a summarizer's own call is
    known as such only at the boundary behind it. A request belongs to the stretch between two boundaries: `last` is
    the newest one of this stretch, so that nothing is measured across a boundary.
    """

    agent: str
    model: str | None = None
    cwd: str | None = None
    requests: int = 0
    pending: Request | None = None
    pending_response: int | None = None
    last: Request | None = None
    awaiting: bool = False
    boundaries: list[Boundary] = msgspec.field(default_factory=list)
    failed: int = 0
    series: Series = msgspec.field(default_factory=Series)

    def request(self, request: Request, *, response: int | None = None) -> None:
        """Take one provider response; `response` is the hash of the provider's id for it."""
        self.settle()
        self.pending, self.pending_response = request, response

    def settle(self) -> None:
        """Count the pending request as the thread's own."""
        request, self.pending, self.pending_response = self.pending, None, None
        if request is None:
            return
        self.requests += 1
        self.model = request.model or self.model
        self.series.add(request.tokens)
        self.last = request
        if self.awaiting:
            self.awaiting = False
            newest = self.boundaries[-1]
            model = request.model or newest.model
            self.boundaries[-1] = msgspec.structs.replace(newest, after=request, model=model, settled=True)

    def discard(self, response: int) -> Request | None:
        """Return and forget the pending request if it is the one with this response id."""
        if self.pending is None or self.pending_response != response:
            return None
        request, self.pending, self.pending_response = self.pending, None, None
        return request

    def inherit(self, request: Request) -> None:
        """Take a request that another session made: it counts nowhere, but the context did stand there."""
        self.settle()
        self.last = request
        self.model = request.model or self.model

    def forget_last(self) -> None:
        """Let nothing before this point serve as a later boundary's before."""
        self.settle()
        self.last = None

    def boundary(
        self,
        *,
        row: int,
        row_id: str | None,
        trigger: Trigger | None,
        observed_at: int | None,
        host_before_tokens: int | None,
        host_after_tokens: int | None,
        duration_ms: int | None,
        host_claims: dict[str, int],
        window_tokens: int | None = None,
    ) -> None:
        """Record one completed compaction of this thread."""
        self.settle()
        previous = self.boundaries[-1] if self.boundaries else None
        if previous is not None:
            self.boundaries[-1] = msgspec.structs.replace(previous, settled=True)
        self.boundaries.append(
            Boundary(
                row=row,
                row_id=row_id,
                sequence=len(self.boundaries) + 1,
                trigger=trigger,
                observed_at=observed_at,
                before=self.last,
                after=None,
                host_before_tokens=host_before_tokens,
                host_after_tokens=host_after_tokens,
                duration_ms=duration_ms,
                host_claims=host_claims,
                requests_since_previous=self._requests_since(previous),
                model=None if self.last is None else self.last.model,
                window_tokens=window_tokens,
                failed_attempts=self.failed,
                position=self.requests,
                settled=False,
            )
        )
        self.last, self.awaiting, self.failed = None, True, 0

    def _requests_since(self, previous: Boundary | None) -> int | None:
        # A transcript that shows no request at all does not prove that there was none.
        return None if previous is None or self.requests == 0 else self.requests - previous.position

    def amend(self, **facts: object) -> None:
        """Add facts to the newest boundary that a later row of the host tells about it."""
        self.boundaries[-1] = msgspec.structs.replace(self.boundaries[-1], **facts)

    def finish(self, *, host: Host, session_id: str | None, path: str) -> Thread:
        """Return the thread as it stands, the pending request included."""
        self.settle()
        return Thread(
            host=host,
            session_id=session_id,
            path=path,
            agent=self.agent,
            model=self.model,
            cwd=self.cwd,
            requests=self.requests,
            boundaries=tuple(self.boundaries),
            footprint=Footprint(stride=self.series.stride, peaks=tuple(self.series.peaks)),
            failed_after_last=self.failed,
        )


class Book(msgspec.Struct):
    """All threads of one file, by the name of their agent, in order of appearance."""

    session_id: str | None = None
    first_at: int | None = None
    copied: int = 0
    threads: dict[str, ThreadState] = msgspec.field(default_factory=dict)

    def thread(self, agent: str) -> ThreadState:
        """Return the agent's thread, made now if this is its first row."""
        state = self.threads.get(agent)
        if state is None:
            state = self.threads[agent] = ThreadState(agent=agent)
        return state

    def finish(self, *, host: Host, path: str) -> tuple[tuple[Thread, ...], int | None, int]:
        """Return the threads as they stand, the time of the first row, and how many boundaries were copies."""
        threads = (
            thread.finish(host=host, session_id=self.session_id, path=path) for thread in self.threads.values()
        )
        return tuple(threads), self.first_at, self.copied
