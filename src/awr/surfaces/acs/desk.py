"""Where requests are decided: one Guardian over one store, on the thread that opened both."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from awr.domain.provenance import TrustMap
from awr.guardian.guardian import Guardian
from awr.guardian.handshake import Posture, Transport
from awr.guardian.policies.packs import OBSERVE, Pack, built_in
from awr.guardian.refusals import Code, Refusal
from awr.guardian.signature import Keys
from awr.guardian.store import BUSY_MS, Store
from awr.guardian.verdict import Observe, Policy
from awr.ids import system_clock
from awr.surfaces.acs.notices import Notices

__all__ = ["HTTP", "STDIO", "Desk", "Setup", "SharedDesk", "shared_desk"]

HTTP: tuple[Transport, ...] = ("http", "https")
STDIO: tuple[Transport, ...] = ("stdio",)

#: How many requests share one commit at the most, and how many bytes once there are two: the loop waits for all.
TOGETHER = 32
TOGETHER_BYTES = 262_144
#: How often a store that another process holds is looked at again, in seconds.
LOOK_AGAIN_SECONDS = 0.005


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator decided. `create` makes a database that is not there yet."""

    keys: Keys
    database: Path
    create: bool
    posture: Posture = "proceed"
    packs: tuple[Pack, ...] = msgspec.field(default_factory=lambda: (built_in(OBSERVE),))
    trust_map: TrustMap = msgspec.field(default_factory=TrustMap)


class Desk:
    """A Guardian and its store. Whatever comes in, an answer goes out. `busy_ms` is how long SQLite itself waits."""

    def __init__(
        self, setup: Setup, *, transports: tuple[Transport, ...], notices: Notices, busy_ms: int = BUSY_MS
    ) -> None:
        self._notices = notices
        self._store = Store.open(setup.database, now=system_clock(), create=setup.create, busy_ms=busy_ms)
        try:
            policy = _policy_of(setup, self._store)
        except BaseException:
            self._store.close()
            raise
        self._guardian = Guardian(
            self._store, keys=setup.keys, transports=transports, policy=policy, posture=setup.posture, notice=notices
        )

    def answer_together(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Return the answers to bodies that are there at the same time, in order."""
        answers = self.answer_unless_held(bodies, waited=True)
        assert answers is not None, "who has waited is answered"
        return answers

    def answer_unless_held(self, bodies: Sequence[bytes], *, waited: bool) -> list[bytes] | None:
        """Return the answers, or None when another process holds the store and they have not `waited` long enough."""
        try:
            return self._guardian.answer_unless_held(bodies, waited=waited)
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


def _policy_of(setup: Setup, store: Store) -> Policy:
    if [pack.id for pack in setup.packs] == [OBSERVE]:
        return Observe()
    from awr.guardian.judge import Judge  # who observes pays for none of it
    from awr.guardian.policies.engine import CedarPolicy

    return Judge(CedarPolicy(setup.packs), store, trust_map=setup.trust_map)


class SharedDesk:
    """A desk for many connections, on the thread of their event loop.

    What has come by the loop's next turn is answered together: one commit for all of it, and no change of threads,
    which would cost as much as the answer. The loop never sleeps in SQLite: while another process holds the store,
    it looks again now and then, and serves its other connections.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._waiting: deque[tuple[bytes, float, asyncio.Future[bytes]]] = deque()
        self._due = False

    async def answer(self, body: bytes) -> bytes:
        """Return the answer to one body."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[bytes] = loop.create_future()
        self._waiting.append((body, loop.time(), found))
        self._later(0)
        return await found

    def refuse(self, refusal: Refusal) -> bytes:
        """Return the answer to a body that could not be read."""
        return self._desk.refuse(refusal)

    def _later(self, seconds: float) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_later(seconds, self._work)

    def _work(self) -> None:
        self._due = False
        taken = [self._waiting.popleft()]
        size = len(taken[0][0])
        while self._waiting and len(taken) < TOGETHER and size + len(self._waiting[0][0]) <= TOGETHER_BYTES:
            taken.append(self._waiting.popleft())
            size += len(taken[-1][0])
        waited = asyncio.get_running_loop().time() - taken[0][1] >= BUSY_MS / 1000
        answers = self._desk.answer_unless_held([body for body, *_ in taken], waited=waited)
        if answers is None:
            self._waiting.extendleft(reversed(taken))
            self._later(LOOK_AGAIN_SECONDS)
            return
        for (*_, found), answer in zip(taken, answers, strict=True):
            # Who has left in the meantime is not waiting any more.
            if not found.done():
                found.set_result(answer)
        if self._waiting:
            self._later(0)


@contextmanager
def shared_desk(setup: Setup, *, transports: tuple[Transport, ...], notices: Notices) -> Iterator[SharedDesk]:
    """Open a desk for the event loop that this thread is going to run, and close it at the end.

    Raise Storage, RuleViolation or Io when the database cannot be used.
    """
    desk = Desk(setup, transports=transports, notices=notices, busy_ms=0)
    try:
        yield SharedDesk(desk)
    finally:
        desk.close()
