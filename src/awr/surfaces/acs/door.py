"""The Guardian's door over HTTP: a part of an application that answers JSON-RPC, and an application of it alone."""

from __future__ import annotations

import re

from awr.guardian.reading import MAX_BODY_BYTES, too_large
from awr.guardian.refusals import Code, Refusal
from awr.surfaces.acs.desk import SharedDesk
from awr.surfaces.acs.notices import Notices
from awr.surfaces.http.incoming import (
    Body,
    GoneError,
    Headers,
    Receive,
    Scope,
    Send,
    TooLargeError,
    TooSlowError,
)

__all__ = ["ACS_PATH", "ARRIVAL_SECONDS", "GuardianApplication", "GuardianDoor"]

ACS_PATH = "/acs"
#: How long a body may take to arrive once its headers are there.
ARRIVAL_SECONDS = 10.0

_JSON = b"application/json"
_TEXT = b"text/plain; charset=utf-8"
_DIGITS = re.compile(r"[0-9]{1,20}", re.ASCII)


class GuardianDoor:
    """An ASGI application for one path. Requests prove themselves by their signature, so nobody is asked who it is.

    Every JSON-RPC answer is a 200: a client has to tell a refusal from a failure of the way. GoneError leaves it when
    the client left before it had said everything.
    """

    def __init__(self, desk: SharedDesk, *, arrival_seconds: float = ARRIVAL_SECONDS) -> None:
        self._desk = desk
        self._arrival_seconds = arrival_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        body = Body(receive, limit=MAX_BODY_BYTES)
        headers = Headers(scope)
        if scope["method"] != "POST":
            await _end(send, body, headers, 405, b"use POST\n", kind=_TEXT, more=((b"allow", b"POST"),))
            return
        try:
            _require_room(headers)
            answer = await self._desk.answer(await body.read(seconds=self._arrival_seconds))
        except TooLargeError:
            answer = self._desk.refuse(too_large())
        except TooSlowError:
            answer = self._desk.refuse(
                Refusal(
                    Code.INVALID_REQUEST,
                    reason="body_incomplete",
                    message=f"the body was not there within {self._arrival_seconds:g} seconds; send it again",
                )
            )
        await _end(send, body, headers, 200, answer, kind=_JSON)


class GuardianApplication:
    """A door and nothing else, but for `/health`."""

    def __init__(self, door: GuardianDoor, notices: Notices) -> None:
        self._door = door
        self._notices = notices

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            if scope["path"] == ACS_PATH:
                status = 200 if scope["method"] == "POST" else 405
                await self._door(scope, receive, send)
            else:
                status = await _elsewhere(scope, receive, send)
        except GoneError:
            self._notices.early("disconnected")
            return
        if status != 200:
            self._notices.early(f"http_{status}")


async def _elsewhere(scope: Scope, receive: Receive, send: Send) -> int:
    body, headers = Body(receive, limit=MAX_BODY_BYTES), Headers(scope)
    if scope["path"] != "/health":
        await _end(send, body, headers, 404, b"there is nothing here; ACS requests go to /acs\n", kind=_TEXT)
        return 404
    if scope["method"] not in {"GET", "HEAD"}:
        await _end(send, body, headers, 405, b"use GET\n", kind=_TEXT, more=((b"allow", b"GET, HEAD"),))
        return 405
    await _end(send, body, headers, 200, b'{"ok":true}', kind=_JSON)
    return 200


def _require_room(headers: Headers) -> None:
    """Refuse a body that says itself that it is too large, before any of it is read."""
    length = headers.one(b"content-length")
    if length is not None and _DIGITS.fullmatch(length) and int(length) > MAX_BODY_BYTES:
        raise TooLargeError(MAX_BODY_BYTES)


async def _end(
    send: Send,
    body: Body,
    headers: Headers,
    status: int,
    data: bytes,
    *,
    kind: bytes,
    more: tuple[tuple[bytes, bytes], ...] = (),
) -> None:
    """Answer, and close the connection where a body was not read whole.

    What is left of such a body is dropped once the answer is out: a client that is still sending when its connection
    is reset would never see it.
    """
    shown = [(b"content-type", kind), (b"content-length", str(len(data)).encode()), *more]
    unread = not body.complete and _has_body(headers)
    if unread:
        shown.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": shown})
    await send({"type": "http.response.body", "body": data, "more_body": unread})
    if not unread:
        return
    # Whoever asks first whether to send a body has been told no.
    if not headers.has(b"expect"):
        try:
            await body.drain()
        except GoneError:
            return
    await send({"type": "http.response.body", "body": b""})


def _has_body(headers: Headers) -> bool:
    return headers.has(b"transfer-encoding") or headers.one(b"content-length") not in {None, "0"}
