"""The client for programs that run in an event loop. It decides nothing that the other does not."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from types import TracebackType
from typing import Any, Self

import httpx2

from awr.client.acs.address import parse_address
from awr.client.acs.answers import MAX_ANSWER_BYTES
from awr.client.acs.audit import AuditRecord, Sink
from awr.client.acs.exchange import Reply, Request, Settled, Silence
from awr.client.acs.outcome import Outcome, Started
from awr.client.acs.session import GuardianSession
from awr.client.acs.settings import Settings
from awr.guardian.signature import DEFAULT_KEY_ID

__all__ = ["AsyncGuardianClient"]

_HEADERS = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}


class AsyncGuardianClient:
    """Asks a Guardian about one session's steps over HTTP, as many at a time as the program likes.

    Its arguments and answers are GuardianClient's. `audit` is called in a thread of its own, because a durable record
    takes time. It belongs to the event loop it is first used in.
    """

    def __init__(
        self,
        guardian: str,
        *,
        settings: Settings,
        secret: bytes,
        audit: Sink,
        key_id: str = DEFAULT_KEY_ID,
        session_id: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        address = parse_address(guardian)
        self._url = address.url
        self._session = GuardianSession(
            settings, secret=secret, transports=address.transports, key_id=key_id, session_id=session_id
        )
        self._audit = audit
        self._http = httpx2.AsyncClient(
            verify=tls or ssl.create_default_context(),
            # The one deadline is ours, and so are the limits; a kept connection could make a request a replay.
            timeout=None,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
            follow_redirects=False,
            trust_env=False,
        )
        self._turn: AbstractAsyncContextManager[Any] = asyncio.Lock() if settings.sequential else nullcontext()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def session_id(self) -> str:
        """The session, as every request names it."""
        return self._session.session_id

    @property
    def chain_hash(self) -> str | None:
        """The head of the session's chain as it was published last; None while it is not known."""
        return self._session.chain_hash

    async def start(self) -> Started:
        """Do the handshake, once. Raise InvalidTransition for a second one."""
        async with self._turn:
            request = self._session.hello()
            started, records = self._session.welcomed(request, await self._exchange(request))
        await self._tell(records)
        return started

    async def step(
        self,
        method: str,
        payload: Mapping[str, Any],
        *,
        turn_id: str | None = None,
        parent_turn_id: str | None = None,
    ) -> Outcome:
        """Ask about a step and return what to do about it, at the negotiated deadline at the latest.

        Raise what GuardianClient.step raises. A step that is cancelled has no outcome, and must not proceed.
        """
        async with self._turn:
            asked = self._session.ask(method, payload, turn_id=turn_id, parent_turn_id=parent_turn_id)
            if not isinstance(asked, Settled):
                asked = self._session.settle(asked, await self._exchange(asked))
        await self._tell(asked.records)
        return asked.outcome

    async def ping(self) -> bool:
        """Tell whether a Guardian answers. It is no sign that it would decide, and nothing is recorded."""
        async with self._turn:
            request = self._session.ping()
            return self._session.ponged(request, await self._exchange(request))

    async def aclose(self) -> None:
        """Close what is still open."""
        await self._http.aclose()

    async def _tell(self, records: tuple[AuditRecord, ...]) -> None:
        for record in records:
            await asyncio.to_thread(self._audit, record)

    async def _exchange(self, request: Request) -> Reply | Silence:
        """Send a request and return what came in time. The body is read as it comes and never unpacked."""
        body = bytearray()
        try:
            async with (
                asyncio.timeout(max(0.0, request.deadline - time.monotonic())),
                self._http.stream("POST", self._url, content=request.body, headers=_HEADERS) as response,
            ):
                async for piece in response.aiter_raw():
                    body += piece
                    if len(body) > MAX_ANSWER_BYTES:
                        break
                return Reply(bytes(body), response.status_code)
        except TimeoutError:
            return Silence("timeout")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError):
            return Silence("transport")
