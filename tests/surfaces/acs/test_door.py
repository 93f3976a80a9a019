"""The Guardian over HTTP, as a process: what every kind of request is answered with, and what it may cost."""

from __future__ import annotations

import json
import re
import signal
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from awr.guardian.envelope import rfc3339
from awr.guardian.hooks import HOOKS
from awr.guardian.reading import MAX_BODY_BYTES, MAX_ITEMS
from awr.guardian.signature import Keys
from tests.support.acs import PAYLOADS, TEXT, Agent, hello
from tests.support.doors import Client, Door, agent_of, answers_on, chained, guarding, locked, post
from tests.support.service import eventually

TOOL = "steps/toolCallRequest"

#: Waits that a test can wait for.
SLOW = """
from awr.surfaces.acs import door
from awr.surfaces.http import incoming, listening
door.GuardianDoor.__init__.__kwdefaults__["arrival_seconds"] = 0.3
listening.PromptProtocol.header_seconds = 0.3
incoming.DRAIN_SECONDS = 0.2
"""


def code(answer: Any) -> tuple[int, str]:
    return answer["error"]["code"], answer["error"]["data"]["reason"]


def padded(agent: Agent, size: int) -> bytes:
    """Return a signed step of exactly so many bytes."""

    def step(filling: int) -> bytes:
        return json.dumps(agent.request("steps/sessionStart", {"platform_context": {"x": "y" * filling}})).encode()

    return step(size - len(step(0)))


# Starting


def test_the_first_line_says_where_it_listens_and_nothing_else_is_said(tmp_path: Path) -> None:
    with guarding(tmp_path) as door:
        line, _, rest = door.running.errors().partition("\n")
        assert re.fullmatch(r"AWR Guardian listening at http://127\.0\.0\.1:\d+/acs", line)
        with door.client() as client:
            agent = agent_of(client)
            agent.begin()
            assert agent.step(TOOL)["result"]["decision"] == "allow"
            assert agent.ask("system/ping", {})["result"]["payload"]["status"] == "ok"
        assert rest == ""
        assert door.running.log() == [], "nothing is logged of what is allowed"
        assert door.running.stop() == 0
    assert door.database.stat().st_mode & 0o777 == 0o600


# Answers


def test_all_hooks_are_answered_signed_and_chained_over_one_connection(door: Door, agent: Agent) -> None:
    agent.begin()
    heads = {}
    for method in (name for name in HOOKS if name != "steps/sessionEnd"):
        result = agent.step(method)["result"]
        assert result["decision"] == "allow"
        heads[uuid.UUID(result["request_id"]).hex] = result["chain_hash"]
    assert chained(door.database, agent.session_id) == heads


def other(agent: Agent, **parts: Any) -> Agent:
    return Agent(agent.send, session_id=agent.session_id, **parts)


def unsigned(agent: Agent) -> Any:
    return agent.post(agent.unsigned(TOOL, PAYLOADS[TOOL]))


def forged(agent: Agent) -> Any:
    request = agent.request(TOOL, PAYLOADS[TOOL])
    request["params"]["payload"]["tool"] = {"name": "Write"}
    return agent.post(request)


def swapped(agent: Agent) -> Any:
    first, second = agent.request(TOOL, PAYLOADS[TOOL]), agent.request(TOOL, PAYLOADS[TOOL])
    return agent.post({**first, "params": {**first["params"], "signature": second["params"]["signature"]}})


def truncated(agent: Agent) -> Any:
    request = agent.request(TOOL, PAYLOADS[TOOL])
    request["params"]["signature"]["value"] = request["params"]["signature"]["value"][:20]
    return agent.post(request)


def of_another_session(agent: Agent) -> Any:
    request = agent.request(TOOL, PAYLOADS[TOOL])
    request["params"]["metadata"]["session_id"] = str(uuid.uuid4())
    return agent.post(request)


def replayed(agent: Agent) -> Any:
    request = agent.request(TOOL, PAYLOADS[TOOL])
    assert agent.post(request)["result"]["decision"] == "allow"
    return agent.post(request)


