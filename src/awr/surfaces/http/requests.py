"""What has to hold before a request is looked into, in the order in which it is asked."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec
from mcp_types import INVALID_REQUEST, PARSE_ERROR

from awr.errors import AwrError, InvalidInput, RuleViolation, Unsupported
from awr.operations.requests import parse_json
from awr.surfaces.http.incoming import Headers, RefusedError, Scope
from awr.surfaces.http.service import Client, Service

__all__ = [
    "MAX_BODY_BYTES",
    "require_client",
    "require_host",
    "require_media_types",
    "require_message",
    "require_method",
    "require_origin",
]

MAX_BODY_BYTES = 2 * 1024 * 1024
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
MAX_TOKEN_BYTES = 4096

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^:\[\]@/\s]+)(?P<port>:\d*)?", re.ASCII)


def require_origin(headers: Headers, service: Service) -> None:
    """Refuse a browser's page that is not listed."""
    if headers.has(b"origin") and headers.one(b"origin") not in service.allowed_origins:
        raise RefusedError(
            403,
            RuleViolation(
                "this origin is not allowed",
                got="an Origin header that is not listed",
                expected="no Origin header, or one of allowed_origins",
                next_step="ask the operator to list the origin",
            ),
        )


def require_client(headers: Headers, service: Service) -> Client:
    """Return the client whose token is in the Authorization header. No other place is looked at."""
    scheme, _, token = (headers.one(b"authorization") or "").partition(" ")
    client = None
    if scheme.lower() == "bearer" and 0 < len(token) <= MAX_TOKEN_BYTES:
        client = service.client_with(token.encode("latin-1"))
    if client is None:
        raise RefusedError(
            401,
            RuleViolation(
                "the client is not known",
                got="no token, or one that is not known",
                expected="Authorization: Bearer and the client's token",
                next_step="check the token that the operator gave you",
            ),
            ((b"www-authenticate", b"Bearer"),),
        )
    return client


def require_host(headers: Headers, service: Service) -> None:
    """Refuse a name that this service was not told to answer to: a page may have pointed it here."""
    found = _HOST.fullmatch((headers.one(b"host") or "").lower())
    allowed = service.allowed_hosts or LOOPBACK_HOSTS
    if found is None or not {found["name"], found[0]} & set(allowed):
        raise RefusedError(
            403,
            RuleViolation(
                "this host is not allowed",
                got="a Host header that is not listed",
                expected="one of allowed_hosts; a loopback name when none is listed",
                next_step="ask the operator to list the host",
            ),
        )


def require_method(scope: Scope, *allowed: str) -> None:
    """Refuse another method."""
    if scope["method"] not in allowed:
        listed = ", ".join(allowed)
        raise RefusedError(
            405,
            Unsupported(
                "this method is not offered here",
                got="another method",
                expected=listed,
                next_step=f"use {allowed[0]}",
            ),
            ((b"allow", listed.encode()),),
        )


def require_media_types(headers: Headers) -> None:
    """Refuse a client that cannot read what it may be answered, or that sends something else than JSON."""
    accepted = {part.partition(";")[0].strip().lower() for part in headers.joined(b"accept").split(",")}
    if not {"application/json", "text/event-stream"} <= accepted:
        raise RefusedError(
            406,
            InvalidInput(
                "the client does not accept the protocol's answers",
                got="another Accept header",
                expected="application/json and text/event-stream",
                next_step="send Accept: application/json, text/event-stream",
            ),
        )
    if not (headers.one(b"content-type") or "").lower().startswith("application/json"):
        raise RefusedError(
            415,
            InvalidInput(
                "the body is not JSON",
                got="another Content-Type header",
                expected="application/json",
                next_step="send Content-Type: application/json",
            ),
        )


class _Envelope(msgspec.Struct, frozen=True):
    """What every message of a client has. What else it may have is for the protocol to say."""

    jsonrpc: Literal["2.0"]
    method: str
    id: int | str = 0
    params: dict[str, Any] | None = None


def require_message(body: bytes) -> None:
    """Refuse what is not one JSON-RPC request or notification, in words that repeat nothing of it."""
    try:
        value = parse_json(body, what="the body")
    except AwrError as error:
        raise RefusedError(400, error, code=PARSE_ERROR) from None
    try:
        msgspec.convert(value, _Envelope)
        # What the parser lets through and no text can carry would be a fault further in.
        msgspec.json.encode(value)
    except (ValueError, OverflowError, RecursionError):
        raise RefusedError(
            400,
            InvalidInput(
                "the body is not a JSON-RPC message",
                got="other JSON",
                expected="one request or notification of JSON-RPC 2.0, in valid Unicode",
                next_step="send one message in each request",
            ),
            code=INVALID_REQUEST,
        ) from None
