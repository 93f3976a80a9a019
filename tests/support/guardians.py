"""Guardians to ask: a real one in a process of its own, and one that answers whatever a test wants.

`python -m tests.support.guardians http|stdio DATABASE` is the real one: it prints its address as its first line, or
speaks in frames, and denies every call of the tool `Forbidden`.
"""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from awr.guardian.guardian import Guardian
from awr.guardian.signature import Keys, sign
from awr.guardian.store import Store
from awr.guardian.verdict import Step, Verdict

__all__ = ["METHODS", "ROOT", "SECRET", "Script", "allow", "door", "hello", "http", "process", "signed"]

ROOT = Path(__file__).parents[2]
SECRET = b"a secret of the test, long enough"
METHODS = (
    "steps/sessionStart",
    "steps/userMessage",
    "steps/toolCallRequest",
    "steps/postCompact",
    "steps/sessionEnd",
    "protocols/MCP/tools/call",
)

#: Answers one request on its connection. What it raises because the client has gone is no failure.
Script = Callable[[socket.socket, dict[str, Any]], None]


def signed(request: dict[str, Any], answer: dict[str, Any], *, key_id: str = "default") -> dict[str, Any]:
    """Return an answer as the Guardian of the request's session would sign it, whatever signature it has."""
    place = "result" if "result" in answer else "error"
    answer = {**answer, place: {name: value for name, value in answer[place].items() if name != "signature"}}
    session_id = request["params"]["metadata"]["session_id"]
    return sign(answer, place=place, keys=Keys({key_id: SECRET}), key_id=key_id, session_id=session_id)


def hello(request: dict[str, Any], **members: Any) -> dict[str, Any]:
    """Return a signed ServerHello that accepts everything."""
    offered = request["params"]["payload"]
    result = {
        "negotiated_version": "0.1.0",
        "methods_evaluated": offered["methods_implemented"],
        "selected_transport": offered["transports_supported"][0],
        "timeout_config": {"default_ms": 5_000},
        **members,
    }
    return signed(request, {"jsonrpc": "2.0", "id": request["id"], "result": result})


def allow(request: dict[str, Any], **members: Any) -> dict[str, Any]:
    """Return a signed decision: to allow, unless the members say otherwise. None leaves a member out."""
    result = {
        "type": "final",
        "acs_version": "0.1.0",
        "request_id": request["params"]["request_id"],
        "decision": "allow",
        **members,
    }
    result = {name: value for name, value in result.items() if value is not None}
    return signed(request, {"jsonrpc": "2.0", "id": request["id"], "result": result})


def http(body: bytes | dict[str, Any], *, status: str = "200 OK", headers: str = "") -> bytes:
    """Return a whole answer over HTTP."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(data)}\r\n\r\n".encode() + data


@contextmanager
def door(
    script: Script, *, greeting: Script | None = None, tls: ssl.SSLContext | None = None, **agreed: Any
) -> Iterator[str]:
    """Yield the address of a Guardian that takes every handshake and answers every step by the script.

    With a `greeting` it answers the handshake by that one instead.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    conversations: list[threading.Thread] = []
    open_connections: list[socket.socket] = []

    def converse(plain: socket.socket) -> None:
        # The client may have what it wants, or may have given up.
        with plain, suppress(OSError), tls.wrap_socket(plain, server_side=True) if tls else plain as connection:
            request = _request(connection)
            if request["method"] == "handshake/hello" and greeting is not None:
                greeting(connection, request)
            elif request["method"] == "handshake/hello":
                connection.sendall(http(hello(request, **agreed)))
            else:
                script(connection, request)

    def listen() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                open_connections.append(connection)
                conversations.append(threading.Thread(target=converse, args=(connection,)))
                conversations[-1].start()

    listening = threading.Thread(target=listen)
    listening.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{listener.getsockname()[1]}/acs"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        listening.join()
        for connection in open_connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for conversation in conversations:
            conversation.join()


def _request(connection: socket.socket) -> dict[str, Any]:
    with connection.makefile("rb") as reader:
        length = 0
        while line := reader.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        found: dict[str, Any] = json.loads(reader.read(length))
        return found


@contextmanager
def process(database: Path) -> Iterator[str]:
    """Yield the address of a real Guardian in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.guardians", "http", str(database)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            assert running.stdout is not None
            yield running.stdout.readline().strip()
        finally:
            running.terminate()


class Forbids:
    """Denies one tool."""

    name = "forbids"
    requires_provenance = False

    def decide(self, step: Step) -> Verdict:
        """Deny a call of the tool Forbidden."""
        tool = getattr(step.payload, "tool", None)
        if getattr(tool, "name", None) == "Forbidden":
            return Verdict(decision="deny", reasoning="the tool is forbidden", reason_codes=("tool_forbidden",))
        return Verdict(decision="allow")


def main(way: str, database: str) -> None:
    """Answer until the process is ended or its input closed."""
    guardian = Guardian(
        Store.open(Path(database), now=0, create=True),
        keys=Keys({"default": SECRET}),
        transports=("http",) if way == "http" else ("stdio",),
        policy=Forbids(),
    )
    if way == "http":
        serve(guardian)
    while header := sys.stdin.buffer.readline():
        sys.stdin.buffer.readline()
        body = guardian.answer(sys.stdin.buffer.read(int(header.split(b":")[1])))
        sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        sys.stdout.buffer.flush()


def serve(guardian: Guardian) -> None:
    """Answer over HTTP for ever."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = guardian.answer(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}/acs", flush=True)  # noqa: T201 - the test reads it
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
