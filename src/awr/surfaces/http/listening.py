"""Taking connections: the socket, what a slow client may cost, and how the server ends."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from awr.errors import InvalidInput, Io
from awr.surfaces.mcp.main import DEFAULT_LISTEN

__all__ = ["HEADER_SECONDS", "MAX_CONNECTIONS", "address_of", "listen_on", "server_for"]

#: How long a request's headers may take from the first byte of the connection or of the request.
HEADER_SECONDS = 10.0
#: Further connections are closed at once: each may hold a body, and files that can be open are few.
MAX_CONNECTIONS = 512
#: How long the last requests may take once the service is told to stop.
GRACE_SECONDS = 30

_LISTEN = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+)):(?P<port>\d{1,5})", re.ASCII)


def listen_on(listen: str) -> socket.socket:
    """Return a socket that listens on `host:port`. Raise InvalidInput, or Io when the system refuses it."""
    found = _LISTEN.fullmatch(listen)
    if found is None or int(found["port"]) > 65535:
        raise InvalidInput(
            "the address to listen on is not one",
            got="another form",
            expected="host:port, with an IPv6 address in brackets; port 0 for any free one",
            next_step=f"give --listen {DEFAULT_LISTEN}",
        )
    try:
        family, _, _, _, address = socket.getaddrinfo(
            found["six"] or found["name"], int(found["port"]), type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )[0]
        return _bound(family, address)
    except OSError as error:
        raise Io(
            f"the address cannot be listened on: {error.strerror or type(error).__name__}",
            got="a refusal of the operating system",
            expected="a free address of this machine",
            next_step="stop what listens there, or choose another address with --listen",
        ) from None


def _bound(family: int, address: Any) -> socket.socket:
    # With the protocol named, asyncio knows it for TCP and sends each answer at once instead of in 40 milliseconds.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(MAX_CONNECTIONS)
    except BaseException:
        listener.close()
        raise
    return listener


def address_of(listener: socket.socket) -> str:
    """Return where a socket listens, as it stands in a URL."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Together:
    """A transport whose writes of one moment leave together: the head of an answer and its body are one packet.

    uvicorn writes them one after the other, each a call of the system and a packet of its own.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pending: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Keep the bytes until everything is written that is written now."""
        if not self._pending:
            self._loop.call_soon(self.flush)
        self._pending.append(data)

    def close(self) -> None:
        """Send what is kept, and close."""
        self.flush()
        self._transport.close()

    def flush(self) -> None:
        """Send what is kept."""
        data = b"".join(self._pending)
        self._pending.clear()
        if data:
            self._transport.write(data)


class PromptProtocol(H11Protocol):
    """HTTP/1.1 whose headers have to arrive in time: uvicorn waits for them as long as the client likes."""

    header_seconds = HEADER_SECONDS
    _deadline: asyncio.TimerHandle | None = None
    _together: _Together

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._together = _Together(transport, self.loop)
        super().connection_made(cast(asyncio.Transport, self._together))
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
        else:
            self._await_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._await_headers()
        else:
            self._forget()

    def eof_received(self) -> None:
        # Behind this line the loop closes the transport, and drops what is written later.
        self._together.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        # More bytes of the same headers do not begin the time again.
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.header_seconds, self.transport.abort)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Server(uvicorn.Server):
    """uvicorn's server; a signal ends it in order, and is not raised a second time when it has."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `stopped_by_signals`, which holds longer than the server runs."""
        yield

    @contextlib.contextmanager
    def stopped_by_signals(self) -> Iterator[None]:
        """Stop in order at the first signal. A second Ctrl-C no longer waits for open requests."""

        def stop(number: int, frame: FrameType | None) -> None:
            self.handle_exit(number, frame)

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def server_for(application: Callable[..., Any]) -> Server:
    """Return the server of an application. What it logs is left to the caller; addresses are never logged."""
    return Server(
        uvicorn.Config(
            application,
            loop="asyncio",
            http=PromptProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )
