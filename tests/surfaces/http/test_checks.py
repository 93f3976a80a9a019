"""What has to hold before the protocol is spoken: each check, their order, and clients that are slow or hostile."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from awr.surfaces.http.incoming import DRAIN_BYTES, Headers
from awr.surfaces.http.requests import MAX_BODY_BYTES, require_host
from awr.surfaces.http.service import Service
from tests.support.service import DEADLINE, Agent, Reply, connected, eventually, token_of
from tests.support.team import Serve, Team, served_team

GOOD = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
TOO_LARGE = b" " * (MAX_BODY_BYTES + 1)
ORIGIN = "https://app.example"
HOST = "awr.internal.example"

#: The checks from the outermost inward: what breaks each, and the status that says so.
CHECKS: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("origin", {"headers": {"Origin": "https://evil.example"}}, 403),
    ("bearer", {"headers": {"Authorization": "Bearer " + token_of("eve")}}, 401),
    ("host", {"headers": {"Host": "evil.example"}}, 403),
    ("method", {"method": "PUT"}, 405),
    ("accept", {"headers": {"Accept": "application/json"}}, 406),
    ("content type", {"headers": {"Content-Type": "text/plain"}}, 415),
    ("size", {"content": TOO_LARGE}, 413),
    ("json", {"content": b"{"}, 400),
)


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    head = f'allowed_hosts = ["{HOST}", "Ported.example:8443"]\nallowed_origins = ["{ORIGIN}"]'
    with served_team(tmp_path_factory.mktemp("checks"), head=head) as served:
        yield served


@pytest.fixture
def ada(team: Team) -> Iterator[Agent]:
    with team.agent("ada") as agent:
        yield agent


def send(agent: Agent, content: bytes = GOOD, *, headers: dict[str, str] | None = None, **more: Any) -> Reply:
    return agent.send(content, headers={"Host": HOST, **(headers or {})}, **more)


def raw(team: Team, text: str, *, body: bytes = b"") -> bytes:
    """Send bytes as they are and return everything that comes back until the connection is closed."""
    with connected(team.running) as client:
        client.sendall(text.replace("\n", "\r\n").encode("latin-1") + body)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.mark.parametrize("first", range(len(CHECKS)), ids=[name for name, _, _ in CHECKS])
def test_the_outermost_check_that_fails_is_the_one_that_answers(ada: Agent, first: int) -> None:
    changes: dict[str, Any] = {"headers": {}}
    for _, change, _ in CHECKS[first:]:
        changes = {**change, **changes, "headers": {**change.get("headers", {}), **changes["headers"]}}
    assert send(ada, **changes).status == CHECKS[first][2]


@pytest.mark.parametrize(("name", "change", "status"), CHECKS, ids=[name for name, _, _ in CHECKS])
def test_each_check_alone_is_answered_with_its_status_and_a_report(
    ada: Agent, name: str, change: dict[str, Any], status: int
) -> None:
    reply = send(ada, **change)
    body = reply.json()
    report = body["error"]["data"] if name == "json" else body
    assert reply.status == status
    assert report["code"] in {"RuleViolation", "InvalidInput", "Unsupported"}
    assert {"got", "expected", "next_step"} <= report["details"].keys()


def test_a_request_that_passes_every_check_is_answered(ada: Agent) -> None:
    reply = send(ada)
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in reply.headers


# Origin, token and host


@pytest.mark.parametrize("origin", ["null", "", ORIGIN.upper(), ORIGIN + "/", ORIGIN + ":443", "http://app.example"])
def test_an_origin_is_listed_exactly_or_refused(team: Team, origin: str) -> None:
    answer = raw(team, f"POST /mcp HTTP/1.1\nHost: {HOST}\nOrigin: {origin}\nContent-Length: 0\n\n")
    assert answer.startswith(b"HTTP/1.1 403 ")


def test_a_listed_origin_is_let_through(ada: Agent) -> None:
    assert send(ada, headers={"Origin": ORIGIN}).status == 200


def test_a_browsers_preflight_is_not_answered_as_one(ada: Agent) -> None:
    reply = send(ada, b"", method="OPTIONS", headers={"Origin": ORIGIN, "Access-Control-Request-Method": "POST"})
    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert not [name for name in reply.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer  " + token_of("ada"),
        "Basic " + token_of("ada"),
        token_of("ada"),
        "Bearer " + token_of("ada") + "x",
        "Bearer " + token_of("ada")[:-1],
        "Bearer " + token_of("ada").upper(),
        "Bearer " + token_of("ada") + "," + token_of("ada"),
        "Bearer " + "x" * 4097,
        "Bearer \xfc" + "x" * 40,
    ],
)
def test_without_a_known_token_nobody_is_let_in(team: Team, authorization: str) -> None:
    line = f"Authorization: {authorization}\n" if authorization else ""
    answer = raw(team, f"POST /mcp HTTP/1.1\nHost: {HOST}\n{line}Content-Length: 0\n\n")
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"www-authenticate: Bearer\r\n" in answer


def test_two_tokens_in_one_request_are_none(team: Team) -> None:
    line = f"Authorization: Bearer {token_of('ada')}\n"
    assert b" 401 " in raw(team, f"POST /mcp HTTP/1.1\nHost: {HOST}\n{line}{line}Content-Length: 0\n\n")[:20]


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "BeArEr"])
def test_the_scheme_is_read_in_any_case(ada: Agent, scheme: str) -> None:
    assert send(ada, headers={"Authorization": f"{scheme} {token_of('ada')}"}).status == 200


def test_a_token_in_the_query_is_no_token_and_is_written_nowhere(team: Team, ada: Agent) -> None:
    query = f"?token={token_of('ada')}&access_token={token_of('ada')}"
    refused = send(ada, headers={"Authorization": ""}, path="/mcp" + query)
    let_in = send(ada, path="/mcp" + query)
    assert (refused.status, let_in.status) == (401, 200)
    team.running.logged(request=let_in.headers["x-request-id"])
    assert token_of("ada") not in team.running.errors()
    assert "?" not in team.running.errors()


@pytest.mark.parametrize("host", [HOST, HOST + ":1234", HOST.upper(), "ported.example:8443"])
def test_a_listed_host_is_let_through(ada: Agent, host: str) -> None:
    assert send(ada, headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "127.0.0.1",
        "evil.example",
        "ported.example",
        "ported.example:1",
        f"{HOST}.evil.example",
        f"evil@{HOST}",
        f"{HOST}:80:80",
        f"{HOST}.",
    ],
)
def test_another_host_is_refused_even_with_a_token(ada: Agent, host: str) -> None:
    assert send(ada, headers={"Host": host}).status == 403


def test_without_a_host_nothing_is_answered(team: Team) -> None:
    line = f"Authorization: Bearer {token_of('ada')}\n"
    assert b" 403 " in raw(team, f"POST /mcp HTTP/1.0\n{line}Content-Length: 0\n\n")[:20]
    assert b" 400 " in raw(team, f"POST /mcp HTTP/1.1\n{line}Content-Length: 0\n\n")[:20]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST:9", "[::1]:9"])
def test_without_listed_hosts_loopback_names_are_let_through(host: str) -> None:
    service = Service(projects={}, clients=(), allowed_hosts=(), allowed_origins=frozenset())
    require_host(Headers({"headers": [(b"host", host.encode())]}), service)


def test_a_name_that_was_pointed_here_is_refused_where_no_host_is_listed(serve: Serve) -> None:
    with serve() as team, team.agent("ada") as ada:
        assert ada.send(GOOD, headers={"Host": "rebound.example"}).status == 403
        assert ada.send(GOOD).status == 200


# Methods, media types and paths


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD"])
def test_another_method_is_refused_with_the_one_there_is(ada: Agent, method: str) -> None:
    reply = send(ada, b"", method=method)
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json, text/event-stream", 200),
        ("text/event-stream;q=0.9,APPLICATION/JSON; charset=utf-8", 200),
        ("application/json", 406),
        ("text/event-stream", 406),
        ("*/*", 406),
        ("", 406),
        ("application/jsonx, text/event-streams", 406),
    ],
)
def test_both_kinds_of_answer_have_to_be_accepted(ada: Agent, accept: str, status: int) -> None:
    assert send(ada, headers={"Accept": accept}).status == status


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("text/json", 415),
        ("", 415),
        ("application/x-www-form-urlencoded", 415),
    ],
)
def test_only_json_is_taken(ada: Agent, kind: str, status: int) -> None:
    assert send(ada, headers={"Content-Type": kind}).status == status


@pytest.mark.parametrize("path", ["/", "/mcp/", "/MCP", "/mcp/x", "//mcp", "/.well-known/oauth-authorization-server"])
def test_another_path_is_nothing(ada: Agent, path: str) -> None:
    assert send(ada, path=path).status == 404


# The body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"1",
        b'"text"',
        b"[]",
        b'[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]',
        b"{}",
        b'{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}',
        b'{"jsonrpc":2.0,"id":1,"method":"tools/list"}',
        b'{"id":1,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":true,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":[1],"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":5}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":"sentinel"}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":1e999}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":"\\ud800"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list"} sentinel',
        b'\xff{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":' + b"9" * 5000 + b"}}",
    ],
)
@pytest.mark.parametrize("version", ["", "2025-11-25", "2026-07-28", "sentinel"])
def test_what_is_no_message_is_a_bad_request_in_words_of_our_own(ada: Agent, body: bytes, version: str) -> None:
    reply = send(ada, body, headers={"MCP-Protocol-Version": version, "Mcp-Method": "tools/list" if version else ""})
    assert 400 <= reply.status < 500
    error = reply.rpc_error()
    assert error["code"] in {-32700, -32600}
    assert "sentinel" not in reply.content.decode()


@pytest.mark.parametrize("name", [b"5", b"null", b"[]", b"{}"])
def test_a_call_with_unfit_parameters_is_refused_without_repeating_them(ada: Agent, name: bytes) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%s,"arguments":"sentinel"}}' % name
    reply = send(ada, body)
    assert reply.rpc_error()["code"] == -32602
    assert b"sentinel" not in reply.content


def test_a_body_of_two_mebibytes_is_read_and_one_byte_more_is_not(ada: Agent) -> None:
    exact = GOOD + b" " * (MAX_BODY_BYTES - len(GOOD))
    assert send(ada, exact).status == 200
    assert send(ada, exact + b" ").status == 413


def test_a_body_that_is_too_large_is_refused_after_all_of_it_was_taken(ada: Agent) -> None:
    again = send(ada, b"x" * (MAX_BODY_BYTES + DRAIN_BYTES // 2))
    assert again.status == 413
    assert "connection" not in again.headers
    assert send(ada).status == 200


def test_a_body_without_an_end_is_refused_and_the_connection_closed(team: Team) -> None:
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {token_of('ada')}\r\n"
        "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    with connected(team.running) as client:
        client.sendall(head.encode())
        sent = 0
        try:
            while sent < 64 * 1024 * 1024:
                client.sendall(piece)
                sent += 65536
        except OSError:
            pass
    assert MAX_BODY_BYTES < sent < 32 * 1024 * 1024
    team.running.logged(outcome="http_413")


@pytest.mark.parametrize("kind", ["unknown client", "too large"])
def test_a_client_that_asks_first_is_answered_without_its_body(team: Team, kind: str) -> None:
    token = token_of("eve") if kind == "unknown client" else token_of("ada")
    accept = "application/json" if kind == "too large" else "application/json, text/event-stream"
    answer = raw(
        team,
        f"POST /mcp HTTP/1.1\nHost: {HOST}\nAuthorization: Bearer {token}\nAccept: {accept}\n"
        "Content-Type: application/json\nExpect: 100-continue\nContent-Length: 100\n\n",
    )
    assert answer.startswith(b"HTTP/1.1 40")
    assert b"connection: close\r\n" in answer


# Clients that are slow or leave

SLOW = """
import sys
from awr.surfaces.http import app, incoming, listening
app.Application.__init__.__kwdefaults__["arrival_seconds"] = 0.3
listening.PromptProtocol.header_seconds = 0.3
incoming.DRAIN_SECONDS = 0.2
from awr.surfaces.mcp.main import main
main()
"""


def test_a_slow_client_is_cut_off_and_keeps_nobody_waiting(serve: Serve) -> None:
    with serve(script=SLOW) as team, team.agent("ada") as ada:
        lines = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token_of('ada')}\r\n"
        rest = (
            "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
        )
        begun = [b"", b"POST", lines.encode(), (lines + rest + "\r\n").encode(), (lines + rest + "\r\n{").encode()]
        slow = [connected(team.running) for _ in begun]
        for client, text in zip(slow, begun, strict=True):
            client.sendall(text)
        assert ada.call("awr_projects_list").value()["client"] == "ada"
        answers = [b"".join(iter(lambda c=client: c.recv(65536), b"")) for client in slow]  # type: ignore[misc]
        for client in slow:
            client.close()
        assert [answer[:13] for answer in answers] == [b"", b"", b"", b"HTTP/1.1 408 ", b"HTTP/1.1 408 "]
        assert all(b"connection: close" in answer for answer in answers[3:])
        assert team.running.stop() == 0


def test_headers_that_trickle_in_do_not_begin_their_time_again(serve: Serve) -> None:
    with serve(script=SLOW) as team, connected(team.running) as client:
        client.settimeout(0.05)

        def closed() -> bool:
            try:
                client.sendall(b"x")
                return client.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        client.sendall(b"POST /mcp HTTP/1.1\r\nHost: ")
        began = time.monotonic()
        eventually(closed)
        assert time.monotonic() - began < DEADLINE / 2


def test_a_second_request_on_one_connection_has_its_own_time(serve: Serve) -> None:
    with serve(script=SLOW) as team, connected(team.running) as client:
        request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            client.sendall(request[:10])
            client.sendall(request[10:])
            answer = b""
            while not answer.endswith(b'{"ok":true}'):
                piece = client.recv(65536)
                assert piece, answer
                answer += piece


def test_a_client_that_leaves_in_the_middle_of_its_body_is_logged_and_forgotten(team: Team) -> None:
    with connected(team.running) as client:
        client.sendall(
            f"POST /mcp HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {token_of('cyd')}\r\n"
            "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
            "Content-Length: 100\r\n\r\n{".encode()
        )
    assert team.running.logged(outcome="disconnected")["client"] == "cyd"


def test_what_is_no_http_is_refused_and_not_repeated(team: Team) -> None:
    assert b" 400 " in raw(team, "sentinel sentinel\n\n")[:20]
    team.running.logged(event="library")
    assert "sentinel" not in team.running.errors()


# The other paths


def test_health_says_that_the_process_is_alive_and_nothing_else(team: Team, ada: Agent) -> None:
    reply = ada.get("/health", Authorization="", Host="10.0.0.1:8080")
    assert (reply.status, reply.json()) == (200, {"ok": True})
    assert ada.get("/health", Origin="https://evil.example").status == 403
    assert send(ada, b"", path="/health").status == 405


def test_ready_counts_the_projects_and_names_none(serve: Serve) -> None:
    with serve() as team, team.agent("ada") as ada:
        assert ada.get("/ready", Authorization="").json() == {"ok": True, "projects": 2, "usable": 2}
        root = team.projects["beta"].root
        root.rename(root.with_name("gone"))

        def unready() -> Reply | None:
            reply = ada.get("/ready", Authorization="")
            return reply if reply.status == 503 else None

        assert eventually(unready).json() == {"ok": False, "projects": 2, "usable": 1}


def test_metrics_are_for_clients_and_name_nothing_that_anybody_sent(team: Team, ada: Agent) -> None:
    host = {"Host": HOST}
    assert ada.get("/metrics", Authorization="", **host).status == 401
    assert ada.get("/metrics", Host="evil.example").status == 403
    send(ada, b'{"jsonrpc":"2.0","id":1,"method":"sentinel"}')
    send(ada, b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sentinel","arguments":{}}}')
    call = {"name": "awr_search", "arguments": {"project": "sentinel", "text": "sentinel"}}
    send(ada, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode())
    text = ada.get("/metrics", **host).content.decode()
    assert 'awr_mcp_calls_total{tool="awr_search",outcome="RuleViolation"} 1' in text
    assert 'awr_http_refusals_total{status="401"}' in text
    assert 'awr_mcp_protocol_errors_total{code="-32601"}' in text
    assert "awr_mcp_calls_in_flight 0\n" in text
    assert 'awr_mcp_call_duration_seconds_bucket{access="read",le="+Inf"}' in text
    for hidden in ("sentinel", token_of("ada"), str(team.projects["alpha"].root)):
        assert hidden not in text + team.running.errors()


def test_a_log_line_says_who_called_what_and_how_it_ended(team: Team, ada: Agent) -> None:
    call = {"name": "awr_work_get", "arguments": {"project": "alpha", "work": "nothing-like-it"}}
    reply = send(ada, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode())
    line = team.running.logged(request=reply.headers["x-request-id"])
    assert {name: line[name] for name in ("event", "client", "project", "tool", "outcome")} == {
        "event": "call",
        "client": "ada",
        "project": "alpha",
        "tool": "awr_work_get",
        "outcome": "NotFound",
    }
    assert line["ms"] >= 0
    assert line["time"] > 0
    assert line.keys() == {"time", "event", "request", "client", "project", "tool", "outcome", "ms"}
