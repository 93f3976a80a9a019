"""One POST over HTTP by the standard library, in which no step outlives the one deadline.

Each request has a connection of its own. A connection that is kept may be dead when it is used, and the same signed
request may not be sent twice: the second would be a replay. Redirects are not followed and proxies not asked: what is
signed for one Guardian is not shown to anybody else.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Any

from awr.client.acs.address import parse_address
from awr.client.acs.answers import MAX_ANSWER_BYTES
from awr.client.acs.exchange import Reply, Request, Silence

__all__ = ["HttpTransport"]


class HttpTransport:
    """Sends to one address. It keeps nothing between two requests, so any thread may use it."""

    def __init__(self, url: str, *, tls: ssl.SSLContext | None = None) -> None:
        self._address = parse_address(url)
        self.transports = self._address.transports
        self._tls = tls
        if self._tls is None and self._address.secure:
            self._tls = ssl.create_default_context()

    def exchange(self, request: Request) -> Reply | Silence:
        """Send a request and return what came in time."""
        try:
            return self._exchange(request)
        except TimeoutError:
            return Silence("timeout")
        except (OSError, http.client.HTTPException, UnicodeError):
            return Silence("transport")

    def close(self) -> None:
        """Do nothing: no connection is kept."""

    def _exchange(self, request: Request) -> Reply | Silence:
        address = self._address
        with _connected(address.host, address.port, request.deadline) as plain:
            wire = plain
            if self._tls is not None and address.secure:
                plain.settimeout(_remaining(request.deadline))
                wire = self._tls.wrap_socket(plain, server_hostname=address.host)
            with wire:
                connection = http.client.HTTPConnection(address.host, address.port)
                connection.sock = _Timed(wire, request.deadline)
                headers = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}
                # A Guardian may answer before it has read everything, and close.
                with suppress(BrokenPipeError, ConnectionResetError):
                    connection.request("POST", address.target, request.body, headers)
                response = connection.getresponse()
                body = response.read(MAX_ANSWER_BYTES + 1)
                if response.length and len(body) <= MAX_ANSWER_BYTES:
                    return Silence("transport")
                return Reply(body, response.status)


class _Timed:
    """What http.client needs of a socket, each call of which has only what is left until the deadline."""

    def __init__(self, wire: socket.socket, deadline: float) -> None:
        self._wire = wire
        self._deadline = deadline

    def sendall(self, data: Any) -> None:
        """Send in pieces, so that a peer that takes a byte at a time gains nothing."""
        rest = memoryview(data)
        while rest:
            self._wire.settimeout(_remaining(self._deadline))
            rest = rest[self._wire.send(rest) :]

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return a reader."""
        assert mode == "rb", "http.client only reads from a file"
        return io.BufferedReader(_Reader(self._wire, self._deadline))

    def close(self) -> None:
        """Leave the socket open: http.client closes it when an answer begins, and the answer is still to be read."""


class _Reader(io.RawIOBase):
    def __init__(self, wire: socket.socket, deadline: float) -> None:
        self._wire = wire
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._wire.settimeout(_remaining(self._deadline))
        return self._wire.recv_into(buffer)


def _remaining(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _connected(host: str, port: int, deadline: float) -> socket.socket:
    """Return a connection to the first address of a host that takes one. Raise OSError."""
    refused: OSError = OSError("the name has no address")
    for family, kind, protocol, _, place in _addresses(host, port, deadline):
        found = socket.socket(family, kind, protocol)
        try:
            found.settimeout(_remaining(deadline))
            found.connect(place)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return found
        except TimeoutError:
            found.close()
            raise
        except OSError as error:
            found.close()
            refused = error
    raise refused


def _addresses(host: str, port: int, deadline: float) -> list[Any]:
    """Return the addresses of a host. A name is looked up aside: the system's own look-up knows no deadline."""
    with suppress(ValueError):
        ipaddress.ip_address(host)
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    found: list[Any] = []

    def look_up() -> None:
        with suppress(OSError, UnicodeError):
            found.extend(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))

    aside = threading.Thread(target=look_up, daemon=True)
    aside.start()
    aside.join(_remaining(deadline))
    if aside.is_alive():
        raise TimeoutError
    return found
