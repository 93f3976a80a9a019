"""The client for programs that wait: one session with a Guardian, over HTTP or a child process."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from awr.client.acs.audit import AuditFile, AuditRecord, Sink
from awr.client.acs.exchange import Settled
from awr.client.acs.http_transport import HttpTransport
from awr.client.acs.outcome import Outcome, Started
from awr.client.acs.session import GuardianSession
from awr.client.acs.settings import Settings
from awr.guardian.signature import DEFAULT_KEY_ID

if TYPE_CHECKING:
    from awr.client.acs.stdio_transport import StdioTransport

__all__ = ["AuditFile", "AuditRecord", "GuardianClient", "Outcome", "Settings", "Started"]


class GuardianClient:
    """Asks a Guardian about one session's steps and says what to do about each.

    `guardian` is an address, or the command of a process that speaks over its standard input and output. `audit` gets
    a record of each step that nobody decided and of each decision that could not be applied, before the step's
    outcome is returned; what it raises is raised here. Any thread may ask.
    """

    def __init__(
        self,
        guardian: str | Sequence[str],
        *,
        settings: Settings,
        secret: bytes,
        audit: Sink,
        key_id: str = DEFAULT_KEY_ID,
        session_id: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._transport: HttpTransport | StdioTransport
        if isinstance(guardian, str):
            self._transport = HttpTransport(guardian, tls=tls)
        else:
            # A hook pays for what it imports, and most ask over HTTP.
            from awr.client.acs.stdio_transport import StdioTransport

            self._transport = StdioTransport(guardian)
        self._session = GuardianSession(
            settings,
            secret=secret,
            transports=self._transport.transports,
            key_id=key_id,
            session_id=session_id,
        )
        self._audit = audit
        one_at_a_time = settings.sequential or not isinstance(guardian, str)
        self._turn: AbstractContextManager[Any] = threading.Lock() if one_at_a_time else nullcontext()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def session_id(self) -> str:
        """The session, as every request names it."""
        return self._session.session_id

    @property
    def chain_hash(self) -> str | None:
        """The head of the session's chain as it was published last; None while it is not known."""
        return self._session.chain_hash

    def start(self) -> Started:
        """Do the handshake, once. Raise InvalidTransition for a second one."""
        with self._turn:
            request = self._session.hello()
            started, records = self._session.welcomed(request, self._transport.exchange(request))
        for record in records:
            self._audit(record)
        return started

    def step(
        self,
        method: str,
        payload: Mapping[str, Any],
        *,
        turn_id: str | None = None,
        parent_turn_id: str | None = None,
    ) -> Outcome:
        """Ask about a step and return what to do about it, at the negotiated deadline at the latest.

        The time counts from when the request is sent; behind another step it is sent after that one's answer. Raise
        InvalidTransition before start(), InvalidInput for a method that was not offered, and what the audit raises.
        """
        with self._turn:
            asked = self._session.ask(method, payload, turn_id=turn_id, parent_turn_id=parent_turn_id)
            if not isinstance(asked, Settled):
                asked = self._session.settle(asked, self._transport.exchange(asked))
        for record in asked.records:
            self._audit(record)
        return asked.outcome

    def ping(self) -> bool:
        """Tell whether a Guardian answers. It is no sign that it would decide, and nothing is recorded."""
        with self._turn:
            request = self._session.ping()
            return self._session.ponged(request, self._transport.exchange(request))

    def close(self) -> None:
        """End the child process, if there is one."""
        self._transport.close()
