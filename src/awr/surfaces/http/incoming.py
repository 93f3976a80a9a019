"""A request as it comes in: its headers, its body within bounds, and the answers that end it early."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from awr.errors import AwrError, InvalidInput, Io

__all__ = [
    "Body",
    "GoneError",
    "Headers",
    "Message",
    "Receive",
    "RefusedError",
    "Scope",
    "Send",
    "TooLargeError",
    "TooSlowError",
]

#: How much of a body is read and dropped so that a refusal arrives, and for how long.
DRAIN_BYTES = 4 * 1024 * 1024
DRAIN_SECONDS = 3.0

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class RefusedError(Exception):
    """An answer that is not 200: its status, what it says, and headers it needs.

    `code` is JSON-RPC's own, for what stands where a message of it should be.
    """

    def __init__(
        self, status: int, error: AwrError, headers: tuple[tuple[bytes, bytes], ...] = (), *, code: int | None = None
    ) -> None:
        super().__init__(error.what)
        self.status = status
        self.headers = headers
        report = error.report()
        self.body: dict[str, object] = report
        if code is not None:
            shown = {"code": code, "message": error.what, "data": report}
            self.body = {"jsonrpc": "2.0", "id": None, "error": shown}


class TooLargeError(RefusedError):
    """The body is larger than it may be."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            413,
            InvalidInput(
                "the body is too large",
                got=f"more than {limit} bytes",
                expected=f"at most {limit} bytes",
                next_step="send facts and references, never bulk",
            ),
        )


class TooSlowError(RefusedError):
    """The body was not there in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            408,
            Io(
                "the request took too long to arrive",
                got="a body that is not complete",
                expected=f"all of it within {math.ceil(seconds)} seconds",
                next_step="send the request again",
            ),
        )


class GoneError(Exception):
    """The client left before it had said everything."""


class Headers:
    """The headers of a request. One that is there twice has no value."""

    def __init__(self, scope: Scope) -> None:
        self._found: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            self._found.setdefault(name, []).append(value)

    def has(self, name: bytes) -> bool:
        """Tell whether it is there at all."""
        return name in self._found

    def one(self, name: bytes) -> str | None:
        """Return the value of a header that is there once."""
        found = self._found.get(name, [])
        return found[0].decode("latin-1") if len(found) == 1 else None

    def joined(self, name: bytes) -> str:
        """Return the values of a header that is a list."""
        return b",".join(self._found.get(name, [])).decode("latin-1")


class Body:
    """The body of one request, of at most `limit` bytes. It is read once, or what is left of it is dropped."""

    def __init__(self, receive: Receive, *, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self.complete = False

    async def read(self, *, seconds: float) -> bytes:
        """Return the whole body. Raise TooLargeError, TooSlowError, or GoneError when it ends."""
        read = bytearray()
        try:
            async with asyncio.timeout(seconds):
                while not self.complete:
                    read += await self._piece()
                    if len(read) > self._limit:
                        raise TooLargeError(self._limit)
        except TimeoutError:
            raise TooSlowError(seconds) from None
        return bytes(read)

    async def rest(self) -> Message:
        """Return what comes after the whole body: word that the client has left."""
        return await self._receive()

    async def drain(self) -> None:
        """Drop what is left, within bounds, so that a client that is still sending gets its answer."""
        dropped = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self.complete and dropped <= DRAIN_BYTES:
                    dropped += len(await self._piece())

    async def _piece(self) -> bytes:
        message = await self._receive()
        if message["type"] != "http.request":
            raise GoneError
        self.complete = not message.get("more_body", False)
        piece: bytes = message.get("body", b"")
        return piece
