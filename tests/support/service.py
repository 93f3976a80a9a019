"""The shared service as a process of its own, and agents that speak to it over HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec

from awr.journal.journal import Reader
from awr.project import Project

__all__ = [
    "HEADERS",
    "MODERN",
    "Agent",
    "Reply",
    "Running",
    "eventually",
    "identity",
    "listening",
    "modern_headers",
    "modern_params",
    "registry_text",
    "serving",
    "token_of",
]

Found = TypeVar("Found")

DEADLINE = 30.0
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
MODERN = "2026-07-28"


def eventually(look: Callable[[], Found | None], *, seconds: float = DEADLINE) -> Found:
    """Look until something is found. Raise AssertionError when it is not found in time."""
    until = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < until, "it did not come true in time"
        time.sleep(0.01)


def token_of(client: str) -> str:
    """Return a client's token: long enough, and different for each."""
    return f"{client}-" + "t0ken" * 8


def identity(project: Project) -> str:
    """Return a project's id."""
    with project.journal.read() as reader:
        return reader.project_id


def registry_text(
    projects: Mapping[str, Project], clients: Mapping[str, Mapping[str, list[str]]], *, head: str = ""
) -> str:
    """Return a registry that names these projects, and clients with their grants."""
    lines = ["version = 1", head]
    for key, project in projects.items():
        lines += ["[[projects]]", f'key = "{key}"', f'root = "{project.root}"', f'project_id = "{identity(project)}"']
    for client, grants in clients.items():
        lines += ["[[clients]]", f'id = "{client}"', f'token_env = "TOKEN_{client}"']
        lines += [f"{name} = {json.dumps(keys)}" for name, keys in grants.items()]
    return "\n".join(lines) + "\n"


class Running:
    """One service process. Its standard error is a file that the test may read."""

    def __init__(self, process: subprocess.Popen[bytes], err: Path) -> None:
        self.process = process
        self._err = err
        self.url = ""

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        found = urlsplit(self.url)
        assert found.hostname is not None
        assert found.port is not None
        return found.hostname, found.port

    def at(self, path: str) -> str:
        """Return the URL of another path."""
        return self.url.rpartition("/")[0] + path

    def errors(self) -> str:
        """Return what it wrote to standard error."""
        return self._err.read_text()

    def log(self) -> list[dict[str, Any]]:
        """Return its log lines; the first line of standard error is none."""
        return [json.loads(line) for line in self.errors().splitlines()[1:]]

    def logged(self, **fields: object) -> dict[str, Any]:
        """Wait for a log line that has these fields and return it."""
        return eventually(
            lambda: next((one for one in self.log() if all(one.get(k) == v for k, v in fields.items())), None)
        )

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(DEADLINE)


@contextmanager
def serving(
    registry: Path,
    *,
    clients: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
    script: str | None = None,
) -> Iterator[Running]:
    """Run the service until the block ends; it has to be listening before the block begins.

    `script` is run instead of the program itself; it has to start the same service.
    """
    program = ["-c", script] if script is not None else ["-m", "awr.surfaces.mcp.main"]
    tokens = {f"TOKEN_{client}": token_of(client) for client in clients}
    command = [sys.executable, *program, "--registry", str(registry), "--listen", "127.0.0.1:0"]
    variables = {**tokens, **(environment or {})}
    with listening(command, registry.parent, says="AWR MCP", environment=variables) as running:
        yield running


