"""The service as one ASGI application: its paths, every check in one order, and what stands behind two of them."""

from __future__ import annotations

import time
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from awr.errors import AwrError, NotFound, fault_of
from awr.surfaces.acs.door import ACS_PATH, GuardianDoor
from awr.surfaces.http.incoming import Body, GoneError, Headers, Message, Receive, RefusedError, Scope, Send
from awr.surfaces.http.metrics import CONTENT_TYPE
from awr.surfaces.http.requests import (
    MAX_BODY_BYTES,
    require_client,
    require_host,
    require_media_types,
    require_message,
    require_method,
    require_origin,
)
from awr.surfaces.http.service import Service
from awr.surfaces.http.watch import Exchange, Watch

__all__ = ["ARRIVAL_SECONDS", "Application"]

#: How long a body may take to arrive once its headers are there.
ARRIVAL_SECONDS = 10.0
#: How long an answer about readiness is given again, so that asking costs nothing.
READY_SECONDS = 2.0

#: A refusal of the protocol itself is not larger; a tool's answer that is need not be looked into.
SMALL_BYTES = 4096

_JSON = b"application/json"


class Application:
    """Answer `/mcp` for known clients, `/metrics` for the same, and `/health` and `/ready` for everybody.

    With a Guardian's door there is `/acs` too, whose requests prove themselves.
    """

    def __init__(
        self,
        service: Service,
        server: Server[Any],
        watch: Watch,
        *,
        door: GuardianDoor | None = None,
        arrival_seconds: float = ARRIVAL_SECONDS,
    ) -> None:
        self.manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=MAX_BODY_BYTES
        )
        self._service = service
        self._watch = watch
        self._door = door
        self._arrival_seconds = arrival_seconds
        self._readiness = Readiness(service)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http", "the server speaks nothing else"
        exchange = Exchange()
        exchange.attach(scope)
        body = Body(receive, limit=MAX_BODY_BYTES)
        answer = _Recorded(send, exchange)
        outcome = "cancelled"
        try:
            await self._answer(scope, receive, body, answer, exchange)
            outcome = answer.outcome()
        except RefusedError as refused:
            outcome = f"http_{refused.status}"
            await self._refuse(refused, scope, body, answer)
        except GoneError:
            outcome = "disconnected"
        except Exception as fault:
            outcome = "fault"
            if not answer.status:
                report = msgspec.json.encode(fault_of(fault).report())
                await _reply(answer, 500, report, close=not body.complete)
        finally:
            self._count(answer)
            if scope["path"] == "/mcp" or outcome != "ok":
                self._watch.done(exchange, outcome)

    async def _answer(self, scope: Scope, receive: Receive, body: Body, send: _Recorded, exchange: Exchange) -> None:
        headers = Headers(scope)
        require_origin(headers, self._service)
        match scope["path"]:
            case "/mcp":
                exchange.client = require_client(headers, self._service)
                require_host(headers, self._service)
                require_method(scope, "POST")
                require_media_types(headers)
                await self._serve(scope, body, send)
            case path if path == ACS_PATH and self._door is not None:
                # Its answers are the Guardian's, which counts them itself.
                send.reads = False
                await self._door(scope, receive, send)
            case "/metrics":
                exchange.client = require_client(headers, self._service)
                require_host(headers, self._service)
                require_method(scope, "GET", "HEAD")
                await _reply(send, 200, self._watch.metrics.text().encode(), kind=CONTENT_TYPE.encode())
            case "/health":
                require_method(scope, "GET", "HEAD")
                await _reply(send, 200, b'{"ok":true}')
            case "/ready":
                require_method(scope, "GET", "HEAD")
                usable, projects = await self._readiness.counts()
                found = {"ok": usable == projects, "projects": projects, "usable": usable}
                await _reply(send, 200 if usable == projects else 503, msgspec.json.encode(found))
            case _:
                raise RefusedError(
                    404,
                    NotFound(
                        "there is nothing here",
                        got="another path",
                        expected="/mcp",
                        next_step="send MCP requests to /mcp",
                    ),
                )

    async def _serve(self, scope: Scope, body: Body, send: _Recorded) -> None:
        data = await body.read(seconds=self._arrival_seconds)
        require_message(data)
        pending: list[Message] = [{"type": "http.request", "body": data, "more_body": False}]

        async def replay() -> Message:
            return pending.pop() if pending else await body.rest()

        # The SDK reads the kind of the body again, and not in every spelling that has been let through here.
        headers = [pair for pair in scope["headers"] if pair[0] != b"content-type"]
        inner = {**scope, "headers": [*headers, (b"content-type", _JSON)]}
        await self.manager.handle_request(inner, replay, send)

    async def _refuse(self, refused: RefusedError, scope: Scope, body: Body, send: _Recorded) -> None:
        # Whoever asks first whether to send a body is told no; others are still sending, and read when they are done.
        if not Headers(scope).has(b"expect"):
            try:
                await body.drain()
            except GoneError:
                return
        data = msgspec.json.encode(refused.body)
        await _reply(send, refused.status, data, headers=refused.headers, close=not body.complete)

    def _count(self, answer: _Recorded) -> None:
        if answer.status >= 400:
            self._watch.metrics.refusal(answer.status)
        if answer.code is not None:
            self._watch.metrics.protocol_error(answer.code)


class Readiness:
    """Whether each project can be opened. Anybody may ask, so that it is looked up rarely."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = anyio.Lock()
        self._until = 0.0
        self._usable = 0

    async def counts(self) -> tuple[int, int]:
        """Return how many projects can be opened, and how many there are."""
        async with self._lock:
            if time.monotonic() >= self._until:
                self._usable = await anyio.to_thread.run_sync(self._look)
                self._until = time.monotonic() + READY_SECONDS
        return self._usable, len(self._service.projects)

    def _look(self) -> int:
        usable = 0
        for project in self._service.projects.values():
            try:
                project.open()
                usable += 1
            except AwrError:
                continue
        return usable


class _Error(msgspec.Struct, frozen=True):
    code: int


class _Answer(msgspec.Struct, frozen=True):
    error: _Error | None = None


class _Recorded:
    """Sends an answer on, with the request's id, and remembers what it was; its body only where `reads` says so."""

    def __init__(self, send: Send, exchange: Exchange) -> None:
        self._send = send
        self._exchange = exchange
        self.status = 0
        self.code: int | None = None
        self.reads = True

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", []), (b"x-request-id", self._exchange.id.encode())]
            message = {**message, "headers": headers}
        elif self.reads and (not self._exchange.logged or len(message.get("body", b"")) < SMALL_BYTES):
            self.code = _code(message.get("body", b""))
        await self._send(message)

    def outcome(self) -> str:
        """Return how a request ended that no tool was called for."""
        if self.code is not None:
            return f"rpc_{self.code}"
        return "ok" if 200 <= self.status < 300 else f"http_{self.status}"


def _code(body: bytes) -> int | None:
    """Return JSON-RPC's code when the protocol itself refuses: those answers are whole in one piece."""
    try:
        error = msgspec.json.decode(body, type=_Answer).error
    except msgspec.DecodeError:
        return None
    return None if error is None else error.code


async def _reply(
    send: _Recorded,
    status: int,
    data: bytes,
    *,
    kind: bytes = _JSON,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    close: bool = False,
) -> None:
    shown = [(b"content-type", kind), (b"content-length", str(len(data)).encode()), *headers]
    if close:
        shown.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": shown})
    await send({"type": "http.response.body", "body": data})