def nonce_again(agent: Agent) -> Any:
    nonce = uuid.uuid4().hex
    agent.step(TOOL)
    agent.ask(TOOL, PAYLOADS[TOOL], nonce=nonce)
    return agent.ask(TOOL, PAYLOADS[TOOL], nonce=nonce)


def from_an_hour_ago(agent: Agent) -> Any:
    return agent.ask(TOOL, PAYLOADS[TOOL], timestamp=rfc3339(time.time_ns() // 1_000_000 - 3_600_000))


#: Every line of the error table that a Guardian without a policy of its own can answer.
TABLE: tuple[tuple[Callable[[Agent], Any], int, str, bool], ...] = (
    (lambda agent: json.loads(agent.send(b"{")), -32700, "invalid_json", False),
    (lambda agent: json.loads(agent.send(b"")), -32700, "invalid_json", False),
    (lambda agent: json.loads(agent.send(b"[" * 100_000)), -32700, "too_deep", False),
    (lambda agent: json.loads(agent.send(b'{"a":' * 100_000)), -32700, "too_deep", False),
    (lambda agent: json.loads(agent.send(b'{"a":NaN}')), -32700, "invalid_json", False),
    (lambda agent: json.loads(agent.send(b'{"a":-Infinity}')), -32700, "invalid_json", False),
    (lambda agent: json.loads(agent.send(b"\xff\xfe{}")), -32700, "invalid_json", False),
    (lambda agent: json.loads(agent.send(b"\xef\xbb\xbf{}")), -32700, "invalid_json", False),
    (lambda agent: json.loads(agent.send(b'{"a":1e400}')), -32600, "not_canonicalizable", False),
    (lambda agent: json.loads(agent.send(b'{"a":9007199254740993}')), -32600, "not_canonicalizable", False),
    (lambda agent: json.loads(agent.send(b'{"a":1,"a":1}')), -32600, "not_canonicalizable", False),
    (lambda agent: json.loads(agent.send(b'{"a":"\\ud800"}')), -32600, "not_canonicalizable", False),
    (lambda agent: json.loads(agent.send(b"7")), -32600, "invalid_envelope", False),
    (lambda agent: agent.post([]), -32600, "invalid_envelope", False),
    (lambda agent: agent.post([[]])[0], -32600, "invalid_envelope", False),
    (lambda agent: agent.post([[agent.request(TOOL, PAYLOADS[TOOL])]])[0], -32600, "invalid_envelope", False),
    (lambda agent: agent.post([1] * (MAX_ITEMS + 1)), -32600, "batch_too_large", False),
    (lambda agent: agent.post({**agent.request(TOOL, {}), "jsonrpc": "1.0"}), -32600, "invalid_envelope", False),
    (lambda agent: agent.post({**agent.request(TOOL, {}), "extra": 1}), -32600, "invalid_envelope", False),
    (lambda agent: agent.ask("steps/unheardOf", {}), -32601, "method_not_found", True),
    (lambda agent: agent.ask(TOOL, {"tool": {"name": "Bash"}}), -32602, "invalid_payload", True),
    (lambda agent: Agent(agent.send).begin(acs_versions_supported=["1.0.0"]), -32001, "unsupported_version", True),
    (lambda agent: Agent(agent.send).begin(transports_supported=["stdio"]), -32000, "no_common_transport", True),
    (lambda agent: agent.begin(), -32000, "renegotiation_not_supported", True),
    (lambda agent: Agent(agent.send).step(TOOL), -32003, "no_session", True),
    (lambda agent: agent.ask("agbom/snapshot", {}), -32003, "not_negotiated", True),
    (unsigned, -32004, "signature_missing", False),
    (forged, -32004, "signature_mismatch", False),
    (swapped, -32004, "signature_mismatch", False),
    (truncated, -32004, "signature_mismatch", False),
    (of_another_session, -32004, "signature_mismatch", False),
    (
        lambda agent: agent.post(
            other(agent, keys=Keys({"elsewhere": b"k" * 32}), key_id="elsewhere").request(TOOL, PAYLOADS[TOOL])
        ),
        -32004,
        "key_unknown",
        False,
    ),
    (replayed, -32005, "replay_detected", True),
    (nonce_again, -32005, "replay_detected", True),
    (from_an_hour_ago, -32006, "timestamp_out_of_window", True),
)


@pytest.mark.parametrize(("ask", "number", "reason", "signed"), TABLE)
def test_each_line_of_the_error_table_is_answered_with_200_and_signed_for_whoever_proved_himself(
    door: Door, agent: Agent, ask: Callable[[Agent], Any], number: int, reason: str, signed: bool
) -> None:
    agent.begin()
    before = len(door.running.log())
    answer = ask(agent)
    assert code(answer) == (number, reason)
    assert ("signature" in answer["error"]) is signed
    assert agent.step(TOOL)["result"]["decision"] == "allow", "the session and the connection go on"
    lines = eventually(lambda: door.running.log()[before:])
    assert {(line["outcome"], tuple(line["reasons"])) for line in lines} == {(str(number), (reason,))}


def test_a_denial_is_logged_with_its_reason_and_an_allowed_step_is_not(door: Door, agent: Agent) -> None:
    agent.begin()
    denied = agent.step(TOOL, metadata={"session_state": {"chain_hash": "0" * 64}})["result"]
    assert denied["reason_codes"] == ["chain_mismatch"]
    line = door.running.logged(session=agent.session_id)
    assert {**line, "time": 0, "ms": 0} == {
        "time": 0,
        "event": "acs",
        "method": TOOL,
        "outcome": "deny",
        "reasons": ["chain_mismatch"],
        "session": agent.session_id,
        "fault": None,
        "ms": 0,
    }


def test_nothing_of_a_request_is_in_the_log(door: Door, client: Client, agent: Agent) -> None:
    agent.begin()
    marker = "zqMARKERzq"
    for body in (
        marker.encode(),
        json.dumps(marker).encode(),
        json.dumps({marker: marker}).encode(),
        json.dumps({**agent.request(TOOL, {}), "method": f"steps/{marker}"}).encode(),
        json.dumps(agent.request(f"steps/{marker}", {})).encode(),
        json.dumps(agent.request(TOOL, {"tool": marker, "arguments": marker})).encode(),
    ):
        assert "error" in client.post(body, **{f"X-{marker}": marker}).json()
    client.ask("GET", f"/{marker}?{marker}", None)
    assert marker not in door.running.errors()
    assert TEXT not in door.running.errors()


def test_a_batch_is_answered_in_order_and_each_item_for_itself(agent: Agent) -> None:
    first = agent.request("handshake/hello", hello())
    step = agent.request(TOOL, PAYLOADS[TOOL])
    answers = agent.post([first, step, step, {}, agent.unsigned(TOOL, PAYLOADS[TOOL])])
    assert answers[1]["result"]["decision"] == "allow"
    assert [code(answer)[0] for answer in answers[2:]] == [-32005, -32600, -32004]
    assert [agent.is_signed(answer) for answer in answers] == [True, True, True, False, False]


# Sizes and times


def test_a_body_of_exactly_the_cap_is_decided(door: Door, client: Client, agent: Agent) -> None:
    agent.begin()
    body = padded(agent, MAX_BODY_BYTES)
    assert len(body) == MAX_BODY_BYTES
    assert client.post(body).json()["result"]["decision"] == "allow"


def test_a_chunked_body_of_exactly_the_cap_is_decided_and_one_more_byte_is_refused(
    client: Client, agent: Agent
) -> None:
    agent.begin()

    def chunks(body: bytes) -> Iterator[bytes]:
        return (body[at : at + 65_537] for at in range(0, len(body), 65_537))

    assert client.post(chunks(padded(agent, MAX_BODY_BYTES))).json()["result"]["decision"] == "allow"
    assert client.post(chunks(padded(agent, MAX_BODY_BYTES + 1))).refusal() == (-32600, "payload_too_large")
    endless = client.post(chunks(b"x" * 2 * MAX_BODY_BYTES))
    assert endless.refusal() == (-32600, "payload_too_large")
    assert endless.headers["connection"] == "close"


def test_a_body_of_one_byte_more_than_the_cap_is_refused_and_its_connection_closed(
    client: Client, agent: Agent
) -> None:
    agent.begin()
    refused = client.post(padded(agent, MAX_BODY_BYTES + 1))
    assert refused.refusal() == (-32600, "payload_too_large")
    assert refused.headers["connection"] == "close"
    assert agent.step(TOOL)["result"]["decision"] == "allow", "on a new connection"


def test_a_body_that_says_itself_that_it_is_too_large_is_answered_before_it_comes(door: Door) -> None:
    with door.raw() as connection:
        connection.sendall(b"POST /acs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
        [answer] = answers_on(connection, number=1)
        assert answer.refusal() == (-32600, "payload_too_large")
        connection.sendall(b"x" * 100_000)


def test_a_client_that_asks_before_it_sends_too_much_is_told_no(door: Door) -> None:
    with door.raw() as connection:
        connection.sendall(
            b"POST /acs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\nExpect: 100-continue\r\n\r\n"
        )
        [answer] = answers_on(connection)
        assert answer.refusal() == (-32600, "payload_too_large")


def test_a_body_that_never_ends_is_answered_when_its_time_is_over(tmp_path: Path) -> None:
    with guarding(tmp_path, before=SLOW) as door:
        begun = [
            b"POST /acs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
            b"POST /acs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n",
            b'POST /acs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a":',
        ]
        slow = [door.raw() for _ in begun]
        for connection, text in zip(slow, begun, strict=True):
            connection.sendall(text)
        with door.client() as client:
            agent = agent_of(client)
            agent.begin()
            assert agent.step(TOOL)["result"]["decision"] == "allow", "nobody waits for them"
        for connection in slow:
            [answer] = answers_on(connection)
            assert answer.refusal() == (-32600, "body_incomplete")
            assert answer.headers["connection"] == "close"
            connection.close()
        assert [line["reasons"] for line in door.running.log()] == [["body_incomplete"]] * 3


def test_headers_that_take_too_long_are_cut_off_without_an_answer(tmp_path: Path) -> None:
    with guarding(tmp_path, before=SLOW) as door:
        for text in (b"", b"POST", b"POST /acs HTTP/1.1\r\nHost: localhost\r\nContent-Le"):
            with door.raw() as connection:
                connection.sendall(text)
                assert answers_on(connection) == []
        with door.client() as client:
            assert client.ask("GET", "/health").body == b'{"ok":true}'


def test_a_client_that_leaves_in_the_middle_of_its_body_is_forgotten(door: Door) -> None:
    before = len(door.running.log())
    with door.raw() as connection:
        connection.sendall(b"POST /acs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    [line] = eventually(lambda: door.running.log()[before:])
    assert line["outcome"] == "disconnected"


def test_more_connections_than_are_served_are_closed_and_the_rest_is_answered(tmp_path: Path) -> None:
    few = "from awr.surfaces.http import listening\nlistening.MAX_CONNECTIONS = 4\n"
    with guarding(tmp_path, before=few) as door:
        held = [door.raw() for _ in range(3)]
        with door.client() as client:
            assert client.ask("GET", "/health").status == 200
            with door.raw() as one_more:
                assert answers_on(one_more) == []
            assert client.ask("GET", "/health").status == 200
        for connection in held:
            connection.close()


# Other requests


@pytest.mark.parametrize("method", ["GET", "PUT", "HEAD", "DELETE", "OPTIONS", "PATCH"])
def test_another_method_is_not_allowed(client: Client, method: str) -> None:
    answer = client.ask(method, "/acs")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert client.ask("GET", "/health").status == 200


@pytest.mark.parametrize("path", ["/", "/acs/", "/ACS", "/acs/steps", "//acs", "/mcp", "/metrics", "/health/", "*"])
def test_another_path_is_a_404_in_plain_text(client: Client, path: str) -> None:
    for method, body in (("GET", None), ("POST", b"{}")):
        answer = client.ask(method, path, body)
        assert answer.status == 404
        assert answer.headers["content-type"].startswith("text/plain")


def test_health_is_answered_to_everybody_who_asks_for_it(client: Client) -> None:
    answer = client.ask("GET", "/health")
    assert (answer.status, answer.body) == (200, b'{"ok":true}')
    assert client.ask("HEAD", "/health").status == 200
    assert client.ask("POST", "/health", b"x").status == 405


def test_a_query_and_other_headers_change_nothing(agent: Agent, client: Client) -> None:
    agent.begin()
    body = json.dumps(agent.request(TOOL, PAYLOADS[TOOL]))
    answer = client.ask("POST", "/acs?trace=1", body, **{"Content-Type": "text/html", "Origin": "http://a.example"})
    assert answer.json()["result"]["decision"] == "allow"


def test_http_of_1_0_is_answered_and_its_connection_closed(door: Door, agent: Agent) -> None:
    agent.begin()
    body = json.dumps(agent.request(TOOL, PAYLOADS[TOOL])).encode()
    with door.raw() as connection:
        connection.sendall(b"POST /acs HTTP/1.0\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        [answer] = answers_on(connection)
    assert answer.json()["result"]["decision"] == "allow"


def test_requests_that_are_sent_ahead_are_answered_in_order(door: Door, agent: Agent) -> None:
    agent.begin()
    steps = [agent.request(TOOL, PAYLOADS[TOOL]) for _ in range(30)]
    with door.raw() as connection:
        connection.sendall(b"".join(post(json.dumps(step).encode()) for step in steps))
        answers = answers_on(connection, number=len(steps))
    assert [answer.json()["id"] for answer in answers] == [step["id"] for step in steps]
    heads = [answer.json()["result"]["chain_hash"] for answer in answers]
    assert list(chained(door.database, agent.session_id).values()) == heads


BROKEN = (
    b"\r\n\r\n",
    b"garbage\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"POST /acs\r\n\r\n",
    b"POST /acs HTTP/1.1\r\n\r\n",
    b"POST /acs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
    b"POST /acs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2, 3\r\n\r\n{}x",
    b"POST /acs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /acs HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    b"POST /acs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"POST /acs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    b"POST /acs HTTP/1.1\r\nHost: localhost\r\n bad: folded\r\n\r\n",
    b"POST /acs HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
)


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_http_is_a_400_or_a_closed_connection_and_never_a_decision(door: Door, text: bytes) -> None:
    with door.raw() as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        found = answers_on(connection)
    # A folded header, or a long one that arrives in one piece, is HTTP; its body is empty, which is no JSON.
    assert all(answer.json()["error"]["code"] == -32700 for answer in found if answer.status == 200)
    assert [answer.status for answer in found] in ([], [200], [400], [404, 400], [501])
    with door.client() as client:
        assert client.ask("GET", "/health").status == 200


# Ending


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_is_under_way_end_and_leaves_with_0(tmp_path: Path, number: int) -> None:
    with guarding(tmp_path) as door, door.client() as client:
        agent = agent_of(client)
        agent.begin()
        bodies = [json.dumps(agent.request(TOOL, PAYLOADS[TOOL])).encode() for _ in range(4)]
        with locked(door.database) as writer:
            connections = [door.raw() for _ in bodies]
            for connection, body in zip(connections, bodies, strict=True):
                connection.sendall(post(body))
            eventually(lambda: waiting(door, connections))
            door.running.process.send_signal(number)
            eventually(lambda: refuses(door))
            writer.rollback()
        answers = [answers_on(connection)[0].json() for connection in connections]
        for connection in connections:
            connection.close()
        assert [answer["result"]["decision"] for answer in answers] == ["allow"] * len(bodies)
        assert door.running.process.wait(30) == 0
    assert len(chained(door.database, agent.session_id)) == len(bodies)
    assert list(tmp_path.glob("acs.db-*")) == [], "the database is closed in order"


def waiting(door: Door, connections: list[socket.socket]) -> bool:
    """Tell whether the process has taken every byte that was sent to it, as the system's own table says."""
    ports = {connection.getpeername()[1] for connection in connections}
    mine = {connection.getsockname()[1] for connection in connections}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    queued = {
        int(row[2].rpartition(":")[2], 16): row[4].rpartition(":")[2]
        for row in rows
        if int(row[1].rpartition(":")[2], 16) in ports
    }
    return all(queued.get(port) == "00000000" for port in mine)


def refuses(door: Door) -> bool:
    """Tell whether it takes no more connections."""
    try:
        door.raw().close()
    except OSError:
        return True
    return False
