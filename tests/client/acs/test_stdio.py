"""A Guardian as a child process, and children that are none."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from awr.client import GuardianClient
from awr.client.acs.audit import AuditRecord
from awr.client.acs.settings import Settings
from tests.support.guardians import METHODS, ROOT, SECRET

TOOL = "steps/toolCallRequest"
PAYLOAD = {"tool": {"name": "Allowed"}, "arguments": {}}
SHORT_MS = 400

#: A child that takes every handshake and then does what the rest of its program says with each request.
CHILD = """
import json, sys, time
from tests.support.guardians import allow, hello

def read():
    header = sys.stdin.buffer.readline()
    if not header:
        sys.exit()
    sys.stdin.buffer.readline()
    return json.loads(sys.stdin.buffer.read(int(header.split(b":")[1])))

def write(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()

def frame(message):
    body = json.dumps(message, ensure_ascii=False).encode()
    return b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body

write(frame(hello(read(), timeout_config={"default_ms": TIMEOUT})))
"""


@contextmanager
def client(
    command: list[str], *, records: list[AuditRecord] | None = None, handshake_timeout_ms: int = 30_000
) -> Iterator[GuardianClient]:
    kept: list[AuditRecord] = [] if records is None else records
    settings = Settings(agent_id="a", methods=METHODS, handshake_timeout_ms=handshake_timeout_ms)
    with GuardianClient(command, settings=settings, secret=SECRET, audit=kept.append) as made:
        yield made


def child(program: str, *, timeout_ms: int = 30_000) -> list[str]:
    return [sys.executable, "-c", CHILD.replace("TIMEOUT", str(timeout_ms)) + program]


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_a_real_guardian_is_asked_over_its_standard_input(tmp_path: Path) -> None:
    records: list[AuditRecord] = []
    with client(
        [sys.executable, "-m", "tests.support.guardians", "stdio", str(tmp_path / "acs.db")], records=records
    ) as made:
        assert made.start().state == "guarded"
        assert made.ping()
        assert made.step(TOOL, PAYLOAD).action == "proceed"
        assert made.step(TOOL, {"tool": {"name": "Forbidden"}, "arguments": {}}).reason_codes == ("tool_forbidden",)
        assert made.step("steps/userMessage", {"content": [{"type": "text", "value": "ü" * 200_000}]}).proceeds
    assert records == []


def test_a_late_answer_is_not_taken_for_the_next_steps() -> None:
    program = """
first = read()
second = read()
write(frame(allow(first, decision="deny", reasoning="late")))
write(frame(allow(second, reasoning="prompt")))
read()
"""
    with client(child(program, timeout_ms=SHORT_MS)) as made:
        made.start()
        assert made.step(TOOL, PAYLOAD).failure == "timeout"
        outcome = made.step(TOOL, PAYLOAD)
    assert (outcome.decided_by, outcome.reasoning) == ("guardian", "prompt")


def test_an_answer_in_pieces_is_put_together() -> None:
    program = """
whole = frame(allow(read()))
for place in range(0, len(whole), 7):
    write(whole[place:place + 7])
read()
"""
    with client(child(program)) as made:
        made.start()
        assert made.step(TOOL, PAYLOAD).decided_by == "guardian"


def test_further_headers_and_other_cases_are_understood() -> None:
    program = """
body = json.dumps(allow(read())).encode()
write(b"Content-Type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body) + body)
read()
"""
    with client(child(program)) as made:
        made.start()
        assert made.step(TOOL, PAYLOAD).decided_by == "guardian"


@pytest.mark.parametrize(
    "program",
    [
        'read(); write(b"no frame at all\\n" * 1000); read()',
        'read(); write(b"Content-Length: 2000000\\r\\n\\r\\n" + b" " * 2000000); read()',
        'read(); write(b"Content-Length: -1\\r\\n\\r\\n"); read()',
        'read(); write(b"Content-Length: 2\\r\\nContent-Length: 3\\r\\n\\r\\n{}"); read()',
        "read()",
        "sys.exit(3)",
        'read(); write(b"Content-Length: 10\\r\\n\\r\\n{}"); sys.exit()',
    ],
    ids=["no frame", "long", "negative", "two lengths", "end", "early end", "cut"],
)
def test_a_child_that_breaks_the_framing_or_ends_is_a_failure_of_the_transport_from_then_on(program: str) -> None:
    records: list[AuditRecord] = []
    with client(child(program), records=records) as made:
        made.start()
        assert [made.step(TOOL, PAYLOAD).failure for _ in range(2)] == ["transport", "transport"]
    assert [record.event for record in records] == ["decision_failure"] * 2


def test_a_frame_that_is_no_answer_is_malformed() -> None:
    with client(child('read(); write(b"Content-Length: 4\\r\\n\\r\\nnull"); read()')) as made:
        made.start()
        assert made.step(TOOL, PAYLOAD).failure == "malformed"


def test_a_trickle_does_not_outlive_the_deadline() -> None:
    program = 'read()\nwrite(b"Content-Length: 90000\\r\\n\\r\\n")\nwhile True:\n  write(b"x")\n  time.sleep(0.02)'
    with client(child(program, timeout_ms=SHORT_MS)) as made:
        made.start()
        began = time.monotonic()
        assert made.step(TOOL, PAYLOAD).failure == "timeout"
        assert time.monotonic() - began < SHORT_MS / 1000 + 3


def test_a_child_that_does_not_read_is_waited_for_until_the_deadline() -> None:
    long = {"content": [{"type": "text", "value": "x" * 900_000}]}
    with client(child("time.sleep(3600)", timeout_ms=SHORT_MS)) as made:
        made.start()
        assert made.step("steps/userMessage", long).failure == "timeout"
        assert made.step(TOOL, PAYLOAD).failure == "transport"
        made._transport._process.kill()  # type: ignore[union-attr]


def test_a_command_that_is_not_there_leaves_the_session_unguarded() -> None:
    records: list[AuditRecord] = []
    with client(["/absent/awr", "guardian", "stdio"], records=records) as made:
        assert made.start().state == "unguarded"
    assert [(record.event, record.failure) for record in records] == [
        ("handshake_failed", "transport"),
        ("session_unguarded", None),
    ]


def test_a_child_that_stays_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("awr.client.acs.stdio_transport.CLOSING_SECONDS", 0.2)
    program = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); write(frame(allow(read())))\ntime.sleep(3600)"
    )
    with client(child(program)) as made:
        made.start()
        made.step(TOOL, PAYLOAD)
        running = made._transport._process  # type: ignore[union-attr]
    assert running is not None
    assert running.returncode == -9
