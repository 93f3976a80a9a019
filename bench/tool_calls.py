"""What a tool call costs over stdio and over HTTP, against the same operation called in this process.

Every client has a project of its own, so that what is measured is the transport and the server, and not writers that
wait for one another's revision. On stdio every client has a server process of its own, as agents do; over HTTP all
share one. The clients are raw: they send prepared bytes and read an answer. They share the cores with the servers, so
the figures with more clients than cores say how the service behaves when it is full, not what a larger machine does.
"""

from __future__ import annotations

import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from awr.operations.init import InitRequest, initialize
from awr.operations.selection import LOCAL_CLIENT
from awr.project import Project
from awr.surfaces.mcp.calls import call_tool
from awr.surfaces.mcp.catalogue import TOOLS
from awr.surfaces.mcp.ownership import Caller
from bench.measure import paired, print_figures, process_ms

CLIENTS = (1, 4, 16)
SECONDS = 1.5
TOKEN = "bench-" + "t0ken" * 8
PROGRAM = [sys.executable, "-m", "awr.surfaces.mcp.main"]
_REVISION = re.compile(rb'"project_revision": ?(\d+)')

READ, WRITE = "awr_project_status", "awr_event_append"


class Cell(msgspec.Struct, frozen=True):
    """One measurement: how many calls, and each one's milliseconds."""

    seconds: float
    times: list[float]

    @property
    def rate(self) -> float:
        """Return calls a second."""
        return len(self.times) / self.seconds

    def percentile(self, share: float) -> float:
        """Return what that share of the calls did not exceed."""
        ordered = sorted(self.times)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


Send = Callable[[dict[str, Any]], bytes]


def arguments(tool: str, revision: int, number: int) -> dict[str, Any]:
    """Return the arguments of one more call."""
    if tool == READ:
        return {}
    note = {"event_type": "note.added", "summary": "A note", "expected_revision": revision}
    return {**note, "request_id": f"{time.perf_counter_ns()}-{number}"}


def drive(send: Send, tool: str, *, until: Callable[[], bool]) -> list[float]:
    """Call one tool again and again; each write states the revision that the answer before it gave."""
    times: list[float] = []
    revision = _revision(send({"name": READ, "arguments": {}}))
    number = 0
    while not until():
        number += 1
        body = {"name": tool, "arguments": arguments(tool, revision, number)}
        start = time.perf_counter()
        answer = send(body)
        times.append((time.perf_counter() - start) * 1000)
        revision = _revision(answer)
    return times


def _revision(answer: bytes) -> int:
    """Return the newest revision that an answer names. A refusal would not be what is measured."""
    assert b'"isError":false' in answer.replace(b" ", b""), answer[:500]
    return max(int(one) for one in _REVISION.findall(answer))


def measure(sends: list[Send], tool: str) -> Cell:
    """Let every client call for a while at the same time."""
    found: list[list[float]] = [[] for _ in sends]
    ready = threading.Barrier(len(sends) + 1)
    ends = 0.0

    def work(place: int) -> None:
        sends[place]({"name": READ, "arguments": {}})
        ready.wait()
        found[place] = drive(sends[place], tool, until=lambda: time.perf_counter() >= ends)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(sends))]
    for thread in threads:
        thread.start()
    ends = time.perf_counter() + 3600
    ready.wait()
    start = time.perf_counter()
    ends = start + SECONDS
    for thread in threads:
        thread.join()
    return Cell(time.perf_counter() - start, [one for times in found for one in times])


def in_process(root: Path) -> Send:
    """Return a client without any transport: the tool's own code, called here."""
    caller = Caller(client=LOCAL_CLIENT, authenticated=False)

    def send(body: dict[str, Any]) -> bytes:
        answer = call_tool(lambda: Project.open(root), TOOLS[body["name"]], body["arguments"], caller=caller)
        return msgspec.json.encode({"isError": answer.is_error, "body": answer.body()})

    return send


