"""Anything at all over HTTP: one JSON-RPC answer or a status that is defined, never a 500, and nothing breaks."""

from __future__ import annotations

import copy
import json
import random
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from awr.guardian.hooks import HOOKS
from awr.guardian.refusals import Code
from tests.support.acs import PAYLOADS, Agent, hello
from tests.support.doors import Answer, Door, agent_of, answers_on, post

TOOL = "steps/toolCallRequest"
CODES = frozenset(map(int, Code))

fuzz = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)

JSON = st.recursive(
    st.none() | st.booleans() | st.text(max_size=20) | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
)


@pytest.fixture(scope="module")
def begun(door: Door) -> Iterator[Agent]:
    """An agent whose session goes on through all examples."""
    with door.client() as client:
        agent = agent_of(client)
        agent.begin()
        yield agent
        later = agent_of(client)
        later.begin()
        assert later.step(TOOL)["result"]["decision"] == "allow", "the Guardian is alive"


def require_defined(answer: Any, agent: Agent) -> None:
    """Require one well-formed answer, or a list of them for a batch."""
    for one in answer if isinstance(answer, list) else [answer]:
        assert one.keys() == {"jsonrpc", "id", "result"} or one.keys() == {"jsonrpc", "id", "error"}
        if "error" in one:
            assert one["error"]["code"] in CODES
            assert one["error"]["code"] != Code.INTERNAL_ERROR
            assert {"reason", "message"} <= one["error"]["data"].keys()
        else:
            assert "negotiated_version" in one["result"] or one["result"]["decision"] in {"allow", "deny"}
            assert one["result"].get("reason_codes", []) != ["evaluation_failed"]


@fuzz
@given(body=st.binary(max_size=2000) | JSON.map(json.dumps).map(str.encode))
def test_any_body_has_one_answer(begun: Agent, body: bytes) -> None:
    require_defined(json.loads(begun.send(body)), begun)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every member and item inside a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for name, item in inner for found in [(*path, name), *places(item, (*path, name))]]


def mutated(message: Any, change: int, chance: random.Random, value: Any) -> None:
    """Change one place of a message: remove it, put another value there, or add a member."""
    place = chance.choice(places(message))
    inner = message
    for name in place[:-1]:
        inner = inner[name]
    match change:
        case 0:
            del inner[place[-1]]
        case 1:
            inner[place[-1]] = value
        case _ if isinstance(inner, dict):
            inner["added"] = value
        case _:
            inner.append(value)


@fuzz
@given(
    method=st.sampled_from([*HOOKS, "handshake/hello", "system/ping", "protocols/MCP/tools/call"]),
    change=st.integers(0, 2),
    seed=st.randoms(use_true_random=False),
    value=JSON,
    signed_after=st.booleans(),
)
def test_a_request_that_was_changed_somewhere_has_one_answer(
    begun: Agent, method: str, change: int, seed: random.Random, value: Any, signed_after: bool
) -> None:
    payload = PAYLOADS.get(method, hello() if method == "handshake/hello" else {})
    agent = Agent(begun.send, session_id=begun.session_id) if method != "handshake/hello" else Agent(begun.send)
    request = copy.deepcopy(agent.unsigned(method, payload))
    if not signed_after:
        agent.signed(request)
    mutated(request, change, seed, value)
    if signed_after and isinstance(request.get("params"), dict):
        try:
            agent.signed(request)
        except (ValueError, TypeError):
            # What has no canonical form cannot be signed; it is sent all the same.
            request["params"]["signature"] = "none"
    require_defined(json.loads(agent.send(json.dumps(request).encode())), agent)


def exchanged(door: Door, data: bytes) -> list[Answer]:
    """Send bytes on a connection of their own, and return what is answered until it is closed."""
    with door.raw() as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            return []
        try:
            return answers_on(connection)
        except ConnectionResetError:
            return []


STATUSES = {200, 400, 404, 405, 501}


def require_http(door: Door, answers: list[Answer], agent: Agent) -> None:
    for answer in answers:
        assert answer.status in STATUSES, answer
        if answer.headers["content-type"] == "application/json" and answer.body != b'{"ok":true}':
            require_defined(json.loads(answer.body), agent)
    assert door.running.process.poll() is None
    assert "Traceback" not in door.running.errors()


@fuzz
@given(data=st.binary(max_size=600))
def test_any_bytes_on_a_connection_are_answered_in_a_defined_way(door: Door, begun: Agent, data: bytes) -> None:
    require_http(door, exchanged(door, data), begun)


TOKENS = (
    b"POST", b"GET", b" ", b"/acs", b"/health", b"HTTP/1.1", b"HTTP/1.0", b"\r\n", b"\n", b"\r\n\r\n", b": ", b"0",
    b"Host: a", b"Content-Length: ", b"Content-Length: 2\r\n", b"Transfer-Encoding: chunked\r\n", b"2\r\n{}\r\n",
    b"Connection: close\r\n", b"Expect: 100-continue\r\n", b"Upgrade: websocket\r\nConnection: upgrade\r\n", b"{}",
    b"0\r\n\r\n", b"\x00", b"\xff", b"*", b"?", b"Connection: keep-alive\r\n", b"POST /acs HTTP/1.1\r\nHost: a\r\n",
)  # fmt: skip


@fuzz
@given(parts=st.lists(st.sampled_from(TOKENS) | st.binary(max_size=8), max_size=16))
def test_pieces_of_http_in_any_order_are_answered_in_a_defined_way(
    door: Door, begun: Agent, parts: list[bytes]
) -> None:
    require_http(door, exchanged(door, b"".join(parts)), begun)


@fuzz
@given(place=st.integers(0, 2000), with_=st.binary(min_size=0, max_size=4), cut=st.integers(0, 4))
def test_a_request_with_some_bytes_changed_is_answered_in_a_defined_way(
    door: Door, begun: Agent, place: int, with_: bytes, cut: int
) -> None:
    data = post(json.dumps(begun.request(TOOL, PAYLOADS[TOOL])).encode(), more="Connection: close\r\n")
    place %= len(data)
    require_http(door, exchanged(door, data[:place] + with_ + data[place + cut :]), begun)
