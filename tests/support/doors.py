"""A Guardian as a process of its own, and clients that speak to it over HTTP or a raw socket."""

from __future__ import annotations

import http.client
import json
import socket
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from awr.guardian.store import Store
from awr.guardian.verification import verify
from tests.support.acs import SECRET, Agent
from tests.support.service import Running, listening

__all__ = [
    "AWR",
    "Answer",
    "Client",
    "Door",
    "agent_of",
    "answers_on",
    "chained",
    "guarding",
    "locked",
    "post",
    "secret_file",
]

AWR = (sys.executable, "-m", "awr")

#: A process of the same program, which a test may change before it begins.
CHANGED = "\nimport sys\nfrom awr.surfaces.cli.app import run\nsys.exit(run(sys.argv[1:]))\n"


def secret_file(folder: Path, secret: bytes = SECRET, *, name: str = "acs.secret") -> Path:
    """Make a secret file that is safe to use."""
    path = folder / name
    path.touch(mode=0o600)
    path.write_bytes(secret + b"\n")
    return path


class Answer(msgspec.Struct, frozen=True):
    """One HTTP answer, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the JSON-RPC answer; it is always a 200."""
        assert self.status == 200, self
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)

    def refusal(self) -> tuple[int, str]:
        """Return the code and the reason of a refusal."""
        error = self.json()["error"]
        return error["code"], error["data"]["reason"]


class Client:
    """One connection that is kept open. Close it."""

    def __init__(self, running: Running, *, timeout: float = 30.0) -> None:
        self._http = http.client.HTTPConnection(*running.address, timeout=timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send any request."""
        self._http.request(method, path, body, headers)
        found = self._http.getresponse()
        shown = {name.lower(): value for name, value in found.getheaders()}
        return Answer(found.status, shown, found.read())

    def post(self, body: Any, **headers: str) -> Answer:
        """Send a body to the Guardian."""
        return self.ask("POST", "/acs", body, **headers)

    def send(self, body: bytes) -> bytes:
        """Send a body and return the body of the answer, for an agent."""
        answer = self.post(body)
        assert answer.status == 200, answer
        return answer.body


class Door(msgspec.Struct, frozen=True):
    """A Guardian that listens, and the database that it writes."""

    running: Running
    database: Path

    def client(self, *, timeout: float = 30.0) -> Client:
        """Return one connection."""
        return Client(self.running, timeout=timeout)

    def raw(self) -> socket.socket:
        """Return a raw connection."""
        return socket.create_connection(self.running.address, timeout=30.0)


@contextmanager
def guarding(
    folder: Path,
    *arguments: str | Path,
    database: Path | None = None,
    project: Path | None = None,
    before: str | None = None,
    within: Sequence[str] = (),
) -> Iterator[Door]:
    """Run `awr guardian serve` until the block ends.

    The record lies in `database`, or in the database of a project when one is named. `before` is Python that is run
    in the process first; `within` is a command that runs the rest of its words.
    """
    program = [sys.executable, "-c", before + CHANGED] if before is not None else [*AWR]
    words = ["guardian", "serve", "--listen", "127.0.0.1:0", *map(str, arguments)]
    if project is not None:
        database = project / ".awr" / "state.db"
        words = ["--project", str(project), *words]
    else:
        database = database or folder / "acs.db"
        words += ["--database", str(database)]
    if not {"--secret-file", "--secret-env"} & set(words):
        words += ["--secret-file", str(secret_file(folder))]
    with listening([*within, *program, *words], folder, says="AWR Guardian") as running:
        assert running.url.endswith("/acs")
        yield Door(running, database)


def agent_of(client: Client, **parts: Any) -> Agent:
    """Return an agent that speaks over a connection."""
    return Agent(client.send, **parts)


def post(body: bytes, *, more: str = "") -> bytes:
    """Return the bytes of a request."""
    head = f"POST /acs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def answers_on(connection: socket.socket, *, number: int | None = None) -> list[Answer]:
    """Read answers from a raw connection: so many, or all until it is closed."""
    found: list[Answer] = []
    stream = connection.makefile("rb")
    while number is None or len(found) < number:
        line = stream.readline()
        if not line:
            break
        headers = {}
        while (text := stream.readline().decode().strip()) != "":
            name, _, value = text.partition(":")
            headers[name.lower()] = value.strip()
        body = stream.read(int(headers["content-length"])) if "content-length" in headers else stream.read()
        found.append(Answer(int(line.split()[1]), headers, body))
    return found


@contextmanager
def locked(database: Path) -> Iterator[sqlite3.Connection]:
    """Hold a database as another writer does, until the block ends or its transaction does."""
    writer = sqlite3.connect(database, isolation_level=None)
    try:
        writer.execute("BEGIN IMMEDIATE")
        yield writer
    finally:
        writer.close()


def chained(database: Path, session_id: str) -> dict[str, str]:
    """Return a session's step ids with the heads after them, once the chain is found whole."""
    store = Store.open(database, now=0, create=False)
    try:
        session = store.session(session_id)
        if session is None:
            return {}
        assert verify(store, session).broken is None
        return {row["step_id"].hex(): row["link"].hex() for row in store.entries(session)}
    finally:
        store.close()
