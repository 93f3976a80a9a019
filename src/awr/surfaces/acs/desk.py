"""Where requests are decided: one Guardian over one store, and the thread that has both to itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
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
        try:
            return self._guardian.answer(body, arrived=arrived)
        except Exception as error:
            self._notices.early("fault", fault=type(error).__name__)
            return self.refuse(
                Refusal(
                    Code.INTERNAL_ERROR,
                    reason="evaluation_failed",
                    message="the Guardian has a fault, so nothing is allowed",
                )
            )

    def refuse(self, refusal: Refusal) -> bytes:
        """Return the answer to a body that could not be read."""
        return self._guardian.refuse(refusal)

    def close(self) -> None:
        """Close the store."""
        self._store.close()


class DeskThread:
    """A desk on a thread of its own, which answers one request after the other while connections are served."""

    def __init__(self, executor: ThreadPoolExecutor, desk: Desk) -> None:
        self._executor = executor
        self._desk = desk

    async def answer(self, body: bytes) -> bytes:
        """Return the answer to one body."""
        arrived = time.monotonic()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: self._desk.answer(body, arrived=arrived))

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