@contextmanager
def listening(
    command: Sequence[str], folder: Path, *, says: str, environment: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Run a program that says where it listens, until the block ends. `says` are the words before "listening at"."""
    err = folder / f"{time.monotonic_ns()}.err"
    home = folder / "home"
    home.mkdir(exist_ok=True)
    with err.open("wb") as stream:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stream,
            env={**os.environ, "HOME": str(home), "PYTHONWARNINGS": "error", **(environment or {})},
        )
    running = Running(process, err)
    try:
        line = eventually(lambda: _first_line(running))
        assert line.startswith(f"{says} listening at http://"), running.errors()
        running.url = line.split()[-1]
        yield running
    finally:
        if process.poll() is None:
            process.kill()
        out, _ = process.communicate()
    assert out == b"", "standard output is not used"
    assert "Traceback" not in running.errors(), running.errors()


def _first_line(running: Running) -> str | None:
    text = running.errors()
    assert running.process.poll() is None, text
    return text.partition("\n")[0] if "\n" in text else None


class Reply(msgspec.Struct, frozen=True):
    """One HTTP answer."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        """Return the body."""
        return json.loads(self.content)

    def result(self) -> dict[str, Any]:
        """Return the body of a tool's answer, which is the same as data and as text."""
        assert self.status == 200, self
        result: dict[str, Any] = self.json()["result"]
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        body: dict[str, Any] = result["structuredContent"]
        return body

    def value(self) -> dict[str, Any]:
        """Return the body of an answer that is no error."""
        body = self.result()
        assert self.json()["result"]["isError"] is False, body
        return body

    def error(self, code: str) -> dict[str, Any]:
        """Return the report of a tool's refusal."""
        body = self.result()
        assert self.json()["result"]["isError"] is True, body
        report: dict[str, Any] = body.get("error", body)
        assert report["code"] == code, report
        return report

    def rpc_error(self) -> dict[str, Any]:
        """Return JSON-RPC's own error."""
        found: dict[str, Any] = self.json()["error"]
        return found


class Agent:
    """One client of the service, in the era without a version header unless the test asks for another."""

    def __init__(self, running: Running, client: str, *, token: str | None = None, timeout: float = DEADLINE) -> None:
        self._running = running
        self.client = client
        self._token = token_of(client) if token is None else token
        self._http = httpx2.Client(timeout=timeout, trust_env=False, verify=False)

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    @property
    def authorization(self) -> dict[str, str]:
        """The header that says who this is."""
        return {"Authorization": f"Bearer {self._token}"}

    def send(
        self,
        content: bytes,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        path: str = "/mcp",
    ) -> Reply:
        """Send any body. A header that is given as empty is left out."""
        sent = {**HEADERS, **self.authorization, **(headers or {})}
        shown = {name: value for name, value in sent.items() if value}
        request = self._http.build_request(method, self._running.at(path), content=content, headers=shown)
        for name in [name for name, value in sent.items() if not value]:
            request.headers.pop(name, None)
        answer = self._http.send(request)
        return Reply(answer.status_code, dict(answer.headers), answer.content)

    def get(self, path: str, **headers: str) -> Reply:
        """Ask for a path."""
        return self.send(b"", method="GET", path=path, headers={"Accept": "*/*", "Content-Type": "", **headers})

    def rpc(self, method: str, params: Mapping[str, Any] | None = None, *, headers: Any = None) -> Reply:
        """Send one JSON-RPC request."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, **({"params": params} if params is not None else {})}
        return self.send(json.dumps(body).encode(), headers=headers)

    def call(self, tool: str, /, **arguments: Any) -> Reply:
        """Call one tool."""
        return self.rpc("tools/call", {"name": tool, "arguments": arguments})


def modern_params(**params: Any) -> dict[str, Any]:
    """Return the parameters of a request that needs no session."""
    meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    return {**params, "_meta": meta}


def modern_headers(method: str, name: str | None = None) -> dict[str, str]:
    """Return the headers that have to say the same as the body."""
    return {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **({"Mcp-Name": name} if name else {})}


def connected(running: Running) -> socket.socket:
    """Return a raw connection."""
    return socket.create_connection(running.address, timeout=DEADLINE)


def looking(project: Project, look: Callable[[Reader], Found]) -> Found:
    """Look into a project's journal."""
    with project.journal.read() as reader:
        return look(reader)
