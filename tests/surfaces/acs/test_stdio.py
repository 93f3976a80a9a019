"""The Guardian on standard input and output, as a process: frames in, frames out, and how it ends."""

from __future__ import annotations

import array
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from awr.guardian.hooks import HOOKS
from awr.guardian.reading import MAX_BODY_BYTES
from awr.surfaces.acs.frames import MAX_SKIPPED_BYTES, framed
from tests.support.acs import PAYLOADS, Agent
from tests.support.doors import chained, locked, secret_file
from tests.support.service import eventually

TOOL = "steps/toolCallRequest"


class Spoken:
    """One process that is spoken to."""

    def __init__(self, folder: Path, *more: str) -> None:
        self.database = folder / "acs.db"
        self.err = folder / f"{time.monotonic_ns()}.err"
        words = ["--secret-file", str(secret_file(folder)), "--database", str(self.database), *more]
        with self.err.open("wb") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "awr", "guardian", "stdio", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                env={**os.environ, "PYTHONWARNINGS": "error"},
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input = self.process.stdin
        self.output = self.process.stdout

    def say(self, data: bytes) -> None:
        """Send bytes."""
        self.input.write(data)
        self.input.flush()

    def heard(self) -> bytes:
        """Return the content of the next frame."""
        line = self.output.readline()
        assert line.startswith(b"Content-Length: "), line
        assert self.output.readline() == b"\r\n"
        return self.output.read(int(line.split()[1]))

    def send(self, body: bytes) -> bytes:
        """Send one content and return the answer, for an agent."""
        self.say(framed(body))
        return self.heard()

    def log(self) -> list[dict[str, Any]]:
        """Return the lines on standard error."""
        return [json.loads(line) for line in self.err.read_text().splitlines()]

    def ended(self) -> int:
        """End the input and return the exit code; nothing more may have been said."""
        self.input.close()
        assert self.output.read() == b""
        return self.process.wait(30)


@contextmanager
def speaking(folder: Path, *more: str) -> Iterator[Spoken]:
    """Run `awr guardian stdio` until the block ends."""
    found = Spoken(folder, *more)
    try:
        yield found
    finally:
        if found.process.poll() is None:
            found.process.kill()
        found.process.wait(30)
        found.output.close()
        with suppress(BrokenPipeError):
            found.input.close()
    assert "Traceback" not in found.err.read_text()


def stdio_agent(spoken: Spoken) -> Agent:
    agent = Agent(spoken.send)
    assert agent.begin(transports_supported=["http", "stdio"])["result"]["selected_transport"] == "stdio"
    return agent


def code(answer: Any) -> tuple[int, str]:
    return answer["error"]["code"], answer["error"]["data"]["reason"]


def test_all_hooks_are_answered_in_frames_and_the_end_of_the_input_ends_it_with_0(tmp_path: Path) -> None:
    with speaking(tmp_path) as spoken:
        agent = stdio_agent(spoken)
        heads = [agent.step(method)["result"]["chain_hash"] for method in HOOKS]
        assert spoken.ended() == 0
        # The example of a finished fold stands for no step of the session, and that is said.
        [line] = spoken.log()
        assert (line["method"], line["outcome"], line["reasons"]) == (
            "steps/postCompact",
            "allow",
            ["lineage_mismatch"],
        )
    assert list(chained(spoken.database, agent.session_id).values()) == heads


def test_a_client_that_offers_http_alone_has_come_to_the_wrong_door(tmp_path: Path) -> None:
    with speaking(tmp_path) as spoken:
        assert code(Agent(spoken.send).begin(transports_supported=["http"])) == (-32000, "no_common_transport")
        assert spoken.ended() == 0
        [line] = spoken.log()
        assert (line["method"], line["outcome"]) == ("handshake/hello", "-32000")


def test_what_is_no_request_is_refused_and_the_next_frame_is_answered(tmp_path: Path) -> None:
    with speaking(tmp_path) as spoken:
        agent = stdio_agent(spoken)
        for body, expected in (
            (b"", (-32700, "invalid_json")),
            (b"\xff", (-32700, "invalid_json")),
            (b"[" * 100_000, (-32700, "too_deep")),
            (b"[]", (-32600, "invalid_envelope")),
            (b'{"a":1e400}', (-32600, "not_canonicalizable")),
            (b"x" * MAX_BODY_BYTES, (-32700, "invalid_json")),
            (b"x" * (MAX_BODY_BYTES + 1), (-32600, "payload_too_large")),
        ):
            assert code(json.loads(spoken.send(body))) == expected
        assert agent.step(TOOL)["result"]["decision"] == "allow"
        assert spoken.ended() == 0


