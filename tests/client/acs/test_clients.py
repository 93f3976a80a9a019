"""Both clients over HTTP: a real Guardian in a process of its own, and every way in which one may misbehave."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from awr.client import AsyncGuardianClient, GuardianClient
from awr.client.acs.audit import AuditRecord
from awr.client.acs.outcome import Outcome, Started
from awr.client.acs.settings import Settings
from awr.errors import InvalidInput
from tests.support.guardians import METHODS, SECRET, Script, allow, door, http, process

TOOL = "steps/toolCallRequest"
PAYLOAD = {"tool": {"name": "Allowed"}, "arguments": {"a": {"value": 1}}}
#: Long enough for an answer that comes, in milliseconds, and short enough to wait for one that does not.
SHORT_MS = 400


class Client(Protocol):
    """What the two have in common, in calls that wait."""

    records: list[AuditRecord]

    def start(self) -> Started: ...
    def step(self, method: str, payload: Any = ...) -> Outcome: ...
    def ping(self) -> bool: ...
    @property
    def chain_hash(self) -> str | None: ...


class Waiting:
    def __init__(self, url: str, records: list[AuditRecord], settings: Settings, **more: Any) -> None:
        self.records = records
        self.client = GuardianClient(url, settings=settings, audit=records.append, **more)

    def start(self) -> Started:
        return self.client.start()

    def step(self, method: str, payload: Any = PAYLOAD) -> Outcome:
        return self.client.step(method, payload)

    def ping(self) -> bool:
        return self.client.ping()

    @property
    def chain_hash(self) -> str | None:
        return self.client.chain_hash

    def close(self) -> None:
        self.client.close()


class Looping:
    def __init__(self, url: str, records: list[AuditRecord], settings: Settings, **more: Any) -> None:
        self.records = records
        self.runner = asyncio.Runner()
        self.client = AsyncGuardianClient(url, settings=settings, audit=records.append, **more)

    def start(self) -> Started:
        return self.runner.run(self.client.start())

    def step(self, method: str, payload: Any = PAYLOAD) -> Outcome:
        return self.runner.run(self.client.step(method, payload))

    def ping(self) -> bool:
        return self.runner.run(self.client.ping())

    @property
    def chain_hash(self) -> str | None:
        return self.client.chain_hash

    def close(self) -> None:
        self.runner.run(self.client.aclose())
        self.runner.close()


Make = Callable[..., Client]


@pytest.fixture(params=[Waiting, Looping], ids=["waiting", "looping"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    made: list[Waiting | Looping] = []

    def client(url: str, *, tls: ssl.SSLContext | None = None, secret: bytes = SECRET, **settings: Any) -> Client:
        settings = {"agent_id": "agent", "methods": METHODS, **settings}
        made.append(request.param(url, [], Settings(**settings), secret=secret, tls=tls))
        return made[-1]

    yield client
    for one in made:
        one.close()


def asked(make: Make, script: Script, *, timeout_ms: int = 5_000, posture: str = "proceed") -> tuple[Outcome, Client]:
    """Return what comes of one step at a Guardian that answers by a script."""
    with door(script, timeout_config={"default_ms": timeout_ms}, on_decision_failure=posture) as url:
        client = make(url)
        assert client.start().state == "guarded"
        return client.step(TOOL), client


def failed(make: Make, script: Script, *, timeout_ms: int = 5_000) -> tuple[str | None, AuditRecord]:
    outcome, client = asked(make, script, timeout_ms=timeout_ms)
    assert (outcome.action, outcome.decided_by) == ("proceed", "posture")
    (record,) = client.records
    assert (record.event, record.applied, record.failure) == ("decision_failure", "proceed", outcome.failure)
    return outcome.failure, record


# A real Guardian


def test_a_real_guardian_in_another_process_is_asked_for_a_whole_session(make: Make, tmp_path: Path) -> None:
    with process(tmp_path / "acs.db") as url:
        client = make(url, sequential=True)
        assert client.ping()
        started = client.start()
        assert (started.state, started.methods_evaluated) == ("guarded", METHODS)
        begun = client.step("steps/sessionStart", {})
        allowed = client.step(TOOL)
        forbidden = client.step(TOOL, {"tool": {"name": "Forbidden"}, "arguments": {}})
        invalid = client.step(TOOL, {"tool": {"name": "Allowed"}})
        ended = client.step("steps/sessionEnd", {"reason": "completed"})
        late = client.step(TOOL)
    assert [outcome.action for outcome in (begun, allowed, forbidden, ended, late)] == [
        "proceed",
        "proceed",
        "block",
        "proceed",
        "block",
    ]
    assert (forbidden.decided_by, forbidden.reason_codes) == ("guardian", ("tool_forbidden",))
    assert (invalid.decided_by, invalid.error_code) == ("posture", -32602)
    assert late.reason_codes == ("session_closed",)
    heads = [outcome.chain_hash for outcome in (begun, allowed, forbidden, ended)]
    assert None not in heads
    assert len(set(heads)) == 4
    assert [record.event for record in client.records] == ["decision_failure"]


def test_a_guardian_with_another_secret_leaves_the_session_unguarded_or_refused(make: Make, tmp_path: Path) -> None:
    with process(tmp_path / "acs.db") as url:
        for startup, state in (("proceed", "unguarded"), ("refuse", "refused")):
            client = make(url, startup=startup, secret=b"z" * 32)
            started = client.start()
            assert (started.state, started.error_code) == (state, -32004)
            assert client.records[0].event == "handshake_failed"


# Nobody, or somebody else


def test_a_refused_connection_settles_at_once(make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    client = make(f"http://127.0.0.1:{port}/acs")
    began = time.monotonic()
    started = client.start()
    assert (started.state, started.failure) == ("unguarded", "transport")
    assert time.monotonic() - began < 2
    assert not client.ping()


def test_a_name_that_does_not_resolve_is_a_failure_of_the_transport(make: Make) -> None:
    assert make("http://guardian.invalid:1/acs").start().failure in {"transport", "timeout"}


def test_a_listener_that_accepts_nobody_is_waited_for_until_the_deadline(make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = make(f"http://127.0.0.1:{server.getsockname()[1]}/acs", handshake_timeout_ms=SHORT_MS)
        started = client.start()
    assert (started.state, started.failure) == ("unguarded", "timeout")
    assert client.records[0].timeout_ms == SHORT_MS


def test_a_gateways_page_with_a_good_status_is_malformed(make: Make) -> None:
    def script(connection: socket.socket, request: dict[str, Any]) -> None:
        connection.sendall(http(b"<html>504 Gateway Time-out</html>"))

    failure, record = failed(make, script)
    assert (failure, record.http_status) == ("malformed", 200)


@pytest.mark.parametrize("status", ["500 Internal Server Error", "504 Gateway Time-out", "204 No Content"])
def test_a_status_without_an_answer_is_no_decision(make: Make, status: str) -> None:
    def script(connection: socket.socket, request: dict[str, Any]) -> None:
        connection.sendall(http(b"" if status.startswith("204") else b"<html></html>", status=status))

    failure, record = failed(make, script)
    assert failure == ("malformed" if status.startswith("204") else "transport")
    assert record.http_status == int(status[:3])


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])
def test_a_redirect_is_not_followed(make: Make, status: str) -> None:
    visits: list[Any] = []

    def elsewhere(connection: socket.socket, request: dict[str, Any]) -> None:
        visits.append(request)
        connection.sendall(http(allow(request)))

    with door(elsewhere) as other:

        def script(connection: socket.socket, request: dict[str, Any]) -> None:
            connection.sendall(http(b"", status=status, headers=f"Location: {other}\r\n"))

        failure, record = failed(make, script)
    assert (failure, visits) == ("transport", [])
    assert record.http_status == int(status[:3])


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_a_proxy_of_the_environment_is_not_asked(make: Make, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "http://127.0.0.1:1")
    outcome, _ = asked(make, lambda connection, request: connection.sendall(http(allow(request))))
    assert outcome.decided_by == "guardian"


# Broken answers


def test_an_answer_that_breaks_off_is_a_failure_of_the_transport(make: Make) -> None:
    def script(connection: socket.socket, request: dict[str, Any]) -> None:
        connection.sendall(http(allow(request))[:-30])

    assert failed(make, script)[0] == "transport"


def test_an_answer_without_a_length_ends_with_its_connection(make: Make) -> None:
    def script(connection: socket.socket, request: dict[str, Any]) -> None:
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(allow(request)).encode())

    assert asked(make, script)[0].decided_by == "guardian"


def test_an_answer_in_chunks_is_read(make: Make) -> None:
    def script(connection: socket.socket, request: dict[str, Any]) -> None:
        body = json.dumps(allow(request)).encode()
        pieces = [body[start : start + 50] for start in range(0, len(body), 50)]
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in [*pieces, b""]:
            connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))

    assert asked(make, script)[0].decided_by == "guardian"


def test_an_answer_that_comes_before_the_request_is_read_counts(make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hasty() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(http(b"{}", status="413 Payload Too Large"))
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):
                    pass

        thread = threading.Thread(target=hasty)
        thread.start()
        client = make(f"http://127.0.0.1:{server.getsockname()[1]}/acs", agent_id="a" * 500_000)
        assert client.start().failure == "transport"
        thread.join()
    assert client.records[0].http_status == 413


@pytest.mark.parametrize(
    "garbage", [b"", b"\x00\x01\x02", b"HTTP/9.9 what\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000]
)
def test_what_is_no_http_is_a_failure_of_the_transport(make: Make, garbage: bytes) -> None:
    assert failed(make, lambda connection, request: connection.sendall(garbage))[0] == "transport"


def test_a_body_that_is_packed_is_not_unpacked(make: Make) -> None:
    import gzip

    def script(connection: socket.socket, request: dict[str, Any]) -> None:
        connection.sendall(http(gzip.compress(b" " * 50_000_000), headers="Content-Encoding: gzip\r\n"))

    assert failed(make, script)[0] == "malformed"


@pytest.mark.parametrize("length", ["Content-Length: 2000000", "Transfer-Encoding: chunked", "X-No: length"])
def test_a_body_without_an_end_is_cut_at_the_cap(make: Make, length: str) -> None:
    taken = 0

    def script(connection: socket.socket, request: dict[str, Any]) -> None:
        nonlocal taken
        connection.sendall(f"HTTP/1.1 200 OK\r\n{length}\r\n\r\n".encode())
        piece = b" " * 65_536
        if "chunked" in length:
            piece = b"10000\r\n" + piece + b"\r\n"
        while True:
            connection.sendall(piece)
            taken += len(piece)

    assert failed(make, script, timeout_ms=30_000)[0] == "malformed"
    assert taken < 20_000_000


# Time


def trickle(head: bytes) -> Script:
    """One byte at a time, each well within any time that is counted anew."""

    def script(connection: socket.socket, request: dict[str, Any]) -> None:
        connection.sendall(head)
        gone = threading.Event()
        while not gone.wait(0.02):
            connection.sendall(b"x")

    return script


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nX-Slow: ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
    ],
    ids=["status", "headers", "body with a length", "body without one"],
)
def test_a_trickle_does_not_outlive_the_deadline(make: Make, head: bytes) -> None:
    began = time.monotonic()
    failure, record = failed(make, trickle(head), timeout_ms=SHORT_MS)
    assert failure == "timeout"
    assert SHORT_MS / 1000 <= time.monotonic() - began < SHORT_MS / 1000 + 3
    assert record.elapsed_ms is not None
    assert record.elapsed_ms >= SHORT_MS


def test_interim_answers_without_end_do_not_outlive_the_deadline(make: Make) -> None:
    def script(connection: socket.socket, request: dict[str, Any]) -> None:
        gone = threading.Event()
        while not gone.wait(0.01):
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    assert failed(make, script, timeout_ms=SHORT_MS)[0] == "timeout"


def test_a_whole_answer_that_never_ends_is_no_answer(make: Make) -> None:
    def script(connection: socket.socket, request: dict[str, Any]) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps(allow(request)).encode())
        connection.recv(1)

    assert failed(make, script, timeout_ms=SHORT_MS)[0] == "timeout"


def test_a_guardian_that_answers_after_the_deadline_has_not_decided(make: Make) -> None:
    asked_for = threading.Event()
    given_up = threading.Event()

    def script(connection: socket.socket, request: dict[str, Any]) -> None:
        if not asked_for.is_set():
            asked_for.set()
            given_up.wait(30)
        connection.sendall(http(allow(request, decision="deny", reasoning="too late")))

    with door(script, timeout_config={"default_ms": SHORT_MS}) as url:
        client = make(url)
        client.start()
        late = client.step(TOOL)
        given_up.set()
        prompt = client.step(TOOL)
    assert (late.action, late.failure, late.decision) == ("proceed", "timeout", None)
    assert (prompt.decided_by, prompt.decision) == ("guardian", "deny")


def test_silence_blocks_under_the_posture_to_deny(make: Make) -> None:
    def script(connection: socket.socket, request: dict[str, Any]) -> None:
        connection.recv(1)

    outcome, client = asked(make, script, timeout_ms=SHORT_MS, posture="deny")
    assert (outcome.action, client.records[0].applied) == ("block", "deny")


# Replays over the wire


def test_a_captured_allow_does_not_permit_another_step(make: Make) -> None:
    captured: list[bytes] = []

    def script(connection: socket.socket, request: dict[str, Any]) -> None:
        captured.append(http(allow(request)))
        connection.sendall(captured[0])

    with door(script) as url:
        client = make(url)
        client.start()
        first, second = client.step(TOOL), client.step(TOOL)
    assert (first.decided_by, first.action) == ("guardian", "proceed")
    assert (second.decided_by, second.action, second.failure) == ("fail_closed", "block", "binding")


# Records


def test_a_record_that_cannot_be_kept_stops_the_step() -> None:
    def full(record: AuditRecord) -> None:
        raise OSError("no space")

    client = GuardianClient(
        "http://127.0.0.1:1/acs",
        settings=Settings(agent_id="a", methods=METHODS),
        secret=SECRET,
        audit=full,
    )
    with pytest.raises(OSError, match="no space"):
        client.start()
    with pytest.raises(OSError, match="no space"):
        client.step(TOOL, PAYLOAD)


def test_the_secret_is_in_no_text_that_a_client_shows(make: Make) -> None:
    client = make("http://127.0.0.1:1/acs")
    client.start()
    assert SECRET.decode() not in repr(client.__dict__) + repr(client.records)


def test_an_address_that_is_none_is_refused(make: Make) -> None:
    with pytest.raises(InvalidInput):
        make("file:///acs")


# At the same time


def test_many_steps_at_once_get_each_its_own_answer() -> None:
    together = threading.Barrier(8, timeout=30)

    def script(connection: socket.socket, request: dict[str, Any]) -> None:
        # Nobody is answered before everybody has asked.
        together.wait()
        tool = request["params"]["payload"]["tool"]["name"]
        connection.sendall(http(allow(request, decision="deny", reasoning=tool)))

    async def ask(url: str) -> list[Outcome]:
        settings = Settings(agent_id="a", methods=METHODS)
        async with AsyncGuardianClient(url, settings=settings, secret=SECRET, audit=lambda record: None) as client:
            await client.start()
            steps = (client.step(TOOL, {"tool": {"name": str(number)}, "arguments": {}}) for number in range(8))
            return await asyncio.gather(*steps)

    with door(script, timeout_config={"default_ms": 30_000}) as url:
        outcomes = asyncio.run(ask(url))
    assert [outcome.reasoning for outcome in outcomes] == [str(number) for number in range(8)]


def test_sequential_steps_of_many_tasks_keep_to_one_chain(tmp_path: Path) -> None:
    async def ask(url: str) -> list[Outcome]:
        settings = Settings(agent_id="a", methods=METHODS, sequential=True)
        async with AsyncGuardianClient(url, settings=settings, secret=SECRET, audit=lambda record: None) as client:
            await client.start()
            return await asyncio.gather(*(client.step(TOOL, PAYLOAD) for _ in range(20)))

    with process(tmp_path / "acs.db") as url:
        outcomes = asyncio.run(ask(url))
    assert [outcome.decision for outcome in outcomes] == ["allow"] * 20
    assert len({outcome.chain_hash for outcome in outcomes}) == 20


def test_sequential_steps_of_many_threads_keep_to_one_chain(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with process(tmp_path / "acs.db") as url:
        settings = Settings(agent_id="a", methods=METHODS, sequential=True)
        with GuardianClient(url, settings=settings, secret=SECRET, audit=lambda record: None) as client:
            client.start()
            with ThreadPoolExecutor(8) as pool:
                outcomes = list(pool.map(lambda _: client.step(TOOL, PAYLOAD), range(20)))
    assert [outcome.decision for outcome in outcomes] == ["allow"] * 20


def test_a_step_that_is_cancelled_has_no_outcome_and_leaves_the_next_one_whole() -> None:
    waiting = threading.Event()
    seen: list[Any] = []

    def script(connection: socket.socket, request: dict[str, Any]) -> None:
        seen.append(request["params"]["metadata"].get("session_state"))
        if len(seen) == 2:
            waiting.set()
            connection.recv(1)
        else:
            connection.sendall(http(allow(request, chain_hash="ab" * 32)))

    async def ask(url: str) -> Outcome:
        settings = Settings(agent_id="a", methods=METHODS, sequential=True)
        async with AsyncGuardianClient(url, settings=settings, secret=SECRET, audit=lambda record: None) as client:
            await client.start()
            await client.step(TOOL, PAYLOAD)
            cancelled = asyncio.ensure_future(client.step(TOOL, PAYLOAD))
            await asyncio.to_thread(waiting.wait, 30)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            return await client.step(TOOL, PAYLOAD)

    with door(script) as url:
        assert asyncio.run(ask(url)).decided_by == "guardian"
    assert seen == [None, {"chain_hash": "ab" * 32}, None]


# TLS


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 that signs itself."""
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "guardian")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(os.urandom(8)))
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, secret = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return chain, secret


def test_a_certificate_that_is_trusted_is_asked_and_another_is_not(make: Make, tmp_path: Path) -> None:
    chain, secret = certificate(tmp_path)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(chain, secret)
    with door(lambda connection, request: connection.sendall(http(allow(request))), tls=serving) as url:
        client = make(url, tls=ssl.create_default_context(cafile=str(chain)))
        assert client.start().state == "guarded"
        assert client.step(TOOL).decided_by == "guardian"
        stranger = make(url)
        assert (stranger.start().failure, stranger.records[0].failure) == ("transport", "transport")
