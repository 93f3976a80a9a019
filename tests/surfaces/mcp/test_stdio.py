"""The stdio server as a process of its own, driven by the SDK's client and by hand."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

from awr.project import Project
from awr.surfaces.mcp.catalogue import DOMAINS, TOOLS
from awr.surfaces.mcp.main import run
from tests.support.cli import tree
from tests.support.projects import make_project, revision
from tests.support.service import eventually
from tests.support.tools import event_types

PROGRAM = [sys.executable, "-m", "awr.surfaces.mcp.main"]
MODERN = "2026-07-28"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project")


def parameters(root: Path, **environment: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=PROGRAM[0], args=[*PROGRAM[1:], "--project", str(root)], env={**os.environ, **environment}
    )


class Server:
    """A server process that is spoken to line by line. Every line it writes has to be a message."""

    def __init__(self, root: Path) -> None:
        self.process = subprocess.Popen(
            [*PROGRAM, "--project", str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in: IO[bytes] = self.process.stdin
        self._out: IO[bytes] = self.process.stdout

    def send(self, line: bytes) -> None:
        self._in.write(line + b"\n")
        self._in.flush()

    def request(self, number: int, method: str, params: dict[str, Any] | None = None) -> None:
        body = {"jsonrpc": "2.0", "id": number, "method": method}
        self.send(json.dumps({**body, "params": params} if params is not None else body).encode())

    def answer(self) -> dict[str, Any]:
        line = self._out.readline()
        assert line, "the server left"
        found: dict[str, Any] = json.loads(line)
        assert found["jsonrpc"] == "2.0"
        return found

    def begin(self, protocol: str = "2025-11-25") -> dict[str, Any]:
        client = {"protocolVersion": protocol, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        self.request(0, "initialize", client)
        answer: dict[str, Any] = self.answer()["result"]
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return answer

    def end(self) -> tuple[int, bytes]:
        self._in.close()
        rest = self._out.read()
        assert self.process.stderr is not None
        errors = self.process.stderr.read()
        code = self.process.wait(60)
        assert b"Traceback" not in errors, errors
        return code, rest

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        self.process.wait()


@pytest.fixture
def server(project: Project) -> Iterator[Server]:
    found = Server(project.root)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("mode", "spoken"), [("legacy", "2025-11-25"), (MODERN, MODERN)], ids=["handshake", "sessionless"]
)
def test_the_sdks_client_lists_calls_fails_and_recovers_in_both_eras(
    project: Project, mode: Any, spoken: str
) -> None:
    async def main() -> None:
        async with Client(stdio_client(parameters(project.root)), mode=mode) as client:
            assert client.session.protocol_version == spoken
            listed = (await client.list_tools()).tools
            assert [tool.name for tool in listed] == list(DOMAINS)
            manifest = (await client.call_tool("awr_query", {})).structured_content
            assert manifest is not None
            assert manifest["child_total"] == len(manifest["children"])
            note = {"event_type": "note.added", "summary": "A note", "expected_revision": 2, "request_id": "r"}
            first = await client.call_tool("awr_evidence", {"child_tool": "awr_event_append", "arguments": note})
            again = await client.call_tool("awr_event_append", note)
            assert (first.is_error, again.is_error) == (False, False)
            stale = await client.call_tool("awr_event_append", {**note, "request_id": "other"})
            assert stale.is_error
            assert stale.structured_content is not None
            assert stale.structured_content["code"] == "RevisionConflict"
            found = await client.call_tool("awr_operation_recover", {"request_id": "r", "expected_revision": 5})
            assert found.structured_content is not None
            assert found.structured_content["operation"]["replayed"] is True
            with pytest.raises(MCPError) as refused:
                await client.call_tool("awr_no_such", {})
            assert (refused.value.error.code, refused.value.error.message) == (-32601, "unknown AWR tool")

    anyio.run(main)
    assert event_types(project).count("note.added") == 1


def test_flat_exposure_lists_every_tool_and_still_answers_to_the_groups(project: Project) -> None:
    async def main() -> None:
        transport = stdio_client(parameters(project.root, AWR_MCP_TOOL_EXPOSURE_MODE="flat"))
        async with Client(transport, mode="legacy") as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(listed) == set(TOOLS)
            for name, tool in listed.items():
                hints = tool.annotations
                assert hints is not None
                read_only = TOOLS[name].read_only
                assert (hints.read_only_hint, hints.idempotent_hint, hints.open_world_hint) == (
                    read_only,
                    read_only,
                    False,
                )
                assert hints.destructive_hint == TOOLS[name].destructive
            assert not (await client.call_tool("awr_compaction", {})).is_error

    anyio.run(main)


def test_the_groups_are_small_enough_to_stand_in_every_request(server: Server) -> None:
    server.begin()
    server.request(1, "tools/list")
    tools = server.answer()["result"]["tools"]
    assert len(tools) == 8
    assert len(json.dumps(tools).encode()) < 8192
    for tool in tools:
        assert set(tool["annotations"].values()) == {False}


@pytest.mark.parametrize("spoken", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_each_handshake_version_is_spoken_back(server: Server, spoken: str) -> None:
    answer = server.begin(spoken)
    assert answer["protocolVersion"] == spoken
    assert answer["serverInfo"] == {"name": "awr-mcp", "version": version("awr")}
    assert answer["capabilities"] == {"tools": {"listChanged": False}}
    assert "awr_project_status" in answer["instructions"]


def test_there_is_one_page_of_tools(server: Server) -> None:
    server.begin()
    server.request(1, "tools/list", {"cursor": "x"})
    assert server.answer()["error"]["code"] == -32602


@pytest.mark.parametrize(
    "arguments",
    [
        {"child_tool": "awr_work_ready"},
        {"arguments": {}},
        {"manifest_version": "1"},
        {"child_tool": "awr_session_start", "arguments": {}},
        {"child_tool": "nothing", "arguments": {}},
        {"child_tool": 5, "arguments": {}},
        {"other": 1},
    ],
)
def test_a_call_of_a_group_that_makes_no_sense_is_invalid(server: Server, arguments: dict[str, Any]) -> None:
    server.begin()
    server.request(1, "tools/call", {"name": "awr_query", "arguments": arguments})
    assert server.answer()["error"]["code"] == -32602


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[]",
        b"{}",
        b'"text"',
        b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":{},"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_malformed_message_leaves_the_server_answering(server: Server, line: bytes) -> None:
    server.begin()
    server.send(line)
    server.request(7, "tools/list")
    eventually(lambda: server.answer().get("id") == 7)
    assert server.end()[0] == 0


def test_a_clean_end_of_input_is_a_clean_end(server: Server) -> None:
    server.begin()
    assert server.end() == (0, b"")


def test_a_write_that_is_under_way_when_the_client_leaves_is_carried_out(project: Project, server: Server) -> None:
    server.begin()
    holder = sqlite3.connect(project.journal.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    note = {"event_type": "note.added", "summary": "A note", "expected_revision": 2, "request_id": "r"}
    server.request(1, "tools/call", {"name": "awr_event_append", "arguments": note})
    server.request(2, "tools/call", {"name": "awr_work_ready", "arguments": {}})
    assert server.answer()["id"] == 2, "a read does not wait for a writer"
    server._in.close()
    holder.execute("ROLLBACK")
    holder.close()
    assert server.process.wait(60) == 0
    assert event_types(project)[-3:] == ["mcp.operation_started", "note.added", "mcp.operation_finished"]


def test_more_calls_than_the_bound_are_refused_at_once_and_the_rest_are_carried_out(
    project: Project, server: Server
) -> None:
    server.begin()
    holder = sqlite3.connect(project.journal.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    for number in range(1, 66):
        note = {"event_type": "note.added", "summary": "A note", "expected_revision": 2, "request_id": f"r{number}"}
        server.request(number, "tools/call", {"name": "awr_event_append", "arguments": note})
    refused = server.answer()
    assert refused["error"]["code"] == -32603
    assert "receipt" in refused["error"]["message"]
    holder.execute("ROLLBACK")
    holder.close()
    answers = [server.answer() for _ in range(64)]
    assert {one["id"] for one in answers} | {refused["id"]} == set(range(1, 66))
    assert sum(not one["result"]["isError"] for one in answers) == 1
    assert event_types(project).count("note.added") == 1


def test_killed_between_act_and_finish_the_outcome_is_unknown_and_then_recovered(project: Project) -> None:
    path = project.journal.path
    with sqlite3.connect(path) as connection:
        # Holds the writer between what it did and the record of it, for as long as the test likes.
        connection.execute(
            "CREATE TRIGGER wait_here BEFORE INSERT ON events WHEN NEW.event_type = 'mcp.operation_finished' "
            "BEGIN SELECT count(*) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
            "WHERE i < 4000000000) SELECT i FROM n); END"
        )
    connection.close()
    note = {"event_type": "note.added", "summary": "A note", "expected_revision": 2, "request_id": "r"}
    first = Server(project.root)
    try:
        first.begin()
        first.request(1, "tools/call", {"name": "awr_event_append", "arguments": note})
        eventually(lambda: "note.added" in event_types(project))
        first.process.send_signal(signal.SIGKILL)
        assert first.process.wait(60) == -signal.SIGKILL
    finally:
        first.close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER wait_here")
    connection.close()
    second = Server(project.root)
    try:
        second.begin()
        second.request(1, "tools/call", {"name": "awr_event_append", "arguments": note})
        again = second.answer()["result"]
        assert (again["isError"], again["structuredContent"]["write_outcome"]) == (True, "unknown")
        recover = {"request_id": "r", "expected_revision": revision(project)}
        second.request(2, "tools/call", {"name": "awr_operation_recover", "arguments": recover})
        assert second.answer()["result"]["structuredContent"]["write_outcome"] == "committed"
    finally:
        second.close()
    assert event_types(project).count("note.added") == 1


def test_another_project_in_the_folder_of_a_running_server_is_refused_until_the_first_is_back(
    project: Project, server: Server, tmp_path: Path
) -> None:
    def code() -> str | None:
        server.request(1, "tools/call", {"name": "awr_project_status", "arguments": {"view": "summary"}})
        body = server.answer()["result"]["structuredContent"]
        found: str | None = body.get("code")
        return found

    server.begin()
    assert code() is None
    other = make_project(tmp_path / "other")
    project.root.rename(tmp_path / "away")
    other.root.rename(project.root)
    assert code() == "RuleViolation"
    project.root.rename(other.root)
    (tmp_path / "away").rename(project.root)
    assert code() is None


def test_starting_and_listing_leaves_an_uninitialized_folder_empty(tmp_path: Path) -> None:
    server = Server(tmp_path)
    try:
        server.begin()
        server.request(1, "tools/call", {"name": "awr_project_status", "arguments": {}})
        body = server.answer()["result"]["structuredContent"]
        assert body["organization"]["state"] == "not_initialized"
        assert server.end()[0] == 0
    finally:
        server.close()
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("place", ["missing", "file"])
def test_a_folder_that_cannot_be_served_is_one_report_and_exit_code_1(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    command = [*PROGRAM, "--project", str(tmp_path / place)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, b"")
    report = json.loads(done.stderr)
    assert report["code"] in {"NotFound", "InvalidInput"}
    assert str(tmp_path) not in done.stderr.decode()


@pytest.mark.parametrize(
    "arguments", [["--what"], ["--project"], ["--project", ".", "--registry", "x"], ["--listen", "127.0.0.1:0"]]
)
def test_a_wrong_call_is_exit_code_2_with_nothing_on_standard_output(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().out == ""


def test_the_program_says_its_version_and_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert (run(["--version"]), capsys.readouterr().out) == (0, f"awr-mcp {version('awr')}\n")
    assert run(["--help"]) == 0
    assert "--registry" in capsys.readouterr().out