def test_requests_that_are_sent_ahead_are_answered_in_order(tmp_path: Path) -> None:
    with speaking(tmp_path) as spoken:
        agent = stdio_agent(spoken)
        steps = [agent.request(TOOL, PAYLOADS[TOOL]) for _ in range(20)]
        spoken.say(b"".join(framed(json.dumps(step).encode()) for step in steps))
        assert [json.loads(spoken.heard())["id"] for _ in steps] == [step["id"] for step in steps]
        assert spoken.ended() == 0


@pytest.mark.parametrize(
    "broken",
    [
        b"Content-Length: x\r\n\r\n",
        b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        b'{"jsonrpc":"2.0"}\n' * 400,
        b"Content-Length: %d\r\n\r\n" % (MAX_SKIPPED_BYTES + 1),
    ],
)
def test_a_broken_frame_ends_it_with_1_and_one_line_after_what_came_before_is_answered(
    tmp_path: Path, broken: bytes
) -> None:
    with speaking(tmp_path) as spoken:
        agent = stdio_agent(spoken)
        spoken.say(framed(json.dumps(agent.request(TOOL, PAYLOADS[TOOL])).encode()) + broken)
        assert json.loads(spoken.heard())["result"]["decision"] == "allow"
        assert spoken.output.read() == b""
        assert spoken.process.wait(30) == 1
        [line] = spoken.log()
        assert line["code"] == "InvalidInput"
        assert "jsonrpc" not in str(line)


def test_an_input_that_ends_inside_a_frame_is_an_error(tmp_path: Path) -> None:
    with speaking(tmp_path) as spoken:
        spoken.say(b"Content-Length: 10\r\n\r\n{}")
        assert spoken.ended() == 1
        [line] = spoken.log()
        assert line["details"]["got"] == "the input ends inside a frame"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_has_come_be_answered_and_ends_it_with_0(tmp_path: Path, number: int) -> None:
    with speaking(tmp_path) as spoken:
        agent = stdio_agent(spoken)
        steps = [json.dumps(agent.request(TOOL, PAYLOADS[TOOL])).encode() for _ in range(3)]
        with locked(spoken.database) as writer:
            spoken.say(b"".join(map(framed, steps)))
            eventually(lambda: _unread(spoken) == 0)
            spoken.process.send_signal(number)
            writer.rollback()
        assert [json.loads(spoken.heard())["result"]["decision"] for _ in steps] == ["allow"] * 3
        assert spoken.output.read() == b""
        assert spoken.process.wait(30) == 0
        assert spoken.log() == []


def _unread(spoken: Spoken) -> int:
    """Return how many bytes still stand in the pipe to the process."""
    number = array.array("i", [0])
    fcntl.ioctl(spoken.input, termios.FIONREAD, number)
    return number[0]


def test_a_signal_ends_it_while_it_waits(tmp_path: Path) -> None:
    with speaking(tmp_path) as spoken:
        stdio_agent(spoken)
        spoken.process.send_signal(signal.SIGTERM)
        assert spoken.process.wait(30) == 0


def test_a_client_that_no_longer_reads_ends_it_without_a_traceback(tmp_path: Path) -> None:
    with speaking(tmp_path) as spoken:
        spoken.output.close()
        spoken.say(framed(b"{}"))
        assert spoken.process.wait(30) == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_closed_stream_is_said_before_anything_is_opened(tmp_path: Path, closed: str) -> None:
    words = f"--secret-file {secret_file(tmp_path)} --database {tmp_path / 'acs.db'}"
    command = f"exec {sys.executable} -m awr --json guardian stdio {words} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert json.loads(done.stderr)["code"] == "InvalidInput"
    assert not (tmp_path / "acs.db").exists()


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spoken]:
    with speaking(tmp_path_factory.mktemp("stdio")) as spoken:
        yield spoken


JSON = st.recursive(
    st.none() | st.booleans() | st.text(max_size=20) | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.binary(max_size=400) | JSON.map(json.dumps).map(str.encode))
def test_any_content_is_answered_by_one_frame(living: Spoken, body: bytes) -> None:
    answer = json.loads(living.send(body))
    for one in answer if isinstance(answer, list) else [answer]:
        assert one["error"]["code"] in {-32700, -32600}
    assert living.process.poll() is None
