"""Where requests are decided: one Guardian over one store, and the thread that has both to itself."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec

from awr.guardian.guardian import Guardian
from awr.guardian.handshake import Posture, Transport
from awr.guardian.refusals import Code, Refusal
from awr.guardian.signature import Keys
from awr.guardian.store import Store
from awr.ids import system_clock
from awr.surfaces.acs.notices import Notices

__all__ = ["HTTP", "STDIO", "Desk", "DeskThread", "Setup", "desk_thread"]

HTTP: tuple[Transport, ...] = ("http", "https")
STDIO: tuple[Transport, ...] = ("stdio",)

#: How many requests share one commit at the most.
TOGETHER = 32


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator decided. `create` makes a database that is not there yet."""

    keys: Keys
    database: Path
    create: bool
    posture: Posture = "proceed"


class Desk:
    """A Guardian and its store, for the thread that opened them. Whatever comes in, an answer goes out."""

    def __init__(self, setup: Setup, *, transports: tuple[Transport, ...], notices: Notices) -> None:
        self._notices = notices
        self._store = Store.open(setup.database, now=system_clock(), create=setup.create)
        self._guardian = Guardian(
            self._store, keys=setup.keys, transports=transports, posture=setup.posture, notice=notices
        )

    def answer(self, body: bytes, *, arrived: float) -> bytes:
        """Return the answer to one body that was there at `arrived`, in seconds of `time.monotonic`."""
        return self.answer_together([(body, arrived)])[0]

    def answer_together(self, bodies: Sequence[tuple[bytes, float]]) -> list[bytes]:
        """Return the answers to bodies, each with its arrival as `answer` has it."""
        try:
            return self._guardian.answer_together(bodies)
        except Exception as error:
            self._notices.early("fault", fault=type(error).__name__)
            fault = Refusal(
                Code.INTERNAL_ERROR,
                reason="evaluation_failed",
                message="the Guardian has a fault, so nothing is allowed",
            )
            return [self.refuse(fault) for _ in bodies]

    def refuse(self, refusal: Refusal) -> bytes:
        """Return the answer to a body that could not be read."""
        return self._guardian.refuse(refusal)

    def close(self) -> None:
        """Close the store."""
        self._store.close()


class DeskThread:
    """A desk on a thread of its own, which answers while connections are served.

    What comes while it is busy waits, and is then answered together: one commit, one change of threads.
    """

    def __init__(self, executor: ThreadPoolExecutor, desk: Desk) -> None:
        self._executor = executor
        self._desk = desk
        self._waiting: deque[tuple[bytes, float, asyncio.Future[bytes]]] = deque()
        self._busy = False

    async def answer(self, body: bytes) -> bytes:
        """Return the answer to one body."""
        found: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append((body, time.monotonic(), found))
        self._begin()
        return await found

    def _begin(self) -> None:
        if self._busy or not self._waiting:
            return
        self._busy = True
        taken = [self._waiting.popleft() for _ in range(min(TOGETHER, len(self._waiting)))]
        loop = asyncio.get_running_loop()
        bodies = [(body, arrived) for body, arrived, _ in taken]
        answers = loop.run_in_executor(self._executor, self._desk.answer_together, bodies)
        answers.add_done_callback(lambda done: self._end([found for *_, found in taken], done))

    def _end(self, asked: list[asyncio.Future[bytes]], done: asyncio.Future[list[bytes]]) -> None:
        self._busy = False
        for found, answer in zip(asked, done.result(), strict=True):
            # Who has left in the meantime is not waiting any more.
            if not found.done():
                found.set_result(answer)
        self._begin()

    async def refuse(self, refusal: Refusal) -> bytes:
        """Return the answer to a body that could not be read."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._desk.refuse, refusal)


@contextmanager
def desk_thread(setup: Setup, *, transports: tuple[Transport, ...], notices: Notices) -> Iterator[DeskThread]:
    """Open a desk on its thread; answer what was asked and close it there at the end.

    Raise Storage, RuleViolation or Io when the database cannot be used.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="awr-guardian") as executor:
        desk = executor.submit(Desk, setup, transports=transports, notices=notices).result()
        try:
            yield DeskThread(executor, desk)
        finally:
            executor.submit(desk.close).result()