@contextmanager
def stdio(root: Path) -> Iterator[Send]:
    """Start a server process for one project and return its client."""
    process = subprocess.Popen([*PROGRAM, "--project", str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    reading, writing = process.stdout, process.stdin

    def exchange(method: str, params: dict[str, Any]) -> bytes:
        writing.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
        writing.flush()
        return reading.readline()

    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    exchange("initialize", client)
    writing.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    try:
        yield lambda body: exchange("tools/call", body)
    finally:
        writing.close()
        process.wait()
        reading.close()


@contextmanager
def service(roots: list[Path], folder: Path) -> Iterator[str]:
    """Start the shared service for all projects and return where it listens."""
    lines = ["version = 1"]
    for number, root in enumerate(roots):
        with Project.open(root).journal.read() as reader:
            identity = reader.project_id
        lines += ["[[projects]]", f'key = "p{number}"', f'root = "{root}"', f'project_id = "{identity}"']
    grants = json.dumps([f"p{number}" for number in range(len(roots))])
    lines += ["[[clients]]", 'id = "bench"', 'token_env = "BENCH_TOKEN"', f"write = {grants}"]
    registry = folder / "service.toml"
    registry.write_text("\n".join(lines))
    process = subprocess.Popen(
        [*PROGRAM, "--registry", str(registry), "--listen", "127.0.0.1:0"],
        stderr=subprocess.PIPE,
        env={**os.environ, "BENCH_TOKEN": TOKEN},
    )
    assert process.stderr is not None
    errors = process.stderr
    first = errors.readline().decode().split()
    drain = threading.Thread(target=lambda: all(iter(errors.readline, b"")), daemon=True)
    drain.start()
    try:
        yield first[-1].removeprefix("http://").removesuffix("/mcp")
    finally:
        process.terminate()
        process.wait()
        drain.join()
        errors.close()


def http(address: str, project: str, stack: ExitStack) -> Send:
    """Return one client of the service, with a connection that is kept open."""
    host, _, port = address.rpartition(":")
    connection = stack.enter_context(socket.create_connection((host, int(port))))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream = stack.enter_context(connection.makefile("rb"))
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
    )

    def send(body: dict[str, Any]) -> bytes:
        params = {**body, "arguments": {**body["arguments"], "project": project}}
        data = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        length = 0
        while (line := stream.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return stream.read(length)

    return send


def starting(root: Path) -> float:
    """Return the milliseconds from starting a server until it has answered the handshake and ended."""
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}).encode() + b"\n"
    start = time.perf_counter()
    done = subprocess.run([*PROGRAM, "--project", str(root)], input=line, capture_output=True, check=True)
    assert b'"serverInfo"' in done.stdout, done
    return (time.perf_counter() - start) * 1000


def main() -> None:
    """Print the cost of starting a server, and one table of calls."""
    columns = f"{'transport':<11} {'call':<6} {'clients':>7} {'calls/s':>9} {'p50 ms':>8} {'p99 ms':>8}"
    with tempfile.TemporaryDirectory(prefix="awr-bench-") as name:
        folder = Path(name)
        roots = [folder / f"p{number}" for number in range(max(CLIENTS))]
        for root in roots:
            root.mkdir()
            initialize(root, InitRequest(goal="Ship it", accept=True))
        sdk = [sys.executable, "-c", "import mcp.server.lowlevel, mcp.server.stdio"]
        measured, baseline, ratio = paired(lambda: starting(roots[0]), lambda: process_ms(sdk), runs=7)
        label = "awr-mcp, start to end"
        print_figures(label, unit="ms", measured=measured, baseline=baseline, ratio=ratio, budget="near 1.00")
        print("(its baseline is a process that only imports the SDK's server)\n", flush=True)
        print(f"{columns} {'x in process':>13}")
        base = {tool: measure([in_process(roots[0])], tool) for tool in (READ, WRITE)}
        for tool, cell in base.items():
            _row("in process", tool, 1, cell, base)
        with ExitStack() as stack:
            clients = [stack.enter_context(stdio(root)) for root in roots]
            _rows("stdio", clients, base)
        with ExitStack() as stack:
            address = stack.enter_context(service(roots, folder))
            _rows("http", [http(address, f"p{number}", stack) for number in range(len(roots))], base)
    print("x in process: the median against the same call in process")
    print("in process: the tool's own code on one thread; stdio: a server process a client; http: one server for all")


def _rows(transport: str, clients: list[Send], base: dict[str, Cell]) -> None:
    for tool in (READ, WRITE):
        for number in CLIENTS:
            _row(transport, tool, number, measure(clients[:number], tool), base)


def _row(transport: str, tool: str, clients: int, cell: Cell, base: dict[str, Cell]) -> None:
    kind = "read" if tool == READ else "write"
    times = statistics.median(cell.times) / statistics.median(base[tool].times)
    print(
        f"{transport:<11} {kind:<6} {clients:>7} {cell.rate:>9.0f} {statistics.median(cell.times):>8.2f} "
        f"{cell.percentile(0.99):>8.2f} {times:>12.1f}x",
        flush=True,
    )


if __name__ == "__main__":
    main()
